//! Ranks against a brute-force count, for every model, instruction set, slab size and thread count.

use ruge_kg::random::{self, Stream};
use ruge_kg::rank::place;
use ruge_kg::{EntityId, Work};

use super::*;
use crate::scoring::{ComplEx, DistMult, RotatE, TransEL1, TransEL2};

fn candidates<'a, F>(scoring: &'a F, e: &'a Table, r: &'a Table, packing: &'a Packing, isa: Isa) -> Candidates<'a, F> {
    Candidates { scoring, entities: e, relations: r, packing, isa }
}

fn table(rows: usize, width: usize, epoch: u64, levels: u64) -> Table {
    let mut table = Table::zeros(rows, width);
    for row in 0..rows {
        for (k, value) in table.row_mut(row).iter_mut().enumerate() {
            let draw = random::draw(5, Stream(0x7e57), epoch, (row * width + k) as u64);
            // Few levels give exact ties.
            *value = random::below(draw, levels) as f32 / (levels - 1) as f32 - 0.5;
        }
    }
    table
}

fn triples(n: usize, entities: u64, relations: u64) -> Vec<Triple> {
    let draw = |i: usize, j: u64, bound| random::below(random::draw(6, Stream(0x7e57), j, i as u64), bound) as u32;
    (0..n).map(|i| Triple::new(draw(i, 0, entities), draw(i, 1, relations), draw(i, 2, entities))).collect()
}

/// The definition: score every candidate, compare, count.
fn brute<F: ScoringFunction>(scoring: &F, e: &Table, r: &Table, query: RankQuery, filter: &Filter) -> Rank {
    let mut vector = vec![0.0; scoring.entity_width()];
    candidates(scoring, e, r, &Packing::default(), Isa::detect()).write_query(query, &mut vector);
    let score = |entity: usize| {
        let score = tile::ordered_score(F::COMPARATOR, &vector, e.row(entity));
        if score.is_nan() { f32::NEG_INFINITY } else { score }
    };
    let target = score(query.answer().index());
    let mut rank = Rank::default();
    for entity in (0..e.rows()).filter(|&entity| entity != query.answer().index()) {
        let known = query.known(filter).contains(&EntityId(entity as u32));
        let places = if known { vec![&mut rank.raw] } else { vec![&mut rank.raw, &mut rank.filtered] };
        for place in places {
            place.others += 1;
            place.better += u32::from(score(entity) > target);
            place.equal += u32::from(score(entity) == target);
        }
    }
    rank
}

fn check<F: ScoringFunction>(scoring: &F, levels: u64, poison: bool) {
    let (entities, relations) = (75, 3);
    let mut e = table(entities, scoring.entity_width(), 0, levels);
    if poison {
        e.row_mut(7)[0] = f32::NAN;
    }
    let r = table(relations, scoring.relation_width(), 1, levels);
    let facts = triples(260, entities as u64, relations as u64);
    let filter = Filter::new(entities, relations, &[&facts]);
    let queries = RankQuery::both_sides(&facts);
    // Many queries at once score like single ones, and a row of scores gives the same place as counting.
    let mut many = vec![0.0; 5 * entities];
    let (whole, none) = (Packing::default(), Packing::within(0));
    candidates(scoring, &e, &r, &whole, Isa::detect()).score_many(&queries[..5], &mut many);
    for (query, row) in queries.iter().zip(many.chunks(entities)) {
        for packing in [&whole, &none] {
            let mut one = vec![0.0; entities];
            candidates(scoring, &e, &r, packing, Isa::detect()).score_many(&[*query], &mut one);
            assert!(one.iter().zip(row).all(|(a, b)| a.to_bits() == b.to_bits()), "{}", F::NAME);
        }
        assert_eq!(place(query, Some(&filter), row), brute(scoring, &e, &r, *query, &filter), "{}", F::NAME);
    }
    let expected: Vec<Rank> = queries.iter().map(|&query| brute(scoring, &e, &r, query, &filter)).collect();
    for isa in Isa::available() {
        for memory in [0, 1 << 13, 1 << 30] {
            let packing = Packing::within(memory);
            let candidates = candidates(scoring, &e, &r, &packing, isa);
            let told = |work: &Work| assert!(work.done <= work.total);
            let found = candidates.rank(&queries, Some(&filter), &Control::default().with_listener(&told));
            assert_eq!(found.as_ref(), Ok(&expected), "{} on {isa:?} within {memory} bytes", F::NAME);
            // Few queries are split into ranges of panels.
            let few = candidates.rank(&queries[..7], Some(&filter), &Control::default());
            assert_eq!(few.as_deref(), Ok(&expected[..7]), "{} on {isa:?} within {memory} bytes", F::NAME);
        }
    }
    for threads in [1, 3, 16] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let candidates = candidates(scoring, &e, &r, &whole, Isa::detect());
        let found = pool.install(|| candidates.rank(&queries, Some(&filter), &Control::default()));
        assert_eq!(found.as_ref(), Ok(&expected));
    }
    let control = Control::default();
    control.cancel().cancel();
    assert_eq!(candidates(scoring, &e, &r, &whole, Isa::detect()).rank(&queries, None, &control), Err(Cancelled));
}

#[test]
fn ranks_are_what_counting_gives() {
    for levels in [3, 1 << 20] {
        check(&ComplEx::new(11), levels, false);
        check(&DistMult::new(9), levels, false);
        check(&TransEL1::new(10), levels, false);
        check(&TransEL2::new(10), levels, false);
        check(&RotatE::new(10), levels, false);
    }
}

#[test]
fn nan_ranks_below_every_number() {
    check(&DistMult::new(9), 3, true);
    check(&TransEL1::new(9), 1 << 20, true);
}

#[test]
fn ranks_ignore_entity_order() {
    let scoring = ComplEx::new(6);
    let (entities, relations) = (50, 2);
    let e = table(entities, 12, 0, 4);
    let r = table(relations, 12, 1, 4);
    let facts = triples(40, entities as u64, relations as u64);
    let order = random::permutation(entities, 1, Stream(0x7e57), 9);
    let mut shuffled = Table::zeros(entities, 12);
    for (from, &to) in order.iter().enumerate() {
        shuffled.row_mut(to as usize).copy_from_slice(e.row(from));
    }
    let renamed: Vec<Triple> =
        facts.iter().map(|x| Triple::new(order[x.head.index()], x.relation.0, order[x.tail.index()])).collect();
    let ranks = |e: &Table, facts: &[Triple]| {
        let filter = Filter::new(entities, relations, &[facts]);
        let queries = RankQuery::both_sides(facts);
        candidates(&scoring, e, &r, &Packing::default(), Isa::detect()).rank(
            &queries,
            Some(&filter),
            &Control::default(),
        )
    };
    assert_eq!(ranks(&e, &facts), ranks(&shuffled, &renamed));
}

#[test]
fn all_scores_are_the_ranked_scores() {
    let scoring = TransEL2::new(5);
    let (e, r) = (table(70, 5, 0, 1 << 20), table(2, 5, 1, 1 << 20));
    let query = RankQuery { triple: Triple::new(3, 1, 66), side: Side::Tail };
    let mut vector = vec![0.0; 5];
    let packing = Packing::default();
    candidates(&scoring, &e, &r, &packing, Isa::detect()).write_query(query, &mut vector);
    for isa in Isa::available() {
        let mut scores = vec![0.0; 70];
        candidates(&scoring, &e, &r, &packing, isa).score_many(&[query], &mut scores);
        for (entity, &score) in scores.iter().enumerate() {
            assert_eq!(score, tile::ordered_score(Comparator::NegL2, &vector, e.row(entity)));
        }
    }
}

#[test]
fn a_table_is_packed_while_the_tasks_of_a_pool_ask_for_it() {
    let scoring = ComplEx::new(8);
    let (e, r) = (table(3000, 16, 0, 1 << 20), table(2, 16, 1, 1 << 20));
    let query = RankQuery { triple: Triple::new(3, 1, 66), side: Side::Tail };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let rank = |packing: &Packing| {
        let all = candidates(&scoring, &e, &r, packing, Isa::detect());
        all.rank(&[query], None, &Control::default()).unwrap()[0]
    };
    let expected = rank(&Packing::default());
    for _ in 0..200 {
        // A thread that waited for tasks within the packing would be given one of these, and wait for itself.
        let (packing, wrong) = (Packing::default(), AtomicUsize::new(0));
        let ask = || {
            wrong.fetch_add(usize::from(rank(&packing) != expected), Ordering::Relaxed);
        };
        pool.scope(|scope| (0..32).for_each(|_| scope.spawn(|_| ask())));
        assert_eq!(wrong.into_inner(), 0);
    }
}
