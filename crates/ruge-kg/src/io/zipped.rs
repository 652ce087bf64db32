//! Zip archives: their members are read like files. `graph.zip/train.tsv` names a member.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use zip::ZipArchive;
use zip::result::ZipError;

use super::Limits;
use crate::error::KgError;
use crate::memory;

/// Whether a file starts like a zip archive.
pub(super) fn is_zip(start: &[u8]) -> bool {
    start.starts_with(b"PK\x03\x04")
}

fn starts_like_zip(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4).read_to_end(&mut start));
    read.is_ok() && is_zip(&start)
}

/// The archive and the member that a path leads into, if it leads through a zip file.
pub(super) fn split(path: &Path) -> Option<(PathBuf, String)> {
    let mut ancestors = path.ancestors().skip(1);
    let archive = ancestors.find(|ancestor| ancestor.is_file())?;
    if !starts_like_zip(archive) {
        return None;
    }
    let member = path.strip_prefix(archive).ok()?.to_str()?.to_string();
    Some((archive.to_path_buf(), member))
}

/// The members of an archive that a person put there, in order of their names; `None` if the file is no archive.
pub(super) fn members(path: &Path) -> Result<Option<Vec<String>>, KgError> {
    if !path.is_file() || !starts_like_zip(path) {
        return Ok(None);
    }
    let archive = open(path)?;
    let is_data = |name: &String| {
        let file = name.rsplit('/').next().unwrap_or_default();
        !file.is_empty() && !file.starts_with('.') && !name.starts_with("__MACOSX/")
    };
    let names: Result<Vec<String>, ZipError> = archive.file_names().map(|name| Ok(name?.into_owned())).collect();
    let mut names = names.map_err(|error| damaged(path, error))?;
    names.retain(is_data);
    names.sort();
    if names.is_empty() {
        let message = "the archive is empty".to_string();
        return Err(KgError::Description { path: path.to_path_buf(), message });
    }
    Ok(Some(names))
}

fn open(path: &Path) -> Result<ZipArchive<File>, KgError> {
    let file = File::open(path).map_err(KgError::io(path, "open"))?;
    ZipArchive::new(file).map_err(|error| damaged(path, error))
}

fn damaged(path: &Path, error: ZipError) -> KgError {
    match error {
        ZipError::Io(source) => KgError::Compressed { path: path.to_path_buf(), format: "zip", source },
        ZipError::UnsupportedArchive(why) => {
            let message = format!("this zip archive cannot be unpacked: {why}\n  remedy: unpack it first: unzip FILE");
            KgError::Description { path: path.to_path_buf(), message }
        }
        other => {
            let source = std::io::Error::new(std::io::ErrorKind::InvalidData, other.to_string());
            KgError::Compressed { path: path.to_path_buf(), format: "zip", source }
        }
    }
}

/// The text of a member, if there is memory for it.
pub(super) fn read(path: &Path, member: &str, most: u64, limits: Limits) -> Result<Vec<u8>, KgError> {
    let mut archive = open(path)?;
    let file = archive.by_name(member).map_err(|error| match error {
        ZipError::FileNotFound => {
            KgError::Description { path: path.to_path_buf(), message: format!("the archive has no {member:?}") }
        }
        other => damaged(path, other),
    })?;
    let stated = file.size();
    if stated > most {
        return Err(KgError::TooLarge { path: path.to_path_buf(), packed: Some("zip"), most });
    }
    memory::ensure(stated, "text that is read", limits.memory)?;
    let mut bytes = Vec::new();
    // The size that an archive states may be wrong; what is unpacked is bounded by what there is room for.
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|source| KgError::Compressed { path: path.to_path_buf(), format: "zip", source })?;
    if bytes.len() as u64 > most {
        return Err(KgError::TooLarge { path: path.to_path_buf(), packed: Some("zip"), most });
    }
    Ok(bytes)
}
