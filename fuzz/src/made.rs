//! Readers of the program's own files: rules, specs, search spaces, models, checkpoints, queries.
//!
//! For any bytes, the result is an error that can be shown, or a value that reads back the same after writing.

use std::cell::RefCell;
use std::path::Path;
use std::sync::OnceLock;

use ruge_lab::search::Space;
use ruge::{Loaded, ModelFile, Spec};
use ruge_kg::Names;
use ruge_rules::io::{RuleFormat, RuleReadOptions, RuleWriteOptions, parse_rules, write_rules};

/// The reader of queries belongs to the command line, which is not a library.
#[path = "../../crates/ruge-cli/src/predict/questions.rs"]
#[allow(dead_code, missing_docs)]
mod questions;

/// Rules in every format. The first byte selects the format or its detection.
pub fn check_rules(data: &[u8]) {
    let [choice, text @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let format = RuleFormat::all().nth(usize::from(*choice).wrapping_sub(1));
    let options = RuleReadOptions { format, ..Default::default() };
    let mut names = Names::default();
    let file = match parse_rules(text, &options, &mut names) {
        Ok(file) => file,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for record in &file.rules {
        assert!((0.0..=1.0).contains(&record.confidence.get()), "a confidence is a share");
        let _ = record.not_groundable();
    }
    // Whatever can be written reads back the same; other formats may reorder premises. JSON expresses every rule.
    for format in [RuleFormat::Json, RuleFormat::Native] {
        let mut written = Vec::new();
        if let Err(error) = write_rules(&mut written, format, &file.rules, &names, &RuleWriteOptions::default()) {
            assert!(format != RuleFormat::Json, "JSON cannot say a rule: {error}");
            continue;
        }
        let written = String::from_utf8(written).expect("rules are written as UTF-8");
        let options = RuleReadOptions { format: Some(format), ..Default::default() };
        let again = parse_rules(&written, &options, &mut names).unwrap_or_else(|error| panic!("{format}: {error}"));
        let renumbered =
            |rules: &[ruge_rules::RuleRecord]| rules.iter().map(|record| record.rule.renumbered()).collect::<Vec<_>>();
        assert_eq!(renumbered(&file.rules), renumbered(&again.rules), "{format}");
    }
}

/// Specs as TOML.
pub fn check_spec(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Spec::from_toml(text, "spec.toml") {
        Ok(spec) => {
            let again = Spec::from_toml(&spec.to_toml(), "spec.toml").unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(spec.to_toml(), again.to_toml(), "a spec says the same when it is read back");
            if let Err(error) = spec.check() {
                assert!(!error.to_string().is_empty());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Search spaces as TOML.
pub fn check_space(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Space::parse(text, "space.toml", None) {
        Ok(space) => {
            let again = Space::parse(&space.to_toml(), "space.toml", None).unwrap_or_else(|error| panic!("{error}"));
            assert!(space.is_same(&again), "a space says the same when it is read back");
            for unit in [0.0, 0.5, 1.0_f64.next_down()] {
                let point = space.point(&vec![unit; space.parameters.len()]);
                assert_eq!(space.named(&point).len(), space.parameters.len());
                if let Err(error) = space.spec(&point) {
                    assert!(!error.to_string().is_empty());
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Model files. A model that opens can be queried.
pub fn check_model(data: &[u8]) {
    in_file("model.safetensors", data, |path| match ModelFile::read(path).and_then(Loaded::new) {
        Ok(loaded) => {
            let data = &loaded.file.data;
            if let Some(&triple) = data.train().first() {
                let _ = loaded.score(triple);
                assert!(data.show(triple).iter().all(|name| !name.is_empty()));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    });
}

/// Checkpoints. A checkpoint that opens reads back the same after writing.
pub fn check_checkpoint(data: &[u8]) {
    in_file("checkpoint.safetensors", data, |path| match ruge_embed::checkpoint::read(path) {
        Ok(read) => {
            ruge_embed::checkpoint::write(path, &read.state, &read.progress, &read.notes).expect("room in the folder");
            assert_eq!(ruge_embed::checkpoint::read(path).expect("just written"), read);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    });
}

/// Queries, line by line, to a small model.
pub fn check_queries(data: &[u8]) {
    static MODEL: OnceLock<Loaded> = OnceLock::new();
    let model = MODEL.get_or_init(|| {
        let mut loaded = None;
        in_file("model.safetensors", include_bytes!("../seeds/model/plain"), |path| loaded = Some(Loaded::open(path)));
        loaded.expect("it was opened").expect("the seed is a model")
    });
    for line in data.split(|&byte| byte == b'\n') {
        if let Err(reason) = questions::parse(line, model) {
            assert!(!reason.is_empty());
        }
    }
}

fn in_file(name: &str, data: &[u8], read: impl FnOnce(&Path)) {
    thread_local! {
        static FOLDER: RefCell<tempfile::TempDir> = RefCell::new(
            tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder to write to"),
        );
    }
    FOLDER.with_borrow(|folder| {
        let path = folder.path().join(name);
        std::fs::write(&path, data).expect("room in the folder");
        read(&path);
    });
}
