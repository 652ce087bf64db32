//! Where a spec says what it cannot say: the leaf and, in a file, its line.

use toml::{Table, Value};

use super::file::SpecFile;
use super::{Spec, hint, lay_over};
use crate::error::{Result, RugeError};

/// Leaves that say which kind of thing a table is: without them the rest of it means nothing.
pub(super) const KINDS: [&str; 3] = ["kind", "distribution", "per"];

impl Spec {
    /// This spec with the leaves of a table laid over it.
    pub(super) fn laid(&self, over: &Table) -> std::result::Result<SpecFile, Slip> {
        let mut table: Table = toml::from_str(&self.to_toml()).expect("what we print we can read");
        lay_over(&mut table, over.clone());
        let mut slip = match read(&table) {
            Ok(file) => return Ok(file),
            // Of a leaf that is missing or not known, the table around it is the place.
            Err(slip) if !["invalid", "unknown variant"].iter().any(|word| slip.message.starts_with(word)) => {
                return Err(slip);
            }
            Err(slip) => slip,
        };
        // Of a table that is one of several kinds it is told only that something in it is wrong. Without that leaf it would be
        // something else.
        let below = open(over, &mut |path, value| {
            let last = path.rsplit('.').next().unwrap_or(path);
            (path.starts_with(&format!("{}.", slip.path)) && !value.is_table() && !KINDS.contains(&last)).then_some(())
        });
        let is_it = |path: &String| {
            let mut without = table.clone();
            remove(&mut without, path);
            read(&without).err().is_none_or(|other| other.message != slip.message)
        };
        if let Some((path, ())) = below.into_iter().find(|(path, ())| is_it(path)) {
            slip.path = path;
        }
        Err(slip)
    }
}

/// A TOML text as a table; `name` is told where it is none.
pub(super) fn table_of(text: &str, name: &str) -> Result<Table> {
    toml::from_str(text).map_err(|error| RugeError::spec(format!("{name}: {error}")))
}

/// What a spec cannot take.
pub(super) struct Slip {
    /// The dotted path of the leaf, or of the table around it; empty at the top.
    path: String,
    message: String,
}

fn read(table: &Table) -> std::result::Result<SpecFile, Slip> {
    table.clone().try_into().map_err(|error: toml::de::Error| {
        // The path is told in words alone: "in `model.dimension`" behind the message.
        let all = error.to_string();
        let behind = all.strip_prefix(error.message()).unwrap_or_default().trim();
        let path = behind.strip_prefix("in `").and_then(|path| path.strip_suffix('`')).unwrap_or_default();
        Slip { path: path.to_string(), message: error.message().to_string() }
    })
}

impl Slip {
    /// A leaf that specs do not have, by its last name.
    fn unknown(&self) -> Option<&str> {
        self.message.strip_prefix("unknown field `")?.split('`').next()
    }

    /// The leaf to look for in a file.
    pub(super) fn leaf(&self) -> String {
        match self.unknown() {
            Some(field) if self.path.is_empty() => field.to_string(),
            Some(field) => format!("{}.{field}", self.path),
            None => self.path.clone(),
        }
    }

    /// What is wrong, for people.
    pub(super) fn words(&self) -> String {
        let place = if self.path.is_empty() { String::new() } else { format!("{}: ", self.path) };
        let message = match self.message.rsplit_once(", expected ") {
            Some((found, "usize" | "u64" | "u32")) => format!("{found}, expected a whole number"),
            Some((found, "f32" | "f64")) => format!("{found}, expected a number"),
            Some((found, what)) if what.starts_with("struct ") || what.contains("tagged enum ") => {
                format!("{found}, expected a section")
            }
            _ => self.message.clone(),
        };
        format!("{place}{message}{}", hint(&self.message))
    }
}

fn remove(table: &mut Table, path: &str) {
    match path.split_once('.') {
        None => drop(table.remove(path)),
        Some((first, rest)) => {
            if let Some(Value::Table(inner)) = table.get_mut(first) {
                remove(inner, rest);
            }
        }
    }
}

/// Every leaf that `is_open` says something about, by its dotted path. What it says nothing about is looked into where it
/// is a table.
pub fn open<T>(table: &Table, is_open: &mut dyn FnMut(&str, &Value) -> Option<T>) -> Vec<(String, T)> {
    let mut found = Vec::new();
    walk(table, "", is_open, &mut found);
    found
}

fn walk<T>(
    table: &Table,
    prefix: &str,
    is_open: &mut dyn FnMut(&str, &Value) -> Option<T>,
    found: &mut Vec<(String, T)>,
) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match (is_open(&path, value), value) {
            (Some(what), _) => found.push((path, what)),
            (None, Value::Table(inner)) => walk(inner, &path, is_open, found),
            (None, _) => {}
        }
    }
}

/// The line, from 1, on which a leaf of a TOML text stands, or the innermost table around it that the text names.
pub(super) fn line_of(text: &str, leaf: &str) -> Option<usize> {
    let parsed = toml::de::DeTable::parse(text).ok()?;
    let (mut table, mut start) = (parsed.get_ref(), None);
    for part in leaf.split('.') {
        let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == part) else { break };
        start = Some(key.span().start);
        match value.get_ref().as_table() {
            Some(inner) => table = inner,
            None => break,
        }
    }
    Some(text[..start?].matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SpecText;

    #[test]
    fn what_a_file_cannot_say_is_told_by_line_and_leaf() {
        let told = |text: &str| {
            let text = SpecText { name: "my.toml".into(), text: text.into(), is_file: true };
            text.over(&Spec::default()).unwrap_err().to_string()
        };
        for (text, words) in [
            (
                "[model]\ndimension = \"x\"\n",
                "my.toml:2: model.dimension: invalid type: string \"x\", expected a whole",
            ),
            ("seed = 1\nmodel.dimension = 2.5\n", "my.toml:2: model.dimension: "),
            ("\n[model]\nname = \"complex\"\ndimenson = 5\n", "my.toml:4: model: unknown field `dimenson`"),
            ("[guidance]\nkind = \"ruge\"\nslack = 1.0\n", "my.toml:3: guidance: unknown field `slack`"),
            (
                "[guidance]\nkind = \"ruge\"\nslackness = 1\nt-norm = \"x\"\n",
                "my.toml:4: guidance.t-norm: unknown variant `x`",
            ),
            ("# one\nsede = 1\n", "my.toml:2: unknown field `sede`"),
            ("model = 3\n", "my.toml:1: model: invalid type: integer `3`, expected a section"),
            (
                "[guidance]\nkind = \"ruge\"\nt-norm = \"product\"\nslackness = \"x\"\n",
                "my.toml:4: guidance.slackness: invalid type: string \"x\", expected a number",
            ),
            (
                "seed = 1\n[objective]\nloss = { kind = \"bla\" }\n",
                "my.toml:3: objective.loss.kind: unknown variant `bla`",
            ),
            ("[guidance]\nkind = \"kale\"\nweight = 1.0\n", "my.toml:1: guidance: missing field `margin`"),
            ("[rules]\nmine = \"all\"\n", "my.toml:2: rules.mine: unknown variant `all`"),
            ("seed = \n", "my.toml: TOML parse error at line 1"),
        ] {
            assert!(told(text).contains(words), "{text}: {}", told(text));
        }
        let plain = Spec::from_toml("[model]\ndimension = \"x\"\n", "a cell").unwrap_err().to_string();
        assert!(plain.contains("a cell: model.dimension: invalid type"), "{plain}");
    }
}
