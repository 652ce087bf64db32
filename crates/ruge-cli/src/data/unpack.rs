//! Archives: finds the three split files in a `.tar.gz` or `.zip` and takes out nothing else.
//!
//! A member's path only serves to recognise it. What is written is always `train.txt`, `valid.txt` or `test.txt` in
//! the folder the user named, so a path such as `../../.profile` has no power; members with such paths are not even
//! considered. Publishers name the files differently (`train.txt`, `wn18/train.txt`, `wordnet-mlj12-train.txt`), so
//! the best match wins, and two equally good ones are an error rather than a guess.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use flate2::read::MultiGzDecoder;
use tar::EntryType;

use super::catalog::Role;
use super::staged::{MAX_FILE_BYTES, Staged, open};

/// No published set has so many files; whatever does is a broken or hostile archive.
const MOST_MEMBERS: usize = 10_000;

/// The formats that public sets come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveKind {
    /// A gzipped tape archive.
    TarGz,
    /// A zip file.
    Zip,
}

impl ArchiveKind {
    /// What a file's name says it is.
    pub fn of(file_name: &str) -> Option<Self> {
        let name = file_name.to_ascii_lowercase();
        if name.ends_with(".tar.gz") || name.ends_with(".tgz") {
            Some(Self::TarGz)
        } else if name.ends_with(".zip") {
            Some(Self::Zip)
        } else {
            None
        }
    }
}

/// Takes the files of the given roles out of `archive` and stages them in `folder`, in the order of `roles`.
pub fn extract(archive: &Path, roles: &[Role], folder: &Path) -> Result<Vec<(Role, Staged)>> {
    let name = archive.display().to_string();
    let kind = ArchiveKind::of(&name).ok_or_else(|| anyhow!("{name} is neither a .tar.gz nor a .zip archive"))?;
    // A tape archive can only be read forwards, so one pass looks and a second one takes.
    let mut members = Vec::new();
    walk(kind, archive, |path, _| {
        ensure!(members.len() < MOST_MEMBERS, "it holds more than {MOST_MEMBERS} files; no known set has so many");
        members.push(path.to_owned());
        Ok(())
    })
    .with_context(|| format!("cannot read the archive {name}"))?;
    let chosen = roles
        .iter()
        .map(|&role| Ok((role, choose(&members, role).with_context(|| name.clone())?)))
        .collect::<Result<Vec<_>>>()?;

    let mut staged = Vec::new();
    let mut index = 0;
    walk(kind, archive, |path, reader| {
        for (role, _) in chosen.iter().filter(|(_, choice)| *choice == index) {
            let origin = format!("{path} in {name}");
            let target = folder.join(role.file_name());
            staged.push((*role, Staged::write(&target, &mut *reader, MAX_FILE_BYTES, &origin)?));
        }
        index += 1;
        Ok(())
    })?;
    staged.sort_by_key(|(role, _)| roles.iter().position(|other| other == role));
    Ok(staged)
}

/// Calls `visit` with the path and content of every regular file, in the archive's order.
fn walk(kind: ArchiveKind, archive: &Path, mut visit: impl FnMut(&str, &mut dyn Read) -> Result<()>) -> Result<()> {
    let file: File = open(archive)?;
    match kind {
        ArchiveKind::TarGz => {
            // Even skipping unpacks: bound the whole, so that a small file cannot keep us busy for ever.
            let unpacked = MultiGzDecoder::new(file).take(4 * MAX_FILE_BYTES);
            for entry in tar::Archive::new(unpacked).entries()? {
                let mut entry = entry?;
                if matches!(entry.header().entry_type(), EntryType::Regular | EntryType::Continuous) {
                    let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
                    visit(&path, &mut entry)?;
                }
            }
        }
        ArchiveKind::Zip => {
            let mut zip = zip::ZipArchive::new(file)?;
            for index in 0..zip.len() {
                let mut entry = zip.by_index(index)?;
                if entry.is_file() {
                    let path = entry.name()?.into_owned();
                    visit(&path, &mut entry)?;
                }
            }
        }
    }
    Ok(())
}

/// The index of the member that is the split file of `role`.
fn choose(members: &[String], role: Role) -> Result<usize> {
    let mut ranked: Vec<_> =
        members.iter().enumerate().filter_map(|(index, path)| Some((likeness(path, role)?, index))).collect();
    ranked.sort_unstable();
    match ranked[..] {
        [] => bail!(
            "the archive holds no {role} file; its files are: {}",
            members.iter().take(20).map(String::as_str).collect::<Vec<_>>().join(", ")
        ),
        [(best, first), (second, other), ..] if best == second => bail!(
            "the archive holds two {role} files, {} and {}; unpack it by hand and use `--from DIR`",
            members[first],
            members[other]
        ),
        [(_, index), ..] => Ok(index),
    }
}

/// How well a path names the split file of `role`: lower is better, `None` is not at all.
fn likeness(path: &str, role: Role) -> Option<(u8, usize)> {
    let path = path.replace('\\', "/").to_ascii_lowercase();
    if path.starts_with('/') || path.contains(':') || path.split('/').any(|part| part == "..") {
        return None;
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    // Hidden members are what some systems leave behind, `._train.txt` and `__MACOSX` above all.
    if parts.iter().any(|part| part.starts_with('.') || part.starts_with("__")) {
        return None;
    }
    let (name, word) = (*parts.last()?, role.name());
    let stem = match name.rsplit_once('.') {
        Some((stem, "txt" | "tsv")) => stem,
        Some((_, extension)) if extension == word => name,
        None => name,
        Some(_) => return None,
    };
    let rank = if stem == word {
        0
    } else if stem.strip_suffix(word).is_some_and(|front| front.ends_with(['-', '_', '.'])) {
        1
    } else if stem.contains(word) {
        2
    } else {
        return None;
    };
    Some((rank, parts.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(members: &[&str], role: Role, expected: Result<&str, &str>) {
        let members: Vec<String> = members.iter().map(|&member| member.to_owned()).collect();
        match (choose(&members, role), expected) {
            (Ok(index), Ok(name)) => assert_eq!(members[index], name),
            (Err(error), Err(reason)) => assert!(error.to_string().contains(reason), "{error}"),
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn split_files_are_found_under_their_many_names() {
        check(&["test.txt", "train.txt", "valid.txt"], Role::Train, Ok("train.txt"));
        check(&["./wn18/test.txt", "./wn18/train.txt"], Role::Train, Ok("./wn18/train.txt"));
        check(&["wordnet-mlj12-valid.txt"], Role::Valid, Ok("wordnet-mlj12-valid.txt"));
        check(&["x_triples.train", "x_triples.test"], Role::Test, Ok("x_triples.test"));
        check(&["latest.txt", "x-test.txt"], Role::Test, Ok("x-test.txt"));
        check(&["Train.TXT"], Role::Train, Ok("Train.TXT"));
        check(&["e1rel_train.json", "a/train.txt", "train_small.txt"], Role::Train, Ok("a/train.txt"));
        check(&["._train.txt", "__MACOSX/train.txt", "train.txt"], Role::Train, Ok("train.txt"));
        check(&["deep/er/train.txt", "top/train.txt"], Role::Train, Ok("top/train.txt"));
    }

    #[test]
    fn guesses_and_escapes_are_refused() {
        check(&["a/train.txt", "b/train.txt"], Role::Train, Err("two train files"));
        check(&["readme.md"], Role::Train, Err("no train file"));
        check(&["../train.txt", "/etc/train.txt", "c:/train.txt"], Role::Train, Err("no train file"));
        check(&["a\\..\\..\\train.txt"], Role::Train, Err("no train file"));
    }

    #[test]
    fn links_and_devices_in_archives_are_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("links.tar.gz");
        let gzip = flate2::write::GzEncoder::new(File::create(&archive).unwrap(), flate2::Compression::fast());
        let mut tar = tar::Builder::new(gzip);
        for (name, kind) in [
            ("train.txt", EntryType::Symlink),
            ("valid.txt", EntryType::Link),
            ("test.txt", EntryType::Fifo),
            ("a/train.txt", EntryType::Char),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(0);
            header.set_mode(0o644);
            tar.append_link(&mut header, name, "/etc/passwd").unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap();
        for role in [Role::Train, Role::Valid, Role::Test] {
            let error = format!("{:#}", extract(&archive, &[role], folder.path()).unwrap_err());
            assert!(error.contains(&format!("no {role} file")), "{error}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was written");
    }

    #[test]
    fn zips_are_unpacked() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("small.zip");
        let mut zip = zip::ZipWriter::new(File::create(&archive).unwrap());
        let options = zip::write::SimpleFileOptions::default();
        for (name, content) in [
            ("wn18/test.txt", "t"),
            ("../../train.txt", "evil"),
            ("wn18/train.txt", "a\tr\tb\n"),
            ("wn18/valid.txt", "v"),
        ] {
            zip.start_file(name, options).unwrap();
            zip.write_all(content.as_bytes()).unwrap();
        }
        zip.finish().unwrap();

        let staged = extract(&archive, &[Role::Train, Role::Test], folder.path()).unwrap();
        let roles: Vec<_> = staged.iter().map(|(role, _)| *role).collect();
        assert_eq!(roles, [Role::Train, Role::Test]);
        staged.into_iter().for_each(|(_, file)| file.commit().unwrap());
        let read = |name| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((read("train.txt"), read("test.txt")), ("a\tr\tb\n".into(), "t".into()));
        assert!(!folder.path().join("valid.txt").exists());
    }

    #[test]
    fn a_file_that_is_no_archive_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["x.zip", "x.tar.gz"] {
            let path = folder.path().join(name);
            std::fs::write(&path, "not an archive").unwrap();
            let error = extract(&path, &[Role::Train], folder.path()).unwrap_err();
            assert!(format!("{error:#}").contains(name), "{error:#}");
        }
    }
}
