//! What a spec is written as decides which recorded results still count and which runs are continued: it must not change with
//! the types behind it. `spec_files.tsv` holds the hash of every system, preset and published spec as TOML and as JSON.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use ruge::model_file::hex;
use ruge::spec::Preset;
use ruge::{ModelName, Spec};
use sha2::{Digest, Sha256};

const EXPERIMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");

fn published(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            published(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
}

#[test]
fn specs_are_written_as_ever() {
    let mut specs = Vec::new();
    for model in ModelName::ALL {
        for guidance in ["none", "ruge", "static", "examples", "kale", "ptranse"] {
            let spec = Spec::paper(model, guidance);
            specs.push((format!("{}/{guidance}", model.name()), spec.expect("a system")));
        }
    }
    for preset in Preset::ALL {
        specs.push((preset.name().to_string(), preset.spec().expect("a preset")));
    }
    let mut files = Vec::new();
    published(Path::new(EXPERIMENTS), &mut files);
    files.sort();
    for file in files {
        // Lists of cells and spaces of searches are not specs.
        if let Ok(spec) = Spec::read(&file) {
            let name = file.strip_prefix(EXPERIMENTS).expect("a file of experiments");
            specs.push((name.display().to_string(), spec));
        }
    }
    specs.retain(|(_, spec)| spec.check().is_ok());
    let mut found = String::new();
    for (name, spec) in &specs {
        let json = serde_json::to_string(spec).expect("plain data");
        let [toml, json] = [spec.to_toml(), json].map(|text| hex(&Sha256::digest(text)[..8]));
        writeln!(found, "{name}\t{toml}\t{json}").expect("text");
    }
    assert_eq!(found, include_str!("spec_files.tsv"));
}
