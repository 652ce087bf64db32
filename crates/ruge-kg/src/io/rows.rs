//! Rows that a program holds: three columns of names become triples, on all threads.
//!
//! A table in memory is read as a file is: blocks of rows are looked up in parallel and merged in order, so a name gets the id of
//! its first appearance in the table, head before tail, on any number of threads.

use std::ops::Range;

use rayon::prelude::*;

use super::Limits;
use super::block::NewNames;
use super::tsv::Local;
use crate::error::KgError;
use crate::memory;
use crate::triple::{EntityId, RelationId, Triple};
use crate::vocabulary::Names;

/// Rows of a block.
const ROWS: usize = 1 << 14;

/// Takes the head, relation and tail of a row.
pub type Take<'a, N> = dyn FnMut([N; 3]) + 'a;

/// Adds rows to `names` and `triples`. `read` hands over the names of some rows, in order; its first error, by row, ends the
/// reading. What was read before stays.
pub fn read<N, E>(
    rows: usize,
    names: &mut Names,
    triples: &mut Vec<Triple>,
    read: impl Fn(Range<usize>, &mut Take<'_, N>) -> Result<(), E> + Sync,
) -> Result<(), E>
where
    N: AsRef<str> + Send,
    E: From<KgError> + Send,
{
    let limits = Limits::default();
    // Names of earlier blocks are known to later ones, so that few are new to a block: as many blocks at a time as keep all threads busy.
    let wave = 2 * rayon::current_num_threads() * ROWS;
    for start in (0..rows).step_by(wave) {
        let starts: Vec<usize> = (start..rows.min(start + wave)).step_by(ROWS).collect();
        let known = &*names;
        let parse = |&from: &usize| block(from..rows.min(from + ROWS), known, &read);
        let parsed: Vec<Result<Parsed<N>, E>> = starts.par_iter().map(parse).collect();
        for block in parsed {
            let (items, (entities, relations)) = block?;
            let entity = entities.settle::<EntityId>(&mut names.entities, "entities", &limits)?;
            let relation = relations.settle::<RelationId>(&mut names.relations, "relations", &limits)?;
            memory::reserve(triples, items.len(), "triples", limits.memory)?;
            triples.extend(items.into_iter().map(|[head, label, tail]| Triple {
                head: entity(head),
                relation: relation(label),
                tail: entity(tail),
            }));
        }
    }
    Ok(())
}

/// The rows of a block, and the names that are new in it.
type Parsed<N> = (Vec<[u32; 3]>, (NewNames<N>, NewNames<N>));

fn block<N: AsRef<str>, E>(
    rows: Range<usize>,
    known: &Names,
    read: &impl Fn(Range<usize>, &mut Take<'_, N>) -> Result<(), E>,
) -> Result<Parsed<N>, E> {
    let mut local = Local::new(known);
    let mut items = Vec::with_capacity(rows.len());
    read(rows, &mut |names| local.push(&mut items, names))?;
    let new = local.finish(&mut items);
    Ok((items, new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_reading_row_by_row() {
        let rows = 5 * ROWS + 321;
        let at = |row: usize| {
            let mixed = (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            [mixed >> 50, mixed >> 61, mixed >> 48].map(|number| format!("name {number}"))
        };
        let mut expected = (Names::default(), Vec::new());
        for row in 0..rows {
            let [head, relation, tail] = at(row);
            expected.1.push(expected.0.triple(&head, &relation, &tail));
        }
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let (mut names, mut triples) = (Names::default(), Vec::new());
            // A name that is known before, and two tables one after the other.
            for part in [0..rows / 3, rows / 3..rows] {
                let of = |range: Range<usize>, take: &mut Take<'_, String>| {
                    range.for_each(|row| take(at(part.start + row)));
                    Ok::<_, KgError>(())
                };
                pool.install(|| read(part.len(), &mut names, &mut triples, of)).unwrap();
            }
            assert_eq!(triples, expected.1);
            assert!(names.entities.iter().eq(expected.0.entities.iter()));
            assert!(names.relations.iter().eq(expected.0.relations.iter()));
        }
    }

    #[test]
    fn the_first_bad_row_ends_it() {
        let (mut names, mut triples) = (Names::default(), Vec::new());
        let of = |range: Range<usize>, take: &mut Take<'_, &'static str>| {
            for row in range {
                if row >= 2 * ROWS + 7 {
                    return Err(KgError::Option(format!("row {row}")));
                }
                take(["a", "r", "b"]);
            }
            Ok(())
        };
        let error = read(9 * ROWS, &mut names, &mut triples, of).unwrap_err();
        assert!(error.to_string().contains(&format!("row {}", 2 * ROWS + 7)), "{error}");
    }
}
