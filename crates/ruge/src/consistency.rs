//! Does the model hold what its rules conclude? And which training triples do both find hard to believe?
//!
//! *Consistency.* A rule of confidence λ demands of each of its groundings that the conclusion be at least λ times as true as
//! the premises are together: φ(conclusion) ≥ λ·π(premises), π by the spec's t-norm. (The implication of Eq. (6) would demand
//! certainty of every conclusion of a hard rule, whatever is thought of its premises.) Looked at are the groundings of
//! training: all premises observed, the conclusion not. The share that meets the demand, with and without guidance, says
//! what the rules have taught.
//!
//! [`doubt`] holds the other half: training triples to clean up.

use ruge_embed::TNorm;
use ruge_kg::Control;
use ruge_kg::Triple;
use ruge_rules::{Groundings, Rule, RuleRecord, words};
use serde::{Deserialize, Serialize};

use crate::assemble;
use crate::engine::Engine;
use crate::error::{Result, RugeError};
use crate::explain::Explainer;
use crate::spec::GuidanceSpec;

pub mod doubt;

pub use doubt::{CRITERION, Doubtful, doubtful};

/// The definition, for people.
pub const DEFINITION: &str = "A rule of confidence λ is met if the model holds the conclusion of a grounding at least λ \
                              times as true as its premises together.";

/// How far a model agrees with its rules.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Consistency {
    /// What it means to agree.
    pub definition: String,
    /// Valid groundings of all rules.
    pub groundings: usize,
    /// The model asked about, over all groundings.
    pub model: Agreement,
    /// Its twin that was trained without rules, where there is one.
    pub unguided: Option<Agreement>,
    /// Rule by rule, in the order of the model's rules; rules without groundings are left out.
    pub rules: Vec<RuleConsistency>,
}

/// How far one model agrees with some groundings.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Agreement {
    /// Groundings whose conclusion is true enough.
    pub consistent: usize,
    /// Their share.
    pub share: f64,
    /// Mean φ of the conclusions, the model's own truth, which rules reckon with.
    #[serde(rename = "mean_model_truth", alias = "mean_truth")]
    pub mean_phi: f64,
    /// Mean of what was demanded.
    pub mean_demand: f64,
}

/// One rule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RuleConsistency {
    /// As a formula.
    pub rule: String,
    /// In words.
    pub words: String,
    /// λ.
    pub confidence: f64,
    /// Its valid groundings.
    pub groundings: usize,
    /// The model asked about.
    pub model: Agreement,
    /// Its twin without rules.
    pub unguided: Option<Agreement>,
}

/// Compares the model, and its twin without rules, with the explainer's rules.
pub fn consistency(explainer: &Explainer, unguided: Option<&Engine>, control: &Control<'_>) -> Result<Consistency> {
    let rules: Vec<Rule> = explainer.usable().iter().map(|&at| explainer.rules()[at].rule.clone()).collect();
    let groundings = assemble::groundings(explainer.engine().data(), &rules, control)?;
    consistency_over(&groundings, explainer, unguided, control)
}

/// The same where the explainer's usable rules are grounded already.
pub fn consistency_over(
    groundings: &Groundings,
    explainer: &Explainer,
    unguided: Option<&Engine>,
    control: &Control<'_>,
) -> Result<Consistency> {
    let engine = explainer.engine();
    let data = engine.data();
    if let Some(twin) = unguided
        && (twin.data().entity_count() != data.entity_count()
            || twin.data().relation_count() != data.relation_count()
            || twin.data().train() != data.train())
    {
        return Err(RugeError::refused(
            "the model without guidance was trained on other triples; give one of the same data",
        ));
    }
    let t_norm = match engine.spec().guidance() {
        GuidanceSpec::Ruge { t_norm, .. } => t_norm,
        _ => TNorm::Product,
    };
    let models = std::iter::once(engine).chain(unguided);
    let views: Vec<Vec<Weighed>> =
        models.map(|model| weigh(model, groundings, explainer, t_norm, control)).collect::<Result<_>>()?;
    let of = |view: &[Weighed], range: std::ops::Range<usize>| Agreement::of(&view[range]);
    let per_rule = |(index, &place): (usize, &usize)| {
        let RuleRecord { rule, confidence, .. } = &explainer.rules()[place];
        let range = groundings.of_rule(index);
        (!range.is_empty()).then(|| RuleConsistency {
            rule: words::formula(rule, data.names()),
            words: words::told(rule, data),
            confidence: confidence.get(),
            groundings: range.len(),
            model: of(&views[0], range.clone()),
            unguided: views.get(1).map(|view| of(view, range)),
        })
    };
    Ok(Consistency {
        definition: DEFINITION.into(),
        groundings: groundings.len(),
        model: Agreement::of(&views[0]),
        unguided: views.get(1).map(|view| Agreement::of(view)),
        rules: explainer.usable().iter().enumerate().filter_map(per_rule).collect(),
    })
}

/// What a model thinks of one grounding.
#[derive(Clone, Copy)]
struct Weighed {
    conclusion: f32,
    demand: f32,
}

fn weigh(
    engine: &Engine,
    groundings: &Groundings,
    explainer: &Explainer,
    t_norm: TNorm,
    control: &Control<'_>,
) -> Result<Vec<Weighed>> {
    let truths = |triples: &[Triple]| -> Result<Vec<f32>> {
        let mut scores = vec![0.0; triples.len()];
        engine.ranker().score(triples, &mut scores)?;
        scores.iter_mut().zip(triples).for_each(|(score, triple)| *score = engine.phi(triple.relation, *score));
        Ok(scores)
    };
    let conclusions = truths(groundings.unlabeled())?;
    let mut weighed = Vec::with_capacity(groundings.len());
    // In pieces: a premise list may be several times as long as the list of groundings.
    const PIECE: usize = 1 << 16;
    for from in (0..groundings.len()).step_by(PIECE) {
        control.check()?;
        let piece = from..groundings.len().min(from + PIECE);
        let all: Vec<Triple> =
            piece.clone().flat_map(|g| groundings.premises(g).iter().chain(groundings.negated(g)).copied()).collect();
        let premises = truths(&all)?;
        let mut at = 0;
        for grounding in piece {
            let (holds, fails) = (groundings.premises(grounding).len(), groundings.negated(grounding).len());
            let own = &premises[at..at + holds + fails];
            at += holds + fails;
            let each: Vec<f32> =
                own.iter().enumerate().map(|(place, &x)| if place < holds { x } else { 1.0 - x }).collect();
            let confidence = explainer.rules()[explainer.usable()[groundings.rule(grounding)]].confidence.get() as f32;
            weighed.push(Weighed {
                conclusion: conclusions[groundings.conclusion(grounding)],
                demand: confidence * t_norm.conjunction(each.into_iter()),
            });
        }
    }
    Ok(weighed)
}

impl Agreement {
    fn of(groundings: &[Weighed]) -> Self {
        let n = groundings.len().max(1) as f64;
        // Rounding may leave a hair between a truth and the same truth times 1.
        let consistent = groundings.iter().filter(|x| x.conclusion >= x.demand - 1e-6).count();
        Self {
            consistent,
            share: consistent as f64 / n,
            mean_phi: groundings.iter().map(|x| f64::from(x.conclusion)).sum::<f64>() / n,
            mean_demand: groundings.iter().map(|x| f64::from(x.demand)).sum::<f64>() / n,
        }
    }
}
