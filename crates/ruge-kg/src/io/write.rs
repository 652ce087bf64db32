//! Triples onto disk: tab-separated text, and N-Triples for everyone else's tools.
//!
//! What is written here reads back as the same names in the same order. TSV refuses a name it cannot hold; N-Triples
//! holds them all: a name that is an RDF term is written as that term, any other becomes an IRI under `urn:ruge:`.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oxttl::NTriplesParser;

use super::rdf::{self, PLAIN};
use super::{Format, looks_like_header};
use crate::error::KgError;
use crate::triple::{EntityId, RelationId, Triple};
use crate::vocabulary::Names;

/// Writes triples to a file, compressed if its name ends in `.gz` or `.zst`; returns how many.
pub fn write_triples(
    path: &Path,
    format: Format,
    names: &Names,
    triples: impl Iterator<Item = Triple>,
) -> Result<usize, KgError> {
    replace_file(path, |file| write_compressed(file, path, format, names, triples))
}

/// Gives a file new content: complete or not at all.
///
/// It is written beside its place under another name, and moved there when the disk has it. What is no plain file (a
/// pipe, a terminal) is written to directly. `write` hands the file back when it has written everything.
pub fn replace_file<T, E: From<KgError>>(
    path: &Path,
    write: impl FnOnce(File) -> Result<(File, T), E>,
) -> Result<T, E> {
    let target = target_of(path);
    let special = fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
    if special {
        let file = OpenOptions::new().write(true).open(&target).map_err(KgError::io(path, "write"))?;
        return Ok(write(file)?.1);
    }
    let (draft, file) = Draft::begin(&target).map_err(KgError::io(path, "write"))?;
    let (file, result) = write(file)?;
    file.sync_all().map_err(KgError::io(path, "write"))?;
    drop(file);
    fs::rename(&draft.path, &target).map_err(KgError::io(path, "write"))?;
    // The move itself should survive a power cut too; not every file system lets a folder be synced.
    if let Some(folder) = target.parent().and_then(|folder| File::open(folder).ok()) {
        let _ = folder.sync_all();
    }
    Ok(result)
}

/// Removes what [`replace_file`] left of files in a folder when it was killed; what a living process may be writing stays.
pub fn remove_drafts(folder: &Path, files: &[&str]) -> Result<(), KgError> {
    for file in files {
        let target = target_of(&folder.join(file));
        let (Some(folder), Some(file)) = (target.parent(), target.file_name().and_then(|name| name.to_str())) else {
            continue;
        };
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let name = path.file_name().map_or_else(Default::default, |name| name.to_string_lossy());
            if !Draft::writer(&name, file).is_some_and(|process| is_left(&path, process)) {
                continue;
            }
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(KgError::io(&path, "remove")(error));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Through a link to the file it means, which is to be replaced, not the link.
fn target_of(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Whether nobody writes a draft any more: its process is gone, or it was not touched for a while, since in another container
/// or on another machine processes have numbers of their own.
fn is_left(path: &Path, process: u32) -> bool {
    let known = Path::new("/proc/self").exists();
    let gone = known && !Path::new("/proc").join(process.to_string()).exists();
    let touched = fs::metadata(path).and_then(|metadata| metadata.modified());
    let rests = touched.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > Duration::from_secs(600)));
    gone || rests || process == std::process::id()
}

/// Writes triples to anything; `name` stands for the path in messages. Returns how many.
pub fn print_triples(
    out: &mut dyn Write,
    name: &Path,
    format: Format,
    names: &Names,
    triples: impl Iterator<Item = Triple>,
) -> Result<usize, KgError> {
    match format {
        Format::Tsv => print_tsv(out, name, names, triples),
        Format::NTriples => print_ntriples(out, name, names, triples),
        Format::Whitespace | Format::Csv(_) | Format::Turtle => {
            let message = format!("{}: triples are written as .tsv or .nt, not as {format:?}", name.display());
            Err(KgError::Option(message))
        }
    }
}

/// A file on its way; removed unless it arrives.
struct Draft {
    path: PathBuf,
}

impl Draft {
    fn begin(target: &Path) -> std::io::Result<(Self, File)> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = target.with_file_name(format!(".{name}.{}-{number}.tmp", std::process::id()));
            match File::create_new(&path) {
                // In a container every process may have the same number, one that was killed too.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                other => return other.map(|file| (Self { path }, file)),
            }
        }
    }

    /// The process that a draft of `file` belongs to, if this is the name of one.
    fn writer(name: &str, file: &str) -> Option<u32> {
        let rest = name.strip_prefix('.')?.strip_prefix(file)?.strip_prefix('.')?.strip_suffix(".tmp")?;
        let (process, number) = rest.split_once('-')?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then(|| process.parse().ok())?
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After the move there is nothing left to remove, and before it nothing more to say.
        let _ = fs::remove_file(&self.path);
    }
}

fn write_compressed(
    file: File,
    path: &Path,
    format: Format,
    names: &Names,
    triples: impl Iterator<Item = Triple>,
) -> Result<(File, usize), KgError> {
    let failed = |error| KgError::io(path, "write")(error);
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    match ending.as_ref().and_then(|ending| ending.to_str()) {
        Some("gz") => {
            let mut out = BufWriter::new(flate2::write::GzEncoder::new(file, flate2::Compression::default()));
            let count = print_triples(&mut out, path, format, names, triples)?;
            let encoder = out.into_inner().map_err(|error| failed(error.into_error()))?;
            Ok((encoder.finish().map_err(failed)?, count))
        }
        Some("zst") => {
            let encoder = zstd::stream::write::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(failed)?;
            let mut out = BufWriter::new(encoder);
            let count = print_triples(&mut out, path, format, names, triples)?;
            let encoder = out.into_inner().map_err(|error| failed(error.into_error()))?;
            Ok((encoder.finish().map_err(failed)?, count))
        }
        _ => {
            let mut out = BufWriter::with_capacity(1 << 18, file);
            let count = print_triples(&mut out, path, format, names, triples)?;
            Ok((out.into_inner().map_err(|error| failed(error.into_error()))?, count))
        }
    }
}

fn print_tsv(
    out: &mut dyn Write,
    path: &Path,
    names: &Names,
    triples: impl Iterator<Item = Triple>,
) -> Result<usize, KgError> {
    let mut entities_checked = vec![false; names.entities.len()];
    let mut relations_checked = vec![false; names.relations.len()];
    let check = |what, name: &str, checked: &mut bool| {
        let reason = if *checked { None } else { refused_by_tsv(name) };
        *checked = true;
        match reason {
            Some(reason) => Err(KgError::Unwritable { what, name: name.to_string(), format: "TSV", reason }),
            None => Ok(()),
        }
    };
    let mut count = 0;
    for triple in triples {
        let head = names.entities.name(triple.head);
        let relation = names.relations.name(triple.relation);
        let tail = names.entities.name(triple.tail);
        check("entity", head, &mut entities_checked[triple.head.index()])?;
        check("relation", relation, &mut relations_checked[triple.relation.index()])?;
        check("entity", tail, &mut entities_checked[triple.tail.index()])?;
        // A first triple that reads like a header would be passed over as one; behind a real header it is safe.
        if count == 0 && looks_like_header(head, relation, tail) {
            out.write_all(b"head\trelation\ttail\n").map_err(KgError::io(path, "write"))?;
        }
        writeln!(out, "{head}\t{relation}\t{tail}").map_err(KgError::io(path, "write"))?;
        count += 1;
    }
    Ok(count)
}

/// Why a name cannot stand between tabs and come back the same.
fn refused_by_tsv(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("it is empty")
    } else if name.contains(['\t', '\n', '\r']) {
        Some("it holds a tab or a line end; N-Triples (.nt) can hold it")
    } else if name.contains('\0') {
        Some("it holds a NUL; N-Triples (.nt) can hold it")
    } else if name.starts_with(' ') || name.ends_with(' ') {
        Some("blanks around a name are trimmed when it is read; N-Triples (.nt) keeps them")
    } else if name.starts_with('\u{feff}') {
        Some("it starts with a byte-order mark; N-Triples (.nt) can hold it")
    } else {
        None
    }
}

fn print_ntriples(
    out: &mut dyn Write,
    path: &Path,
    names: &Names,
    triples: impl Iterator<Item = Triple>,
) -> Result<usize, KgError> {
    // A name is turned into a term once, not once per triple.
    let mut entities: Vec<Option<Box<str>>> = vec![None; names.entities.len()];
    let mut relations: Vec<Option<Box<str>>> = vec![None; names.relations.len()];
    let mut count = 0;
    for Triple { head, relation, tail } in triples {
        let disguise = |name: &str, what| match name {
            "" => Err(KgError::Unwritable { what, name: String::new(), format: "N-Triples", reason: "it is empty" }),
            name => Ok(disguised(name).into_boxed_str()),
        };
        let entity = |id: EntityId| match term(names.entities.name(id)) {
            Some(term) => Ok(term.into_boxed_str()),
            None => disguise(names.entities.name(id), "entity"),
        };
        let verb = |id: RelationId| match term(names.relations.name(id)) {
            Some(term) if term.starts_with('<') => Ok(term.into_boxed_str()),
            _ => disguise(names.relations.name(id), "relation"),
        };
        for id in [head, tail] {
            if entities[id.index()].is_none() {
                entities[id.index()] = Some(entity(id)?);
            }
        }
        if relations[relation.index()].is_none() {
            relations[relation.index()] = Some(verb(relation)?);
        }
        let subject = entities[head.index()].as_deref().unwrap_or_default();
        let predicate = relations[relation.index()].as_deref().unwrap_or_default();
        let object = entities[tail.index()].as_deref().unwrap_or_default();
        // A literal may be said of something, but nothing may be said of a literal.
        let written = if subject.starts_with('"') {
            writeln!(out, "{} {predicate} {object} .", disguised(names.entities.name(head)))
        } else {
            writeln!(out, "{subject} {predicate} {object} .")
        };
        written.map_err(KgError::io(path, "write"))?;
        count += 1;
    }
    Ok(count)
}

/// The name as a term, if the reader gives back exactly this name for it; the reader itself is asked.
fn term(name: &str) -> Option<String> {
    if name.bytes().any(|byte| byte.is_ascii_control()) {
        return None;
    }
    let term = if name.starts_with('"') || name.starts_with("_:") { name.to_string() } else { format!("<{name}>") };
    let statement = format!("<urn:s> <urn:p> {term} .");
    let mut statements = NTriplesParser::new().for_slice(&statement);
    match (statements.next(), statements.next()) {
        (Some(Ok(statement)), None) => (rdf::name(statement.object) == name).then_some(term),
        _ => None,
    }
}

/// Any name as an IRI.
fn disguised(name: &str) -> String {
    let mut out = format!("<{PLAIN}");
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out.push('>');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn drafts_of_the_dead_go_and_those_of_the_living_stay() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| folder.path().join(name);
        // Above the largest number a process can have; and process 1 is always there.
        let names = [".a.txt.4194305-0.tmp", ".a.txt.1-0.tmp", ".a.txt.4194305-x.tmp", ".b.txt.4194305-0.tmp", "a.txt"];
        for name in names {
            fs::write(at(name), "half").unwrap();
        }
        fs::write(elsewhere.path().join("real"), "whole").unwrap();
        fs::write(elsewhere.path().join(".real.4194305-3.tmp"), "half").unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join("real"), at("link")).unwrap();
        remove_drafts(folder.path(), &["a.txt", "link", "absent"]).unwrap();
        let gone: Vec<&str> = names.into_iter().filter(|name| !at(name).exists()).collect();
        assert_eq!(gone, [".a.txt.4194305-0.tmp"]);
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1, "a draft is where the file is");
    }

    #[test]
    fn a_draft_with_our_number_is_no_hindrance() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.txt");
        for number in 0..100 {
            fs::write(folder.path().join(format!(".a.txt.{}-{number}.tmp", std::process::id())), "half").unwrap();
        }
        replace_file(&target, |mut file| {
            file.write_all(b"whole").map_err(KgError::io(&target, "write"))?;
            Ok::<_, KgError>((file, ()))
        })
        .unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"whole");
    }

    #[test]
    fn names_that_are_terms_stay_terms() {
        for name in ["http://example.org/é", "_:b0", "\"text\"@en", "\"5\"^^<http://example.org/int>", "urn:x:y"] {
            assert!(term(name).is_some(), "{name}");
        }
        for name in
            ["Paris", "/m/027rn", "a b", "_:a.", "\"text\"@EN", "\"open", "urn:ruge:x", "a:b> .\n<c:d", "http://a b"]
        {
            assert_eq!(term(name), None, "{name}");
        }
        assert_eq!(disguised("/m/é"), "<urn:ruge:%2Fm%2F%C3%A9>");
    }
}
