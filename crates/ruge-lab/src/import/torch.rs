//! Files of `torch.save`: an archive with a pickle, which is read as data, and the numbers of every tensor beside it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use ruge::error::{Result, RugeError};
use ruge_embed::Table;
use zip::ZipArchive;

use super::pickle::{At, Node, Pickle};

/// The largest pickle that is read: settings and shapes, no numbers.
const MOST: u64 = 1 << 28;

/// A file of PyTorch.
pub struct Torch {
    path: PathBuf,
    archive: ZipArchive<File>,
    /// The folder inside the archive.
    root: String,
    /// What the file says.
    pub says: Pickle,
}

impl Torch {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(RugeError::io(path, "read"))?;
        let archive = ZipArchive::new(file).map_err(|_| {
            let reason = "it is not a file of PyTorch 1.6 or newer; load it there and save it again";
            unusable(path, reason)
        })?;
        let name = archive.file_names().find_map(|name| name.ok()?.strip_suffix("data.pkl").map(str::to_string));
        let root = name.ok_or_else(|| unusable(path, "it has no data.pkl; is it a file of torch.save?"))?;
        let mut torch = Self { path: path.to_path_buf(), archive, root, says: Pickle::default() };
        if torch.bytes("byteorder", 16).is_ok_and(|order| order.trim_ascii() == b"big") {
            return Err(unusable(path, "its numbers are of a big-endian machine"));
        }
        let bytes = torch.bytes("data.pkl", MOST)?;
        torch.says = Pickle::read(&bytes).map_err(|reason| unusable(path, &reason))?;
        Ok(torch)
    }

    /// A matrix: a tensor of two dimensions, or a parameter that is one.
    pub fn matrix(&mut self, at: At) -> Result<Table> {
        let wrong = |reason: &str| unusable(&self.path, reason);
        let Stored { key, bytes, count, offset, size, stride } =
            stored(&self.says, at).ok_or_else(|| wrong("a table of it is not a tensor of numbers"))?;
        let &[rows, width] = &size[..] else {
            return Err(wrong(&format!("a table of it has the shape {size:?} instead of two dimensions")));
        };
        let reach = |(size, stride): (&usize, &usize)| size.saturating_sub(1).checked_mul(*stride);
        let last = size.iter().zip(&stride).map(reach).try_fold(offset, |sum, reach| sum.checked_add(reach?));
        if last.is_none_or(|last| last >= count && rows * width > 0) {
            return Err(wrong("a table of it reaches beyond its numbers"));
        }
        let most = (count as u64).saturating_mul(bytes as u64);
        let raw = self.bytes(&format!("data/{key}"), most)?;
        if raw.len() as u64 != most {
            return Err(unusable(&self.path, "a table of it is cut off"));
        }
        let mut table = Table::zeros(rows, width);
        for row in 0..rows {
            for (column, number) in table.row_mut(row).iter_mut().enumerate() {
                let from = (offset + row * stride[0] + column * stride[1]) * bytes;
                let raw = &raw[from..from + bytes];
                *number = match *raw {
                    [a, b, c, d] => f32::from_le_bytes([a, b, c, d]),
                    [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]) as f32,
                    _ => f32::NAN,
                };
            }
        }
        Ok(table)
    }

    /// An error about the file.
    pub fn unusable(&self, reason: &str) -> RugeError {
        unusable(&self.path, reason)
    }

    fn bytes(&mut self, name: &str, most: u64) -> Result<Vec<u8>> {
        let wrong = |error: &dyn std::fmt::Display| unusable(&self.path, &format!("{name}: {error}; copy it again"));
        let entry = self.archive.by_name(&format!("{}{name}", self.root)).map_err(|error| wrong(&error))?;
        let mut bytes = Vec::new();
        let read = entry.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| wrong(&error))?;
        if read as u64 > most {
            return Err(wrong(&"it is larger than it says"));
        }
        Ok(bytes)
    }
}

/// Where the numbers of a tensor are.
struct Stored {
    key: String,
    /// Bytes of a number.
    bytes: usize,
    /// Numbers in the storage.
    count: usize,
    offset: usize,
    size: Vec<usize>,
    stride: Vec<usize>,
}

fn stored(says: &Pickle, at: At) -> Option<Stored> {
    let Node::Made { of, with, .. } = says.node(at) else { return None };
    let (name, with) = (says.text(*of)?, says.items(*with));
    match name {
        "torch._utils._rebuild_parameter" | "torch._utils._rebuild_parameter_with_state" => {
            stored(says, *with.first()?).filter(|_| with.first() != Some(&at))
        }
        "torch._utils._rebuild_tensor_v2" => {
            let &[storage, offset, size, stride, ..] = with else { return None };
            let Node::Outside(id) = says.node(storage) else { return None };
            let &[_, kind, key, _, count] = says.items(*id) else { return None };
            let bytes = match says.text(kind)? {
                "torch.FloatStorage" => 4,
                "torch.DoubleStorage" => 8,
                _ => return None,
            };
            let number = |at: At| says.int(at).and_then(|number| usize::try_from(number).ok());
            let numbers = |at: At| says.items(at).iter().map(|&item| number(item)).collect::<Option<Vec<_>>>();
            Some(Stored {
                key: says.text(key)?.to_string(),
                bytes,
                count: number(count)?,
                offset: number(offset)?,
                size: numbers(size)?,
                stride: numbers(stride)?,
            })
            .filter(|stored| stored.size.len() == stored.stride.len() && !stored.key.contains(['/', '\\']))
        }
        _ => None,
    }
}

/// The error of a file that is no model, or not one that can be read.
pub fn unusable(path: &Path, reason: &str) -> RugeError {
    RugeError::ModelFile { path: path.to_path_buf(), reason: reason.into() }
}
