//! A graph of a hundred triples, two rule files and a search space: enough for every command.

use std::path::Path;

use anyhow::{Context, Result};

/// Places and their neighbours, streets in towns, towns in countries: rules of one and two atoms hold, with exceptions.
fn triples() -> Vec<[String; 3]> {
    let mut triples = Vec::new();
    let mut add = |head: String, relation: &str, tail: String| {
        let triple = [head, relation.to_string(), tail];
        if !triples.contains(&triple) {
            triples.push(triple);
        }
    };
    for person in 0..16_usize {
        let town = person % 5;
        add(format!("person-{person}"), "lives_in", format!("town-{town}"));
        add(format!("town-{town}"), "lies_in", format!("land-{}", town % 2));
        if person % 8 != 7 {
            add(format!("person-{person}"), "citizen_of", format!("land-{}", town % 2));
        }
        let other = (person * 3 + 2) % 16;
        add(format!("person-{person}"), "parent_of", format!("person-{other}"));
        if person % 6 != 5 {
            add(format!("person-{other}"), "child_of", format!("person-{person}"));
        }
    }
    triples
}

/// Rules that hold in the graph.
const RULES: &str = "?a  lives_in  ?e  ?e  lies_in  ?b   => ?a  citizen_of  ?b\t0.9\n\
                     ?a  parent_of  ?b   => ?b  child_of  ?a\t0.8\n";

/// Other rules, for runs whose rules are changed.
const OTHER_RULES: &str =
    "?a  parent_of  ?b   => ?b  parent_of  ?a\t0.9\n?a  lives_in  ?b   => ?a  citizen_of  ?b\t0.9\n";

/// A search of two trials.
const SPACE: &str = "[model]\nname = \"complex\"\ndimension = [2, 4]\n\n[optimizer]\nentity-rate = { low = 0.01, high = 1.0, scale = \"log\" }\n\n\
                     [schedule]\nepochs = 2\nvalidate-every = 2\n\n[search]\ntrials = 2\n";

/// Writes `g` (train, valid, test), `rules.tsv`, `other.tsv` and `space.toml` into a folder.
pub fn build(folder: &Path) -> Result<()> {
    let graph = folder.join("g");
    std::fs::create_dir_all(&graph).with_context(|| format!("cannot make {}", graph.display()))?;
    let mut splits = [String::new(), String::new(), String::new()];
    for (index, [head, relation, tail]) in triples().iter().enumerate() {
        // Late triples only: their names occur in earlier ones.
        let split = match index % 9 {
            4 if index > 30 => 1,
            8 if index > 30 => 2,
            _ => 0,
        };
        splits[split] += &format!("{head}\t{relation}\t{tail}\n");
    }
    for (name, text) in ["train.txt", "valid.txt", "test.txt"].iter().zip(splits) {
        std::fs::write(graph.join(name), text)?;
    }
    std::fs::write(folder.join("rules.tsv"), RULES)?;
    std::fs::write(folder.join("other.tsv"), OTHER_RULES)?;
    std::fs::write(folder.join("space.toml"), SPACE)?;
    Ok(())
}

/// A command line split at blanks.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_string).collect()
}
