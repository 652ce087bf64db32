//! `ruge reproduce`: the paper's tables and figure, cell by cell.
//!
//! What is recorded is not run again, what was killed goes on, and what cannot run is told at the end, after the table.

mod sheets;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use ruge::{DeviceName, RugeError, assemble, suggest};
use ruge_kg::Dataset;
use ruge_lab::reproduce::work::{self, CellEvent, Filled, Place};
use ruge_lab::reproduce::{Cell, PaperTable, Record, Row, TableName, record};
use ruge_report::sheet::{Sheet, render_sheets};
use serde_json::{Value, json};

use crate::console::Console;
use crate::data_args::DataArgs;
use crate::device::DeviceArg;
use crate::text::{Column, grouped, wrapped};
use crate::usage::UsageError;
use crate::{interrupt, output, progress, remedy, text};

/// Reproduce the paper's tables and figure, cell by cell, with published figures next to measured ones
///
/// Cells are listed in experiments/TABLE.toml. Each result is recorded under experiments/records with its spec, seed,
/// commit, device, curve and a digest of all ranks. Recorded cells are not run again, and an interrupted run continues
/// where it stopped. `--recorded` shows recorded results and runs nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge reproduce --quick                                a small subset on the embedded graph
  ruge reproduce link-prediction --recorded             recorded and published results
  ruge data get fb15k && ruge reproduce link-prediction fb15k-ruge
  ruge reproduce confidence --device cuda --minutes 25  part of the figure; repeat to continue
  ruge reproduce link-prediction --verify fb15k-ruge    run it again, compare every rank
  ruge reproduce --recorded --html tables.html --markdown tables.md")]
pub struct ReproduceArgs {
    /// Table [default: all]
    #[arg(value_enum, value_name = "TABLE")]
    table: Option<TableArg>,
    /// Cells to run [default: all of the table]
    #[arg(value_name = "CELL")]
    cells: Vec<String>,
    /// The same, as a comma-separated list
    #[arg(long, value_name = "CELL,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Seeds to run [default: all seeds of a cell]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    seeds: Vec<u64>,
    /// Folder that holds fb15k, wn18, …
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
    /// Folder of tables and specs
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    experiments: PathBuf,
    /// Folder of records [default: records in the experiments folder; with --quick, records in --out]
    #[arg(long, value_name = "DIR")]
    records: Option<PathBuf>,
    /// Folder of runs and checkpoints
    #[arg(long, value_name = "DIR", default_value = "runs/reproduce")]
    out: PathBuf,
    /// Device
    #[arg(long, value_enum, value_name = "DEVICE", default_value_t = DeviceArg::Cpu)]
    device: DeviceArg,
    /// Start nothing new after M minutes
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
    /// Show recorded results and run nothing
    #[arg(long, conflicts_with_all = ["verify", "force"])]
    recorded: bool,
    /// Run a small subset, a few minutes on any CPU
    #[arg(long)]
    quick: bool,
    /// Run recorded cells again and compare: rank by rank on the same kind of device, within .003 MRR on another
    #[arg(long)]
    verify: bool,
    /// Run and record recorded cells again
    #[arg(long, conflicts_with = "verify")]
    force: bool,
    /// Write the tables as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the tables with plots as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Commit to record if the program does not know its own
    #[arg(long, value_name = "HASH")]
    commit: Option<String>,
}

/// A table as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TableArg {
    /// All systems on FB15K and other sets
    LinkPrediction,
    /// MRR against the confidence threshold of rules
    Confidence,
    /// Seconds of mining, grounding and an epoch
    Runtime,
    /// Rules, groundings, unlabeled triples
    Statistics,
    /// Contribution of each part of RUGE
    Ablation,
    /// The best systems beyond the paper
    Best,
}

impl From<TableArg> for TableName {
    fn from(table: TableArg) -> Self {
        match table {
            TableArg::LinkPrediction => Self::LinkPrediction,
            TableArg::Confidence => Self::Confidence,
            TableArg::Runtime => Self::Runtime,
            TableArg::Statistics => Self::Statistics,
            TableArg::Ablation => Self::Ablation,
            TableArg::Best => Self::Best,
        }
    }
}

/// Runs `ruge reproduce [TABLE]`.
pub fn run(args: &ReproduceArgs, console: Console) -> Result<()> {
    let mut tables = args.tables()?;
    args.choose(&mut tables)?;
    if args.table.is_none() {
        tables.retain(|table| !table.cells.is_empty());
    }
    // What a user tries out quickly is theirs; what the project has recorded stays as it is.
    let usual = if args.quick { args.out.join("records") } else { args.experiments.join("records") };
    let records = args.records.clone().unwrap_or(usual);
    let mut session = Session { args, console, records: &records, data: None, troubles: Vec::new() };
    let (mut verified, mut unfinished) = (Vec::new(), false);
    if !args.recorded {
        (verified, unfinished) = session.work(&tables)?;
    }
    let troubles = session.troubles;
    let rows = |table: &PaperTable| -> Result<Vec<Row>> {
        Ok(table
            .cells
            .iter()
            .map(|cell| Row::gather(cell, &args.experiments, &records))
            .collect::<ruge::Result<_>>()?)
    };
    let tables: Vec<(PaperTable, Vec<Row>)> =
        tables.into_iter().map(|table| rows(&table).map(|rows| (table, rows))).collect::<Result<_>>()?;
    let sheets: Vec<Sheet> = tables.iter().map(|(table, rows)| sheets::sheet(table, rows)).collect();
    write_files(args, &sheets)?;
    if console.json {
        let rows: Vec<Value> = tables.iter().flat_map(|(_, rows)| sheets::objects(rows)).collect();
        let mut object = json!({"rows": rows, "unfinished": unfinished, "failed": troubles});
        if args.verify {
            object["verified"] = verified.into();
        }
        console.json_result(&object)?;
    } else if args.verify {
        let line = |found: &Value| {
            let words = |key: &str| found[key].as_str().unwrap_or_default().to_string();
            let verdict = if found["agrees"] == true { "agrees" } else { "DIFFERS" };
            format!("{} seed {}: {verdict}: {}\n", words("cell"), found["seed"], words("words"))
        };
        console.result(&verified.iter().map(line).collect::<String>())?;
    } else {
        console.result(&sheets.iter().map(|sheet| words(sheet, console)).collect::<Vec<_>>().join("\n"))?;
    }
    if unfinished {
        console.note("not all cells were run; run the same command again to continue");
    }
    match troubles.as_slice() {
        [] => Ok(()),
        [one] => bail!("{one}"),
        many => bail!("{} cells have no result:\n  {}", many.len(), many.join("\n  ")),
    }
}

impl ReproduceArgs {
    fn tables(&self) -> Result<Vec<PaperTable>> {
        if !self.experiments.is_dir() {
            bail!(UsageError(format!(
                "{}: no such folder\n  remedy: run this in a checkout of the project, or give its folder with \
                 --experiments",
                self.experiments.display()
            )));
        }
        let wanted = match self.table {
            Some(table) => vec![table.into()],
            None => TableName::ALL.to_vec(),
        };
        let read =
            wanted.into_iter().map(|name| PaperTable::read(&self.experiments, name)).collect::<ruge::Result<_>>();
        read.map_err(|error| match error {
            RugeError::Refused(words) => anyhow!("{words}\n  remedy: go there, or name it with --experiments"),
            other => anyhow::Error::from(other),
        })
    }

    /// Keeps the cells that were asked for.
    fn choose(&self, tables: &mut [PaperTable]) -> Result<()> {
        let named: BTreeSet<&str> = self.cells.iter().chain(&self.only).map(String::as_str).collect();
        let all: Vec<String> = tables.iter().flat_map(|table| &table.cells).map(|cell| cell.name.clone()).collect();
        for name in &named {
            if !all.iter().any(|cell| cell == name) {
                let hint = suggest::suggestion(name, all.iter().map(String::as_str));
                let cells = all.join(", ");
                bail!(UsageError(format!("unknown cell {name:?}{hint}\n  the cells are: {cells}")));
            }
        }
        for table in tables.iter_mut() {
            table.cells.retain(|cell| {
                if named.is_empty() { cell.quick == self.quick } else { named.contains(cell.name.as_str()) }
            });
        }
        let has = |seed: &u64| tables.iter().flat_map(|table| &table.cells).any(|cell| cell.seeds.contains(seed));
        if let Some(seed) = self.seeds.iter().find(|seed| !has(seed)) {
            bail!(UsageError(format!("no chosen cell has seed {seed}; seeds are listed with the cells")));
        }
        Ok(())
    }
}

/// One go at the tables.
struct Session<'a> {
    args: &'a ReproduceArgs,
    console: Console,
    records: &'a Path,
    /// The data set read last.
    data: Option<(String, Arc<Dataset>)>,
    troubles: Vec<String>,
}

impl Session<'_> {
    /// Fills or verifies; what was verified, and whether something is left to do.
    fn work(&mut self, tables: &[PaperTable]) -> Result<(Vec<Value>, bool)> {
        let (args, console) = (self.args, self.console);
        let device: DeviceName = args.device.into();
        let device_words = match assemble::device_words(device)? {
            Some(card) => card,
            None => processor(),
        };
        let (version, commit) = version();
        let commit = args.commit.clone().unwrap_or(commit);
        let control = interrupt::control();
        let until = args.minutes.map(|minutes| Instant::now() + Duration::from_secs_f64(60.0 * minutes.max(0.0)));
        let place = Place {
            experiments: &args.experiments,
            records: self.records,
            data: &args.data,
            runs: &args.out,
            device,
            device_words: &device_words,
            version: &version,
            commit: &commit,
            until,
            force: args.force,
            ranking_rules: Default::default(),
        };
        let (mut verified, mut unfinished) = (Vec::new(), false);
        let cells: Vec<&Cell> = tables.iter().flat_map(|table| &table.cells).collect();
        let named = !args.cells.is_empty() || !args.only.is_empty();
        for cell in cells {
            let name = format!("{}/{}", cell.table.name(), cell.name);
            if cell.device.is_some_and(|only| only != device) {
                console.note(&format!(
                    "{name}: skipped; it is for --device {}",
                    if device == DeviceName::Cpu { "cuda" } else { "cpu" }
                ));
                continue;
            }
            if cell.optional && !named && !place.data.join(&cell.data).exists() {
                console.note(&format!("{name}: skipped; no data in {}", place.data.join(&cell.data).display()));
                continue;
            }
            for &seed in cell.seeds.iter().filter(|seed| args.seeds.is_empty() || args.seeds.contains(seed)) {
                if interrupt::came() {
                    return Err(interrupt::error("interrupted; run the same command again to continue"));
                }
                if args.verify && place.is_over(&control) {
                    unfinished = true;
                    continue;
                }
                let done = match args.verify {
                    true => self.verify(cell, seed, &place, named, &mut verified),
                    false => self.fill(cell, seed, &place),
                };
                match done {
                    Ok(finished) => unfinished |= !finished,
                    Err(error) => {
                        console.note(&format!("{name} seed {seed}: {error:#}"));
                        self.troubles.push(format!("{name} seed {seed}: {error:#}"));
                        // The other seeds would fail the same way.
                        break;
                    }
                }
            }
        }
        if interrupt::came() {
            return Err(interrupt::error("interrupted; run the same command again to continue"));
        }
        Ok((verified, unfinished))
    }

    /// False when there was no time for it.
    fn fill(&mut self, cell: &Cell, seed: u64, place: &Place<'_>) -> Result<bool> {
        let console = self.console;
        let name = format!("{}/{} seed {seed}", cell.table.name(), cell.name);
        let teller = Mutex::new(Teller::new(&name, console));
        let hear = |event: &CellEvent| teller.lock().unwrap_or_else(PoisonError::into_inner).hear(event);
        let loaded = &mut self.data;
        let mut data = || dataset(loaded, place.data, &cell.data, console);
        let started = Instant::now();
        Ok(match work::fill(cell, seed, place, &mut data, &interrupt::control().with_listener(&hear))? {
            Filled::Unfinished => false,
            Filled::Kept(_) => true,
            Filled::Done(record) => {
                let mrr = record.test.as_ref().map_or_else(String::new, |test| format!(", test MRR {:.4}", test.mrr));
                console.note(&format!("{name}: done in {:.1} s{mrr}", started.elapsed().as_secs_f64()));
                true
            }
        })
    }

    /// False when there was no time for it.
    fn verify(
        &mut self,
        cell: &Cell,
        seed: u64,
        place: &Place<'_>,
        named: bool,
        verified: &mut Vec<Value>,
    ) -> Result<bool> {
        let path = cell.record_path(self.records, seed);
        let Some(recorded) = Record::of(cell, self.records, seed)?.filter(|record| record.complete) else {
            if named {
                bail!("it is not recorded in {}; run the cell first, without --verify", path.display());
            }
            return Ok(true);
        };
        let console = self.console;
        let data = dataset(&mut self.data, place.data, &cell.data, console)?;
        if !recorded.data_sha256.is_empty() && recorded.data_sha256 != ruge::model_file::data_hash(&data) {
            bail!("the record was made with data other than {}", place.data.join(&cell.data).display());
        }
        let teller = Mutex::new(Teller::new(&format!("{} seed {seed}", cell.name), console));
        let hear = |event: &CellEvent| teller.lock().unwrap_or_else(PoisonError::into_inner).hear(event);
        let Some(again) = work::repeat(cell, &recorded, place, &data, &interrupt::control().with_listener(&hear))?
        else {
            return Ok(false);
        };
        let verdict = record::agrees(&recorded, &again, place.device);
        let points = cell.points(place.experiments, place.data, seed, place.device)?;
        let current = recorded.is_current(cell, &points);
        let mut words = match &verdict {
            Ok(words) | Err(words) => words.clone(),
        };
        if !current {
            words.push_str("; this compares the settings of the record, and the cell has other settings now");
        }
        verified.push(json!({
            "table": cell.table, "cell": cell.name, "seed": seed, "agrees": verdict.is_ok(), "current": current, "words": words,
            "recorded_ranks_sha256": recorded.ranks_sha256, "ranks_sha256": again.ranks_sha256,
            "recorded_mrr": recorded.test.map(|test| test.mrr), "mrr": again.test.map(|test| test.mrr),
        }));
        verdict.map(|_| true).map_err(|words| anyhow!("the repeated run differs from the record: {words}"))
    }
}

/// The data set of a cell, read once for as long as cells ask for the same.
fn dataset(
    loaded: &mut Option<(String, Arc<Dataset>)>,
    folder: &Path,
    name: &str,
    console: Console,
) -> ruge::Result<Arc<Dataset>> {
    if let Some((of, data)) = loaded
        && of == name
    {
        return Ok(data.clone());
    }
    let path = if name == "demo" { PathBuf::from("demo") } else { folder.join(name) };
    if name != "demo" && !path.exists() {
        let remedy = match name {
            "yago37-core3" | "yago37" => "this set is not public; if you have it, put it there".to_string(),
            _ => format!("`ruge data get {name} --out {}` fetches it; --data names another folder", path.display()),
        };
        return Err(RugeError::Run { path, reason: format!("no data\n  remedy: {remedy}") });
    }
    // Let go of the old set before the new one is read.
    *loaded = None;
    let read = DataArgs::plain(&path)
        .load(console)
        .map_err(|error| RugeError::Run { path: path.clone(), reason: remedy::added(&format!("{error:#}"), &error) })?;
    read.announce(console);
    let data = Arc::new(read.data);
    *loaded = Some((name.to_string(), data.clone()));
    Ok(data)
}

/// Tells on stderr how a cell gets on.
struct Teller {
    name: String,
    console: Console,
    bar: progress::Bar,
}

impl Teller {
    fn new(name: &str, console: Console) -> Self {
        Self { name: name.to_string(), console, bar: progress::Bar::hidden() }
    }

    fn hear(&mut self, event: &CellEvent) {
        let Self { name, console, bar } = self;
        match event {
            CellEvent::Point(number, count, leaves) if *count > 1 => {
                let leaves: Vec<String> = leaves.iter().map(|(leaf, value)| format!("{leaf} = {value}")).collect();
                console.note(&format!("{name}: point {number} of {count}: {}", leaves.join(", ")));
            }
            CellEvent::Point(..) => console.note(&format!("{name}: started")),
            CellEvent::Grounded(counts) => {
                let share = match counts.per_epoch {
                    Some(most) => format!(", {} of them per epoch", grouped(most)),
                    None => String::new(),
                };
                let [rules, groundings] = [(counts.rules, "rule"), (counts.groundings, "grounding")]
                    .map(|(n, noun)| text::counted(n as usize, noun));
                console.note(&format!("{name}: {rules}, {groundings}{share}"));
            }
            CellEvent::Epoch(tick, epochs) => {
                if bar.is_hidden() && console.shows_bars() {
                    *bar = progress::work(*console, name, *epochs);
                }
                bar.set_position(tick.epoch);
                if let Some(metrics) = &tick.metrics {
                    let text = format!("{name}: epoch {:>5}  validation MRR {:.4}", tick.epoch, metrics.mrr);
                    bar.suspend(|| console.note(&text));
                }
            }
            CellEvent::Failed(reason) => console.note(&format!("{name}: this point failed: {reason}")),
        }
    }
}

/// The processor in words: its name, if the system tells it, and how many threads work.
fn processor() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(':').nth(1));
    let threads = rayon::current_num_threads();
    match model {
        Some(model) => format!("CPU, {threads} threads, {}", model.trim()),
        None => format!("CPU, {threads} threads"),
    }
}

/// Version and commit of this program; the commit may be unknown.
fn version() -> (String, String) {
    let whole = env!("RUGE_VERSION");
    match whole.split_once(" (") {
        Some((version, commit)) => (version.into(), commit.trim_end_matches(')').into()),
        None => (whole.into(), String::new()),
    }
}

fn write_files(args: &ReproduceArgs, sheets: &[Sheet]) -> Result<()> {
    let write = |path: &Path, text: &str| -> Result<()> {
        output::to_file(path, |file| {
            std::io::Write::write_all(file, text.as_bytes())
                .with_context(|| format!("{}: cannot write", path.display()))
        })
    };
    if let Some(path) = &args.markdown {
        let body: String = sheets.iter().map(Sheet::markdown).collect();
        write(path, &format!("# Reproduced\n\n{}\n", body.trim_end()))?;
    }
    if let Some(path) = &args.html {
        write(path, &render_sheets("The paper's tables, reproduced", sheets, env!("RUGE_VERSION")))?;
    }
    Ok(())
}

/// A sheet as lines of text.
fn words(sheet: &Sheet, console: Console) -> String {
    let width = console.width();
    let mut out = format!("{}\n", console.heading(&sheet.title));
    for text in &sheet.before {
        out.push_str(&wrapped(text, width));
    }
    out.push('\n');
    let columns: Vec<Column> =
        sheet.columns.iter().map(|(_, number)| if *number { Column::Right } else { Column::Left }).collect();
    let mut table = text::Table::new(&columns);
    table.head(sheet.columns.iter().map(|(head, _)| head.clone()));
    for row in &sheet.rows {
        table.row(row.cells.iter().cloned());
    }
    if sheet.rows.is_empty() {
        out.push_str("  no cells\n");
    } else {
        out.push_str(&table.render(width.max(100)));
    }
    if !sheet.after.is_empty() {
        out.push('\n');
    }
    for text in &sheet.after {
        out.push_str(&wrapped(text, width));
    }
    out
}
