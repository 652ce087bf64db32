//! Places for connections. Slow clients hold one each; when all are taken, the one that has waited for its client the longest goes.
//!
//! A connection waits for its client while headers or a body do not come, while an answer is not taken, and between two requests. While
//! a request is worked on it waits for nobody, and stays.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Frame, Incoming, SizeHint};
use rustc_hash::FxHashMap;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Within which a client takes some of its answer.
const STALL: Duration = Duration::from_secs(30);

/// All places.
pub struct Seats {
    taken: Arc<Mutex<FxHashMap<u64, Arc<Seat>>>>,
    free: Arc<Semaphore>,
    began: Instant,
    last: AtomicU64,
}

/// A place that is taken.
pub struct Taken {
    /// What the connection does.
    pub state: Arc<Seat>,
    all: Arc<Mutex<FxHashMap<u64, Arc<Seat>>>>,
    number: u64,
    _place: OwnedSemaphorePermit,
}

/// What a connection does.
pub struct Seat {
    began: Instant,
    /// When something last came or went, in milliseconds.
    moved: AtomicU64,
    /// Requests that are worked on, less bodies that do not come.
    working: AtomicIsize,
    gives_up: Notify,
}

impl Seats {
    /// So many.
    pub fn new(count: usize) -> Self {
        let (free, last) = (Arc::new(Semaphore::new(count)), AtomicU64::new(0));
        Self { taken: Arc::default(), free, began: Instant::now(), last }
    }

    /// Takes a place; if there is none, that of the connection that has waited for its client the longest.
    pub async fn take(&self) -> Taken {
        let place = match Arc::clone(&self.free).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                self.give_one_up();
                // If all are worked on, the first that ends.
                let place = Arc::clone(&self.free).acquire_owned().await;
                place.unwrap_or_else(|_| unreachable!("it is never closed"))
            }
        };
        let state = Arc::new(Seat {
            began: self.began,
            moved: AtomicU64::new(0),
            working: AtomicIsize::new(0),
            gives_up: Notify::new(),
        });
        state.moves();
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        lock(&self.taken).insert(number, Arc::clone(&state));
        Taken { state, all: Arc::clone(&self.taken), number, _place: place }
    }

    fn give_one_up(&self) {
        let taken = lock(&self.taken);
        let waiting = taken.values().filter(|seat| seat.working.load(Ordering::Relaxed) <= 0);
        if let Some(seat) = waiting.min_by_key(|seat| seat.moved.load(Ordering::Relaxed)) {
            seat.gives_up.notify_one();
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.number);
    }
}

fn lock(all: &Mutex<FxHashMap<u64, Arc<Seat>>>) -> std::sync::MutexGuard<'_, FxHashMap<u64, Arc<Seat>>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seat {
    fn moves(&self) {
        self.moved.store(self.began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// A request is worked on until this is dropped.
    pub fn works(self: &Arc<Self>) -> Works {
        self.working.fetch_add(1, Ordering::Relaxed);
        Works(Arc::clone(self))
    }

    /// When the place is needed for others.
    pub async fn given_up(&self) {
        self.gives_up.notified().await;
    }
}

/// A request that is worked on.
pub struct Works(Arc<Seat>);

impl Drop for Works {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::Relaxed);
        self.0.moves();
    }
}

/// A body that says when it waits for its client.
pub struct Watched {
    body: Incoming,
    seat: Arc<Seat>,
    waits: bool,
}

impl Watched {
    /// Of a request on that connection, which is worked on.
    pub fn new(body: Incoming, seat: Arc<Seat>) -> Self {
        Self { body, seat, waits: false }
    }

    fn wait(&mut self, waits: bool) {
        if waits != self.waits {
            self.waits = waits;
            self.seat.working.fetch_add(if waits { -1 } else { 1 }, Ordering::Relaxed);
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.wait(false);
    }
}

impl Body for Watched {
    type Data = bytes::Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.wait(polled.is_pending());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection that is cut when its client takes nothing of an answer for too long.
pub struct Patient {
    stream: TcpStream,
    seat: Arc<Seat>,
    /// Runs while nothing can be sent.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    /// A connection with its place.
    pub fn new(stream: TcpStream, seat: Arc<Seat>) -> Self {
        Self { stream, seat, stalled: None }
    }

    fn watched<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.seat.moves();
            self.stalled = None;
            return polled;
        }
        let alarm = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALL)));
        ready!(alarm.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if polled.is_ready() {
            self.seat.moves();
        }
        polled
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.watched(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_waits_longest_makes_room() {
        let seats = Seats::new(3);
        let (working, slow, quick) = (seats.take().await, seats.take().await, seats.take().await);
        working.state.moved.store(1, Ordering::Relaxed);
        slow.state.moved.store(2, Ordering::Relaxed);
        quick.state.moved.store(3, Ordering::Relaxed);
        let works = working.state.works();
        let leaves = async {
            slow.state.given_up().await;
            drop(slow);
        };
        let (next, ()) = tokio::join!(seats.take(), leaves);
        // With all at work, somebody has to end.
        let (also, too) = (quick.state.works(), next.state.works());
        let ends = async {
            drop(works);
            drop(working);
        };
        let (last, ()) = tokio::join!(seats.take(), ends);
        drop((also, too, last, next, quick));
        assert_eq!((seats.free.available_permits(), lock(&seats.taken).len()), (3, 0));
    }
}
