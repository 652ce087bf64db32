//! A small model of the demo graph, and requests without a network.

use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt;
use ruge::{Control, Dataset, Engine, ModelName, ReadOptions, Spec, assemble, train};
use ruge_serve::{App, Settings};
use serde_json::Value;
use tower::ServiceExt;

pub static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let (data, _) = Dataset::load("demo".as_ref(), &ReadOptions::default()).unwrap();
    let mut spec = Spec::paper(ModelName::ComplEx, "ruge").unwrap();
    (spec.model.dimension, spec.schedule.epochs) = (16, 5);
    let rules = assemble::rules(&spec, &data, &Control::default()).unwrap();
    train(&spec, &data, rules, &Control::default()).unwrap().engine(data).unwrap()
});
pub static APP: LazyLock<Arc<App>> = LazyLock::new(|| App::new(ENGINE.clone(), "test", &Settings::default()).unwrap());

pub type Headers<'h> = &'h [(&'h str, &'h str)];

pub async fn send(app: &Arc<App>, method: &str, path: &str, headers: Headers<'_>, body: &str) -> (StatusCode, String) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = app.router().oneshot(request.body(Body::from(body.to_string())).unwrap()).await.unwrap();
    let status = response.status();
    for header in
        ["content-security-policy", "x-content-type-options", "referrer-policy", "cross-origin-resource-policy"]
    {
        assert!(response.headers().contains_key(header), "{path}: {header}");
    }
    assert!(!response.headers().contains_key("access-control-allow-origin"));
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

pub async fn get(path: &str) -> Value {
    let (status, text) = send(&APP, "GET", path, &[("host", "localhost:7997")], "").await;
    assert_eq!(status, StatusCode::OK, "{path}: {text}");
    serde_json::from_str(&text).unwrap()
}

pub async fn post(path: &str, body: &Value) -> (StatusCode, Value) {
    let headers = [("host", "127.0.0.1"), ("content-type", "application/json")];
    let (status, text) = send(&APP, "POST", path, &headers, &body.to_string()).await;
    (status, serde_json::from_str(&text).unwrap())
}

/// A request to an app, answered whole.
pub async fn ask(app: &Arc<App>, method: &str, path: &str, headers: Headers<'_>, body: &str) -> (Response<()>, String) {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = app.router().oneshot(request.body(Body::from(body.to_string())).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (Response::from_parts(parts, ()), String::from_utf8(bytes.to_vec()).unwrap())
}

/// JSON to an app.
pub async fn json(app: &Arc<App>, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
    let (response, text) = ask(app, method, path, &[("content-type", "application/json")], &body.to_string()).await;
    (response.status(), serde_json::from_str(&text).unwrap_or_else(|_| panic!("{path}: {text}")))
}

/// JSON of an app.
pub async fn read(app: &Arc<App>, path: &str) -> Value {
    let (response, text) = ask(app, "GET", path, &[], "").await;
    assert_eq!(response.status(), StatusCode::OK, "{path}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// A page of an app.
pub async fn page(app: &Arc<App>, path: &str) -> String {
    let (response, text) = ask(app, "GET", path, &[], "").await;
    assert_eq!(response.status(), StatusCode::OK, "{path}: {text}");
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/html"), "{path}");
    text
}
