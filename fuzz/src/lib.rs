//! The assertions of every fuzz target.
//!
//! Run one with `cargo +nightly fuzz run tsv fuzz/corpus/tsv fuzz/seeds/tsv`. A finding becomes a regression test of
//! the crate it is in, named for what went wrong. This file covers the graph readers, [`made`] all other readers.

pub mod made;

use std::cell::RefCell;
use std::path::Path;

use ruge_kg::io::write::print_triples;
use ruge_kg::io::{FileContents, read_bytes};
use ruge_kg::{Dataset, Format, Header, KgError, Literals, Names, ReadOptions};

type Named = Vec<[String; 3]>;

/// Reads `data` as a file called `name` in every way, then prints the result and reads it again.
///
/// The first byte chooses the options, so that the fuzzer can vary them.
pub fn check_reader(name: &str, data: &[u8]) {
    let [choice, text @ ..] = data else { return };
    // The decoders come from other crates and are tested there; bombs only slow the search down.
    if text.starts_with(b"\x1f\x8b") || text.starts_with(b"\x28\xb5\x2f\xfd") {
        return;
    }
    let header = [Header::Auto, Header::No, Header::Yes][usize::from(choice >> 4) % 3];
    let columns = ["hrt", "htr", "-hrt", "rth-"][usize::from(choice & 3)].parse().expect("an order of columns");
    let strict = ReadOptions { header, columns, literals: Literals::Entities, ..Default::default() };
    let lenient = ReadOptions { lenient: true, ..strict.clone() };
    let in_pieces = ReadOptions { block: 1 + usize::from(choice & 15), ..lenient.clone() };

    let Some((named, contents)) = read(name, text, &lenient) else { return };
    // Each line is a triple, blank, bad or the header; Turtle and quoted CSV may span lines or share one.
    let report = &contents.report;
    if matches!(report.format, Format::Tsv | Format::Whitespace) {
        let header = u64::from(report.header.is_some());
        assert_eq!(report.lines, named.len() as u64 + report.blank_lines + report.bad_lines + header);
    }
    assert!(contents.lines_are_in_order(), "lines go up");
    let (again, pieces) = read(name, text, &in_pieces).expect("read before");
    assert_eq!(named, again, "blocks change nothing");
    assert_eq!(contents.triples, pieces.triples);
    assert_eq!(report.problems, pieces.report.problems);
    match read_bytes(Path::new(name), text, &mut Names::default(), &strict) {
        Ok(strict) => assert_eq!((strict.triples, report.bad_lines), (contents.triples, 0)),
        Err(KgError::BadLines { problems, .. }) => assert_eq!(problems, report.problems),
        Err(error) => panic!("a lenient reader read this: {error}"),
    }
    // Every N-Triples document is a Turtle document, which another parser reads.
    if report.format == Format::NTriples && report.bad_lines == 0 {
        assert_eq!(read("a.ttl", text, &strict).map(|(named, _)| named), Some(named.clone()));
    }
    check_round_trip(&named);
}

fn read(name: &str, text: &[u8], options: &ReadOptions) -> Option<(Named, FileContents)> {
    let mut names = Names::default();
    match read_bytes(Path::new(name), text, &mut names, options) {
        Ok(contents) => Some((in_words(&names, &contents), contents)),
        Err(KgError::Encoding { .. } | KgError::Option(_)) => None,
        Err(error) => panic!("a lenient reader gave up: {error}"),
    }
}

fn in_words(names: &Names, contents: &FileContents) -> Named {
    let words = |triple: &ruge_kg::Triple| {
        [
            names.entities.name(triple.head).to_string(),
            names.relations.name(triple.relation).to_string(),
            names.entities.name(triple.tail).to_string(),
        ]
    };
    contents.triples.iter().map(words).collect()
}

/// Printing and reading again gives the same: always as N-Triples, and as TSV if the names fit.
fn check_round_trip(named: &Named) {
    let mut names = Names::default();
    let triples: Vec<_> = named.iter().map(|[head, relation, tail]| names.triple(head, relation, tail)).collect();
    for (name, format) in [("out.nt", Format::NTriples), ("out.tsv", Format::Tsv)] {
        let mut text = Vec::new();
        match print_triples(&mut text, Path::new(name), format, &names, triples.iter().copied()) {
            Ok(_) => {}
            Err(KgError::Unwritable { .. }) if format == Format::Tsv => continue,
            Err(error) => panic!("{error}"),
        }
        let mut names = Names::default();
        let options = ReadOptions { literals: Literals::Entities, ..Default::default() };
        let contents = read_bytes(Path::new(name), &text, &mut names, &options)
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(&in_words(&names, &contents), named, "{name}");
    }
}

/// Loads a folder whose files are cut from `data` at bytes 0xFF. Loading must end in a data set whose ids have names,
/// or in an error that can be shown.
pub fn check_folder(files: &[&str], data: &[u8]) {
    thread_local! {
        // In memory if the system supports it: a target that waits for a disk finds little.
        static FOLDER: RefCell<tempfile::TempDir> = RefCell::new(
            tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder to write to"),
        );
    }
    let mut parts = data.split(|&byte| byte == 0xff);
    FOLDER.with_borrow(|folder| {
        for file in files {
            let path = folder.path().join(file);
            match parts.next() {
                Some(part) => std::fs::write(path, part).expect("room in the folder"),
                None => drop(std::fs::remove_file(path)),
            }
        }
        for lenient in [false, true] {
            match Dataset::load(folder.path(), &ReadOptions { lenient, ..Default::default() }) {
                Ok((data, report)) => {
                    for split in [data.train(), data.valid(), data.test()] {
                        assert!(split.iter().all(|&triple| data.show(triple).iter().all(|name| !name.is_empty())));
                    }
                    let read: usize = report.files.iter().map(|file| file.triples).sum();
                    let kept = data.train().len() + data.valid().len() + data.test().len();
                    let repeated: usize = report.duplicates.iter().map(|duplicates| duplicates.count).sum();
                    assert_eq!(read, kept + repeated, "nothing is lost uncounted");
                    assert!(!report.notes().iter().any(String::is_empty));
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    });
}

trait Ordered {
    fn lines_are_in_order(&self) -> bool;
}

impl Ordered for FileContents {
    fn lines_are_in_order(&self) -> bool {
        let lines = (0..self.triples.len()).map(|index| self.lines.line(index));
        lines.clone().zip(lines.skip(1)).all(|(line, next)| line <= next)
            && self.triples.len().checked_sub(1).is_none_or(|last| self.lines.line(last) <= self.report.lines)
    }
}
