//! Grounding (propositionalisation): 𝒢 and 𝒰.
//!
//! A *valid grounding* g_pq binds all variables of rule p so that every premise is an observed triple and the
//! conclusion is not. Only the training graph counts as observed. Inner variables are part of a grounding's identity,
//! and variables may take equal values. If two rules give the same premises (in order) and conclusion, the grounding
//! counts once, for the first of them. The distinct conclusions are the *unlabeled triples*.
//!
//! A negated premise ¬r(a,b) holds if r(a,b) is not observed (closed world over the training graph). Negated premises
//! are part of a grounding, and count in guidance with truth 1 − φ.
//!
//! Everything is stored in flat arrays with both directions: rule → groundings → conclusions and conclusion →
//! groundings, for training and for explanations.

use rayon::prelude::*;
use ruge_kg::{Graph, Pair, Triple};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::RuleError;
use crate::join::{Guide, MOST_ATOMS, NotBarren, Plan, bind, holds};
use crate::rule::Rule;
use ruge_kg::control::{Control, Pulse};

mod limit;
mod stream;
pub use limit::GroundLimit;
use limit::Room;
pub use stream::{StreamReport, Streaming, Visit, stream, stream_within};

/// Why a rule was not grounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum NotGrounded {
    /// It has no premise.
    NoPremise,
    /// A variable of the conclusion or of a negated premise is in no other premise.
    Unsafe,
    /// A relation is missing from the training graph.
    UnknownRelation,
    /// It has too many atoms to match.
    TooLong,
}

impl NotGrounded {
    /// The reason, in words.
    pub fn reason(self) -> &'static str {
        match self {
            NotGrounded::NoPremise => "it has no premise",
            NotGrounded::Unsafe => {
                "a variable of its conclusion, or of a negated premise, is in no premise that must hold"
            }
            NotGrounded::UnknownRelation => "a relation of it is not in the training data",
            NotGrounded::TooLong => "its premise has more than 200 atoms",
        }
    }
}

/// All valid groundings of a list of rules.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Groundings {
    /// Groundings of rule `p` are `rule_offsets[p]..rule_offsets[p + 1]`.
    rule_offsets: Vec<usize>,
    /// Premises of grounding `g` are `premise_offsets[g]..premise_offsets[g + 1]`.
    premise_offsets: Vec<usize>,
    premises: Vec<Triple>,
    /// Negated premises of grounding `g` are `negated_offsets[g]..negated_offsets[g + 1]`; empty if no rule negates.
    negated_offsets: Vec<usize>,
    negated: Vec<Triple>,
    /// The unlabeled triple of each grounding.
    conclusions: Vec<u32>,
    unlabeled: Vec<Triple>,
    /// Groundings by conclusion: `by_conclusion[conclusion_offsets[u]..conclusion_offsets[u + 1]]`.
    conclusion_offsets: Vec<usize>,
    by_conclusion: Vec<u32>,
    /// Rules that cannot be grounded, and why.
    not_grounded: Vec<(usize, NotGrounded)>,
    /// Groundings that an earlier rule had already given.
    repeated: usize,
}

impl Groundings {
    /// Number of groundings.
    pub fn len(&self) -> usize {
        self.conclusions.len()
    }

    /// Whether there are no groundings.
    pub fn is_empty(&self) -> bool {
        self.conclusions.is_empty()
    }

    /// Number of rules, including those without groundings.
    pub fn rule_count(&self) -> usize {
        self.rule_offsets.len().saturating_sub(1)
    }

    /// The groundings of one rule.
    pub fn of_rule(&self, rule: usize) -> std::ops::Range<usize> {
        self.rule_offsets[rule]..self.rule_offsets[rule + 1]
    }

    /// The rule of one grounding.
    pub fn rule(&self, grounding: usize) -> usize {
        self.rule_offsets.partition_point(|&start| start <= grounding) - 1
    }

    /// The premises of one grounding, in the rule's order.
    #[inline]
    pub fn premises(&self, grounding: usize) -> &[Triple] {
        &self.premises[self.premise_offsets[grounding]..self.premise_offsets[grounding + 1]]
    }

    /// The negated premises of one grounding, in the rule's order: triples that are not observed.
    #[inline]
    pub fn negated(&self, grounding: usize) -> &[Triple] {
        if self.negated_offsets.is_empty() {
            return &[];
        }
        &self.negated[self.negated_offsets[grounding]..self.negated_offsets[grounding + 1]]
    }

    /// The unlabeled triple a grounding concludes, as its index in [`unlabeled`](Self::unlabeled).
    #[inline]
    pub fn conclusion(&self, grounding: usize) -> usize {
        self.conclusions[grounding] as usize
    }

    /// 𝒰: the distinct conclusions, in order of first appearance.
    pub fn unlabeled(&self) -> &[Triple] {
        &self.unlabeled
    }

    /// The groundings that conclude one unlabeled triple.
    pub fn concluding(&self, unlabeled: usize) -> &[u32] {
        &self.by_conclusion[self.conclusion_offsets[unlabeled]..self.conclusion_offsets[unlabeled + 1]]
    }

    /// Rules that cannot be grounded, and why.
    pub fn not_grounded(&self) -> &[(usize, NotGrounded)] {
        &self.not_grounded
    }

    /// Groundings dropped because an earlier rule had given them.
    pub fn repeated(&self) -> usize {
        self.repeated
    }

    /// How many unlabeled triples are in `triples`.
    pub fn overlap(&self, triples: &[Triple]) -> usize {
        let known: FxHashSet<Triple> = triples.iter().copied().collect();
        self.unlabeled.iter().filter(|triple| known.contains(triple)).count()
    }

    fn push(&mut self, grounded: &Grounded<'_>, ids: &mut FxHashMap<Triple, u32>) {
        let &Grounded { premises, negated, conclusion, .. } = grounded;
        let next = self.unlabeled.len() as u32;
        let id = *ids.entry(conclusion).or_insert(next);
        if id == next {
            self.unlabeled.push(conclusion);
        }
        self.premises.extend_from_slice(premises);
        self.premise_offsets.push(self.premises.len());
        self.conclusions.push(id);
        if !self.negated_offsets.is_empty() {
            self.negated.extend_from_slice(negated);
            self.negated_offsets.push(self.negated.len());
        }
    }

    /// Builds conclusion → groundings by a counting sort.
    fn index(&mut self) {
        let mut offsets = vec![0usize; self.unlabeled.len() + 1];
        for &conclusion in &self.conclusions {
            offsets[conclusion as usize + 1] += 1;
        }
        for place in 1..offsets.len() {
            offsets[place] += offsets[place - 1];
        }
        let mut next = offsets.clone();
        self.by_conclusion = vec![0; self.conclusions.len()];
        for (grounding, &conclusion) in self.conclusions.iter().enumerate() {
            self.by_conclusion[next[conclusion as usize]] = grounding as u32;
            next[conclusion as usize] += 1;
        }
        self.conclusion_offsets = offsets;
    }
}

/// A rule ready to be matched, or the reason why not.
pub(crate) fn prepare(graph: &Graph, rule: &Rule) -> Result<Plan, NotGrounded> {
    if rule.premise.is_empty() {
        return Err(NotGrounded::NoPremise);
    }
    if !rule.is_safe() {
        return Err(NotGrounded::Unsafe);
    }
    if rule.head().index() >= graph.relation_count() {
        return Err(NotGrounded::UnknownRelation);
    }
    if rule.premise.len() + rule.negated.len() > MOST_ATOMS {
        return Err(NotGrounded::TooLong);
    }
    Plan::new(graph, rule, &[]).ok_or(NotGrounded::UnknownRelation)
}

/// One valid grounding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grounded<'a> {
    /// The rule's index in the list.
    pub rule: usize,
    /// The premises, in the rule's order: observed.
    pub premises: &'a [Triple],
    /// The negated premises, in the rule's order: not observed.
    pub negated: &'a [Triple],
    /// The conclusion: not observed.
    pub conclusion: Triple,
}

/// The groundings of one piece of one rule: premises followed by negated premises, and conclusions.
#[derive(Default)]
pub(crate) struct Piece {
    triples: Vec<Triple>,
    conclusions: Vec<Triple>,
}

impl Piece {
    /// Grounds one piece of a rule; `None` if it was stopped or exceeds the limit.
    pub(crate) fn of(
        graph: &Graph,
        rule: &Rule,
        plan: &Plan,
        piece: Option<&[Pair]>,
        (room, control): (&Room, &Control<'_>),
    ) -> Option<Self> {
        let mut out = Self::default();
        let mut unpaid = 0;
        let width = rule.premise.len() + rule.negated.len();
        let ran = ground_piece(graph, rule, plan, piece, &mut Pulse::new(control), &mut |triples, conclusion| {
            // Room is reserved in lots, before it is used.
            if unpaid == 0 {
                unpaid = LOT;
                if !room.take(LOT as u64, width) {
                    return false;
                }
            }
            unpaid -= 1;
            out.triples.extend_from_slice(triples);
            out.conclusions.push(conclusion);
            true
        });
        room.give_back(unpaid as u64, width);
        ran.then_some(out)
    }

    /// Its groundings, each also as the list of its premises and negated premises, which identifies it.
    pub(crate) fn groundings<'p>(
        &'p self,
        index: usize,
        rule: &Rule,
    ) -> impl Iterator<Item = (Grounded<'p>, &'p [Triple])> {
        let width = rule.premise.len();
        let triples = self.triples.chunks_exact(width + rule.negated.len());
        triples.zip(&self.conclusions).map(move |(triples, &conclusion)| {
            let (premises, negated) = triples.split_at(width);
            (Grounded { rule: index, premises, negated, conclusion }, triples)
        })
    }
}

/// Groundings per reservation.
const LOT: usize = 256;

/// Facts of the first premise per task.
const PIECE: usize = 4096;

/// The pieces of a rule's work: ranges of the facts that its first premise scans (`None` if it does not scan).
pub(crate) fn pieces<'g>(graph: &'g Graph, plan: &Plan) -> Vec<Option<&'g [Pair]>> {
    match plan.scanned(graph) {
        Some(facts) => facts.chunks(PIECE).map(Some).collect(),
        None => vec![None],
    }
}

/// Grounds one piece, in a fixed order. Stops when the visitor or the guide says so; returns whether it ran to the end.
fn ground_piece(
    graph: &Graph,
    rule: &Rule,
    plan: &Plan,
    piece: Option<&[Pair]>,
    guide: &mut impl Guide,
    visit: &mut impl FnMut(&[Triple], Triple) -> bool,
) -> bool {
    let mut bindings = plan.bindings();
    let mut premises = vec![Triple::new(0, 0, 0); rule.premise.len() + rule.negated.len()];
    let mut check = |bindings: &Vec<_>| {
        let conclusion = bind(rule.conclusion, bindings);
        if holds(graph, conclusion) {
            return true;
        }
        for (place, &atom) in premises.iter_mut().zip(rule.premise.iter().chain(&rule.negated)) {
            *place = bind(atom, bindings);
        }
        visit(&premises, conclusion)
    };
    match piece {
        Some(piece) => plan.run_piece(graph, piece, &mut bindings, guide, &mut check),
        None => plan.run(graph, &mut bindings, guide, &mut check),
    }
}

/// For each rule, whether another rule could give the same groundings: equal relations in equal order.
///
/// Negation need not be compared: a triple cannot be both observed and unobserved.
pub(crate) fn look_alikes(rules: &[Rule]) -> Vec<bool> {
    let key = |rule: &Rule| rule.atoms().map(|atom| atom.relation).collect::<Vec<_>>();
    let mut seen: FxHashMap<_, usize> = FxHashMap::default();
    for rule in rules {
        *seen.entry(key(rule)).or_default() += 1;
    }
    rules.iter().map(|rule| seen[&key(rule)] > 1).collect()
}

/// All valid groundings of `rules`, in the order of the rules, without a limit: for rules that are known to have few.
/// Otherwise use [`ground_within`].
pub fn ground(graph: &Graph, rules: &[Rule]) -> Groundings {
    ground_within(graph, rules, GroundLimit::NONE, &Control::default()).expect("nothing limits or stops it")
}

/// All valid groundings of `rules`, in the order of the rules, up to a limit.
///
/// # Errors
/// [`RuleError::TooManyGroundings`] names the first rule beyond the limit, before memory is allocated for it;
/// [`RuleError::Cancelled`] on cancellation.
pub fn ground_within(
    graph: &Graph,
    rules: &[Rule],
    limit: GroundLimit,
    control: &Control<'_>,
) -> Result<Groundings, RuleError> {
    let plans: Vec<Result<Plan, NotGrounded>> = rules.iter().map(|rule| prepare(graph, rule)).collect();
    for (index, plan) in plans.iter().enumerate() {
        if let Ok(plan) = plan {
            limit.require(graph, (index, &rules[index]), plan, control)?;
        }
    }
    let tasks: Vec<(usize, &Plan, Option<&[Pair]>)> = plans
        .iter()
        .enumerate()
        .filter_map(|(rule, plan)| plan.as_ref().ok().map(|plan| (rule, plan)))
        .flat_map(|(rule, plan)| pieces(graph, plan).into_iter().map(move |piece| (rule, plan, piece)))
        .collect();
    let room = Room::new(limit);
    let found: Vec<Option<Piece>> = tasks
        .par_iter()
        .map(|&(rule, plan, piece)| match room.is_full() {
            true => None,
            false => Piece::of(graph, &rules[rule], plan, piece, (&room, control)),
        })
        .collect();
    let total: usize = found.iter().flatten().map(|piece| piece.conclusions.len()).sum();
    if total as u64 > limit.groundings || found.iter().any(Option::is_none) {
        control.check()?;
        // Several rules fill the room together; report the one with the most groundings so far.
        let mut given = vec![0; rules.len()];
        for (task, piece) in tasks.iter().zip(&found) {
            given[task.0] += piece.as_ref().map_or(0, |piece| piece.conclusions.len());
        }
        let rule = (0..rules.len()).max_by_key(|&rule| (given[rule], std::cmp::Reverse(rule))).unwrap_or(0);
        return Err(RuleError::TooManyGroundings { rule, limit: room.limit() });
    }

    let look_alike = look_alikes(rules);
    let mut seen: FxHashSet<(Box<[Triple]>, Triple)> = FxHashSet::default();
    let mut ids = FxHashMap::default();
    let mut all = Groundings { rule_offsets: vec![0], premise_offsets: vec![0], ..Groundings::default() };
    if rules.iter().any(|rule| !rule.negated.is_empty()) {
        all.negated_offsets.push(0);
    }
    let mut found = tasks.iter().zip(found.into_iter().flatten()).peekable();
    for (rule, plan) in plans.iter().enumerate() {
        while let Some((_, piece)) = found.next_if(|(task, _)| task.0 == rule) {
            control.check()?;
            for (grounded, triples) in piece.groundings(rule, &rules[rule]) {
                if look_alike[rule] && !seen.insert((triples.into(), grounded.conclusion)) {
                    all.repeated += 1;
                    continue;
                }
                all.push(&grounded, &mut ids);
            }
        }
        all.rule_offsets.push(all.conclusions.len());
        if let Err(reason) = plan {
            all.not_grounded.push((rule, *reason));
        }
    }
    all.index();
    Ok(all)
}

/// Maximum groundings of one conclusion visited while some are sought: a long rule may have billions that do not count.
const LOOKED_AT: u64 = 10_000_000;

/// The groundings of one rule that conclude a given triple, observed or not, for explanations. Each holds the premises
/// in the rule's order, then the negated ones.
pub fn ground_conclusion(graph: &Graph, rule: &Rule, conclusion: Triple, limit: usize) -> Vec<Vec<Triple>> {
    ground_conclusion_where(graph, rule, conclusion, limit, &mut |_| true)
}

/// [`ground_conclusion`] for groundings that satisfy a condition; the others do not count towards the limit.
pub fn ground_conclusion_where(
    graph: &Graph,
    rule: &Rule,
    conclusion: Triple,
    limit: usize,
    counts: &mut dyn FnMut(&[Triple]) -> bool,
) -> Vec<Vec<Triple>> {
    let mut found = Vec::new();
    let mut bound = Vec::new();
    let mut values: Vec<(crate::Variable, ruge_kg::EntityId)> = Vec::new();
    if rule.head() != conclusion.relation || rule.premise.is_empty() {
        return found;
    }
    for (term, value) in rule.conclusion.terms().into_iter().zip([conclusion.head, conclusion.tail]) {
        match term {
            crate::Term::Constant(entity) if entity != value => return found,
            crate::Term::Constant(_) => {}
            crate::Term::Variable(variable) => match values.iter().find(|(known, _)| *known == variable) {
                Some(&(_, known)) if known != value => return found,
                Some(_) => {}
                None => {
                    values.push((variable, value));
                    bound.push(variable);
                }
            },
        }
    }
    let Some(plan) = Plan::new(graph, rule, &bound) else { return found };
    let mut bindings = plan.bindings();
    for (variable, value) in values {
        bindings[variable.index()] = value;
    }
    let mut guide = NotBarren::default();
    let met = guide.met.clone();
    plan.run(graph, &mut bindings, &mut guide, &mut |bindings| {
        met.set(met.get() + 1);
        let triples: Vec<Triple> = rule.premise.iter().chain(&rule.negated).map(|&atom| bind(atom, bindings)).collect();
        if counts(&triples) {
            found.push(triples);
        }
        found.len() < limit && (met.get() < LOOKED_AT || limit == usize::MAX)
    });
    found
}
