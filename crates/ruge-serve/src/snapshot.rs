//! A model as requests see it: all that is prepared once.

use std::path::Path;

use ruge::explain::Explainer;
use ruge::model_file::hex;
use ruge::{Engine, ModelFile, OpenOptions, RugeError, Triple};
use ruge_kg::{Dataset, EntityId, RelationId};
use sha2::{Digest, Sha256};

use crate::names::NameIndex;

/// A model, ready.
pub struct Snapshot {
    /// As it was opened.
    pub engine: Engine,
    /// The same on a graph of all listed facts.
    pub all: Engine,
    /// Why.
    pub explainer: Explainer,
    /// By what people type.
    pub names: NameIndex,
    /// SHA-256 of the model file, its first 16 digits.
    pub hash: String,
}

impl Snapshot {
    /// Opens MODEL and prepares everything that the first questions would wait for.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, RugeError> {
        let file = ModelFile::find(path);
        let engine = Engine::open_with(&file, options)?;
        let mut hasher = Sha256::new();
        let mut reader = std::fs::File::open(&file).map_err(RugeError::io(&file, "read"))?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            match std::io::Read::read(&mut reader, &mut buffer).map_err(RugeError::io(&file, "read"))? {
                0 => break,
                read => hasher.update(&buffer[..read]),
            }
        }
        Self::of(engine, hex(&hasher.finalize())[..16].to_string())
    }

    /// Of a model that is open.
    pub fn of(engine: Engine, hash: String) -> Result<Self, RugeError> {
        let all = engine.on_all_listed()?;
        let explainer = Explainer::new(&engine);
        let names = NameIndex::new(all.data());
        Ok(Self { all, explainer, names, hash, engine })
    }

    /// What `ETag` says.
    pub fn tag(&self) -> String {
        format!("\"{}-1\"", self.hash)
    }

    /// Names and listed facts.
    pub fn data(&self) -> &Dataset {
        self.engine.data()
    }

    /// A triple by names.
    pub fn triple(&self, head: &str, relation: &str, tail: &str) -> Result<Triple, RugeError> {
        let engine = &self.engine;
        Ok(Triple { head: engine.entity(head)?, relation: engine.relation(relation)?, tail: engine.entity(tail)? })
    }

    /// The name of an entity.
    pub fn entity(&self, id: EntityId) -> &str {
        self.data().names().entities.name(id)
    }

    /// The name of a relation.
    pub fn relation(&self, id: RelationId) -> &str {
        self.data().names().relations.name(id)
    }
}
