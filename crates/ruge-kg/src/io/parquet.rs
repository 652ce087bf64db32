//! Parquet: tables by columns, as data platforms export them. Rows are read in order, of the three columns that are wanted.
//!
//! A file without a head is not a table, so columns always have names: those that a header may have are recognised, and otherwise the
//! first three are read.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::{Type, TypePtr};

use super::tsv::short_enough;
use super::{Columns, FileContents, Header, ReadOptions, Source};
use crate::error::{KgError, Reason};
use crate::vocabulary::Names;

/// Reads a Parquet file.
pub(super) fn read(
    source: Source<'_>,
    names: &mut Names,
    options: &ReadOptions,
    contents: &mut FileContents,
) -> Result<(), KgError> {
    // The library checks most of what a damaged file may hold, and panics at some of the rest.
    let read = || match source.file()? {
        Some(file) => read_from(file, &source, names, options, contents),
        None => read_from(Bytes::from(source.whole()?.into_owned()), &source, names, options, contents),
    };
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        let cause = std::io::Error::new(std::io::ErrorKind::InvalidData, "its pages do not fit its head");
        Err(KgError::Compressed { path: source.path().to_path_buf(), format: "Parquet", source: cause })
    })
}

fn read_from<R: ChunkReader + 'static>(
    reader: R,
    source: &Source<'_>,
    names: &mut Names,
    options: &ReadOptions,
    contents: &mut FileContents,
) -> Result<(), KgError> {
    let damaged = |error: ParquetError| {
        let cause = std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string());
        KgError::Compressed { path: source.path().to_path_buf(), format: "Parquet", source: cause }
    };
    let reader = SerializedFileReader::new(reader).map_err(damaged)?;
    let schema = reader.metadata().file_metadata().schema().clone();
    let fields: Vec<String> = schema.get_fields().iter().map(|field| field.name().to_string()).collect();
    let wrong = |message: String| KgError::Columns { path: source.path().to_path_buf(), message };
    let (columns, _) = options.columns.resolve(&fields, Header::Auto).map_err(wrong)?;
    let Columns { head, relation, tail, .. } = columns;
    if [head, relation, tail].iter().any(|&at| at >= fields.len()) {
        return Err(wrong(format!("a triple has three columns; the table has {}", fields.join(", "))));
    }
    contents.report.columns = Some(Columns { count: fields.len(), ..columns });
    let mut places = [head, relation, tail];
    places.sort_unstable();
    let wanted: Vec<TypePtr> = places.iter().map(|&at| Arc::clone(&schema.get_fields()[at])).collect();
    let wanted = Type::group_type_builder(schema.name()).with_fields(wanted).build().map_err(damaged)?;
    // Fields come in the order of the table.
    let order = [head, relation, tail].map(|at| places.iter().position(|&place| place == at).unwrap_or(0));
    for (row, number) in reader.get_row_iter(Some(wanted)).map_err(damaged)?.zip(1..) {
        let row = row.map_err(damaged)?;
        contents.report.lines = number;
        match names_of(&row, order, options.limits.name) {
            Ok(named) => {
                let triple = names.read_triple([&named[0], &named[1], &named[2]], &options.limits)?;
                contents.push(triple, number, &options.limits)?;
            }
            Err(reason) => contents.report.bad_line(number, row.to_string(), reason),
        }
        if contents.report.enough(options) {
            break;
        }
    }
    Ok(())
}

fn names_of(row: &Row, order: [usize; 3], most: usize) -> Result<[String; 3], Reason> {
    let cells: Vec<&Field> = row.get_column_iter().map(|(_, field)| field).collect();
    let mut named = [const { String::new() }; 3];
    for ((name, place), field) in named.iter_mut().zip(order).zip(["head", "relation", "tail"]) {
        *name = match cells.get(place) {
            Some(Field::Str(text)) => text.trim_matches(' ').to_string(),
            Some(Field::Bytes(bytes)) => {
                std::str::from_utf8(bytes.data()).map_err(|_| Reason::InvalidUtf8)?.trim_matches(' ').to_string()
            }
            Some(Field::Null) | None => String::new(),
            // Numbers and dates, as they are shown.
            Some(other) => other.to_string(),
        };
        if name.is_empty() {
            return Err(Reason::EmptyField { field });
        }
    }
    short_enough([&named[0], &named[1], &named[2]], most)?;
    Ok(named)
}
