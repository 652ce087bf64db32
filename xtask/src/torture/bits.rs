//! The same tensors on any number of threads and with every instruction set that has fused multiply-add.

use std::path::Path;

use anyhow::Result;

use super::case::{Kind, Verdict, Yard, copy_folder};
use super::process::Call;
use super::results::{Contents, contents};
use super::world::{self, words};

/// Trainers and models that together cover every kernel.
const JOBS: &[(&str, &str)] = &[
    ("paper", "train g --dim 19 --epochs 3 --out run"),
    ("guided", "train g --guidance ruge --rules rules.tsv --dim 16 --epochs 3 --out run"),
    ("kale", "train g --model transe --guidance kale --rules rules.tsv --dim 16 --epochs 3 --out run"),
    ("softmax", "train g --preset complex-n3-rules --rules rules.tsv --dim 21 --epochs 4 --out run"),
    ("softmax-distmult", "train g --preset distmult-n3 --dim 16 --epochs 4 --out run"),
    ("hole", "train g --model hole --dim 18 --epochs 3 --out run"),
    ("transe", "train g --preset transe --dim 17 --epochs 3 --out run"),
    ("rotate", "train g --preset rotate --dim 16 --epochs 3 --out run"),
    ("ptranse", "train g --model transe --guidance ptranse --dim 16 --epochs 2 --out run"),
    ("rules", "train g --model rules --rules rules.tsv --out run"),
    ("demo", "train demo --preset complex-n3 --dim 40 --epochs 1 --out run"),
    ("demo-paper", "train demo --dim 40 --epochs 1 --out run"),
    ("run", "run g --rules rules.tsv --dim 16 --epochs 4 --out run"),
];

const THREADS: &[&str] = &["1", "2", "5"];

/// Trains the same model repeatedly.
pub fn attack(yard: &Yard<'_>) -> Result<()> {
    let start = yard.ground.join("start");
    world::build(&start)?;
    let sets: Vec<&str> = [("avx2", has("avx2") && has("fma")), ("avx512", has("avx512f"))]
        .into_iter()
        .filter(|(set, there)| {
            if !there {
                yard.skip(set, "this machine has no such instructions");
            }
            *there
        })
        .map(|(set, _)| set)
        .collect();
    let cases: Vec<(String, &str)> = JOBS.iter().map(|(name, line)| (format!("same/{name}"), *line)).collect();
    yard.try_all(&cases, |_, line, folder| {
        let mut verdict = Verdict::new();
        let mut first: Option<(String, Contents)> = None;
        let native = THREADS.iter().map(|threads| (None, *threads));
        for (set, threads) in native.chain(sets.iter().map(|set| (Some(*set), "2"))) {
            verdict.extend(compare(yard, &start, line, folder, set, threads, &mut first)?);
        }
        // Without fused multiply-add the bits may differ, but must be the same on any number of threads. It is slow,
        // especially in a test build, so the small graph is used.
        let mut first = None;
        for threads in THREADS.iter().filter(|_| !line.contains(" demo ")) {
            verdict.extend(compare(yard, &start, line, folder, Some("portable"), threads, &mut first)?);
        }
        Ok(verdict)
    })
}

fn compare(
    yard: &Yard<'_>,
    start: &Path,
    line: &str,
    folder: &Path,
    set: Option<&str>,
    threads: &str,
    first: &mut Option<(String, Contents)>,
) -> Result<Verdict> {
    let what = format!("`ruge {line} --threads {threads}` with {}", set.unwrap_or("what the machine has"));
    let room = folder.join(format!("{}-{threads}", set.unwrap_or("native")));
    copy_folder(start, &room)?;
    let arguments = words(&format!("{line} --threads {threads} --quiet"));
    let mut call = Call::new(&arguments, &room);
    call.environment = set.map(|set| ("RUGE_ISA", set.into())).into_iter().collect();
    let outcome = yard.ruge.call(&call)?;
    let mut verdict = outcome.verdict(&what);
    if !outcome.success() {
        verdict.push((Kind::Unusable, format!("{what} fails: {}", outcome.last_words())));
        return Ok(verdict);
    }
    let mut tensors = contents(&room)?;
    tensors.retain(|name, _| name.ends_with("model.safetensors"));
    match first {
        None => *first = Some((what, tensors)),
        Some((other, expected)) if *expected != tensors => {
            verdict.push((Kind::Wrong, format!("{what} gives other tensors than {other}")));
        }
        Some(_) => {}
    }
    Ok(verdict)
}

/// Whether the CPU has an instruction set, by its name in Linux.
fn has(set: &str) -> bool {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    flags
        .lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|line| line.split_whitespace().any(|flag| flag == set))
}
