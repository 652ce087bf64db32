//! The end of a softmax step: every touched row adds up what touches it and moves, each by one owner.

use super::{Question, Touches};
use crate::cpu::{Isa, Kernel, row};
use crate::optimizer::Move;
use crate::rank::Side;
use crate::table::Table;

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

/// An entity row that a batch moves, and where the parts of its gradient stand.
#[derive(Clone, Copy)]
pub(super) struct TouchedRow {
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
pub(super) fn list_touched(touches: &Touches, sample: Option<&[u32]>, entities: usize, list: &mut Vec<TouchedRow>) {
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
pub(super) struct MoveEntities<'a> {
    pub movement: Move,
    pub touches: &'a Touches,
    pub d_entities: &'a Table,
    pub d_ends: &'a Table,
    pub d_own: &'a [f32],
    pub queries: &'a Table,
    pub penalty: f32,
    pub parts: usize,
    pub width: usize,
    pub stride: usize,
    pub isa: Isa,
}

impl MoveEntities<'_> {
    /// `x`, `a` and `b` begin with the row `first_row`.
    pub fn run(&self, list: &[TouchedRow], first_row: usize, x: &mut [f32], a: &mut [f32], b: &mut [f32]) {
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

pub(super) struct RelationRows<'a> {
    pub stride: usize,
    pub parameters: &'a mut [f32],
    pub first: &'a mut [f32],
    pub second: &'a mut [f32],
}

pub(super) struct MoveRelation<'m, 'a> {
    pub run: &'m [(u32, u32)],
    pub relation: usize,
    pub questions: &'m [Question],
    pub d_relations: &'m Table,
    /// By candidate, where relations were asked for: one side's rows, then the other's.
    pub d_asked: Option<&'m Table>,
    pub gradient: &'m mut [f32],
    pub rows: &'m mut RelationRows<'a>,
    pub penalty: f32,
    pub sides: usize,
    pub parts: usize,
    pub movement: Move,
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
