//! A softmax step on the CPU.
//!
//! It computes queries, calls [`ask`] and maps the gradients back. Each row's owner adds its gradients and updates it,
//! so nothing depends on the number of threads.

use rayon::prelude::*;
use ruge_kg::{Control, Side};

use super::ask::{Asked, CHUNK, Candidates, ask};
use super::query::{Asking, Backward, Queries, RelationBackward, RelationQueries, Run, STRIP};
use super::rows::{
    MoveEntities, MoveRelations, ParameterRows, TouchedRelation, TouchedRow, list_relations, list_touched,
};
use super::sample::{Gradients, Own, Sample};
use super::targets::Targets;
use super::{Answer, AnswerLoss, Question, Questions, Softmax, Touches};
use crate::cpu::Isa;
use crate::embeddings::Embeddings;
use crate::optimizer::{Move, Optimizer, UpdateRule};
use crate::scoring::ScoringFunction;
use crate::table::Table;
use crate::update::{Kind, transform_of};

#[derive(Default)]
pub(crate) struct Buffers {
    queries: Option<Table>,
    d_queries: Option<Table>,
    /// By question, the gradient of its known end; then, if relations are asked for, that of its answer.
    d_ends: Option<Table>,
    /// By question, the gradient of the side of its relation's row that it uses.
    d_relations: Option<Table>,
    d_entities: Option<Table>,
    for_relations: RelationBuffers,
    sampled: Option<Table>,
    scores: Vec<f32>,
    /// This batch and the next.
    sorted: [Sorted; 2],
}

/// The same for the question for relations.
#[derive(Default)]
struct RelationBuffers {
    queries: Option<Table>,
    d_queries: Option<Table>,
    d_candidates: Option<Table>,
}

/// A prepared batch. It does not depend on parameters, so the next one is prepared while this one's rows are updated.
#[derive(Default)]
struct Sorted {
    sample: Option<Vec<u32>>,
    /// By question, the weight of its loss.
    weights: Vec<f32>,
    own: Vec<Own>,
    touches: Touches,
    touched: Vec<TouchedRow>,
    touched_relations: Vec<TouchedRelation>,
}

/// The input for preparing batches.
#[derive(Clone, Copy)]
pub(crate) struct Sorting<'a> {
    pub softmax: &'a Softmax,
    /// The answers of all batches.
    pub answers: &'a [Answer],
    pub optimizer: &'a Optimizer,
    pub seed: u64,
    pub entities: usize,
    pub relations: usize,
    pub control: Option<&'a Control<'a>>,
}

impl Sorted {
    fn sort(&mut self, sorting: &Sorting<'_>, questions: &[Question], step: u64) {
        let Sorting { softmax, answers, optimizer, seed, entities, relations, .. } = *sorting;
        let asks_relations = softmax.relations > 0.0;
        self.sample = softmax.candidates(entities, seed, step);
        self.touches.build(questions, answers, asks_relations, self.sample.is_some());
        list_touched(&self.touches, self.sample.as_deref(), entities, &mut self.touched);
        // Without a gradient only Adam moves.
        let moves_all = asks_relations || matches!(optimizer.rule, UpdateRule::Adam { .. });
        list_relations(&self.touches, moves_all.then_some(relations), &mut self.touched_relations);
        self.weights.clear();
        self.weights.extend(questions.iter().map(|question| question.weight / questions.len() as f32));
        self.own.clear();
        if self.sample.is_some() {
            self.own.extend(self.weights.iter().map(|&weight| Own { weight, ..Own::default() }));
            for row in &self.touched {
                let [from, to] = row.answers.map(|place| place as usize);
                self.touches.answers[from..to].iter().for_each(|&(_, at)| self.own[at as usize].place = row.candidate);
            }
        }
    }
}

impl Buffers {
    /// Prepares the batch for the next step.
    pub fn sort(&mut self, sorting: &Sorting<'_>, questions: &[Question], step: u64) {
        self.sorted[0].sort(sorting, questions, step);
    }
}

/// The state changed by a step.
pub(crate) struct Parameters<'a> {
    pub embeddings: &'a mut Embeddings,
    /// Rows as scored, if that basis differs from the parameters'.
    pub images: Option<&'a mut Embeddings>,
    pub first: Option<&'a mut Embeddings>,
    pub second: Option<&'a mut Embeddings>,
}

fn table(place: &mut Option<Table>, rows: usize, width: usize) -> &mut Table {
    if place.as_ref().is_none_or(|table| table.rows() < rows || table.width() != width) {
        *place = None;
    }
    place.get_or_insert_with(|| Table::zeros(rows, width))
}

/// Both tables of a moment; empty if the optimiser keeps none.
fn split(moment: Option<&mut Embeddings>) -> (&mut [f32], &mut [f32]) {
    match moment {
        Some(Embeddings { entities, relations }) => (entities.as_mut_slice(), relations.as_mut_slice()),
        None => (&mut [], &mut []),
    }
}

/// Trains on the prepared batch, the `step`-th counted from 1, and prepares the next. Returns the mean loss without the
/// penalty and without the question for relations.
pub(crate) fn step<F: ScoringFunction>(
    scoring: &F,
    sorting: &Sorting<'_>,
    (questions, next): (&[Question], Option<&[Question]>),
    parameters: Parameters<'_>,
    step: u64,
    buffers: &mut Buffers,
    isa: Isa,
) -> f64 {
    let Parameters { embeddings, images, first, second } = parameters;
    let Sorting { softmax, optimizer, seed, entities, .. } = *sorting;
    let (width, relation_width) = (scoring.entity_width(), scoring.relation_width());
    let (count, sides) = (questions.len(), scoring.relation_sides());
    let asks_relations = softmax.relations > 0.0;
    let [sorted, upcoming] = &mut buffers.sorted;
    let mut next = next.map(|questions| (upcoming, questions));
    let sort = |next: Option<(&mut Sorted, &[Question])>| {
        if let Some((upcoming, questions)) = next {
            upcoming.sort(sorting, questions, step + 1);
        }
    };
    let queries = table(&mut buffers.queries, count, width);
    let d_queries = table(&mut buffers.d_queries, count, width);
    let d_ends = table(&mut buffers.d_ends, count * (1 + usize::from(asks_relations)), width);
    let d_relations = table(&mut buffers.d_relations, count, relation_width / sides);
    let among = sorted.sample.as_ref().map_or(entities.next_multiple_of(CHUNK), Vec::len);
    let d_entities = table(&mut buffers.d_entities, among, width);
    let scores = &mut buffers.scores;

    let rows: &Embeddings = images.as_deref().unwrap_or(embeddings);
    let asking = &Asking { scoring, rows, dropout: softmax.dropout(seed, step) };
    let d_given = &mut d_ends.as_mut_slice()[..count * queries.stride()];
    let gradients = Gradients { queries, d_queries, d_given, d_relations, d_candidates: d_entities };
    let loss = match &sorted.sample {
        Some(drawn) => {
            let gathered = table(&mut buffers.sampled, among, width);
            gather(&rows.entities, drawn, gathered);
            let sample = Sample { rows: gathered, count: among, others: entities - 1, isa };
            let next = next.take();
            sample.ask(asking, questions, &mut sorted.own, scores, gradients, || sort(next))
        }
        None => ask_all(asking, sorting, (questions, &sorted.weights), scores, gradients, isa),
    };
    let d_asked = asks_relations.then(|| {
        let asked = (questions, &sorted.weights[..]);
        ask_relations(asking, sorting, asked, scores, &mut buffers.for_relations, d_ends, isa)
    });

    let penalty = softmax.penalty(count);
    let ((first_e, first_r), (second_e, second_r)) = (split(first), split(second));
    let Sorted { own, touches, touched, touched_relations, .. } = &*sorted;
    let entity_moves = MoveEntities {
        movement: Move::new(optimizer, optimizer.entity_rate, scoring.entity_parts(), step),
        touches,
        d_entities,
        d_ends,
        own,
        queries,
        penalty,
        parts: scoring.entity_parts(),
        isa,
    };
    let (image_e, image_r) = images.map(|images| (&mut images.entities, &mut images.relations)).unzip();
    let relation_moves = MoveRelations {
        movement: Move::new(optimizer, optimizer.relation_rate, scoring.relation_parts() / sides, step),
        touches,
        questions,
        d_relations,
        d_asked,
        penalty,
        sides,
        parts: scoring.relation_parts() / sides,
        isa,
    };
    let [of_entity, of_relation] = [Kind::Entity, Kind::Relation].map(|kind| transform_of(scoring, kind));
    let entity_rows = ParameterRows::of(&mut embeddings.entities, [first_e, second_e], image_e, of_entity);
    let relation_rows = ParameterRows::of(&mut embeddings.relations, [first_r, second_r], image_r, of_relation);
    let moves = || {
        rayon::join(|| entity_moves.run(touched, entity_rows), || relation_moves.run(touched_relations, relation_rows))
    };
    rayon::join(moves, || sort(next));
    buffers.sorted.swap(0, 1);
    loss
}

fn gather(entities: &Table, drawn: &[u32], to: &mut Table) {
    let (width, stride) = (to.width(), to.stride());
    let strips = to.as_mut_slice().par_chunks_mut(STRIP * stride).zip(drawn.par_chunks(STRIP));
    strips.for_each(|(to, drawn)| {
        for (to, &entity) in to.chunks_exact_mut(stride).zip(drawn) {
            to[..width].copy_from_slice(entities.row(entity as usize));
        }
    });
}

/// Answers a batch's weighted questions among all entities; returns Σ weight · loss.
fn ask_all<F: ScoringFunction>(
    asking: &Asking<'_, F>,
    sorting: &Sorting<'_>,
    (questions, weights): (&[Question], &[f32]),
    scores: &mut Vec<f32>,
    gradients: Gradients<'_>,
    isa: Isa,
) -> f64 {
    let Gradients { queries, d_queries, d_given, d_relations, d_candidates } = gradients;
    let Sorting { softmax, answers, entities, .. } = *sorting;
    let (count, stride) = (questions.len(), queries.stride());
    let strips = queries.as_mut_slice().par_chunks_mut(STRIP * stride).zip(questions.par_chunks(STRIP));
    strips.enumerate().for_each(|(strip, (queries, questions))| {
        let run = Run { questions, first: strip * STRIP };
        isa.run(Queries { asking, run, queries, stride, own: None });
    });
    let rows = &asking.rows.entities;
    let candidates = Candidates {
        data: rows.as_slice(),
        width: rows.width(),
        stride: rows.stride(),
        chunks: Candidates::rows(0, entities, rows.stride()).collect(),
    };
    let (ends, targets) = match softmax.is_plain() {
        true => (Vec::new(), Vec::new()),
        false => Questions::targets(questions, answers),
    };
    let targets = (!softmax.is_plain()).then_some(Targets {
        ends: &ends,
        answers: &targets,
        smoothing: softmax.smoothing,
        candidates: entities,
        binary: softmax.loss == AnswerLoss::Bce,
    });
    let answers: Vec<u32> = questions.iter().map(Question::answer).collect();
    let asked = Asked { queries, answers: &answers, weights, targets, control: sorting.control };
    let loss = ask(&asked, &candidates, scores, d_queries, d_candidates, isa);
    // From queries back to the rows they were computed from.
    let relation_stride = d_relations.stride();
    d_given
        .par_chunks_mut(STRIP * stride)
        .zip(d_relations.as_mut_slice().par_chunks_mut(STRIP * relation_stride))
        .zip(d_queries.as_mut_slice()[..count * stride].par_chunks_mut(STRIP * stride))
        .zip(questions.par_chunks(STRIP))
        .enumerate()
        .for_each(|(strip, (((d_given, d_relations), d_queries), questions))| {
            let run = Run { questions, first: strip * STRIP };
            let own = None;
            isa.run(Backward { asking, run, own, d_queries, d_given, stride, d_relations, relation_stride });
        });
    loss
}

/// Answers a batch's weighted questions for relations: adds to the gradients of known ends, sets those of answers, and
/// returns those of the candidate relations.
fn ask_relations<'b, F: ScoringFunction>(
    &Asking { scoring, rows, .. }: &Asking<'_, F>,
    sorting: &Sorting<'_>,
    (questions, weights): (&[Question], &[f32]),
    scores: &mut Vec<f32>,
    buffers: &'b mut RelationBuffers,
    d_ends: &mut Table,
    isa: Isa,
) -> &'b Table {
    let Sorting { softmax, relations, .. } = *sorting;
    let (count, sides) = (questions.len(), scoring.relation_sides());
    let half = scoring.relation_width() / sides;
    let queries = table(&mut buffers.queries, count, half);
    let d_queries = table(&mut buffers.d_queries, count, half);
    let d_candidates = table(&mut buffers.d_candidates, relations.next_multiple_of(CHUNK) * sides, half);
    let query_stride = queries.stride();
    let strips = queries.as_mut_slice().par_chunks_mut(STRIP * query_stride).zip(questions.par_chunks(STRIP));
    strips.for_each(|(queries, questions)| {
        isa.run(RelationQueries { scoring, rows, questions, queries, stride: query_stride, width: half });
    });
    let stride_of_rows = rows.relations.stride();
    let candidates = Candidates {
        data: rows.relations.as_slice(),
        width: half,
        stride: stride_of_rows,
        chunks: (0..sides).flat_map(|side| Candidates::rows(side * half, relations, stride_of_rows)).collect(),
    };
    let place = |question: &Question| {
        let side = if sides == 2 && question.side == Side::Head { relations.next_multiple_of(CHUNK) } else { 0 };
        side as u32 + question.triple.relation.0
    };
    let answers: Vec<u32> = questions.iter().map(place).collect();
    let weights: Vec<f32> = weights.iter().map(|weight| weight * softmax.relations).collect();
    let asked = Asked { queries, answers: &answers, weights: &weights, targets: None, control: sorting.control };
    ask(&asked, &candidates, scores, d_queries, d_candidates, isa);
    let d_queries: &Table = d_queries;
    let stride = d_ends.stride();
    let (d_given, d_answers) = d_ends.as_mut_slice().split_at_mut(count * stride);
    d_given
        .par_chunks_mut(STRIP * stride)
        .zip(d_answers.par_chunks_mut(STRIP * stride))
        .zip(questions.par_chunks(STRIP))
        .enumerate()
        .for_each(|(strip, ((d_given, d_answers), questions))| {
            let first = strip * STRIP;
            isa.run(RelationBackward { scoring, rows, questions, first, d_queries, d_given, d_answers, stride });
        });
    d_candidates
}
