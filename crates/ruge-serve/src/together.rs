//! Predictions taken together, and the last ones remembered.
//!
//! Ranking a block of questions costs little more than ranking one: the table of entities passes through the caches once. So questions of
//! equal wishes that wait are answered in one go, as many as ranking takes at once. Nobody waits for others to come: a job takes what has
//! come, and the next one what came meanwhile, after other work that waits.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};

use ruge::predict::{PredictOptions, Question};
use ruge::{Cancel, Control};
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use crate::api::{self, Reply};
use crate::ask::Ask;
use crate::problem::Problem;
use crate::snapshot::Snapshot;
use crate::work::Work;

/// Questions taken together.
const BLOCK: usize = 192;
/// Answers to one question; longer lists are worked on alone.
const TOP: usize = 100;
/// Bytes of answers that are remembered, in each of two generations.
const BYTES: usize = 32 << 20;

/// What is wanted besides the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wishes {
    top: usize,
    new: bool,
    typed: bool,
}

/// Those who wait for an answer.
type Answered = oneshot::Sender<Result<Reply, Problem>>;

struct Waiting {
    snapshot: Arc<Snapshot>,
    question: Question,
    wishes: Wishes,
    answered: Answered,
}

/// Questions that wait, and how many jobs answer some.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    busy: usize,
}

/// Answers questions together.
#[derive(Default)]
pub struct Together {
    line: Mutex<Line>,
}

/// A question whose names are plain; anything else is for the slower way, which also says what is wrong.
pub fn simple(snapshot: &Snapshot, ask: &Ask) -> Option<(Question, Wishes)> {
    let data = snapshot.data();
    let entity = |name: &str| data.names().entities.id(name);
    let relation = ask.text("relation").ok()?.map(|name| data.names().relations.id(name));
    let head = ask.text("head").ok()?.map(entity);
    let tail = ask.text("tail").ok()?.map(entity);
    let question = match (head, relation, tail) {
        (None, Some(relation), Some(tail)) => Question::Head { relation: relation?, tail: tail? },
        (Some(head), Some(relation), None) => Question::Tail { head: head?, relation: relation? },
        _ => return None,
    };
    let top = ask.count("top", 10, TOP).ok().filter(|top| *top > 0)?;
    let (new, typed) = (ask.flag("new", false).ok()?, ask.flag("typed", false).ok()?);
    ask.list("candidates", 0).ok()?.is_none().then_some((question, Wishes { top, new, typed }))
}

impl Together {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The answers to a question.
    pub async fn ask(
        self: &Arc<Self>,
        work: &Work,
        snapshot: Arc<Snapshot>,
        question: Question,
        wishes: Wishes,
    ) -> Result<Reply, Problem> {
        let place = work.place()?;
        let (answered, answer) = oneshot::channel();
        let starts = {
            let mut line = self.line();
            line.waiting.push_back(Waiting { snapshot, question, wishes, answered });
            let starts = line.busy < work.threads();
            line.busy += usize::from(starts);
            starts
        };
        if starts {
            Arc::clone(self).answer_soon(work.clone());
        }
        let answer = answer.await;
        drop(place);
        answer.unwrap_or_else(|_| Err(Problem::bug()))
    }

    /// Answers a block behind whatever else waits by now, and then the next one likewise.
    fn answer_soon(self: Arc<Self>, work: Work) {
        let again = work.clone();
        work.spawn(move || {
            let Some(block) = self.next() else { return };
            // A panic is a problem of this block alone: those who wait are told by the end of their channels.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| answer(block)));
            self.answer_soon(again);
        });
    }

    /// The next questions to take together; a job less is busy if there are none.
    fn next(&self) -> Option<Vec<Waiting>> {
        let mut line = self.line();
        let mut block: Vec<Waiting> = Vec::new();
        let mut rest = VecDeque::new();
        while block.len() < BLOCK
            && let Some(waiting) = line.waiting.pop_front()
        {
            // Nobody asks any more.
            if waiting.answered.is_closed() {
                continue;
            }
            let is_like =
                |first: &Waiting| first.wishes == waiting.wishes && Arc::ptr_eq(&first.snapshot, &waiting.snapshot);
            match block.first().is_none_or(is_like) {
                true => block.push(waiting),
                false => rest.push_back(waiting),
            }
        }
        rest.append(&mut line.waiting);
        line.waiting = rest;
        if block.is_empty() {
            line.busy -= 1;
            return None;
        }
        Some(block)
    }
}

/// Answers questions of the same wishes about the same snapshot.
fn answer(block: Vec<Waiting>) {
    let (snapshot, Wishes { top, new, typed }) = (Arc::clone(&block[0].snapshot), block[0].wishes);
    let questions: Vec<Question> = block.iter().map(|waiting| waiting.question).collect();
    let options = PredictOptions { top, new, typed, ..PredictOptions::default() };
    let cancel = Cancel::new();
    // When all have left, nobody is answered.
    let hear = |_: &ruge_kg::Work| {
        if block.iter().all(|waiting| waiting.answered.is_closed()) {
            cancel.cancel();
        }
    };
    let lists = snapshot.engine.predict(&questions, &options, &Control::new(&cancel).with_listener(&hear));
    match lists {
        Ok(lists) => {
            for (waiting, answers) in block.into_iter().zip(lists) {
                let _ = waiting.answered.send(api::answered(&snapshot, &answers));
            }
        }
        Err(error) => {
            let problem = Problem::from(error);
            block.into_iter().for_each(|waiting| drop(waiting.answered.send(Err(problem.clone()))));
        }
    }
}

/// The last answers, by what was asked: two generations, of which the older one goes when the newer one is full.
pub struct Remembered<K> {
    generations: Mutex<[FxHashMap<K, Arc<str>>; 2]>,
    bytes: Mutex<usize>,
}

impl<K: Hash + Eq> Remembered<K> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { generations: Mutex::new([FxHashMap::default(), FxHashMap::default()]), bytes: Mutex::new(0) }
    }

    /// What was answered.
    pub fn get(&self, key: &K) -> Option<Arc<str>> {
        let generations = self.generations.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        generations.iter().find_map(|generation| generation.get(key)).cloned()
    }

    /// Remembers an answer.
    pub fn put(&self, key: K, answer: &str) {
        let mut generations = self.generations.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut bytes = self.bytes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *bytes += answer.len() + 2 * 1024;
        if *bytes > BYTES {
            *bytes = 0;
            generations[1] = std::mem::take(&mut generations[0]);
        }
        generations[0].insert(key, answer.into());
    }
}
