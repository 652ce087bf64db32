//! Input larger than it looks: endless lines, archives that unpack to more than memory, millions of copies. The limits
//! are lowered, so that small inputs reach them.

use std::io::Read;

use ruge_kg::io::Limits;

use super::*;

fn limited(line: usize, lenient: bool) -> ReadOptions {
    let limits = Limits { line, name: line / 2, ..Limits::default() };
    ReadOptions { limits, lenient, block: 16, literals: Literals::Entities, ..Default::default() }
}

fn with_memory(memory: u64) -> ReadOptions {
    ReadOptions { limits: Limits { memory: Some(memory), ..Limits::default() }, ..Default::default() }
}

/// `size` copies of a byte between two pieces of text, compressed as a stream.
fn zstd_bomb(before: &str, byte: u8, size: u64, after: &str) -> Vec<u8> {
    let text = before.as_bytes().chain(std::io::repeat(byte).take(size)).chain(after.as_bytes());
    zstd::encode_all(text, 1).unwrap()
}

fn gzip_bomb(before: &str, byte: u8, size: u64, after: &str) -> Vec<u8> {
    let mut text = before.as_bytes().chain(std::io::repeat(byte).take(size)).chain(after.as_bytes());
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::copy(&mut text, &mut encoder).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_line_without_an_end_is_named_in_every_format() {
    let good = [("a.tsv", "a\tr\tb\n"), ("a.csv", "a,r,b\n"), ("a.nt", "<a:a> <a:r> <a:b> .\n"), ("a.txt", "a r b\n")];
    for (name, first) in good {
        for bomb in [zstd_bomb(first, b'x', 16 << 20, "\n"), gzip_bomb(first, b'x', 16 << 20, "\n")] {
            assert!(bomb.len() < 1 << 20, "small to look at");
            let format = (name == "a.txt").then_some(Format::Whitespace);
            let strict = ReadOptions { format, ..limited(1 << 16, false) };
            match read(name, &bomb, &strict) {
                Err(KgError::BadLines { problems, .. }) => {
                    assert_eq!(problems.len(), 1);
                    assert_eq!((problems[0].line, &problems[0].reason), (2, &Reason::LongLine { most: 1 << 16 }));
                    assert!(problems[0].text.len() < 1000);
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        // A lenient reader continues after it, with the right line numbers.
        let rest = format!("\n{}", first.replace('b', "c"));
        let (named, contents) = read(name, zstd_bomb(first, b'x', 1 << 20, &rest), &limited(1 << 12, true)).unwrap();
        assert_eq!((named.len(), contents.lines.line(1)), (2, 3), "{name}");
        assert_eq!((contents.report.bad_lines, contents.report.bad_by_reason["line too long"]), (1, 1), "{name}");
        assert_eq!(contents.report.lines, 3, "{name}");
    }
}

#[test]
fn what_is_told_of_long_lines_does_not_depend_on_blocks_or_threads() {
    let long = "x".repeat(300);
    let text = format!("{long}\na\tr\tb\n{long}\t{long}\t{long}\nc\tr\td\n{}\n{long}{long}", "y".repeat(64));
    let told = |block: usize, threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let options = ReadOptions { block, ..limited(256, true) };
        let (named, contents) = pool.install(|| read("a.tsv", &text, &options)).unwrap();
        let problems: Vec<String> = contents.report.problems.iter().map(Problem::to_string).collect();
        (named, problems, contents.report.lines, contents.report.bad_by_reason)
    };
    let expected = told(1, 1);
    assert_eq!((expected.0.len(), expected.1.len(), expected.2), (2, 4, 6));
    for (block, threads) in [(1, 3), (7, 1), (64, 2), (4096, 1), (4096, 4)] {
        assert_eq!(told(block, threads), expected, "{block} {threads}");
    }
}

#[test]
fn a_quote_that_is_never_closed_is_not_read_to_the_end_of_the_file() {
    let text = format!("a,\"r\",b\nc,\"open,d\n{}e,r,f\n", "g,r,h\n".repeat(1000));
    let (named, contents) = read("a.csv", &text, &limited(512, true)).unwrap();
    assert_eq!(named.len(), 1002);
    assert_eq!(contents.report.problems[0].reason, Reason::UnclosedQuote);
    assert_eq!((contents.report.problems[0].line, contents.report.bad_lines), (2, 1));
    assert_eq!(contents.lines.line(1001), 1003);
    // A record with line ends in it may be as long as a line.
    let inside = format!("a,\"{}\",b\nc,r,d\n", "x\n".repeat(100));
    assert_eq!(read("a.csv", &inside, &limited(512, false)).unwrap().0.len(), 2);
    let (named, contents) = read("a.csv", &inside, &limited(64, true)).unwrap();
    assert_eq!((named, contents.report.lines), (triples(&[["c", "r", "d"]]), 102));
}

#[test]
fn names_that_are_too_long_are_bad_lines() {
    let long = "n".repeat(200);
    for (name, text, field) in [
        ("a.tsv", format!("a\tr\tb\na\tr\t{long}\n"), "tail"),
        ("a.csv", format!("a,\"r\",b\n\"{long}\",r,b\n"), "head"),
        ("a.nt", format!("<a:a> <a:r> <a:b> .\n<a:a> <a:{long}> <a:b> .\n"), "relation"),
        ("a.nt", format!("<a:a> <a:r> <a:b> .\n<a:a> <a:r> \"{long}\"@en .\n"), "tail"),
        ("a.ttl", format!("<a:a> <a:r> <a:b> .\n<a:a> <a:r> \"{long}\"@en .\n"), "tail"),
    ] {
        match read(name, &text, &limited(300, false)) {
            Err(KgError::BadLines { problems, .. }) => {
                assert_eq!(
                    (problems[0].line, &problems[0].reason),
                    (2, &Reason::LongName { field, most: 150 }),
                    "{name}"
                );
            }
            other => panic!("{name}: {other:?}"),
        }
        let (named, contents) = read(name, &text, &limited(300, true)).unwrap();
        assert_eq!((named.len(), contents.report.bad_lines), (1, 1), "{name}");
    }
}

#[test]
fn a_statement_of_turtle_without_an_end_is_an_error() {
    for open in ["\"\"\"", "\"", "<a:"] {
        let text = format!("<a:a> <a:r> <a:b> .\n<a:a> <a:r> {open}");
        for lenient in [false, true] {
            match read("a.ttl", zstd_bomb(&text, b'x', 32 << 20, "\n"), &limited(1 << 17, lenient)) {
                Err(KgError::BadLines { problems, .. }) => {
                    assert!(matches!(problems[0].reason, Reason::LongLine { .. }), "{problems:?}");
                    assert_eq!(problems[0].line, 2);
                }
                other => panic!("{open}: {other:?}"),
            }
        }
    }
    // A file without line ends is still Turtle.
    let one_line: String = (0..20_000).map(|i| format!("<a:{i}> <a:r> <a:ü> . ")).collect();
    let (named, contents) = read("a.ttl", &one_line, &limited(1 << 12, false)).unwrap();
    assert_eq!((named.len(), contents.report.lines, contents.lines.line(19_999)), (20_000, 1, 1));
    assert_eq!(named[19_999][2], "a:ü");
}

#[test]
fn labels_of_blank_nodes_are_found_wherever_the_text_is_cut() {
    // More than one window of text with labels throughout: a generated label must never equal one of the file.
    let mut text: String = (0..60_000).map(|i| format!("_:anon{i} <a:r> [] .\n")).collect();
    text.push_str("_:abc <a:r> _:ffffffffffffffffffffffffffffffff .\n");
    let (named, _) = good("a.ttl", &text);
    let tails: std::collections::BTreeSet<&String> = named.iter().take(60_000).map(|[_, _, tail]| tail).collect();
    assert_eq!(tails.len(), 60_000, "every node without a name gets one of its own");
    assert!(named.iter().all(|[head, ..]| !tails.contains(head)));
    assert_eq!(named[60_000][2], "_:ffffffffffffffffffffffffffffffff");
}

#[test]
fn a_dictionary_that_unpacks_to_more_than_memory_is_said_to_be_too_large() {
    let folder = folder(&[("relation2id.txt", "1\nr 0\n"), ("train2id.txt", "1\n0 0 0\n")]);
    for (name, bomb, format) in [
        ("entity2id.txt.gz", gzip_bomb("1\n", b' ', 64 << 20, "a 0\n"), "gzip"),
        ("entity2id.txt.zst", zstd_bomb("1\n", b' ', 64 << 20, "a 0\n"), "zstd"),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, bomb).unwrap();
        match Dataset::load(folder.path(), &with_memory(16 << 20)) {
            Err(error @ KgError::TooLarge { packed, .. }) => {
                assert_eq!(packed, Some(format));
                let text = error.to_string();
                assert!(text.contains("unpacks to more than 8.4 MB") && !text.contains("download"), "{text}");
            }
            other => panic!("{other:?}"),
        }
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn memory_that_is_missing_is_an_error_with_the_arithmetic() {
    let text: String = (0..20_000).map(|i| format!("entity {i}\trelation\tentity {}\n", i + 1)).collect();
    for memory in [10_000, 100_000, 300_000, 1 << 20] {
        let folder = folder(&[("train.tsv", &text)]);
        let options = ReadOptions { block: 1 << 12, ..with_memory(memory) };
        match Dataset::load(folder.path(), &options) {
            Err(error @ KgError::Memory { .. }) => {
                assert!(error.to_string().contains("not enough memory: needs about"), "{error}");
            }
            other => panic!("{memory}: {other:?}"),
        }
    }
    let folder = folder(&[("train.tsv", &text)]);
    assert_eq!(Dataset::load(folder.path(), &with_memory(64 << 20)).unwrap().0.train().len(), 20_000);
}

#[test]
fn more_names_than_there_are_numbers_is_an_error() {
    let limits = Limits { names: 4, ..Limits::default() };
    let options = ReadOptions { limits, ..Default::default() };
    for (name, text) in [
        ("a.tsv", "a\tr\tb\nc\tr\td\ne\tr\tf\n"),
        ("a.csv", "a,\"r\",b\nc,r,d\ne,r,f\n"),
        ("a.ttl", "<a:a> <a:r> <a:b>, <a:c>, <a:d>, <a:e> .\n"),
    ] {
        let result = read(name, text, &options);
        assert!(matches!(result, Err(KgError::TooMany { what: "entities", most: 4 })), "{name}: {result:?}");
    }
    assert_eq!(read("a.tsv", "a\tr\tb\nc\tr\td\na\tr\td\n", &options).unwrap().0.len(), 3);
}

#[test]
fn copies_by_the_million_are_dropped_and_counted() {
    // The same triples again and again, first in one block, then further apart than any block.
    let once: String = (0..50).map(|i| format!("a\tr\tb{i}\n")).collect();
    let text = format!("{}\n{}", "a\tr\tb0\n".repeat(30_000), once.repeat(2000));
    for packed in [zstd::encode_all(text.as_bytes(), 1).unwrap(), text.clone().into_bytes()] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("train.tsv"), packed).unwrap();
        let limits = Limits { repeats: Some(1000), ..Limits::default() };
        let few = ReadOptions { limits, block: 64, ..Default::default() };
        let never = ReadOptions { limits: Limits { repeats: Some(usize::MAX), ..limits }, ..few.clone() };
        let ((few, told), (all, expected)) =
            (Dataset::load(folder.path(), &few).unwrap(), Dataset::load(folder.path(), &never).unwrap());
        assert_eq!(few.train(), all.train());
        assert_eq!((told.read, told.notes()), (expected.read, expected.notes()));
        assert_eq!((told.read[0], told.duplicates[0].count), (130_000, 129_950));
        assert_eq!(told.duplicates[0].first, expected.duplicates[0].first);
        assert_eq!(told.duplicates[0].first[0].1, 2);
        // There is room for a few thousand triples: enough for the distinct ones, not for the copies.
        let tight = ReadOptions { limits: Limits { memory: Some(150_000), ..limits }, block: 64, ..Default::default() };
        assert_eq!(Dataset::load(folder.path(), &tight).unwrap().0.train(), all.train());
    }
}
