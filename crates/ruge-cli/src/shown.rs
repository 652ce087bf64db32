//! Names as people read them: with their labels, and IRIs in their short form. Output for programs keeps the user's own strings.

use ruge_kg::Dataset;

/// An entity by its name: `Germany (Q183)`, `ex:berlin`, or the name as it is.
pub fn entity(data: &Dataset, name: &str) -> String {
    data.names().entities.id(name).map_or_else(|| text(data, name), |id| data.called_entity(id))
}

/// A relation by its name.
pub fn relation(data: &Dataset, name: &str) -> String {
    data.names().relations.id(name).map_or_else(|| text(data, name), |id| data.called_relation(id))
}

/// A rule or a sentence with names in it.
pub fn text(data: &Dataset, text: &str) -> String {
    data.prefixes().shorten_all(text).into_owned()
}
