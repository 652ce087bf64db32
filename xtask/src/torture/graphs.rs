//! Degenerate graphs through every command that reads one: an answer or a message, and models that open.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::case::{Kind, Verdict, Yard};
use super::process::Call;
use super::world::words;

/// Command chains; if one command fails, later ones that read its files are skipped. `ASK` queries the first training
/// triple.
const CHAINS: &[(&str, &[&str])] = &[
    ("check", &["check g", "check g --json", "check g --lenient"]),
    (
        "mine",
        &[
            "mine g --min-head-size 1 --min-pca 0.01 --out m.tsv",
            "ground g --rules m.tsv --out gr.tsv",
            "rules verify g --rules m.tsv",
        ],
    ),
    ("mine-long", &["mine g --min-head-size 1 --max-body 3 --constants --min-pca 0.01 --time-limit 5s --out m.tsv"]),
    ("paper", &["train g --dim 4 --epochs 2 --out run", "ASK", "eval run", "complete run --top 5"]),
    ("guided", &["train g --guidance ruge --dim 4 --epochs 2 --out run", "ASK", "eval run --split train"]),
    (
        "softmax",
        &[
            "train g --preset complex-n3-rules --dim 4 --epochs 2 --out run",
            "ASK",
            "eval run --by-relation",
            "combine run --out both",
        ],
    ),
    ("hole", &["train g --model hole --dim 4 --epochs 2 --out run", "ASK", "eval run --split valid"]),
    ("rotate", &["train g --preset rotate --dim 4 --epochs 2 --out run", "ASK", "export run --to npy --out e"]),
    ("transe", &["train g --preset transe --dim 4 --epochs 2 --out run", "ASK", "export run --to pykeen --out e"]),
    ("ptranse", &["train g --model transe --guidance ptranse --dim 4 --epochs 2 --out run", "ASK", "eval run"]),
    ("rules", &["train g --model rules --out run", "ASK", "eval run", "complete run --top 5"]),
    (
        "run",
        &["run g --dim 4 --epochs 2 --out run", "ASK", "run g --dim 4 --epochs 2 --out run", "rules consistency run"],
    ),
];

/// A graph: its name, and train, valid, test (`None` for a split without a file).
type Graph = (&'static str, [Option<Vec<u8>>; 3]);

fn graphs() -> Vec<Graph> {
    let text = |lines: &[&str]| lines.join("\n").into_bytes();
    let only = |train: Vec<u8>| [Some(train), None, None];
    let many = |number: usize, line: fn(usize) -> String| (0..number).map(line).collect::<String>().into_bytes();
    let thrice = |name: &str| {
        let line = |head: &str, tail: &str| format!("{head}\tr\t{tail}\n");
        let train = [line(name, "b"), line("b", "c"), line("c", name)].concat().into_bytes();
        [Some(train), Some(line("b", name).into_bytes()), Some(line(name, "c").into_bytes())]
    };
    let long = "n".repeat(1_000_000);
    vec![
        ("empty", only(Vec::new())),
        ("one", only(text(&["a\tr\tb"]))),
        ("two", only(text(&["a\tr\tb", "b\tr\ta"]))),
        ("blank-lines", only(b"\n\n \n\t\t\n".to_vec())),
        (
            "one-relation",
            [
                Some(many(40, |i| format!("e{i}\tr\te{}\n", (i * 7 + 1) % 40))),
                Some(text(&["e1\tr\te2"])),
                Some(text(&["e2\tr\te3"])),
            ],
        ),
        (
            "loops",
            [Some(many(20, |i| format!("e{i}\tr\te{i}\n"))), Some(text(&["e1\tr\te2"])), Some(text(&["e2\tr\te2"]))],
        ),
        ("one-loop", only(text(&["a\tr\ta"]))),
        ("duplicates", only(many(500, |_| "a\tr\tb\n".to_string()))),
        (
            "star",
            [
                Some(many(300, |i| format!("hub\tr\te{i}\n"))),
                Some(text(&["e1\tr\thub"])),
                Some(text(&["hub\tr\te299"])),
            ],
        ),
        (
            "clique",
            [
                Some(many(900, |i| format!("e{}\tr\te{}\n", i / 30, i % 30))),
                Some(text(&["e1\tr\te2"])),
                Some(text(&["e1\tr\te3"])),
            ],
        ),
        (
            "own-relations",
            [
                Some(many(200, |i| format!("e{i}\tr{i}\te{}\n", (i + 1) % 200))),
                Some(text(&["e1\tr5\te2"])),
                Some(text(&["e1\tr6\te3"])),
            ],
        ),
        ("entity-is-relation", only(text(&["r\tr\tr", "r\ts\tr", "s\tr\ts", "s\ts\tr"]))),
        ("long-name", thrice(&long)),
        ("spaces", thrice("   ")),
        ("controls", thrice("a\u{1}\u{7}\u{8}\u{1b}[2J\u{7f}\u{85}")),
        ("backwards", thrice("\u{202e}abc\u{202c}")),
        ("nul", thrice("a\0b")),
        ("dashes", thrice("--help")),
        ("quotes", thrice("\"'`$(x)\\<&>")),
        ("invalid", [Some(b"a\tr\t\xff\xfe\n".to_vec()), None, None]),
        (
            "unseen",
            [
                Some(text(&["a\tr\tb", "b\tr\tc", "c\tr\ta"])),
                Some(text(&["x\ty\tz"])),
                Some(text(&["u\tv\tw", "a\tr\tq"])),
            ],
        ),
        (
            "empty-valid",
            [
                Some(many(60, |i| format!("e{}\tr{}\te{}\n", i % 11, i % 3, i % 7))),
                Some(Vec::new()),
                Some(text(&["e1\tr1\te2"])),
            ],
        ),
        (
            "empty-test",
            [
                Some(many(60, |i| format!("e{}\tr{}\te{}\n", i % 11, i % 3, i % 7))),
                Some(text(&["e1\tr1\te2"])),
                Some(Vec::new()),
            ],
        ),
        ("valid-is-train", [Some(text(&["a\tr\tb", "b\tr\tc"])), Some(text(&["a\tr\tb"])), Some(text(&["a\tr\tb"]))]),
        ("train-empty", [Some(Vec::new()), Some(text(&["a\tr\tb"])), Some(text(&["a\tr\tb"]))]),
    ]
}

/// Terminal sequences in the names of `controls` and `backwards`.
const ESCAPES: &[&str] = &["\u{1b}[2J", "\u{7}", "\u{8}", "\u{202e}"];

/// Commands that print names.
const SHOWN: &[&str] = &[
    "check g",
    "check g --columns htr",
    "train g --dim 4 --epochs 1 --out run",
    "predict run --queries ask.tsv",
    "eval run --by-relation",
    "complete run --top 9",
    "predict run --head nobody --relation r",
    "mine g --min-head-size 1 --min-pca 0.01 --constants",
];

/// Names that would clear the screen, ring the bell or reverse lines on a terminal must be shown as marks.
fn on_a_terminal(yard: &Yard<'_>) -> Result<()> {
    if std::process::Command::new("script").arg("--version").output().is_err() {
        yard.skip("terminal", "no `script` to lend a terminal");
        return Ok(());
    }
    let names = ["controls", "backwards"];
    let graphs: Vec<Graph> = graphs().into_iter().filter(|(name, _)| names.contains(name)).collect();
    let cases: Vec<_> = graphs.into_iter().map(|(name, files)| (format!("terminal/{name}"), files)).collect();
    yard.try_all(&cases, |name, files, folder| {
        lay_out(files, folder)?;
        let mut verdict = Verdict::new();
        for line in SHOWN {
            let output = yard.ruge.on_a_terminal(line, folder)?;
            for escape in ESCAPES.iter().filter(|escape| output.contains(**escape)) {
                verdict.push((Kind::Wrong, format!("{name}: `ruge {line}` sends {escape:?} to the terminal")));
            }
        }
        Ok(verdict)
    })
}

/// Additional random graphs, for long attacks.
const RANDOM: usize = 400;

/// Tries every chain on every graph.
pub fn attack(yard: &Yard<'_>) -> Result<()> {
    let mut cases = Vec::new();
    for (name, files) in graphs() {
        for (chain, lines) in CHAINS {
            cases.push((format!("{chain}/{name}"), (files.clone(), *lines)));
        }
    }
    yard.random("order").shuffle(&mut cases);
    for number in 0..RANDOM {
        for (chain, lines) in CHAINS {
            cases.push((format!("{chain}/random-{number}"), (random(yard, number), *lines)));
        }
    }
    on_a_terminal(yard)?;
    yard.try_all(&cases, |name, (files, lines), folder| attempt(yard, name, files, lines, folder))
}

/// A small graph derived from the seed: few or many entities and relations, loops and repetitions.
fn random(yard: &Yard<'_>, number: usize) -> [Option<Vec<u8>>; 3] {
    let mut random = yard.random(&format!("graph {number}"));
    let (entities, relations) = (1 + random.below(12), 1 + random.below(5));
    let mut split = |most: usize| {
        let lines = random.below(most);
        let line = |random: &mut super::random::Random| {
            format!("e{}\tr{}\te{}\n", random.below(entities), random.below(relations), random.below(entities))
        };
        Some((0..lines).map(|_| line(&mut random)).collect::<String>().into_bytes())
    };
    [split(60), split(8), split(8)]
}

fn attempt(
    yard: &Yard<'_>,
    name: &str,
    files: &[Option<Vec<u8>>; 3],
    lines: &[&str],
    folder: &Path,
) -> Result<Verdict> {
    lay_out(files, folder)?;
    let mut verdict = Verdict::new();
    for line in lines {
        let asks = *line == "ASK";
        let line = if asks { "predict run --queries ask.tsv" } else { line };
        let arguments = words(&format!("{line} --threads 1"));
        let mut call = Call::new(&arguments, folder);
        call.memory = Some(4_096);
        call.limit = Duration::from_secs(20);
        let outcome = yard.ruge.call(&call)?;
        verdict.extend(outcome.verdict(&format!("{name}: `ruge {line}`")));
        if !outcome.success() {
            if asks {
                verdict.push((Kind::Unusable, format!("{name}: the model does not open: {}", outcome.last_words())));
            }
            if line.starts_with("train") || line.starts_with("run") || line.starts_with("mine") {
                break;
            }
        }
    }
    Ok(verdict)
}

/// Writes the graph, and `ask.tsv`, which queries the tail of its first training triple.
fn lay_out(files: &[Option<Vec<u8>>; 3], folder: &Path) -> Result<()> {
    let graph = folder.join("g");
    std::fs::create_dir_all(&graph)?;
    for (file, text) in ["train.tsv", "valid.tsv", "test.tsv"].iter().zip(files) {
        if let Some(text) = text {
            std::fs::write(graph.join(file), text)?;
        }
    }
    let train = files[0].clone().unwrap_or_default();
    let first: Vec<&[u8]> =
        train.split(|&byte| byte == b'\n').next().unwrap_or_default().split(|&byte| byte == b'\t').collect();
    if let [head, relation, _] = first[..] {
        std::fs::write(folder.join("ask.tsv"), [head, b"\t", relation, b"\t?\n"].concat())?;
    }
    Ok(())
}
