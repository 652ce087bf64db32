//! Sealed `safetensors` files: a checksum covers every byte, and tables are read and written row by row.
//!
//! The last tensor of a file, the seal, holds the SHA-256 of every byte before it, header and names included. So any
//! flipped bit is found, and the file is written or verified in one pass. Any reader of the format can still open it.
//!
//! The version of a file is stored twice: in its metadata, set by the caller, and in the name of the seal. A file
//! counts as one of an earlier version, without a seal, only if both agree: a damaged file cannot pass as old.
//!
//! Rows are read and written directly: if tables fill half of the memory, there is no room for the whole file as well.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Cursor, Read, Write};
use std::path::Path;

use ruge_kg::KgError;
use ruge_kg::io::write::replace_file_in;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use sha2::{Digest, Sha256};

use crate::table::Table;

/// The version of sealed files, for models and checkpoints. No single flipped bit turns it into an earlier one.
pub const FORMAT: u32 = 4;
/// The tensor with the checksum. Its name sorts after all others and repeats the version.
const SEAL: &str = "~ruge-4-sha256";
/// Prefix of the name of every seal.
const SEAL_PREFIX: &str = "~ruge-";
const SUM: usize = 32;
/// Bytes read or written at once.
const BUFFER: usize = 1 << 20;
/// The longest header the format allows.
const LONGEST_HEADER: u64 = 100_000_000;

/// The content of a tensor.
pub enum Content<'a> {
    /// A table, converted to bytes while it is written.
    Table(&'a Table),
    /// Bytes in memory.
    Bytes(Dtype, Vec<usize>, Cow<'a, [u8]>),
}

impl Content<'_> {
    fn info(&self) -> (Dtype, Vec<usize>, usize) {
        match self {
            Content::Table(table) => (Dtype::F32, vec![table.rows(), table.width()], 4 * table.rows() * table.width()),
            Content::Bytes(dtype, shape, bytes) => (*dtype, shape.clone(), bytes.len()),
        }
    }

    /// Its bytes, piece by piece.
    pub fn pieces<E>(&self, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        match self {
            Content::Table(table) => {
                let mut bytes = vec![0; 4 * table.width()];
                (0..table.rows()).try_for_each(|row| {
                    for (to, x) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(table.row(row)) {
                        *to = x.to_le_bytes();
                    }
                    take(&bytes)
                })
            }
            Content::Bytes(_, _, bytes) => take(bytes),
        }
    }
}

/// Writes a sealed file, completely or not at all. A symbolic link at `path` is refused. `metadata` contains the
/// version, which must be [`FORMAT`].
pub fn write(
    path: &Path,
    mut tensors: Vec<(String, Content<'_>)>,
    metadata: HashMap<String, String>,
) -> io::Result<()> {
    tensors.push((SEAL.to_owned(), Content::Bytes(Dtype::U8, vec![SUM], Cow::Borrowed(&[0; SUM]))));
    // The order of the format's own crate, in which the seal is last.
    tensors.sort_by(|(a, left), (b, right)| right.info().0.cmp(&left.info().0).then_with(|| a.cmp(b)));
    let header = header(&tensors, metadata)?;
    let failed = |source| KgError::Io { path: path.to_path_buf(), action: "write", source };
    let (folder, name) =
        (path.parent().unwrap_or(Path::new("")), path.file_name().and_then(|name| name.to_str()).unwrap_or_default());
    let written = replace_file_in(folder, name, |file| {
        let mut out = Hashing { to: BufWriter::with_capacity(BUFFER, file), hasher: Sha256::new() };
        let mut all = || {
            out.write_all(&(header.len() as u64).to_le_bytes())?;
            out.write_all(&header)?;
            for (name, content) in &tensors {
                match name.as_str() {
                    SEAL => {
                        let sum = out.hasher.finalize_reset();
                        out.to.write_all(&sum)?;
                    }
                    _ => content.pieces(|bytes| out.write_all(bytes))?,
                }
            }
            Ok(())
        };
        all().map_err(failed)?;
        Ok((out.to.into_inner().map_err(|error| failed(error.into_error()))?, ()))
    });
    written.map_err(|error| match error {
        KgError::Io { source, .. } => source,
        other => io::Error::other(other),
    })
}

/// The header of a file: names, offsets and metadata, as the format's own crate writes them.
fn header(tensors: &[(String, Content<'_>)], metadata: HashMap<String, String>) -> io::Result<Vec<u8>> {
    let mut end = 0;
    let infos = tensors.iter().map(|(name, content)| {
        let (dtype, shape, length) = content.info();
        let start = end;
        end += length;
        (name.clone(), TensorInfo { dtype, shape, data_offsets: (start, end) })
    });
    let header = Metadata::new(Some(metadata), infos.collect()).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    if header.len() as u64 > LONGEST_HEADER {
        let (has, most) = (header.len() / 1_000_000, LONGEST_HEADER / 1_000_000);
        let words = format!(
            "names and metadata take {has} MB, and the format has room for {most}; are there rules with very long names?"
        );
        return Err(io::Error::other(words));
    }
    Ok(header)
}

struct Hashing<W> {
    to: W,
    hasher: Sha256,
}

impl<W: Write> Hashing<W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.to.write_all(bytes)
    }
}

/// Why a file could not be read.
#[derive(Debug)]
pub enum Fault {
    /// An I/O error.
    Io(io::Error),
    /// The file is invalid.
    Broken(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Broken(reason)
    }
}

/// A file whose header has been read, but not its tensors.
pub struct TensorFile {
    file: Box<dyn Read>,
    length: u64,
    header: Metadata,
    hasher: Sha256,
}

/// A tensor that is not a table.
pub struct Tensor {
    /// Its element type.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its bytes, little-endian.
    pub bytes: Vec<u8>,
}

/// The verified contents of a file.
#[derive(Default)]
pub struct Stored {
    tables: HashMap<String, Table>,
    tensors: HashMap<String, Tensor>,
    /// SHA-256 of each tensor of a file without a seal, by name: earlier versions stored other checksums.
    pub sums: Vec<(String, [u8; SUM])>,
}

impl Stored {
    /// Removes and returns a table.
    pub fn take_table(&mut self, name: &str) -> Result<Table, String> {
        self.tables.remove(name).ok_or_else(|| format!("it has no table `{name}`"))
    }

    /// The tensor with this name, if any.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }
}

impl TensorFile {
    /// Reads the header and checks the file's length against it.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let mut file = File::open(path)?;
        let (mut file, length): (Box<dyn Read>, u64) = match file.metadata()? {
            told if told.is_file() => (Box::new(BufReader::with_capacity(BUFFER, file)), told.len()),
            // A pipe has no length.
            _ => {
                let mut bytes = Vec::new();
                let length = file.read_to_end(&mut bytes)?;
                (Box::new(Cursor::new(bytes)), length as u64)
            }
        };
        let cut = || Fault::Broken("it is shorter than its header says".to_owned());
        let mut size = [0; 8];
        if length < 8 {
            return Err(cut());
        }
        file.read_exact(&mut size)?;
        let mut hasher = Sha256::new();
        hasher.update(size);
        let size = u64::from_le_bytes(size);
        if size > LONGEST_HEADER {
            return Err(Fault::Broken("it does not begin like a safetensors file".to_owned()));
        }
        if length < 8 + size {
            return Err(cut());
        }
        let mut header = vec![0; size as usize];
        file.read_exact(&mut header)?;
        hasher.update(&header);
        let header: Metadata = serde_json::from_slice(&header)
            .map_err(|error| Fault::Broken(format!("its header is damaged: {error}")))?;
        match (header.data_len() as u64).checked_add(8 + size) {
            Some(end) if end == length => Ok(Self { file, length, header, hasher }),
            Some(end) if end < length => Err(Fault::Broken("it is longer than its header says".to_owned())),
            _ => Err(cut()),
        }
    }

    /// The metadata strings.
    pub fn words(&self) -> Option<&HashMap<String, String>> {
        self.header.metadata().as_ref()
    }

    /// Whether a file whose metadata state `version` is sealed. An error if they disagree or the version is newer.
    pub fn is_sealed(&self, version: u64) -> Result<bool, Fault> {
        let seals: Vec<String> =
            self.header.offset_keys().into_iter().filter(|name| name.starts_with(SEAL_PREFIX)).collect();
        let of_seal =
            |name: &String| -> Option<u64> { name.strip_prefix(SEAL_PREFIX)?.strip_suffix("-sha256")?.parse().ok() };
        match seals.as_slice() {
            [] if (1..u64::from(FORMAT)).contains(&version) => Ok(false),
            [seal] if of_seal(seal) == Some(version) => match version {
                _ if version == u64::from(FORMAT) => Ok(true),
                _ => Err(Fault::Broken(format!(
                    "it has version {version}, and this program reads up to {FORMAT}; use a newer ruge"
                ))),
            },
            _ => Err(Fault::Broken("its version is stored twice, and the two disagree: it is damaged".to_owned())),
        }
    }

    /// Reads everything in file order, and verifies the seal of a sealed file. `is_table` selects the tables.
    pub fn read(self, sealed: bool, is_table: impl Fn(&str) -> bool) -> Result<Stored, Fault> {
        let mut stored = Stored::default();
        self.read_each(sealed, |file, name, info| {
            let mut own = Sha256::new();
            if is_table(name) {
                let table = file.table(name, info, |bytes| own.update(bytes))?;
                stored.tables.insert(name.to_owned(), table);
            } else {
                let (start, end) = info.data_offsets;
                let bytes = file.bytes(end - start)?;
                own.update(&bytes);
                let tensor = Tensor { dtype: info.dtype, shape: info.shape.clone(), bytes };
                stored.tensors.insert(name.to_owned(), tensor);
            }
            if !sealed {
                stored.sums.push((name.to_owned(), own.finalize().into()));
            }
            Ok(())
        })?;
        Ok(stored)
    }

    /// Verifies the seal of a sealed file without keeping the contents.
    pub fn verify(self) -> Result<(), Fault> {
        self.read_each(true, |file, _, info| {
            let mut rest = info.data_offsets.1 - info.data_offsets.0;
            while rest > 0 {
                let piece = rest.min(BUFFER);
                file.bytes(piece)?;
                rest -= piece;
            }
            Ok(())
        })
    }

    fn read_each(
        mut self,
        sealed: bool,
        mut take: impl FnMut(&mut Self, &str, &TensorInfo) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let names = self.header.offset_keys();
        for (at, name) in names.iter().enumerate() {
            let info = self.header.info(name).cloned().ok_or_else(|| format!("it has no tensor `{name}`"))?;
            if sealed && at + 1 == names.len() {
                let sum = self.hasher.finalize_reset();
                if name != SEAL || info.data_offsets.1 - info.data_offsets.0 != SUM || self.bytes(SUM)? != sum[..] {
                    return Err(Fault::Broken("its content does not match its checksum: it is damaged".to_owned()));
                }
                return Ok(());
            }
            take(&mut self, name, &info)?;
        }
        Ok(())
    }

    fn bytes(&mut self, count: usize) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; count];
        self.file.read_exact(&mut bytes)?;
        self.hasher.update(&bytes);
        Ok(bytes)
    }

    /// The next tensor as a table; `seen` gets the bytes of each row.
    fn table(&mut self, name: &str, info: &TensorInfo, mut seen: impl FnMut(&[u8])) -> Result<Table, Fault> {
        if info.dtype != Dtype::F32 {
            return Err(Fault::Broken(format!("`{name}` holds {:?}, not F32", info.dtype)));
        }
        let &[rows, width] = info.shape.as_slice() else {
            return Err(Fault::Broken(format!("`{name}` is no table")));
        };
        // Tables without rows or columns, as in rules-only models, take no bytes, so a header could state any size; but
        // every row has a name elsewhere in the file.
        if [rows, width].iter().any(|&side| side as u64 > self.length) {
            return Err(Fault::Broken(format!("`{name}` is larger than the file")));
        }
        let mut table = Table::zeros(rows, width);
        let mut bytes = vec![0; 4 * width];
        for row in 0..rows {
            self.file.read_exact(&mut bytes)?;
            self.hasher.update(&bytes);
            seen(&bytes);
            for (x, bytes) in table.row_mut(row).iter_mut().zip(bytes.as_chunks::<4>().0) {
                *x = f32::from_le_bytes(*bytes);
            }
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::{SafeTensors, TensorView};

    use super::*;

    fn table() -> Table {
        Table::from_dense(3, 5, &(0..15).map(|i| i as f32 - 0.5).collect::<Vec<_>>())
    }

    fn versions(version: u32) -> HashMap<String, String> {
        HashMap::from([("version".to_owned(), version.to_string())])
    }

    /// Reads like callers do: the version from the metadata, then everything.
    fn read(path: &Path) -> Result<Stored, Fault> {
        let file = TensorFile::open(path)?;
        let version = file.words().and_then(|words| words.get("version")?.parse().ok()).unwrap_or(0);
        let sealed = file.is_sealed(version)?;
        file.read(sealed, |name| name == "z")
    }

    #[test]
    fn the_bytes_are_those_of_the_formats_own_crate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let metadata = versions(FORMAT);
        let table = table();
        let ends: Vec<u8> = [3u64, 9].iter().flat_map(|x| x.to_le_bytes()).collect();
        let tensors = vec![
            ("b".to_owned(), Content::Bytes(Dtype::U8, vec![3], Cow::Borrowed(b"abc"))),
            ("z".to_owned(), Content::Table(&table)),
            ("a".to_owned(), Content::Bytes(Dtype::U64, vec![2], Cow::Borrowed(&ends))),
        ];
        write(&path, tensors, metadata.clone()).unwrap();
        let dense: Vec<u8> = table.to_dense().iter().flat_map(|x| x.to_le_bytes()).collect();
        let written = std::fs::read(&path).unwrap();
        let (before, sum) = written.split_at(written.len() - SUM);
        assert_eq!(sum, &Sha256::digest(before)[..], "the seal covers every byte before it");
        let views = [
            ("a", TensorView::new(Dtype::U64, vec![2], &ends).unwrap()),
            ("b", TensorView::new(Dtype::U8, vec![3], b"abc").unwrap()),
            ("z", TensorView::new(Dtype::F32, vec![3, 5], &dense).unwrap()),
            (SEAL, TensorView::new(Dtype::U8, vec![SUM], sum).unwrap()),
        ];
        assert_eq!(written, safetensors::serialize(views, Some(metadata.clone())).unwrap());
        assert_eq!(SafeTensors::deserialize(&written).unwrap().len(), 4);

        assert_eq!(TensorFile::open(&path).unwrap().words(), Some(&metadata));
        TensorFile::open(&path).unwrap().verify().unwrap();
        let mut stored = read(&path).unwrap();
        assert_eq!(stored.take_table("z").unwrap(), table);
        assert_eq!((&stored.tensor("b").unwrap().bytes[..], &stored.tensor("a").unwrap().bytes), (&b"abc"[..], &ends));
        assert!(stored.take_table("nothing").is_err() && stored.tensor(SEAL).is_none());
        let Err(Fault::Broken(reason)) = TensorFile::open(&path).unwrap().read(true, |name| name == "a") else {
            panic!("whole numbers were taken for a table")
        };
        assert!(reason.contains("holds U64"), "{reason}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a draft is left");
    }

    #[test]
    fn no_flipped_bit_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let name = || Content::Bytes(Dtype::U8, vec![3], Cow::Borrowed(b"abc"));
        write(&path, vec![("z".to_owned(), Content::Table(&table())), ("b".to_owned(), name())], versions(FORMAT))
            .unwrap();
        let good = std::fs::read(&path).unwrap();
        for bit in 0..8 * good.len() {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, bad).unwrap();
            assert!(matches!(read(&path), Err(Fault::Broken(_))), "bit {bit} was taken");
        }
    }

    #[test]
    fn an_old_file_is_one_whose_version_says_so_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let old = |version: u32| {
            let view = TensorView::new(Dtype::U8, vec![3], b"abc").unwrap();
            std::fs::write(&path, safetensors::serialize([("b", view)], Some(versions(version))).unwrap()).unwrap();
            read(&path)
        };
        let stored = old(3).unwrap();
        assert_eq!(stored.sums, [("b".to_owned(), Sha256::digest(b"abc").into())]);
        for version in [0, FORMAT, 7] {
            assert!(matches!(old(version), Err(Fault::Broken(_))), "version {version} without a seal");
        }
        for version in [0, 3, 5] {
            write(&path, vec![("z".to_owned(), Content::Table(&table()))], versions(version)).unwrap();
            assert!(matches!(read(&path), Err(Fault::Broken(_))), "version {version} under a seal of {FORMAT}");
        }
        let seal = TensorView::new(Dtype::U8, vec![3], b"abc").unwrap();
        let later = safetensors::serialize([("~ruge-12-sha256", seal)], Some(versions(12))).unwrap();
        std::fs::write(&path, later).unwrap();
        assert!(matches!(read(&path), Err(Fault::Broken(reason)) if reason.contains("newer ruge")));
    }

    #[test]
    fn sizes_that_only_a_header_claims_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        for shape in ["0,2305843009213693952", "0,4398046511104", "0,18446744073709551615", "4294967295,0"] {
            let header = format!(r#"{{"z":{{"dtype":"F32","shape":[{shape}],"data_offsets":[0,0]}}}}"#);
            let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
            std::fs::write(&path, file).unwrap();
            let fault = TensorFile::open(&path).unwrap().read(false, |_| true).err().unwrap();
            assert!(matches!(&fault, Fault::Broken(reason) if reason.contains("larger than the file")), "{fault:?}");
        }
        let nothing = Table::zeros(3, 0);
        write(&path, vec![("z".to_owned(), Content::Table(&nothing))], versions(FORMAT)).unwrap();
        assert_eq!(read(&path).unwrap().take_table("z").unwrap(), nothing);
        let words = HashMap::from([("rules".to_owned(), "r".repeat(100_000_000))]);
        let error = write(&path, Vec::new(), words).unwrap_err().to_string();
        assert!(error.contains("room for 100"), "{error}");
        assert!(TensorFile::open(&path).is_ok(), "what was there stays");
    }

    #[test]
    fn files_of_another_length_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        write(&path, vec![("z".to_owned(), Content::Table(&table()))], versions(FORMAT)).unwrap();
        let good = std::fs::read(&path).unwrap();
        for length in 0..good.len() {
            std::fs::write(&path, &good[..length]).unwrap();
            assert!(matches!(TensorFile::open(&path), Err(Fault::Broken(_))), "{length} bytes were taken");
        }
        std::fs::write(&path, [&good[..], b"x"].concat()).unwrap();
        assert!(matches!(TensorFile::open(&path), Err(Fault::Broken(reason)) if reason.contains("longer")));
        assert!(matches!(TensorFile::open(folder.path().join("absent").as_path()), Err(Fault::Io(_))));
    }
}
