//! Downloads: from an address to a verified file, through cut connections and moody servers.
//!
//! The bytes go to `FILE.part`. When the connection breaks, the part stays and the next request, in this run or in
//! another one, asks for the rest (`Range`). Servers may ignore that and send everything, or refuse it, or have
//! another file by now; all of these start the part anew. Only when the whole file has the published digest does it
//! get its name. A part with a wrong digest is removed: nothing good can be built on it.

use std::io::{self, Read};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Error, Result, anyhow, bail};
use ureq::http::{HeaderMap, Response, StatusCode, header};
use ureq::{Agent, Body};

use super::catalog::Remote;
use super::part::PartialFile;
use super::staged::MAX_FILE_BYTES;
use crate::console::Console;
use crate::progress;

/// How long to wait for a connection before calling it none.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a connection may stay silent before it counts as cut. The whole download has no limit of its own: a slow
/// line is not an error.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// The first pause between attempts; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// No pause is longer, whatever the server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Something that downloads, with its settings.
#[derive(Debug)]
pub struct Fetcher<'a> {
    agent: Agent,
    base_url: Option<&'a str>,
    retries: u32,
    console: Console,
    advice: String,
}

/// How one request ended when it did not deliver.
enum Failure {
    /// The part does not fit the file: it was emptied, ask again at once.
    StartAnew,
    /// Worth another attempt, perhaps after the pause the server asked for.
    Transient(Error, Option<Duration>),
    /// Trying again would not help.
    Fatal(Error),
}

impl<'a> Fetcher<'a> {
    /// `base_url` replaces scheme and host of every address; `advice` closes the errors that the network causes.
    pub fn new(base_url: Option<&'a str>, retries: u32, console: Console, advice: String) -> Self {
        let config = Agent::config_builder()
            // A mirror in the user's own network may do without; the published addresses may not, even redirected.
            .https_only(base_url.is_none())
            .http_status_as_error(false)
            .timeout_resolve(Some(CONNECT_TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(SILENCE_TIMEOUT))
            .timeout_per_read(Some(SILENCE_TIMEOUT))
            .timeout_per_write(Some(SILENCE_TIMEOUT))
            .user_agent(concat!("ruge/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: config.new_agent(), base_url, retries, console, advice }
    }

    /// Downloads `remote` to `target`. On success the file is whole, verified and on the disk.
    pub fn fetch(&self, remote: &Remote, target: &Path) -> Result<()> {
        let url = self.address(&remote.url)?;
        let mut part = PartialFile::open(target)?;
        self.console.note(&format!("fetching {url}"));
        match self.fill_and_verify(&url, remote, &mut part) {
            Ok(()) => part.finish(),
            Err(error) => {
                part.abandon();
                Err(error)
            }
        }
    }

    /// Downloads until the part has the published digest. A part left by an earlier run may belong to another file;
    /// that shows only in the end, and then deserves one attempt from the beginning.
    fn fill_and_verify(&self, url: &str, remote: &Remote, part: &mut PartialFile) -> Result<()> {
        let mut inherited = part.len()? > 0;
        loop {
            self.fill(url, remote, part)?;
            let actual = part.digest(&remote.digest)?;
            if actual == remote.digest {
                return Ok(());
            }
            part.empty()?;
            if !inherited {
                bail!(
                    "the download is corrupted\n  from     {url}\n  file     {}\n  expected {}\n  actual   {actual}\n  \
                     the file was removed; run the same command again to start anew. If the digest stays the same, \
                     the publisher has changed the file: {}",
                    part.path().display(),
                    remote.digest,
                    self.advice,
                );
            }
            self.console.note(&format!("{} does not match the published file, starting again", part.path().display()));
            inherited = false;
        }
    }

    /// Downloads until the part is as long as the file, with a bounded number of attempts.
    fn fill(&self, url: &str, remote: &Remote, part: &mut PartialFile) -> Result<()> {
        let mut retries = 0;
        let mut pause = FIRST_PAUSE;
        loop {
            match self.attempt(url, remote, part) {
                Ok(()) => return Ok(()),
                // Cannot go on for ever: an empty part is not asked to be resumed.
                Err(Failure::StartAnew) => {}
                Err(Failure::Fatal(error)) => return Err(error),
                Err(Failure::Transient(error, asked)) => {
                    if retries == self.retries {
                        let kept = match part.len()? {
                            0 => "run the same command again later".to_owned(),
                            kept => format!(
                                "{kept} bytes are kept in {}; run the same command again to resume",
                                part.path().display()
                            ),
                        };
                        let attempts = match retries {
                            0 => "1 attempt".to_owned(),
                            _ => format!("{} attempts", retries + 1),
                        };
                        bail!(
                            "the download did not finish in {attempts}: {error:#}\n  from {url}\n  {kept}, or {}",
                            self.advice
                        );
                    }
                    retries += 1;
                    let wait = asked.unwrap_or(pause).min(LONGEST_PAUSE);
                    self.console.note(&format!("{error:#}; trying again in {:.1} s", wait.as_secs_f32()));
                    thread::sleep(wait);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// One request, for all of the file or for what the part lacks.
    fn attempt(&self, url: &str, remote: &Remote, part: &mut PartialFile) -> Result<(), Failure> {
        let mut have = part.len()?;
        if let Some(bytes) = remote.bytes {
            if have == bytes {
                return Ok(());
            }
            if have > bytes {
                part.empty()?;
                have = 0;
            }
        }
        // Ranges count the bytes of the file only when nothing is compressed on the way.
        let mut request = self.agent.get(url).header(header::ACCEPT_ENCODING, "identity");
        if have > 0 {
            request = request.header(header::RANGE, format!("bytes={have}-"));
        }
        let mut response = request.call().map_err(|error| self.classify(error, url))?;
        let total = match response.status() {
            StatusCode::OK => response.body().content_length(),
            StatusCode::PARTIAL_CONTENT => match content_range(response.headers()) {
                Some((Some(start), total)) if start == have => total,
                _ if have > 0 => {
                    part.empty()?;
                    return Err(Failure::StartAnew);
                }
                _ => {
                    let problem = anyhow!("the server sent a part of the file that was not asked for\n  from {url}");
                    return Err(Failure::Fatal(problem));
                }
            },
            StatusCode::RANGE_NOT_SATISFIABLE if have > 0 => {
                // "Nothing after byte N" is good news when the file has exactly N bytes.
                if content_range(response.headers()) == Some((None, Some(have))) {
                    return Ok(());
                }
                part.empty()?;
                return Err(Failure::StartAnew);
            }
            _ => return Err(self.refusal(&response, url)),
        };
        if let (Some(total), Some(bytes)) = (total, remote.bytes)
            && total != bytes
        {
            // Often the page of a hotel's or a proxy's login: no use in storing it, nor in losing a good part to it.
            return Err(Failure::Fatal(anyhow!(
                "the server has another file: {total} bytes instead of {bytes}\n  from {url}\n  {}",
                self.advice
            )));
        }
        if response.status() == StatusCode::OK {
            part.empty()?;
        }
        self.receive(&mut response, part, total.or(remote.bytes))
    }

    /// Appends the body to the part, until that has `total` bytes.
    fn receive(
        &self,
        response: &mut Response<Body>,
        part: &mut PartialFile,
        total: Option<u64>,
    ) -> Result<(), Failure> {
        part.seek_end()?;
        let mut have = part.len()?;
        let bar = self.progress_bar(part.path(), have, total);
        let mut reader = response.body_mut().as_reader();
        let mut buffer = vec![0; 1 << 16];
        let cut = loop {
            match reader.read(&mut buffer) {
                Ok(0) => break None,
                Ok(count) => {
                    part.write(&buffer[..count])?;
                    have += count as u64;
                    bar.set_position(have);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Some(error),
            }
            if have > MAX_FILE_BYTES {
                part.empty()?;
                let problem = anyhow!("the server sends more than {MAX_FILE_BYTES} bytes; no known set is that large");
                return Err(Failure::Fatal(problem));
            }
        };
        bar.finish_and_clear();
        let whole = total.is_none_or(|total| have >= total);
        if cut.is_none() && whole {
            return Ok(());
        }
        let size = total.map_or(String::new(), |total| format!(" of {total}"));
        let reason = cut.map_or(String::new(), |error| format!(" ({error})"));
        Err(Failure::Transient(anyhow!("the connection was cut after {have}{size} bytes{reason}"), None))
    }

    /// What a status that brings no file means for us.
    fn refusal(&self, response: &Response<Body>, url: &str) -> Failure {
        let status = response.status();
        if matches!(status.as_u16(), 408 | 425 | 429) || status.is_server_error() {
            let asked = response.headers().get(header::RETRY_AFTER);
            let seconds = asked.and_then(|value| value.to_str().ok()?.trim().parse().ok());
            let pause = seconds.map(Duration::from_secs);
            return Failure::Transient(anyhow!("the server answered {status}"), pause);
        }
        let meaning = match status.as_u16() {
            404 | 410 => "the file is no longer published there",
            401 | 403 | 407 | 451 => "access was refused",
            _ => "this is not a download",
        };
        Failure::Fatal(anyhow!("the server answered {status}: {meaning}\n  from {url}\n  {}", self.advice))
    }

    /// Tells a missing network and a wrong address, which will not heal in seconds, from a hiccup, which may.
    fn classify(&self, error: ureq::Error, url: &str) -> Failure {
        use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable};
        let no_network = match &error {
            ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => true,
            ureq::Error::Timeout(phase) => {
                matches!(phase, ureq::Timeout::Resolve | ureq::Timeout::Connect)
            }
            // The resolver reports its failures as uncategorised errors, and only the resolver does.
            ureq::Error::Io(cause) => {
                matches!(cause.kind(), ConnectionRefused | HostUnreachable | NetworkDown | NetworkUnreachable)
                    || cause.to_string().contains("lookup address")
            }
            _ => false,
        };
        if no_network {
            let host = url.split('/').nth(2).unwrap_or(url);
            return Failure::Fatal(anyhow!(
                "cannot reach {host}: {error}\n  from {url}\n  is there a network? {}",
                self.advice
            ));
        }
        match error {
            ureq::Error::Io(_) | ureq::Error::Timeout(_) | ureq::Error::Protocol(_) => {
                Failure::Transient(anyhow!(error).context("the connection failed"), None)
            }
            _ => Failure::Fatal(anyhow!("cannot download: {error}\n  from {url}\n  {}", self.advice)),
        }
    }

    /// The address to ask, with scheme and host replaced where a mirror was named.
    fn address(&self, url: &str) -> Result<String> {
        let Some(base) = self.base_url else {
            return Ok(url.to_owned());
        };
        let path = url.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        let (_, path) = path.ok_or_else(|| anyhow!("the catalog's address {url} has no path"))?;
        Ok(format!("{}/{path}", base.trim_end_matches('/')))
    }

    /// A bar on a terminal, nothing elsewhere.
    fn progress_bar(&self, part: &Path, have: u64, total: Option<u64>) -> progress::Bar {
        let name = part.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let bar = progress::bytes(self.console, &name, total).with_position(have);
        // Speed and time left speak of this connection, not of what an earlier one brought.
        bar.reset_eta();
        bar
    }
}

/// Disk trouble is never worth another attempt.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

/// `Content-Range: bytes 5-9/10` is `(Some(5), Some(10))`, `bytes */10` is `(None, Some(10))`.
fn content_range(headers: &HeaderMap) -> Option<(Option<u64>, Option<u64>)> {
    let value = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    let (range, total) = value.trim().strip_prefix("bytes")?.trim().split_once('/')?;
    let start = range.split_once('-').and_then(|(start, _)| start.trim().parse().ok());
    Some((start, total.trim().parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_read() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_RANGE, text.parse().unwrap());
            content_range(&headers)
        };
        assert_eq!(read("bytes 5-9/10"), Some((Some(5), Some(10))));
        assert_eq!(read("bytes 5-9/*"), Some((Some(5), None)));
        assert_eq!(read("bytes */10"), Some((None, Some(10))));
        assert_eq!(read("lines 5-9/10"), None);
        assert_eq!(content_range(&HeaderMap::new()), None);
    }

    #[test]
    fn mirrors_replace_scheme_and_host() {
        let console = Console { quiet: true, json: false };
        let fetcher = Fetcher::new(Some("http://127.0.0.1:8000/"), 0, console, String::new());
        assert_eq!(fetcher.address("https://a.org/b/c.txt").unwrap(), "http://127.0.0.1:8000/b/c.txt");
        let plain = Fetcher::new(None, 0, console, String::new());
        assert_eq!(plain.address("https://a.org/b/c.txt").unwrap(), "https://a.org/b/c.txt");
    }
}
