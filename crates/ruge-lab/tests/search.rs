//! A search from the inside: stopped in the middle of a trial, given up, locked, and in a folder that is not empty.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ruge::run::Mode;
use ruge_kg::{Cancel, Control, Dataset, ReadOptions};
use ruge_lab::search::{Best, Ended, Rung, Search, SearchEvent, SearchOptions, Space, State, Trial};

const SPACE: &str = "[model]\ndimension = [2, 3, 4, 5]\n[batches]\ncount = 10\n[negatives]\ncount = 2\n[schedule]\nepochs = 4\n\
                     validate-every = 2\n[search]\nmethod = \"sobol\"\nhalving = { first = 2, factor = 2 }\n";

fn demo() -> Dataset {
    Dataset::load(Path::new("demo"), &ReadOptions::default()).expect("it is embedded").0
}

fn space() -> Space {
    Space::parse(SPACE, "x", None).expect("a space")
}

/// Runs until the end, or until so many epochs are done.
fn run(search: &mut Search, data: &Dataset, epochs: usize) -> Ended {
    let (cancel, done) = (Cancel::new(), AtomicUsize::new(0));
    let options = SearchOptions { device: None, until: None, checkpoint_every: Duration::ZERO };
    let hear = |event: &SearchEvent| {
        if matches!(event, SearchEvent::Epoch(..)) && done.fetch_add(1, Ordering::Relaxed) + 1 >= epochs {
            cancel.cancel();
        }
    };
    search.run(data, &options, &Control::new(&cancel).with_listener(&hear)).expect("it runs")
}

/// All that a search found, without the time it took.
fn found(search: &Search) -> Vec<impl PartialEq + std::fmt::Debug> {
    let of =
        |trial: &ruge_lab::search::Trial| (trial.point.clone(), trial.state, trial.rungs.clone(), trial.curve.clone());
    search.trials().iter().map(of).collect()
}

/// A search that was stopped in its second trial, in a folder where something else lay before, and opened again.
fn cut(folder: &Path, data: &Dataset, strange: &Path) -> Search {
    std::fs::create_dir_all(folder.join("trials/0001")).unwrap();
    std::fs::copy(strange, folder.join("trials/0001/checkpoint.safetensors")).unwrap();
    let mut search = Search::open(folder, Some(space()), data, Mode::Fresh).unwrap();
    assert_eq!(run(&mut search, data, 3), Ended::Unfinished);
    assert_eq!((search.trials().len(), search.trials()[1].state), (2, State::Running));
    drop(search);
    Search::open(folder, None, data, Mode::Resume).unwrap()
}

#[test]
fn a_trial_that_was_under_way_goes_on_or_is_given_up() {
    let (folder, data) = (tempfile::tempdir().unwrap(), demo());
    let path = |name: &str| folder.path().join(name);
    let mut whole = Search::open(&path("whole"), Some(space()), &data, Mode::Fresh).unwrap();
    assert_eq!(run(&mut whole, &data, usize::MAX), Ended::Done);
    assert_eq!(whole.trials().iter().filter(|trial| trial.state == State::Finished).count(), 2);
    let best = whole.run_folder(whole.best().expect("a best one"));
    assert!(best.join("model.safetensors").exists());
    let strange = best.join("checkpoint.safetensors");

    let mut search = cut(&path("cut"), &data, &strange);
    assert_eq!(run(&mut search, &data, usize::MAX), Ended::Done);
    assert_eq!(found(&search), found(&whole), "as if it had not been cut");

    let mut search = cut(&path("skipped"), &data, &strange);
    assert_eq!((search.give_up().unwrap(), search.give_up().unwrap()), (Some(2), None));
    assert_eq!(run(&mut search, &data, usize::MAX), Ended::Done);
    let second = &search.trials()[1];
    assert_eq!((second.state, second.rungs.len()), (State::Failed, 0));
    assert!(second.error.as_ref().unwrap().contains("given up"));

    let error = Search::open(&path("whole"), None, &data, Mode::Resume).err().expect("it is at work");
    assert!(error.to_string().contains("another ruge"), "{error}");
}

/// The clock stops a trial where it is. What was found before stays, nothing is compared with half a trial, and the search that goes
/// on ends with the same bits as one that had all the time it wanted.
#[test]
fn time_stops_a_trial_and_no_comparison_notices() {
    let (folder, data) = (tempfile::tempdir().unwrap(), demo());
    let path = |name: &str| folder.path().join(name);
    let mut whole = Search::open(&path("whole"), Some(space()), &data, Mode::Fresh).unwrap();
    assert_eq!(run(&mut whole, &data, usize::MAX), Ended::Done);

    let mut search = Search::open(&path("timed"), Some(space()), &data, Mode::Fresh).unwrap();
    let none = SearchOptions { device: None, until: Some(Instant::now()), checkpoint_every: Duration::ZERO };
    assert_eq!(search.run(&data, &none, &Control::default()).unwrap(), Ended::TimeUp);
    assert!(search.trials().is_empty() && Best::of(search.trials()).is_none(), "nothing was begun");

    // The deadline comes with the third epoch, for which the listener waits, or earlier on a slow machine.
    let until = Instant::now() + Duration::from_secs(2);
    let options = SearchOptions { until: Some(until), ..none };
    let done = AtomicUsize::new(0);
    let hear = |event: &SearchEvent| {
        if matches!(event, SearchEvent::Epoch(..)) && done.fetch_add(1, Ordering::Relaxed) == 2 {
            while Instant::now() < until {
                std::thread::yield_now();
            }
        }
    };
    assert_eq!(search.run(&data, &options, &Control::default().with_listener(&hear)).unwrap(), Ended::TimeUp);
    let last = search.trials().last().expect("begun");
    // A slow machine may be between two trials when time is up; no trial under way has a result.
    assert_eq!(last.rungs.len(), usize::from(last.state != State::Running));
    assert_eq!(last.valid_mrr().is_some(), last.state != State::Running);
    assert!(search.trials().len() <= 2 && done.into_inner() <= 3, "nothing was begun afterwards");
    drop(search);
    let mut search = Search::open(&path("timed"), None, &data, Mode::Resume).unwrap();
    assert_eq!(run(&mut search, &data, usize::MAX), Ended::Done);
    assert_eq!(found(&search), found(&whole), "as if time had not been up");
}

#[test]
fn before_the_first_rung_what_was_stopped_is_all_there_is() {
    let space = space();
    let mut trial = Trial::new(1, space.point(&[0.0]));
    assert!(Best::of(std::slice::from_ref(&trial)).is_none(), "no validation yet");
    trial.curve = vec![(2, 0.25), (4, 0.5), (6, 0.5)];
    let best = Best::of(std::slice::from_ref(&trial)).expect("it was validated");
    assert_eq!((best.valid_mrr, best.stopped_at), (0.5, Some(4)));
    let mut other = Trial::new(2, space.point(&[0.9]));
    (other.rungs, other.state) = (vec![Rung { epochs: 2, valid_mrr: 0.1, best_epoch: 2 }], State::Paused);
    let trials = [trial, other];
    assert_eq!(Best::of(&trials).map(|best| (best.trial.number, best.stopped_at)), Some((2, None)));
}

#[test]
fn trials_share_the_rules_of_a_file_that_stays_as_it_was() {
    let (folder, data) = (tempfile::tempdir().unwrap(), demo());
    let (out, file) = (folder.path().join("search"), folder.path().join("rules.txt"));
    let relation = |at: u32| data.names().relations.name(ruge_kg::RelationId(at)).to_string();
    std::fs::write(&file, format!("{}(x,y) => {}(x,y)\t0.8\n", relation(0), relation(1))).unwrap();
    let text = format!(
        "[model]\ndimension = 3\n[batches]\ncount = 10\n[negatives]\ncount = 2\n[schedule]\nepochs = 2\nvalidate-every = 1\n\
         [guidance]\nkind = \"ruge\"\nslackness = [0.01, 0.1]\n[rules]\nfile = '{}'\nmin-confidence = [0.0, 0.9]\n\
         [search]\nmethod = \"grid\"\n",
        file.display()
    );
    let space = Space::parse(&text, "x", None).expect("a space");
    let mut search = Search::open(&out, Some(space), &data, Mode::Fresh).unwrap();
    let (cancel, read) = (Cancel::new(), AtomicUsize::new(0));
    let options = SearchOptions { device: None, until: None, checkpoint_every: Duration::ZERO };
    let hear = |event: &SearchEvent| match event {
        SearchEvent::Rules => _ = read.fetch_add(1, Ordering::Relaxed),
        SearchEvent::Ended(_, trials) if trials.len() == 3 => cancel.cancel(),
        _ => {}
    };
    let control = Control::new(&cancel).with_listener(&hear);
    assert_eq!(search.run(&data, &options, &control).unwrap(), Ended::Unfinished);
    assert_eq!((search.trials().len(), read.into_inner()), (3, 1), "the file is read once for all of them");
    std::fs::write(&file, "").unwrap();
    let error = search.run(&data, &options, &Control::default()).unwrap_err().to_string();
    assert!(error.contains("other rules") && error.contains("was changed since"), "{error}");
}
