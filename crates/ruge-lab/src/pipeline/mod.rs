//! From triples to a finished run: every stage a function, its result a file, finished stages skipped.
//!
//! check → mine → ground → train without guidance (`unguided/`) and with it (`guided/`; same trainer, same budget) → combine the
//! guided model with rules and evidence (`evaluated/`; see [`Job::ranks_with_rules`]) → evaluate all, and the rules alone →
//! calibrate → consistency → train the same model on every listed fact (`model.safetensors`, the one to deploy) → predict, with
//! explanations → report. The [`ledger`] knows what is finished and what it was made from, so a run that was interrupted or killed
//! at any moment goes on where it was, and ends with the same model, to the bit.
//!
//! Nothing is printed here: a [`Control`] hears what happens and may stop it. The page of the last stage is made by a function
//! that the caller hands in, which keeps plotting out of this crate.

mod bench;
mod budget;
mod deploy;
mod findings;
mod forecast;
pub mod ledger;
mod samples;
mod stagehand;
mod stages;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ruge_kg::{Control, Dataset};
use serde::{Deserialize, Serialize};

pub use deploy::{Carried, Deployed};
pub use findings::{
    Checked, Comparison, Findings, GroundingCounts, Learned, Obedience, SystemResult, Trust, WithRules,
};
use forecast::{Forecast, Outlook};
use ledger::{Found, Ledger, file_hash, hash, write_file};
use ruge::error::{Difference, Result, RugeError};
use ruge::identity::spec_text;
use ruge::model_file::data_hash;
use ruge::run::FILES;
use ruge::spec::{RankingRules, Spec};
use ruge::truth::told::Told;
use ruge::workplace::{self, Kind, Mode, Workplace};
pub use samples::{ALL_RELATIONS_UP_TO, Proposals, Sample, Standing};
use stagehand::{Clock, Stagehand};
pub use stagehand::{Event, Page};

/// A step of the pipeline, in the order in which they are taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// What is in the data, and what is missing.
    Check,
    /// Rules: mined from train, or read from a file.
    Mine,
    /// Where they fire.
    Ground,
    /// The model without guidance.
    TrainUnguided,
    /// The same trainer and budget, guided by the rules.
    TrainGuided,
    /// The guided model combined with rules and evidence at ranking time: the one that is evaluated.
    WithRules,
    /// Exact filtered ranks of the held-out triples: all models, and the rules alone.
    Evaluate,
    /// How far truth values can be believed.
    Calibrate,
    /// How far the models obey the rules.
    Consistency,
    /// The model to deploy: the same settings and epochs, trained on every listed fact.
    Deploy,
    /// Some new facts, with their reasons.
    Predict,
    /// The page.
    Report,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: [Stage; 12] = [
        Stage::Check,
        Stage::Mine,
        Stage::Ground,
        Stage::TrainUnguided,
        Stage::TrainGuided,
        Stage::WithRules,
        Stage::Evaluate,
        Stage::Calibrate,
        Stage::Consistency,
        Stage::Deploy,
        Stage::Predict,
        Stage::Report,
    ];

    /// As written in flags and files.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Check => "check",
            Stage::Mine => "mine",
            Stage::Ground => "ground",
            Stage::TrainUnguided => "train-unguided",
            Stage::TrainGuided => "train-guided",
            Stage::WithRules => "with-rules",
            Stage::Evaluate => "evaluate",
            Stage::Calibrate => "calibrate",
            Stage::Consistency => "consistency",
            Stage::Deploy => "deploy",
            Stage::Predict => "predict",
            Stage::Report => "report",
        }
    }

    /// The files it leaves, from the run folder on.
    pub fn outputs(self) -> &'static [&'static str] {
        match self {
            Stage::Check => &["check.json"],
            Stage::Mine => &["rules.tsv"],
            Stage::Ground => &["ground.json"],
            Stage::TrainUnguided => &["unguided/model.safetensors"],
            Stage::TrainGuided => &["guided/model.safetensors"],
            Stage::WithRules => &["evaluated/model.safetensors", "evaluated/rules.tsv", "evaluated/spec.toml"],
            Stage::Evaluate => &["evaluation.json"],
            Stage::Calibrate => &["calibration.json"],
            Stage::Consistency => &["consistency.json"],
            Stage::Deploy => &["deploy.json", "model.safetensors"],
            Stage::Predict => &["predictions.json", "proposals.json"],
            Stage::Report => &["report.html"],
        }
    }

    /// The stages whose files it reads.
    fn reads(self) -> &'static [Stage] {
        match self {
            Stage::Check | Stage::Mine | Stage::TrainUnguided => &[],
            Stage::Ground => &[Stage::Mine],
            Stage::TrainGuided => &[Stage::Mine, Stage::TrainUnguided],
            Stage::WithRules => &[Stage::TrainGuided],
            Stage::Evaluate => &[Stage::TrainUnguided, Stage::TrainGuided, Stage::WithRules],
            Stage::Calibrate => &[Stage::TrainUnguided, Stage::TrainGuided, Stage::WithRules],
            Stage::Consistency => &[Stage::Mine, Stage::TrainUnguided, Stage::TrainGuided],
            Stage::Deploy => &[Stage::Mine, Stage::TrainGuided, Stage::WithRules],
            Stage::Predict => &[Stage::Mine, Stage::TrainUnguided, Stage::TrainGuided, Stage::WithRules, Stage::Deploy],
            Stage::Report => &[
                Stage::Check,
                Stage::Mine,
                Stage::Ground,
                Stage::TrainUnguided,
                Stage::TrainGuided,
                Stage::Evaluate,
                Stage::Calibrate,
                Stage::Consistency,
                Stage::Deploy,
                Stage::Predict,
            ],
        }
    }
}

/// Which stages are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// All that are not finished.
    #[default]
    All,
    /// This one, finished or not.
    Only(Stage),
    /// This one and all after it, finished or not.
    From(Stage),
}

impl Choice {
    /// Whether a stage is done again although it is finished.
    fn again(self, stage: Stage) -> bool {
        match self {
            Choice::All => false,
            Choice::Only(only) => stage == only,
            Choice::From(first) => stage >= first,
        }
    }

    /// Whether a stage must be finished already.
    fn needs(self, stage: Stage) -> bool {
        match self {
            Choice::All => false,
            Choice::Only(first) | Choice::From(first) => stage < first,
        }
    }

    fn ends_before(self, stage: Stage) -> bool {
        matches!(self, Choice::Only(only) if stage > only)
    }
}

/// What is to be done, and where.
#[derive(Clone)]
pub struct Job<'j> {
    /// The graph.
    pub data: &'j Dataset,
    /// Where it was read from, for people.
    pub source: String,
    /// The guided run; the other one differs in its guidance alone.
    pub spec: Spec,
    /// Where its files are written.
    pub out: PathBuf,
    /// The run folder, where they are in the end; while an earlier run is replaced, that is not the same.
    pub home: PathBuf,
    /// Replace the run that the folder holds, when this one is finished.
    pub force: bool,
    /// Which stages.
    pub choice: Choice,
    /// Whether the model to deploy is trained, too.
    pub deploys: bool,
    /// New facts to predict, and held-out ones to show.
    pub samples: usize,
    /// What a user tells about the graph: it changes the truth of new facts, and trains nothing again.
    pub told: Told,
    /// Least time between two checkpoints.
    pub checkpoint_every: Duration,
    /// Time that the run may take, over all attempts. Settings are made to fit before the first model is trained, and stored.
    pub budget: Option<Duration>,
    /// Whether the dimension stays as it is even so.
    pub keeps_dimension: bool,
}

/// Training triples beyond which rules are not put beside a model unless asked for: millions of them would be mined.
const MOST_WITH_RULES: usize = 600_000;

impl Job<'_> {
    /// Whether rules stand beside the model at ranking time, too: where the recipe is not the paper's, there is something to fit their
    /// weight on, and the graph is not too large for it.
    pub fn ranks_with_rules(&self) -> bool {
        !self.spec.is_of_the_paper() && !self.data.valid().is_empty() && self.data.train().len() <= MOST_WITH_RULES
    }

    /// The stages of this job, in order.
    pub fn stages(&self) -> impl Iterator<Item = Stage> {
        let all = self.deploys;
        Stage::ALL.into_iter().filter(move |stage| all || *stage != Stage::Deploy)
    }
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Everything asked for is there.
    Finished,
    /// Stopped from outside in this stage; what was finished is kept.
    Stopped(Stage),
}

/// Takes every stage that is asked for and not finished.
pub fn run(job: &Job<'_>, page: &Page<'_>, control: &Control<'_, Event>) -> Result<Ended> {
    job.spec.check()?;
    if !job.spec.guidance().takes_rules() {
        let name = job.spec.guidance().name();
        return Err(RugeError::setting(
            "guidance.kind",
            format!(
                "this compares a model with the same model guided by rules, and guidance {name:?} has none; use ruge or kale"
            ),
        ));
    }
    if let Choice::Only(stage) | Choice::From(stage) = job.choice
        && !job.stages().any(|of_job| of_job == stage)
    {
        return Err(RugeError::NoStage { stage: stage.name(), reason: "this run only evaluates".into() });
    }
    // What cannot be read is better known now than after the training.
    job.told.read(job.data)?;
    let data = data_hash(job.data);
    let (place, mut ledger, is_new) = open(job, &data)?;
    if ledger.told != job.told {
        ledger.told = job.told.clone();
        ledger.write(place.work())?;
    }
    let spec = match ledger.asked {
        // Made to fit into its time when it was begun.
        Some(_) => Spec::default().overlaid(&ledger.spec, &place.work().join(ledger::FILE).display().to_string())?,
        None => job.spec.clone(),
    };
    let job = &Job { out: place.work().to_path_buf(), spec, ..job.clone() };
    let clock = &Clock::new(Forecast::new(outlook(job)));
    let watcher = &Stagehand { control, page, clock, until: None };
    if place.replaces() {
        watcher.note("the existing run is kept until this one is finished");
    }
    let taken = take_stages(job, &mut ledger, watcher);
    let done = |stage: &Stage| ledger.stages.get(stage.name()).is_some_and(|entry| entry.finished);
    if taken.is_err() && is_new && !Stage::ALL.iter().skip(1).any(done) {
        // Settings that do not work are no run that would be in the way of better ones. What took time stays.
        place.withdraw(&FILES);
    } else if job.stages().all(|stage| ledger.stages.get(stage.name()).is_some_and(|entry| entry.finished)) {
        place.finish()?;
    }
    taken
}

/// What is known of the time before anything is measured.
fn outlook(job: &Job<'_>) -> Outlook {
    Outlook {
        stages: job.stages().collect(),
        schedule: job.spec.schedule,
        validates: !job.data.valid().is_empty(),
        guided: 1.1,
        all: 1.0,
        ranks: job.ranks_with_rules() && job.spec.rules.ranking != RankingRules::None,
        asked: 1.0,
    }
}

/// Takes the stages in their order.
fn take_stages(job: &Job<'_>, ledger: &mut Ledger, watcher: &Stagehand<'_>) -> Result<Ended> {
    let bench = bench::Bench::new(job.clone());
    // Its spec is what may change on the way, where a time is given.
    let mut job = job.clone();
    let before: f64 = ledger.stages.values().map(|entry| entry.seconds).sum();
    let stages: Vec<Stage> = job.stages().collect();
    for stage in stages {
        if job.choice.ends_before(stage) {
            break;
        }
        let inputs = inputs(&job, ledger, stage)?;
        let finished = ledger.is_finished(&job.out, stage, &inputs);
        if finished && !job.choice.again(stage) {
            let entry = &ledger.stages[stage.name()];
            watcher.clock.note(|forecast, _| forecast.end(stage, entry.seconds, budget::epochs(&job, stage)));
            watcher.control.report(&Event::Skipped { stage, line: entry.line.clone() });
            continue;
        }
        if job.choice.needs(stage) {
            let stage = stage.name();
            let reason = format!("stage {stage} is not finished, or what it was made from has changed; it comes first");
            return Err(RugeError::Stage { path: job.out.clone(), stage, reason });
        }
        if watcher.control.is_cancelled() {
            return Ok(Ended::Stopped(stage));
        }
        watcher.control.report(&Event::Began { stage });
        let started = Instant::now();
        // What was begun from the same inputs goes on; what was made from others, or is wanted again, begins anew. Earlier programs
        // wrote inputs otherwise: of theirs, a checkpoint knows by itself whether it is of the same run.
        let known = ledger.stages.get(stage.name()).is_some_and(|entry| entry.inputs == inputs) || ledger.is_earlier();
        let anew = !known || finished;
        ledger.begin(stage, &inputs);
        ledger.write(&job.out)?;
        watcher.clock.note(|forecast, at| forecast.begin(stage, at));
        let done = budget::fitted(stage, &mut job, &bench, ledger, before, watcher)
            .and_then(|until| stages::take(stage, &job, &bench, anew, &Stagehand { until, ..*watcher }));
        let seconds = started.elapsed().as_secs_f64();
        match done {
            Ok(line) => {
                watcher.clock.note(|forecast, _| forecast.end(stage, seconds, None));
                if stage == Stage::TrainUnguided && job.budget.is_some() {
                    budget::came_to(&mut job, bench.unguided()?.spec().schedule.epochs, ledger, watcher)?;
                }
                ledger.end(&job.out, stage, true, seconds, &line)?;
                watcher.control.report(&Event::Finished { stage, line, seconds });
            }
            Err(error) if error.is_cancelled() => {
                ledger.end(&job.out, stage, false, seconds, "")?;
                return Ok(Ended::Stopped(stage));
            }
            Err(error) => return Err(error),
        }
    }
    if job.choice == Choice::All {
        ledger.settle(&job.out)?;
    }
    Ok(Ended::Finished)
}

/// What a stage is made from and the ledger does not hold for the whole run: spec, data and arithmetic are the same for all of it.
fn inputs(job: &Job<'_>, ledger: &Ledger, stage: Stage) -> Result<String> {
    let own = match (stage, &job.spec.rules.file) {
        (Stage::Mine, Some(file)) => file_hash(Path::new(file)).ok_or_else(|| RugeError::Run {
            path: PathBuf::from(file),
            reason: "the rule file cannot be read; is the path right?".into(),
        })?,
        (Stage::Predict, _) => format!("{}{}", job.samples, job.told.digest()?),
        _ => String::new(),
    };
    let mut parts = vec![stage.name(), &own];
    for &before in stage.reads() {
        parts.extend(before.outputs().iter().map(|file| ledger.output(before, file)));
    }
    Ok(hash(parts))
}

/// The same run without guidance.
pub fn unguided(spec: &Spec) -> Spec {
    let mut spec = spec.clone();
    spec.training = spec.training.unguided();
    spec.rules = Default::default();
    spec
}

/// What a run consists of. A folder of `ruge train` counts as one that may be replaced.
const KIND: Kind = Kind {
    name: "run",
    command: "run",
    resumes: true,
    signs: &[ledger::FILE, "run.json", "spec.toml", "checkpoint.safetensors", "model.safetensors"],
    files: &FILES,
    leftovers: &[],
    folders: &[],
};

/// Takes the folder, or says why it must not be touched. The last answer: whether the run begins now.
fn open(job: &Job<'_>, data: &str) -> Result<(Workplace, Ledger, bool)> {
    let out = &job.out;
    workplace::settle(out)?;
    if let Ok(Found::Foreign(path)) = Found::at(out) {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let reason = match path == *out {
            true => "it is a file, not a folder".into(),
            false => format!("it is not a run folder ({name:?} is in it)"),
        };
        return Err(RugeError::InTheWay { path: out.clone(), reason });
    }
    let spec = job.spec.to_toml();
    // What was begun to replace another run comes first.
    let place = Workplace::open(out, KIND, if job.force { Mode::Force } else { Mode::Continue })?;
    let pending = place.work() != place.home();
    if !job.force {
        match Found::at(place.work())? {
            Found::Training => {
                let (path, what) = (out.clone(), "a training run");
                return Err(RugeError::OtherKind { path, what, made_by: "train" });
            }
            Found::Run(ledger) => {
                return match refuses(&ledger, data, &spec) {
                    None => Ok((place, *ledger, false)),
                    Some(difference) => Err(RugeError::OtherRun {
                        path: out.clone(),
                        difference,
                        aside: pending.then(|| place.work().to_path_buf()),
                    }),
                };
            }
            Found::Empty | Found::Foreign(_) => {}
        }
    }
    let ledger = Ledger::new(data.to_string(), spec);
    ledger.write(place.work())?;
    write_file(&place.work().join("spec.toml"), spec_text(&job.spec, data).as_bytes())?;
    Ok((place, ledger, true))
}

/// Why a run cannot be continued with these data and settings; nothing if it can.
fn refuses(ledger: &Ledger, data: &str, spec: &str) -> Option<Difference> {
    if ledger.data != data {
        return Some(Difference::Data);
    }
    if ledger.numerics != ruge_embed::NUMERICS {
        return Some(Difference::Arithmetic { by: ledger.program.clone() });
    }
    if ledger.spec != spec && ledger.asked.as_deref() != Some(spec) {
        return Some(Difference::Settings(Some(difference(&ledger.spec, spec))));
    }
    None
}

/// Where the files of the run are that goes on in a folder: the folder itself, or the place of what is to replace it.
pub fn folder(home: &Path) -> Result<PathBuf> {
    workplace::current(home, KIND)
}

/// The first settings that differ, in words.
fn difference(old: &str, new: &str) -> String {
    fn leaves(prefix: &str, table: &toml::Table, into: &mut Vec<(String, String)>) {
        for (key, value) in table {
            let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match value {
                toml::Value::Table(table) => leaves(&key, table, into),
                value => into.push((key, value.to_string())),
            }
        }
    }
    let read = |text: &str| {
        let mut list = Vec::new();
        leaves("", &toml::from_str(text).unwrap_or_default(), &mut list);
        list
    };
    let (old, new) = (read(old), read(new));
    let of = |list: &[(String, String)], key: &str| {
        list.iter().find(|(name, _)| name == key).map_or_else(|| "nothing".to_string(), |(_, value)| value.clone())
    };
    let mut keys: Vec<&String> = old.iter().chain(&new).map(|(key, _)| key).collect();
    keys.sort();
    keys.dedup();
    let changed: Vec<String> = keys
        .into_iter()
        .filter(|key| of(&old, key) != of(&new, key))
        .map(|key| format!("{key} is {} there and {} here", of(&old, key), of(&new, key)))
        .collect();
    let more = changed.len().saturating_sub(3);
    let mut text = changed.into_iter().take(3).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(", and {more} more"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_differ_are_named() {
        let spec = Spec::default();
        let mut other = spec.clone();
        other.model.dimension = 50;
        other.seed = 3;
        let said = difference(&spec.to_toml(), &other.to_toml());
        assert_eq!(said, "model.dimension is 200 there and 50 here, seed is 0 there and 3 here");
        other.rules.min_pca = Some(0.5);
        assert!(difference(&spec.to_toml(), &other.to_toml()).contains("rules.min-pca is nothing there"));
    }

    #[test]
    fn stages_read_only_what_comes_before() {
        for stage in Stage::ALL {
            assert!(stage.reads().iter().all(|&before| before < stage), "{stage:?}");
            assert!(!stage.outputs().is_empty());
        }
        assert!(Stage::ALL.is_sorted());
    }

    #[test]
    fn a_choice_takes_what_it_names() {
        let only = Choice::Only(Stage::Evaluate);
        assert!(only.needs(Stage::TrainGuided) && only.again(Stage::Evaluate) && only.ends_before(Stage::Report));
        let from = Choice::From(Stage::Evaluate);
        assert!(from.needs(Stage::Mine) && from.again(Stage::Report) && !from.ends_before(Stage::Report));
        assert!(!Choice::All.needs(Stage::Report) && !Choice::All.again(Stage::Report));
    }

    #[test]
    fn every_output_is_a_file_of_a_run() {
        for output in Stage::ALL.iter().flat_map(|stage| stage.outputs()) {
            assert!(FILES.contains(output), "{output} would stay when a run is replaced");
        }
    }
}
