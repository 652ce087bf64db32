//! A web server small enough to misbehave on purpose.
//!
//! Every connection carries one request. What is answered is decided by a closure, which sees the request and how
//! many came before it; what was asked is written down for the test to read.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    pub path: String,
    /// The first byte of an open range, `bytes=N-`.
    pub range: Option<usize>,
}

/// What is answered.
pub struct Reply {
    status: &'static str,
    headers: String,
    body: Vec<u8>,
    /// How much of the body is sent before the connection is closed.
    sent: usize,
}

impl Reply {
    /// An answer with any status.
    pub fn new(status: &'static str, body: &[u8]) -> Self {
        Self { status, headers: String::new(), body: body.to_vec(), sent: body.len() }
    }

    /// The whole file, whatever was asked.
    pub fn whole(body: &[u8]) -> Self {
        Self::new("200 OK", body)
    }

    /// What a well-behaved server answers: the rest of the file when a range is asked for.
    pub fn ranged(request: &Request, body: &[u8]) -> Self {
        match request.range {
            None => Self::whole(body),
            Some(start) if start < body.len() => Self::new("206 Partial Content", &body[start..]).header(&format!(
                "Content-Range: bytes {start}-{}/{}",
                body.len() - 1,
                body.len()
            )),
            Some(_) => {
                Self::new("416 Range Not Satisfiable", b"").header(&format!("Content-Range: bytes */{}", body.len()))
            }
        }
    }

    pub fn header(mut self, line: &str) -> Self {
        self.headers.push_str(line);
        self.headers.push_str("\r\n");
        self
    }

    /// Promises the whole body, but hangs up after `count` bytes.
    pub fn cut_after(mut self, count: usize) -> Self {
        self.sent = count.min(self.body.len());
        self
    }
}

/// The running server; it stops when dropped.
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts on a free port. `answer` gets each request and the number of those before it.
    pub fn start(answer: impl Fn(&Request, usize) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (log, stopped) = (Arc::clone(&requests), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let Some(request) = read_request(&stream) else {
                    continue;
                };
                let before = {
                    let mut log = log.lock().expect("the log");
                    log.push(request.clone());
                    log.len() - 1
                };
                // The client may have hung up; the test will notice if it should not have.
                let _ = write_reply(&stream, &answer(&request, before));
            }
        });
        Self { address, requests, stop, thread: Some(thread) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("the log").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the listener, so that it sees the flag.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let mut lines = BufReader::new(stream).lines();
    let path = lines.next()?.ok()?.split(' ').nth(1)?.to_owned();
    let mut range = None;
    for line in lines {
        let line = line.ok()?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("range: bytes=") {
            range = value.strip_suffix('-').and_then(|start| start.parse().ok());
        }
    }
    Some(Request { path, range })
}

fn write_reply(mut stream: &TcpStream, reply: &Reply) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n",
        reply.status,
        reply.body.len(),
        reply.headers
    )?;
    stream.write_all(&reply.body[..reply.sent])?;
    stream.flush()?;
    stream.shutdown(Shutdown::Write)?;
    // Waits for the client to hang up: closing first could throw away what it has not read yet.
    stream.read_to_end(&mut Vec::new()).map(drop)
}
