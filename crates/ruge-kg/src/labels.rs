//! Labels, descriptions and types of names, for people.
//!
//! A name is what the user's files call an entity, such as `Q183`. Its label is what people call it: `Germany`. Labels come from label
//! files and from RDF; they are shown and looked up, and change nothing that is learned.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::error::KgError;
use crate::io::Limits;
use crate::memory;
use crate::triple::{EntityId, Id, RelationId};
use crate::vocabulary::{Names, Vocabulary};

/// Maximum characters of a description: longer ones are cut at a word.
const LONGEST: usize = 600;

/// The relation whose tails are types.
pub const RDF_TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";

/// What is known about one name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Described {
    /// What people call it.
    pub label: Option<String>,
    /// A sentence or two about it.
    pub description: Option<String>,
    /// Its types, as numbers of [`Labels::type_name`].
    types: Vec<u32>,
}

/// Labels, descriptions and types of the names of a graph.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct Labels {
    entities: FxHashMap<u32, Described>,
    relations: FxHashMap<u32, Described>,
    types: Vec<String>,
    /// Entities and relations by label in lower case; made with the first lookup.
    by_label: OnceLock<[FxHashMap<String, Vec<u32>>; 2]>,
}

impl Clone for Labels {
    fn clone(&self) -> Self {
        let (entities, relations, types) = (self.entities.clone(), self.relations.clone(), self.types.clone());
        Self { entities, relations, types, by_label: OnceLock::new() }
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        (&self.entities, &self.relations, &self.types) == (&other.entities, &other.relations, &other.types)
    }
}

/// A described name as it is stored: id, label, description, types.
type Row = (u32, Option<String>, Option<String>, Vec<u32>);

/// Labels as they are stored, in order of ids: the same labels, the same bytes.
#[derive(Clone, Serialize, Deserialize)]
struct Stored {
    types: Vec<String>,
    entities: Vec<Row>,
    relations: Vec<Row>,
}

impl From<Labels> for Stored {
    fn from(labels: Labels) -> Self {
        let rows = |map: FxHashMap<u32, Described>| {
            let mut rows: Vec<Row> = map.into_iter().map(|(id, it)| (id, it.label, it.description, it.types)).collect();
            rows.sort_unstable();
            rows
        };
        Self { types: labels.types, entities: rows(labels.entities), relations: rows(labels.relations) }
    }
}

impl From<Stored> for Labels {
    fn from(stored: Stored) -> Self {
        let most = stored.types.len() as u32;
        let map = |rows: Vec<Row>| {
            let described = |(id, label, description, mut types): Row| {
                types.retain(|&number| number < most);
                (id, Described { label, description, types })
            };
            rows.into_iter().map(described).collect()
        };
        let (entities, relations) = (map(stored.entities), map(stored.relations));
        Self { entities, relations, types: stored.types, by_label: OnceLock::new() }
    }
}

impl Labels {
    /// Whether nothing is known about any name.
    pub fn is_empty(&self) -> bool {
        self.entities.is_empty() && self.relations.is_empty()
    }

    /// Number of entities with a label.
    pub fn labelled(&self) -> usize {
        self.entities.values().filter(|it| it.label.is_some()).count()
    }

    /// Number of entities with a type.
    pub fn typed(&self) -> usize {
        self.entities.values().filter(|it| !it.types.is_empty()).count()
    }

    /// The label of an entity.
    pub fn entity(&self, id: EntityId) -> Option<&str> {
        self.entities.get(&id.0)?.label.as_deref()
    }

    /// The label of a relation.
    pub fn relation(&self, id: RelationId) -> Option<&str> {
        self.relations.get(&id.0)?.label.as_deref()
    }

    /// The description of an entity.
    pub fn description(&self, id: EntityId) -> Option<&str> {
        self.entities.get(&id.0)?.description.as_deref()
    }

    /// The description of a relation.
    pub fn relation_description(&self, id: RelationId) -> Option<&str> {
        self.relations.get(&id.0)?.description.as_deref()
    }

    /// The types of an entity.
    pub fn types(&self, id: EntityId) -> impl Iterator<Item = &str> {
        self.entities.get(&id.0).into_iter().flat_map(|it| &it.types).map(|&number| self.type_name(number))
    }

    fn type_name(&self, number: u32) -> &str {
        self.types.get(number as usize).map_or("", String::as_str)
    }

    /// The entities with this label; if none has it, those that have it in other letters.
    pub fn entities_called(&self, label: &str) -> Vec<EntityId> {
        self.called(label, 0).into_iter().map(EntityId).filter(|&id| self.entity(id).is_some()).collect()
    }

    /// The relations with this label, likewise.
    pub fn relations_called(&self, label: &str) -> Vec<RelationId> {
        self.called(label, 1).into_iter().map(RelationId).filter(|&id| self.relation(id).is_some()).collect()
    }

    fn called(&self, label: &str, kind: usize) -> Vec<u32> {
        let index = self.by_label.get_or_init(|| {
            [&self.entities, &self.relations].map(|map| {
                let mut index: FxHashMap<String, Vec<u32>> = FxHashMap::default();
                for (&id, it) in map {
                    if let Some(label) = &it.label {
                        index.entry(label.to_lowercase()).or_default().push(id);
                    }
                }
                index.values_mut().for_each(|ids| ids.sort_unstable());
                index
            })
        });
        let all = index[kind].get(&label.to_lowercase()).map_or(&[][..], Vec::as_slice);
        let map = [&self.entities, &self.relations][kind];
        let same = |id: &&u32| map.get(id).and_then(|it| it.label.as_deref()) == Some(label);
        let exact: Vec<u32> = all.iter().filter(same).copied().collect();
        if exact.is_empty() { all.to_vec() } else { exact }
    }

    /// All labels of entities, for suggestions.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.entities.values().filter_map(|it| it.label.as_deref())
    }

    /// Whether all ids are below these numbers.
    pub fn fits(&self, entities: usize, relations: usize) -> bool {
        let below = |map: &FxHashMap<u32, Described>, most: usize| map.keys().all(|&id| (id as usize) < most);
        below(&self.entities, entities) && below(&self.relations, relations)
    }

    /// The same under other ids.
    pub fn translated(
        &self,
        entity: impl Fn(EntityId) -> Option<EntityId>,
        relation: impl Fn(RelationId) -> Option<RelationId>,
    ) -> Self {
        let entities = self.entities.iter().filter_map(|(&id, it)| Some((entity(EntityId(id))?.0, it.clone())));
        let relations = self.relations.iter().filter_map(|(&id, it)| Some((relation(RelationId(id))?.0, it.clone())));
        let (entities, relations) = (entities.collect(), relations.collect());
        Self { entities, relations, types: self.types.clone(), by_label: OnceLock::new() }
    }

    /// Says something about the names that are in the graph; returns how many are.
    pub(crate) fn add(&mut self, sayings: &Sayings, names: &Names) -> usize {
        let mut numbers: FxHashMap<String, u32> =
            self.types.iter().zip(0..).map(|(name, number)| (name.clone(), number)).collect();
        // In order of ids, so that types are numbered alike in every run.
        let mut known: Vec<(usize, u32, &Heard)> = Vec::new();
        for (name, heard) in &sayings.by_name {
            let ids = [find(&names.entities, name), find(&names.relations, name)];
            known.extend(ids.into_iter().enumerate().filter_map(|(kind, id)| Some((kind, id?, heard))));
        }
        known.sort_unstable_by_key(|&(kind, id, _)| (kind, id));
        for (kind, id, heard) in &known {
            let map = if *kind == 0 { &mut self.entities } else { &mut self.relations };
            let it = map.entry(*id).or_default();
            // What was said first stays: label files come before the data.
            it.label = it.label.take().or_else(|| heard.label.as_ref().map(|(_, text)| text.clone()));
            it.description = it.description.take().or_else(|| heard.description.as_ref().map(|(_, text)| text.clone()));
            for name in &heard.types {
                let next = numbers.len() as u32;
                let number = *numbers.entry(name.clone()).or_insert_with(|| {
                    self.types.push(name.clone());
                    next
                });
                if !it.types.contains(&number) {
                    it.types.push(number);
                }
            }
        }
        self.by_label = OnceLock::new();
        known.len()
    }
}

fn find<I: Id>(names: &Vocabulary<I>, name: &str) -> Option<u32> {
    names.id(name).map(|id| id.index() as u32)
}

/// What a text is about its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Said {
    Label,
    Description,
}

/// What was heard about one name: texts with their ranks, of which the lowest is kept.
#[derive(Clone, Debug, Default)]
struct Heard {
    label: Option<(u8, String)>,
    description: Option<(u8, String)>,
    types: Vec<String>,
}

/// What files say about names, before it is known which names the graph has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sayings {
    by_name: FxHashMap<String, Heard>,
    /// Bytes of text, and up to how many there is known to be room.
    bytes: usize,
    checked: usize,
}

/// Bytes of labels that any machine has room for.
const FEW: usize = 64 << 20;

impl Sayings {
    /// Number of names that something is said about.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// An error if there is no room for as much again.
    pub(crate) fn ensure_room(&mut self, limits: &Limits) -> Result<(), KgError> {
        if self.bytes > self.checked.max(FEW) {
            self.checked = 2 * self.bytes;
            memory::ensure(self.checked as u64, "labels", limits.memory)?;
        }
        Ok(())
    }

    /// Keeps a text, unless one of the same or a lower rank was heard before.
    pub(crate) fn hear(&mut self, name: &str, said: Said, text: &str, rank: u8) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let heard = self.of(name);
        let place = match said {
            Said::Label => &mut heard.label,
            Said::Description => &mut heard.description,
        };
        if place.as_ref().is_none_or(|(before, _)| rank < *before) {
            let text = short(text);
            let length = text.len();
            *place = Some((rank, text));
            self.bytes += length;
        }
    }

    /// Keeps a type.
    pub(crate) fn hear_type(&mut self, name: &str, kind: &str) {
        let types = &mut self.of(name).types;
        if !types.iter().any(|known| known == kind) {
            types.push(kind.to_string());
        }
    }

    fn of(&mut self, name: &str) -> &mut Heard {
        if !self.by_name.contains_key(name) {
            self.by_name.insert(name.to_string(), Heard::default());
            self.bytes += name.len() + size_of::<Heard>();
        }
        self.by_name.entry(name.to_string()).or_default()
    }

    /// Adds what was heard later.
    pub(crate) fn absorb(&mut self, later: Self) {
        if self.by_name.is_empty() {
            *self = Self { checked: self.checked, ..later };
            return;
        }
        for (name, heard) in later.by_name {
            for (said, text) in [(Said::Label, &heard.label), (Said::Description, &heard.description)] {
                if let Some((rank, text)) = text {
                    self.hear(&name, said, text, *rank);
                }
            }
            heard.types.iter().for_each(|kind| self.hear_type(&name, kind));
        }
    }
}

/// A text of bounded length.
fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        None => text.to_string(),
        Some((end, _)) => {
            let cut = &text[..end];
            format!("{} …", cut.rsplit_once(char::is_whitespace).map_or(cut, |(whole, _)| whole))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> (Labels, Names) {
        let mut names = Names::default();
        for [h, r, t] in [["Q183", "P36", "Q64"], ["Q42", "P19", "Q350"]] {
            names.triple(h, r, t);
        }
        let mut sayings = Sayings::default();
        sayings.hear("Q183", Said::Label, "Deutschland", 12);
        sayings.hear("Q183", Said::Label, "Germany", 0);
        sayings.hear("Q183", Said::Label, "Allemagne", 12);
        sayings.hear("Q183", Said::Description, &"word ".repeat(400), 0);
        sayings.hear_type("Q183", "Country");
        sayings.hear_type("Q64", "City");
        sayings.hear("Q64", Said::Label, "Berlin", 0);
        sayings.hear("Q350", Said::Label, "berlin", 0);
        sayings.hear("P36", Said::Label, "capital", 0);
        sayings.hear("Q999", Said::Label, "nobody", 0);
        let mut labels = Labels::default();
        assert_eq!(labels.add(&sayings, &names), 4);
        (labels, names)
    }

    #[test]
    fn the_best_label_is_kept_and_found_again() {
        let (labels, names) = some();
        let germany = names.entities.id("Q183").unwrap();
        assert_eq!(labels.entity(germany), Some("Germany"));
        assert!(labels.description(germany).unwrap().chars().count() < LONGEST + 3);
        assert_eq!(labels.types(germany).collect::<Vec<_>>(), ["Country"]);
        assert_eq!(labels.entities_called("Germany"), [germany]);
        assert_eq!(labels.entities_called("germany"), [germany]);
        assert_eq!(labels.entities_called("Berlin"), [names.entities.id("Q64").unwrap()], "letters decide");
        assert_eq!(labels.entities_called("BERLIN").len(), 2);
        assert_eq!(labels.relations_called("Capital"), [names.relations.id("P36").unwrap()]);
        assert!(labels.entities_called("nobody").is_empty());
        assert_eq!((labels.labelled(), labels.typed()), (3, 2));
    }

    #[test]
    fn labels_follow_their_ids() {
        let (labels, names) = some();
        let there = labels.translated(|id| (id.0 > 0).then(|| EntityId(id.0 - 1)), Some);
        assert_eq!(there.entity(EntityId(0)), labels.entity(EntityId(1)));
        assert_eq!(there.labelled(), 2);
        assert!(labels.fits(names.entities.len(), names.relations.len()) && !labels.fits(1, 1));
        let stored = Stored::from(labels.clone());
        assert!(stored.entities.windows(2).all(|pair| pair[0].0 < pair[1].0), "by id");
        assert_eq!(Labels::from(stored), labels);
    }
}
