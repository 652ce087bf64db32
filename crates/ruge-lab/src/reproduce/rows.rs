//! From records to rows: means over seeds, with their spread.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::cells::{Cell, TableName};
use super::record::{Figures, Record};
use ruge::error::Result;
use ruge::spec::DeviceName;

/// A row of a table: a cell and what is recorded of it.
#[derive(Clone, Debug)]
pub struct Row {
    /// The cell.
    pub cell: Cell,
    /// Its records, by seed.
    pub records: Vec<Record>,
    /// Whether the records were made by the cell's specs as they are now.
    pub current: bool,
}

impl Row {
    /// Gathers what is recorded of a cell. Where nothing is, an earlier result beside its spec stands in.
    pub fn gather(cell: &Cell, experiments: &Path, records: &Path) -> Result<Self> {
        let mut found = Vec::new();
        let mut current = true;
        for &seed in &cell.seeds {
            let Some(record) = Record::of(cell, records, seed)? else { continue };
            let points = cell.points(experiments, Path::new("data"), seed, DeviceName::Cpu)?;
            current &= record.is_current(cell, &points);
            found.push(record);
        }
        // Only for the row it was: the spec's own data, and its own rules.
        let own = cell.spec.parent() == Some(Path::new(&cell.data)) && !cell.change.contains_key("rules");
        if found.is_empty() && cell.table == TableName::LinkPrediction && own {
            let path = experiments.join(&cell.spec).with_extension("result.json");
            found.extend(Record::read_earlier(&path)?);
            current = false;
        }
        found.retain(|record| record.complete || !record.points.is_empty());
        Ok(Self { cell: cell.clone(), current: current && !found.is_empty(), records: found })
    }

    /// Records with a test result.
    pub fn tested(&self) -> impl Iterator<Item = (&Record, &Figures)> {
        self.records.iter().filter_map(|record| Some((record, record.test.as_ref()?)))
    }

    /// The mean over seeds of a figure that some records have.
    pub fn mean(&self, of: impl Fn(&Record) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.records.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Mean test MRR.
    pub fn mrr(&self) -> Option<f64> {
        self.mean(|record| Some(record.test.as_ref()?.mrr))
    }

    /// The largest test MRR less the smallest, where there are several seeds.
    pub fn spread(&self) -> Option<f64> {
        let values: Vec<f64> = self.tested().map(|(_, test)| test.mrr).collect();
        let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(low, high), &x| (low.min(x), high.max(x)));
        (values.len() > 1).then_some(high - low)
    }

    /// Mean of the median ranks.
    pub fn med(&self) -> Option<f64> {
        self.mean(|record| Some(record.test.as_ref()?.med))
    }

    /// Mean share of answers within the first `n`.
    pub fn hits(&self, n: u32) -> Option<f64> {
        self.mean(|record| record.test.as_ref()?.hits.get(&n.to_string()).copied())
    }

    /// The device, or all of them where seeds ran on different ones.
    pub fn device(&self) -> String {
        let mut devices: Vec<&str> = self.records.iter().map(|record| record.device.as_str()).collect();
        devices.sort_unstable();
        devices.dedup();
        devices.join("; ")
    }

    /// The row as `--json` prints it.
    pub fn json(&self) -> Value {
        let hits: BTreeMap<String, Option<f64>> =
            [1, 3, 5, 10].iter().map(|n| (n.to_string(), self.hits(*n))).collect();
        let first = self.records.first();
        let mut row = json!({
            "table": self.cell.table,
            "cell": self.cell.name,
            "method": self.cell.method,
            "dataset": self.cell.data,
            "mrr": self.mrr(),
            "mrr_spread": self.spread(),
            "med": self.med(),
            "hits": hits,
            "seeds": self.records.iter().map(|record| record.seed).collect::<Vec<_>>(),
            "device": self.device(),
            "seconds": self.mean(|record| record.seconds.training),
            "seconds_per_epoch": self.mean(|record| record.seconds.epoch),
            "median_epoch_seconds": self.mean(|record| record.seconds.median_epoch),
            "mining_seconds": self.mean(|record| record.seconds.mining),
            "grounding_seconds": self.mean(|record| record.seconds.grounding),
            "path_seconds": self.mean(|record| record.seconds.paths),
            "ranking_seconds": self.mean(|record| record.seconds.ranking),
            "epochs": first.map(|record| record.epochs),
            "best_epoch": first.map(|record| record.best_epoch),
            "valid_mrr": self.mean(|record| Some(record.valid.as_ref()?.mrr)),
            "rules": first.and_then(|record| record.rules),
            "rules_only": first.and_then(|record| record.rules_only.clone()),
            "examples": first.map(|record| &record.examples),
            "points": first.map(|record| &record.points),
            "published": self.cell.published,
            "note": self.cell.note,
            "quick": self.cell.quick,
            "current": self.current,
            "complete": self.records.len() == self.cell.seeds.len() && self.records.iter().all(|record| record.complete),
        });
        if let Some(x) = self.cell.x {
            row["threshold"] = x.into();
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::cells::{PaperTable, RankBy};
    use crate::reproduce::record::{Beside, spec_json};

    const TABLE: &str = r#"
title = "A table"
[[cell]]
name = "model"
method = "ComplEx"
data = "demo"
spec = "base.toml"
seeds = [0, 1, 2]
alone-of = "both"

[[cell]]
name = "both"
method = "ComplEx and rules"
data = "demo"
spec = "base.toml"
seeds = [0, 1, 2]
rank-by = "combined"
"#;

    #[test]
    fn a_record_with_rules_beside_a_model_tells_of_the_model_too() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        std::fs::write(at.join("base.toml"), "[guidance]\nkind = \"none\"\n").unwrap();
        let table = PaperTable::parse(TABLE, TableName::Best, "x.toml").unwrap();
        let [model, both] = [&table.cells[0], &table.cells[1]];
        let figures = |mrr| Figures { mrr, ..Figures::default() };
        for seed in [0, 1] {
            let spec = &both.points(at, Path::new("data"), seed, DeviceName::Cpu).unwrap()[0].spec;
            let beside = Beside {
                rules: 3,
                fitted: 1,
                tried: Vec::new(),
                evidence_tried: Vec::new(),
                hiding: Default::default(),
                alone: figures(0.5),
                seconds: 1.0,
            };
            let record = Record {
                cell: "both".into(),
                data: "demo".into(),
                seed,
                complete: true,
                rank_by: RankBy::Combined,
                test: Some(figures(0.75)),
                head: Some(figures(0.7)),
                beside: Some(beside),
                ranks_sha256: Some("aa".into()),
                spec: Some(spec_json(spec)),
                ..Record::default()
            };
            record.write(&both.record_path(at, seed)).unwrap();
        }
        let own =
            Record { cell: "model".into(), seed: 1, complete: true, test: Some(figures(0.25)), ..Record::default() };
        own.write(&model.record_path(at, 1)).unwrap();
        let row = Row::gather(model, at, at).unwrap();
        let found: Vec<(&str, u64, f64)> = row.tested().map(|(r, test)| (r.cell.as_str(), r.seed, test.mrr)).collect();
        assert_eq!(found, [("both", 0, 0.5), ("model", 1, 0.25)], "its own record comes first");
        let taken = &row.records[0];
        assert_eq!(
            (taken.rank_by, &taken.head, &taken.ranks_sha256, &taken.beside),
            (RankBy::Model, &None, &None, &None)
        );
        assert_eq!(Row::gather(both, at, at).unwrap().mrr(), Some(0.75));

        std::fs::remove_file(model.record_path(at, 1)).unwrap();
        assert!(Row::gather(model, at, at).unwrap().current);
        std::fs::write(at.join("base.toml"), "[guidance]\nkind = \"none\"\n[model]\ndimension = 7\n").unwrap();
        assert!(!Row::gather(model, at, at).unwrap().current, "another model is not this one");
        for wrong in [TABLE.replace("\"both\"\n\n", "\"nobody\"\n\n"), TABLE.replace("\"combined\"", "\"rules-first\"")]
        {
            let error = PaperTable::parse(&wrong, TableName::Best, "x.toml").unwrap_err().to_string();
            assert!(error.contains("alone-of"), "{error}");
        }
    }
}
