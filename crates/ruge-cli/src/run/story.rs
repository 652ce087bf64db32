//! What came out of a run, as a short story for people and as one JSON object for scripts.

use ruge::explain::Fact;
use ruge_embed::Metrics;
use ruge_kg::{Dataset, Names};
use ruge_lab::pipeline::{Comparison, Findings, Job, Proposals, Sample, Standing, SystemResult};
use ruge_rules::measure::wilson_lower;
use ruge_rules::{RuleRecord, words};
use rustc_hash::FxHashSet;
use serde_json::{Value, json};

use crate::console::Console;
use crate::eval::figures;
use crate::shown;
use crate::text::{Column, Table, counted, decimal, grouped, percent, plural, wrapped};

/// Rules the story tells.
const RULES: usize = 6;
/// Rules told with a fact.
const REASONS: usize = 2;

/// The whole story.
pub fn text(findings: &Findings, job: &Job<'_>, console: Console) -> String {
    let width = console.width().min(100);
    let mut text = String::new();
    let mut section = |title: &str, body: String| {
        if !body.is_empty() {
            text.push_str(&format!("{}\n{body}\n", console.heading(title)));
        }
    };
    section("What is in the data", data(findings, job.data, width));
    let shown = shown_rules(findings, job.data.names());
    section(&rules_title(shown.len(), findings.rules.len()), rules(findings, &shown, job.data, width));
    if let Some(comparison) = &findings.comparison {
        section("With and without rules", comparison_table(findings, comparison, job, width));
    }
    if let Some(samples) = &findings.samples {
        let new: Vec<&Sample> = samples.iter().filter(|sample| sample.standing == Standing::New).collect();
        if new.is_empty() {
            section("New facts", wrapped("No new fact is likely enough to be shown.", width));
        }
        let mut said: String = new.iter().map(|sample| fact(sample, job.data, width)).collect::<Vec<_>>().join("\n");
        if !new.is_empty() {
            said.push('\n');
            if let Some(proposals) = &findings.proposals {
                said.push_str(&wrapped(&format!("{} {}", found(proposals, job), proposals.assumes), width));
            }
        }
        let one = new.len() == 1;
        section(if one { "A new fact, predicted" } else { "New facts, predicted" }, said);
    }
    let out = findings.out.display();
    text.push_str(&format!("{}\n", console.heading("The report")));
    text.push_str(&format!("  {}\n", findings.out.join("report.html").display()));
    if let Some(sample) = findings.samples.as_ref().and_then(|samples| samples.first()) {
        let ask = &sample.explanation.fact;
        let [head, relation, tail] = [&ask.head, &ask.relation, &ask.tail].map(|name| quoted(name));
        // Names may look like flags.
        let flags = [&head, &relation, &tail].into_iter().any(|name| name.starts_with('-'));
        let (names, join) = if flags { ("-- ", '=') } else { ("", ' ') };
        text.push_str(&format!("  next: ruge explain {out} {names}{head} {relation} {tail}\n"));
        text.push_str(&format!("        ruge predict {out} --head{join}{head} --relation{join}{relation}\n"));
        text.push_str(&format!("        ruge complete {out} --top 100\n"));
    } else if let Some(split) = findings.comparison.as_ref().and_then(|comparison| comparison.split.as_deref()) {
        let split = if split == "test" { String::new() } else { format!(" --split {split}") };
        text.push_str(&format!("  next: ruge eval {out} --by-relation{split}\n"));
    }
    text
}

/// How many facts were found, where, and how many of them are kept.
fn found(proposals: &Proposals, job: &Job<'_>) -> String {
    let (count, kept) = (proposals.count, proposals.facts.len());
    let of = proposals.only.as_ref().map_or_else(String::new, |only| {
        format!(" of {} of {} relations", grouped(only.len()), grouped(job.data.relation_count()))
    });
    let kept = if kept < count { format!(", the {} truest", grouped(kept)) } else { String::new() };
    format!(
        "{}{of} with a truth of {} or more are in the report{kept}.",
        counted(count, "fact"),
        decimal(proposals.min_truth, 1)
    )
}

/// As a shell takes it.
pub fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:".contains(c);
    if !name.is_empty() && name.chars().all(plain) { name.into() } else { format!("'{}'", name.replace('\'', "'\\''")) }
}

fn data(findings: &Findings, data: &Dataset, width: usize) -> String {
    let Some(checked) = &findings.checked else { return String::new() };
    let [train, valid, test] = checked.splits.map(grouped);
    let largest: Vec<String> = checked.largest.iter().take(4).map(|(name, _)| shown::relation(data, name)).collect();
    let mut said = format!(
        "{}: {} and {}, such as {}. {train} triples to learn from, {valid} for validation, {test} for testing.",
        findings.source,
        counted(checked.entities, "entity"),
        counted(checked.relations, "relation"),
        largest.join(", ")
    );
    if let Some(share) = checked.copyable.filter(|share| *share > 0.0) {
        said.push_str(&format!(
            " {} of the test triples repeat a training triple through a symmetric, inverse or duplicate relation.",
            percent(share)
        ));
    }
    wrapped(&said, width)
}

fn rules_title(shown: usize, count: usize) -> String {
    match count {
        0 => "No rule guides".into(),
        1 => "One rule".into(),
        count if count <= RULES => format!("{count} rules"),
        count => format!("{shown} of {} rules: the best-supported one per relation", grouped(count)),
    }
}

/// All rules if they are few; otherwise the best-supported one of each concluded relation.
fn shown_rules<'a>(findings: &'a Findings, names: &Names) -> Vec<&'a RuleRecord> {
    let sure = |record: &RuleRecord| match &record.counts {
        Some(counts) => wilson_lower(counts.support, counts.pca_body()),
        None => record.confidence.get(),
    };
    let is_known = |record: &&RuleRecord| record.rule.atoms().all(|atom| atom.relation.index() < names.relations.len());
    let mut order: Vec<&RuleRecord> = findings.rules.iter().filter(is_known).collect();
    order.sort_by(|a, b| sure(b).total_cmp(&sure(a)));
    let few = order.len() <= RULES;
    let mut heads = FxHashSet::default();
    order.into_iter().filter(|record| few || heads.insert(record.rule.head())).take(RULES).collect()
}

fn rules(findings: &Findings, chosen: &[&RuleRecord], data: &Dataset, width: usize) -> String {
    if findings.rules.is_empty() {
        return wrapped(
            "No rule passes the thresholds, or the rules conclude too much, so both models are the same. To get more rules, \
             lower --min-pca, --min-std or --min-support, or raise --max-conclusions.",
            width,
        );
    }
    let mut table = Table::new(&[Column::Right, Column::Right, Column::Right, Column::Text]);
    table.head(["conf", "support", "valid", "rule"]);
    let validated = findings.grounded.as_ref().map_or(&[][..], |found| &found.validated);
    for record in chosen {
        let place = findings.rules.iter().position(|other| std::ptr::eq(other, *record));
        let measured = place.and_then(|place| validated.get(place)).filter(|found| found.is_measured);
        table.row([
            format!("{:.2}", record.mined_confidence()),
            record.counts.map_or_else(String::new, |counts| grouped(counts.support)),
            measured.map_or_else(|| "–".into(), |found| format!("{} of {}", found.in_valid, found.conclusions)),
            words::told(&record.rule, data),
        ]);
    }
    let mut text = table.render(width);
    if let Some(grounded) = &findings.grounded {
        let mut said = format!(
            "They fire {} and conclude {} that train does not have.",
            counted(grounded.groundings, "time"),
            counted(grounded.unlabeled, "triple")
        );
        if findings.checked.as_ref().is_some_and(|checked| checked.splits[1] + checked.splits[2] > 0) {
            said.push_str(&format!(
                " Of these, {} {} in valid and {} in test, which no rule and no model has seen.",
                grouped(grounded.in_valid),
                if grounded.in_valid == 1 { "is" } else { "are" },
                grouped(grounded.in_test)
            ));
        }
        if !validated.is_empty() {
            said.push_str(
                " conf is the mined (PCA) confidence; valid says how many of a rule's new conclusions are validation triples, which \
                 decides what it counts in training.",
            );
        }
        text.push_str(&wrapped(&said, width));
    }
    text
}

fn comparison_table(findings: &Findings, comparison: &Comparison, job: &Job<'_>, width: usize) -> String {
    let Some(split) = &comparison.split else {
        return wrapped("There are no held-out triples, so nothing can be compared.", width);
    };
    let mut table =
        Table::new(&[Column::Name, Column::Right, Column::Right, Column::Right, Column::Right, Column::Right]);
    table.head(["", "MRR", "H@1", "H@3", "H@10", "best epoch"]);
    let mut row = |name: String, metrics: &Metrics, epoch: String| {
        let hits = |n: u32| format!("{:.3}", metrics.hits.get(&n).unwrap_or(&0.0));
        table.row([name, format!("{:.3}", metrics.mrr), hits(1), hits(3), hits(10), epoch]);
    };
    let kept = |result: &SystemResult| format!("{} of {}", result.training.best_epoch, result.training.epochs);
    let name = job.spec.model.name.title();
    if let Some(result) = &comparison.unguided {
        row(format!("{name} alone"), &result.filtered, kept(result));
    }
    if let Some(result) = &comparison.guided {
        row(format!("{name} guided by rules"), &result.filtered, kept(result));
    }
    if let Some(found) = &comparison.with_rules {
        let rules = counted(found.rules, "rule");
        row(format!("  and with {rules} when ranking"), &found.result.filtered, String::new());
        if let Some(metrics) = &found.alone {
            row("  those rules alone".into(), metrics, String::new());
        }
    }
    if let Some(metrics) = &comparison.rules_only {
        row(format!("the {} alone", counted(findings.rules.len(), "guiding rule")), metrics, String::new());
    }
    let mut text = table.render(width);
    let queries = comparison.guided.as_ref().map_or(0, |result| result.filtered.queries);
    let mut said = format!(
        "Filtered ranks of {} {split} {}, h r ? and ? r t. Both models had the same trainer and budget; the best \
         epoch on validation was kept.",
        grouped(queries),
        plural(queries, "question")
    );
    if let (Some(without), Some(with)) = (&comparison.unguided, &comparison.guided) {
        if findings.grounded.as_ref().is_some_and(|found| found.groundings == 0) {
            said.push_str(" No rule concludes anything new, so the guided model is the unguided one.");
        }
        let best = comparison.with_rules.as_ref().map_or(with, |found| &found.result);
        said.push_str(&format!(" {}", gain(best.filtered.mrr - without.filtered.mrr)));
        if job.data.valid().is_empty() {
            said = said.replace(
                "the best epoch on validation was kept",
                "there are no valid triples, so the last epoch was kept",
            );
        }
    }
    if comparison.with_rules.is_some() {
        said.push_str(&format!(
            " What rules count at ranking time is fitted on validation. The evaluated model is in {}.",
            findings.out.join("evaluated").display()
        ));
    }
    text.push_str(&wrapped(&said, width));
    text
}

/// What rules do to the figures: the best model with them, compared with the model without.
fn gain(gain: f64) -> String {
    match decimal(gain.abs(), 3) {
        same if same.chars().all(|c| c == '0' || c == '.') => "Rules leave MRR as it is.".into(),
        by if gain > 0.0 => format!("Rules raise MRR by {by}."),
        by => format!("Rules lower MRR by {by} on these questions, although not on validation."),
    }
}

fn fact(sample: &Sample, data: &Dataset, width: usize) -> String {
    let found = &sample.explanation;
    let said = |fact: &Fact| {
        let (head, tail) = (shown::entity(data, &fact.head), shown::entity(data, &fact.tail));
        format!("{head} {} {tail}", shown::relation(data, &fact.relation))
    };
    let mut text = format!("  {}\n", said(&found.fact));
    let line = format!(
        "truth {}, rank {} of {} ({} without rules)",
        truth(sample.truth),
        grouped(found.rank.round() as u64),
        grouped(found.entities),
        grouped(sample.rank_unguided.round() as u64)
    );
    text.push_str(&indented(&line, 2, width));
    for (place, rule) in found.rules.iter().enumerate().take(REASONS) {
        text.push_str(&indented(
            &format!("because {} (confidence {:.2})", shown::text(data, &rule.words), rule.confidence),
            2,
            width,
        ));
        let premises = found.groundings.iter().find(|grounding| grounding.rule_index == place);
        for premise in premises.iter().flat_map(|grounding| &grounding.premises) {
            let not = if premise.negated { "not known: " } else { "" };
            text.push_str(&indented(&format!("{not}{}", said(&premise.fact)), 4, width));
        }
    }
    let more = found.rules.len().saturating_sub(REASONS);
    if more > 0 {
        text.push_str(&indented(&format!("and {more} more {}", plural(more, "rule")), 2, width));
    }
    if found.rules.is_empty() {
        text.push_str(&indented("no rule concludes it; the model alone predicts it", 2, width));
    }
    text
}

/// Two digits; rounding makes nothing certain.
fn truth(truth: f64) -> String {
    if truth >= 0.995 { "above 0.99".into() } else { format!("{truth:.2}") }
}

fn indented(line: &str, by: usize, width: usize) -> String {
    let blanks = " ".repeat(by);
    wrapped(line, width.saturating_sub(by)).lines().map(|line| format!("{blanks}{line}\n")).collect()
}

/// Everything as one JSON object: what scripts rely on stands at the top.
pub fn object(findings: &Findings, job: &Job<'_>, seconds: f64) -> Value {
    let out = &findings.out;
    let system = |result: &Option<SystemResult>| match result {
        Some(result) => {
            let mut value = figures(&result.filtered);
            value["best_epoch"] = result.training.best_epoch.into();
            value["epochs"] = result.training.epochs.into();
            value["valid_mrr"] = json!(result.training.valid_mrr);
            value["ranks_sha256"] = result.ranks_sha256.as_str().into();
            value
        }
        None => json!({ "mrr": null }),
    };
    let comparison = findings.comparison.clone().unwrap_or_default();
    let (unguided, guided) = (system(&comparison.unguided), system(&comparison.guided));
    let mut object = json!({
        "data": findings.source,
        "out": out,
        "model": if job.deploys { out.join("model.safetensors") } else { out.join("evaluated").join("model.safetensors") },
        "evaluated_model": out.join("evaluated").join("model.safetensors"),
        "guided_model": out.join("guided").join("model.safetensors"),
        "unguided_model": out.join("unguided").join("model.safetensors"),
        "report": out.join("report.html"),
        "rules_file": out.join("rules.tsv"),
        "spec": out.join("spec.toml"),
        "evaluation": out.join("evaluation.json"),
        "split": comparison.split,
        "rules": findings.rules.len(),
        "groundings": findings.grounded.as_ref().map(|found| found.groundings),
        "unlabeled": findings.grounded.as_ref().map(|found| found.unlabeled),
        "rules_only": comparison.rules_only.as_ref().map(figures),
        "with_rules": comparison.with_rules.as_ref().map(|found| {
            let mut value = system(&Some(found.result.clone()));
            value["rules"] = found.rules.into();
            value["rules_only"] = json!(found.alone.as_ref().map(figures));
            value["model"] = json!(out.join("evaluated").join("model.safetensors"));
            value
        }),
        "ece": findings.trust.as_ref().and_then(|trust| trust.guided.as_ref()).map(|found| found.ece),
        "deployed": findings.deployed,
        "assumes": findings.proposals.as_ref().map(|found| &found.assumes),
        "proposals": findings.proposals.as_ref().map(|found| json!({
            "file": out.join("proposals.json"),
            "min_truth": found.min_truth,
            "count": found.count,
            "kept": found.facts.len(),
            "only": found.only,
        })),
        "predictions": findings.samples,
        "stages": findings.ledger.stages.iter()
            .map(|(name, entry)| (name.clone(), json!({ "seconds": entry.seconds, "finished": entry.finished })))
            .collect::<serde_json::Map<_, _>>(),
        "finished": job.stages().all(|stage| {
            findings.ledger.stages.get(stage.name()).is_some_and(|entry| entry.finished)
        }),
        "seconds": seconds,
    });
    // Every result once: the model without rules under its own name, and whatever the guidance, `ruge` is the guided one.
    let name = job.spec.model.name.name();
    object["systems"] = json!({
        "unguided": name, "guided": "ruge",
        "best": if comparison.with_rules.is_some() { "with_rules" } else { "ruge" },
    });
    object[name] = unguided;
    object["ruge"] = guided;
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_for_a_shell() {
        assert_eq!(
            ["Paris", "New York", "Côte_d'Ivoire", ""].map(quoted),
            ["Paris", "'New York'", "'Côte_d'\\''Ivoire'", "''"]
        );
    }

    #[test]
    fn lines_keep_their_indent() {
        assert_eq!(indented("one two three", 2, 13), "    one two\n    three\n");
    }
}
