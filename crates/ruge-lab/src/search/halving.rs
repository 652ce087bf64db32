//! What to do next: begin a trial, let one climb, or stop.
//!
//! Successive halving: every trial gets a few epochs, one in `factor` of those goes on for `factor` times as many, and so on
//! until the epochs of the spec. Trials are compared at the end of the same rung only.
//!
//! When to climb depends on who chooses the points. A grid, chance and a Sobol sequence learn nothing, so all trials begin
//! first and then exactly the best climb. TPE learns, and what decides after a thousand epochs (a penalty, say) may not show
//! after ten: there a trial climbs as soon as it is among the best of those before it, as in asynchronous halving, and the
//! points that follow are chosen knowing how it did.

use super::space::{Halving, Method, Point, Space};
use super::{State, Trial, sample};
use ruge::spec::Spec;

/// What to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Job {
    /// Begin a trial.
    Begin(Point),
    /// Train a trial, by its place in the list, to the end of its next rung.
    Climb(usize),
}

/// What to do after these trials; `None` when everything is done.
pub fn next(space: &Space, trials: &[Trial]) -> Option<Job> {
    if let Some(place) = trials.iter().position(|trial| trial.state == State::Running) {
        return Some(Job::Climb(place));
    }
    let factor = space.settings.halving.map_or(1, |halving| halving.factor) as usize;
    let highest = trials.iter().map(|trial| trial.rungs.len()).max().unwrap_or(0);
    if space.settings.method == Method::Tpe {
        let climber = |rung: usize| climber(trials, rung, |passed| passed / factor);
        if let Some(place) = (0..highest).rev().find_map(climber) {
            return Some(Job::Climb(place));
        }
    }
    if trials.len() < space.trials()
        && let Some(point) = sample::propose(space, trials)
    {
        return Some(Job::Begin(point));
    }
    // Of a few, too, one is trained to its end: the figures of a search are those of whole runs.
    (0..highest).find_map(|rung| climber(trials, rung, |passed| (passed / factor).max(1))).map(Job::Climb)
}

/// The best trial that stopped at the end of a rung and may go on, if `allowed` of so many that passed it may.
fn climber(trials: &[Trial], rung: usize, allowed: impl Fn(usize) -> usize) -> Option<usize> {
    let mut passed: Vec<(f64, usize)> = trials
        .iter()
        .enumerate()
        .filter(|(_, trial)| trial.state != State::Failed)
        .filter_map(|(place, trial)| trial.rungs.get(rung).map(|rung| (rung.valid_mrr, place)))
        .collect();
    passed.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    passed.truncate(allowed(passed.len()));
    let waits = |place: usize| trials[place].state == State::Paused && trials[place].rungs.len() == rung + 1;
    passed.into_iter().map(|(_, place)| place).find(|&place| waits(place))
}

/// Epochs at the end of a rung, counted from 0: a whole number of validations, so that a trial that climbed has validated when
/// an uninterrupted run would, and at most the epochs of the spec.
pub fn epochs(halving: Option<Halving>, spec: &Spec, rung: usize) -> u64 {
    let Some(Halving { first, factor }) = halving else { return spec.schedule.epochs };
    let power = u32::try_from(rung).ok().and_then(|rung| factor.checked_pow(rung)).unwrap_or(u64::MAX);
    let every = spec.schedule.validate_every.max(1);
    let whole = first.saturating_mul(power).div_ceil(every).saturating_mul(every);
    whole.min(spec.schedule.epochs)
}

/// Epochs that are left to train until everything is done, of trials like this spec: those that fail or that a plateau ends
/// early leave fewer.
pub fn epochs_left(space: &Space, trials: &[Trial], spec: &Spec) -> u64 {
    let halving = space.settings.halving;
    let factor = halving.map_or(1, |halving| halving.factor) as usize;
    let (mut planned, mut before, mut climbing) = (0u64, 0, space.trials().max(trials.len()));
    for rung in 0.. {
        let until = epochs(halving, spec, rung);
        planned = planned.saturating_add((climbing as u64).saturating_mul(until - before));
        if until >= spec.schedule.epochs {
            break;
        }
        (before, climbing) = (until, (climbing / factor).max(1));
    }
    // A rung counts as trained however it ended.
    let ended = |trial: &Trial| match (trial.rungs.len(), trial.state) {
        (0, State::Failed) => epochs(halving, spec, 0),
        (0, _) => 0,
        (rungs, _) => epochs(halving, spec, rungs - 1),
    };
    planned.saturating_sub(trials.iter().map(ended).sum())
}

#[cfg(test)]
mod tests {
    use super::super::Rung;
    use super::*;

    /// Runs a whole search in which `quality` says what a point has reached after so many epochs.
    fn played(space: &Space, quality: &dyn Fn(&Point, u64) -> Option<f64>) -> Vec<Trial> {
        let mut trials = Vec::new();
        assert!(go_on(space, quality, 1000, &mut trials), "it does not end");
        trials
    }

    /// Does so many jobs more; whether that was all there is.
    fn go_on(
        space: &Space,
        quality: &dyn Fn(&Point, u64) -> Option<f64>,
        jobs: usize,
        trials: &mut Vec<Trial>,
    ) -> bool {
        for _ in 0..jobs {
            let place = match next(space, trials) {
                None => return true,
                Some(Job::Climb(place)) => place,
                Some(Job::Begin(point)) => {
                    trials.push(Trial::new(trials.len() + 1, point));
                    trials.len() - 1
                }
            };
            let trial = &mut trials[place];
            let spec = space.spec(&trial.point).unwrap();
            let epochs = epochs(space.settings.halving, &spec, trial.rungs.len());
            match quality(&trial.point, epochs) {
                None => trial.state = State::Failed,
                Some(valid_mrr) => {
                    trial.rungs.push(Rung { epochs, valid_mrr, best_epoch: epochs });
                    trial.state = if epochs == spec.schedule.epochs { State::Finished } else { State::Paused };
                }
            }
        }
        false
    }

    fn space(method: &str, trials: usize) -> Space {
        let text = format!(
            "[model]\ndimension = {{ low = 1, high = 1000 }}\n[schedule]\nepochs = 100\nvalidate-every = 5\n\
             [search]\nmethod = \"{method}\"\ntrials = {trials}\nhalving = {{ first = 8 }}\n"
        );
        Space::parse(&text, "x", None).unwrap()
    }

    fn dimension(point: &Point) -> f64 {
        point[0].as_integer().unwrap() as f64
    }

    #[test]
    fn rungs_end_where_validations_are() {
        let space = space("random", 1);
        let spec = space.spec(&space.point(&[0.0])).unwrap();
        let ends: Vec<u64> = (0..5).map(|rung| epochs(space.settings.halving, &spec, rung)).collect();
        assert_eq!(ends, [10, 25, 75, 100, 100]);
        assert_eq!(epochs(None, &spec, 0), 100);
        assert_eq!(epochs(space.settings.halving, &spec, 1000), 100, "no overflow");
    }

    #[test]
    fn without_learning_exactly_the_best_climb() {
        let space = space("random", 27);
        let trials = played(&space, &|point, epochs| Some(dimension(point) * (epochs as f64).sqrt()));
        let mut order: Vec<&Trial> = trials.iter().collect();
        order.sort_by(|a, b| dimension(&b.point).total_cmp(&dimension(&a.point)));
        let rungs: Vec<usize> = order.iter().map(|trial| trial.rungs.len()).collect();
        let expected = [&[4][..], &[3; 2], &[2; 6], &[1; 18]].concat();
        assert_eq!(rungs, expected);
        assert_eq!(order[0].state, State::Finished);
    }

    #[test]
    fn one_of_a_few_is_trained_to_its_end() {
        for method in ["random", "sobol", "tpe"] {
            for count in 1..6 {
                let trials = played(&space(method, count), &|point, _| Some(dimension(point)));
                let best = super::super::ranked(&trials)[0];
                assert_eq!(
                    (trials.len(), best.state, best.rungs.len()),
                    (count, State::Finished, 4),
                    "{method} {count}"
                );
            }
        }
    }

    #[test]
    fn failures_make_way_for_the_next() {
        // The best of the first rung fails in the second; those that fail at once cost nothing more.
        let quality = |point: &Point, epochs: u64| match dimension(point) {
            small if small < 300.0 => None,
            large if large > 900.0 && epochs > 10 => None,
            fine => Some(fine),
        };
        for method in ["sobol", "tpe"] {
            let trials = played(&space(method, 27), &quality);
            let best = super::super::ranked(&trials)[0];
            assert!(trials.iter().any(|trial| trial.state == State::Failed && trial.rungs.is_empty()));
            assert_eq!(best.state, State::Finished, "{method}");
            assert!(trials.iter().all(|trial| trial.state != State::Running));
        }
        let trials = played(&space("tpe", 12), &|_, _| None);
        assert!(trials.len() == 12 && super::super::ranked(&trials).is_empty(), "all fail, and the search ends");
    }

    #[test]
    fn a_search_that_was_stopped_anywhere_goes_on_as_if_it_were_not() {
        let quality =
            |point: &Point, epochs: u64| Some(1.0 / (1.0 + (dimension(point) - 400.0).abs()) + epochs as f64 * 1e-6);
        for method in ["random", "sobol", "tpe"] {
            let space = space(method, 20);
            let whole = played(&space, &quality);
            for cut in [0, 1, 7, 15, 25] {
                let mut trials = Vec::new();
                assert!(!go_on(&space, &quality, cut, &mut trials), "it was not over after {cut}");
                // A trial that was under way when the power went.
                if let Some(last) = trials.last_mut().filter(|trial| trial.rungs.len() == 1) {
                    last.rungs.clear();
                    last.state = State::Running;
                }
                assert!(go_on(&space, &quality, 1000, &mut trials));
                assert_eq!(trials, whole, "{method} cut after {cut}");
            }
        }
    }

    #[test]
    fn what_is_left_falls_to_nothing() {
        let space = space("random", 27);
        let quality = |point: &Point, epochs: u64| Some(dimension(point) * epochs as f64);
        let spec = space.spec(&space.point(&[0.0])).unwrap();
        // 27 trials of 10 epochs, 9 of 15 more, 3 of 50 more, 1 of 25 more.
        let all = 270 + 135 + 150 + 25;
        assert_eq!(epochs_left(&space, &[], &spec), all);
        let mut trials = Vec::new();
        go_on(&space, &quality, 5, &mut trials);
        assert_eq!(epochs_left(&space, &trials, &spec), all - 50);
        go_on(&space, &quality, 1000, &mut trials);
        assert_eq!(epochs_left(&space, &trials, &spec), 0);
        let mut plain = space;
        plain.settings.halving = None;
        assert_eq!(epochs_left(&plain, &[], &spec), 2700);
    }

    #[test]
    fn tpe_climbs_early() {
        let space = space("tpe", 9);
        let quality = |point: &Point, _| Some(dimension(point));
        let mut trials = Vec::new();
        go_on(&space, &quality, 4, &mut trials);
        assert_eq!((trials.len(), trials.iter().filter(|trial| trial.rungs.len() == 2).count()), (3, 1));
    }
}
