//! Questions and their best answers: which tail, which head, which relation?
//!
//! A [`Question`] is a triple with one place open. [`Engine::predict`] answers many at once: entity questions go through
//! [`Ranker::top`](ruge_kg::Ranker::top), exact and blocked; relation questions score every relation between the two entities. Answers stand best
//! first by score, relations by truth; each has its calibrated truth and says whether it is a known fact.
//!
//! Relations are ordered by truth, and only equals by score: softmax and rules beside a model compare the answers of one relation, and tell
//! nothing about how the scores of two relations compare. Their calibrations do.

use ruge_kg::rank::{Only, entity_set};
use std::collections::BTreeMap;

use rayon::prelude::*;
use ruge_kg::{Control, EntityId, Hide, RankQuery, RelationId, Side, TopOptions, Triple};
use ruge_rules::apply::{Application, Walker};
use ruge_rules::words;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::engine::Engine;
use crate::error::{Result, RugeError};

/// A triple with one place open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// (?, r, t)
    Head {
        /// r
        relation: RelationId,
        /// t
        tail: EntityId,
    },
    /// (h, ?, t)
    Relation {
        /// h
        head: EntityId,
        /// t
        tail: EntityId,
    },
    /// (h, r, ?)
    Tail {
        /// h
        head: EntityId,
        /// r
        relation: RelationId,
    },
}

/// A question by names, as JSON has it: one of them is missing or null.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedQuestion {
    /// h
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// r
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// t
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<String>,
}

/// Bytes that a question may have: two names of the longest kind, every byte of them escaped in JSON, have more than any
/// question is asked with.
pub const LONGEST: usize = 1 << 24;

impl NamedQuestion {
    /// Reads a line; nothing if it is blank. One that begins with `{` is a JSON object; any other has three fields separated by
    /// tabs, one of which is `?`. An entity that is called `?` can be asked about in JSON. Errors are reasons, without the place.
    pub fn parse(text: &[u8]) -> std::result::Result<Option<Self>, String> {
        if text.len() > LONGEST {
            return Err(format!("longer than {} MB; a question is a single line", LONGEST / 1_000_000));
        }
        let text = std::str::from_utf8(text).map_err(|_| "not UTF-8".to_string())?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Ok(None);
        }
        let remedy = "write head, relation and tail separated by tabs, with ? in the open place, or a JSON object";
        let named = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| format!("not a question: {error}"))?
        } else {
            let fields: Vec<&str> = text.split('\t').collect();
            let &[head, relation, tail] = fields.as_slice() else {
                return Err(format!("{} fields instead of 3; {remedy}", fields.len()));
            };
            let place = |field: &str| (field.trim() != "?").then(|| field.to_string());
            Self { head: place(head), relation: place(relation), tail: place(tail) }
        };
        if [&named.head, &named.relation, &named.tail].into_iter().flatten().count() != 2 {
            return Err(format!("a question needs exactly one open place; {remedy}"));
        }
        Ok(Some(named))
    }
}

impl Question {
    /// By the names a model knows.
    pub fn of(named: &NamedQuestion, engine: &Engine) -> Result<Self> {
        Self::named(engine, named.head.as_deref(), named.relation.as_deref(), named.tail.as_deref())
    }

    /// From names, exactly one of which is missing.
    pub fn named(engine: &Engine, head: Option<&str>, relation: Option<&str>, tail: Option<&str>) -> Result<Self> {
        match (head, relation, tail) {
            (None, Some(r), Some(t)) => Ok(Self::Head { relation: engine.relation(r)?, tail: engine.entity(t)? }),
            (Some(h), None, Some(t)) => Ok(Self::Relation { head: engine.entity(h)?, tail: engine.entity(t)? }),
            (Some(h), Some(r), None) => Ok(Self::Tail { head: engine.entity(h)?, relation: engine.relation(r)? }),
            _ => Err(RugeError::refused("a question names two of head, relation and tail, and asks for the third")),
        }
    }

    /// The triple that an answer makes of it.
    pub fn answered(self, by: Who) -> Option<Triple> {
        match (self, by) {
            (Self::Head { relation, tail }, Who::Entity(head)) => Some(Triple { head, relation, tail }),
            (Self::Relation { head, tail }, Who::Relation(relation)) => Some(Triple { head, relation, tail }),
            (Self::Tail { head, relation }, Who::Entity(tail)) => Some(Triple { head, relation, tail }),
            _ => None,
        }
    }

    /// As ranking asks; what stands in the open place is not looked at.
    fn rank_query(self) -> Option<RankQuery> {
        match self {
            Self::Head { relation, tail } => {
                Some(RankQuery { triple: Triple { head: tail, relation, tail }, side: Side::Head })
            }
            Self::Tail { head, relation } => {
                Some(RankQuery { triple: Triple { head, relation, tail: head }, side: Side::Tail })
            }
            Self::Relation { .. } => None,
        }
    }
}

/// Who answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// A head or a tail.
    Entity(EntityId),
    /// A relation.
    Relation(RelationId),
}

/// One answer. As JSON its name is `entity` or `relation`.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// Who.
    pub who: Who,
    /// What that is called.
    pub name: String,
    /// What people call it, if the data say so.
    pub label: Option<String>,
    /// η of the triple it makes, as the question ranks it: a model may score heads and tails differently.
    pub score: f32,
    /// The chance that it is true; 1 where it is known.
    pub truth: f64,
    /// Whether it is a fact of some split.
    pub known: bool,
    /// Where rules are asked too: the best one that concludes it.
    pub rule: Option<String>,
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let kind = if matches!(self.who, Who::Entity(_)) { "entity" } else { "relation" };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(kind, &self.name)?;
        if let Some(label) = &self.label {
            map.serialize_entry("label", label)?;
        }
        // By its own shortest digits, not by those of the double next to it.
        map.serialize_entry("score", &self.score.to_string().parse::<f64>().unwrap_or(f64::NAN))?;
        map.serialize_entry("truth", &self.truth)?;
        map.serialize_entry("known", &self.known)?;
        if let Some(rule) = &self.rule {
            map.serialize_entry("rule", rule)?;
        }
        map.end()
    }
}

/// Which answers are wanted.
#[derive(Clone, Debug)]
pub struct PredictOptions {
    /// At most so many.
    pub top: usize,
    /// Without known facts.
    pub new: bool,
    /// Only these entities.
    pub candidates: Option<Vec<EntityId>>,
    /// Only entities that train has seen at that end of the relation.
    pub typed: bool,
    /// Whether rules are asked beside the model.
    pub by_rules: bool,
}

impl Default for PredictOptions {
    fn default() -> Self {
        Self { top: 10, new: false, candidates: None, typed: false, by_rules: false }
    }
}

/// The best answers to each question, best first; what [`Engine::predict`] does.
pub(crate) fn predict(
    engine: &Engine,
    questions: &[Question],
    options: &PredictOptions,
    control: &Control<'_>,
) -> Result<Vec<Vec<Answer>>> {
    // New facts are asked about on a graph of all listed ones.
    let all = if options.new { Some(engine.on_all_listed()?) } else { None };
    Predictor::new(all.as_ref().unwrap_or(engine), options, questions).answer(questions, control)
}

/// One set of options, ready.
struct Predictor<'l> {
    engine: &'l Engine,
    wishes: &'l PredictOptions,
    candidates: Option<Vec<u32>>,
    rules: FxHashMap<RelationId, Vec<RuleAt>>,
}

/// An answer by number; its rule by its place in the model.
#[derive(Clone, Copy)]
struct Scored {
    who: Who,
    score: f32,
    truth: f64,
    known: bool,
    rule: Option<usize>,
}

/// An answer before it is scored.
struct Found {
    query: usize,
    entity: EntityId,
    by: Option<Conclusion>,
}

/// The best rule that concludes an answer.
#[derive(Clone, Copy)]
struct Conclusion {
    confidence: f64,
    rule: usize,
}

/// A rule ready to be walked.
struct RuleAt {
    place: usize,
    confidence: f64,
    rule: Application,
}

impl<'l> Predictor<'l> {
    fn new(engine: &'l Engine, wishes: &'l PredictOptions, questions: &[Question]) -> Self {
        let entities = engine.data().entity_count();
        let candidates = wishes.candidates.as_ref().map(|list| entity_set(entities, list.iter().copied()));
        let mut rules: FxHashMap<RelationId, Vec<RuleAt>> = FxHashMap::default();
        if wishes.by_rules {
            let asked: FxHashSet<RelationId> =
                questions.iter().filter_map(|question| Some(question.rank_query()?.triple.relation)).collect();
            let rules_asked =
                engine.rules().iter().enumerate().filter(|(_, record)| asked.contains(&record.rule.head()));
            for (place, record) in rules_asked {
                // A rule that speaks of unknown names concludes nothing.
                if let Ok(rule) = Application::new(engine.data().graph(), &record.rule) {
                    let confidence = record.confidence.get();
                    rules.entry(record.rule.head()).or_default().push(RuleAt { place, confidence, rule });
                }
            }
        }
        Self { engine, wishes, candidates, rules }
    }

    fn answer(&self, questions: &[Question], control: &Control<'_>) -> Result<Vec<Vec<Answer>>> {
        let queries: Vec<RankQuery> = questions.iter().filter_map(|question| question.rank_query()).collect();
        let mut lists = self.entities(&queries, control)?.into_iter();
        let relations: Vec<(EntityId, EntityId)> = questions
            .iter()
            .filter_map(|question| match *question {
                Question::Relation { head, tail } => Some((head, tail)),
                _ => None,
            })
            .collect();
        let relations: Result<Vec<Vec<Scored>>> = relations
            .par_iter()
            .map(|&(head, tail)| {
                control.check()?;
                self.relations(head, tail)
            })
            .collect();
        let mut relations = relations?.into_iter();
        let take = |question: &Question| match question {
            Question::Relation { .. } => relations.next(),
            _ => lists.next(),
        };
        let lists: Vec<Vec<Scored>> = questions.iter().map(take).map(Option::unwrap_or_default).collect();
        Ok(lists.into_par_iter().map(|list| list.into_iter().map(|answer| self.named(answer)).collect()).collect())
    }

    fn named(&self, Scored { who, score, truth, known, rule }: Scored) -> Answer {
        let names = self.engine.data().names();
        let labels = self.engine.data().labels();
        let (name, label) = match who {
            Who::Entity(entity) => (names.entities.name(entity), labels.entity(entity)),
            Who::Relation(relation) => (names.relations.name(relation), labels.relation(relation)),
        };
        let rule = rule.map(|place| words::formula(&self.engine.rules()[place].rule, names));
        Answer { who, name: name.to_string(), label: label.map(str::to_string), score, truth, known, rule }
    }

    fn entities(&self, queries: &[RankQuery], control: &Control<'_>) -> Result<Vec<Vec<Scored>>> {
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        let data = self.engine.data();
        let typed = self.typed_sets(queries);
        let all = self.candidates.as_deref();
        let only = |query: &RankQuery| typed.get(&(query.triple.relation, query.side)).map(Vec::as_slice).or(all);
        let filtered = all.is_some() || !typed.is_empty();
        let options = TopOptions {
            hide: if self.wishes.new { Hide::Known(data.filter()) } else { Hide::Nothing },
            only: filtered.then_some(&only as Only<'_>),
            // One more, because the asked entity itself may be left out.
            ..TopOptions::new(self.wishes.top.saturating_add(1))
        };
        let lists = self.engine.ranker().top(queries, &options, control)?;
        let itself = self.no_partner_of_itself(queries);
        let is_known = |query: &RankQuery, entity: EntityId| data.filter().contains(query.answered(entity));
        // Scored answer by answer, as everywhere else: ranking may compare squares, and sums in another order.
        let found: Vec<Found> = queries
            .iter()
            .zip(&lists)
            .enumerate()
            .flat_map(|(query, (asked, list))| {
                let known_end = asked.triple.head;
                let is_left_out = |entity: EntityId| {
                    entity == known_end && itself.contains(&asked.triple.relation) && !is_known(asked, entity)
                };
                let mut concluded = self.concluded(asked, only(asked));
                concluded.retain(|&entity, _| !is_left_out(entity));
                let listed: Vec<Found> = list
                    .iter()
                    .filter(|x| !is_left_out(x.entity))
                    .take(self.wishes.top)
                    .map(|x| Found { query, entity: x.entity, by: concluded.remove(&x.entity) })
                    .collect();
                let others = concluded.into_iter().map(move |(entity, by)| Found { query, entity, by: Some(by) });
                listed.into_iter().chain(others)
            })
            .collect();
        let triples: Vec<Triple> = found.iter().map(|x| queries[x.query].answered(x.entity)).collect();
        let asked: Vec<RankQuery> =
            found.iter().zip(&triples).map(|(x, &triple)| RankQuery { triple, ..queries[x.query] }).collect();
        let mut scores = vec![0.0; triples.len()];
        self.engine.scores_asked(&asked, &mut scores)?;
        let mut answers = vec![Vec::new(); queries.len()];
        let truths = self.engine.truths(&triples)?;
        let found = found.into_iter().zip(triples).zip(scores.into_iter().zip(truths));
        for ((Found { query, entity, by }, triple), (score, truth)) in found {
            answers[query].push(Scored {
                who: Who::Entity(entity),
                score,
                truth,
                known: data.filter().contains(triple),
                rule: by.map(|by| by.rule),
            });
        }
        answers.par_iter_mut().for_each(|list| self.order(list));
        Ok(answers)
    }

    /// Relations that no entity has with itself in train: nobody asks whether one borders itself. If candidates are named, they are
    /// all answered.
    fn no_partner_of_itself(&self, queries: &[RankQuery]) -> FxHashSet<RelationId> {
        let graph = self.engine.data().graph();
        let asked: FxHashSet<RelationId> = match self.wishes.candidates {
            Some(_) => FxHashSet::default(),
            None => queries.iter().map(|query| query.triple.relation).collect(),
        };
        let is_reflexive = |relation: RelationId| graph.facts(relation).iter().any(|pair| pair.key == pair.other);
        asked.into_iter().filter(|&relation| !is_reflexive(relation)).collect()
    }

    /// Where rules are asked, truth decides; otherwise the score.
    fn order(&self, list: &mut Vec<Scored>) {
        if self.wishes.by_rules {
            list.sort_by(|a, b| b.truth.total_cmp(&a.truth).then(b.score.total_cmp(&a.score)));
        } else {
            list.sort_by(|a, b| b.score.total_cmp(&a.score));
        }
        list.truncate(self.wishes.top);
    }

    /// What the rules conclude for a query: the best confidence and its rule, by entity.
    fn concluded(&self, query: &RankQuery, only: Option<&[u32]>) -> BTreeMap<EntityId, Conclusion> {
        let mut concluded: BTreeMap<EntityId, Conclusion> = BTreeMap::new();
        let data = self.engine.data();
        let mut walker = Walker::default();
        for RuleAt { place, confidence, rule } in self.rules.get(&query.triple.relation).into_iter().flatten() {
            let mut visit = |entity: EntityId| {
                let wanted = entity.index() < data.entity_count()
                    && only.is_none_or(|words| words[entity.index() / 32] >> (entity.index() % 32) & 1 == 1)
                    && !(self.wishes.new && data.filter().contains(query.answered(entity)));
                if wanted {
                    let this = Conclusion { confidence: *confidence, rule: *place };
                    let best = concluded.entry(entity).or_insert(this);
                    if this.confidence > best.confidence {
                        *best = this;
                    }
                }
            };
            match query.side {
                Side::Tail => rule.objects(data.graph(), query.triple.head, &mut walker, &mut visit),
                Side::Head => rule.subjects(data.graph(), query.triple.tail, &mut walker, &mut visit),
            }
        }
        concluded
    }

    /// Who train has seen at the asked ends of the relations asked for, within the candidates.
    fn typed_sets(&self, queries: &[RankQuery]) -> BTreeMap<(RelationId, Side), Vec<u32>> {
        let mut sets = BTreeMap::new();
        if self.wishes.typed {
            let graph = self.engine.data().graph();
            for query in queries {
                let (relation, side) = (query.triple.relation, query.side);
                sets.entry((relation, side)).or_insert_with(|| {
                    let pairs = match side {
                        Side::Head => graph.facts(relation),
                        Side::Tail => graph.facts_by_tail(relation),
                    };
                    let mut set = entity_set(graph.entity_count(), pairs.iter().map(|pair| pair.key));
                    for (word, candidates) in set.iter_mut().zip(self.candidates.iter().flatten()) {
                        *word &= candidates;
                    }
                    set
                });
            }
        }
        sets
    }

    fn relations(&self, head: EntityId, tail: EntityId) -> Result<Vec<Scored>> {
        let data = self.engine.data();
        let triples: Vec<Triple> = data.graph().relations().map(|relation| Triple { head, relation, tail }).collect();
        let mut scores = vec![0.0; triples.len()];
        self.engine.ranker().score(&triples, &mut scores)?;
        let truths = self.engine.truths(&triples)?;
        let answer = |((triple, score), truth): ((Triple, f32), f64)| Scored {
            who: Who::Relation(triple.relation),
            score,
            truth,
            known: data.filter().contains(triple),
            rule: None,
        };
        let mut list: Vec<Scored> = triples
            .into_iter()
            .zip(scores)
            .zip(truths)
            .filter(|((_, score), _)| !score.is_nan())
            .map(answer)
            .filter(|answer| !(self.wishes.new && answer.known))
            .collect();
        list.sort_by(|a, b| b.truth.total_cmp(&a.truth).then(b.score.total_cmp(&a.score)));
        list.truncate(self.wishes.top);
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read_from_lines() {
        let named = |text: &str| NamedQuestion::parse(text.as_bytes());
        let asked = named("France\thas_capital\t?").unwrap().unwrap();
        assert_eq!((asked.head.as_deref(), asked.tail), (Some("France"), None));
        assert_eq!(
            named("{\"head\": \"France\", \"relation\": \"has_capital\"}").unwrap(),
            named("France\thas_capital\t?").unwrap()
        );
        assert_eq!(named("  ").unwrap(), None);
        for (text, says) in [
            ("a\tb", "2 fields"),
            ("a\tb\tc", "one open place"),
            ("?\t?\tc", "one open place"),
            ("{\"x\": 1}", "not a question"),
        ] {
            assert!(named(text).unwrap_err().contains(says), "{text}");
        }
    }

    #[test]
    fn an_answer_says_what_it_names() {
        let answer = Answer {
            who: Who::Relation(RelationId(0)),
            name: "borders".into(),
            label: None,
            score: 0.1,
            truth: 0.5,
            known: true,
            rule: None,
        };
        let json = serde_json::to_value(&answer).unwrap();
        assert_eq!(json, serde_json::json!({"relation": "borders", "score": 0.1, "truth": 0.5, "known": true}));
        let label = Some("has a border with".to_string());
        let entity = Answer { who: Who::Entity(EntityId(0)), rule: Some("a ⇒ b".into()), label, ..answer };
        let json = serde_json::to_value(&entity).unwrap();
        assert_eq!(json["label"], "has a border with");
        assert_eq!((&json["entity"], &json["rule"]), (&"borders".into(), &"a ⇒ b".into()));
    }
}
