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
use ruge_kg::{Control, Dataset, EntityId, RankError, RankQuery, Ranker, RelationId, Side, Triple, visible};
use ruge_rules::RuleRecord;
use ruge_rules::rank::{Combined, Ranking, RuleScores, Setting, Weights};

use crate::assemble;
use crate::calibrate::Calibration;
use crate::complete::{CompleteOptions, Completion, complete};
use crate::constraints::{Constraints, Habits};
use crate::error::{Result, RugeError};
use crate::explain::{ExplainOptions, Explainer, Explanation, RuleSet};
use crate::model_file::{Contents, ModelFile};
use crate::names;
use crate::predict::{Answer, PredictOptions, Question};
use crate::similar::{Near, similar};
use crate::spec::{DeviceName, Spec};
use crate::truth::feedback::Feedback;
use crate::truth::{self, Completeness, CompletenessOf, Judgement, Observed, Truth, Witness};

/// A model opened for questions; see the [module](self).
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
    /// What a user adds to the model.
    said: Arc<Said>,
}

/// What a user says about the graph.
#[derive(Clone, Default)]
struct Said {
    completeness: Option<Completeness>,
    feedback: Option<Feedback>,
    constraints: Constraints,
}

struct Inner {
    spec: Spec,
    data: Dataset,
    rules: Arc<Vec<RuleRecord>>,
    notes: BTreeMap<String, String>,
    ranking: Option<Ranking>,
    weights: Option<Weights>,
    is_old: bool,
    calibration: Calibration,
    /// Truth of unlisted facts, fitted when first asked for if the file has none.
    truth: OnceLock<Option<Truth>>,
    /// Rules of a model that ranks without them, ready to be asked.
    rule_scores: OnceLock<RuleScores>,
    /// What the listed facts say about relations.
    habits: OnceLock<Habits>,
    /// The trained model; none where rules are all there is.
    model: Option<Arc<dyn Model>>,
    /// What ranks: the model, rules, or both.
    ranker: Arc<dyn Ranker>,
    /// The same, where rules or evidence count.
    combined: Option<Arc<Combined>>,
    /// The rules, ready to be asked about a triple.
    rule_set: OnceLock<Arc<RuleSet>>,
    /// The same model on a graph of all listed facts; see [`Engine::on_all_listed`].
    all_listed: OnceLock<Arc<Inner>>,
}

/// What an opened model is made from.
struct Pieces {
    spec: Spec,
    model: Option<Arc<dyn Model>>,
    data: Dataset,
    rules: Arc<Vec<RuleRecord>>,
    notes: BTreeMap<String, String>,
    calibration: Option<Calibration>,
    truth: OnceLock<Option<Truth>>,
    ranking: Option<Ranking>,
    weights: Option<Weights>,
    is_old: bool,
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
        let ModelFile { spec, embeddings, data, rules, notes, calibration, truth, ranking, weights, is_old } = file;
        let model: Option<Arc<dyn Model>> = match embeddings {
            Some(embeddings) => {
                let spec = Spec { device: options.device, ..spec.clone() };
                let mut model = assemble::trained(&spec, &data, embeddings)?;
                options.packing.into_iter().for_each(|bytes| model.limit_packing(bytes));
                Some(model.into())
            }
            None => None,
        };
        let truth = truth.map_or_else(OnceLock::new, |truth| OnceLock::from(Some(truth)));
        let rules = Arc::new(rules);
        let pieces = Pieces { spec, model, data, rules, notes, calibration, truth, ranking, weights, is_old };
        Ok(Self { inner: Arc::new(pieces.put_together()?), said: Arc::default() })
    }

    /// The same model on a graph of all listed facts. Facts that nobody has listed are asked about there: a second value is one
    /// whichever part of the data has the first, and rules may use every listed fact. Parameters, rules, weights and the fit of
    /// truth are shared. Evaluation does not use it.
    pub fn on_all_listed(&self) -> Result<Self> {
        let inner = &self.inner;
        let data = self.data();
        if data.valid().is_empty() && data.test().is_empty() {
            return Ok(self.clone());
        }
        let of_all = match inner.all_listed.get() {
            Some(made) => made,
            None => {
                let made = self.on(data.merged(), inner.model.clone())?.inner;
                inner.all_listed.get_or_init(|| made)
            }
        };
        Ok(Self { inner: Arc::clone(of_all), said: Arc::clone(&self.said) })
    }

    /// The same rules, weights, evidence and truth beside these data, of the same names, and this model.
    pub fn on(&self, data: Dataset, model: Option<Arc<dyn Model>>) -> Result<Self> {
        let inner = &self.inner;
        let pieces = Pieces {
            spec: inner.spec.clone(),
            model,
            data,
            rules: Arc::clone(&inner.rules),
            notes: inner.notes.clone(),
            calibration: Some(inner.calibration.clone()),
            truth: OnceLock::from(self.fitted_truth()?.cloned()),
            ranking: inner.ranking.clone(),
            weights: inner.weights.clone(),
            is_old: inner.is_old,
        };
        Ok(Self { inner: Arc::new(pieces.put_together()?), said: Arc::clone(&self.said) })
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
            truth: inner.truth.get().and_then(Option::as_ref),
            ranking: inner.ranking.as_ref(),
            weights: inner.weights.as_deref(),
        })
    }

    /// The entity of that name, short form or label, or an error that names the nearest ones.
    pub fn entity(&self, name: &str) -> Result<EntityId> {
        names::entity(self.data(), name)
    }

    /// The relation of that name, short form or label, or an error that names the nearest ones.
    pub fn relation(&self, name: &str) -> Result<RelationId> {
        names::relation(self.data(), name)
    }

    /// η of a triple, asked for its tail.
    pub fn score(&self, triple: Triple) -> Result<f32> {
        let mut score = [0.0];
        self.scores(&[triple], &mut score)?;
        Ok(score[0])
    }

    /// η of the answer to each question: the score that ranks it among the answers. Where a model scores the two directions differently,
    /// it depends on the end that is asked for.
    pub fn scores_asked(&self, queries: &[RankQuery], scores: &mut [f32]) -> Result<(), RankError> {
        let ranker = &self.inner.ranker;
        let (tails, heads): (Vec<usize>, Vec<usize>) =
            (0..queries.len()).partition(|&at| queries[at].side == Side::Tail);
        let triples: Vec<Triple> = tails.iter().map(|&at| queries[at].triple).collect();
        let asked: Vec<RankQuery> = heads.iter().map(|&at| queries[at]).collect();
        let (mut of_tails, mut of_heads) = (vec![0.0; tails.len()], vec![0.0; heads.len()]);
        ranker.score(&triples, &mut of_tails)?;
        ranker.score_answers(&asked, &mut of_heads)?;
        tails
            .into_iter()
            .zip(of_tails)
            .chain(heads.into_iter().zip(of_heads))
            .for_each(|(at, score)| scores[at] = score);
        Ok(())
    }

    /// η of each triple, asked for its tail.
    pub fn scores(&self, triples: &[Triple], scores: &mut [f32]) -> Result<(), RankError> {
        self.inner.ranker.score(triples, scores)
    }

    /// φ of a score, the truth that rules reckon with: σ(η + shift) where training was told to make it one. Softmax and ranking with rules
    /// only compare answers, any constant more or less would do, and there the share of listed answers says what a score is worth.
    pub fn phi(&self, relation: RelationId, score: f32) -> f32 {
        let spec = self.spec();
        let compares = spec.training.only_compares() || self.ranking().is_some_and(Ranking::uses_rules);
        if compares { self.listed_share(relation, score) as f32 } else { sigmoid(spec.shift() + score) }
    }

    /// The share of answers of such a score that are listed facts, among those that evaluation would show. Evaluation needs it; it
    /// is not the truth of an unlisted fact.
    pub fn listed_share(&self, relation: RelationId, score: f32) -> f64 {
        self.inner.calibration.truth(relation, score)
    }

    /// The chance that each triple is true: 1 for a listed fact, which is known, and an estimate for others.
    pub fn truths(&self, triples: &[Triple]) -> Result<Vec<f64>> {
        let mut truths = self.estimates(triples)?;
        let known = self.data().filter();
        for (truth, &triple) in truths.iter_mut().zip(triples) {
            if known.contains(triple) {
                *truth = 1.0;
            }
        }
        Ok(truths)
    }

    /// The chance that each triple would have if it were not listed. A triple of valid or test is judged by train alone: on a graph
    /// that has it, it would speak for itself.
    pub fn estimates(&self, triples: &[Triple]) -> Result<Vec<f64>> {
        let all = self.on_all_listed()?;
        let (known, graph) = (self.data().filter(), self.data().graph());
        let is_held_out = |triple: &Triple| known.contains(*triple) && !graph.contains(*triple);
        let (held_out, others): (Vec<usize>, Vec<usize>) =
            (0..triples.len()).partition(|&at| is_held_out(&triples[at]));
        let mut truths = vec![0.0; triples.len()];
        for (engine, places) in [(self, held_out), (&all, others)] {
            let asked: Vec<Triple> = places.iter().map(|&at| triples[at]).collect();
            let seen = engine.witness().observe(&asked)?;
            let found = engine.truths_of_seen(&asked, &seen)?;
            places.into_iter().zip(found).for_each(|(at, truth)| truths[at] = truth);
        }
        Ok(truths)
    }

    /// The same, by what was seen.
    pub(crate) fn truths_of_seen(&self, triples: &[Triple], seen: &[Observed]) -> Result<Vec<f64>> {
        let (fitted, said) = (self.fitted_truth()?, &*self.said);
        // Without anything to learn truth from, the model's own number stands in.
        let mut scores = vec![0.0; triples.len()];
        if fitted.is_none() {
            self.scores(triples, &mut scores)?;
        }
        let of = |((&triple, seen), score): ((&Triple, &Observed), f32)| {
            let truth = match fitted {
                Some(fitted) => fitted.of(triple.relation, seen, said.completeness.as_ref()),
                None => self.listed_share(triple.relation, score),
            };
            if said.constraints.forbid(self.data(), triple).is_some() {
                return 0.0;
            }
            said.feedback.as_ref().map_or(truth, |feedback| feedback.correct(triple, truth))
        };
        Ok(triples.iter().zip(seen).zip(scores).map(of).collect())
    }

    /// The order of candidates of equal truth.
    pub(crate) fn index(&self, relation: RelationId, seen: &Observed) -> f64 {
        match self.inner.truth.get() {
            Some(Some(truth)) => truth.index(relation, seen),
            _ => f64::from(seen.scores[0]) + f64::from(seen.rule_sum),
        }
    }

    /// How truth was fitted; nothing if there was no validation triple to learn from.
    pub fn fitted_truth(&self) -> Result<Option<&Truth>> {
        if let Some(truth) = self.inner.truth.get() {
            return Ok(truth.as_ref());
        }
        let fitted = Truth::fit(
            &Witness { listed: None, ..self.witness() },
            self.data(),
            self.spec().seed,
            &Control::default(),
        )?;
        Ok(self.inner.truth.get_or_init(|| fitted).as_ref())
    }

    /// The completeness of a relation, by which truth is reckoned; nothing where truth is not fitted.
    pub fn completeness(&self, relation: RelationId) -> Result<Option<CompletenessOf>> {
        let Some(truth) = self.fitted_truth()? else { return Ok(None) };
        let (estimate, sure, given) = truth.completeness_of_relation(relation, self.said.completeness.as_ref());
        let relation = self.data().names().relations.name(relation).to_string();
        Ok(Some(CompletenessOf { relation, estimate, sure, given }))
    }

    /// The completeness of every relation that has facts to learn from.
    pub fn completeness_by_relation(&self) -> Result<Vec<CompletenessOf>> {
        let graph = self.data().graph();
        let listed = graph.relations().filter(|&relation| !graph.facts(relation).is_empty());
        Ok(listed
            .map(|relation| self.completeness(relation))
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect())
    }

    /// What truth means and assumes, in a sentence or two.
    pub fn truth_assumes(&self) -> Result<String> {
        let mut text = match self.fitted_truth()? {
            Some(truth) => truth.assumes(self.said.completeness.as_ref()),
            None => {
                "Truth is the model's own number, and not calibrated: there are no validation triples to learn it from."
                    .into()
            }
        };
        if !self.said.constraints.is_empty() {
            text.push_str(" A fact that violates a given constraint has truth 0.");
        }
        if let Some(feedback) = self.said.feedback.as_ref().filter(|feedback| !feedback.is_empty()) {
            let facts = visible::plural(feedback.len(), "judged fact");
            text.push_str(&format!(" It is corrected by {} {facts}.", feedback.len()));
        }
        Ok(text)
    }

    /// Who is asked about triples.
    pub fn witness(&self) -> Witness<'_> {
        let inner = &*self.inner;
        let rules = match &inner.combined {
            Some(combined) => combined.rules(),
            // Made before it is put there: a thread of a pool that waits for tasks may be given one that asks for the same.
            None => match inner.rule_scores.get() {
                Some(made) => made,
                None => {
                    let made = truth::rule_scores(&inner.data, &inner.rules);
                    inner.rule_scores.get_or_init(|| made)
                }
            },
        };
        let model = inner.model.as_ref().map(|model| &**model as &dyn Ranker);
        Witness { ranker: &*inner.ranker, model, rules, graph: inner.data.graph(), listed: Some(inner.data.filter()) }
    }

    /// The same model, told how complete the graph is. Nothing is trained again.
    #[must_use]
    pub fn with_completeness(&self, completeness: Completeness) -> Self {
        let said = Said { completeness: Some(completeness), ..(*self.said).clone() };
        Self { inner: Arc::clone(&self.inner), said: Arc::new(said) }
    }

    /// The same model, corrected by facts that a person has judged.
    pub fn with_feedback(&self, judgements: &[Judgement]) -> Result<Self> {
        let before =
            Self { inner: Arc::clone(&self.inner), said: Arc::new(Said { feedback: None, ..(*self.said).clone() }) };
        let triples: Vec<Triple> = judgements.iter().map(|judgement| judgement.triple).collect();
        let feedback = Feedback::of(judgements, &before.estimates(&triples)?);
        let said = Said { feedback: Some(feedback), ..(*self.said).clone() };
        Ok(Self { inner: Arc::clone(&self.inner), said: Arc::new(said) })
    }

    /// The same model under constraints of a user: what violates one is not true.
    #[must_use]
    pub fn with_constraints(&self, constraints: Constraints) -> Self {
        let said = Said { constraints, ..(*self.said).clone() };
        Self { inner: Arc::clone(&self.inner), said: Arc::new(said) }
    }

    /// What a person said about a fact.
    pub fn judged(&self, triple: Triple) -> Option<bool> {
        self.said.feedback.as_ref().and_then(|feedback| feedback.judged(triple))
    }

    /// What speaks against a triple that is not listed: constraints it violates, habits of its relation that it breaks.
    pub fn against(&self, triple: Triple) -> Vec<String> {
        let data = self.data();
        let forbidden = self.said.constraints.forbid(data, triple);
        let habits = self.inner.habits.get_or_init(|| Habits::of(data.graph()));
        forbidden.into_iter().chain(habits.broken_by(data, triple)).collect()
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

impl Pieces {
    fn put_together(self) -> Result<Inner> {
        let Self { spec, model, data, rules, notes, calibration, truth, ranking, weights, is_old } = self;
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
        Ok(Inner {
            spec,
            data,
            rules,
            notes,
            ranking,
            weights,
            is_old,
            calibration,
            truth,
            rule_scores: OnceLock::new(),
            habits: OnceLock::new(),
            model,
            ranker,
            combined,
            rule_set: OnceLock::new(),
            all_listed: OnceLock::new(),
        })
    }
}
