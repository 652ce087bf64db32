//! New facts for a graph, without scoring everything: what rules conclude and what the model puts first.
//!
//! *Candidates* (see [`candidates`]) are answers of the model and of the rules to the questions that the graph suggests. Every
//! listed fact is known here, whichever part of the data it is in, and none is proposed. Neither is r(x, x) where r has no such
//! fact. *Truth* is that of [`truth`](crate::truth), as everywhere.

use rayon::prelude::*;
use ruge_kg::{Control, Filter, RankQuery, RelationId, Triple};
use ruge_rules::words;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use crate::calibrate::Reliability;
use crate::engine::Engine;
use crate::error::Result;
use crate::explain::{Explainer, Fact, FactLabels};
use crate::truth::{CompletenessOf, Estimate, Observed, Witness};

pub mod candidates;

use candidates::{gather, questions};

/// Rules told with a fact; beyond, their number.
const SHOWN_RULES: usize = 5;

/// Candidates kept in memory at most, of 40 bytes each; fewer are asked per query where there would be more.
pub const MOST_CANDIDATES: usize = 20_000_000;

/// What to propose.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CompleteOptions {
    /// Facts of this relation only.
    pub relation: Option<RelationId>,
    /// Answers taken from the model, and from the rules, for each question.
    pub per_query: usize,
    /// Leaves out what is less true.
    pub min_truth: f64,
    /// The most facts to propose; all where none is said.
    pub top: Option<usize>,
}

impl Default for CompleteOptions {
    fn default() -> Self {
        Self { relation: None, per_query: 10, min_truth: 0.0, top: Some(100) }
    }
}

/// A proposed fact.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Proposal {
    /// The fact.
    #[serde(flatten)]
    pub fact: Fact,
    /// What people call its parts.
    #[serde(flatten)]
    pub labels: FactLabels,
    /// The chance that it is true.
    pub truth: f64,
    /// The rules that conclude it, most confident first; at most five.
    pub rules: Vec<ProposalRule>,
    /// How many rules conclude it.
    pub rule_count: usize,
    /// What speaks against it.
    pub against: Vec<String>,
    /// η.
    pub score: f64,
}

/// A rule that concludes a proposed fact.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProposalRule {
    /// As a formula.
    pub rule: String,
    /// λ.
    pub confidence: f64,
}

/// A triple that is not listed and may be a fact.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Candidate {
    /// The triple.
    pub triple: Triple,
    /// What is seen of it.
    pub seen: Observed,
}

/// What was found, in falling truth; [`proposals`](Self::proposals) puts it into words.
pub struct Completion {
    explainer: Explainer,
    chosen: Vec<(f64, Candidate)>,
    /// How many candidates there were, known facts left out.
    pub candidates: usize,
    /// How many of them a rule concludes.
    pub from_rules: usize,
    /// Questions asked.
    pub queries: usize,
    /// Answers taken for each.
    pub per_query: usize,
    /// Estimated completeness; nothing where there was no validation triple to learn truth from.
    pub completeness: Option<Estimate>,
    /// The completeness of each relation, by which truth was reckoned.
    pub completeness_by_relation: Vec<CompletenessOf>,
    /// What truth assumes.
    pub assumes: String,
}

/// How far truths of candidates can be believed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// All candidates that are in neither train nor valid; a candidate is right if it is in test.
    pub all: Reliability,
    /// Those with a chance of at least 0.1: most candidates lie below, and make any mean look good.
    pub from_a_tenth: Reliability,
    /// Those with a chance of at least 0.5.
    pub from_a_half: Reliability,
    /// Test triples that are among the candidates.
    pub found: usize,
    /// Test triples in all, of the relations asked for.
    pub test: usize,
    /// What the numbers mean.
    pub sentence: String,
}

/// Candidates of the wanted relations.
struct Collected {
    wanted: Vec<Candidate>,
    queries: usize,
    per_query: usize,
}

/// Proposes new facts. The control hears of questions.
pub fn complete(explainer: &Explainer, options: &CompleteOptions, control: &Control<'_>) -> Result<Completion> {
    let explainer = &explainer.on_all_listed()?;
    let engine = explainer.engine();
    let Collected { wanted, queries, per_query } = collect(engine, options, engine.data().filter(), control)?;
    let candidates = wanted.len();
    let from_rules = wanted.iter().filter(|candidate| candidate.seen.rule_sum > 0.0).count();
    let triples: Vec<Triple> = wanted.iter().map(|candidate| candidate.triple).collect();
    let seen: Vec<Observed> = wanted.iter().map(|candidate| candidate.seen).collect();
    let truths = engine.truths_of_seen(&triples, &seen)?;
    let mut chosen: Vec<(f64, Candidate)> = truths
        .into_iter()
        .zip(wanted)
        .filter(|(truth, candidate)| *truth >= options.min_truth && engine.judged(candidate.triple).is_none())
        .collect();
    let index = |candidate: &Candidate| engine.index(candidate.triple.relation, &candidate.seen);
    chosen.sort_by(|(a, x), (b, y)| {
        b.total_cmp(a).then_with(|| index(y).total_cmp(&index(x))).then_with(|| x.triple.cmp(&y.triple))
    });
    chosen.truncate(options.top.unwrap_or(usize::MAX));
    let completeness = engine.fitted_truth()?.map(|truth| truth.completeness);
    let completeness_by_relation = engine.completeness_by_relation()?;
    let assumes = engine.truth_assumes()?;
    Ok(Completion {
        explainer: explainer.clone(),
        chosen,
        candidates,
        from_rules,
        queries,
        per_query,
        completeness,
        completeness_by_relation,
        assumes,
    })
}

/// Measures on test what fitting has not seen: the chance of a candidate to be a test triple.
pub fn measure(explainer: &Explainer, options: &CompleteOptions, control: &Control<'_>) -> Result<Measured> {
    let engine = explainer.engine();
    let data = engine.data();
    let Collected { wanted, .. } = collect(engine, options, data.choosing_filter(), control)?;
    let asked = |triple: &&Triple| options.relation.is_none_or(|relation| relation == triple.relation);
    let test: FxHashSet<Triple> = data.test().iter().filter(asked).copied().collect();
    let fitted = engine.fitted_truth()?;
    let chance = |candidate: &Candidate| match fitted {
        Some(truth) => truth.in_test(candidate.triple.relation, &candidate.seen),
        None => 0.0,
    };
    let answers: Vec<(f64, bool)> =
        wanted.iter().map(|candidate| (chance(candidate), test.contains(&candidate.triple))).collect();
    let above = |least: f64| Reliability::of(answers.iter().copied().filter(|(truth, _)| *truth >= least));
    Ok(Measured {
        all: Reliability::of(answers.iter().copied()),
        from_a_tenth: above(0.1),
        from_a_half: above(0.5),
        found: answers.iter().filter(|(_, fact)| *fact).count(),
        test: test.len(),
        sentence: "The number here is the chance that a candidate is a test triple; true facts that nobody listed count as wrong. \
                   Truth is reckoned from it."
            .into(),
    })
}

fn collect(engine: &Engine, options: &CompleteOptions, listed: &Filter, control: &Control<'_>) -> Result<Collected> {
    let graph = engine.data().graph();
    let asked: Vec<RankQuery> = match options.relation {
        None => graph.relations().flat_map(|relation| questions(graph, relation)).collect(),
        Some(relation) => questions(graph, relation),
    };
    let room = MOST_CANDIDATES / (2 * asked.len().max(1));
    let per_query = options.per_query.min(room).min(engine.data().entity_count()).max(1);
    let witness = Witness { listed: Some(listed), ..engine.witness() };
    let found = gather(&witness, &asked, per_query, listed, control)?;
    control.check()?;
    let seen = witness.observe(&found.triples)?;
    let wanted = found.triples.into_iter().zip(seen).map(|(triple, seen)| Candidate { triple, seen }).collect();
    Ok(Collected { wanted, queries: found.questions, per_query })
}

impl Completion {
    /// Number of proposed facts.
    pub fn len(&self) -> usize {
        self.chosen.len()
    }

    /// Whether nothing is proposed.
    pub fn is_empty(&self) -> bool {
        self.chosen.is_empty()
    }

    /// The proposed triples with their truth, in falling truth.
    pub fn triples(&self) -> impl Iterator<Item = (Triple, f64)> {
        self.chosen.iter().map(|(truth, candidate)| (candidate.triple, *truth))
    }

    /// Some of the proposed facts with their rules, in falling truth: long lists are told piece by piece.
    pub fn proposals(&self, range: std::ops::Range<usize>) -> Result<Vec<Proposal>> {
        let chosen = &self.chosen[range];
        let triples: Vec<Triple> = chosen.iter().map(|(_, candidate)| candidate.triple).collect();
        let mut scores = vec![0.0; triples.len()];
        self.explainer.engine().scores(&triples, &mut scores)?;
        let of = |((truth, candidate), score): (&(f64, Candidate), f32)| self.proposal(*truth, candidate, score);
        Ok(chosen.par_iter().zip(scores).map(of).collect())
    }

    fn proposal(&self, truth: f64, candidate: &Candidate, score: f32) -> Proposal {
        let engine = self.explainer.engine();
        let data = engine.data();
        let rule = |index: usize| &self.explainer.rules()[index];
        let mut rules: Vec<usize> = self.explainer.concluding(candidate.triple.relation).to_vec();
        rules.retain(|&index| !self.explainer.groundings(index, candidate.triple, 1).is_empty());
        rules.sort_by(|&a, &b| rule(b).mined_confidence().total_cmp(&rule(a).mined_confidence()));
        let told = |&index: &usize| {
            let rule = &self.explainer.rules()[index];
            ProposalRule { rule: words::formula(&rule.rule, data.names()), confidence: rule.mined_confidence() }
        };
        Proposal {
            fact: Fact::new(data.names(), candidate.triple),
            labels: FactLabels::of(data, candidate.triple),
            truth,
            rule_count: rules.len(),
            rules: rules.iter().take(SHOWN_RULES).map(told).collect(),
            against: engine.against(candidate.triple),
            score: f64::from(score),
        }
    }
}
