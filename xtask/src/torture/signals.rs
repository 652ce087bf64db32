//! Signals that ask a program to end while it works: from a terminal, a service manager or a closed session.
//!
//! The exit code identifies the signal, training leaves a checkpoint, and continuing gives the undisturbed result.

use std::time::Duration;

use anyhow::Result;

use super::case::{Kind, Verdict, Yard, copy_folder};
use super::jobs::{Job, PLAIN, Ready, typed};
use super::kills::judge;
use super::process::Call;
use super::results::{Openings, contents};

/// Signals and their exit codes.
const SIGNALS: &[(&str, i32)] = &[("INT", 130), ("TERM", 143), ("HUP", 129)];

/// Attempts per job and signal.
const ATTEMPTS: usize = 12;

const TRAIN: &str = "train g --dim 16 --epochs 400 --validate-every 0 --out run";
const TRAIN_RULES: &str =
    "train g --preset complex-n3-rules --rules rules.tsv --dim 16 --epochs 4000 --validate-every 0 --out run";
const RUN: &str = "run g --rules rules.tsv --dim 16 --epochs 2000 --validate-every 1000 --out run";
const SEARCH: &str = "search g --spec space.toml --trials 5 --out run";

const JOBS: &[Job] = &[
    Job { name: "train", command: TRAIN, after: &["train g --out run --resume", TRAIN], ..PLAIN },
    Job { name: "train-rules", command: TRAIN_RULES, after: &["train g --out run --resume", TRAIN_RULES], ..PLAIN },
    Job { name: "run", command: RUN, after: &[RUN], ..PLAIN },
    Job { name: "search", command: SEARCH, after: &["search g --out run --resume", SEARCH], ..PLAIN },
];

/// Sends every signal to every job, at times derived from the seed.
pub fn attack(yard: &Yard<'_>) -> Result<()> {
    let openings = Openings::default();
    let mut cases = Vec::new();
    let jobs: Vec<&'static Job> = JOBS.iter().filter(|job| yard.wants(job.name)).collect();
    let ready = yard.prepare(&jobs, |job| Ready::new(yard, job))?;
    for (index, job) in ready.iter().enumerate() {
        for &(signal, code) in SIGNALS {
            for number in 0..ATTEMPTS {
                let name = format!("{}/{signal}/{number}", job.job.name);
                // Neither before the work has started nor when it is nearly done.
                let share = 0.25 + 0.6 * yard.random(&name).below(1000) as f64 / 1000.0;
                cases.push((name, (index, signal, code, job.time.mul_f64(share))));
            }
        }
    }
    yard.random("order").shuffle(&mut cases);
    yard.try_all(&cases, |_, &(index, signal, code, after), folder| {
        let ready: &Ready = &ready[index];
        let room = folder.join("room");
        copy_folder(&ready.start, &room)?;
        let arguments = typed(ready.job.command);
        let mut call = Call::new(&arguments, &room);
        call.signal = Some((signal, after));
        call.limit = Duration::from_secs(30);
        let outcome = yard.ruge.call(&call)?;
        let begun = room.join("run").exists();
        let mut verdict = Verdict::new();
        // Before anything was written, and after the end, there is nothing to report.
        if begun && !outcome.success() {
            if outcome.hung || outcome.status.code() != Some(code) {
                let how = if outcome.hung { "no end at all".to_string() } else { outcome.status.to_string() };
                verdict.push((Kind::Unusable, format!("exit code {code} was due, not {how}")));
            }
            let saved = contents(&room)?.keys().any(|name| name.ends_with("checkpoint.safetensors"));
            if ready.job.name.starts_with("train") && !saved {
                verdict.push((Kind::Unusable, "no checkpoint was saved".to_string()));
            }
        }
        verdict.extend(judge(yard, ready, &room, &openings, outcome.success())?);
        for (_, what) in &mut verdict {
            *what = format!("{} with SIG{signal} after {} ms: {what}", ready.job.name, after.as_millis());
        }
        Ok(verdict)
    })
}
