//! Atomic file replacement: a file is written under a temporary name, synced, and renamed. It is complete or absent.
//!
//! *Drafts.* The temporary name is `.NAME.PROCESS-NUMBER.tmp`, in the same folder. The writer holds a lock on the
//! draft, which the system releases when the process ends in any way. So a draft whose lock is free was left by a
//! killed process, and is removed when the same file is written next. On file systems without locks, a draft is
//! abandoned if its process is gone or it was not modified for ten minutes.
//!
//! *Links.* A path given by the user may be a symbolic link; then the file it points to is replaced. Links inside a
//! folder that the program fills are refused: a link there would make a later command write elsewhere.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::KgError;

/// Replaces the content of a file: completely or not at all.
///
/// Symbolic links are followed. Anything but a plain file (a pipe, a terminal) is written to directly. `write` returns
/// the file once it has written everything. On error the old content stays and no draft is left, with one exception: if
/// the folder cannot be synced at the very end, the new content is in place, and only a power failure could undo it.
pub fn replace_file<T, E: From<KgError>>(
    path: &Path,
    write: impl FnOnce(File) -> Result<(File, T), E>,
) -> Result<T, E> {
    let target = target_of(path);
    let special = fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
    if special {
        let file = OpenOptions::new().write(true).open(&target).map_err(KgError::io(path, "write"))?;
        return Ok(write(file)?.1);
    }
    replace(path, &target, write)
}

/// [`replace_file`] for a file inside a folder that the program fills: nothing is written if its path, or any part of
/// it below `folder`, is a link or anything but a plain file.
pub fn replace_file_in<T, E: From<KgError>>(
    folder: &Path,
    name: &str,
    write: impl FnOnce(File) -> Result<(File, T), E>,
) -> Result<T, E> {
    let path = folder.join(name);
    let mut place = folder.to_path_buf();
    for part in Path::new(name) {
        place.push(part);
        let Ok(metadata) = fs::symlink_metadata(&place) else { break };
        let found = match metadata.file_type() {
            kind if kind.is_symlink() => "this is a link",
            kind if place == path && !kind.is_file() => "this is not a plain file",
            _ => continue,
        };
        return Err(KgError::NotOurs { path: place, found }.into());
    }
    // A link created from now on is replaced by the file: renaming does not follow links.
    replace(&path, &path, write)
}

fn replace<T, E: From<KgError>>(
    path: &Path,
    target: &Path,
    write: impl FnOnce(File) -> Result<(File, T), E>,
) -> Result<T, E> {
    // Failing to remove an old draft does not prevent writing.
    let _ = sweep(target);
    let (draft, file) = Draft::begin(target).map_err(KgError::io(path, "write"))?;
    let (file, result) = write(file)?;
    file.sync_all().map_err(KgError::io(path, "write"))?;
    // Renamed while the lock is held: without it another process could remove the draft.
    fs::rename(&draft.path, target).map_err(KgError::io(path, "write"))?;
    drop(file);
    sync_folder(folder_of(target)).map_err(KgError::io(path, "sync the folder of the new file"))?;
    Ok(result)
}

/// Removes a file, if it exists, so that a power failure cannot bring it back.
pub fn remove_for_good(path: &Path) -> Result<(), KgError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(KgError::io(path, "remove")(error)),
        Ok(()) => sync_folder(folder_of(path)).map_err(KgError::io(path, "sync the folder of the removed file")),
    }
}

/// Removes the drafts of killed processes from a folder; drafts being written stay.
pub fn remove_drafts(folder: &Path, files: &[&str]) -> Result<(), KgError> {
    for file in files {
        sweep(&target_of(&folder.join(file)))?;
    }
    Ok(())
}

/// Removes the abandoned drafts of a file.
fn sweep(target: &Path) -> Result<(), KgError> {
    let Some(file) = target.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let Ok(entries) = fs::read_dir(folder_of(target)) else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if let Some(writer) = name.to_str().and_then(|name| Writer::of(name, file)) {
            let path = entry.path();
            remove_dead(&path, writer).map_err(KgError::io(&path, "remove"))?;
        }
    }
    Ok(())
}

/// Removes a draft if it is abandoned.
fn remove_dead(path: &Path, writer: Writer) -> io::Result<()> {
    // A link with the name of a draft is not opened.
    if !fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(());
    }
    let lock = OpenOptions::new().write(true).open(path).map(|file| (file.try_lock(), file));
    let dead = match &lock {
        Ok((Ok(()), file)) => is_at(file, path),
        Ok((Err(TryLockError::WouldBlock), _)) => false,
        Ok((Err(TryLockError::Error(_)), _)) | Err(_) => writer.is_gone(path),
    };
    match if dead { fs::remove_file(path) } else { Ok(()) } {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Follows a link to the file to replace.
fn target_of(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

fn folder_of(target: &Path) -> &Path {
    target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a rename or a removal durable. File systems that cannot sync folders are ignored; disk errors are not.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error) if cannot_sync(&error) => Ok(()),
        other => other,
    }
}

fn cannot_sync(error: &io::Error) -> bool {
    /// "Bad file descriptor": some network file systems return it for folders.
    const EBADF: i32 = 9;
    let kinds = [ErrorKind::InvalidInput, ErrorKind::Unsupported, ErrorKind::PermissionDenied, ErrorKind::IsADirectory];
    kinds.contains(&error.kind()) || (cfg!(unix) && error.raw_os_error() == Some(EBADF))
}

/// Whether the open file is the one at this path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// Whether the open file is the one at this path. On other systems an open file keeps its name.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

/// Number of drafts started in this process.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// The process that started a draft.
#[derive(Clone, Copy)]
struct Writer {
    process: u32,
    number: u64,
}

impl Writer {
    /// The writer of a draft of `file`, if `name` is one.
    fn of(name: &str, file: &str) -> Option<Self> {
        let rest = name.strip_prefix('.')?.strip_prefix(file)?.strip_prefix('.')?.strip_suffix(".tmp")?;
        let (process, number) = rest.split_once('-')?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let both = digits(process) && digits(number);
        both.then_some(Self { process: process.parse().ok()?, number: number.parse().ok()? })
    }

    /// Whether the draft is abandoned, as far as can be known without locks. Other containers and machines have their
    /// own process numbers, so a draft that was not modified for a while also counts as abandoned.
    fn is_gone(self, path: &Path) -> bool {
        let touched = fs::metadata(path).and_then(|metadata| metadata.modified());
        let rests = touched.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > Duration::from_secs(600)));
        let gone = if self.process == std::process::id() {
            // Left by an earlier process with our number, if we have not reached this draft number yet.
            self.number >= NUMBER.load(Ordering::Relaxed)
        } else {
            Path::new("/proc/self").exists() && !Path::new("/proc").join(self.process.to_string()).exists()
        };
        gone || rests
    }
}

/// A file being written; removed unless it is moved into place.
struct Draft {
    path: PathBuf,
}

impl Draft {
    fn begin(target: &Path) -> io::Result<(Self, File)> {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = target.with_file_name(format!(".{name}.{}-{number}.tmp", std::process::id()));
            let file = match File::create_new(&path) {
                // In a container every process may have the same number, including one that was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                other => other?,
            };
            // Between creation and locking, another process may have removed the draft as abandoned.
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => continue,
                Ok(()) if !is_at(&file, &path) => continue,
                Ok(()) | Err(TryLockError::Error(_)) => return Ok((Self { path }, file)),
            }
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After the rename there is nothing to remove; before it, the error is already reported.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn put(path: &Path, text: &str) -> Result<(), KgError> {
        replace_file(path, |file| fill(file, path, text))
    }

    fn put_in(folder: &Path, name: &str, text: &str) -> Result<(), KgError> {
        replace_file_in(folder, name, |file| fill(file, folder, text))
    }

    fn fill(mut file: File, path: &Path, text: &str) -> Result<(File, ()), KgError> {
        file.write_all(text.as_bytes()).map_err(KgError::io(path, "write"))?;
        Ok((file, ()))
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn drafts_that_nobody_holds_go_and_held_ones_stay() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| folder.path().join(name);
        // Whether a process with that number runs says nothing: process 1 always does.
        let all = [".a.txt.1-0.tmp", ".a.txt.1-7.tmp", ".a.txt.4194305-x.tmp", ".b.txt.1-0.tmp", "a.txt"];
        for name in all {
            fs::write(at(name), "half").unwrap();
        }
        let held = File::open(at(".a.txt.1-7.tmp")).unwrap();
        held.lock().unwrap();
        #[cfg(unix)]
        {
            fs::write(elsewhere.path().join("real"), "whole").unwrap();
            fs::write(elsewhere.path().join(".real.4194305-3.tmp"), "half").unwrap();
            std::os::unix::fs::symlink(elsewhere.path().join("real"), at("link")).unwrap();
        }
        remove_drafts(folder.path(), &["a.txt", "link", "absent"]).unwrap();
        let gone: Vec<&str> = all.into_iter().filter(|name| !at(name).exists()).collect();
        assert_eq!(gone, [".a.txt.1-0.tmp"]);
        if cfg!(unix) {
            assert_eq!(names(elsewhere.path()), ["real"], "a draft is where the file is");
        }
        drop(held);
        put(&at("a.txt"), "whole").unwrap();
        assert!(!at(".a.txt.1-7.tmp").exists(), "whoever writes the file removes what the dead left of it");
        assert!(at(".b.txt.1-0.tmp").exists(), "and leaves other files' drafts");
    }

    #[test]
    fn a_draft_with_our_number_is_no_hindrance() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.txt");
        let next = NUMBER.load(Ordering::Relaxed);
        let mut held = Vec::new();
        for number in next..next + 100 {
            let path = folder.path().join(format!(".a.txt.{}-{number}.tmp", std::process::id()));
            let file = File::create(path).unwrap();
            file.lock().unwrap();
            held.push(file);
        }
        put(&target, "whole").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"whole");
        assert_eq!(names(folder.path()).len(), 101, "drafts that are held stay");
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.txt");
        put(&target, "old").unwrap();
        let full = || KgError::io(&target, "write")(io::Error::from(ErrorKind::StorageFull));
        let written: Result<(), KgError> = replace_file(&target, |mut file| {
            file.write_all(b"ne").unwrap();
            Err(full())
        });
        assert!(written.unwrap_err().to_string().contains("free some space"));
        assert_eq!(fs::read(&target).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["a.txt"]);
    }

    #[test]
    fn writers_and_sweepers_at_once_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.txt");
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let target = &target;
                scope.spawn(move || {
                    for round in 0..50 {
                        // Every write removes abandoned drafts first, while others are between creating and locking.
                        put(target, &format!("{writer} {round}")).unwrap();
                    }
                });
            }
        });
        let text = fs::read_to_string(&target).unwrap();
        assert!(text.ends_with(" 49"), "{text}: the last writer's last word");
        assert_eq!(names(folder.path()), ["a.txt"]);
    }

    #[test]
    #[cfg(unix)]
    fn links_inside_a_folder_of_ours_are_not_written_through() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let precious = elsewhere.path().join("precious");
        fs::write(&precious, "mine").unwrap();
        std::os::unix::fs::symlink(&precious, folder.path().join("planted")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("sub")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join("new"), folder.path().join("dangling")).unwrap();
        for name in ["planted", "sub/precious", "dangling"] {
            match put_in(folder.path(), name, "ours") {
                Err(error @ KgError::NotOurs { .. }) => {
                    assert!(error.to_string().contains("this is a link"), "{error}")
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        fs::create_dir(folder.path().join("taken")).unwrap();
        assert!(matches!(put_in(folder.path(), "taken", "ours"), Err(KgError::NotOurs { .. })));
        put_in(folder.path(), "plain", "ours").unwrap();
        put_in(folder.path(), "plain", "ours again").unwrap();
        assert_eq!(fs::read(folder.path().join("plain")).unwrap(), b"ours again");
        assert_eq!(fs::read(&precious).unwrap(), b"mine");
        assert_eq!(names(elsewhere.path()), ["precious"]);
        // A link given by the user is followed.
        put(&folder.path().join("planted"), "replaced").unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"replaced");
    }

    #[test]
    #[cfg(unix)]
    fn a_disk_that_fails_is_told_from_one_that_cannot() {
        const EIO: i32 = 5;
        const EACCES: i32 = 13;
        const EINVAL: i32 = 22;
        const ENOSPC: i32 = 28;
        for (code, tolerated) in [(EIO, false), (ENOSPC, false), (EINVAL, true), (EACCES, true), (9, true)] {
            assert_eq!(cannot_sync(&io::Error::from_raw_os_error(code)), tolerated, "{code}");
        }
        assert!(sync_folder(folder_of(Path::new("bare-name"))).is_ok(), "a bare name lies in the current folder");
        assert!(sync_folder(Path::new("no/such/folder")).is_err());
    }
}
