//! A search space: a spec in which some leaves are open, and how to look through it.
//!
//! The file is a spec as `ruge train --spec` takes it. A leaf that is a list may be any of its values, a leaf that is
//! `{ low = …, high = … }` any number between; `[search]` says how many of the points to try and which. No name of a leaf is
//! known here: what a spec cannot take, the spec itself refuses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::domain::Domain;
use crate::leaves::{self, Leaf};
use ruge::error::{Result, RugeError};
use ruge::spec::{Request, Spec, SpecText, hint, lay_over};

/// One value for every open leaf, in the order of [`Space::parameters`].
pub type Point = Vec<Value>;

/// Trials where the file does not say how many.
const TRIALS: usize = 30;
/// Points a grid may have.
const MOST_POINTS: u64 = 100_000;

/// An open leaf.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// Its dotted path.
    pub leaf: String,
    /// What it may be.
    pub domain: Domain,
}

/// How points are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Every combination, the last leaf changing fastest.
    Grid,
    /// By chance.
    Random,
    /// By chance, spread evenly.
    Sobol,
    /// Evenly at first, then where points like the best so far are dense and points like the others are not.
    #[default]
    Tpe,
}

/// Short runs for all, long ones for the best.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Halving {
    /// Epochs that every trial gets.
    pub first: u64,
    /// One of so many goes on, for so many times the epochs.
    #[serde(default = "three")]
    pub factor: u64,
}

fn three() -> u64 {
    3
}

/// The table `[search]`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// How points are chosen.
    pub method: Method,
    /// Points to try; without it 30, or the whole grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials: Option<usize>,
    /// Seed of the choice of points. The seed of training is the spec's own.
    pub seed: u64,
    /// Rungs; without them every trial is trained to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halving: Option<Halving>,
    /// A spec file that the leaves of this one are laid over, named from the folder of this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<PathBuf>,
    /// Leaves that take the value of another.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tie: BTreeMap<String, String>,
}

/// A search space.
#[derive(Clone, PartialEq, Debug)]
pub struct Space {
    /// How to look through it.
    pub settings: Settings,
    /// The open leaves, in the order of their paths.
    pub parameters: Vec<Parameter>,
    /// The spec with its open leaves still open.
    table: Table,
    source: String,
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    search: Settings,
}

impl Space {
    /// Reads a file, and the base it names.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(RugeError::io(path, "read"))?;
        let source = path.display().to_string();
        let base = match Self::head(&text, &source)?.base {
            Some(base) => {
                let base = path.parent().unwrap_or(Path::new("")).join(base);
                let text = std::fs::read_to_string(&base).map_err(RugeError::io(&base, "read"))?;
                Some((text, base.display().to_string()))
            }
            None => None,
        };
        Self::parse(&text, &source, base.as_ref().map(|(text, name)| (text.as_str(), name.as_str())))
    }

    fn head(text: &str, source: &str) -> Result<Settings> {
        let head: std::result::Result<Head, _> = toml::from_str(text);
        let head = head.map_err(|error| {
            RugeError::spec(format!("{source}: {}{}", error.to_string().trim_end(), hint(error.message())))
        })?;
        Ok(head.search)
    }

    /// The same from texts; `source` is named in complaints.
    pub fn parse(text: &str, source: &str, base: Option<(&str, &str)>) -> Result<Self> {
        let mut settings = Self::head(text, source)?;
        let read = |text: &str, name: &str| -> Result<Table> {
            toml::from_str(text).map_err(|error| RugeError::spec(format!("{name}: {error}")))
        };
        let mut over = read(text, source)?;
        over.remove("search");
        let mut table = base.map_or(Ok(Table::new()), |(text, name)| read(text, name))?;
        lay_over(&mut table, over);
        // What is kept must be whole: the base is in it by now.
        settings.base = None;
        let at = |leaf: &str| line_of(text, leaf).map_or_else(|| source.to_string(), |line| format!("{source}:{line}"));
        let told = |leaf: &str, reason: &str| RugeError::spec(format!("{}: {leaf}: {reason}", at(leaf)));
        let mut parameters = Vec::new();
        for (leaf, domain) in leaves::open(&table, &mut |_, value| Domain::read(value)) {
            let domain = domain.map_err(|reason| told(&leaf, &reason))?;
            parameters.push(Parameter { leaf, domain });
        }
        let space = Self { settings, parameters, table, source: source.to_string() };
        space.check_settings()?;
        // What the spec cannot take is a slip in the file and told now; what does not go together is a failed trial.
        let first: Point = space.parameters.iter().map(|parameter| parameter.domain.value(0.0)).collect();
        let reason = |error: RugeError| {
            let words = error.to_string();
            words.strip_prefix(&format!("{source}: ")).map_or(words.clone(), str::to_string)
        };
        space.text(&first).and_then(|text| text.check_form()).map_err(|error| {
            let reason = reason(error);
            // "unknown field `x`": the line of x.
            let place = reason.split('`').nth(1).map_or_else(|| source.to_string(), at);
            RugeError::spec(format!("{place}: {reason}"))
        })?;
        for (place, Parameter { leaf, domain }) in space.parameters.iter().enumerate() {
            for value in domain.samples() {
                let mut point = first.clone();
                point[place] = value.clone();
                let form = space.text(&point).and_then(|text| text.check_form());
                form.map_err(|error| told(leaf, &format!("at {value}: {}", reason(error))))?;
            }
        }
        Ok(space)
    }

    fn check_settings(&self) -> Result<()> {
        let refuse = |reason: String| Err(RugeError::spec(format!("{}: {reason}", self.source)));
        let Settings { method, trials, halving, tie, .. } = &self.settings;
        if self.parameters.is_empty() {
            return refuse(
                "there is nothing to search: make a leaf a list, as in `model.dimension = [100, 200]`, or a range, as in \
                 `optimizer.entity-rate = { low = 0.01, high = 1.0, scale = \"log\" }`"
                    .into(),
            );
        }
        if *trials == Some(0) {
            return refuse("search.trials must be at least 1".into());
        }
        if let Some(Halving { first, factor }) = halving
            && (*first == 0 || *factor < 2)
        {
            return refuse("search.halving needs first of at least 1 and factor of at least 2".into());
        }
        for (follower, leader) in tie {
            let leaves = || self.parameters.iter().map(|parameter| parameter.leaf.as_str());
            if !leaves().any(|leaf| leaf == leader) {
                let hint = ruge::suggest::suggestion(leader, leaves());
                return refuse(format!("search.tie: {follower:?} follows {leader:?}, which is not searched{hint}"));
            }
            if leaves().any(|leaf| leaf == follower) {
                return refuse(format!("search.tie: {follower:?} follows {leader:?}, but is searched itself"));
            }
        }
        if *method == Method::Grid {
            for Parameter { leaf, domain } in &self.parameters {
                if domain.count().is_none() {
                    return refuse(format!(
                        "a grid cannot hold all numbers of {leaf}: list some, give the range a step, or take \
                         search.method = \"sobol\""
                    ));
                }
            }
            if self.size().is_none_or(|size| size > MOST_POINTS) {
                return refuse(
                    "this grid has more than 100,000 points; take search.method = \"sobol\" or \"tpe\"".into(),
                );
            }
        }
        Ok(())
    }

    /// How many points there are; `None` for a continuum.
    pub fn size(&self) -> Option<u64> {
        self.parameters.iter().try_fold(1u64, |size, parameter| size.checked_mul(parameter.domain.count()?))
    }

    /// How many points are to be tried.
    pub fn trials(&self) -> usize {
        let size = self.size().map_or(usize::MAX, |size| usize::try_from(size).unwrap_or(usize::MAX));
        let wanted = match self.settings.method {
            Method::Grid => usize::MAX,
            _ => TRIALS,
        };
        self.settings.trials.unwrap_or(wanted).min(size)
    }

    /// Every point of a grid, the last leaf changing fastest.
    pub fn grid(&self) -> Vec<Point> {
        let values = |parameter: &Parameter| parameter.domain.values(MOST_POINTS).unwrap_or_default();
        let choices: Vec<_> = self.parameters.iter().map(|p| (p.leaf.clone(), values(p))).collect();
        let points = leaves::combinations(&choices);
        points.into_iter().map(|point| point.into_iter().map(|(_, value)| value).collect()).collect()
    }

    /// The value of every open leaf at places of [0, 1].
    pub fn point(&self, units: &[f64]) -> Point {
        self.parameters.iter().zip(units).map(|(parameter, unit)| parameter.domain.value(*unit)).collect()
    }

    /// The leaves of a point by name.
    pub fn named(&self, point: &Point) -> Vec<Leaf> {
        self.parameters.iter().map(|parameter| parameter.leaf.clone()).zip(point.iter().cloned()).collect()
    }

    /// The spec at a point. One that cannot run is an error of the point, not of the space.
    pub fn spec(&self, point: &Point) -> Result<Spec> {
        let (spec, _) = Request { text: Some(self.text(point)?), ..Request::default() }.resolve()?;
        if spec.schedule.validate_every == 0 {
            return Err(RugeError::setting(
                "schedule.validate-every",
                "schedule.validate-every is 0: without validation there is nothing to choose by",
            ));
        }
        Ok(spec)
    }

    fn text(&self, point: &Point) -> Result<SpecText> {
        let mut table = self.table.clone();
        let set = leaves::set_all(&mut table, &self.named(point), &self.settings.tie);
        let said = toml::to_string(&table).map_err(|error| RugeError::spec(format!("{}: {error}", self.source)));
        set.ok_or_else(|| RugeError::spec(format!("{}: search.tie does not name a setting of a spec", self.source)))?;
        Ok(SpecText { name: self.source.clone(), text: said?, is_file: false })
    }

    /// Another seed, of the choice of points and of training.
    pub fn reseed(&mut self, seed: u64) {
        // TOML, which keeps it, has no larger numbers.
        let seed = seed.min(i64::MAX as u64);
        self.settings.seed = seed;
        if !self.parameters.iter().any(|parameter| parameter.leaf == "seed") {
            self.table.insert("seed".into(), Value::Integer(i64::try_from(seed).unwrap_or(i64::MAX)));
        }
    }

    /// Open leaves by the shortest end of their paths that tells them apart.
    pub fn short_names(&self) -> Vec<String> {
        let paths: Vec<&str> = self.parameters.iter().map(|parameter| parameter.leaf.as_str()).collect();
        let ends = |path: &str, end: &str| path == end || path.ends_with(&format!(".{end}"));
        let short = |path: &&str| {
            let starts = path.match_indices('.').map(|(at, _)| at + 1).collect::<Vec<_>>().into_iter().rev();
            let mut candidates = starts.map(|at| &path[at..]);
            let alone = |end: &&str| paths.iter().filter(|other| ends(other, end)).count() == 1;
            candidates.find(alone).unwrap_or(path).to_string()
        };
        paths.iter().map(short).collect()
    }

    /// As TOML, complete: the base is in it.
    pub fn to_toml(&self) -> String {
        let mut table = self.table.clone();
        let settings = Value::try_from(&self.settings).expect("settings are plain data");
        table.insert("search".into(), settings);
        toml::to_string(&table).expect("it was read from TOML")
    }

    /// Whether two spaces give the same trials, however many of them are wanted.
    pub fn is_same(&self, other: &Self) -> bool {
        let text = |space: &Self| {
            let mut space = space.clone();
            space.settings.trials = None;
            space.to_toml()
        };
        text(self) == text(other)
    }
}

/// A value as people write it: no quotes around a word.
pub fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// The line on which a leaf is likely written, for complaints.
fn line_of(text: &str, leaf: &str) -> Option<usize> {
    let last = leaf.rsplit('.').next().unwrap_or(leaf);
    let says = |line: &str| {
        line.split_once('=').is_some_and(|(key, _)| {
            let key = key.trim().trim_matches('"');
            key == last || key.ends_with(&format!(".{last}"))
        })
    };
    let line = text.lines().position(says).or_else(|| text.lines().position(|line| line.contains(last)))?;
    Some(line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: &str = r#"
[model]
name = "distmult"
dimension = [8, 16]
[optimizer]
entity-rate = { low = 0.01, high = 1.0, scale = "log" }
[search]
method = "sobol"
trials = 5
tie = { "optimizer.relation-rate" = "optimizer.entity-rate" }
"#;

    fn told(text: &str) -> String {
        Space::parse(text, "my.toml", None).unwrap_err().to_string()
    }

    #[test]
    fn a_point_is_a_spec() {
        let space = Space::parse(SPACE, "x", None).unwrap();
        let leaves: Vec<&str> = space.parameters.iter().map(|parameter| parameter.leaf.as_str()).collect();
        assert_eq!(leaves, ["model.dimension", "optimizer.entity-rate"]);
        let spec = space.spec(&space.point(&[0.9, 0.5])).unwrap();
        assert_eq!((spec.model.dimension, spec.optimizer.entity_rate, spec.optimizer.relation_rate), (16, 0.1, 0.1));
        assert_eq!(spec.model.name, ruge::ModelName::DistMult);
        assert_eq!((space.trials(), space.size()), (5, None));
        let again = Space::parse(&space.to_toml(), "x", None).unwrap();
        assert_eq!(again, space, "what is kept is whole");
    }

    #[test]
    fn a_model_brings_its_own_setting() {
        let space = Space::parse("model.name = [\"complex\", \"transe\"]", "x", None).unwrap();
        let spec = space.spec(&space.point(&[0.9])).unwrap();
        assert_eq!(spec, Spec::paper(ruge::ModelName::TransE, "none").unwrap());
    }

    #[test]
    fn whole_sections_can_be_chosen() {
        let text = "guidance = [{ kind = \"none\" }, { kind = \"ruge\", slackness = 0.1 }]\n\
                    objective.penalty = [{ kind = \"none\" }, { kind = \"l2\", weight = 0.5 }]";
        let space = Space::parse(text, "x", None).unwrap();
        assert_eq!(space.size(), Some(4));
        assert!(space.spec(&space.point(&[0.9, 0.9])).unwrap().guidance().takes_rules());
    }

    #[test]
    fn short_names_tell_leaves_apart() {
        let text = "seed = [1, 2]\nmodel.dimension = [1, 2]\ninit.entities = { distribution = \"normal\", deviation = [1.0, 2.0] }\n\
                    init.relations = { distribution = \"normal\", deviation = [1.0, 2.0] }";
        let space = Space::parse(text, "x", None).unwrap();
        assert_eq!(space.short_names(), ["entities.deviation", "relations.deviation", "dimension", "seed"]);
    }

    #[test]
    fn a_base_lies_under_it() {
        let base = "seed = 7\n[model]\nname = \"hole\"\n[optimizer]\nentity-rate = 0.25\n";
        let space =
            Space::parse("[model]\ndimension = [4, 8]\n[search]\nbase = \"b.toml\"", "x", Some((base, "b"))).unwrap();
        let spec = space.spec(&space.point(&[0.0])).unwrap();
        assert_eq!((spec.seed, spec.model.dimension, spec.optimizer.entity_rate), (7, 4, 0.25));
        assert!(Space::parse(&space.to_toml(), "x", None).unwrap() == space, "the base is no longer needed");
    }

    #[test]
    fn other_seeds_are_other_searches_and_more_trials_are_not() {
        let space = Space::parse(SPACE, "x", None).unwrap();
        let more = Space::parse(&SPACE.replace("trials = 5", "trials = 9"), "y", None).unwrap();
        assert!(space.is_same(&more));
        let mut other = space.clone();
        other.reseed(3);
        assert!(!space.is_same(&other));
        assert_eq!(other.spec(&other.point(&[0.0, 0.0])).unwrap().seed, 3);
    }

    #[test]
    fn odd_files_are_told_with_line_and_remedy() {
        for (old, new, says) in [
            ("method = \"sobol\"", "methode = \"sobol\"", &["my.toml", "line 8", "did you mean `method`"][..]),
            ("\"sobol\"", "\"sobel\"", &["my.toml", "line 8", "did you mean `sobol`"]),
            ("dimension", "dimenson", &["my.toml:4", "did you mean `dimension`"]),
            ("[8, 16]", "[8, \"big\"]", &["my.toml:4", "model.dimension: at \"big\""]),
            ("[8, 16]", "[]", &["my.toml:4", "empty list"]),
            ("high = 1.0", "hihg = 1.0", &["my.toml:6", "did you mean \"high\""]),
            ("trials = 5", "trials = 0", &["at least 1"]),
            ("\"sobol\"", "\"grid\"", &["optimizer.entity-rate", "step"]),
            ("= \"optimizer.entity-rate\"", "= \"optimizer.rate\"", &["not searched", "did you mean"]),
            ("[model]", "[model", &["my.toml", "line 2"]),
        ] {
            let told = told(&SPACE.replace(old, new));
            assert!(says.iter().all(|say| told.contains(say)), "{new}: {told}");
        }
        assert!(told("[model]\ndimension = 8\n").contains("nothing to search"));
        assert!(told("seed = [1, 2]\n[search]\nhalving = { first = 0 }").contains("at least 1"));
        assert!(told("seed = [1, 2]\nfirst.second = 3").contains("unknown field `first`"));
    }
}
