//! Columns of names as Arrow lays them out.
//!
//! The package reads the structures of Arrow's C interface and hands over its buffers, some rows at a time; here a cell becomes a
//! name. Text of all three layouts, whole numbers, and dictionaries of either are read; a null and any other type are errors that
//! name row and column. Python is not needed while cells are read.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use ruge_kg::{Id, Vocabulary};

use crate::errors::{Fault, Result};

/// Rows of a column, as the package hands them over.
#[pyclass(frozen, module = "ruge._core")]
pub struct Column {
    /// `head`, `relation` or `tail`.
    place: String,
    /// Arrow's word for the type.
    format: String,
    /// A bit per cell, and the bits before the first cell.
    validity: Option<(PyBackedBytes, usize)>,
    /// The buffers from the first cell on; texts and their ends count from the same place.
    buffers: Vec<PyBackedBytes>,
    dictionary: Option<Py<Column>>,
}

#[pymethods]
impl Column {
    #[new]
    #[pyo3(signature = (place, format, validity, buffers, dictionary))]
    fn new(
        place: String,
        format: String,
        validity: Option<(PyBackedBytes, usize)>,
        buffers: Vec<PyBackedBytes>,
        dictionary: Option<Py<Column>>,
    ) -> Self {
        Self { place, format, validity, buffers, dictionary }
    }
}

/// A column that is being read.
pub struct Cells<'a> {
    place: &'a str,
    validity: Option<(&'a [u8], usize)>,
    kind: Kind<'a>,
    /// The name at hand, where it does not stand in a buffer.
    made: String,
}

enum Kind<'a> {
    Text { width: usize, ends: &'a [u8], text: &'a [u8] },
    Views { views: &'a [u8], texts: Vec<&'a [u8]> },
    Whole(Whole<'a>),
    Dictionary { keys: Whole<'a>, values: Box<Cells<'a>>, ids: Vec<Option<u32>> },
}

/// Whole numbers.
struct Whole<'a> {
    bytes: usize,
    signed: bool,
    numbers: &'a [u8],
}

/// What is wrong with a cell.
enum Wrong {
    Missing,
    Empty,
    NotText,
    Damaged,
}

impl<'a> Cells<'a> {
    /// Opens a column.
    pub fn of(column: &'a Column) -> Result<Self> {
        let buffers: Vec<&'a [u8]> = column.buffers.iter().map(|buffer| &**buffer).collect();
        let place = &*column.place;
        let kind = match (&*column.format, &buffers[..]) {
            ("u", &[ends, text]) => Kind::Text { width: 4, ends, text },
            ("U", &[ends, text]) => Kind::Text { width: 8, ends, text },
            ("vu", &[views, ref texts @ ..]) => Kind::Views { views, texts: texts.to_vec() },
            (format, &[numbers]) if whole(format).is_some() => {
                let (bytes, signed) = whole(format).unwrap_or((1, false));
                let keys = Whole { bytes, signed, numbers };
                match &column.dictionary {
                    None => Kind::Whole(keys),
                    Some(values) => {
                        let values = Box::new(Cells::of(values.get())?);
                        Kind::Dictionary { keys, values, ids: Vec::new() }
                    }
                }
            }
            (format, _) => {
                let message =
                    format!("the {place} column is of Arrow's type {format:?}, and names are text or whole numbers");
                return Err(Fault::data(message, None, "convert the column to text"));
            }
        };
        let validity = column.validity.as_ref().map(|(bits, before)| (&**bits, *before));
        Ok(Self { place, validity, kind, made: String::new() })
    }

    /// The id of the name in a cell; `row` is how the user counts it.
    pub fn intern<I: Id>(&mut self, at: usize, row: usize, names: &mut Vocabulary<I>) -> Result<I> {
        self.id(at, names).map_err(|wrong| {
            let place = self.place;
            let (what, remedy) = match wrong {
                Wrong::Missing => ("is missing", "remove rows with nulls, for example with drop_nulls() or dropna()"),
                Wrong::Empty => ("is empty", "remove the row, or give it a name"),
                Wrong::NotText => ("is not valid Unicode", "encode the names as UTF-8"),
                Wrong::Damaged => ("points outside its column", "the table is damaged; make it again"),
            };
            Fault::data(format!("row {row}: the {place} {what}"), Some(row as u64), remedy)
        })
    }

    fn id<I: Id>(&mut self, at: usize, names: &mut Vocabulary<I>) -> std::result::Result<I, Wrong> {
        if let Some((bits, before)) = self.validity
            && bits.get((at + before) / 8).ok_or(Wrong::Damaged)? >> ((at + before) % 8) & 1 == 0
        {
            return Err(Wrong::Missing);
        }
        if let Kind::Dictionary { keys, values, ids } = &mut self.kind {
            let key = keys.at(at).and_then(|key| usize::try_from(key).ok()).ok_or(Wrong::Damaged)?;
            if let Some(&Some(known)) = ids.get(key) {
                return Ok(I::from_index(known as usize));
            }
            let id = values.id(key, names)?;
            if ids.len() <= key {
                ids.resize(key + 1, None);
            }
            ids[key] = Some(id.index() as u32);
            return Ok(id);
        }
        let name = std::str::from_utf8(self.name(at)?).map_err(|_| Wrong::NotText)?;
        if name.is_empty() { Err(Wrong::Empty) } else { Ok(names.intern(name)) }
    }

    fn name(&mut self, at: usize) -> std::result::Result<&[u8], Wrong> {
        match &self.kind {
            Kind::Text { width, ends, text } => {
                let all = Whole { bytes: *width, signed: false, numbers: ends };
                let end = |at: usize| all.at(at).and_then(|end| usize::try_from(end).ok());
                let (start, end) = end(at).zip(end(at + 1)).ok_or(Wrong::Damaged)?;
                text.get(start..end).ok_or(Wrong::Damaged)
            }
            Kind::Views { views, texts } => {
                let view = views.get(16 * at..16 * at + 16).ok_or(Wrong::Damaged)?;
                let part = |place: usize| {
                    u32::from_le_bytes([view[place], view[place + 1], view[place + 2], view[place + 3]]) as usize
                };
                let length = part(0);
                if length <= 12 {
                    return view.get(4..4 + length).ok_or(Wrong::Damaged);
                }
                let (text, start) = (texts.get(part(8)).ok_or(Wrong::Damaged)?, part(12));
                text.get(start..start + length).ok_or(Wrong::Damaged)
            }
            Kind::Whole(numbers) => {
                self.made = numbers.at(at).ok_or(Wrong::Damaged)?.to_string();
                Ok(self.made.as_bytes())
            }
            Kind::Dictionary { .. } => Err(Wrong::Damaged),
        }
    }
}

impl Whole<'_> {
    fn at(&self, at: usize) -> Option<i128> {
        let found = self.numbers.get(at * self.bytes..(at + 1) * self.bytes)?;
        let mut all = [0; 8];
        all[..self.bytes].copy_from_slice(found);
        let plain = u64::from_le_bytes(all);
        let unused = 64 - 8 * self.bytes as u32;
        Some(if self.signed { i128::from((plain << unused) as i64 >> unused) } else { i128::from(plain) })
    }
}

/// Bytes of a whole number of this type, and whether it has a sign.
fn whole(format: &str) -> Option<(usize, bool)> {
    Some(match format {
        "c" => (1, true),
        "C" => (1, false),
        "s" => (2, true),
        "S" => (2, false),
        "i" => (4, true),
        "I" => (4, false),
        "l" => (8, true),
        "L" => (8, false),
        _ => return None,
    })
}
