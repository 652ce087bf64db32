//! The commands under attack: their starting point, the command line, and what a user types afterwards.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::case::{Yard, copy_folder};
use super::results::{Contents, contents, steady};
use super::world::{self, words};

/// A command under attack, run in a folder with the files of [`world`].
pub struct Job {
    /// Its name in the table.
    pub name: &'static str,
    /// Earlier commands, undisturbed; `cp FROM TO` copies a file.
    pub before: &'static [&'static str],
    pub command: &'static str,
    /// Commands after a fault, in order, until one succeeds.
    pub after: &'static [&'static str],
    /// A file that replaces another between the fault and the next command: from, to.
    pub edit: Option<(&'static str, &'static str)>,
    /// A finished result that must survive the fault: the old one or the new one.
    pub keeps: &'static [&'static str],
    /// A public data set it needs, as a folder in the one named by `RUGE_DATA`; it is available as `from`.
    pub needs: Option<&'static str>,
}

impl Job {
    /// The path of the data set it needs.
    pub fn data(&self) -> Option<PathBuf> {
        let folder = PathBuf::from(std::env::var_os("RUGE_DATA")?).join(self.needs?);
        folder.is_dir().then_some(folder)
    }
}

/// A job to be filled in.
pub const PLAIN: Job = Job { name: "", before: &[], command: "", after: &[], edit: None, keeps: &[], needs: None };

const TRAIN: &str = "train g --dim 4 --epochs 3 --validate-every 1 --checkpoint-every 0 --out run";
const TRAIN_RULES: &str = "train g --preset complex-n3-rules --rules rules.tsv --dim 4 --epochs 3 --validate-every 0 --checkpoint-every 0 --out run";
const TRAIN_RULES_RESUME: &str = "train g --preset complex-n3-rules --rules rules.tsv --dim 4 --epochs 3 --validate-every 0 --checkpoint-every 0 --out run --resume";
const TRAIN_RULES_FORCE: &str = "train g --preset complex-n3-rules --rules rules.tsv --dim 4 --epochs 3 --validate-every 0 --checkpoint-every 0 --out run --force";
const RUN: &str = "run g --rules rules.tsv --dim 4 --epochs 2 --validate-every 1 --checkpoint-every 0 --out run";
const RUN_OTHER: &str = "run g --rules other.tsv --dim 4 --epochs 2 --validate-every 1 --checkpoint-every 0 --out run";
const SEARCH: &str = "search g --spec space.toml --checkpoint-every 0 --out run";
const COMBINE: &str = "combine base --rules rules.tsv --out run";
const BASE: &str = "train g --dim 4 --epochs 2 --out base";
const BASE_RULES: &str = "train g --model rules --rules rules.tsv --out run";

/// Every job.
pub const JOBS: &[Job] = &[
    Job { name: "train", command: TRAIN, after: &["train g --out run --resume", TRAIN], ..PLAIN },
    Job { name: "train-rules", command: TRAIN_RULES, after: &["train g --out run --resume", TRAIN_RULES], ..PLAIN },
    Job {
        name: "train-rules-edited",
        command: TRAIN_RULES,
        after: &[TRAIN_RULES_RESUME, TRAIN_RULES, TRAIN_RULES_FORCE],
        edit: Some(("other.tsv", "rules.tsv")),
        ..PLAIN
    },
    Job { name: "rules-alone", command: BASE_RULES, after: &["train g --out run --resume", BASE_RULES], ..PLAIN },
    Job {
        name: "train-force",
        before: &[BASE_RULES],
        command: "train g --dim 4 --epochs 3 --validate-every 1 --checkpoint-every 0 --out run --force",
        after: &["train g --dim 4 --epochs 3 --validate-every 1 --checkpoint-every 0 --out run --force"],
        keeps: &["run/model.safetensors"],
        ..PLAIN
    },
    Job { name: "run", command: RUN, after: &[RUN], ..PLAIN },
    Job {
        name: "run-force",
        before: &[RUN_OTHER],
        command: "run g --rules rules.tsv --dim 4 --epochs 2 --validate-every 1 --checkpoint-every 0 --out run --force",
        after: &[
            "run g --rules rules.tsv --dim 4 --epochs 2 --validate-every 1 --checkpoint-every 0 --out run --force",
        ],
        keeps: &["run/model.safetensors"],
        ..PLAIN
    },
    // The same settings again, without --force: started work continues, a half-finished move is completed.
    Job {
        name: "run-force-plain",
        before: &[RUN_OTHER],
        command: "run g --rules rules.tsv --dim 4 --epochs 2 --validate-every 1 --checkpoint-every 0 --out run --force",
        after: &[
            RUN,
            "run g --rules rules.tsv --dim 4 --epochs 2 --validate-every 1 --checkpoint-every 0 --out run --force",
        ],
        keeps: &["run/model.safetensors"],
        ..PLAIN
    },
    Job { name: "run-other-rules", before: &[RUN, "cp other.tsv rules.tsv"], command: RUN, after: &[RUN], ..PLAIN },
    Job { name: "search", command: SEARCH, after: &["search g --out run --resume", SEARCH], ..PLAIN },
    Job { name: "combine", before: &[BASE], command: COMBINE, after: &[COMBINE], ..PLAIN },
    Job {
        name: "combine-force",
        before: &[BASE, "combine base --rules other.tsv --out run"],
        command: "combine base --rules rules.tsv --out run --force",
        after: &["combine base --rules rules.tsv --out run --force"],
        keeps: &["run/model.safetensors"],
        ..PLAIN
    },
    Job {
        name: "mine",
        command: "mine g --min-head-size 1 --min-pca 0.3 --out mined.tsv",
        after: &["mine g --min-head-size 1 --min-pca 0.3 --out mined.tsv"],
        ..PLAIN
    },
    Job {
        name: "mine-again",
        before: &["mine g --min-head-size 1 --min-pca 0.9 --out mined.tsv"],
        command: "mine g --min-head-size 1 --min-pca 0.3 --out mined.tsv",
        after: &["mine g --min-head-size 1 --min-pca 0.3 --out mined.tsv"],
        keeps: &["mined.tsv"],
        ..PLAIN
    },
    Job {
        name: "data-get",
        command: "data get umls --from from --out got",
        after: &["data get umls --from from --out got", "data get umls --from from --out got --force"],
        needs: Some("umls"),
        ..PLAIN
    },
    Job {
        name: "ground",
        command: "ground g --rules rules.tsv --out groundings.tsv",
        after: &["ground g --rules rules.tsv --out groundings.tsv"],
        ..PLAIN
    },
    Job {
        name: "export-npy",
        before: &[BASE],
        command: "export base --to npy --out out",
        after: &["export base --to npy --out out", "export base --to npy --out out --force"],
        ..PLAIN
    },
    Job {
        name: "export-parquet",
        before: &[BASE],
        command: "export base --to parquet --out out",
        after: &["export base --to parquet --out out", "export base --to parquet --out out --force"],
        ..PLAIN
    },
    Job {
        name: "export-pykeen",
        before: &[BASE],
        command: "export base --to pykeen --out out",
        after: &["export base --to pykeen --out out", "export base --to pykeen --out out --force"],
        ..PLAIN
    },
    Job {
        name: "complete",
        before: &[BASE],
        command: "complete base --rules rules.tsv --top 20 --out new.tsv",
        after: &["complete base --rules rules.tsv --top 20 --out new.tsv"],
        ..PLAIN
    },
    Job {
        name: "complete-force",
        before: &[BASE, "complete base --top 5 --out new.tsv"],
        command: "complete base --rules rules.tsv --top 20 --out new.tsv --force",
        after: &["complete base --rules rules.tsv --top 20 --out new.tsv --force"],
        keeps: &["new.tsv"],
        ..PLAIN
    },
];

/// A job with the results of undisturbed runs.
pub struct Ready {
    pub job: &'static Job,
    /// A folder before the command.
    pub start: PathBuf,
    /// Its contents.
    pub before: Contents,
    /// Every file that an undisturbed run leaves.
    pub leaves: Contents,
    /// The correct results: the files that are the same every time. Two if a file is edited.
    pub right: Vec<Contents>,
    /// How long the command takes.
    pub time: Duration,
}

impl Ready {
    /// Runs the job undisturbed, twice.
    pub fn new(yard: &Yard<'_>, job: &'static Job) -> Result<Self> {
        let start = yard.ground.join(format!("start-{}", job.name));
        world::build(&start)?;
        if let Some(set) = job.needs {
            let from = job.data().with_context(|| format!("{set} was there"))?;
            copy_folder(&from, &start.join("from").join(set))?;
        }
        for line in job.before {
            match *words(line).iter().map(String::as_str).collect::<Vec<_>>() {
                ["cp", from, to] => drop(std::fs::copy(start.join(from), start.join(to))?),
                _ => drop(yard.ruge.must(&typed(line), &start)?),
            }
        }
        let mut time = Duration::ZERO;
        let mut result = |edited: bool| -> Result<Contents> {
            let folder = yard.ground.join(format!("undisturbed-{}", job.name));
            copy_folder(&start, &folder)?;
            if let Some((from, to)) = job.edit.filter(|_| edited) {
                std::fs::copy(folder.join(from), folder.join(to))?;
            }
            time = yard.ruge.must(&typed(job.command), &folder)?.time;
            let found = contents(&folder)?;
            std::fs::remove_dir_all(&folder)?;
            Ok(found)
        };
        let leaves = result(false)?;
        let mut right = vec![steady(&leaves, &result(false)?)?];
        if job.edit.is_some() {
            right = vec![right.remove(0), steady(&result(true)?, &result(true)?)?];
        }
        let before = contents(&start)?;
        Ok(Self { job, start, before, leaves, right, time })
    }

    /// Files of the folder that differ from every correct result.
    pub fn differences(&self, folder: &Path) -> Result<Vec<String>> {
        let found = contents(folder)?;
        let differences = |right: &Contents| -> Vec<String> {
            // The edited file is not a result.
            let judged = right.iter().filter(|(name, _)| self.job.edit.is_none_or(|(_, to)| *name != to));
            judged.filter(|(name, hash)| found.get(*name) != Some(*hash)).map(|(name, _)| name.clone()).collect()
        };
        Ok(self.right.iter().map(differences).min_by_key(Vec::len).unwrap_or_default())
    }

    /// Files that an undisturbed run does not leave.
    pub fn leftovers(&self, folder: &Path) -> Result<Vec<String>> {
        Ok(contents(folder)?.into_keys().filter(|name| !self.leaves.contains_key(name)).collect())
    }
}

/// A line as arguments, with one thread, so that calls are in a fixed order, and without progress.
pub fn typed(line: &str) -> Vec<String> {
    words(&format!("{line} --threads 1 --quiet"))
}
