//! R(p|h,t): which paths join the training pairs, and how much of a resource each carries (PCRA).
//!
//! A resource of 1 at h is split equally at every step over the entities the next relation leads to; R(p|h,t) is the
//! amount that arrives at t along p. For each ordered pair linked in the doubled graph, the resources of its paths are
//! normalised to sum 1, and paths with at most `drop` are removed without normalising again. Paths of two steps are
//! found by the common neighbours of h and t, so no dead end is walked.
//!
//! Everything is in flat arrays: pairs in link order, features by pair, and, aligned with them, the P(r|p) of a
//! triple's relation for the features of its pair, so training needs no lookups.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use ruge_kg::control::{Cancelled, Control};
use ruge_kg::{EntityId, Graph, Label};
use serde::{Deserialize, Serialize};

use super::PTransEConfig;
use super::confidence::{Confidences, ThreeStepReport};
use super::doubled::{Doubled, Sequence};
use super::walk::{WalkFrom, Walker};
use crate::error::{EmbedError, Result};

/// Entities whose features are held twice at a time while they are collected.
const BLOCK: usize = 1024;

/// The measured paths of a graph.
#[derive(Debug)]
pub struct Paths {
    doubled: Doubled,
    confidences: Confidences,
    heads: Vec<EntityId>,
    tails: Vec<EntityId>,
    /// Per link, its label and its pair.
    labels: Vec<Label>,
    pair_of: Vec<u32>,
    /// Per pair, the start of its features.
    first_feature: Vec<usize>,
    numbers: Vec<u32>,
    resources: Vec<f32>,
    /// Per link, the start of its P(r|p); none for an inverse relation.
    first_known: Vec<usize>,
    known: Vec<f32>,
    config: PTransEConfig,
    /// The kept sequences of three steps, reversed for walks from the tail, in order.
    three_reversed: Vec<Sequence>,
    report: PathReport,
}

/// Counts of the paths found.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PathReport {
    /// Ordered pairs of entities linked in the doubled graph.
    pub pairs: u64,
    /// Features R(p|h,t) kept.
    pub features: u64,
    /// Features dropped for their small share.
    pub features_dropped: u64,
    /// Paths that predict some relation, by their number of steps.
    pub sequences: [u64; 3],
    /// Stored P(r|p).
    pub confidences: u64,
    /// Results of the cut-off on paths of three steps, if requested.
    pub three_steps: Option<ThreeStepReport>,
}

/// The paths of one pair: sequences by number, R(p|h,t) for each.
#[derive(Clone, Copy, Debug)]
pub struct Features<'p> {
    /// Indexes into [`Confidences::sequences`].
    pub numbers: &'p [u32],
    /// Normalised resources.
    pub resources: &'p [f32],
}

impl Paths {
    /// Finds and measures the paths of a training graph, including the features of every training pair.
    pub fn extract(graph: Arc<Graph>, config: &PTransEConfig, control: &Control<'_>) -> Result<Self> {
        let mut paths = Self::measure(graph, config, control)?;
        paths.list_features(control)?;
        Ok(paths)
    }

    /// Measures the confidences of paths without the features of training pairs: all that ranking needs.
    pub fn measure(graph: Arc<Graph>, config: &PTransEConfig, control: &Control<'_>) -> Result<Self> {
        config.check()?;
        if graph.relation_count() > Sequence::RELATIONS {
            return Err(EmbedError::TooManyRelations { found: graph.relation_count(), limit: Sequence::RELATIONS });
        }
        let doubled = Doubled::new(graph);
        let (confidences, three_steps) =
            Confidences::count(&doubled, config.path_length, config.confidence_cut_off, control)?;
        let mut three_reversed: Vec<Sequence> = confidences.three_steps().iter().map(|p| p.reversed()).collect();
        three_reversed.sort_unstable();
        let mut sequences = [0; 3];
        let mut predicts = vec![false; confidences.sequences().len()];
        for relation in doubled.graph().relations() {
            confidences.of(relation).0.iter().for_each(|&number| predicts[number as usize] = true);
        }
        for (sequence, _) in confidences.sequences().iter().zip(&predicts).filter(|x| *x.1) {
            sequences[sequence.len() - 1] += 1;
        }
        let report =
            PathReport { sequences, confidences: confidences.len() as u64, three_steps, ..PathReport::default() };
        Ok(Self {
            confidences,
            heads: Vec::new(),
            tails: Vec::new(),
            labels: Vec::new(),
            pair_of: Vec::new(),
            first_feature: Vec::new(),
            numbers: Vec::new(),
            resources: Vec::new(),
            first_known: Vec::new(),
            known: Vec::new(),
            config: *config,
            three_reversed,
            report,
            doubled,
        })
    }

    /// Computes the features of every training pair, which training needs; does nothing if they exist.
    pub fn list_features(&mut self, control: &Control<'_>) -> Result<(), Cancelled> {
        if !self.first_feature.is_empty() {
            return Ok(());
        }
        self.list_pairs();
        match self.gather_features(control) {
            Ok(dropped) => self.report.features_dropped = dropped,
            Err(cancelled) => {
                // Restored, so that it can be retried.
                (self.heads, self.tails, self.labels, self.pair_of) = Default::default();
                (self.first_feature, self.numbers, self.resources) = Default::default();
                return Err(cancelled);
            }
        }
        self.align_confidences();
        self.report.pairs = self.heads.len() as u64;
        self.report.features = self.numbers.len() as u64;
        Ok(())
    }

    fn list_pairs(&mut self) {
        let graph = self.doubled.graph();
        self.labels.reserve_exact(self.doubled.link_count());
        self.pair_of.reserve_exact(self.doubled.link_count());
        for head in graph.entities() {
            for links in graph.links(head).chunk_by(|a, b| a.neighbour == b.neighbour) {
                for link in links {
                    self.labels.push(link.label);
                    self.pair_of.push(self.heads.len() as u32);
                }
                self.heads.push(head);
                self.tails.push(links[0].neighbour);
            }
        }
    }

    /// Measures every pair; returns the number of dropped features.
    fn gather_features(&mut self, control: &Control<'_>) -> Result<u64, Cancelled> {
        self.first_feature.push(0);
        let entities: Vec<EntityId> = self.doubled.graph().entities().collect();
        let mut dropped = 0;
        for block in entities.chunks(BLOCK) {
            control.check()?;
            let found: Vec<Gathered> = block
                .par_iter()
                .with_max_len(8)
                .map_init(|| Walker::new(&self.doubled), |walker, &head| self.features_from(head, walker))
                .collect();
            for part in found {
                dropped += part.dropped;
                let mut at = self.numbers.len();
                self.first_feature.extend(part.counts.iter().map(|&count| {
                    at += count as usize;
                    at
                }));
                self.numbers.extend(part.numbers);
                self.resources.extend(part.resources);
            }
        }
        self.numbers.shrink_to_fit();
        self.resources.shrink_to_fit();
        Ok(dropped)
    }

    /// The features of all pairs with this head, in order of tails.
    fn features_from(&self, head: EntityId, walker: &mut Walker) -> Gathered {
        let (doubled, graph) = (&self.doubled, self.doubled.graph());
        let tails: Vec<EntityId> =
            graph.links(head).chunk_by(|a, b| a.neighbour == b.neighbour).map(|links| links[0].neighbour).collect();
        let mut far: Vec<(u32, Sequence, f64)> = Vec::new();
        let three = self.confidences.three_steps();
        if !three.is_empty() {
            walker.walk(doubled, WalkFrom::Head, head, three, &mut |at, end, resource| {
                if let Ok(tail) = tails.binary_search(&end) {
                    far.push((tail as u32, three[at], resource));
                }
            });
            far.sort_unstable_by_key(|&(tail, sequence, _)| (tail, sequence));
        }
        let mut gathered = Gathered::default();
        let mut arriving: Vec<(Sequence, f64)> = Vec::new();
        for (at, &tail) in tails.iter().enumerate() {
            arriving.clear();
            self.near(head, tail, &mut arriving);
            let from = far.partition_point(|x| (x.0 as usize) < at);
            let to = far.partition_point(|x| x.0 as usize <= at);
            arriving.extend(far[from..to].iter().map(|&(_, sequence, resource)| (sequence, resource)));
            normalise(&mut arriving);
            let before = gathered.numbers.len();
            for &(sequence, share) in arriving.iter().filter(|x| x.1 > self.config.drop) {
                let number = self.confidences.number(sequence);
                gathered.numbers.push(number.expect("a path between linked entities was counted, or its reverse was"));
                gathered.resources.push(share as f32);
            }
            let kept = gathered.numbers.len() - before;
            gathered.dropped += (arriving.len() - kept) as u64;
            gathered.counts.push(kept as u32);
        }
        gathered
    }

    /// Every instance of a path of one or two steps from `head` to `tail`, with its resource.
    fn near(&self, head: EntityId, tail: EntityId, arriving: &mut Vec<(Sequence, f64)>) {
        let doubled = &self.doubled;
        let (of_head, of_tail) = (doubled.graph().links(head), doubled.graph().links(tail));
        let (at_head, at_tail) = (doubled.links_of(head).start, doubled.links_of(tail).start);
        for link in self.links_between(head, tail) {
            arriving.push((Sequence::one(of_head[link - at_head].label), 1.0 / f64::from(doubled.out(link))));
        }
        if self.config.path_length >= 2 {
            doubled.meet(head, tail, |from_head, from_tail| {
                for first in from_head {
                    for second in from_tail.clone() {
                        let labels = (of_head[first - at_head].label, of_tail[second - at_tail].label.reversed());
                        let sequence = Sequence::two(labels.0, labels.1);
                        let split = f64::from(doubled.out(first)) * f64::from(doubled.back(second));
                        arriving.push((sequence, 1.0 / split));
                    }
                }
            });
        }
    }

    /// Every path from `head` to `tail` with its R(p|h,t), in order, without the dropped ones. Works for any pair.
    pub fn between(&self, head: EntityId, tail: EntityId, walker: &mut Walker, shares: &mut Vec<(Sequence, f64)>) {
        shares.clear();
        self.near(head, tail, shares);
        let three = self.confidences.three_steps();
        if !three.is_empty() {
            walker.walk(&self.doubled, WalkFrom::Head, head, three, &mut |at, end, resource| {
                if end == tail {
                    shares.push((three[at], resource));
                }
            });
        }
        normalise(shares);
        shares.retain(|share| share.1 > self.config.drop);
    }

    fn links_between(&self, head: EntityId, tail: EntityId) -> Range<usize> {
        let links = self.doubled.graph().links(head);
        let from = links.partition_point(|edge| edge.neighbour < tail);
        let count = links[from..].partition_point(|edge| edge.neighbour == tail);
        let start = self.doubled.links_of(head).start + from;
        start..start + count
    }

    fn align_confidences(&mut self) {
        let paths = &*self;
        let links = paths.labels.len();
        let mut at = 0;
        let mut first_known = Vec::with_capacity(links + 1);
        first_known.push(0);
        first_known.extend((0..links).map(|link| {
            at += if paths.labels[link].is_inverse() { 0 } else { paths.features(link).numbers.len() };
            at
        }));
        let known = (0..links)
            .into_par_iter()
            .filter(|&link| !paths.labels[link].is_inverse())
            .flat_map_iter(|link| {
                let relation = paths.labels[link].relation();
                paths.features(link).numbers.iter().map(move |&number| paths.confidences.get(relation, number))
            })
            .collect();
        (self.first_known, self.known) = (first_known, known);
    }

    /// The doubled graph.
    pub fn doubled(&self) -> &Doubled {
        &self.doubled
    }

    /// P(r|p).
    pub fn confidences(&self) -> &Confidences {
        &self.confidences
    }

    /// The settings.
    pub fn config(&self) -> &PTransEConfig {
        &self.config
    }

    /// The kept sequences of three steps, as walked from either end, in order.
    pub fn three_steps(&self, start: WalkFrom) -> &[Sequence] {
        match start {
            WalkFrom::Head => self.confidences.three_steps(),
            WalkFrom::Tail => &self.three_reversed,
        }
    }

    /// Counts of paths found and dropped.
    pub fn report(&self) -> &PathReport {
        &self.report
    }

    /// The doubled triple at a position of the doubled training list.
    #[inline]
    pub fn triple(&self, link: usize) -> (EntityId, Label, EntityId) {
        let pair = self.pair_of[link] as usize;
        (self.heads[pair], self.labels[link], self.tails[pair])
    }

    /// The paths that join the two ends of a doubled triple.
    #[inline]
    pub fn features(&self, link: usize) -> Features<'_> {
        let pair = self.pair_of[link] as usize;
        let range = self.first_feature[pair]..self.first_feature[pair + 1];
        Features { numbers: &self.numbers[range.clone()], resources: &self.resources[range] }
    }

    /// P(r|p) of a doubled triple's relation for each of its [`features`](Self::features); empty if inverse.
    #[inline]
    pub fn known(&self, link: usize) -> &[f32] {
        &self.known[self.first_known[link]..self.first_known[link + 1]]
    }

    /// Size in bytes, without the graph.
    pub fn bytes(&self) -> usize {
        self.confidences.bytes()
            + 4 * (self.heads.len() + self.tails.len() + self.labels.len() + self.pair_of.len())
            + 8 * (self.first_feature.len() + self.numbers.len() + self.first_known.len())
            + 4 * (self.known.len() + 3 * self.labels.len())
    }
}

/// The features of pairs with one head, collected by one thread.
#[derive(Default)]
struct Gathered {
    counts: Vec<u32>,
    numbers: Vec<u32>,
    resources: Vec<f32>,
    dropped: u64,
}

/// Sums the instances of each path, in order of size so that entity ids do not matter, and divides by the total.
fn normalise(arriving: &mut Vec<(Sequence, f64)>) {
    arriving.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    arriving.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    let total: f64 = arriving.iter().map(|x| x.1).sum();
    arriving.iter_mut().for_each(|x| x.1 /= total);
}
