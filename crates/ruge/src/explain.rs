//! Why does the model hold a triple true? Its truth and rank, and every rule that speaks for it.
//!
//! A rule speaks where its premises are training triples; what it adds is what guidance adds in training, Eq. (9): each
//! grounding pushes the soft label of its conclusion by C·λ·π, slackness times confidence times the truth of its premises
//! (other t-norms: by what the label grows when the grounding joins those with truer premises). All groundings of the triple are
//! taken together here; training deals them into batches and sees one or a few at a time.
//!
//! Rules that say the same (see [`redundant`]) stand together: the strongest is shown, the others are counted. Where no rule speaks,
//! the most similar known facts stand in for evidence, and [`Explanation::sentence`] says that no rule does.
//!
//! What explanations share is prepared once, with the first one (a [`RuleSet`]).

use ruge_kg::rank::place;
use std::sync::Arc;
use std::time::Instant;

use ruge_embed::TNorm;
use ruge_kg::{Dataset, Filter, Names, Rank, RankQuery, Ranker, RelationId, Side, Ties, Triple};
use ruge_rules::ground::ground_conclusion_where;
use ruge_rules::rank::index::RuleIndex;
use ruge_rules::{Rule, RuleRecord, Term, words};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::Result;

pub mod drawing;
pub mod parts;
pub mod redundant;
mod say;
pub mod similar;
mod svg;
mod weigh;

pub use parts::ScorePart;
pub use say::ModelSays;
pub use similar::SimilarFact;
use weigh::{Fired, Setting, Weighed, WeighedGrounding};

/// Groundings of one rule that are looked at for one triple; beyond, "at least as many".
const MOST_GROUNDINGS: usize = 10_000;

/// A triple in the user's words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fact {
    /// Subject.
    pub head: String,
    /// Relation.
    pub relation: String,
    /// Object.
    pub tail: String,
}

impl Fact {
    /// From ids.
    pub fn new(names: &Names, triple: Triple) -> Self {
        Self {
            head: names.entities.name(triple.head).to_string(),
            relation: names.relations.name(triple.relation).to_string(),
            tail: names.entities.name(triple.tail).to_string(),
        }
    }
}

/// What people call the parts of a triple, where the data say so.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FactLabels {
    /// The label of the head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_label: Option<String>,
    /// The label of the relation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation_label: Option<String>,
    /// The label of the tail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail_label: Option<String>,
}

impl FactLabels {
    /// Of a triple.
    pub fn of(data: &Dataset, triple: Triple) -> Self {
        let labels = data.labels();
        Self {
            head_label: labels.entity(triple.head).map(str::to_string),
            relation_label: labels.relation(triple.relation).map(str::to_string),
            tail_label: labels.entity(triple.tail).map(str::to_string),
        }
    }
}

/// What is known and what speaks for a triple.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// The triple.
    #[serde(flatten)]
    pub fact: Fact,
    /// What people call its parts.
    #[serde(flatten)]
    pub labels: FactLabels,
    /// The chance that it is true; 1 where it is known.
    pub truth: f64,
    /// The chance that it would have if it were not listed.
    #[serde(default)]
    pub estimate: f64,
    /// What speaks against it: constraints and habits that it would break.
    #[serde(default)]
    pub against: Vec<String>,
    /// η where `side` is asked for: the score that ranks it there, and the sum of `parts`.
    pub score: f32,
    /// φ, the truth that guidance reckons with: σ(η + shift), or the calibrated truth where training only compared answers.
    pub model_truth: f32,
    /// Filtered rank of the tail among all entities, mean ties.
    pub rank: f64,
    /// Filtered rank of the head.
    pub head_rank: f64,
    /// Entities in all, what ranks are out of.
    pub entities: usize,
    /// What the trained model says without rules and evidence; nothing where rules are all there is.
    #[serde(default)]
    pub model: Option<ModelSays>,
    /// `train`, `valid` or `test`, where the triple is a known fact.
    pub known: Option<String>,
    /// The end that is asked for where the score is taken apart.
    #[serde(default = "parts::tail")]
    pub side: Side,
    /// What that score is made of, the largest part first.
    #[serde(default)]
    pub parts: Vec<ScorePart>,
    /// Rules that conclude this relation, whether they fire here or not.
    pub rules_for_relation: usize,
    /// The rules that fire, redundant ones together, the most confident first.
    pub rules: Vec<RuleEvidence>,
    /// Groundings shown: the first few of each rule in `rules`.
    pub groundings: Vec<GroundingEvidence>,
    /// What the rules make of the triple's soft label; nothing where no rule fires, or where training made no such labels.
    pub soft_label: Option<SoftLabel>,
    /// The most similar known facts, where no rule fires.
    pub similar: Vec<SimilarFact>,
    /// The outcome in one sentence.
    pub sentence: String,
    /// Time to find all this.
    pub seconds: f64,
}

/// A rule that fires, with those that say the same.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RuleEvidence {
    /// As a formula.
    pub rule: String,
    /// In words.
    pub words: String,
    /// The confidence that was mined.
    pub confidence: f64,
    /// λ, where it is not that: the rule's precision on validation, or one that was set for all rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts_as: Option<f64>,
    /// Groundings that conclude the triple.
    pub groundings: usize,
    /// Whether counting stopped there and there may be more.
    pub at_least: bool,
    /// How far its groundings move the soft label.
    pub push: f64,
    /// Rules that fire here as well and say the same.
    pub redundant: Vec<RedundantRule>,
}

/// A rule that says what another says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RedundantRule {
    /// As a formula.
    pub rule: String,
    /// The confidence that was mined.
    pub confidence: f64,
    /// Groundings that conclude the triple.
    pub groundings: usize,
    /// How far its groundings move the soft label, on top of the other rule's.
    pub push: f64,
}

/// One way in which a rule concludes the triple.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroundingEvidence {
    /// The rule, as a formula.
    pub rule: String,
    /// Its place in [`Explanation::rules`].
    pub rule_index: usize,
    /// The confidence that was mined.
    pub confidence: f64,
    /// What holds in train, and what does not where the rule negates.
    pub premises: Vec<Premise>,
    /// π: the truth of all premises together, under the t-norm.
    pub premise_truth: f64,
    /// How far it moves the soft label: C·λ·π under the product.
    pub push: f64,
}

/// A premise of a grounding.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Premise {
    /// The triple.
    #[serde(flatten)]
    pub fact: Fact,
    /// Whether the rule asks that it be absent from train.
    pub negated: bool,
    /// Whether it is listed.
    #[serde(default)]
    pub known: bool,
    /// The chance that it is true; 1 where it is known.
    pub truth: f64,
    /// φ, which the push is reckoned from.
    pub model_truth: f32,
}

/// Eq. (9) for one triple, all its groundings together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SoftLabel {
    /// φ, before the rules speak.
    pub before: f32,
    /// s, after.
    pub after: f32,
    /// C.
    pub slackness: f32,
    /// How truths combine.
    pub t_norm: TNorm,
    /// Groundings that count; the same premises from two rules count once.
    pub groundings: usize,
    /// Whether the label stopped at 1.
    pub clipped: bool,
    /// Whether training made this label: false for an observed triple, whose label is 1, and for models or rules without
    /// such guidance, where the paper's C and product stand in.
    pub in_training: bool,
}

/// How much is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExplainOptions {
    /// Groundings of each rule.
    pub groundings: usize,
    /// Similar facts where no rule fires.
    pub similar: usize,
    /// The end that is asked for where the score is taken apart.
    pub side: Side,
}

impl Default for ExplainOptions {
    fn default() -> Self {
        Self { groundings: 3, similar: 5, side: Side::Tail }
    }
}

/// Rules ready to be asked about a triple: filed by what they conclude, those that say the same together.
pub struct RuleSet {
    /// None where they are the engine's own.
    rules: Option<Vec<RuleRecord>>,
    /// Rules that can fire, by place.
    usable: Vec<usize>,
    by_head: FxHashMap<RelationId, Vec<usize>>,
    /// By place; rules with equal numbers say the same.
    groups: Vec<usize>,
    setting: Setting,
    /// Whether the model ranks with these rules, and they tell entities apart.
    ranks_apart: bool,
}

impl RuleSet {
    /// The engine's own rules.
    pub(crate) fn own(engine: &Engine) -> Self {
        Self::prepare(engine, None)
    }

    fn prepare(engine: &Engine, other: Option<Vec<RuleRecord>>) -> Self {
        let (own, data) = (other.is_none(), engine.data());
        let rules = other.as_deref().unwrap_or(engine.rules());
        let usable: Vec<usize> = (0..rules.len()).filter(|&at| is_usable(data, &rules[at].rule)).collect();
        let mut by_head: FxHashMap<RelationId, Vec<usize>> = FxHashMap::default();
        for &index in &usable {
            by_head.entry(rules[index].rule.head()).or_default().push(index);
        }
        let horn: Vec<&Rule> = rules.iter().map(|rule| &rule.rule).collect();
        let groups = redundant::groups(data.graph(), &horn);
        // Built when first asked for; better now than within the first explanation.
        let _ = data.filter();
        let ranks_apart = own && engine.ranking().is_some_and(|ranking| ranking.injective);
        Self { rules: other, usable, by_head, groups, setting: Setting::of(engine, own), ranks_apart }
    }
}

/// A model and its rules, ready to explain.
#[derive(Clone)]
pub struct Explainer {
    engine: Engine,
    set: Arc<RuleSet>,
}

impl Explainer {
    /// With the model's own rules.
    pub fn new(engine: &Engine) -> Self {
        Self { engine: engine.clone(), set: engine.rule_set() }
    }

    /// With other rules, for a model that was trained without.
    pub fn with_rules(engine: &Engine, rules: Vec<RuleRecord>) -> Self {
        Self { engine: engine.clone(), set: Arc::new(RuleSet::prepare(engine, Some(rules))) }
    }

    /// The same on a graph of all listed facts; see [`Engine::on_all_listed`].
    pub fn on_all_listed(&self) -> Result<Self> {
        Ok(Self { engine: self.engine.on_all_listed()?, set: Arc::clone(&self.set) })
    }

    /// The model.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// All rules; some may name what the model does not know.
    pub fn rules(&self) -> &[RuleRecord] {
        self.set.rules.as_deref().unwrap_or(self.engine.rules())
    }

    /// The rules that can fire, as places in [`rules`](Self::rules): rules that name what the model does not know are not among them.
    pub fn usable(&self) -> &[usize] {
        &self.set.usable
    }

    /// The rules that conclude a relation, as places in [`rules`](Self::rules).
    pub fn concluding(&self, relation: RelationId) -> &[usize] {
        self.set.by_head.get(&relation).map_or(&[], Vec::as_slice)
    }

    /// The ways in which a rule, by its place, concludes a triple, as the model goes by it: rules it ranks with tell entities
    /// apart, rules that guide it do not.
    pub(crate) fn groundings(&self, rule: usize, triple: Triple, most: usize) -> Vec<Vec<Triple>> {
        let (graph, horn) = (self.engine.data().graph(), &self.rules()[rule].rule);
        // Most rules conclude another triple, so that nobody asks.
        let mut apart = None;
        ground_conclusion_where(graph, horn, triple, most, &mut |premises| {
            !*apart.get_or_insert_with(|| self.tells_apart(rule)) || horn.keeps_apart(triple, premises)
        })
    }

    /// Whether groundings of a rule count only where no entity stands for two variables.
    pub(crate) fn tells_apart(&self, rule: usize) -> bool {
        self.set.ranks_apart && RuleIndex::tells_apart(self.engine.data().graph(), &self.rules()[rule].rule)
    }

    /// Explains one triple: by all listed facts if it is not listed, and by train alone, as evaluation ranks it, if it is.
    pub fn explain(&self, triple: Triple, options: &ExplainOptions) -> Result<Explanation> {
        match self.engine.data().filter().contains(triple) {
            true => self.explain_here(triple, options),
            false => self.on_all_listed()?.explain_here(triple, options),
        }
    }

    fn explain_here(&self, triple: Triple, options: &ExplainOptions) -> Result<Explanation> {
        let started = Instant::now();
        let data = self.engine.data();
        let names = data.names();
        let ranker = self.engine.ranker();
        // φ is of the triple, as rules reckon with it; the score is of the question.
        let model_truth = self.engine.phi(triple.relation, self.engine.score(triple)?);
        let asked = RankQuery { triple, side: options.side };
        let mut score = [0.0];
        self.engine.scores_asked(&[asked], &mut score)?;
        let score = score[0];
        let queries = [Side::Tail, Side::Head].map(|side| RankQuery { triple, side });
        let model = match self.engine.model() {
            Some(model) => Some(ModelSays::of(&ranks(model, &queries, data.filter())?, data.entity_count())),
            None => None,
        };
        let ranks = ranks(ranker, &queries, data.filter())?;
        let known = ["train", "valid", "test"].into_iter().find(|split| match *split {
            "train" => data.graph().contains(triple),
            split => data.split(split).is_some_and(|triples| triples.contains(&triple)),
        });

        let fired = self.fire(triple);
        let weighed = self.weigh(&fired, model_truth)?;
        let mut setting = self.set.setting;
        setting.in_training &= known != Some("train");
        let trained_by_labels = self.set.setting.in_training && !fired.is_empty();
        let soft_label = trained_by_labels.then(|| weighed.soft_label(model_truth, setting));
        let parts = parts::parts(&self.engine, &asked, score)?;
        let fired = parts::by_share(fired, &parts, self);
        let weighed = if self.engine.combined().is_some() { self.weigh(&fired, model_truth)? } else { weighed };
        let (rules, groundings) = self.show(&fired, &weighed, options)?;
        let similar = match fired.is_empty() {
            true => similar::facts(&self.engine, triple, options.similar)?,
            false => Vec::new(),
        };
        let rules_for_relation = self.concluding(triple.relation).len();
        let estimate = self.engine.estimates(&[triple])?[0];
        let explanation = Explanation {
            fact: Fact::new(names, triple),
            labels: FactLabels::of(data, triple),
            truth: if known.is_some() { 1.0 } else { estimate },
            estimate,
            against: self.engine.against(triple),
            score,
            model_truth,
            rank: ranks[0].filtered.rank(Ties::Mean),
            head_rank: ranks[1].filtered.rank(Ties::Mean),
            entities: data.entity_count(),
            model,
            known: known.map(str::to_string),
            side: options.side,
            parts,
            rules_for_relation,
            rules,
            groundings,
            soft_label,
            similar,
            sentence: String::new(),
            seconds: 0.0,
        };
        let sentence = explanation.say(self.set.usable.len());
        Ok(Explanation { sentence, seconds: started.elapsed().as_secs_f64(), ..explanation })
    }

    /// The rules that fire for a triple, strongest first, with their groundings.
    fn fire(&self, triple: Triple) -> Vec<Fired> {
        let mut fired: Vec<Fired> = Vec::new();
        for &rule in self.concluding(triple.relation) {
            let mut groundings = self.groundings(rule, triple, MOST_GROUNDINGS);
            // The triple may not speak for itself.
            groundings.retain(|triples| !triples[..self.rules()[rule].rule.premise.len()].contains(&triple));
            if !groundings.is_empty() {
                fired.push(Fired { rule, groundings });
            }
        }
        fired.sort_by(|a, b| {
            let confidence = |fired: &Fired| self.rules()[fired.rule].confidence.get();
            confidence(b).total_cmp(&confidence(a)).then(b.groundings.len().cmp(&a.groundings.len()))
        });
        fired
    }

    fn weigh(&self, fired: &[Fired], conclusion: f32) -> Result<Weighed> {
        let all: Vec<Triple> = fired.iter().flat_map(|fired| fired.groundings.iter().flatten().copied()).collect();
        let mut scores = vec![0.0; all.len()];
        self.engine.scores(&all, &mut scores)?;
        let mut seen: FxHashSet<&[Triple]> = FxHashSet::default();
        let mut weighed = Weighed { scores, groundings: Vec::new() };
        let mut at = 0;
        for Fired { rule, groundings } in fired {
            let RuleRecord { rule, confidence, .. } = &self.rules()[*rule];
            for triples in groundings {
                let scores = &weighed.scores[at..at + triples.len()];
                let truths: Vec<f32> = scores
                    .iter()
                    .zip(triples)
                    .enumerate()
                    .map(|(place, (&score, triple))| {
                        let truth = self.engine.phi(triple.relation, score);
                        if place < rule.premise.len() { truth } else { 1.0 - truth }
                    })
                    .collect();
                weighed.groundings.push(WeighedGrounding {
                    start: at,
                    truth: self.set.setting.t_norm.conjunction(truths.iter().copied()),
                    confidence: confidence.get() as f32,
                    counts: seen.insert(triples),
                    push: 0.0,
                });
                at += triples.len();
            }
        }
        weighed.push(conclusion, self.set.setting);
        Ok(weighed)
    }

    /// What is shown of the rules that fire: a rule for all that say the same.
    fn show(
        &self,
        fired: &[Fired],
        weighed: &Weighed,
        options: &ExplainOptions,
    ) -> Result<(Vec<RuleEvidence>, Vec<GroundingEvidence>)> {
        let names = self.engine.data().names();
        let (mut rules, mut shown): (Vec<RuleEvidence>, Vec<GroundingEvidence>) = (Vec::new(), Vec::new());
        let mut by_group: FxHashMap<usize, usize> = FxHashMap::default();
        let mut by_premises: FxHashMap<Vec<Vec<Triple>>, usize> = FxHashMap::default();
        let mut first = 0;
        for Fired { rule, groundings } in fired {
            let weights = &weighed.groundings[first..first + groundings.len()];
            first += groundings.len();
            let record = &self.rules()[*rule];
            let horn = &record.rule;
            let (formula, confidence) = (words::formula(horn, names), record.mined_confidence());
            let push = weights.iter().map(|x| f64::from(x.push)).sum();
            let premises = premise_sets(groundings);
            let group = by_group.get(&self.set.groups[*rule]).or_else(|| by_premises.get(&premises)).copied();
            if let Some(group) = group {
                let evidence = RedundantRule { rule: formula, confidence, groundings: groundings.len(), push };
                rules[group].redundant.push(evidence);
                continue;
            }
            by_group.insert(self.set.groups[*rule], rules.len());
            by_premises.insert(premises, rules.len());
            for (triples, weight) in groundings.iter().zip(weights).take(options.groundings) {
                shown.push(GroundingEvidence {
                    rule: formula.clone(),
                    rule_index: rules.len(),
                    confidence,
                    premises: self.premises(horn, triples, &weighed.scores[weight.start..])?,
                    premise_truth: f64::from(weight.truth),
                    push: f64::from(weight.push),
                });
            }
            rules.push(RuleEvidence {
                words: words::told(horn, self.engine.data()),
                rule: formula,
                confidence,
                counts_as: record.other_confidence(),
                groundings: groundings.len(),
                at_least: groundings.len() >= MOST_GROUNDINGS,
                push,
                redundant: Vec::new(),
            });
        }
        Ok((rules, shown))
    }

    fn premises(&self, rule: &Rule, triples: &[Triple], scores: &[f32]) -> Result<Vec<Premise>> {
        let data = self.engine.data();
        let premise = |(place, (&triple, &score)): (usize, (&Triple, &f32))| {
            let known = data.filter().contains(triple);
            Ok(Premise {
                fact: Fact::new(data.names(), triple),
                negated: place >= rule.premise.len(),
                known,
                truth: if known { 1.0 } else { self.engine.estimates(&[triple])?[0] },
                model_truth: self.engine.phi(triple.relation, score),
            })
        };
        triples.iter().zip(scores).enumerate().map(premise).collect()
    }
}

/// Where answers stand. For a query or two it is quicker to look at all scores than to count by blocks.
fn ranks(ranker: &dyn Ranker, queries: &[RankQuery], known: &Filter) -> Result<Vec<Rank>> {
    let entities = ranker.entity_count();
    let mut scores = vec![0.0f32; queries.len() * entities];
    ranker.score_many(queries, &mut scores)?;
    Ok(queries.iter().zip(scores.chunks(entities.max(1))).map(|(query, row)| place(query, Some(known), row)).collect())
}

/// Whether a rule names only what the data know: others cannot fire, and have no names here.
fn is_usable(data: &Dataset, rule: &Rule) -> bool {
    let knows = |term: Term| match term {
        Term::Variable(_) => true,
        Term::Constant(entity) => entity.index() < data.entity_count(),
    };
    let known = |relation: RelationId| relation.index() < data.relation_count();
    rule.is_safe() && rule.atoms().all(|atom| known(atom.relation) && atom.terms().into_iter().all(knows))
}

/// What tells one rule's evidence from another's: the set of its premises, grounding by grounding, in any order.
fn premise_sets(groundings: &[Vec<Triple>]) -> Vec<Vec<Triple>> {
    let mut sets: Vec<Vec<Triple>> = groundings
        .iter()
        .map(|triples| {
            let mut set = triples.clone();
            set.sort_unstable();
            set
        })
        .collect();
    sets.sort_unstable();
    sets
}

impl Explanation {
    /// Rules that fire, redundant ones included.
    pub fn fired(&self) -> usize {
        self.rules.iter().map(|rule| 1 + rule.redundant.len()).sum()
    }

    /// Groundings of all rules that fire, shown or not.
    pub fn grounding_count(&self) -> usize {
        let of =
            |rule: &RuleEvidence| rule.groundings + rule.redundant.iter().map(|other| other.groundings).sum::<usize>();
        self.rules.iter().map(of).sum()
    }
}
