//! Being written.
use super::{FileContents, ReadOptions};
use crate::{KgError, Names};
use std::path::Path;
pub(crate) fn read(_: &Path, _: &mut Names, _: &ReadOptions) -> Result<[Option<FileContents>; 3], KgError> {
    Err(KgError::Option("openke".into()))
}
