//! parse ∘ print = id, for any names, compression, number of threads and block size.

use std::io::Write;
use std::path::Path;

use proptest::prelude::*;
use ruge_kg::io::write::{print_triples, write_triples};
use ruge_kg::io::{FileContents, read_bytes, read_file};
use ruge_kg::{Format, KgError, Literals, Names, ReadOptions, Triple};

type Named = Vec<[String; 3]>;

fn interned(named: &[[String; 3]]) -> (Names, Vec<Triple>) {
    let mut names = Names::default();
    let triples = named.iter().map(|[head, relation, tail]| names.triple(head, relation, tail)).collect();
    (names, triples)
}

fn in_words(names: &Names, triples: &[Triple]) -> Named {
    let words = |triple: &Triple| {
        [
            names.entities.name(triple.head).to_string(),
            names.relations.name(triple.relation).to_string(),
            names.entities.name(triple.tail).to_string(),
        ]
    };
    triples.iter().map(words).collect()
}

fn printed(named: &[[String; 3]], format: Format) -> Result<Vec<u8>, KgError> {
    let (names, triples) = interned(named);
    let mut out = Vec::new();
    let count = print_triples(&mut out, Path::new("out"), format, &names, triples.into_iter())?;
    assert_eq!(count, named.len());
    Ok(out)
}

/// What is written as a literal is read as one.
fn all() -> ReadOptions {
    ReadOptions { literals: Literals::Entities, ..Default::default() }
}

fn parsed(name: &str, text: &[u8]) -> Named {
    let mut names = Names::default();
    let contents = read_bytes(Path::new(name), text, &mut names, &all())
        .unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(text)));
    in_words(&names, &contents.triples)
}

/// Names that some parser might misread.
fn nasty() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "\\PC{1,12}",
        2 => proptest::collection::vec(any::<char>(), 1..6).prop_map(String::from_iter),
        2 => "[ab<>\"'%\\\\_:@#.,; ^-]{1,8}",
        1 => "_:[a-f0-9.]{1,6}",
        1 => "\"[a-c\\\\\" ]{0,5}\"(@[a-zA-Z-]{1,5}|\\^\\^<[a-z]{1,3}:[a-z%0-9]{1,4}>)?",
        1 => "(http|urn|urn:ruge|é):[/a-zé%0-9A-F ]{0,8}",
        1 => prop::sample::select(vec![
            "head", "relation", "tail", "s", "p", "o", "#", "@prefix", " ", "\u{feff}", "\u{feff}a", "\r", "\n", "\t",
            "\0", "urn:ruge:", "urn:ruge:%FF", "urn:ruge:%41", "_:", "_:a.", "\"", "\"\"", "<>", "a\r", " a", "a ",
            "\u{a0}", "\u{2028}", "\u{85}", "\u{fffe}", "\u{e000}", "a:b", "a:", "\"x\"@EN",
            "\"x\"^^<http://www.w3.org/2001/XMLSchema#string>", "\"\u{7f}\"", "\"a\\u0041\"", "a> .\n<b:c",
        ]).prop_map(String::from),
    ]
}

/// N-Triples terms, most of them valid.
fn term() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "<[a-z]{1,3}:[a-z/#?%0-9é.]{0,6}>",
        1 => "<[a-z: \\\\u0041<>{}\"^`|\\PC]{0,6}>",
        1 => "_:[a-z0-9.-]{1,3}",
        1 => "\"[a-z\\\\n ]{0,4}\"(@en)?",
    ]
}

fn graph(names: impl Strategy<Value = String>) -> impl Strategy<Value = Named> {
    (proptest::collection::vec(names, 1..12), proptest::collection::vec(any::<[prop::sample::Index; 3]>(), 1..20))
        .prop_map(|(names, picks)| {
            picks.iter().map(|pick| pick.each_ref().map(|index| index.get(&names).clone())).collect()
        })
}

/// Names that the writer accepts, stated independently of it.
fn fits_tsv(name: &str) -> bool {
    !name.is_empty()
        && name.trim_matches(' ') == name
        && !name.contains(['\t', '\r', '\n', '\0'])
        && !name.starts_with('\u{feff}')
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn tsv(named in graph(nasty())) {
        match printed(&named, Format::Tsv) {
            Ok(text) => prop_assert_eq!(parsed("a.tsv", &text), named),
            Err(KgError::Unwritable { name, .. }) => prop_assert!(!fits_tsv(&name), "{:?}", name),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }

    #[test]
    fn tsv_holds_all_that_fits(named in graph(nasty().prop_filter("", |name| fits_tsv(name)))) {
        let text = printed(&named, Format::Tsv).unwrap();
        prop_assert_eq!(parsed("a.tsv", &text), named);
    }

    #[test]
    fn ntriples(named in graph(nasty())) {
        let text = printed(&named, Format::NTriples).unwrap();
        prop_assert_eq!(parsed("a.nt", &text), named.clone());
        // Every N-Triples document is a Turtle document.
        prop_assert_eq!(parsed("a.ttl", &text), named.clone());
        let again = printed(&parsed("a.nt", &text), Format::NTriples).unwrap();
        prop_assert_eq!(text, again);
    }

    #[test]
    fn ntriples_as_its_twin_reads_them(
        terms in [term(), term(), term()],
        spaces in ["[ ]{0,2}", "[ ]{0,2}", "[ ]?", "[ ]?[.]?[ ]?"],
    ) {
        let ([head, relation, tail], [a, b, c, end]) = (terms, spaces);
        let line = format!("{head}{a}{relation}{b}{tail}{c}{end}");
        let statements: Result<Vec<_>, _> = oxttl::NTriplesParser::new().for_slice(&line).collect();
        let mut names = Names::default();
        let read = read_bytes(Path::new("a.nt"), line.as_bytes(), &mut names, &all());
        match (statements, read) {
            (Ok(statements), Ok(contents)) => {
                let bare = |term: String| match term.strip_prefix('<') {
                    Some(iri) => iri[..iri.len() - 1].to_string(),
                    None => term,
                };
                let expected: Named = statements
                    .iter()
                    .map(|s| [s.subject.to_string(), s.predicate.to_string(), s.object.to_string()].map(bare))
                    .collect();
                prop_assert_eq!(in_words(&names, &contents.triples), expected);
            }
            (Err(_), Err(KgError::BadLines { .. })) => {}
            (twin, read) => return Err(TestCaseError::fail(format!("{line}\n{twin:?}\n{read:?}"))),
        }
    }

    #[test]
    fn csv_as_its_twin_writes_it(named in graph(nasty()), always_quoted: bool) {
        let style = if always_quoted { csv::QuoteStyle::Always } else { csv::QuoteStyle::Necessary };
        let mut writer = csv::WriterBuilder::new().quote_style(style).from_writer(Vec::new());
        writer.write_record(["head", "relation", "tail"]).unwrap();
        for triple in &named {
            writer.write_record(triple).unwrap();
        }
        let text = writer.into_inner().unwrap();
        // Unquoted, the twin keeps blanks that this reader trims; NUL is always refused.
        prop_assume!(!text.contains(&0));
        prop_assume!(always_quoted || named.iter().flatten().all(|name| name.trim_matches(' ') == name));
        prop_assert_eq!(parsed("a.csv", &text), named);
    }
}

proptest! {
    // Fewer cases, since each one waits for the disk.
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn plain_gzip_and_zstd_alike(named in graph(nasty())) {
        let folder = tempfile::tempdir().unwrap();
        let (names, triples) = interned(&named);
        let mut read = Vec::new();
        for name in ["a.nt", "a.nt.gz", "a.nt.zst"] {
            let path = folder.path().join(name);
            write_triples(&path, Format::NTriples, &names, triples.iter().copied()).unwrap();
            let mut names = Names::default();
            let contents = read_file(&path, &mut names, &all()).unwrap();
            prop_assert_eq!(in_words(&names, &contents.triples), named.clone());
            read.push((contents.triples, contents.report.lines));
        }
        prop_assert!(read.iter().all(|one| *one == read[0]));
        prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "no draft is left behind");
    }
}

#[test]
fn a_name_that_does_not_fit_is_named() {
    let mut names = Names::default();
    let triple = names.triple("a", "r", "tab\there");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tsv");
    std::fs::write(&path, "as it was").unwrap();
    match write_triples(&path, Format::Tsv, &names, [triple].into_iter()) {
        Err(KgError::Unwritable { what: "entity", name, format: "TSV", .. }) => assert_eq!(name, "tab\there"),
        other => panic!("{other:?}"),
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"as it was", "a failed write changes nothing");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(matches!(
        write_triples(&folder.path().join("no/such/a.tsv"), Format::Tsv, &names, [triple].into_iter()),
        Err(KgError::Io { .. })
    ));
    assert!(matches!(write_triples(&path, Format::Turtle, &names, [triple].into_iter()), Err(KgError::Option(_))));
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (names, triples) = interned(&[["a", "r", "b"].map(String::from)]);
    let (file, link) = (folder.path().join("file.tsv"), folder.path().join("link.tsv"));
    std::fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    write_triples(&link, Format::Tsv, &names, triples.into_iter()).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::read(&file).unwrap(), b"a\tr\tb\n");
}

/// All results of reading a file.
fn everything(name: &str, text: &[u8], block: usize, threads: usize) -> impl PartialEq + std::fmt::Debug + use<> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let options = ReadOptions { lenient: true, block, ..all() };
    let mut names = Names::default();
    let contents: FileContents = pool.install(|| read_bytes(Path::new(name), text, &mut names, &options)).unwrap();
    let lines: Vec<u64> = (0..contents.triples.len()).map(|index| contents.lines.line(index)).collect();
    let report = contents.report;
    let counts = [report.lines, report.blank_lines, report.crlf_lines, report.trimmed_fields, report.bad_lines];
    let entities: Vec<String> = names.entities.iter().map(|(_, name)| name.to_string()).collect();
    let relations: Vec<String> = names.relations.iter().map(|(_, name)| name.to_string()).collect();
    (contents.triples, lines, counts, entities, relations, report.problems, report.header, report.bom)
}

/// Good, bad, blank and padded lines in a fixed order.
fn mixed(line: impl Fn(usize) -> String) -> Vec<u8> {
    let mut text = b"\xef\xbb\xbf".to_vec();
    for i in 0..700 {
        match i * 7919 % 23 {
            0 => text.extend(b"\n"),
            1 => text.extend(b"\r\n"),
            2 => text.extend(b"nonsense\n"),
            3 => text.extend(b"bad \xff bytes\n"),
            4 => text.extend(b"NUL \0 here\n"),
            5 => writeln!(text, "{}\r", line(i)).unwrap(),
            _ => writeln!(text, "{}", line(i)).unwrap(),
        }
    }
    text
}

#[test]
fn threads_and_blocks_change_nothing() {
    let pick = |i: usize| (i * i % 41, i % 5, i * 31 % 67);
    let tsv = mixed(|i| {
        let (h, r, t) = pick(i);
        format!("e{h}\tr{r}\t e{t}")
    });
    let csv: Vec<u8> = tsv.iter().map(|&byte| if byte == b'\t' { b',' } else { byte }).collect();
    let ntriples = mixed(|i| {
        let (h, r, t) = pick(i);
        format!("<e:{h}> <r:{r}> \"{t}\" .")
    });
    let headed = [b"head\trelation\ttail\r\n", &tsv[3..]].concat();
    for (name, text) in [("a.tsv", &tsv), ("a.csv", &csv), ("a.nt", &ntriples), ("headed.tsv", &headed)] {
        let expected = everything(name, text, 1 << 20, 1);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        let gzip = gzip.finish().unwrap();
        for threads in [1, 2, 8] {
            for block in [1, 7, 100, 4096] {
                assert_eq!(
                    everything(name, text, block, threads),
                    expected,
                    "{name}, {block} bytes, {threads} threads"
                );
                assert_eq!(
                    everything(name, &gzip, block, threads),
                    expected,
                    "{name}.gz, {block} bytes, {threads} threads"
                );
            }
        }
    }
}

#[test]
fn a_strict_reader_complains_alike_whatever_the_blocks() {
    let text = mixed(|i| format!("e{i}\tr\te"));
    let complaint = |block| {
        let options = ReadOptions { block, ..all() };
        match read_bytes(Path::new("a.tsv"), &text, &mut Names::default(), &options) {
            Err(error @ KgError::BadLines { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    for block in [1, 50, 1000] {
        assert_eq!(complaint(block), complaint(1 << 20));
    }
}

/// Regression: tabs in names that span lines were once counted as separators.
#[test]
fn tabs_in_quoted_names_do_not_separate() {
    let named: Named = vec![["\n\t".into(), "\n\t".into(), "\n\t".into()]];
    let text = b"head,relation,tail\n\"\n\t\",\"\n\t\",\"\n\t\"\n";
    assert_eq!(parsed("a.csv", text), named);
}
