//! Small inputs of every format for mutation, and bombs: small files that stand for large ones.

use std::path::Path;

use anyhow::{Context, Result};

use super::jobs::typed;
use super::process::{Call, Ruge};
use super::world;

/// Compresses bytes.
type Wrap = fn(&[u8]) -> Vec<u8>;

/// Files that belong together, and the commands that read them.
pub struct Seed {
    /// Its name in the table.
    pub group: &'static str,
    /// Names and bytes; one file is mutated.
    pub files: Vec<(String, Vec<u8>)>,
    /// Commands, one of which is chosen per case.
    pub lines: Vec<&'static str>,
    /// How the bytes are wrapped after mutation.
    pub wrap: Option<Wrap>,
}

/// Triples in the single-file formats.
fn texts() -> Vec<(&'static str, &'static str, &'static str)> {
    vec![
        (
            "tsv",
            "a.tsv",
            "Paris\tcapital_of\tFrance\nLyon\tin\tFrance\nFrance\tborders\tItaly\nRome\tcapital_of\tItaly\n",
        ),
        ("tsv", "b.txt", "head relation tail\na r b\nb r c\nc s a\nd s b\n"),
        ("csv", "a.csv", "subject,predicate,object\na,r,\"b, c\"\n\"d \"\"e\"\"\",r,a\nb,s,\"line\nbreak\"\n"),
        ("csv", "b.csv", "a;r;b\nb;r;\"c;d\"\nc;s;a\n"),
        (
            "ntriples",
            "a.nt",
            "<http://a/x> <http://a/p> <http://a/y> .\n_:b1 <http://a/p> \"text\\u0041\"@en .\n\
             <http://a/y> <http://a/q> \"3\"^^<http://www.w3.org/2001/XMLSchema#integer> . # remark\n",
        ),
        (
            "turtle",
            "a.ttl",
            "@prefix a: <http://a/> .\n@base <http://b/> .\na:x a:p a:y , [ a:q ( 1 2.5 \"z\" ) ] ; a a:Class .\n\
             <c> a:p \"\"\"long\ntext\"\"\"@de , true , -1.0e3 .\n",
        ),
    ]
}

/// Every seed. The program itself makes models, rules in all formats and specs in `folder`.
pub fn all(ruge: &Ruge, folder: &Path) -> Result<Vec<Seed>> {
    const CHECK: [&str; 3] = ["check FILE", "check FILE --lenient", "check FILE --columns htr --header no --lenient"];
    let mut seeds = Vec::new();
    for (group, name, text) in texts() {
        let files = vec![(name.to_string(), text.as_bytes().to_vec())];
        seeds.push(Seed { group, files, lines: CHECK.to_vec(), wrap: None });
    }
    let tsv = texts()[0].2.as_bytes();
    let packings: [(_, _, Wrap); 2] = [("gzip", "a.tsv.gz", gzip), ("zstd", "a.tsv.zst", zstd)];
    for (group, name, pack) in packings {
        // Mutated inside the compression, and outside.
        seeds.push(Seed {
            group,
            files: vec![(name.to_string(), tsv.to_vec())],
            lines: CHECK.to_vec(),
            wrap: Some(pack),
        });
        seeds.push(Seed { group, files: vec![(name.to_string(), pack(tsv))], lines: CHECK.to_vec(), wrap: None });
    }
    let folder_of = |files: &[(&str, &str)]| {
        files.iter().map(|(name, text)| (format!("data/{name}"), text.as_bytes().to_vec())).collect::<Vec<_>>()
    };
    let openke = folder_of(&[
        ("entity2id.txt", "3\na\t0\nb\t1\nc\t2\n"),
        ("relation2id.txt", "2\nr\t0\ns\t1\n"),
        ("train2id.txt", "3\n0\t1\t0\n1\t2\t1\n2\t0\t0\n"),
        ("valid2id.txt", "1\n0\t2\t1\n"),
        ("test2id.txt", "1\n1\t0\t0\n"),
    ]);
    seeds.push(Seed { group: "openke", files: openke, lines: vec!["check data", "check data --lenient"], wrap: None });
    let libkge = folder_of(&[
        (
            "dataset.yaml",
            "dataset:\n  files.train.filename: train.del\n  files.valid.filename: valid.del\n  files.test.filename: test.del\n  num_entities: 3\n  num_relations: 2\n",
        ),
        ("entity_ids.del", "0\ta\n1\tb\n2\tc\n"),
        ("relation_ids.del", "0\tr\n1\ts\n"),
        ("train.del", "0\t0\t1\n1\t1\t2\n2\t0\t0\n"),
        ("valid.del", "0\t1\t2\n"),
        ("test.del", "1\t0\t0\n"),
    ]);
    seeds.push(Seed { group: "libkge", files: libkge, lines: vec!["check data", "check data --lenient"], wrap: None });
    seeds.extend(made(ruge, folder)?);
    Ok(seeds)
}

/// Rule formats, as named by `ruge rules convert`.
const RULE_FORMATS: [&str; 12] = [
    "native",
    "ruge",
    "amie",
    "anyburl",
    "amie-anyburl",
    "rnnlogic",
    "rpje",
    "nne-aer",
    "kale",
    "prolog",
    "text",
    "json",
];

/// Models and rules that seeds are taken from and commands use: `m`, `guided`, `combined`.
pub fn make(ruge: &Ruge, folder: &Path) -> Result<()> {
    world::build(folder)?;
    for line in [
        "train g --dim 4 --epochs 3 --validate-every 1 --checkpoint-every 0 --out m",
        "train g --preset complex-n3-rules --rules rules.tsv --dim 4 --epochs 2 --out guided",
        "combine m --rules rules.tsv --out combined",
    ] {
        ruge.must(&typed(line), folder)?;
    }
    Ok(())
}

fn made(ruge: &Ruge, folder: &Path) -> Result<Vec<Seed>> {
    make(ruge, folder)?;
    let mut seeds = Vec::new();
    // Each format has rules it cannot express: without counts, with two premises, with a confidence below 1.
    ruge.must(&typed("mine g --min-head-size 1 --min-pca 0.3 --out mined.tsv"), folder)?;
    std::fs::write(folder.join("hard.tsv"), "?a  parent_of  ?b   => ?b  child_of  ?a\t1\n")?;
    for format in RULE_FORMATS {
        let said = ["mined.tsv", "rules.tsv", "hard.tsv"].iter().find_map(|rules| {
            let arguments = typed(&format!("rules convert {rules} --to {format} --data g"));
            let outcome = ruge.call(&Call::new(&arguments, folder)).ok()?;
            (outcome.success() && !outcome.output.is_empty()).then_some(outcome.output)
        });
        let bytes = said.with_context(|| format!("no rules can be written as {format}"))?;
        let lines = vec!["ground g --rules FILE", "rules convert FILE --to json", "rules verify g --rules FILE"];
        seeds.push(Seed { group: "rules", files: vec![("rules.x".to_string(), bytes)], lines, wrap: None });
    }
    let read = |name: &str| std::fs::read(folder.join(name));
    let toml = |group, bytes: Vec<u8>, lines: &[&'static str]| Seed {
        group,
        files: vec![("mutated.toml".to_string(), bytes)],
        lines: lines.to_vec(),
        wrap: None,
    };
    const TRAIN: &str = "train g --spec FILE --dim 4 --epochs 1 --out out";
    seeds.push(toml("spec", read("m/spec.toml")?, &[TRAIN]));
    seeds.push(toml("spec", read("guided/spec.toml")?, &[TRAIN]));
    seeds.push(toml("space", read("space.toml")?, &["search g --spec FILE --trials 1 --out out"]));
    let one = |group, name: &str, text: &str, lines: &[&'static str]| Seed {
        group,
        files: vec![(name.to_string(), text.as_bytes().to_vec())],
        lines: lines.to_vec(),
        wrap: None,
    };
    let queries = "person-1\tcitizen_of\t?\n?\tlives_in\ttown-1\nperson-1\t?\tland-1\n{\"head\": \"person-2\", \"relation\": \"lives_in\"}\n";
    const ASK: [&str; 2] = ["predict m --queries FILE --lenient", "predict m --queries FILE --to jsonl --top 2"];
    seeds.push(one("queries", "queries.tsv", queries, &ASK));
    seeds.push(one(
        "queries",
        "names.txt",
        "land-1\nland-0\ntown-1\n",
        &["predict m --head person-1 --relation citizen_of --candidates FILE"],
    ));
    let facts = "someone\tlives_in\ttown-1\nsomeone\tparent_of\tperson-1\n";
    seeds.push(one("queries", "facts.tsv", facts, &["predict m --head someone --relation citizen_of --with FILE"]));
    for model in ["m", "guided", "combined"] {
        let files = vec![(format!("{model}/model.safetensors"), read(&format!("{model}/model.safetensors"))?)];
        let lines = vec!["eval FILE", "predict FILE --head person-1 --relation citizen_of"];
        seeds.push(Seed { group: "model", files, lines, wrap: None });
    }
    let files = vec![("m/checkpoint.safetensors".to_string(), read("m/checkpoint.safetensors")?)];
    seeds.push(Seed { group: "checkpoint", files, lines: vec!["train g --out m --resume"], wrap: None });
    Ok(seeds)
}

/// Small files that stand for large ones: name, bytes, command.
pub fn bombs() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let triples = b"Paris\tcapital_of\tFrance\n";
    vec![
        ("line.tsv.zst", zstd_of_one_byte(b'a', 10_000_000_000), "check FILE"),
        ("line.csv.zst", zstd_of_one_byte(b'a', 3_000_000_000), "check FILE"),
        ("line.ttl.zst", zstd_of_one_byte(b'a', 3_000_000_000), "check FILE"),
        ("nest.ttl.zst", zstd_of_one_byte(b'[', 1_000_000_000), "check FILE"),
        ("blank.tsv.zst", zstd_of_one_byte(b'\n', 300_000_000), "check FILE"),
        ("line.tsv.gz", gzip_of(b"a", 2_000_000_000), "check FILE"),
        ("same.tsv.gz", gzip_of(triples, 800_000_000), "check FILE"),
        ("same.csv.gz", gzip_of(b"a,r,b\n", 300_000_000), "check FILE"),
        ("quote.csv.gz", gzip_of(b"\"a\n", 300_000_000), "check FILE"),
        ("same.nt.gz", gzip_of(b"<a:a> <a:r> <a:b> .\n", 300_000_000), "check FILE"),
        ("same.ttl.gz", gzip_of(b"<a:a> <a:r> <a:b> .\n", 300_000_000), "check FILE"),
        ("eleven.rules", eleven(), "ground demo --rules FILE"),
        ("eleven-verified.rules", eleven(), "rules verify demo --rules FILE"),
        ("eleven-ranked.rules", eleven(), "train demo --model rules --rules FILE --out out"),
        ("line.json", [&b"{\"head\": \""[..], &b"a".repeat(200_000_000)].concat(), "predict m --queries FILE"),
        ("nest.json", b"[".repeat(5_000_000), "predict m --queries FILE"),
        ("nest.rules.json", [&b"{\"rules\":"[..], &b"[".repeat(5_000_000)].concat(), "rules convert FILE --to text"),
        ("nest.toml", [&b"a = "[..], &b"[".repeat(1_000_000)].concat(), "train g --spec FILE --out out"),
        ("header.safetensors", [&u64::MAX.to_le_bytes()[..], b"{}"].concat(), "eval FILE"),
    ]
}

/// A rule with eleven premises, a walk over borders: each multiplies the groundings by ten.
fn eleven() -> Vec<u8> {
    let premise = |at: u8| format!("borders({},{})", char::from(b'a' + at), char::from(b'b' + at));
    let premises: Vec<String> = (0..11).map(premise).collect();
    format!("{} => borders(a,l)  0.9\n", premises.join(" & ")).into_bytes()
}

/// A gzip file of stored blocks.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = bytes.chunks(60_000).peekable();
    if bytes.is_empty() {
        out.extend([1, 0, 0, 255, 255]);
    }
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        out.push(u8::from(blocks.peek().is_none()));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(block);
    }
    out.extend(crc32(bytes.iter().copied()).to_le_bytes());
    out.extend((bytes.len() as u32).to_le_bytes());
    out
}

fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    let step = |crc: u32, byte: u8| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 })
    };
    !bytes.fold(u32::MAX, step)
}

/// A gzip file that repeats `piece`, by matches of 258 bytes. Its checksum is wrong, which shows only after unpacking
/// everything.
fn gzip_of(piece: &[u8], length: u64) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut bits = Bits::default();
    bits.push(0b011, 3); // The last block, with the fixed codes.
    for &byte in piece {
        bits.push_code(0x30 + u32::from(byte), 8); // Literals below 144.
    }
    // Distances with their own codes: 1 to 4; from 5 on with one extra bit for every two codes.
    let distance = piece.len() as u32;
    let (code, extra, count) = if distance <= 4 {
        (distance - 1, 0, 0)
    } else {
        let count = (distance - 1).ilog2() - 1;
        let code = 2 * (count + 1) + (((distance - 1) >> count) & 1);
        (code, (distance - 1) & ((1 << count) - 1), count)
    };
    for _ in 0..length / 258 {
        bits.push_code(0b1100_0101, 8); // 285: 258 bytes.
        bits.push_code(code, 5);
        bits.push(extra, count);
    }
    bits.push_code(0, 7); // The end of the block.
    out.extend(bits.end());
    out.extend([0; 8]);
    out
}

/// Bits as packed by deflate, lowest first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    held: u64,
    count: u32,
}

impl Bits {
    fn push(&mut self, value: u32, count: u32) {
        self.held |= u64::from(value) << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.held as u8);
            self.held >>= 8;
            self.count -= 8;
        }
    }

    /// Codes are written highest bit first.
    fn push_code(&mut self, code: u32, count: u32) {
        self.push(code.reverse_bits() >> (32 - count), count);
    }

    fn end(mut self) -> Vec<u8> {
        self.push(0, (8 - self.count) % 8);
        self.bytes
    }
}

const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A zstd file of raw blocks: a window of 128 KB, no size, no checksum.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut out = [&ZSTD[..], &[0x00, 0x38]].concat();
    let mut blocks = bytes.chunks(100_000).peekable();
    if bytes.is_empty() {
        out.extend([1, 0, 0]);
    }
    while let Some(block) = blocks.next() {
        let header = (block.len() as u32) << 3 | u32::from(blocks.peek().is_none());
        out.extend(&header.to_le_bytes()[..3]);
        out.extend(block);
    }
    out
}

/// A zstd file that repeats one byte: four bytes for every 128 KB.
fn zstd_of_one_byte(byte: u8, length: u64) -> Vec<u8> {
    let mut out = [&ZSTD[..], &[0x00, 0x38]].concat();
    let blocks = length / 131_072;
    for block in 0..blocks {
        let header = 131_072_u32 << 3 | 1 << 1 | u32::from(block + 1 == blocks);
        out.extend(&header.to_le_bytes()[..3]);
        out.push(byte);
    }
    out
}
