//! Names that would drive a terminal.

use std::fs;
use std::path::Path;

use super::text;
use tempfile::TempDir;

/// Clears the screen, retitles the window, turns text around, hides, and ends a line.
pub const NAMES: [&str; 6] = [
    "\u{1b}[2Jclear",
    "\u{1b}]0;title\u{7}",
    "\u{202e}gnp.exe",
    "zero\u{200b}width",
    "\u{9b}31mc1",
    "\u{2066}iso\u{2069}",
];

/// A small graph of such names, and a folder for what is made of it.
pub fn world() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut triples = String::new();
    for (at, head) in NAMES.iter().enumerate() {
        for step in 1..4 {
            let tail = NAMES[(at + step) % NAMES.len()];
            triples.push_str(&format!("{head}\tr\u{1b}[31m\t{tail}\n{tail}\tback\u{202e}\t{head}\n"));
        }
    }
    let path = folder.path().join("graph.tsv");
    fs::write(&path, triples).unwrap();
    let path = path.to_str().unwrap().to_string();
    (folder, path)
}

/// A model of it.
pub fn trained(folder: &Path, graph: &str) -> String {
    let out = folder.join("run").to_str().unwrap().to_string();
    text(&["train", graph, "--model", "complex", "--dim", "4", "--epochs", "1", "--quiet", "--out", &out]);
    out
}

/// Whether a terminal would do anything with it but show it.
pub fn drives(text: &str) -> bool {
    text.chars().any(|c| c != '\n' && c != '\t' && ruge_kg::visible::is_marked(c))
}
