//! The accept loop.
//!
//! It is our own because the one of axum sets no timer: without it hyper never closes a connection whose headers do not come, and a
//! few hundred of them block a server.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as Socket};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use axum::body::Body;
use hyper::service::Service as _;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustc_hash::FxHashMap;
use tokio::net::{TcpListener, TcpStream};

use crate::app::App;
use crate::guard::TOKEN;
use crate::seats::{Patient, Seats, Watched};

/// Connections at the same time.
const CONNECTIONS: usize = 512;
/// Within which the headers of a request must come.
const HEADERS: Duration = Duration::from_secs(10);
/// Within which requests end after a signal.
const DRAIN: Duration = Duration::from_secs(10);
/// Between two looks at the model file.
const LOOK: Duration = Duration::from_secs(2);
/// Connections from one address at the same time, where others than this machine can reach the server.
const FROM_ONE: usize = 64;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Others could reach it, and anybody would be answered.
    #[error("{address}: not an address of this machine alone, and there is no token")]
    Open {
        /// Where it should listen.
        address: SocketAddr,
    },
    /// A token that could be guessed.
    #[error("the token has {length} characters; at least {TOKEN} are needed")]
    ShortToken {
        /// Its length.
        length: usize,
    },
    /// Another program listens there.
    #[error("{address}: another program listens there")]
    Taken {
        /// Where.
        address: SocketAddr,
        /// The next port that is free.
        free: Option<u16>,
    },
    /// The system refuses.
    #[error("{address}: cannot listen: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Its answer.
        source: io::Error,
    },
    /// The network failed.
    #[error("the network cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// Listens; not outside of this machine without a token.
pub fn bind(address: SocketAddr, token: Option<&str>) -> Result<Socket, ServeError> {
    match token.map(|token| token.chars().count()) {
        None if !address.ip().is_loopback() => return Err(ServeError::Open { address }),
        Some(length) if length < TOKEN => return Err(ServeError::ShortToken { length }),
        _ => {}
    }
    Socket::bind(address).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ServeError::Taken { address, free: free_port(address) },
        _ => ServeError::Listen { address, source },
    })
}

/// The other address of this machine by itself, at the same port.
fn beside(address: SocketAddr) -> Option<Socket> {
    let other: IpAddr = match address.ip() {
        IpAddr::V4(Ipv4Addr::LOCALHOST) => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Ipv4Addr::LOCALHOST.into(),
        _ => return None,
    };
    Socket::bind((other, address.port())).ok()
}

/// The next port that is free, at most a hundred further on.
fn free_port(address: SocketAddr) -> Option<u16> {
    let ports = address.port().saturating_add(1)..=address.port().saturating_add(100);
    ports.into_iter().find(|&port| Socket::bind((address.ip(), port)).is_ok())
}

/// Answers until a signal comes, then ends what has begun. On this machine alone, both of its addresses are listened at where they
/// can be had: `localhost` may mean either.
pub fn serve(app: &Arc<App>, socket: Socket) -> Result<(), ServeError> {
    let other = socket.local_addr().ok().and_then(beside);
    let sockets = std::iter::once(socket).chain(other).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(accept(app, sockets));
    // Connections that do not end are cut.
    runtime.shutdown_timeout(Duration::from_millis(200));
    done
}

async fn accept(app: &Arc<App>, sockets: Vec<Socket>) -> Result<(), ServeError> {
    let mut stop = std::pin::pin!(signal());
    let watch = tokio::spawn(watch(Arc::downgrade(app)));
    let (seats, graceful) = (Seats::new(CONNECTIONS), GracefulShutdown::new());
    let places_of: Arc<Mutex<FxHashMap<IpAddr, usize>>> = Arc::default();
    let (sender, mut arrived) = tokio::sync::mpsc::channel(1);
    let mut listening = Vec::new();
    for socket in sockets {
        socket.set_nonblocking(true)?;
        let listener = TcpListener::from_std(socket)?;
        listening.push(tokio::spawn(listen(listener, sender.clone())));
    }
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_headers(64).max_buf_size(1 << 16);
    loop {
        let next = tokio::select! {
            _ = &mut stop => break,
            next = arrived.recv() => next,
        };
        let Some((stream, from, is_open)) = next else { break };
        let _ = stream.set_nodelay(true);
        let own = Counted::new(&places_of, from.ip());
        if is_open && own.count > FROM_ONE {
            continue;
        }
        let seat = tokio::select! {
            _ = &mut stop => break,
            seat = seats.take() => seat,
        };
        let (app, of_request) = (Arc::clone(app), Arc::clone(&seat.state));
        let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let (router, seat) = (TowerToHyperService::new(app.router()), Arc::clone(&of_request));
            let request = request.map(|body| Body::new(Watched::new(body, Arc::clone(&seat))));
            async move {
                let _working = seat.works();
                router.call(request).await
            }
        });
        let io = TokioIo::new(Patient::new(stream, Arc::clone(&seat.state)));
        let connection = graceful.watch(builder.serve_connection(io, service));
        tokio::spawn(async move {
            tokio::select! {
                // Clients that break off are no error of ours.
                _ = connection => {}
                // Others need the place, and this one has waited for its client the longest.
                () = seat.state.given_up() => {}
            }
            drop((seat, own));
        });
    }
    listening.iter().for_each(tokio::task::JoinHandle::abort);
    watch.abort();
    tokio::select! {
        () = graceful.shutdown() => {}
        () = tokio::time::sleep(DRAIN) => {}
        _ = signal() => {}
    }
    Ok(())
}

/// Passes on who comes, with whether others than this machine can come.
async fn listen(listener: TcpListener, sender: tokio::sync::mpsc::Sender<(TcpStream, SocketAddr, bool)>) {
    let is_open = listener.local_addr().is_ok_and(|address| !address.ip().is_loopback());
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                if sender.send((stream, from, is_open)).await.is_err() {
                    return;
                }
            }
            // Too many open files, or a client that is gone already: others may do better.
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// A connection of an address, counted while it lasts.
struct Counted {
    all: Arc<Mutex<FxHashMap<IpAddr, usize>>>,
    from: IpAddr,
    count: usize,
}

impl Counted {
    fn new(all: &Arc<Mutex<FxHashMap<IpAddr, usize>>>, from: IpAddr) -> Self {
        let mut counts = all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let count = counts.entry(from).or_default();
        *count += 1;
        Self { all: Arc::clone(all), from, count: *count }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(count) = counts.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.from);
            }
        }
    }
}

/// Reads the model again when its file changes, or when asked by SIGHUP.
async fn watch(app: Weak<App>) {
    let mut hangup = Hangup::new();
    loop {
        let is_asked = tokio::select! {
            () = tokio::time::sleep(LOOK) => false,
            () = hangup.came() => true,
        };
        let Some(app) = app.upgrade() else { return };
        app.look_at_file(is_asked);
    }
}

/// SIGHUP, where there is one.
struct Hangup {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangup {
    #[cfg(unix)]
    fn new() -> Self {
        Self { signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok() }
    }

    #[cfg(not(unix))]
    fn new() -> Self {
        Self {}
    }

    async fn came(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

#[cfg(unix)]
async fn signal() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        done = tokio::signal::ctrl_c() => done,
    }
}

#[cfg(not(unix))]
async fn signal() -> io::Result<()> {
    tokio::signal::ctrl_c().await
}

/// Where a server listens unless told otherwise.
pub const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7997);
