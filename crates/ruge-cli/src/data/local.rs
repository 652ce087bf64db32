//! Sets that are already on this machine: found in a folder or an archive instead of on the network (`--from`).
//!
//! People keep these sets under many names. A folder may be the set itself or hold a folder of the set's name; the
//! files may be plain or gzipped, named as `ruge` names them or as their publisher did; or the publisher's archive
//! may lie there unopened.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use flate2::read::MultiGzDecoder;

use super::catalog::{BenchmarkSet, Role};
use super::staged::{MAX_FILE_BYTES, Staged, open};
use super::unpack::ArchiveKind;

/// Where a set was found.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// As files; a missing rules file is left out, for the triples are of use without it.
    Files(Vec<(Role, PathBuf)>),
    /// As an archive.
    Archive(PathBuf),
}

/// Looks for `set` in `from`, which is a folder or an archive.
pub fn locate(set: &BenchmarkSet, from: &Path) -> Result<Found> {
    if from.is_file() {
        let name = from.to_string_lossy();
        ensure!(
            ArchiveKind::of(&name).is_some() && set.archive.is_some(),
            "--from {name}: this file is not the archive of '{}'; give the folder that holds its files",
            set.name
        );
        return Ok(Found::Archive(from.to_owned()));
    }
    ensure!(from.is_dir(), "--from {}: no such folder", from.display());
    for folder in [from.join(&set.name), from.to_owned()] {
        let found: Vec<_> =
            set.files.iter().filter_map(|file| Some((file.role, existing(&folder, &set.name, file.role)?))).collect();
        let lacks = |role| found.iter().all(|(other, _)| *other != role);
        if !lacks(Role::Train) {
            for role in [Role::Valid, Role::Test] {
                ensure!(
                    !lacks(role),
                    "{} has a train file but no {role} file; looked for {}",
                    folder.display(),
                    names(&set.name, role).join(", ")
                );
            }
            return Ok(Found::Files(found));
        }
        let archive = set.archive.as_ref().map(|archive| folder.join(archive.file_name()));
        if let Some(archive) = archive.filter(|archive| archive.is_file()) {
            return Ok(Found::Archive(archive));
        }
    }
    let archive = set.archive.as_ref().map(|archive| format!(", or the archive {}", archive.file_name()));
    bail!(
        "'{}' is neither in {} nor in {}\n  looked for {}{}",
        set.name,
        from.join(&set.name).display(),
        from.display(),
        names(&set.name, Role::Train).join(", "),
        archive.unwrap_or_default()
    )
}

/// Copies one found file into `folder`, unpacked where it is gzipped.
pub fn stage(path: &Path, role: Role, folder: &Path) -> Result<Staged> {
    let file: File = open(path)?;
    let gzipped = path.extension().is_some_and(|extension| extension == "gz");
    let reader: Box<dyn Read> = if gzipped { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let origin = path.display().to_string();
    Staged::write(&folder.join(role.file_name()), reader, MAX_FILE_BYTES, &origin)
}

/// The file of `role` in `folder`, under the first of its names that exists.
fn existing(folder: &Path, set: &str, role: Role) -> Option<PathBuf> {
    names(set, role).iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

/// The names a file may have, best first.
fn names(set: &str, role: Role) -> Vec<String> {
    let published = match role {
        Role::Rules => format!("{set}_rule"),
        _ => format!("{set}_triples.{role}"),
    };
    let plain = role.file_name();
    vec![plain.to_owned(), format!("{plain}.gz"), format!("{published}.gz"), published]
}
