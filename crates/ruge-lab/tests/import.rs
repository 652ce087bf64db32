//! Models that PyKEEN trained give the same scores here. experiments/pykeen/fixtures.py made the files, and its notes say how.

use std::path::{Path, PathBuf};

use ruge::Engine;
use ruge::run::Mode;
use ruge_kg::{Dataset, Names, RankQuery, Side, Triple};
use ruge_lab::import::{self, Imported};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/pykeen").join(name)
}

fn read(name: &str, data: Option<&Dataset>) -> Imported {
    import::read(&fixture(name), data).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Every triple, as answer to the question for its tail and to that for its head.
fn agrees(engine: &Engine, rows: &[(String, String, String, f32, f32)]) {
    for (head, relation, tail, by_tail, by_head) in rows {
        let [head_id, tail_id] = [head, tail].map(|name| engine.entity(name).unwrap());
        let triple = Triple { head: head_id, relation: engine.relation(relation).unwrap(), tail: tail_id };
        for (side, answer, expected) in [(Side::Tail, tail_id, by_tail), (Side::Head, head_id, by_head)] {
            let mut scores = vec![0.0; engine.data().entity_count()];
            engine.ranker().score_all(RankQuery { triple, side }, &mut scores).unwrap();
            let found = scores[answer.index()];
            let near = (found - expected).abs() <= 2e-5 * expected.abs().max(1.0);
            assert!(near, "{head} {relation} {tail}, {side:?}: {found} and {expected}");
        }
    }
}

#[test]
fn pykeens_models_score_as_in_pykeen() {
    for name in ["complex", "complex_inverse", "distmult_inverse", "hole", "transe_l1", "transe_l2"] {
        let imported = read(name, None);
        assert_eq!(imported.engine.data().train().len(), 8);
        let text = std::fs::read_to_string(fixture(name).join("scores.json")).unwrap();
        let rows: Vec<(String, String, String, f32, f32)> = serde_json::from_str(&text).unwrap();
        assert_eq!(rows.len(), 6 * 3 * 6);
        agrees(&imported.engine, &rows);
    }
}

#[test]
fn libkges_rows_are_laid_out_as_ours() {
    let path = fixture("libkge.pt");
    let error = import::read(&path, None).err().expect("no names").to_string();
    assert!(error.contains("give its data set"), "{error}");
    let mut names = Names::default();
    let triples: Vec<Triple> =
        (0..6).map(|at| names.triple(&format!("e{at}"), &format!("r{}", at % 3), "e0")).collect();
    let data = Dataset::new(names, triples, Vec::new(), Vec::new());
    let imported = import::read(&path, Some(&data)).unwrap();
    assert_eq!(imported.origin, "LibKGE's complex");
    let text = std::fs::read_to_string(path.with_extension("json")).unwrap();
    let rows: Vec<(u32, u32, u32, f32, f32)> = serde_json::from_str(&text).unwrap();
    let named = rows
        .iter()
        .map(|(h, r, t, a, b)| (format!("e{h}"), format!("r{r}"), format!("e{t}"), *a, *b))
        .collect::<Vec<_>>();
    agrees(&imported.engine, &named);
    let fewer = Dataset::new(Names::default(), Vec::new(), Vec::new(), Vec::new());
    let error = import::read(&path, Some(&fewer)).err().expect("other data").to_string();
    assert!(error.contains("rows for 6 entities, and the data have 0"), "{error}");
}

#[test]
fn held_out_triples_come_from_the_data() {
    let own = read("complex", None);
    let data = |valid: &[(&str, &str, &str)]| {
        let mut names = Names::default();
        let train = own.engine.data().train().iter().map(|&triple| {
            let [h, r, t] = own.engine.data().show(triple);
            names.triple(h, r, t)
        });
        let train: Vec<Triple> = train.collect();
        let valid = valid.iter().map(|(h, r, t)| names.triple(h, r, t)).collect();
        Dataset::new(names, train, valid, Vec::new())
    };
    let imported = read("complex", Some(&data(&[("Lyon", "borders", "Milan"), ("Nice", "located_in", "France")])));
    assert_eq!((imported.engine.data().valid().len(), imported.unknown), (1, [0, 1, 0]));
    let error = import::read(&fixture("complex"), Some(&data(&[("Paris", "capital_of", "France")])));
    let error = error.err().expect("it knows the answer").to_string();
    assert!(error.contains("trained on 1 of the 1 held-out triples"), "{error}");
}

#[test]
fn an_imported_model_is_a_run_folder() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("imported");
    let imported = read("complex_inverse", None);
    let model = import::write(&imported, &out, Mode::Fresh).unwrap();
    let opened = Engine::open(&out).unwrap();
    let triple = imported.engine.data().train()[3];
    assert_eq!(opened.score(triple).unwrap(), imported.engine.score(triple).unwrap());
    assert!(opened.spec().model.reciprocal && model.is_file());
    let error = import::write(&imported, &out, Mode::Fresh).unwrap_err().to_string();
    assert!(error.contains("already"), "{error}");
}

#[test]
fn what_has_no_counterpart_is_refused() {
    let error = import::read(&fixture("rotate"), None).err().expect("another norm").to_string();
    assert!(error.contains("Euclidean norm"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = import::read(empty.path(), None).err().expect("nothing there").to_string();
    assert!(error.contains("neither trained_model.pkl"), "{error}");
    // A file that is cut off at any place is an error that names it.
    let whole = std::fs::read(fixture("complex").join("trained_model.pkl")).unwrap();
    let copy = empty.path().join("copy");
    std::fs::create_dir_all(copy.join("training_triples")).unwrap();
    for name in ["entity_to_id.tsv.gz", "relation_to_id.tsv.gz", "numeric_triples.tsv.gz"] {
        std::fs::copy(fixture("complex/training_triples").join(name), copy.join("training_triples").join(name))
            .unwrap();
    }
    for length in (0..whole.len()).step_by(97) {
        std::fs::write(copy.join("trained_model.pkl"), &whole[..length]).unwrap();
        let error = import::read(&copy, None).err().expect("cut off").to_string();
        assert!(error.contains("trained_model.pkl"), "{length}: {error}");
    }
}
