//! `model.safetensors`: one file that holds all that predicting, explaining and evaluating need.
//!
//! Tensors: `entities` and `relations` (F32, a row each), `entity_names` and `relation_names` (U8, UTF-8 end to end) with
//! their ends (`…_ends`, U64), and `train`, `valid`, `test` (U32, head, relation, tail). The metadata entry `ruge` is a JSON object:
//! format version, spec (TOML), rules (our TSV; where there are very many, the tensor `rules` instead), hash of the data, the
//! calibration if there is one. Where names have labels, descriptions or types, the tensor `labels` holds them as JSON, and
//! `prefixes` in the metadata the prefixes that the data declared. The file is sealed ([`tensor_file`]): every byte is under a checksum, and what is written is read back.
//! Any reader of the format can open it; Python's gives the tensors by these names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ruge_embed::Embeddings;
use ruge_embed::tensor_file::{self, Content, Fault, Stored, TensorFile};
use ruge_kg::{Dataset, Id, Labels, Names, Triple, Vocabulary};
use ruge_rules::io::packed;
use ruge_rules::rank::{Ranking, Weights};
use ruge_rules::{RuleFormat, RuleReadOptions, RuleRecord, RuleWriteOptions, parse_rules, write_rules};
use safetensors::tensor::Dtype;
use sha2::{Digest, Sha256};

use crate::calibrate::Calibration;
use crate::error::{Result, RugeError};
use crate::spec::Spec;
use crate::truth::Truth;
use crate::workplace;

pub(crate) use packed::encode as encode_rules;

/// The version this program writes, and the newest it reads. Versions 1 to 3 had no seal: a checksum covered their tensors, and not
/// what stands next to them.
pub const VERSION: u32 = tensor_file::FORMAT;

/// A trained model with everything it needs.
#[derive(Debug)]
pub struct ModelFile {
    /// How it was made.
    pub spec: Spec,
    /// Its parameters; none where rules are all there is.
    pub embeddings: Option<Embeddings>,
    /// Names, known triples.
    pub data: Dataset,
    /// The rules that guided it; none if none did.
    pub rules: Vec<RuleRecord>,
    /// What training says about itself: best epoch, validation MRR, as words.
    pub notes: std::collections::BTreeMap<String, String>,
    /// Scores to truth values; files of older versions have none.
    pub calibration: Option<Calibration>,
    /// The chance that unlisted facts are true; files of older versions have none.
    pub truth: Option<Truth>,
    /// How the rules take part in ranking; most models rank without them.
    pub ranking: Option<Ranking>,
    /// Learned weights of the rules, where the ranking uses them.
    pub weights: Option<Weights>,
    /// Whether an earlier program wrote it: then only its tensors are under a checksum.
    pub is_old: bool,
}

/// The metadata entry that holds everything of ours, as JSON.
const OURS: &str = "ruge";
/// The tensor of learned weights.
const RULE_WEIGHTS: &str = "rule_weights";
/// The tensor of labels, as JSON; most models have none.
const LABELS: &str = "labels";

/// Its name in a run folder.
const FILE: &str = "model.safetensors";
/// The model of a run that figures describe.
const EVALUATED: &str = "evaluated/model.safetensors";

impl ModelFile {
    /// `MODEL` on the command line: a run folder or the file itself. A run that only evaluates has no other model than the evaluated
    /// one.
    pub fn find(path: &Path) -> PathBuf {
        if !path.is_dir() {
            return path.to_path_buf();
        }
        let own = workplace::place_of(path, FILE);
        match !own.exists() && Self::evaluated(path) != own {
            true => Self::evaluated(path),
            false => own,
        }
    }

    /// The model that figures describe: where a run has two, the one that has not seen the held-out facts.
    pub fn evaluated(path: &Path) -> PathBuf {
        let within = workplace::place_of(path, EVALUATED);
        if path.is_dir() && within.exists() {
            within
        } else if path.is_dir() {
            workplace::place_of(path, FILE)
        } else {
            path.to_path_buf()
        }
    }

    /// Writes the file: complete or not at all.
    pub fn write(path: &Path, contents: &Contents<'_>) -> Result<()> {
        let names = contents.data.names();
        let mut tensors = tensors(contents);
        let mut text = Vec::new();
        let many = contents.rules.len() > packed::MOST_AS_TEXT;
        match if many { packed::encode(contents.rules) } else { None } {
            Some(bytes) => {
                tensors.push(("rules".into(), Content::Bytes(Dtype::U32, vec![bytes.len() / 4], bytes.into())))
            }
            None => {
                write_rules(&mut text, RuleFormat::Native, contents.rules, names, &RuleWriteOptions::default())?;
            }
        }
        if let Some(weights) = contents.weights {
            let bytes: Vec<u8> = weights.as_flattened().iter().flat_map(|weight| weight.to_le_bytes()).collect();
            tensors.push((RULE_WEIGHTS.into(), Content::Bytes(Dtype::F32, vec![weights.len(), 2], bytes.into())));
        }
        let spec = contents.spec.to_toml();
        // A spec that does not read back would make a file that nobody can open.
        if read_spec(&spec).ok().as_ref() != Some(contents.spec) {
            return Err(RugeError::spec("the spec has numbers that its file format cannot hold"));
        }
        let mut ours = serde_json::json!({
            "version": VERSION,
            "spec": spec,
            "rules": String::from_utf8_lossy(&text),
            "data": data_hash(contents.data),
            "notes": contents.notes,
            "calibration": contents.calibration,
        });
        if let Some(truth) = contents.truth {
            ours["truth"] = serde_json::json!(truth);
        }
        if !contents.data.labels().is_empty() {
            let bytes = serde_json::to_vec(contents.data.labels())
                .map_err(|error| RugeError::io(path, "write")(error.into()))?;
            tensors.push((LABELS.into(), Content::Bytes(Dtype::U8, vec![bytes.len()], bytes.into())));
        }
        if !contents.data.declared_prefixes().is_empty() {
            ours["prefixes"] = serde_json::json!(contents.data.declared_prefixes());
        }
        if let Some(ranking) = contents.ranking {
            ours["ranking"] = serde_json::json!(ranking);
        }
        // One entry: the format keeps metadata in a hash map, and the same model must give the same bytes.
        let metadata = HashMap::from([(OURS.to_string(), ours.to_string())]);
        tensor_file::write(path, tensors, metadata).map_err(RugeError::io(path, "write"))?;
        Self::read_back(path)
    }

    /// Reads a file that was just written, from the disk: whoever says it is finished has seen that it opens.
    fn read_back(path: &Path) -> Result<()> {
        let opened = TensorFile::open(path).and_then(|file| {
            let ours = words(&file)?;
            read_spec(text(&ours, "spec")?)?;
            Fitted::of(&ours, true)?;
            match file.is_sealed(version(&ours)?)? {
                true => file.verify(),
                false => Err(Fault::Broken("it has no seal".into())),
            }
        });
        opened.map_err(|fault| match fault {
            Fault::Io(error) => RugeError::io(path, "read back")(error),
            Fault::Broken(reason) => RugeError::ModelFile {
                path: path.to_path_buf(),
                reason: format!("read back after writing, {reason}; is the disk failing? write it to another one"),
            },
        })
    }

    /// Reads and checks a model.
    pub fn read(path: &Path) -> Result<Self> {
        let unlike = |fault| match fault {
            // Whoever gives a graph or a rule file would not be helped by copying it again.
            Fault::Broken(reason) if !is_named_as_a_model(path) => {
                Fault::Broken(format!("{reason}; give a run folder or its model.safetensors"))
            }
            Fault::Broken(reason) => Fault::Broken(format!("{reason}; is it cut off or damaged? copy it again")),
            fault => fault,
        };
        TensorFile::open(path).map_err(unlike).and_then(parse).map_err(|fault| match fault {
            Fault::Io(error) if error.kind() == std::io::ErrorKind::NotFound => missing(path),
            Fault::Io(error) => RugeError::io(path, "read")(error),
            Fault::Broken(reason) => RugeError::ModelFile { path: path.to_path_buf(), reason },
        })
    }
}

/// Whether a file's name says that it is a model.
fn is_named_as_a_model(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("safetensors"))
}

/// Says what was looked for.
fn missing(path: &Path) -> RugeError {
    let folder = path.parent().filter(|folder| path.ends_with("model.safetensors") && folder.is_dir());
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    RugeError::NoModel { path: folder.unwrap_or(path).to_path_buf(), is_folder: folder.is_some() }
}

/// What goes into a file.
pub struct Contents<'a> {
    /// How the model was made.
    pub spec: &'a Spec,
    /// Its parameters; none where rules are all there is.
    pub embeddings: Option<&'a Embeddings>,
    /// Names and triples.
    pub data: &'a Dataset,
    /// The rules that guided it.
    pub rules: &'a [RuleRecord],
    /// What training says about itself.
    pub notes: &'a std::collections::BTreeMap<String, String>,
    /// Scores to truth values, where there was something to fit them on.
    pub calibration: Option<&'a Calibration>,
    /// The chance that unlisted facts are true, where there was something to fit it on.
    pub truth: Option<&'a Truth>,
    /// How the rules take part in ranking.
    pub ranking: Option<&'a Ranking>,
    /// Learned weights of the rules, where the ranking uses them.
    pub weights: Option<&'a [[f32; 2]]>,
}

/// SHA-256 over names and triples of all splits: the same data, the same hash, wherever they were read from.
pub fn data_hash(data: &Dataset) -> String {
    let mut hasher = Sha256::new();
    let mut name = |text: &str| {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    data.names().entities.iter().for_each(|(_, text)| name(text));
    data.names().relations.iter().for_each(|(_, text)| name(text));
    for split in [data.train(), data.valid(), data.test()] {
        hasher.update((split.len() as u64).to_le_bytes());
        hasher.update(triple_bytes(split));
    }
    hex(&hasher.finalize())
}

/// Bytes as people write a hash.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The checksum of files before the seal: over the digests of all tensors, by name.
fn checksum(sums: &[(String, [u8; 32])]) -> String {
    let mut sums: Vec<_> = sums.iter().map(|(name, sum)| (name, hex(sum))).collect();
    sums.sort();
    let mut hasher = Sha256::new();
    for (name, sum) in sums {
        hasher.update(format!("{name}={sum}\n"));
    }
    hex(&hasher.finalize())
}

fn tensors<'a>(contents: &Contents<'a>) -> Vec<(String, Content<'a>)> {
    let mut tensors: Vec<(String, Content<'a>)> = Vec::new();
    if let Some(Embeddings { entities, relations }) = contents.embeddings {
        let tables = [("entities", entities), ("relations", relations)];
        tensors.extend(tables.map(|(name, table)| (name.to_string(), Content::Table(table))));
    }
    let mut put = |name: &str, dtype, shape: Vec<usize>, bytes: Vec<u8>| {
        tensors.push((name.to_string(), Content::Bytes(dtype, shape, bytes.into())));
    };
    if contents.embeddings.is_none() {
        // The format has the tables always: a row per name, without numbers.
        put("entities", Dtype::F32, vec![contents.data.entity_count(), 0], Vec::new());
        put("relations", Dtype::F32, vec![contents.data.relation_count(), 0], Vec::new());
    }
    let names = contents.data.names();
    let (text, ends) = flat(&names.entities);
    put("entity_names", Dtype::U8, vec![text.len()], text);
    put("entity_names_ends", Dtype::U64, vec![ends.len() / 8], ends);
    let (text, ends) = flat(&names.relations);
    put("relation_names", Dtype::U8, vec![text.len()], text);
    put("relation_names_ends", Dtype::U64, vec![ends.len() / 8], ends);
    for (name, split) in
        [("train", contents.data.train()), ("valid", contents.data.valid()), ("test", contents.data.test())]
    {
        put(name, Dtype::U32, vec![split.len(), 3], triple_bytes(split));
    }
    tensors
}

fn flat<I: Id>(names: &Vocabulary<I>) -> (Vec<u8>, Vec<u8>) {
    let mut text = Vec::new();
    let mut ends = Vec::new();
    for (_, name) in names.iter() {
        text.extend_from_slice(name.as_bytes());
        ends.extend_from_slice(&(text.len() as u64).to_le_bytes());
    }
    (text, ends)
}

fn triple_bytes(triples: &[Triple]) -> Vec<u8> {
    triples.iter().flat_map(|t| [t.head.0, t.relation.0, t.tail.0]).flat_map(u32::to_le_bytes).collect()
}

/// What the metadata say, as JSON.
fn words(file: &TensorFile) -> std::result::Result<serde_json::Value, String> {
    let ours = file.words().and_then(|all| all.get(OURS)).ok_or_else(|| "it was not written by ruge".to_string())?;
    serde_json::from_str(ours).map_err(|error| format!("its metadata are damaged: {error}"))
}

fn version(ours: &serde_json::Value) -> std::result::Result<u64, String> {
    ours["version"].as_u64().ok_or_else(|| "its metadata lack `version`".to_string())
}

fn text<'o>(ours: &'o serde_json::Value, key: &str) -> std::result::Result<&'o str, String> {
    ours[key].as_str().ok_or_else(|| format!("its metadata lack `{key}`"))
}

fn read_spec(text: &str) -> std::result::Result<Spec, String> {
    Spec::default().overlaid(text, "its spec").map_err(|error| error.to_string())
}

fn parse(file: TensorFile) -> std::result::Result<ModelFile, Fault> {
    let ours = words(&file)?;
    let sealed = file.is_sealed(version(&ours)?)?;
    // Tables are by far the largest, and go to their place as they are read.
    let mut stored = file.read(sealed, |name| ["entities", "relations"].contains(&name))?;
    if !sealed && text(&ours, "checksum")? != checksum(&stored.sums) {
        return Err(Fault::Broken("its numbers do not match its checksum: it is damaged; copy it again".into()));
    }
    let embeddings =
        Embeddings { entities: stored.take_table("entities")?, relations: stored.take_table("relations")? };
    Ok(put_together(&ours, embeddings, &stored, sealed)?)
}

/// What stands next to spec and rules.
struct Fitted {
    notes: std::collections::BTreeMap<String, String>,
    calibration: Option<Calibration>,
    truth: Option<Truth>,
    ranking: Option<Ranking>,
}

impl Fitted {
    fn of(ours: &serde_json::Value, sealed: bool) -> std::result::Result<Self, String> {
        let damaged = |what: &str, error: serde_json::Error| format!("its {what}: {error}");
        let ranking = serde_json::from_value(ours["ranking"].clone())
            .map_err(|error| damaged("ranking by rules is damaged", error))?;
        let notes = match serde_json::from_value(ours["notes"].clone()) {
            Ok(notes) => notes,
            Err(_) if !sealed => Default::default(),
            Err(error) => return Err(damaged("notes are damaged", error)),
        };
        let calibration = match serde_json::from_value(ours["calibration"].clone()) {
            Ok(calibration) => calibration,
            // Of an earlier kind: whoever needs it fits it again.
            Err(_) if !sealed => None,
            Err(error) => return Err(damaged("truth values are damaged", error)),
        };
        // A truth of another kind is fitted again by whoever needs it.
        let truth = serde_json::from_value(ours["truth"].clone()).unwrap_or(None);
        Ok(Self { notes, calibration, truth, ranking })
    }
}

fn put_together(
    ours: &serde_json::Value,
    embeddings: Embeddings,
    stored: &Stored,
    sealed: bool,
) -> std::result::Result<ModelFile, String> {
    let bytes = |name: &str, dtype: Dtype| {
        let tensor = stored.tensor(name).ok_or_else(|| format!("it has no tensor `{name}`"))?;
        if tensor.dtype == dtype { Ok(&tensor.bytes) } else { Err(format!("`{name}` holds {:?}", tensor.dtype)) }
    };
    let mut vocabulary = Names::default();
    for (index, name) in unflat(bytes("entity_names", Dtype::U8)?, bytes("entity_names_ends", Dtype::U64)?)?.enumerate()
    {
        if vocabulary.entities.intern(name).index() != index {
            return Err(format!("the entity {name:?} occurs twice in it"));
        }
    }
    for (index, name) in
        unflat(bytes("relation_names", Dtype::U8)?, bytes("relation_names_ends", Dtype::U64)?)?.enumerate()
    {
        if vocabulary.relations.intern(name).index() != index {
            return Err(format!("the relation {name:?} occurs twice in it"));
        }
    }
    let (entities, relations) = (vocabulary.entities.len(), vocabulary.relations.len());
    let split = |name: &str| -> std::result::Result<Vec<Triple>, String> {
        let numbers: Vec<u32> =
            bytes(name, Dtype::U32)?.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
        let triples: Vec<Triple> = numbers.as_chunks::<3>().0.iter().map(|&[h, r, t]| Triple::new(h, r, t)).collect();
        let fits =
            |t: &Triple| t.head.index() < entities && t.tail.index() < entities && t.relation.index() < relations;
        if triples.iter().all(fits) { Ok(triples) } else { Err(format!("`{name}` refers to names it does not have")) }
    };
    let (train, valid, test) = (split("train")?, split("valid")?, split("test")?);
    let spec = read_spec(text(ours, "spec")?)?;
    if embeddings.entities.rows() != entities || embeddings.relations.rows() < relations {
        return Err("the number of rows differs from the number of names".into());
    }
    let options = RuleReadOptions { format: Some(RuleFormat::Native), ..RuleReadOptions::default() };
    let mut rules = match stored.tensor("rules") {
        Some(tensor) => packed::decode(&tensor.bytes).ok_or("its rules are damaged; copy it again")?,
        None => parse_rules(text(ours, "rules")?, &options, &mut vocabulary).map_err(|error| error.to_string())?.rules,
    };
    let Fitted { notes, calibration, truth, ranking } = Fitted::of(ours, sealed)?;
    // The rules may name entities and relations that no triple has; the data know only those of the tensors.
    let mut names = Names::default();
    for (_, name) in vocabulary.entities.iter().take(entities) {
        names.entities.intern(name);
    }
    for (_, name) in vocabulary.relations.iter().take(relations) {
        names.relations.intern(name);
    }
    // Files of older programs may hold rules about names that no triple has.
    let sayable = |record: &RuleRecord| ruge_rules::words::is_sayable(&record.rule, &names);
    let mut weights = match stored.tensor(RULE_WEIGHTS) {
        None => None,
        Some(tensor) if tensor.dtype == Dtype::F32 && tensor.shape == [rules.len(), 2] => {
            let numbers: Vec<f32> = tensor.bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            Some(numbers.as_chunks::<2>().0.to_vec())
        }
        Some(_) => return Err(format!("`{RULE_WEIGHTS}` does not fit its {} rules; copy it again", rules.len())),
    };
    if let Some(weights) = &mut weights {
        let mut kept = rules.iter().map(sayable);
        weights.retain(|_| kept.next() == Some(true));
    }
    rules.retain(sayable);
    let labels: Labels = match stored.tensor(LABELS) {
        None => Labels::default(),
        Some(tensor) => {
            let labels: Option<Labels> = serde_json::from_slice(&tensor.bytes).ok();
            let fitting = labels.filter(|labels| labels.fits(entities, relations));
            fitting.ok_or("its labels are damaged; copy it again")?
        }
    };
    let prefixes: Option<Vec<(String, String)>> = serde_json::from_value(ours["prefixes"].clone())
        .map_err(|error| format!("its prefixes are damaged: {error}"))?;
    let data = Dataset::new(names, train, valid, test).with_labels(labels).with_prefixes(prefixes.unwrap_or_default());
    let embeddings = (embeddings.entities.width() > 0).then_some(embeddings);
    Ok(ModelFile { spec, embeddings, data, rules, notes, calibration, truth, ranking, weights, is_old: !sealed })
}

fn unflat<'t>(text: &'t [u8], ends: &'t [u8]) -> std::result::Result<impl Iterator<Item = &'t str>, String> {
    let ends: Vec<usize> = ends.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b) as usize).collect();
    let mut start = 0;
    let mut names = Vec::with_capacity(ends.len());
    for end in ends {
        let name = text.get(start..end).and_then(|bytes| std::str::from_utf8(bytes).ok());
        names.push(name.ok_or("its names are damaged")?);
        start = end;
    }
    Ok(names.into_iter())
}
