//! What a user calls an entity or a relation: found by its name, short form or label, or an error that names the nearest ones.

use ruge_kg::{Dataset, EntityId, RelationId};

use crate::error::{Result, RugeError};
use crate::suggest::nearest;

/// Relations named where none is near to what was typed.
const SHOWN: usize = 8;

/// The entity of that name, short form or label.
pub fn entity(data: &Dataset, name: &str) -> Result<EntityId> {
    match data.entities_meant(name)[..] {
        [entity] => Ok(entity),
        [] => {
            let names = data.names().entities.iter().map(|(_, name)| name);
            Err(unknown("entity", name, names.chain(data.labels().all())))
        }
        ref several => {
            let choices = several.iter().map(|&id| data.names().entities.name(id).to_string()).collect();
            let first =
                |&id: &EntityId| data.labels().types(id).next().map(|it| data.prefixes().shorten(it).into_owned());
            let types = several.iter().map(|id| first(id).unwrap_or_default()).collect();
            Err(RugeError::AmbiguousName { kind: "entities", name: name.to_string(), choices, types })
        }
    }
}

/// The relation of that name, short form or label.
pub fn relation(data: &Dataset, name: &str) -> Result<RelationId> {
    let names = &data.names().relations;
    let meant = data.relations_meant(name);
    if meant.len() > 1 {
        let choices = meant.iter().map(|&id| names.name(id).to_string()).collect();
        let (name, types) = (name.to_string(), Vec::new());
        return Err(RugeError::AmbiguousName { kind: "relations", name, choices, types });
    }
    meant.first().copied().ok_or_else(|| match unknown("relation", name, names.iter().map(|(_, name)| name)) {
        // Relations are few, so that some of them help where none is near.
        RugeError::UnknownName { kind, name, nearest, .. } if nearest.is_empty() => {
            let some: Vec<String> = names.iter().take(SHOWN).map(|(_, name)| name.to_string()).collect();
            let more = names.len() - some.len();
            RugeError::UnknownName { kind, name, nearest, some, more }
        }
        error => error,
    })
}

pub(crate) fn unknown<'n>(kind: &'static str, name: &str, names: impl Iterator<Item = &'n str>) -> RugeError {
    let nearest = nearest(name, names, 3).into_iter().map(str::to_string).collect();
    RugeError::UnknownName { kind, name: name.to_string(), nearest, some: Vec::new(), more: 0 }
}
