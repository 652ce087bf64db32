//! The recorded result of a cell and a seed: `experiments/records/<table>/<cell>-seed<N>.json`.
//!
//! It says what was run (the resolved spec), where (commit, device, time), how it went (curve, seconds) and what came out
//! (metrics, counts, a digest of all ranks), so that a stranger can run it again and compare.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use ruge_embed::Metrics;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cells::{Cell, Point, RankBy, portable};
use ruge::error::{Result, RugeError};
use ruge::spec::{DeviceName, Spec};

/// What one evaluation came to.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Figures {
    pub mrr: f64,
    #[serde(default)]
    pub med: f64,
    #[serde(default)]
    pub hits: BTreeMap<String, f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_rank: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries: Option<u64>,
}

impl Figures {
    /// The part of the metrics that tables show.
    pub fn of(metrics: &Metrics) -> Self {
        Self {
            mrr: metrics.mrr,
            med: metrics.median,
            hits: metrics.hits.iter().map(|(n, share)| (n.to_string(), *share)).collect(),
            mean_rank: Some(metrics.mean_rank),
            queries: Some(metrics.queries as u64),
        }
    }
}

/// Rules and what they concluded.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RuleCounts {
    /// Rules that guided.
    pub rules: u64,
    /// 𝒢
    pub groundings: u64,
    /// 𝒰: distinct conclusions.
    pub unlabeled: u64,
    /// Conclusions that are validation triples.
    pub in_valid: u64,
    /// Conclusions that are test triples.
    pub in_test: u64,
    /// Groundings that an epoch takes, where that is not all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_epoch: Option<u64>,
}

impl RuleCounts {
    /// The share of conclusions that are held-out facts.
    pub fn held_out(&self) -> f64 {
        if self.unlabeled == 0 { 0.0 } else { (self.in_valid + self.in_test) as f64 / self.unlabeled as f64 }
    }
}

/// Wall time, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Seconds {
    /// Mining the rules, where they were mined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mining: Option<f64>,
    /// Propositionalisation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grounding: Option<f64>,
    /// Extracting relation paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<f64>,
    /// An epoch, as the mean of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<f64>,
    /// An epoch, as the median of all: free of the first one's preparations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_epoch: Option<f64>,
    /// Ranking the test triples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranking: Option<f64>,
    /// All epochs together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<f64>,
}

/// A point of a grid that was tried.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Tried {
    /// The leaves that make it this point.
    pub leaves: BTreeMap<String, Value>,
    /// Its best validation MRR.
    pub valid_mrr: Option<f64>,
    /// When that was.
    pub best_epoch: u64,
    /// Epochs run.
    pub epochs: u64,
    /// Seconds of an epoch.
    pub seconds_per_epoch: f64,
    /// Why it has no result, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A rule of the paper, looked for among ours.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Example {
    /// The rule.
    pub rule: String,
    /// Its confidence here; missing where the rule is not among ours.
    pub confidence: Option<f64>,
}

/// Rules that stand beside a trained model at ranking time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Beside {
    /// How many.
    pub rules: usize,
    /// Numbers that validation decided.
    pub fitted: usize,
    /// What was tried, each half of validation judged by what was fitted on the other.
    pub tried: Vec<ruge_rules::rank::Tried>,
    /// Sets of evidence that were tried, judged in the same way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence_tried: Vec<ruge_rules::rank::Tried>,
    /// What was hidden while rules were weighed.
    #[serde(default)]
    pub hiding: ruge_rules::rank::Hiding,
    /// The model without them, on the test triples.
    pub alone: Figures,
    /// Seconds of mining and fitting.
    pub seconds: f64,
}

/// A cell's result for one seed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// The cell.
    pub cell: String,
    /// The system.
    pub method: String,
    /// The data set.
    pub data: String,
    /// Digest of the data, so that a stranger knows whether theirs are the same.
    pub data_sha256: String,
    /// The seed.
    pub seed: u64,
    /// Whether every point was tried.
    pub complete: bool,
    /// Who ranked.
    pub rank_by: RankBy,
    /// The program.
    pub version: String,
    /// The commit it was built from.
    pub commit: String,
    /// Where it computed, in words.
    pub device: String,
    /// When it ended, UTC.
    pub time: String,
    /// Epochs run.
    pub epochs: u64,
    /// The epoch that validation chose.
    pub best_epoch: u64,
    /// Wall times.
    pub seconds: Seconds,
    /// Of the chosen epoch, on validation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid: Option<Figures>,
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<Figures>,
    /// Hidden heads alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Figures>,
    /// Hidden tails alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<Figures>,
    /// What the rules are and conclude.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<RuleCounts>,
    /// Where rules stand beside the model: what was tried on validation, and how many numbers were fitted there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// The rules without any embedding, on the same queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules_only: Option<Figures>,
    /// Rules of the paper, looked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Example>,
    /// SHA-256 over twice each mean rank, as 32-bit little-endian numbers, both sides of each triple in turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks_sha256: Option<String>,
    /// Validation MRR by epoch.
    pub curve: Vec<(u64, f64)>,
    /// Points of the grid that were tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Tried>,
    /// The resolved spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<Value>,
    /// From before records were kept this way: made with the spec file as it was then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub earlier: bool,
}

impl Record {
    /// What is recorded of a cell: by itself, or of its model by a cell that has rules beside it.
    pub fn of(cell: &Cell, records: &Path, seed: u64) -> Result<Option<Self>> {
        let own = Self::read(&cell.record_path(records, seed))?;
        let (None, Some(name)) = (&own, &cell.alone_of) else { return Ok(own) };
        let combined = Cell { name: name.clone(), ..cell.clone() };
        Ok(Self::read(&combined.record_path(records, seed))?.and_then(Self::alone))
    }

    /// The same of the model without the rules that stood beside it.
    fn alone(self) -> Option<Self> {
        let alone = self.beside?.alone;
        let kept = Seconds { ranking: None, ..self.seconds };
        let mut spec = self.spec;
        // How rules beside it are weighed is nothing to the model.
        if let Some(rules) = spec.as_mut().and_then(|spec| spec.get_mut("rules")).and_then(Value::as_object_mut) {
            ["thorough", "ranking", "evidence"].iter().for_each(|setting| drop(rules.remove(*setting)));
        }
        Some(Self {
            spec,
            rank_by: RankBy::Model,
            test: Some(alone),
            seconds: kept,
            beside: None,
            // Of the ranks by both, or of their rules.
            head: None,
            tail: None,
            rules_only: None,
            ranks_sha256: None,
            ..self
        })
    }

    /// Reads one; `None` where there is none.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(RugeError::io(path, "read")(error)),
        };
        let record = serde_json::from_str(&text).map_err(|error| RugeError::Run {
            path: path.to_path_buf(),
            reason: format!("this is not a record of ruge ({error}); remove it to run the cell again"),
        })?;
        Ok(Some(record))
    }

    /// Reads a `<system>.result.json`, in which the first results were kept.
    pub fn read_earlier(path: &Path) -> Result<Option<Self>> {
        let Ok(text) = std::fs::read_to_string(path) else { return Ok(None) };
        let earlier: Earlier = serde_json::from_str(&text).map_err(|error| RugeError::Run {
            path: path.to_path_buf(),
            reason: format!("this is not a result of ruge: {error}"),
        })?;
        let rules = (earlier.rules > 0).then_some(RuleCounts {
            rules: earlier.rules,
            groundings: earlier.groundings,
            ..RuleCounts::default()
        });
        Ok(Some(Self {
            seed: earlier.seed,
            complete: true,
            commit: earlier.commit,
            device: earlier.device,
            epochs: earlier.epochs,
            best_epoch: earlier.best_epoch,
            seconds: Seconds {
                epoch: Some(earlier.seconds_per_epoch),
                training: Some(earlier.seconds_per_epoch * earlier.epochs as f64),
                ..Seconds::default()
            },
            valid: Some(Figures { mrr: earlier.valid_mrr, ..Figures::default() }),
            test: Some(earlier.test),
            rules,
            ranks_sha256: Some(earlier.ranks_sha256),
            curve: earlier.valid_curve,
            earlier: true,
            ..Self::default()
        }))
    }

    /// Writes it: complete or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(RugeError::io(folder, "create"))?;
        }
        let text = pretty(&serde_json::to_string(self).expect("a record is plain data"));
        ruge_kg::io::write::replace_file(path, |mut file| {
            file.write_all(text.as_bytes()).map_err(RugeError::io(path, "write"))?;
            Ok((file, ()))
        })
    }

    /// The spec it was made with.
    pub fn spec(&self) -> Result<Option<Spec>> {
        self.spec.as_ref().map(|spec| Spec::from_json(spec, "the record's spec")).transpose()
    }

    /// Whether it was made by the specs that the cell has now, on whatever device. A leaf that specs gained since then, at its
    /// default, makes no difference.
    pub fn is_current(&self, cell: &Cell, points: &[Point]) -> bool {
        let Ok(Some(own)) = self.spec() else { return false };
        let own = portable(&own, DeviceName::Cpu);
        let examples = self.examples.iter().map(|example| &example.rule);
        let tried = |leaves: &BTreeMap<String, Value>| points.iter().any(|point| point.leaves == *leaves);
        self.data == cell.data
            && self.rank_by == cell.rank_by
            && examples.eq(&cell.examples)
            && points.iter().any(|point| portable(&point.spec, DeviceName::Cpu) == own)
            && self.points.iter().all(|point| tried(&point.leaves))
            && (!self.complete || points.len() == 1 || points.iter().all(|point| self.tried(&point.leaves)))
    }

    /// Whether a point was tried already.
    pub fn tried(&self, leaves: &BTreeMap<String, Value>) -> bool {
        self.points.iter().any(|point| point.leaves == *leaves)
    }
}

/// A spec as JSON, numbers by their shortest digits.
pub fn spec_json(spec: &Spec) -> Value {
    let text = serde_json::to_string(spec).expect("a spec is plain data");
    serde_json::from_str(&text).expect("what we print we can read")
}

/// As the first results were written.
#[derive(Deserialize)]
struct Earlier {
    seed: u64,
    commit: String,
    device: String,
    epochs: u64,
    best_epoch: u64,
    seconds_per_epoch: f64,
    rules: u64,
    groundings: u64,
    valid_mrr: f64,
    valid_curve: Vec<(u64, f64)>,
    test: Figures,
    ranks_sha256: String,
}

/// JSON a person can read and `git diff` can show: objects broken into lines, lists kept on one.
fn pretty(json: &str) -> String {
    let (mut out, mut depth, mut lists) = (String::with_capacity(json.len() * 2), 0usize, 0usize);
    let (mut quoted, mut escaped) = (false, false);
    let newline = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth));
    };
    for c in json.chars() {
        if quoted {
            out.push(c);
            (quoted, escaped) = (c != '"' || escaped, c == '\\' && !escaped);
            continue;
        }
        match c {
            '"' => {
                quoted = true;
                out.push(c);
            }
            '[' => {
                lists += 1;
                out.push(c);
            }
            ']' => {
                lists -= 1;
                out.push(c);
            }
            '{' if lists == 0 => {
                depth += 1;
                out.push(c);
                newline(&mut out, depth);
            }
            '}' if lists == 0 => {
                depth -= 1;
                newline(&mut out, depth);
                out.push(c);
            }
            ',' if lists == 0 => {
                out.push(c);
                newline(&mut out, depth);
            }
            ',' | ':' => {
                out.push(c);
                out.push(' ');
            }
            _ => out.push(c),
        }
    }
    out + "\n"
}

/// Seconds since 1970 as `2018-02-07T09:00:00Z`.
pub fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of year 0, in eras of 400 years: a year then ends with its leap day.
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// How far two results of one setting may differ on different devices: what the paper's own figures are rounded to, and
/// more than seeds differ.
pub const TOLERANCE: f64 = 0.003;

/// Whether a repeated result agrees with the recorded one; what differs, if not.
///
/// On one kind of device every rank must be the same. Cards of different names, and card and processor, round differently.
pub fn agrees(recorded: &Record, again: &Record, device: DeviceName) -> std::result::Result<String, String> {
    let recorded_device = recorded.spec.as_ref().and_then(|spec| spec["device"].as_str()).unwrap_or("cpu");
    let name = if device == DeviceName::Cuda { "cuda" } else { "cpu" };
    let same_device = recorded_device == name && (name == "cpu" || recorded.device == again.device);
    let digests = (&recorded.ranks_sha256, &again.ranks_sha256);
    let (Some(old), Some(new)) = (&recorded.test, &again.test) else {
        return match recorded.rules == again.rules && recorded.rules_only == again.rules_only {
            true => Ok("the same counts".into()),
            false => Err(format!("recorded {:?}, now {:?}", recorded.rules, again.rules)),
        };
    };
    let words = format!("test MRR {:.4} recorded, {:.4} now", old.mrr, new.mrr);
    match digests {
        (Some(a), Some(b)) if a == b => Ok(format!("the same ranks, {words}")),
        // Of a model that was ranked alone beside its rules only the figures are kept.
        (None, _) if old == new => Ok(format!("the same figures, {words}")),
        _ if same_device => Err(format!("{words}, and other ranks on the same kind of device")),
        _ if (old.mrr - new.mrr).abs() <= TOLERANCE => Ok(format!("{words}, within {TOLERANCE} on another device")),
        _ => Err(format!("{words}, which is more than {TOLERANCE} apart")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::cells::{PaperTable, TableName};

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_517_994_000), "2018-02-07T09:00:00Z");
    }

    fn record() -> Record {
        let test = Figures { mrr: 0.5, med: 1.0, ..Figures::default() };
        Record {
            cell: "a \"b\", [c]".into(),
            test: Some(test),
            ranks_sha256: Some("aa".into()),
            curve: vec![(5, 0.25), (10, 0.5)],
            spec: Some(spec_json(&Spec::default())),
            ..Record::default()
        }
    }

    #[test]
    fn records_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x").join("a-seed0.json");
        assert_eq!(Record::read(&path).unwrap(), None);
        record().write(&path).unwrap();
        assert_eq!(Record::read(&path).unwrap(), Some(record()));
        assert_eq!(record().spec().unwrap(), Some(Spec::default()));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\n \"curve\":"), "{text}");
        std::fs::write(&path, "{").unwrap();
        assert!(Record::read(&path).unwrap_err().to_string().contains("remove it"));
    }

    #[test]
    fn a_record_is_current_as_long_as_its_cell_says_the_same() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("base.toml"), "[model]\ndimension = 8\n").unwrap();
        let text = "title = \"t\"\n[[cell]]\nname = \"a\"\nmethod = \"m\"\ndata = \"demo\"\nspec = \"base.toml\"\n";
        let cell = |more: &str| {
            let table = PaperTable::parse(&format!("{text}{more}"), TableName::Best, "x").unwrap();
            table.cells.into_iter().next().unwrap()
        };
        let points = |cell: &Cell, device| cell.points(folder.path(), Path::new("data"), 0, device).unwrap();
        let plain = cell("");
        let of_plain = points(&plain, DeviceName::Cpu);
        let mut spec = spec_json(&of_plain[0].spec);
        let made = |spec: &Value| Record { data: "demo".into(), spec: Some(spec.clone()), complete: true, ..record() };
        assert!(made(&spec).is_current(&plain, &points(&plain, DeviceName::Cuda)), "the device is no part of it");
        let wider = cell("change = { model.dimension = 9 }");
        assert!(!made(&spec).is_current(&wider, &points(&wider, DeviceName::Cpu)));
        let first = cell("rank-by = \"rules-first\"");
        assert!(!made(&spec).is_current(&first, &points(&first, DeviceName::Cpu)));
        let grid = cell("change = { model.dimension = [8, 9] }");
        let of_grid = points(&grid, DeviceName::Cpu);
        assert!(!made(&spec).is_current(&grid, &of_grid), "complete, but not every point was tried");
        assert!(Record { complete: false, ..made(&spec) }.is_current(&grid, &of_grid));
        // As if written before specs had this leaf.
        spec.as_object_mut().unwrap().remove("init");
        assert!(made(&spec).is_current(&plain, &of_plain));
    }

    #[test]
    fn a_model_is_the_same_however_the_rules_beside_it_were_weighed() {
        let alone = Figures { mrr: 0.4, ..Figures::default() };
        let beside = Beside {
            rules: 1,
            fitted: 1,
            tried: Vec::new(),
            evidence_tried: Vec::new(),
            hiding: Default::default(),
            alone,
            seconds: 1.0,
        };
        let with = |text: &str| {
            let spec = Spec::from_toml(text, "x").unwrap();
            let record = Record { spec: Some(spec_json(&spec)), beside: Some(beside.clone()), ..record() };
            let alone = record.alone().unwrap();
            assert_eq!(alone.test.as_ref().unwrap().mrr, 0.4);
            alone.spec().unwrap().unwrap()
        };
        assert_eq!(with("[rules]\nthorough = true\n"), Spec::default());
        assert_ne!(with("[rules]\nthorough = true\n[model]\ndimension = 9\n"), Spec::default());
    }

    #[test]
    fn another_device_may_round_and_the_same_may_not() {
        let other = |mrr: f64| Record {
            ranks_sha256: Some("bb".into()),
            test: Some(Figures { mrr, ..Figures::default() }),
            ..record()
        };
        assert!(agrees(&record(), &record(), DeviceName::Cpu).is_ok());
        assert!(agrees(&record(), &other(0.5), DeviceName::Cpu).is_err());
        assert!(agrees(&record(), &other(0.502), DeviceName::Cuda).is_ok());
        assert!(agrees(&record(), &other(0.51), DeviceName::Cuda).unwrap_err().contains("0.5100 now"));
    }
}
