//! A request from the first check to the answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use http_body_util::{BodyExt, Limited};
use ruge::{Engine, OpenOptions, RugeError};
use serde_json::json;

use crate::api::{self, Reply};
use crate::ask::Ask;
use crate::assets;
use crate::guard::{self, FORM, Guard};
use crate::live::{Live, Source};
use crate::openapi;
use crate::pages::{self, PAGES, Shows, View};
use crate::problem::Problem;
use crate::reviews::Reviews;
use crate::run::Run as RunFiles;
use crate::snapshot::{Base, Snapshot, Stamp};
use crate::table::{ROUTES, Route, Run};
use crate::together::{self, Remembered, Together};
use crate::work::Work;

/// Bytes of a body at most; batches are streamed.
pub const BODY: usize = 1 << 20;
/// Seconds that a request may take.
pub const SECONDS: u64 = 30;
/// Bytes of a form with a token, which anybody may send.
const LOGIN: usize = 4096;
/// Bytes of a question whose answer is remembered.
const REMEMBERED: usize = 2048;
/// Seconds that adding facts or reading a new model may take.
const BUILDING: u64 = 600;

/// How a server is set up.
#[derive(Clone)]
pub struct Settings {
    /// Who may ask.
    pub guard: Guard,
    /// Threads that compute; 0 for all processors.
    pub threads: usize,
    /// Requests that may wait.
    pub queue: usize,
    /// The file of decisions and added facts; in memory only if there is none.
    pub reviews: Option<PathBuf>,
    /// Whether nothing can be changed.
    pub read_only: bool,
    /// Whether new facts are looked for.
    pub suggests: bool,
    /// The path below which a proxy passes requests on, such as `/kg`.
    pub base_path: String,
    /// Origins that may show the pages in a frame.
    pub frames: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            guard: Guard::new(&[], None),
            threads: 0,
            queue: 256,
            reviews: None,
            read_only: false,
            suggests: true,
            base_path: String::new(),
            frames: Vec::new(),
        }
    }
}

/// A model that answers requests.
pub struct App {
    pub(crate) live: Arc<Live>,
    pub(crate) reviews: Arc<Reviews>,
    pub(crate) read_only: bool,
    guard: Guard,
    base_path: String,
    policy: HeaderValue,
    pub(crate) work: Work,
    together: Arc<Together>,
    /// Answers to the last questions, by snapshot and question.
    answers: Remembered<(String, bool, bytes::Bytes)>,
    /// Answers by the first digit of their status.
    answered: [AtomicU64; 5],
}

impl App {
    /// Opens MODEL, a run folder or a model.safetensors.
    pub fn open(model: &Path, options: &OpenOptions, settings: &Settings) -> Result<Arc<Self>, RugeError> {
        let source = Source { path: model.to_path_buf(), options: *options };
        // Before it is read: what comes later is a change.
        let stamp = Stamp::of(model);
        Self::with(Base::open(model, options)?, Some((source, stamp)), settings)
    }

    /// Of a model that is open; the hash names it.
    pub fn new(engine: Engine, hash: &str, settings: &Settings) -> Result<Arc<Self>, RugeError> {
        Self::with(Base { engine, hash: hash.to_string(), run: RunFiles::default() }, None, settings)
    }

    fn with(base: Base, source: Option<(Source, Option<Stamp>)>, settings: &Settings) -> Result<Arc<Self>, RugeError> {
        let refused = |text: String| RugeError::Refused(text);
        let work = Work::new(settings.threads, settings.queue)
            .map_err(|error| refused(format!("the threads that compute cannot be started: {error}")))?;
        let base_path = settings.base_path.trim_end_matches('/').to_string();
        if !base_path.is_empty() && (!base_path.starts_with('/') || base_path.contains(['?', '#', '%', ' '])) {
            return Err(refused(format!(
                "the base path {base_path:?} does not begin with / or has other than plain characters"
            )));
        }
        let policy = guard::policy(&settings.frames);
        let policy =
            policy.ok_or_else(|| refused("an origin that may show pages in a frame has odd characters".into()))?;
        let reviews = match &settings.reviews {
            // Who may not write needs no file that is not there.
            Some(path) if !settings.read_only || path.exists() => {
                let opened = if settings.read_only { Reviews::look_at(path) } else { Reviews::open(path) };
                opened.map_err(|error| refused(error.to_string()))?
            }
            _ => Reviews::none(),
        };
        let reviews = Arc::new(reviews);
        let live = Live::start(base, source, &reviews, settings.suggests)?;
        let (guard, read_only) = (settings.guard.clone(), settings.read_only);
        let answered = std::array::from_fn(|_| AtomicU64::new(0));
        let (together, answers) = (Arc::default(), Remembered::new());
        Ok(Arc::new(Self { live, reviews, read_only, guard, base_path, policy, work, together, answers, answered }))
    }

    /// As a service.
    pub fn router(self: &Arc<Self>) -> Router {
        Router::new().fallback(handle).with_state(Arc::clone(self))
    }

    /// Waits until decisions taken so far count.
    pub async fn settled(&self) {
        self.live.settled().await;
    }

    /// Reads the model file again if it has changed, or in any case.
    pub(crate) fn look_at_file(&self, in_any_case: bool) {
        if self.live.has_changed() || in_any_case {
            self.live.reload_soon();
        }
    }

    async fn answer(self: &Arc<Self>, parts: &Parts, body: Body) -> Result<Response, Problem> {
        self.guard.place(&parts.uri, &parts.headers)?;
        let Some(path) = self.below_base(parts.uri.path()) else { return Err(guard::missing(parts.uri.path())) };
        if path.is_empty() {
            return Ok(moved(StatusCode::PERMANENT_REDIRECT, &format!("{}/", self.base_path), None));
        }
        let wanted = if parts.method == Method::HEAD { Method::GET } else { parts.method.clone() };
        if let Some(asset) = assets::find(path) {
            return if wanted == Method::GET {
                Ok(asset.answer(&parts.headers))
            } else {
                Err(wrong_method(path, &["GET"]))
            };
        }
        if wanted == Method::OPTIONS && self.guard.shared_with(&parts.headers).is_some() {
            return Ok(sent(StatusCode::NO_CONTENT, "text/plain", Body::empty()));
        }
        if path == "/login" && wanted == Method::POST {
            return self.login(parts, body).await;
        }
        self.guard.token(&parts.headers)?;
        if path == "/report.html" && wanted == Method::GET {
            let report = self.live.now().run.report.clone().ok_or_else(|| guard::missing(path))?;
            let mut response = sent(StatusCode::OK, "text/html; charset=utf-8", Body::from(report));
            response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, guard::REPORT);
            return Ok(response);
        }
        match PAGES.iter().any(|page| page.path == path) {
            true => self.page(parts, path, &wanted, body).await,
            false => self.endpoint(parts, path, &wanted, body).await,
        }
    }

    /// The path as we know it; empty for the base path without its last slash.
    fn below_base<'p>(&self, path: &'p str) -> Option<&'p str> {
        path.strip_prefix(self.base_path.as_str()).filter(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn view(self: &Arc<Self>, parts: &Parts, path: &str) -> View {
        let query = parts.uri.query().map_or(String::new(), |query| format!("?{query}"));
        View {
            app: Arc::clone(self),
            snapshot: self.live.now(),
            reviewer: pages::reviewer(&parts.headers),
            here: format!("{}{query}", path.trim_start_matches('/')),
        }
    }

    async fn page(
        self: &Arc<Self>,
        parts: &Parts,
        path: &str,
        method: &Method,
        body: Body,
    ) -> Result<Response, Problem> {
        let here: Vec<&pages::Page> =
            PAGES.iter().filter(|page| page.path == path && !(self.read_only && page.writes())).collect();
        if here.is_empty() {
            return Err(guard::missing(path));
        }
        let Some(page) = here.iter().find(|page| page.method() == *method) else {
            return Err(wrong_method(path, &here.iter().map(|page| page.method().to_string()).collect::<Vec<_>>()));
        };
        let (view, query) = (self.view(parts, path), parts.uri.query().unwrap_or_default());
        match page.shows {
            Shows::Page(show) => {
                let ask = Ask::query(query, page.params)?.filled();
                let html = self.timed(move |cancel| Ok(pages::whole(&view, show(&view, &ask, cancel)?))).await?;
                Ok(sent(StatusCode::OK, "text/html; charset=utf-8", Body::from(html)))
            }
            Shows::Form(act) => {
                self.guard.body(&parts.headers, FORM)?;
                let bytes = read(body, BODY).await?;
                let (query, params) = (query.to_string(), page.params);
                let act = move |cancel: &ruge::Cancel| {
                    let fields = std::str::from_utf8(&bytes).map_err(|_| Problem::bad("the form is not UTF-8"))?;
                    act(&view, &Ask::query(&format!("{query}&{fields}"), params)?.filled(), cancel)
                };
                let go = self.timed(act).await?;
                Ok(moved(StatusCode::SEE_OTHER, &go.to, go.cookie.as_deref()))
            }
        }
    }

    async fn endpoint(
        self: &Arc<Self>,
        parts: &Parts,
        path: &str,
        method: &Method,
        body: Body,
    ) -> Result<Response, Problem> {
        let here: Vec<&Route> =
            ROUTES.iter().filter(|route| route.path == path && !(self.read_only && route.writes)).collect();
        if here.is_empty() {
            return Err(guard::missing(path));
        }
        let Some(route) = here.iter().find(|route| route.method == *method) else {
            return Err(wrong_method(path, &here.iter().map(|route| route.method.as_str()).collect::<Vec<_>>()));
        };
        let is_batch = matches!(route.run, Run::Batch);
        if *method != Method::GET {
            let kind = if is_batch { "application/x-ndjson" } else { "application/json" };
            self.guard.body(&parts.headers, kind)?;
        }
        let query = parts.uri.query().unwrap_or_default();
        let view = self.view(parts, path);
        let tag = view.snapshot.tag(&[path, query]);
        if matches!(route.run, Run::Work(_) | Run::Predict) && *method == Method::GET {
            let had = parts.headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
            // Whoever has the tag of this question has its answer.
            if had.is_some_and(|had| had.split(',').any(|one| one.trim().trim_start_matches("W/") == tag)) {
                return Ok(tagged(sent(StatusCode::NOT_MODIFIED, "application/json", Body::empty()), &tag));
            }
        }
        let reply = match route.run {
            Run::Health => Reply { kind: "text/plain; charset=utf-8", body: "ok\n".into() },
            Run::Ready => Reply::json(&self.ready()),
            Run::Metrics => Reply { kind: "text/plain; version=0.0.4", body: self.metrics() },
            Run::OpenApi => Reply::json(&openapi::document(self.read_only)),
            Run::Batch => {
                let snapshot = Arc::clone(&view.snapshot);
                let options = api::wishes(&snapshot, &Ask::query(query, &route.known())?)?;
                let body = crate::batch::answer(Arc::clone(self), snapshot, options, body);
                return Ok(sent(StatusCode::OK, "application/x-ndjson", body));
            }
            Run::Work(answer) => {
                let asked = Asked::of(route, method, query, body).await?;
                self.timed(move |cancel| answer(&view.snapshot, &asked.read()?, cancel)).await?
            }
            Run::Predict => {
                let asked = Asked::of(route, method, query, body).await?;
                self.predict(&view.snapshot, asked).await?
            }
            Run::Store(answer) => {
                let asked = Asked::of(route, method, query, body).await?;
                self.timed(move |cancel| answer(&view, &asked.read()?, cancel)).await?
            }
            Run::Add | Run::Remove => {
                let asked = Asked::of(route, method, query, body).await?;
                let by = view.reviewer;
                let read = move |_: &ruge::Cancel| crate::decide::facts_of(&asked.read()?, by);
                let (facts, reviewer) = self.timed(read).await?;
                let (add, remove) =
                    if matches!(route.run, Run::Add) { (facts, Vec::new()) } else { (Vec::new(), facts) };
                let work = self.live.change(add, remove, reviewer);
                let done = tokio::time::timeout(Duration::from_secs(BUILDING), work);
                let done = done.await.map_err(|_| Problem::late(BUILDING))??;
                Reply::json(&json!({
                    "added": done.added, "known_before": done.known, "removed": done.removed, "snapshot": done.number,
                }))
            }
            Run::Reload => {
                Asked::of(route, method, query, body).await?.read()?;
                let work = tokio::time::timeout(Duration::from_secs(BUILDING), self.live.reload());
                let number = work.await.map_err(|_| Problem::late(BUILDING))??;
                Reply::json(&json!({"snapshot": number, "model": self.live.now().hash}))
            }
        };
        let response = sent(StatusCode::OK, reply.kind, Body::from(reply.body));
        Ok(if matches!(route.run, Run::Work(_) | Run::Predict) { tagged(response, &tag) } else { response })
    }

    /// The answers to a question, from memory or together with others.
    async fn predict(self: &Arc<Self>, snapshot: &Arc<Snapshot>, asked: Asked) -> Result<Reply, Problem> {
        // Long questions are rare, and not even read here.
        if asked.text.len() > REMEMBERED {
            let snapshot = Arc::clone(snapshot);
            return self.timed(move |cancel| api::predict(&snapshot, &asked.read()?, cancel)).await;
        }
        let key = (snapshot.version.clone(), asked.is_query, asked.text.clone());
        if let Some(body) = self.answers.get(&key) {
            return Ok(Reply { kind: "application/json", body: body.to_string() });
        }
        let ask = asked.read()?;
        let Some((question, wishes)) = together::simple(snapshot, &ask) else {
            let snapshot = Arc::clone(snapshot);
            return self.timed(move |cancel| api::predict(&snapshot, &ask, cancel)).await;
        };
        let work = self.together.ask(&self.work, Arc::clone(snapshot), question, wishes);
        let answer = tokio::time::timeout(Duration::from_secs(SECONDS), work).await;
        let reply = answer.map_err(|_| Problem::late(SECONDS))??;
        self.answers.put(key, &reply.body);
        Ok(reply)
    }

    async fn timed<T: Send + 'static>(
        &self,
        job: impl FnOnce(&ruge::Cancel) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let work = self.work.run(job);
        tokio::time::timeout(Duration::from_secs(SECONDS), work).await.map_err(|_| Problem::late(SECONDS))?
    }

    /// A form with the token, answered by a cookie.
    async fn login(&self, parts: &Parts, body: Body) -> Result<Response, Problem> {
        self.guard.body(&parts.headers, FORM)?;
        let bytes = read(body, LOGIN).await?;
        let fields = std::str::from_utf8(&bytes).map_err(|_| Problem::bad("the form is not UTF-8"))?;
        let ask = Ask::query(fields, &["token", "to"])?;
        let token = ask.needed("token")?.trim();
        if !self.guard.is_token(token) {
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "wrong token", "this is not the token of this server"));
        }
        let cookie = format!("ruge_token={}; HttpOnly; SameSite=Strict; Path=/", guard::in_cookie(token));
        Ok(moved(StatusCode::SEE_OTHER, &pages::back(ask.text("to")?), Some(&cookie)))
    }

    fn ready(&self) -> serde_json::Value {
        let snapshot = self.live.now();
        let mut told = json!({
            "ready": true, "model": snapshot.hash, "snapshot": snapshot.number, "suggestions": self.live.suggestions().told(),
        });
        if let Some(trouble) = self.live.trouble() {
            told["trouble"] = trouble.into();
        }
        told
    }

    fn metrics(&self) -> String {
        let mut text = String::from(
            "# HELP ruge_responses_total Answers by class of status.\n# TYPE ruge_responses_total counter\n",
        );
        for (class, count) in self.answered.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            text.push_str(&format!("ruge_responses_total{{class=\"{}xx\"}} {count}\n", class + 1));
        }
        let panics = self.work.panics();
        let [accepted, rejected, skipped] = self.reviews.counts();
        text.push_str(&format!(
            "# HELP ruge_panics_total Requests that met a bug.\n# TYPE ruge_panics_total counter\nruge_panics_total {panics}\n\
             # HELP ruge_queue Requests that wait or run.\n# TYPE ruge_queue gauge\nruge_queue {}\n\
             # HELP ruge_snapshot Number of the snapshot.\n# TYPE ruge_snapshot counter\nruge_snapshot {}\n\
             # HELP ruge_decisions Decisions kept.\n# TYPE ruge_decisions gauge\nruge_decisions{{verdict=\"accept\"}} {accepted}\n\
             ruge_decisions{{verdict=\"reject\"}} {rejected}\nruge_decisions{{verdict=\"skip\"}} {skipped}\n",
            self.work.waiting(),
            self.live.now().number
        ));
        text
    }

    /// A problem as the asker reads it: a page for people, JSON for programs.
    fn told(self: &Arc<Self>, parts: &Parts, problem: &Problem) -> Response {
        let path = self.below_base(parts.uri.path()).unwrap_or_else(|| parts.uri.path());
        let is_page = PAGES.iter().any(|page| page.path == path) || path == "/login";
        let accepts = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let for_people = is_page || (accepts.contains("text/html") && !path.starts_with("/api/"));
        let response = if for_people && problem.status != StatusCode::FORBIDDEN {
            let html = pages::trouble(&self.view(parts, path), problem);
            sent(problem.status, "text/html; charset=utf-8", Body::from(html))
        } else {
            let body = serde_json::to_string(problem).unwrap_or_default();
            sent(problem.status, "application/problem+json", Body::from(body))
        };
        let mut response = response;
        let headers = response.headers_mut();
        match problem.status {
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                let allowed = problem.nearest.join(", ");
                HeaderValue::from_str(&allowed).ok().map(|allowed| headers.insert(header::ALLOW, allowed));
            }
            _ => {}
        }
        response
    }
}

async fn handle(State(app): State<Arc<App>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let mut response = match app.answer(&parts, body).await {
        Ok(response) => response,
        Err(problem) => app.told(&parts, &problem),
    };
    let headers = response.headers_mut();
    headers.extend(guard::HEADERS);
    // A drawing that is opened by itself has its style in it, and nothing else.
    let is_drawing = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == api::SVG);
    let policy = if is_drawing { guard::DRAWING } else { app.policy.clone() };
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Some(origin) = app.guard.shared_with(&parts.headers) {
        share(headers, origin);
    }
    let class = usize::from(response.status().as_u16() / 100).clamp(1, 5) - 1;
    app.answered[class].fetch_add(1, Ordering::Relaxed);
    response
}

/// Lets pages of an origin read the answer; cookies are never shared.
fn share(headers: &mut HeaderMap, origin: &HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    let methods = HeaderValue::from_static("GET, POST, PUT, DELETE");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    let names = HeaderValue::from_static("authorization, content-type, if-none-match");
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names);
}

/// What was asked, not read yet: a mebibyte of JSON is nothing for the threads of the network.
struct Asked {
    text: bytes::Bytes,
    is_query: bool,
    known: Vec<&'static str>,
}

impl Asked {
    async fn of(route: &Route, method: &Method, query: &str, body: Body) -> Result<Self, Problem> {
        let is_query = *method == Method::GET;
        let text = if is_query { bytes::Bytes::copy_from_slice(query.as_bytes()) } else { read(body, BODY).await? };
        Ok(Self { text, is_query, known: route.known() })
    }

    fn read(&self) -> Result<Ask, Problem> {
        match self.is_query {
            true => Ask::query(&String::from_utf8_lossy(&self.text), &self.known),
            false => Ask::json(&self.text, &self.known),
        }
    }
}

/// A body, counted as it comes.
async fn read(body: Body, most: usize) -> Result<bytes::Bytes, Problem> {
    let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "too slow", "the body did not come in time");
    let whole = tokio::time::timeout(Duration::from_secs(SECONDS), Limited::new(body, most).collect());
    match whole.await.map_err(late)? {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            let detail = format!("a body may have {most} bytes here");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large", detail).limit(most))
        }
        Err(error) => Err(Problem::bad(format!("the body could not be read: {error}"))),
    }
}

fn wrong_method(path: &str, methods: &[impl AsRef<str>]) -> Problem {
    let methods: Vec<String> = methods.iter().map(|method| method.as_ref().to_string()).collect();
    let detail = format!("{path} takes {}", methods.join(" and "));
    Problem { nearest: methods, ..Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong method", detail) }
}

/// An answer of that kind.
pub fn sent(status: StatusCode, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn tagged(mut response: Response, tag: &str) -> Response {
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

fn moved(status: StatusCode, to: &str, cookie: Option<&str>) -> Response {
    let mut response = sent(status, "text/plain; charset=utf-8", Body::empty());
    let mut put = |name, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            response.headers_mut().insert(name, value);
        }
    };
    put(header::LOCATION, to);
    if let Some(cookie) = cookie {
        put(header::SET_COOKIE, cookie);
    }
    response
}
