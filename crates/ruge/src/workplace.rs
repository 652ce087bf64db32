//! A folder that one process fills at a time, and that is replaced as a whole.
//!
//! A run, a search or a combination lives in a folder the user named. Two rules hold for all of them:
//!
//! - *One process.* The folder itself is locked while somebody works in it; a second process is refused. The lock goes with the process,
//!   however that ends, and leaves no file behind. A file system without locks gives none.
//! - *The old stays until the new is whole.* What replaces a result is made in `.ruge-next` inside the folder, where a file says whose it
//!   is. When it is finished, a marker says so, and its files move to their places; whoever opens the folder after a kill in between finishes
//!   the move. Before the marker the old result is untouched, after it the new one is complete.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ruge_kg::io::write::remove_drafts;

use crate::error::{Result, RugeError};
use crate::sealed_json;

/// Where a replacement is made.
const NEXT: &str = ".ruge-next";
/// In [`NEXT`]: which kind of result is made there.
const OWNER: &str = ".owner.json";
/// In [`NEXT`]: everything there is whole, and its files are to be moved; it lists what they replace.
const MARKER: &str = ".complete.json";

/// What to do about a folder that already holds a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Refuse.
    Fresh,
    /// Make another one, which replaces it when it is finished.
    Force,
    /// Continue it; an error where there is nothing to continue.
    Resume,
    /// Continue what was begun from the same spec, data and rules, and begin otherwise: for those who keep track of their folders
    /// themselves.
    Continue,
}

impl Mode {
    /// As people ask for it.
    pub fn of(force: bool, resume: bool) -> Self {
        match (force, resume) {
            (true, _) => Mode::Force,
            (_, true) => Mode::Resume,
            _ => Mode::Fresh,
        }
    }
}

/// What a kind of result consists of.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What it is called in messages.
    pub name: &'static str,
    /// The command that makes it.
    pub command: &'static str,
    /// Whether an unfinished one can be continued.
    pub resumes: bool,
    /// The files that tell that a folder holds one, any of them.
    pub signs: &'static [&'static str],
    /// All files it may have, from the folder on.
    pub files: &'static [&'static str],
    /// Files that a killed process may leave besides drafts.
    pub leftovers: &'static [&'static str],
    /// Folders within it that are its own, with everything in them.
    pub folders: &'static [&'static str],
}

impl Kind {
    /// Whether a folder holds a result of this kind.
    pub fn is_in(&self, folder: &Path) -> bool {
        self.signs.iter().any(|name| folder.join(name).exists())
    }
}

/// A folder that is ours until this is dropped.
#[derive(Debug)]
pub struct Workplace {
    home: PathBuf,
    work: PathBuf,
    kind: Kind,
    /// Whether the folder was not there before.
    created: bool,
    _lock: Option<File>,
}

impl Workplace {
    /// Takes a folder, as `mode` says.
    pub fn open(home: &Path, kind: Kind, mode: Mode) -> Result<Self> {
        let name = kind.name;
        let wrong = |reason: String| RugeError::InTheWay { path: home.to_path_buf(), reason };
        if home.exists() && !home.is_dir() {
            return Err(wrong("it is a file, not a folder".into()));
        }
        if home.is_symlink() && !home.exists() {
            return Err(wrong("it is a link that leads nowhere".into()));
        }
        let nothing = || RugeError::NothingToResume { path: home.to_path_buf(), what: name };
        if mode == Mode::Resume && !home.exists() {
            return Err(nothing());
        }
        let created = !home.exists();
        let lock = take(home)?;
        finish_move(home)?;
        let pending = match Pending::at(home)? {
            Pending::Of(command) if command == kind.command && kind.resumes => true,
            Pending::Of(command) if mode != Mode::Force && RESUMABLE.contains(&command.as_str()) => {
                return Err(unfinished(home, &command));
            }
            Pending::Foreign if kind.is_in(home) || mode == Mode::Resume => {
                return Err(wrong(format!("it holds a folder {NEXT} that ruge did not make")));
            }
            _ => false,
        };
        let next = home.join(NEXT);
        let work = match (kind.is_in(home), pending, mode) {
            (_, true, Mode::Fresh) => return Err(unfinished(home, kind.command)),
            (true, _, Mode::Fresh) => return Err(there(home, kind, kind.resumes)),
            (false, false, Mode::Resume) => return Err(nothing()),
            (_, true, Mode::Resume | Mode::Continue) => next,
            (true, _, Mode::Force) => {
                begin(home, kind)?;
                next
            }
            _ => {
                discard(home)?;
                home.to_path_buf()
            }
        };
        for name in kind.leftovers {
            let _ = fs::remove_file(work.join(name));
        }
        if mode == Mode::Fresh
            && let Some(file) = kind.files.iter().find(|name| home.join(name).exists())
        {
            return Err(wrong(format!("{file} is in it, which a {name} would overwrite")));
        }
        remove_drafts(&work, kind.files)?;
        Ok(Self { home: home.to_path_buf(), work, kind, created, _lock: lock })
    }

    /// A folder for a result that cannot be resumed: it is always made aside, so that a kill leaves nothing half-made in its place.
    /// Refuses to replace a result unless told to.
    pub fn aside(home: &Path, kind: Kind, mode: Mode) -> Result<Self> {
        settle(home)?;
        if mode == Mode::Fresh && kind.is_in(home) {
            return Err(there(home, kind, false));
        }
        if let (Mode::Fresh, Pending::Of(command)) = (mode, Pending::at(home)?)
            && RESUMABLE.contains(&command.as_str())
        {
            return Err(unfinished(home, &command));
        }
        let begun = Self::open(home, kind, Mode::Force)?;
        begin(home, kind)?;
        Ok(Self { work: home.join(NEXT), ..begun })
    }

    /// A folder inside one that is ours already, or that one itself.
    pub fn within(folder: &Path, kind: Kind, is_locked: bool) -> Result<Self> {
        refuse_link(folder)?;
        fs::create_dir_all(folder).map_err(RugeError::io(folder, "create"))?;
        let lock = if is_locked { None } else { take(folder)? };
        remove_drafts(folder, kind.files)?;
        Ok(Self { home: folder.to_path_buf(), work: folder.to_path_buf(), kind, created: false, _lock: lock })
    }

    /// Where files are written now.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// Where the user finds them in the end.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Whether what is made here will replace something.
    pub fn replaces(&self) -> bool {
        self.work != self.home && self.kind.is_in(&self.home)
    }

    /// Takes back what was begun: for work that could not even start. Removes these files, and the folders that were made for them.
    pub fn withdraw(&self, files: &[&str]) {
        if self.work != self.home {
            let _ = remove_folder(&self.work);
            return;
        }
        // What tells that there is something goes last.
        for name in files.iter().rev() {
            let _ = fs::remove_file(self.work.join(name));
        }
        if self.created {
            let _ = fs::remove_dir(&self.home);
        }
    }

    /// Puts the finished result in its place, and removes what it replaces.
    pub fn finish(self) -> Result<()> {
        if self.work == self.home {
            return Ok(());
        }
        let new: BTreeSet<String> = files_in(&self.work)?.into_iter().filter(|name| name != OWNER).collect();
        let mut old: BTreeSet<String> =
            self.kind.files.iter().filter(|name| self.home.join(name).exists()).map(|name| name.to_string()).collect();
        for folder in self.kind.folders {
            old.extend(files_in(&self.home.join(folder))?.iter().map(|name| format!("{folder}/{name}")));
        }
        let gone: Vec<&String> = old.difference(&new).collect();
        // From here on the new result counts.
        sealed_json::write(&self.work.join(MARKER), &serde_json::json!({ "remove": gone }))?;
        finish_move(&self.home)
    }
}

/// Finishes the move of a replacement that was cut off, and removes what such a move left; nothing while somebody is at work there.
pub fn settle(home: &Path) -> Result<()> {
    let next = home.join(NEXT);
    if !next.exists() {
        return Ok(());
    }
    let _lock = match take(home) {
        Err(_) if !next.join(MARKER).exists() => return Ok(()),
        lock => lock?,
    };
    finish_move(home)?;
    match Pending::at(home)? {
        Pending::Nothing => remove_folder(&next),
        _ => Ok(()),
    }
}

/// Commands whose unfinished results can be continued.
const RESUMABLE: [&str; 3] = ["run", "train", "search"];

fn unfinished(home: &Path, command: &str) -> RugeError {
    RugeError::Unfinished { path: home.to_path_buf(), made_by: command.to_string(), aside: home.join(NEXT) }
}

/// The error of a folder that holds a result already.
pub(crate) fn there(home: &Path, kind: Kind, resumes: bool) -> RugeError {
    RugeError::Exists { path: home.to_path_buf(), what: format!("a {}", kind.name), resumes }
}

/// What is in [`NEXT`].
enum Pending {
    /// Nothing, or nothing but what a process left that was killed while it began, or when all was moved.
    Nothing,
    /// An unfinished result of this command.
    Of(String),
    /// Something that is not ours.
    Foreign,
}

impl Pending {
    fn at(home: &Path) -> Result<Self> {
        let next = home.join(NEXT);
        refuse_link(&next)?;
        let nothing = |name: &String| name == OWNER || (name.starts_with('.') && name.ends_with(".tmp"));
        if files_in(&next)?.iter().all(nothing) {
            return Ok(Self::Nothing);
        }
        Ok(match sealed_json::read::<serde_json::Value>(&next.join(OWNER))? {
            Some(owner) => Self::Of(owner["command"].as_str().unwrap_or_default().to_string()),
            None => Self::Foreign,
        })
    }
}

/// Makes [`NEXT`] ready for a new result.
fn begin(home: &Path, kind: Kind) -> Result<()> {
    discard(home)?;
    let next = home.join(NEXT);
    fs::create_dir(&next).map_err(RugeError::io(&next, "create"))?;
    sealed_json::write(&next.join(OWNER), &serde_json::json!({ "format": 4, "command": kind.command }))
}

/// Removes [`NEXT`], if it is ours.
fn discard(home: &Path) -> Result<()> {
    match Pending::at(home)? {
        Pending::Foreign => Ok(()),
        _ => remove_folder(&home.join(NEXT)),
    }
}

/// Folders that the program fills are folders: a link would lead it elsewhere.
pub(crate) fn refuse_link(folder: &Path) -> Result<()> {
    if folder.is_symlink() {
        let reason = "it is a link, but ruge needs a folder of its own here".to_string();
        return Err(RugeError::InTheWay { path: folder.to_path_buf(), reason });
    }
    Ok(())
}

/// Where a file of a result is to be read: in its place, or where a replacement is complete and not moved yet.
pub fn place_of(home: &Path, name: &str) -> PathBuf {
    let waiting = home.join(NEXT);
    let is_waiting = waiting.join(MARKER).exists() && waiting.join(name).exists();
    if is_waiting { waiting.join(name) } else { home.join(name) }
}

/// Moves the files of a finished replacement to their places; does nothing where there is none. It may be repeated at any point.
fn finish_move(home: &Path) -> Result<()> {
    let next = home.join(NEXT);
    let marker = next.join(MARKER);
    refuse_link(&next)?;
    let list = sealed_json::read::<serde_json::Value>(&marker).map_err(|error| match error {
        RugeError::Run { path, reason } => {
            let reason = format!("{reason}; remove {} to keep the previous result", next.display());
            RugeError::Run { path, reason }
        }
        other => other,
    })?;
    let Some(list) = list else { return Ok(()) };
    let mut folders = BTreeSet::new();
    for name in files_in(&next)?.iter().filter(|name| ![MARKER, OWNER].contains(&name.as_str())) {
        let to = home.join(name);
        for folder in Path::new(name).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
            refuse_link(&home.join(folder))?;
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(RugeError::io(folder, "create"))?;
            folders.insert(folder.to_path_buf());
        }
        fs::rename(next.join(name), &to).map_err(RugeError::io(&to, "write"))?;
    }
    // The moves are on the disk before the marker goes.
    for folder in folders.iter().filter_map(|folder| File::open(folder).ok()) {
        let _ = folder.sync_all();
    }
    for name in list["remove"].as_array().into_iter().flatten().filter_map(|name| name.as_str()) {
        let path = home.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(RugeError::io(&path, "remove")(error)),
            _ => {}
        }
        // Folders that are empty now; one with a file of the user's in it stays.
        for folder in Path::new(name).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
            let _ = fs::remove_dir(home.join(folder));
        }
    }
    remove_folder(&next)
}

/// Names of all files below a folder, sorted; none where there is no folder.
fn files_in(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(within) = waiting.pop() {
        let path = folder.join(&within);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries.map_err(RugeError::io(&path, "read"))?,
        };
        for entry in entries {
            let entry = entry.map_err(RugeError::io(&path, "read"))?;
            let name = within.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(name);
            } else {
                found.push(name.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Removes a folder of ours with all that is in it; what says that it is ours goes last. A link is removed, not followed.
fn remove_folder(folder: &Path) -> Result<()> {
    let within = || -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false if entry.file_name() != OWNER => fs::remove_file(entry.path())?,
                false => {}
            }
        }
        fs::remove_dir_all(folder)
    };
    let removed = match fs::symlink_metadata(folder) {
        Ok(found) if found.is_dir() => within(),
        Ok(_) => fs::remove_file(folder),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(RugeError::io(folder, "remove")(error)),
        _ => Ok(()),
    }
}

/// Makes a folder where there is none, and locks it against other processes.
fn take(folder: &Path) -> Result<Option<File>> {
    loop {
        fs::create_dir_all(folder).map_err(RugeError::io(folder, "create"))?;
        // Where a folder cannot be opened or locked, the system has no such locks.
        let Ok(file) = File::open(folder) else { return Ok(None) };
        match file.try_lock() {
            // Somebody may have removed the folder since, and another may have made it again.
            Ok(()) if is_at(&file, folder) => return Ok(Some(file)),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(RugeError::Locked { path: folder.to_path_buf() });
            }
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
}

/// Whether an open folder is the one that has this path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    file.metadata().is_ok_and(|open| fs::metadata(path).is_ok_and(|there| same(open, there)))
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.is_dir()
}

/// The folder where a result of this kind is being made or was made: the unfinished replacement where there is one.
pub fn current(home: &Path, kind: Kind) -> Result<PathBuf> {
    settle(home)?;
    Ok(match Pending::at(home)? {
        Pending::Of(command) if command == kind.command => home.join(NEXT),
        _ => home.to_path_buf(),
    })
}

#[cfg(test)]
mod tests;
