//! Style and scripts, compiled in. Nothing is read from the disk, and nothing from elsewhere.

use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use ruge::model_file::hex;
use sha2::{Digest, Sha256};

use crate::app::sent;

/// A file of the pages.
pub struct Asset {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
    tag: String,
}

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let asset = |(path, kind, text): (&'static str, &'static str, &'static str)| {
        let tag = format!("\"{}\"", &hex(&Sha256::digest(text.as_bytes()))[..16]);
        Asset { path, kind, text, tag }
    };
    let script = "text/javascript; charset=utf-8";
    [
        ("/assets/ruge.css", "text/css; charset=utf-8", include_str!("../assets/ruge.css")),
        ("/assets/ruge.js", script, include_str!("../assets/ruge.js")),
        ("/assets/review.js", script, include_str!("../assets/review.js")),
        ("/assets/fact.js", script, include_str!("../assets/fact.js")),
        ("/assets/graph.js", script, include_str!("../assets/graph.js")),
        ("/assets/icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
        ("/favicon.ico", "image/svg+xml", include_str!("../assets/icon.svg")),
    ]
    .map(asset)
    .into()
});

/// The file at a path.
pub fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

impl Asset {
    /// The file, or that it has not changed.
    pub fn answer(&self, headers: &HeaderMap) -> Response {
        let is_same = headers.get(header::IF_NONE_MATCH).is_some_and(|tag| tag.as_bytes() == self.tag.as_bytes());
        let mut response = match is_same {
            true => sent(StatusCode::NOT_MODIFIED, self.kind, Body::empty()),
            false => sent(StatusCode::OK, self.kind, Body::from(self.text)),
        };
        if let Ok(tag) = HeaderValue::from_str(&self.tag) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}
