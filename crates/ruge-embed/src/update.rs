//! The second pass of a step: the owner of each row adds its contributions and updates it.
//!
//! A row's gradient exists only while its owner works on it, so there is no gradient table: summing, the L2 penalty,
//! the cap and the optimiser run over a row that stays in the L1 cache.

use crate::cpu::{Isa, Kernel, prefetch, row};
use crate::incidence::{HEAD_GRADIENT, Incidence, PARTS};
use crate::optimizer::Move;
use crate::scoring::{Comparator, ScoringFunction, Scratch, Transform};

pub(crate) trait Sources: Sync {
    fn is_touched(&self, index: usize) -> bool;
    /// Adds the row's contributions; `scored` is the row as scored.
    fn add_up(&self, index: usize, scored: &[f32], gradient: &mut [f32]);
    /// Prefetches the row's contributions.
    fn fetch(&self, index: usize);
    fn occurrences(&self, index: usize) -> [u32; 2];
}

/// Contributions to entity rows: vectors of slots.
pub(crate) struct EntitySources<'a> {
    pub incidence: &'a Incidence,
    pub slots: &'a [f32],
    pub stride: usize,
    pub d_scores: &'a [f32],
    pub comparator: Comparator,
}

impl EntitySources<'_> {
    #[inline(always)]
    fn vector(&self, source: u32, width: usize) -> &[f32] {
        &self.slots[source as usize * self.stride..][..width]
    }

    #[inline(always)]
    fn coefficient(&self, coefficient: u32) -> f32 {
        // Past the end is u32::MAX, which stands for 1.
        self.d_scores.get(coefficient as usize).copied().unwrap_or(1.0)
    }
}

impl Sources for EntitySources<'_> {
    #[inline(always)]
    fn is_touched(&self, index: usize) -> bool {
        !self.incidence.touches(index).is_empty()
    }

    #[inline(always)]
    fn add_up(&self, index: usize, scored: &[f32], gradient: &mut [f32]) {
        let width = gradient.len();
        if self.comparator == Comparator::Dot {
            // Four vectors per pass over the gradient: the same chain of additions with fewer loads and stores.
            let mut chosen = [(0.0f32, 0u32); 4];
            let mut count = 0;
            for touch in self.incidence.touches(index) {
                let c = self.coefficient(touch.coefficient);
                if c != 0.0 {
                    chosen[count] = (c, touch.source);
                    count += 1;
                    if count == 4 {
                        add_four(gradient, chosen.map(|(c, source)| (c, self.vector(source, width))));
                        count = 0;
                    }
                }
            }
            for &(c, source) in &chosen[..count] {
                row::add_scaled(gradient, c, self.vector(source, width));
            }
        } else {
            for touch in self.incidence.touches(index) {
                let c = self.coefficient(touch.coefficient);
                let vector = self.vector(touch.source, width);
                if touch.source as usize % PARTS >= HEAD_GRADIENT {
                    row::add_scaled(gradient, 1.0, vector);
                } else if c != 0.0 {
                    row::add_d_candidate(self.comparator, c, vector, scored, gradient);
                }
            }
        }
    }

    #[inline(always)]
    fn fetch(&self, index: usize) {
        for touch in self.incidence.touches(index).iter().take(6) {
            if self.coefficient(touch.coefficient) != 0.0 {
                prefetch(self.vector(touch.source, self.stride));
            }
        }
    }

    #[inline(always)]
    fn occurrences(&self, index: usize) -> [u32; 2] {
        self.incidence.entity_occurrences[index]
    }
}

/// y += Σ c x, in the order given.
#[inline(always)]
fn add_four(y: &mut [f32], [a, b, c, d]: [(f32, &[f32]); 4]) {
    let n = y.len();
    let (ax, bx, cx, dx) = (&a.1[..n], &b.1[..n], &c.1[..n], &d.1[..n]);
    for i in 0..n {
        y[i] = d.0.mul_add(dx[i], c.0.mul_add(cx[i], b.0.mul_add(bx[i], a.0.mul_add(ax[i], y[i]))));
    }
}

/// Contributions to relation rows: partial sums of segments.
pub(crate) struct RelationSources<'a> {
    pub incidence: &'a Incidence,
    pub partials: &'a [f32],
    pub stride: usize,
}

impl Sources for RelationSources<'_> {
    #[inline(always)]
    fn is_touched(&self, index: usize) -> bool {
        !self.incidence.segments_of(index).is_empty()
    }
    #[inline(always)]
    fn add_up(&self, index: usize, _scored: &[f32], gradient: &mut [f32]) {
        for &segment in self.incidence.segments_of(index) {
            let partial = &self.partials[segment as usize * self.stride..];
            row::add_scaled(gradient, 1.0, &partial[..gradient.len()]);
        }
    }
    #[inline(always)]
    fn fetch(&self, _index: usize) {}
    #[inline(always)]
    fn occurrences(&self, index: usize) -> [u32; 2] {
        self.incidence.relation_occurrences[index]
    }
}

/// The second pass over one table.
pub(crate) struct Owner<'a, S> {
    pub sources: S,
    pub movement: Move,
    /// 2 · λ/d · 1/n for labeled and unlabeled occurrences.
    pub l2: [f32; 2],
    /// Factor per part of a row, from a cap on whole matrices.
    pub factors: [f32; 2],
    pub parts: usize,
    pub transform: Option<(&'a dyn Transform, Kind)>,
    /// Floats of a row, of its image, and from row to row in either.
    pub width: usize,
    pub stride: usize,
    pub image_width: usize,
    pub image_stride: usize,
    pub isa: Isa,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Entity,
    Relation,
}

/// A run of rows: parameters, state and images, each empty if absent.
pub(crate) struct Rows<'a> {
    pub first_row: usize,
    pub parameters: &'a mut [f32],
    pub first: &'a mut [f32],
    pub second: &'a mut [f32],
    pub images: &'a mut [f32],
    /// Squares of each part of each row's gradient, if they are only measured.
    pub squares: &'a mut [[f64; 2]],
}

/// Minimum rows for which splitting the work pays off.
const GRAIN: usize = 64;

impl<S: Sources> Owner<'_, S> {
    /// Updates the rows in parallel, or only measures their gradients if `squares` is not empty.
    pub fn run(&self, rows: Rows<'_>) {
        let count = rows.parameters.len() / self.stride;
        if count <= GRAIN {
            return self.isa.run(RunOwner { owner: self, rows });
        }
        let middle = count / 2;
        let floats = middle * self.stride;
        let (left_parameters, right_parameters) = cut(rows.parameters, floats);
        let (left_first, right_first) = cut(rows.first, floats);
        let (left_second, right_second) = cut(rows.second, floats);
        let (left_images, right_images) = cut(rows.images, middle * self.image_stride);
        let (left_squares, right_squares) = cut(rows.squares, middle);
        let left = Rows {
            first_row: rows.first_row,
            parameters: left_parameters,
            first: left_first,
            second: left_second,
            images: left_images,
            squares: left_squares,
        };
        let right = Rows {
            first_row: rows.first_row + middle,
            parameters: right_parameters,
            first: right_first,
            second: right_second,
            images: right_images,
            squares: right_squares,
        };
        rayon::join(|| self.run(left), || self.run(right));
    }
}

fn cut<T>(slice: &mut [T], at: usize) -> (&mut [T], &mut [T]) {
    let at = at.min(slice.len());
    slice.split_at_mut(at)
}

/// The row at a position, or an empty slice if there is no table.
#[inline(always)]
fn row_at(slice: &mut [f32], at: usize, stride: usize, width: usize) -> &mut [f32] {
    if slice.is_empty() { slice } else { &mut slice[at * stride..][..width] }
}

struct RunOwner<'o, 'a, S> {
    owner: &'o Owner<'a, S>,
    rows: Rows<'o>,
}

impl<S: Sources> Kernel for RunOwner<'_, '_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { owner, rows } = self;
        let count = rows.parameters.len() / owner.stride;
        let mut buffer = vec![0.0f32; owner.width + owner.image_width];
        let mut scratch = owner.transform.map_or_else(Scratch::default, |(transform, _)| transform.scratch());
        for at in 0..count {
            let index = rows.first_row + at;
            if at + 1 < count {
                owner.sources.fetch(index + 1);
            }
            if !owner.sources.is_touched(index) {
                continue;
            }
            let (own, image_gradient) = buffer.split_at_mut(owner.width);
            let parameters = row_at(rows.parameters, at, owner.stride, owner.width);
            let image = row_at(rows.images, at, owner.image_stride, owner.image_width);
            match owner.transform {
                None => {
                    own.fill(0.0);
                    owner.sources.add_up(index, parameters, own);
                }
                Some((transform, kind)) => {
                    image_gradient.fill(0.0);
                    owner.sources.add_up(index, image, image_gradient);
                    match kind {
                        Kind::Entity => transform.entity_adjoint(image_gradient, own, &mut scratch),
                        Kind::Relation => transform.relation_adjoint(image_gradient, own, &mut scratch),
                    }
                }
            }
            let [labeled, unlabeled] = owner.sources.occurrences(index);
            let l2 = (labeled as f32).mul_add(owner.l2[0], unlabeled as f32 * owner.l2[1]);
            if l2 != 0.0 {
                row::add_scaled(own, l2, parameters);
            }
            if !rows.squares.is_empty() {
                for (part, squares) in own.chunks_exact(owner.width / owner.parts).zip(&mut rows.squares[at]) {
                    *squares = f64::from(row::sum_of_squares(part));
                }
                continue;
            }
            if owner.factors != [1.0; 2] {
                for (part, &factor) in own.chunks_exact_mut(owner.width / owner.parts).zip(&owner.factors) {
                    row::scale(part, factor);
                }
            }
            let first = row_at(rows.first, at, owner.stride, owner.width);
            let second = row_at(rows.second, at, owner.stride, owner.width);
            owner.movement.apply(own, parameters, first, second);
            match owner.transform {
                None => {}
                Some((transform, Kind::Entity)) => transform.entity(parameters, image, &mut scratch),
                Some((transform, Kind::Relation)) => transform.relation(parameters, image, &mut scratch),
            }
        }
    }
}

/// Divides every row by its L2 norm.
pub(crate) struct Normalise<'a> {
    pub rows: &'a mut [f32],
    pub stride: usize,
    pub width: usize,
}

impl Kernel for Normalise<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for row in self.rows.chunks_exact_mut(self.stride) {
            row::normalise(&mut row[..self.width]);
        }
    }
}

/// The transform of a scoring function for one kind of rows.
pub(crate) fn transform_of<F: ScoringFunction>(scoring: &F, kind: Kind) -> Option<(&dyn Transform, Kind)> {
    scoring.transform().map(|transform| (transform, kind))
}
