//! A softmax step on the processor.
//!
//! Queries, [`ask`], and back: every row's owner adds up what touches it and moves it, so nothing depends on the number of
//! threads.

use rayon::prelude::*;

use super::ask::{Asked, CHUNK, Candidates, Own, STRIP, ask, chunk_of_sample};
use super::rows::{MoveEntities, MoveRelations, Rows, TouchedRow, list_relations, list_touched};
use super::targets::Targets;
use super::{Answer, AnswerLoss, Question, Questions, Softmax, Touches};
use crate::cpu::{Isa, Kernel, row};
use crate::embeddings::Embeddings;
use crate::optimizer::{Move, Optimizer, Rule};
use crate::rank::Side;
use crate::scoring::ScoringFunction;
use crate::table::Table;
use crate::update::{Kind, transform_of};

/// Memory that steps reuse.
#[derive(Default)]
pub(crate) struct Work {
    queries: Option<Table>,
    d_queries: Option<Table>,
    /// By question, what its given end gets; then, where relations are asked for, what its answer gets.
    d_ends: Option<Table>,
    /// By question, what the side of its relation's row gets that it asks with.
    d_relations: Option<Table>,
    d_entities: Option<Table>,
    relation_queries: Option<Table>,
    d_relation_queries: Option<Table>,
    d_asked_relations: Option<Table>,
    /// The rows of a sample of candidates.
    sampled: Option<Table>,
    own_scores: Vec<f32>,
    d_own: Vec<f32>,
    scores: Vec<f32>,
    touches: Touches,
    touched: Vec<TouchedRow>,
}

/// What a step changes.
pub(crate) struct Parameters<'a> {
    pub embeddings: &'a mut Embeddings,
    /// Rows as scored, where that is another basis than the parameters'.
    pub images: Option<&'a mut Embeddings>,
    pub first: Option<&'a mut Embeddings>,
    pub second: Option<&'a mut Embeddings>,
}

/// How rows move, and which step of which run it is, counted from 1.
#[derive(Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub optimizer: &'a Optimizer,
    pub seed: u64,
    pub steps: u64,
}

fn table(place: &mut Option<Table>, rows: usize, width: usize) -> &mut Table {
    if place.as_ref().is_none_or(|table| table.rows() < rows || table.width() != width) {
        *place = None;
    }
    place.get_or_insert_with(|| Table::zeros(rows, width))
}

/// Both tables of a moment, empty where the optimiser keeps none.
fn split(moment: Option<&mut Embeddings>) -> (&mut [f32], &mut [f32]) {
    match moment {
        Some(Embeddings { entities, relations }) => (entities.as_mut_slice(), relations.as_mut_slice()),
        None => (&mut [], &mut []),
    }
}

/// Trains on one batch; returns its mean loss without the penalty and without the question for relations.
pub(crate) fn step<F: ScoringFunction>(
    scoring: &F,
    softmax: &Softmax,
    (questions, all_answers): (&[Question], &[Answer]),
    parameters: Parameters<'_>,
    moment: Moment<'_>,
    work: &mut Work,
    isa: Isa,
) -> f64 {
    let Parameters { embeddings, images, first, second } = parameters;
    let Moment { optimizer, seed, steps } = moment;
    let (width, relation_width) = (scoring.entity_width(), scoring.relation_width());
    let (count, entities, relations) = (questions.len(), embeddings.entities.rows(), embeddings.relations.rows());
    let sides = scoring.relation_sides();
    let asks_relations = softmax.relations > 0.0;
    let queries = table(&mut work.queries, count, width);
    let d_queries = table(&mut work.d_queries, count, width);
    let d_ends = table(&mut work.d_ends, count * (1 + usize::from(asks_relations)), width);
    let d_relations = table(&mut work.d_relations, count, relation_width / sides);
    let sample = softmax.candidates(entities, seed, steps);
    let among = sample.as_ref().map_or(entities, Vec::len);
    let size = sample.as_ref().map_or(CHUNK, |sample| chunk_of_sample(sample.len()));
    let d_entities = table(&mut work.d_entities, among.next_multiple_of(size), width);
    let stride = queries.stride();
    work.touches.build(questions, all_answers, asks_relations, sample.is_some());

    let rows: &Embeddings = images.as_deref().unwrap_or(embeddings);
    queries
        .as_mut_slice()
        .par_chunks_mut(STRIP * stride)
        .zip(questions.par_chunks(STRIP))
        .for_each(|(queries, questions)| isa.run(Queries { scoring, rows, questions, queries, stride, width }));
    let dropout = softmax.dropout(seed, steps);
    let drop_out = |table: &mut Table| {
        let Some(dropout) = dropout else { return };
        let rows = table.as_mut_slice()[..count * stride].par_chunks_mut(stride);
        rows.enumerate().for_each(|(question, row)| dropout.apply(question, &mut row[..width]));
    };
    drop_out(queries);
    let mut candidate_rows = &rows.entities;
    let mut answers: Vec<u32> = questions.iter().map(Question::answer).collect();
    let mut own = None;
    if let Some(sample) = &sample {
        let gathered = table(&mut work.sampled, among, width);
        gathered.as_mut_slice().par_chunks_mut(stride).zip(sample).for_each(|(row, &entity)| {
            row[..width].copy_from_slice(rows.entities.row(entity as usize));
        });
        candidate_rows = gathered;
        work.own_scores.resize(count, 0.0);
        let queries: &Table = queries;
        work.own_scores.par_chunks_mut(STRIP).zip(questions.par_chunks(STRIP)).enumerate().for_each(
            |(strip, (scores, questions))| {
                isa.run(OwnScores { rows, questions, queries, first: strip * STRIP, scores });
            },
        );
        let place = |answer: &u32| sample.binary_search(answer).map_or(u32::MAX, |place| place as u32);
        answers.iter_mut().for_each(|answer| *answer = place(answer));
        own = Some(Own { scores: &work.own_scores, others: entities - 1 });
    }
    let candidates = Candidates {
        data: candidate_rows.as_slice(),
        width,
        stride: candidate_rows.stride(),
        size,
        chunks: Candidates::rows(size, 0, among, candidate_rows.stride()).collect(),
    };
    let weights: Vec<f32> = questions.iter().map(|question| question.weight / count as f32).collect();
    let (ends, targets) = match softmax.is_plain() {
        true => (Vec::new(), Vec::new()),
        false => Questions::targets(questions, all_answers),
    };
    let targets = (!softmax.is_plain()).then_some(Targets {
        ends: &ends,
        answers: &targets,
        smoothing: softmax.smoothing,
        candidates: entities,
        binary: softmax.loss == AnswerLoss::Bce,
    });
    let asked = Asked { queries, answers: &answers, weights: &weights, own, targets };
    let mut d_own = std::mem::take(&mut work.d_own);
    let loss = ask(&asked, &candidates, &mut work.scores, d_queries, d_entities, &mut d_own, isa);
    if sample.is_some() {
        let pulls = d_queries.as_mut_slice().par_chunks_mut(STRIP * stride).zip(questions.par_chunks(STRIP));
        pulls.zip(d_own.par_chunks(STRIP)).for_each(|((d_queries, questions), d_own)| {
            isa.run(OwnPulls { rows, questions, d_own, d_queries, stride });
        });
    }

    drop_out(d_queries);
    // From queries back to what they were made of.
    let relation_stride = d_relations.stride();
    let d_queries: &Table = d_queries;
    d_ends.as_mut_slice()[..count * stride]
        .par_chunks_mut(STRIP * stride)
        .zip(d_relations.as_mut_slice().par_chunks_mut(STRIP * relation_stride))
        .zip(questions.par_chunks(STRIP))
        .enumerate()
        .for_each(|(strip, ((d_given, d_relations), questions))| {
            let first = strip * STRIP;
            isa.run(Backward {
                scoring,
                rows,
                questions,
                first,
                d_queries,
                d_given,
                stride,
                d_relations,
                relation_stride,
            });
        });

    let mut d_asked: Option<&Table> = None;
    if asks_relations {
        let half = relation_width / sides;
        let queries = table(&mut work.relation_queries, count, half);
        let d_queries = table(&mut work.d_relation_queries, count, half);
        let d_candidates = table(&mut work.d_asked_relations, relations.next_multiple_of(CHUNK) * sides, half);
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
            size: CHUNK,
            chunks: (0..sides)
                .flat_map(|side| Candidates::rows(CHUNK, side * half, relations, stride_of_rows))
                .collect(),
        };
        let place = |question: &Question| {
            let side = if sides == 2 && question.side == Side::Head { relations.next_multiple_of(CHUNK) } else { 0 };
            side as u32 + question.triple.relation.0
        };
        let answers: Vec<u32> = questions.iter().map(place).collect();
        let weights: Vec<f32> = weights.iter().map(|weight| weight * softmax.relations).collect();
        let asked = Asked { queries, answers: &answers, weights: &weights, own: None, targets: None };
        ask(&asked, &candidates, &mut work.scores, d_queries, d_candidates, &mut Vec::new(), isa);
        let d_queries: &Table = d_queries;
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
        d_asked = Some(d_candidates);
    }

    let penalty = softmax.penalty(count);
    let ((first_e, first_r), (second_e, second_r)) = (split(first), split(second));
    let touches: &Touches = &work.touches;
    list_touched(touches, sample.as_deref(), entities, &mut work.touched);
    let moves = MoveEntities {
        movement: Move::new(optimizer, optimizer.entity_rate, scoring.entity_parts(), steps),
        touches,
        d_entities,
        d_ends,
        d_own: &d_own,
        queries,
        penalty,
        parts: scoring.entity_parts(),
        isa,
    };
    let (image_e, image_r) = images.map(|images| (&mut images.entities, &mut images.relations)).unzip();
    let rows = Rows::of(&mut embeddings.entities, [first_e, second_e], image_e, transform_of(scoring, Kind::Entity));
    moves.run(&work.touched, rows);
    work.d_own = d_own;
    // Without a gradient only Adam moves.
    let moves_all = d_asked.is_some() || matches!(optimizer.rule, Rule::Adam { .. });
    let moves = MoveRelations {
        movement: Move::new(optimizer, optimizer.relation_rate, scoring.relation_parts(), steps),
        touches,
        questions,
        d_relations,
        d_asked,
        penalty,
        sides,
        parts: scoring.relation_parts() / sides,
        isa,
    };
    let of = transform_of(scoring, Kind::Relation);
    let rows = Rows::of(&mut embeddings.relations, [first_r, second_r], image_r, of);
    moves.run(&list_relations(touches, moves_all.then_some(relations)), rows);
    loss
}

struct Queries<'a, F> {
    scoring: &'a F,
    rows: &'a Embeddings,
    questions: &'a [Question],
    queries: &'a mut [f32],
    stride: usize,
    width: usize,
}

impl<F: ScoringFunction> Kernel for Queries<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (question, query) in self.questions.iter().zip(self.queries.chunks_exact_mut(self.stride)) {
            let given = self.rows.entities.row(question.given() as usize);
            let relation = self.rows.relations.row(question.triple.relation.index());
            match question.side {
                Side::Tail => self.scoring.tail_query(given, relation, &mut query[..self.width]),
                Side::Head => self.scoring.head_query(relation, given, &mut query[..self.width]),
            }
        }
    }
}

struct Backward<'a, F> {
    scoring: &'a F,
    rows: &'a Embeddings,
    questions: &'a [Question],
    first: usize,
    d_queries: &'a Table,
    d_given: &'a mut [f32],
    stride: usize,
    d_relations: &'a mut [f32],
    relation_stride: usize,
}

impl<F: ScoringFunction> Kernel for Backward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (width, relation_width) = (self.scoring.entity_width(), self.scoring.relation_width());
        let side = relation_width / self.scoring.relation_sides();
        let places =
            self.d_given.chunks_exact_mut(self.stride).zip(self.d_relations.chunks_exact_mut(self.relation_stride));
        // Both sides' gradient, of which a question has one.
        let mut whole = vec![0.0f32; relation_width];
        for ((at, question), (d_given, d_relation)) in self.questions.iter().enumerate().zip(places) {
            let d_query = self.d_queries.row(self.first + at);
            let given = self.rows.entities.row(question.given() as usize);
            let relation = self.rows.relations.row(question.triple.relation.index());
            let d_given = &mut d_given[..width];
            d_given.fill(0.0);
            whole.fill(0.0);
            let from = match question.side {
                Side::Tail => {
                    self.scoring.tail_query_backward(given, relation, d_query, d_given, &mut whole);
                    0
                }
                Side::Head => {
                    self.scoring.head_query_backward(relation, given, d_query, &mut whole, d_given);
                    relation_width - side
                }
            };
            d_relation[..side].copy_from_slice(&whole[from..from + side]);
        }
    }
}

struct RelationQueries<'a, F> {
    scoring: &'a F,
    rows: &'a Embeddings,
    questions: &'a [Question],
    queries: &'a mut [f32],
    stride: usize,
    width: usize,
}

/// Head and tail of the triple whose relation is asked for: a reciprocal relation leads from the tail to the head.
#[inline(always)]
fn ends<F: ScoringFunction>(scoring: &F, question: &Question) -> (usize, usize) {
    match scoring.relation_sides() {
        2 => (question.given() as usize, question.answer() as usize),
        _ => (question.triple.head.index(), question.triple.tail.index()),
    }
}

impl<F: ScoringFunction> Kernel for RelationQueries<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (question, query) in self.questions.iter().zip(self.queries.chunks_exact_mut(self.stride)) {
            let (head, tail) = ends(self.scoring, question);
            let (head, tail) = (self.rows.entities.row(head), self.rows.entities.row(tail));
            self.scoring.relation_query(head, tail, &mut query[..self.width]);
        }
    }
}

struct RelationBackward<'a, F> {
    scoring: &'a F,
    rows: &'a Embeddings,
    questions: &'a [Question],
    first: usize,
    d_queries: &'a Table,
    d_given: &'a mut [f32],
    d_answers: &'a mut [f32],
    stride: usize,
}

impl<F: ScoringFunction> Kernel for RelationBackward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let width = self.scoring.entity_width();
        let places = self.d_given.chunks_exact_mut(self.stride).zip(self.d_answers.chunks_exact_mut(self.stride));
        for ((at, question), (d_given, d_answer)) in self.questions.iter().enumerate().zip(places) {
            let d_query = self.d_queries.row(self.first + at);
            let (head, tail) = ends(self.scoring, question);
            let is_given = head == question.given() as usize;
            let (head, tail) = (self.rows.entities.row(head), self.rows.entities.row(tail));
            let (d_given, d_answer) = (&mut d_given[..width], &mut d_answer[..width]);
            d_answer.fill(0.0);
            let (d_head, d_tail) = if is_given { (d_given, d_answer) } else { (d_answer, d_given) };
            self.scoring.relation_query_backward(head, tail, d_query, d_head, d_tail);
        }
    }
}

/// η of each question's own triple.
struct OwnScores<'a> {
    rows: &'a Embeddings,
    questions: &'a [Question],
    queries: &'a Table,
    first: usize,
    scores: &'a mut [f32],
}

impl Kernel for OwnScores<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (at, (question, score)) in self.questions.iter().zip(self.scores).enumerate() {
            *score = row::dot(self.queries.row(self.first + at), self.rows.entities.row(question.answer() as usize));
        }
    }
}

/// What queries get from their own answers.
struct OwnPulls<'a> {
    rows: &'a Embeddings,
    questions: &'a [Question],
    d_own: &'a [f32],
    d_queries: &'a mut [f32],
    stride: usize,
}

impl Kernel for OwnPulls<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let each = self.questions.iter().zip(self.d_own).zip(self.d_queries.chunks_exact_mut(self.stride));
        for ((question, &d_own), d_query) in each {
            let answer = self.rows.entities.row(question.answer() as usize);
            row::add_scaled(&mut d_query[..answer.len()], d_own, answer);
        }
    }
}
