//! Parquet tables: vectors as lists, rules and groundings as flat tables, any name kept as it is.

use std::borrow::Cow;

use ruge_embed::Table;
use ruge_kg::Triple;
use ruge_rules::{Counts, words};

use super::parquet_file::{Cells, Column, write_table};
use super::{Target, tables};
use ruge::error::Result;

/// Entities and relations with their vectors; rules and groundings where there are some.
pub fn write(target: &Target<'_>) -> Result<()> {
    let embeddings = target.embeddings;
    let entities: Vec<&str> = target.entities().collect();
    let relations: Vec<&str> = target.relations().collect();
    vectors(target, "entities.parquet", &entities, &embeddings.entities)?;
    vectors(target, "relations.parquet", &relations, &embeddings.relations)?;
    if target.engine.rules().is_empty() { Ok(()) } else { rules_and_groundings(target) }
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

fn rules_and_groundings(target: &Target<'_>) -> Result<()> {
    let (rules, groundings) = tables::grounded(target);
    let (rules, groundings) = (&rules, &groundings);
    let names = target.engine.data().names();
    fn counts<'c>(rules: &'c [&ruge_rules::RuleRecord], of: fn(&Counts) -> f64) -> Cells<'c> {
        Cells::Real(Box::new(move |row| rules[row].counts.as_ref().map(of)))
    }
    let columns = [
        Column::new("rule", Cells::Int(Box::new(|row| Some(row as i32 + 1)))),
        Column::new("words", Cells::Text(Box::new(|row| Some(words::sentence(&rules[row].rule, names).into())))),
        Column::new("formula", Cells::Text(Box::new(|row| Some(words::formula(&rules[row].rule, names).into())))),
        Column::new("confidence", Cells::Real(Box::new(|row| Some(rules[row].confidence.get())))),
        Column::new("support", Cells::Long(Box::new(|row| rules[row].counts.as_ref().map(|c| c.support as i64)))),
        Column::new("standard_confidence", counts(rules, Counts::standard)),
        Column::new("head_coverage", counts(rules, Counts::head_coverage)),
    ];
    target.put("rules.parquet", |out| write_table(out, rules.len(), &columns))?;

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
