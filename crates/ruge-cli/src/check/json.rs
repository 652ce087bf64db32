//! The report as one JSON object. The keys at the top are relied on by scripts: add to them, never rename them.

use std::path::Path;

use ruge_kg::stats::{EXAMPLES, Leakage, MIN_FACTS, Pattern, STRONG, Split};
use ruge_kg::{EntityId, RelationId, Stats};
use serde_json::{Map, Value, json};

use crate::data_args::Loaded;

/// Everything `ruge check` knows, by the user's names.
pub fn object(path: &Path, loaded: &Loaded, stats: &Stats) -> Value {
    let (names, report) = (loaded.data.names(), &loaded.report);
    let entity = |id: EntityId| names.entities.name(id);
    let relation = |id: RelationId| names.relations.name(id);
    let sizes = |list: &[(RelationId, usize)]| -> Vec<Value> {
        list.iter().map(|&(id, facts)| json!({ "relation": relation(id), "facts": facts })).collect()
    };
    let patterns = |list: &[Pattern]| -> Vec<Value> {
        list.iter()
            .map(|pattern| {
                json!({
                    "first": relation(pattern.first), "second": relation(pattern.second), "support": pattern.support,
                    "share_of_first": pattern.share_of_first, "share_of_second": pattern.share_of_second,
                })
            })
            .collect()
    };
    let mut splits = Map::new();
    for (index, name) in ["train", "valid", "test"].into_iter().enumerate() {
        splits.insert(name.to_string(), split(&stats.splits[index], report, index));
    }
    let cardinalities: Map<String, Value> = stats
        .cardinalities
        .iter()
        .map(|c| (c.class.name().to_string(), json!({ "relations": c.relations, "triples": c.triples })))
        .collect();
    let per_relation: Vec<Value> = stats
        .per_relation
        .iter()
        .map(|row| {
            json!({
                "relation": relation(row.relation), "facts": row.facts, "heads": row.heads, "tails": row.tails,
                "tails_per_head": row.tails_per_head, "heads_per_tail": row.heads_per_tail,
                "cardinality": row.cardinality, "reflexive": row.reflexive, "symmetric": row.symmetric,
            })
        })
        .collect();
    json!({
        "entities": stats.entities,
        "relations": stats.relations,
        "train": stats.splits[0].triples,
        "valid": stats.splits[1].triples,
        "test": stats.splits[2].triples,
        "duplicates": report.duplicates.iter().map(|duplicates| duplicates.count).sum::<usize>(),
        "unseen_entities": stats.unseen.entities,
        "unseen_relations": stats.unseen.relations,
        "bad_lines": report.bad_lines(),
        "unused_entities": stats.unused_entities,
        "unused_relations": stats.unused_relations,
        "data": path.display().to_string(),
        "layout": report.layout,
        "split_here": report.split_here,
        "files": report.files,
        "notes": crate::data_args::notes(report),
        "warnings": loaded.warnings(),
        "literals": report.files.iter().map(|file| file.literals).sum::<u64>(),
        "graphs": report.files.iter().map(|file| file.graphs).sum::<u64>(),
        "labelled": report.labelled,
        "typed": report.typed,
        "splits": splits,
        "overlap": stats.overlap,
        "unseen": {
            "entities": stats.unseen.first_entities.iter().map(|&id| entity(id)).collect::<Vec<_>>(),
            "relations": stats.unseen.first_relations.iter().map(|&id| relation(id)).collect::<Vec<_>>(),
            "listed_at_most": EXAMPLES,
        },
        "degrees": {
            "spread": stats.degrees.spread,
            "top": stats.degrees.top.iter().map(|&(id, degree)| json!({ "entity": entity(id), "degree": degree }))
                .collect::<Vec<_>>(),
        },
        "relation_sizes": {
            "spread": stats.relation_sizes.spread,
            "below_10": stats.relation_sizes.below_10,
            "below_100": stats.relation_sizes.below_100,
            "largest": sizes(&stats.relation_sizes.largest),
            "smallest": sizes(&stats.relation_sizes.smallest),
        },
        "cardinalities": cardinalities,
        "patterns": {
            "strong_from": STRONG,
            "facts_from": MIN_FACTS,
            "symmetric": patterns(&stats.patterns.symmetric),
            "inverse": patterns(&stats.patterns.inverse),
            "duplicate": patterns(&stats.patterns.duplicate),
        },
        "leakage": { "valid": leakage(&stats.valid_leakage), "test": leakage(&stats.test_leakage) },
        "per_relation": per_relation,
    })
}

fn split(split: &Split, report: &ruge_kg::LoadReport, index: usize) -> Value {
    json!({
        "triples": split.triples,
        "read": report.read[index],
        "duplicates": report.duplicates[index],
        "reflexive": split.reflexive,
        "with_unseen_entity": split.with_unseen_entity,
        "with_unseen_relation": split.with_unseen_relation,
    })
}

/// Shares make no sense of an empty part: they are null there.
fn leakage(leakage: &Leakage) -> Value {
    let mut value = json!(leakage);
    if leakage.triples == 0 {
        value["share_copyable"] = Value::Null;
        value["share_linked"] = Value::Null;
    }
    value
}
