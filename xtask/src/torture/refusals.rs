//! Commands that must fail, over finished results, which must not change.

use anyhow::Result;

use super::case::{Kind, Verdict, Yard, copy_folder};
use super::jobs::typed;
use super::process::Call;
use super::results::{Contents, contents};
use super::world;

/// Earlier commands, and the command that must be refused.
const REFUSALS: &[(&str, &[&str], &str)] = &[
    ("run-rules", &[RUN], "run g --rules missing.tsv --dim 4 --epochs 2 --out run --force"),
    ("run-bad-rules", &[RUN], "run g --rules space.toml --dim 4 --epochs 2 --out run --force"),
    ("run-data", &[RUN], "run missing --dim 4 --epochs 2 --out run --force"),
    ("run-spec", &[RUN], "run g --spec missing.toml --out run --force"),
    ("run-setting", &[RUN], "run g --dim 0 --out run --force"),
    ("run-other-settings", &[RUN], "run g --dim 5 --epochs 2 --out run"),
    ("train-rules", &[TRAIN], "train g --guidance ruge --rules missing.tsv --out run --force"),
    ("train-data", &[TRAIN], "train missing --out run --force"),
    ("train-spec", &[TRAIN], "train g --spec rules.tsv --out run --force"),
    ("train-memory", &[TRAIN], "train g --dim 2000000000 --out run --force"),
    ("train-again", &[TRAIN], "train g --dim 5 --epochs 2 --out run"),
    ("combine-rules", &[TRAIN, COMBINE], "combine run --rules missing.tsv --out both --force"),
    ("combine-model", &[TRAIN, COMBINE], "combine missing --rules rules.tsv --out both --force"),
    ("search-space", &[SEARCH], "search g --spec missing.toml --out run --force"),
    ("search-bad-space", &[SEARCH], "search g --spec rules.tsv --out run --force"),
    ("search-again", &[SEARCH], "search g --spec space.toml --out run"),
    ("complete-model", &[TRAIN, "complete run --top 5 --out new.tsv"], "complete missing --out new.tsv --force"),
    (
        "complete-rules",
        &[TRAIN, "complete run --top 5 --out new.tsv"],
        "complete run --rules missing.tsv --out new.tsv --force",
    ),
    ("mine-data", &["mine g --min-head-size 1 --out m.tsv"], "mine missing --out m.tsv"),
    ("ground-rules", &["ground g --rules rules.tsv --out gr.tsv"], "ground g --rules missing.tsv --out gr.tsv"),
    ("export-model", &[TRAIN, "export run --to npy --out e"], "export missing --to npy --out e --force"),
    ("export-again", &[TRAIN, "export run --to npy --out e"], "export run --to npy --out e"),
];

const RUN: &str = "run g --rules rules.tsv --dim 4 --epochs 2 --out run";
const TRAIN: &str = "train g --dim 4 --epochs 2 --out run";
const COMBINE: &str = "combine run --rules rules.tsv --out both";
const SEARCH: &str = "search g --spec space.toml --out run";

pub fn attack(yard: &Yard<'_>) -> Result<()> {
    let cases: Vec<_> =
        REFUSALS.iter().map(|(name, before, line)| (format!("same/{name}"), (*before, *line))).collect();
    yard.try_all(&cases, |_, (before, line), folder| {
        let made = folder.join("made");
        world::build(&made)?;
        for line in *before {
            yard.ruge.must(&typed(line), &made)?;
        }
        let room = folder.join("room");
        copy_folder(&made, &room)?;
        let arguments = typed(line);
        let outcome = yard.ruge.call(&Call::new(&arguments, &room))?;
        let mut verdict: Verdict = outcome.verdict(&format!("`ruge {line}`"));
        if outcome.success() {
            verdict.push((Kind::Wrong, format!("`ruge {line}` is not refused")));
        }
        let kept = |mut contents: Contents| {
            contents.retain(|name, _| !name.ends_with(".lock"));
            contents
        };
        let (was, is) = (kept(contents(&made)?), kept(contents(&room)?));
        let touched: Vec<&str> = was
            .keys()
            .chain(is.keys().filter(|name| !was.contains_key(*name)))
            .filter(|name| was.get(*name) != is.get(*name))
            .map(String::as_str)
            .collect();
        if !touched.is_empty() {
            verdict.push((Kind::Unusable, format!("`ruge {line}` is refused, and has touched {}", touched.join(", "))));
        }
        Ok(verdict)
    })
}
