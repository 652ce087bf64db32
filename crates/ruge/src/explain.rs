//! Why does the model hold a triple true? Its truth and rank, and every rule that speaks for it.
//!
//! A rule speaks where its premises are training triples; what it adds is what guidance adds in training, Eq. (9): each
//! grounding pushes the soft label of its conclusion by C·λ·π, slackness times confidence times the truth of its premises
//! (other t-norms: by what the label grows when the grounding joins those with truer premises). All groundings of the triple are
//! taken together here; training deals them into batches and sees one or a few at a time.
//!
//! Rules that say the same (see [`alike`]) stand together: the strongest is shown, the others are counted. Where no rule speaks,
//! the most similar known facts stand in for evidence, and [`Explanation::sentence`] says that no rule does.
//!
//! Everything that is shared between explanations is prepared by [`Explainer::new`]; an explanation itself takes
//! milliseconds.

use std::time::Instant;

use ruge_embed::{Model, Place, RankQuery, Side, TNorm, Ties};
use ruge_kg::{Filter, Names, RelationId, Triple};
use ruge_rules::ground::ground_conclusion_where;
use ruge_rules::index::RuleIndex;
use ruge_rules::{Rule, SoftRule, Term, words};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::loaded::Loaded;
use crate::spec::GuidanceSpec;

pub mod alike;
pub mod drawing;
pub mod similar;
mod svg;

pub use similar::SimilarFact;

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

/// What is known and what speaks for a triple.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// The triple.
    #[serde(flatten)]
    pub fact: Fact,
    /// Its calibrated truth.
    pub truth: f64,
    /// η.
    pub score: f32,
    /// φ, the truth that guidance reckons with: σ(η + shift), or the calibrated truth where training only compared answers.
    pub model_truth: f32,
    /// Filtered rank of the tail among all entities, mean ties.
    pub rank: f64,
    /// Filtered rank of the head.
    pub head_rank: f64,
    /// Entities in all, what ranks are out of.
    pub entities: usize,
    /// `train`, `valid` or `test`, where the triple is a known fact.
    pub known: Option<String>,
    /// Rules that conclude this relation, whether they fire here or not.
    pub rules_for_relation: usize,
    /// The rules that fire, redundant ones together, the most confident first.
    pub rules: Vec<RuleEvidence>,
    /// Groundings shown: the first few of each rule in `rules`.
    pub groundings: Vec<GroundingEvidence>,
    /// What the rules make of the triple's soft label; nothing where no rule fires.
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
    /// λ.
    pub confidence: f64,
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
    /// λ.
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
    /// λ.
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
    /// Its calibrated truth.
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
}

impl Default for ExplainOptions {
    fn default() -> Self {
        Self { groundings: 3, similar: 5 }
    }
}

/// A model and its rules, ready to explain.
pub struct Explainer<'m> {
    loaded: &'m Loaded,
    rules: Vec<SoftRule>,
    by_head: FxHashMap<RelationId, Vec<usize>>,
    /// Rules with equal numbers say the same.
    alike: Vec<usize>,
    setting: Setting,
    /// Whether the model ranks with these rules, and they tell entities apart.
    ranks_apart: bool,
}

/// C, t-norm, and whether training used them with these rules.
#[derive(Clone, Copy)]
struct Setting {
    slackness: f32,
    t_norm: TNorm,
    in_training: bool,
}

impl<'m> Explainer<'m> {
    /// With the model's own rules.
    pub fn new(loaded: &'m Loaded) -> Self {
        Self::prepare(loaded, &loaded.rules, true)
    }

    /// With other rules, for a model that was trained without.
    pub fn with_rules(loaded: &'m Loaded, rules: &[SoftRule]) -> Self {
        Self::prepare(loaded, rules, false)
    }

    fn prepare(loaded: &'m Loaded, rules: &[SoftRule], own: bool) -> Self {
        let rules = usable(loaded, rules);
        let mut by_head: FxHashMap<RelationId, Vec<usize>> = FxHashMap::default();
        for (index, rule) in rules.iter().enumerate() {
            by_head.entry(rule.rule.head()).or_default().push(index);
        }
        let horn: Vec<&Rule> = rules.iter().map(|rule| &rule.rule).collect();
        let alike = alike::groups(loaded.file.data.graph(), &horn);
        // Built when first asked for; better now than within the first explanation.
        let _ = loaded.file.data.filter();
        let ranks_apart = own && loaded.file.ranking.as_ref().is_some_and(|ranking| ranking.injective);
        Self { loaded, by_head, alike, setting: Setting::of(loaded, own), ranks_apart, rules }
    }

    /// The rules that can fire; rules that name what the model does not know are not among them.
    pub fn rules(&self) -> &[SoftRule] {
        &self.rules
    }

    /// The rules that conclude a relation, as places in [`rules`](Self::rules).
    pub fn concluding(&self, relation: RelationId) -> &[usize] {
        self.by_head.get(&relation).map_or(&[], Vec::as_slice)
    }

    /// The ways in which a rule, by its place, concludes a triple, as the model goes by it: rules it ranks with tell entities
    /// apart, rules that guide it do not.
    pub(crate) fn groundings(&self, rule: usize, triple: Triple, most: usize) -> Vec<Vec<Triple>> {
        let (graph, horn) = (self.loaded.file.data.graph(), &self.rules[rule].rule);
        // Most rules conclude another triple, so that nobody asks.
        let mut apart = None;
        ground_conclusion_where(graph, horn, triple, most, &mut |premises| {
            !*apart.get_or_insert_with(|| self.tells_apart(rule)) || horn.keeps_apart(triple, premises)
        })
    }

    /// Whether groundings of a rule count only where no entity stands for two variables.
    pub(crate) fn tells_apart(&self, rule: usize) -> bool {
        self.ranks_apart && RuleIndex::tells_apart(self.loaded.file.data.graph(), &self.rules[rule].rule)
    }

    /// Explains one triple.
    pub fn explain(&self, triple: Triple, options: &ExplainOptions) -> Result<Explanation> {
        let started = Instant::now();
        let data = &self.loaded.file.data;
        let names = data.names();
        let model = &*self.loaded.model;
        let score = self.loaded.score(triple)?;
        let model_truth = self.loaded.phi(triple.relation, score);
        let place = |side| place(model, RankQuery { triple, side }, data.filter());
        let (tail, head) = rayon::join(|| place(Side::Tail), || place(Side::Head));
        let known = ["train", "valid", "test"].into_iter().find(|split| match *split {
            "train" => data.graph().contains(triple),
            split => data.split(split).is_some_and(|triples| triples.contains(&triple)),
        });

        let fired = self.fire(triple);
        let weighed = self.weigh(&fired, model_truth)?;
        let mut setting = self.setting;
        setting.in_training &= known != Some("train");
        let soft_label = (!fired.is_empty()).then(|| weighed.soft_label(model_truth, setting));
        let (rules, groundings) = self.show(&fired, &weighed, options);
        let similar = match fired.is_empty() {
            true => similar::facts(self.loaded, triple, options.similar)?,
            false => Vec::new(),
        };
        let rules_for_relation = self.concluding(triple.relation).len();
        let explanation = Explanation {
            fact: Fact::new(names, triple),
            truth: self.loaded.truth(triple.relation, score),
            score,
            model_truth,
            rank: tail?.rank(Ties::Mean),
            head_rank: head?.rank(Ties::Mean),
            entities: data.entity_count(),
            known: known.map(str::to_string),
            rules_for_relation,
            rules,
            groundings,
            soft_label,
            similar,
            sentence: String::new(),
            seconds: 0.0,
        };
        let sentence = explanation.say(self.rules.len());
        Ok(Explanation { sentence, seconds: started.elapsed().as_secs_f64(), ..explanation })
    }

    /// The rules that fire for a triple, strongest first, with their groundings.
    fn fire(&self, triple: Triple) -> Vec<Fired> {
        let mut fired: Vec<Fired> = Vec::new();
        for &rule in self.concluding(triple.relation) {
            let mut groundings = self.groundings(rule, triple, MOST_GROUNDINGS);
            // The triple may not speak for itself.
            groundings.retain(|triples| !triples[..self.rules[rule].rule.premise.len()].contains(&triple));
            if !groundings.is_empty() {
                fired.push(Fired { rule, groundings });
            }
        }
        fired.sort_by(|a, b| {
            let confidence = |fired: &Fired| self.rules[fired.rule].confidence.get();
            confidence(b).total_cmp(&confidence(a)).then(b.groundings.len().cmp(&a.groundings.len()))
        });
        fired
    }

    /// Truths of all premises, and the push of every grounding.
    fn weigh(&self, fired: &[Fired], conclusion: f32) -> Result<Weighed> {
        let all: Vec<Triple> = fired.iter().flat_map(|fired| fired.groundings.iter().flatten().copied()).collect();
        let mut scores = vec![0.0; all.len()];
        self.loaded.model.score(&all, &mut scores)?;
        let mut seen: FxHashSet<&[Triple]> = FxHashSet::default();
        let mut weighed = Weighed { scores, groundings: Vec::new() };
        let mut at = 0;
        for Fired { rule, groundings } in fired {
            let SoftRule { rule, confidence } = &self.rules[*rule];
            for triples in groundings {
                let scores = &weighed.scores[at..at + triples.len()];
                let truths: Vec<f32> = scores
                    .iter()
                    .zip(triples)
                    .enumerate()
                    .map(|(place, (&score, triple))| {
                        let truth = self.loaded.phi(triple.relation, score);
                        if place < rule.premise.len() { truth } else { 1.0 - truth }
                    })
                    .collect();
                weighed.groundings.push(WeighedGrounding {
                    start: at,
                    truth: self.setting.t_norm.conjunction(truths.iter().copied()),
                    confidence: confidence.get() as f32,
                    counts: seen.insert(triples),
                    push: 0.0,
                });
                at += triples.len();
            }
        }
        weighed.push(conclusion, self.setting);
        Ok(weighed)
    }

    /// What is shown of the rules that fire: a rule for all that say the same.
    fn show(
        &self,
        fired: &[Fired],
        weighed: &Weighed,
        options: &ExplainOptions,
    ) -> (Vec<RuleEvidence>, Vec<GroundingEvidence>) {
        let names = self.loaded.file.data.names();
        let (mut rules, mut shown): (Vec<RuleEvidence>, Vec<GroundingEvidence>) = (Vec::new(), Vec::new());
        let mut by_group: FxHashMap<usize, usize> = FxHashMap::default();
        let mut by_premises: FxHashMap<Vec<Vec<Triple>>, usize> = FxHashMap::default();
        let mut first = 0;
        for Fired { rule, groundings } in fired {
            let weights = &weighed.groundings[first..first + groundings.len()];
            first += groundings.len();
            let SoftRule { rule: horn, confidence } = &self.rules[*rule];
            let (formula, confidence) = (words::formula(horn, names), confidence.get());
            let push = weights.iter().map(|x| f64::from(x.push)).sum();
            let premises = premise_sets(groundings);
            let group = by_group.get(&self.alike[*rule]).or_else(|| by_premises.get(&premises)).copied();
            if let Some(group) = group {
                let evidence = RedundantRule { rule: formula, confidence, groundings: groundings.len(), push };
                rules[group].redundant.push(evidence);
                continue;
            }
            by_group.insert(self.alike[*rule], rules.len());
            by_premises.insert(premises, rules.len());
            for (triples, weight) in groundings.iter().zip(weights).take(options.groundings) {
                shown.push(GroundingEvidence {
                    rule: formula.clone(),
                    rule_index: rules.len(),
                    confidence,
                    premises: self.premises(horn, triples, &weighed.scores[weight.start..]),
                    premise_truth: f64::from(weight.truth),
                    push: f64::from(weight.push),
                });
            }
            rules.push(RuleEvidence {
                words: words::sentence(horn, names),
                rule: formula,
                confidence,
                groundings: groundings.len(),
                at_least: groundings.len() >= MOST_GROUNDINGS,
                push,
                redundant: Vec::new(),
            });
        }
        (rules, shown)
    }

    fn premises(&self, rule: &Rule, triples: &[Triple], scores: &[f32]) -> Vec<Premise> {
        let premise = |(place, (&triple, &score)): (usize, (&Triple, &f32))| Premise {
            fact: Fact::new(self.loaded.file.data.names(), triple),
            negated: place >= rule.premise.len(),
            truth: self.loaded.truth(triple.relation, score),
            model_truth: self.loaded.phi(triple.relation, score),
        };
        triples.iter().zip(scores).enumerate().map(premise).collect()
    }
}

/// The filtered place of one answer. Ranking packs all entities for many queries; for a single one it is quicker to score
/// them as they lie.
fn place(model: &dyn Model, query: RankQuery, known: &Filter) -> Result<Place> {
    let mut scores = vec![0.0f32; model.state()?.embeddings.entities.rows()];
    model.score_all(query, &mut scores)?;
    // NaN counts as below every number.
    let value = |score: f32| if score.is_nan() { f32::NEG_INFINITY } else { score };
    let answer = query.answer();
    let own = value(scores[answer.index()]);
    let mut place = Place { better: 0, equal: 0, others: 0 };
    let hidden = match query.side {
        Side::Head => known.heads(query.triple.relation, query.triple.tail),
        Side::Tail => known.tails(query.triple.head, query.triple.relation),
    };
    let mut hidden = hidden.iter().map(|entity| entity.index()).filter(|&entity| entity != answer.index()).peekable();
    for (entity, &score) in scores.iter().enumerate() {
        if hidden.next_if_eq(&entity).is_some() || entity == answer.index() {
            continue;
        }
        place.others += 1;
        place.better += u32::from(value(score) > own);
        place.equal += u32::from(value(score) == own);
    }
    Ok(place)
}

/// Rules that name only what the model knows: others cannot fire, and have no names here.
pub fn usable(loaded: &Loaded, rules: &[SoftRule]) -> Vec<SoftRule> {
    let data = &loaded.file.data;
    let knows = |term: Term| match term {
        Term::Variable(_) => true,
        Term::Constant(entity) => entity.index() < data.entity_count(),
    };
    let known = |rule: &&SoftRule| {
        rule.rule.is_safe()
            && rule
                .rule
                .atoms()
                .all(|atom| atom.relation.index() < data.relation_count() && atom.terms().into_iter().all(knows))
    };
    rules.iter().filter(known).cloned().collect()
}

impl Setting {
    fn of(loaded: &Loaded, own: bool) -> Self {
        match loaded.file.spec.guidance {
            // Rules that a model ranks with came after its training.
            GuidanceSpec::Ruge { slackness, t_norm, .. } => {
                Self { slackness, t_norm, in_training: own && loaded.file.ranking.is_none() }
            }
            // The paper's.
            _ => Self { slackness: 0.01, t_norm: TNorm::Product, in_training: false },
        }
    }
}

struct Fired {
    rule: usize,
    /// Premises, then negated premises, of each.
    groundings: Vec<Vec<Triple>>,
}

struct Weighed {
    /// η of all premises, one grounding after the other.
    scores: Vec<f32>,
    groundings: Vec<WeighedGrounding>,
}

struct WeighedGrounding {
    /// Where its premises begin in `scores`.
    start: usize,
    /// π of the premises.
    truth: f32,
    confidence: f32,
    /// False where another rule gave the same premises before.
    counts: bool,
    push: f32,
}

impl Weighed {
    /// (π, λ) of what counts, by falling truth, as `soft_label` takes them, and the places they came from.
    fn supports(&self) -> (Vec<(f32, f32)>, Vec<usize>) {
        let mut places: Vec<usize> = (0..self.groundings.len()).filter(|&at| self.groundings[at].counts).collect();
        places.sort_by(|&a, &b| self.groundings[b].truth.total_cmp(&self.groundings[a].truth));
        let pair = |&at: &usize| (self.groundings[at].truth, self.groundings[at].confidence);
        (places.iter().map(pair).collect(), places)
    }

    fn push(&mut self, conclusion: f32, setting: Setting) {
        let (supports, places) = self.supports();
        let mut label = conclusion;
        for (count, &at) in places.iter().enumerate() {
            let (truth, confidence) = supports[count];
            let push = match setting.t_norm {
                TNorm::Product => setting.slackness * confidence * truth,
                TNorm::Lukasiewicz | TNorm::Godel => {
                    let next = setting.t_norm.soft_label(conclusion, &supports[..=count], setting.slackness);
                    next - std::mem::replace(&mut label, next)
                }
            };
            self.groundings[at].push = push;
        }
    }

    fn soft_label(&self, before: f32, setting: Setting) -> SoftLabel {
        let (supports, _) = self.supports();
        let Setting { slackness, t_norm, in_training } = setting;
        let after = t_norm.soft_label(before, &supports, slackness);
        SoftLabel { before, after, slackness, t_norm, groundings: supports.len(), clipped: after >= 1.0, in_training }
    }
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

    fn say(&self, all_rules: usize) -> String {
        let fired = self.fired();
        let relation = &self.fact.relation;
        if fired > 0 {
            let verb = if fired == 1 { "1 rule concludes" } else { &format!("{fired} rules conclude") };
            return format!("{verb} it.");
        }
        let why = match (all_rules, self.rules_for_relation) {
            (0, _) => "the model has no rules; give some with --rules".to_string(),
            (_, 0) => format!("none of the {all_rules} rules concludes {relation}"),
            (_, 1) => format!("the premises of the one rule that concludes {relation} are not in train"),
            (_, n) => format!("the premises of the {n} rules that conclude {relation} are not in train"),
        };
        let instead = match self.similar.is_empty() {
            true => "No other fact of the relation is known.",
            false => "The model's belief rests on its vectors alone; the most similar known facts are listed instead.",
        };
        format!("No rule concludes it: {why}. {instead}")
    }
}
