//! A model as requests see it: all that is prepared once. A request keeps the snapshot it began with.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use ruge::explain::Explainer;
use ruge::fold_in::NewFacts;
use ruge::model_file::hex;
use ruge::predict::{PredictOptions, Question};
use ruge::truth::Judgement;
use ruge::truth::feedback::Feedback;
use ruge::{Control, Engine, ModelFile, OpenOptions, RugeError, Triple};
use ruge_kg::{Dataset, EntityId, RelationId};
use ruge_rules::words;
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use crate::names::NameIndex;
use crate::reviews::{Names, Reviews, Verdict};
use crate::run::Run;

/// A model, ready.
pub struct Snapshot {
    /// With the facts that were added and the decisions that were taken.
    pub engine: Engine,
    /// The same on a graph of all listed facts.
    pub all: Engine,
    /// Why.
    pub explainer: Explainer,
    /// Why, by all listed facts.
    pub reasons: Explainer,
    /// Without decisions: what is proposed does not depend on them.
    pub plain: Explainer,
    /// By what people type.
    pub names: Arc<NameIndex>,
    /// SHA-256 of the model file, its first 16 digits.
    pub hash: String,
    /// What the run of the model left.
    pub run: Run,
    /// The hash, and the added facts: what decides about lists of facts.
    pub graph: String,
    /// The same, and the decisions: what decides about answers.
    pub version: String,
    /// How many snapshots there were before it, and one more.
    pub number: u64,
    /// Entities that the model itself knows; those of added facts come after them.
    pub own_entities: usize,
    /// Facts that were added and are in the graph.
    pub added: Vec<Names>,
    /// Decisions that correct truth.
    pub judged: usize,
    /// What they change about the truths of the model alone.
    corrects: Option<Feedback>,
    /// Rules by their formula; made when first asked for.
    formulas: OnceLock<FxHashMap<String, usize>>,
    assumes: String,
}

/// How often a model file that changes meanwhile is read.
const READINGS: usize = 5;

/// What changes when a model file does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    modified: SystemTime,
    length: u64,
    /// Another file of the same name has another number, where the system has any.
    number: u64,
}

impl Stamp {
    /// Of MODEL, a run folder or a model.safetensors; nothing while there is none.
    pub fn of(path: &Path) -> Option<Self> {
        let meta = std::fs::metadata(ModelFile::find(path)).ok()?;
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(&meta);
        #[cfg(not(unix))]
        let number = 0;
        Some(Self { modified: meta.modified().ok()?, length: meta.len(), number })
    }
}

/// A model without anything that people added.
#[derive(Clone)]
pub struct Base {
    /// The model.
    pub engine: Engine,
    /// SHA-256 of its file, its first 16 digits.
    pub hash: String,
    /// What its run left.
    pub run: Run,
}

/// A model with the facts that people added.
#[derive(Clone)]
pub struct Extended {
    engine: Engine,
    names: Arc<NameIndex>,
    added: Vec<Names>,
    own_entities: usize,
    hash: String,
    run: Run,
    graph: String,
}

impl Base {
    /// Opens MODEL, a run folder or a model.safetensors.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, RugeError> {
        let file = ModelFile::find(path);
        // It is read twice, and may be replaced in between: then both are of the new one.
        for _ in 0..READINGS {
            let before = Stamp::of(path);
            let opened = Self::read(&file, options)?;
            if Stamp::of(path) == before {
                return Ok(opened);
            }
        }
        Err(RugeError::Refused(format!("{}: it changes while it is read", file.display())))
    }

    fn read(file: &Path, options: &OpenOptions) -> Result<Self, RugeError> {
        let engine = Engine::open_with(file, options)?;
        let mut hasher = Sha256::new();
        let mut reader = std::fs::File::open(file).map_err(RugeError::io(file, "read"))?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            match std::io::Read::read(&mut reader, &mut buffer).map_err(RugeError::io(file, "read"))? {
                0 => break,
                read => hasher.update(&buffer[..read]),
            }
        }
        let run = Run::beside(file, engine.ranking().is_some_and(|ranking| ranking.uses_rules()));
        Ok(Self { run, engine, hash: hex(&hasher.finalize())[..16].to_string() })
    }

    /// With these facts besides. Those that are listed already, or whose relation the model does not know, are left out.
    pub fn with_facts(&self, facts: &[Names]) -> Result<Extended, RugeError> {
        let data = self.engine.data();
        let is_new = |[head, relation, tail]: &&Names| {
            let Some(relation) = data.names().relations.id(relation) else { return false };
            let ends = [head, tail].map(|name| data.names().entities.id(name));
            !matches!(ends, [Some(head), Some(tail)] if data.filter().contains(Triple { head, relation, tail }))
        };
        let added: Vec<Names> = facts.iter().filter(is_new).cloned().collect();
        let (engine, graph) = if added.is_empty() {
            (self.engine.clone(), self.hash.clone())
        } else {
            let mut names = ruge_kg::Names::default();
            let triples = added.iter().map(|[head, relation, tail]| names.triple(head, relation, tail)).collect();
            let facts = Dataset::new(names, triples, Vec::new(), Vec::new());
            let engine = self.engine.with_facts(&NewFacts::of(&self.engine, &facts)?, &Control::default())?;
            let all = added.iter().flatten().map(String::as_str);
            (engine, format!("{}.f{}", self.hash, digest(all)))
        };
        let names = Arc::new(NameIndex::new(engine.on_all_listed()?.data()));
        let (hash, run) = (self.hash.clone(), self.run.clone());
        Ok(Extended { engine, names, added, own_entities: data.entity_count(), hash, run, graph })
    }
}

impl Extended {
    /// With these decisions: they correct truth.
    pub fn judged(&self, reviews: &Reviews, number: u64) -> Result<Snapshot, RugeError> {
        let names = self.engine.data().names();
        let mut decided = reviews.all();
        decided.sort_by(|(a, _), (b, _)| a.cmp(b));
        let judgement = |([head, relation, tail], decision): &(Names, crate::reviews::Decision)| {
            let holds = match decision.decision {
                Verdict::Accept => true,
                Verdict::Reject => false,
                Verdict::Skip => return None,
            };
            let (head, tail) = (names.entities.id(head)?, names.entities.id(tail)?);
            let relation = names.relations.id(relation)?;
            Some(Judgement { triple: Triple { head, relation, tail }, holds })
        };
        let judgements: Vec<Judgement> = decided.iter().filter_map(judgement).collect();
        let (engine, version, corrects) = if judgements.is_empty() {
            (self.engine.clone(), self.graph.clone(), None)
        } else {
            let told = judgements.iter().map(|it| format!("{:?} {}", it.triple, it.holds)).collect::<Vec<_>>();
            let version = format!("{}.d{}", self.graph, digest(told.iter().map(String::as_str)));
            let triples: Vec<Triple> = judgements.iter().map(|judgement| judgement.triple).collect();
            let corrects = Feedback::of(&judgements, &self.engine.estimates(&triples)?);
            (self.engine.with_feedback(&judgements)?, version, Some(corrects))
        };
        let all = engine.on_all_listed()?;
        let explainer = Explainer::new(&engine);
        let reasons = explainer.on_all_listed()?;
        // What is made with the first question of a kind is made before anybody asks: truth may have to be fitted first.
        let assumes = engine.truth_assumes()?;
        warm(&engine, &all, &reasons)?;
        Ok(Snapshot {
            engine,
            all,
            explainer,
            reasons,
            plain: Explainer::new(&self.engine),
            names: Arc::clone(&self.names),
            hash: self.hash.clone(),
            run: self.run.clone(),
            graph: self.graph.clone(),
            version,
            number,
            own_entities: self.own_entities,
            added: self.added.clone(),
            judged: judgements.len(),
            corrects,
            formulas: OnceLock::new(),
            assumes,
        })
    }
}

/// Asks one question of each kind, so that tables are packed and rules filed.
fn warm(engine: &Engine, all: &Engine, reasons: &Explainer) -> Result<(), RugeError> {
    let Some(pair) = all.data().graph().triples().next() else { return Ok(()) };
    let question = Question::Tail { head: pair.head, relation: pair.relation };
    engine.predict(&[question], &PredictOptions::default(), &Control::default())?;
    engine.truths(&[pair])?;
    let _ = (all.against(pair), reasons.concluding(pair.relation), engine.data().filter(), all.data().filter());
    Ok(())
}

fn digest<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hex(&hasher.finalize())[..8].to_string()
}

impl Snapshot {
    /// What truth assumes.
    pub fn assumes(&self) -> &str {
        &self.assumes
    }

    /// A truth by the model alone, with the decisions of this snapshot.
    pub fn corrected(&self, triple: Triple, truth: f64) -> f64 {
        self.corrects.as_ref().map_or(truth, |corrects| corrects.correct(triple, truth))
    }

    /// What `ETag` says about the answer to a question: only those who were answered can know it.
    pub fn tag(&self, asked: &[&str]) -> String {
        format!("\"{}-{}\"", self.version, digest(asked.iter().copied()))
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

    /// The names of a triple.
    pub fn fact(&self, triple: Triple) -> Names {
        self.data().show(triple).map(str::to_string)
    }

    /// The name of an entity.
    pub fn entity(&self, id: EntityId) -> &str {
        self.data().names().entities.name(id)
    }

    /// The name of a relation.
    pub fn relation(&self, id: RelationId) -> &str {
        self.data().names().relations.name(id)
    }

    /// The place of a rule by its formula.
    pub fn rule_of(&self, formula: &str) -> Option<usize> {
        let formulas = self.formulas.get_or_init(|| {
            let rules = self.explainer.rules();
            let named = |&at: &usize| (words::formula(&rules[at].rule, self.data().names()), at);
            self.explainer.usable().iter().map(named).collect()
        });
        formulas.get(formula).copied()
    }

    /// The best rule that concludes a triple from listed facts, with the facts it does so from.
    pub fn because(&self, triple: Triple) -> Option<Because> {
        let (rules, graph) = (self.reasons.rules(), self.all.data().graph());
        let mut concluding = self.reasons.concluding(triple.relation).to_vec();
        concluding
            .sort_by(|&a, &b| rules[b].mined_confidence().total_cmp(&rules[a].mined_confidence()).then(a.cmp(&b)));
        concluding.into_iter().find_map(|at| {
            let rule = &rules[at].rule;
            let of_its_own = |premises: &[Triple]| {
                rule.keeps_apart(triple, premises) && !premises[..rule.premise.len()].contains(&triple)
            };
            let found = ruge_rules::ground::ground_conclusion_where(graph, rule, triple, 1, &mut |premises| {
                of_its_own(premises)
            });
            let mut premises = found.into_iter().next()?;
            premises.truncate(rule.premise.len());
            Some(Because { rule: at, confidence: rules[at].mined_confidence(), premises })
        })
    }
}

/// A rule that concludes a fact.
pub struct Because {
    /// The rule's place.
    pub rule: usize,
    /// Its mined confidence.
    pub confidence: f64,
    /// Listed facts from which it concludes.
    pub premises: Vec<Triple>,
}
