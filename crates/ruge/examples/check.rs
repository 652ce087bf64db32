//! Load a graph and look at it before anything learns from it.
//!
//! A data set is whatever `Dataset::load` is given: a folder with train, valid and test, one file of triples, which is then
//! split, or `demo`, the graph that comes with the crate. Most disappointments with learned models come from data: names
//! that train has never seen, or test triples that can be copied from train. Both can be counted.
//!
//! ```text
//! cargo run --release -p ruge --example check
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;

use ruge::{Dataset, ReadOptions};
use ruge_kg::describe;

/// Loads the embedded graph and says what is in it.
pub fn main() -> Result<(), Box<dyn Error>> {
    // Loading gives the data and a report: what was read, skipped, repeated. A bad line is an error with its place, unless the
    // options say `lenient`.
    let (data, report) = Dataset::load("demo".as_ref(), &ReadOptions::default())?;
    println!("{} triples read, {} lines skipped", report.read[0], report.bad_lines());
    report.notes().iter().for_each(|note| println!("note: {note}"));

    // Names become dense numbers once, and everything inside works on those. `show` turns them back.
    println!("{} entities, {} relations", data.entity_count(), data.relation_count());
    println!("the first triple: {}", data.show(data.train()[0]).join(" "));

    // `describe` counts the rest. A name that only test has cannot be learned.
    let stats = describe(&data);
    println!("test triples with an entity that train lacks: {}", stats.splits[2].with_unseen_entity);

    // A test triple r(y, x) beside a training triple r(x, y) measures copying, not learning. FB15K has three such triples in
    // four; this graph keeps some on purpose, as real ones do.
    let leakage = &stats.test_leakage;
    println!("{:.1} % of {} test triples can be copied from train", 100.0 * leakage.share_copyable, leakage.triples);
    for pattern in &stats.patterns.inverse {
        let name = |relation| data.names().relations.name(relation);
        println!("{} turned round is {}", name(pattern.first), name(pattern.second));
    }

    assert_eq!(report.read[0], data.train().len() + data.valid().len() + data.test().len());
    Ok(())
}
