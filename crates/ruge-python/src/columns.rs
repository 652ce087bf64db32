//! Columns of names as Arrow lays them out.
//!
//! The package reads the structures of Arrow's C interface and hands over its buffers, some rows at a time; here a cell becomes a
//! name. Text of all three layouts, whole numbers, and dictionaries of either are read; a null and any other type are errors that
//! name row and column. Python is not needed while cells are read.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::errors::{Fault, Result};
use crate::job;

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
        py: Python<'_>,
    ) -> PyResult<Self> {
        job::here(py, || Ok(Self { place, format, validity, buffers, dictionary }))
    }
}

/// A column that is being read.
pub struct Cells<'a> {
    place: &'a str,
    validity: Option<(&'a [u8], usize)>,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Text { ends: Ends<'a>, text: &'a [u8] },
    Views { views: &'a [[u8; 16]], texts: Vec<&'a [u8]> },
    Whole(Whole<'a>),
    Dictionary { keys: Whole<'a>, values: Box<Cells<'a>> },
}

/// Where each text ends and the next begins.
enum Ends<'a> {
    Small(&'a [[u8; 4]]),
    Large(&'a [[u8; 8]]),
}

impl Ends<'_> {
    #[inline]
    fn at(&self, at: usize) -> Option<usize> {
        match self {
            Ends::Small(ends) => Some(u32::from_le_bytes(*ends.get(at)?) as usize),
            Ends::Large(ends) => usize::try_from(u64::from_le_bytes(*ends.get(at)?)).ok(),
        }
    }
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
            ("u", &[ends, text]) => Kind::Text { ends: Ends::Small(ends.as_chunks().0), text },
            ("U", &[ends, text]) => Kind::Text { ends: Ends::Large(ends.as_chunks().0), text },
            ("vu", &[views, ref texts @ ..]) => Kind::Views { views: views.as_chunks().0, texts: texts.to_vec() },
            (format, &[numbers]) if whole(format).is_some() => {
                let (bytes, signed) = whole(format).unwrap_or((1, false));
                let keys = Whole { bytes, signed, numbers };
                match &column.dictionary {
                    None => Kind::Whole(keys),
                    Some(values) => {
                        let values = Box::new(Cells::of(values.get())?);
                        Kind::Dictionary { keys, values }
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
        Ok(Self { place, validity, kind })
    }

    /// Whether every name stands in a buffer.
    pub fn borrows(&self) -> bool {
        match &self.kind {
            Kind::Text { .. } | Kind::Views { .. } => true,
            Kind::Whole(_) => false,
            Kind::Dictionary { values, .. } => values.borrows(),
        }
    }

    /// The name in a cell of a column that [borrows](Self::borrows) its names; `row` is how the user counts it.
    #[inline]
    pub fn text(&self, at: usize, row: usize) -> Result<&'a str> {
        self.find(at).map_err(|wrong| self.fault(wrong, row))
    }

    /// The name in a cell of any column.
    pub fn name(&self, at: usize, row: usize) -> Result<Cow<'a, str>> {
        self.made(at).map_err(|wrong| self.fault(wrong, row))
    }

    #[cold]
    fn fault(&self, wrong: Wrong, row: usize) -> Fault {
        let place = self.place;
        let (what, remedy) = match wrong {
            Wrong::Missing => ("is missing", "remove rows with nulls, for example with drop_nulls() or dropna()"),
            Wrong::Empty => ("is empty", "remove the row, or give it a name"),
            Wrong::NotText => ("is not valid Unicode", "encode the names as UTF-8"),
            Wrong::Damaged => ("points outside its column", "the table is damaged; make it again"),
        };
        Fault::data(format!("row {row}: the {place} {what}"), Some(row as u64), remedy)
    }

    fn made(&self, at: usize) -> std::result::Result<Cow<'a, str>, Wrong> {
        match &self.kind {
            Kind::Whole(numbers) => {
                self.filled(at)?;
                Ok(numbers.at(at).ok_or(Wrong::Damaged)?.to_string().into())
            }
            Kind::Dictionary { keys, values } => {
                self.filled(at)?;
                values.made(key(keys, at)?)
            }
            Kind::Text { .. } | Kind::Views { .. } => self.find(at).map(Cow::Borrowed),
        }
    }

    /// An error where a cell is null.
    #[inline]
    fn filled(&self, at: usize) -> std::result::Result<(), Wrong> {
        let Some((bits, before)) = self.validity else { return Ok(()) };
        let at = at + before;
        match bits.get(at / 8).ok_or(Wrong::Damaged)? >> (at % 8) & 1 {
            0 => Err(Wrong::Missing),
            _ => Ok(()),
        }
    }

    #[inline]
    fn find(&self, at: usize) -> std::result::Result<&'a str, Wrong> {
        self.filled(at)?;
        let bytes = match &self.kind {
            Kind::Text { ends, text } => {
                let (start, end) = ends.at(at).zip(ends.at(at + 1)).ok_or(Wrong::Damaged)?;
                text.get(start..end).ok_or(Wrong::Damaged)?
            }
            Kind::Views { views, texts } => {
                let view = views.get(at).ok_or(Wrong::Damaged)?;
                let parts = u128::from_le_bytes(*view);
                let length = parts as u32 as usize;
                if length <= 12 {
                    &view[4..4 + length]
                } else {
                    let (text, start) = ((parts >> 64) as u32 as usize, (parts >> 96) as usize);
                    let text = texts.get(text).ok_or(Wrong::Damaged)?;
                    text.get(start..start + length).ok_or(Wrong::Damaged)?
                }
            }
            Kind::Dictionary { keys, values } => return values.find(key(keys, at)?),
            Kind::Whole(_) => return Err(Wrong::NotText),
        };
        let name = std::str::from_utf8(bytes).map_err(|_| Wrong::NotText)?;
        if name.is_empty() { Err(Wrong::Empty) } else { Ok(name) }
    }
}

fn key(keys: &Whole<'_>, at: usize) -> std::result::Result<usize, Wrong> {
    keys.at(at).and_then(|key| usize::try_from(key).ok()).ok_or(Wrong::Damaged)
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
