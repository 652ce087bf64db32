//! A folder from which PyKEEN's own model class comes back with our weights.
//!
//! PyKEEN stores models as pickles, which only Python should write. So the folder holds arrays, names, triples and a script,
//! `load.py`, whose function `load` builds the PyKEEN model; run as a program it compares its scores and ranks with the ones
//! in `expected.tsv`, which were computed here. Reciprocal relations become PyKEEN's inverse triples: our row of a relation holds its own
//! numbers and then those of its inverse, which are rows 2r and 2r + 1 there.

use ruge_kg::{Control, RankQuery, Ties};
use std::io::Write;

use ruge_embed::Embeddings;
use ruge_kg::Triple;

use super::{Target, npy};
use ruge::error::Result;
use ruge::spec::Training;

const SCRIPT: &str = include_str!("load.py");

/// Triples whose scores and ranks are written down for comparison.
const EXPECTED: usize = 100;

/// Everything `load.py` needs, and `load.py`.
pub fn write(target: &Target<'_>, embeddings: &Embeddings) -> Result<()> {
    if let Training::PTransE(_) = target.engine.spec().training {
        let reason = "PyKEEN has no PTransE, whose paths score too";
        return Err(target.unwritable(reason, &["npy", "word2vec", "parquet"]));
    }
    target.check_lines("a table of text")?;
    npy::arrays(target, embeddings)?;
    let data = target.engine.data();
    target.put("entity_to_id.tsv", |out| {
        target.entities().enumerate().try_for_each(|(id, name)| writeln!(out, "{id}\t{name}"))
    })?;
    target.put("relation_to_id.tsv", |out| {
        target.relations().enumerate().try_for_each(|(id, name)| writeln!(out, "{id}\t{name}"))
    })?;
    for (file, triples) in [("train.tsv", data.train()), ("valid.tsv", data.valid()), ("test.tsv", data.test())] {
        target.put(file, |out| triples.iter().try_for_each(|triple| writeln!(out, "{}", ids(*triple))))?;
    }
    expected(target)?;
    target.put("load.py", |out| out.write_all(SCRIPT.as_bytes()))
}

/// Head, relation and tail as ids.
fn ids(triple: Triple) -> String {
    format!("{}\t{}\t{}", triple.head.0, triple.relation.0, triple.tail.0)
}

/// Scores and filtered ranks of some triples, spread evenly over the test triples, or over what there is.
fn expected(target: &Target<'_>) -> Result<()> {
    let data = target.engine.data();
    let from = [data.test(), data.valid(), data.train()].into_iter().find(|split| !split.is_empty()).unwrap_or(&[]);
    let step = from.len().div_ceil(EXPECTED).max(1);
    let triples: Vec<Triple> = from.iter().copied().step_by(step).collect();
    // Of the vectors alone: what else ranks is left out.
    let Some(model) = target.engine.model() else { return Ok(()) };
    let mut scores = vec![0.0; triples.len()];
    model.score(&triples, &mut scores)?;
    let queries = RankQuery::both_sides(&triples);
    let ranks = model.rank(&queries, Some(data.filter()), &Control::default())?;
    target.put("expected.tsv", |out| {
        writeln!(out, "head\trelation\ttail\tscore\thead_rank\ttail_rank")?;
        for ((triple, score), ranks) in triples.iter().zip(&scores).zip(ranks.chunks(2)) {
            let [head, tail] = [0, 1].map(|side| ranks[side].filtered.rank(Ties::Mean));
            writeln!(out, "{}\t{score}\t{head}\t{tail}", ids(*triple))?;
        }
        Ok(())
    })
}
