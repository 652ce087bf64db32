//! Grounding larger than memory: groundings are passed on one by one.
//!
//! Counting distinct conclusions needs all of them. If they exceed the budget, they are written to a temporary file as
//! sorted runs and merged at the end. The only other data kept are 128-bit digests of groundings that could repeat
//! across rules (equal relations in equal order).

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use rayon::prelude::*;
use ruge_kg::random::{Stream, draw};
use ruge_kg::{Graph, Triple};
use rustc_hash::FxHashSet;

use super::{GroundLimit, Grounded, NotGrounded, Piece, Room, ground_piece, look_alikes, pieces, prepare};
use crate::error::RuleError;
use crate::rule::Rule;
use ruge_kg::control::{Control, Pulse, Work};

/// Counts of a stream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StreamReport {
    /// Groundings passed on.
    pub groundings: u64,
    /// Distinct conclusions.
    pub unlabeled: u64,
    /// How many of them are in each of the given lists.
    pub overlaps: Vec<u64>,
    /// Groundings dropped because an earlier rule had given them.
    pub repeated: u64,
    /// Rules that cannot be grounded, and why.
    pub not_grounded: Vec<(usize, NotGrounded)>,
    /// Number of sorted runs written to disk.
    pub spilled: usize,
}

/// Receives one grounding.
pub type Visit<'a> = dyn FnMut(Grounded<'_>) -> io::Result<()> + 'a;

/// Pieces grounded at a time; a batch must fit in memory in addition to the budget.
const BATCH: usize = 64;

/// Minimum bytes for a batch; a larger batch is grounded one by one.
const LEAST_ROOM: u64 = 256_000_000;

/// Bounds of a stream.
pub struct Streaming<'a> {
    /// Bytes for counting distinct conclusions; beyond them sorted runs go to a temporary file.
    pub memory: usize,
    /// Folder of that file.
    pub folder: &'a Path,
    /// Maximum groundings of all rules together.
    pub most: u64,
    /// Cancels the stream, and receives (groundings so far, 0) as progress.
    pub control: &'a Control<'a>,
}

/// Grounds `rules`, passing every valid grounding to `visit` in the same order as [`ground`](super::ground).
///
/// `memory` bounds the bytes kept for counting distinct conclusions; beyond it sorted runs go to a temporary file in
/// `folder`. `held_out` are lists in any order (valid, test) to count overlaps with.
pub fn stream(
    graph: &Graph,
    rules: &[Rule],
    memory: usize,
    folder: &Path,
    held_out: &[&[Triple]],
    visit: &mut Visit<'_>,
) -> io::Result<StreamReport> {
    let control = Control::default();
    let streaming = Streaming { memory, folder, most: u64::MAX, control: &control };
    stream_within(graph, rules, &streaming, held_out, visit).map_err(|error| match error {
        RuleError::Grounding(error) => error,
        other => io::Error::other(other),
    })
}

/// [`stream`] within bounds.
///
/// # Errors
/// [`RuleError::TooManyGroundings`] names the first rule beyond the limit, before any grounding of a long premise is
/// passed on; [`RuleError::Cancelled`] on cancellation; [`RuleError::Grounding`] if `visit` or the temporary file
/// fails.
pub fn stream_within(
    graph: &Graph,
    rules: &[Rule],
    streaming: &Streaming<'_>,
    held_out: &[&[Triple]],
    visit: &mut Visit<'_>,
) -> Result<StreamReport, RuleError> {
    let &Streaming { memory, folder, most, control } = streaming;
    let look_alike = look_alikes(rules);
    let mut taker = Taker {
        report: StreamReport { overlaps: vec![0; held_out.len()], ..StreamReport::default() },
        seen: FxHashSet::default(),
        distinct: Distinct::new(memory, folder),
        streaming,
        visit,
    };
    let limit = GroundLimit { groundings: most, bytes: u64::MAX };
    for (index, rule) in rules.iter().enumerate() {
        let plan = match prepare(graph, rule) {
            Ok(plan) => plan,
            Err(reason) => {
                taker.report.not_grounded.push((index, reason));
                continue;
            }
        };
        limit.require(graph, (index, rule), &plan, control)?;
        let mut one_by_one = false;
        for batch in pieces(graph, &plan).chunks(BATCH) {
            if !one_by_one {
                let room = Room::new(GroundLimit::of_bytes(LEAST_ROOM.max(memory as u64)));
                let found: Option<Vec<Piece>> =
                    batch.par_iter().map(|&piece| Piece::of(graph, rule, &plan, piece, (&room, control))).collect();
                if let Some(found) = found {
                    for piece in found {
                        for (grounded, triples) in piece.groundings(index, rule) {
                            taker.take(grounded, triples, look_alike[index])?;
                        }
                    }
                    continue;
                }
                control.check()?;
                one_by_one = true;
            }
            for &piece in batch {
                let mut pulse = Pulse::new(control);
                let mut taken = Ok(());
                ground_piece(graph, rule, &plan, piece, &mut pulse, &mut |triples, conclusion| {
                    let (premises, negated) = triples.split_at(rule.premise.len());
                    let grounded = Grounded { rule: index, premises, negated, conclusion };
                    taken = taker.take(grounded, triples, look_alike[index]);
                    taken.is_ok()
                });
                taken?;
                pulse.finish()?;
            }
        }
    }
    taker.finish(held_out)
}

/// Receives groundings one by one and passes them on.
struct Taker<'s, 'v, 'w> {
    report: StreamReport,
    /// Digests of groundings that another rule may repeat.
    seen: FxHashSet<u128>,
    distinct: Distinct<'s>,
    streaming: &'s Streaming<'s>,
    visit: &'v mut Visit<'w>,
}

impl Taker<'_, '_, '_> {
    fn take(&mut self, grounded: Grounded<'_>, triples: &[Triple], look_alike: bool) -> Result<(), RuleError> {
        let Streaming { most, control, .. } = *self.streaming;
        let too_many = RuleError::TooManyGroundings { rule: grounded.rule, limit: self.report.groundings };
        if look_alike {
            if self.seen.try_reserve(1).is_err() {
                return Err(too_many);
            }
            if !self.seen.insert(digest(triples, grounded.conclusion)) {
                self.report.repeated += 1;
                return Ok(());
            }
        }
        if self.report.groundings >= most {
            return Err(too_many);
        }
        self.report.groundings += 1;
        if self.report.groundings.is_multiple_of(1 << 14) {
            control.check()?;
            control.report(&Work { done: self.report.groundings, total: 0 });
        }
        self.distinct.push(grounded.conclusion).map_err(RuleError::Grounding)?;
        (self.visit)(grounded).map_err(RuleError::Grounding)
    }

    fn finish(self, held_out: &[&[Triple]]) -> Result<StreamReport, RuleError> {
        let Self { mut report, distinct, streaming, .. } = self;
        report.spilled = distinct.runs.len();
        let known: Vec<FxHashSet<Triple>> = held_out.iter().map(|list| list.iter().copied().collect()).collect();
        let mut pulse = Pulse::new(streaming.control);
        let unlabeled = distinct.for_each(&mut |triple| {
            for (overlap, known) in report.overlaps.iter_mut().zip(&known) {
                *overlap += u64::from(known.contains(&triple));
            }
            pulse.beats(32)
        });
        report.unlabeled = unlabeled.map_err(RuleError::Grounding)?;
        pulse.finish()?;
        Ok(report)
    }
}

/// 128 bits of a strong mix: for a billion groundings the probability of a false repetition is below 10⁻²⁰.
fn digest(premises: &[Triple], conclusion: Triple) -> u128 {
    let half = |salt: u64| {
        premises.iter().chain([&conclusion]).fold(salt, |state, triple| {
            let ends = u64::from(triple.head.0) << 32 | u64::from(triple.tail.0);
            draw(state, Stream(salt), ends, u64::from(triple.relation.0))
        })
    };
    u128::from(half(0x51)) << 64 | u128::from(half(0xa7f0_3d11))
}

/// Distinct triples, in memory as long as they fit.
struct Distinct<'a> {
    buffer: Vec<Triple>,
    capacity: usize,
    folder: &'a Path,
    file: Option<File>,
    /// Start (in triples) and length of each sorted run.
    runs: Vec<(u64, u64)>,
}

impl<'a> Distinct<'a> {
    fn new(memory: usize, folder: &'a Path) -> Self {
        let capacity = (memory / size_of::<Triple>()).max(1024);
        Self { buffer: Vec::new(), capacity, folder, file: None, runs: Vec::new() }
    }

    fn push(&mut self, triple: Triple) -> io::Result<()> {
        if self.buffer.len() >= self.capacity {
            self.shrink();
            // Few repetitions: the rest would soon be full again.
            if self.buffer.len() > self.capacity / 2 {
                self.spill()?;
            }
        }
        self.buffer.push(triple);
        Ok(())
    }

    fn shrink(&mut self) {
        self.buffer.par_sort_unstable();
        self.buffer.dedup();
    }

    fn spill(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile_in(self.folder)?);
        }
        let start = self.runs.last().map_or(0, |&(start, len)| start + len);
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(start * RECORD as u64))?;
            let mut out = BufWriter::new(file);
            for triple in &self.buffer {
                out.write_all(&encode(*triple))?;
            }
            out.flush()?;
        }
        self.runs.push((start, self.buffer.len() as u64));
        self.buffer.clear();
        Ok(())
    }

    /// Visits every distinct triple once, until stopped; returns their number.
    fn for_each(mut self, visit: &mut dyn FnMut(Triple) -> bool) -> io::Result<u64> {
        self.shrink();
        let mut readers = Vec::new();
        if let Some(file) = &self.file {
            for &(start, len) in &self.runs {
                readers.push(Run::open(file, start, len)?);
            }
        }
        let mut memory = self.buffer.iter().copied().peekable();
        let mut count = 0;
        loop {
            let on_disk = readers.iter().filter_map(|run| run.head).min();
            let Some(next) = [on_disk, memory.peek().copied()].into_iter().flatten().min() else { return Ok(count) };
            while memory.next_if_eq(&next).is_some() {}
            for run in &mut readers {
                while run.head == Some(next) {
                    run.advance()?;
                }
            }
            count += 1;
            if !visit(next) {
                return Ok(count);
            }
        }
    }
}

const RECORD: usize = 12;

fn encode(triple: Triple) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    for (place, id) in [triple.head.0, triple.relation.0, triple.tail.0].into_iter().enumerate() {
        bytes[4 * place..4 * place + 4].copy_from_slice(&id.to_le_bytes());
    }
    bytes
}

/// One sorted run on disk, with its own read position.
struct Run<'f> {
    file: &'f File,
    position: u64,
    left: u64,
    buffer: std::vec::IntoIter<Triple>,
    head: Option<Triple>,
}

impl<'f> Run<'f> {
    fn open(file: &'f File, start: u64, len: u64) -> io::Result<Self> {
        let mut run = Self { file, position: start, left: len, buffer: Vec::new().into_iter(), head: None };
        run.advance()?;
        Ok(run)
    }

    fn advance(&mut self) -> io::Result<()> {
        if self.buffer.len() == 0 && self.left > 0 {
            let count = self.left.min(1 << 14);
            let mut file = self.file;
            file.seek(SeekFrom::Start(self.position * RECORD as u64))?;
            let mut reader = BufReader::with_capacity(1 << 16, file).take(count * RECORD as u64);
            let mut bytes = Vec::with_capacity(count as usize * RECORD);
            reader.read_to_end(&mut bytes)?;
            let id = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            let triples: Vec<Triple> =
                bytes.chunks_exact(RECORD).map(|b| Triple::new(id(b), id(&b[4..]), id(&b[8..]))).collect();
            self.position += count;
            self.left -= count;
            self.buffer = triples.into_iter();
        }
        self.head = self.buffer.next();
        Ok(())
    }
}
