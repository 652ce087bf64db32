//! Decisions: kept, undone, exported, believed.

use axum::http::StatusCode;
use ruge::truth::feedback;
use ruge_serve::{App, Settings};
use serde_json::{Value, json};

use crate::common::{ENGINE, ask, json as send, page, read};

/// The first proposals, once they are found.
async fn queue(app: &std::sync::Arc<App>, limit: usize) -> Vec<Value> {
    loop {
        let found = read(app, &format!("/api/v1/suggestions?limit={limit}")).await;
        if found["search"] == "ready" {
            return found["suggestions"].as_array().unwrap().clone();
        }
        tokio::task::yield_now().await;
    }
}

fn fact(of: &Value) -> Value {
    json!({"head": of["head"], "relation": of["relation"], "tail": of["tail"]})
}

#[tokio::test]
async fn decisions_are_kept_exported_and_believed() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { reviews: Some(folder.path().join("reviews.db")), ..Settings::default() };
    let app = App::new(ENGINE.clone(), "test", &settings).unwrap();
    let list = queue(&app, 12).await;
    assert_eq!(list.len(), 12);
    assert!(list.windows(2).all(|pair| pair[0]["truth"].as_f64() >= pair[1]["truth"].as_f64()), "{list:?}");
    let tag = |response: &axum::response::Response<()>| response.headers()["etag"].to_str().unwrap().to_string();
    let before = tag(&ask(&app, "GET", "/api/v1/relations", &[], "").await.0);
    for (at, item) in list.iter().take(6).enumerate() {
        let mut body = fact(item);
        body["decision"] = if at % 3 == 0 { "reject".into() } else { "accept".into() };
        body["reviewer"] = "Ada".into();
        let (status, kept) = send(&app, "PUT", "/api/v1/suggestions/decision", &body).await;
        assert_eq!((status, &kept["reviewer"]), (StatusCode::OK, &json!("Ada")), "{kept}");
        assert_eq!(kept["truth"], item["truth"], "{kept} {item}");
    }
    let mut skipped = fact(&list[6]);
    skipped["decision"] = "skip".into();
    assert_eq!(send(&app, "PUT", "/api/v1/suggestions/decision", &skipped).await.0, StatusCode::OK);
    app.settled().await;
    // What was decided is not asked again, and truth follows.
    let left = read(&app, "/api/v1/suggestions?limit=1000").await;
    let left: Vec<Value> = left["suggestions"].as_array().unwrap().iter().map(fact).collect();
    assert!(list[..7].iter().all(|item| !left.contains(&fact(item))));
    assert!(list[7..].iter().all(|item| left.contains(&fact(item))));
    let (_, scored) = send(&app, "POST", "/api/v1/score", &json!({"triples": [fact(&list[0]), fact(&list[1])]})).await;
    assert_eq!((&scored["triples"][0]["truth"], &scored["triples"][1]["truth"]), (&json!(0.0), &json!(1.0)));
    assert_ne!(tag(&ask(&app, "GET", "/api/v1/relations", &[], "").await.0), before);
    assert_eq!(read(&app, "/api/v1/model").await["judged"], 6);
    // The export is what --feedback reads, and gives the same truths.
    let (_, tsv) = ask(&app, "GET", "/api/v1/decisions.tsv", &[], "").await;
    let file = folder.path().join("decisions.tsv");
    std::fs::write(&file, &tsv).unwrap();
    let judged = feedback::read(&file, &ENGINE).unwrap();
    assert_eq!((judged.len(), judged.iter().filter(|it| it.holds).count()), (6, 4), "{tsv}");
    let corrected = ENGINE.with_feedback(&judged).unwrap();
    let open = fact(&list[9]);
    let text = |key: &str| open[key].as_str().unwrap();
    let triple = ruge::Triple {
        head: ENGINE.entity(text("head")).unwrap(),
        relation: ENGINE.relation(text("relation")).unwrap(),
        tail: ENGINE.entity(text("tail")).unwrap(),
    };
    let (_, scored) = send(&app, "POST", "/api/v1/score", &json!({"triples": [open]})).await;
    assert_eq!(scored["triples"][0]["truth"], json!(corrected.truths(&[triple]).unwrap()[0]));
    let (_, nt) = ask(&app, "GET", "/api/v1/decisions.nt", &[], "").await;
    assert_eq!(nt.lines().count(), 4, "{nt}");
    // Undone is open again.
    let (_, undone) = send(&app, "DELETE", "/api/v1/suggestions/decision", &fact(&list[0])).await;
    assert_eq!(undone["undone"], true);
    app.settled().await;
    let relation: String = form_urlencoded::byte_serialize(list[0]["relation"].as_str().unwrap().as_bytes()).collect();
    let mut path = format!("/api/v1/suggestions?limit=1000&relation={relation}");
    loop {
        let open = read(&app, &path).await;
        if open["suggestions"].as_array().unwrap().iter().any(|item| fact(item) == fact(&list[0])) {
            break;
        }
        let next = open["next"].as_str().unwrap();
        path = format!("/api/v1/suggestions?limit=1000&relation={relation}&cursor={next}");
    }
    let bins = read(&app, "/api/v1/reliability").await;
    assert_eq!((&bins["accepted"], &bins["rejected"], &bins["skipped"]), (&json!(4), &json!(1), &json!(1)));
    let judged: u64 = bins["bins"].as_array().unwrap().iter().map(|bin| bin["judged"].as_u64().unwrap()).sum();
    assert_eq!(judged, 5);
    app.settled().await;
    drop(app);
    // Another server finds all of it.
    let app = App::new(ENGINE.clone(), "test", &settings).unwrap();
    let (_, again) = ask(&app, "GET", "/api/v1/decisions.tsv", &[], "").await;
    assert_eq!(again.lines().count(), 5);
    assert_eq!(read(&app, "/api/v1/model").await["judged"], 5);
}

#[tokio::test]
async fn forms_decide_without_script() {
    let app = App::new(ENGINE.clone(), "test", &Settings::default()).unwrap();
    let list = queue(&app, 1).await;
    let name = |key: &str| list[0][key].as_str().unwrap().replace(' ', "+");
    let fact = format!("head={}&relation={}&tail={}", name("head"), name("relation"), name("tail"));
    let path = format!("/decide?{fact}&back=review%3Fpage%3D1");
    let form = ("content-type", "application/x-www-form-urlencoded");
    // A form says where it comes from; nobody else's is taken.
    for origin in
        [vec![form], vec![form, ("sec-fetch-site", "cross-site")], vec![form, ("origin", "http://evil.example")]]
    {
        let (response, _) = ask(&app, "POST", &path, &origin, "decision=accept").await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{origin:?}");
    }
    let ours = [form, ("sec-fetch-site", "same-origin"), ("cookie", "ruge_reviewer=Grace+H.")];
    let (response, _) = ask(&app, "POST", &path, &ours, "decision=accept").await;
    assert_eq!(
        (response.status(), &response.headers()["location"]),
        (StatusCode::SEE_OTHER, &"review?page=1".parse().unwrap())
    );
    let accepted = page(&app, "/review?state=accepted").await;
    assert!(accepted.contains("Accepted by <bdi>Grace H.</bdi>"), "{accepted}");
    let (response, _) = ask(&app, "POST", &path, &ours, "decision=undo").await;
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    assert_eq!(read(&app, "/api/v1/suggestions?state=accepted").await["suggestions"], json!([]));
    let (response, _) = ask(&app, "POST", "/reviewer?back=review", &ours[..2], "reviewer=Ada+L%C3%B6").await;
    let cookie = response.headers()["set-cookie"].to_str().unwrap();
    assert!(
        cookie.starts_with("ruge_reviewer=Ada+L%C3%B6;")
            && cookie.contains("HttpOnly")
            && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
}

#[tokio::test]
async fn a_read_only_server_takes_nothing() {
    let app = App::new(ENGINE.clone(), "test", &Settings { read_only: true, ..Settings::default() }).unwrap();
    let fact = json!({"head": "Brussels", "relation": "located_in", "tail": "Flanders", "decision": "accept"});
    assert_eq!(send(&app, "PUT", "/api/v1/suggestions/decision", &fact).await.0, StatusCode::NOT_FOUND);
    assert_eq!(send(&app, "POST", "/api/v1/facts", &json!({"facts": []})).await.0, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(send(&app, "POST", "/api/v1/reload", &json!({})).await.0, StatusCode::NOT_FOUND);
    let document = read(&app, "/openapi.json").await;
    assert!(document["paths"]["/api/v1/reload"].is_null() && document["paths"]["/api/v1/facts"]["post"].is_null());
    let form = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];
    assert_eq!(ask(&app, "POST", "/decide", &form, "decision=accept").await.0.status(), StatusCode::NOT_FOUND);
    assert!(!page(&app, "/entity?name=Brussels").await.contains("<form class=\"decide\""));
}
