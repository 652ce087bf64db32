//! A request from the first check to the answer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use http_body_util::{BodyExt, Limited};
use ruge::{Engine, OpenOptions, RugeError};

use crate::api::{self, Reply};
use crate::ask::Ask;
use crate::guard::{self, Guard};
use crate::openapi;
use crate::problem::Problem;
use crate::snapshot::Snapshot;
use crate::table::{ROUTES, Route, Run};
use crate::work::Work;

/// Bytes of a body at most; batches are streamed.
pub const BODY: usize = 1 << 20;
/// Seconds that a request may take.
pub const SECONDS: u64 = 30;

/// How a server is set up.
#[derive(Clone)]
pub struct Settings {
    /// Who may ask.
    pub guard: Guard,
    /// Threads that compute; 0 for all processors.
    pub threads: usize,
    /// Requests that may wait.
    pub queue: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { guard: Guard::new(&[], None), threads: 0, queue: 256 }
    }
}

/// A model that answers requests.
pub struct App {
    snapshot: Arc<Snapshot>,
    guard: Guard,
    pub(crate) work: Work,
    /// Answers by the first digit of their status.
    answered: [AtomicU64; 5],
}

impl App {
    /// Opens MODEL, a run folder or a model.safetensors.
    pub fn open(model: &Path, options: &OpenOptions, settings: &Settings) -> Result<Arc<Self>, RugeError> {
        Self::with(Snapshot::open(model, options)?, settings)
    }

    /// Of a model that is open; the hash names it.
    pub fn new(engine: Engine, hash: &str, settings: &Settings) -> Result<Arc<Self>, RugeError> {
        Self::with(Snapshot::of(engine, hash.to_string())?, settings)
    }

    fn with(snapshot: Snapshot, settings: &Settings) -> Result<Arc<Self>, RugeError> {
        let work = Work::new(settings.threads, settings.queue)
            .map_err(|error| RugeError::Refused(format!("the threads that compute cannot be started: {error}")))?;
        let answered = std::array::from_fn(|_| AtomicU64::new(0));
        Ok(Arc::new(Self { snapshot: Arc::new(snapshot), guard: settings.guard.clone(), work, answered }))
    }

    /// As a service.
    pub fn router(self: &Arc<Self>) -> Router {
        Router::new().fallback(handle).with_state(Arc::clone(self))
    }

    async fn answer(self: &Arc<Self>, request: Request) -> Result<Response, Problem> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let here: Vec<&Route> = ROUTES.iter().filter(|route| route.path == path).collect();
        let wanted = if parts.method == Method::HEAD { Method::GET } else { parts.method.clone() };
        let route = here.iter().find(|route| route.method == wanted);
        let is_batch = route.is_some_and(|route| matches!(route.run, Run::Batch));
        let kind = if is_batch { "application/x-ndjson" } else { "application/json" };
        self.guard.check(&parts.method, &parts.uri, &parts.headers, kind)?;
        let Some(route) = route else {
            if here.is_empty() {
                return Err(guard::missing(path));
            }
            let methods: Vec<&str> = here.iter().map(|route| route.method.as_str()).collect();
            let detail = format!("{path} takes {}", methods.join(" and "));
            return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong method", detail));
        };
        let query = parts.uri.query().unwrap_or_default();
        let snapshot = Arc::clone(&self.snapshot);
        let tag = snapshot.tag();
        let reply = match route.run {
            Run::Health => Reply { kind: "text/plain; charset=utf-8", body: "ok\n".into() },
            Run::Ready => Reply::json(&serde_json::json!({"ready": true, "model": snapshot.hash})),
            Run::Metrics => Reply { kind: "text/plain; version=0.0.4", body: self.metrics() },
            Run::OpenApi => Reply::json(&openapi::document()),
            Run::Batch => {
                let options = api::wishes(&snapshot, &Ask::query(query, &route.known())?)?;
                let body = crate::batch::answer(Arc::clone(self), snapshot, options, body);
                return Ok(sent(StatusCode::OK, "application/x-ndjson", body));
            }
            Run::Work(answer) => {
                let asked = parts.headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
                if route.method == Method::GET && asked == Some(tag.as_str()) {
                    return Ok(sent(StatusCode::NOT_MODIFIED, "application/json", Body::empty()));
                }
                let ask = match route.method == Method::GET {
                    true => Ask::query(query, &route.known())?,
                    false => Ask::json(&read(body).await?, &route.known())?,
                };
                let work = self.work.run(move |cancel| answer(&snapshot, &ask, cancel));
                tokio::time::timeout(Duration::from_secs(SECONDS), work).await.map_err(|_| Problem::late(SECONDS))??
            }
        };
        let mut response = sent(StatusCode::OK, reply.kind, Body::from(reply.body));
        if let (Run::Work(_), Ok(tag)) = (route.run, HeaderValue::from_str(&tag)) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        Ok(response)
    }

    fn metrics(&self) -> String {
        let mut text = String::from(
            "# HELP ruge_responses_total Answers by class of status.\n# TYPE ruge_responses_total counter\n",
        );
        for (class, count) in self.answered.iter().enumerate() {
            text.push_str(&format!(
                "ruge_responses_total{{class=\"{}xx\"}} {}\n",
                class + 1,
                count.load(Ordering::Relaxed)
            ));
        }
        let panics = self.work.panics.load(Ordering::Relaxed);
        text.push_str(&format!(
            "# HELP ruge_panics_total Requests that met a bug.\n# TYPE ruge_panics_total counter\nruge_panics_total {panics}\n\
             # HELP ruge_queue Requests that wait or run.\n# TYPE ruge_queue gauge\nruge_queue {}\n",
            self.work.waiting()
        ));
        text
    }
}

async fn handle(State(app): State<Arc<App>>, request: Request) -> Response {
    let mut response = match app.answer(request).await {
        Ok(response) => response,
        Err(problem) => {
            let body = serde_json::to_string(&problem).unwrap_or_default();
            let mut response = sent(problem.status, "application/problem+json", Body::from(body));
            if problem.status == StatusCode::SERVICE_UNAVAILABLE {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            response
        }
    };
    response.headers_mut().extend(guard::HEADERS);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    let class = usize::from(response.status().as_u16() / 100).clamp(1, 5) - 1;
    app.answered[class].fetch_add(1, Ordering::Relaxed);
    response
}

/// A body, counted as it comes.
async fn read(body: Body) -> Result<bytes::Bytes, Problem> {
    let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "too slow", "the body did not come in time");
    let whole = tokio::time::timeout(Duration::from_secs(SECONDS), Limited::new(body, BODY).collect());
    match whole.await.map_err(late)? {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            let detail = format!("a body may have {BODY} bytes");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large", detail).limit(BODY))
        }
        Err(error) => Err(Problem::bad(format!("the body could not be read: {error}"))),
    }
}

fn sent(status: StatusCode, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
