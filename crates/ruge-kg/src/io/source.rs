//! Input files: read in large pieces and decompressed on the fly.
//!
//! Files are not memory-mapped: if another program truncated a mapped file, a signal would kill the process. Instead, a
//! file that changes while it is read is an error, found by comparing its length and time before and after.
//!
//! Line-oriented readers receive batches of blocks cut at line ends, so a file of any size is parsed in parallel with
//! bounded memory. Other readers see a [`Text`] through a window; a few take the whole text, as far as memory allows.

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memchr::{memchr, memrchr};
use serde::Serialize;

use super::{Limits, ReadOptions, zipped};
use crate::error::KgError;
use crate::memory;

/// Bytes per parser. Large enough that the names of a block repeat, small enough to balance the load.
pub(super) const BLOCK: usize = 2 << 20;

/// Compressed bytes read at once.
const PACKED: usize = 1 << 18;

/// Bytes used to guess the format.
const PEEK: usize = 1 << 16;

/// Compression of a file, detected from its first bytes, not its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not compressed.
    None,
    /// gzip, any number of members.
    Gzip,
    /// Zstandard, any number of frames.
    Zstd,
    /// A member of a zip archive.
    Zip,
}

impl Compression {
    fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            _ => Compression::None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Compression::None => "plain",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Zip => "zip",
        }
    }
}

/// Length and time of a file when it was opened.
#[derive(PartialEq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self { length: metadata.len(), modified: metadata.modified().ok() }
    }
}

enum Origin<'a> {
    File(File, Stamp),
    /// Bytes in memory: from the caller or from a pipe.
    Bytes(Cow<'a, [u8]>),
}

/// An opened file of triples.
pub(crate) struct Source<'a> {
    path: PathBuf,
    origin: Origin<'a>,
    compression: Compression,
    start: Vec<u8>,
    limits: Limits,
    /// The only member of the archive that the path names.
    member: Option<PathBuf>,
}

impl<'a> Source<'a> {
    /// Opens a file of any compression. A pipe is read to its end, as far as memory allows.
    pub(crate) fn open(path: &Path, limits: Limits) -> Result<Source<'static>, KgError> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) => {
                let (archive, member) = zipped::split(path).ok_or_else(|| KgError::io(path, "open")(error))?;
                return Self::unzipped(path, &archive, &member, limits);
            }
        };
        let metadata = file.metadata().map_err(KgError::io(path, "read"))?;
        if metadata.is_dir() {
            let source = std::io::Error::from(ErrorKind::IsADirectory);
            return Err(KgError::Io { path: path.to_path_buf(), action: "read triples from a folder", source });
        }
        let (origin, compression) = if metadata.is_file() && metadata.len() > 0 {
            let mut start = Vec::with_capacity(4);
            (&file).take(4).read_to_end(&mut start).map_err(KgError::io(path, "read"))?;
            if zipped::is_zip(&start) {
                let members = zipped::members(path)?.unwrap_or_default();
                let [member] = members.as_slice() else {
                    let message = format!("the archive holds {} files ({})", members.len(), members.join(", "));
                    let message = format!("{message}\n  remedy: name one, as in {}/{}", path.display(), members[0]);
                    return Err(KgError::Description { path: path.to_path_buf(), message });
                };
                let source = Self::unzipped(path, path, member, limits)?;
                return Ok(Source { member: Some(PathBuf::from(member)), ..source });
            }
            (Origin::File(file, Stamp::of(&metadata)), Compression::of(&start))
        } else {
            let most = most_held(limits);
            let mut bytes = Vec::new();
            let ended = read_within(&mut file, &mut bytes, most, limits).map_err(|error| match error {
                Stopped::Io(source) => KgError::io(path, "read")(source),
                Stopped::Memory(error) => error,
            })?;
            if !ended {
                return Err(KgError::TooLarge { path: path.to_path_buf(), packed: None, most });
            }
            let compression = Compression::of(&bytes);
            (Origin::Bytes(Cow::Owned(bytes)), compression)
        };
        Ok(Source { path: path.to_path_buf(), origin, compression, start: Vec::new(), limits, member: None })
    }

    /// A member of an archive, in memory.
    fn unzipped(path: &Path, archive: &Path, member: &str, limits: Limits) -> Result<Source<'static>, KgError> {
        let bytes = zipped::read(archive, member, most_held(limits), limits)?;
        // A member may be compressed itself.
        let compression = match Compression::of(&bytes) {
            Compression::None => Compression::Zip,
            packed => packed,
        };
        let origin = Origin::Bytes(Cow::Owned(bytes));
        Ok(Source { path: path.to_path_buf(), origin, compression, start: Vec::new(), limits, member: None })
    }

    /// A source over bytes in memory.
    pub(crate) fn from_bytes(name: &Path, bytes: &'a [u8], limits: Limits) -> Self {
        let (path, origin) = (name.to_path_buf(), Origin::Bytes(Cow::Borrowed(bytes)));
        Self { path, origin, compression: Compression::of(bytes), start: Vec::new(), limits, member: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The name that tells the format: of the file, or of the only member of an archive.
    pub(crate) fn inner_name(&self) -> &Path {
        self.member.as_deref().unwrap_or(&self.path)
    }

    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    /// The first bytes of the text, for guessing its format.
    pub(crate) fn peek(&mut self) -> Result<&[u8], KgError> {
        if self.start.is_empty() {
            let mut start = Vec::new();
            self.reader()?.take(PEEK as u64).read_to_end(&mut start).map_err(|source| self.failed(source))?;
            self.start = start;
        }
        Ok(&self.start)
    }

    /// The text from the start, through a window.
    pub(crate) fn text(&self) -> Result<Text<'_>, KgError> {
        Ok(Text { source: self, reader: self.reader()?, buffer: Vec::new(), start: 0, end: 0, ended: false })
    }

    /// The whole text, if there is memory for it and for what is built from it.
    pub(crate) fn whole(&self) -> Result<Cow<'_, [u8]>, KgError> {
        if let (Origin::Bytes(bytes), Compression::None) = (&self.origin, self.packing()) {
            return Ok(Cow::Borrowed(bytes));
        }
        let most = most_held(self.limits);
        let mut bytes = Vec::new();
        let ended = read_within(&mut *self.reader()?, &mut bytes, most, self.limits).map_err(|error| match error {
            Stopped::Io(source) => self.failed(source),
            Stopped::Memory(error) => error,
        })?;
        if !ended {
            let packed = (self.compression != Compression::None).then(|| self.compression.name());
            return Err(KgError::TooLarge { path: self.path.clone(), packed, most });
        }
        self.unchanged()?;
        Ok(Cow::Owned(bytes))
    }

    /// Passes the text to the visitor in batches of blocks cut at line ends, until the text ends or the visitor stops.
    ///
    /// A line above the maximum length is passed as its own block, cut one byte after that length, so that the parser
    /// can report it. The rest of it is skipped.
    pub(crate) fn for_each_batch(
        &self,
        options: &ReadOptions,
        visit: impl FnMut(&[&[u8]]) -> Result<ControlFlow<()>, KgError>,
    ) -> Result<(), KgError> {
        self.text()?.for_each_batch(options, visit)
    }

    fn reader(&self) -> Result<Box<dyn Read + '_>, KgError> {
        let raw: Box<dyn Read + '_> = match &self.origin {
            Origin::File(file, _) => {
                let mut file = file;
                file.seek(SeekFrom::Start(0)).map_err(KgError::io(&self.path, "read"))?;
                Box::new(file)
            }
            Origin::Bytes(bytes) => Box::new(bytes.as_ref()),
        };
        Ok(match self.packing() {
            Compression::None | Compression::Zip => raw,
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(PACKED, raw))),
            Compression::Zstd => {
                let raw = BufReader::with_capacity(PACKED, raw);
                Box::new(zstd::stream::read::Decoder::with_buffer(raw).map_err(|source| self.failed(source))?)
            }
        })
    }

    /// What is still to be unpacked: members of archives are held unpacked.
    fn packing(&self) -> Compression {
        match self.compression {
            Compression::Zip => Compression::None,
            other => other,
        }
    }

    /// The file itself, if it is one and needs no unpacking.
    #[cfg(feature = "parquet")]
    pub(crate) fn file(&self) -> Result<Option<File>, KgError> {
        match (&self.origin, self.compression) {
            (Origin::File(file, _), Compression::None) => {
                file.try_clone().map(Some).map_err(KgError::io(&self.path, "read"))
            }
            _ => Ok(None),
        }
    }

    /// Checks that the file has not changed since it was opened.
    fn unchanged(&self) -> Result<(), KgError> {
        let Origin::File(file, before) = &self.origin else { return Ok(()) };
        let after = file.metadata().map_err(KgError::io(&self.path, "read"))?;
        if Stamp::of(&after) == *before { Ok(()) } else { Err(KgError::Changed { path: self.path.clone() }) }
    }

    /// Classifies a read error: a disk error, a file that changed, or data that cannot be decompressed.
    fn failed(&self, source: std::io::Error) -> KgError {
        let path = self.path.clone();
        if self.compression == Compression::None || source.raw_os_error().is_some() {
            return KgError::Io { path, action: "read", source };
        }
        if let Err(changed) = self.unchanged() {
            return changed;
        }
        // The decoder's error for a window above 128 MiB.
        if self.compression == Compression::Zstd && source.to_string().contains("too much memory") {
            return KgError::Window { path };
        }
        KgError::Compressed { path, format: self.compression.name(), source }
    }
}

/// The text of a source, seen through a window that moves and grows.
pub(crate) struct Text<'s> {
    source: &'s Source<'s>,
    reader: Box<dyn Read + 's>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
}

impl Text<'_> {
    pub(crate) fn window(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    pub(crate) fn pass(&mut self, bytes: usize) {
        self.start += bytes;
    }

    /// Reads until the window holds `wanted` bytes or the text ends.
    pub(crate) fn fill(&mut self, wanted: usize) -> Result<(), KgError> {
        if self.ended || self.end - self.start >= wanted {
            return Ok(());
        }
        if self.buffer.len() - self.start < wanted {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let target = self.start + wanted;
        while self.end < target {
            if self.end == self.buffer.len() {
                // Grown step by step, so that small files do not pay for a large window.
                let length = target.min((2 * self.end).max(PEEK));
                memory::reserve(&mut self.buffer, length - self.end, "text that is read", self.source.limits.memory)?;
                self.buffer.resize(length, 0);
            }
            let until = target.min(self.buffer.len());
            match self.reader.read(&mut self.buffer[self.end..until]) {
                Ok(0) => {
                    self.ended = true;
                    return self.source.unchanged();
                }
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.source.failed(error)),
            }
        }
        Ok(())
    }

    /// Skips the rest of a line, including its end.
    pub(crate) fn pass_line(&mut self) -> Result<(), KgError> {
        loop {
            let end = memchr(b'\n', self.window());
            self.pass(end.map_or(self.window().len(), |at| at + 1));
            if end.is_some() || self.ended {
                return Ok(());
            }
            self.fill(BLOCK)?;
        }
    }

    /// [`Source::for_each_batch`] for the rest of the text.
    pub(crate) fn for_each_batch(
        mut self,
        options: &ReadOptions,
        mut visit: impl FnMut(&[&[u8]]) -> Result<ControlFlow<()>, KgError>,
    ) -> Result<(), KgError> {
        loop {
            let (end, long) = self.next_batch(options)?;
            if end == 0 {
                return Ok(());
            }
            if visit(&blocks(&self.window()[..end], options))?.is_break() {
                return Ok(());
            }
            self.pass(end);
            if long {
                self.pass_line()?;
            }
        }
    }

    /// Fills the window with whole lines. Returns its length (0 at the end) and whether it starts a line that is too
    /// long.
    pub(crate) fn next_batch(&mut self, options: &ReadOptions) -> Result<(usize, bool), KgError> {
        let mut wanted = 2 * rayon::current_num_threads() * options.block.max(1);
        loop {
            self.fill(wanted)?;
            let window = self.window();
            if self.ended {
                return Ok((window.len(), false));
            }
            if let Some(at) = memrchr(b'\n', window) {
                return Ok((at + 1, false));
            }
            let most = options.limits.line;
            if window.len() > most {
                return Ok((most + 1, true));
            }
            wanted = (2 * window.len()).min(most + 1);
        }
    }
}

/// Text held as a whole may take half of the available memory; the other half is for what is built from it.
fn most_held(limits: Limits) -> u64 {
    limits.memory.or_else(memory::available).map_or(u64::MAX, |left| left / 2)
}

enum Stopped {
    Io(std::io::Error),
    Memory(KgError),
}

/// Reads to the end or to more than `most` bytes; returns whether it reached the end.
fn read_within(reader: &mut dyn Read, bytes: &mut Vec<u8>, most: u64, limits: Limits) -> Result<bool, Stopped> {
    let mut piece = vec![0; BLOCK];
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok(true),
            Ok(read) if (bytes.len() + read) as u64 > most => return Ok(false),
            Ok(read) => {
                memory::reserve(bytes, read, "text that is held whole", limits.memory).map_err(Stopped::Memory)?;
                bytes.extend_from_slice(&piece[..read]);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Stopped::Io(error)),
        }
    }
}

/// Splits lines into blocks, each for one parser.
pub(super) fn blocks<'t>(mut text: &'t [u8], options: &ReadOptions) -> Vec<&'t [u8]> {
    let block = options.block.max(1);
    let mut blocks = Vec::new();
    while !text.is_empty() {
        // A block ends after the next line end.
        let end = text.get(block..).and_then(|tail| memchr(b'\n', tail)).map_or(text.len(), |at| block + at + 1);
        let (first, rest) = text.split_at(end);
        blocks.push(first);
        text = rest;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// All batches joined.
    fn batches(source: &Source<'_>) -> Result<Vec<u8>, KgError> {
        let mut all = Vec::new();
        source.for_each_batch(&ReadOptions { block: 1 << 10, ..Default::default() }, |blocks| {
            all.extend(blocks.concat());
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(all)
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let text = "a\tr\tb\n".repeat(10_000).into_bytes();
        let packed = zstd::encode_all(&text[..], 1).unwrap();
        for (name, bytes) in [("plain", &text), ("packed", &packed)] {
            for length in [0, bytes.len() as u64 / 2, bytes.len() as u64 + 1] {
                let path = folder.path().join(name);
                std::fs::write(&path, bytes).unwrap();
                let source = Source::open(&path, Limits::default()).unwrap();
                assert_eq!(batches(&source).unwrap(), text);
                File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
                for read in [batches(&source), source.whole().map(Cow::into_owned)] {
                    assert!(matches!(read, Err(KgError::Changed { .. })), "{name} {length}: {read:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_with_an_archive_is_told_apart() {
        let text: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        zstd.include_checksum(true).unwrap();
        zstd.write_all(&text).unwrap();
        let zstd = zstd.finish().unwrap();
        let mut wide = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        wide.window_log(28).unwrap();
        wide.write_all(&text).unwrap();
        let wide = wide.finish().unwrap();
        let told = |bytes: &[u8], memory: Option<u64>| {
            let limits = Limits { memory, ..Limits::default() };
            let source = Source::from_bytes(Path::new("a"), bytes, limits);
            source.whole().err().map_or_else(String::new, |error| error.to_string())
        };
        for packed in [&gzip, &zstd] {
            assert!(told(&packed[..packed.len() / 2], None).contains("ends too early"));
            let mut damaged = packed.clone();
            let middle = damaged.len() / 2;
            damaged[middle..middle + 16].fill(0xff);
            let text = told(&damaged, None);
            assert!(text.contains("damaged") && text.contains("copy or download"), "{text}");
            let text = told(packed, Some(100_000));
            assert!(text.contains("unpacks to more than 50 kB") && !text.contains("download"), "{text}");
        }
        assert!(told(&wide, None).contains("unpack it first"), "{}", told(&wide, None));
        let source = Source::from_bytes(Path::new("a"), &gzip, Limits::default());
        let disk = source.failed(std::io::Error::from_raw_os_error(5));
        assert!(matches!(disk, KgError::Io { .. }), "{disk}");
    }
}
