//! All endpoints in one table: the router looks requests up here, and `/openapi.json` is made from it.

use axum::http::Method;
use ruge::Cancel;

use crate::api::{self, Reply};
use crate::ask::Ask;
use crate::pages::View;
use crate::problem::Problem;
use crate::snapshot::Snapshot;
use crate::{decide, graph, rules};

/// What answers a request, on a thread of the pool.
pub type Answer = fn(&Snapshot, &Ask, &Cancel) -> Result<Reply, Problem>;

/// The same with what people decided.
pub type Stored = fn(&View, &Ask, &Cancel) -> Result<Reply, Problem>;

/// How a request is answered.
#[derive(Clone, Copy)]
pub enum Run {
    /// From the model, on the pool.
    Work(Answer),
    /// Predictions, together with others that wait.
    Predict,
    /// From the model and what people decided, on the pool.
    Store(Stored),
    /// Adds facts.
    Add,
    /// Removes facts that were added.
    Remove,
    /// Reads the model file again.
    Reload,
    /// Line by line.
    Batch,
    /// The process lives.
    Health,
    /// A model is loaded.
    Ready,
    /// Counters for Prometheus.
    Metrics,
    /// This table.
    OpenApi,
}

/// An endpoint.
pub struct Route {
    /// GET, POST, PUT or DELETE.
    pub method: Method,
    /// The whole path.
    pub path: &'static str,
    /// What it gives.
    pub what: &'static str,
    /// Names of parameters, in the query of a GET or the JSON object of a POST; `!` marks those that must be there.
    pub params: &'static [&'static str],
    /// Who answers.
    pub run: Run,
    /// Whether it changes something.
    pub writes: bool,
}

impl Route {
    /// The parameters without marks.
    pub fn known(&self) -> Vec<&'static str> {
        self.params.iter().map(|name| name.trim_end_matches('!')).collect()
    }
}

const fn get(path: &'static str, params: &'static [&'static str], what: &'static str, run: Run) -> Route {
    Route { method: Method::GET, path, what, params, run, writes: false }
}

const fn post(path: &'static str, params: &'static [&'static str], what: &'static str, run: Run) -> Route {
    Route { method: Method::POST, path, what, params, run, writes: false }
}

const fn write(
    method: Method,
    path: &'static str,
    params: &'static [&'static str],
    what: &'static str,
    run: Run,
) -> Route {
    Route { method, path, what, params, run, writes: true }
}

const ASKED: &[&str] = &["head", "relation", "tail", "top", "new", "typed"];
const FACT: &[&str] = &["head!", "relation!", "tail!", "groundings", "similar", "side"];

/// All endpoints.
pub const ROUTES: &[Route] = &[
    get("/healthz", &[], "The process lives", Run::Health),
    get("/readyz", &[], "A model is loaded", Run::Ready),
    get("/metrics", &[], "Counters in the format of Prometheus", Run::Metrics),
    get("/openapi.json", &[], "This description", Run::OpenApi),
    get("/api/v1/model", &[], "Spec, counts, calibration, hash and limits", Run::Work(api::model)),
    get("/api/v1/search", &["q!", "kind", "limit"], "Names and labels, despite typing errors", Run::Work(api::search)),
    get("/api/v1/entity", &["name!", "limit", "new"], "An entity: known and probable facts", Run::Work(graph::entity)),
    get("/api/v1/facts", &["head", "relation", "tail", "limit", "cursor"], "Listed facts", Run::Work(graph::facts)),
    get(
        "/api/v1/neighbours",
        &["name!", "limit", "relation"],
        "Some neighbours of an entity",
        Run::Work(graph::neighbours),
    ),
    get("/api/v1/relations", &["limit", "cursor"], "All relations with their counts", Run::Work(graph::relations)),
    get("/api/v1/relation", &["name!"], "A relation with its rules", Run::Work(graph::relation)),
    get(
        "/api/v1/rules",
        &["head", "body", "q", "min_confidence", "min_support", "sort", "limit", "cursor"],
        "Rules, strongest first",
        Run::Work(rules::rules),
    ),
    get("/api/v1/rule", &["id!"], "One rule", Run::Work(rules::rule)),
    get(
        "/api/v1/rule/examples",
        &["id!", "kind", "limit"],
        "What a rule concludes: examples, counterexamples, open conclusions",
        Run::Work(rules::examples),
    ),
    get("/api/v1/predict", ASKED, "The best answers to a question", Run::Predict),
    post(
        "/api/v1/predict",
        &["head", "relation", "tail", "top", "new", "typed", "candidates"],
        "The best answers to a question",
        Run::Predict,
    ),
    post("/api/v1/predict/batch", &["top", "new", "typed"], "Many questions, a line each", Run::Batch),
    post("/api/v1/score", &["triples!"], "Truth and score of given triples", Run::Work(api::score)),
    post("/api/v1/explain", FACT, "Why a triple is held true", Run::Work(api::explain)),
    get("/api/v1/explain", FACT, "Why a triple is held true", Run::Work(api::explain)),
    get("/api/v1/explain.svg", FACT, "The same as a drawing", Run::Work(api::explain_svg)),
    get("/api/v1/similar", &["name!", "top"], "Near entities and likely duplicates", Run::Work(api::similar)),
    get(
        "/api/v1/suggestions",
        &["relation", "min_truth", "state", "limit", "cursor"],
        "Proposed facts in falling truth, or those that were decided",
        Run::Store(decide::suggestions),
    ),
    write(
        Method::PUT,
        "/api/v1/suggestions/decision",
        &["head!", "relation!", "tail!", "decision!", "note", "reviewer"],
        "Accepts, rejects or skips a fact",
        Run::Store(decide::decide),
    ),
    write(
        Method::DELETE,
        "/api/v1/suggestions/decision",
        &["head!", "relation!", "tail!"],
        "Takes a decision back",
        Run::Store(decide::undo),
    ),
    get("/api/v1/reliability", &[], "Truths against decisions", Run::Store(decide::reliability)),
    get(
        "/api/v1/decisions.tsv",
        &["state", "excel"],
        "Decisions as `ruge … --feedback FILE` reads them",
        Run::Store(decide::as_tsv),
    ),
    get("/api/v1/decisions.nt", &[], "Accepted facts as N-Triples", Run::Store(decide::as_nt)),
    write(Method::POST, "/api/v1/facts", &["facts!", "reviewer"], "Adds facts, also about new entities", Run::Add),
    write(Method::DELETE, "/api/v1/facts", &["facts!", "reviewer"], "Removes facts that were added", Run::Remove),
    write(Method::POST, "/api/v1/reload", &[], "Reads the model file again", Run::Reload),
];
