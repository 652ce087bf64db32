//! `ruge search`: many settings tried, the promising ones for longer, the best kept.

mod teller;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use ruge::run::Mode;
use ruge::{DeviceName, assemble};
use ruge_lab::reproduce::record::spec_json;
use ruge_lab::search::importance::importance;
use ruge_lab::search::space::shown;
use ruge_lab::search::{Best, Ended, Search, SearchEvent, SearchOptions, Space, State, Trial, ranked};
use ruge_report::search::{SearchPage, render_search};
use serde_json::{Map, Value, json};

use crate::console::Console;
use crate::data_args::DataArgs;
use crate::device::DeviceArg;
use crate::text::{Column, Table, counted, grouped};
use crate::usage::UsageError;
use crate::{interrupt, minutes, output, usage};
use teller::Teller;

/// Search for the settings that are best on validation
///
/// SPACE.toml is a spec in which some settings are open: a list is a choice, `{ low = …, high = … }` a range
/// (`scale = "log"`, `step = N`). Its table `search` configures the search: method (grid, random, sobol, tpe), trials, seed,
/// and halving = { first = EPOCHS, factor = 3 } for short runs first. Trials are stored in search.db. --resume continues a
/// stopped or killed search inside the current trial. Failed trials are kept with their reason. With --minutes the search ends in
/// time: the current trial is stopped at the end of an epoch, and --resume continues it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge search demo --spec experiments/search/demo.toml --out runs/search
  ruge search demo --out runs/search --resume --trials 60
  ruge search data/fb15k --spec experiments/search/fb15k-complex.toml --device cuda --minutes 25
  ruge run demo --spec runs/search/best.toml --out runs/best

A space:
  [model]
  name = \"complex\"
  dimension = [50, 100, 200]
  [optimizer]
  entity-rate = { low = 0.01, high = 1.0, scale = \"log\" }
  [search]
  method = \"tpe\"
  trials = 40
  halving = { first = 20, factor = 3 }
  tie = { \"optimizer.relation-rate\" = \"optimizer.entity-rate\" }

See docs/search.md.")]
pub struct SearchArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The space: a spec with open settings [default with --resume: that of the search]
    #[arg(long, value_name = "SPACE", required_unless_present = "resume")]
    spec: Option<PathBuf>,
    /// Total number of trials [default: as in the space]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    trials: Option<u32>,
    /// End within M minutes, with the best so far in best.toml; --resume continues the trial that was stopped
    #[arg(long, value_name = "M", value_parser = minutes::parse)]
    minutes: Option<f64>,
    /// Device [default: as in the spec]
    #[arg(long, value_enum, value_name = "DEVICE")]
    device: Option<DeviceArg>,
    /// Search folder [default: runs/search-DATA]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace an existing search when the new one is finished
    #[arg(long, conflicts_with = "resume")]
    force: bool,
    /// Continue the search in the folder
    #[arg(long)]
    resume: bool,
    /// Give up the current trial and continue; for a trial that crashes the program
    #[arg(long, requires = "resume")]
    skip: bool,
    /// Minimum seconds between two checkpoints of a trial
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    checkpoint_every: u64,
}

/// Rows of the table at the end.
const BEST: usize = 10;

/// Runs `ruge search DATA`.
pub fn run(args: &SearchArgs, console: Console) -> Result<()> {
    let until = args.minutes.and_then(|minutes| Instant::now().checked_add(minutes::duration(minutes)));
    let mode = Mode::of(args.force, args.resume);
    let space = args.space()?;
    let device = args.device.map(DeviceName::from);
    // A missing card is told before anything begins.
    device.map(assemble::device_words).transpose()?;
    let stem = args.data.data.file_name().map_or("data".into(), |name| name.to_string_lossy().into_owned());
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("runs/search-{stem}")));
    let loaded = args.data.load(console)?;
    loaded.announce(console);
    let data = &loaded.data;
    // From here on there is something to save.
    let control = interrupt::control();
    let mut search = Search::open(&out, space, data, mode)?;
    if let Some(seed) = args.data.seed.filter(|seed| *seed != search.space().settings.seed) {
        bail!(
            "{}: its search was started with --seed {}, not {seed}; omit --seed, or start again with --force",
            out.display(),
            search.space().settings.seed
        );
    }
    if let Some(trials) = args.trials {
        search.want(trials as usize);
    }
    if args.skip {
        match search.give_up()? {
            Some(number) => console.note(&format!("trial {number} is given up")),
            None => console.note("no trial was running; nothing is given up"),
        }
    }

    let options = SearchOptions { device, until, checkpoint_every: Duration::from_secs(args.checkpoint_every) };
    if search.replaces() {
        console.note(&format!("note: the search in {} is kept until this one is finished", out.display()));
    }
    let folder = search.folder().to_path_buf();
    let report = Report { out: &folder, home: &out, data: &args.data.data, device, spec: args.spec.as_deref() };
    let teller = Teller::new(&search, args.minutes.zip(until), console);
    if let Some(text) = args.minutes.and_then(|minutes| teller.said_before(minutes)) {
        console.note(&text);
    }
    let teller = Mutex::new((teller, Instant::now()));
    let hear = |event: &SearchEvent| {
        let mut held = teller.lock().unwrap_or_else(PoisonError::into_inner);
        let (teller, written) = &mut *held;
        // A long search can be looked at while it runs. What cannot be written now is told at the end.
        if let SearchEvent::Ended(_, trials) = event
            && written.elapsed() > Duration::from_secs(10)
        {
            let _ = report.write(&teller.space, trials, false);
            *written = Instant::now();
        }
        teller.hear(event);
    };
    let ended = search.run(data, &options, &control.with_listener(&hear))?;
    teller.into_inner().unwrap_or_else(PoisonError::into_inner).0.bar.finish_and_clear();
    report.write(search.space(), search.trials(), ended == Ended::Done)?;
    // A search that found nothing replaces none.
    if ended == Ended::Done && search.best().is_some() {
        search.finish()?;
    }

    if search.best().is_some() || console.json {
        tell(&search, &report, ended, console)?;
    }
    if interrupt::came() {
        return Err(interrupt::error("interrupted; continue with --resume"));
    }
    if ended == Ended::TimeUp {
        console.note(&time_is_up(&search, &report));
    } else if ended == Ended::Unfinished {
        console.note("not all trials were run; continue with --resume");
    } else if search.best().is_none() {
        let first = search.trials().iter().find_map(|trial| trial.error.as_deref()).unwrap_or("nothing was tried");
        bail!("every trial failed; the first reason: {first}");
    }
    Ok(())
}

impl SearchArgs {
    fn space(&self) -> Result<Option<Space>> {
        let Some(path) = &self.spec else { return Ok(None) };
        let mut space = Space::read(path).map_err(usage::of_spec)?;
        if let Some(seed) = self.data.seed {
            if i64::try_from(seed).is_err() {
                let most = i64::MAX;
                bail!(UsageError(format!("--seed is {seed}; the maximum is {most}")));
            }
            space.reseed(seed);
        }
        // What is asked for is stored with the space, before anything begins.
        if let Some(trials) = self.trials {
            space.settings.trials = Some(trials.max(1) as usize);
        }
        Ok(Some(space))
    }
}

/// Where the clock stopped the search, what there is, and how it goes on.
fn time_is_up(search: &Search, report: &Report<'_>) -> String {
    let (space, trials) = (search.space(), search.trials());
    let of = counted(space.trials().max(trials.len()), "trial");
    let place = match trials.iter().find(|trial| trial.state == State::Running) {
        Some(trial) => {
            let at = trial.curve.last().map_or_else(String::new, |(epoch, mrr)| {
                format!(", which was at validation MRR {mrr:.4} after epoch {}", grouped(*epoch))
            });
            format!("in trial {} of {of}{at}", trial.number)
        }
        None => format!("after {} of {of}", grouped(trials.len())),
    };
    let best = match Best::of(trials) {
        Some(Best { trial, stopped_at: None, .. }) => {
            format!("the best so far, trial {}, is in {}", trial.number, report.best_file().display())
        }
        Some(_) => format!("no trial is at its end, so {} has this one as it is", report.best_file().display()),
        None => "nothing was validated yet".into(),
    };
    format!("time is up {place}; {best}\n  next: the same command with --resume, without --spec, goes on")
}

/// What is left beside the trials: the best spec and the page.
struct Report<'r> {
    /// Where they are written.
    out: &'r Path,
    /// Where they are in the end.
    home: &'r Path,
    data: &'r Path,
    device: Option<DeviceName>,
    spec: Option<&'r Path>,
}

impl Report<'_> {
    fn best_file(&self) -> PathBuf {
        self.home.join("best.toml")
    }

    fn page_file(&self) -> PathBuf {
        self.home.join("report.html")
    }

    fn best_spec(&self, space: &Space, trials: &[Trial]) -> Result<Option<ruge::Spec>> {
        let Some(best) = Best::of(trials) else { return Ok(None) };
        let mut spec = space.spec(&best.trial.point)?;
        spec.schedule.epochs = best.stopped_at.unwrap_or(spec.schedule.epochs);
        spec.device = self.device.unwrap_or(spec.device);
        Ok(Some(spec))
    }

    /// Writes `best.toml` and `report.html`.
    fn write(&self, space: &Space, trials: &[Trial], is_done: bool) -> Result<()> {
        let mut text = String::new();
        if let (Some(spec), Some(best)) = (self.best_spec(space, trials)?, Best::of(trials)) {
            let (data, file) = (self.data.display(), self.best_file());
            let file = file.display();
            text = format!(
                "# Found by ruge search: trial {} of {}, validation MRR {:.4}{}\n# ruge run {data} --spec {file}\n\
                 # ruge train {data} --spec {file}\n{}",
                best.trial.number,
                trials.len(),
                best.valid_mrr,
                best.stopped_at.map_or_else(String::new, |epoch| format!(", stopped by the clock after epoch {epoch}")),
                spec.to_toml()
            );
            write_file(&self.out.join("best.toml"), &text)?;
        }
        let device = match self.device {
            Some(DeviceName::Cuda) => " --device cuda",
            Some(DeviceName::Cpu) => " --device cpu",
            None => "",
        };
        let (out, data) = (self.home.display(), self.data.display());
        let spec = self.spec.map_or_else(|| "SPACE.toml".into(), |spec| spec.display().to_string());
        let page = SearchPage {
            title: data.to_string(),
            commands: vec![
                format!("ruge search {data} --spec {spec}{device} --out {out}"),
                format!("ruge search {data}{device} --out {out} --resume --trials {}", 2 * trials.len().max(1)),
                format!("ruge run {data} --spec {} --out runs/best", self.best_file().display()),
                format!("ruge train {data} --spec {} --out runs/best-model", self.best_file().display()),
            ],
            best_spec: text,
            version: env!("RUGE_VERSION").into(),
            ..SearchPage::of(space, trials, is_done)
        };
        write_file(&self.out.join("report.html"), &render_search(&page))
    }
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    output::to_file(path, |file| {
        file.write_all(text.as_bytes()).with_context(|| format!("{}: cannot write", path.display()))
    })
}

/// The result on stdout.
fn tell(search: &Search, report: &Report<'_>, ended: Ended, console: Console) -> Result<()> {
    let (space, trials) = (search.space(), search.trials());
    if console.json {
        let leaves = |trial: &Trial| -> Value {
            let named = space.named(&trial.point).into_iter();
            Value::Object(named.map(|(leaf, value)| (leaf, json!(value))).collect::<Map<_, _>>())
        };
        let object = |trial: &Trial| {
            let last = trial.rungs.last();
            json!({
                "trial": trial.number,
                "state": trial.state.name(),
                "leaves": leaves(trial),
                "valid_mrr": trial.valid_mrr(),
                "best_epoch": last.map(|rung| rung.best_epoch),
                "epochs": last.map(|rung| rung.epochs),
                "rungs": trial.rungs.iter().map(|rung| json!([rung.epochs, rung.valid_mrr])).collect::<Vec<_>>(),
                "seconds": trial.seconds,
                "error": trial.error,
            })
        };
        let names = space.parameters.iter().map(|parameter| parameter.leaf.clone());
        let shares = names.zip(importance(space, trials)).map(|(leaf, share)| (leaf, json!(share)));
        return console.json_result(&json!({
            "done": ended == Ended::Done,
            "time_is_up": ended == Ended::TimeUp,
            "best": search.best().map(object),
            "best_spec": report.best_spec(space, trials)?.map(|spec| spec_json(&spec)),
            "best_spec_file": Best::of(trials).map(|_| report.best_file()),
            "run": search.best().map(|best| search.run_folder(best)),
            "trials": trials.iter().map(object).collect::<Vec<_>>(),
            "failed": trials.iter().filter(|trial| trial.state == State::Failed).count(),
            "importance": shares.collect::<Map<_, _>>(),
            "report": report.page_file(),
        }));
    }
    let Some(best) = search.best() else { return Ok(()) };
    let mut columns = vec![Column::Right; 4];
    let mut head: Vec<String> = ["trial", "MRR", "epoch", "of"].map(str::to_string).to_vec();
    head.extend(space.short_names());
    columns.extend(space.parameters.iter().map(|p| if p.domain.is_ordered() { Column::Right } else { Column::Name }));
    let mut table = Table::new(&columns);
    table.head(head);
    for trial in ranked(trials).into_iter().take(BEST) {
        let (mrr, last) = (trial.valid_mrr().unwrap_or(0.0), trial.rungs.last());
        let epochs = last.map_or((0, 0), |rung| (rung.best_epoch, rung.epochs));
        let mut row = vec![trial.number.to_string(), format!("{mrr:.4}"), epochs.0.to_string(), epochs.1.to_string()];
        row.extend(trial.point.iter().map(shown));
        table.row(row);
    }
    let mut text = format!("{}\n{}", console.heading("The best trials"), table.render(console.width()));
    let named = space.named(&best.point).into_iter();
    let leaves: Vec<String> = named.map(|(leaf, value)| format!("  {leaf} = {value}\n")).collect();
    text.push_str(&format!(
        "\n{}\n{}",
        console.heading(&format!("Trial {} is the best", best.number)),
        leaves.concat()
    ));
    let shares = space.short_names().into_iter().zip(importance(space, trials));
    let mut shares: Vec<(String, f64)> = shares.filter_map(|(leaf, share)| Some((leaf, share?))).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    if !shares.is_empty() {
        let shares: Vec<String> = shares.into_iter().map(|(leaf, share)| format!("{leaf} {share:.2}")).collect();
        text.push_str(&format!(
            "\nimportance (share of the variance of ranks that a setting explains alone): {}\n",
            shares.join(", ")
        ));
    }
    let failed = trials.iter().filter(|trial| trial.state == State::Failed).count();
    text.push('\n');
    if failed > 0 {
        text.push_str(&format!(
            "{failed} of {} failed; see the page for the reasons\n",
            counted(trials.len(), "trial")
        ));
    }
    text.push_str(&format!(
        "written to {best} and {}\nnext: ruge run {data} --spec {best} (with and without rules, and a report)\n  or: ruge train {data} \
         --spec {best} (this model alone)\n",
        report.page_file().display(),
        best = report.best_file().display(),
        data = report.data.display(),
    ));
    console.result(&text)
}
