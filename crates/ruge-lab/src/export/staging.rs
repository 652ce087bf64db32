//! An export on its way: written into a folder of its own, and moved into place when all of it is on the disk.
//!
//! What was there before stays whole until then: an export that fails leaves it alone. The move takes `about.json` away
//! first and puts the new one there last, so that a folder with `about.json` is complete. An export that was killed
//! leaves the folder [`UNFINISHED`]; the next one clears it, and where the move had begun, finishes the job unforced.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use ruge::error::{Result, RugeError};

/// Where files wait, inside the folder they are for.
pub const UNFINISHED: &str = "export.unfinished";
/// The file that says the export is complete.
const LAST: &str = "about.json";
/// Says, inside [`UNFINISHED`], that files outside have been touched.
const MOVING: &str = "moving";
/// Why a link is in the way.
const LINK: &str = "it is a link, and links are not followed when writing";

/// A place for the files of one export.
#[derive(Debug)]
pub struct Staging {
    out: PathBuf,
    folder: PathBuf,
    /// Whether `out` was made for this export.
    is_new: bool,
    is_moving: bool,
    _lock: File,
}

impl Staging {
    /// Makes the place in `out`. `every` are the files the format can have, `names` those it will have.
    ///
    /// Nothing is begun where one of `names` is already there, unless `force` is given or a killed export had begun to
    /// move; nor where a link stands in the way: whoever put it there chose where it leads.
    pub fn begin(out: &Path, every: &[&str], names: &[&str], force: bool) -> Result<Self> {
        let wrong = |path: PathBuf, reason: &str| RugeError::InTheWay { path, reason: reason.into() };
        if out.exists() && !out.is_dir() {
            return Err(wrong(out.to_path_buf(), "it is a file, not a folder"));
        }
        let folder = out.join(UNFINISHED);
        let mut ours = every.iter().map(|name| out.join(name)).chain([folder.clone()]);
        if let Some(link) = ours.find(|path| is_link(path)) {
            return Err(wrong(link, LINK));
        }
        let was_moving = folder.join(MOVING).exists() && !out.join(LAST).exists();
        let there = names.iter().find(|name| out.join(name).exists());
        if let Some(there) = there.filter(|_| !force && !was_moving) {
            let (path, what) = (out.to_path_buf(), format!("the file {there}"));
            return Err(RugeError::Exists { path, what, resumes: false });
        }
        let is_new = !out.exists();
        fs::create_dir_all(&folder).map_err(RugeError::io(out, "make this folder"))?;
        let path = folder.join("lock");
        if is_link(&path) {
            return Err(wrong(path, LINK));
        }
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let lock = lock.map_err(RugeError::io(&path, "write"))?;
        // Where a file system knows no locks, nobody can be kept off.
        if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(RugeError::Locked { path: out.to_path_buf() });
        }
        // What a killed export left, and its drafts; the lock is ours, and so is a move that is to be finished.
        for entry in fs::read_dir(&folder).map_err(RugeError::io(&folder, "read"))? {
            let entry = entry.map_err(RugeError::io(&folder, "read"))?;
            if entry.file_name() != "lock" && !(was_moving && entry.file_name() == MOVING) {
                remove(&entry.path())?;
            }
        }
        Ok(Self { out: out.to_path_buf(), folder, is_new, is_moving: was_moving, _lock: lock })
    }

    /// Where files are to be written.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Moves the files into place; those of `every` that are not among `names` are of an earlier export, and go.
    pub fn finish(mut self, every: &[&str], names: &[&str]) -> Result<()> {
        let moving = self.folder.join(MOVING);
        let written = File::create(&moving).and_then(|file| file.sync_all());
        written.map_err(RugeError::io(&moving, "write"))?;
        sync(&self.folder)?;
        self.is_moving = true;
        remove(&self.out.join(LAST))?;
        sync(&self.out)?;
        for old in every.iter().filter(|name| !names.contains(name)) {
            remove(&self.out.join(old))?;
        }
        // A name is replaced, whatever it is by now: a link that was put there meanwhile is not followed.
        for name in names.iter().filter(|name| **name != LAST).chain([&LAST]) {
            let to = self.out.join(name);
            fs::rename(self.folder.join(name), &to).map_err(RugeError::io(&to, "write"))?;
        }
        sync(&self.out)?;
        self.is_moving = false;
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // While files are being moved the folder is what says so.
        if !self.is_moving {
            let _ = fs::remove_dir_all(&self.folder);
            if self.is_new {
                // Succeeds only where nothing is in it, which is where no folder should have been made.
                let _ = fs::remove_dir(&self.out);
            }
        }
    }
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(RugeError::io(path, "remove")(error)),
        _ => Ok(()),
    }
}

/// Brings the names in a folder to the disk, where folders can be opened as files.
fn sync(folder: &Path) -> Result<()> {
    match File::open(folder) {
        Ok(file) if cfg!(unix) => file.sync_all().map_err(RugeError::io(folder, "write")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: [&str; 3] = ["a.txt", "rules.txt", "about.json"];
    const NAMES: [&str; 2] = ["a.txt", "about.json"];

    fn fill(staging: &Staging, text: &str) {
        NAMES.iter().for_each(|name| fs::write(staging.folder().join(name), text).unwrap());
    }

    fn listing(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_export_that_fails_leaves_the_old_one_whole() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        fill_and_finish(&out, "old", false);
        fs::write(out.join("rules.txt"), "of an export with rules").unwrap();
        let staging = Staging::begin(&out, &EVERY, &NAMES, true).unwrap();
        fs::write(staging.folder().join("a.txt"), "half").unwrap();
        assert!(Staging::begin(&out, &EVERY, &NAMES, true).is_err(), "one at a time");
        drop(staging);
        assert_eq!(listing(&out), ["a.txt", "about.json", "rules.txt"]);
        assert_eq!(fs::read_to_string(out.join("a.txt")).unwrap(), "old");
        fill_and_finish(&out, "new", true);
        assert_eq!(listing(&out), NAMES, "no rules, no table of rules");
        assert_eq!(fs::read_to_string(out.join("a.txt")).unwrap(), "new");
        drop(Staging::begin(&folder.path().join("fresh"), &EVERY, &NAMES, false).unwrap());
        assert!(!folder.path().join("fresh").exists(), "no folder for nothing");
        let empty = tempfile::tempdir().unwrap();
        drop(Staging::begin(empty.path(), &EVERY, &NAMES, false).unwrap());
        assert!(empty.path().exists(), "a folder of the user's stays");
    }

    fn fill_and_finish(out: &Path, text: &str, force: bool) {
        let staging = Staging::begin(out, &EVERY, &NAMES, force).unwrap();
        fill(&staging, text);
        staging.finish(&EVERY, &NAMES).unwrap();
    }

    #[test]
    fn a_killed_export_is_cleared_and_replaces_nothing_it_did_not_touch() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        // Killed while writing, beside a finished export: only its own folder is touched.
        fill_and_finish(out, "old", false);
        fs::create_dir(out.join(UNFINISHED)).unwrap();
        fs::write(out.join(UNFINISHED).join(".a.txt.1-0.tmp"), "half").unwrap();
        assert!(Staging::begin(out, &EVERY, &NAMES, false).unwrap_err().to_string().contains("already holds the file"));
        // Killed while moving: no about.json, so it does not look finished, and it is ours to finish.
        fs::write(out.join(UNFINISHED).join(MOVING), "").unwrap();
        assert!(Staging::begin(out, &EVERY, &NAMES, false).is_err(), "about.json is there: it was finished");
        fs::remove_file(out.join(LAST)).unwrap();
        let staging = Staging::begin(out, &EVERY, &NAMES, false).unwrap();
        assert_eq!(listing(staging.folder()), ["lock", MOVING]);
        // Killed again before it moves: still ours.
        std::mem::forget(staging);
        assert!(out.join(UNFINISHED).join(MOVING).exists());
    }

    #[test]
    #[cfg(unix)]
    fn links_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (out, precious) = (folder.path().join("out"), folder.path().join("precious"));
        fs::create_dir(&out).unwrap();
        fs::write(&precious, "precious").unwrap();
        for name in ["a.txt", "rules.txt", "about.json", UNFINISHED] {
            std::os::unix::fs::symlink(&precious, out.join(name)).unwrap();
            for force in [false, true] {
                let error = Staging::begin(&out, &EVERY, &NAMES, force).unwrap_err().to_string();
                assert!(error.contains(name) && error.contains("is a link"), "{error}");
            }
            fs::remove_file(out.join(name)).unwrap();
        }
        // A dangling link too, and one that comes later is replaced, not followed.
        let staging = Staging::begin(&out, &EVERY, &NAMES, false).unwrap();
        fill(&staging, "new");
        std::os::unix::fs::symlink(&precious, out.join("a.txt")).unwrap();
        staging.finish(&EVERY, &NAMES).unwrap();
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        assert_eq!(fs::read_to_string(out.join("a.txt")).unwrap(), "new");
    }
}
