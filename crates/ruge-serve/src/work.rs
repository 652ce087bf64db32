//! Work on threads of its own, behind a bounded queue.
//!
//! The threads of the network never compute. A job waits for a thread of the pool; when too many wait, new ones are refused at once.
//! When the one who asked is gone, axum drops the future, and with it a guard that cancels the job: a flag is the only way to
//! stop work on another thread.
//!
//! The queue is our own, and no more jobs are given to the pool than it has threads. A thread that waits for parts of its job takes whatever
//! else the pool has: with the whole queue there, a short job could end only after long ones that came later, one within the other.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::ThreadPool;
use ruge::Cancel;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::problem::Problem;

type Job = Box<dyn FnOnce() + Send>;

/// The pool and its queue.
#[derive(Clone)]
pub struct Work {
    shared: Arc<Shared>,
}

struct Shared {
    pool: ThreadPool,
    /// Jobs for which no thread was free, and how many run.
    line: Mutex<(VecDeque<Job>, usize)>,
    places: Arc<Semaphore>,
    queue: usize,
    panics: AtomicU64,
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
        let (line, places, panics) = (Mutex::default(), Arc::new(Semaphore::new(queue)), AtomicU64::new(0));
        Ok(Self { shared: Arc::new(Shared { pool, line, places, queue, panics }) })
    }

    /// Threads that compute.
    pub fn threads(&self) -> usize {
        self.shared.pool.current_num_threads()
    }

    /// A place in the queue, if there is one.
    pub fn place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.shared.places).try_acquire_owned().map_err(|_| Problem::busy(self.shared.queue))
    }

    /// A place in the queue as soon as there is one; those who wait get one in turn.
    pub async fn place_in_turn(&self) -> Result<OwnedSemaphorePermit, Problem> {
        if self.shared.queue == 0 {
            return Err(Problem::busy(0));
        }
        Arc::clone(&self.shared.places).acquire_owned().await.map_err(|_| Problem::ending())
    }

    /// Does it on the pool, whoever waits for it, after what came before.
    pub fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        let mut line = self.shared.line.lock().unwrap_or_else(PoisonError::into_inner);
        if line.1 < self.threads() {
            line.1 += 1;
            drop(line);
            Shared::start(&self.shared, Box::new(job));
        } else {
            line.0.push_back(Box::new(job));
        }
    }

    /// Jobs that wait or run.
    pub fn waiting(&self) -> usize {
        self.shared.queue - self.shared.places.available_permits()
    }

    /// Jobs that panicked.
    pub fn panics(&self) -> u64 {
        self.shared.panics.load(Ordering::Relaxed)
    }

    /// Does it on the pool if there is a place; a panic is a problem of this job alone.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Cancel) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let place = self.place()?;
        self.run_at(place, job).await
    }

    /// The same with a place.
    pub async fn run_at<T: Send + 'static>(
        &self,
        place: OwnedSemaphorePermit,
        job: impl FnOnce(&Cancel) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let cancel = Cancel::new();
        let leaving = Leaving(cancel.clone());
        let (sender, receiver) = oneshot::channel();
        self.spawn(move || {
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
                self.shared.panics.fetch_add(1, Ordering::Relaxed);
                Err(Problem::bug())
            }
        }
    }
}

impl Shared {
    /// Gives a job to the pool; whoever ends one gives it the next.
    fn start(shared: &Arc<Self>, job: Job) {
        let after = Arc::clone(shared);
        shared.pool.spawn(move || {
            // Jobs look after their own panics; this thread must go on in any case.
            let _ = catch_unwind(AssertUnwindSafe(job));
            let next = {
                let mut line = after.line.lock().unwrap_or_else(PoisonError::into_inner);
                let next = line.0.pop_front();
                line.1 -= usize::from(next.is_none());
                next
            };
            if let Some(next) = next {
                Self::start(&after, next);
            }
        });
    }
}

/// An end of the work for which nobody waits any more.
pub fn still_wanted(cancel: &Cancel) -> Result<(), Problem> {
    if cancel.is_cancelled() { Err(Problem::late(crate::app::SECONDS)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_problem_of_one_request() {
        let work = Work::new(1, 4).unwrap();
        let problem = work.run(|_| -> Result<(), Problem> { panic!("as planned") }).await.unwrap_err();
        assert_eq!((problem.status.as_u16(), work.panics()), (500, 1));
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

    #[tokio::test]
    async fn a_job_is_not_held_up_by_those_that_came_later() {
        let work = Work::new(1, 8).unwrap();
        let (send, order) = std::sync::mpsc::channel();
        let (first, later) = (send.clone(), send);
        let hold = Arc::new(std::sync::Barrier::new(2));
        let held = Arc::clone(&hold);
        let one = work.run(move |_| {
            held.wait();
            // While this waits for its parts, its thread must not take the next job.
            rayon::join(rayon::yield_now, rayon::yield_now);
            while let Some(rayon::Yield::Executed) = rayon::yield_now() {}
            let _ = first.send(1);
            Ok(())
        });
        let two = work.run(move |_| {
            let _ = later.send(2);
            Ok(())
        });
        let (one, two, ()) =
            tokio::join!(one, two, async { drop(tokio::task::spawn_blocking(move || hold.wait()).await) });
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [1, 2]);
    }
}
