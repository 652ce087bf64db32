//! A model on disk, opened for questions: the calibration travels with it, and what is wrong is said.

use std::collections::BTreeMap;
use std::path::Path;

use ruge::model_file::Contents;
use ruge::{Calibration, Loaded, ModelFile, RugeError, Spec, assemble};
use ruge_kg::{Dataset, ReadOptions};

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
    let embeddings = &model.state().unwrap().embeddings;
    let contents = Contents {
        spec: &spec(),
        embeddings,
        data,
        rules: &[],
        notes: &BTreeMap::new(),
        calibration,
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
    let fit = || Calibration::fit(&*model, &data, 0).unwrap().unwrap();
    let fitted = fit();
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_eq!(pool.install(fit), fitted);
    }
    for (name, stored) in [("with.safetensors", Some(&fitted)), ("without.safetensors", None)] {
        let path = folder.path().join(name);
        write(&path, &data, stored);
        assert_eq!(ModelFile::read(&path).unwrap().calibration.as_ref(), stored);
        let loaded = Loaded::open(&path).unwrap();
        assert_eq!(loaded.calibration, fitted, "{name}");
        let reliability = loaded.calibration.reliability(&*loaded.model, &data, data.test(), 0).unwrap();
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
    let loaded = Loaded::open(folder.path()).unwrap();
    assert_eq!(loaded.calibration, Calibration::plain(0.0));
}

#[test]
fn unknown_names_are_answered_with_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    write(&path, &demo(), None);
    let loaded = Loaded::open(&path).unwrap();
    assert!(loaded.entity("France").is_ok());
    let error = loaded.entity("Frence").unwrap_err();
    assert!(matches!(error, RugeError::UnknownName { kind: "entity", .. }));
    assert!(error.to_string().contains("France"), "{error}");
    let error = loaded.relation("capital").unwrap_err().to_string();
    assert!(error.contains("capital_of"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = Loaded::open(empty.path()).err().unwrap().to_string();
    assert!(error.contains("no model.safetensors"), "{error}");
}
