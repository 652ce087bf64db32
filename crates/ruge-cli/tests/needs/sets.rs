//! The public benchmark sets: the published counts, packed and plain, and the published checksums.

use std::fs::{self, File};
use std::path::Path;

use crate::support::{command, json, stderr};

/// Name, entities, relations, train, valid, test, entities train lacks.
pub const PUBLISHED: [(&str, [u64; 6]); 8] = [
    ("fb15k", [14_951, 1_345, 483_142, 50_000, 59_071, 0]),
    ("fb15k-237", [14_541, 237, 272_115, 17_535, 20_466, 36]),
    ("wn18", [40_943, 18, 141_442, 5_000, 5_000, 0]),
    ("wn18rr", [40_943, 11, 86_835, 3_034, 3_134, 384]),
    ("umls", [135, 46, 5_216, 652, 661, 0]),
    ("kinships", [104, 25, 8_544, 1_068, 1_074, 0]),
    ("codex-s", [2_034, 42, 32_888, 1_827, 1_828, 0]),
    ("yago37-core3", [69_519, 37, 297_469, 15_000, 15_000, 0]),
];

/// What `ruge check` counts in a set as published, and unpacked.
pub fn published_counts(packed: &Path, expected: [u64; 6]) {
    let plain = tempfile::tempdir().unwrap();
    for split in ["train", "valid", "test"] {
        let Ok(gz) = File::open(packed.join(format!("{split}.txt.gz"))) else { continue };
        let mut text = File::create(plain.path().join(format!("{split}.txt"))).unwrap();
        std::io::copy(&mut flate2::read::MultiGzDecoder::new(gz), &mut text).unwrap();
    }
    let unpacked = fs::read_dir(plain.path()).unwrap().next().is_some();
    for data in [packed, plain.path()].into_iter().take(1 + usize::from(unpacked)) {
        let report = json(&["check", data.to_str().unwrap(), "--json"]);
        let counts = ["entities", "relations", "train", "valid", "test", "unseen_entities"]
            .map(|key| report[key].as_u64().unwrap());
        assert_eq!(counts, expected, "{}", report["data"]);
        assert_eq!((&report["bad_lines"], &report["duplicates"]), (&0.into(), &0.into()));
    }
}

/// The rules that come with KALE's WN18: every line is one, its relations are those of the data, and every one concludes something.
pub fn kales_rules_are_read(set: &Path) {
    let (file, data) = (set.join("rules-kale.txt"), set.to_str().unwrap());
    let lines = fs::read_to_string(&file).unwrap().lines().filter(|line| !line.trim().is_empty()).count();
    let found = json(&["rules", "verify", data, "--rules", file.to_str().unwrap(), "--json"]);
    assert_eq!(found["rules"].as_u64().map(|rules| rules as usize), Some(lines), "{found}");
    let none = ["unreadable", "not_counted", "duplicates"].map(|key| found[key].as_u64());
    assert_eq!((none, &found["format"]), ([Some(0); 3], &"kale".into()), "{found}");
    let counted = json(&["ground", data, "--rules", file.to_str().unwrap(), "--json"]);
    assert!(counted["groundings"].as_u64() > Some(0), "{counted}");
}

/// Sets that `ruge data get` has checksums of.
pub const VERIFIED: [&str; 7] = ["fb15k", "fb15k-237", "wn18", "wn18rr", "kinships", "umls", "codex-s"];

/// `ruge data get` takes a set from a folder and finds it to be the published one.
pub fn is_verified(set: &Path) {
    let (from, name) = (set.parent().unwrap(), set.file_name().unwrap().to_str().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let args = ["data", "get", name, "--from", from.to_str().unwrap()];
    let output = command(&args).current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("next: ruge check data/{name}")), "{said}");
    assert!(said.contains("every file has its published checksum"), "{said}");
    let files = fs::read_dir(folder.path().join("data").join(name)).unwrap().count();
    assert_eq!(files, if name == "fb15k" { 4 } else { 3 });
}
