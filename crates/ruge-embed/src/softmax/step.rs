//! A softmax step on the processor.
//!
//! Queries, [`ask`], and back: every row's owner adds up what touches it and moves it, so nothing depends on the number of
//! threads.

use rayon::prelude::*;

use super::ask::{Asked, CHUNK, Candidates, Own, STRIP, ask};
use super::{Question, Softmax, Touches};
use crate::cpu::{Isa, Kernel, row};
use crate::embeddings::Embeddings;
use crate::optimizer::{Move, Optimizer, Rule};
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
    questions: &[Question],
    parameters: Parameters<'_>,
    moment: Moment<'_>,
    work: &mut Work,
    isa: Isa,
) -> f64 {
    let Parameters { embeddings, first, second } = parameters;
    let Moment { optimizer, seed, steps } = moment;
    let (width, relation_width) = (scoring.entity_width(), scoring.relation_width());
    let (count, entities, relations) = (questions.len(), embeddings.entities.rows(), embeddings.relations.rows());
    let sides = scoring.relation_sides();
    let asks_relations = softmax.relations > 0.0;
    let queries = table(&mut work.queries, count, width);
    let d_queries = table(&mut work.d_queries, count, width);
    let d_ends = table(&mut work.d_ends, count * (1 + usize::from(asks_relations)), width);
    let d_relations = table(&mut work.d_relations, count, relation_width);
    let sample = softmax.candidates(entities, seed, steps);
    let among = sample.as_ref().map_or(entities, Vec::len);
    let d_entities = table(&mut work.d_entities, among.next_multiple_of(CHUNK), width);
    let stride = queries.stride();
    work.touches.build(questions, asks_relations, sample.is_some());

    let rows: &Embeddings = embeddings;
    queries
        .as_mut_slice()
        .par_chunks_mut(STRIP * stride)
        .zip(questions.par_chunks(STRIP))
        .for_each(|(queries, questions)| isa.run(Queries { scoring, rows, questions, queries, stride, width }));
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
        chunks: Candidates::rows(0, among, candidate_rows.stride()).collect(),
    };
    let weights: Vec<f32> = questions.iter().map(|question| question.weight / count as f32).collect();
    let asked = Asked { queries, answers: &answers, weights: &weights, own };
    let mut d_own = std::mem::take(&mut work.d_own);
    let loss = ask(&asked, &candidates, &mut work.scores, d_queries, d_entities, &mut d_own, isa);
    if sample.is_some() {
        let pulls = d_queries.as_mut_slice().par_chunks_mut(STRIP * stride).zip(questions.par_chunks(STRIP));
        pulls.zip(d_own.par_chunks(STRIP)).for_each(|((d_queries, questions), d_own)| {
            isa.run(OwnPulls { rows, questions, d_own, d_queries, stride });
        });
    }

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
        let asked = Asked { queries, answers: &answers, weights: &weights, own: None };
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

    let penalty = 3.0 * softmax.n3 / count as f32;
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
        width,
        stride: embeddings.entities.stride(),
        isa,
    };
    moves.run(&work.touched, 0, embeddings.entities.as_mut_slice(), first_e, second_e);
    work.d_own = d_own;
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
        // Without a gradient only Adam moves.
        if run.is_empty() && d_asked.is_none() && !matches!(optimizer.rule, Rule::Adam { .. }) {
            continue;
        }
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

/// An entity row that a batch moves, and where the parts of its gradient stand.
#[derive(Clone, Copy)]
struct TouchedRow {
    entity: u32,
    /// Its row among the candidates' gradients; none where it was not drawn.
    candidate: Option<u32>,
    /// What it weighs in the penalty.
    weight: f32,
    /// Slots of `Touches::ends`.
    ends: [u32; 2],
    /// Slots of `Touches::answers`.
    answers: [u32; 2],
}

/// All entities, or those drawn and those that questions name.
fn list_touched(touches: &Touches, sample: Option<&[u32]>, entities: usize, list: &mut Vec<TouchedRow>) {
    list.clear();
    let (mut weights, mut end, mut answer) = (touches.entity_weights.iter().peekable(), 0, 0);
    let mut add = |entity: u32, candidate: Option<u32>| {
        let run = |list: &[(u32, u32)], from: &mut usize| {
            let begin = *from;
            *from += list[begin..].iter().take_while(|touch| touch.0 == entity).count();
            [begin as u32, *from as u32]
        };
        let weight = weights.next_if(|named| named.0 == entity).map_or(0.0, |named| named.1);
        let (ends, answers) = (run(&touches.ends, &mut end), run(&touches.answers, &mut answer));
        list.push(TouchedRow { entity, candidate, weight, ends, answers });
    };
    match sample {
        None => (0..entities as u32).for_each(|entity| add(entity, Some(entity))),
        Some(sample) => {
            let mut drawn = sample.iter().zip(0..).peekable();
            for &(named, _) in &touches.entity_weights {
                while let Some((&entity, place)) = drawn.next_if(|(entity, _)| **entity < named) {
                    add(entity, Some(place));
                }
                let place = drawn.next_if(|(entity, _)| **entity == named).map(|(_, place)| place);
                add(named, place);
            }
            drawn.for_each(|(&entity, place)| add(entity, Some(place)));
        }
    }
}

/// Moves the touched rows, each by one owner.
struct MoveEntities<'a> {
    movement: Move,
    touches: &'a Touches,
    d_entities: &'a Table,
    d_ends: &'a Table,
    d_own: &'a [f32],
    queries: &'a Table,
    penalty: f32,
    parts: usize,
    width: usize,
    stride: usize,
    isa: Isa,
}

impl MoveEntities<'_> {
    /// `x`, `a` and `b` begin with the row `first_row`.
    fn run(&self, list: &[TouchedRow], first_row: usize, x: &mut [f32], a: &mut [f32], b: &mut [f32]) {
        if list.len() <= 64 {
            return self.isa.run(MoveRows { moves: self, list, first_row, x, a, b });
        }
        let (left, right) = list.split_at(list.len() / 2);
        let from = right[0].entity as usize;
        let at = |part: &[f32]| if part.is_empty() { 0 } else { (from - first_row) * self.stride };
        let cuts = [at(x), at(a), at(b)];
        let (x_left, x_right) = x.split_at_mut(cuts[0]);
        let (a_left, a_right) = a.split_at_mut(cuts[1]);
        let (b_left, b_right) = b.split_at_mut(cuts[2]);
        rayon::join(
            || self.run(left, first_row, x_left, a_left, b_left),
            || self.run(right, from, x_right, a_right, b_right),
        );
    }
}

struct MoveRows<'m, 'a> {
    moves: &'m MoveEntities<'a>,
    list: &'m [TouchedRow],
    first_row: usize,
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
        let Self { moves, list, first_row, x, a, b } = self;
        let (stride, width) = (moves.stride, moves.width);
        let mut gradient = vec![0.0f32; width];
        let slots = |range: [u32; 2]| range[0] as usize..range[1] as usize;
        for touched in list {
            match touched.candidate {
                Some(place) => gradient.copy_from_slice(moves.d_entities.row(place as usize)),
                None => gradient.fill(0.0),
            }
            for &(_, question) in &moves.touches.answers[slots(touched.answers)] {
                row::add_scaled(&mut gradient, moves.d_own[question as usize], moves.queries.row(question as usize));
            }
            for &(_, slot) in &moves.touches.ends[slots(touched.ends)] {
                row::add_scaled(&mut gradient, 1.0, moves.d_ends.row(slot as usize));
            }
            let at = touched.entity as usize - first_row;
            let parameters = row_of(x, at, stride, width);
            if touched.weight > 0.0 {
                add_penalty(moves.penalty * touched.weight, moves.parts, parameters, &mut gradient);
            }
            let (a, b) = (row_of(a, at, stride, width), row_of(b, at, stride, width));
            moves.movement.apply(&mut gradient, parameters, a, b);
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
