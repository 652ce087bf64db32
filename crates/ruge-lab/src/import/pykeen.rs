//! Models that PyKEEN's `PipelineResult.save_to_directory` left: `trained_model.pkl` and `training_triples/`.

use std::path::Path;

use ruge::error::{Result, RugeError};
use ruge::spec::{ModelName, Norm};
use ruge_embed::Table;
use ruge_kg::io::{Limits, read_whole};
use ruge_kg::{Dataset, Names, Triple};

use super::torch::{Torch, unusable};
use super::{Foreign, Kind, Rows};

/// The model, where this is such a folder.
pub const MODEL: &str = "trained_model.pkl";
const TRIPLES: &str = "training_triples";

/// Reads model and training triples.
pub fn read(folder: &Path) -> Result<(Foreign, Dataset)> {
    let data = triples(&folder.join(TRIPLES))?;
    let mut file = Torch::open(&folder.join(MODEL))?;
    let root = file.says.root();
    let class = file.says.class(root).unwrap_or("something without a class").to_string();
    let interaction = file.says.module(root, "interaction");
    let asked = |file: &Torch, name: &str| interaction.and_then(|at| file.says.get(at, name));
    let number = |file: &Torch, name: &str| asked(file, name).and_then(|at| file.says.int(at));
    let kind = Kind {
        name: class.clone(),
        interaction: interaction.and_then(|at| file.says.class(at)).unwrap_or_default().to_string(),
        norm: number(&file, "p"),
        power: number(&file, "power_norm") == Some(1),
    };
    let (model, norm) = kind.formula().map_err(|reason| file.unusable(&reason))?;
    let inverse = file.says.get(root, "use_inverse_triples").and_then(|at| file.says.int(at)) == Some(1);
    let entities = table(&mut file, "entity_representations")?;
    let relations = table(&mut file, "relation_representations")?;
    Ok((
        Foreign { model, norm, inverse, rows: Rows::Pykeen, entities, relations, origin: format!("PyKEEN's {class}") },
        data,
    ))
}

/// The one table of rows for all entities, or all relations.
fn table(file: &mut Torch, name: &str) -> Result<Table> {
    let says = &file.says;
    let found = says.module(says.root(), name).and_then(|list| says.module(list, "0"));
    let embedding = found.ok_or_else(|| file.unusable(&format!("it has no {name}")))?;
    if says.module(says.module(says.root(), name).unwrap_or(embedding), "1").is_some() {
        return Err(file.unusable(&format!("it has several {name}, and a model here has one")));
    }
    if says.get(embedding, "normalizer").is_some_and(|at| says.is_some(at)) {
        return Err(
            file.unusable(&format!("its {name} are normalised whenever they are read, which no model here does"))
        );
    }
    let weight = says
        .module(embedding, "_embeddings")
        .and_then(|inner| says.get(says.get(inner, "_parameters")?, "weight"))
        .ok_or_else(|| file.unusable(&format!("its {name} are not a table with a row each")))?;
    file.matrix(weight)
}

/// `numeric_triples.tsv.gz` and the names of its ids.
fn triples(folder: &Path) -> Result<Dataset> {
    let rows = |name: &str| -> Result<Vec<(u64, Vec<String>)>> {
        let path = folder.join(name);
        let text =
            String::from_utf8(read_whole(&path, Limits::default())?).map_err(|_| unusable(&path, "it is not UTF-8"))?;
        // The first line has the names of the columns.
        let line = |(at, line): (usize, &str)| (at as u64 + 1, line.split('\t').map(str::to_string).collect());
        Ok(text.lines().enumerate().skip(1).filter(|(_, line)| !line.is_empty()).map(line).collect())
    };
    let bad =
        |name: &str, line: u64, reason: &str| RugeError::Facts { path: folder.join(name), line, reason: reason.into() };
    let mut names = Names::default();
    let kinds: [(&str, &str); 2] = [("entity_to_id.tsv.gz", "entity"), ("relation_to_id.tsv.gz", "relation")];
    for (file, kind) in kinds {
        let mut placed = rows(file)?;
        placed.sort_by_key(|(_, fields)| fields.first().and_then(|id| id.parse::<u64>().ok()));
        for (expected, (line, fields)) in placed.into_iter().enumerate() {
            let [id, name] = &fields[..] else { return Err(bad(file, line, "not an id and a name")) };
            if id.parse() != Ok(expected) {
                return Err(bad(
                    file,
                    line,
                    &format!("the id {id} instead of {expected}: ids start at 0 and have no gaps"),
                ));
            }
            let new = match kind {
                "entity" => names.entities.intern(name).index() == expected,
                _ => names.relations.intern(name).index() == expected,
            };
            if !new {
                return Err(bad(file, line, &format!("the {kind} {name:?} occurs twice")));
            }
        }
    }
    let file = "numeric_triples.tsv.gz";
    let most = [names.entities.len(), names.relations.len(), names.entities.len()];
    let mut train = Vec::new();
    for (line, fields) in rows(file)? {
        let ids: Option<Vec<u32>> = fields.iter().map(|field| field.parse().ok()).collect();
        match ids.as_deref() {
            Some(&[h, r, t]) if [h, r, t].iter().zip(most).all(|(id, most)| (*id as usize) < most) => {
                train.push(Triple::new(h, r, t));
            }
            _ => return Err(bad(file, line, "not three ids that have names")),
        }
    }
    Ok(Dataset::new(names, train, Vec::new(), Vec::new()))
}

impl Kind {
    /// Which model here has the same formula, or why none has.
    pub(super) fn formula(&self) -> std::result::Result<(ModelName, Norm), String> {
        let plain = |model| Ok((model, Norm::L1));
        match (self.name.as_str(), self.interaction.as_str()) {
            ("ComplEx", "ComplExInteraction") => plain(ModelName::ComplEx),
            ("DistMult", "DistMultInteraction") => plain(ModelName::DistMult),
            ("HolE", "HolEInteraction") => plain(ModelName::HolE),
            ("TransE", "TransEInteraction") => match (self.norm, self.power) {
                (Some(1), _) => plain(ModelName::TransE),
                (Some(2), false) => Ok((ModelName::TransE, Norm::L2)),
                (Some(2), true) => Err("its TransE squares the distance (power_norm=True), which no model here does".into()),
                _ => Err("its TransE has another norm than 1 or 2".into()),
            },
            // As `ruge export` brings it along.
            ("RotatE", "SumOfModuli") => plain(ModelName::RotatE),
            ("RotatE", _) => Err(
                "PyKEEN's RotatE takes the Euclidean norm over all entries, and RotatE here sums the moduli as its authors do: the \
                 same vectors would rank otherwise"
                    .into(),
            ),
            (name, _) => Err(format!("PyKEEN's {name} has no counterpart here; there are ComplEx, DistMult, HolE and TransE")),
        }
    }
}
