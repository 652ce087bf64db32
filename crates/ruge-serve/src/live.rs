//! The model that answers now, and what makes the next one.
//!
//! A snapshot never changes. New facts, decisions and a new model file each make the next snapshot, on one thread that does one
//! thing at a time and takes together what has come meanwhile; then it is swapped in. Requests that have begun keep the one they
//! have. What fails changes nothing and is reported by `/readyz`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use ruge::{Cancel, ModelFile, OpenOptions, RugeError};
use tokio::sync::{Notify, oneshot};

use crate::problem::Problem;
use crate::reviews::{Names, Reviews};
use crate::snapshot::{Base, Extended, Snapshot};
use crate::suggestions::{self, Suggestions};

/// Facts that may be added in all.
const MOST_FACTS: usize = 100_000;

/// Where the model comes from.
#[derive(Clone)]
pub struct Source {
    /// A run folder or a model.safetensors.
    pub path: PathBuf,
    /// How it is opened.
    pub options: OpenOptions,
}

impl Source {
    /// What changes when the file does.
    fn stamp(&self) -> Option<(SystemTime, u64)> {
        let meta = std::fs::metadata(ModelFile::find(&self.path)).ok()?;
        Some((meta.modified().ok()?, meta.len()))
    }
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
    },
    Reload {
        reply: Option<oneshot::Sender<Result<u64, String>>>,
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
    idle: Notify,
    number: AtomicU64,
    suggesting: Mutex<Cancel>,
    source: Option<Source>,
    stamp: Mutex<Option<(SystemTime, u64)>>,
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
        source: Option<Source>,
        reviews: &Arc<Reviews>,
        suggests: bool,
    ) -> Result<Arc<Self>, RugeError> {
        let facts = reviews.facts().map_err(|error| RugeError::Refused(error.to_string()))?;
        let extended = base.with_facts(&facts)?;
        let snapshot = Arc::new(extended.judged(reviews, 1)?);
        let (sender, receiver) = channel();
        let stamp = Mutex::new(source.as_ref().and_then(Source::stamp));
        let live = Arc::new(Self {
            current: ArcSwap::new(Arc::clone(&snapshot)),
            suggestions: ArcSwap::new(Arc::new(Suggestions::none(&snapshot, suggests))),
            trouble: Mutex::new(None),
            jobs: Mutex::new(sender),
            pending: AtomicUsize::new(0),
            idle: Notify::new(),
            number: AtomicU64::new(1),
            suggesting: Mutex::new(Cancel::new()),
            source,
            stamp,
        });
        let maker = Maker { live: Arc::downgrade(&live), base, extended, reviews: Arc::clone(reviews), suggests };
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
        self.send(Job::Decisions);
    }

    /// Adds and removes facts.
    pub async fn change(
        &self,
        add: Vec<Names>,
        remove: Vec<Names>,
        reviewer: Option<String>,
    ) -> Result<Changed, Problem> {
        let (reply, done) = oneshot::channel();
        self.send(Job::Facts { add, remove, reviewer, reply });
        done.await.unwrap_or_else(|_| Err(Problem::ending()))
    }

    /// Reads the model file again.
    pub async fn reload(&self) -> Result<u64, Problem> {
        let (reply, done) = oneshot::channel();
        self.send(Job::Reload { reply: Some(reply) });
        match done.await {
            Ok(done) => done.map_err(|reason| {
                Problem::refused(reason).remedy("the model before still answers; replace the file and reload again")
            }),
            Err(_) => Err(Problem::ending()),
        }
    }

    /// Reads the model file again, without waiting.
    pub fn reload_soon(&self) {
        self.send(Job::Reload { reply: None });
    }

    /// Whether the model file has changed since this was last asked.
    pub fn has_changed(&self) -> bool {
        let now = self.source.as_ref().and_then(Source::stamp);
        let mut before = self.stamp.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // A file that is gone for a moment is being replaced.
        let changed = now.is_some() && now != *before;
        if changed {
            *before = now;
        }
        changed
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
        let live = Arc::downgrade(self);
        let tell = move |state: Suggestions| {
            if let Some(live) = live.upgrade() {
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
                live.say(Some("the program met a bug while it made a snapshot".into()));
            }
            live.done(count);
        }
    }

    fn work(&mut self, jobs: Vec<Job>) {
        let mut decided = false;
        for job in jobs {
            match job {
                Job::Decisions => decided = true,
                Job::Facts { add, remove, reviewer, reply } => {
                    let _ = reply.send(self.change(&add, &remove, reviewer.as_deref()));
                    decided = false;
                }
                Job::Reload { reply } => {
                    let outcome = self.reload();
                    if let Some(live) = self.live.upgrade() {
                        live.say(outcome.as_ref().err().cloned());
                    }
                    if let Some(reply) = reply {
                        let _ = reply.send(outcome);
                    }
                    decided = false;
                }
            }
        }
        if decided
            && let Err(error) = self.publish()
            && let Some(live) = self.live.upgrade()
        {
            live.say(Some(error.to_string()));
        }
    }

    fn change(&mut self, add: &[Names], remove: &[Names], reviewer: Option<&str>) -> Result<Changed, Problem> {
        let engine = &self.base.engine;
        // A name that the model knows by a label is meant by it; any other is a new entity.
        let called = |name: &String| match engine.data().entities_meant(name)[..] {
            [id] => engine.data().names().entities.name(id).to_string(),
            _ => name.clone(),
        };
        let named = |[head, relation, tail]: &Names| -> Result<Names, Problem> {
            let relation = engine.relation(relation)?;
            Ok([called(head), engine.data().names().relations.name(relation).to_string(), called(tail)])
        };
        let add = add.iter().map(named).collect::<Result<Vec<Names>, Problem>>()?;
        let remove = remove.iter().map(named).collect::<Result<Vec<Names>, Problem>>()?;
        let mut facts = self.reviews.facts()?;
        if let Some(fact) = remove.iter().find(|fact| !facts.contains(fact)) {
            let detail = format!("{} was not added here", fact.join(" "));
            return Err(Problem::refused(detail).remedy("facts of the data the model was trained on stay"));
        }
        let before = facts.len();
        facts.retain(|fact| !remove.contains(fact));
        let removed = before - facts.len();
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
        let mut new: Vec<Names> = Vec::new();
        for fact in &add {
            if !listed(fact) && !facts.contains(fact) && !new.contains(fact) {
                new.push(fact.clone());
            }
        }
        facts.extend(new.iter().cloned());
        if facts.len() > MOST_FACTS {
            let detail = "too many facts were added for a model that was not trained on them";
            return Err(Problem::refused(detail).remedy("train it again with them").limit(MOST_FACTS));
        }
        let extended = self.base.with_facts(&facts)?;
        // On the disk before anybody sees it.
        self.reviews.change_facts(&new, &remove, reviewer)?;
        self.extended = extended;
        let number = self.publish()?;
        Ok(Changed { added: new.len(), known: add.len() - new.len(), removed, number })
    }

    fn reload(&mut self) -> Result<u64, String> {
        let source = self.live.upgrade().and_then(|live| live.source.clone());
        let source = source.ok_or_else(|| "this model was not read from a file".to_string())?;
        let told = |error: RugeError| error.to_string();
        let base = Base::open(&source.path, &source.options).map_err(told)?;
        let facts = self.reviews.facts().map_err(|error| error.to_string())?;
        self.extended = base.with_facts(&facts).map_err(told)?;
        self.base = base;
        self.publish().map_err(told)
    }

    /// Puts the next snapshot into use.
    fn publish(&self) -> Result<u64, RugeError> {
        let Some(live) = self.live.upgrade() else { return Ok(0) };
        let number = live.number.load(Ordering::SeqCst) + 1;
        let snapshot = Arc::new(self.extended.judged(&self.reviews, number)?);
        live.number.store(number, Ordering::SeqCst);
        let before = live.current.swap(Arc::clone(&snapshot));
        if before.graph != snapshot.graph && self.suggests {
            live.suggest(&snapshot, &self.reviews);
        }
        Ok(number)
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
