//! What went wrong, as a program can read it: RFC 9457, `application/problem+json`.

use axum::http::StatusCode;
use ruge::RugeError;
use serde::Serialize;

use crate::reviews::ReviewsError;

/// An answer that is none.
#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    /// The status, as in the first line of the answer.
    #[serde(serialize_with = "number")]
    pub status: StatusCode,
    /// What kind of problem it is.
    pub title: &'static str,
    /// What is wrong here.
    pub detail: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Names that are near to an unknown one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<String>,
    /// The limit that was passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

fn number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

impl Problem {
    /// Of that status.
    pub fn new(status: StatusCode, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, title, detail: detail.into(), remedy: None, nearest: Vec::new(), limit: None }
    }

    /// A request that cannot be read.
    pub fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "the request is malformed", detail)
    }

    /// A request that asks for what cannot be had.
    pub fn refused(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "the request cannot be answered", detail)
    }

    /// The same, with what to do.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The same, with the limit.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit as u64);
        self
    }

    /// Too much work is waiting.
    pub fn busy(queue: usize) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "too much to do", "the queue is full")
            .remedy("ask again after the seconds of Retry-After")
            .limit(queue)
    }

    /// The work took too long.
    pub fn late(seconds: u64) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "too slow", format!("no answer within {seconds} seconds"))
            .remedy("ask for less, or again after the seconds of Retry-After")
            .limit(seconds as usize)
    }
}

impl Problem {
    /// A panic, which the server survives.
    pub fn bug() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the work failed", "the program met a bug")
            .remedy("other requests are not affected; please report what was asked")
    }

    /// The server is about to end.
    pub fn ending() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the server ends", "it takes no more work")
            .remedy("ask again after the seconds of Retry-After")
    }
}

impl From<ReviewsError> for Problem {
    fn from(error: ReviewsError) -> Self {
        tracing::error!(%error, "reviews");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "reviews cannot be kept", "the file of reviews cannot be used")
            .remedy("look at the server's messages; nothing that was confirmed is lost")
    }
}

impl From<RugeError> for Problem {
    fn from(error: RugeError) -> Self {
        match error {
            RugeError::UnknownName { kind, name, nearest, some, .. } => {
                let detail = format!("the model has no {kind} called {name:?}");
                let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown name", detail);
                let nearest = if nearest.is_empty() { some } else { nearest };
                Self { nearest, ..problem.remedy("search finds names: /api/v1/search?q=") }
            }
            RugeError::AmbiguousName { kind, name, choices, .. } => {
                let detail = format!("{} {kind} are called {name:?}", choices.len());
                let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "ambiguous name", detail);
                Self { nearest: choices, ..problem.remedy("give the name of one") }
            }
            RugeError::Refused(reason) => Self::refused(reason),
            RugeError::Cancelled(_) => Self::late(crate::app::SECONDS),
            error => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the work failed", error.to_string()),
        }
    }
}
