//! The API on a small model of the demo graph: answers, refusals, limits.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use axum::http::StatusCode;
use ruge::explain::ExplainOptions;
use ruge::predict::{PredictOptions, Question};
use ruge::{Control, Triple};
use ruge_serve::{App, Guard, ServeError, Settings, bind};
use serde_json::{Value, json};

use crate::common::{APP, ENGINE, get, post, send};

#[tokio::test]
async fn answers_are_those_of_the_engine() {
    let (data, names) = (ENGINE.data(), ENGINE.data().names());
    for (at, triple) in data.train().iter().step_by(data.train().len() / 60).enumerate() {
        let [head, relation, tail] = data.show(*triple);
        let (asked, question) = match at % 3 {
            0 => (
                json!({"head": head, "relation": relation}),
                Question::Tail { head: triple.head, relation: triple.relation },
            ),
            1 => (
                json!({"relation": relation, "tail": tail}),
                Question::Head { relation: triple.relation, tail: triple.tail },
            ),
            _ => (json!({"head": head, "tail": tail}), Question::Relation { head: triple.head, tail: triple.tail }),
        };
        let mut body = asked.clone();
        (body["new"], body["top"]) = ((at % 2 == 0).into(), 7.into());
        let options = PredictOptions { new: at % 2 == 0, top: 7, ..PredictOptions::default() };
        let expected = ENGINE.predict(&[question], &options, &Control::default()).unwrap();
        let (status, found) = post("/api/v1/predict", &body).await;
        assert_eq!(status, StatusCode::OK, "{found}");
        assert_eq!(found["answers"].to_string(), json!(expected[0]).to_string());
    }
    let open = Triple { tail: names.entities.id("Flanders").unwrap(), ..data.train()[0] };
    let [head, relation, tail] = data.show(open);
    let (_, mut found) = post("/api/v1/explain", &json!({"head": head, "relation": relation, "tail": tail})).await;
    let mut expected = json!(ENGINE.explain(open, &ExplainOptions::default()).unwrap());
    (found["seconds"], expected["seconds"]) = (Value::Null, Value::Null);
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(found[key].to_string(), value.to_string(), "{key}");
    }
}

#[tokio::test]
async fn names_are_found_despite_errors() {
    for typed in ["Brussels", "brusels", "brus", "BRUSSLES"] {
        let found = get(&format!("/api/v1/search?q={typed}")).await;
        let hits = found["hits"].as_array().unwrap();
        assert!(hits.iter().any(|hit| hit["name"] == "Brussels"), "{typed}: {found}");
    }
    assert_eq!(get("/api/v1/search?q=located&kind=relation").await["hits"][0]["name"], "located_in");
}

#[tokio::test]
async fn the_graph_is_told() {
    let found = get("/api/v1/entity?name=Brussels").await;
    assert!(found["known"].as_array().is_some_and(|known| !known.is_empty()), "{found}");
    let near = get("/api/v1/neighbours?name=Belgium&limit=3").await;
    assert_eq!(near["edges"].as_array().unwrap().len(), 3);
    let (mut path, mut facts) = ("/api/v1/facts?relation=located_in&limit=20".to_string(), 0);
    loop {
        let page = get(&path).await;
        facts += page["facts"].as_array().unwrap().len();
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/facts?relation=located_in&limit=20&cursor={next}");
    }
    let relation = get("/api/v1/relation?name=located_in").await;
    assert_eq!(json!(facts), relation["facts"]);
    assert_eq!(get("/api/v1/similar?name=Brussels&top=3").await["nearest"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn rules_come_with_counterexamples() {
    let rules = get("/api/v1/rules?min_confidence=0.8&limit=5").await;
    let rules = rules["rules"].as_array().unwrap();
    assert!(!rules.is_empty());
    for rule in rules {
        let mut found = 0;
        for kind in ["example", "counterexample", "open"] {
            let told = get(&format!("/api/v1/rule/examples?id={}&kind={kind}&limit=1000", rule["id"])).await;
            for example in told["examples"].as_array().unwrap() {
                assert_eq!(example["truth"] == 1.0, kind == "example", "{example}");
                assert!(!example["premises"].as_array().unwrap().is_empty(), "{example}");
                found += 1;
            }
        }
        assert!(found > 0, "{rule}");
    }
}

#[tokio::test]
async fn a_batch_answers_line_by_line() {
    let headers = [("host", "[::1]:7997"), ("content-type", "application/x-ndjson")];
    let long = "x".repeat(70_000);
    let body = format!(
        "{{\"head\":\"Brussels\",\"relation\":\"located_in\"}}\n\nno question\n{long}\nBelgium\thas_capital\t?"
    );
    let (status, text) = send(&APP, "POST", "/api/v1/predict/batch?top=2", &headers, &body).await;
    assert_eq!(status, StatusCode::OK);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!((&lines[0]["query"], lines[0]["answers"].as_array().unwrap().len()), (&json!(1), 2));
    assert_eq!((&lines[1]["line"], &lines[2]["line"], &lines[3]["query"]), (&json!(3), &json!(4), &json!(5)));
}

#[tokio::test]
async fn only_our_hosts_are_answered() {
    for host in
        ["evil.example", "", "localhost.evil.example", "evil.example:7997", "localhost:7997.evil", "127.0.0.1.nip.io"]
    {
        let (status, _) = send(&APP, "GET", "/healthz", &[("host", host)], "").await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{host:?}");
    }
    assert_eq!(send(&APP, "GET", "/healthz", &[], "").await.0, StatusCode::FORBIDDEN);
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1:7997", "[::1]", "[::1]:7997"] {
        assert_eq!(send(&APP, "GET", "/healthz", &[("host", host)], "").await.0, StatusCode::OK, "{host:?}");
    }
}

#[tokio::test]
async fn other_sites_cannot_post() {
    let body = json!({"triples": []}).to_string();
    let ours = ("host", "localhost:7997");
    let kind = ("content-type", "application/json");
    let of = |headers: Vec<(&'static str, &'static str)>| {
        let body = body.clone();
        async move { send(&APP, "POST", "/api/v1/score", &headers, &body).await.0 }
    };
    assert_eq!(of(vec![ours, kind]).await, StatusCode::OK);
    assert_eq!(of(vec![ours, kind, ("sec-fetch-site", "same-origin")]).await, StatusCode::OK);
    assert_eq!(of(vec![ours, kind, ("sec-fetch-site", "cross-site")]).await, StatusCode::FORBIDDEN);
    assert_eq!(of(vec![ours, kind, ("origin", "http://evil.example")]).await, StatusCode::FORBIDDEN);
    assert_eq!(of(vec![ours, kind, ("origin", "null")]).await, StatusCode::FORBIDDEN);
    assert_eq!(of(vec![ours, ("content-type", "text/plain")]).await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(of(vec![ours, kind, ("content-encoding", "gzip")]).await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn a_token_is_asked_for() {
    let token = "0123456789abcdef0123456789abcdef";
    let settings = Settings { guard: Guard::new(&["kg.example".into()], Some(token)), ..Settings::default() };
    let app = App::new(ENGINE.clone(), "test", &settings).unwrap();
    let host = ("host", "KG.example:443");
    assert_eq!(send(&app, "GET", "/api/v1/model", &[host], "").await.0, StatusCode::UNAUTHORIZED);
    for (name, value, status) in [
        ("authorization", format!("Bearer {token}"), StatusCode::OK),
        ("cookie", format!("a=b; ruge_token={token}"), StatusCode::OK),
        ("authorization", format!("Bearer {token}x"), StatusCode::UNAUTHORIZED),
        ("authorization", "Bearer ".to_string(), StatusCode::UNAUTHORIZED),
    ] {
        assert_eq!(send(&app, "GET", "/healthz", &[host, (name, &value)], "").await.0, status, "{value}");
    }
    let open: SocketAddr = "0.0.0.0:0".parse().unwrap();
    assert!(matches!(bind(open, None), Err(ServeError::Open { .. })));
    assert!(matches!(bind(open, Some("short")), Err(ServeError::ShortToken { length: 5 })));
}

#[tokio::test]
async fn limits_hold_and_problems_help() {
    let (status, problem) = post("/api/v1/predict", &json!({"head": "Brusels", "relation": "located_in"})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(problem["nearest"].as_array().unwrap().contains(&json!("Brussels")), "{problem}");
    let large = json!({"triples": [{"head": "x".repeat(2 << 20)}]});
    assert_eq!(post("/api/v1/score", &large).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(post("/api/v1/predict", &json!({"head": "a", "oops": 1})).await.0, StatusCode::BAD_REQUEST);
    let headers = [("host", "localhost"), ("content-type", "application/json")];
    let deep = format!("{{\"triples\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(send(&APP, "POST", "/api/v1/score", &headers, &deep).await.0, StatusCode::BAD_REQUEST);
    for path in ["/../../etc/passwd", "/%2e%2e/etc/passwd", "/api/v1/..", "/a%00", "/nothing"] {
        assert_eq!(send(&APP, "GET", path, &[("host", "localhost")], "").await.0, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(send(&APP, "DELETE", "/healthz", &headers, "{}").await.0, StatusCode::METHOD_NOT_ALLOWED);
    let full = Settings { queue: 0, ..Settings::default() };
    let app = App::new(ENGINE.clone(), "test", &full).unwrap();
    let (status, text) = send(&app, "GET", "/api/v1/model", &[("host", "localhost")], "").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
}

#[tokio::test]
async fn every_endpoint_is_described() {
    let document = get("/openapi.json").await;
    for path in ["/api/v1/predict", "/api/v1/explain", "/api/v1/rule/examples", "/healthz"] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
    assert_eq!(get("/readyz").await["ready"], true);
    let (_, text) = send(&APP, "GET", "/metrics", &[("host", "localhost")], "").await;
    assert!(text.contains("ruge_responses_total{class=\"2xx\"}"), "{text}");
}

#[test]
fn a_client_without_headers_is_cut_off_and_others_are_served() {
    let socket = bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let address = socket.local_addr().unwrap();
    assert!(matches!(bind(address, None), Err(ServeError::Taken { free: Some(_), .. })));
    std::thread::spawn(move || ruge_serve::serve(&APP, socket));
    let mut slow = TcpStream::connect(address).unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: loc").unwrap();
    let mut other = TcpStream::connect(address).unwrap();
    other.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    other.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("ok\n"), "{text}");
    slow.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
}
