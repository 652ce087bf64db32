//! The model that answers now, and what makes the next one.
//!
//! A snapshot never changes. New facts, decisions and a new model file each make the next snapshot, on one thread that does one
//! thing at a time and takes together what has come meanwhile; then it is swapped in. Requests that have begun keep the one they
//! have. What fails changes nothing and is reported by `/readyz`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};

use arc_swap::ArcSwap;
use ruge::{Cancel, OpenOptions, RugeError};
use rustc_hash::FxHashSet;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use crate::problem::Problem;
use crate::reviews::{Names, Reviews};
use crate::snapshot::{Base, Extended, Snapshot, Stamp};
use crate::suggestions::{self, Suggestions};

/// Facts that may be added in all.
const MOST_FACTS: usize = 100_000;

/// Requests that may wait for a snapshot of theirs.
const WAITING: usize = 32;

/// Where the model comes from.
#[derive(Clone)]
pub struct Source {
    /// A run folder or a model.safetensors.
    pub path: PathBuf,
    /// How it is opened.
    pub options: OpenOptions,
}

/// What became of facts that were added or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Changed {
    /// Facts that were added.
    pub added: usize,
    /// Facts that were there.
    pub known: usize,
    /// Facts that were removed.
    pub removed: usize,
    /// The snapshot that has them.
    pub number: u64,
}

/// Something that makes the next snapshot.
enum Job {
    Facts {
        add: Vec<Names>,
        remove: Vec<Names>,
        reviewer: Option<String>,
        reply: oneshot::Sender<Result<Changed, Problem>>,
        /// Kept while it waits, whoever has left meanwhile.
        _place: OwnedSemaphorePermit,
    },
    Reload {
        /// Whoever asked, with a place; nobody, if the file has changed.
        reply: Option<(oneshot::Sender<Result<u64, String>>, OwnedSemaphorePermit)>,
    },
    Decisions,
}

/// The snapshot in use, and the thread that makes the next.
pub struct Live {
    current: ArcSwap<Snapshot>,
    suggestions: ArcSwap<Suggestions>,
    /// Why the last new model was not taken.
    trouble: Mutex<Option<String>>,
    jobs: Mutex<Sender<Job>>,
    pending: AtomicUsize,
    /// Places of those who wait for a snapshot.
    places: Arc<Semaphore>,
    /// Whether the thread has been told of decisions, and of a changed file: once is enough.
    has_decisions: AtomicBool,
    has_file: AtomicBool,
    idle: Notify,
    number: AtomicU64,
    suggesting: Mutex<Cancel>,
    source: Option<Source>,
    /// The model file as it was before it was last read.
    stamp: Mutex<Option<Stamp>>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.suggesting.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).cancel();
    }
}

impl Live {
    /// The first snapshot, with what people added before.
    pub fn start(
        base: Base,
        source: Option<(Source, Option<Stamp>)>,
        reviews: &Arc<Reviews>,
        suggests: bool,
    ) -> Result<Arc<Self>, RugeError> {
        let facts = reviews.facts().map_err(|error| RugeError::Refused(error.to_string()))?;
        let extended = base.with_facts(&facts)?;
        let snapshot = Arc::new(extended.judged(reviews, 1)?);
        let (sender, receiver) = channel();
        let (source, stamp) = source.unzip();
        let live = Arc::new(Self {
            current: ArcSwap::new(Arc::clone(&snapshot)),
            suggestions: ArcSwap::new(Arc::new(Suggestions::none(&snapshot, suggests))),
            trouble: Mutex::new(None),
            jobs: Mutex::new(sender),
            pending: AtomicUsize::new(0),
            places: Arc::new(Semaphore::new(WAITING)),
            has_decisions: AtomicBool::new(false),
            has_file: AtomicBool::new(false),
            idle: Notify::new(),
            number: AtomicU64::new(1),
            suggesting: Mutex::new(Cancel::new()),
            source,
            stamp: Mutex::new(stamp.flatten()),
        });
        let (of, reviews_too) = (Arc::downgrade(&live), Arc::clone(reviews));
        let maker = Maker { live: of, base, extended, reviews: reviews_too, suggests, is_behind: false };
        if suggests {
            live.suggest(&snapshot, reviews);
        }
        let thread = std::thread::Builder::new().name("snapshots".into());
        let started = thread.spawn(move || maker.run(&receiver));
        started.map_err(|error| RugeError::Refused(format!("a thread cannot be started: {error}")))?;
        Ok(live)
    }

    /// The snapshot of now.
    pub fn now(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Proposed facts, or how far looking for them is.
    pub fn suggestions(&self) -> Arc<Suggestions> {
        self.suggestions.load_full()
    }

    /// Why the last new model was not taken.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn send(&self, job: Job) {
        self.pending.fetch_add(1, Ordering::SeqCst);
        // The thread lives as long as this does.
        let _ = self.jobs.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).send(job);
    }

    /// A decision was taken or undone: truth is corrected soon.
    pub fn decided(&self) {
        if !self.has_decisions.swap(true, Ordering::SeqCst) {
            self.send(Job::Decisions);
        }
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| Problem::busy(WAITING))
    }

    /// Adds and removes facts.
    pub async fn change(
        &self,
        add: Vec<Names>,
        remove: Vec<Names>,
        reviewer: Option<String>,
    ) -> Result<Changed, Problem> {
        let (_place, (reply, done)) = (self.place()?, oneshot::channel());
        self.send(Job::Facts { add, remove, reviewer, reply, _place });
        done.await.unwrap_or_else(|_| Err(Problem::ending()))
    }

    /// Reads the model file again.
    pub async fn reload(&self) -> Result<u64, Problem> {
        let (place, (reply, done)) = (self.place()?, oneshot::channel());
        self.send(Job::Reload { reply: Some((reply, place)) });
        match done.await {
            Ok(done) => done.map_err(|reason| {
                Problem::refused(reason).remedy("the model before still answers; replace the file and reload again")
            }),
            Err(_) => Err(Problem::ending()),
        }
    }

    /// Reads the model file again, without waiting.
    pub fn reload_soon(&self) {
        if !self.has_file.swap(true, Ordering::SeqCst) {
            self.send(Job::Reload { reply: None });
        }
    }

    /// Whether the model file is another than the one that was last read.
    pub fn has_changed(&self) -> bool {
        let now = self.source.as_ref().and_then(|source| Stamp::of(&source.path));
        // A file that is gone for a moment is being replaced.
        now.is_some() && now != *self.stamp.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits until everything that was sent has become a snapshot.
    pub async fn settled(&self) {
        loop {
            let idle = self.idle.notified();
            if self.pending.load(Ordering::SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }

    fn done(&self, jobs: usize) {
        self.pending.fetch_sub(jobs, Ordering::SeqCst);
        self.idle.notify_waiters();
    }

    /// Looks for new facts in the background; what was begun before is given up.
    fn suggest(self: &Arc<Self>, snapshot: &Arc<Snapshot>, reviews: &Arc<Reviews>) {
        let cancel = Cancel::new();
        let before = std::mem::replace(
            &mut *self.suggesting.lock().unwrap_or_else(|poisoned| poisoned.into_inner()),
            cancel.clone(),
        );
        before.cancel();
        let (live, given_up) = (Arc::downgrade(self), cancel.clone());
        let tell = move |state: Suggestions| {
            let Some(live) = live.upgrade() else { return };
            // With the lock: whoever comes next gives this up before it tells anything.
            let _held = live.suggesting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if !given_up.is_cancelled() {
                live.suggestions.store(Arc::new(state));
            }
        };
        suggestions::look_for(Arc::clone(snapshot), Arc::clone(reviews), self.suggestions(), cancel, tell);
    }
}

/// Makes snapshots, one at a time.
struct Maker {
    live: Weak<Live>,
    base: Base,
    extended: Extended,
    reviews: Arc<Reviews>,
    suggests: bool,
    /// Whether there are decisions that the snapshot in use does not know.
    is_behind: bool,
}

impl Maker {
    fn run(mut self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let mut waiting = vec![first];
            waiting.extend(jobs.try_iter());
            let count = waiting.len();
            // Whatever goes wrong here, the snapshot of before stays, and the next job finds this thread alive.
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.work(waiting)));
            let Some(live) = self.live.upgrade() else { return };
            if outcome.is_err() {
                self.is_behind = true;
                // Some jobs were not seen.
                live.has_decisions.store(false, Ordering::SeqCst);
                live.has_file.store(false, Ordering::SeqCst);
                live.say(Some("the program met a bug while it made a snapshot".into()));
            }
            live.done(count);
        }
    }

    fn work(&mut self, jobs: Vec<Job>) {
        let mut asked = Vec::new();
        let mut reads = false;
        for job in jobs {
            match job {
                Job::Decisions => {
                    self.is_behind = true;
                    self.taken(|live| &live.has_decisions);
                }
                Job::Facts { add, remove, reviewer, reply, _place } => {
                    let _ = reply.send(self.change(&add, &remove, reviewer.as_deref()));
                }
                // All who ask for the file as it is now get the same reading of it.
                Job::Reload { reply } => {
                    reads = true;
                    match reply {
                        Some(reply) => asked.push(reply),
                        None => self.taken(|live| &live.has_file),
                    }
                }
            }
        }
        if reads {
            let outcome = self.reload();
            self.say(outcome.as_ref().err().cloned());
            for (reply, _place) in asked {
                let _ = reply.send(outcome.clone());
            }
        }
        if self.is_behind {
            let next = self.prepared(&self.extended);
            match next {
                Ok(snapshot) => {
                    self.publish(snapshot);
                }
                Err(error) => self.say(Some(error.to_string())),
            }
        }
    }

    /// From now on, there is something new to tell. Before the work: what comes while it is done is not in it.
    fn taken(&self, flag: impl Fn(&Live) -> &AtomicBool) {
        if let Some(live) = self.live.upgrade() {
            flag(&live).store(false, Ordering::SeqCst);
        }
    }

    fn say(&self, trouble: Option<String>) {
        if let Some(live) = self.live.upgrade() {
            live.say(trouble);
        }
    }

    fn change(&mut self, add: &[Names], remove: &[Names], reviewer: Option<&str>) -> Result<Changed, Problem> {
        let engine = &self.base.engine;
        // A name that the model knows by a label is meant by it; any other is a new entity.
        let called = |name: &String| -> Result<String, Problem> {
            match engine.data().entities_meant(name).is_empty() {
                true => Ok(name.clone()),
                // Which of several is for the asker to say.
                false => Ok(engine.data().names().entities.name(engine.entity(name)?).to_string()),
            }
        };
        let named = |[head, relation, tail]: &Names| -> Result<Names, Problem> {
            let relation = engine.relation(relation)?;
            Ok([called(head)?, engine.data().names().relations.name(relation).to_string(), called(tail)?])
        };
        let add = add.iter().map(named).collect::<Result<Vec<Names>, Problem>>()?;
        let remove = remove.iter().map(named).collect::<Result<Vec<Names>, Problem>>()?;
        let mut facts = self.reviews.facts()?;
        let kept: FxHashSet<Names> = facts.iter().cloned().collect();
        if let Some(fact) = remove.iter().find(|fact| !kept.contains(*fact)) {
            let detail = format!("{} was not added here", fact.join(" "));
            return Err(Problem::refused(detail).remedy("facts of the data the model was trained on stay"));
        }
        let gone: FxHashSet<&Names> = remove.iter().collect();
        facts.retain(|fact| !gone.contains(fact));
        let removed = kept.len() - facts.len();
        let listed = |[head, relation, tail]: &Names| {
            let triple = engine.data().names();
            let ends = [head, tail].map(|name| triple.entities.id(name));
            match (ends, triple.relations.id(relation)) {
                ([Some(head), Some(tail)], Some(relation)) => {
                    engine.data().filter().contains(ruge::Triple { head, relation, tail })
                }
                _ => false,
            }
        };
        let (mut new, mut seen): (Vec<Names>, FxHashSet<&Names>) = (Vec::new(), FxHashSet::default());
        for fact in &add {
            if !listed(fact) && !kept.contains(fact) && seen.insert(fact) {
                new.push(fact.clone());
            }
        }
        facts.extend(new.iter().cloned());
        if facts.len() > MOST_FACTS {
            let detail = "too many facts were added for a model that was not trained on them";
            return Err(Problem::refused(detail).remedy("train it again with them").limit(MOST_FACTS));
        }
        let extended = self.base.with_facts(&facts)?;
        // Whole before it is on the disk, and there before anybody sees it: what fails leaves everything as it was.
        let snapshot = self.prepared(&extended)?;
        self.reviews.change_facts(&new, &remove, reviewer)?;
        self.extended = extended;
        let number = self.publish(snapshot);
        Ok(Changed { added: new.len(), known: add.len() - new.len(), removed, number })
    }

    fn reload(&mut self) -> Result<u64, String> {
        let source = self.live.upgrade().and_then(|live| live.source.clone());
        let source = source.ok_or_else(|| "this model was not read from a file".to_string())?;
        let told = |error: RugeError| error.to_string();
        // Before it is read: what comes later is another file, whether this one can be used or not.
        let stamp = Stamp::of(&source.path);
        if let Some(live) = self.live.upgrade() {
            *live.stamp.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = stamp;
        }
        let base = Base::open(&source.path, &source.options).map_err(told)?;
        let facts = self.reviews.facts().map_err(|error| error.to_string())?;
        let extended = base.with_facts(&facts).map_err(told)?;
        let snapshot = self.prepared(&extended).map_err(told)?;
        (self.base, self.extended) = (base, extended);
        Ok(self.publish(snapshot))
    }

    /// The next snapshot, with all decisions of now.
    fn prepared(&self, extended: &Extended) -> Result<Arc<Snapshot>, RugeError> {
        let number = self.live.upgrade().map_or(0, |live| live.number.load(Ordering::SeqCst)) + 1;
        extended.judged(&self.reviews, number).map(Arc::new)
    }

    /// Puts a snapshot into use.
    fn publish(&mut self, snapshot: Arc<Snapshot>) -> u64 {
        let number = snapshot.number;
        self.is_behind = false;
        let Some(live) = self.live.upgrade() else { return number };
        live.number.store(number, Ordering::SeqCst);
        let before = live.current.swap(Arc::clone(&snapshot));
        if before.graph != snapshot.graph && self.suggests {
            live.suggest(&snapshot, &self.reviews);
        }
        number
    }
}

impl Live {
    fn say(&self, trouble: Option<String>) {
        if let Some(trouble) = &trouble {
            tracing::warn!(%trouble, "the model before still answers");
        }
        *self.trouble.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = trouble;
    }
}
