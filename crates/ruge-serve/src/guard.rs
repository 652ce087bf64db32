//! Who may ask: checked before anything else, for every request.
//!
//! A page anywhere on the web can make a browser send requests to this machine. So the `Host` must be one of ours (DNS rebinding), what
//! changes or computes by POST must come from our own pages or from a program and be JSON (CSRF), and no other origin may read
//! answers (no CORS). Outside of this machine a token is needed.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use sha2::{Digest, Sha256};

use crate::problem::Problem;

/// Characters that a token has at least.
pub const TOKEN: usize = 32;

/// What a form sends.
pub const FORM: &str = "application/x-www-form-urlencoded";

/// Security headers of every answer, besides the policy.
pub const HEADERS: [(HeaderName, HeaderValue); 3] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// What pages may load: only what is here. Other origins may show them in a frame if they are named.
pub fn policy(frames: &[String]) -> Option<HeaderValue> {
    let frames = if frames.is_empty() { "'none'".to_string() } else { frames.join(" ") };
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors {frames}"
    );
    HeaderValue::from_str(&policy).ok().filter(|_| !frames.contains([';', ',']))
}

/// What a drawing may have that is opened by itself: the style within it, and no script.
pub const DRAWING: HeaderValue =
    HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox");

/// What the report of a run may do: what is within it, as if it were a file of its own. It reaches nothing of this server.
pub const REPORT: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; \
     sandbox allow-scripts allow-popups",
);

/// A token as a cookie holds it: what would end one is encoded.
pub fn in_cookie(token: &str) -> String {
    form_urlencoded::byte_serialize(token.as_bytes()).collect()
}

/// A token as a cookie has it.
fn of_cookie(value: &str) -> String {
    let pair = format!("t={value}");
    form_urlencoded::parse(pair.as_bytes()).next().map(|(_, token)| token.into_owned()).unwrap_or_default()
}

/// What requests must have.
#[derive(Clone, Default)]
pub struct Guard {
    hosts: Vec<String>,
    token: Option<[u8; 32]>,
    /// Origins whose pages may read answers.
    origins: Vec<String>,
}

impl Guard {
    /// For `localhost` and its addresses, and these hosts besides. A token is needed in every request if one is given.
    pub fn new(hosts: &[String], token: Option<&str>) -> Self {
        let own = ["localhost", "127.0.0.1", "[::1]"].map(str::to_string);
        let hosts = own.into_iter().chain(hosts.iter().map(|host| host.to_lowercase())).collect();
        Self { hosts, token: token.map(|token| Sha256::digest(token.as_bytes()).into()), origins: Vec::new() }
    }

    /// The same for pages of other origins too, such as `https://app.example.org`.
    #[must_use]
    pub fn shared(self, origins: &[String]) -> Self {
        // Files and sandboxed frames of anybody call themselves `null`.
        let named = origins.iter().filter(|origin| origin.contains("://"));
        let origins = named.map(|origin| origin.trim_end_matches('/').to_string()).collect();
        Self { origins, ..self }
    }

    /// Whether a token is needed.
    pub fn asks_for_token(&self) -> bool {
        self.token.is_some()
    }

    /// Refuses requests to hosts and paths that are not ours.
    pub fn place(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        self.host(uri, headers)?;
        let path = uri.path();
        if path.contains("..") || path.contains(['\\', '%']) {
            return Err(missing(path));
        }
        Ok(())
    }

    /// Refuses what another site sent, and bodies of another kind. A form must say where it comes from.
    pub fn body(&self, headers: &HeaderMap, kind: &str) -> Result<(), Problem> {
        self.sent_by_us(headers, kind == FORM)?;
        let is = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !is.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(kind) {
            let detail = format!("the body must be {kind}");
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "wrong content type", detail)
                .remedy(format!("send Content-Type: {kind}")));
        }
        if headers.contains_key(header::CONTENT_ENCODING) {
            let detail = "compressed bodies are not read";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "compressed body", detail)
                .remedy("send it without Content-Encoding"));
        }
        Ok(())
    }

    /// The origin of a request, if pages from there may read answers.
    pub fn shared_with<'h>(&self, headers: &'h HeaderMap) -> Option<&'h HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        self.origins.iter().any(|known| known.as_bytes() == origin.as_bytes()).then_some(origin)
    }

    fn host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let mut given = headers.get_all(header::HOST).iter();
        let (first, second) = (given.next(), given.next());
        let host = first.filter(|_| second.is_none()).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_ours = |host: &str| self.hosts.iter().any(|own| *own == without_port(host).to_lowercase());
        // An address in the first line of a request counts as well.
        if is_ours(host) && uri.authority().is_none_or(|authority| is_ours(authority.as_str())) {
            return Ok(());
        }
        Err(Problem::new(StatusCode::FORBIDDEN, "unknown host", "the Host header names none of this server's hosts")
            .remedy("start the server with --allow-host NAME"))
    }

    /// Refuses requests without the token, where one is set.
    pub fn token(&self, headers: &HeaderMap) -> Result<(), Problem> {
        if self.token.is_none() {
            return Ok(());
        }
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let bearer = text(header::AUTHORIZATION).strip_prefix("Bearer ");
        let cookie = || text(header::COOKIE).split(';').find_map(|pair| pair.trim().strip_prefix("ruge_token="));
        let given = bearer.map(str::to_string).or_else(|| cookie().map(of_cookie));
        if self.is_token(given.as_deref().unwrap_or_default()) {
            return Ok(());
        }
        Err(Problem::new(StatusCode::UNAUTHORIZED, "no token", "this server answers only with its token")
            .remedy("send Authorization: Bearer TOKEN"))
    }

    /// Whether this is the token. All bytes are compared, wherever the first difference is.
    pub fn is_token(&self, given: &str) -> bool {
        let Some(expected) = &self.token else { return false };
        let given: [u8; 32] = Sha256::digest(given.as_bytes()).into();
        std::hint::black_box(given.iter().zip(expected).fold(0, |sum, (a, b)| sum | (a ^ b))) == 0
    }

    /// Refuses what a browser says another site sent.
    fn sent_by_us(&self, headers: &HeaderMap, is_form: bool) -> Result<(), Problem> {
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let passes = match (text(HeaderName::from_static("sec-fetch-site")), text(header::ORIGIN)) {
            _ if !is_form && self.shared_with(headers).is_some() => true,
            (Some(site), _) => matches!(site, "same-origin" | "none"),
            // Programs send neither, and no forms; old browsers send an origin.
            (None, None) => !is_form,
            (None, Some(origin)) => {
                let from = origin.split_once("://").map(|(_, host)| host);
                from.is_some() && from == text(header::HOST)
            }
        };
        match passes {
            true => Ok(()),
            false => Err(Problem::new(StatusCode::FORBIDDEN, "from another site", "a page of another site sent this")
                .remedy("use the pages of this server, or send JSON from a program")),
        }
    }
}

/// `host` of `host:port`; an address in brackets keeps them.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') =>
        {
            name
        }
        _ => host,
    }
}

/// Nothing is there.
pub fn missing(path: &str) -> Problem {
    let path = ruge_kg::visible::cut(path, 80);
    Problem::new(StatusCode::NOT_FOUND, "not found", format!("there is nothing at {path}")).remedy("see /openapi.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_no_part_of_a_host() {
        for (given, host) in [("localhost:7997", "localhost"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("a:", "a:")]
        {
            assert_eq!(without_port(given), host);
        }
    }
}
