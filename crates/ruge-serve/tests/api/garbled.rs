//! Thousands of requests that no client would send: each is answered, with a status that says what is wrong, and never by a bug.

use axum::http::StatusCode;
use ruge_kg::random::{self, Stream};
use ruge_serve::{App, Settings};
use serde_json::{Value, json};

use crate::common::{ENGINE, ask, read};

/// Numbers that are the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 += 1;
        random::below(random::draw(26, Stream(0x5e27), 0, self.0), bound as u64) as usize
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }
}

const VALUES: &[&str] = &[
    "Brussels",
    "located_in",
    "Belgium",
    "",
    "0",
    "1",
    "-1",
    "18446744073709551615",
    "1e309",
    "NaN",
    "true",
    "null",
    "%00",
    "%FF%FE",
    "%F0%9F%92%A9",
    "test-ffffffffffffffffffffffffffffffff",
    "test-0",
    "-",
    "..",
    "%2e%2e%2f",
    "example",
    "open",
    "judged",
    "confidence",
    "%E2%80%AE",
    "x%0Ay",
    "&",
    "=",
    "+",
    "<script>",
    "'",
    "\"",
    "%",
    "%zz",
    "a,b",
    "entity,relation",
];
const NAMES: &[&str] = &[
    "head",
    "relation",
    "tail",
    "name",
    "q",
    "kind",
    "limit",
    "cursor",
    "top",
    "new",
    "typed",
    "id",
    "sort",
    "state",
    "min_truth",
    "page",
    "more",
    "x",
    "",
    "min_confidence",
    "groundings",
    "side",
    "body",
    "candidates",
];

fn value(chance: &mut Chance, depth: usize) -> Value {
    match chance.below(if depth > 3 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => true.into(),
        2 => (chance.below(2000) as i64 - 1000).into(),
        3 => json!(1e300),
        4 | 5 => chance.one(VALUES).into(),
        6 => (0..chance.below(4)).map(|_| value(chance, depth + 1)).collect(),
        7 => json!({"head": "Brussels", "relation": "located_in", "tail": value(chance, depth + 1)}),
        _ => {
            let mut object = json!({});
            for _ in 0..chance.below(4) {
                object[chance.one(NAMES)] = value(chance, depth + 1);
            }
            object
        }
    }
}

#[tokio::test]
async fn no_request_meets_a_bug() {
    let app = App::new(ENGINE.clone(), "test", &Settings { suggests: false, ..Settings::default() }).unwrap();
    let document = read(&app, "/openapi.json").await;
    let mut paths: Vec<String> = document["paths"].as_object().unwrap().keys().cloned().collect();
    let pages = [
        "",
        "search",
        "entity",
        "facts",
        "fact",
        "ask",
        "relations",
        "relation",
        "rules",
        "rule",
        "review",
        "model",
        "docs",
        "decide",
        "reviewer",
        "login",
    ];
    paths.extend(pages.map(|page| format!("/{page}")));
    let mut chance = Chance(0);
    let mut seen = std::collections::BTreeMap::new();
    for round in 0..2500 {
        let path = paths[chance.below(paths.len())].clone();
        let query: Vec<String> = (0..chance.below(5))
            .map(|_| format!("{}={}", chance.one(NAMES), chance.one(VALUES).replace(['<', '>', '"', '\'', '&'], "%26")))
            .collect();
        let method = chance.one(&["GET", "GET", "GET", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]);
        let kind = chance.one(&[
            "application/json",
            "application/json",
            "application/x-ndjson",
            "application/x-www-form-urlencoded",
            "text/plain",
        ]);
        let mut body = match chance.below(5) {
            0 => query.join("&"),
            _ => {
                let mut object = value(&mut chance, 0);
                // Often with the fields of the endpoint.
                let schema =
                    &document["paths"][&path][method.to_lowercase()]["requestBody"]["content"]["application/json"];
                if let Some(fields) = schema["schema"]["properties"].as_object().filter(|_| round % 2 == 0) {
                    object = json!({});
                    for name in fields.keys() {
                        object[name] = value(&mut chance, 0);
                    }
                }
                object.to_string()
            }
        };
        if chance.below(8) == 0 {
            body.truncate((0..=body.len() / 2).rev().find(|&at| body.is_char_boundary(at)).unwrap_or(0));
        }
        let address = if query.is_empty() { path.clone() } else { format!("{path}?{}", query.join("&")) };
        let headers = [("content-type", kind), ("sec-fetch-site", "same-origin")];
        let (response, text) = ask(&app, method, &address, &headers, &body).await;
        let status = response.status();
        assert!(status.as_u16() < 500, "{method} {address} {body}: {status} {text}");
        if status.is_client_error()
            && response.headers()["content-type"] == "application/problem+json"
            && method != "HEAD"
        {
            let problem: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(problem["status"], status.as_u16(), "{text}");
            assert!(problem["detail"].as_str().is_some_and(|detail| detail.len() < 20_000), "{text}");
        }
        *seen.entry(status.as_u16()).or_insert(0) += 1;
    }
    for status in
        [StatusCode::OK, StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY, StatusCode::METHOD_NOT_ALLOWED]
    {
        assert!(seen.get(&status.as_u16()).is_some_and(|count| *count > 10), "{seen:?}");
    }
    let (_, text) = ask(&app, "GET", "/metrics", &[], "").await;
    assert!(text.contains("\nruge_panics_total 0\n"), "{text}");
}
