//! Fitting what rules count, on validation triples alone.
//!
//! Every validation query is ranked under every setting of a grid: how rules are summed, in which form they enter, how much
//! they weigh (weights are multiples of the spread of the model's scores). Each relation and direction then takes the setting
//! that is best on its own queries and on κ imagined ones that behave like the average of all: with few queries the average
//! decides, with many their own.
//!
//! *Helping or not.* How much to trust the fit is measured, too: validation is halved, settings are fitted on one half and
//! judged on the other, for no rules at all, one setting for all, and several κ. The way that does best is then fitted on both
//! halves. Rules must gain more than one standard error over the model alone, or they weigh nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use ruge_kg::{Control, Dataset, Filter, RankError, RankQuery, Ranker, RelationId, Side, Ties, Triple};
use serde::{Deserialize, Serialize};

use super::evidence::{self, Counts};
use super::scores::{SHARE, block, by_question, in_place};
use super::{Combined, Form, GroupSetting, Heard, Hiding, Prepared, Ranking, RuleScores, Setting, Sum};

/// Whatever asks the other ranker may fail as it does.
type Result<T> = std::result::Result<T, RankError>;

/// Queries that the spread of a model's scores is measured on.
const SPREAD: usize = 256;

/// γ to choose from beside a model, and without one.
const DISCOUNTS: [f64; 6] = [0.0, 0.1, 0.3, 0.5, 0.7, 0.85];
const DISCOUNTS_ALONE: [f64; 8] = [0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.75, 0.9];
/// γ to choose from for weights that were learned, beside a model and without one.
const DISCOUNTS_LEARNED: [f64; 2] = [0.7, 0.9];
const DISCOUNTS_LEARNED_ALONE: [f64; 4] = [0.5, 0.7, 0.8, 0.9];
/// β to choose from, in units of the spread of the model's scores.
const WEIGHTS: [f64; 12] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0, 5.0, 10.0];
/// κ to choose from: how many average queries a relation and direction is held to.
const SHRINKAGE: [f64; 5] = [5.0, 10.0, 20.0, 60.0, 200.0];

/// A way of fitting, and how it did on the half of validation it was not fitted on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Tried {
    /// In words.
    pub what: String,
    /// Validation MRR, each half by what was fitted on the other.
    pub mrr: f64,
    /// Whether it was taken.
    pub taken: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    NoRules,
    OneForAll,
    ByGroup(f64),
}

impl Way {
    fn words(self) -> String {
        match self {
            Way::NoRules => "no rules".into(),
            Way::OneForAll => "one setting for all".into(),
            Way::ByGroup(kappa) => format!("by relation and direction, held to {kappa} average queries"),
        }
    }
}

/// Fits a combination of `base` and rules, or of rules alone, and evidence in addition. Without validation triples rules alone keep
/// their default, next to a model they weigh nothing, and there is no evidence.
///
/// While rules are fitted, candidates that any split has are left out, as is usual. While evidence is fitted, only those of train and
/// validation are: test is not looked at.
pub fn fit(
    base: Option<&Arc<dyn Ranker>>,
    prepared: &Prepared,
    data: &Dataset,
    control: &Control<'_>,
) -> Result<Ranking> {
    let without = Setting { weight: if base.is_some() { 0.0 } else { 1.0 }, ..Setting::ALONE };
    if data.valid().is_empty() {
        return Ok(Ranking::of(without));
    }
    let most = prepared.effort.triples;
    let mut ranking = if prepared.rules.is_empty() {
        Ranking::of(without)
    } else {
        let base = base.map(|base| &**base);
        let ranking = fit_scores(base, &prepared.scores, data, (most, prepared.hiding), control)?;
        let (smoothing, hiding) = (prepared.smoothing, prepared.hiding);
        Ranking { smoothing, hiding, fitted: ranking.fitted + 2, ..ranking }
    };
    let ranker = Combined::new(base.map(Arc::clone), prepared.scores(), &ranking);
    let counts = Counts::new(data.shared_graph());
    let queries = RankQuery::both_sides(&some(data.valid(), most));
    let features = prepared.weighing().evidence.list();
    // True facts that nobody listed are expected in the proportion of validation to train.
    let unlisted = data.valid().len() as f64 / data.train().len().max(1) as f64;
    let known = (data.choosing_filter(), unlisted);
    let fitted = evidence::fit::fit(&ranker, &counts, &queries, known, features, control)?;
    ranking.fitted += fitted.numbers;
    (ranking.evidence, ranking.evidence_tried) = (fitted.evidence, fitted.tried);
    if base.is_none() && data.train().len() <= NEAR_MOST {
        // Nothing is fitted but whether it helps, so all of validation decides.
        let near = Ranking { near: true, ..ranking.clone() };
        let gains = |ranking: &Ranking| -> Result<Vec<f32>> {
            let ranks = Combined::new(None, prepared.scores(), ranking).rank(
                &queries,
                Some(data.choosing_filter()),
                control,
            )?;
            Ok(ranks.iter().map(|rank| (1.0 / rank.filtered.rank(Ties::Mean)) as f32).collect())
        };
        ranking.fitted += 1;
        ranking.near = clearly_above(&gains(&near)?, &gains(&ranking)?);
    }
    Ok(ranking)
}

/// Train triples, at most, of a graph on which nearness is tried: it walks the whole graph for every query.
const NEAR_MOST: usize = 50_000;

/// The rest of a fit, for rules that are filed.
fn fit_scores(
    base: Option<&dyn Ranker>,
    rules: &RuleScores,
    data: &Dataset,
    (most, hiding): (usize, Hiding),
    control: &Control<'_>,
) -> Result<Ranking> {
    let triples = some(data.valid(), most);
    let queries = RankQuery::both_sides(&triples);
    let grid = Grid::new(base, rules, &queries, true, hiding)?;
    let gains = grid.gains(base, rules, &queries, data.filter(), control)?;
    let fitting = Fitting { queries: &queries, gains: &gains };

    let mut ways = vec![Way::OneForAll];
    ways.extend(SHRINKAGE.map(Way::ByGroup));
    if base.is_some() {
        ways.insert(0, Way::NoRules);
    }
    // By way, what every query gains where the other half decides.
    let judged: Vec<Vec<f32>> = ways.iter().map(|&way| fitting.crossed(way)).collect();
    let mut best = 0;
    for at in 1..ways.len() {
        if mean(&judged[at]) > mean(&judged[best]) {
            best = at;
        }
    }
    if base.is_some() && !clearly_above(&judged[best], &judged[0]) {
        best = 0;
    }
    let tried = ways.iter().zip(&judged).enumerate();
    let tried =
        tried.map(|(at, (way, gains))| Tried { what: way.words(), mrr: mean(gains), taken: at == best }).collect();

    let chosen = fitting.settings(ways[best], |_| true);
    let global = grid.settings[chosen.global];
    let groups = chosen.groups.iter().filter(|(_, at)| **at != chosen.global);
    let settings: Vec<GroupSetting> = groups
        .map(|(&(relation, side), &at)| GroupSetting { relation: relation.0, side, setting: grid.settings[at] })
        .collect();
    // Discount, whether learned, constants, form and weight, or the first two without a model; and which way was taken.
    let numbers = if base.is_some() { 5 } else { 2 };
    let fitted = 1 + match ways[best] {
        Way::NoRules => 0,
        Way::OneForAll => numbers,
        Way::ByGroup(_) => numbers * (1 + chosen.groups.len()),
    };
    Ok(Ranking { settings, tried, fitted, ..Ranking::of(global) })
}

/// At most so many triples, evenly spread.
pub(super) fn some(triples: &[Triple], most: usize) -> Vec<Triple> {
    let wanted = triples.len().min(most);
    (0..wanted).map(|at| triples[at * triples.len() / wanted]).collect()
}

/// The mean of reciprocal ranks.
pub(super) fn mean(gains: &[f32]) -> f64 {
    gains.iter().map(|&x| f64::from(x)).sum::<f64>() / gains.len().max(1) as f64
}

/// The half of validation that a query belongs to; both queries of a triple are in one.
pub(super) fn half(query: usize) -> usize {
    query / 2 % 2
}

/// Whether the mean difference is more than its standard error.
pub(super) fn clearly_above(gains: &[f32], before: &[f32]) -> bool {
    let n = gains.len() as f64;
    let differences = || gains.iter().zip(before).map(|(a, b)| f64::from(*a) - f64::from(*b));
    let mean = differences().sum::<f64>() / n;
    let variance = differences().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    mean > 0.0 && mean > (variance / n).sqrt()
}

/// The settings that are tried.
pub(super) struct Grid {
    pub(super) settings: Vec<Setting>,
    sums: Vec<Sum>,
    forms: Vec<Form>,
    weights: Vec<f64>,
    alone: bool,
    /// Where data were split by pairs, candidates that are linked to the known end are left out: evidence will rule them out.
    hiding: Hiding,
}

impl Grid {
    pub(super) fn new(
        base: Option<&dyn Ranker>,
        rules: &RuleScores,
        queries: &[RankQuery],
        learned: bool,
        hiding: Hiding,
    ) -> Result<Self> {
        // Alone, rules that name an entity are all that tells most candidates apart; a model may know what they know.
        let sums = |counted: &[f64], of_learned: &[f64], constants: &[bool]| -> Vec<Sum> {
            let counted = counted.iter().map(|&discount| (discount, false));
            let of_learned = of_learned.iter().filter(|_| learned).map(|&discount| (discount, true));
            let each =
                |(discount, learned)| constants.iter().map(move |&constants| Sum { discount, constants, learned });
            counted.chain(of_learned).flat_map(each).collect()
        };
        let mut grid = match base {
            None => Self {
                settings: Vec::new(),
                sums: sums(&DISCOUNTS_ALONE, &DISCOUNTS_LEARNED_ALONE, &[true]),
                forms: vec![Form::Evidence],
                weights: vec![1.0],
                alone: true,
                hiding,
            },
            Some(model) => {
                let spread = spread(model, rules, queries)?;
                let sums = sums(&DISCOUNTS, &DISCOUNTS_LEARNED, &[true, false]);
                let forms = vec![Form::Evidence, Form::Probability];
                let weights = WEIGHTS.map(|weight| weight * spread).to_vec();
                Self { settings: Vec::new(), sums, forms, weights, alone: false, hiding }
            }
        };
        // No rules come first: of settings that do equally well the first is taken.
        if !grid.alone {
            grid.settings.push(Setting { weight: 0.0, ..Setting::ALONE });
        }
        for &Sum { discount, constants, learned } in &grid.sums {
            for &form in &grid.forms {
                let with = |&weight: &f64| Setting { discount, constants, learned, form, weight };
                grid.settings.extend(grid.weights.iter().map(with));
            }
        }
        Ok(grid)
    }

    /// For every query, its reciprocal filtered rank under every setting.
    pub(super) fn gains(
        &self,
        base: Option<&dyn Ranker>,
        rules: &RuleScores,
        queries: &[RankQuery],
        known: &Filter,
        control: &Control<'_>,
    ) -> Result<Vec<Vec<f32>>> {
        let entities = rules.graph().entity_count();
        let most = block(entities).min(queries.len());
        let mut scores = vec![0.0; most * entities];
        let mut all = Vec::with_capacity(queries.len());
        let order = by_question(queries);
        for places in order.chunks(most.max(1)) {
            control.check()?;
            let block: Vec<RankQuery> = places.iter().map(|&at| queries[at as usize]).collect();
            let scores = &mut scores[..block.len() * entities];
            if let Some(model) = base {
                model.score_many(&block, scores)?;
            }
            let of = |work: &mut Scratch, (query, row): (&RankQuery, &[f32])| {
                // What is missing is noticed below.
                if control.is_cancelled() {
                    return Vec::new();
                }
                rules.ask(query, &mut work.heard);
                let mut left_out = query.known(known).to_vec();
                if self.hiding == Hiding::Pair {
                    left_out.extend(rules.graph().links(query.given()).iter().map(|edge| edge.neighbour));
                    left_out.sort_unstable();
                    left_out.dedup();
                }
                work.gains(self, query, row, &left_out)
            };
            let rows = scores.par_chunks(entities.max(1));
            all.par_extend(block.par_iter().zip(rows).with_min_len(SHARE).map_init(|| Scratch::new(&self.sums), of));
        }
        control.check()?;
        Ok(in_place(&order, all))
    }
}

/// The mean over some queries of the standard deviation of all entities' scores.
fn spread(model: &dyn Ranker, rules: &RuleScores, queries: &[RankQuery]) -> Result<f64> {
    let entities = rules.graph().entity_count();
    let step = queries.len().div_ceil(SPREAD).max(1);
    let sample: Vec<RankQuery> = queries.iter().copied().step_by(step).collect();
    let mut scores = vec![0.0; sample.len() * entities];
    model.score_many(&sample, &mut scores)?;
    let deviation = |row: &[f32]| {
        let numbers = || row.iter().map(|&x| f64::from(x)).filter(|x| x.is_finite());
        let n = numbers().count().max(1) as f64;
        let mean = numbers().sum::<f64>() / n;
        (numbers().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n).sqrt()
    };
    let spread = scores.chunks(entities.max(1)).map(deviation).sum::<f64>() / sample.len().max(1) as f64;
    Ok(if spread > 0.0 && spread.is_finite() { spread } else { 1.0 })
}

/// The scratch of one thread.
struct Scratch {
    heard: Heard,
    /// Sorted scores of candidates that no rule reaches.
    rest: Vec<f32>,
    /// Scores of those that rules reach, and what rules say of them under one sum and form.
    reached: Vec<f32>,
    places: Vec<u32>,
    said: Vec<f32>,
}

impl Scratch {
    fn new(sums: &[Sum]) -> Self {
        Self { heard: Heard::new(sums), rest: vec![], reached: vec![], places: vec![], said: vec![] }
    }

    fn gains(&mut self, grid: &Grid, query: &RankQuery, scores: &[f32], known: &[ruge_kg::EntityId]) -> Vec<f32> {
        let Self { heard, rest, reached, places, said } = self;
        let answer = query.answer();
        let number = |x: f32| if x.is_nan() { f32::NEG_INFINITY } else { x };
        let (own, own_place) = (number(scores[answer.index()]), heard.place(answer));
        rest.clear();
        reached.clear();
        places.clear();
        let mut left_out = known.iter().copied().peekable();
        for (index, &score) in scores.iter().enumerate() {
            let entity = ruge_kg::EntityId(index as u32);
            if left_out.next_if_eq(&entity).is_some() || entity == answer {
                continue;
            }
            match heard.place(entity) {
                None => rest.push(number(score)),
                Some(place) => {
                    reached.push(number(score));
                    places.push(place as u32);
                }
            }
        }
        if !grid.alone {
            rest.sort_unstable_by(f32::total_cmp);
        }
        let reciprocal = |target: f32, weight: f32, said: &[f32]| {
            let from = rest.partition_point(|&score| score < target);
            let equal = rest[from..].partition_point(|&score| score == target);
            let (mut better, mut ties) = ((rest.len() - from - equal) as u32, equal as u32);
            for (&score, &said) in reached.iter().zip(said) {
                let score = score + weight * said;
                better += u32::from(score > target);
                ties += u32::from(score == target);
            }
            1.0 / (1.0 + better as f32 + 0.5 * ties as f32)
        };
        let mut gains = Vec::with_capacity(grid.settings.len());
        if !grid.alone {
            said.clear();
            said.resize(reached.len(), 0.0);
            gains.push(reciprocal(own, 0.0, said));
        }
        for way in 0..grid.sums.len() {
            for form in &grid.forms {
                let of = |place: usize| form.score(heard.sum(place, way)) as f32;
                said.clear();
                said.extend(places.iter().map(|&place| of(place as usize)));
                let own_said = own_place.map_or(0.0, of);
                for &weight in &grid.weights {
                    let weight = weight as f32;
                    gains.push(reciprocal(own + weight * own_said, weight, said));
                }
            }
        }
        gains
    }
}

/// Queries with their gains under every setting.
struct Fitting<'a> {
    queries: &'a [RankQuery],
    gains: &'a [Vec<f32>],
}

/// Settings by their place in the grid.
struct Chosen {
    global: usize,
    groups: BTreeMap<(RelationId, Side), usize>,
}

impl Fitting<'_> {
    /// Fits on the queries that `takes` (by their place) lets in.
    fn settings(&self, way: Way, takes: impl Fn(usize) -> bool) -> Chosen {
        let settings = self.gains.first().map_or(0, Vec::len);
        let mut total = vec![0.0f64; settings];
        let mut groups: BTreeMap<(RelationId, Side), Vec<f64>> = BTreeMap::new();
        let mut count = 0.0;
        for (_, (query, gains)) in self.queries.iter().zip(self.gains).enumerate().filter(|(at, _)| takes(*at)) {
            let group = groups.entry((query.triple.relation, query.side)).or_insert_with(|| vec![0.0; settings]);
            for ((total, group), &gain) in total.iter_mut().zip(group).zip(gains) {
                *total += f64::from(gain);
                *group += f64::from(gain);
            }
            count += 1.0;
        }
        let global = if way == Way::NoRules { 0 } else { first_best(&total) };
        let own = |group: Vec<f64>, kappa: f64| {
            let held: Vec<f64> =
                group.iter().zip(&total).map(|(own, all)| own + kappa * all / f64::max(count, 1.0)).collect();
            first_best(&held)
        };
        let groups = match way {
            Way::ByGroup(kappa) => groups.into_iter().map(|(key, group)| (key, own(group, kappa))).collect(),
            _ => BTreeMap::new(),
        };
        Chosen { global, groups }
    }

    /// The gain of every query under what the other half of the triples decides.
    fn crossed(&self, way: Way) -> Vec<f32> {
        let fitted = [0, 1].map(|of| self.settings(way, |at| half(at) != of));
        let of = |(at, query): (usize, &RankQuery)| {
            let chosen = &fitted[half(at)];
            let setting = chosen.groups.get(&(query.triple.relation, query.side)).unwrap_or(&chosen.global);
            self.gains[at][*setting]
        };
        self.queries.iter().enumerate().map(of).collect()
    }
}

fn first_best(values: &[f64]) -> usize {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = at;
        }
    }
    best
}
