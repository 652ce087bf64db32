//! What rules weigh, learned from train facts that are hidden one at a time.
//!
//! A confidence is counted for each rule by itself, and rules that say the same thing are counted each anew; what a rule adds to
//! those above it no count tells. So facts of train are asked for as questions, each without itself: the rules that fire for a
//! candidate are summed as in ranking, with γ for every further one, a softmax over all candidates reached says how likely the
//! answer was, and weights follow the gradient, for each relation and direction on their own. They begin at what was counted, are drawn back
//! there, and never fall below zero: a rule may be useless, but that it fires does not speak against a candidate.
//!
//! Every rule was found and counted with the fact in sight. Its weight for the answer is therefore what the counts would
//! be without: a rule that was right twice is not proven right by one of the two.
//!
//! No fact but those of train is asked for or walked. Validation has chosen how far counts of rare rules are trusted, which is where weights begin,
//! and decides whether they are used ([`super::fit()`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use ruge_kg::control::{Cancelled, Control, Work};
use ruge_kg::{EntityId, Graph, Label, RelationId, Side, Triple};
use rustc_hash::FxHashMap;

use super::Hiding;
use super::index::{Asker, Lacking, RuleIndex};
use super::scores::side_place;
use crate::measure;

/// Candidates of a question, the best first.
const CANDIDATES: usize = 3_000;
/// Rules told of in all questions of a relation and direction, about; what comes after is not learned from.
const EVENTS: usize = 30_000_000;
/// γ of the sums that are learned for.
const DISCOUNT: f32 = 0.9;
/// A rule counts for a candidate only so far down.
const FAINT: f32 = 1e-2;
const RATE: f32 = 0.05;
/// How strongly weights are drawn back to what was counted.
const DECAY: f32 = 0.001;
const EPOCHS: usize = 5;
/// What weights may be multiplied by for the softmax; the best fit is taken.
const SCALES: [f32; 8] = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0];

/// Which end was asked for, and rules by place with what they weigh there.
type Learned = (Side, Vec<(u32, f32)>);

/// A rule as counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// −ln(1 − confidence).
    pub weight: f32,
    /// What is left of the weight without the fact that is asked about.
    pub share_without: f32,
}

/// Weights for questions about heads and about tails, rule by rule, from so many questions about train at most: the largest relations
/// give way first.
pub(super) fn learn(
    graph: &Graph,
    index: &RuleIndex,
    rules: &[Counted],
    (train, questions): (&[Triple], usize),
    hiding: Hiding,
    control: &Control<'_>,
) -> Result<Vec<[f32; 2]>, Cancelled> {
    let mut groups: BTreeMap<(RelationId, Side), Vec<Triple>> = BTreeMap::new();
    for triple in train {
        for side in [Side::Head, Side::Tail] {
            groups.entry((triple.relation, side)).or_default().push(*triple);
        }
    }
    let sizes: Vec<usize> = groups.values().map(Vec::len).collect();
    let most = most_of_each(&sizes, questions);
    let groups: Vec<((RelationId, Side), Vec<Triple>)> = groups.into_iter().collect();
    let total: u64 = sizes.iter().map(|&size| size.min(most) as u64).sum();
    let done = AtomicU64::new(0);
    let learned: Result<Vec<Learned>, Cancelled> = groups
        .par_iter()
        .map(|((_, side), triples)| {
            control.check()?;
            let wanted = triples.len().min(most);
            let taken: Vec<Triple> = (0..wanted).map(|at| triples[at * triples.len() / wanted]).collect();
            let learned = Questions::ask(&Asked { graph, index, rules, hiding }, *side, &taken, control)?
                .learn(rules, control)?;
            control.report(&Work { done: done.fetch_add(wanted as u64, Ordering::Relaxed) + wanted as u64, total });
            Ok((*side, learned))
        })
        .collect();
    let mut weights: Vec<[f32; 2]> = rules.iter().map(|rule| [rule.weight; 2]).collect();
    for (side, changed) in learned? {
        for (rule, weight) in changed {
            weights[rule as usize][side_place(side)] = weight;
        }
    }
    Ok(weights)
}

/// The most questions of one group at which all groups together have not too many.
fn most_of_each(sizes: &[usize], questions: usize) -> usize {
    let all = |most: usize| sizes.iter().map(|&size| size.min(most)).sum::<usize>();
    let (mut fits, mut beyond) = (0, questions + 1);
    while beyond - fits > 1 {
        let middle = usize::midpoint(fits, beyond);
        if all(middle) <= questions { fits = middle } else { beyond = middle }
    }
    fits.max(1)
}

/// Questions of one relation and direction with the rules that fire for their candidates; the answer is the first candidate of each.
#[derive(Debug, Default)]
struct Questions {
    /// Where the candidates of each question end.
    ends: Vec<usize>,
    /// Where the rules of each candidate end.
    candidates: Vec<usize>,
    /// Rules, by place, and how much each counts there.
    events: Vec<(u32, f32)>,
}

impl Questions {
    fn ask(asked: &Asked<'_>, side: Side, triples: &[Triple], control: &Control<'_>) -> Result<Self, Cancelled> {
        let mut all = Self::default();
        // In an order that has no order, so that whatever is cut off was no part of its own; a few at a time, since a question
        // before it is packed takes far more room.
        let order: Vec<Triple> = shuffled(triples.len(), EPOCHS).map(|at| triples[at]).collect();
        for some in order.chunks(512) {
            control.check()?;
            if all.events.len() > EVENTS {
                break;
            }
            let parts: Vec<Vec<Question>> = some
                .par_chunks(16)
                .map(|part| {
                    let mut asking = Asking::new(asked);
                    part.iter()
                        .take_while(|_| !control.is_cancelled())
                        .filter_map(|triple| asking.question(side, *triple))
                        .collect()
                })
                .collect();
            for Question { candidates } in parts.into_iter().flatten() {
                for events in candidates {
                    all.events.extend(events);
                    all.candidates.push(all.events.len());
                }
                all.ends.push(all.candidates.len());
            }
        }
        control.check()?;
        Ok(all)
    }

    /// Candidates of a question, as a range.
    fn of(&self, question: usize) -> std::ops::Range<usize> {
        let from = question.checked_sub(1).map_or(0, |before| self.ends[before]);
        from..self.ends[question]
    }

    fn events(&self, candidate: usize) -> &[(u32, f32)] {
        let from = candidate.checked_sub(1).map_or(0, |before| self.candidates[before]);
        &self.events[from..self.candidates[candidate]]
    }

    /// The probabilities of a question's candidates; −ln that of the answer.
    fn softmax(&self, question: usize, weights: &[f32], scale: f32, out: &mut Vec<f32>) -> f64 {
        out.clear();
        out.extend(self.of(question).map(|candidate| {
            scale * self.events(candidate).iter().map(|&(rule, share)| share * weights[rule as usize]).sum::<f32>()
        }));
        let (answer, top) = (out[0], out.iter().fold(f32::MIN, |top, &score| top.max(score)));
        out.iter_mut().for_each(|score| *score = (*score - top).exp());
        let total: f32 = out.iter().sum();
        out.iter_mut().for_each(|score| *score /= total);
        f64::from(total.ln() - (answer - top))
    }

    /// Rules that were told of, with what they weigh now.
    fn learn(mut self, rules: &[Counted], control: &Control<'_>) -> Result<Vec<(u32, f32)>, Cancelled> {
        let mut told: Vec<u32> = self.events.iter().map(|event| event.0).collect();
        told.sort_unstable();
        told.dedup();
        let place: FxHashMap<u32, u32> = told.iter().copied().zip(0..).collect();
        self.events.iter_mut().for_each(|event| event.0 = place[&event.0]);
        let counted: Vec<f32> = told.iter().map(|&rule| rules[rule as usize].weight).collect();
        let questions = self.ends.len();
        let mut chances = Vec::new();
        let loss = |scale: f32, chances: &mut Vec<f32>| {
            (0..questions)
                .step_by(1 + questions / 2000)
                .map(|at| self.softmax(at, &counted, scale, chances))
                .sum::<f64>()
        };
        let mut best = (f64::INFINITY, SCALES[0]);
        for scale in SCALES {
            let loss = loss(scale, &mut chances);
            if loss < best.0 {
                best = (loss, scale);
            }
        }
        let scale = best.1;
        let mut weights = counted.clone();
        let (mut squares, mut gradient) = (vec![1e-8f32; weights.len()], vec![0.0f32; weights.len()]);
        let mut touched: Vec<u32> = Vec::new();
        for epoch in 0..EPOCHS {
            for (turn, at) in shuffled(questions, epoch).enumerate() {
                if turn % 256 == 0 {
                    control.check()?;
                }
                self.softmax(at, &weights, scale, &mut chances);
                for (candidate, (&chance, wanted)) in self.of(at).zip(chances.iter().zip(first())) {
                    let pull = scale * (chance - wanted);
                    if pull == 0.0 {
                        continue;
                    }
                    for &(rule, share) in self.events(candidate) {
                        if gradient[rule as usize] == 0.0 {
                            touched.push(rule);
                        }
                        gradient[rule as usize] += pull * share;
                    }
                }
                // A sum that came back to zero on its way is there twice.
                touched.sort_unstable();
                touched.dedup();
                for rule in touched.drain(..) {
                    let rule = rule as usize;
                    let slope = std::mem::take(&mut gradient[rule]) + DECAY * (weights[rule] - counted[rule]);
                    squares[rule] += slope * slope;
                    weights[rule] = (weights[rule] - RATE * slope / squares[rule].sqrt()).max(0.0);
                }
            }
        }
        Ok(told.into_iter().zip(weights).collect())
    }
}

/// 1, then 0 for ever.
fn first() -> impl Iterator<Item = f32> {
    std::iter::once(1.0).chain(std::iter::repeat(0.0))
}

/// All questions in an order that differs by epoch, neighbours far apart.
fn shuffled(questions: usize, epoch: usize) -> impl Iterator<Item = usize> {
    let draw = |at: usize| ruge_kg::random::draw(0, ruge_kg::random::Stream(0x1ea5), epoch as u64, at as u64);
    let mut order: Vec<usize> = (0..questions).collect();
    order.sort_by_key(|&at| (draw(at), at));
    order.into_iter()
}

/// Candidates with the rules that fire for each and how much each counts; the answer first.
struct Question {
    candidates: Vec<Vec<(u32, f32)>>,
}

/// Marks an entity that answers a question, too.
const RIGHT: u32 = u32::MAX;

/// Rules of a graph, and what they may not see of a fact that is asked about.
struct Asked<'a> {
    graph: &'a Graph,
    index: &'a RuleIndex,
    rules: &'a [Counted],
    hiding: Hiding,
}

/// The scratch of one thread.
struct Asking<'a> {
    asked: &'a Asked<'a>,
    asker: Asker,
    /// Per entity, its place among the reached plus one, or [`RIGHT`].
    place: Vec<u32>,
}

/// A candidate while it is being told of.
struct Reached {
    entity: EntityId,
    sum: f32,
    share: f32,
    events: Vec<(u32, f32)>,
}

impl<'a> Asking<'a> {
    fn new(asked: &'a Asked<'a>) -> Self {
        Self { asked, asker: Asker::default(), place: vec![0; asked.graph.entity_count()] }
    }

    /// A fact as a question without itself; nothing where no rule reaches the answer, or nobody else.
    fn question(&mut self, side: Side, triple: Triple) -> Option<Question> {
        let (known, answer, label) = match side {
            Side::Head => ((measure::Side::Object, triple.tail), triple.head, Label::inverse(triple.relation)),
            Side::Tail => ((measure::Side::Subject, triple.head), triple.tail, Label::forward(triple.relation)),
        };
        let Self { asked: Asked { graph, index, rules, hiding }, asker, place } = self;
        // Other answers are right, too, and tell nothing. They are marked once: rules tell of them again and again.
        let right = graph.neighbours(known.1, label);
        // Where no answer is ever linked to the known end, those that are linked are no candidates either.
        let linked = if *hiding == Hiding::Pair { graph.links(known.1) } else { &[] };
        let ignored = || right.iter().copied().chain(linked.iter().map(|edge| edge.neighbour));
        ignored().filter(|entity| *entity != answer).for_each(|entity| place[entity.index()] = RIGHT);
        let mut reached: Vec<Reached> = Vec::new();
        let mut hear = |rule: u32, entity: EntityId| {
            let own = entity == answer;
            let slot = &mut place[entity.index()];
            if *slot == RIGHT {
                return;
            }
            if *slot == 0 {
                reached.push(Reached { entity, sum: 0.0, share: 1.0, events: Vec::new() });
                *slot = reached.len() as u32;
            }
            let Counted { weight, share_without } = rules[rule as usize];
            let part = if own { share_without } else { 1.0 };
            let Reached { sum, share, events, .. } = &mut reached[*slot as usize - 1];
            if part > 0.0 && *share >= FAINT {
                events.push((rule, *share * part));
                *sum += *share * weight;
                *share *= DISCOUNT;
            }
        };
        let lacking = match hiding {
            Hiding::Fact => Lacking::Fact(label, answer),
            Hiding::Pair => Lacking::Pair(answer),
        };
        index.ask_without(graph, triple.relation, known, lacking, asker, &mut hear);
        for entity in reached.iter().map(|candidate| candidate.entity).chain(ignored()) {
            place[entity.index()] = 0;
        }
        let own = reached.iter().position(|candidate| candidate.entity == answer && !candidate.events.is_empty())?;
        reached.swap(0, own);
        reached[1..].sort_by(|a, b| b.sum.total_cmp(&a.sum).then(a.entity.cmp(&b.entity)));
        reached.truncate(CANDIDATES);
        (reached.len() > 1)
            .then(|| Question { candidates: reached.into_iter().map(|candidate| candidate.events).collect() })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Atom, Rule, Term, Variable};

    use super::*;

    const QUESTIONS: usize = 60_000;

    /// Relation 0 is what relation 1 says; relation 2 says it, too, and five others beside.
    fn graph() -> (Graph, RuleIndex, Vec<Triple>) {
        let mut facts = Vec::new();
        for at in 0..40u32 {
            let (x, y) = (at, 40 + at);
            facts.extend([Triple::new(x, 0, y), Triple::new(x, 1, y), Triple::new(x, 2, y)]);
            facts.extend((1..6).map(|step| Triple::new(x, 2, 40 + (at + step) % 40)));
        }
        let graph = Graph::new(80, 3, &facts);
        let (x, y) = (Term::from(Variable(0)), Term::from(Variable(1)));
        let rule = |body| Rule::new(Atom::new(RelationId(0), x, y), vec![Atom::new(RelationId(body), x, y)]);
        let index = RuleIndex::new(&graph, &[rule(2), rule(1)]).injective();
        let train = facts.into_iter().filter(|fact| fact.relation == RelationId(0)).collect();
        (graph, index, train)
    }

    #[test]
    fn a_rule_that_tells_answers_apart_gains_on_one_that_does_not() {
        let (graph, index, train) = graph();
        let rules = [Counted { weight: 1.0, share_without: 1.0 }; 2];
        let weights = learn(&graph, &index, &rules, (&train, QUESTIONS), Hiding::Fact, &Control::default())
            .expect("nobody cancels");
        for side in [0, 1] {
            assert!(weights[1][side] > 1.3 * weights[0][side], "{weights:?}");
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("threads");
        assert_eq!(
            pool.install(|| learn(&graph, &index, &rules, (&train, QUESTIONS), Hiding::Fact, &Control::default()))
                .expect("nobody cancels"),
            weights,
            "on any number of threads"
        );
    }

    #[test]
    fn a_rule_known_by_the_fact_alone_does_not_speak_for_it() {
        let (graph, index, train) = graph();
        let rules = [Counted { weight: 1.0, share_without: 1.0 }, Counted { weight: 9.0, share_without: 0.0 }];
        let question = Asking::new(&Asked { graph: &graph, index: &index, rules: &rules, hiding: Hiding::Fact })
            .question(Side::Tail, train[0])
            .expect("a question");
        assert_eq!(question.candidates.len(), 6);
        assert_eq!(question.candidates[0], [(0, 1.0)], "the answer has the other rule alone");
        let weights = learn(&graph, &index, &rules, (&train, QUESTIONS), Hiding::Fact, &Control::default())
            .expect("nobody cancels");
        assert_eq!(weights[1], [9.0; 2], "nothing was learned of it");
    }

    #[test]
    fn large_relations_give_way_first() {
        let most_of_each = |sizes: &[usize]| most_of_each(sizes, QUESTIONS);
        assert_eq!(most_of_each(&[10, 20, 30]), QUESTIONS);
        assert_eq!(most_of_each(&[100, QUESTIONS, QUESTIONS]), (QUESTIONS - 100) / 2);
        assert_eq!(most_of_each(&vec![7; QUESTIONS]), 1);
    }
}
