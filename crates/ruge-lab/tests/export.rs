//! Exports of models with awkward names.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ruge::{Engine, ModelFile, ModelName, RugeError, Spec, assemble};
use ruge_kg::{Dataset, Names};
use ruge_lab::export::{ExportFormat, export};

/// A model of untrained vectors over triples of these entities.
fn model(entities: &[&str]) -> Engine {
    let mut names = Names::default();
    let train = entities.windows(2).map(|pair| names.triple(pair[0], "knows", pair[1])).collect();
    let data = Dataset::new(names, train, Vec::new(), Vec::new());
    let mut spec = Spec::paper(ModelName::DistMult, "none").unwrap();
    spec.model.dimension = 3;
    let embeddings = Some(assemble::model(&spec, &data).unwrap().state().unwrap().embeddings.clone());
    let file = ModelFile {
        is_old: false,
        spec,
        embeddings,
        data,
        rules: Vec::new(),
        notes: BTreeMap::new(),
        calibration: None,
        truth: None,
        ranking: None,
        weights: None,
    };
    Engine::new(file).unwrap()
}

/// Why a model is not written; where the format is to blame, parquet can hold it.
fn refused(model: &Engine, format: ExportFormat, out: &Path) -> String {
    let error = export(model, format, out, false).unwrap_err();
    assert!(!out.join("about.json").exists(), "what is not complete does not look complete");
    if let RugeError::Unwritable { formats, .. } = &error {
        assert!(formats.contains(&"parquet"), "{error:?}");
    }
    error.to_string()
}

#[test]
fn blanks_become_underscores_unless_two_names_would_become_one() {
    let folder = tempfile::tempdir().unwrap();
    export(&model(&["New York", "Rome"]), ExportFormat::Word2vec, folder.path(), false).unwrap();
    let text = fs::read_to_string(folder.path().join("entities.w2v.txt")).unwrap();
    assert!(text.starts_with("2 3\nNew_York "), "{text}");
    let said = refused(&model(&["New York", "New_York"]), ExportFormat::Word2vec, &folder.path().join("b"));
    assert!(said.contains("\"New York\"") && said.contains("\"New_York\""), "{said}");
}

#[test]
fn names_that_text_cannot_hold_are_refused_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let odd = model(&["a\tb", "c\nd"]);
    for format in [ExportFormat::Npy, ExportFormat::Pykeen] {
        let said = refused(&odd, format, &folder.path().join(format.name()));
        assert!(said.contains("\"a\\tb\"") && said.contains("cannot keep"), "{said}");
    }
    let out = folder.path().join("parquet");
    let files = export(&odd, ExportFormat::Parquet, &out, false).unwrap();
    assert_eq!(files.len(), 3, "vectors and about.json, no rules: {files:?}");
    let bytes = fs::read(out.join("entities.parquet")).unwrap();
    assert!(bytes.windows(3).any(|window| window == b"a\tb"));
}

#[test]
fn the_folder_must_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    let small = model(&["a", "b"]);
    assert!(refused(&small, ExportFormat::Npy, &file).contains("not a folder"));
    let said = refused(&small, ExportFormat::Npy, &file.join("below"));
    assert!(said.contains("cannot make this folder"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}
