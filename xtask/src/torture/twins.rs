//! Two processes that write to one folder at the same time: one of them waits or is refused, and the folder ends up
//! with the complete result of one of them.

use std::path::Path;

use anyhow::Result;

use super::case::{Kind, Verdict, Yard, copy_folder};
use super::jobs::typed;
use super::process::{Call, Outcome};
use super::results::{Contents, Openings, contents, steady};
use super::world;

/// A command, and the arguments that make the second process produce a different result.
struct Pair {
    name: &'static str,
    before: &'static [&'static str],
    command: &'static str,
    words: [&'static str; 2],
}

const PAIRS: &[Pair] = &[
    Pair {
        name: "train",
        before: &[],
        command: "train g --dim 16 --epochs 200 --validate-every 0 --checkpoint-every 0 --out run",
        words: ["--seed 1", "--seed 2"],
    },
    Pair {
        name: "train-force",
        before: &["train g --dim 4 --epochs 2 --out run"],
        command: "train g --dim 16 --epochs 200 --validate-every 0 --checkpoint-every 0 --out run --force",
        words: ["--seed 1", "--seed 2"],
    },
    Pair {
        name: "run",
        before: &[],
        command: "run g --dim 4 --epochs 50 --validate-every 25 --checkpoint-every 0 --out run",
        words: ["--rules rules.tsv", "--rules other.tsv"],
    },
    Pair {
        name: "run-force",
        before: &["run g --dim 4 --epochs 2 --out run"],
        command: "run g --dim 4 --epochs 50 --validate-every 25 --checkpoint-every 0 --out run --force",
        words: ["--rules rules.tsv", "--rules other.tsv"],
    },
    Pair {
        name: "combine-force",
        before: &["train g --dim 4 --epochs 2 --out base", "combine base --rules rules.tsv --out run"],
        command: "combine base --out run --force",
        words: ["--rules rules.tsv", "--rules other.tsv"],
    },
    Pair {
        name: "search",
        before: &[],
        command: "search g --spec space.toml --out run",
        words: ["--seed 1", "--seed 2"],
    },
];

/// Attempts per pair.
const ATTEMPTS: usize = 30;

/// A start folder, and the result of each command alone.
type Ready = (std::path::PathBuf, Vec<Contents>);

/// Runs every pair repeatedly; the second starts a little later, by a delay derived from the seed.
pub fn attack(yard: &Yard<'_>) -> Result<()> {
    let openings = Openings::default();
    let ready = yard.prepare(PAIRS, |pair| alone(yard, pair))?;
    let mut cases = Vec::new();
    for number in 0..ATTEMPTS {
        cases.extend((0..PAIRS.len()).map(|index| (format!("{}/{number}", PAIRS[index].name), index)));
    }
    yard.try_all(&cases, |name, &index, folder| attempt(yard, name, &PAIRS[index], &ready[index], &openings, folder))
}

fn alone(yard: &Yard<'_>, pair: &Pair) -> Result<Ready> {
    let start = yard.ground.join(format!("start-{}", pair.name));
    world::build(&start)?;
    for line in pair.before {
        yard.ruge.must(&typed(line), &start)?;
    }
    let mut results = Vec::new();
    for (index, words) in pair.words.iter().enumerate() {
        let mut twice = Vec::new();
        for time in 0..2 {
            let folder = yard.ground.join(format!("alone-{}-{index}-{time}", pair.name));
            copy_folder(&start, &folder)?;
            yard.ruge.must(&typed(&format!("{} {words}", pair.command)), &folder)?;
            twice.push(contents(&folder)?);
            std::fs::remove_dir_all(&folder)?;
        }
        results.push(steady(&twice[0], &twice[1])?);
    }
    Ok((start, results))
}

fn attempt(
    yard: &Yard<'_>,
    name: &str,
    pair: &Pair,
    ready: &Ready,
    openings: &Openings,
    folder: &Path,
) -> Result<Verdict> {
    let room = folder.join("room");
    copy_folder(&ready.0, &room)?;
    let later = std::time::Duration::from_millis(yard.random(name).below(30) as u64);
    let start = |words: &str| -> Result<Outcome> {
        let arguments = typed(&format!("{} {words}", pair.command));
        yard.ruge.call(&Call::new(&arguments, &room))
    };
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| start(pair.words[0]));
        std::thread::sleep(later);
        (start(pair.words[1]), one.join().expect("no worker panics"))
    });
    let outcomes = [other?, one?];
    let mut verdict = Verdict::new();
    for outcome in &outcomes {
        verdict.extend(outcome.verdict("one of two at once"));
    }
    let successes = outcomes.iter().filter(|outcome| outcome.success()).count();
    if successes == 0 {
        let words: Vec<String> = outcomes.iter().map(Outcome::last_words).collect();
        verdict.push((Kind::Unusable, format!("both were refused: {}", words.join(" || "))));
    }
    let forced = pair.command.contains("--force");
    if successes == 2 && !forced {
        verdict.push((Kind::Wrong, "both say that the folder is theirs".to_string()));
    }
    let found = contents(&room)?;
    let whole = |right: &Contents| right.iter().all(|(name, hash)| found.get(name) == Some(hash));
    if successes > 0 && !ready.1.iter().any(whole) {
        verdict.push((Kind::Wrong, "what stands there is the result of neither".to_string()));
    }
    verdict.extend(openings.of(&yard.ruge, &room)?);
    let known: Vec<&String> = ready.1.iter().flat_map(Contents::keys).collect();
    let drafts: Vec<&str> =
        found.keys().filter(|name| name.ends_with(".tmp") && !known.contains(name)).map(String::as_str).collect();
    if !drafts.is_empty() {
        verdict.push((Kind::Leftover, format!("left behind: {}", drafts.join(", "))));
    }
    for (_, what) in &mut verdict {
        *what = format!("two of `ruge {}` at once, {} ms apart: {what}", pair.command, later.as_millis());
    }
    Ok(verdict)
}
