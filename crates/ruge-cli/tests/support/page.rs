//! A session at the terminal as one text: what was typed, and what came back, without what differs from run to run.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Map, Value};
use tempfile::TempDir;

use super::command;

/// Commands that were run in a folder of their own, which holds the six families of `fixtures/`.
pub struct Page {
    folder: TempDir,
    text: String,
    /// Whether decimals come from training: they are shown by their number of digits.
    is_trained: bool,
}

impl Page {
    /// For commands that count: every number is held.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let families = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/families");
        fs::create_dir(folder.path().join("families")).expect("made");
        for split in ["train.tsv", "valid.tsv", "test.tsv"] {
            fs::copy(families.join(split), folder.path().join("families").join(split)).expect("copied");
        }
        Self { folder, text: String::new(), is_trained: false }
    }

    /// For commands that ask a model: there are `rules.tsv`, mined, and `model`, trained with them.
    pub fn with_model() -> Self {
        let mut page = Self { is_trained: true, ..Self::new() };
        page.silently("mine families --min-head-size 1 --min-support 2 --out rules.tsv");
        page.silently("train families --guidance ruge --rules rules.tsv --dim 8 --epochs 10 --out model");
        page
    }

    /// For commands that train.
    pub fn that_trains() -> Self {
        Self { is_trained: true, ..Self::new() }
    }

    /// The path of a file, from outside.
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// A file to be read.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn output(&self, line: &str) -> (Option<i32>, String, String) {
        self.output_of(&line.split(' ').collect::<Vec<_>>())
    }

    fn output_of(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let output = command(args).current_dir(self.folder.path()).env_remove("RUGE_DATA").output().expect("runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// Prepares something.
    pub fn silently(&mut self, line: &str) {
        let (code, _, said) = self.output(line);
        assert_eq!(code, Some(0), "{line}: {said}");
    }

    /// Types a line; words are what stands between single spaces.
    pub fn types(&mut self, line: &str) {
        let (code, out, said) = self.output(line);
        self.add(line, &out, &said);
        if code != Some(0) {
            self.text.push_str(&format!("exit code {}\n\n", code.map_or("none".into(), |code| code.to_string())));
        }
    }

    /// Types a line that something is piped into, and keeps what it prints before a heading.
    pub fn types_piped(&mut self, input: &str, line: &str, heading: &str) {
        let mut command = command(&line.split(' ').collect::<Vec<_>>());
        command.current_dir(self.folder.path()).env_remove("RUGE_DATA");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
        child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let (out, said) = (text(output.stdout), text(output.stderr));
        assert!(output.status.success(), "{line}: {said}");
        let first: Vec<&str> = out.lines().take_while(|line| !line.starts_with(heading)).collect();
        self.add(&format!("{line} < a pipe"), &first.join("\n"), &said);
    }

    /// Types a line where there are only so many columns; no line of the result may be longer, except
    /// commands and paths, which would not be found broken.
    pub fn types_narrow(&mut self, line: &str, columns: usize) {
        let mut command = command(&line.split(' ').collect::<Vec<_>>());
        command.current_dir(self.folder.path()).env_remove("RUGE_DATA").env("COLUMNS", columns.to_string());
        let output = command.output().expect("runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let (out, said) = (text(output.stdout), text(output.stderr));
        assert!(output.status.success(), "{line}: {said}");
        for shown in out.lines().filter(|shown| !["ruge ", "/", "data sha256"].iter().any(|part| shown.contains(part)))
        {
            assert!(shown.chars().count() <= columns, "{line}: {shown:?}\n{out}");
        }
        self.add(line, &out, &said);
    }

    /// The same for words that hold spaces.
    pub fn types_words(&mut self, words: &[&str]) {
        let (_, out, said) = self.output_of(words);
        let quoted = |word: &&str| if word.contains(' ') { format!("'{word}'") } else { word.to_string() };
        let line = words.iter().map(quoted).collect::<Vec<_>>().join(" ");
        self.add(&line, &out, &said);
    }

    /// Types a line, and keeps what it prints before a heading.
    pub fn types_first(&mut self, line: &str, heading: &str) {
        let (code, out, said) = self.output(line);
        let first: Vec<&str> = out.lines().take_while(|line| !line.starts_with(heading)).collect();
        self.add(line, &first.join("\n"), &said);
        if code != Some(0) {
            self.text.push_str(&format!("exit code {}\n\n", code.map_or("none".into(), |code| code.to_string())));
        }
    }

    /// What a line prints; it must succeed.
    pub fn says(&self, line: &str) -> String {
        let (code, out, said) = self.output(line);
        assert_eq!(code, Some(0), "{line}: {said}");
        out
    }

    /// Types a line with `--json`; the object is shown by its keys, types and the values that are the same every time.
    pub fn asks(&mut self, line: &str) {
        let line = format!("{line} --json");
        let (code, out, said) = self.output(&line);
        assert_eq!(code, Some(0), "{line}: {said}");
        let object: Value = serde_json::from_str(&out).expect("exactly one JSON object");
        let out = serde_json::to_string_pretty(&self.held(&object)).expect("JSON");
        self.add(&line, &out, "");
    }

    fn add(&mut self, line: &str, out: &str, said: &str) {
        self.text.push_str(&format!("$ ruge {line}\n"));
        // Where a paragraph is broken depends on how many digits a time has.
        let said = said.replace(&format!("\n{}", " ".repeat(18)), " ");
        for (text, mark) in [(out, ""), (&said, "stderr: ")] {
            let text = self.redacted(text);
            for line in text.lines() {
                self.text.push_str(format!("{mark}{line}").trim_end());
                self.text.push('\n');
            }
        }
        self.text.push('\n');
    }

    /// Compares with the text in `tests/snapshots`.
    pub fn hold(self, name: &str) {
        self.hold_in("../snapshots", name);
    }

    /// The same in a folder of its own, named from here.
    pub fn hold_in(self, folder: &str, name: &str) {
        insta::with_settings!({ snapshot_path => folder, prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, self.text);
        });
    }

    /// Without times, memory, versions, hashes and, where a model is trained, the digits of decimals.
    fn redacted(&self, text: &str) -> String {
        let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(first) = rest.chars().next() {
            let before = out.strip_suffix('-').unwrap_or(&out);
            let inside = before.chars().next_back().is_some_and(|c| c.is_alphanumeric() || "_/.".contains(c));
            let word = &rest[..rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len())];
            let number = &rest[..rest.find(|c: char| !c.is_ascii_digit() && !".,".contains(c)).unwrap_or(rest.len())];
            let number = number.trim_end_matches([',', '.']);
            if !inside && word.len() >= 16 {
                out.push_str("HASH");
                rest = &rest[word.len()..];
            } else if !inside && first.is_ascii_digit() {
                rest = &rest[number.len()..];
                let unit = rest.trim_start().split(|c: char| !c.is_alphabetic()).next().unwrap_or("");
                match number.split_once('.') {
                    _ if ["s", "ms", "MB", "GB", "kB"].contains(&unit)
                        || rest.starts_with(" a second")
                        || rest.starts_with(" per second") =>
                    {
                        out.push('#')
                    }
                    // The last digits of a float come and go.
                    Some((_, digits)) if self.is_trained && digits.len() > 4 => out.push_str("#.#…"),
                    Some((_, digits)) if self.is_trained => out.push_str(&format!("#.{}", "#".repeat(digits.len()))),
                    _ => out.push_str(number),
                }
            } else {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        out
    }

    /// A value as it may be held: lists by their types, and decimals where a model is trained.
    fn held(&self, value: &Value) -> Value {
        const VOLATILE: [&str; 2] = ["peak_memory_mb", "seconds"];
        match value {
            Value::Object(map) => {
                let held = |(key, value): (&String, &Value)| {
                    let held = if VOLATILE.contains(&key.as_str()) { "number".into() } else { self.held(value) };
                    (key.clone(), held)
                };
                Value::Object(map.iter().map(held).collect())
            }
            Value::Array(list) if list.is_empty() => Value::Array(vec![]),
            Value::Array(_) => shape(std::slice::from_ref(&value)),
            Value::Number(number) if self.is_trained && number.is_f64() => "number".into(),
            Value::String(text) => self.redacted(text).into(),
            other => other.clone(),
        }
    }
}

/// What values that stand in the same place have in common: keys and types.
fn shape(values: &[&Value]) -> Value {
    let objects: Vec<&Map<String, Value>> = values.iter().filter_map(|value| value.as_object()).collect();
    let lists: Vec<&Vec<Value>> = values.iter().filter_map(|value| value.as_array()).collect();
    if !objects.is_empty() && objects.len() + values.iter().filter(|value| value.is_null()).count() == values.len() {
        let mut places: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        objects.iter().flat_map(|map| map.iter()).for_each(|(key, value)| places.entry(key).or_default().push(value));
        let mark = |key: &str, found: usize| if found < objects.len() { format!("{key}?") } else { key.to_string() };
        return Value::Object(places.iter().map(|(key, values)| (mark(key, values.len()), shape(values))).collect());
    }
    if !lists.is_empty() {
        let all: Vec<&Value> = lists.into_iter().flatten().collect();
        return Value::Array(if all.is_empty() { vec![] } else { vec![shape(&all)] });
    }
    let mut types: Vec<&str> = values
        .iter()
        .map(|value| match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            _ => "string",
        })
        .collect();
    types.sort_unstable();
    types.dedup();
    types.join(" or ").into()
}
