//! Finds entities and relations by what people type: part of a name or label, with typing errors.
//!
//! Names and labels are cut into words at everything that is no letter or digit and where small letters meet capitals, and folded to
//! small letters without accents. A typed word of up to 4 letters must be right, one of up to 8 may have one error, a longer one two; a
//! wrong first letter counts as two. The last word may be the beginning of one. Fewer errors come first, then whole names, then what
//! has more facts.

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
        // Long words are in few names; the others are looked for among those.
        let mut order: Vec<usize> = (0..words.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(words[at].chars().count()));
        for at in order {
            let mut these = self.meant(&words[at], at + 1 == words.len(), found.as_ref());
            if let Some(before) = &found {
                these.iter_mut().for_each(|(name, errors)| *errors += before.get(name).copied().unwrap_or(0));
            }
            found = Some(these);
        }
        let asked: String = typed.trim().chars().flat_map(folded).collect();
        let is_asked = |text: &str| text.trim().chars().flat_map(folded).eq(asked.chars());
        let is_entity = |name: u32| (name as usize) < self.entities;
        let mut found: Vec<(u32, usize)> = found.unwrap_or_default().into_iter().collect();
        found.retain(|(name, _)| kinds[usize::from(!is_entity(*name))]);
        let whole = |name: u32| {
            let (name, label) = self.called(data, name);
            is_asked(name) || label.is_some_and(is_asked)
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

    /// Names with a word like this, and how many errors that takes; only those of `among`, if there is one.
    fn meant(&self, word: &str, is_last: bool, among: Option<&Found>) -> Found {
        let mut search = Search { index: self, first: word.chars().next(), among, found: Found::default(), allowed: 0 };
        search.allowed = match word.chars().count() {
            0..=4 => 0,
            5..=8 => 1,
            _ => 2,
        };
        for errors in 0..=search.allowed {
            if errors == 1 {
                search.take_swapped(word, is_last);
            }
            match (errors, is_last) {
                (0, true) => search.take(Str::new(word).starts_with(), 0),
                (0, false) => search.take(Str::new(word), 0),
                // A word for which the automaton would be too large is only looked for as it is.
                (errors, _) => match Levenshtein::new(word, errors as u32) {
                    Ok(near) if is_last => search.take(near.starts_with(), errors),
                    Ok(near) => search.take(near, errors),
                    Err(_) => {}
                },
            }
        }
        search.found
    }
}

/// Names, and the errors that each takes.
type Found = FxHashMap<u32, usize>;

/// A word that is looked for.
struct Search<'i> {
    index: &'i NameIndex,
    first: Option<char>,
    among: Option<&'i Found>,
    allowed: usize,
    found: Found,
}

impl Search<'_> {
    /// Two neighbouring letters in the wrong order are one error, and two to the automaton.
    fn take_swapped(&mut self, word: &str, is_last: bool) {
        let mut letters: Vec<char> = word.chars().collect();
        for at in 1..letters.len() {
            letters.swap(at - 1, at);
            let swapped: String = letters.iter().collect();
            self.first = letters.first().copied();
            match is_last {
                true => self.take(Str::new(&swapped).starts_with(), 1),
                false => self.take(Str::new(&swapped), 1),
            }
            letters.swap(at - 1, at);
        }
        self.first = letters.first().copied();
    }

    fn take(&mut self, automaton: impl Automaton, errors: usize) {
        let index = self.index;
        let mut stream = index.words.search(automaton).into_stream();
        let mut new: [Vec<u32>; 2] = Default::default();
        while let Some((word, at)) = stream.next() {
            // People rarely mistake the first letter.
            let is_other = errors > 0 && std::str::from_utf8(word).is_ok_and(|word| word.chars().next() != self.first);
            let into = &mut new[usize::from(is_other)];
            let fits = |name: &&u32| self.among.is_none_or(|among| among.contains_key(name));
            into.extend(index.names[at as usize].iter().filter(fits));
            if into.len() > 2 * MOST_NAMES {
                index.best(into);
            }
        }
        for (more, mut names) in new.into_iter().enumerate().filter(|(more, _)| errors + more <= self.allowed) {
            index.best(&mut names);
            for name in names {
                self.found.entry(name).or_insert(errors + more);
            }
        }
    }
}

impl NameIndex {
    /// Leaves those with the most facts, where there are too many.
    fn best(&self, names: &mut Vec<u32>) {
        if names.len() > MOST_NAMES {
            names.sort_unstable_by_key(|&name| (u32::MAX - self.facts[name as usize], name));
            names.dedup();
            names.truncate(MOST_NAMES);
        }
    }
}

/// A letter as it is compared: small, and without its accents where European languages write any.
fn folded(character: char) -> impl Iterator<Item = char> {
    let small = character.to_lowercase();
    small.filter(|c| !('\u{300}'..='\u{36f}').contains(c)).flat_map(|c| {
        let plain: &'static str = match c {
            'à'..='å' | 'ā' | 'ă' | 'ą' | 'ǎ' | 'ạ' | 'ả' | 'ấ'..='ặ' => "a",
            'æ' => "ae",
            'ç' | 'ć' | 'ĉ' | 'ċ' | 'č' => "c",
            'ď' | 'đ' | 'ð' => "d",
            'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' | 'ẹ'..='ệ' => "e",
            'ĝ' | 'ğ' | 'ġ' | 'ģ' => "g",
            'ĥ' | 'ħ' => "h",
            'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' | 'ı' | 'ǐ' | 'ỉ' | 'ị' => "i",
            'ĵ' => "j",
            'ķ' => "k",
            'ĺ' | 'ļ' | 'ľ' | 'ŀ' | 'ł' => "l",
            'ñ' | 'ń' | 'ņ' | 'ň' => "n",
            'ò'..='ö' | 'ø' | 'ō' | 'ŏ' | 'ő' | 'ơ' | 'ǒ' | 'ọ'..='ợ' => "o",
            'œ' => "oe",
            'ŕ' | 'ŗ' | 'ř' => "r",
            'ś' | 'ŝ' | 'ş' | 'š' | 'ș' => "s",
            'ß' => "ss",
            'ţ' | 'ť' | 'ŧ' | 'ț' => "t",
            'þ' => "th",
            'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' | 'ư' | 'ǔ' | 'ụ'..='ự' => "u",
            'ŵ' => "w",
            'ý' | 'ÿ' | 'ŷ' | 'ỳ'..='ỹ' => "y",
            'ź' | 'ż' | 'ž' => "z",
            _ => "",
        };
        plain.chars().chain(plain.is_empty().then_some(c))
    })
}

/// The words of a text, in small letters.
fn split(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for character in text.chars() {
        let is_accent = ('\u{300}'..='\u{36f}').contains(&character);
        if is_accent {
            continue;
        }
        let ends = !character.is_alphanumeric() || (was_small && character.is_uppercase());
        if ends && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        was_small = character.is_lowercase();
        if let Some(word) = words.last_mut().filter(|word| character.is_alphanumeric() && word.len() < LONGEST) {
            word.extend(folded(character));
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
        assert_eq!(split("São Tomé, Łódź, Straße, Cafe\u{301}"), ["sao", "tome", "lodz", "strasse", "cafe"]);
    }

    fn index(names: &[&str], links: &[(usize, usize)]) -> (Dataset, NameIndex) {
        let mut all = ruge_kg::Names::default();
        let triples = links.iter().map(|&(a, b)| all.triple(names[a], "r", names[b])).collect();
        let data = Dataset::new(all, triples, Vec::new(), Vec::new());
        let index = NameIndex::new(&data);
        (data, index)
    }

    #[test]
    fn a_wrong_first_letter_counts_twice() {
        let (data, index) = index(&["Brussels", "Gothenburg"], &[(0, 1)]);
        let found = |typed: &str| {
            let hits = index.search(&data, typed, [true, false], 10);
            hits.into_iter().map(|hit| (hit.name, hit.errors)).collect::<Vec<_>>()
        };
        assert_eq!(found("brussals"), [("Brussels".to_string(), 1)]);
        assert_eq!(found("trussels"), []);
        assert_eq!(found("rbussels"), [("Brussels".to_string(), 1)]);
        assert_eq!(found("mothenburg"), [("Gothenburg".to_string(), 2)]);
    }

    #[test]
    fn of_too_many_names_those_with_the_most_facts_are_found() {
        let names: Vec<String> = (0..MOST_NAMES * 2 + 50).map(|at| format!("a{at:06}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).chain(["azure sky", "hub"]).collect();
        let [azure, hub] = [names.len() - 2, names.len() - 1];
        let mut links: Vec<(usize, usize)> = (0..azure).map(|at| (at, hub)).collect();
        links.extend((0..5).map(|at| (azure, at)));
        let (data, index) = index(&names, &links);
        assert_eq!(index.search(&data, "a", [true, false], 1)[0].name, "azure sky");
        assert_eq!(index.search(&data, "azure s", [true, false], 5).len(), 1);
    }
}
