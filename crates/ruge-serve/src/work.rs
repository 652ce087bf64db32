//! Work on threads of its own, behind a bounded queue.
//!
//! The threads of the network never compute. A job waits for a thread of the pool; when too many wait, new ones are refused at once.
//! When the one who asked is gone, axum drops the future, and with it a guard that cancels the job: a flag is the only way to
//! stop work on another thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;
use rayon::ThreadPool;
use ruge::Cancel;
use tokio::sync::{Semaphore, oneshot};

use crate::problem::Problem;

/// The pool and its queue.
pub struct Work {
    pool: ThreadPool,
    places: Arc<Semaphore>,
    queue: usize,
    /// Jobs that panicked.
    pub panics: AtomicU64,
}

/// Cancels a job when it is dropped.
struct Leaving(Cancel);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Work {
    /// With so many threads and places in the queue.
    pub fn new(threads: usize, queue: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        let pool =
            rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|at| format!("work-{at}")).build()?;
        Ok(Self { pool, places: Arc::new(Semaphore::new(queue)), queue, panics: AtomicU64::new(0) })
    }

    /// Jobs that wait or run.
    pub fn waiting(&self) -> usize {
        self.queue - self.places.available_permits()
    }

    /// Does it on the pool; a panic is a problem of this job alone.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Cancel) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| Problem::busy(self.queue))?;
        let cancel = Cancel::new();
        let leaving = Leaving(cancel.clone());
        let (sender, receiver) = oneshot::channel();
        self.pool.spawn(move || {
            // Whoever left while this waited wants nothing any more.
            if !cancel.is_cancelled() {
                let _ = sender.send(catch_unwind(AssertUnwindSafe(|| job(&cancel))));
            }
            drop(place);
        });
        let outcome = receiver.await;
        drop(leaving);
        match outcome {
            Ok(Ok(answer)) => answer,
            _ => {
                self.panics.fetch_add(1, Ordering::Relaxed);
                Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the work failed", "the program met a bug")
                    .remedy("other requests are not affected; please report what was asked"))
            }
        }
    }
}
