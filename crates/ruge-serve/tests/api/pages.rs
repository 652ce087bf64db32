//! Pages: complete, linked, safe with any name.

use axum::http::StatusCode;
use ruge::{Dataset, Engine, ModelName, Spec, train};
use ruge_kg::{Control, Names};
use ruge_serve::{App, Guard, Settings};

use crate::common::{APP, ENGINE, ask, page};

/// Addresses in a page, as a browser would ask for them from the level of all pages.
fn links(html: &str) -> Vec<String> {
    let mut found = Vec::new();
    for attribute in ["href=\"", "src=\"", "action=\""] {
        for piece in html.split(attribute).skip(1) {
            let address =
                piece.split('"').next().unwrap().replace("&amp;", "&").replace("&#39;", "'").replace("&quot;", "\"");
            found.push(address);
        }
    }
    found
}

#[tokio::test]
async fn every_link_of_every_page_leads_somewhere() {
    let mut waiting = vec![
        "./".to_string(),
        "entity?name=Brussels".into(),
        "relation?name=located_in".into(),
        "rule?id=0".into(),
        "fact?head=Brussels&relation=located_in&tail=Flanders".into(),
        "ask?head=Brussels&relation=located_in&new=true".into(),
        "review".into(),
        "search?q=brusels".into(),
        "facts?relation=located_in".into(),
    ];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(address) = waiting.pop() {
        let plain = address.split('#').next().unwrap().to_string();
        if plain.is_empty() || seen.len() > 150 || !seen.insert(plain.clone()) {
            continue;
        }
        assert!(!plain.starts_with('/') && !plain.contains("//"), "not relative: {plain}");
        let path = format!("/{}", plain.trim_start_matches("./"));
        let (response, text) = ask(&APP, "GET", &path, &[], "").await;
        let is_form = path.starts_with("/decide") || path.starts_with("/reviewer");
        // Forms of endpoints ask for values first.
        let is_open = path.starts_with("/api/") && !path.contains('?');
        if is_form {
            assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
        } else if !is_open {
            assert_eq!(response.status(), StatusCode::OK, "{path}: {text}");
        }
        let is_page = response.headers()["content-type"].to_str().unwrap().starts_with("text/html");
        if is_page && response.status() == StatusCode::OK {
            assert!(text.contains("<html lang=\"en\">") && text.matches("<h1").count() == 1, "{path}");
            assert!(!text.contains(" style=") && !text.contains("<style") && !text.contains(" onclick"), "{path}");
            waiting.extend(links(&text));
        }
    }
    assert!(seen.len() > 60, "{}", seen.len());
}

#[tokio::test]
async fn pages_say_what_people_want_to_know() {
    let entity = page(&APP, "/entity?name=Brussels").await;
    for part in ["Known facts", "Probably also", "Neighbourhood", "Similar", "<meter", "<svg"] {
        assert!(entity.contains(part), "{part}");
    }
    let rule = page(&APP, "/rule?id=0").await;
    for part in ["Examples", "Counterexamples", "Where nobody knows"] {
        assert!(rule.contains(part), "{part}");
    }
    let fact = page(&APP, "/fact?head=Brussels&relation=located_in&tail=Flanders").await;
    for part in ["What speaks for it", "What speaks against it", "true: <b>", "Accept"] {
        assert!(fact.contains(part), "{part}");
    }
    assert!(page(&APP, "/ask?head=Brussels&relation=located_in").await.contains("Why?"));
    let (response, text) = ask(&APP, "GET", "/entity?name=Brusels", &[], "").await;
    assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(text.contains("Did you mean") && text.contains("search?q=Brussels"), "{text}");
    let (response, text) = ask(&APP, "GET", "/nothing", &[("accept", "text/html")], "").await;
    assert_eq!((response.status(), text.contains("There is no such page")), (StatusCode::NOT_FOUND, true));
}

#[tokio::test]
async fn names_are_never_markup() {
    let mut names = Names::default();
    let odd = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "javascript:alert(1)",
        "\u{202e}gnp.exe",
        "nul\u{0}\u{1b}[31m",
        "http://example.org/\"onmouseover=\"alert(1)",
        "'; DROP TABLE decision; --",
        "=1+1",
        "</title></main>",
        "a\tb\nc",
    ];
    let long = "x".repeat(10_000);
    let mut triples = Vec::new();
    for (at, name) in odd.iter().copied().chain([long.as_str()]).enumerate() {
        triples.push(names.triple(name, odd[(at + 1) % odd.len()], odd[(at + 3) % odd.len()]));
        triples.push(names.triple(name, "r", odd[(at + 2) % odd.len()]));
    }
    let data = Dataset::new(names, triples, Vec::new(), Vec::new());
    let mut spec = Spec::paper(ModelName::ComplEx, "none").unwrap();
    (spec.model.dimension, spec.schedule.epochs) = (8, 2);
    let engine: Engine = train(&spec, &data, Vec::new(), &Control::default()).unwrap().engine(data).unwrap();
    let app = App::new(engine, "odd", &Settings::default()).unwrap();
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let mut pages = vec!["/".to_string(), "/review".into(), "/relations".into(), "/model".into(), "/facts".into()];
    for name in odd.iter().copied().chain([long.as_str()]) {
        let name = encoded(name);
        pages.push(format!("/entity?name={name}"));
        pages.push(format!("/search?q={name}"));
        pages.push(format!("/ask?head={name}&relation=r"));
        pages.push(format!("/fact?head={name}&relation=r&tail={name}"));
        pages.push(format!("/api/v1/explain.svg?head={name}&relation=r&tail={name}"));
    }
    for name in odd {
        pages.push(format!("/relation?name={}", encoded(name)));
    }
    for path in pages {
        let (response, text) = ask(&app, "GET", &path, &[], "").await;
        let is_unknown = path.contains("x".repeat(20).as_str()) || path.starts_with("/relation?");
        assert!(response.status() == StatusCode::OK || is_unknown, "{path}: {} {text}", response.status());
        assert!(response.status().as_u16() < 500, "{path}");
        assert!(
            !text.contains("<script>") && !text.contains("<img") && !text.contains("\"onmouseover"),
            "{path}: {text}"
        );
        // What a field sends back is the name itself; everything that is read is marked.
        let shown: String = text
            .split("value=\"")
            .enumerate()
            .map(|(at, piece)| if at == 0 { piece } else { piece.split_once('"').map_or("", |(_, rest)| rest) })
            .collect();
        let misleads = shown.contains('\u{202e}') || shown.contains('\u{1b}');
        assert!(!text.contains("href=\"javascript") && !misleads, "{path}: {shown}");
        assert_eq!(text.matches("</title></main>").count(), 0, "{path}");
        assert!(text.len() < 1_000_000, "{path}: {}", text.len());
    }
    // A decision about such a fact is kept under its own names.
    let fact = serde_json::json!({"head": odd[7], "relation": "r", "tail": odd[6], "decision": "reject"});
    assert_eq!(crate::common::json(&app, "PUT", "/api/v1/suggestions/decision", &fact).await.0, StatusCode::OK);
    let (_, tsv) = ask(&app, "GET", "/api/v1/decisions.tsv", &[], "").await;
    assert_eq!(tsv.lines().count(), 1, "{tsv}");
    let (_, tsv) = ask(&app, "GET", "/api/v1/decisions.tsv?excel=true", &[], "").await;
    assert_eq!((tsv.lines().count(), tsv.split('\t').count()), (1, 4), "{tsv}");
}

#[tokio::test]
async fn a_token_is_typed_once() {
    let token = "0123456789abcdef0123456789abcdef";
    let settings = Settings { guard: Guard::new(&[], Some(token)), suggests: false, ..Settings::default() };
    let app = App::new(ENGINE.clone(), "test", &settings).unwrap();
    let (response, text) = ask(&app, "GET", "/entity?name=Brussels", &[], "").await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert!(
        text.contains("type=\"password\"") && text.contains("entity?name=Brussels") && !text.contains("Known facts"),
        "{text}"
    );
    assert_eq!(ask(&app, "GET", "/assets/ruge.css", &[], "").await.0.status(), StatusCode::OK);
    let form = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];
    assert_eq!(ask(&app, "POST", "/login", &form, "token=wrong&to=model").await.0.status(), StatusCode::UNAUTHORIZED);
    let (response, _) = ask(&app, "POST", "/login", &form, &format!("token={token}&to=entity%3Fname%3DBrussels")).await;
    assert_eq!(
        (response.status(), &response.headers()["location"]),
        (StatusCode::SEE_OTHER, &"entity?name=Brussels".parse().unwrap())
    );
    let cookie = response.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = [("cookie", cookie.split(';').next().unwrap())];
    assert_eq!(ask(&app, "GET", "/entity?name=Brussels", &cookie, "").await.0.status(), StatusCode::OK);
    let (response, _) = ask(&app, "POST", "/login", &form, &format!("token={token}&to=//evil.example")).await;
    assert_eq!(response.headers()["location"], "./");
}

#[tokio::test]
async fn a_base_path_an_origin_and_a_frame_are_allowed_where_named() {
    let guard = Guard::new(&[], None).shared(&["https://app.example".into()]);
    let settings = Settings {
        guard,
        base_path: "/kg/".into(),
        frames: vec!["http://localhost:8888".into()],
        suggests: false,
        ..Settings::default()
    };
    let app = App::new(ENGINE.clone(), "test", &settings).unwrap();
    let (response, _) = ask(&app, "GET", "/kg", &[], "").await;
    assert_eq!(response.headers()["location"], "/kg/");
    let (response, text) = ask(&app, "GET", "/kg/entity?name=Brussels", &[], "").await;
    assert_eq!(response.status(), StatusCode::OK);
    assert!(text.contains("href=\"assets/ruge.css\""));
    let policy = response.headers()["content-security-policy"].to_str().unwrap();
    assert!(
        policy.ends_with("frame-ancestors http://localhost:8888") && policy.contains("script-src 'self';"),
        "{policy}"
    );
    assert_eq!(ask(&app, "GET", "/entity?name=Brussels", &[], "").await.0.status(), StatusCode::NOT_FOUND);
    assert_eq!(ask(&app, "GET", "/kgx", &[], "").await.0.status(), StatusCode::NOT_FOUND);
    let origin = [("origin", "https://app.example"), ("sec-fetch-site", "cross-site")];
    let (response, _) = ask(&app, "GET", "/kg/api/v1/model", &origin, "").await;
    assert_eq!(response.headers()["access-control-allow-origin"], "https://app.example");
    assert!(!response.headers().contains_key("access-control-allow-credentials"));
    assert_eq!(ask(&app, "OPTIONS", "/kg/api/v1/score", &origin, "").await.0.status(), StatusCode::NO_CONTENT);
    let headers = [origin[0], origin[1], ("content-type", "application/json")];
    let (response, _) = ask(&app, "POST", "/kg/api/v1/score", &headers, "{\"triples\":[]}").await;
    assert_eq!(response.status(), StatusCode::OK);
    let other = [("origin", "https://evil.example"), ("content-type", "application/json")];
    let (response, _) = ask(&app, "POST", "/kg/api/v1/score", &other, "{\"triples\":[]}").await;
    assert_eq!(
        (response.status(), response.headers().get("access-control-allow-origin")),
        (StatusCode::FORBIDDEN, None)
    );
    assert!(App::new(ENGINE.clone(), "test", &Settings { base_path: "kg".into(), ..Settings::default() }).is_err());
}

#[tokio::test]
async fn a_hub_is_a_small_page() {
    let mut names = Names::default();
    let mut triples: Vec<ruge::Triple> =
        (0..100_000).map(|at| names.triple(&format!("part {at}"), "part of", "the hub")).collect();
    triples.extend((0..50).map(|at| names.triple("the hub", &format!("relation {at}"), &format!("part {at}"))));
    let data = Dataset::new(names, triples, Vec::new(), Vec::new());
    let mut spec = Spec::paper(ModelName::ComplEx, "none").unwrap();
    (spec.model.dimension, spec.schedule.epochs) = (4, 1);
    let engine: Engine = train(&spec, &data, Vec::new(), &Control::default()).unwrap().engine(data).unwrap();
    let app = App::new(engine, "hub", &Settings { suggests: false, ..Settings::default() }).unwrap();
    let hub = page(&app, "/entity?name=the+hub").await;
    assert!(hub.len() < 200_000, "{}", hub.len());
    assert!(hub.contains("40 of 100,050 known facts") && hub.contains("99,988 more"), "{hub}");
    let (_, facts) = ask(&app, "GET", "/api/v1/facts?tail=the%20hub&limit=1000", &[], "").await;
    assert!(facts.contains("\"next\":\"hub-"), "{}", &facts[facts.len() - 100..]);
}
