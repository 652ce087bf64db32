//! Evidence about a candidate: what the graph already says of it, for or against.
//!
//! Rules only ever speak for a candidate. They cannot say "a synset has one hypernym, and this one already has it". Four simple
//! counts can, if their weights may have either sign:
//!
//! | feature | asks |
//! |---|---|
//! | role | how many facts of this relation already have the candidate in the asked place? |
//! | link | does any fact already link the candidate to the known end? are the two the same? |
//! | degree | how many facts is it part of? |
//! | type | how much do its other labels look like those of entities in this place? |
//!
//! A candidate's score is what the model and the rules give it, plus one weight per feature. Weights belong to a relation and a
//! direction, are drawn towards shared ones, and are fitted on validation ([`fit`](mod@fit)). All counts are taken on train.
//!
//! Role, degree and type do not depend on the known end, so they are one number per entity, relation and direction
//! ([`Sheet`]). Links touch only the neighbours of the known end.

use std::collections::BTreeMap;
use std::sync::Arc;

use ruge_kg::{EntityId, Graph, Label, Pair, RankQuery, RelationId, Side};
use serde::{Deserialize, Serialize};

pub mod fit;

/// A kind of evidence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// Facts of this relation with the candidate in the asked place.
    Role,
    /// Any fact between the candidate and the known end.
    Link,
    /// Facts with the candidate anywhere.
    Degree,
    /// Labels of the candidate, compared with those of entities in the asked place.
    Type,
}

impl Feature {
    /// All of them.
    pub const ALL: [Feature; 4] = [Feature::Role, Feature::Link, Feature::Degree, Feature::Type];

    /// As written in model files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Feature::Role => "role",
            Feature::Link => "link",
            Feature::Degree => "degree",
            Feature::Type => "type",
        }
    }

    /// Where its numbers stand among the weights of a group.
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        match self {
            Feature::Role => 0..ROLES,
            Feature::Link => ROLES..ROLES + LINKS,
            Feature::Degree => ROLES + LINKS..ROLES + LINKS + DEGREES,
            Feature::Type => ROLES + LINKS + DEGREES..WEIGHTS,
        }
    }
}

/// Features that may count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Features {
    /// All that help on validation.
    #[default]
    All,
    /// The same without links, and without what they follow from: on data that were split by pairs they use the split.
    NoLink,
    /// None.
    None,
}

impl Features {
    /// Which ones.
    pub fn list(self) -> &'static [Feature] {
        match self {
            Features::All => &Feature::ALL,
            Features::NoLink => &[Feature::Role, Feature::Degree, Feature::Type],
            Features::None => &[],
        }
    }

    /// Whether it is the default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Bins of role: 0, 1, 2, 3–4, 5–8, 9–16, 17–32, more.
pub const ROLES: usize = 8;
/// Linked to the known end, and being the known end itself.
pub const LINKS: usize = 2;
/// Bins of degree, as those of role, up to more than 2,048.
pub const DEGREES: usize = 14;
/// Bins of the likeness in type.
pub const TYPES: usize = 8;
/// Weights of a relation and direction.
pub const WEIGHTS: usize = ROLES + LINKS + DEGREES + TYPES;

/// Weights of one relation and direction, or shared ones.
pub type GroupWeights = [f32; WEIGHTS];

/// The bin of a count: 0, 1, 2, 3–4, 5–8, …
pub fn bin(count: usize, bins: usize) -> usize {
    match count {
        0 => 0,
        count => (usize::BITS - (count - 1).leading_zeros() + 1).min(bins as u32 - 1) as usize,
    }
}

/// The counts that a bin stands for, in words.
pub fn bin_words(bin: usize, bins: usize) -> String {
    match bin {
        0..=2 => bin.to_string(),
        _ if bin + 1 == bins => format!("more than {}", 1usize << (bin - 2)),
        _ => format!("{}–{}", (1usize << (bin - 2)) + 1, 1usize << (bin - 1)),
    }
}

/// Fitted evidence: what each count weighs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Evidence {
    /// The features that count.
    pub features: Vec<Feature>,
    /// Weights where a relation and direction has none of its own.
    #[serde(with = "numbers")]
    pub shared: GroupWeights,
    /// By relation and direction.
    pub groups: Vec<Group>,
}

/// Weights of one relation and direction.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Group {
    /// The relation, by id.
    pub relation: u32,
    /// The hidden end.
    pub side: Side,
    /// Its weights.
    #[serde(with = "numbers")]
    pub weights: GroupWeights,
}

/// Weights as a list.
mod numbers {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{GroupWeights, WEIGHTS};

    pub fn serialize<S: Serializer>(weights: &GroupWeights, to: S) -> Result<S::Ok, S::Error> {
        weights[..].serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<GroupWeights, D::Error> {
        let list = Vec::<f32>::deserialize(from)?;
        let length = list.len();
        list.try_into().map_err(|_| D::Error::custom(format!("{length} weights of evidence instead of {WEIGHTS}")))
    }
}

/// One weight of fitted evidence.
#[derive(Clone, PartialEq, Debug)]
pub struct Weight {
    /// The relation, by id, and the hidden end; nothing for what all others share.
    pub of: Option<(u32, Side)>,
    /// What is counted.
    pub feature: Feature,
    /// The bin, from 0.
    pub bin: usize,
    /// What it weighs.
    pub weight: f32,
}

impl Weight {
    /// What falls into the bin, in words; bins of likeness in type have none.
    pub fn counts(&self) -> Option<String> {
        match self.feature {
            Feature::Role => Some(bin_words(self.bin, ROLES)),
            Feature::Degree => Some(bin_words(self.bin, DEGREES)),
            Feature::Link if self.bin == 0 => Some("linked".into()),
            Feature::Link => Some("the known end".into()),
            Feature::Type => None,
        }
    }
}

impl Evidence {
    /// Every weight that counts, the shared ones first.
    pub fn weights(&self) -> Vec<Weight> {
        let own = self.groups.iter().map(|group| (Some((group.relation, group.side)), &group.weights));
        let mut list = Vec::new();
        for (of, weights) in std::iter::once((None, &self.shared)).chain(own) {
            for &feature in &self.features {
                let bins = weights[feature.range()].iter().enumerate();
                list.extend(bins.map(|(bin, &weight)| Weight { of, feature, bin, weight }));
            }
        }
        list
    }

    fn table(&self) -> BTreeMap<(RelationId, Side), GroupWeights> {
        self.groups.iter().map(|group| ((RelationId(group.relation), group.side), group.weights)).collect()
    }
}

/// What is counted about entities of a training graph.
#[derive(Clone, Debug)]
pub struct Counts {
    graph: Arc<Graph>,
    /// Per entity.
    degrees: Vec<u8>,
    /// Per label, the share of entities that have it, as log-odds.
    common: Vec<f32>,
}

/// The label by which an entity in the asked place meets the known end.
pub fn role_label(relation: RelationId, hidden: Side) -> Label {
    match hidden {
        Side::Head => Label::forward(relation),
        Side::Tail => Label::inverse(relation),
    }
}

impl Counts {
    /// Counts once what every query needs: a byte per entity, a number per label.
    pub fn new(graph: Arc<Graph>) -> Self {
        let degrees = graph.entities().map(|entity| bin(graph.degree(entity), DEGREES) as u8).collect();
        let mut having = vec![0u32; 2 * graph.relation_count()];
        for entity in graph.entities() {
            graph.adjacency().labels(entity).iter().for_each(|label| having[label.0 as usize] += 1);
        }
        let entities = graph.entity_count() as f32;
        let common = having.iter().map(|&n| log_odds(n as f32 + 0.5, entities + 1.0)).collect();
        Self { graph, degrees, common }
    }

    /// The training graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Bytes kept in addition to the graph: one per entity, eight per relation.
    pub fn bytes(&self) -> usize {
        self.degrees.capacity() + self.common.capacity() * size_of::<f32>()
    }

    /// Facts with the entity in the asked place.
    pub fn role(&self, relation: RelationId, hidden: Side, entity: EntityId) -> usize {
        self.graph.neighbours(entity, role_label(relation, hidden)).len()
    }

    /// How typical each label is of entities in the asked place: log-odds there less log-odds everywhere.
    fn typical(&self, relation: RelationId, hidden: Side) -> Vec<f32> {
        let own = role_label(relation, hidden);
        let mut having = vec![0u32; self.common.len()];
        let mut members = 0u32;
        for entity in members_of(self.graph.pairs(own)) {
            members += 1;
            self.graph.adjacency().labels(entity).iter().for_each(|label| having[label.0 as usize] += 1);
        }
        let members = members as f32;
        let typical = |(label, (&n, &common)): (usize, (&u32, &f32))| {
            if label == own.0 as usize {
                return 0.0;
            }
            // As if a few members had been seen that are like everyone.
            let share = 1.0 / (1.0 + (-common).exp());
            log_odds(n as f32 + PRIOR * share, members + PRIOR) - common
        };
        having.iter().zip(&self.common).enumerate().map(typical).collect()
    }

    /// Likeness in type of every entity, per bin.
    fn types(&self, relation: RelationId, hidden: Side, bins: &mut Vec<u8>) {
        let typical = self.typical(relation, hidden);
        bins.clear();
        bins.extend(self.graph.entities().map(|entity| self.type_of(&typical, entity)));
    }

    fn type_of(&self, typical: &[f32], entity: EntityId) -> u8 {
        let labels = self.graph.adjacency().labels(entity);
        let sum: f32 = labels.iter().map(|label| typical[label.0 as usize]).sum();
        type_bin(sum / (labels.len() as f32 + 1.0).sqrt())
    }

    /// Bins of role, degree and type of every entity, for one relation and direction.
    pub fn bins(&self, relation: RelationId, hidden: Side, types: bool, bins: &mut Bins) {
        bins.roles.clear();
        bins.roles.resize(self.graph.entity_count(), 0);
        for run in self.graph.pairs(role_label(relation, hidden)).chunk_by(|a, b| a.key == b.key) {
            bins.roles[run[0].key.index()] = bin(run.len(), ROLES) as u8;
        }
        bins.types.clear();
        if types {
            self.types(relation, hidden, &mut bins.types);
        }
    }
}

/// Imagined members of a role.
const PRIOR: f32 = 5.0;

fn log_odds(n: f32, of: f32) -> f32 {
    (n / (of - n)).ln()
}

fn type_bin(likeness: f32) -> u8 {
    const EDGES: [f32; TYPES - 1] = [-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0];
    EDGES.partition_point(|&edge| edge <= likeness) as u8
}

fn members_of(pairs: &[Pair]) -> impl Iterator<Item = EntityId> {
    pairs.chunk_by(|a, b| a.key == b.key).map(|run| run[0].key)
}

/// Per entity, the bins of features that do not depend on the known end.
#[derive(Clone, Debug, Default)]
pub struct Bins {
    /// Role.
    pub roles: Vec<u8>,
    /// Type, where it counts.
    pub types: Vec<u8>,
}

/// Evidence ready to be added to scores.
#[derive(Clone, Debug)]
pub struct EvidenceScores {
    counts: Arc<Counts>,
    types: bool,
    shared: GroupWeights,
    groups: BTreeMap<(RelationId, Side), GroupWeights>,
}

/// What one feature adds to the score of a candidate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EvidencePart {
    /// What was counted.
    pub feature: Feature,
    /// How many facts it counts; for a type, the bin of its likeness.
    pub count: usize,
    /// What that adds.
    pub value: f32,
}

/// Per entity, what role, degree and type weigh for one relation and direction: the scratch of one thread.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    of: Option<(RelationId, Side)>,
    bins: Bins,
    values: Vec<f32>,
}

impl Sheet {
    /// Bytes that a thread keeps: at most six per entity.
    pub fn bytes(&self) -> usize {
        self.bins.roles.capacity() + self.bins.types.capacity() + self.values.capacity() * size_of::<f32>()
    }
}

impl EvidenceScores {
    /// Fitted evidence over the counts of a graph.
    pub fn new(counts: Arc<Counts>, evidence: &Evidence) -> Self {
        let types = evidence.features.contains(&Feature::Type);
        Self { counts, types, shared: evidence.shared, groups: evidence.table() }
    }

    /// Weights of a relation and direction.
    pub fn weights(&self, relation: RelationId, side: Side) -> &GroupWeights {
        self.groups.get(&(relation, side)).unwrap_or(&self.shared)
    }

    /// Adds the evidence about every entity to its score.
    pub fn add(&self, query: &RankQuery, sheet: &mut Sheet, scores: &mut [f32]) {
        let (relation, side) = (query.triple.relation, query.side);
        let weights = self.weights(relation, side);
        if sheet.of != Some((relation, side)) {
            self.fill(relation, side, weights, sheet);
        }
        scores.iter_mut().zip(&sheet.values).for_each(|(score, value)| *score += value);
        let [linked, itself] = [weights[ROLES], weights[ROLES + 1]];
        let known = query.given();
        if linked != 0.0 {
            for run in self.counts.graph.links(known).chunk_by(|a, b| a.neighbour == b.neighbour) {
                scores[run[0].neighbour.index()] += linked;
            }
        }
        scores[known.index()] += itself;
    }

    /// What each feature adds to the score of one candidate.
    pub fn parts(&self, query: &RankQuery, entity: EntityId) -> Vec<EvidencePart> {
        let (relation, side, known) = (query.triple.relation, query.side, query.given());
        let (graph, weights) = (&self.counts.graph, self.weights(relation, side));
        let role = self.counts.role(relation, side, entity);
        let (degree, links) = (graph.degree(entity), graph.links_between(known, entity).len());
        let linked = if links > 0 { weights[ROLES] } else { 0.0 };
        let itself = if entity == known { weights[ROLES + 1] } else { 0.0 };
        let part = |feature: Feature, count: usize, value: f32| EvidencePart { feature, count, value };
        let weight = |feature: Feature, bin: usize| weights[feature.range()][bin];
        let mut parts = vec![
            part(Feature::Role, role, weight(Feature::Role, bin(role, ROLES))),
            part(Feature::Link, links, linked + itself),
            part(Feature::Degree, degree, weight(Feature::Degree, bin(degree, DEGREES))),
        ];
        if self.types {
            let bin = self.counts.type_of(&self.counts.typical(relation, side), entity);
            parts.push(part(Feature::Type, usize::from(bin), weight(Feature::Type, usize::from(bin))));
        }
        parts
    }

    fn fill(&self, relation: RelationId, side: Side, weights: &GroupWeights, sheet: &mut Sheet) {
        let Sheet { of, bins, values } = sheet;
        self.counts.bins(relation, side, self.types, bins);
        let roles = &weights[Feature::Role.range()];
        let degrees = &weights[Feature::Degree.range()];
        let types = &weights[Feature::Type.range()];
        values.clear();
        values.extend(
            bins.roles
                .iter()
                .zip(&self.counts.degrees)
                .map(|(&role, &degree)| roles[usize::from(role)] + degrees[usize::from(degree)]),
        );
        values.iter_mut().zip(&bins.types).for_each(|(value, &bin)| *value += types[usize::from(bin)]);
        *of = Some((relation, side));
    }
}
