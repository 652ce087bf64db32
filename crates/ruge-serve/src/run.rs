//! What the run that made a model left beside it: figures and the report. They are read with the model, and optional.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use ruge::ModelFile;
use serde_json::Value;

/// Bytes of a file that is read.
const MOST: u64 = 64 << 20;

/// What was found.
#[derive(Clone, Default)]
pub struct Run {
    /// What was measured.
    pub figures: Option<Arc<Figures>>,
    /// `report.html`.
    pub report: Option<bytes::Bytes>,
}

/// What was measured on facts that training had not seen.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The part of the data.
    pub split: String,
    /// All questions together.
    pub whole: Measured,
    /// By the name of the relation.
    pub by_relation: HashMap<String, Measured>,
}

/// Filtered ranks of right answers.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Measured {
    /// Questions.
    pub queries: usize,
    /// The mean of one over the rank.
    pub mrr: f64,
    /// How many were first.
    pub hits_at_1: f64,
    /// How many were among the first ten.
    pub hits_at_10: f64,
}

impl Run {
    /// Beside MODEL; with the figures of ranking by rules, where the model does.
    pub fn beside(model: &Path, with_rules: bool) -> Self {
        let Some(folder) = ModelFile::find(model).parent().map(Path::to_path_buf) else { return Self::default() };
        // Models of its stages lie in folders of the run's.
        let is_stage = ["unguided", "guided", "evaluated", "deployed"].iter().any(|name| folder.ends_with(name));
        let folders = [Some(folder.as_path()), folder.parent().filter(|_| is_stage)];
        let read = |name: &str| {
            folders.iter().flatten().find_map(|folder| {
                let path = folder.join(name);
                let is_plain = std::fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() <= MOST);
                is_plain.then(|| std::fs::read(path).ok()).flatten()
            })
        };
        let figures = read("evaluation.json").and_then(|text| Figures::of(&text, with_rules)).map(Arc::new);
        Self { figures, report: read("report.html").map(Into::into) }
    }
}

impl Figures {
    fn of(text: &[u8], with_rules: bool) -> Option<Self> {
        let told: Value = serde_json::from_slice(text).ok()?;
        let of = if with_rules { &told["with_rules"]["result"] } else { &told["guided"] };
        let of = if of.is_object() { of } else { &told["unguided"] };
        let each = of["by_relation"].as_object()?;
        let by_relation = each.iter().filter_map(|(name, it)| Some((name.clone(), Measured::of(it)?))).collect();
        Some(Self { split: told["split"].as_str()?.to_string(), whole: Measured::of(&of["filtered"])?, by_relation })
    }
}

impl Measured {
    fn of(told: &Value) -> Option<Self> {
        let number = |value: &Value| value.as_f64().filter(|number| number.is_finite());
        Some(Self {
            queries: usize::try_from(told["queries"].as_u64()?).ok()?,
            mrr: number(&told["mrr"])?,
            hits_at_1: number(&told["hits"]["1"])?,
            hits_at_10: number(&told["hits"]["10"])?,
        })
    }
}
