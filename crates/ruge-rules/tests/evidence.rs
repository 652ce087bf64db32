//! Evidence: counted as defined, taken where it tells answers apart, and left alone where it does not.

use std::sync::Arc;

use ruge_kg::random::{self, Stream};
use ruge_kg::{Control, Dataset, EntityId, Graph, Names, RankError, RankQuery, Ranker, Side, Triple};
use ruge_rules::rank::evidence::{
    Counts, DEGREES, Evidence, EvidenceScores, Feature, Group, LINKS, ROLES, Sheet, TYPES, WEIGHTS, bin, bin_words, fit,
};

/// A ranker that knows nothing: every pair has a score of its own, drawn at random.
struct Noise(usize);

impl Ranker for Noise {
    fn name(&self) -> &'static str {
        "noise"
    }

    fn entity_count(&self) -> usize {
        self.0
    }

    fn score(&self, triples: &[Triple], scores: &mut [f32]) -> Result<(), RankError> {
        triples.iter().zip(scores).for_each(|(triple, score)| *score = drawn(triple.head, triple.tail));
        Ok(())
    }

    fn score_all(&self, query: RankQuery, scores: &mut [f32]) -> Result<(), RankError> {
        let all = scores.iter_mut().enumerate();
        all.for_each(|(at, score)| *score = drawn(query.given(), EntityId(at as u32)));
        Ok(())
    }
}

fn drawn(given: EntityId, other: EntityId) -> f32 {
    (random::draw(0, Stream(0x7e57), u64::from(given.0), u64::from(other.0)) >> 40) as f32 / (1u64 << 24) as f32
}

const PEOPLE: u32 = 120;

/// Everyone has one boss, a person of the next level (relation 0). A tenth of the facts is held out: those who lack a boss in
/// train are the answers to "who reports to …?". Relation 1 gives everyone another number of acquaintances, so that degrees tell nothing.
fn company() -> Dataset {
    let boss = |person: u32| PEOPLE + person % 12;
    let fact = |person: u32| Triple::new(person, 0, boss(person));
    let held_out = |person: &u32| person.is_multiple_of(5);
    let links = (0..PEOPLE).flat_map(|person| {
        (0..1 + person * 13 % 9).map(move |nth| Triple::new(person, 1, (person * 7 + 3 + 11 * nth) % PEOPLE))
    });
    let train: Vec<Triple> = (0..PEOPLE).filter(|person| !held_out(person)).map(fact).chain(links).collect();
    let valid = (0..PEOPLE).filter(held_out).map(fact).collect();
    let mut names = Names::default();
    (0..PEOPLE + 12).for_each(|at| {
        names.entities.intern(&format!("e{at}"));
    });
    ["boss", "knows"].iter().for_each(|name| {
        names.relations.intern(name);
    });
    Dataset::new(names, train, valid, vec![])
}

fn fitted(data: &Dataset) -> fit::Fitted {
    let queries = RankQuery::both_sides(data.valid());
    let counts = Counts::new(data.shared_graph());
    fit::fit(
        &Noise(data.entity_count()),
        &counts,
        &queries,
        (data.choosing_filter(), 0.0),
        &Feature::ALL,
        &Control::default(),
    )
    .expect("a fit")
}

#[test]
fn who_already_has_one_is_no_answer() {
    let data = company();
    let fit::Fitted { evidence, tried, numbers } = fitted(&data);
    let evidence = evidence.expect("it helps");
    assert!(evidence.features.contains(&Feature::Role), "{tried:?}");
    assert_eq!(tried.iter().filter(|tried| tried.taken).count(), 1);
    assert!(numbers > WEIGHTS / 4, "{numbers}");
    let heads = evidence.groups.iter().find(|group| group.side == Side::Head).expect("a group");
    assert!(heads.weights[0] > heads.weights[1] + 0.1, "no boss yet against one: {:?}", heads.weights);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("threads");
    assert_eq!(pool.install(|| fitted(&data)).evidence, Some(evidence), "on any number of threads");
}

#[test]
fn counts_that_say_nothing_stay_off() {
    // Held-out facts are drawn as train's are, between entities of equal roles and degrees.
    let ring = |step: u32| (0..90).map(move |at| Triple::new(at, 0, (at + step) % 90));
    let mut names = Names::default();
    (0..90).for_each(|at| {
        names.entities.intern(&format!("e{at}"));
    });
    names.relations.intern("next");
    let valid: Vec<Triple> = ring(5).collect();
    let data = Dataset::new(names, ring(1).chain(ring(2)).collect(), valid, vec![]);
    let fit::Fitted { evidence, tried, .. } = fitted(&data);
    let features = evidence.map_or(vec![], |evidence| evidence.features);
    // Nobody is their own neighbour here, so that links tell a little; nothing else does.
    assert!(features.iter().all(|feature| *feature == Feature::Link), "{features:?}: {tried:?}");
}

#[test]
fn scores_are_what_the_definition_adds_up() {
    let data = company();
    let graph = data.shared_graph();
    let weights: [f32; WEIGHTS] = std::array::from_fn(|at| at as f32 + 1.0);
    let group = Group { relation: 0, side: Side::Head, weights };
    let evidence = Evidence { features: Feature::ALL.to_vec(), shared: [0.5; WEIGHTS], groups: vec![group] };
    let text = serde_json::to_string(&evidence).expect("JSON");
    assert_eq!(serde_json::from_str::<Evidence>(&text).expect("evidence"), evidence);
    let scores = EvidenceScores::new(Arc::new(Counts::new(Arc::clone(&graph))), &evidence);
    let mut sheet = Sheet::default();
    for triple in [Triple::new(0, 0, PEOPLE), Triple::new(3, 1, 4)] {
        for side in [Side::Head, Side::Tail] {
            let query = RankQuery { triple, side };
            let mut found = vec![0.0; data.entity_count()];
            scores.add(&query, &mut sheet, &mut found);
            for (at, found) in found.iter().enumerate() {
                let entity = EntityId(at as u32);
                let parts = scores.parts(&query, entity);
                let sum: f32 = parts.iter().map(|part| part.value).sum();
                assert!((found - sum).abs() < 1e-3, "{parts:?}");
                let role = parts.iter().find(|part| part.feature == Feature::Role).expect("a role");
                assert_eq!(role.count, counted(&graph, &query, entity));
            }
        }
    }
    assert_eq!(ROLES + LINKS + DEGREES + TYPES, WEIGHTS);
}

/// Facts with an entity in the asked place, one by one.
fn counted(graph: &Graph, query: &RankQuery, entity: EntityId) -> usize {
    let stands = |fact: &Triple| entity == if query.side == Side::Head { fact.head } else { fact.tail };
    graph.triples().filter(|fact| fact.relation == query.triple.relation && stands(fact)).count()
}

#[test]
fn bins_have_the_bounds_that_their_words_name() {
    for (count, wanted) in [(0, "0"), (1, "1"), (2, "2"), (3, "3–4"), (4, "3–4"), (5, "5–8"), (32, "17–32")] {
        assert_eq!(bin_words(bin(count, ROLES), ROLES), wanted);
    }
    assert_eq!(bin_words(bin(33, ROLES), ROLES), "more than 32");
    assert_eq!(bin_words(bin(5_000, DEGREES), DEGREES), "more than 2048");
}

#[test]
fn a_million_entities_take_seven_bytes_each_at_most() {
    const ENTITIES: usize = 1_000_000;
    let facts: Vec<Triple> = (0..2_000).map(|at| Triple::new(at * 499, at % 2, (at * 7919 + 1) % 1_000_000)).collect();
    let counts = Arc::new(Counts::new(Arc::new(Graph::new(ENTITIES, 2, &facts))));
    assert!(counts.bytes() <= ENTITIES + 16 * 2, "{} bytes for all threads", counts.bytes());
    let evidence = Evidence { features: Feature::ALL.to_vec(), shared: [0.5; WEIGHTS], groups: vec![] };
    let scores = EvidenceScores::new(Arc::clone(&counts), &evidence);
    let (mut sheet, mut found) = (Sheet::default(), vec![0.0; ENTITIES]);
    for triple in [facts[0], facts[1]] {
        let query = RankQuery { triple, side: Side::Tail };
        found.fill(0.0);
        scores.add(&query, &mut sheet, &mut found);
        let sum: f32 = scores.parts(&query, triple.tail).iter().map(|part| part.value).sum();
        assert!((found[triple.tail.index()] - sum).abs() < 1e-3);
        assert_eq!(found[ENTITIES - 2], 1.5, "no fact has it, and it is not linked: role, degree and type");
    }
    // Vectors grow by doubling where they are filled one by one.
    assert!(sheet.bytes() <= 6 * ENTITIES + ENTITIES / 8, "{} bytes per thread", sheet.bytes());
}
