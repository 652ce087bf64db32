//! Interrupted runs: the same bits as without interruption, and files that are complete or rejected.
#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use ruge_embed::scoring::{ComplEx, HolE};
use ruge_embed::*;
use ruge_kg::{Cancel, Control, Dataset, Names, RankError, RankQuery, Ranker, Triple};

/// Thirty entities on a circle; `next` leads one step on, `skip` two, and every fifth `skip` is held out.
fn world() -> Dataset {
    let mut names = Names::default();
    let (mut train, mut valid) = (Vec::new(), Vec::new());
    for i in 0..30 {
        let name = |step: usize| format!("e{}", (i + step) % 30);
        train.push(names.triple(&name(0), "next", &name(1)));
        let skip = names.triple(&name(0), "skip", &name(2));
        if i % 5 == 0 { valid.push(skip) } else { train.push(skip) }
    }
    Dataset::new(names, train, valid, Vec::new())
}

fn model(data: &Dataset, hole: bool) -> Box<dyn Model> {
    let optimizer = Optimizer {
        rule: UpdateRule::Adam { beta1: 0.9, beta2: 0.99, epsilon: 1e-8 },
        entity_rate: 0.05,
        relation_rate: 0.05,
        ..Optimizer::default()
    };
    let (e, r) = (data.entity_count(), data.relation_count());
    if hole {
        let scoring = HolE::new(10);
        let start = Embeddings::new(&scoring, e, r, &Init::default(), 4);
        Box::new(CpuModel::new(scoring, start, optimizer))
    } else {
        let scoring = ComplEx::new(6);
        let start = Embeddings::new(&scoring, e, r, &Init::default(), 4);
        Box::new(CpuModel::new(scoring, start, Optimizer::default()))
    }
}

fn run(data: &Dataset, model: &mut dyn Model, progress: &mut Progress, until: u64) -> StopReason {
    let plan = Plan { batches: 4, ..Plan::new(data.graph(), data.train(), 7) };
    let schedule = Schedule { epochs: 12, validate_every: 3, ..Schedule::default() };
    let validation = Validation { triples: data.valid(), known: Some(data.filter()) };
    let mut hear = |event: Event<'_>| {
        assert_eq!(event.metrics.is_some(), event.progress.epoch.is_multiple_of(3));
        if event.progress.epoch == until {
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    };
    train(model, &plan, &schedule, Some(validation), progress, &Control::default(), &mut hear).unwrap()
}

#[test]
fn a_resumed_run_equals_an_uninterrupted_one() {
    let data = world();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    for hole in [false, true] {
        let mut whole = (model(&data, hole), Progress::default());
        assert_eq!(run(&data, &mut *whole.0, &mut whole.1, 99), StopReason::Epochs);
        for until in [1, 4, 6] {
            let mut first = (model(&data, hole), Progress::default());
            assert_eq!(run(&data, &mut *first.0, &mut first.1, until), StopReason::Asked);
            let notes = BTreeMap::from([("spec".to_owned(), "d = 6".to_owned())]);
            checkpoint::write(&path, first.0.state().unwrap(), &first.1, &notes).unwrap();
            let stored = checkpoint::read(&path).unwrap();
            assert_eq!((&stored.state, &stored.progress, &stored.notes), (first.0.state().unwrap(), &first.1, &notes));
            let mut second = (model(&data, hole), stored.progress);
            second.0.restore(stored.state).unwrap();
            run(&data, &mut *second.0, &mut second.1, 99);
            assert_eq!(second.0.state().unwrap(), whole.0.state().unwrap());
            assert_eq!(second.1, whole.1);
        }
        assert!(whole.1.best.is_some());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside the checkpoint");
}

/// A run whose rates fall after every validation without improvement, from a stored state if one is given.
fn slowing(data: &Dataset, until: u64, stored: Option<checkpoint::Checkpoint>) -> (State, Progress, Vec<f32>) {
    let plan = Plan { batches: 4, ..Plan::new(data.graph(), data.train(), 7) };
    let plateau = Some(Plateau { factor: 0.5, patience: 2 });
    let schedule = Schedule { epochs: 40, validate_every: 1, plateau, ..Schedule::default() };
    let validation = Validation { triples: data.valid(), known: Some(data.filter()) };
    let (mut model, mut progress) = (model(data, false), Progress::default());
    if let Some(stored) = stored {
        model.restore(stored.state).unwrap();
        progress = stored.progress;
    }
    let mut rates = Vec::new();
    let mut hear = |event: Event<'_>| {
        rates.push(event.rate);
        if event.progress.epoch == until {
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    };
    train(&mut *model, &plan, &schedule, Some(validation), &mut progress, &Control::default(), &mut hear).unwrap();
    (model.state().unwrap().clone(), progress, rates)
}

#[test]
fn rates_fall_on_a_plateau_and_a_resumed_run_knows() {
    let data = world();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let (state, progress, rates) = slowing(&data, 99, None);
    assert!(rates[0] == 1.0 && rates.windows(2).all(|pair| pair[1] == pair[0] || pair[1] == pair[0] / 2.0));
    assert!(progress.cuts >= 3, "{rates:?}");
    assert_eq!(rates.last(), Some(&0.5f32.powi(rates.windows(2).filter(|pair| pair[1] < pair[0]).count() as i32)));
    // A run whose rates never fall ends elsewhere.
    let plan = Plan { batches: 4, ..Plan::new(data.graph(), data.train(), 7) };
    let mut constant = model(&data, false);
    (1..=40).for_each(|epoch| _ = constant.epoch(&plan, epoch).unwrap());
    assert_ne!(constant.state().unwrap(), &state);
    for until in [3, 17, 31] {
        let (first, so_far, _) = slowing(&data, until, None);
        checkpoint::write(&path, &first, &so_far, &BTreeMap::new()).unwrap();
        let (again, end, _) = slowing(&data, 99, Some(checkpoint::read(&path).unwrap()));
        assert!(again == state && end == progress, "stopped after {until}");
    }
}

#[test]
fn equal_runs_write_equal_bytes() {
    let data = world();
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<Vec<u8>> = (0..4)
        .map(|index| {
            let (mut model, mut progress) = (model(&data, false), Progress::default());
            run(&data, &mut *model, &mut progress, 4);
            // A map with a different insertion order each time.
            let words = ["spec", "data", "rules", "program", "began"];
            let notes = (0..5).map(|i| words[(i + index) % 5]).map(|word| (word.to_owned(), format!("of {word}")));
            let path = folder.path().join(format!("{index}.safetensors"));
            checkpoint::write(&path, model.state().unwrap(), &progress, &notes.collect()).unwrap();
            std::fs::read(path).unwrap()
        })
        .collect();
    assert!(bytes.iter().all(|other| *other == bytes[0]));
}

#[test]
fn damaged_checkpoints_are_recognised() {
    let data = world();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let model = model(&data, false);
    checkpoint::write(&path, model.state().unwrap(), &Progress::default(), &BTreeMap::new()).unwrap();
    let good = std::fs::read(&path).unwrap();
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for bad in [&good[..good.len() - 7], &good[..40], &[][..], b"not a checkpoint at all", &flipped] {
        std::fs::write(&path, bad).unwrap();
        let message = checkpoint::read(&path).unwrap_err().to_string();
        assert!(message.contains("run.safetensors") && message.contains("not a usable checkpoint"), "{message}");
    }
    assert!(checkpoint::read(&folder.path().join("absent")).unwrap_err().to_string().contains("absent"));
}

#[test]
fn a_state_of_another_shape_is_refused() {
    let data = world();
    let (mut one, other) = (model(&data, false), model(&data, true));
    let message = one.restore(other.state().unwrap().clone()).unwrap_err().to_string();
    assert!(message.contains("the model expects"), "{message}");
}

#[test]
fn patience_ends_a_run_and_the_best_is_kept() {
    let data = world();
    let plan = Plan { batches: 2, ..Plan::new(data.graph(), data.train(), 7) };
    let schedule = Schedule { epochs: 500, validate_every: 1, patience: Some(3), ..Schedule::default() };
    let validation = Validation { triples: data.valid(), known: Some(data.filter()) };
    let (mut model, mut progress) = (model(&data, false), Progress::default());
    let mut best = (0, 0.0);
    let mut hear = |event: Event<'_>| {
        if let Some(metrics) = event.metrics.filter(|metrics| metrics.mrr > best.1) {
            best = (event.progress.epoch, metrics.mrr);
        }
        Ok(ControlFlow::Continue(()))
    };
    let reason =
        train(&mut *model, &plan, &schedule, Some(validation), &mut progress, &Control::default(), &mut hear).unwrap();
    assert_eq!(reason, StopReason::Patience);
    let kept = progress.best.unwrap();
    assert_eq!((kept.epoch, kept.mrr), best);
    assert_eq!(progress.epoch, best.0 + 3);
}

#[test]
fn an_epoch_that_takes_long_is_given_up_and_the_one_before_it_counts() {
    let data = world();
    let cancel = Cancel::new();
    cancel.cancel();
    let late: Control<'_> = Control::<()>::new(&cancel).with_grace();
    while !late.is_cancelled() {
        std::thread::yield_now();
    }
    // The grace period is over: nothing is started any more.
    for softmax in [None, Some(Softmax::default())] {
        let mut model = model(&data, false);
        let plan = Plan { softmax, control: Some(&late), ..Plan::new(data.graph(), data.train(), 7) };
        assert!(matches!(model.epoch(&plan, 1), Err(EmbedError::Cancelled(_))));
        let mut progress = Progress { epoch: 3, ..Progress::default() };
        let mut hear = |_: Event<'_>| panic!("no epoch is finished");
        let schedule = Schedule { epochs: 12, ..Schedule::default() };
        let reason =
            train(&mut *model, &plan, &schedule, None, &mut progress, &Control::new(&cancel), &mut hear).unwrap();
        assert_eq!((reason, progress.epoch), (StopReason::Asked, 3));
    }
}

/// Counts how often its state is asked for: on a GPU each time is a download of every table.
struct Counting(Box<dyn Model>, AtomicUsize);

impl Ranker for Counting {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn entity_count(&self) -> usize {
        self.0.entity_count()
    }
    fn score(&self, triples: &[Triple], scores: &mut [f32]) -> std::result::Result<(), RankError> {
        self.0.score(triples, scores)
    }
    fn score_all(&self, query: RankQuery, scores: &mut [f32]) -> std::result::Result<(), RankError> {
        self.0.score_all(query, scores)
    }
}

impl Model for Counting {
    fn epoch(&mut self, plan: &Plan<'_>, epoch: u64) -> ruge_embed::Result<Losses> {
        self.0.epoch(plan, epoch)
    }
    fn state(&self) -> ruge_embed::Result<&State> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.state()
    }
    fn restore(&mut self, state: State) -> ruge_embed::Result<()> {
        self.0.restore(state)
    }
}

#[test]
fn the_state_is_fetched_only_for_a_better_model() {
    let data = world();
    let (mut model, mut progress) = (Counting(model(&data, false), AtomicUsize::new(0)), Progress::default());
    let plan = Plan { batches: 2, ..Plan::new(data.graph(), data.train(), 7) };
    let schedule = Schedule { epochs: 40, validate_every: 1, ..Schedule::default() };
    let validation = Validation { triples: data.valid(), known: Some(data.filter()) };
    let mut improved = 0;
    let mut hear = |event: Event<'_>| {
        improved += usize::from(event.improved);
        Ok(ControlFlow::Continue(()))
    };
    train(&mut model, &plan, &schedule, Some(validation), &mut progress, &Control::default(), &mut hear).unwrap();
    assert!(improved > 0 && improved < 40, "{improved} of 40 validations");
    assert_eq!(model.1.load(Ordering::Relaxed), improved);
}

#[test]
fn a_model_that_goes_back_to_its_best_is_the_restored_one() {
    let data = world();
    for hole in [false, true] {
        let (mut trained, start) = (model(&data, hole), model(&data, hole));
        let best = start.state().unwrap().embeddings.clone();
        let mut progress = Progress::default();
        run(&data, &mut *trained, &mut progress, 4);
        let State { moments, steps, .. } = trained.state().unwrap().clone();
        let expected = State { embeddings: best.clone(), moments, steps };
        let queries = RankQuery::both_sides(data.valid());
        let ranks = |model: &dyn Model| model.rank(&queries, None, &Control::default()).unwrap();
        // Packs the entities that are about to change.
        assert_ne!(ranks(&*trained), ranks(&*start));
        trained.set_embeddings(best.clone()).unwrap();
        assert_eq!(trained.state().unwrap(), &expected);
        assert_eq!(ranks(&*trained), ranks(&*start));
        // The provided method is the definition.
        let mut slow = Counting(model(&data, hole), AtomicUsize::new(0));
        run(&data, &mut slow, &mut Progress::default(), 4);
        slow.set_embeddings(best).unwrap();
        assert_eq!(slow.state().unwrap(), &expected);
        let other = model(&data, !hole).state().unwrap().embeddings.clone();
        let message = trained.set_embeddings(other).unwrap_err().to_string();
        assert!(message.contains("the model expects"), "{message}");
        assert_eq!(trained.state().unwrap(), &expected, "it is as it was");
    }
}
