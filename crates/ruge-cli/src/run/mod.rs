//! `ruge run`: one command from triples to a finished run folder.

mod seeds;
mod settings;
mod story;
pub use story::quoted;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use ruge::Spec;
use ruge_lab::pipeline::ledger::{self, Ledger};
use ruge_lab::pipeline::{self, Choice, Ended, Event, Findings, Job, Stage};
use ruge_lab::recipe::Size;
use ruge_report::run::report;

use crate::console::Console;
use crate::data_args::{DataArgs, Loaded};
use crate::serve::ServeArgs;
use crate::settings::SettingsArgs;
use crate::text::labelled;
use crate::truth_args::TruthArgs;
use crate::{interrupt, minutes, progress, remedy};

pub use seeds::object as seeds_object;
pub use settings::of_request as spec;
pub use story::object;

/// Run the whole job: from triples to rules, two models, figures, new facts with reasons, and a report
///
/// Checks the data, mines and grounds rules, trains the same model without and with their guidance, evaluates both and the
/// rules alone, calibrates truth values, trains the model to deploy on every listed fact, predicts new facts with
/// explanations and writes report.html. Settings are sized to the data and printed; flags and --spec change any of them. Finished stages are skipped if their input has not changed, so
/// the same command continues after an interruption.
#[derive(Debug, Args)]
#[command(mut_arg("guidance", settings::guidance), mut_arg("preset", settings::preset))]
#[command(mut_args(settings::hide_paths))]
#[command(after_help = "Examples:
  ruge run demo
  ruge run demo --serve
  ruge run my-triples.tsv --out runs/mine
  ruge run my-triples.tsv --out runs/mine --resume
  ruge run my-triples.tsv --out runs/mine --minutes 20
  ruge run my-triples.tsv --out runs/three --seeds 3
  ruge run my-triples.tsv --out runs/mine --completeness 0.9 --constraints laws.txt
  ruge run data/wn18rr --dim 100 --epochs 100 --rules my-rules.txt --out runs/wn18rr
  ruge run demo --only report

Stages: check, mine, ground, train-unguided, train-guided, with-rules, evaluate, calibrate,
consistency, deploy, predict, report.

The run folder holds the model to deploy, trained on every listed fact (model.safetensors), the
model that the figures describe (evaluated/), the guided model without rules at ranking time
(guided/), the unguided model (unguided/), spec.toml, rules.tsv, metrics.jsonl, evaluation.json,
proposals.json, report.html and a file per stage. `ruge predict`, `explain`, `complete` and `eval`
take it as MODEL; `eval` ranks the model in evaluated/.")]
pub struct RunArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// The run folder [default: runs/DATA]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the run in the folder
    #[arg(long, conflicts_with = "resume")]
    force: bool,
    /// Continue the run in the folder with its own settings
    #[arg(long)]
    resume: bool,
    /// Run this stage only, even if it is finished
    #[arg(long, value_name = "STAGE", value_parser = stage, conflicts_with_all = ["from", "force"])]
    only: Option<Stage>,
    /// Run this stage and all later ones, even if they are finished
    #[arg(long, value_name = "STAGE", value_parser = stage, conflicts_with = "force")]
    from: Option<Stage>,
    /// Do not train the model to deploy: figures, and new facts by the model that they describe
    #[arg(long)]
    evaluate_only: bool,
    /// Number of new facts to predict, and of held-out facts to show
    #[arg(long, value_name = "N", default_value_t = 3)]
    samples: usize,
    /// Minimum seconds between two checkpoints
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    checkpoint_every: u64,
    /// Take at most about M minutes: epochs, and if need be the dimension, are made to fit; spec.toml has what came of it
    #[arg(long, value_name = "M", value_parser = minutes::parse)]
    minutes: Option<f64>,
    /// When it is finished, show it in a browser, as `ruge serve` does
    #[arg(long)]
    serve: bool,
    /// Repeat the run with N seeds, each in a folder of its own, and report means, deviations and a test of significance
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1000), conflicts_with_all = ["only", "from", "serve"])]
    seeds: Option<u64>,
    #[command(flatten)]
    truth: TruthArgs,
    #[command(flatten, next_help_heading = "Settings (default: sized to the data)")]
    settings: SettingsArgs,
}

fn stage(name: &str) -> Result<Stage, String> {
    Stage::ALL.into_iter().find(|stage| stage.name() == name).ok_or_else(|| {
        let names: Vec<&str> = Stage::ALL.iter().map(|stage| stage.name()).collect();
        format!("the stages are {}", names.join(", "))
    })
}

impl RunArgs {
    /// Data and folder alone, everything else at its default.
    pub fn plain(data: &Path, out: PathBuf, force: bool) -> Self {
        Self {
            data: DataArgs::plain(data),
            out: Some(out),
            force,
            resume: false,
            only: None,
            from: None,
            evaluate_only: false,
            samples: 3,
            checkpoint_every: 30,
            minutes: None,
            serve: false,
            seeds: None,
            truth: TruthArgs::default(),
            settings: SettingsArgs::default(),
        }
    }

    fn out(&self) -> PathBuf {
        let stem = self.data.data.file_name().map_or("data".into(), |name| name.to_string_lossy().into_owned());
        let stem = stem.split('.').find(|part| !part.is_empty()).unwrap_or("data");
        self.out.clone().unwrap_or_else(|| Path::new("runs").join(stem))
    }
}

/// What to type to go on: the same again, but not anew.
fn again(typed: impl Iterator<Item = String>) -> String {
    let rest = typed.skip(1).filter(|word| word != "--force").map(|word| format!(" {}", story::quoted(&word)));
    format!("ruge{}", rest.collect::<String>())
}

/// Where sentences begin beside the names of stages and settings.
const COLUMN: usize = 16;

/// Runs `ruge run DATA`.
pub fn run(args: &RunArgs, console: Console) -> Result<()> {
    let out = args.out();
    let loaded = args.data.load(console)?;
    loaded.announce(console);
    // A run that goes on is led by its own settings, unless others are typed.
    let stored = if args.resume { Ledger::read(&pipeline::folder(&out)?)? } else { None };
    if args.resume && args.seeds.is_none() && stored.is_none() {
        bail!("{}: there is no run to resume; leave out --resume to start one", out.display());
    }
    let stored = stored.filter(|_| !args.settings.are_given());
    let spec = match stored {
        Some(ledger) => Spec::default().overlaid(&ledger.spec, &out.join(ledger::FILE).display().to_string())?,
        None => settings::resolve(&args.settings, Size::of(&loaded.data), args.data.seed)?,
    };
    console.note("Settings");
    for (label, sentence) in settings::words(&spec) {
        console.note(labelled(label, COLUMN, &sentence, console.note_width()).trim_end());
    }
    if let Some(count) = args.seeds {
        return seeds::run(args, count, &loaded, &spec, console);
    }
    console.note("");
    let started = Instant::now();
    let (findings, job) = take(args, &loaded, spec, &out, !args.evaluate_only, 1, console)?;
    if console.json {
        return console.json_result(&story::object(&findings, &job, started.elapsed().as_secs_f64()));
    }
    match job.choice {
        // One stage has said what came out of it; the story would be about others.
        Choice::Only(stage) => console.result(&format!("{}\n", findings.ledger.stages[stage.name()].line))?,
        _ => {
            console.note("");
            console.result(&story::text(&findings, &job, console))?;
        }
    }
    if args.serve { crate::serve::run(&ServeArgs::plain(job.out, true), console) } else { Ok(()) }
}

/// Takes the stages of a run, one of so many that share the time.
fn take<'l>(
    args: &RunArgs,
    loaded: &'l Loaded,
    spec: Spec,
    out: &Path,
    deploys: bool,
    runs: u64,
    console: Console,
) -> Result<(Findings, Job<'l>)> {
    console.note("Stages");
    let typed = args.truth.told();
    // A run that goes on is told what it was told before, unless something else is typed.
    let told = match args.resume && typed.is_empty() {
        true => Ledger::read(&pipeline::folder(out)?)?.map(|ledger| ledger.told).unwrap_or_default(),
        false => typed,
    };
    TruthArgs::read(&told, &loaded.data, console)?;
    let job = Job {
        data: &loaded.data,
        source: args.data.data.display().to_string(),
        spec,
        out: out.to_path_buf(),
        home: out.to_path_buf(),
        force: args.force,
        choice: match (args.only, args.from) {
            (Some(stage), _) => Choice::Only(stage),
            (_, Some(stage)) => Choice::From(stage),
            _ => Choice::All,
        },
        deploys,
        samples: args.samples,
        told,
        checkpoint_every: Duration::from_secs(args.checkpoint_every),
        budget: args.minutes.map(|minutes| minutes::duration(minutes / runs as f64)),
        keeps_dimension: args.settings.fixes_dimension(),
    };
    let teller = Teller { console, bar: Mutex::default() };
    let hear = |event: &Event| teller.hear(event);
    // A time may have changed the settings on the way.
    let as_run = |findings: &Findings| -> ruge::Result<Job<'l>> {
        Ok(Job { spec: Spec::default().overlaid(&findings.spec, "stages.json")?, ..job.clone() })
    };
    let page = |findings: &Findings| {
        let page = report(findings, &as_run(findings)?, &loaded.report, env!("RUGE_VERSION"));
        Ok(ruge_report::render(&page))
    };
    let ended = pipeline::run(&job, &page, &interrupt::control().with_listener(&hear))?;
    if let Ended::Stopped(stage) = ended {
        return Err(interrupt::error(format!(
            "interrupted in stage {}; what was finished is kept in {}\n  continue with: {}",
            stage.name(),
            out.display(),
            again(std::env::args_os().map(|word| word.to_string_lossy().into_owned()))
        )));
    }
    // A part of what is to replace an earlier run is still beside it.
    let folder = pipeline::folder(out)?;
    let spec = match Ledger::read(&folder)? {
        Some(ledger) => Spec::default().overlaid(&ledger.spec, "stages.json")?,
        None => job.spec.clone(),
    };
    let job = Job { out: folder, spec, ..job.clone() };
    Ok((Findings::read(&job)?, job))
}

/// Tells what happens, on stderr: a bar for the stage under way, a line for each that is finished.
struct Teller {
    console: Console,
    bar: Mutex<UnderWay>,
}

/// The stage under way.
#[derive(Default)]
struct UnderWay {
    bar: Option<(Stage, progress::Bar)>,
    /// Epochs done, where models are trained.
    epochs: u64,
    /// How long the whole run still takes, in words.
    left: String,
}

impl UnderWay {
    /// A bar over so much work, or a spinner where that is not known.
    fn over(&mut self, console: Console, stage: Stage, total: u64) {
        let length = self.bar.as_ref().filter(|(of, _)| *of == stage).map(|(_, bar)| bar.length().unwrap_or(0));
        if length != Some(total) {
            // The old one leaves before the new one comes.
            drop(self.bar.take());
            let bar = match total {
                0 => progress::spinner(console, stage.name()),
                _ => progress::part_of_a_run(console, stage.name(), total),
            };
            bar.set_prefix(self.left.clone());
            self.bar = Some((stage, bar));
        }
    }

    /// The bar stands there, and says this.
    fn at(&self, stage: Stage, position: u64, note: &str) {
        if let Some((_, bar)) = &self.bar {
            bar.set_position(position);
            let comma = if note.is_empty() { "" } else { ", " };
            bar.set_message(format!("{}{comma}{note}", stage.name()));
        }
    }
}

impl Teller {
    fn hear(&self, event: &Event) {
        // A panic elsewhere while the bar was held leaves the bar as it was.
        let held = &mut *self.bar.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match event {
            Event::Began { stage } => {
                held.epochs = 0;
                held.over(self.console, *stage, 0);
            }
            Event::Progress { stage, done, total, note } => {
                held.over(self.console, *stage, *total);
                held.at(*stage, *done, note);
            }
            Event::Epoch { stage, epoch, epochs, note } => {
                held.over(self.console, *stage, progress::position(*epochs));
                held.epochs = *epoch;
                held.at(*stage, progress::position(*epoch), note);
            }
            Event::Batches { stage, part, epochs } => {
                held.over(self.console, *stage, progress::position(*epochs));
                if let Some((_, bar)) = &held.bar {
                    bar.set_position(progress::within(held.epochs, *part));
                }
            }
            Event::Left { seconds } => {
                let left = Duration::try_from_secs_f64(*seconds).unwrap_or_default();
                tracing::debug!("about {} left in all", minutes::said(left));
                held.left = format!("about {} left in all", minutes::said(left));
                if let Some((_, bar)) = &held.bar {
                    bar.set_prefix(held.left.clone());
                }
            }
            Event::Note { text } => self.say(held, &format!("note: {}", remedy::with_flags(&counts(text)))),
            Event::Skipped { stage, line } => {
                self.line(held, *stage, &format!("{} (finished before)", counts(line)));
            }
            Event::Finished { stage, line, seconds } => {
                drop(held.bar.take());
                self.line(held, *stage, &format!("{} ({seconds:.1} s)", counts(line)));
            }
        }
    }

    fn line(&self, held: &UnderWay, stage: Stage, sentence: &str) {
        self.say(held, labelled(stage.name(), COLUMN, sentence, self.console.note_width()).trim_end());
    }

    fn say(&self, held: &UnderWay, text: &str) {
        match &held.bar {
            Some((_, bar)) => bar.suspend(|| self.console.note(text)),
            None => self.console.note(text),
        }
    }
}

/// Whole numbers of a sentence with their thousands apart.
fn counts(line: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_start_matches('(');
        match bare.parse::<u64>() {
            Ok(number) => format!("{}{}", &word[..word.len() - bare.len()], crate::text::grouped(number)),
            Err(_) => word.to_string(),
        }
    };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_sentences_are_grouped() {
        assert_eq!(counts("2985 entities (11901 triples), MRR 0.5"), "2,985 entities (11,901 triples), MRR 0.5");
        assert_eq!(counts(""), "");
    }

    #[test]
    fn going_on_is_typed_as_before() {
        let typed = ["target/ruge", "run", "my data.tsv", "--force", "--seed", "3"].map(str::to_string);
        assert_eq!(again(typed.into_iter()), "ruge run 'my data.tsv' --seed 3");
    }

    #[test]
    fn folders_are_named_for_the_data() {
        let out = |data: &str| RunArgs { out: None, ..RunArgs::plain(Path::new(data), PathBuf::new(), false) }.out();
        assert_eq!(out("data/fb15k"), Path::new("runs/fb15k"));
        assert_eq!(out("my.triples.tsv.gz"), Path::new("runs/my"));
        assert_eq!(out("/"), Path::new("runs/data"));
    }

    #[test]
    fn stages_are_named_or_listed() {
        assert_eq!(stage("train-guided"), Ok(Stage::TrainGuided));
        assert!(stage("train").unwrap_err().contains("train-unguided"));
    }
}
