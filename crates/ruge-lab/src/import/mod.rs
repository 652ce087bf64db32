//! Models of other programs as models of ours: PyKEEN's and LibKGE's, where the formulas agree.
//!
//! What they trained is a table of entities and one of relations; what is missing is everything else. With the data beside the
//! tables, such a model is asked, explained, calibrated and combined with rules like any other. Files are read as data: the pickles
//! that PyTorch writes are looked through by [`pickle`], which runs nothing of what they say.

pub mod libkge;
pub mod pickle;
pub mod pykeen;
pub mod torch;

use std::io::Write;
use std::path::{Path, PathBuf};

use ruge::error::{Result, RugeError};
use ruge::identity::spec_text;
use ruge::model_file::data_hash;
use ruge::run::{KIND, Mode};
use ruge::spec::{ModelName, Norm, Spec};
use ruge::workplace::{Kind as Place, Workplace};
use ruge::{Engine, ModelFile};
use ruge_embed::{Embeddings, Table};
use ruge_kg::io::write::replace_file_in;
use ruge_kg::{Dataset, Triple};

/// What another program trained.
pub struct Foreign {
    /// The formula.
    pub model: ModelName,
    /// TransE's distance.
    pub norm: Norm,
    /// Whether heads are asked for by inverse relations.
    pub inverse: bool,
    /// How the program lays out its rows.
    pub rows: Rows,
    /// A row for each entity.
    pub entities: Table,
    /// A row for each relation, and where there are inverse ones, for each of them.
    pub relations: Table,
    /// The program and its name for the model.
    pub origin: String,
}

/// How rows are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// A complex number's two parts side by side; a relation, then its inverse.
    Pykeen,
    /// Real parts, then imaginary ones; all relations, then all inverse ones.
    LibKge,
}

/// A model class of PyKEEN, as far as its formula depends on it.
pub struct Kind {
    /// The class of the model.
    pub name: String,
    /// The class of its interaction.
    pub interaction: String,
    /// Its norm.
    pub norm: Option<i64>,
    /// Whether a norm is raised to its power.
    pub power: bool,
}

impl Kind {
    /// The model here that has the same formula; `path` is where the model was, for errors.
    pub fn model(&self, path: &Path) -> Result<(ModelName, Norm)> {
        self.formula().map_err(|reason| torch::unusable(path, &reason))
    }
}

/// An imported model, and what came of its data.
pub struct Imported {
    /// The model.
    pub engine: Engine,
    /// The program and its name for the model.
    pub origin: String,
    /// Triples of each part that name what the model does not know, and were left out.
    pub unknown: [usize; 3],
}

/// Reads a folder of PyKEEN, or a folder or checkpoint of LibKGE. `given` are the data it was trained on, with their held-out parts:
/// PyKEEN keeps only train, LibKGE nothing.
pub fn read(folder: &Path, given: Option<&Dataset>) -> Result<Imported> {
    if folder.join(pykeen::MODEL).is_file() {
        let (foreign, own) = pykeen::read(folder)?;
        let Some(given) = given else { return foreign.imported(own, [0; 3], folder) };
        let (data, unknown) = placed(&own, given, folder)?;
        return foreign.imported(data, unknown, folder);
    }
    let checkpoint = if folder.is_file() { Some(folder.to_path_buf()) } else { libkge::checkpoint(folder) };
    let Some(checkpoint) = checkpoint else {
        let reason = "it holds neither trained_model.pkl of PyKEEN nor checkpoint_best.pt of LibKGE";
        return Err(torch::unusable(folder, reason));
    };
    let given = given.ok_or_else(|| libkge::without_data(&checkpoint))?;
    let foreign = libkge::read(&checkpoint)?;
    foreign.imported(copy(given), [0; 3], &checkpoint)
}

/// The data in the ids of the model. Its held-out triples must not be what it was trained on.
fn placed(own: &Dataset, given: &Dataset, path: &Path) -> Result<(Dataset, [usize; 3])> {
    let (ours, theirs) = (own.names(), given.names());
    let (data, unknown) = given.translated(
        ours.clone(),
        |id| ours.entities.id(theirs.entities.name(id)),
        |id| ours.relations.id(theirs.relations.name(id)),
    );
    if data.train().is_empty() {
        return Err(torch::unusable(
            path,
            "no training triple of DATA has names that the model knows; give the data it was trained on",
        ));
    }
    let held_out = data.valid().iter().chain(data.test());
    let seen = held_out.filter(|triple| own.graph().contains(**triple)).count();
    if seen > 0 {
        let all = data.valid().len() + data.test().len();
        return Err(torch::unusable(
            path,
            &format!(
                "it was trained on {seen} of the {all} held-out triples of DATA, so it knows the answers; give the split that it was \
                 trained with"
            ),
        ));
    }
    Ok((data, unknown))
}

fn copy(data: &Dataset) -> Dataset {
    let [train, valid, test] = [data.train(), data.valid(), data.test()].map(<[Triple]>::to_vec);
    let copy = Dataset::new(data.names().clone(), train, valid, test);
    copy.with_labels(data.labels().clone()).with_prefixes(data.declared_prefixes().to_vec())
}

impl Foreign {
    /// The model beside its data; `path` is where it was, for errors.
    pub fn imported(self, data: Dataset, unknown: [usize; 3], path: &Path) -> Result<Imported> {
        let wrong = |reason: String| torch::unusable(path, &reason);
        let (model, rows, origin) = (self.model, self.rows, self.origin);
        if self.inverse && !matches!(model, ModelName::ComplEx | ModelName::DistMult) {
            let name = model.title();
            return Err(wrong(format!("its {name} has inverse relations, which only ComplEx and DistMult have here")));
        }
        let sides = if self.inverse { 2 } else { 1 };
        let counts = [
            (self.entities.rows(), data.entity_count(), "entities"),
            (self.relations.rows(), sides * data.relation_count(), "relations"),
        ];
        if let Some((found, expected, what)) = counts.into_iter().find(|(found, expected, _)| found != expected) {
            return Err(wrong(format!(
                "it has rows for {found} {what}, and the data have {expected}; give the data it was trained on"
            )));
        }
        let complex = matches!(model, ModelName::ComplEx | ModelName::RotatE);
        let entities = if complex && rows == Rows::Pykeen { halves(&self.entities) } else { self.entities };
        let relations = match (model, rows) {
            (ModelName::ComplEx, Rows::Pykeen) => halves(&self.relations),
            (ModelName::RotatE, Rows::Pykeen) => phases(&self.relations),
            _ => self.relations,
        };
        let relations = if self.inverse { joined(&relations, rows) } else { relations };
        let mut spec = Spec::paper(model, "none")?;
        if matches!(model, ModelName::ComplEx | ModelName::DistMult) {
            // Whatever it was trained by, its scores compare the answers to one question.
            spec.set_softmax();
        }
        spec.model.reciprocal = self.inverse;
        spec.model.norm = self.norm;
        spec.model.dimension = entities.width() / if complex { 2 } else { 1 };
        let embeddings = Embeddings { entities, relations };
        if !embeddings.is_finite() {
            return Err(wrong("its numbers are not all finite: its training has diverged".into()));
        }
        let engine = Engine::new(ModelFile {
            spec,
            embeddings: Some(embeddings),
            data,
            rules: Vec::new(),
            notes: [("imported".to_string(), origin.clone())].into(),
            calibration: None,
            truth: None,
            ranking: None,
            weights: None,
            is_old: false,
        });
        let engine = engine.map_err(|error| match error {
            RugeError::Embed(error) => wrong(format!("its tables do not fit its formula: {error}")),
            other => other,
        })?;
        Ok(Imported { engine, origin, unknown })
    }
}

/// Pairs of parts as two halves.
fn halves(table: &Table) -> Table {
    let mut out = Table::zeros(table.rows(), table.width());
    let half = table.width() / 2;
    for at in 0..table.rows() {
        let (from, to) = (table.row(at), out.row_mut(at));
        for (place, pair) in from.as_chunks::<2>().0.iter().enumerate() {
            (to[place], to[half + place]) = (pair[0], pair[1]);
        }
    }
    out
}

/// Rotations as their angles.
fn phases(table: &Table) -> Table {
    let mut out = Table::zeros(table.rows(), table.width() / 2);
    for at in 0..table.rows() {
        for (to, pair) in out.row_mut(at).iter_mut().zip(table.row(at).as_chunks::<2>().0) {
            *to = pair[1].atan2(pair[0]);
        }
    }
    out
}

/// The row of a relation followed by that of its inverse.
fn joined(table: &Table, rows: Rows) -> Table {
    let (count, width) = (table.rows() / 2, table.width());
    let mut out = Table::zeros(count, 2 * width);
    for at in 0..count {
        let (own, inverse) = match rows {
            Rows::Pykeen => (2 * at, 2 * at + 1),
            Rows::LibKge => (at, count + at),
        };
        let to = out.row_mut(at);
        to[..width].copy_from_slice(table.row(own));
        to[width..].copy_from_slice(table.row(inverse));
    }
    out
}

/// Writes an imported model as a run folder; returns the model's path.
pub fn write(imported: &Imported, out: &Path, mode: Mode) -> Result<PathBuf> {
    let engine = &imported.engine;
    // Truth is fitted once, and kept in the file.
    engine.fitted_truth()?;
    let place = Workplace::aside(out, Place { command: "import", resumes: false, ..KIND }, mode)?;
    let text = spec_text(engine.spec(), &data_hash(engine.data()));
    let path = place.work().join("spec.toml");
    replace_file_in(place.work(), "spec.toml", |mut file| {
        file.write_all(text.as_bytes()).map_err(RugeError::io(&path, "write"))?;
        Ok::<_, RugeError>((file, ()))
    })?;
    ModelFile::write(&place.work().join("model.safetensors"), &engine.contents()?)?;
    place.finish()?;
    Ok(out.join("model.safetensors"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_laid_out_as_ours() {
        let table = Table::from_dense(2, 4, &[1.0, 5.0, 2.0, 6.0, 3.0, 7.0, 4.0, 8.0]);
        assert_eq!(halves(&table).to_dense(), [1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 7.0, 8.0]);
        let turned = phases(&Table::from_dense(1, 4, &[0.0, 1.0, -1.0, 0.0]));
        assert_eq!(turned.to_dense(), [std::f32::consts::FRAC_PI_2, std::f32::consts::PI]);
        let four = Table::from_dense(4, 1, &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(joined(&four, Rows::Pykeen).to_dense(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(joined(&four, Rows::LibKge).to_dense(), [1.0, 3.0, 2.0, 4.0]);
    }
}
