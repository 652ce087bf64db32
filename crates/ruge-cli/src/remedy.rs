//! What to type: the command line's own words for the errors of the libraries.
//!
//! A library says what is wrong and which setting matters, and knows no flags. Here, and nowhere else, a setting gets the flag that
//! sets it, and an error the flags that help.

use std::error::Error;

use ruge::RugeError;
use ruge::error::{CudaError, Difference};
use ruge_kg::{KgError, Reason};
use ruge_rules::RuleError;

/// Settings that remedies name, and the flags that set them.
const FLAGS: [(&str, &str); 14] = [
    ("model.name", "--model"),
    ("model.dimension", "--dim"),
    ("batches.count", "--batches"),
    ("batches.size", "--batch"),
    ("softmax.batch", "--batch"),
    ("softmax.sample", "--sample"),
    ("negatives.count", "--negatives"),
    ("schedule.epochs", "--epochs"),
    ("rules.mine", "--mine"),
    ("rules.min-confidence", "--min-conf"),
    ("rules.max-conclusions", "--max-conclusions"),
    ("rules.min-pca", "--min-pca"),
    ("rules.min-std", "--min-std"),
    ("rules.min-support", "--min-support"),
];

/// A remedy with the flag behind each setting that has one.
pub fn with_flags(text: &str) -> String {
    let flagged = |text: String, (setting, flag): &(&str, &str)| text.replace(setting, &format!("{setting} ({flag})"));
    FLAGS.iter().fold(text.to_string(), flagged)
}

/// The words of an error with what can be typed to mend it.
pub fn added(words: &str, error: &anyhow::Error) -> String {
    let line = |line: &str| if line.starts_with("  remedy: ") { with_flags(line) } else { line.to_string() };
    let mut words = words.split('\n').map(line).collect::<Vec<_>>().join("\n");
    if let Some(remedy) = error.chain().find_map(of) {
        let word = if words.contains("\n  remedy: ") { "or" } else { "remedy:" };
        words.push_str(&format!("\n  {word} {remedy}"));
    }
    words
}

fn of(error: &(dyn Error + 'static)) -> Option<String> {
    let of_ruge = error.downcast_ref().and_then(of_ruge);
    let of_kg = || error.downcast_ref().and_then(of_kg);
    let of_rules = || error.downcast_ref().and_then(of_rules);
    of_ruge.or_else(of_kg).or_else(of_rules).or_else(|| error.downcast_ref().and_then(of_cuda))
}

fn of_ruge(error: &RugeError) -> Option<String> {
    let fixed = match error {
        RugeError::Kg(error) => return of_kg(error),
        RugeError::Rules(error) => return of_rules(error),
        RugeError::Cuda(error) => return of_cuda(error),
        RugeError::NoModel { path, is_folder: true } if path.join("stages.json").exists() => {
            "continue the run with `ruge run … --resume`"
        }
        RugeError::NoModel { path, .. } if path.as_os_str() == "demo" => {
            "demo is a graph: make a model of it with `ruge demo`, and ask runs/demo"
        }
        RugeError::NoModel { is_folder: true, .. } => {
            "continue the run with `ruge train … --resume`, or make a new one with `ruge train DATA --out DIR`"
        }
        RugeError::NoModel { is_folder: false, .. } => {
            "give a run folder or a model.safetensors, as `ruge train DATA --out DIR` leaves them"
        }
        RugeError::Exists { resumes: true, .. } => "continue it with --resume, or replace it with --force",
        RugeError::Exists { resumes: false, .. } => "replace it with --force, or give another folder with --out",
        RugeError::InTheWay { .. } => "move it away, or give another folder with --out",
        RugeError::Locked { .. } => "wait for it, or give another folder with --out",
        RugeError::NothingToResume { .. } => "leave out --resume to start one",
        RugeError::Damaged { .. } => {
            "restore a copy, or start again with --force, which replaces it when it is finished"
        }
        RugeError::CutOff { .. } => "continue with --resume when the cause is removed",
        RugeError::NoStage { .. } => "leave out --evaluate-only",
        RugeError::Unwritable { formats, .. } => return Some(format!("write it with --to {}", listed(formats))),
        RugeError::Stage { stage, .. } => {
            return Some(format!("make it with --from {stage}, or everything without --only and --from"));
        }
        RugeError::Unfinished { made_by, aside, .. } => {
            return Some(format!(
                "continue it with `ruge {made_by} … --resume`, start again with --force, or remove {} to give it up",
                aside.display()
            ));
        }
        RugeError::OtherKind { made_by, .. } => {
            let replaced = if *made_by == "train" { "replace it with --force, " } else { "" };
            return Some(format!(
                "continue it with `ruge {made_by} … --resume`, {replaced}or give another folder with --out"
            ));
        }
        RugeError::OtherRun { difference, aside, .. } => {
            let kept = aside.as_ref().map(|aside| format!("; to keep the finished one, remove {}", aside.display()));
            return of_difference(difference).map(|remedy| format!("{remedy}{}", kept.unwrap_or_default()));
        }
        _ => return None,
    };
    Some(fixed.to_string())
}

fn of_difference(difference: &Difference) -> Option<String> {
    let fixed = match difference {
        Difference::Arithmetic { .. } => "finish it with the program that began it, or start again with --force",
        Difference::Data => {
            "give the same DATA (and --seed, if it is split), give another --out, or start again with --force"
        }
        Difference::Settings(_) => {
            "leave out the flags that change them: --resume continues with its own; or start again with --force, or keep both with \
             another --out"
        }
        Difference::Rules(_) => "restore the rule file, or start again with --force to train with these",
        Difference::Space => {
            "leave out --spec and --seed to continue it, or start another one with --force or another --out"
        }
        Difference::Epochs { done, .. } => return Some(format!("give --epochs {done} or more")),
        _ => return None,
    };
    Some(fixed.to_string())
}

fn of_kg(error: &KgError) -> Option<String> {
    match error {
        KgError::BadLines { problems, good, .. } => {
            let mut ways = Vec::new();
            if problems.iter().any(|problem| matches!(problem.reason, Reason::RelativeIri(_))) {
                return Some("give the base with --base IRI, as in --base http://example.org/".into());
            }
            // Where most lines can be read as they are, another reading would spoil them.
            let others = if *good > problems.len() { &[] } else { &problems[..] };
            let other = others.iter().map(|problem| problem.reason.other_reading());
            if let Some((format, columns)) = other.into_iter().find(|other| *other != (None, None)) {
                let flags = [format.map(|it| format!("--format {it}")), columns.map(|it| format!("--columns {it}"))];
                ways.push(format!("add {}", flags.into_iter().flatten().collect::<Vec<_>>().join(" ")));
            } else if others.iter().any(|problem| matches!(problem.reason, Reason::Columns { .. })) {
                ways.push("name the order with --columns".into());
            }
            ways.push("skip and count bad lines with --lenient".into());
            Some(ways.join(", or "))
        }
        KgError::NoTrain { path, .. } if path.join("spec.toml").exists() || path.join("stages.json").exists() => Some(
            "this is the folder of a run: give the DATA it was made from, and the folder with --out to continue it"
                .into(),
        ),
        KgError::OnlyLiterals { .. } => Some("keep literals with --literals entities".into()),
        KgError::NoGraph { .. } => Some("choose with --graph-name NAME, all or default".into()),
        KgError::Columns { .. } => {
            Some("name them with --columns, as in --columns subject,predicate,object or 1,2,3".into())
        }
        KgError::OtherCount { .. } => Some("go by the file with --lenient".into()),
        KgError::Empty { .. } => Some("see `ruge check --help` for other formats".into()),
        _ => None,
    }
}

fn of_rules(error: &RuleError) -> Option<String> {
    match error {
        RuleError::Read(error) => of_kg(error),
        RuleError::Unsayable { needs_data: true, .. } => Some("give the data with --data DATA".into()),
        _ => None,
    }
}

fn of_cuda(error: &CudaError) -> Option<String> {
    let fixed = match error {
        CudaError::Missing { .. }
        | CudaError::NoCard { .. }
        | CudaError::Driver { .. }
        | CudaError::Memory { .. }
        | CudaError::Unsupported { .. } => "use `--device cpu`",
        CudaError::Full { .. } => {
            "if another program uses the GPU (`nvidia-smi`), wait for it and continue with --resume, or with `--device cpu \
             --resume`; if none does, start again with a lower --dim"
        }
        CudaError::Lost { .. } => {
            "when `nvidia-smi` shows the GPU again, continue with --resume, or continue with `--device cpu --resume`"
        }
        CudaError::Failed { .. } => {
            "if another program uses the GPU, wait for it; continue with --resume, or with `--device cpu --resume`"
        }
        CudaError::Fault { .. } => "`--device cpu --resume` continues from the last checkpoint",
        _ => return None,
    };
    Some(fixed.to_string())
}

/// `a, b or c`.
fn listed(names: &[&str]) -> String {
    match names {
        [before @ .., last] if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_flag_is_one() {
        let command = crate::Cli::command();
        let known: Vec<String> = ["train", "run", "mine"]
            .iter()
            .filter_map(|name| command.find_subcommand(name))
            .flat_map(|command| command.get_arguments().filter_map(|arg| arg.get_long()))
            .map(|long| format!("--{long}"))
            .collect();
        for (setting, flag) in FLAGS {
            assert!(known.iter().any(|known| known == flag), "{setting}: {flag}");
        }
    }

    #[test]
    fn a_remedy_names_what_to_type() {
        let memory = anyhow::anyhow!("too large\n  remedy: lower negatives.count, or raise batches.count");
        assert_eq!(
            added(&memory.to_string(), &memory),
            "too large\n  remedy: lower negatives.count (--negatives), or raise batches.count (--batches)"
        );
        let there = RugeError::Exists { path: "runs/a".into(), what: "a run".into(), resumes: true };
        let error = anyhow::Error::new(there).context("cannot train");
        assert_eq!(
            added("cannot train: runs/a: it already holds a run", &error),
            "cannot train: runs/a: it already holds a run\n  remedy: continue it with --resume, or replace it with --force"
        );
        let lost = CudaError::Lost { doing: "counting", reason: "gone".into() };
        let lost = ruge_embed::EmbedError::Device { lasting: lost.is_lasting(), source: lost.into() };
        let error = anyhow::Error::new(RugeError::from(lost));
        assert!(added(&error.to_string(), &error).contains("`--device cpu --resume`"));
    }
}
