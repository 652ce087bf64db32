//! `/openapi.json`, made from the table of endpoints.

use axum::http::Method;
use serde_json::{Map, Value, json};

use crate::decide::{NAME, NOTE};
use crate::schemas;
use crate::table::{ROUTES, Route, Run};

/// The document.
pub fn document(read_only: bool) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES.iter().filter(|route| !(read_only && route.writes)) {
        let entry = paths.entry(route.path).or_insert_with(|| json!({}));
        entry[route.method.as_str().to_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "ruge", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {"schemas": {"Problem": {
            "type": "object", "required": ["status", "title", "detail"],
            "properties": {
                "status": {"type": "integer"}, "title": {"type": "string"}, "detail": {"type": "string"},
                "remedy": {"type": "string"}, "nearest": {"type": "array", "items": {"type": "string"}},
                "limit": {"type": "integer"},
            },
        }}},
    })
}

fn operation(route: &Route) -> Value {
    let problem = json!({
        "description": "What went wrong",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    });
    let kind = match route.run {
        Run::Batch => "application/x-ndjson",
        Run::Metrics | Run::Health => "text/plain",
        _ if route.path.ends_with(".svg") => "image/svg+xml",
        _ if route.path.ends_with(".tsv") => "text/tab-separated-values",
        _ if route.path.ends_with(".nt") => "application/n-triples",
        _ => "application/json",
    };
    let told = match schemas::answer(route.path, route.method.as_str()) {
        Some(schema) => json!({"schema": schema}),
        None => json!({"schema": {"type": "string"}}),
    };
    let mut answers = json!({
        "200": {"description": route.what, "content": {kind: told}},
        "default": problem,
    });
    if route.method == Method::GET && matches!(route.run, Run::Work(_) | Run::Predict) {
        let headers = json!({"ETag": {"schema": {"type": "string"}}});
        answers["200"]["headers"] = headers.clone();
        answers["304"] = json!({"description": "The answer is the one with this tag", "headers": headers});
    }
    let mut operation = json!({"summary": route.what, "responses": answers});
    let is_needed = |name: &&str| name.ends_with('!');
    if route.method == Method::GET || matches!(route.run, Run::Batch) {
        let param = |name: &&str| json!({"name": name.trim_end_matches('!'), "in": "query", "required": is_needed(name), "schema": schema(route, name, true)});
        operation["parameters"] = route.params.iter().map(param).collect();
    }
    if matches!(route.run, Run::Batch) {
        // Lines of any kind: each is answered, a bad one by what is wrong with it.
        let body = json!({"application/x-ndjson": {"schema": {}}});
        operation["requestBody"] = json!({"required": true, "content": body});
    } else if route.method != Method::GET {
        let properties: Map<String, Value> = route
            .params
            .iter()
            .map(|name| (name.trim_end_matches('!').to_string(), schema(route, name, false)))
            .collect();
        let needed: Vec<&str> =
            route.params.iter().filter(|name| is_needed(name)).map(|name| name.trim_end_matches('!')).collect();
        let object =
            json!({"type": "object", "properties": properties, "required": needed, "additionalProperties": false});
        operation["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": object}}});
    }
    operation
}

/// What a parameter may be. The same name may mean another choice elsewhere.
fn schema(route: &Route, name: &str, in_query: bool) -> Value {
    let is_search = route.path.ends_with("/search");
    match name.trim_end_matches('!') {
        "top" => json!({"type": "integer", "minimum": 1, "maximum": 1000}),
        "groundings" | "similar" => json!({"type": "integer", "minimum": 0, "maximum": 100}),
        "limit" if is_search => json!({"type": "integer", "minimum": 1, "maximum": 100}),
        "limit" => json!({"type": "integer", "minimum": 1, "maximum": 1000}),
        "min_support" | "id" => json!({"type": "integer", "minimum": 0}),
        "new" | "typed" | "excel" => json!({"type": "boolean"}),
        "min_confidence" | "min_truth" => json!({"type": "number", "minimum": 0, "maximum": 1}),
        "candidates" => json!({"type": "array", "items": {"type": "string"}}),
        "kind" if is_search => json!({"enum": ["entity", "relation", "entity,relation"]}),
        "kind" => json!({"enum": ["example", "counterexample", "open"]}),
        "side" => json!({"enum": ["tail", "head"]}),
        "sort" => json!({"enum": ["confidence", "support"]}),
        "decision" => json!({"enum": ["accept", "reject", "skip"]}),
        // As the answer before gave it.
        "cursor" => json!({"type": "string", "pattern": "^[0-9a-z.]+-[0-9a-f]{1,32}$"}),
        "note" => json!({"type": ["string", "null"], "maxLength": NOTE}),
        "reviewer" => json!({"type": ["string", "null"], "maxLength": NAME}),
        "state" => json!({"enum": ["open", "accepted", "rejected", "skipped", "judged"]}),
        "triples" | "facts" => {
            let name = json!({"type": "string", "minLength": 1, "pattern": "\\S"});
            json!({"type": "array", "maxItems": if route.path.ends_with("facts") { 1000 } else { 10_000 }, "items": {
                "type": "object", "required": ["head", "relation", "tail"], "additionalProperties": false,
                "properties": {"head": name, "relation": name, "tail": name},
            }})
        }
        _ if in_query || name.ends_with('!') => json!({"type": "string"}),
        _ => json!({"type": ["string", "null"]}),
    }
}
