//! Queries, and the way back from their gradients to the rows they were computed from.

use super::sample::Own;
use super::{Dropout, Question};
use crate::cpu::{Kernel, row};
use crate::embeddings::Embeddings;
use crate::scoring::ScoringFunction;
use crate::table::Table;
use ruge_kg::Side;

/// Questions whose rows one task owns.
pub(super) const STRIP: usize = 32;

/// The data that queries are computed from.
pub(super) struct Asking<'a, F> {
    pub scoring: &'a F,
    pub rows: &'a Embeddings,
    pub dropout: Option<Dropout>,
}

#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub questions: &'a [Question],
    /// The index of the first in the batch.
    pub first: usize,
}

/// Computes queries, `stride` floats apart.
pub(super) struct Queries<'a, F> {
    pub asking: &'a Asking<'a, F>,
    pub run: Run<'a>,
    pub queries: &'a mut [f32],
    pub stride: usize,
    /// Filled with the scores of the answers, if those are separate from a sample.
    pub own: Option<&'a mut [Own]>,
}

impl<F: ScoringFunction> Kernel for Queries<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Self { asking, run, queries, stride, mut own } = self;
        let Asking { scoring, rows, dropout } = asking;
        let width = scoring.entity_width();
        for (at, (question, query)) in run.questions.iter().zip(queries.chunks_exact_mut(stride)).enumerate() {
            let query = &mut query[..width];
            let given = rows.entities.row(question.given() as usize);
            let relation = rows.relations.row(question.triple.relation.index());
            match question.side {
                Side::Tail => scoring.tail_query(given, relation, query),
                Side::Head => scoring.head_query(relation, given, query),
            }
            if let Some(dropout) = dropout {
                dropout.apply(run.first + at, query);
            }
            if let Some(own) = &mut own {
                own[at].score = row::dot(query, rows.entities.row(question.answer() as usize));
            }
        }
    }
}

/// From the gradients of queries to those of known ends and relations.
pub(super) struct Backward<'a, F> {
    pub asking: &'a Asking<'a, F>,
    pub run: Run<'a>,
    /// The gradients from the questions' own answers, if those are separate from a sample.
    pub own: Option<&'a [Own]>,
    pub d_queries: &'a mut [f32],
    pub d_given: &'a mut [f32],
    pub stride: usize,
    pub d_relations: &'a mut [f32],
    pub relation_stride: usize,
}

impl<F: ScoringFunction> Kernel for Backward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Self { asking, run, own, d_queries, d_given, stride, d_relations, relation_stride } = self;
        let Asking { scoring, rows, dropout } = asking;
        let (width, relation_width) = (scoring.entity_width(), scoring.relation_width());
        let side = relation_width / scoring.relation_sides();
        let d_queries = d_queries.chunks_exact_mut(stride);
        let places = d_given.chunks_exact_mut(stride).zip(d_relations.chunks_exact_mut(relation_stride));
        // The gradient of both sides; a question has one of them.
        let mut whole = vec![0.0f32; relation_width];
        for ((at, question), (d_query, (d_given, d_relation))) in
            run.questions.iter().enumerate().zip(d_queries.zip(places))
        {
            let (d_query, d_given) = (&mut d_query[..width], &mut d_given[..width]);
            if let Some(own) = own {
                row::add_scaled(d_query, own[at].d_score, rows.entities.row(question.answer() as usize));
            }
            if let Some(dropout) = dropout {
                dropout.apply(run.first + at, d_query);
            }
            let given = rows.entities.row(question.given() as usize);
            let relation = rows.relations.row(question.triple.relation.index());
            d_given.fill(0.0);
            let from = if question.side == Side::Tail { 0 } else { relation_width - side };
            whole[from..from + side].fill(0.0);
            match question.side {
                Side::Tail => scoring.tail_query_backward(given, relation, d_query, d_given, &mut whole),
                Side::Head => scoring.head_query_backward(relation, given, d_query, &mut whole, d_given),
            }
            d_relation[..side].copy_from_slice(&whole[from..from + side]);
        }
    }
}

pub(super) struct RelationQueries<'a, F> {
    pub scoring: &'a F,
    pub rows: &'a Embeddings,
    pub questions: &'a [Question],
    pub queries: &'a mut [f32],
    pub stride: usize,
    pub width: usize,
}

/// Head and tail of the triple whose relation is asked for; a reciprocal relation leads from the tail to the head.
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

pub(super) struct RelationBackward<'a, F> {
    pub scoring: &'a F,
    pub rows: &'a Embeddings,
    pub questions: &'a [Question],
    pub first: usize,
    pub d_queries: &'a Table,
    pub d_given: &'a mut [f32],
    pub d_answers: &'a mut [f32],
    pub stride: usize,
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
