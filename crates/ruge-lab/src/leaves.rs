//! Leaves of a spec by their dotted paths, before it is one: lists as choices, and leaves that follow others.
//!
//! Tables of experiments and search spaces are both specs in which some leaves are left open. What such a leaf may be is
//! written down the same way in both, so both read it here. No name of a leaf is known: a spec that grows another one can
//! be swept and searched over it at once.

use std::collections::BTreeMap;

pub use ruge::spec::open;
use toml::{Table, Value};

/// A leaf by its path, and its value.
pub type Leaf = (String, Value);

/// Sets the leaf at a dotted path; `None` where something else than a table is in the way.
pub fn set(table: &mut Table, path: &str, value: Value) -> Option<()> {
    match path.split_once('.') {
        None => {
            table.insert(path.to_string(), value);
            Some(())
        }
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
            set(inner.as_table_mut()?, rest, value)
        }
    }
}

/// Sets leaves, and with each of them those that are tied to it (`tie` maps a follower to its leader).
pub fn set_all(table: &mut Table, leaves: &[Leaf], tie: &BTreeMap<String, String>) -> Option<()> {
    for (leaf, value) in leaves {
        set(table, leaf, value.clone())?;
        for (follower, _) in tie.iter().filter(|(_, leader)| *leader == leaf) {
            set(table, follower, value.clone())?;
        }
    }
    Some(())
}

/// Every leaf that is a list.
pub fn lists(table: &Table) -> Vec<(String, Vec<Value>)> {
    open(table, &mut |_, value| value.as_array().cloned())
}

/// Every combination of choices, the last leaf changing fastest; none where a list is empty.
pub fn combinations(choices: &[(String, Vec<Value>)]) -> Vec<Vec<Leaf>> {
    let mut all: Vec<Vec<Leaf>> = vec![Vec::new()];
    for (leaf, values) in choices {
        let with = |choice: &Vec<Leaf>, value: &Value| [&choice[..], &[(leaf.clone(), value.clone())]].concat();
        all = all.iter().flat_map(|choice| values.iter().map(|value| with(choice, value))).collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_anywhere_are_found_and_combined() {
        let table: Table = toml::from_str("a = [1, 2]\nb = 3\n[c]\nd.e = [true, false]\n").unwrap();
        let found = lists(&table);
        assert_eq!(found.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), ["a", "c.d.e"]);
        let all = combinations(&found);
        assert_eq!(all.len(), 4);
        assert_eq!(all[1], [("a".into(), Value::Integer(1)), ("c.d.e".into(), Value::Boolean(false))]);
        assert!(combinations(&[("a".into(), Vec::new())]).is_empty());
        assert_eq!(combinations(&[]), [Vec::new()], "nothing open leaves one way");
    }

    #[test]
    fn followers_take_the_value_of_their_leader() {
        let mut table = Table::new();
        let tie = BTreeMap::from([("o.b".to_string(), "o.a".to_string())]);
        set_all(&mut table, &[("o.a".into(), Value::Float(0.5))], &tie).unwrap();
        assert_eq!(table["o"]["b"], Value::Float(0.5));
        assert!(set(&mut table, "o.a.x", Value::Integer(1)).is_none(), "a number has no leaves");
    }
}
