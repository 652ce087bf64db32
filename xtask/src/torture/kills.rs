//! Faults while a command writes: at its n-th change of the file system, by the shim, or at a random time.
//!
//! Afterwards no model is broken, a result that existed before `--force` is still there or the new one is complete, the
//! next command ends with the same result as an undisturbed run, and nothing else is left behind.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::case::{Kind, Verdict, Yard, copy_folder};
use super::jobs::{JOBS, Job, Ready, typed};
use super::process::Call;
use super::results::{Openings, contents};
use super::shim::{FAULTS, Shim};

/// Kills at random times, per job.
const RANDOM: usize = 40;

enum Fault {
    At(&'static str, u64),
    After(Duration),
}

/// Attacks every job.
pub fn attack(yard: &Yard<'_>) -> Result<()> {
    let shim = match Shim::build()? {
        Ok(shim) => Some(shim),
        Err(reason) => {
            yard.skip("shim", &format!("faults at the n-th call: {reason}"));
            None
        }
    };
    let openings = Openings::default();
    let mut cases = Vec::new();
    let mut jobs: Vec<&'static Job> = JOBS.iter().filter(|job| yard.wants(job.name)).collect();
    jobs.retain(|job| {
        let there = job.needs.is_none() || job.data().is_some();
        if !there {
            yard.skip(job.name, "the public data set it needs is not in the folder RUGE_DATA names");
        }
        there
    });
    let ready = yard.prepare(&jobs, |job| {
        let ready = Ready::new(yard, job)?;
        let calls = undisturbed(yard, shim.as_ref(), &ready).with_context(|| job.name.to_string())?;
        Ok((ready, calls))
    })?;
    for (index, (ready, calls)) in ready.iter().enumerate() {
        let name = ready.job.name;
        for &fault in FAULTS {
            cases.extend((1..=*calls).map(|at| (format!("{name}/{fault}/{at}"), (index, Fault::At(fault, at)))));
        }
        for number in 0..RANDOM {
            let case = format!("{name}/time/{number}");
            let after = ready.time.mul_f64(yard.random(&case).below(1100) as f64 / 1000.0);
            cases.push((case, (index, Fault::After(after))));
        }
    }
    yard.random("order").shuffle(&mut cases);
    yard.try_all(&cases, |_, (index, fault), folder| {
        strike(yard, shim.as_ref(), &ready[*index].0, fault, &openings, folder)
    })
}

/// The number of calls in an undisturbed run.
fn undisturbed(yard: &Yard<'_>, shim: Option<&Shim>, ready: &Ready) -> Result<u64> {
    let folder = yard.ground.join(format!("counted-{}", ready.job.name));
    let (room, beside) = (folder.join("room"), folder.join("beside"));
    copy_folder(&ready.start, &room)?;
    std::fs::create_dir_all(beside.join("shadow"))?;
    let arguments = typed(ready.job.command);
    let mut call = Call::new(&arguments, &room);
    call.environment = shim.map(|shim| shim.environment(&room, &beside, "none", 0)).unwrap_or_default();
    let outcome = yard.ruge.call(&call)?;
    anyhow::ensure!(outcome.success(), "fails undisturbed: {}", outcome.last_words());
    let calls = if shim.is_some() { Shim::calls(&beside)?.0 } else { 0 };
    std::fs::remove_dir_all(folder)?;
    Ok(calls)
}

fn strike(
    yard: &Yard<'_>,
    shim: Option<&Shim>,
    ready: &Ready,
    fault: &Fault,
    openings: &Openings,
    folder: &Path,
) -> Result<Verdict> {
    let (room, beside) = (folder.join("room"), folder.join("beside"));
    copy_folder(&ready.start, &room)?;
    std::fs::create_dir_all(beside.join("shadow"))?;
    let arguments = typed(ready.job.command);
    let mut call = Call::new(&arguments, &room);
    match fault {
        Fault::At(kind, at) => {
            call.environment = shim.map(|shim| shim.environment(&room, &beside, kind, *at)).unwrap_or_default();
        }
        Fault::After(time) => call.signal = Some(("KILL", *time)),
    }
    let outcome = yard.ruge.call(&call)?;
    let place = match fault {
        Fault::At(kind, _) => format!("{} with {kind} at call {}", ready.job.name, Shim::calls(&beside)?.1),
        Fault::After(time) => format!("{} killed after {} ms", ready.job.name, time.as_millis()),
    };
    let mut verdict = if outcome.killed() { Verdict::new() } else { outcome.verdict(&place) };
    verdict.extend(judge(yard, ready, &room, openings, outcome.success())?);
    for (_, what) in &mut verdict {
        *what = format!("{place}: {what}");
    }
    Ok(verdict)
}

/// The checks after a fault and after the next command.
pub fn judge(yard: &Yard<'_>, ready: &Ready, room: &Path, openings: &Openings, finished: bool) -> Result<Verdict> {
    let mut verdict = openings.of(&yard.ruge, room)?;
    let found = contents(room)?;
    for &kept in ready.job.keeps {
        let there = found.get(kept);
        let old_or_new = there.is_some()
            && (there == ready.before.get(kept) || ready.right.iter().any(|right| there == right.get(kept)));
        if !old_or_new {
            verdict.push((
                Kind::Unusable,
                format!("{kept}, finished before, is {}", if there.is_some() { "damaged" } else { "gone" }),
            ));
        }
    }
    if finished {
        // The fault did not stop it, so its result must be complete.
        let differences = ready.differences(room)?;
        if !differences.is_empty() {
            verdict.push((Kind::Wrong, format!("exit code 0, but other than undisturbed: {}", differences.join(", "))));
        }
        return Ok(verdict);
    }
    if let Some((from, to)) = ready.job.edit {
        std::fs::copy(room.join(from), room.join(to))?;
    }
    let mut refusals = Vec::new();
    for line in ready.job.after {
        let arguments = typed(line);
        let outcome = yard.ruge.call(&Call::new(&arguments, room))?;
        verdict.extend(outcome.verdict(&format!("the next command, `ruge {line}`")));
        if outcome.success() {
            let differences = ready.differences(room)?;
            if !differences.is_empty() {
                let what = format!(
                    "`ruge {line}` ends with exit code 0 and other than undisturbed: {}",
                    differences.join(", ")
                );
                verdict.push((Kind::Wrong, what));
            }
            refusals.clear();
            break;
        }
        refusals.push(outcome.last_words());
    }
    if !refusals.is_empty() {
        // A command that was killed after its work was done may be refused, since its result exists.
        if !ready.differences(room)?.is_empty() {
            verdict.push((Kind::Unusable, format!("no command goes on: {}", refusals.join(" || "))));
        }
    }
    verdict.extend(openings.of(&yard.ruge, room)?);
    let leftovers = ready.leftovers(room)?;
    if !leftovers.is_empty() {
        verdict.push((Kind::Leftover, format!("left behind: {}", leftovers.join(", "))));
    }
    Ok(verdict)
}
