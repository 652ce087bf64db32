//! `ruge eval --classify`: facts told from triples that are known to be false.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use ruge::Engine;
use ruge::classify::{Classification, Labeled, Scores, classify};
use ruge::suggest::suggestion;
use ruge_kg::{Dataset, ReadOptions, Triple};
use serde_json::{Value, json};

use crate::console::Console;
use crate::text::{Column, Table, grouped};

/// Files of negatives.
struct Files {
    valid: PathBuf,
    test: PathBuf,
}

impl Files {
    /// A folder with `valid_negatives` and `test_negatives`, or the file of the latter beside the former.
    fn find(path: &Path) -> Result<Self> {
        if path.is_dir() {
            let [valid, test] = ["valid", "test"].map(|split| in_folder(path, split));
            return match (valid, test) {
                (Some(valid), Some(test)) => Ok(Self { valid, test }),
                _ => bail!(
                    "{}: it needs both valid_negatives and test_negatives (.txt, .tsv or .csv, also .gz or .zst)",
                    path.display()
                ),
            };
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let valid = path.with_file_name(name.replacen("test", "valid", 1));
        if !path.exists() {
            bail!("{}: no such file or folder of negatives", path.display());
        }
        if !name.contains("test") || !valid.exists() {
            bail!(
                "{}: thresholds are fitted on validation, so valid_negatives.txt is needed next to \
                 test_negatives.txt\n  remedy: give the folder that holds both",
                path.display()
            );
        }
        Ok(Self { valid, test: path.to_path_buf() })
    }
}

fn in_folder(folder: &Path, split: &str) -> Option<PathBuf> {
    let endings = ["txt", "tsv", "csv"].iter().flat_map(|ending| ["", ".gz", ".zst"].map(|z| format!("{ending}{z}")));
    endings.map(|ending| folder.join(format!("{split}_negatives.{ending}"))).find(|path| path.is_file())
}

/// Runs `ruge eval MODEL --classify NEGATIVES`.
pub fn run(path: &Path, engine: &Engine, data: &Dataset, console: Console) -> Result<()> {
    let files = Files::find(path)?;
    for (name, triples) in [("valid", data.valid()), ("test", data.test())] {
        if triples.is_empty() {
            bail!("the data have no {name} triples; thresholds are fitted on valid and evaluated on test");
        }
    }
    let valid = Labeled::both(data.valid(), &read(&files.valid, data, console)?);
    let test = Labeled::both(data.test(), &read(&files.test, data, console)?);
    let found = classify(engine.ranker(), &valid, &test)?;
    if console.json {
        return console.json_result(&object(&found, data));
    }
    console.result(&report(&found, engine, data, console))
}

/// Reads negatives; every name must be the model's.
fn read(path: &Path, data: &Dataset, console: Console) -> Result<Vec<Triple>> {
    let mut names = data.names().clone();
    let contents = ruge_kg::io::read_file(path, &mut names, &ReadOptions::default())?;
    if contents.triples.is_empty() {
        bail!("{}: the file has no triples", path.display());
    }
    let mut facts = 0;
    for (index, triple) in contents.triples.iter().enumerate() {
        let entity = [triple.head, triple.tail].into_iter().find(|entity| entity.index() >= data.entity_count());
        let known = &data.names();
        let (kind, name, hint) = if let Some(entity) = entity {
            let name = names.entities.name(entity);
            ("entity", name, suggestion(name, known.entities.iter().map(|(_, name)| name)))
        } else if triple.relation.index() >= data.relation_count() {
            let name = names.relations.name(triple.relation);
            ("relation", name, suggestion(name, known.relations.iter().map(|(_, name)| name)))
        } else {
            facts += usize::from(data.filter().contains(*triple));
            continue;
        };
        let line = contents.lines.line(index);
        bail!("{}:{line}: the model has no {kind} called {name:?}{hint}", path.display());
    }
    if facts > 0 {
        console.note(&format!("warning: {}: {facts} of these negatives are facts of the data", path.display()));
    }
    Ok(contents.triples)
}

fn object(found: &Classification, data: &Dataset) -> Value {
    let mut object = json!(found.pooled);
    object["threshold"] = json!(found.threshold);
    object["by_relation"] = found
        .by_relation
        .iter()
        .map(|(relation, scores)| {
            let mut entry = json!(scores);
            entry["threshold"] = json!(found.thresholds.get(relation).unwrap_or(&found.threshold));
            (data.names().relations.name(*relation).to_string(), entry)
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    object
}

fn report(found: &Classification, engine: &Engine, data: &Dataset, console: Console) -> String {
    let mut columns = [Column::Right; 9];
    columns[0] = Column::Name;
    let mut table = Table::new(&columns);
    table.head(["", "facts", "others", "accuracy", "precision", "recall", "F1", "AUC-PR", "Brier"]);
    let mut row = |name: &str, scores: &Scores| {
        let shares = [scores.accuracy, scores.precision, scores.recall, scores.f1, scores.auc_pr, scores.brier]
            .map(|x| format!("{x:.4}"));
        let counts = [grouped(scores.positives), grouped(scores.negatives)];
        table.row([name.to_string()].into_iter().chain(counts).chain(shares));
    };
    row("all", &found.pooled);
    let mut relations: Vec<_> = found.by_relation.iter().collect();
    relations.sort_by_key(|(relation, scores)| (std::cmp::Reverse(scores.positives + scores.negatives), **relation));
    for (relation, scores) in relations {
        row(&data.called_relation(*relation), scores);
    }
    format!(
        "{} of dimension {}: facts against negatives. Thresholds fitted on validation, {} their own\n\n{}",
        engine.spec().model.name.name(),
        engine.spec().model.dimension,
        match found.thresholds.len() {
            1 => "1 relation has".into(),
            count => format!("{count} relations have"),
        },
        table.render(console.width())
    )
}
