//! Bytes of a file: mapped when plain, decoded on the fly when compressed.
//!
//! Line-oriented readers ask for batches of blocks cut at line ends, so that a file of any size is parsed in parallel
//! with bounded memory; the others take the whole text.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use memchr::{memchr, memrchr};
use serde::Serialize;

use crate::error::KgError;

/// Text handed to one parser at a time. Large enough that the names of a block repeat, small enough to balance.
pub(super) const BLOCK: usize = 2 << 20;

/// How a file is packed; told by its first bytes, not by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, any number of members.
    Gzip,
    /// Zstandard, any number of frames.
    Zstd,
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
        }
    }
}

enum Bytes<'a> {
    Mapped(memmap2::Mmap),
    Borrowed(&'a [u8]),
    Owned(Vec<u8>),
}

impl Bytes<'_> {
    fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Borrowed(bytes) => bytes,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

/// An opened file of triples.
pub(crate) struct Source<'a> {
    path: PathBuf,
    bytes: Bytes<'a>,
    compression: Compression,
    start: Vec<u8>,
}

impl<'a> Source<'a> {
    /// Opens a file, whatever its compression. A pipe is read to its end.
    pub(crate) fn open(path: &Path) -> Result<Source<'static>, KgError> {
        let mut file = File::open(path).map_err(KgError::io(path, "open"))?;
        let metadata = file.metadata().map_err(KgError::io(path, "read"))?;
        if metadata.is_dir() {
            let source = std::io::Error::from(std::io::ErrorKind::IsADirectory);
            return Err(KgError::Io { path: path.to_path_buf(), action: "read triples from a folder", source });
        }
        let bytes = if metadata.is_file() && metadata.len() > 0 {
            Bytes::Mapped(map(&file).map_err(KgError::io(path, "map"))?)
        } else {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(KgError::io(path, "read"))?;
            Bytes::Owned(bytes)
        };
        let compression = Compression::of(bytes.as_slice());
        Ok(Source { path: path.to_path_buf(), bytes, compression, start: Vec::new() })
    }

    /// Bytes that are in memory already.
    pub(crate) fn from_bytes(name: &Path, bytes: &'a [u8]) -> Self {
        let compression = Compression::of(bytes);
        Self { path: name.to_path_buf(), bytes: Bytes::Borrowed(bytes), compression, start: Vec::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    /// The first bytes of the text, for guessing at its format.
    pub(crate) fn peek(&mut self) -> Result<&[u8], KgError> {
        const PEEK: u64 = 1 << 16;
        if self.compression == Compression::None {
            let bytes = self.bytes.as_slice();
            return Ok(&bytes[..bytes.len().min(PEEK as usize)]);
        }
        if self.start.is_empty() {
            let mut start = Vec::new();
            self.decoder()?.take(PEEK).read_to_end(&mut start).map_err(|source| self.damaged(source))?;
            self.start = start;
        }
        Ok(&self.start)
    }

    /// The whole text.
    pub(crate) fn text(&self) -> Result<Cow<'_, [u8]>, KgError> {
        if self.compression == Compression::None {
            return Ok(Cow::Borrowed(self.bytes.as_slice()));
        }
        let mut text = Vec::new();
        self.decoder()?.read_to_end(&mut text).map_err(|source| self.damaged(source))?;
        Ok(Cow::Owned(text))
    }

    /// The same source with its text decoded once and for all, for readers that look at it twice.
    pub(crate) fn decoded(mut self) -> Result<Self, KgError> {
        if self.compression != Compression::None {
            let text = self.text()?.into_owned();
            self.bytes = Bytes::Owned(text);
            self.compression = Compression::None;
        }
        Ok(self)
    }

    /// Hands the text over in batches of blocks that end at line ends, until it ends or the visitor has enough.
    pub(crate) fn for_each_batch(
        &self,
        block: usize,
        mut visit: impl FnMut(&[&[u8]]) -> ControlFlow<()>,
    ) -> Result<(), KgError> {
        let block = block.max(1);
        let batch = 2 * rayon::current_num_threads();
        if self.compression == Compression::None {
            let mut rest = self.bytes.as_slice();
            while !rest.is_empty() {
                let mut blocks = Vec::with_capacity(batch);
                while blocks.len() < batch && !rest.is_empty() {
                    let (first, tail) = rest.split_at(block_end(rest, block));
                    blocks.push(first);
                    rest = tail;
                }
                if visit(&blocks).is_break() {
                    break;
                }
            }
            return Ok(());
        }
        let mut decoder = self.decoder()?;
        let mut carry: Vec<u8> = Vec::new();
        loop {
            let mut text = std::mem::take(&mut carry);
            let wanted = (batch * block) as u64;
            let read = decoder.by_ref().take(wanted).read_to_end(&mut text).map_err(|source| self.damaged(source))?;
            let ended = (read as u64) < wanted;
            if !ended {
                // A line longer than a whole batch is carried along until its end comes.
                let keep = memrchr(b'\n', &text).map_or(0, |at| at + 1);
                carry = text.split_off(keep);
            }
            let mut blocks = Vec::with_capacity(batch + 1);
            let mut rest = text.as_slice();
            while !rest.is_empty() {
                let (first, tail) = rest.split_at(block_end(rest, block));
                blocks.push(first);
                rest = tail;
            }
            if (!blocks.is_empty() && visit(&blocks).is_break()) || ended {
                return Ok(());
            }
        }
    }

    fn decoder(&self) -> Result<Box<dyn Read + '_>, KgError> {
        let bytes = self.bytes.as_slice();
        Ok(match self.compression {
            Compression::None => Box::new(bytes),
            Compression::Gzip => Box::new(BufReader::new(flate2::read::MultiGzDecoder::new(bytes))),
            Compression::Zstd => {
                Box::new(zstd::stream::read::Decoder::with_buffer(bytes).map_err(|source| self.damaged(source))?)
            }
        })
    }

    fn damaged(&self, source: std::io::Error) -> KgError {
        KgError::Compressed { path: self.path.clone(), format: self.compression.name(), source }
    }
}

/// Where a block of about `block` bytes ends: behind the next line end.
fn block_end(text: &[u8], block: usize) -> usize {
    match text.get(block..).and_then(|tail| memchr(b'\n', tail)) {
        Some(at) => block + at + 1,
        None => text.len(),
    }
}

/// The one place of this crate that asks for trust.
#[allow(unsafe_code)]
fn map(file: &File) -> std::io::Result<memmap2::Mmap> {
    // SAFETY: the mapping is read-only and private to this process. Another process that cuts the file short while we
    // read it would end us by a signal, as with every program that maps its input; nothing we hold points into it
    // once reading is over.
    unsafe { memmap2::Mmap::map(file) }
}
