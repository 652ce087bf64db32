//! New facts for a graph, without scoring everything: what rules conclude and what the model puts first.
//!
//! *Candidates* (see [`candidates`]) are generated from train alone: every conclusion of a rule, and for every (h, r) and
//! (r, t) that occurs in train the best few answers of the model; training facts are left out, and r(x, x) where train has no
//! such fact of r.
//!
//! *Truth* (see [`fit`]) is fitted on these candidates against valid, so it is a statement about candidates, not about
//! answers to questions that have one. It says: *of candidates like this one that stand in no other part of the data, such
//! a share were facts of the validation part*. Facts nobody listed count as wrong. Test triples are not looked at
//! when fitting; only how many there are is used, since some candidates that count as wrong are test facts. That holds
//! where valid and test are random parts of the same facts.
//!
//! *What is left out.* By default every fact of train, valid and test: a user who has listed a fact does not want it proposed.
//! To measure on test, only train and valid are left out, and truth is that of the test part.

use rayon::prelude::*;
use ruge_kg::{Control, RelationId, Triple};
use ruge_rules::words;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use crate::calibrate::Reliability;
use crate::engine::Engine;
use crate::error::Result;
use crate::explain::{Explainer, Fact};

pub mod candidates;
pub mod fit;

pub use candidates::Candidate;
pub use fit::CandidateTruth;

use candidates::Generator;

/// Rules told with a fact; beyond, their number.
const SHOWN_RULES: usize = 5;

/// Queries to the model behind a fit, where only one relation is asked for: its own, and others until there are so many.
const FIT_QUERIES: usize = 20_000;

/// Candidates kept in memory at most, of 32 bytes each; fewer are asked per query where there would be more.
pub const MOST_CANDIDATES: usize = 20_000_000;

/// What to propose.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CompleteOptions {
    /// Facts of this relation only.
    pub relation: Option<RelationId>,
    /// Answers taken from the model for each (h, r) and (r, t) that occurs.
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
    /// Its truth among candidates.
    pub truth: f64,
    /// The rules that conclude it, most confident first; at most five.
    pub rules: Vec<ProposalRule>,
    /// How many rules conclude it.
    pub rule_count: usize,
    /// η.
    pub score: f64,
    /// Its place among the model's answers to (h, r, ?), where it is among the first.
    pub tail_place: Option<usize>,
    /// Its place among the model's answers to (?, r, t), where it is among the first.
    pub head_place: Option<usize>,
}

/// A rule that concludes a proposed fact.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProposalRule {
    /// As a formula.
    pub rule: String,
    /// λ.
    pub confidence: f64,
}

/// What was found, in falling truth; [`proposals`](Self::proposals) puts it into words.
pub struct Completion {
    explainer: Explainer,
    chosen: Vec<(f64, Candidate)>,
    /// How many candidates there were, known facts left out.
    pub candidates: usize,
    /// How many of them a rule concludes.
    pub from_rules: usize,
    /// Questions the model was asked.
    pub queries: usize,
    /// Answers taken for each.
    pub per_query: usize,
    /// How truth was fitted; nothing where there are no validation triples among the candidates, and truth is the model's.
    pub fitted: Option<CandidateTruth>,
}

/// How far truths of candidates can be believed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// All candidates that are in neither train nor valid; a candidate is right if it is in test.
    pub all: Reliability,
    /// Those with a truth of at least 0.1: most candidates lie below, and make any mean look good.
    pub from_a_tenth: Reliability,
    /// Those with a truth of at least 0.5.
    pub from_a_half: Reliability,
    /// Test triples that are among the candidates.
    pub found: usize,
    /// Test triples in all, of the relations asked for.
    pub test: usize,
    /// What the numbers mean.
    pub sentence: String,
}

/// Candidates of the wanted relations with their truth still open.
struct Collected {
    wanted: Vec<Candidate>,
    fitted: Option<CandidateTruth>,
    queries: usize,
    per_query: usize,
}

/// Proposes new facts by the rules of an explainer. The control hears of queries.
pub fn complete(explainer: &Explainer, options: &CompleteOptions, control: &Control<'_>) -> Result<Completion> {
    let engine = explainer.engine();
    let data = engine.data();
    let Collected { wanted, fitted, queries, per_query } = collect(explainer, options, control)?;
    let known = data.filter();
    let mut chosen = Vec::new();
    let (mut candidates, mut from_rules) = (0, 0);
    for candidate in wanted.into_iter().filter(|candidate| !known.contains(candidate.triple)) {
        candidates += 1;
        from_rules += usize::from(candidate.rules > 0);
        let truth = truth(engine, fitted.as_ref(), &candidate, HeldOut::Valid);
        if truth >= options.min_truth {
            chosen.push((truth, candidate));
        }
    }
    let index = |candidate: &Candidate| fitted.as_ref().map_or(f64::from(candidate.score), |fit| fit.index(candidate));
    chosen.sort_by(|(a, x), (b, y)| {
        b.total_cmp(a).then_with(|| index(y).total_cmp(&index(x))).then_with(|| x.triple.cmp(&y.triple))
    });
    chosen.truncate(options.top.unwrap_or(usize::MAX));
    Ok(Completion { explainer: explainer.clone(), chosen, candidates, from_rules, queries, per_query, fitted })
}

/// Measures the truth of candidates on test, which fitting has not seen.
pub fn measure(explainer: &Explainer, options: &CompleteOptions, control: &Control<'_>) -> Result<Measured> {
    let engine = explainer.engine();
    let data = engine.data();
    let Collected { wanted, fitted, .. } = collect(explainer, options, control)?;
    let valid: FxHashSet<Triple> = data.valid().iter().copied().collect();
    let asked = |triple: &&Triple| options.relation.is_none_or(|relation| relation == triple.relation);
    let test: FxHashSet<Triple> = data.test().iter().filter(asked).copied().collect();
    let answers: Vec<(f64, bool)> = wanted
        .iter()
        .filter(|candidate| !valid.contains(&candidate.triple))
        .map(|candidate| (truth(engine, fitted.as_ref(), candidate, HeldOut::Test), test.contains(&candidate.triple)))
        .collect();
    let above = |least: f64| Reliability::of(answers.iter().copied().filter(|(truth, _)| *truth >= least));
    Ok(Measured {
        all: Reliability::of(answers.iter().copied()),
        from_a_tenth: above(0.1),
        from_a_half: above(0.5),
        found: answers.iter().filter(|(_, fact)| *fact).count(),
        test: test.len(),
        sentence: "A candidate counts as right if it is a test triple; true facts that nobody listed count as wrong."
            .into(),
    })
}

/// Which part of the data stands for what is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeldOut {
    Valid,
    Test,
}

fn truth(engine: &Engine, fitted: Option<&CandidateTruth>, candidate: &Candidate, part: HeldOut) -> f64 {
    match fitted {
        None => engine.truth(candidate.triple.relation, candidate.score),
        Some(fit) => match part {
            HeldOut::Valid => fit.truth(candidate, fit.valid_share),
            HeldOut::Test => fit.truth(candidate, 1.0 - fit.valid_share),
        },
    }
}

fn collect(explainer: &Explainer, options: &CompleteOptions, control: &Control<'_>) -> Result<Collected> {
    let engine = explainer.engine();
    let data = engine.data();
    let generator = Generator::new(explainer, options.per_query);
    let relations = match options.relation {
        None => data.graph().relations().collect(),
        Some(relation) => generator.sample(relation, FIT_QUERIES),
    };
    let (all, queries) = generator.generate(&relations, control)?;
    control.check()?;
    let fitted = CandidateTruth::fit(engine, &all);
    let wanted = match options.relation {
        None => all,
        Some(relation) => all.into_iter().filter(|candidate| candidate.triple.relation == relation).collect(),
    };
    Ok(Collected { wanted, fitted, queries, per_query: generator.per_query() })
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
    pub fn proposals(&self, range: std::ops::Range<usize>) -> Vec<Proposal> {
        self.chosen[range].par_iter().map(|(truth, candidate)| self.proposal(*truth, candidate)).collect()
    }

    fn proposal(&self, truth: f64, candidate: &Candidate) -> Proposal {
        let data = self.explainer.engine().data();
        let mut rules: Vec<usize> = Vec::new();
        if candidate.rules > 0 {
            rules.extend(self.explainer.concluding(candidate.triple.relation));
            let rule = |index: usize| &self.explainer.rules()[index];
            rules.retain(|&index| !self.explainer.groundings(index, candidate.triple, 1).is_empty());
            rules.sort_by(|&a, &b| rule(b).confidence.get().total_cmp(&rule(a).confidence.get()));
        }
        let told = |&index: &usize| {
            let rule = &self.explainer.rules()[index];
            ProposalRule { rule: words::formula(&rule.rule, data.names()), confidence: rule.confidence.get() }
        };
        let place = |place: u16| (usize::from(place) <= self.per_query).then_some(usize::from(place));
        Proposal {
            fact: Fact::new(data.names(), candidate.triple),
            truth,
            rule_count: rules.len(),
            rules: rules.iter().take(SHOWN_RULES).map(told).collect(),
            score: f64::from(candidate.score),
            tail_place: place(candidate.tail_place),
            head_place: place(candidate.head_place),
        }
    }
}
