//! A softmax step on the processor.
//!
//! Queries, [`ask`], and back: every row's owner adds up what touches it and moves it, so nothing depends on the number of
//! threads.

use rayon::prelude::*;

use super::ask::{Asked, CHUNK, Candidates, STRIP, ask};
use super::{Question, Softmax, Touches};
use crate::cpu::{Isa, Kernel, row};
use crate::embeddings::Embeddings;
use crate::optimizer::{Move, Optimizer};
use crate::rank::Side;
use crate::scoring::ScoringFunction;
use crate::table::Table;

/// Memory that steps reuse.
#[derive(Default)]
pub(crate) struct Work {
    queries: Option<Table>,
    d_queries: Option<Table>,
    /// By question, what its given end gets; then, where relations are asked for, what its answer gets.
    d_ends: Option<Table>,
    d_relations: Option<Table>,
    d_entities: Option<Table>,
    relation_queries: Option<Table>,
    d_relation_queries: Option<Table>,
    d_asked_relations: Option<Table>,
    scores: Vec<f32>,
    touches: Touches,
}

/// What a step changes.
pub(crate) struct Parameters<'a> {
    pub embeddings: &'a mut Embeddings,
    pub first: Option<&'a mut Embeddings>,
    pub second: Option<&'a mut Embeddings>,
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
    questions: &[Question],
    parameters: Parameters<'_>,
    optimizer: (&Optimizer, u64),
    work: &mut Work,
    isa: Isa,
) -> f64 {
    let Parameters { embeddings, first, second } = parameters;
    let (width, relation_width) = (scoring.entity_width(), scoring.relation_width());
    let (count, entities, relations) = (questions.len(), embeddings.entities.rows(), embeddings.relations.rows());
    let sides = scoring.relation_sides();
    let asks_relations = softmax.relations > 0.0;
    let queries = table(&mut work.queries, count, width);
    let d_queries = table(&mut work.d_queries, count, width);
    let d_ends = table(&mut work.d_ends, count * (1 + usize::from(asks_relations)), width);
    let d_relations = table(&mut work.d_relations, count, relation_width);
    let d_entities = table(&mut work.d_entities, entities.next_multiple_of(CHUNK), width);
    let stride = queries.stride();
    work.touches.build(questions, asks_relations);

    let rows: &Embeddings = embeddings;
    queries
        .as_mut_slice()
        .par_chunks_mut(STRIP * stride)
        .zip(questions.par_chunks(STRIP))
        .for_each(|(queries, questions)| isa.run(Queries { scoring, rows, questions, queries, stride, width }));
    let candidates = Candidates {
        data: rows.entities.as_slice(),
        width,
        stride: rows.entities.stride(),
        chunks: Candidates::rows(0, entities, rows.entities.stride()).collect(),
    };
    let weights: Vec<f32> = questions.iter().map(|question| question.weight / count as f32).collect();
    let answers: Vec<u32> = questions.iter().map(Question::answer).collect();
    let asked = Asked { queries, answers: &answers, weights: &weights };
    let loss = ask(&asked, &candidates, &mut work.scores, d_queries, d_entities, isa);

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
            chunks: (0..sides).flat_map(|side| Candidates::rows(side * half, relations, stride_of_rows)).collect(),
        };
        let place = |question: &Question| {
            let side = if sides == 2 && question.side == Side::Head { relations.next_multiple_of(CHUNK) } else { 0 };
            side as u32 + question.triple.relation.0
        };
        let answers: Vec<u32> = questions.iter().map(place).collect();
        let weights: Vec<f32> = weights.iter().map(|weight| weight * softmax.relations).collect();
        let asked = Asked { queries, answers: &answers, weights: &weights };
        ask(&asked, &candidates, &mut work.scores, d_queries, d_candidates, isa);
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

    let (optimizer, steps) = optimizer;
    let penalty = 3.0 * softmax.n3 / count as f32;
    let ((first_e, first_r), (second_e, second_r)) = (split(first), split(second));
    let touches: &Touches = &work.touches;
    let moves = MoveEntities {
        movement: Move::new(optimizer, optimizer.entity_rate, scoring.entity_parts(), steps),
        touches,
        d_ends,
        penalty,
        parts: scoring.entity_parts(),
        width,
        stride: embeddings.entities.stride(),
    };
    let gradients = &mut d_entities.as_mut_slice()[..entities * stride];
    moves.run(isa, 0, gradients, embeddings.entities.as_mut_slice(), first_e, second_e);
    let mut relation_rows = RelationRows {
        stride: embeddings.relations.stride(),
        parameters: embeddings.relations.as_mut_slice(),
        first: first_r,
        second: second_r,
    };
    let mut gradient = vec![0.0f32; relation_width];
    let movement = Move::new(optimizer, optimizer.relation_rate, scoring.relation_parts(), steps);
    let mut runs = touches.relations.chunk_by(|x, y| x.0 == y.0).peekable();
    for relation in 0..relations {
        let run = runs.next_if(|run| run[0].0 as usize == relation).unwrap_or_default();
        isa.run(MoveRelation {
            run,
            relation,
            questions,
            d_relations,
            d_asked,
            gradient: &mut gradient,
            rows: &mut relation_rows,
            penalty,
            sides,
            parts: scoring.relation_parts() / sides,
            movement,
        });
    }
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
        let places =
            self.d_given.chunks_exact_mut(self.stride).zip(self.d_relations.chunks_exact_mut(self.relation_stride));
        for ((at, question), (d_given, d_relation)) in self.questions.iter().enumerate().zip(places) {
            let d_query = self.d_queries.row(self.first + at);
            let given = self.rows.entities.row(question.given() as usize);
            let relation = self.rows.relations.row(question.triple.relation.index());
            let (d_given, d_relation) = (&mut d_given[..width], &mut d_relation[..relation_width]);
            d_given.fill(0.0);
            d_relation.fill(0.0);
            match question.side {
                Side::Tail => self.scoring.tail_query_backward(given, relation, d_query, d_given, d_relation),
                Side::Head => self.scoring.head_query_backward(relation, given, d_query, d_relation, d_given),
            }
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

/// Adds `weight` · |x| x to the gradient: moduli over complex pairs where a row has two parts.
#[inline(always)]
fn add_penalty(weight: f32, parts: usize, x: &[f32], gradient: &mut [f32]) {
    if parts == 2 {
        let half = x.len() / 2;
        let (x_re, x_im) = x.split_at(half);
        let (g_re, g_im) = gradient[..2 * half].split_at_mut(half);
        for i in 0..half {
            let factor = weight * x_im[i].mul_add(x_im[i], x_re[i] * x_re[i]).sqrt();
            g_re[i] = factor.mul_add(x_re[i], g_re[i]);
            g_im[i] = factor.mul_add(x_im[i], g_im[i]);
        }
    } else {
        for (g, &x) in gradient.iter_mut().zip(x) {
            *g = (weight * x.abs()).mul_add(x, *g);
        }
    }
}

/// All entity rows: softmax touches every one of them.
struct MoveEntities<'a> {
    movement: Move,
    touches: &'a Touches,
    d_ends: &'a Table,
    penalty: f32,
    parts: usize,
    width: usize,
    stride: usize,
}

impl MoveEntities<'_> {
    fn run(&self, isa: Isa, first_row: usize, d: &mut [f32], x: &mut [f32], a: &mut [f32], b: &mut [f32]) {
        let rows = x.len() / self.stride;
        if rows <= 64 {
            return isa.run(MoveRows { moves: self, first_row, d, x, a, b });
        }
        let middle = rows / 2;
        let at = |part: &[f32]| if part.is_empty() { 0 } else { middle * self.stride };
        let (cuts, first_right) = ((at(a), at(b)), first_row + middle);
        let (d_left, d_right) = d.split_at_mut(middle * self.stride);
        let (x_left, x_right) = x.split_at_mut(middle * self.stride);
        let (a_left, a_right) = a.split_at_mut(cuts.0);
        let (b_left, b_right) = b.split_at_mut(cuts.1);
        rayon::join(
            || self.run(isa, first_row, d_left, x_left, a_left, b_left),
            || self.run(isa, first_right, d_right, x_right, a_right, b_right),
        );
    }
}

struct MoveRows<'m, 'a> {
    moves: &'m MoveEntities<'a>,
    first_row: usize,
    d: &'m mut [f32],
    x: &'m mut [f32],
    a: &'m mut [f32],
    b: &'m mut [f32],
}

#[inline(always)]
fn row_of(rows: &mut [f32], at: usize, stride: usize, width: usize) -> &mut [f32] {
    if rows.is_empty() { rows } else { &mut rows[at * stride..][..width] }
}

impl Kernel for MoveRows<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Self { moves, first_row, d, x, a, b } = self;
        let (stride, width) = (moves.stride, moves.width);
        let from = |list: &[(u32, u32)]| list.partition_point(|&(entity, _)| (entity as usize) < first_row);
        let mut ends = moves.touches.ends[from(&moves.touches.ends)..].iter().peekable();
        let weights = &moves.touches.entity_weights;
        let mut weights = weights[weights.partition_point(|&(e, _)| (e as usize) < first_row)..].iter().peekable();
        for at in 0..x.len() / stride {
            let entity = (first_row + at) as u32;
            let gradient = row_of(d, at, stride, width);
            let parameters = row_of(x, at, stride, width);
            while let Some(&&(_, slot)) = ends.peek().filter(|touch| touch.0 == entity) {
                row::add_scaled(gradient, 1.0, moves.d_ends.row(slot as usize));
                ends.next();
            }
            if let Some(&&(_, weight)) = weights.peek().filter(|touch| touch.0 == entity) {
                add_penalty(moves.penalty * weight, moves.parts, parameters, gradient);
                weights.next();
            }
            let (a, b) = (row_of(a, at, stride, width), row_of(b, at, stride, width));
            moves.movement.apply(gradient, parameters, a, b);
        }
    }
}

struct RelationRows<'a> {
    stride: usize,
    parameters: &'a mut [f32],
    first: &'a mut [f32],
    second: &'a mut [f32],
}

struct MoveRelation<'m, 'a> {
    run: &'m [(u32, u32)],
    relation: usize,
    questions: &'m [Question],
    d_relations: &'m Table,
    /// By candidate, where relations were asked for: one side's rows, then the other's.
    d_asked: Option<&'m Table>,
    gradient: &'m mut [f32],
    rows: &'m mut RelationRows<'a>,
    penalty: f32,
    sides: usize,
    parts: usize,
    movement: Move,
}

impl Kernel for MoveRelation<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let width = self.gradient.len();
        self.gradient.fill(0.0);
        let mut weights = [0.0f32; 2];
        for &(_, at) in self.run {
            let question = self.questions[at as usize];
            row::add_scaled(self.gradient, 1.0, self.d_relations.row(at as usize));
            weights[usize::from(self.sides == 2 && question.side == Side::Head)] += question.weight;
        }
        let from = self.relation * self.rows.stride;
        let own = |rows: &[f32]| if rows.is_empty() { 0..0 } else { from..from + width };
        let (first, second) = (own(self.rows.first), own(self.rows.second));
        let parameters = &mut self.rows.parameters[from..from + width];
        let side = width / self.sides;
        if let Some(d_asked) = self.d_asked {
            let rows = d_asked.rows() / self.sides;
            for half in 0..self.sides {
                let place = half * side..(half + 1) * side;
                row::add_scaled(&mut self.gradient[place], 1.0, d_asked.row(half * rows + self.relation));
            }
        }
        for (half, weight) in weights.iter().enumerate().take(self.sides) {
            let place = half * side..(half + 1) * side;
            add_penalty(self.penalty * weight, self.parts, &parameters[place.clone()], &mut self.gradient[place]);
        }
        self.movement.apply(self.gradient, parameters, &mut self.rows.first[first], &mut self.rows.second[second]);
    }
}
