//! word2vec's text format: counts, then a name and its numbers on each line, blanks between.
//!
//! A name cannot hold a blank there, so blanks become `_`, as is the custom; two names that would become one are refused.

use std::io::Write;

use ruge_embed::{Embeddings, Table};
use rustc_hash::FxHashMap;

use super::Target;
use ruge::error::Result;

/// A file for entities, one for relations.
pub fn write(target: &Target<'_>, embeddings: &Embeddings) -> Result<()> {
    let entities = words(target, target.entities())?;
    let relations = words(target, target.relations())?;
    vectors(target, "entities.w2v.txt", &entities, &embeddings.entities)?;
    vectors(target, "relations.w2v.txt", &relations, &embeddings.relations)
}

fn words<'n>(target: &Target<'_>, names: impl Iterator<Item = &'n str>) -> Result<Vec<String>> {
    let mut seen: FxHashMap<String, &str> = FxHashMap::default();
    let mut words = Vec::new();
    for name in names {
        let word: String = name.chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect();
        if let Some(other) = seen.insert(word.clone(), name) {
            let reason = format!("blanks become `_` in word2vec's format, and {other:?} and {name:?} would become one");
            return Err(target.unwritable(reason, &["npy", "parquet"]));
        }
        words.push(word);
    }
    Ok(words)
}

fn vectors(target: &Target<'_>, file: &str, words: &[String], table: &Table) -> Result<()> {
    target.put(file, |out| {
        writeln!(out, "{} {}", words.len(), table.width())?;
        for (row, word) in words.iter().enumerate() {
            out.write_all(word.as_bytes())?;
            // The shortest digits that give the same f32 back.
            table.row(row).iter().try_for_each(|x| write!(out, " {x}"))?;
            writeln!(out)?;
        }
        Ok(())
    })
}
