//! Checks the dependencies between our crates: the diamond of ARCHITECTURE.md.
//!
//! Rules do not depend on vectors, and the graph depends on neither. Cargo would accept any new line in a manifest, so
//! every dependency must also be listed here. So must a new crate.

use anyhow::{Context, Result, bail, ensure};

use crate::root;
use crate::test::cargo;

/// Each of our crates, and all of our crates it may depend on, directly or indirectly.
const MAY_USE: &[(&str, &[&str])] = &[
    ("ruge-kg", &[]),
    ("ruge-rules", &["ruge-kg"]),
    ("ruge-embed", &["ruge-kg"]),
    ("ruge-cuda", &["ruge-embed", "ruge-kg"]),
    ("ruge", &["ruge-cuda", "ruge-embed", "ruge-kg", "ruge-rules"]),
    ("ruge-lab", &["ruge", "ruge-cuda", "ruge-embed", "ruge-kg", "ruge-rules"]),
    ("ruge-report", &["ruge", "ruge-cuda", "ruge-embed", "ruge-kg", "ruge-lab", "ruge-rules"]),
    ("ruge-serve", &["ruge", "ruge-cuda", "ruge-embed", "ruge-kg", "ruge-rules"]),
    (
        "ruge-cli",
        &["ruge", "ruge-cuda", "ruge-embed", "ruge-kg", "ruge-lab", "ruge-report", "ruge-rules", "ruge-serve"],
    ),
    (
        "ruge-python",
        &[
            "ruge",
            "ruge-cli",
            "ruge-cuda",
            "ruge-embed",
            "ruge-kg",
            "ruge-lab",
            "ruge-report",
            "ruge-rules",
            "ruge-serve",
        ],
    ),
    ("ruge-testing", &[]),
    ("xtask", &[]),
];

/// Checks the table against cargo's resolution.
pub fn run() -> Result<()> {
    for name in members()? {
        let Some((_, allowed)) = MAY_USE.iter().find(|(of, _)| *of == name) else {
            bail!("crate {name} is not in the table of xtask/src/directions.rs\n  remedy: say there what it may use");
        };
        let tree = ["tree", "--package", &name, "--edges", "normal,build", "--prefix", "none", "--format", "{p}"];
        let output = cargo(&tree).output().context("cannot run cargo tree")?;
        ensure!(output.status.success(), "cargo tree failed: {}", String::from_utf8_lossy(&output.stderr));
        let tree = String::from_utf8_lossy(&output.stdout).into_owned();
        for used in tree.lines().filter_map(|line| line.split(' ').next()) {
            let ours = MAY_USE.iter().any(|(of, _)| *of == used);
            if ours && used != name && !allowed.contains(&used) {
                bail!(
                    "{name} must not use {used}\n  why: see the invariants in ARCHITECTURE.md\n  remedy: move the code, \
                     or change the table in xtask/src/directions.rs and defend it in the commit"
                );
            }
        }
    }
    Ok(())
}

/// The names of all crates of the workspace.
fn members() -> Result<Vec<String>> {
    let mut names = vec!["ruge-testing".to_string(), "xtask".to_string()];
    let crates = root().join("crates");
    for entry in std::fs::read_dir(&crates).with_context(|| format!("cannot list {}", crates.display()))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
