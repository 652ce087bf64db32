//! The part of Apache Parquet that plain tables need, written by hand.
//!
//! One row group, plain encoding, no compression: vectors do not compress, and every reader understands this. The whole
//! format is magic bytes, pages of values, and a footer in Thrift's compact protocol that says where they lie. The official
//! library would bring twenty crates and over a minute of building for these two hundred lines. See
//! <https://parquet.apache.org/docs/file-format/>.

use std::borrow::Cow;
use std::io::{self, Write};

/// Values of a page: enough that headers cost nothing, few enough to hold in memory.
const PAGE: usize = 1 << 16;

/// Who wrote it, in the form readers look for; the version is that of this writer.
const WRITER: &str = "ruge version 1.0.0";

/// A named column.
pub struct Column<'c> {
    name: String,
    cells: Cells<'c>,
}

/// What a row has in a column; `None` is null.
pub enum Cells<'c> {
    /// 32-bit integers.
    Int(Box<dyn Fn(usize) -> Option<i32> + 'c>),
    /// 64-bit integers.
    Long(Box<dyn Fn(usize) -> Option<i64> + 'c>),
    /// 64-bit floats.
    Real(Box<dyn Fn(usize) -> Option<f64> + 'c>),
    /// UTF-8.
    Text(Box<dyn Fn(usize) -> Option<Cow<'c, str>> + 'c>),
    /// Lists of 32-bit floats, none of them null or empty.
    Floats(Box<dyn Fn(usize) -> &'c [f32] + 'c>),
}

impl<'c> Column<'c> {
    /// A column.
    pub fn new(name: impl Into<String>, cells: Cells<'c>) -> Self {
        Self { name: name.into(), cells }
    }

    /// Parquet's number of the physical type.
    fn physical(&self) -> i64 {
        match self.cells {
            Cells::Int(_) => 1,
            Cells::Long(_) => 2,
            Cells::Floats(_) => 4,
            Cells::Real(_) => 5,
            Cells::Text(_) => 6,
        }
    }

    fn path(&self) -> Vec<&str> {
        match self.cells {
            Cells::Floats(_) => vec![&self.name, "list", "element"],
            _ => vec![&self.name],
        }
    }

    /// Rows of one page.
    fn rows_per_page(&self) -> usize {
        match &self.cells {
            Cells::Floats(of) => (PAGE / of(0).len().max(1)).max(1),
            _ => PAGE,
        }
    }

    /// The values of some rows, with the levels that say which are there: (number of values, page).
    fn page(&self, rows: std::ops::Range<usize>) -> (usize, Vec<u8>) {
        let mut page = Vec::new();
        let mut values = Vec::new();
        if let Cells::Floats(of) = &self.cells {
            let mut repeated = Runs::default();
            for row in rows.clone() {
                let list = of(row);
                repeated.push(0, 1);
                repeated.push(1, list.len() - 1);
                values.extend(list.iter().flat_map(|x| x.to_le_bytes()));
            }
            let count = values.len() / 4;
            let mut defined = Runs::default();
            defined.push(1, count);
            page.extend(repeated.finish());
            page.extend(defined.finish());
            page.extend(values);
            return (count, page);
        }
        let mut defined = Runs::default();
        for row in rows.clone() {
            let before = values.len();
            let is_there = match &self.cells {
                Cells::Int(of) => of(row).map(|x| values.extend(x.to_le_bytes())),
                Cells::Long(of) => of(row).map(|x| values.extend(x.to_le_bytes())),
                Cells::Real(of) => of(row).map(|x| values.extend(x.to_le_bytes())),
                Cells::Text(of) => of(row).map(|text| {
                    values.extend((text.len() as u32).to_le_bytes());
                    values.extend(text.as_bytes());
                }),
                Cells::Floats(_) => None,
            };
            debug_assert!(is_there.is_some() == (values.len() > before));
            defined.push(u8::from(is_there.is_some()), 1);
        }
        page.extend(defined.finish());
        page.extend(values);
        (rows.len(), page)
    }
}

/// Writes a table: `rows` rows of the columns.
pub fn write_table(out: &mut dyn Write, rows: usize, columns: &[Column<'_>]) -> io::Result<()> {
    let mut offset = 4;
    out.write_all(b"PAR1")?;
    let mut chunks: Vec<(usize, usize, usize)> = Vec::new(); // begin, bytes, values
    for column in columns {
        let begin = offset;
        let mut values = 0;
        let step = if rows == 0 { 1 } else { column.rows_per_page() };
        for first in (0..rows).step_by(step) {
            let (count, page) = column.page(first..(first + step).min(rows));
            let header = page_header(count, page.len());
            out.write_all(&header)?;
            out.write_all(&page)?;
            offset += header.len() + page.len();
            values += count;
        }
        chunks.push((begin, offset - begin, values));
    }
    let footer = footer(rows, columns, &chunks);
    out.write_all(&footer)?;
    out.write_all(&(footer.len() as u32).to_le_bytes())?;
    out.write_all(b"PAR1")
}

fn page_header(values: usize, bytes: usize) -> Vec<u8> {
    let mut header = Compact::default();
    header.int(1, 0); // a data page
    header.int(2, bytes as i64);
    header.int(3, bytes as i64);
    header.open(5);
    header.int(1, values as i64);
    header.int(2, 0); // values: plain
    header.int(3, 3); // definition levels: run lengths
    header.int(4, 3); // repetition levels: run lengths
    header.close();
    header.close();
    header.bytes
}

fn footer(rows: usize, columns: &[Column<'_>], chunks: &[(usize, usize, usize)]) -> Vec<u8> {
    let mut meta = Compact::default();
    meta.int(1, 1); // version
    let elements = 1 + columns.iter().map(|column| column.path().len()).sum::<usize>();
    meta.list(2, STRUCT, elements);
    meta.element(None, None, "schema", Some(columns.len()), None);
    for column in columns {
        match column.cells {
            Cells::Floats(_) => {
                meta.element(None, Some(REQUIRED), &column.name, Some(1), Some((3, 3)));
                meta.element(None, Some(REPEATED), "list", Some(1), None);
                meta.element(Some(column.physical()), Some(REQUIRED), "element", None, None);
            }
            Cells::Text(_) => meta.element(Some(column.physical()), Some(OPTIONAL), &column.name, None, Some((0, 1))),
            _ => meta.element(Some(column.physical()), Some(OPTIONAL), &column.name, None, None),
        }
    }
    meta.long(3, rows as i64);
    meta.list(4, STRUCT, 1);
    meta.item();
    meta.list(1, STRUCT, columns.len());
    for (column, &(begin, bytes, values)) in columns.iter().zip(chunks) {
        meta.item();
        meta.long(2, begin as i64);
        meta.open(3);
        meta.int(1, column.physical());
        meta.list(2, I32, 2);
        meta.zigzag(0); // plain
        meta.zigzag(3); // run lengths
        let path = column.path();
        meta.list(3, BINARY, path.len());
        path.iter().for_each(|part| meta.raw(part));
        meta.int(4, 0); // not compressed
        meta.long(5, values as i64);
        meta.long(6, bytes as i64);
        meta.long(7, bytes as i64);
        meta.long(9, begin as i64);
        meta.close();
        meta.close();
    }
    meta.long(2, chunks.iter().map(|chunk| chunk.1 as i64).sum());
    meta.long(3, rows as i64);
    meta.close();
    meta.text(6, WRITER);
    meta.close();
    meta.bytes
}

const REQUIRED: i64 = 0;
const OPTIONAL: i64 = 1;
const REPEATED: i64 = 2;

const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Levels of one bit as runs: how many, then which. Parquet puts their length before them.
#[derive(Default)]
struct Runs {
    bytes: Vec<u8>,
    level: u8,
    length: usize,
}

impl Runs {
    fn push(&mut self, level: u8, times: usize) {
        if level != self.level && times > 0 {
            self.flush();
            self.level = level;
        }
        self.length += times;
    }

    fn flush(&mut self) {
        if self.length > 0 {
            varint(&mut self.bytes, (self.length as u64) << 1);
            self.bytes.push(self.level);
            self.length = 0;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.flush();
        let mut out = (self.bytes.len() as u32).to_le_bytes().to_vec();
        out.extend(self.bytes);
        out
    }
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Thrift's compact protocol, as far as the footer needs it. Fields must come in rising order.
#[derive(Default)]
struct Compact {
    bytes: Vec<u8>,
    /// The last field of the current struct.
    last: u8,
    /// The last fields of the structs around it.
    outer: Vec<u8>,
}

impl Compact {
    fn field(&mut self, field: u8, kind: u8) {
        self.bytes.push((field - self.last) << 4 | kind);
        self.last = field;
    }

    fn zigzag(&mut self, value: i64) {
        varint(&mut self.bytes, (value << 1 ^ value >> 63) as u64);
    }

    fn raw(&mut self, text: &str) {
        varint(&mut self.bytes, text.len() as u64);
        self.bytes.extend(text.as_bytes());
    }

    fn int(&mut self, field: u8, value: i64) {
        self.field(field, I32);
        self.zigzag(value);
    }

    fn long(&mut self, field: u8, value: i64) {
        self.field(field, I64);
        self.zigzag(value);
    }

    fn text(&mut self, field: u8, text: &str) {
        self.field(field, BINARY);
        self.raw(text);
    }

    fn list(&mut self, field: u8, kind: u8, length: usize) {
        self.field(field, LIST);
        if length < 15 {
            self.bytes.push((length as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            varint(&mut self.bytes, length as u64);
        }
    }

    /// Begins a struct as a field.
    fn open(&mut self, field: u8) {
        self.field(field, STRUCT);
        self.item();
    }

    /// Begins a struct as an item of a list.
    fn item(&mut self) {
        self.outer.push(self.last);
        self.last = 0;
    }

    fn close(&mut self) {
        self.bytes.push(0);
        self.last = self.outer.pop().unwrap_or(0);
    }

    /// A schema element; `kind` is the old and the new number of its logical type.
    fn element(
        &mut self,
        physical: Option<i64>,
        repetition: Option<i64>,
        name: &str,
        children: Option<usize>,
        kind: Option<(i64, u8)>,
    ) {
        self.item();
        if let Some(physical) = physical {
            self.int(1, physical);
        }
        if let Some(repetition) = repetition {
            self.int(3, repetition);
        }
        self.text(4, name);
        if let Some(children) = children {
            self.int(5, children as i64);
        }
        if let Some((old, new)) = kind {
            self.int(6, old);
            self.open(10);
            self.open(new);
            self.close();
            self.close();
        }
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn sample() -> Vec<u8> {
        let names = ["a", "b c", "d\te"];
        let vectors = [[1.0f32, 2.0], [3.0, 4.5], [-5.0, 0.25]];
        let columns = [
            Column::new("id", Cells::Int(Box::new(|row| Some(row as i32)))),
            Column::new("name", Cells::Text(Box::new(|row| Some(names[row].into())))),
            Column::new("support", Cells::Long(Box::new(|row| (row != 1).then_some(10 * row as i64)))),
            Column::new("share", Cells::Real(Box::new(|row| (row == 1).then_some(0.5)))),
            Column::new("vector", Cells::Floats(Box::new(|row| &vectors[row]))),
        ];
        let mut out = Vec::new();
        write_table(&mut out, 3, &columns).unwrap();
        out
    }

    #[test]
    fn levels_are_run_lengths() {
        let mut runs = Runs::default();
        runs.push(0, 1);
        runs.push(1, 300);
        runs.push(0, 2);
        assert_eq!(runs.finish(), [7, 0, 0, 0, 2, 0, 0xd8, 4, 1, 4, 0]);
    }

    #[test]
    fn a_table_ends_with_the_length_of_its_footer() {
        let file = sample();
        let end = file.len();
        assert_eq!((&file[..4], &file[end - 4..]), (&b"PAR1"[..], &b"PAR1"[..]));
        let length = u32::from_le_bytes(file[end - 8..end - 4].try_into().unwrap()) as usize;
        assert!(length < end - 12);
    }

    /// These very bytes were read with pyarrow 26 and DuckDB 2.0, see docs/export.md.
    #[test]
    fn the_bytes_are_those_that_other_readers_were_shown() {
        let digest: String = Sha256::digest(sample()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, "6176a57817aad986e01239ec8ff86385c02bacd50b363e6b20cd292603ec98ad");
    }

    #[test]
    fn many_rows_take_several_pages_and_none_take_none() {
        let column = Column::new("x", Cells::Int(Box::new(|row| Some(row as i32))));
        let mut out = Vec::new();
        write_table(&mut out, PAGE + 1, &[column]).unwrap();
        assert!(out.len() > 4 * PAGE);
        let empty = Column::new("x", Cells::Floats(Box::new(|_| &[])));
        write_table(&mut Vec::new(), 0, &[empty]).unwrap();
    }
}
