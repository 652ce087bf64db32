//! Checks that neither the compiler nor clippy make: file lengths, leftovers, machine-specific paths, stray `unsafe`,
//! flags named in libraries.
//!
//! Every exception is listed below with its reason.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::root;

/// Maximum lines in a source file. 100 to 400 is normal; a longer file must be split.
const MAX_LINES: usize = 600;

/// Longer files, and why.
const LONG: &[(&str, &str)] = &[];

/// Files that may contain `unsafe`, and why.
const UNSAFE: &[(&str, &str)] = &[
    ("crates/ruge-cuda/src/lib.rs", "launching kernels is unsafe by nature"),
    ("crates/ruge-cuda/src/device.rs", "loads CUDA's libraries"),
    ("crates/ruge-cuda/src/source.rs", "looks for CUDA's compiler"),
    ("crates/ruge-cuda/src/evidence.rs", "says which values the card may read"),
    ("crates/ruge-cuda/src/gradients.rs", "calls cuBLAS"),
    ("crates/ruge-cuda/src/product.rs", "calls cuBLAS"),
    ("crates/ruge-cuda/src/sample.rs", "launches the kernels of a sample of candidates"),
    ("crates/ruge-cuda/src/softmax.rs", "launches the kernels of softmax training"),
    ("crates/ruge-cuda/src/softmax/moves.rs", "launches what ends a softmax step"),
    ("crates/ruge-cuda/src/softmax/relations.rs", "launches the questions for relations"),
    ("crates/ruge-cuda/src/order.rs", "says which values the card may read"),
    ("crates/ruge-cuda/src/crowd.rs", "launches the kernels that weigh negatives against each other"),
    ("crates/ruge-cuda/src/fold.rs", "launches the kernel that folds gradients"),
    ("crates/ruge-cuda/src/training.rs", "says which values the card may read"),
    ("crates/ruge-cuda/src/training/launches.rs", "launches the kernels of an epoch"),
    ("crates/ruge-cuda/src/model.rs", "calls cuBLAS"),
    ("crates/ruge-cuda/src/rank.rs", "launches the kernels of ranking"),
    ("crates/ruge-embed/src/cpu/mod.rs", "calls code compiled for an instruction set that was detected, prefetches"),
    ("crates/ruge-embed/src/cpu/matrix.rs", "calls the gemm crate on slices that were checked"),
    ("crates/ruge-embed/src/cpu/tile.rs", "register tiles of the ranking kernel, measured against safe code"),
];

/// Words that must not remain in source. Written in two halves, so that this file may contain them.
const LEFTOVERS: &[(&str, &str)] = &[
    (concat!("to", "do!("), "finish it"),
    (concat!("unimpl", "emented!("), "finish it"),
    (concat!("db", "g!("), "remove it"),
    (
        concat!("#[ig", "nore"),
        "nothing is switched off: assert today's behaviour and say why it is wrong; for what a machine may lack see ruge-testing",
    ),
];

/// The libraries: their messages name settings, not flags.
const LIBRARIES: &[&str] = &["ruge-kg", "ruge-rules", "ruge-embed", "ruge-cuda", "ruge", "ruge-lab"];

/// Flags of other programs that a library may name.
const FOREIGN_FLAGS: &[(&str, &str)] =
    &[("--long=31", "zstd's, which unpacks what we cannot"), ("--std=c++17", "that of CUDA's compiler")];

/// Prefixes of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] =
    &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("/tm", "p/"), concat!("C:", "\\")];

/// Checks every file that git tracks or would add, and reports all faults at once.
pub fn run() -> Result<()> {
    let mut faults = Vec::new();
    let files = files()?;
    for name in &files {
        let Ok(text) = std::fs::read_to_string(root().join(name)) else {
            continue; // Not text, or a removed file.
        };
        look_at(name, &text, &mut faults);
    }
    for (name, _) in UNSAFE.iter().chain(LONG) {
        if !root().join(name).is_file() {
            faults.push(format!("{name}: listed as an exception in xtask/src/tidy.rs, but does not exist"));
        }
    }
    unlisted_tests(&files, &mut faults)?;
    if faults.is_empty() {
        return Ok(());
    }
    bail!("{} untidy places\n  {}", faults.len(), faults.join("\n  "));
}

/// The test programs of the command line are listed in its manifest, and cargo does not search for others.
fn unlisted_tests(files: &[String], faults: &mut Vec<String>) -> Result<()> {
    let folder = "crates/ruge-cli/tests/";
    let read = |name: &str| std::fs::read_to_string(root().join(name)).context(name.to_string());
    let (main, manifest) = (read("crates/ruge-cli/tests/main.rs")?, read("crates/ruge-cli/Cargo.toml")?);
    let name = |file: &'_ String| Some(file.strip_prefix(folder)?.strip_suffix(".rs")?.to_string());
    for name in files.iter().filter_map(name).filter(|name| !name.contains('/')) {
        let is_program = manifest.lines().any(|line| line == format!("path = \"tests/{name}.rs\""));
        if !is_program && !main.lines().any(|line| line == format!("mod {name};")) {
            faults.push(format!("{folder}{name}.rs: never runs; add `mod {name};` to main.rs there"));
        }
    }
    Ok(())
}

fn files() -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .context("cannot run git; the tidy checks need it to tell our files from built ones")?;
    ensure!(output.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect())
}

fn look_at(name: &str, text: &str, faults: &mut Vec<String>) {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str()).unwrap_or("");
    if name.starts_with("crates/") && name.ends_with("/Cargo.toml") && !text.contains("[lints]\nworkspace = true") {
        faults.push(format!("{name}: add `[lints] workspace = true`, so that one set of lints rules the house"));
    }
    if ["rs", "toml", "md", "sh", "yml"].contains(&ending) || ending.is_empty() {
        for (at, line) in text.lines().enumerate() {
            if let Some(path) = MACHINE_PATHS.iter().find(|path| holds_path(line, path)) {
                faults.push(format!("{name}:{}: `{path}…` exists on one machine only", at + 1));
            }
        }
    }
    if ending != "rs" {
        return;
    }
    let lines = text.lines().count();
    if lines > MAX_LINES && !listed(LONG, name) {
        faults.push(format!("{name}: {lines} lines; cut it into files of at most {MAX_LINES}"));
    }
    if LIBRARIES.iter().any(|library| name.starts_with(&format!("crates/{library}/src/")))
        && !name.ends_with("tests.rs")
    {
        for (line, flag) in flags_in_strings(text) {
            faults.push(format!(
                "{name}:{line}: `{flag}` is a flag of the command line, which a library does not know; name the setting, and let \
                 crates/ruge-cli/src/remedy.rs say what to type"
            ));
        }
    }
    for (at, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        if let Some((word, remedy)) = LEFTOVERS.iter().find(|(word, _)| code.contains(word)) {
            faults.push(format!("{name}:{}: `{word}` must not stay: {remedy}", at + 1));
        }
        if holds_unsafe(code) && !listed(UNSAFE, name) {
            faults.push(format!("{name}:{}: unsafe code outside the files that may hold it", at + 1));
        }
    }
}

/// Flags in the string literals of a source file, before its tests, with their lines. Comments may name flags.
fn flags_in_strings(text: &str) -> Vec<(usize, &str)> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let bytes = text.as_bytes();
    let (mut at, mut found, mut is_string) = (0, Vec::new(), false);
    while at < bytes.len() {
        match (is_string, &bytes[at..]) {
            (false, [b'/', b'/', ..]) => {
                at += text[at..].find('\n').unwrap_or(text.len() - at);
                continue;
            }
            // A quote in a character literal opens no string.
            (false, [b'\'', b'"', b'\'', ..]) => at += 2,
            (false, [b'\'', b'\\', _, b'\'', ..]) => at += 3,
            (_, [b'"', ..]) => is_string = !is_string,
            (true, [b'\\', ..]) => at += 1,
            (true, [b'-', b'-', b'a'..=b'z', ..]) if matches!(bytes[at - 1], b' ' | b'`' | b'"' | b'(') => {
                let rest = &text[at..];
                let end = rest.find(|c: char| c.is_whitespace() || "`\",;)".contains(c)).unwrap_or(rest.len());
                if !listed(FOREIGN_FLAGS, &rest[..end]) {
                    found.push((text[..at].lines().count(), &rest[..end]));
                }
                at += 1;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

fn listed(exceptions: &[(&str, &str)], name: &str) -> bool {
    exceptions.iter().any(|(exception, _)| *exception == name)
}

/// Whether a path with this prefix occurs in the line, not as the middle of another path.
fn holds_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"_-./~}".contains(c))
    })
}

/// Whether the line contains an unsafe block or item, or allows one.
fn holds_unsafe(code: &str) -> bool {
    ["{", "fn ", "impl ", "trait ", "extern "]
        .iter()
        .any(|next| code.contains(&format!("{} {next}", concat!("un", "safe"))))
        || code.contains(concat!("allow(un", "safe_code"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        look_at(name, text, &mut faults);
        faults
    }

    #[test]
    fn each_check_finds_its_fault() {
        assert_eq!(faults("a.rs", "fn main() {}\n"), Vec::<String>::new());
        assert_eq!(faults("a.rs", &"\n".repeat(601)).len(), 1);
        assert_eq!(faults("a.rs", concat!("to", "do!()")).len(), 1);
        assert_eq!(faults("a.rs", concat!("// to", "do!()")).len(), 0);
        assert_eq!(faults("a.rs", concat!("un", "safe { x }")).len(), 1);
        assert_eq!(faults("a.md", concat!("see /ho", "me/me/x")).len(), 1);
        assert_eq!(faults("a.md", concat!("see data/ho", "me/x and ~/ho", "me/x")).len(), 0);
        assert_eq!(faults("crates/x/Cargo.toml", "[package]\n").len(), 1);
        let flag = "// a \" --out\n\nlet x = ('\"', \"a \\\" b\", \"give `--out`\"); // --out";
        assert_eq!(flags_in_strings(flag), [(3, "--out")]);
        assert_eq!(
            (faults("crates/ruge-kg/src/a.rs", flag).len(), faults("crates/ruge-cli/src/a.rs", flag).len()),
            (1, 0)
        );
        assert_eq!(flags_in_strings("zstd(\"-d --long=31\", \"a--b\")"), []);
    }
}
