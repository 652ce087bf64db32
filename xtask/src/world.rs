//! The demo graph: builds one file of triples from hand-written tables.
//!
//! People edit the tables under `fixtures/world`; the triples under `crates/ruge-kg/src/demo` are compiled into the
//! program. Both are in the repository, and this check proves that one follows from the other, so a reader can trust
//! the file without running anything.

mod against;
mod expand;
mod graph;
mod nature;
mod people;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use graph::Graph;
use table::Tables;

/// Maximum bytes of the file: every binary contains it.
const MAX_BYTES: usize = 450_000;

/// Runs `cargo xtask world` with the arguments after `world`.
///
/// Without arguments it writes the file of triples; `--verify` only compares it, for continuous integration; `--against
/// DIR` compares the tables with external sources that are not part of the repository.
pub fn run(args: &[String]) -> Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        [] => write(),
        ["--verify"] => verify(),
        ["--against", dir] => against::run(&fixtures(), Path::new(dir)),
        _ => bail!("usage: cargo xtask world [--verify | --against DIR]"),
    }
}

fn write() -> Result<()> {
    let graph = build()?;
    let text = graph.to_tsv();
    ensure!(text.len() <= MAX_BYTES, "{} bytes are more than {MAX_BYTES}", text.len());
    let path = output();
    std::fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
    report(&graph, text.len());
    Ok(())
}

fn verify() -> Result<()> {
    let path = output();
    let found = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let wanted = build()?.to_tsv();
    if found == wanted {
        println!("the demo graph is what the tables give");
        return Ok(());
    }
    let line = wanted
        .lines()
        .zip(found.lines())
        .position(|(wanted, found)| wanted != found)
        .unwrap_or_else(|| wanted.lines().count().min(found.lines().count()));
    bail!("the demo graph differs from what the tables give, first in line {}; run `cargo xtask world`", line + 1)
}

/// Reads the tables of the repository and expands them.
fn build() -> Result<Graph> {
    let tables = Tables::read(&fixtures())?;
    expand::expand(&tables)
}

fn report(graph: &Graph, bytes: usize) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (relation, _, _) in graph.triples() {
        *counts.entry(relation).or_default() += 1;
    }
    for (relation, count) in &counts {
        println!("{count:6}  {relation}");
    }
    println!(
        "{} triples, {} entities, {} relations, {bytes} bytes; {} triples left out because they held a name met only once",
        graph.triples().count(),
        graph.entities(),
        counts.len(),
        graph.pruned(),
    );
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

fn fixtures() -> PathBuf {
    root().join("fixtures/world")
}

fn output() -> PathBuf {
    root().join("crates/ruge-kg/src/demo/world.tsv")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_graph_follows_from_the_tables() {
        verify().unwrap();
    }

    #[test]
    fn committed_graph_has_the_promised_size() {
        let graph = build().unwrap();
        let triples = graph.triples().count();
        assert!((4_000..=12_000).contains(&triples), "{triples} triples");
        let relations: std::collections::BTreeSet<&str> = graph.triples().map(|(relation, _, _)| relation).collect();
        assert!((12..=30).contains(&relations.len()), "{relations:?}");
        assert!(graph.to_tsv().len() <= MAX_BYTES);
    }
}
