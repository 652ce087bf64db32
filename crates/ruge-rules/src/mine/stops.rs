//! Every step of a search ends when it is cancelled or memory is used up.

use std::sync::atomic::{AtomicU64, Ordering};

use ruge_kg::{Graph, RelationId, Triple};

use super::bound::Memory;
use super::constants::LinkRuns;
use super::{Head, MineConfig, Mined, Pool, Walks, constants, long, mine, prune, support, walks};
use ruge_kg::control::{Cancel, Control, Work};

const WALKS: Walks = Walks { longest: 4, facts: 10, starts: 10, most: 20, min_support: 2, min_confidence: 0.0 };

/// Thresholds that everything passes.
fn low() -> MineConfig {
    MineConfig {
        max_body: 3,
        min_pca: 0.0,
        min_head_coverage: 0.0,
        min_head_size: 1,
        constants: true,
        min_constant_support: 1,
        walks: Some(WALKS),
        ..MineConfig::default()
    }
}

/// A graph in which most pairs of six entities are linked by three relations.
fn dense() -> Graph {
    let all = (0..6).flat_map(|x| (0..6).flat_map(move |y| (0..3).map(move |relation| (x, relation, y))));
    let facts: Vec<Triple> = all
        .filter(|(x, relation, y)| (x + 3 * y + relation) % 5 != 0)
        .map(|(x, relation, y)| Triple::new(x, relation, y))
        .collect();
    Graph::new(6, 3, &facts)
}

fn under<T>(control: &Control<'_>, memory: u64, work: impl FnOnce(&Head<'_>, &Pool) -> T) -> T {
    let (graph, config) = (dense(), low());
    let memory = Memory::new(memory);
    let head = Head::new(&graph, &config, RelationId(0), (control, &memory));
    work(&head, &Pool::new(graph.entity_count()))
}

#[test]
fn every_step_ends_when_told_to() {
    let (stopped, running) = (Control::default(), Control::default());
    stopped.cancel().cancel();
    let supported = |head: &Head<'_>, pool: &Pool| support::count(head, pool, &AtomicU64::new(0));
    let found = under(&running, u64::MAX, supported).expect("nobody stops it");
    assert!(found.paths.len() > 20 && found.same_pair.len() > 5);
    assert!(under(&stopped, u64::MAX, supported).is_none());
    assert!(under(&running, u64::MAX, |head, pool| prune::select(head, &found, pool)).is_some());
    assert!(under(&stopped, u64::MAX, |head, pool| prune::select(head, &found, pool)).is_none());
    assert!(under(&running, u64::MAX, long::mine).is_some());
    assert!(under(&stopped, u64::MAX, long::mine).is_none());
    assert!(under(&running, u64::MAX, |head, pool| walks::mine(head, &WALKS, pool)).is_some());
    assert!(under(&stopped, u64::MAX, |head, pool| walks::mine(head, &WALKS, pool)).is_none());
    let links = LinkRuns::new(&dense(), &running).expect("nobody stops it");
    assert!(LinkRuns::new(&dense(), &stopped).is_none());
    assert!(under(&running, u64::MAX, |head, _| constants::mine(head, &links)).is_some());
    assert!(under(&stopped, u64::MAX, |head, _| constants::mine(head, &links)).is_none());
}

#[test]
fn every_step_ends_when_memory_is_used_up() {
    let control = Control::default();
    assert!(under(&control, 100, |head, pool| support::count(head, pool, &AtomicU64::new(0))).is_none());
    assert!(under(&control, 100, long::mine).is_none());
    assert!(under(&control, 100, |head, pool| walks::mine(head, &WALKS, pool)).is_none());
    let links = LinkRuns::new(&dense(), &control).expect("nobody stops it");
    assert!(under(&control, 100, |head, _| constants::mine(head, &links)).is_none());
}

#[test]
fn memory_is_given_back_by_the_time_a_head_is_done() {
    let control = Control::default();
    let (graph, config) = (dense(), low());
    let memory = Memory::new(u64::MAX);
    let head = Head::new(&graph, &config, RelationId(0), (&control, &memory));
    let links = LinkRuns::new(&graph, &control);
    let pool = Pool::new(graph.entity_count());
    let rules = super::mine_head(&head, &config, &pool, links.as_ref(), &AtomicU64::new(0)).expect("nobody stops it");
    assert!(rules.len() > 100);
    assert_eq!(memory.held(), (rules.len() * super::bound::RULE_BYTES) as u64);
}

fn rules(mined: &Mined) -> usize {
    assert!(mined.unfinished.is_empty());
    mined.rules.len()
}

#[test]
fn a_search_without_memory_says_so() {
    let all = mine(&dense(), &low(), &Control::default());
    assert!(rules(&all) > 100 && all.over_memory.is_none());
    let some = mine(&dense(), &MineConfig { memory: 100_000, ..low() }, &Control::default());
    assert_eq!(some.over_memory, Some(100_000));
    assert!(!some.unfinished.is_empty());
    // Finished heads have the same rules as with more memory.
    for relation in &some.finished {
        let of = |mined: &Mined| mined.rules.iter().filter(|rule| rule.rule.head() == *relation).cloned().collect();
        let (part, whole): (Vec<_>, Vec<_>) = (of(&some), of(&all));
        assert_eq!(part, whole);
    }
}

#[test]
fn a_flag_set_by_the_first_head_leaves_the_others_unfinished() {
    let cancel = Cancel::new();
    let after = AtomicU64::new(0);
    let listener = |_: &Work| {
        after.fetch_add(u64::from(cancel.is_cancelled()), Ordering::Relaxed);
        cancel.cancel();
    };
    let control = Control::new(&cancel).with_listener(&listener);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let mined = pool.install(|| mine(&dense(), &low(), &control));
    assert_eq!((mined.finished.len(), mined.unfinished.len()), (1, 2));
    assert_eq!((after.into_inner(), mined.over_memory), (0, None), "a head was finished after the flag was set");
}

#[test]
fn the_least_confidence_may_be_next_to_nothing() {
    // The largest body that passes would not fit in 64 bits.
    let wanted = mine(&dense(), &low(), &Control::default());
    let tiny = mine(&dense(), &MineConfig { min_pca: 1e-17, ..low() }, &Control::default());
    assert_eq!(rules(&wanted), rules(&tiny));
    assert_eq!(wanted.rules, tiny.rules);
}
