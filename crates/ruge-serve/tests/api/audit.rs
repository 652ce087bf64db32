//! What went wrong once, or could: under load, at limits, between two steps.

use axum::http::StatusCode;
use ruge::truth::feedback;
use ruge::{Dataset, Engine, ModelFile, ModelName, OpenOptions, ReadOptions, Spec, train};
use ruge_kg::{Control, Names};
use ruge_serve::{App, Guard, Settings};
use serde_json::{Value, json};

use crate::common::{APP, ENGINE, ask, json as send, page, read};

fn small(data: Dataset) -> Engine {
    let mut spec = Spec::paper(ModelName::ComplEx, "none").unwrap();
    (spec.model.dimension, spec.schedule.epochs) = (8, 2);
    train(&spec, &data, Vec::new(), &Control::default()).unwrap().engine(data).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_model_answers_many_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.safetensors");
    ModelFile::write(&model, &ENGINE.contents().unwrap()).unwrap();
    let settings = Settings { threads: 2, queue: 1000, suggests: false, ..Settings::default() };
    let heads: Vec<String> = ENGINE.data().names().entities.iter().take(40).map(|(_, name)| name.into()).collect();
    for _ in 0..3 {
        let app = App::open(&model, &OpenOptions::default(), &settings).unwrap();
        let mut asked = tokio::task::JoinSet::new();
        for (at, head) in heads.iter().cloned().enumerate() {
            for path in ["/api/v1/predict", "/api/v1/explain"] {
                let app = app.clone();
                let mut body = json!({"head": head, "relation": "located_in"});
                match path.ends_with("explain") {
                    true => body["tail"] = "Belgium".into(),
                    // Some alone, some together.
                    false => body["top"] = (if at % 2 == 0 { 5 } else { 500 }).into(),
                }
                asked.spawn(async move { send(&app, "POST", path, &body).await.0 });
            }
            if at == 20 {
                assert_eq!(send(&app, "POST", "/api/v1/reload", &json!({})).await.0, StatusCode::OK);
            }
        }
        assert!(asked.join_all().await.iter().all(|status| *status == StatusCode::OK));
    }
}

#[tokio::test]
async fn a_batch_waits_for_its_turn() {
    let settings = Settings { threads: 1, queue: 1, suggests: false, ..Settings::default() };
    let app = App::new(ENGINE.clone(), "test", &settings).unwrap();
    let lines = "Brussels\tlocated_in\t?\n\nnobody knows\tlocated_in\t?\n".repeat(200);
    let kind = [("content-type", "application/x-ndjson")];
    let one = || ask(&app, "POST", "/api/v1/predict/batch?top=2", &kind, &lines);
    let (a, b, c, d) = tokio::join!(one(), one(), one(), one());
    for (_, text) in [a, b, c, d] {
        let told: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(told.len(), 400);
        assert_eq!(told.iter().filter(|line| line["answers"].is_array()).count(), 200);
        assert!(told.iter().all(|line| line["error"].as_str().is_none_or(|error| error.contains("nobody knows"))));
    }
    // Without a queue nothing is answered, but every line is.
    let app = App::new(ENGINE.clone(), "test", &Settings { queue: 0, suggests: false, ..Settings::default() }).unwrap();
    let (_, text) = ask(&app, "POST", "/api/v1/predict/batch", &kind, "Brussels\tlocated_in\t?\n \n{\n").await;
    let lines: Vec<u64> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [1, 3], "{text}");
}

#[tokio::test]
async fn decisions_count_whatever_fails_beside_them() {
    let app = App::new(ENGINE.clone(), "test", &Settings { suggests: false, ..Settings::default() }).unwrap();
    let names: Vec<String> = ENGINE.data().names().entities.iter().take(6).map(|(_, name)| name.into()).collect();
    for (at, name) in names.iter().enumerate() {
        let good = json!({"facts": [{"head": format!("New {at}"), "relation": "located_in", "tail": "Belgium"}]});
        let decision = json!({"head": name, "relation": "located_in", "tail": "Flanders", "decision": "reject"});
        let bad = json!({"facts": [{"head": "x", "relation": "no such relation", "tail": "y"}]});
        let (first, second, third) = tokio::join!(
            send(&app, "POST", "/api/v1/facts", &good),
            send(&app, "PUT", "/api/v1/suggestions/decision", &decision),
            send(&app, "POST", "/api/v1/facts", &bad),
        );
        assert_eq!(
            [first.0, second.0, third.0],
            [StatusCode::OK, StatusCode::OK, StatusCode::UNPROCESSABLE_ENTITY],
            "{first:?} {second:?} {third:?}"
        );
        app.settled().await;
        assert_eq!(read(&app, "/api/v1/model").await["judged"], at + 1);
    }
}

#[tokio::test]
async fn places_beyond_every_list_are_refused_or_empty() {
    for most in ["18446744073709551615", "9223372036854775807", "1844674407370955161", "4294967295"] {
        for path in ["/rules?cursor=", "/relations?cursor=", "/facts?cursor=", "/review?page="] {
            let (response, text) = ask(&APP, "GET", &format!("{path}{most}"), &[], "").await;
            let status = response.status();
            assert!(status == StatusCode::OK || status == StatusCode::UNPROCESSABLE_ENTITY, "{path}{most}: {text}");
        }
    }
    for path in ["facts", "rules", "relations", "suggestions"] {
        let (response, _) = ask(&APP, "GET", &format!("/api/v1/{path}?limit=0"), &[], "").await;
        assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY, "{path}");
        let (response, _) = ask(&APP, "GET", &format!("/api/v1/{path}?cursor=test-{}", "f".repeat(32)), &[], "").await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn what_is_kept_is_short() {
    let app = App::new(ENGINE.clone(), "test", &Settings { suggests: false, ..Settings::default() }).unwrap();
    let fact = json!({"head": "New Ghent", "relation": "located_in", "tail": "Belgium"});
    for (method, path, mut body) in [
        ("POST", "/api/v1/facts", json!({"facts": [fact]})),
        (
            "PUT",
            "/api/v1/suggestions/decision",
            json!({"head": "Brussels", "relation": "located_in", "tail": "Flanders", "decision": "skip"}),
        ),
    ] {
        body["reviewer"] = "x".repeat(100_000).into();
        let (status, told) = send(&app, method, path, &body).await;
        assert_eq!((status, &told["limit"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!(200)), "{told}");
    }
}

#[tokio::test]
async fn a_tag_is_that_of_one_answer() {
    let (response, _) = ask(&APP, "GET", "/api/v1/relation?name=located_in", &[], "").await;
    let tag = response.headers()["etag"].to_str().unwrap().to_string();
    let had = [("if-none-match", tag.as_str())];
    let status = |path: &'static str| async move { ask(&APP, "GET", path, &had, "").await.0.status() };
    assert_eq!(status("/api/v1/relation?name=located_in").await, StatusCode::NOT_MODIFIED);
    assert_eq!(status("/api/v1/relation?name=nobody").await, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(status("/api/v1/relation?nome=located_in").await, StatusCode::BAD_REQUEST);
    assert_eq!(status("/api/v1/predict?head=nobody&relation=located_in").await, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_drawing_keeps_its_style_when_it_is_opened() {
    let path = "/api/v1/explain.svg?head=Brussels&relation=located_in&tail=Flanders";
    let (response, text) = ask(&APP, "GET", path, &[], "").await;
    let policy = response.headers()["content-security-policy"].to_str().unwrap();
    assert!(text.contains("<style") && policy.contains("style-src 'unsafe-inline'"), "{policy}");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("script-src"), "{policy}");
}

#[tokio::test]
async fn a_token_of_any_characters_fits_a_cookie() {
    let token = "semi;colon, \"quotes\" + per%20cent ü 0123456789";
    let settings = Settings { guard: Guard::new(&[], Some(token)), suggests: false, ..Settings::default() };
    let app = App::new(ENGINE.clone(), "test", &settings).unwrap();
    let form = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];
    let body: String = form_urlencoded::Serializer::new(String::new()).append_pair("token", token).finish();
    let (response, _) = ask(&app, "POST", "/login", &form, &body).await;
    let cookie = response.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_string();
    let (response, _) = ask(&app, "GET", "/model", &[("cookie", &cookie)], "").await;
    assert_eq!(response.status(), StatusCode::OK, "{cookie}");
    // Whoever has no token sends little.
    let (response, _) = ask(&app, "POST", "/login", &form, &"x".repeat(5000)).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn odd_names_come_back_from_the_export() {
    let odd = ["a\tb", "a\\tb", "#remark", "\\#x", "D:\\temp", "line\nend\r", "\u{feff}mark", "plain"];
    let mut names = Names::default();
    let mut triples = Vec::new();
    for (at, name) in odd.iter().enumerate() {
        triples.push(names.triple(name, "r", odd[(at + 1) % odd.len()]));
        triples.push(names.triple(name, "#s\t", odd[(at + 2) % odd.len()]));
    }
    let engine = small(Dataset::new(names, triples, Vec::new(), Vec::new()));
    let app = App::new(engine.clone(), "odd", &Settings { suggests: false, ..Settings::default() }).unwrap();
    let mut expected = std::collections::BTreeSet::new();
    for (at, head) in odd.iter().enumerate() {
        let (relation, tail) = (["r", "#s\t"][at % 2], odd[(at + 5) % odd.len()]);
        let fact = json!({"head": head, "relation": relation, "tail": tail, "decision": "accept"});
        assert_eq!(send(&app, "PUT", "/api/v1/suggestions/decision", &fact).await.0, StatusCode::OK);
        expected.insert([*head, relation, tail].map(str::to_string));
    }
    let (_, tsv) = ask(&app, "GET", "/api/v1/decisions.tsv", &[], "").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("decisions.tsv");
    std::fs::write(&file, &tsv).unwrap();
    let read = feedback::read(&file, &engine).unwrap();
    let found = read.iter().map(|it| engine.data().show(it.triple).map(str::to_string)).collect();
    assert_eq!(expected, found, "{tsv}");
    // What people write themselves is taken as it stands, where only that is a name.
    std::fs::write(&file, "D:\\temp\tr\tplain\ttrue\n").unwrap();
    assert_eq!(feedback::read(&file, &engine).unwrap().len(), 1);
}

#[tokio::test]
async fn a_label_of_several_is_asked_back() {
    let folder = tempfile::tempdir().unwrap();
    let facts: String = (0..20).map(|at| format!("Q{at}\tr\tQ{}\n", (at + 3) % 20)).collect();
    std::fs::write(folder.path().join("graph.tsv"), facts).unwrap();
    std::fs::write(folder.path().join("names.tsv"), "name\tlabel\nQ1\tParis\nQ2\tParis\nQ3\tGhent\n").unwrap();
    let options = ReadOptions { labels: vec![folder.path().join("names.tsv")], ..ReadOptions::default() };
    let (data, _) = Dataset::load(&folder.path().join("graph.tsv"), &options).unwrap();
    let app = App::new(small(data), "labels", &Settings { suggests: false, ..Settings::default() }).unwrap();
    let facts = |head: &str| json!({"facts": [{"head": head, "relation": "r", "tail": "Ghent"}]});
    let (status, told) = send(&app, "POST", "/api/v1/facts", &facts("Paris")).await;
    assert_eq!((status, &told["nearest"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!(["Q1", "Q2"])), "{told}");
    let (status, told) = send(&app, "POST", "/api/v1/facts", &facts("Lyon")).await;
    assert_eq!((status, &told["added"]), (StatusCode::OK, &json!(1)), "{told}");
    assert!(page(&app, "/entity?name=Q3").await.contains("Lyon"));
}

#[tokio::test]
async fn the_queue_is_in_the_order_of_what_it_shows() {
    let app = App::new(ENGINE.clone(), "test", &Settings::default()).unwrap();
    let list = loop {
        let found = read(&app, "/api/v1/suggestions?limit=30").await;
        if found["search"] == "ready" {
            break found["suggestions"].as_array().unwrap().clone();
        }
        tokio::task::yield_now().await;
    };
    for (at, item) in list.iter().take(12).enumerate() {
        let decision = if at % 2 == 0 { "reject" } else { "accept" };
        let body =
            json!({"head": item["head"], "relation": item["relation"], "tail": item["tail"], "decision": decision});
        assert_eq!(send(&app, "PUT", "/api/v1/suggestions/decision", &body).await.0, StatusCode::OK);
    }
    app.settled().await;
    let least = list[20]["truth"].as_f64().unwrap() * 0.8;
    let (mut cursor, mut seen, mut last) = (String::new(), std::collections::BTreeSet::new(), 1.0);
    loop {
        let found = read(&app, &format!("/api/v1/suggestions?limit=7&min_truth={least}{cursor}")).await;
        let some = found["suggestions"].as_array().unwrap();
        let triples: Vec<Value> =
            some.iter().map(|it| json!({"head": it["head"], "relation": it["relation"], "tail": it["tail"]})).collect();
        let (_, scored) = send(&app, "POST", "/api/v1/score", &json!({"triples": triples})).await;
        for (item, scored) in some.iter().zip(scored["triples"].as_array().unwrap()) {
            let truth = item["truth"].as_f64().unwrap();
            assert!(truth <= last && truth >= least, "{item}");
            assert!((truth - scored["truth"].as_f64().unwrap()).abs() < 1e-9, "{item} {scored}");
            assert!(seen.insert(item.to_string()), "twice: {item}");
            last = truth;
        }
        let Some(next) = found["next"].as_str().filter(|_| seen.len() < 60) else { break };
        cursor = format!("&cursor={next}");
    }
    // A list of decisions goes on where it was, whatever is decided meanwhile.
    let first = read(&app, "/api/v1/suggestions?state=judged&limit=5").await;
    let body = json!({"head": "Brussels", "relation": "located_in", "tail": "Flanders", "decision": "accept"});
    assert_eq!(send(&app, "PUT", "/api/v1/suggestions/decision", &body).await.0, StatusCode::OK);
    let next = first["next"].as_str().unwrap();
    let rest = read(&app, &format!("/api/v1/suggestions?state=judged&limit=50&cursor={next}")).await;
    let rest = rest["suggestions"].as_array().unwrap();
    assert!(first["suggestions"].as_array().unwrap().iter().all(|item| !rest.contains(item)));
    assert!(rest.len() >= 7, "{}", rest.len());
}

#[tokio::test]
async fn figures_and_report_of_a_run_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.safetensors");
    ModelFile::write(&model, &ENGINE.contents().unwrap()).unwrap();
    let settings = Settings { suggests: false, ..Settings::default() };
    let app = App::open(&model, &OpenOptions::default(), &settings).unwrap();
    assert_eq!(ask(&app, "GET", "/report.html", &[], "").await.0.status(), StatusCode::NOT_FOUND);
    assert!(read(&app, "/api/v1/relation?name=located_in").await["measured"].is_null());
    drop(app);
    let measured = json!({"queries": 120, "mrr": 0.625, "hits": {"1": 0.5, "3": 0.6, "10": 0.75}});
    let evaluation =
        json!({"split": "test", "guided": {"filtered": measured, "by_relation": {"located_in": measured}}});
    std::fs::write(folder.path().join("evaluation.json"), evaluation.to_string()).unwrap();
    std::fs::write(folder.path().join("report.html"), "<!doctype html><p>as it was").unwrap();
    let app = App::open(&model, &OpenOptions::default(), &settings).unwrap();
    let (response, text) = ask(&app, "GET", "/report.html", &[], "").await;
    assert_eq!((response.status(), text.as_str()), (StatusCode::OK, "<!doctype html><p>as it was"));
    assert!(response.headers()["content-security-policy"].to_str().unwrap().contains("sandbox"));
    assert!(page(&app, "/model").await.contains("href=\"report.html\""));
    let relation = read(&app, "/api/v1/relation?name=located_in").await;
    assert_eq!(relation["measured"], json!({"queries": 120, "mrr": 0.625, "hits_at_1": 0.5, "hits_at_10": 0.75}));
    assert!(page(&app, "/relation?name=located_in").await.contains("first in 50 of 100"));
    let capital = read(&app, "/api/v1/relation?name=has_capital").await;
    let is_inverse = |it: &Value| it["relation"] == "capital_of" && it["reversed"] == true;
    assert!(capital["patterns"].as_array().unwrap().iter().any(is_inverse), "{capital}");
}

#[tokio::test]
async fn null_is_nobodys_origin() {
    let guard = Guard::new(&[], None).shared(&["null".into(), "*".into()]);
    let app = App::new(ENGINE.clone(), "test", &Settings { guard, suggests: false, ..Settings::default() }).unwrap();
    let (response, _) = ask(&app, "GET", "/api/v1/model", &[("origin", "null")], "").await;
    assert!(!response.headers().contains_key("access-control-allow-origin"));
}

/// Whether a value is as a schema says, as far as schemas of ours go.
fn fits(value: &Value, schema: &Value, at: &str) {
    if let Some(kind) = schema.get("type") {
        let kinds: Vec<&str> = kind.as_array().map_or_else(
            || kind.as_str().into_iter().collect(),
            |kinds| kinds.iter().filter_map(Value::as_str).collect(),
        );
        let is = |kind: &str| match kind {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            "null" => value.is_null(),
            other => panic!("{other}"),
        };
        assert!(kinds.iter().any(|kind| is(kind)), "{at}: {value} is no {kinds:?}");
    }
    if let Some(choices) = schema["enum"].as_array() {
        assert!(choices.contains(value), "{at}: {value}");
    }
    let number = value.as_f64().unwrap_or(0.0);
    assert!(schema["minimum"].as_f64().is_none_or(|least| number >= least), "{at}: {value}");
    assert!(schema["maximum"].as_f64().is_none_or(|most| number <= most), "{at}: {value}");
    for name in schema["required"].as_array().into_iter().flatten().filter(|_| value.is_object()) {
        assert!(value.get(name.as_str().unwrap()).is_some(), "{at}: {name} is missing in {value}");
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            fits(value, schema, &format!("{at}.{name}"));
        }
    }
    for value in value.as_array().into_iter().flatten().filter(|_| schema["items"].is_object()) {
        fits(value, &schema["items"], &format!("{at}[]"));
    }
}

#[tokio::test]
async fn answers_are_as_described() {
    let document = read(&APP, "/openapi.json").await;
    let schema = |path: &str, method: &str| {
        let content = &document["paths"][path][method]["responses"]["200"]["content"]["application/json"];
        assert!(content["schema"]["properties"].is_object(), "{method} {path} says nothing of its answer");
        content["schema"].clone()
    };
    let fact = "head=Brussels&relation=located_in&tail=Flanders";
    for query in [
        "/readyz",
        "/openapi.json",
        "/api/v1/model",
        "/api/v1/search?q=bru",
        "/api/v1/entity?name=Belgium",
        "/api/v1/facts?limit=20",
        "/api/v1/neighbours?name=Belgium&limit=5",
        "/api/v1/relations",
        "/api/v1/relation?name=located_in",
        "/api/v1/rules?limit=20",
        "/api/v1/rule?id=0",
        "/api/v1/rule/examples?id=0&kind=counterexample",
        "/api/v1/predict?head=Brussels&relation=located_in",
        "/api/v1/predict?head=Brussels&tail=Belgium",
        "/api/v1/similar?name=Brussels",
        "/api/v1/suggestions",
        "/api/v1/suggestions?state=judged",
        "/api/v1/reliability",
        &format!("/api/v1/explain?{fact}"),
    ] {
        let path = query.split('?').next().unwrap();
        fits(&read(&APP, query).await, &schema(path, "get"), query);
    }
    let app = App::new(ENGINE.clone(), "test", &Settings { suggests: false, ..Settings::default() }).unwrap();
    let fact = json!({"head": "Brussels", "relation": "located_in", "tail": "Flanders"});
    let mut decision = fact.clone();
    decision["decision"] = "accept".into();
    let facts = json!({"facts": [{"head": "New Ghent", "relation": "located_in", "tail": "Belgium"}]});
    for (method, path, body) in [
        ("post", "/api/v1/score", json!({"triples": [fact]})),
        ("post", "/api/v1/explain", fact.clone()),
        ("post", "/api/v1/predict", json!({"head": "Brussels", "relation": "located_in"})),
        ("put", "/api/v1/suggestions/decision", decision),
        ("delete", "/api/v1/suggestions/decision", fact.clone()),
        ("post", "/api/v1/facts", facts.clone()),
        ("delete", "/api/v1/facts", facts),
    ] {
        let (status, told) = send(&app, &method.to_uppercase(), path, &body).await;
        assert_eq!(status, StatusCode::OK, "{told}");
        fits(&told, &schema(path, method), path);
    }
}
