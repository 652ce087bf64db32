//! A model opened for questions.
//!
//! An [`Engine`] is what every edge asks: the command line, a service, another language. It is cheap to clone, any number of
//! threads may ask it at the same time, and all that questions share is prepared once: parameters, the graph's indexes, the packed
//! table of entities (with the first question that ranks), the rules. Questions are answered by [`Engine::predict`],
//! [`Engine::explain`], [`Engine::complete`], [`Engine::similar`] and [`Engine::with_facts`], whose values are plain data.
//!
//! ```no_run
//! use ruge::predict::{PredictOptions, Question};
//! use ruge::{Control, Engine};
//!
//! # fn main() -> ruge::Result<()> {
//! let engine = Engine::open("runs/demo".as_ref())?;
//! let question = Question::named(&engine, Some("Paris"), Some("located_in"), None)?;
//! let answers = engine.predict(&[question], &PredictOptions::default(), &Control::default())?;
//! for answer in &answers[0] {
//!     println!("{} {:.2}", answer.name, answer.truth);
//! }
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use ruge_embed::objective::truth as sigmoid;
use ruge_embed::{Embeddings, Model};
use ruge_kg::{Control, Dataset, EntityId, RankError, Ranker, RelationId, Triple};
use ruge_rules::RuleRecord;
use ruge_rules::rank::{Combined, Ranking, RuleScores, Setting, Weights};

use crate::assemble;
use crate::calibrate::Calibration;
use crate::complete::{CompleteOptions, Completion, complete};
use crate::error::{Result, RugeError};
use crate::explain::{ExplainOptions, Explainer, Explanation, RuleSet};
use crate::model_file::{Contents, ModelFile};
use crate::predict::{Answer, PredictOptions, Question};
use crate::similar::{Near, similar};
use crate::spec::{DeviceName, Spec};
use crate::suggest::nearest;

/// Relations named where none is near to what was typed.
const SHOWN: usize = 8;

/// A model opened for questions; see the [module](self).
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    spec: Spec,
    data: Dataset,
    rules: Vec<RuleRecord>,
    notes: BTreeMap<String, String>,
    ranking: Option<Ranking>,
    weights: Option<Weights>,
    is_old: bool,
    calibration: Calibration,
    /// The trained model; none where rules are all there is.
    model: Option<Arc<dyn Model>>,
    /// What ranks: the model, rules, or both.
    ranker: Arc<dyn Ranker>,
    /// The same, where rules or evidence count.
    combined: Option<Arc<Combined>>,
    /// The rules, ready to be asked about a triple.
    rule_set: OnceLock<Arc<RuleSet>>,
}

/// How a model is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// Where it computes.
    pub device: DeviceName,
    /// Bytes for the packed table of entities; larger tables are packed piece by piece, with every question.
    pub packing: Option<usize>,
}

impl Engine {
    /// Opens MODEL: a run folder or a model.safetensors.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, &OpenOptions::default())
    }

    /// The same, with choices.
    pub fn open_with(path: &Path, options: &OpenOptions) -> Result<Self> {
        let file = ModelFile::find(path);
        let read = ModelFile::read(&file)?;
        Self::of(read, options).map_err(|error| match error {
            RugeError::Embed(error) => RugeError::ModelFile {
                reason: format!("its tables do not fit its spec: {error}; train it again"),
                path: file,
            },
            other => other,
        })
    }

    /// From a file that was read.
    pub fn new(file: ModelFile) -> Result<Self> {
        Self::of(file, &OpenOptions::default())
    }

    /// The same, with choices.
    pub fn of(file: ModelFile, options: &OpenOptions) -> Result<Self> {
        let ModelFile { spec, embeddings, data, rules, notes, calibration, ranking, weights, is_old } = file;
        let model: Option<Arc<dyn Model>> = match embeddings {
            Some(embeddings) => {
                let spec = Spec { device: options.device, ..spec.clone() };
                let mut model = assemble::trained(&spec, &data, embeddings)?;
                options.packing.into_iter().for_each(|bytes| model.limit_packing(bytes));
                Some(model.into())
            }
            None => None,
        };
        let scores = |ranking: &Ranking| {
            let scores = RuleScores::new(data.shared_graph(), &rules, ranking.smoothing, ranking.injective);
            Arc::new(scores.with_weights(weights.as_deref().unwrap_or_default()))
        };
        let base = model.clone().map(|model| model as Arc<dyn Ranker>);
        let combined = match (&base, &ranking) {
            (Some(_), ranking) if !ranking.as_ref().is_some_and(Ranking::counts) => None,
            (_, ranking) => {
                let ranking = ranking.clone().unwrap_or_else(|| Ranking::of(Setting::ALONE));
                Some(Arc::new(Combined::new(base.clone(), scores(&ranking), &ranking)))
            }
        };
        let ranker: Arc<dyn Ranker> = match (&combined, base) {
            (None, Some(model)) => model,
            (combined, _) => {
                Arc::clone(combined.as_ref().expect("rules rank where there is no model")) as Arc<dyn Ranker>
            }
        };
        let calibration = match calibration {
            Some(calibration) => calibration,
            None => Calibration::fit(&*ranker, &data, spec.seed, &Control::default())?
                .unwrap_or_else(|| Calibration::plain(spec.shift())),
        };
        let rule_set = OnceLock::new();
        Ok(Self {
            inner: Arc::new(Inner {
                spec,
                data,
                rules,
                notes,
                ranking,
                weights,
                is_old,
                calibration,
                model,
                ranker,
                combined,
                rule_set,
            }),
        })
    }

    /// How the model was made.
    pub fn spec(&self) -> &Spec {
        &self.inner.spec
    }

    /// Names and known triples.
    pub fn data(&self) -> &Dataset {
        &self.inner.data
    }

    /// The rules that guided the model, or that it ranks with; they may name entities and relations that no triple has.
    pub fn rules(&self) -> &[RuleRecord] {
        &self.inner.rules
    }

    /// What training says about itself.
    pub fn notes(&self) -> &BTreeMap<String, String> {
        &self.inner.notes
    }

    /// How rules take part in ranking; most models rank without them.
    pub fn ranking(&self) -> Option<&Ranking> {
        self.inner.ranking.as_ref()
    }

    /// Scores to truth values.
    pub fn calibration(&self) -> &Calibration {
        &self.inner.calibration
    }

    /// Whether an earlier program wrote the file.
    pub fn is_old(&self) -> bool {
        self.inner.is_old
    }

    /// What ranks: the model, rules, or both.
    pub fn ranker(&self) -> &dyn Ranker {
        &*self.inner.ranker
    }

    /// What ranks, where rules or evidence count.
    pub fn combined(&self) -> Option<&Combined> {
        self.inner.combined.as_deref()
    }

    /// The trained model by itself, whatever rules it ranks with; none where rules are all there is.
    pub fn model(&self) -> Option<&dyn Model> {
        self.inner.model.as_deref()
    }

    /// The trained model by itself, shared.
    pub fn shared_model(&self) -> Option<Arc<dyn Model>> {
        self.inner.model.clone()
    }

    /// Θ; none where rules are all there is.
    pub fn embeddings(&self) -> Result<Option<&Embeddings>> {
        Ok(match &self.inner.model {
            Some(model) => Some(&model.state()?.embeddings),
            None => None,
        })
    }

    /// The rules that it ranks with, without the model; nothing where there are none, or where the file is of an earlier program.
    pub fn rules_alone(&self) -> Option<Combined> {
        let inner = &*self.inner;
        let ranking = inner.ranking.as_ref()?.alone.as_ref()?;
        let scores = RuleScores::new(inner.data.shared_graph(), &inner.rules, ranking.smoothing, ranking.injective);
        let scores = scores.with_weights(inner.weights.as_deref().unwrap_or_default());
        Some(Combined::new(None, Arc::new(scores), ranking))
    }

    /// What a model file of it holds.
    pub fn contents(&self) -> Result<Contents<'_>> {
        let inner = &*self.inner;
        Ok(Contents {
            spec: &inner.spec,
            embeddings: self.embeddings()?,
            data: &inner.data,
            rules: &inner.rules,
            notes: &inner.notes,
            calibration: Some(&inner.calibration),
            ranking: inner.ranking.as_ref(),
            weights: inner.weights.as_deref(),
        })
    }

    /// The entity of that name, or an error that names the nearest ones.
    pub fn entity(&self, name: &str) -> Result<EntityId> {
        let names = &self.data().names().entities;
        names.id(name).ok_or_else(|| unknown("entity", name, names.iter().map(|(_, name)| name)))
    }

    /// The relation of that name, or an error that names the nearest ones.
    pub fn relation(&self, name: &str) -> Result<RelationId> {
        let names = &self.data().names().relations;
        names.id(name).ok_or_else(|| match unknown("relation", name, names.iter().map(|(_, name)| name)) {
            // Relations are few, so that some of them help where none is near.
            RugeError::UnknownName { kind, name, nearest, .. } if nearest.is_empty() => {
                let some: Vec<String> = names.iter().take(SHOWN).map(|(_, name)| name.to_string()).collect();
                let more = names.len() - some.len();
                RugeError::UnknownName { kind, name, nearest, some, more }
            }
            error => error,
        })
    }

    /// η of a triple.
    pub fn score(&self, triple: Triple) -> Result<f32> {
        let mut score = [0.0];
        self.scores(&[triple], &mut score)?;
        Ok(score[0])
    }

    /// η of each triple.
    pub fn scores(&self, triples: &[Triple], scores: &mut [f32]) -> Result<(), RankError> {
        self.inner.ranker.score(triples, scores)
    }

    /// φ of a score, the truth that rules reckon with: σ(η + shift) where training was told to make it one. Softmax and ranking with rules
    /// only compare answers, any constant more or less would do, and there calibration says what a score is worth.
    pub fn phi(&self, relation: RelationId, score: f32) -> f32 {
        let spec = self.spec();
        let compares = spec.training.only_compares() || self.ranking().is_some_and(Ranking::uses_rules);
        if compares { self.truth(relation, score) as f32 } else { sigmoid(spec.shift() + score) }
    }

    /// The calibrated truth of a score under a relation.
    pub fn truth(&self, relation: RelationId, score: f32) -> f64 {
        self.inner.calibration.truth(relation, score)
    }

    /// The best answers to each question, best first.
    pub fn predict(
        &self,
        questions: &[Question],
        options: &PredictOptions,
        control: &Control<'_>,
    ) -> Result<Vec<Vec<Answer>>> {
        crate::predict::predict(self, questions, options, control)
    }

    /// Why a triple is held true: truth, rank, every rule that speaks for it.
    pub fn explain(&self, triple: Triple, options: &ExplainOptions) -> Result<Explanation> {
        Explainer::new(self).explain(triple, options)
    }

    /// New facts for the graph.
    pub fn complete(&self, options: &CompleteOptions, control: &Control<'_>) -> Result<Completion> {
        complete(&Explainer::new(self), options, control)
    }

    /// The `k` entities nearest to one, nearest first.
    pub fn similar(&self, entity: EntityId, k: usize) -> Result<Vec<Near>> {
        similar(self, entity, k)
    }

    /// The rules, ready to be asked about a triple; prepared with the first question.
    pub(crate) fn rule_set(&self) -> Arc<RuleSet> {
        Arc::clone(self.inner.rule_set.get_or_init(|| Arc::new(RuleSet::own(self))))
    }
}

pub(crate) fn unknown<'n>(kind: &'static str, name: &str, names: impl Iterator<Item = &'n str>) -> RugeError {
    let nearest = nearest(name, names, 3).into_iter().map(str::to_string).collect();
    RugeError::UnknownName { kind, name: name.to_string(), nearest, some: Vec::new(), more: 0 }
}
