//! What a model ranks with besides its vectors, as tables: what rules weigh, how they are summed, what evidence weighs.
//!
//! The same columns are written as tab-separated text and as Parquet. A row without a relation holds for all relations and directions
//! that have no row of their own.

use std::borrow::Cow;
use std::io::Write;

use ruge_kg::Side;
use ruge_rules::rank::evidence::Weight;
use ruge_rules::rank::{Form, Ranking, Setting};

use super::parquet_file::{Cells, Column, write_table};
use super::{ExportFormat, Target, npy};
use ruge::error::Result;

/// How settings were fitted.
const ALL: &str = "as ranked";
const ALONE: &str = "rules alone";

/// A setting, whose it is, and how it was fitted.
type SettingRow = (&'static str, Option<(u32, Side)>, Setting);

/// `ranking` and, where evidence counts, `evidence`; for arrays also what was learned that each rule weighs.
pub fn write(target: &Target<'_>, ranking: &Ranking) -> Result<()> {
    // Rules may be fitted by themselves, too.
    let sets: Vec<(&'static str, &Ranking)> =
        std::iter::once((ALL, ranking)).chain(ranking.alone.as_deref().map(|alone| (ALONE, alone))).collect();
    let mut rows: Vec<SettingRow> = Vec::new();
    let mut weights: Vec<(&'static str, Weight)> = Vec::new();
    for (set, ranking) in sets {
        rows.push((set, None, ranking.global));
        rows.extend(ranking.settings.iter().map(|group| (set, Some((group.relation, group.side)), group.setting)));
        weights.extend(ranking.evidence.iter().flat_map(|evidence| evidence.weights()).map(|weight| (set, weight)));
    }
    settings(target, &rows)?;
    if super::has_evidence(ranking) {
        evidence(target, &weights)?;
    }
    match target.engine.contents()?.weights {
        Some(weights) if target.format == ExportFormat::Npy => target.put(RULE_WEIGHTS, |out| {
            let kept: Vec<[f32; 2]> = target.sayable().map(|at| weights.get(at).copied().unwrap_or_default()).collect();
            npy::numbers(out, &kept)
        }),
        _ => Ok(()),
    }
}

/// The array of learned weights: a row per rule of `rules.tsv`, for questions about heads and about tails.
pub const RULE_WEIGHTS: &str = "rule_weights.npy";

fn settings(target: &Target<'_>, rows: &[SettingRow]) -> Result<()> {
    let number = |of: fn(&Setting) -> f64| Cells::Real(Box::new(move |row: usize| Some(of(&rows[row].2))));
    let yes = |of: fn(&Setting) -> bool| Cells::Int(Box::new(move |row: usize| Some(i32::from(of(&rows[row].2)))));
    let mut columns = whose(target, |row| (rows[row].0, rows[row].1));
    columns.extend([
        Column::new("weight", number(|setting| setting.weight)),
        Column::new("discount", number(|setting| setting.discount)),
        Column::new("constants", yes(|setting| setting.constants)),
        Column::new("learned", yes(|setting| setting.learned)),
        Column::new("form", Cells::Text(Box::new(|row| Some(form(rows[row].2.form).into())))),
    ]);
    put(target, "ranking", rows.len(), &columns)
}

fn evidence(target: &Target<'_>, rows: &[(&'static str, Weight)]) -> Result<()> {
    let mut columns = whose(target, |row| (rows[row].0, rows[row].1.of));
    columns.extend([
        Column::new("feature", Cells::Text(Box::new(|row| Some(rows[row].1.feature.name().into())))),
        Column::new("bin", Cells::Int(Box::new(|row| Some(rows[row].1.bin as i32)))),
        Column::new("counts", Cells::Text(Box::new(|row| rows[row].1.counts().map(Cow::from)))),
        Column::new("weight", Cells::Real(Box::new(|row| Some(f64::from(rows[row].1.weight))))),
    ]);
    put(target, "evidence", rows.len(), &columns)
}

/// How it was fitted, the relation and the end that is asked for.
fn whose<'c>(
    target: &Target<'c>,
    of: impl Fn(usize) -> (&'static str, Option<(u32, Side)>) + Copy + 'c,
) -> Vec<Column<'c>> {
    let names = &target.engine.data().names().relations;
    let relation = move |row: usize| of(row).1.map(|(id, _)| Cow::Borrowed(names.name(ruge_kg::RelationId(id))));
    let asked = move |row: usize| {
        of(row).1.map(|(_, side)| match side {
            Side::Head => Cow::Borrowed("head"),
            Side::Tail => Cow::Borrowed("tail"),
        })
    };
    vec![
        Column::new("fitted", Cells::Text(Box::new(move |row| Some(of(row).0.into())))),
        Column::new("relation", Cells::Text(Box::new(relation))),
        Column::new("asked", Cells::Text(Box::new(asked))),
    ]
}

fn form(form: Form) -> &'static str {
    match form {
        Form::Evidence => "evidence",
        Form::Probability => "probability",
    }
}

/// A table in the format of the export.
fn put(target: &Target<'_>, name: &str, rows: usize, columns: &[Column<'_>]) -> Result<()> {
    if target.format == ExportFormat::Parquet {
        return target.put(&format!("{name}.parquet"), |out| write_table(out, rows, columns));
    }
    target.check_lines("a table of text")?;
    target.put(&format!("{name}.tsv"), |out| {
        let line = |of: &dyn Fn(&Column<'_>) -> String| columns.iter().map(of).collect::<Vec<_>>().join("\t");
        writeln!(out, "#{}", line(&|column| column.name().to_string()))?;
        (0..rows).try_for_each(|row| writeln!(out, "{}", line(&|column| column.text(row).into_owned())))
    })
}
