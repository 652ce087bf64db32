//! Proposed facts: looked for once per graph, in the background and on one thread, and kept in the file of reviews.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ruge::complete::{CompleteOptions, complete};
use ruge::{Cancel, Control, Triple};

use crate::problem::Problem;
use crate::reviews::{Names, Reviews};
use crate::snapshot::Snapshot;

/// Proposed facts that are kept.
const MOST: usize = 10_000;

/// How far looking for new facts is.
#[derive(Clone, Debug)]
pub enum State {
    /// Nobody looks.
    Off,
    /// Questions asked, of how many.
    Working(Arc<[AtomicU64; 2]>),
    /// Done.
    Ready,
    /// It failed.
    Failed(String),
}

/// Proposed facts.
#[derive(Clone, Debug)]
pub struct Suggestions {
    /// The graph they are for.
    pub graph: String,
    /// How far looking for them is.
    pub state: State,
    /// In falling truth. While those of a graph with more facts are looked for, the ones of before.
    pub list: Arc<Vec<(Triple, f64)>>,
}

impl Suggestions {
    /// Nothing found yet.
    pub fn none(snapshot: &Snapshot, looks: bool) -> Self {
        let state = if looks { State::Working(Arc::default()) } else { State::Off };
        Self { graph: snapshot.graph.clone(), state, list: Arc::default() }
    }

    /// How far it is, in a word or two.
    pub fn told(&self) -> String {
        match &self.state {
            State::Off => "off".into(),
            State::Ready => "ready".into(),
            State::Failed(reason) => format!("failed: {reason}"),
            State::Working(count) => {
                let [done, all] = count.each_ref().map(|count| count.load(Ordering::Relaxed));
                format!("{done} of {all} questions asked")
            }
        }
    }

    /// Those that fit this snapshot: of its graph, or of the same model with other added facts. Only entities that the model itself knows
    /// have the same numbers there.
    pub fn of<'s>(&'s self, snapshot: &'s Snapshot) -> impl Iterator<Item = &'s (Triple, f64)> {
        let of_model = self.graph.split('.').next() == Some(snapshot.hash.as_str());
        let most = match self.graph == snapshot.graph {
            true => usize::MAX,
            false if of_model => snapshot.own_entities,
            false => 0,
        };
        self.list.iter().filter(move |(triple, _)| triple.head.index().max(triple.tail.index()) < most)
    }
}

/// Looks for new facts and tells how far it is. What is told after it was given up must not count.
pub fn look_for(
    snapshot: Arc<Snapshot>,
    reviews: Arc<Reviews>,
    before: Arc<Suggestions>,
    cancel: Cancel,
    tell: impl Fn(Suggestions) + Send + Sync + 'static,
) {
    let count: Arc<[AtomicU64; 2]> = Arc::default();
    let graph = snapshot.graph.clone();
    let list = Arc::new(before.of(&snapshot).copied().collect());
    tell(Suggestions { graph: graph.clone(), state: State::Working(Arc::clone(&count)), list });
    let tell = Arc::new(tell);
    let (found_out, name) = (Arc::clone(&tell), graph.clone());
    let work = move || {
        let found =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| find(&snapshot, &reviews, &cancel, &count)));
        let (state, list) = match found {
            Ok(Ok(list)) => (State::Ready, list),
            Ok(Err(problem)) => (State::Failed(problem.detail), Vec::new()),
            Err(_) => (State::Failed("the program met a bug".into()), Vec::new()),
        };
        found_out(Suggestions { graph, state, list: Arc::new(list) });
    };
    if let Err(error) = std::thread::Builder::new().name("suggestions".into()).spawn(work) {
        let state = State::Failed(format!("a thread cannot be started: {error}"));
        tell(Suggestions { graph: name, state, list: Arc::default() });
    }
}

fn find(
    snapshot: &Snapshot,
    reviews: &Reviews,
    cancel: &Cancel,
    count: &[AtomicU64; 2],
) -> Result<Vec<(Triple, f64)>, Problem> {
    let kept = reviews.suggestions(&snapshot.graph)?;
    if !kept.is_empty() {
        let names = snapshot.data().names();
        let triple = |([head, relation, tail], truth): &(Names, f64)| {
            let (head, tail) = (names.entities.id(head)?, names.entities.id(tail)?);
            Some((Triple { head, relation: names.relations.id(relation)?, tail }, *truth))
        };
        return Ok(kept.iter().filter_map(triple).collect());
    }
    let hear = |work: &ruge_kg::Work| {
        count[0].store(work.done, Ordering::Relaxed);
        count[1].store(work.total, Ordering::Relaxed);
    };
    let options = CompleteOptions { top: Some(MOST), ..CompleteOptions::default() };
    let control = Control::new(cancel).with_listener(&hear);
    // One thread: questions of people come first.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let pool = pool.map_err(|error| Problem::refused(format!("a thread cannot be started: {error}")))?;
    let found = pool.install(|| complete(&snapshot.plain, &options, &control))?;
    let list: Vec<(Triple, f64)> = found.triples().collect();
    let named: Vec<(Names, f64)> = list.iter().map(|&(triple, truth)| (snapshot.fact(triple), truth)).collect();
    if !cancel.is_cancelled() {
        reviews.keep_suggestions(&snapshot.graph, &named)?;
    }
    Ok(list)
}
