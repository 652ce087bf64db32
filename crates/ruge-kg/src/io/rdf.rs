//! RDF (being written).
use super::{FileContents, ReadOptions, Source};
use crate::{KgError, Names};
pub(super) fn read_ntriples(
    _: Source<'_>,
    _: &mut Names,
    _: &ReadOptions,
    _: &mut FileContents,
) -> Result<(), KgError> {
    Err(KgError::Option("nt".into()))
}
pub(super) fn read_turtle(_: Source<'_>, _: &mut Names, _: &ReadOptions, _: &mut FileContents) -> Result<(), KgError> {
    Err(KgError::Option("ttl".into()))
}
