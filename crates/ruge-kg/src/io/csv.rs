//! CSV (being written).
use super::{FileContents, ReadOptions, Source};
use crate::{KgError, Names};
pub(super) fn read(_: Source<'_>, _: u8, _: &mut Names, _: &ReadOptions, _: &mut FileContents) -> Result<(), KgError> {
    Err(KgError::Option("csv".into()))
}
