//! A graph that a model has never seen: other entities, the same relations, known by name.

use ruge_kg::{Control, Dataset, EntityId, Names, RelationId};
use ruge_rules::rank::{Combined, RuleScores, Transfer};

use crate::calibrate::Calibration;
use crate::engine::{Engine, OpenOptions};
use crate::error::{Result, RugeError};
use crate::model_file::ModelFile;
use crate::spec::{ModelName, Spec};
use crate::truth::{Truth, Witness};

/// What does not hold on the other graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unseen {
    /// Rules that name an entity of the model's own graph; they are not used.
    pub constants: usize,
    /// Whether the model has vectors, which are not used either.
    pub vectors: bool,
    /// Facts of train, valid and test whose relation the model does not know; they are left out.
    pub unknown: [usize; 3],
}

impl Engine {
    /// The rules, weights and evidence of this model on a graph with entities of its own. Relations are matched by name. If vectors
    /// or rules are not used there, truth is fitted again without them, on the model's own validation triples.
    pub fn on_graph(&self, given: &Dataset) -> Result<(Engine, Unseen)> {
        let (own, weights) = (self.data(), self.contents()?.weights);
        let vectors = self.model().is_some();
        let Transfer { rules, weights, ranking, constants } =
            Transfer::of(self.rules(), weights, self.ranking(), vectors).ok_or_else(|| {
                RugeError::refused(
                    "the model has no rule that holds for other entities: it is an embedding, or all its rules name an entity\n  \
                     remedy: train rules (model.name rules, rules.mine inductive), or combine the model with rules",
                )
            })?;
        let (calibration, truth) = if vectors || constants > 0 {
            let scores = RuleScores::new(own.shared_graph(), &rules, ranking.smoothing, ranking.injective);
            let scores = scores.with_weights(weights.as_deref().unwrap_or_default());
            let ranker = Combined::new(None, scores.into(), &ranking);
            let (seed, control) = (self.spec().seed, Control::default());
            let witness =
                Witness { ranker: &ranker, model: None, rules: ranker.rules(), graph: own.graph(), listed: None };
            (Calibration::fit(&ranker, own, seed, &control)?, Truth::fit(&witness, own, seed, &control)?)
        } else {
            (None, self.fitted_truth()?.cloned())
        };
        // The graph takes the model's ids of relations: rules, settings, evidence and truths then hold as they are.
        let (ours, theirs) = (&own.names().relations, &given.names().relations);
        let names = Names { entities: given.names().entities.clone(), relations: ours.clone() };
        let relation = |id: RelationId| ours.id(theirs.name(id));
        let (data, unknown) = given.translated(names, |id: EntityId| Some(id), relation);
        let file = ModelFile {
            spec: Spec { seed: self.spec().seed, ..Spec::paper(ModelName::Rules, "none")? },
            embeddings: None,
            data,
            rules,
            notes: self.notes().clone(),
            calibration: Some(calibration.unwrap_or_else(|| self.calibration().clone())),
            truth,
            ranking: Some(ranking),
            weights,
            is_old: false,
        };
        Ok((Engine::of(file, &OpenOptions::default())?, Unseen { constants, vectors, unknown }))
    }
}
