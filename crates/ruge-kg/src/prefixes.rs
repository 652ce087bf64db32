//! Short forms of IRIs, for people: `http://www.wikidata.org/entity/Q183` is shown as `wd:Q183`.
//!
//! Prefixes come from the files that declare them. Where none is declared, namespaces that many names share are found, and get their usual
//! prefix if they are well known, otherwise one made from their last part. Prefixes are display data: the names of a graph, in
//! files, JSON and messages for programs, are the user's own strings.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::vocabulary::Names;

/// Namespaces with their usual prefixes.
const USUAL: [(&str, &str); 34] = [
    ("rdf", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"),
    ("rdfs", "http://www.w3.org/2000/01/rdf-schema#"),
    ("owl", "http://www.w3.org/2002/07/owl#"),
    ("xsd", "http://www.w3.org/2001/XMLSchema#"),
    ("skos", "http://www.w3.org/2004/02/skos/core#"),
    ("schema", "http://schema.org/"),
    ("schema", "https://schema.org/"),
    ("foaf", "http://xmlns.com/foaf/0.1/"),
    ("dcterms", "http://purl.org/dc/terms/"),
    ("dc", "http://purl.org/dc/elements/1.1/"),
    ("dcat", "http://www.w3.org/ns/dcat#"),
    ("prov", "http://www.w3.org/ns/prov#"),
    ("sh", "http://www.w3.org/ns/shacl#"),
    ("geo", "http://www.w3.org/2003/01/geo/wgs84_pos#"),
    ("wd", "http://www.wikidata.org/entity/"),
    ("wdt", "http://www.wikidata.org/prop/direct/"),
    ("wdtn", "http://www.wikidata.org/prop/direct-normalized/"),
    ("p", "http://www.wikidata.org/prop/"),
    ("wds", "http://www.wikidata.org/entity/statement/"),
    ("ps", "http://www.wikidata.org/prop/statement/"),
    ("pq", "http://www.wikidata.org/prop/qualifier/"),
    ("dbr", "http://dbpedia.org/resource/"),
    ("dbo", "http://dbpedia.org/ontology/"),
    ("dbp", "http://dbpedia.org/property/"),
    ("dbc", "http://dbpedia.org/resource/Category:"),
    ("yago", "http://yago-knowledge.org/resource/"),
    ("obo", "http://purl.obolibrary.org/obo/"),
    ("oboInOwl", "http://www.geneontology.org/formats/oboInOwl#"),
    ("fb", "http://rdf.freebase.com/ns/"),
    ("gn", "http://www.geonames.org/ontology#"),
    ("umbel", "http://umbel.org/umbel/rc/"),
    ("org", "http://www.w3.org/ns/org#"),
    ("vcard", "http://www.w3.org/2006/vcard/ns#"),
    ("bibo", "http://purl.org/ontology/bibo/"),
];

/// A namespace is learned if at least this share of the IRIs of a kind is in it, and at least two are.
const SHARE: usize = 100;

/// Prefixes and their namespaces.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prefixes {
    /// Longest namespace first, so that the first that fits is the best.
    list: Vec<(String, String)>,
}

impl Prefixes {
    /// Of what files declare, and of what the names share.
    pub fn of(declared: &[(String, String)], names: &Names) -> Self {
        let mut all = Self::default();
        for (prefix, namespace) in declared {
            all.add(prefix, namespace);
        }
        let entities = shared(names.entities.iter().map(|(_, name)| name));
        let relations = shared(names.relations.iter().map(|(_, name)| name));
        for namespace in entities.into_iter().chain(relations) {
            let usual = USUAL.iter().find(|(_, usual)| *usual == namespace);
            let prefix = usual.map_or_else(|| made_of(&namespace), |(prefix, _)| (*prefix).to_string());
            all.add(&prefix, &namespace);
        }
        all
    }

    /// Adds a namespace that has no prefix yet. A prefix that is taken gets a number.
    fn add(&mut self, prefix: &str, namespace: &str) {
        let empty = namespace.len() < 4 || self.list.iter().any(|(_, known)| known == namespace);
        if empty || !prefix.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c)) {
            return;
        }
        let is_taken = |prefix: &str| self.list.iter().any(|(known, _)| known == prefix);
        let mut chosen = prefix.to_string();
        let mut number = 2;
        while is_taken(&chosen) {
            chosen = format!("{prefix}{number}");
            number += 1;
        }
        let at = self.list.partition_point(|(_, known)| known.len() >= namespace.len());
        self.list.insert(at, (chosen, namespace.to_string()));
    }

    /// Whether no name is shortened.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Prefixes with their namespaces.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.list.iter().map(|(prefix, namespace)| (prefix.as_str(), namespace.as_str()))
    }

    /// A name as people read it: `prefix:local` for an IRI in a known namespace, any other name as it is.
    pub fn shorten<'n>(&self, name: &'n str) -> Cow<'n, str> {
        for (prefix, namespace) in &self.list {
            if let Some(local) = name.strip_prefix(namespace.as_str())
                && !local.is_empty()
            {
                return Cow::Owned(format!("{prefix}:{local}"));
            }
        }
        Cow::Borrowed(name)
    }

    /// Text with IRIs in it, such as a rule, as people read it.
    pub fn shorten_all<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.list.is_empty() || !text.contains(':') {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut before = None;
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let begins = before.is_none_or(|c: char| c.is_whitespace() || "(,\"'!¬<".contains(c));
            let found = self.list.iter().filter(|_| begins).find(|(_, namespace)| {
                let local = rest.strip_prefix(namespace.as_str()).and_then(|local| local.chars().next());
                local.is_some_and(|c| !c.is_whitespace() && !"(),\"".contains(c))
            });
            let (shown, length) = match found {
                Some((prefix, namespace)) => (format!("{prefix}:"), namespace.len()),
                None => (next.to_string(), next.len_utf8()),
            };
            before = shown.chars().next_back();
            out.push_str(&shown);
            rest = &rest[length..];
        }
        Cow::Owned(out)
    }

    /// The name that a short form stands for; `None` if it is none.
    pub fn expand(&self, short: &str) -> Option<String> {
        let (prefix, local) = short.split_once(':')?;
        let (_, namespace) = self.list.iter().find(|(known, _)| known == prefix)?;
        Some(format!("{namespace}{local}"))
    }
}

/// The namespaces that many names are in, and well-known ones that any name is in, in order of their text.
fn shared<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut iris = 0;
    for name in names.filter(|name| name.contains("://")) {
        iris += 1;
        if let Some(end) = name.rfind(['#', '/']).filter(|&end| end + 1 < name.len())
            && !name[..end].ends_with([':', '/'])
        {
            *counts.entry(&name[..=end]).or_default() += 1;
        }
    }
    let least = (iris / SHARE).max(2);
    let usual = |namespace: &str| USUAL.iter().any(|(_, known)| *known == namespace);
    counts.into_iter().filter(|&(it, count)| count >= least || usual(it)).map(|(it, _)| it.to_string()).collect()
}

/// A prefix for a namespace that nobody has named: its last word.
fn made_of(namespace: &str) -> String {
    let path = namespace.split_once("://").map_or(namespace, |(_, path)| path);
    let (host, path) = path.split_once('/').unwrap_or((path, ""));
    let is_word = |word: &&str| word.starts_with(|c: char| c.is_ascii_alphabetic());
    let part = path.split(['/', '#']).rev().find(is_word);
    let host = host.strip_prefix("www.").unwrap_or(host);
    let part = part.or_else(|| host.split('.').next()).unwrap_or_default();
    let word: String = part.chars().take_while(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).take(16).collect();
    let word = word.trim_matches(['-', '_']).to_ascii_lowercase();
    if word.is_empty() { "ns".to_string() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(triples: &[[&str; 3]]) -> Names {
        let mut names = Names::default();
        triples.iter().for_each(|[h, r, t]| {
            names.triple(h, r, t);
        });
        names
    }

    #[test]
    fn namespaces_are_learned_from_names() {
        let names = names(&[
            ["http://www.wikidata.org/entity/Q1", "http://www.wikidata.org/prop/direct/P1", "http://ex.org/city/Rome"],
            ["http://ex.org/city/Oslo", "http://ex.org/vocab#inCountry", "http://ex.org/land#it"],
            ["http://ex.org/city/Bari", "http://ex.org/vocab#near", "http://ex.org/land#no"],
            ["plain", "http://once.org/a/b", "a:b"],
        ]);
        let prefixes = Prefixes::of(&[], &names);
        let shown = |name: &str| prefixes.shorten(name).into_owned();
        assert_eq!(shown("http://www.wikidata.org/entity/Q1"), "wd:Q1");
        assert_eq!(shown("http://www.wikidata.org/prop/direct/P1"), "wdt:P1");
        assert_eq!(shown("http://ex.org/city/Rome"), "city:Rome");
        assert_eq!(shown("http://ex.org/vocab#near"), "vocab:near");
        assert_eq!(shown("http://once.org/a/b"), "http://once.org/a/b", "one name is no namespace");
        assert_eq!((shown("plain"), shown("a:b")), ("plain".into(), "a:b".into()));
        for (_, name) in names.entities.iter() {
            let back = prefixes.expand(&shown(name));
            assert!(back.is_none() || back.as_deref() == Some(name), "{name}");
        }
    }

    #[test]
    fn declared_prefixes_come_first_and_names_stay_apart() {
        let declared =
            [("geo".to_string(), "http://ex.org/city/".to_string()), (String::new(), "http://ex.org/x/".into())];
        let names = names(&[["http://ex.org/city/Rome", "http://a.org/geo/r", "http://a.org/geo/t"]]);
        let mut prefixes = Prefixes::of(&declared, &names);
        prefixes.add("geo", "http://third.org/");
        assert_eq!(prefixes.shorten("http://ex.org/city/Rome"), "geo:Rome");
        assert_eq!(prefixes.shorten("http://ex.org/x/y"), ":y");
        assert_eq!(prefixes.shorten("http://third.org/z"), "geo2:z");
        assert_eq!(prefixes.expand(":y").as_deref(), Some("http://ex.org/x/y"));
        assert_eq!(prefixes.expand("nix:y"), None);
    }

    #[test]
    fn rules_are_shortened_name_by_name() {
        let declared = [("ex".to_string(), "http://ex.org/".to_string()), ("v".into(), "http://ex.org/v#".into())];
        let prefixes = Prefixes::of(&declared, &Names::default());
        let rule = "http://ex.org/v#p(x,y) ∧ ¬\"http://ex.org/a b\"(y,http://ex.org/c) ⇒ xhttp://ex.org/d(x,y)";
        assert_eq!(prefixes.shorten_all(rule), "v:p(x,y) ∧ ¬\"ex:a b\"(y,ex:c) ⇒ xhttp://ex.org/d(x,y)");
        assert_eq!(prefixes.shorten_all("if x http://ex.org/r y then"), "if x ex:r y then");
    }
}
