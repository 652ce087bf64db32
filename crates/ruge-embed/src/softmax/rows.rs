//! The end of a softmax step: each touched row has one owner, which adds its gradients and updates it.

use super::sample::Own;
use super::{Question, Touches};
use crate::cpu::{Isa, Kernel, prefetch, row};
use crate::optimizer::Move;
use crate::scoring::{Scratch, Transform};
use crate::table::Table;
use crate::update::Kind;
use ruge_kg::Side;

/// Adds `weight` · (cubed · |x| + squared) · x to the gradient, with moduli over complex pairs if a row has two parts.
#[inline(always)]
fn add_penalty([cubed, squared]: [f32; 2], weight: f32, parts: usize, x: &[f32], gradient: &mut [f32]) {
    let (weight, squared) = (cubed * weight, squared * weight);
    if parts == 2 {
        let half = x.len() / 2;
        let (x_re, x_im) = x.split_at(half);
        let (g_re, g_im) = gradient[..2 * half].split_at_mut(half);
        for i in 0..half {
            let factor = weight.mul_add(x_im[i].mul_add(x_im[i], x_re[i] * x_re[i]).sqrt(), squared);
            g_re[i] = factor.mul_add(x_re[i], g_re[i]);
            g_im[i] = factor.mul_add(x_im[i], g_im[i]);
        }
    } else {
        for (g, &x) in gradient.iter_mut().zip(x) {
            *g = weight.mul_add(x.abs(), squared).mul_add(x, *g);
        }
    }
}

/// An entity row updated by a batch, and where the parts of its gradient are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TouchedRow {
    /// The row.
    pub entity: u32,
    /// Its row among the candidates' gradients; `None` if it was not drawn.
    pub candidate: Option<u32>,
    /// Its weight in the penalty.
    pub weight: f32,
    /// Slots of [`Touches::ends`].
    pub ends: [u32; 2],
    /// Slots of [`Touches::answers`].
    pub answers: [u32; 2],
}

/// All entities, or those drawn and those named by questions.
pub fn list_touched(touches: &Touches, sample: Option<&[u32]>, entities: usize, list: &mut Vec<TouchedRow>) {
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

/// Updates the touched rows, each by one owner.
pub(super) struct MoveEntities<'a> {
    pub movement: Move,
    pub touches: &'a Touches,
    pub d_entities: &'a Table,
    pub d_ends: &'a Table,
    /// Answers separate from a sample, by question.
    pub own: &'a [Own],
    pub queries: &'a Table,
    pub penalty: [f32; 2],
    pub parts: usize,
    pub isa: Isa,
}

impl MoveEntities<'_> {
    /// Updates the rows of the list; `rows` starts with entity 0.
    pub fn run(&self, list: &[TouchedRow], rows: ParameterRows<'_>) {
        rows.share_out(list, &|touched| touched.entity as usize, &|list, rows| {
            self.isa.run(MoveRows { moves: self, list, rows });
        });
    }
}

/// Consecutive rows of a parameter table and of the moments the optimiser keeps.
pub(super) struct ParameterRows<'a> {
    /// The first row of the slices.
    first: usize,
    stride: usize,
    width: usize,
    parameters: &'a mut [f32],
    moments: [&'a mut [f32]; 2],
    /// Rows as scored, if that is a different basis.
    images: &'a mut [f32],
    image_stride: usize,
    image_width: usize,
    transform: Option<(&'a dyn Transform, Kind)>,
}

impl<'a> ParameterRows<'a> {
    pub fn of(
        parameters: &'a mut Table,
        moments: [&'a mut [f32]; 2],
        images: Option<&'a mut Table>,
        transform: Option<(&'a dyn Transform, Kind)>,
    ) -> Self {
        let (stride, width) = (parameters.stride(), parameters.width());
        let (image_stride, image_width) = images.as_ref().map_or((0, width), |table| (table.stride(), table.width()));
        let images = images.map_or(&mut [][..], Table::as_mut_slice);
        let parameters = parameters.as_mut_slice();
        Self { first: 0, stride, width, parameters, moments, images, image_stride, image_width, transform }
    }

    /// Splits the list into short pieces, each with the rows it names. The list is sorted by `row`.
    fn share_out<T: Sync>(
        self,
        list: &[T],
        row: &(impl Fn(&T) -> usize + Sync),
        work: &(impl Fn(&[T], ParameterRows<'_>) + Sync),
    ) {
        if list.len() <= 64 {
            return work(list, self);
        }
        let (left, right) = list.split_at(list.len() / 2);
        let (left_rows, right_rows) = self.split_at(row(&right[0]));
        rayon::join(|| left_rows.share_out(left, row, work), || right_rows.share_out(right, row, work));
    }

    fn split_at(self, row: usize) -> (Self, Self) {
        let Self { first, stride, width, parameters, moments, images, image_stride, image_width, transform } = self;
        let cut = |part: &'a mut [f32], stride: usize| {
            let at = if part.is_empty() { 0 } else { (row - first) * stride };
            part.split_at_mut(at)
        };
        let [a, b] = moments;
        let ((x_left, x_right), (image_left, image_right)) = (cut(parameters, stride), cut(images, image_stride));
        let ((a_left, a_right), (b_left, b_right)) = (cut(a, stride), cut(b, stride));
        let part = |first, parameters, moments, images| Self {
            first,
            stride,
            width,
            parameters,
            moments,
            images,
            image_stride,
            image_width,
            transform,
        };
        (part(first, x_left, [a_left, b_left], image_left), part(row, x_right, [a_right, b_right], image_right))
    }

    /// The basis change, for one thread.
    fn basis(&self) -> Option<Basis<'a>> {
        let (transform, kind) = self.transform?;
        Some(Basis { transform, kind, scratch: transform.scratch(), gradient: vec![0.0; self.width] })
    }

    /// Recomputes a row as scored from its parameters.
    #[inline(always)]
    fn refresh(&mut self, row: usize, basis: &mut Option<Basis<'_>>) {
        let Some(basis) = basis else { return };
        let (from, image) = ((row - self.first) * self.stride, (row - self.first) * self.image_stride);
        let image = &mut self.images[image..image + self.image_width];
        basis.forth(&self.parameters[from..from + self.width], image);
    }

    #[inline(always)]
    fn row(&mut self, row: usize) -> [&mut [f32]; 3] {
        let from = (row - self.first) * self.stride;
        let width = self.width;
        let [a, b] = &mut self.moments;
        [&mut *self.parameters, a, b].map(|part| if part.is_empty() { part } else { &mut part[from..from + width] })
    }

    #[inline(always)]
    fn prefetch(&self, row: usize) {
        let from = (row - self.first) * self.stride;
        for part in [&*self.parameters, &*self.moments[0], &*self.moments[1]] {
            prefetch(part.get(from..from + self.width).unwrap_or_default());
        }
    }
}

/// Maps gradients by scored rows to gradients by parameters, and parameters to scored rows.
struct Basis<'a> {
    transform: &'a dyn Transform,
    kind: Kind,
    scratch: Scratch,
    gradient: Vec<f32>,
}

impl Basis<'_> {
    fn back(&mut self, d_image: &[f32]) -> &mut [f32] {
        match self.kind {
            Kind::Entity => self.transform.entity_adjoint(d_image, &mut self.gradient, &mut self.scratch),
            Kind::Relation => self.transform.relation_adjoint(d_image, &mut self.gradient, &mut self.scratch),
        }
        &mut self.gradient
    }

    fn forth(&mut self, parameters: &[f32], image: &mut [f32]) {
        match self.kind {
            Kind::Entity => self.transform.entity(parameters, image, &mut self.scratch),
            Kind::Relation => self.transform.relation(parameters, image, &mut self.scratch),
        }
    }
}

/// A sum of rows; the first is written, the others are added.
struct RowSum<'a> {
    row: &'a mut [f32],
    begun: bool,
}

impl RowSum<'_> {
    #[inline(always)]
    fn add(&mut self, factor: f32, row: &[f32]) {
        if self.begun {
            row::add_scaled(self.row, factor, row);
        } else {
            self.row.iter_mut().zip(row).for_each(|(sum, x)| *sum = factor * x);
            self.begun = true;
        }
    }

    #[inline(always)]
    fn end(self) {
        if !self.begun {
            self.row.fill(0.0);
        }
    }
}

struct MoveRows<'m, 'a> {
    moves: &'m MoveEntities<'a>,
    list: &'m [TouchedRow],
    rows: ParameterRows<'m>,
}

impl Kernel for MoveRows<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Self { moves, list, mut rows } = self;
        let mut gradient = vec![0.0f32; rows.image_width];
        let mut basis = rows.basis();
        let slots = |range: [u32; 2]| range[0] as usize..range[1] as usize;
        for (at, touched) in list.iter().enumerate() {
            if let Some(next) = list.get(at + 1) {
                rows.prefetch(next.entity as usize);
            }
            let mut sum = RowSum { row: &mut gradient, begun: false };
            if let Some(place) = touched.candidate {
                sum.add(1.0, moves.d_entities.row(place as usize));
            }
            for &(_, question) in &moves.touches.answers[slots(touched.answers)] {
                sum.add(moves.own[question as usize].d_score, moves.queries.row(question as usize));
            }
            for &(_, slot) in &moves.touches.ends[slots(touched.ends)] {
                sum.add(1.0, moves.d_ends.row(slot as usize));
            }
            sum.end();
            let gradient = match &mut basis {
                Some(basis) => basis.back(&gradient),
                None => &mut gradient[..],
            };
            let [parameters, a, b] = rows.row(touched.entity as usize);
            if touched.weight > 0.0 {
                add_penalty(moves.penalty, touched.weight, moves.parts, parameters, gradient);
            }
            moves.movement.apply(gradient, parameters, a, b);
            rows.refresh(touched.entity as usize, &mut basis);
        }
    }
}

/// A relation row updated by a batch.
#[derive(Clone, Copy)]
pub(super) struct TouchedRelation {
    relation: u32,
    slots: [u32; 2],
}

/// The relations named by questions, or all.
pub(super) fn list_relations(touches: &Touches, all: Option<usize>, list: &mut Vec<TouchedRelation>) {
    list.clear();
    let mut runs = touches.relations.chunk_by(|x, y| x.0 == y.0).peekable();
    let mut from = 0;
    let mut add = |relation: u32, count: usize| {
        list.push(TouchedRelation { relation, slots: [from, from + count as u32] });
        from += count as u32;
    };
    match all {
        None => runs.for_each(|run| add(run[0].0, run.len())),
        Some(relations) => (0..relations as u32).for_each(|relation| {
            add(relation, runs.next_if(|run| run[0].0 == relation).map_or(0, <[_]>::len));
        }),
    }
}

/// Updates relation rows, each by one owner.
pub(super) struct MoveRelations<'a> {
    /// The update of one side.
    pub movement: Move,
    pub touches: &'a Touches,
    pub questions: &'a [Question],
    /// By question, the gradient of the side of its relation's row that it uses.
    pub d_relations: &'a Table,
    /// By candidate, if relations were asked for: one side's rows, then the other's.
    pub d_asked: Option<&'a Table>,
    pub penalty: [f32; 2],
    pub sides: usize,
    pub parts: usize,
    pub isa: Isa,
}

impl MoveRelations<'_> {
    /// Updates the rows of the list; `rows` starts with relation 0.
    pub fn run(&self, list: &[TouchedRelation], rows: ParameterRows<'_>) {
        rows.share_out(list, &|touched| touched.relation as usize, &|list, rows| {
            self.isa.run(MoveSides { moves: self, list, rows });
        });
    }
}

/// A side of a row; empty for a moment the optimiser does not keep.
#[inline(always)]
fn side_of(row: &mut [f32], side: usize, width: usize) -> &mut [f32] {
    if row.is_empty() { row } else { &mut row[side * width..(side + 1) * width] }
}

struct MoveSides<'m, 'a> {
    moves: &'m MoveRelations<'a>,
    list: &'m [TouchedRelation],
    rows: ParameterRows<'m>,
}

impl Kernel for MoveSides<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Self { moves, list, mut rows } = self;
        let side = rows.image_width / moves.sides;
        let mut gradient = vec![0.0f32; rows.image_width];
        let mut basis = rows.basis();
        for touched in list {
            let mut weights = [0.0f32; 2];
            gradient.fill(0.0);
            for &(_, at) in &moves.touches.relations[touched.slots[0] as usize..touched.slots[1] as usize] {
                let question = moves.questions[at as usize];
                let half = usize::from(moves.sides == 2 && question.side == Side::Head);
                row::add_scaled(&mut gradient[half * side..][..side], 1.0, moves.d_relations.row(at as usize));
                weights[half] += question.weight;
            }
            if let Some(d_asked) = moves.d_asked {
                let rows = d_asked.rows() / moves.sides;
                for (half, gradient) in gradient.chunks_exact_mut(side).enumerate() {
                    row::add_scaled(gradient, 1.0, d_asked.row(half * rows + touched.relation as usize));
                }
            }
            let gradient = match &mut basis {
                Some(basis) => basis.back(&gradient),
                None => &mut gradient[..],
            };
            let half = rows.width / moves.sides;
            let [parameters, a, b] = rows.row(touched.relation as usize);
            for (side, &weight) in weights[..moves.sides].iter().enumerate() {
                // A side without a gradient is unchanged, unless the optimiser keeps it moving.
                if weight == 0.0 && moves.d_asked.is_none() && moves.movement.rests() {
                    continue;
                }
                let part = |row| side_of(row, side, half);
                let [gradient, parameters, a, b] = [&mut *gradient, &mut *parameters, &mut *a, &mut *b].map(part);
                if weight > 0.0 {
                    add_penalty(moves.penalty, weight, moves.parts, parameters, gradient);
                }
                moves.movement.apply(gradient, parameters, a, b);
            }
            rows.refresh(touched.relation as usize, &mut basis);
        }
    }
}
