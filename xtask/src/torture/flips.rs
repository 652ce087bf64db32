//! One bit flipped in a file that the program wrote: the file is refused, or nothing changes.
//!
//! A model or checkpoint with a flipped bit that opens without an error is `accepted`, whatever it answers; if its
//! answers differ, it is `wrong` as well. A ledger and the files it covers may be regenerated instead.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::case::{Kind, Verdict, Yard, copy_folder};
use super::jobs::typed;
use super::process::Call;
use super::results::{Contents, contents};
use super::shim::Shim;
use super::world;

/// Flips per file.
const FLIPS: usize = 3000;

/// A folder before a flip, the commands after it, and their results without a flip.
struct Target {
    /// Group and file: `model plain`.
    name: String,
    start: PathBuf,
    /// The file, in that folder.
    file: String,
    /// The commands, run until one refuses.
    lines: Vec<String>,
    /// The answers of the commands, in order; empty if files are compared.
    answers: Vec<Value>,
    /// Files that must equal those of an undisturbed run.
    result: Contents,
    /// Whether exit code 0 without a message is a failure.
    strict: bool,
    /// Whether the file may be regenerated instead.
    renewed: bool,
}

/// Makes one file of every kind, and flips bits in each.
pub fn attack(yard: &Yard<'_>) -> Result<()> {
    let mut targets = models(yard)?;
    targets.extend(ledgers(yard)?);
    match Shim::build()? {
        Ok(shim) => targets.extend(checkpoints(yard, &shim)?),
        Err(reason) => yard.skip("checkpoint", &format!("stopping half-way needs the shim: {reason}")),
    }
    let mut cases = Vec::new();
    for (index, target) in targets.iter().enumerate() {
        let bytes = std::fs::read(target.start.join(&target.file))?;
        // Half of the flips go to the header, if there is one: it is small and defines the rest. The others go to
        // nonzero bytes, which are likely to matter.
        let telling: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
        let header =
            target.file.ends_with(".safetensors").then(|| header_length(&bytes)).flatten().unwrap_or(bytes.len());
        for number in 0..FLIPS {
            let name = format!("{}/{number}", target.name);
            let mut random = yard.random(&name);
            let byte = match number % 2 {
                0 if header < bytes.len() => random.below(header),
                0 => *random.pick(&telling),
                _ => random.below(bytes.len()),
            };
            cases.push((name, (index, byte, random.below(8) as u8)));
        }
    }
    yard.random("order").shuffle(&mut cases);
    yard.try_all(&cases, |_, &(index, byte, bit), folder| flip(yard, &targets[index], byte, bit, folder))
}

fn header_length(bytes: &[u8]) -> Option<usize> {
    let length = u64::from_le_bytes(*bytes.first_chunk()?);
    usize::try_from(length).ok().map(|length| (length + 8).min(bytes.len()))
}

fn flip(yard: &Yard<'_>, target: &Target, byte: usize, bit: u8, folder: &Path) -> Result<Verdict> {
    let room = folder.join("room");
    copy_folder(&target.start, &room)?;
    let file = room.join(&target.file);
    let mut bytes = std::fs::read(&file)?;
    bytes[byte] ^= 1 << bit;
    std::fs::write(&file, &bytes)?;
    let what = format!("bit {bit} of byte {byte} in {}", target.file);
    let mut verdict = Verdict::new();
    for (number, line) in target.lines.iter().enumerate() {
        let arguments = asked(line);
        let outcome = yard.ruge.call(&Call::new(&arguments, &room))?;
        verdict.extend(outcome.verdict(&format!("{what}: `ruge {line}`")));
        if !outcome.success() {
            return Ok(verdict);
        }
        let other = target.answers.get(number).is_some_and(|answer| *answer != timeless(&outcome.output));
        let found = contents(&room)?;
        let changed: Vec<&str> = target
            .result
            .iter()
            .filter(|(name, hash)| found.get(*name) != Some(*hash))
            .map(|(name, _)| name.as_str())
            .collect();
        if other || !changed.is_empty() {
            let how = if other { "another answer".to_string() } else { format!("other files: {}", changed.join(", ")) };
            verdict.push((Kind::Wrong, format!("{what}: `ruge {line}` ends with exit code 0 and {how}")));
        }
        let told =
            outcome.errors.contains("note") || outcome.errors.contains("warning") || outcome.errors.contains("damaged");
        let renewed = target.renewed && std::fs::read(&file).map_or(true, |now| now != bytes);
        if target.strict && number == 0 && !told && !renewed {
            verdict.push((Kind::Accepted, format!("{what}: `ruge {line}` took it without a word")));
        }
    }
    Ok(verdict)
}

/// An answer without its times.
fn timeless(output: &[u8]) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(object) => {
                object.retain(|key, _| !["second", "time", "memory"].iter().any(|word| key.contains(word)));
                object.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::from_slice(output).unwrap_or(Value::Null);
    strip(&mut value);
    value
}

/// A quick command that is not quiet, since its notes matter.
fn asked(line: &str) -> Vec<String> {
    world::words(&format!("{line} --threads 1"))
}

/// A start folder after these commands.
fn start(yard: &Yard<'_>, name: &str, lines: &[&str]) -> Result<PathBuf> {
    let folder = yard.ground.join(format!("start-{name}"));
    world::build(&folder)?;
    for line in lines {
        yard.ruge.must(&typed(line), &folder)?;
    }
    Ok(folder)
}

/// Keeps one folder of a start folder, so that copies are small.
fn alone(yard: &Yard<'_>, from: &Path, name: &str) -> Result<PathBuf> {
    let folder = yard.ground.join(format!("alone-{}", name.replace('/', "-")));
    copy_folder(&from.join(name), &folder.join("m"))?;
    for inner in ["unguided", "guided", "evaluated", "deployed"] {
        let inner = folder.join("m").join(inner);
        if inner.is_dir() {
            std::fs::remove_dir_all(inner)?;
        }
    }
    Ok(folder)
}

/// Models of every kind, queried for ranks, an answer and an explanation.
fn models(yard: &Yard<'_>) -> Result<Vec<Target>> {
    let made = start(
        yard,
        "models",
        &[
            "train g --dim 4 --epochs 3 --out plain",
            "train g --preset complex-n3-rules --rules rules.tsv --dim 4 --epochs 3 --out guided",
            "train g --model rules --rules rules.tsv --out rules",
            "combine plain --rules rules.tsv --out combined",
            "train g --model transe --guidance ptranse --dim 4 --epochs 2 --out paths",
            "run g --rules rules.tsv --dim 4 --epochs 2 --out run",
        ],
    )?;
    let mut targets = Vec::new();
    for name in ["plain", "guided", "rules", "combined", "paths", "run", "run/evaluated"] {
        let start = alone(yard, &made, name)?;
        let lines: Vec<String> = [
            "eval m --split train --json",
            "predict m --head person-1 --relation citizen_of --top 3 --json",
            "explain m person-1 citizen_of land-1 --json",
        ]
        .map(String::from)
        .to_vec();
        let answer = |line: &String| Ok(timeless(&yard.ruge.must(&asked(line), &start)?.output));
        let answers = lines.iter().map(answer).collect::<Result<Vec<_>>>()?;
        let again = lines.iter().map(answer).collect::<Result<Vec<_>>>()?;
        anyhow::ensure!(answers == again, "the model {name} answers otherwise when asked again");
        targets.push(Target {
            name: format!("model {}", name.replace('/', "-")),
            start,
            file: "m/model.safetensors".to_string(),
            lines,
            answers,
            result: Contents::new(),
            strict: true,
            renewed: false,
        });
    }
    Ok(targets)
}

/// The files that a run continues from, and the trials of a search.
fn ledgers(yard: &Yard<'_>) -> Result<Vec<Target>> {
    const RUN: &str = "run g --rules rules.tsv --dim 4 --epochs 2 --validate-every 1 --checkpoint-every 0 --out run";
    let mut targets = Vec::new();
    let run = start(yard, "run", &[RUN])?;
    let right = results(&contents(&run)?);
    let files = contents(&run)?;
    for file in files.keys().filter(|name| {
        name.starts_with("run/") && (name.ends_with(".json") || name.ends_with(".tsv") || name.ends_with(".toml"))
    }) {
        targets.push(Target {
            name: format!("ledger {}", file.trim_start_matches("run/").replace('/', "-")),
            start: run.clone(),
            file: file.clone(),
            lines: vec![RUN.to_string()],
            answers: Vec::new(),
            result: right.clone(),
            // A file that is never read again cannot be refused.
            strict: file.ends_with(".json") && !file.ends_with("run.json"),
            renewed: true,
        });
    }
    let search = start(yard, "search", &["search g --spec space.toml --out run"])?;
    let line = "search g --out run --resume --trials 3";
    let undisturbed = yard.ground.join("undisturbed");
    copy_folder(&search, &undisturbed)?;
    yard.ruge.must(&typed(line), &undisturbed)?;
    targets.push(Target {
        name: "search.db".to_string(),
        start: search,
        file: "run/search.db".to_string(),
        lines: vec![line.to_string()],
        answers: Vec::new(),
        result: results(&contents(&undisturbed)?),
        strict: false,
        renewed: true,
    });
    std::fs::remove_dir_all(undisturbed)?;
    Ok(targets)
}

/// Files that must be the same: models, rules, the best settings.
fn results(contents: &Contents) -> Contents {
    let judged = |name: &str| {
        name.starts_with("run/")
            && ["model.safetensors", "rules.tsv", "best.toml"].iter().any(|ending| name.ends_with(ending))
    };
    contents.iter().filter(|(name, _)| judged(name)).map(|(name, hash)| (name.clone(), hash.clone())).collect()
}

/// Checkpoints of runs that were killed half-way and continued.
fn checkpoints(yard: &Yard<'_>, shim: &Shim) -> Result<Vec<Target>> {
    let jobs = [
        (
            "checkpoint paper",
            "train g --dim 4 --epochs 6 --validate-every 2 --checkpoint-every 0 --out run",
            "train g --out run --resume",
        ),
        (
            "checkpoint softmax",
            "train g --preset complex-n3-rules --rules rules.tsv --dim 4 --epochs 6 --validate-every 2 --checkpoint-every 0 --out run",
            "train g --out run --resume",
        ),
    ];
    let mut targets = Vec::new();
    for (name, command, resume) in jobs {
        let room = |at: u64, fault: &str| -> Result<(PathBuf, u64)> {
            let folder = yard.ground.join(format!("start-{}-{fault}", name.replace(' ', "-")));
            world::build(&folder)?;
            let beside = yard.ground.join(format!("beside-{}-{fault}", name.replace(' ', "-")));
            std::fs::create_dir_all(beside.join("shadow"))?;
            let arguments = typed(command);
            let mut call = Call::new(&arguments, &folder);
            call.environment = shim.environment(&folder, &beside, fault, at);
            yard.ruge.call(&call)?;
            Ok((folder, Shim::calls(&beside)?.0))
        };
        let (undisturbed, calls) = room(0, "none")?;
        let (start, _) = room(calls * 3 / 5, "kill")?;
        let file = "run/checkpoint.safetensors".to_string();
        anyhow::ensure!(start.join(&file).is_file(), "{name}: the kill came before the first checkpoint");
        let result = results(&contents(&undisturbed)?);
        anyhow::ensure!(result.contains_key("run/model.safetensors"), "{name}: no model came out undisturbed");
        yard.ruge.must(&typed(resume), &start_copy(yard, &start, name)?).with_context(|| name.to_string())?;
        for (of, file) in
            [("", file), (" run.json", "run/run.json".to_string()), (" spec.toml", "run/spec.toml".to_string())]
        {
            if start.join(&file).is_file() {
                targets.push(Target {
                    name: format!("{name}{of}"),
                    start: start.clone(),
                    strict: !file.ends_with(".toml"),
                    file,
                    lines: vec![resume.to_string()],
                    answers: Vec::new(),
                    result: result.clone(),
                    renewed: false,
                });
            }
        }
    }
    Ok(targets)
}

fn start_copy(yard: &Yard<'_>, start: &Path, name: &str) -> Result<PathBuf> {
    let folder = yard.ground.join(format!("tried-{}", name.replace(' ', "-")));
    copy_folder(start, &folder)?;
    Ok(folder)
}
