//! Finds entities and relations by what people type: part of a name or label, with typing errors.
//!
//! Names and labels are cut into words at everything that is no letter or digit and where small letters meet capitals, and folded to
//! small letters. A typed word of up to 4 letters must be right, one of up to 8 may have one error, a longer one two. The last
//! word may be the beginning of one. Fewer errors come first, then whole names, then what has more facts.

use std::collections::BTreeMap;

use fst::automaton::{Automaton, Levenshtein, Str};
use fst::{IntoStreamer, Map, Streamer};
use ruge_kg::{Dataset, EntityId, RelationId};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Typed words that are looked at.
const MOST_WORDS: usize = 8;
/// Names that a typed word may lead to: a single letter begins too many.
const MOST_NAMES: usize = 50_000;
/// Letters of a word that are looked at.
const LONGEST: usize = 64;

/// What was found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Hit {
    /// `entity` or `relation`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Facts it takes part in.
    pub facts: usize,
    /// Typing errors that were forgiven.
    pub errors: usize,
}

/// All names, by their words.
pub struct NameIndex {
    words: Map<Vec<u8>>,
    names: Vec<Vec<u32>>,
    /// Facts of each name; entities first, then relations.
    facts: Vec<u32>,
    entities: usize,
}

impl NameIndex {
    /// Of all names and labels.
    pub fn new(data: &Dataset) -> Self {
        let mut words: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        let mut add = |at: usize, text: &str| {
            for word in split(text) {
                let names = words.entry(word).or_default();
                if names.last() != Some(&(at as u32)) {
                    names.push(at as u32);
                }
            }
        };
        let (names, labels, entities) = (data.names(), data.labels(), data.entity_count());
        for (id, name) in names.entities.iter() {
            add(id.index(), name);
            labels.entity(id).into_iter().for_each(|label| add(id.index(), label));
        }
        for (id, name) in names.relations.iter() {
            add(entities + id.index(), name);
            labels.relation(id).into_iter().for_each(|label| add(entities + id.index(), label));
        }
        let graph = data.graph();
        let facts = graph.entities().map(|id| graph.degree(id) as u32);
        let facts = facts.chain(graph.relations().map(|id| graph.facts(id).len() as u32)).collect();
        let (keys, names): (Vec<String>, Vec<Vec<u32>>) = words.into_iter().unzip();
        let words = Map::from_iter(keys.iter().enumerate().map(|(at, word)| (word, at as u64)));
        Self { words: words.expect("the words of a sorted map are sorted"), names, facts, entities }
    }

    /// The best names for what was typed.
    pub fn search(&self, data: &Dataset, typed: &str, kinds: [bool; 2], limit: usize) -> Vec<Hit> {
        let words: Vec<String> = split(typed).into_iter().take(MOST_WORDS).collect();
        let mut found: Option<FxHashMap<u32, usize>> = None;
        for (at, word) in words.iter().enumerate() {
            let mut these = self.meant(word, at + 1 == words.len());
            if let Some(before) = &found {
                these.retain(|name, errors| {
                    before.get(name).is_some_and(|more| {
                        *errors += more;
                        true
                    })
                });
            }
            found = Some(these);
        }
        let folded = typed.trim().to_lowercase();
        let is_entity = |name: u32| (name as usize) < self.entities;
        let mut found: Vec<(u32, usize)> = found.unwrap_or_default().into_iter().collect();
        found.retain(|(name, _)| kinds[usize::from(!is_entity(*name))]);
        let whole = |name: u32| {
            let (name, label) = self.called(data, name);
            name.to_lowercase() == folded || label.is_some_and(|label| label.to_lowercase() == folded)
        };
        found.sort_by_cached_key(|&(name, errors)| (errors, !whole(name), u32::MAX - self.facts[name as usize], name));
        let hit = |(at, errors): (u32, usize)| {
            let (name, label) = self.called(data, at);
            let kind = if is_entity(at) { "entity" } else { "relation" };
            let facts = self.facts[at as usize] as usize;
            Hit { kind, name: name.into(), label: label.map(str::to_string), facts, errors }
        };
        found.into_iter().take(limit).map(hit).collect()
    }

    fn called<'d>(&self, data: &'d Dataset, name: u32) -> (&'d str, Option<&'d str>) {
        let (names, labels) = (data.names(), data.labels());
        match (name as usize).checked_sub(self.entities) {
            None => (names.entities.name(EntityId(name)), labels.entity(EntityId(name))),
            Some(relation) => {
                let id = RelationId(relation as u32);
                (names.relations.name(id), labels.relation(id))
            }
        }
    }

    /// Names with a word like this, and how many errors that takes.
    fn meant(&self, word: &str, is_last: bool) -> FxHashMap<u32, usize> {
        let mut found = FxHashMap::default();
        let allowed = match word.chars().count() {
            0..=4 => 0,
            5..=8 => 1,
            _ => 2,
        };
        for errors in 0..=allowed {
            if errors == 1 {
                self.take_swapped(word, is_last, &mut found);
            }
            match (errors, is_last) {
                (0, true) => self.take(Str::new(word).starts_with(), 0, &mut found),
                (0, false) => self.take(Str::new(word), 0, &mut found),
                // A word for which the automaton would be too large is only looked for as it is.
                (errors, _) => match Levenshtein::new(word, errors as u32) {
                    Ok(near) if is_last => self.take(near.starts_with(), errors, &mut found),
                    Ok(near) => self.take(near, errors, &mut found),
                    Err(_) => {}
                },
            }
        }
        found
    }

    /// Two neighbouring letters in the wrong order are one error, and two to the automaton.
    fn take_swapped(&self, word: &str, is_last: bool, found: &mut FxHashMap<u32, usize>) {
        let mut letters: Vec<char> = word.chars().collect();
        for at in 1..letters.len() {
            letters.swap(at - 1, at);
            let swapped: String = letters.iter().collect();
            match is_last {
                true => self.take(Str::new(&swapped).starts_with(), 1, found),
                false => self.take(Str::new(&swapped), 1, found),
            }
            letters.swap(at - 1, at);
        }
    }

    fn take(&self, automaton: impl Automaton, errors: usize, found: &mut FxHashMap<u32, usize>) {
        let mut stream = self.words.search(automaton).into_stream();
        while let Some((_, at)) = stream.next() {
            for &name in &self.names[at as usize] {
                found.entry(name).or_insert(errors);
            }
            if found.len() > MOST_NAMES {
                return;
            }
        }
    }
}

/// The words of a text, in small letters.
fn split(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for character in text.chars() {
        let ends = !character.is_alphanumeric() || (was_small && character.is_uppercase());
        if ends && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        was_small = character.is_lowercase();
        if let Some(word) = words.last_mut().filter(|word| character.is_alphanumeric() && word.len() < LONGEST) {
            word.extend(character.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_where_people_would() {
        assert_eq!(split("/people/person/bornIn"), ["people", "person", "born", "in"]);
        assert_eq!(split("has_capital"), ["has", "capital"]);
        assert!(split(" \u{0}/ ").is_empty());
    }
}
