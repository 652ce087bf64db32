//! `ruge check` on the public benchmark sets, where they are at hand: the published counts, packed and plain.
//!
//! The sets are not part of the repository. `RUGE_DATA` names the folder that holds them; without it the test looks
//! beside the repository and, finding nothing, says so and passes.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

/// Name, entities, relations, train, valid, test, entities train lacks.
const PUBLISHED: [(&str, [u64; 6]); 8] = [
    ("fb15k", [14_951, 1_345, 483_142, 50_000, 59_071, 0]),
    ("fb15k-237", [14_541, 237, 272_115, 17_535, 20_466, 36]),
    ("wn18", [40_943, 18, 141_442, 5_000, 5_000, 0]),
    ("wn18rr", [40_943, 11, 86_835, 3_034, 3_134, 384]),
    ("umls", [135, 46, 5_216, 652, 661, 0]),
    ("kinships", [104, 25, 8_544, 1_068, 1_074, 0]),
    ("codex-s", [2_034, 42, 32_888, 1_827, 1_828, 0]),
    ("yago37-core3", [69_519, 37, 297_469, 15_000, 15_000, 0]),
];

fn sets() -> Option<PathBuf> {
    let folder = match std::env::var_os("RUGE_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    };
    folder.is_dir().then_some(folder)
}

/// Past the test harness, which would keep it to itself.
fn skipped(what: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
}

fn check(data: &Path) -> Value {
    let output = Command::cargo_bin("ruge").unwrap().arg("check").arg(data).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn published_counts_packed_and_plain() {
    let Some(folder) = sets() else {
        skipped("no benchmark sets here; RUGE_DATA=DIR names a folder with fb15k, wn18, …");
        return;
    };
    for (name, expected) in PUBLISHED {
        let packed = folder.join(name);
        if !packed.is_dir() {
            skipped(&format!("{name} is not in {}", folder.display()));
            continue;
        }
        let plain = tempfile::tempdir().unwrap();
        for split in ["train", "valid", "test"] {
            let Ok(gz) = File::open(packed.join(format!("{split}.txt.gz"))) else { continue };
            let mut text = File::create(plain.path().join(format!("{split}.txt"))).unwrap();
            std::io::copy(&mut flate2::read::MultiGzDecoder::new(gz), &mut text).unwrap();
        }
        let mut found = vec![check(&packed)];
        if fs::read_dir(plain.path()).unwrap().next().is_some() {
            found.push(check(plain.path()));
        }
        for report in found {
            let counts = ["entities", "relations", "train", "valid", "test", "unseen_entities"]
                .map(|key| report[key].as_u64().unwrap());
            assert_eq!(counts, expected, "{name}: {}", report["data"]);
            assert_eq!(report["bad_lines"], 0, "{name}");
            assert_eq!(report["duplicates"], 0, "{name}");
        }
    }
}
