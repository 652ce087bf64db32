//! The model changes while it answers: added facts, a new file, a broken one.

use axum::http::StatusCode;
use ruge::{Control, ModelFile, OpenOptions};
use ruge_serve::{App, Settings};
use serde_json::json;

use crate::common::{ENGINE, ask, json as send, page, read};

#[tokio::test]
async fn added_facts_are_known_and_stay() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { reviews: Some(folder.path().join("reviews.db")), suggests: false, ..Settings::default() };
    let app = App::new(ENGINE.clone(), "test", &settings).unwrap();
    let facts = json!({"facts": [
        {"head": "New Ghent", "relation": "located_in", "tail": "Belgium"},
        {"head": "New Ghent", "relation": "located_in", "tail": "Belgium"},
        {"head": "Brussels", "relation": "capital_of", "tail": "Belgium"},
    ]});
    let (status, told) = send(&app, "POST", "/api/v1/facts", &facts).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert_eq!((&told["added"], &told["known_before"], &told["snapshot"]), (&json!(1), &json!(2), &json!(2)));
    let entity = read(&app, "/api/v1/entity?name=New%20Ghent").await;
    assert_eq!(entity["known"][0]["entities"][0]["entity"], "Belgium");
    let found = read(&app, "/api/v1/search?q=new%20gh").await;
    assert_eq!(found["hits"][0]["name"], "New Ghent");
    let (status, answers) =
        send(&app, "POST", "/api/v1/predict", &json!({"head": "New Ghent", "relation": "located_in", "top": 3})).await;
    assert_eq!((status, answers["answers"].as_array().unwrap().len()), (StatusCode::OK, 3));
    let why = json!({"head": "New Ghent", "relation": "located_in", "tail": "Europe"});
    assert_eq!(send(&app, "POST", "/api/v1/explain", &why).await.0, StatusCode::OK);
    assert!(page(&app, "/entity?name=New+Ghent").await.contains("New Ghent"));
    // The next server finds them, with the same answers.
    let asked = "/api/v1/predict?head=New%20Ghent&relation=located_in";
    let before = ask(&app, "GET", asked, &[], "").await;
    drop(app);
    let app = App::new(ENGINE.clone(), "test", &settings).unwrap();
    let after = ask(&app, "GET", asked, &[], "").await;
    assert_eq!(before.1, after.1);
    assert_eq!(before.0.headers()["etag"], after.0.headers()["etag"]);
    // Only what was added here can be removed, and only relations that the model knows can be used.
    let listed = json!({"facts": [{"head": "Brussels", "relation": "capital_of", "tail": "Belgium"}]});
    assert_eq!(send(&app, "DELETE", "/api/v1/facts", &listed).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    let strange = json!({"facts": [{"head": "Brussels", "relation": "no such relation", "tail": "Belgium"}]});
    assert_eq!(send(&app, "POST", "/api/v1/facts", &strange).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    let own = json!({"facts": [{"head": "New Ghent", "relation": "located_in", "tail": "Belgium"}]});
    let (_, told) = send(&app, "DELETE", "/api/v1/facts", &own).await;
    assert_eq!(told["removed"], 1);
    assert_eq!(
        ask(&app, "GET", "/api/v1/entity?name=New%20Ghent", &[], "").await.0.status(),
        StatusCode::UNPROCESSABLE_ENTITY
    );
}

#[tokio::test]
async fn proposals_outlive_facts_that_come_and_go() {
    let app = App::new(ENGINE.clone(), "test", &Settings::default()).unwrap();
    let facts = |name: &str| json!({"facts": [{"head": name, "relation": "located_in", "tail": "Belgium"}]});
    for name in ["New Ghent", "Old Ghent"] {
        assert_eq!(send(&app, "POST", "/api/v1/facts", &facts(name)).await.0, StatusCode::OK);
    }
    while read(&app, "/readyz").await["suggestions"] != "ready" {
        tokio::task::yield_now().await;
    }
    // Numbers of entities change with this; names must not.
    assert_eq!(send(&app, "DELETE", "/api/v1/facts", &facts("New Ghent")).await.0, StatusCode::OK);
    assert!(!page(&app, "/review").await.contains("New Ghent"));
    assert!(page(&app, "/entity?name=Old+Ghent").await.contains("Old Ghent"));
    assert_eq!(send(&app, "DELETE", "/api/v1/facts", &facts("Old Ghent")).await.0, StatusCode::OK);
    assert!(!page(&app, "/review").await.contains("Old Ghent"));
    let (_, told) = send(&app, "POST", "/api/v1/score", &json!({"triples": []})).await;
    assert_eq!(told["triples"], json!([]));
}

#[tokio::test]
async fn a_new_file_is_taken_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.safetensors");
    ModelFile::write(&model, &ENGINE.contents().unwrap()).unwrap();
    let settings = Settings { suggests: false, ..Settings::default() };
    let app = App::open(&model, &OpenOptions::default(), &settings).unwrap();
    let first = read(&app, "/readyz").await["model"].clone();
    let (status, told) = send(&app, "POST", "/api/v1/reload", &json!({})).await;
    assert_eq!((status, &told["model"], &told["snapshot"]), (StatusCode::OK, &first, &json!(2)));
    std::fs::write(&model, "garbage").unwrap();
    let (status, told) = send(&app, "POST", "/api/v1/reload", &json!({})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{told}");
    let ready = read(&app, "/readyz").await;
    assert_eq!((&ready["model"], ready["trouble"].is_string()), (&first, true), "{ready}");
    assert_eq!(
        ask(&app, "GET", "/api/v1/predict?head=Brussels&relation=located_in", &[], "").await.0.status(),
        StatusCode::OK
    );
    let mut facts = ruge_kg::Names::default();
    let triple = facts.triple("New Ghent", "located_in", "Belgium");
    let more = ruge::Dataset::new(facts, vec![triple], Vec::new(), Vec::new());
    let larger = ENGINE.with_facts(&ruge::fold_in::NewFacts::of(&ENGINE, &more).unwrap(), &Control::default()).unwrap();
    ModelFile::write(&model, &larger.contents().unwrap()).unwrap();
    assert_eq!(send(&app, "POST", "/api/v1/reload", &json!({})).await.0, StatusCode::OK);
    let ready = read(&app, "/readyz").await;
    assert!(ready["model"] != first && ready["trouble"].is_null(), "{ready}");
    assert_eq!(ask(&app, "GET", "/entity?name=New+Ghent", &[], "").await.0.status(), StatusCode::OK);
}
