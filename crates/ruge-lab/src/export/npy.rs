//! NumPy's array format, version 1.0: a header of text, then the numbers, row by row.

use std::io::{self, Write};

use ruge_embed::{Embeddings, Table};

use super::Target;
use ruge::error::Result;

/// Arrays and names.
pub fn write(target: &Target<'_>, embeddings: &Embeddings) -> Result<()> {
    target.check_lines("a line of text")?;
    arrays(target, embeddings)?;
    target.put("entities.txt", |out| target.entities().try_for_each(|name| writeln!(out, "{name}")))?;
    target.put("relations.txt", |out| target.relations().try_for_each(|name| writeln!(out, "{name}")))
}

/// `entities.npy` and `relations.npy`: a row per name.
pub fn arrays(target: &Target<'_>, embeddings: &Embeddings) -> Result<()> {
    let data = target.engine.data();
    target.put("entities.npy", |out| array(out, &embeddings.entities, data.entity_count()))?;
    target.put("relations.npy", |out| array(out, &embeddings.relations, data.relation_count()))
}

/// The first `rows` rows of a table as little-endian `f32`.
fn array(out: &mut dyn Write, table: &Table, rows: usize) -> io::Result<()> {
    head(out, rows, table.width())?;
    (0..rows).try_for_each(|row| put(out, table.row(row)))
}

/// Rows of as many numbers each.
pub fn numbers<const N: usize>(out: &mut dyn Write, rows: &[[f32; N]]) -> io::Result<()> {
    head(out, rows.len(), N)?;
    rows.iter().try_for_each(|row| put(out, row))
}

fn put(out: &mut dyn Write, row: &[f32]) -> io::Result<()> {
    let bytes: Vec<u8> = row.iter().flat_map(|x| x.to_le_bytes()).collect();
    out.write_all(&bytes)
}

fn head(out: &mut dyn Write, rows: usize, width: usize) -> io::Result<()> {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}");
    // Magic, version, length and header together are a multiple of 64 long, so that the numbers are aligned.
    let unpadded = 10 + header.len() + 1;
    header.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    header.push('\n');
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&(header.len() as u16).to_le_bytes())?;
    out.write_all(header.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_says_what_follows_and_is_aligned() {
        let table = Table::from_dense(3, 2, &[1.0, 2.0, 3.0, 4.0, 5.0, -6.5]);
        let mut bytes = Vec::new();
        array(&mut bytes, &table, 2).unwrap();
        let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        assert_eq!((&bytes[..8], (10 + length) % 64), (&b"\x93NUMPY\x01\x00"[..], 0));
        let header = std::str::from_utf8(&bytes[10..10 + length]).unwrap();
        assert!(header.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"), "{header}");
        let numbers: Vec<f32> =
            bytes[10 + length..].as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        assert_eq!(numbers, [1.0, 2.0, 3.0, 4.0]);
    }
}
