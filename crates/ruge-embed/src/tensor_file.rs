//! `safetensors` files, read and written a row at a time: beside tables that fill half of the memory there is no room for the
//! whole file as well.
//!
//! The bytes are those that the crate of the format writes, which only knows whole buffers and leaves drafts of other names behind
//! when it is killed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Cursor, Read, Seek, SeekFrom, Write};
use std::path::Path;

use ruge_kg::KgError;
use ruge_kg::io::write::replace_file;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use crate::table::Table;

/// Bytes that are read or written at once.
const BUFFER: usize = 1 << 20;
/// The longest header the format allows.
const LONGEST_HEADER: u64 = 100_000_000;

/// What a tensor holds.
pub enum Content<'a> {
    /// A row each; made into bytes while it is written.
    Table(&'a Table),
    /// Bytes at hand.
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

/// Writes a file: complete or not at all.
pub fn write(
    path: &Path,
    mut tensors: Vec<(String, Content<'_>)>,
    metadata: HashMap<String, String>,
) -> io::Result<()> {
    // The order of the format's own crate.
    tensors.sort_by(|(a, left), (b, right)| right.info().0.cmp(&left.info().0).then_with(|| a.cmp(b)));
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
            "names and words beside the numbers take {has} MB, the format has room for {most}; are rules with very long names among them?"
        );
        return Err(io::Error::other(words));
    }
    let failed = |source| KgError::Io { path: path.to_path_buf(), action: "write", source };
    let written = replace_file(path, |file| {
        let mut out = BufWriter::with_capacity(BUFFER, file);
        let mut all = || {
            out.write_all(&(header.len() as u64).to_le_bytes())?;
            out.write_all(&header)?;
            tensors.iter().try_for_each(|(_, content)| content.pieces(|bytes| out.write_all(bytes)))
        };
        all().map_err(failed)?;
        Ok((out.into_inner().map_err(|error| failed(error.into_error()))?, ()))
    });
    written.map_err(|error| match error {
        KgError::Io { source, .. } => source,
        other => io::Error::other(other),
    })
}

/// Why a file could not be read.
#[derive(Debug)]
pub enum Fault {
    /// The system says so.
    Io(io::Error),
    /// It is not what it should be.
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

/// A file whose header is read and whose tensors wait.
pub struct TensorFile {
    file: Box<dyn Seeking>,
    /// Of the file, in bytes.
    length: u64,
    /// Where tensors begin.
    start: u64,
    header: Metadata,
}

trait Seeking: Read + Seek {}
impl<T: Read + Seek> Seeking for T {}

impl TensorFile {
    /// Reads the header, and compares the file's length with what it promises.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let mut file = File::open(path)?;
        let (mut file, length): (Box<dyn Seeking>, u64) = match file.metadata()? {
            told if told.is_file() => (Box::new(BufReader::with_capacity(BUFFER, file)), told.len()),
            // A pipe has no length and no way back.
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
        let size = u64::from_le_bytes(size);
        if size > LONGEST_HEADER {
            return Err(Fault::Broken("it does not begin as such a file does".to_owned()));
        }
        if length < 8 + size {
            return Err(cut());
        }
        let mut header = vec![0; size as usize];
        file.read_exact(&mut header)?;
        let header: Metadata = serde_json::from_slice(&header)
            .map_err(|error| Fault::Broken(format!("its header is no such one: {error}")))?;
        let start = 8 + size;
        match (header.data_len() as u64).checked_add(start) {
            Some(end) if end == length => Ok(Self { file, length, start, header }),
            Some(end) if end < length => Err(Fault::Broken("it is longer than its header says".to_owned())),
            _ => Err(cut()),
        }
    }

    /// The words beside the tensors.
    pub fn words(&self) -> Option<&HashMap<String, String>> {
        self.header.metadata().as_ref()
    }

    /// Names of all tensors, as they stand in the file.
    pub fn names(&self) -> Vec<String> {
        self.header.offset_keys()
    }

    /// What the header says of a tensor.
    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.header.info(name)
    }

    /// All bytes of a tensor.
    pub fn bytes(&mut self, name: &str) -> Result<Vec<u8>, Fault> {
        let (start, end) = self.place(name)?.data_offsets;
        self.seek(start)?;
        let mut bytes = vec![0; end - start];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// A tensor as a table; `seen` is given the bytes of each row.
    pub fn table(&mut self, name: &str, mut seen: impl FnMut(&[u8])) -> Result<Table, Fault> {
        let info = self.place(name)?;
        if info.dtype != Dtype::F32 {
            return Err(Fault::Broken(format!("`{name}` holds {:?}, not F32", info.dtype)));
        }
        let &[rows, width] = info.shape.as_slice() else {
            return Err(Fault::Broken(format!("`{name}` is no table")));
        };
        // Tables without rows or without columns, which rules alone have, take no bytes, so their size may be anything a header
        // says; but every row has a name elsewhere in the file.
        if [rows, width].iter().any(|&side| side as u64 > self.length) {
            return Err(Fault::Broken(format!("`{name}` is larger than the file")));
        }
        self.seek(info.data_offsets.0)?;
        let mut table = Table::zeros(rows, width);
        let mut bytes = vec![0; 4 * width];
        for row in 0..rows {
            self.file.read_exact(&mut bytes)?;
            seen(&bytes);
            for (x, bytes) in table.row_mut(row).iter_mut().zip(bytes.as_chunks::<4>().0) {
                *x = f32::from_le_bytes(*bytes);
            }
        }
        Ok(table)
    }

    fn place(&self, name: &str) -> Result<TensorInfo, Fault> {
        self.info(name).cloned().ok_or_else(|| Fault::Broken(format!("it has no tensor `{name}`")))
    }

    fn seek(&mut self, offset: usize) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.start + offset as u64)).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::{SafeTensors, TensorView};

    use super::*;

    fn table() -> Table {
        Table::from_dense(3, 5, &(0..15).map(|i| i as f32 - 0.5).collect::<Vec<_>>())
    }

    #[test]
    fn the_bytes_are_those_of_the_formats_own_crate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let metadata = HashMap::from([("key".to_owned(), "a \"value\"".to_owned())]);
        let table = table();
        let ends: Vec<u8> = [3u64, 9].iter().flat_map(|x| x.to_le_bytes()).collect();
        let tensors = vec![
            ("b".to_owned(), Content::Bytes(Dtype::U8, vec![3], Cow::Borrowed(b"abc"))),
            ("z".to_owned(), Content::Table(&table)),
            ("a".to_owned(), Content::Bytes(Dtype::U64, vec![2], Cow::Borrowed(&ends))),
        ];
        write(&path, tensors, metadata.clone()).unwrap();
        let dense: Vec<u8> = table.to_dense().iter().flat_map(|x| x.to_le_bytes()).collect();
        let views = [
            ("a", TensorView::new(Dtype::U64, vec![2], &ends).unwrap()),
            ("b", TensorView::new(Dtype::U8, vec![3], b"abc").unwrap()),
            ("z", TensorView::new(Dtype::F32, vec![3, 5], &dense).unwrap()),
        ];
        let written = std::fs::read(&path).unwrap();
        assert_eq!(written, safetensors::serialize(views, Some(metadata.clone())).unwrap());
        assert_eq!(SafeTensors::deserialize(&written).unwrap().len(), 3);

        let mut file = TensorFile::open(&path).unwrap();
        assert_eq!(file.words(), Some(&metadata));
        assert_eq!(file.names(), ["a", "z", "b"]);
        let mut seen = Vec::new();
        assert_eq!(file.table("z", |bytes| seen.extend_from_slice(bytes)).unwrap(), table);
        assert_eq!((seen, file.bytes("b").unwrap(), file.bytes("a").unwrap()), (dense, b"abc".to_vec(), ends));
        for (name, words) in [("a", "holds U64"), ("nothing", "no tensor `nothing`")] {
            let Err(Fault::Broken(reason)) = file.table(name, |_| ()) else { panic!("{name} was taken") };
            assert!(reason.contains(words), "{reason}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a draft is left");
    }

    #[test]
    fn sizes_that_only_a_header_claims_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        for shape in ["0,2305843009213693952", "0,4398046511104", "0,18446744073709551615", "4294967295,0"] {
            let header = format!(r#"{{"z":{{"dtype":"F32","shape":[{shape}],"data_offsets":[0,0]}}}}"#);
            let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
            std::fs::write(&path, file).unwrap();
            let fault = TensorFile::open(&path).unwrap().table("z", |_| ()).unwrap_err();
            assert!(matches!(&fault, Fault::Broken(reason) if reason.contains("larger than the file")), "{fault:?}");
        }
        let nothing = Table::zeros(3, 0);
        write(&path, vec![("z".to_owned(), Content::Table(&nothing))], HashMap::new()).unwrap();
        assert_eq!(TensorFile::open(&path).unwrap().table("z", |_| ()).unwrap(), nothing);
        let words = HashMap::from([("rules".to_owned(), "r".repeat(100_000_000))]);
        let error = write(&path, Vec::new(), words).unwrap_err().to_string();
        assert!(error.contains("room for 100"), "{error}");
        assert!(TensorFile::open(&path).is_ok(), "what was there stays");
    }

    #[test]
    fn files_of_another_length_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        write(&path, vec![("z".to_owned(), Content::Table(&table()))], HashMap::new()).unwrap();
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
