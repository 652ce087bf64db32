//! Extreme values for every numeric flag listed in `ruge COMMAND --help`.
//!
//! A command ends by itself or on SIGTERM; it does not panic, abort or leave a model that cannot be read.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::case::{Kind, Yard, copy_folder};
use super::process::{Call, Ruge};
use super::world::{self, words};

/// The values for every flag.
const VALUES: &[&str] = &[
    "0",
    "1",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "-1",
    "nan",
    "inf",
    "1e308",
    "1e-300",
    "1e-17",
    "",
];

/// Valid command lines, for a folder with the files of [`world`] and a model `base`.
const LINES: &[&str] = &[
    "check g",
    "check one.tsv",
    "mine g --min-head-size 1 --out m.tsv",
    "mine demo --out m.tsv",
    "ground g --rules rules.tsv --out gr.tsv",
    "train g --dim 4 --epochs 2 --out run",
    "train g --guidance ruge --rules rules.tsv --dim 4 --epochs 2 --out run",
    "train g --preset complex-n3-rules --rules rules.tsv --dim 4 --epochs 2 --out run",
    "train g --preset transe --dim 4 --epochs 2 --out run",
    "train g --model transe --guidance ptranse --dim 4 --epochs 2 --out run",
    "run g --rules rules.tsv --dim 4 --epochs 2 --out run",
    "search g --spec space.toml --trials 1 --out run",
    "combine base --rules rules.tsv --out run",
    "eval base",
    "predict base --head person-1 --relation citizen_of",
    "predict base --queries ask.tsv",
    "explain base person-1 citizen_of land-1 --rules rules.tsv",
    "complete base --rules rules.tsv",
    "export base --to npy --out e",
    "rules consistency base --rules rules.tsv",
];

/// After this a command is asked to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// After this it hangs.
const LIMIT: Duration = Duration::from_secs(15);

/// Address space of a command, in MB.
const MEMORY: u64 = 6_144;

/// Tries every value of every flag of every line.
pub fn attack(yard: &Yard<'_>) -> Result<()> {
    let start = yard.ground.join("start");
    world::build(&start)?;
    std::fs::write(start.join("ask.tsv"), "person-1\tcitizen_of\t?\n")?;
    std::fs::copy(start.join("g").join("train.txt"), start.join("one.tsv"))?;
    yard.ruge.must(&words("train g --dim 4 --epochs 2 --out base --quiet"), &start)?;
    let mut cases = Vec::new();
    for line in LINES {
        let flags = numeric_flags(&yard.ruge, line, &start)?;
        let command = line.split(' ').next().unwrap_or(line);
        for flag in &flags {
            for value in VALUES {
                let name = format!("{command}/{}/{flag}={value}", line.replace(['/', ' '], "_"));
                cases.push((name, (*line, flag.clone(), *value)));
            }
        }
    }
    ensure!(cases.len() > 1_000, "only {} cases: the help is no longer read as it was", cases.len());
    yard.random("order").shuffle(&mut cases);
    yard.try_all(&cases, |_, (line, flag, value), folder| {
        let room = folder.join("room");
        copy_folder(&start, &room)?;
        let mut arguments = without(line, flag);
        arguments.push(format!("{flag}={value}"));
        let shown = format!("`ruge {}`", arguments.join(" "));
        let mut call = Call::new(&arguments, &room);
        call.memory = Some(MEMORY);
        call.signal = Some(("TERM", PATIENCE));
        call.limit = LIMIT;
        let outcome = yard.ruge.call(&call)?;
        let mut verdict = outcome.verdict_if_asked(&shown);
        let model = room.join("run").join("model.safetensors");
        if outcome.success() && model.is_file() {
            let asked = words("predict run --queries ask.tsv --threads 1");
            let answer = yard.ruge.call(&Call::new(&asked, &room))?;
            if !answer.success() {
                verdict.push((Kind::Unusable, format!("{shown}: its model cannot be read: {}", answer.last_words())));
            }
        }
        Ok(verdict)
    })
}

/// Flags of the line's command with a numeric value, according to the help.
fn numeric_flags(ruge: &Ruge, line: &str, folder: &std::path::Path) -> Result<Vec<String>> {
    const WORDS: &[&str] = &["N", "X", "K", "M", "MB", "SECONDS", "SIZE", "TIME", "VALID,TEST", "N,…"];
    let mut asked: Vec<String> = words(line).into_iter().take(if line.starts_with("rules ") { 2 } else { 1 }).collect();
    asked.push("--help".to_string());
    let help = String::from_utf8_lossy(&ruge.must(&asked, folder)?.output).into_owned();
    let flag = |line: &str| {
        let (flag, rest) = line.trim().strip_prefix("--")?.split_once(" <")?;
        let word = rest.split('>').next()?;
        WORDS.contains(&word).then(|| format!("--{flag}"))
    };
    Ok(help.lines().filter_map(flag).collect())
}

/// The words of a line without a flag and its value.
fn without(line: &str, flag: &str) -> Vec<String> {
    let mut rest = words(line).into_iter();
    let mut kept = Vec::new();
    while let Some(word) = rest.next() {
        if word == flag {
            rest.next();
        } else {
            kept.push(word);
        }
    }
    kept
}
