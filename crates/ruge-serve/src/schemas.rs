//! What answers look like, for `/openapi.json`. Fields may be added; those that are named here stay.

use serde_json::{Map, Value, json};

/// The schema of the answer at a path; nothing where it is no JSON.
pub fn answer(path: &str, method: &str) -> Option<Value> {
    let list = |name: &str, item: Value| object(&[(name, array(item)), ("next", maybe("string"))]);
    let schema = match (path.trim_start_matches("/api/v1"), method) {
        ("/readyz", _) => object(&[
            ("ready", kind("boolean")),
            ("model", kind("string")),
            ("snapshot", count()),
            ("suggestions", kind("string")),
        ]),
        ("/openapi.json", _) => object(&[("openapi", kind("string")), ("paths", kind("object"))]),
        ("/model", _) => object(&[
            ("spec", kind("object")),
            ("hash", kind("string")),
            ("snapshot", count()),
            ("version", kind("string")),
            ("entities", count()),
            ("relations", count()),
            ("train", count()),
            ("valid", count()),
            ("test", count()),
            ("rules", count()),
            ("added_facts", count()),
            ("judged", count()),
            ("notes", json!({"type": "object", "additionalProperties": {"type": "string"}})),
            ("calibration", kind("object")),
            ("assumes", kind("string")),
            ("limits", json!({"type": "object", "additionalProperties": {"type": "integer"}})),
        ]),
        ("/search", _) => object(&[("q", kind("string")), ("hits", array(hit()))]),
        ("/entity", _) => entity(),
        ("/facts", "GET") => list("facts", with(fact(), &[("split", json!({"enum": ["train", "valid", "test"]}))])),
        ("/facts", _) => {
            object(&[("added", count()), ("known_before", count()), ("removed", count()), ("snapshot", count())])
        }
        ("/neighbours", _) => object(&[
            ("nodes", array(object(&[("entity", kind("string")), ("label", maybe("string"))]))),
            ("edges", array(fact())),
            ("left_out", array(object(&[("relation", kind("string")), ("asks_for", side()), ("count", count())]))),
            ("shown", count()),
            ("facts", count()),
        ]),
        ("/relations", _) => list("relations", relation()),
        ("/relation", _) => with(
            relation(),
            &[
                ("description", maybe("string")),
                ("some_facts", array(fact())),
                (
                    "patterns",
                    array(object(&[("relation", kind("string")), ("reversed", kind("boolean")), ("share", share())])),
                ),
                (
                    "measured",
                    json!({"type": ["object", "null"], "required": ["queries", "mrr", "hits_at_1", "hits_at_10"]}),
                ),
                ("concluded_by", array(rule())),
                ("used_by", array(rule())),
            ],
        ),
        ("/rules", _) => list("rules", rule()),
        ("/rule", _) => rule(),
        ("/rule/examples", _) => object(&[
            ("rule", rule()),
            ("kind", json!({"enum": ["example", "counterexample", "open"]})),
            (
                "examples",
                array(with(fact(), &[("truth", share()), ("premises", array(fact())), ("absent", array(fact()))])),
            ),
            ("all", kind("boolean")),
        ]),
        ("/predict", _) => object(&[("answers", array(answer_of())), ("assumes", kind("string"))]),
        ("/score", _) => object(&[(
            "triples",
            array(with(fact(), &[("score", kind("number")), ("truth", share()), ("known", kind("boolean"))])),
        )]),
        ("/explain", _) => explanation(),
        ("/similar", _) => object(&[
            ("like", kind("string")),
            (
                "nearest",
                array(object(&[
                    ("entity", kind("string")),
                    ("cosine", kind("number")),
                    ("shared_facts", count()),
                    ("overlap", kind("number")),
                    ("duplicate", kind("boolean")),
                ])),
            ),
        ]),
        ("/suggestions", _) => {
            with(list("suggestions", with(fact(), &[("truth", share())])), &[("search", kind("string"))])
        }
        ("/suggestions/decision", "PUT") => with(
            fact(),
            &[
                ("decision", json!({"enum": ["accept", "reject", "skip"]})),
                ("truth", share()),
                ("at", count()),
                ("model", kind("string")),
            ],
        ),
        ("/suggestions/decision", _) => with(fact(), &[("undone", kind("boolean"))]),
        ("/reliability", _) => object(&[
            ("accepted", count()),
            ("rejected", count()),
            ("skipped", count()),
            (
                "bins",
                array(object(&[
                    ("from", share()),
                    ("to", share()),
                    ("judged", count()),
                    ("accepted", count()),
                    ("mean_truth", share()),
                ])),
            ),
        ]),
        ("/reload", _) => object(&[("snapshot", count()), ("model", kind("string"))]),
        _ => return None,
    };
    Some(schema)
}

fn kind(name: &str) -> Value {
    json!({"type": name})
}

fn maybe(name: &str) -> Value {
    json!({"type": [name, "null"]})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn share() -> Value {
    json!({"type": "number", "minimum": 0, "maximum": 1})
}

fn side() -> Value {
    json!({"enum": ["head", "tail"]})
}

fn array(of: Value) -> Value {
    json!({"type": "array", "items": of})
}

/// An object that has all of these.
fn object(fields: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> = fields.iter().map(|(name, of)| (name.to_string(), of.clone())).collect();
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

/// The same with more of them.
fn with(mut object: Value, more: &[(&str, Value)]) -> Value {
    for (name, of) in more {
        object["properties"][*name] = of.clone();
        if let Some(required) = object["required"].as_array_mut() {
            required.push((*name).into());
        }
    }
    object
}

fn fact() -> Value {
    object(&[("head", kind("string")), ("relation", kind("string")), ("tail", kind("string"))])
}

fn hit() -> Value {
    object(&[
        ("kind", json!({"enum": ["entity", "relation"]})),
        ("name", kind("string")),
        ("facts", count()),
        ("errors", count()),
    ])
}

fn answer_of() -> Value {
    let mut answer = object(&[("score", kind("number")), ("truth", share()), ("known", kind("boolean"))]);
    answer["properties"]["entity"] = kind("string");
    answer["properties"]["relation"] = kind("string");
    answer["oneOf"] = json!([{"required": ["entity"]}, {"required": ["relation"]}]);
    answer
}

fn entity() -> Value {
    let named = object(&[("entity", kind("string")), ("label", maybe("string"))]);
    object(&[
        ("name", kind("string")),
        ("label", maybe("string")),
        ("description", maybe("string")),
        ("types", array(kind("string"))),
        ("facts", count()),
        (
            "known",
            array(object(&[
                ("relation", kind("string")),
                ("asks_for", side()),
                ("count", count()),
                ("entities", array(named)),
            ])),
        ),
        (
            "probable",
            array(object(&[("relation", kind("string")), ("asks_for", side()), ("answers", array(answer_of()))])),
        ),
        ("entities", count()),
    ])
}

fn relation() -> Value {
    object(&[
        ("name", kind("string")),
        ("label", maybe("string")),
        ("facts", count()),
        ("heads", count()),
        ("tails", count()),
        ("tails_per_head", kind("number")),
        ("heads_per_tail", kind("number")),
        ("cardinality", json!({"enum": ["one to one", "one to many", "many to one", "many to many"]})),
        ("rules", count()),
    ])
}

fn rule() -> Value {
    object(&[
        ("id", count()),
        ("rule", kind("string")),
        ("words", kind("string")),
        ("head", kind("string")),
        ("body", array(kind("string"))),
        ("confidence", share()),
        ("counts_as", maybe("number")),
        ("support", maybe("integer")),
        ("head_coverage", maybe("number")),
        ("standard_confidence", maybe("number")),
    ])
}

fn explanation() -> Value {
    with(
        fact(),
        &[
            ("truth", share()),
            ("estimate", share()),
            ("against", array(kind("string"))),
            ("score", kind("number")),
            ("model_truth", kind("number")),
            ("rank", json!({"type": "number", "minimum": 1})),
            ("head_rank", json!({"type": "number", "minimum": 1})),
            ("entities", count()),
            ("known", json!({"enum": ["train", "valid", "test", null]})),
            ("parts", array(kind("object"))),
            ("rules_for_relation", count()),
            ("rules", array(object(&[("rule", kind("string")), ("words", kind("string")), ("confidence", share())]))),
            ("groundings", array(kind("object"))),
            ("similar", array(kind("object"))),
            ("sentence", kind("string")),
            ("seconds", kind("number")),
            ("rules_fired", count()),
            ("grounding_count", count()),
        ],
    )
}
