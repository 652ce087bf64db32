//! The part of Apache Parquet that plain tables need, written by hand.
//!
//! One row group, no compression; numbers as they are, since vectors do not compress, and names that come again and again as
//! numbers of a dictionary. Every reader understands this. The whole format is magic bytes, pages of values, and a footer in Thrift's compact protocol that says where they lie. The official
//! library would bring twenty crates and over a minute of building for these two hundred lines. See
//! <https://parquet.apache.org/docs/file-format/>.

use std::borrow::Cow;
use std::io::{self, Write};

use rustc_hash::FxHashMap;

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

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a row has, as text; empty for null.
    pub fn text(&self, row: usize) -> Cow<'c, str> {
        fn said<'t, T: ToString>(value: Option<T>) -> Cow<'t, str> {
            value.map_or(Cow::Borrowed(""), |value| Cow::Owned(value.to_string()))
        }
        match &self.cells {
            Cells::Int(of) => said(of(row)),
            Cells::Long(of) => said(of(row)),
            Cells::Real(of) => said(of(row)),
            Cells::Text(of) => of(row).unwrap_or_default(),
            Cells::Floats(of) => of(row).iter().map(f32::to_string).collect::<Vec<_>>().join(" ").into(),
        }
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

    /// The distinct texts, where at most every other text is a new one; a dictionary of single uses would only cost.
    fn dictionary(&self, rows: usize) -> Option<Dictionary> {
        let Cells::Text(of) = &self.cells else { return None };
        let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
        let mut page = Vec::new();
        for text in (0..rows).filter_map(of) {
            if !numbers.contains_key(text.as_ref()) {
                if numbers.len() >= rows / 2 {
                    return None;
                }
                put_text(&mut page, &text);
                numbers.insert(text.into_owned(), numbers.len() as u32);
            }
        }
        (!numbers.is_empty()).then_some(Dictionary { numbers, page })
    }

    /// Rows of one page.
    fn rows_per_page(&self) -> usize {
        match &self.cells {
            Cells::Floats(of) => (PAGE / of(0).len().max(1)).max(1),
            _ => PAGE,
        }
    }

    /// The values of some rows, with the levels that say which are there: (number of values, page).
    fn page(&self, rows: std::ops::Range<usize>, dictionary: Option<&Dictionary>) -> (usize, Vec<u8>) {
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
        if let (Cells::Text(of), Some(dictionary)) = (&self.cells, dictionary) {
            let mut numbers = Vec::new();
            for row in rows.clone() {
                let number = of(row).and_then(|text| dictionary.numbers.get(text.as_ref()).copied());
                defined.push(u8::from(number.is_some()), 1);
                numbers.extend(number);
            }
            page.extend(defined.finish());
            page.extend(dictionary.pack(&numbers));
            return (rows.len(), page);
        }
        for row in rows.clone() {
            let before = values.len();
            let is_there = match &self.cells {
                Cells::Int(of) => of(row).map(|x| values.extend(x.to_le_bytes())),
                Cells::Long(of) => of(row).map(|x| values.extend(x.to_le_bytes())),
                Cells::Real(of) => of(row).map(|x| values.extend(x.to_le_bytes())),
                Cells::Text(of) => of(row).map(|text| put_text(&mut values, &text)),
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

/// Where the pages of a column lie, and what they hold.
struct Chunk {
    begin: usize,
    /// Where the values begin, if a dictionary comes before them.
    values_begin: Option<usize>,
    bytes: usize,
    values: usize,
}

/// Writes a table: `rows` rows of the columns.
pub fn write_table(out: &mut dyn Write, rows: usize, columns: &[Column<'_>]) -> io::Result<()> {
    let mut offset = 4;
    out.write_all(b"PAR1")?;
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut put = |header: Vec<u8>, page: &[u8], offset: &mut usize| {
        *offset += header.len() + page.len();
        out.write_all(&header).and_then(|()| out.write_all(page))
    };
    for column in columns {
        let begin = offset;
        let dictionary = column.dictionary(rows);
        if let Some(dictionary) = &dictionary {
            put(dictionary.header(), &dictionary.page, &mut offset)?;
        }
        let values_begin = dictionary.is_some().then_some(offset);
        let mut values = 0;
        let step = if rows == 0 { 1 } else { column.rows_per_page() };
        for first in (0..rows).step_by(step) {
            let (count, page) = column.page(first..(first + step).min(rows), dictionary.as_ref());
            put(page_header(count, page.len(), dictionary.is_some()), &page, &mut offset)?;
            values += count;
        }
        chunks.push(Chunk { begin, values_begin, bytes: offset - begin, values });
    }
    let footer = footer(rows, columns, &chunks);
    out.write_all(&footer)?;
    out.write_all(&(footer.len() as u32).to_le_bytes())?;
    out.write_all(b"PAR1")
}

/// The distinct texts of a column, in order of appearance.
struct Dictionary {
    numbers: FxHashMap<String, u32>,
    page: Vec<u8>,
}

impl Dictionary {
    fn header(&self) -> Vec<u8> {
        let mut header = Compact::default();
        header.int(1, 2); // a dictionary page
        header.int(2, self.page.len() as i64);
        header.int(3, self.page.len() as i64);
        header.open(7);
        header.int(1, self.numbers.len() as i64);
        header.int(2, 0); // plain
        header.close();
        header.close();
        header.bytes
    }

    /// Bits of the largest number.
    fn width(&self) -> u32 {
        u32::BITS - (self.numbers.len() as u32).saturating_sub(1).leading_zeros()
    }

    /// Numbers packed end to end, lowest bits first, in groups of eight; before them their width and how many groups.
    fn pack(&self, numbers: &[u32]) -> Vec<u8> {
        let width = self.width();
        let mut out = vec![width as u8];
        let groups = numbers.len().div_ceil(8);
        varint(&mut out, (groups as u64) << 1 | 1);
        let (mut bits, mut filled) = (0u64, 0);
        let padded = numbers.iter().copied().chain(std::iter::repeat(0)).take(8 * groups);
        for number in padded {
            bits |= u64::from(number) << filled;
            filled += width;
            while filled >= 8 {
                out.push(bits as u8);
                bits >>= 8;
                filled -= 8;
            }
        }
        out
    }
}

fn put_text(page: &mut Vec<u8>, text: &str) {
    page.extend((text.len() as u32).to_le_bytes());
    page.extend(text.as_bytes());
}

fn page_header(values: usize, bytes: usize, dictionary: bool) -> Vec<u8> {
    let mut header = Compact::default();
    header.int(1, 0); // a data page
    header.int(2, bytes as i64);
    header.int(3, bytes as i64);
    header.open(5);
    header.int(1, values as i64);
    header.int(2, if dictionary { IN_DICTIONARY } else { 0 }); // values: plain otherwise
    header.int(3, 3); // definition levels: run lengths
    header.int(4, 3); // repetition levels: run lengths
    header.close();
    header.close();
    header.bytes
}

fn footer(rows: usize, columns: &[Column<'_>], chunks: &[Chunk]) -> Vec<u8> {
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
    for (column, chunk) in columns.iter().zip(chunks) {
        meta.item();
        meta.long(2, chunk.begin as i64);
        meta.open(3);
        meta.int(1, column.physical());
        let encodings = if chunk.values_begin.is_some() { &[0, 3, IN_DICTIONARY][..] } else { &[0, 3] };
        meta.list(2, I32, encodings.len());
        encodings.iter().for_each(|encoding| meta.zigzag(*encoding));
        let path = column.path();
        meta.list(3, BINARY, path.len());
        path.iter().for_each(|part| meta.raw(part));
        meta.int(4, 0); // not compressed
        meta.long(5, chunk.values as i64);
        meta.long(6, chunk.bytes as i64);
        meta.long(7, chunk.bytes as i64);
        meta.long(9, chunk.values_begin.unwrap_or(chunk.begin) as i64);
        if chunk.values_begin.is_some() {
            meta.long(11, chunk.begin as i64);
        }
        meta.close();
        meta.close();
    }
    meta.long(2, chunks.iter().map(|chunk| chunk.bytes as i64).sum());
    meta.long(3, rows as i64);
    meta.close();
    meta.text(6, WRITER);
    meta.close();
    meta.bytes
}

/// The encoding of values that are numbers of a dictionary; 0 is plain, 3 run lengths.
const IN_DICTIONARY: i64 = 8;

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

    /// Texts that come again, with nulls among them, over two pages.
    fn repeated() -> Vec<u8> {
        let names = ["a", "b c", "d", "e", "f"];
        let cell = move |row: usize| (row % 7 != 3).then(|| Cow::Borrowed(names[row * row % 5]));
        let one = |_: usize| Some(Cow::Borrowed("only"));
        let columns =
            [Column::new("name", Cells::Text(Box::new(cell))), Column::new("one", Cells::Text(Box::new(one)))];
        let mut out = Vec::new();
        write_table(&mut out, PAGE + 9, &columns).unwrap();
        out
    }

    /// The same as above, for a dictionary.
    #[test]
    fn texts_that_come_again_are_numbers_of_a_dictionary() {
        let file = repeated();
        assert!(file.len() < PAGE, "{} bytes for {PAGE} texts", file.len());
        let digest: String = Sha256::digest(&file).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, "13186cde8b490c2b56f13cee09afe7c98be11849aee05530015e0b5c7cc2048b");
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
