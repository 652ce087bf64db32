//! Filling cells from the inside: what is recorded stays, what is cut goes on, what fails is a result, what is repeated agrees.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ruge::DeviceName;
use ruge_kg::{Cancel, Control, Dataset, ReadOptions};
use ruge_lab::reproduce::work::{self, CellEvent, Filled, Place};
use ruge_lab::reproduce::{Cell, PaperTable, Record, TableName};

const SPEC: &str = "[model]\nname = \"complex\"\ndimension = 6\n[batches]\ncount = 10\n[negatives]\ncount = 2\n\
                    [schedule]\nepochs = 4\nvalidate-every = 2\n";

const TABLE: &str = r#"
title = "A table"

[[cell]]
name = "grid"
method = "ComplEx"
data = "demo"
spec = "complex.toml"
change = { model = { dimension = [4, 6] } }

[[cell]]
name = "ruge"
method = "RUGE"
data = "demo"
spec = "complex.toml"
change = { guidance = { kind = "ruge", slackness = 0.1 } }

[[cell]]
name = "counts"
method = "rules"
data = "demo"
spec = "complex.toml"
work = "statistics"
change = { guidance = { kind = "ruge", slackness = 0.1 } }

[[cell]]
name = "plain"
method = "ComplEx"
data = "demo"
spec = "complex.toml"

[[cell]]
name = "thorough"
method = "ComplEx with more evidence"
data = "demo"
spec = "complex.toml"
rank-by = "combined"
change = { rules = { ranking = "none", thorough = true } }

[[cell]]
name = "no-link"
method = "ComplEx with evidence"
data = "demo"
spec = "complex.toml"
rank-by = "combined"
change = { rules = { ranking = "none", evidence = "no-link" } }
"#;

/// A folder with a table, and where its cells are filled.
struct World {
    folder: tempfile::TempDir,
    data: Arc<Dataset>,
    table: PaperTable,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("complex.toml"), SPEC).unwrap();
        let data = Dataset::load(Path::new("demo"), &ReadOptions::default()).expect("it is embedded").0;
        let table = PaperTable::parse(TABLE, TableName::LinkPrediction, "x").unwrap();
        Self { folder, data: Arc::new(data), table }
    }

    fn cell(&self, name: &str) -> &Cell {
        self.table.cells.iter().find(|cell| cell.name == name).expect("a cell")
    }

    /// Fills a cell, stopping after so many epochs. The answer: how it ended, and how many epochs were trained.
    fn fill(&self, name: &str, epochs: usize) -> (Filled, usize) {
        let paths = ["records", "runs"].map(|name| self.folder.path().join(name));
        let (cancel, done) = (Cancel::new(), AtomicUsize::new(0));
        let hear = |event: &CellEvent| {
            if matches!(event, CellEvent::Epoch(..)) && done.fetch_add(1, Ordering::Relaxed) + 1 >= epochs {
                cancel.cancel();
            }
        };
        let place = self.place(&paths[0], &paths[1]);
        let control = Control::new(&cancel).with_listener(&hear);
        let ended = work::fill(self.cell(name), 0, &place, &mut || Ok(Arc::clone(&self.data)), &control).unwrap();
        (ended, done.into_inner())
    }

    fn place<'w>(&'w self, records: &'w Path, runs: &'w Path) -> Place<'w> {
        Place {
            experiments: self.folder.path(),
            records,
            data: Path::new("data"),
            runs,
            device: DeviceName::Cpu,
            device_words: "a processor",
            version: "0",
            commit: "c",
            until: None,
            force: false,
            ranking_rules: RefCell::new(None),
        }
    }
}

fn done(outcome: Filled) -> Record {
    match outcome {
        Filled::Done(record) => record,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_grid_that_was_cut_goes_on_and_is_kept() {
    let (whole, cut) = (World::new(), World::new());
    let (ended, epochs) = whole.fill("grid", usize::MAX);
    let whole = done(ended);
    assert_eq!((whole.points.len(), epochs, whole.epochs), (2, 8, 4));
    let (first, before) = cut.fill("grid", 5);
    assert!(matches!(first, Filled::Unfinished) && (5..8).contains(&before), "{first:?} after {before}");
    let (second, epochs) = cut.fill("grid", usize::MAX);
    assert_eq!(before + epochs, 8, "the second point goes on where it was");
    let second = done(second);
    assert_eq!((&second.ranks_sha256, &second.test, &second.curve), (&whole.ranks_sha256, &whole.test, &whole.curve));
    assert!(whole.ranks_sha256.is_some() && whole.curve.len() == 2);
    let (third, epochs) = cut.fill("grid", usize::MAX);
    assert!(matches!(third, Filled::Kept(record) if record == second) && epochs == 0);
}

#[test]
fn what_is_repeated_agrees_and_statistics_train_nothing() {
    let world = World::new();
    let recorded = done(world.fill("ruge", usize::MAX).0);
    let paths = ["records", "runs"].map(|name| world.folder.path().join(name));
    let place = world.place(&paths[0], &paths[1]);
    let again = work::repeat(world.cell("ruge"), &recorded, &place, &world.data, &Control::default()).unwrap().unwrap();
    let figures = |of: &Record| (of.ranks_sha256.clone(), of.test.clone(), of.rules);
    assert_eq!(figures(&again), figures(&recorded));
    assert!(recorded.rules_only.is_some() && recorded.seconds.ranking.is_some());
    let (ended, epochs) = world.fill("counts", usize::MAX);
    let counted = done(ended);
    assert_eq!((epochs, counted.rules, &counted.rules_only), (0, recorded.rules, &recorded.rules_only));
    let control = Control::default();
    control.cancel().cancel();
    assert!(work::repeat(world.cell("ruge"), &recorded, &place, &world.data, &control).unwrap().is_none());
}

#[test]
fn cells_that_differ_only_at_ranking_time_share_a_model() {
    let (shared, own) = (World::new(), World::new());
    let alone = done(shared.fill("plain", usize::MAX).0);
    for name in ["thorough", "no-link"] {
        let (ended, epochs) = shared.fill(name, usize::MAX);
        assert_eq!(epochs, 0, "{name} is trained already");
        let record = done(ended);
        let beside = record.beside.clone().expect("evidence is added");
        assert_eq!((Some(&beside.alone), beside.rules), (alone.test.as_ref(), 0), "{name} has the same model");
        let setting = |key: &str| record.spec.as_ref().and_then(|spec| spec["rules"].get(key).cloned());
        let settings = (setting("ranking"), setting("thorough"), setting("evidence"));
        let ranking = Some("none".into());
        match name {
            "thorough" => assert_eq!(settings, (ranking, Some(true.into()), None)),
            _ => assert_eq!(settings, (ranking, None, Some("no-link".into()))),
        }
        let (again, _) = shared.fill(name, usize::MAX);
        assert!(matches!(again, Filled::Kept(kept) if kept == record), "the record is that of the cell");
        let (ended, epochs) = own.fill(name, usize::MAX);
        let first = if name == "thorough" { 4 } else { 0 };
        let expected = (first, &record.ranks_sha256, &record.test);
        let trained = done(ended);
        assert_eq!((epochs, &trained.ranks_sha256, &trained.test), expected, "{name} without the other cells");
    }
}
