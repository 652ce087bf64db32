//! Work on threads of its own, behind a bounded queue.
//!
//! The threads of the network never compute. A job waits for a thread of the pool; when too many wait, new ones are refused at once.
//! When the one who asked is gone, axum drops the future, and with it a guard that cancels the job: a flag is the only way to
//! stop work on another thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::ThreadPool;
use ruge::Cancel;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

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

    /// Threads that compute.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// A place in the queue, if there is one.
    pub fn place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| Problem::busy(self.queue))
    }

    /// Does it on the pool, whoever waits for it.
    pub fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        self.pool.spawn(job);
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
        let place = self.place()?;
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
                Err(Problem::bug())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_problem_of_one_request() {
        let work = Work::new(1, 4).unwrap();
        let problem = work.run(|_| -> Result<(), Problem> { panic!("as planned") }).await.unwrap_err();
        assert_eq!((problem.status.as_u16(), work.panics.load(Ordering::Relaxed)), (500, 1));
        assert_eq!(work.run(|_| Ok(7)).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn who_leaves_stops_the_work() {
        let work = Work::new(1, 4).unwrap();
        let (began, begins) = oneshot::channel();
        let (ended, ends) = oneshot::channel();
        let job = work.run(move |cancel| {
            let _ = began.send(());
            while !cancel.is_cancelled() {
                std::thread::yield_now();
            }
            let _ = ended.send(());
            Ok(())
        });
        tokio::select! {
            _ = job => panic!("it ends only when it is cancelled"),
            done = begins => done.unwrap(),
        }
        ends.await.unwrap();
    }
}
