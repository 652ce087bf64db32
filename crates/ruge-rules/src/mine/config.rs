//! Configuration of mining.

use ruge_kg::{Graph, RelationId};
use rustc_hash::FxHashSet;
use serde::Serialize;

use super::walks::{LONGEST, Walks};

/// Relations to include and to exclude.
#[derive(Clone, Debug, Default)]
pub struct RelationFilter {
    /// If given, only these are allowed.
    pub include: Option<FxHashSet<RelationId>>,
    /// These are never allowed.
    pub exclude: FxHashSet<RelationId>,
}

impl RelationFilter {
    /// Whether the relation may be used.
    pub fn allows(&self, relation: RelationId) -> bool {
        self.include.as_ref().is_none_or(|set| set.contains(&relation)) && !self.exclude.contains(&relation)
    }
}

/// Which bodies of two atoms to mine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shapes {
    /// All of them.
    #[default]
    All,
    /// Only directed chains (`r1(x,z), r2(z,y)` or `r2(y,z), r1(z,x)`) of two different relations other than the
    /// head's, as in the rule file published with the paper.
    DirectedChains,
}

/// Separate thresholds for bodies of three atoms: there are so many that low thresholds take hours.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Long {
    /// Minimum support.
    pub min_support: u64,
    /// Minimum head coverage.
    pub min_head_coverage: f64,
    /// Minimum PCA and standard confidence.
    pub min_confidence: f64,
}

/// Triples of a graph that is mined for everything there is, at most.
const SMALL: usize = 50_000;

/// Walks of three steps, about, up to which every path that passes the thresholds is looked for, and up to which any of three atoms
/// is. WN18 has 2e8, FB15k-237 4e10, FB15K 2e11. Fifty thousand people with a gender and a nationality have 4e11, which takes a
/// minute; where all of them are also of one type they have 2e13, which exceeds 8 GB.
const EVERY_PATH: f64 = 5e11;
const COMMON_PATHS: f64 = 2e12;
/// Thresholds between the two.
const LONG_AT_HUBS: Long = Long { min_support: 50, min_head_coverage: 0.05, min_confidence: 0.1 };

/// Walks of three steps in a graph, about: an edge leads to an entity in proportion to its degree, and there as many go on.
fn three_steps(graph: &Graph) -> f64 {
    let squares: u64 = graph.entities().map(|entity| (graph.degree(entity) as u64).pow(2)).sum();
    let facts = graph.len() as f64;
    let onward = squares as f64 / (2.0 * facts).max(1.0);
    facts * onward * onward
}

/// Default memory for candidates and rules: 8 GB.
const MEMORY: u64 = 8_000_000_000;

/// From this size on, floats cannot distinguish neighbouring 64-bit integers. No body is this large: the pairs of so
/// many entities would not fit into any memory.
const ENDLESS: f64 = (1u64 << 52) as f64;

/// Thresholds and options. The default is AMIE's, with the paper's confidence.
#[derive(Clone, Debug)]
pub struct MineConfig {
    /// Maximum atoms in a body: 1, 2 or 3.
    pub max_body: usize,
    /// Minimum head coverage.
    pub min_head_coverage: f64,
    /// Minimum PCA confidence.
    pub min_pca: f64,
    /// Minimum standard confidence.
    pub min_std: f64,
    /// Minimum support, in addition to that implied by the head coverage.
    pub min_support: u64,
    /// Minimum facts of a head relation.
    pub min_head_size: u64,
    /// Whether a body of two atoms over one pair must beat both of its one-atom parents.
    pub skyline: bool,
    /// Whether different variables must take different values.
    pub injective: bool,
    /// Which bodies of two atoms to mine.
    pub shapes: Shapes,
    /// Head relations to mine.
    pub heads: RelationFilter,
    /// Relations allowed in bodies.
    pub bodies: RelationFilter,
    /// Whether to mine rules with constants.
    pub constants: bool,
    /// Minimum support of those.
    pub min_constant_support: u64,
    /// Separate thresholds for bodies of three atoms.
    pub long: Option<Long>,
    /// Settings for paths of four and five atoms, if those are mined.
    pub walks: Option<Walks>,
    /// Maximum memory for candidates and rules, in bytes; a search that needs more is stopped.
    pub memory: u64,
}

impl Default for MineConfig {
    fn default() -> Self {
        Self {
            max_body: 2,
            min_head_coverage: 0.01,
            min_pca: 0.8,
            min_std: 0.0,
            min_support: 1,
            min_head_size: 100,
            skyline: true,
            injective: false,
            shapes: Shapes::All,
            heads: RelationFilter::default(),
            bodies: RelationFilter::default(),
            constants: false,
            min_constant_support: 5,
            long: None,
            walks: None,
            memory: MEMORY,
        }
    }
}

/// An invalid configuration.
#[derive(thiserror::Error, Debug, PartialEq)]
#[error("{0}")]
pub struct ConfigError(String);

impl MineConfig {
    /// AMIE's own defaults.
    pub fn amie() -> Self {
        Self { min_pca: 0.1, ..Self::default() }
    }

    /// The configuration that gives exactly the 454 rules published for FB15K.
    pub fn ruge_fb15k() -> Self {
        Self { min_head_coverage: 0.5, min_std: 0.8, skyline: false, shapes: Shapes::DirectedChains, ..Self::default() }
    }

    /// Rules for ranking, for a graph with this many triples, entities and relations. Rare and weak rules matter there,
    /// since nothing else distinguishes most candidates. Different variables take different values, or long paths would
    /// conclude their own start.
    ///
    /// The sparser a graph, the longer and rarer the paths worth following; in a dense graph they lead everywhere.
    /// Paths of four and more atoms are followed only if relations are few, since they grow with its fifth power.
    pub fn ranking(triples: usize, entities: usize, relations: usize) -> Self {
        let degree = 2.0 * triples as f64 / entities.max(1) as f64;
        let long = match triples {
            ..=150_000 if degree <= 20.0 => Long { min_support: 3, min_head_coverage: 0.0001, min_confidence: 0.001 },
            ..=150_000 => Long { min_support: 5, min_head_coverage: 0.02, min_confidence: 0.1 },
            _ => Long { min_support: 50, min_head_coverage: 0.05, min_confidence: 0.1 },
        };
        let walks = (degree <= 10.0 && relations <= 20).then_some(Walks {
            longest: LONGEST,
            facts: 5_000,
            starts: 1_000,
            most: 3_000,
            min_support: 3,
            min_confidence: 0.02,
        });
        Self {
            // On a dense graph, paths of three atoms take most of the time and add nothing to shorter rules.
            max_body: if degree > 60.0 || triples > 400_000 && degree > 20.0 { 2 } else { 3 },
            min_head_coverage: 0.0001,
            min_pca: 0.001,
            min_std: 0.001,
            min_support: 3,
            min_head_size: 1,
            skyline: false,
            injective: true,
            constants: true,
            // Five keeps more useful rules, and millions of rules on large graphs; two keeps even more on sparse ones.
            min_constant_support: match triples {
                ..=400_000 if walks.is_some() => 2,
                ..=400_000 => 5,
                _ => 10,
            },
            long: Some(long),
            walks,
            ..Self::default()
        }
    }

    /// Rules for a graph with other entities, mined from one of this many triples, entities and relations: as for ranking, but no
    /// rule names an entity. Nothing else is left to rank by, so on small graphs every path counts that was seen once (four and
    /// five atoms: twice).
    pub fn inductive(triples: usize, entities: usize, relations: usize) -> Self {
        let ranking = Self { constants: false, ..Self::ranking(triples, entities, relations) };
        if triples > SMALL {
            return ranking;
        }
        // Kinds of paths grow with a power of the number of relations: on a larger graph with many, the commoner ones alone.
        let (walks, least) = if triples <= 10_000 || relations <= 20 {
            let most = 20_000;
            (Walks { longest: LONGEST, facts: 5_000, starts: 1_000, most, min_support: 2, min_confidence: 0.005 }, 1)
        } else {
            (Walks { longest: 4, facts: 1_000, starts: 500, most: 1_000, min_support: 3, min_confidence: 0.05 }, 2)
        };
        let long = Long { min_support: least, min_head_coverage: 0.0001, min_confidence: 0.001 };
        // In a dense graph long paths lead everywhere.
        let dense = 2 * triples > 60 * entities;
        Self { min_support: least, long: Some(long), walks: (!dense).then_some(walks), ..ranking }
    }

    /// The same for a graph whose hubs are no surprise. Paths multiply at them: where there are too many of three steps, only the
    /// commoner long ones are looked for, and where there are still too many, none.
    #[must_use]
    pub fn at_hubs_of(self, graph: &Graph) -> Self {
        let paths = three_steps(graph);
        if paths <= EVERY_PATH {
            return self;
        }
        let max_body = if paths <= COMMON_PATHS { self.max_body } else { self.max_body.min(2) };
        let min_constant_support = self.min_constant_support.max(5);
        let long = self.long.map(|long| Long {
            min_support: long.min_support.max(LONG_AT_HUBS.min_support),
            min_head_coverage: long.min_head_coverage.max(LONG_AT_HUBS.min_head_coverage),
            min_confidence: long.min_confidence.max(LONG_AT_HUBS.min_confidence),
        });
        Self { max_body, walks: None, long, min_constant_support, ..self }
    }

    /// The configuration for bodies of three atoms.
    pub(crate) fn for_long(&self) -> Self {
        match self.long {
            None => self.clone(),
            Some(Long { min_support, min_head_coverage, min_confidence }) => Self {
                min_support: min_support.max(self.min_support),
                min_head_coverage: min_head_coverage.max(self.min_head_coverage),
                min_pca: min_confidence.max(self.min_pca),
                min_std: min_confidence.max(self.min_std),
                ..self.clone()
            },
        }
    }

    /// The presumed configuration of the rule file published for YAGO37.
    pub fn ruge_yago() -> Self {
        Self::default()
    }

    /// Rejects thresholds outside their range.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !(1..=3).contains(&self.max_body) {
            return Err(ConfigError(format!("a body has 1, 2 or 3 atoms, not {}", self.max_body)));
        }
        for (name, value) in [
            ("head coverage", self.min_head_coverage),
            ("PCA confidence", self.min_pca),
            ("standard confidence", self.min_std),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return Err(ConfigError(format!("the minimum {name} must be in [0, 1], not {value}")));
            }
        }
        Ok(())
    }

    /// Minimum support for a head with `size` facts.
    pub fn threshold(&self, size: u64) -> u64 {
        let covered = (self.min_head_coverage * size as f64).ceil() as u64;
        covered.max(self.min_support).max(1)
    }

    /// The largest PCA body size at which `support` still passes.
    pub(crate) fn largest_body(&self, support: u64) -> u64 {
        if self.min_pca <= 0.0 {
            return u64::MAX;
        }
        if support as f64 / self.min_pca >= ENDLESS {
            return u64::MAX;
        }
        let passes = |body: u64| support as f64 / body as f64 >= self.min_pca;
        let mut body = (support as f64 / self.min_pca) as u64;
        // The division may be off by one in either direction.
        while !passes(body.max(1)) && body > 0 {
            body -= 1;
        }
        while passes(body + 1) {
            body += 1;
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_body_is_the_largest() {
        let config = MineConfig::default();
        for support in 1..2000u64 {
            let body = config.largest_body(support);
            assert!(support as f64 / body as f64 >= 0.8 && (support as f64 / (body + 1) as f64) < 0.8, "{support}");
        }
    }

    #[test]
    fn tiny_thresholds_let_every_body_pass() {
        for min_pca in [1e-13, 1e-17, 1e-300, f64::MIN_POSITIVE, 0.0] {
            let config = MineConfig { min_pca, ..MineConfig::default() };
            assert_eq!(config.largest_body(1000), u64::MAX, "{min_pca}");
        }
        let config = MineConfig { min_pca: 1e-12, ..MineConfig::default() };
        assert_eq!(config.largest_body(1000), 1_000_000_000_000_000);
    }

    #[test]
    fn rules_for_other_graphs_name_nobody() {
        for [triples, entities, relations] in
            [[4_000, 1_500, 180], [8_000, 100, 25], [500_000, 15_000, 1345], [0, 0, 0]]
        {
            let config = MineConfig::inductive(triples, entities, relations);
            assert!(!config.constants && config.injective && config.check().is_ok());
            assert_eq!(config.walks.is_some(), triples < 10_000 && entities != 100, "{triples}");
        }
    }

    #[test]
    fn hubs_end_the_search_for_long_paths() {
        use ruge_kg::Triple;
        // Everybody has one of two genders, and everybody knows a neighbour.
        let people = |n: u32| {
            let genders = (0..n).map(|at| Triple::new(at, 0, n + at % 2));
            let friends = (0..n).map(|at| Triple::new(at, 1, (at + 1) % n));
            Graph::new(n as usize + 2, 2, &genders.chain(friends).collect::<Vec<_>>())
        };
        let config = |n: u32| {
            let graph = people(n);
            MineConfig::ranking(graph.len(), graph.entity_count(), 2).at_hubs_of(&graph)
        };
        let (small, large) = (config(100), config(60_000));
        // By hand: 200 facts, degrees of 3 and twice 50.
        let onward = (100.0 * 9.0 + 2.0 * 2500.0) / 400.0;
        assert!((three_steps(&people(100)) - 200.0 * onward * onward).abs() < 1e-6);
        assert!(small.walks.is_some() && small.max_body == 3 && small.min_constant_support == 2);
        assert!(large.walks.is_none() && large.max_body == 2 && large.min_constant_support == 5);
        assert_eq!(config(30_000).long.map(|long| long.min_support), Some(50));
        assert_eq!(config(30_000).max_body, 3);
        assert_eq!(three_steps(&Graph::new(0, 0, &[])), 0.0);
    }

    #[test]
    fn odd_thresholds_are_refused() {
        assert!(MineConfig { min_pca: 1.5, ..Default::default() }.check().is_err());
        assert!(MineConfig { min_head_coverage: f64::NAN, ..Default::default() }.check().is_err());
        assert!(MineConfig { max_body: 4, ..Default::default() }.check().is_err());
        assert_eq!(MineConfig::default().check(), Ok(()));
    }
}
