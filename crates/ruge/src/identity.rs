//! What a training run is made from, and `run.json`, its ledger.
//!
//! The bits of a model follow from four things: the spec, the data, the rules as they take part, and the version of the arithmetic.
//! Together they are the identity of a run. It is the first thing a run writes, it stands in every checkpoint, and a run is only
//! continued by one of the same identity.
//!
//! `spec.toml` and `rules.tsv` are for people, who may edit them. The ledger knows their hashes, so that an edit is noticed and not
//! half obeyed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ruge_embed::Schedule;
use ruge_kg::Dataset;
use ruge_rules::{RuleFormat, RuleRecord, RuleWriteOptions, write_rules};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Difference, Result, RugeError};
use crate::model_file::{self, data_hash};
use crate::sealed_json;
use crate::spec::Spec;

/// The ledger's name in a run folder.
pub const FILE: &str = "run.json";
/// The version of ledgers.
const FORMAT: u32 = 4;

/// Everything that decides the bits of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Identity {
    /// The version of the arithmetic.
    pub numerics: u32,
    /// The whole spec.
    pub spec: Spec,
    /// Hash of names and triples.
    pub data: String,
    /// Hash of the rules with their confidences; nothing while they are not known.
    pub rules: Option<String>,
}

impl Identity {
    /// Of a run that begins now; its rules are not known yet.
    pub fn new(spec: &Spec, data: &Dataset) -> Self {
        Self { numerics: ruge_embed::NUMERICS, spec: spec.clone(), data: data_hash(data), rules: None }
    }

    /// The same with its rules, as they take part.
    pub fn with_rules(self, rules: &[RuleRecord], data: &Dataset) -> Result<Self> {
        Ok(Self { rules: Some(rules_hash(rules, data)?), ..self })
    }

    /// Why a run of the identity `old` cannot be continued as this one; nothing if it can. How long it trains, how often it validates, its patience and
    /// its device may differ: a longer run, or one that moves, is still the same one. Rules that are not known yet are not compared.
    pub fn refuses(&self, old: &Self) -> Option<Difference> {
        let Spec { schedule: Schedule { epochs, patience, validate_every, .. }, device, .. } = self.spec;
        let schedule = Schedule { epochs, patience, validate_every, ..old.spec.schedule };
        if old.numerics != self.numerics {
            let by =
                format!("a program with version {} of the arithmetic (this one has {})", old.numerics, self.numerics);
            return Some(Difference::Arithmetic { by });
        }
        if old.data != self.data {
            return Some(Difference::Data);
        }
        if (Spec { schedule, device, ..old.spec.clone() }) != self.spec {
            return Some(Difference::Settings(None));
        }
        match (&old.rules, &self.rules) {
            (Some(old), Some(new)) if old != new => Some(Difference::Rules(None)),
            _ => None,
        }
    }

    /// As a checkpoint carries it.
    pub fn notes(&self) -> BTreeMap<String, String> {
        let mut notes = BTreeMap::from([
            ("numerics".to_string(), self.numerics.to_string()),
            ("spec".to_string(), self.spec.to_toml()),
            ("data".to_string(), self.data.clone()),
        ]);
        notes.extend(self.rules.clone().map(|rules| ("rules".to_string(), rules)));
        notes
    }

    /// From a checkpoint's notes. Those of earlier programs say nothing of rules and arithmetic, which was version 1.
    pub fn of_notes(notes: &BTreeMap<String, String>) -> Result<Self> {
        let note = |key: &str| notes.get(key).map_or("", String::as_str);
        Ok(Self {
            numerics: notes.get("numerics").map_or(Some(1), |text| text.parse().ok()).unwrap_or(0),
            spec: Spec::default().overlaid(note("spec"), "the checkpoint's spec")?,
            data: note("data").to_string(),
            rules: notes.get("rules").cloned(),
        })
    }
}

/// Hash of rules with their confidences, in their order. Relations and entities count by number, which the data's hash ties to names.
fn rules_hash(rules: &[RuleRecord], data: &Dataset) -> Result<String> {
    let bytes = match model_file::encode_rules(rules) {
        Some(bytes) => bytes,
        None => rules_text(rules, data)?,
    };
    Ok(sha256(&bytes))
}

/// Rules as `rules.tsv` holds them.
pub(crate) fn rules_text(rules: &[RuleRecord], data: &Dataset) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    write_rules(&mut text, RuleFormat::Native, rules, data.names(), &RuleWriteOptions::default())?;
    Ok(text)
}

fn sha256(bytes: &[u8]) -> String {
    model_file::hex(&Sha256::digest(bytes))
}

/// `run.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ledger {
    format: u32,
    /// The program that began it, for people.
    program: String,
    numerics: u32,
    data: String,
    rules: Option<String>,
    spec: String,
    /// Hashes that `spec.toml` may have: of the spec above and, while that is being replaced, of the one before.
    spec_files: Vec<String>,
    /// The hash that `rules.tsv` may have, where this run writes one.
    rules_file: Option<String>,
}

/// `run.json`, `spec.toml` and `rules.tsv` of a run folder.
pub struct Papers<'f> {
    folder: &'f Path,
    write: &'f dyn Fn(&str, &[u8]) -> Result<()>,
}

impl<'f> Papers<'f> {
    /// Of a folder; `write` gives a file in it new content, whole or not at all.
    pub fn new(folder: &'f Path, write: &'f dyn Fn(&str, &[u8]) -> Result<()>) -> Self {
        Self { folder, write }
    }

    /// Writes the identity down: the ledger first, then the files it vouches for. `rules` are those of `rules.tsv`, where this run writes it.
    pub fn put(&self, identity: &Identity, rules: Option<&[u8]>) -> Result<()> {
        let spec = spec_text(&identity.spec, &identity.data);
        let mut spec_files = vec![sha256(spec.as_bytes())];
        // Until the new one is there, the old one is no edit.
        spec_files.extend(fs::read(self.folder.join("spec.toml")).ok().map(|old| sha256(&old)));
        spec_files.dedup();
        let ledger = Ledger {
            format: FORMAT,
            program: format!("ruge {}", env!("CARGO_PKG_VERSION")),
            numerics: identity.numerics,
            data: identity.data.clone(),
            rules: identity.rules.clone(),
            spec: identity.spec.to_toml(),
            spec_files,
            rules_file: rules.map(sha256),
        };
        sealed_json::write(&self.folder.join(FILE), &ledger)?;
        (self.write)("spec.toml", spec.as_bytes())?;
        rules.map_or(Ok(()), |rules| (self.write)("rules.tsv", rules))
    }
}

impl Papers<'_> {
    /// Gives `spec.toml` other content than the run was begun with: what was decided in the end. The identity stays.
    pub fn replace_spec(&self, spec: &Spec, data: &Dataset) -> Result<()> {
        let path = self.folder.join(FILE);
        let mut ledger = match sealed_json::read::<Ledger>(&path)? {
            Some(ledger) => ledger,
            None => return self.put(&Identity::new(spec, data), None),
        };
        let text = spec_text(spec, &ledger.data);
        ledger.spec_files.push(sha256(text.as_bytes()));
        ledger.spec_files.dedup();
        sealed_json::write(&path, &ledger)?;
        (self.write)("spec.toml", text.as_bytes())
    }
}

/// The content of `spec.toml`.
pub fn spec_text(spec: &Spec, data: &str) -> String {
    format!("# ruge {}, data sha256 {data}\n{}", env!("CARGO_PKG_VERSION"), spec.to_toml())
}

/// The identity of the run in a folder; nothing where no program since the ledger began one there. An error if `spec.toml` or `rules.tsv`
/// were changed since.
pub fn read(folder: &Path) -> Result<Option<Identity>> {
    let path = folder.join(FILE);
    let ledger = sealed_json::read::<Ledger>(&path).map_err(|error| match error {
        RugeError::Run { path, reason } => RugeError::Damaged { path, reason },
        other => other,
    })?;
    let Some(ledger) = ledger else { return Ok(None) };
    let spec = Spec::default().overlaid(&ledger.spec, &path.display().to_string())?;
    let edited = |name: &str, hashes: &[String], remedy: &str| -> Result<()> {
        let file = folder.join(name);
        match fs::read(&file) {
            Ok(bytes) if !hashes.contains(&sha256(&bytes)) => {
                Err(RugeError::Run { path: file, reason: format!("it was changed since the run began; {remedy}") })
            }
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(RugeError::io(&file, "read")(error)),
            _ => Ok(()),
        }
    };
    edited(
        "spec.toml",
        &ledger.spec_files,
        "restore it, or remove it to continue with the settings the run was started with",
    )?;
    if let Some(hash) = &ledger.rules_file {
        let remedy = "restore it, or remove it to continue with the rules the run was started with";
        edited("rules.tsv", std::slice::from_ref(hash), remedy)?;
    }
    Ok(Some(Identity { numerics: ledger.numerics, spec, data: ledger.data, rules: ledger.rules }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruge_kg::Names;

    fn data() -> Dataset {
        let mut names = Names::default();
        let train = vec![names.triple("a", "r", "b")];
        Dataset::new(names, train, Vec::new(), Vec::new())
    }

    fn keep(folder: &Path, identity: &Identity, rules: Option<&[u8]>) {
        let write =
            |name: &str, text: &[u8]| fs::write(folder.join(name), text).map_err(RugeError::io(folder, "write"));
        Papers::new(folder, &write).put(identity, rules).unwrap();
    }

    #[test]
    fn an_identity_comes_back_and_edits_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert!(read(path).unwrap().is_none());
        let mut identity = Identity { rules: Some("x".into()), ..Identity::new(&Spec::default(), &data()) };
        keep(path, &identity, Some(b"rules"));
        assert_eq!(read(path).unwrap(), Some(identity.clone()));
        assert_eq!(Identity::of_notes(&identity.notes()).unwrap(), identity);
        let old = fs::read(path.join("spec.toml")).unwrap();
        identity.spec.schedule.epochs += 1;
        keep(path, &identity, Some(b"rules"));
        fs::write(path.join("spec.toml"), old).unwrap();
        assert_eq!(read(path).unwrap(), Some(identity.clone()), "cut off between the two files");
        for name in ["spec.toml", "rules.tsv"] {
            let good = fs::read(path.join(name)).unwrap();
            fs::write(path.join(name), "edited").unwrap();
            let told = read(path).unwrap_err().to_string();
            assert!(told.contains(name) && told.contains("was changed"), "{told}");
            fs::remove_file(path.join(name)).unwrap();
            assert_eq!(read(path).unwrap(), Some(identity.clone()), "without {name}");
            fs::write(path.join(name), good).unwrap();
        }
    }

    #[test]
    fn every_part_of_it_counts() {
        let now = Identity { rules: Some("x".into()), ..Identity::new(&Spec::default(), &data()) };
        assert_eq!(now.refuses(&now), None);
        let mut longer = now.clone();
        longer.spec.schedule.epochs += 1;
        assert_eq!(now.refuses(&longer), None, "a longer run is the same one");
        let mut seed = now.clone();
        seed.spec.seed += 1;
        for (old, word) in [
            (Identity { numerics: 0, ..now.clone() }, "arithmetic"),
            (Identity { data: "other".into(), ..now.clone() }, "other data"),
            (Identity { rules: Some("other".into()), ..now.clone() }, "other rules"),
            (seed, "other settings"),
        ] {
            assert!(now.refuses(&old).unwrap().to_string().contains(word), "{word}");
        }
        assert_eq!(now.refuses(&Identity { rules: None, ..now.clone() }), None, "not known yet");
    }
}
