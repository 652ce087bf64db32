//! Who may ask: checked before anything else, for every request.
//!
//! A page anywhere on the web can make a browser send requests to this machine. So the `Host` must be one of ours (DNS rebinding), what
//! changes or computes by POST must come from our own pages or from a program and be JSON (CSRF), and no other origin may read
//! answers (no CORS). Outside of this machine a token is needed.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use sha2::{Digest, Sha256};

use crate::problem::Problem;

/// Characters that a token has at least.
pub const TOKEN: usize = 32;

/// Security headers of every answer.
pub const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
             base-uri 'none'; frame-ancestors 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// What requests must have.
#[derive(Clone, Default)]
pub struct Guard {
    hosts: Vec<String>,
    token: Option<[u8; 32]>,
}

impl Guard {
    /// For `localhost` and its addresses, and these hosts besides. A token is needed in every request if one is given.
    pub fn new(hosts: &[String], token: Option<&str>) -> Self {
        let own = ["localhost", "127.0.0.1", "[::1]"].map(str::to_string);
        let hosts = own.into_iter().chain(hosts.iter().map(|host| host.to_lowercase())).collect();
        Self { hosts, token: token.map(|token| Sha256::digest(token.as_bytes()).into()) }
    }

    /// Lets a request pass, or says why not.
    pub fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap, kind: &str) -> Result<(), Problem> {
        self.host(uri, headers)?;
        let path = uri.path();
        if path.contains("..") || path.contains(['\\', '%']) {
            return Err(missing(path));
        }
        self.token(headers)?;
        if method != Method::GET && method != Method::HEAD {
            from_us(headers)?;
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
        }
        Ok(())
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

    fn token(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(expected) = &self.token else { return Ok(()) };
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let bearer = text(header::AUTHORIZATION).strip_prefix("Bearer ");
        let cookie = || text(header::COOKIE).split(';').find_map(|pair| pair.trim().strip_prefix("ruge_token="));
        let given: [u8; 32] = Sha256::digest(bearer.or_else(cookie).unwrap_or_default().as_bytes()).into();
        // All bytes are compared, wherever the first difference is.
        let difference = given.iter().zip(expected).fold(0, |sum, (a, b)| sum | (a ^ b));
        if std::hint::black_box(difference) == 0 {
            return Ok(());
        }
        Err(Problem::new(StatusCode::UNAUTHORIZED, "no token", "this server answers only with its token")
            .remedy("send Authorization: Bearer TOKEN"))
    }
}

/// Whether a browser says that another site sent this.
fn from_us(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let passes = match (text(HeaderName::from_static("sec-fetch-site")), text(header::ORIGIN)) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        // Programs send neither; old browsers send an origin.
        (None, None) => true,
        (None, Some(origin)) => {
            let from = origin.split_once("://").map(|(_, host)| host);
            from.is_some() && from == text(header::HOST)
        }
    };
    match passes {
        true => Ok(()),
        false => Err(Problem::new(StatusCode::FORBIDDEN, "from another site", "a page of another site sent this")),
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
