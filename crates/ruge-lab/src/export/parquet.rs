//! Parquet tables: vectors as lists, rules and groundings as flat tables, any name kept as it is.

use std::borrow::Cow;

use ruge_embed::{Embeddings, Table};
use ruge_kg::Triple;
use ruge_rules::{Counts, RuleRecord, words};

use super::parquet_file::{Cells, Column, write_table};
use super::{Target, tables};
use ruge::error::Result;

/// Entities and relations with their vectors.
pub fn write(target: &Target<'_>, embeddings: &Embeddings) -> Result<()> {
    let entities: Vec<&str> = target.entities().collect();
    let relations: Vec<&str> = target.relations().collect();
    vectors(target, "entities.parquet", &entities, &embeddings.entities)?;
    vectors(target, "relations.parquet", &relations, &embeddings.relations)
}

/// `id`, `name`, `vector`.
fn vectors(target: &Target<'_>, file: &str, names: &[&str], table: &Table) -> Result<()> {
    let columns = [
        Column::new("id", Cells::Int(Box::new(|row| Some(row as i32)))),
        Column::new("name", Cells::Text(Box::new(|row| Some(Cow::Borrowed(names[row]))))),
        Column::new("vector", Cells::Floats(Box::new(|row| table.row(row)))),
    ];
    target.put(file, |out| write_table(out, names.len(), &columns))
}

/// The rules, with what was learned that they weigh where they rank, and their groundings where they guided.
pub fn write_rules(target: &Target<'_>, with_groundings: bool) -> Result<()> {
    let (rules, places) = (&tables::sayable(target), &target.sayable().collect::<Vec<usize>>());
    let (names, contents) = (target.engine.data().names(), target.engine.contents()?);
    let weights = contents.weights;
    fn counts<'c>(rules: &'c [&RuleRecord], of: fn(&Counts) -> f64) -> Cells<'c> {
        Cells::Real(Box::new(move |row| rules[row].counts.as_ref().map(of)))
    }
    let weight = |side: usize| {
        let of = move |row: usize| Some(f64::from(weights?.get(places[row])?[side]));
        Cells::Real(Box::new(of))
    };
    let mut columns = vec![
        Column::new("rule", Cells::Int(Box::new(|row| Some(row as i32 + 1)))),
        Column::new("words", Cells::Text(Box::new(|row| Some(words::sentence(&rules[row].rule, names).into())))),
        Column::new("formula", Cells::Text(Box::new(|row| Some(words::formula(&rules[row].rule, names).into())))),
        Column::new("confidence", Cells::Real(Box::new(|row| Some(rules[row].confidence.get())))),
        Column::new("support", Cells::Long(Box::new(|row| rules[row].counts.as_ref().map(|c| c.support as i64)))),
        Column::new("standard_confidence", counts(rules, Counts::standard)),
        Column::new("head_coverage", counts(rules, Counts::head_coverage)),
    ];
    if target.engine.ranking().is_some() {
        columns.extend([Column::new("weight_head", weight(0)), Column::new("weight_tail", weight(1))]);
    }
    target.put("rules.parquet", |out| write_table(out, rules.len(), &columns))?;
    if with_groundings { write_groundings(target, rules) } else { Ok(()) }
}

fn write_groundings(target: &Target<'_>, rules: &[&RuleRecord]) -> Result<()> {
    let (groundings, names) = (&tables::groundings(target, rules), target.engine.data().names());

    let mut columns = vec![
        Column::new("rule", Cells::Int(Box::new(|row| Some(groundings.rule(row) as i32 + 1)))),
        Column::new("confidence", Cells::Real(Box::new(|row| Some(rules[groundings.rule(row)].confidence.get())))),
    ];
    let mut triple = |prefix: &str, of: Box<dyn Fn(usize) -> Option<Triple>>| {
        let of = std::rc::Rc::new(of);
        let (head, relation, tail) = (of.clone(), of.clone(), of);
        let entity = move |id| Cow::Borrowed(names.entities.name(id));
        columns.extend([
            Column::new(
                format!("{prefix}head"),
                Cells::Text(Box::new(move |row| head(row).map(|triple| entity(triple.head)))),
            ),
            Column::new(
                format!("{prefix}relation"),
                Cells::Text(Box::new(move |row| {
                    relation(row).map(|triple| Cow::Borrowed(names.relations.name(triple.relation)))
                })),
            ),
            Column::new(
                format!("{prefix}tail"),
                Cells::Text(Box::new(move |row| tail(row).map(|triple| entity(triple.tail)))),
            ),
        ]);
    };
    triple("", Box::new(|row| Some(groundings.unlabeled()[groundings.conclusion(row)])));
    let most = |of: &dyn Fn(usize) -> usize| (0..groundings.len()).map(of).max().unwrap_or(0);
    for at in 0..most(&|row| groundings.premises(row).len()) {
        triple(&format!("premise_{}_", at + 1), Box::new(move |row| groundings.premises(row).get(at).copied()));
    }
    for at in 0..most(&|row| groundings.negated(row).len()) {
        triple(&format!("absent_{}_", at + 1), Box::new(move |row| groundings.negated(row).get(at).copied()));
    }
    target.put("groundings.parquet", |out| write_table(out, groundings.len(), &columns))
}
