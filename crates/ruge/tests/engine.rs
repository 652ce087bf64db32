//! A model on disk, opened for questions: the calibration travels with it, and what is wrong is said.

use std::collections::BTreeMap;
use std::path::Path;

use ruge::complete::CompleteOptions;
use ruge::explain::{ExplainOptions, Explanation};
use ruge::model_file::Contents;
use ruge::predict::{PredictOptions, Question};
use ruge::{Calibration, Engine, ModelFile, RugeError, Spec, assemble};
use ruge_kg::{Control, Dataset, ReadOptions};

fn demo() -> Dataset {
    Dataset::load(Path::new("demo"), &ReadOptions::default()).unwrap().0
}

fn spec() -> Spec {
    let mut spec = Spec::default();
    spec.model.dimension = 8;
    spec
}

fn write(path: &Path, data: &Dataset, calibration: Option<&Calibration>) {
    let model = assemble::model(&spec(), data).unwrap();
    let embeddings = Some(&model.state().unwrap().embeddings);
    let contents = Contents {
        spec: &spec(),
        embeddings,
        data,
        rules: &[],
        notes: &BTreeMap::new(),
        calibration,
        truth: None,
        ranking: None,
        weights: None,
    };
    ModelFile::write(path, &contents).unwrap();
}

#[test]
fn a_calibration_is_stored_or_fitted_at_load_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let data = demo();
    let model = assemble::model(&spec(), &data).unwrap();
    let fit = || Calibration::fit(&*model, &data, 0, &Control::default()).unwrap().unwrap();
    let fitted = fit();
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_eq!(pool.install(fit), fitted);
    }
    for (name, stored) in [("with.safetensors", Some(&fitted)), ("without.safetensors", None)] {
        let path = folder.path().join(name);
        write(&path, &data, stored);
        assert_eq!(ModelFile::read(&path).unwrap().calibration.as_ref(), stored);
        let engine = Engine::open(&path).unwrap();
        assert_eq!(*engine.calibration(), fitted, "{name}");
        let reliability =
            engine.calibration().reliability(engine.ranker(), &data, data.test(), 0, &Control::default()).unwrap();
        assert!((0.0..=1.0).contains(&reliability.ece) && reliability.answers > 1000, "{reliability:?}");
    }
}

#[test]
fn without_validation_truth_is_the_objectives() {
    let folder = tempfile::tempdir().unwrap();
    let data = demo();
    let bare = Dataset::new(data.names().clone(), data.train().to_vec(), vec![], vec![]);
    let path = folder.path().join("model.safetensors");
    write(&path, &bare, None);
    let engine = Engine::open(folder.path()).unwrap();
    assert_eq!(*engine.calibration(), Calibration::plain(0.0));
}

#[test]
fn unknown_names_are_answered_with_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    write(&path, &demo(), None);
    let engine = Engine::open(&path).unwrap();
    assert!(engine.entity("France").is_ok());
    let error = engine.entity("Frence").unwrap_err();
    assert!(matches!(error, RugeError::UnknownName { kind: "entity", .. }));
    assert!(error.to_string().contains("France"), "{error}");
    let error = engine.relation("capital").unwrap_err().to_string();
    assert!(error.contains("capital_of"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = Engine::open(empty.path()).err().unwrap().to_string();
    assert!(error.contains("no model.safetensors"), "{error}");
}

/// An engine is asked by many threads at once, before and after it has packed anything, and by its clones.
#[test]
fn eight_threads_ask_one_engine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let data = demo();
    write(&path, &data, None);
    let ask = |engine: &Engine, at: usize| {
        let triple = data.test()[at];
        let question = Question::Tail { head: triple.head, relation: triple.relation };
        let answers = engine.predict(&[question], &PredictOptions::default(), &Control::default()).unwrap();
        let explained = engine.explain(triple, &ExplainOptions::default()).unwrap();
        let near = engine.similar(triple.head, 3).unwrap();
        (answers, Explanation { seconds: 0.0, ..explained }, near)
    };
    let alone = Engine::open(&path).unwrap();
    let expected: Vec<_> = (0..16).map(|at| ask(&alone, at)).collect();
    let shared = Engine::open(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (engine, expected, ask) = (shared.clone(), &expected, &ask);
            scope.spawn(move || {
                for at in (thread..16).chain(0..thread) {
                    assert_eq!(ask(&engine, at), expected[at], "thread {thread}, question {at}");
                }
            });
        }
    });
    let options = CompleteOptions { top: Some(20), ..CompleteOptions::default() };
    let proposed = |engine: &Engine| {
        let found = engine.complete(&options, &Control::default()).unwrap();
        found.proposals(0..found.len()).unwrap()
    };
    assert_eq!(proposed(&shared), proposed(&alone));
    let control = Control::default();
    control.cancel().cancel();
    assert!(shared.complete(&options, &control).err().unwrap().is_cancelled());
    let question = Question::named(&shared, Some("France"), Some("borders"), None).unwrap();
    assert!(shared.predict(&[question; 40], &PredictOptions::default(), &control).unwrap_err().is_cancelled());
}
