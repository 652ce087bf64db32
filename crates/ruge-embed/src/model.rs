//! Θ and its training: a scoring function with its rows, on the CPU.
//!
//! [`CpuModel::train`] is Algorithm 1, lines 3 to 5, for one batch: soft labels from the parameters at the start of the
//! batch, then τ steps on labeled and unlabeled triples together. A step is two passes, `pass` and `update`, without
//! shared sums, so its bits are the same on any number of threads.

mod state;

use rayon::prelude::*;
use ruge_kg::{Cancelled, Control, Filter, Rank, RankError, RankQuery, Ranker, Scored, Side, TopOptions, Triple};

use crate::batch::Batch;
use crate::cpu::Isa;
use crate::embeddings::Embeddings;
use crate::error::{EmbedError, Result};
use crate::evidence::Guidance;
use crate::fuzzy::TNorm;
use crate::guidance::{self, Supports};
use crate::incidence::PARTS;
use crate::objective::{Penalty, Pull, truth, truth_scale};
use crate::optimizer::{Cap, Move, Optimizer, Projection};
use crate::pass::{Aims, Pass, Places, Scores};
use crate::plan::{EpochOrder, Plan};
use crate::rank::{Candidates, Packing};
use crate::scoring::{
    Comparator, ComplEx, DistMult, HolE, Reciprocal, RotatE, ScoringFunction, TransEL1, TransEL2, entity_parameters,
    relation_parameters,
};
use crate::softmax::{Questions, Softmax, step};
use crate::table::Table;
use crate::update::{EntitySources, Kind, Normalise, Owner, RelationSources, Rows, Sources, transform_of};
use state::check_tables;
pub use state::{State, check_shapes};

/// Losses of an epoch or a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    /// Mean loss over labeled triples, without penalty.
    pub labeled: f64,
    /// Mean loss over unlabeled triples.
    pub unlabeled: f64,
}

/// What training needs from a model, independent of scoring function and device; answering queries is [`Ranker`].
pub trait Model: Ranker {
    /// One epoch of Algorithm 1; epochs count from 1. After an error, including cancellation, the parameters are
    /// invalid until a state is restored.
    fn epoch(&mut self, plan: &Plan<'_>, epoch: u64) -> Result<Losses>;
    /// Parameters and all other state needed to resume.
    fn state(&self) -> Result<&State>;
    /// Restores a stored state.
    fn restore(&mut self, state: State) -> Result<()>;
    /// Takes these parameters and keeps all other state, for a model that goes back to its best epoch.
    fn set_embeddings(&mut self, embeddings: Embeddings) -> Result<()> {
        let State { moments, steps, .. } = self.state()?;
        let state = State { embeddings, moments: moments.clone(), steps: *steps };
        self.restore(state)
    }
    /// Maximum bytes for a packed copy of the entities, if ranking uses one.
    fn limit_packing(&mut self, _bytes: usize) {}
}

/// A model on the CPU.
pub struct CpuModel<F> {
    scoring: F,
    optimizer: Optimizer,
    state: State,
    /// Rows as scored, if that basis differs from the parameters'.
    images: Option<Embeddings>,
    packing: Packing,
    work: Work,
    isa: Isa,
}

struct Work {
    slots: Table,
    partials: Table,
    d_scores: Vec<f32>,
    losses: Vec<[f64; 2]>,
    premise_scores: Vec<f32>,
    unlabeled_scores: Vec<f32>,
    aims: Vec<f32>,
    supports: Supports,
    batches: [Batch; 2],
    softmax: step::Buffers,
}

impl<F: ScoringFunction> CpuModel<F> {
    /// A model before its first step.
    pub fn new(scoring: F, embeddings: Embeddings, optimizer: Optimizer) -> Self {
        let zeros = |table: &Table| Table::zeros(table.rows(), table.width());
        let moment = || Embeddings { entities: zeros(&embeddings.entities), relations: zeros(&embeddings.relations) };
        let moments = (0..optimizer.state_tables()).map(|_| moment()).collect();
        let work = Work {
            slots: Table::zeros(0, scoring.entity_width()),
            partials: Table::zeros(0, scoring.relation_width()),
            d_scores: Vec::new(),
            losses: Vec::new(),
            premise_scores: Vec::new(),
            unlabeled_scores: Vec::new(),
            aims: Vec::new(),
            supports: Supports::default(),
            batches: Default::default(),
            softmax: step::Buffers::default(),
        };
        let state = State { embeddings, moments, steps: 0 };
        let mut model =
            Self { scoring, optimizer, state, images: None, packing: Packing::default(), work, isa: Isa::detect() };
        model.refresh_images();
        model
    }

    /// The same model on a given instruction set; results are the same.
    pub fn with_isa(mut self, isa: Isa) -> Self {
        self.isa = isa;
        self
    }

    /// η.
    pub fn scoring(&self) -> &F {
        &self.scoring
    }

    /// Rows as scored.
    pub fn scored_rows(&self) -> &Embeddings {
        self.images.as_ref().unwrap_or(&self.state.embeddings)
    }

    /// Parameters and all other state needed to resume.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// η of each triple.
    pub fn score(&self, triples: &[Triple], scores: &mut [f32]) {
        self.score_side(triples, Side::Tail, scores);
    }

    fn score_side(&self, triples: &[Triple], side: Side, scores: &mut [f32]) {
        assert_eq!(triples.len(), scores.len(), "one score per triple");
        let Embeddings { entities, relations } = self.scored_rows();
        triples.par_chunks(64).zip(scores.par_chunks_mut(64)).for_each(|(triples, scores)| {
            self.isa.run(Scores { scoring: &self.scoring, entities, relations, triples, side, scores });
        });
    }

    fn candidates(&self) -> Candidates<'_, F> {
        let Embeddings { entities, relations } = self.scored_rows();
        Candidates { scoring: &self.scoring, entities, relations, packing: &self.packing, isa: self.isa }
    }

    /// Size in bytes: parameters, optimiser state, images, packed entities and buffers.
    pub fn bytes(&self) -> usize {
        let rows = self.state.embeddings.bytes() + self.state.moments.iter().map(Embeddings::bytes).sum::<usize>();
        rows + self.images.as_ref().map_or(0, Embeddings::bytes)
            + self.packing.bytes()
            + self.work.slots.bytes()
            + self.work.partials.bytes()
            + 4 * self.work.d_scores.capacity()
    }

    /// Trains on one batch: soft labels, then τ steps.
    pub fn train(&mut self, plan: &Plan<'_>, batch: &Batch) -> Losses {
        if plan.projection == Projection::UnitEntitiesBeforeBatch {
            normalise(&mut self.state.embeddings.entities, self.isa);
            self.refresh_images();
        }
        let mut aims = std::mem::take(&mut self.work.aims);
        aims.clear();
        if let Guidance::SoftLabels { slackness, t_norm } = plan.guidance {
            self.weigh_evidence(plan, batch, t_norm);
            // With a single step the labels are computed along with the scores; with more steps they must be held.
            if plan.inner_steps > 1 {
                self.soft_labels(plan, batch, t_norm, slackness, &mut aims);
            }
        }
        if plan.guidance == Guidance::FixedLabels {
            aims.resize(batch.unlabeled.len(), 0.0);
            for (grounding, &place) in batch.places.iter().enumerate() {
                let label = &mut aims[place as usize];
                *label = label.max(batch.evidence.confidence(grounding));
            }
        }
        let mut losses = Losses::default();
        for _ in 0..plan.inner_steps {
            if let Guidance::Injection { weight, margin } = plan.guidance {
                self.injection(batch, weight, margin, &mut aims);
            }
            losses = self.step(plan, batch, &aims);
            if plan.projection == Projection::UnitRowsAfterStep {
                normalise(&mut self.state.embeddings.entities, self.isa);
                normalise(&mut self.state.embeddings.relations, self.isa);
                self.refresh_images();
            }
        }
        self.work.aims = aims;
        losses
    }

    /// The truth of all premises under the current parameters, grouped by conclusion.
    fn weigh_evidence(&mut self, plan: &Plan<'_>, batch: &Batch, t_norm: TNorm) {
        let mut premises = std::mem::take(&mut self.work.premise_scores);
        premises.resize(batch.evidence.all_premises().len(), 0.0);
        self.score(batch.evidence.all_premises(), &mut premises);
        premises.iter_mut().for_each(|score| *score = truth(plan.objective.shift + *score));
        self.work.supports.weigh(batch, t_norm, &premises);
        self.work.premise_scores = premises;
    }

    /// Eq. (9): soft labels of the batch's distinct conclusions, from the current parameters.
    fn soft_labels(&self, plan: &Plan<'_>, batch: &Batch, t_norm: TNorm, slackness: f32, labels: &mut Vec<f32>) {
        labels.resize(batch.unlabeled.len(), 0.0);
        self.score(&batch.unlabeled, labels);
        for (place, label) in labels.iter_mut().enumerate() {
            let truth = truth(plan.objective.shift + *label);
            *label = t_norm.soft_label(truth, self.work.supports.of(place), slackness);
        }
    }

    /// KALE's pull on every atom of the batch's groundings, from the current parameters.
    fn injection(&mut self, batch: &Batch, weight: f32, margin: f32, d_scores: &mut Vec<f32>) {
        let mut truths = std::mem::take(&mut self.work.unlabeled_scores);
        truths.resize(batch.unlabeled.len(), 0.0);
        self.score(&batch.unlabeled, &mut truths);
        let scale = truth_scale(self.scoring.dimension());
        truths.iter_mut().for_each(|score| *score = scale.mul_add(*score, 1.0));
        guidance::inject(batch, &truths, weight * scale, margin, d_scores);
        self.work.unlabeled_scores = truths;
    }

    /// One gradient step on labeled and unlabeled triples together.
    fn step(&mut self, plan: &Plan<'_>, batch: &Batch, aims: &[f32]) -> Losses {
        let examples = &batch.examples;
        let (labeled, unlabeled) = (examples.labeled(), batch.unlabeled.len());
        let pull =
            Pull::new(&plan.objective, self.scoring.dimension(), labeled, examples.negatives.len(), plan.entities);
        let unlabeled_weight = 1.0 / unlabeled.max(1) as f32;
        let slots = examples.positives.len() + unlabeled;
        let segments = &batch.incidence.segments;
        self.work.reserve(slots * PARTS, segments.len(), examples.negatives.len());
        let rows = self.images.as_ref().unwrap_or(&self.state.embeddings);
        let Work { slots: slot_rows, partials, d_scores, losses, supports, .. } = &mut self.work;
        let pass = Pass {
            scoring: &self.scoring,
            entities: &rows.entities,
            relations: &rows.relations,
            batch,
            pull,
            aims: match plan.guidance {
                Guidance::Injection { .. } => Aims::DScores(aims),
                Guidance::SoftLabels { slackness, t_norm } if plan.inner_steps == 1 => {
                    Aims::Supports(supports, t_norm, slackness, unlabeled_weight)
                }
                _ => Aims::Labels(aims, unlabeled_weight),
            },
            stride: slot_rows.stride(),
            relation_stride: partials.stride(),
            isa: self.isa,
            control: plan.control,
        };
        let used = slots * PARTS * slot_rows.stride();
        let places = Places {
            slots: &mut slot_rows.as_mut_slice()[..used],
            d_scores: &mut d_scores[..examples.negatives.len()],
            partials: &mut partials.as_mut_slice()[..segments.len() * pass.relation_stride],
            losses: &mut losses[..segments.len()],
        };
        pass.run(segments, places);

        let mut sums = [0.0; 2];
        for loss in &losses[..segments.len()] {
            sums[0] += loss[0];
            sums[1] += loss[1];
        }
        self.update(plan, batch, [pull.occurrence, unlabeled_weight]);
        Losses { labeled: sums[0] * f64::from(pull.weight), unlabeled: sums[1] * f64::from(unlabeled_weight) }
    }

    fn update(&mut self, plan: &Plan<'_>, batch: &Batch, weights: [f32; 2]) {
        self.state.steps += 1;
        let l2 = match plan.objective.penalty {
            Penalty::None => [0.0; 2],
            Penalty::L2 { weight } => weights.map(|n| 2.0 * weight / self.scoring.dimension() as f32 * n),
        };
        let incidence = &batch.incidence;
        let entities = EntitySources {
            incidence,
            slots: self.work.slots.as_slice(),
            stride: self.work.slots.stride(),
            d_scores: &self.work.d_scores[..batch.examples.negatives.len()],
            comparator: F::COMPARATOR,
        };
        let relations =
            RelationSources { incidence, partials: self.work.partials.as_slice(), stride: self.work.partials.stride() };
        let (scoring, optimizer) = (&self.scoring, &self.optimizer.slowed(plan.rate));
        let (steps, isa) = (self.state.steps, self.isa);
        let State { embeddings, moments, .. } = &mut self.state;
        let mut moments = moments.iter_mut();
        let (first, second) = (moments.next(), moments.next());
        let (first_e, first_r) = first.map(|x| (&mut x.entities, &mut x.relations)).unzip();
        let (second_e, second_r) = second.map(|x| (&mut x.entities, &mut x.relations)).unzip();
        let (image_e, image_r) = self.images.as_mut().map(|x| (&mut x.entities, &mut x.relations)).unzip();
        let mover = |rate, parts| Move::new(optimizer, rate, parts, steps);
        let entity_parts = scoring.entity_parts();
        let relation_parts = scoring.relation_parts();
        let entity_owner = Owner {
            sources: entities,
            movement: mover(optimizer.entity_rate, entity_parts),
            l2,
            factors: [1.0; 2],
            parts: entity_parts,
            transform: transform_of(scoring, Kind::Entity),
            width: embeddings.entities.width(),
            stride: embeddings.entities.stride(),
            image_width: scoring.entity_width(),
            image_stride: image_e.as_ref().map_or(0, |table| table.stride()),
            isa,
        };
        let relation_owner = Owner {
            sources: relations,
            movement: mover(optimizer.relation_rate, relation_parts),
            l2,
            factors: [1.0; 2],
            parts: relation_parts,
            transform: transform_of(scoring, Kind::Relation),
            width: embeddings.relations.width(),
            stride: embeddings.relations.stride(),
            image_width: scoring.relation_width(),
            image_stride: image_r.as_ref().map_or(0, |table| table.stride()),
            isa,
        };
        let cap = optimizer.cap;
        rayon::join(
            || move_rows(entity_owner, cap, &mut embeddings.entities, first_e, second_e, image_e),
            || move_rows(relation_owner, cap, &mut embeddings.relations, first_r, second_r, image_r),
        );
    }

    /// An epoch of softmax over all entities. Panics unless the scoring function is a dot product.
    fn softmax_epoch(&mut self, plan: &Plan<'_>, softmax: &Softmax, epoch: u64) -> Result<Losses, Cancelled> {
        assert!(F::COMPARATOR == Comparator::Dot, "softmax needs a dot product");
        let questions = Questions::new(plan, softmax, epoch);
        let mut batches = questions.batches(plan).peekable();
        let (total, mut labeled) = (batches.len(), 0.0);
        let count = total.max(1) as f64;
        let optimizer = &self.optimizer.slowed(plan.rate);
        let State { embeddings, moments, steps } = &mut self.state;
        let sorting = &step::Sorting {
            softmax,
            answers: questions.answers(),
            optimizer,
            seed: plan.seed,
            entities: embeddings.entities.rows(),
            relations: embeddings.relations.rows(),
            control: plan.control,
        };
        let work = &mut self.work.softmax;
        if let Some(batch) = batches.peek() {
            work.sort(sorting, batch, *steps + 1);
        }
        while let Some(batch) = batches.next() {
            *steps += 1;
            let mut moments = moments.iter_mut();
            let (images, first, second) = (self.images.as_mut(), moments.next(), moments.next());
            let parameters = step::Parameters { embeddings, images, first, second };
            let now = (&*batch, batches.peek().map(|next| &**next));
            labeled += step::step(&self.scoring, sorting, now, parameters, *steps, work, self.isa) / count;
            plan.advance(total - batches.len(), total)?;
        }
        Ok(Losses { labeled, unlabeled: 0.0 })
    }

    fn finite(&self, epoch: u64, losses: Losses) -> Result<Losses> {
        let loss = losses.labeled + losses.unlabeled;
        if loss.is_finite() {
            return Ok(losses);
        }
        let Optimizer { entity_rate, relation_rate, .. } = self.optimizer;
        Err(EmbedError::Diverged { epoch, loss, entity_rate, relation_rate })
    }

    /// Recomputes the images from all parameters.
    fn refresh_images(&mut self) {
        let Some(transform) = self.scoring.transform() else { return };
        let Embeddings { entities, relations } = &self.state.embeddings;
        let images = self.images.get_or_insert_with(|| Embeddings {
            entities: Table::zeros(entities.rows(), self.scoring.entity_width()),
            relations: Table::zeros(relations.rows(), self.scoring.relation_width()),
        });
        let Embeddings { entities: entity_images, relations: relation_images } = images;
        let (stride, width) = (entity_images.stride(), entity_images.width());
        entity_images.as_mut_slice().par_chunks_mut(stride).enumerate().for_each_init(
            || transform.scratch(),
            |scratch, (index, image)| transform.entity(entities.row(index), &mut image[..width], scratch),
        );
        let (stride, width) = (relation_images.stride(), relation_images.width());
        relation_images.as_mut_slice().par_chunks_mut(stride).enumerate().for_each_init(
            || transform.scratch(),
            |scratch, (index, image)| transform.relation(relations.row(index), &mut image[..width], scratch),
        );
    }
}

/// Updates a table's rows; with a cap on whole matrices, measures their gradient first.
fn move_rows<S: Sources>(
    mut owner: Owner<'_, S>,
    cap: Cap,
    parameters: &mut Table,
    first: Option<&mut Table>,
    second: Option<&mut Table>,
    images: Option<&mut Table>,
) {
    let first = first.map_or(&mut [][..], Table::as_mut_slice);
    let second = second.map_or(&mut [][..], Table::as_mut_slice);
    let images = images.map_or(&mut [][..], Table::as_mut_slice);
    if let Cap::Matrix { norm } = cap {
        let mut squares = vec![[0.0f64; 2]; parameters.rows()];
        let parameters = parameters.as_mut_slice();
        owner.run(Rows { first_row: 0, parameters, first, second, images, squares: &mut squares });
        for part in 0..owner.parts.min(2) {
            let length = squares.iter().map(|row| row[part]).sum::<f64>().sqrt();
            owner.factors[part] = (f64::from(norm) / length).min(1.0) as f32;
        }
    }
    let parameters = parameters.as_mut_slice();
    owner.run(Rows { first_row: 0, parameters, first, second, images, squares: &mut [] });
}

fn normalise(table: &mut Table, isa: Isa) {
    let (stride, width) = (table.stride(), table.width());
    table.as_mut_slice().par_chunks_mut(64 * stride).for_each(|rows| isa.run(Normalise { rows, stride, width }));
}

impl Work {
    /// Grows the buffers, with some room to spare because batches differ by a few slots.
    fn reserve(&mut self, slot_rows: usize, segments: usize, negatives: usize) {
        if self.slots.rows() < slot_rows {
            self.slots = Table::zeros(slot_rows + slot_rows / 64, self.slots.width());
        }
        if self.partials.rows() < segments {
            self.partials = Table::zeros(segments + segments / 8 + 8, self.partials.width());
        }
        if self.d_scores.len() < negatives {
            self.d_scores.resize(negatives, 0.0);
        }
        if self.losses.len() < segments {
            self.losses.resize(segments + segments / 8, [0.0; 2]);
        }
    }
}

impl<F: ScoringFunction> Ranker for CpuModel<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn entity_count(&self) -> usize {
        self.state.embeddings.entities.rows()
    }

    fn score(&self, triples: &[Triple], scores: &mut [f32]) -> Result<(), RankError> {
        self.score(triples, scores);
        Ok(())
    }

    fn score_all(&self, query: RankQuery, scores: &mut [f32]) -> Result<(), RankError> {
        self.score_many(&[query], scores)
    }

    fn score_answers(&self, queries: &[RankQuery], scores: &mut [f32]) -> Result<(), RankError> {
        assert_eq!(queries.len(), scores.len(), "one score per query");
        // Where both directions are one, a triple has one score, to the last bit.
        let both = self.scoring.relation_sides() > 1;
        for side in [Side::Tail, Side::Head] {
            let is_of = |query: &RankQuery| side == if both { query.side } else { Side::Tail };
            let places: Vec<usize> = (0..queries.len()).filter(|&at| is_of(&queries[at])).collect();
            let triples: Vec<Triple> = places.iter().map(|&at| queries[at].triple).collect();
            let mut found = vec![0.0; triples.len()];
            self.score_side(&triples, side, &mut found);
            places.into_iter().zip(found).for_each(|(at, score)| scores[at] = score);
        }
        Ok(())
    }

    fn score_many(&self, queries: &[RankQuery], scores: &mut [f32]) -> Result<(), RankError> {
        self.candidates().score_many(queries, scores);
        F::COMPARATOR.roots(scores.iter_mut());
        Ok(())
    }

    fn rank(
        &self,
        queries: &[RankQuery],
        known: Option<&Filter>,
        control: &Control<'_>,
    ) -> Result<Vec<Rank>, RankError> {
        Ok(self.candidates().rank(queries, known, control)?)
    }

    fn top(
        &self,
        queries: &[RankQuery],
        options: &TopOptions<'_>,
        control: &Control<'_>,
    ) -> Result<Vec<Vec<Scored>>, RankError> {
        let mut found = self.candidates().top(queries, options, control)?;
        F::COMPARATOR.roots(found.iter_mut().flatten().map(|scored| &mut scored.score));
        Ok(found)
    }
}

impl<F: ScoringFunction> Model for CpuModel<F> {
    fn epoch(&mut self, plan: &Plan<'_>, epoch: u64) -> Result<Losses> {
        self.packing.clear();
        if let Some(softmax) = &plan.softmax {
            // On a thread of the pool: from outside, each of thousands of parallel loops would put its caller to sleep.
            let sum = rayon::scope(|_| self.softmax_epoch(plan, softmax, epoch));
            return self.finite(epoch, sum?);
        }
        let order = EpochOrder::new(plan, epoch);
        let [mut current, mut next] = std::mem::take(&mut self.work.batches);
        current.prepare(plan, &order, 0);
        let mut sum = Losses::default();
        for index in 0..plan.batches {
            // The next batch is a pure function of the plan, so it is prepared while this one trains.
            let (losses, ()) = rayon::join(
                || self.train(plan, &current),
                || {
                    if index + 1 < plan.batches {
                        next.prepare(plan, &order, index + 1);
                    }
                },
            );
            plan.advance(index + 1, plan.batches)?;
            std::mem::swap(&mut current, &mut next);
            sum.labeled += losses.labeled / plan.batches as f64;
            sum.unlabeled += losses.unlabeled / plan.batches as f64;
        }
        self.work.batches = [current, next];
        self.finite(epoch, sum)
    }

    fn state(&self) -> Result<&State> {
        Ok(&self.state)
    }

    fn restore(&mut self, state: State) -> Result<()> {
        check_shapes(&state, &self.state)?;
        debug_assert_eq!(state.embeddings.entities.width(), entity_parameters(&self.scoring));
        debug_assert_eq!(state.embeddings.relations.width(), relation_parameters(&self.scoring));
        self.state = state;
        self.packing.clear();
        self.refresh_images();
        Ok(())
    }

    fn set_embeddings(&mut self, embeddings: Embeddings) -> Result<()> {
        check_tables(&embeddings, &self.state.embeddings)?;
        self.state.embeddings = embeddings;
        self.packing.clear();
        self.refresh_images();
        Ok(())
    }

    fn limit_packing(&mut self, bytes: usize) {
        self.packing = Packing::within(bytes);
    }
}

/// Scoring functions whose models are compiled in this crate. The loops of a model take seconds to compile for every
/// instruction set, and a crate that used [`CpuModel`] directly would compile them again.
pub trait OnProcessor: ScoringFunction {
    /// A CPU model with these parameters.
    fn on_processor(self, embeddings: Embeddings, optimizer: Optimizer) -> Box<dyn Model>;
}

macro_rules! on_processor {
    ($($scoring:ty),+) => {$(
        impl OnProcessor for $scoring {
            fn on_processor(self, embeddings: Embeddings, optimizer: Optimizer) -> Box<dyn Model> {
                Box::new(CpuModel::new(self, embeddings, optimizer))
            }
        }
    )+};
}

on_processor!(ComplEx, DistMult, HolE, RotatE, TransEL1, TransEL2, Reciprocal<ComplEx>, Reciprocal<DistMult>);
