//! Entities that the model has never seen, with a few facts about them: their vectors are fitted, everything else stays.
//!
//! A new entity starts at the mean of those who stand in its place: for a fact (new, r, t) the heads that train has with
//! (r, t), or all heads of r if there is none. Then its row alone takes [`STEPS`] gradient steps of the model's own
//! objective on its own facts, with negatives from a few hundred entities. That happens in a small model of the new
//! entities, their neighbours and the negatives, whose known rows are put back after every step. Every draw comes from the
//! spec's seed, so the same facts give the same vectors. PTransE trains by paths, in its own way; under it a new entity stays
//! where it starts.
//!
//! The facts count as known and extend the training graph, so that rules can be asked about the new entities too.

use std::path::Path;

use ruge_embed::model::State;
use ruge_embed::{Embeddings, Evidence, Softmax, Table};
use ruge_kg::random::{self, Stream};
use ruge_kg::{Control, Dataset, EntityId, KgError, Label, Names, ReadOptions, Triple};
use ruge_rules::{RuleRecord, Term};
use rustc_hash::FxHashMap;

use crate::assemble;
use crate::engine::Engine;
use crate::error::{Result, RugeError};
use crate::model_file::{Contents, ModelFile};
use crate::spec::DeviceName;
use crate::suggest::suggestion;

/// Gradient steps of a new row.
pub const STEPS: u64 = 200;
/// Entities that negatives are drawn from, neighbours not counted.
const OTHERS: usize = 500;
/// The same where a softmax compares with all of them.
const COMPARED: usize = 2000;
/// Which entities these are.
const NEGATIVES: Stream = Stream(0x611);

/// Facts about new entities, read from a file.
#[derive(Clone, Debug)]
pub struct NewFacts {
    names: Names,
    triples: Vec<Triple>,
    /// Names that the model does not have.
    pub entities: Vec<EntityId>,
}

impl NewFacts {
    /// Reads triples in any format of DATA. Relations must be the model's; entities may be new.
    pub fn read(engine: &Engine, path: &Path) -> Result<Self> {
        let data = engine.data();
        let mut names = data.names().clone();
        let contents = ruge_kg::io::read_file(path, &mut names, &ReadOptions::default())?;
        if contents.triples.is_empty() {
            return Err(KgError::Empty { path: path.to_path_buf() }.into());
        }
        for (index, triple) in contents.triples.iter().enumerate() {
            if triple.relation.index() >= data.relation_count() {
                let name = names.relations.name(triple.relation);
                let known = data.names().relations.iter().map(|(_, name)| name);
                let hint = suggestion(name, known);
                return Err(RugeError::Facts {
                    path: path.to_path_buf(),
                    line: contents.lines.line(index),
                    reason: format!("the model has no relation called {name:?}{hint}"),
                });
            }
        }
        let entities = (data.entity_count()..names.entities.len()).map(|index| EntityId(index as u32)).collect();
        Ok(Self { names, triples: contents.triples, entities })
    }

    /// All triples of these data. Relations must be the model's; entities may be new.
    pub fn of(engine: &Engine, facts: &Dataset) -> Result<Self> {
        let mut names = engine.data().names().clone();
        let known = names.entities.len();
        let mut triples = Vec::new();
        for &triple in [facts.train(), facts.valid(), facts.test()].into_iter().flatten() {
            let [head, relation, tail] = facts.show(triple);
            let relation = engine.relation(relation)?;
            triples.push(Triple { head: names.entities.intern(head), relation, tail: names.entities.intern(tail) });
        }
        let entities = (known..names.entities.len()).map(|index| EntityId(index as u32)).collect();
        Ok(Self { names, triples, entities })
    }
}

impl Engine {
    /// The same model with new entities folded in, on the processor; this one stays as it is.
    pub fn with_facts(&self, facts: &NewFacts, control: &Control<'_>) -> Result<Self> {
        let NewFacts { names, triples, entities: new } = facts.clone();
        let truth = self.fitted_truth()?;
        let Contents { spec, embeddings, data, rules, notes, calibration, ranking, weights, .. } = self.contents()?;
        // Rules alone know no vectors: the new facts are all they need.
        let embeddings = match embeddings {
            None => None,
            Some(embeddings) => {
                let rows = if new.is_empty() {
                    Vec::new()
                } else {
                    let about: Vec<Triple> = triples
                        .iter()
                        .copied()
                        .filter(|triple| triple.head.index().max(triple.tail.index()) >= data.entity_count())
                        .collect();
                    let others = if spec.softmax().is_some() { COMPARED } else { OTHERS };
                    let small = Small::new(data, embeddings, &about, &new, (others, spec.seed));
                    if spec.ptranse()?.is_some() { small.starts } else { small.fit(spec, &about, control)? }
                };
                let mut entities = Table::zeros(names.entities.len(), embeddings.entities.width());
                for row in 0..embeddings.entities.rows() {
                    entities.row_mut(row).copy_from_slice(embeddings.entities.row(row));
                }
                for (entity, row) in new.iter().zip(&rows) {
                    entities.row_mut(entity.index()).copy_from_slice(row);
                }
                Some(Embeddings { entities, relations: embeddings.relations.clone() })
            }
        };
        // A rule may name an entity that no triple had: its number now means somebody else.
        let kept: Vec<bool> = rules.iter().map(|record| names_only(record, data.entity_count())).collect();
        let rules = rules.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(record, _)| record.clone()).collect();
        let weights = weights
            .map(|weights| weights.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(weight, _)| *weight).collect());
        let train = [data.train(), &triples].concat();
        let (labels, prefixes) = (data.labels().clone(), data.declared_prefixes().to_vec());
        let data = Dataset::new(names, train, data.valid().to_vec(), data.test().to_vec())
            .with_labels(labels)
            .with_prefixes(prefixes);
        Self::new(ModelFile {
            spec: spec.clone(),
            embeddings,
            data,
            rules,
            notes: notes.clone(),
            calibration: calibration.cloned(),
            truth: truth.cloned(),
            ranking: ranking.cloned(),
            weights,
            is_old: self.is_old(),
        })
    }
}

fn names_only(record: &RuleRecord, entities: usize) -> bool {
    let constants = record.rule.atoms().flat_map(|atom| atom.terms());
    constants.into_iter().all(|term| !matches!(term, Term::Constant(entity) if entity.index() >= entities))
}

/// A model of those concerned: new entities first, then their neighbours, then the negatives.
struct Small<'e> {
    embeddings: &'e Embeddings,
    /// Whom each row stands for.
    members: Vec<EntityId>,
    /// Rows that are fitted.
    new: usize,
    starts: Vec<Vec<f32>>,
}

impl<'e> Small<'e> {
    fn new(
        data: &Dataset,
        embeddings: &'e Embeddings,
        facts: &[Triple],
        new: &[EntityId],
        (others, seed): (usize, u64),
    ) -> Self {
        let known = data.entity_count();
        let mut members = new.to_vec();
        let neighbours = facts.iter().flat_map(|fact| [fact.head, fact.tail]);
        members.extend(neighbours.filter(|entity| entity.index() < known));
        members[new.len()..].sort_unstable();
        let drawn = (0..others as u64).map(|at| random::below(random::draw(seed, NEGATIVES, 0, at), known as u64));
        members.extend(drawn.map(|id| EntityId(id as u32)));
        let mut seen = rustc_hash::FxHashSet::default();
        members.retain(|&entity| seen.insert(entity));
        let starts = new.iter().map(|&entity| start(data, &embeddings.entities, facts, entity)).collect();
        Self { embeddings, members, new: new.len(), starts }
    }

    fn fit(&self, spec: &crate::Spec, facts: &[Triple], control: &Control<'_>) -> Result<Vec<Vec<f32>>> {
        let place: FxHashMap<EntityId, u32> =
            self.members.iter().enumerate().map(|(at, &entity)| (entity, at as u32)).collect();
        let here = |fact: &Triple| Triple::new(place[&fact.head], fact.relation.0, place[&fact.tail]);
        let facts: Vec<Triple> = facts.iter().map(here).collect();
        let mut names = Names::default();
        for member in 0..self.members.len() {
            names.entities.intern(&member.to_string());
        }
        for relation in 0..self.embeddings.relations.rows() {
            names.relations.intern(&relation.to_string());
        }
        let data = Dataset::new(names, facts.clone(), Vec::new(), Vec::new());
        let spec = crate::Spec { device: DeviceName::Cpu, ..spec.clone() };
        let mut model = assemble::model(&spec, &data)?;
        let mut state: State = model.state()?.clone();
        for (at, start) in self.starts.iter().enumerate() {
            state.embeddings.entities.row_mut(at).copy_from_slice(start);
        }
        let mut plan = ruge_embed::Plan::new(data.graph(), data.train(), spec.seed);
        plan.batches = 1;
        if let Some(training) = spec.negatives() {
            (plan.negatives, plan.objective) = (training.negatives, training.objective);
            plan.projection = training.projection;
        }
        plan.evidence = Evidence::nothing();
        // All facts in one step, against all members: a softmax compares, and what it is compared with must be there.
        plan.softmax = spec.softmax().map(|&softmax| Softmax {
            batch: 2 * facts.len().max(1),
            sample: 0,
            relations: 0.0,
            dropout: 0.0,
            ..softmax
        });
        for step in 1..=STEPS {
            control.check()?;
            self.put_back(&mut state.embeddings);
            model.restore(state)?;
            model.epoch(&plan, step)?;
            state = model.state()?.clone();
        }
        Ok((0..self.new).map(|at| state.embeddings.entities.row(at).to_vec()).collect())
    }

    /// Everything but the new rows as the model has it.
    fn put_back(&self, embeddings: &mut Embeddings) {
        embeddings.relations.copy_from(&self.embeddings.relations);
        for (at, entity) in self.members.iter().enumerate().skip(self.new) {
            embeddings.entities.row_mut(at).copy_from_slice(self.embeddings.entities.row(entity.index()));
        }
    }
}

/// The mean of those who stand where the new entity stands.
fn start(data: &Dataset, rows: &Table, facts: &[Triple], entity: EntityId) -> Vec<f32> {
    let graph = data.graph();
    let mut sum = vec![0.0f64; rows.width()];
    let mut places = 0.0;
    for fact in facts {
        for (own, other, label) in [
            (fact.head, fact.tail, Label::inverse(fact.relation)),
            (fact.tail, fact.head, Label::forward(fact.relation)),
        ] {
            if own != entity {
                continue;
            }
            let known = other.index() < data.entity_count();
            let beside = if known { graph.neighbours(other, label) } else { &[] };
            let everyone: Vec<EntityId>;
            let peers = if beside.is_empty() {
                let mut keys: Vec<EntityId> = graph.pairs(label.reversed()).iter().map(|pair| pair.key).collect();
                keys.dedup();
                everyone = keys;
                &everyone
            } else {
                beside
            };
            if !peers.is_empty() {
                places += 1.0;
                for peer in peers {
                    for (sum, &x) in sum.iter_mut().zip(rows.row(peer.index())) {
                        *sum += f64::from(x) / peers.len() as f64;
                    }
                }
            }
        }
    }
    sum.into_iter().map(|x| if places > 0.0 { (x / places) as f32 } else { 0.0 }).collect()
}
