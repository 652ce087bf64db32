//! Every reader, and every error a reader can report: the line, the text, and what a lenient reader does instead.

use std::fs;
use std::io::Write;
use std::path::Path;

use ruge_kg::io::{FileContents, folder::Layout, read_bytes, read_file};
use ruge_kg::{Columns, Dataset, Format, Header, KgError, Literals, Names, Problem, ReadOptions, Reason};

type Named = Vec<[String; 3]>;

/// The triples of a text by name, with their lines.
fn words(names: &Names, contents: &FileContents) -> Vec<(u64, [String; 3])> {
    contents
        .triples
        .iter()
        .enumerate()
        .map(|(index, triple)| {
            let words = [
                names.entities.name(triple.head).to_string(),
                names.relations.name(triple.relation).to_string(),
                names.entities.name(triple.tail).to_string(),
            ];
            (contents.lines.line(index), words)
        })
        .collect()
}

fn read(name: &str, text: impl AsRef<[u8]>, options: &ReadOptions) -> Result<(Named, FileContents), KgError> {
    let mut names = Names::default();
    let contents = read_bytes(Path::new(name), text.as_ref(), &mut names, options)?;
    Ok((words(&names, &contents).into_iter().map(|(_, words)| words).collect(), contents))
}

/// Reads text that must be valid.
fn good(name: &str, text: impl AsRef<[u8]>) -> (Named, FileContents) {
    let options = ReadOptions { literals: Literals::Entities, ..Default::default() };
    read(name, text, &options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn triples(list: &[[&str; 3]]) -> Named {
    list.iter().map(|triple| triple.map(str::to_string)).collect()
}

fn problems(name: &str, text: impl AsRef<[u8]>) -> Vec<Problem> {
    match read(name, text, &ReadOptions::default()) {
        Err(KgError::BadLines { problems, .. }) => problems,
        Err(error) => panic!("{name}: {error}"),
        Ok((named, _)) => panic!("{name}: read {named:?}"),
    }
}

/// The only problem: line, text, reason.
fn problem(name: &str, text: impl AsRef<[u8]>) -> (u64, String, Reason) {
    let mut problems = problems(name, text);
    assert_eq!(problems.len(), 1, "{problems:?}");
    let Problem { file, line, text, reason, .. } = problems.remove(0);
    assert_eq!(file, Path::new(name));
    (line, text, reason)
}

fn lenient() -> ReadOptions {
    ReadOptions { lenient: true, ..Default::default() }
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

mod plain_text {
    use super::*;

    #[test]
    fn blank_lines_crlf_and_byte_order_mark_are_noted_not_read() {
        let (named, contents) = good("a.tsv", "\u{feff}a\tr\tb\r\n\r\n  \nb\tr\tc d\r\n");
        assert_eq!(named, triples(&[["a", "r", "b"], ["b", "r", "c d"]]));
        let report = &contents.report;
        assert!(report.bom);
        assert_eq!((report.lines, report.blank_lines, report.crlf_lines), (4, 2, 3));
        assert_eq!(contents.lines.line(1), 4);
    }

    #[test]
    fn headers_are_passed_over_when_they_read_like_one() {
        let (named, contents) = good("a.tsv", "head\trelation\ttail\na\tr\tb\n");
        assert_eq!(named, triples(&[["a", "r", "b"]]));
        assert_eq!(contents.report.header.as_deref(), Some("head\trelation\ttail"));
        assert_eq!(contents.lines.line(0), 2);
        let no = ReadOptions { header: Header::No, ..Default::default() };
        assert_eq!(read("a.tsv", "head\trelation\ttail\n", &no).unwrap().0.len(), 1);
        let yes = ReadOptions { header: Header::Yes, ..Default::default() };
        assert_eq!(read("a.tsv", "x\ty\tz\na\tr\tb\n", &yes).unwrap().0, triples(&[["a", "r", "b"]]));
    }

    #[test]
    fn columns_in_any_order() {
        let options = ReadOptions { columns: "-thr".parse::<Columns>().unwrap().into(), ..Default::default() };
        assert_eq!(read("a.tsv", "0\tT1\tH1\tR1\n", &options).unwrap().0, triples(&[["H1", "R1", "T1"]]));
        assert_eq!(read("a.csv", "0,T1,H1,R1\n", &options).unwrap().0, triples(&[["H1", "R1", "T1"]]));
        assert_eq!(read("a.csv", "0,\"T1\",H1,R1\n", &options).unwrap().0, triples(&[["H1", "R1", "T1"]]));
        assert_eq!(read("a.txt", "0 T1 H1 R1\n", &options).unwrap().0, triples(&[["H1", "R1", "T1"]]));
    }

    #[test]
    fn blanks_around_fields_are_trimmed_and_counted() {
        let (named, contents) = good("a.tsv", " a\tr \t b c \n");
        assert_eq!(named, triples(&[["a", "r", "b c"]]));
        assert_eq!(contents.report.trimmed_fields, 3);
    }

    #[test]
    fn formats_are_told_by_content_where_the_name_is_silent() {
        for (text, format) in [
            ("a\tr\tb c\n", Format::Tsv),
            ("a,r,b\n", Format::Csv(b',')),
            ("a;r;b\nb;r;c\n", Format::Csv(b';')),
            ("a|r|b\n", Format::Csv(b'|')),
            ("a r b\n", Format::Whitespace),
            ("# x\n<a:a> <a:r> <a:b> .\n", Format::NTriples),
            ("@prefix a: <a:> .\na:a a:r a:b .\n", Format::Turtle),
        ] {
            let (named, contents) = good("graph.txt", text);
            assert_eq!(contents.report.format, format, "{text}");
            assert!(!named.is_empty(), "{text}");
        }
    }

    #[test]
    fn wrong_columns() {
        let found = problem("a.tsv", "a\tr\tb\na\tr\n");
        assert_eq!(found, (2, "a⇥r".into(), Reason::Columns { found: 2, expected: 3 }));
        let found = problem("a.tsv", "a\tr\tb\n\na\tr\tb\tc\n");
        assert_eq!(found, (3, "a⇥r⇥b⇥c".into(), Reason::Columns { found: 4, expected: 3 }));
        let found = problem("a.txt", "a r b\na r b c\n");
        assert_eq!(found, (2, "a r b c".into(), Reason::Columns { found: 4, expected: 3 }));
    }

    #[test]
    fn mixed_separators() {
        let found = problem("a.tsv", "a\tr\tb\na,r,c\n");
        assert_eq!(found, (2, "a,r,c".into(), Reason::MixedSeparators { expected: "tab", found: "comma" }));
        let found = problem("a.csv", "a,r,b\nb,r,c\na\tr\tc\n");
        assert_eq!(found, (3, "a⇥r⇥c".into(), Reason::MixedSeparators { expected: "comma", found: "tab" }));
        let found = problem("a.csv", "\"a\",r,b\nb,r,c\na;r;c\n");
        assert_eq!(found, (3, "a;r;c".into(), Reason::MixedSeparators { expected: "comma", found: "semicolon" }));
    }

    #[test]
    fn names_with_blanks_are_no_other_separator() {
        let found = problem("a.csv", "a,r,b\nZoë,wohnt in,Stadt 0,x\n").2;
        assert_eq!(found, Reason::Columns { found: 4, expected: 3 });
        let found = problem("a.csv", "\"a\",r,b\nZoë,wohnt in,Stadt 0,x\n").2;
        assert_eq!(found, Reason::Columns { found: 4, expected: 3 });
        assert_eq!(problem("a.tsv", "a\tr\tb\na\tr, s, t\n").2, Reason::Columns { found: 2, expected: 3 });
    }

    #[test]
    fn other_columns_by_another_separator() {
        let rows = "1;Anna K.;kennt;Ben, Bo;2020\n2;Ben, Bo;kennt;Cleo;2021\n";
        for name in ["a.csv", "a.txt"] {
            let found = problems(name, rows);
            assert!(found.iter().all(|p| p.reason == Reason::Columns { found: 5, expected: 3 }), "{found:?}");
            assert!(found[0].reason.remedy().contains("name another order"));
        }
        let found = problems("a.tsv", rows).remove(0).reason;
        assert_eq!(found.to_string(), "separated by semicolon, while tab was expected; 5 fields instead of 3");
        let remedy = "read it as csv-semicolon, and name the columns to read, for example hrt--";
        assert_eq!(found.remedy(), remedy);
        let options = ReadOptions { columns: "-hrt-".parse().unwrap(), ..Default::default() };
        assert_eq!(read("a.csv", rows, &options).unwrap().0[1], ["Ben, Bo", "kennt", "Cleo"]);
    }

    #[test]
    fn a_whole_file_with_another_separator() {
        for (text, found, remedy) in [
            ("a b,r,c\nc,r,d\n", "comma", "read it as csv"),
            ("a;r;c\nc;r;d\n", "semicolon", "read it as csv-semicolon"),
            ("a|r|c\nc|r|d\n", "bar", "read it as csv-bar"),
            ("a r c\nc r d\n", "blanks", "read it as blanks"),
        ] {
            for problem in problems("a.tsv", text) {
                let reason = Reason::OtherSeparator { expected: "tab", found, fields: 3, wanted: 3 };
                assert_eq!((problem.reason.remedy().as_ref(), &problem.reason), (remedy, &reason));
            }
        }
        let found = problem("a.tsv", "a\tr\tb\na,r,c\n").2;
        assert_eq!(found.remedy(), "use one separator in the whole file");
    }

    #[test]
    fn empty_fields() {
        for (text, field) in [("\tr\tb", "head"), ("a\t \tb", "relation"), ("a\tr\t", "tail")] {
            let (line, _, reason) = problem("a.tsv", format!("a\tr\tb\n{text}\n"));
            assert_eq!((line, reason), (2, Reason::EmptyField { field }));
        }
    }

    #[test]
    fn bytes_that_are_no_text() {
        assert_eq!(problem("a.tsv", b"a\tr\tb\na\tr\tb\xff\n"), (2, "a⇥r⇥b\u{fffd}".into(), Reason::InvalidUtf8));
        assert_eq!(problem("a.tsv", b"a\tr\tb\na\tr\tb\0\n"), (2, "a⇥r⇥b\u{fffd}".into(), Reason::NulByte));
        let options = lenient();
        let (named, contents) = read("a.tsv", b"a\tr\tb\n\xff\tr\tb\nb\tr\tc\n", &options).unwrap();
        assert_eq!(named, triples(&[["a", "r", "b"], ["b", "r", "c"]]));
        assert_eq!(contents.lines.line(1), 3);
    }

    #[test]
    fn a_bad_line_leaves_no_name_behind() {
        let mut names = Names::default();
        read_bytes(Path::new("a.tsv"), b"ghost\tspook\t\na\tr\tb\n", &mut names, &lenient()).unwrap();
        assert_eq!((names.entities.len(), names.relations.len()), (2, 1));
    }

    #[test]
    fn the_strict_reader_stops_at_twenty_and_the_lenient_one_counts_all() {
        let text = "bad\n".repeat(50) + "a\tr\tb\n";
        match read("a.tsv", &text, &ReadOptions::default()) {
            Err(KgError::BadLines { problems, more, .. }) => {
                assert_eq!(problems.len(), 20);
                assert!(more);
                assert_eq!(problems[19].line, 20);
            }
            other => panic!("{other:?}"),
        }
        for name in ["a.tsv", "a.csv", "a.nt", "a.ttl"] {
            let text = "bad .\n".repeat(50);
            match read(name, &text, &ReadOptions::default()) {
                Err(KgError::BadLines { problems, more, .. }) => {
                    assert_eq!((problems.len(), more), (20, true), "{name}")
                }
                other => panic!("{other:?}"),
            }
        }
        let (named, contents) = read("a.tsv", &text, &lenient()).unwrap();
        assert_eq!(named.len(), 1);
        assert_eq!(contents.report.bad_lines, 50);
        assert_eq!(contents.report.bad_by_reason["wrong number of columns"], 50);
        assert_eq!(contents.report.problems.len(), 20);
        assert_eq!(contents.lines.line(0), 51);
    }

    #[test]
    fn long_lines_are_cut_with_a_mark() {
        let (_, text, _) = problem("a.tsv", "x".repeat(5000));
        assert!(text.ends_with("… (5000 bytes)"), "{text}");
    }
}

mod csv {
    use super::*;

    #[test]
    fn quoted_fields_hold_anything() {
        let text = "\"New York, NY\",\"r \"\"x\"\"\",\"two\r\nlines\"\r\n5\" disk,r,b\n a , \" b \" ,c\n";
        let (named, contents) = good("a.csv", text);
        let expected = [["New York, NY", "r \"x\"", "two\r\nlines"], ["5\" disk", "r", "b"], ["a", " b ", "c"]];
        assert_eq!(named, triples(&expected));
        let lines: Vec<u64> = (0..3).map(|index| contents.lines.line(index)).collect();
        assert_eq!(lines, [1, 3, 4]);
        assert_eq!((contents.report.lines, contents.report.crlf_lines), (4, 1));
        assert_eq!(contents.report.trimmed_fields, 2);
    }

    #[test]
    fn headers_blank_lines_and_byte_order_marks() {
        let text = "\u{feff}\"subject\",\"predicate\",\"object\"\r\n\r\n\"a\",\"r\",\"b\"\r\n";
        let (named, contents) = good("a.csv", text);
        assert_eq!(named, triples(&[["a", "r", "b"]]));
        let report = &contents.report;
        assert!(report.bom && report.header.is_some());
        assert_eq!((report.lines, report.blank_lines, report.crlf_lines), (3, 1, 3));
        assert_eq!(contents.lines.line(0), 3);
    }

    #[test]
    fn files_named_csv_may_use_another_separator() {
        for (text, separator) in [
            ("a;r;b, c\nb;r;\"c\"\n", b';'),
            ("a\tr\tb, c\nb\tr\tc\n", b'\t'),
            ("a|r|b\n", b'|'),
            ("\"a;b;c\",r,b\n", b','),
        ] {
            let (named, contents) = good("a.csv", text);
            assert_eq!(contents.report.format, Format::Csv(separator), "{text}");
            assert_eq!(named.len(), text.lines().count());
        }
        let options = ReadOptions { format: Some(Format::Csv(b',')), ..Default::default() };
        assert!(read("a.csv", "a;r;b\n", &options).is_err(), "an explicit separator is not second-guessed");
    }

    #[test]
    fn an_unclosed_quote_is_reported_where_it_opens() {
        let text = "a,r,b\n\"open,r,b\nb,r,c\nc,r,d\n";
        assert_eq!(problem("a.csv", text), (2, "\"open,r,b".into(), Reason::UnclosedQuote));
        let (named, contents) = read("a.csv", text, &lenient()).unwrap();
        assert_eq!(named, triples(&[["a", "r", "b"], ["b", "r", "c"], ["c", "r", "d"]]));
        assert_eq!(contents.lines.line(1), 3);
        assert_eq!(contents.report.lines, 4);
    }

    #[test]
    fn an_unclosed_quote_does_not_swallow_lines_up_to_the_next_quote() {
        // A forgiving parser would read one record of three fields, with a head that spans two lines.
        let text = "\"open,r,b\n\"c\",r,d\n";
        assert_eq!(problem("a.csv", text), (1, "\"open,r,b".into(), Reason::UnclosedQuote));
        assert_eq!(read("a.csv", text, &lenient()).unwrap().0, triples(&[["c", "r", "d"]]));
    }

    #[test]
    fn an_unclosed_quote_in_a_later_line_of_a_record() {
        let text = "\"a\nb\",r,\"open\nc,r,d\n";
        assert_eq!(problem("a.csv", text), (2, "b\",r,\"open".into(), Reason::UnclosedQuote));
        let (named, contents) = read("a.csv", text, &lenient()).unwrap();
        assert_eq!(named, triples(&[["c", "r", "d"]]));
        assert_eq!((contents.report.lines, contents.report.bad_lines), (3, 2), "every line lost is counted");
    }

    #[test]
    fn all_lines_of_a_bad_record_are_counted() {
        let text = "a,r,b\n\"two\nlines\",r\nc,r,d\n";
        let (named, contents) = read("a.csv", text, &lenient()).unwrap();
        assert_eq!(named.len(), 2);
        assert_eq!(contents.report.bad_by_reason["wrong number of columns"], 2);
        assert_eq!(contents.lines.line(1), 4);
    }

    #[test]
    fn other_complaints() {
        let found = problem("a.csv", "\"a\",r,b\n\"a\nb\",r\n");
        assert_eq!(found, (2, "\"a\u{fffd}b\",r".into(), Reason::Columns { found: 2, expected: 3 }));
        let (line, _, reason) = problem("a.csv", "a,r,b\n\"\",r,b\n");
        assert_eq!((line, reason), (2, Reason::EmptyField { field: "head" }));
        let (line, _, reason) = problem("a.csv", b"\"a\",r,b\na,r,\xff\n");
        assert_eq!((line, reason), (2, Reason::InvalidUtf8));
        let (line, _, reason) = problem("a.csv", b"\"a\",r,b\na,r,\0\n");
        assert_eq!((line, reason), (2, Reason::NulByte));
    }

    #[test]
    fn a_separator_must_be_able_to_separate() {
        for byte in [b'"', b'\n', b'\r', 0, 0x80, 0xff] {
            let options = ReadOptions { format: Some(Format::Csv(byte)), ..Default::default() };
            assert!(matches!(read("a.csv", "é", &options), Err(KgError::Option(_))), "{byte}");
        }
    }
}

mod rdf {
    use super::*;

    const DATA: &str = "# a comment\n<http://e.org/a> <http://e.org/r> <http://e.org/b> .\r\n\n\
        _:x <http://e.org/r> \"te\\\"xt\"@EN .   # and another\n\
        <urn:ruge:New%20York> <urn:ruge:is> \"5\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n\
        <http://e.org/\\u00e9> <http://e.org/r> \"plain\" .";

    #[test]
    fn ntriples_become_names() {
        let (named, contents) = good("a.nt", DATA);
        let expected = [
            ["http://e.org/a", "http://e.org/r", "http://e.org/b"],
            ["_:x", "http://e.org/r", "\"te\\\"xt\"@en"],
            ["New York", "is", "\"5\"^^<http://www.w3.org/2001/XMLSchema#integer>"],
            ["http://e.org/é", "http://e.org/r", "\"plain\""],
        ];
        assert_eq!(named, triples(&expected));
        let lines: Vec<u64> = (0..4).map(|index| contents.lines.line(index)).collect();
        assert_eq!(lines, [2, 4, 5, 6]);
        let report = &contents.report;
        assert_eq!((report.lines, report.blank_lines, report.crlf_lines), (6, 2, 1));
        assert_eq!(good("a.ttl", DATA).0, named, "N-Triples is a part of Turtle");
    }

    #[test]
    fn bad_statements_of_ntriples() {
        for bad in [
            "<http://e.org/a> <http://e.org/r> .",
            "<http://e.org/a> <http://e.org/r> <http://e.org/b>",
            "\"a\" <http://e.org/r> <http://e.org/b> .",
            "<http://e.org/a> _:r <http://e.org/b> .",
            "<relative> <http://e.org/r> <http://e.org/b> .",
            "<http://e.org/a> <http://e.org/r> \"open .",
            "<http://e.org/a> <http://e.org/r> <http://e.org/b> . <http://e.org/a> <http://e.org/r> <http://e.org/c> .",
            "<<( <http://e.org/a> <http://e.org/r> <http://e.org/b> )>> <http://e.org/r> <http://e.org/b> .",
            "<http://e.org/a> <http://e.org/r> << <http://e.org/a> <http://e.org/r> <http://e.org/b> >> .",
            "\\ \u{7f} }",
        ] {
            let text = format!("<a:a> <a:r> <a:b> .\n\n{bad}\n<a:b> <a:r> <a:c> .\n");
            let found = problems("a.nt", &text);
            assert_eq!(found.len(), 1, "{bad}");
            assert_eq!(found[0].line, 3, "{bad}");
            assert!(matches!(found[0].reason, Reason::Rdf(_) | Reason::RelativeIri(_)), "{bad}");
            assert!(found[0].to_string().contains(&bad[..4]) || bad.starts_with('\\'), "{bad}");
            let (named, contents) = read("a.nt", &text, &lenient()).unwrap();
            assert_eq!(named, triples(&[["a:a", "a:r", "a:b"], ["a:b", "a:r", "a:c"]]), "{bad}");
            assert_eq!(contents.lines.line(1), 4);
        }
        assert_eq!(problem("a.nt", b"<a:a> <a:r> \"\xff\" .\n").2, Reason::InvalidUtf8);
        assert_eq!(problem("a.nt", b"<a:a> <a:r> \"\0\" .\n").2, Reason::NulByte);
    }

    #[test]
    fn bare_carriage_returns_end_statements_too() {
        let (named, contents) = good("a.nt", "<a:a> <a:r> <a:b> .\r<a:b> <a:r> <a:c> .\n<a:c> <a:r> <a:d> .\n");
        assert_eq!(named.len(), 3);
        assert_eq!([0, 1, 2].map(|index| contents.lines.line(index)), [1, 1, 2]);
    }

    #[test]
    fn turtle_with_all_its_abbreviations() {
        let text = "@prefix e: <http://e.org/> .\nPREFIX f: <http://f.org/>\n@base <http://b.org/> .\n\n\
            e:a a f:Thing ;\n    e:r e:b ,\n        <c> ;\n    e:n 5 , true , '''long\n\ntext''' .\n# comment\n\
            e:d e:list (e:x) .\ne:d e:r [ e:r e:y ] , _:b1 .\n";
        let (named, contents) = good("a.ttl", text);
        let rdf = |name: &str| format!("http://www.w3.org/1999/02/22-rdf-syntax-ns#{name}");
        let (first, rest, nil, kind) = (rdf("first"), rdf("rest"), rdf("nil"), rdf("type"));
        let xsd = |name: &str| format!("^^<http://www.w3.org/2001/XMLSchema#{name}>");
        let (five, truth) = (format!("\"5\"{}", xsd("integer")), format!("\"true\"{}", xsd("boolean")));
        let e = |name: &str| format!("http://e.org/{name}");
        let mut expected: Vec<[String; 3]> = vec![
            [e("a"), kind, "http://f.org/Thing".into()],
            [e("a"), e("r"), e("b")],
            [e("a"), e("r"), "http://b.org/c".into()],
            [e("a"), e("n"), five],
            [e("a"), e("n"), truth],
            [e("a"), e("n"), "\"long\\n\\ntext\"".into()],
            [e("d"), e("list"), "_:anon1".into()],
            ["_:anon1".into(), first, e("x")],
            ["_:anon1".into(), rest, nil],
            [e("d"), e("r"), "_:anon2".into()],
            ["_:anon2".into(), e("r"), e("y")],
            [e("d"), e("r"), "_:b1".into()],
        ];
        let mut found = named.clone();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        assert_eq!(good("a.ttl", text).0, named, "nameless nodes are named alike in every run");
        let line_of = |tail: &str| {
            let index = named.iter().position(|triple| triple[2] == tail).unwrap();
            contents.lines.line(index)
        };
        assert_eq!([line_of("http://f.org/Thing"), line_of(&e("b")), line_of("http://b.org/c")], [5, 6, 7]);
        assert_eq!(line_of("_:b1"), 13);
        assert_eq!(contents.report.lines, 13);
        assert_eq!(contents.report.blank_lines, 2, "the blank line in the literal is none");
    }

    #[test]
    fn nameless_nodes_avoid_names_in_use() {
        let mut names = Names::default();
        let options = ReadOptions::default();
        let text = "_:anon2 <a:r> [] .\n_:a <a:r> _:ff .\n";
        let mut read = |text: &str| {
            let contents = read_bytes(Path::new("a.ttl"), text.as_bytes(), &mut names, &options).unwrap();
            words(&names, &contents).into_iter().map(|(_, words)| words).collect::<Vec<_>>()
        };
        assert_eq!(read(text), triples(&[["_:anon2", "a:r", "_:anon1"], ["_:a", "a:r", "_:ff"]]));
        // A second file of the same data set has different anonymous nodes.
        assert_eq!(read("<a:a> <a:r> [], [] .\n"), triples(&[["a:a", "a:r", "_:anon3"], ["a:a", "a:r", "_:anon4"]]));
    }

    #[test]
    fn bad_turtle() {
        let text = "@prefix e: <http://e.org/> .\ne:a e:r e:b .\n\ne:a e:r nonsense:b .\ne:b e:r e:c .\n";
        let (line, shown, reason) = problem("a.ttl", text);
        assert_eq!((line, shown.as_str()), (4, "e:a e:r nonsense:b ."));
        assert!(matches!(reason, Reason::Rdf(message) if message.contains("nonsense")));
        let (named, contents) = read("a.ttl", text, &lenient()).unwrap();
        assert_eq!(named.len(), 2);
        assert_eq!(contents.report.bad_lines, 1);
        for bad in
            ["e:a", "<< e:a e:r e:b >> e:r e:c .", "e:a e:r \"open", "e:a e:r '''open\n\n\n", "\\", "<http://e.org/a"]
        {
            let text = format!("@prefix e: <http://e.org/> .\n{bad}");
            let found = problems("a.ttl", &text);
            assert!(found.iter().all(|problem| problem.line == 2), "{bad}: {found:?}");
            read("a.ttl", &text, &lenient()).unwrap();
        }
        assert_eq!(problem("a.ttl", b"<a:a> <a:r> <a:b> .\n<a:a> <a:r> \"\xff\" .").2, Reason::InvalidUtf8);
    }

    #[test]
    fn a_long_literal_takes_no_quadratic_time() {
        let text = format!("<a:a> <a:r> \"\"\"{}\"\"\" .\n<a:a> <a:r> <a:b> .\n", "line\n".repeat(200_000));
        let (named, contents) = good("a.ttl", &text);
        assert_eq!(named.len(), 2);
        assert_eq!(contents.report.lines, 200_002);
    }
}

mod bombs;
mod folders;
mod graphs;
mod tables;

mod files {
    use super::*;

    #[test]
    fn compressed_and_plain_read_alike() {
        let text: String = (0..5000).map(|i| format!("entity {}\trelation {}\tentity {i}\n", i / 7, i % 5)).collect();
        let plain = good("a.tsv", &text);
        for (packed, compression) in [
            (gzip(text.as_bytes()), ruge_kg::io::Compression::Gzip),
            (zstd::encode_all(text.as_bytes(), 1).unwrap(), ruge_kg::io::Compression::Zstd),
            ([gzip(&text.as_bytes()[..100]), gzip(&text.as_bytes()[100..])].concat(), ruge_kg::io::Compression::Gzip),
        ] {
            let (named, contents) = good("a.tsv", &packed);
            assert_eq!(named, plain.0);
            assert_eq!(contents.triples, plain.1.triples);
            assert_eq!(contents.report.compression, compression);
            assert_eq!(good("a.csv", &packed).1.report.compression, compression);
        }
    }

    #[test]
    fn damaged_compression_is_said_to_be_damaged() {
        let text = "a\tr\tb\n".repeat(100_000);
        let cut = gzip(text.as_bytes());
        let mut damaged = zstd::encode_all(text.as_bytes(), 1).unwrap();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 0x55;
        damaged.truncate(damaged.len() - 1);
        for (bytes, expected) in [(&cut[..cut.len() / 2], "gzip"), (&damaged, "zstd"), (&cut[..2], "gzip")] {
            for name in ["a.tsv", "a.csv", "a.nt", "a.ttl", "a.txt"] {
                match read(name, bytes, &ReadOptions::default()) {
                    Err(KgError::Compressed { format, .. }) => assert_eq!(format, expected),
                    other => panic!("{name}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn other_encodings_are_named() {
        for (start, encoding) in
            [(&b"\xff\xfea\0"[..], "UTF-16"), (b"\xfe\xff\0a", "UTF-16"), (b"\xff\xfe\0\0", "UTF-32")]
        {
            match read("a.tsv", start, &ReadOptions::default()) {
                Err(error @ KgError::Encoding { encoding: found, .. }) => {
                    assert_eq!(found, encoding);
                    assert!(error.to_string().contains("iconv"));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn empty_and_missing_files() {
        let folder = folder(&[("empty.tsv", ""), ("comments.nt", "# nothing\n")]);
        for name in ["empty.tsv", "comments.nt"] {
            let path = folder.path().join(name);
            assert!(matches!(Dataset::load(&path, &ReadOptions::default()), Err(KgError::Empty { .. })), "{name}");
        }
        for name in ["missing.tsv", "missing/graph.tsv"] {
            match Dataset::load(&folder.path().join(name), &ReadOptions::default()) {
                Err(error @ KgError::Io { .. }) => assert!(error.to_string().contains("remedy")),
                other => panic!("{other:?}"),
            }
        }
        let directory = read_file(folder.path(), &mut Names::default(), &ReadOptions::default());
        assert!(matches!(directory, Err(KgError::Io { action: "read triples from a folder", .. })));
    }

    #[test]
    fn a_single_file_is_split_and_its_repetitions_are_told() {
        let folder = folder(&[("graph.tsv", "a\tr\tb\n\na\tr\tb\nb\tr\ta\n")]);
        let (data, report) = Dataset::load(&folder.path().join("graph.tsv"), &ReadOptions::default()).unwrap();
        assert!(report.split_here);
        assert_eq!(data.train().len() + data.valid().len() + data.test().len(), 2);
        assert_eq!(report.duplicates[0].count, 1);
        assert_eq!(report.duplicates[0].first[0].1, 3);
    }

    #[test]
    fn every_reason_has_a_remedy_and_a_kind() {
        let folder = folder(&[("train.tsv", "a\tr\n")]);
        let error = Dataset::load(folder.path(), &ReadOptions::default()).unwrap_err().to_string();
        assert!(error.contains("train.tsv:1: 2 fields instead of 3"), "{error}");
        assert!(error.contains("remedy: "), "{error}");
    }
}
