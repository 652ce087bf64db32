//! `ruge data`: public benchmark sets, by name, checksummed.
//!
//! `list` says what there is; `get` brings one set into a folder that every other command understands, from the
//! network or from a folder at hand. The rooms: [`catalog`] knows the sets, [`fetch`] downloads into a [`part`],
//! [`mod@unpack`] opens archives, [`local`] finds sets on this machine, [`staged`] writes files that are whole or absent,
//! [`digest`] decides whether they are the right ones, and [`list`] shows the catalog.

mod catalog;
mod digest;
mod fetch;
mod list;
mod local;
mod part;
mod staged;
mod unpack;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use serde_json::json;

use catalog::{BenchmarkSet, Catalog, Role, SetFile};
use fetch::Fetcher;
use local::Found;
use staged::{Staged, cannot_write, digest_of};

use crate::console::Console;

/// What `ruge data` can do.
#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Lists the public benchmark sets
    #[command(after_help = "Example:\n  ruge data list")]
    List(ListArgs),
    /// Downloads a benchmark set and verifies its checksums
    ///
    /// The finished folder holds train.txt, valid.txt and test.txt, and rules.tsv where rules are published with the
    /// set. A download that was cut is resumed when the command is given again.
    #[command(after_help = "Examples:\n  ruge data get fb15k\n  ruge data get wn18rr --out sets/wn18rr\n  \
                      ruge data get fb15k-237 --from ~/downloads")]
    Get(GetArgs),
}

/// Options of `ruge data list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// For mirrors and tests: a file of the shape of the built-in catalog, to be used instead of it.
    #[arg(long, value_name = "FILE", hide = true)]
    catalog: Option<PathBuf>,
}

/// Options of `ruge data get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// The set, as `ruge data list` names it
    name: String,
    /// The folder the set's files are written to [default: data/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Takes the set from this folder instead of the network: DIR/NAME or DIR with train, valid and test as .txt,
    /// .txt.gz or NAME_triples.train, or the publisher's archive
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Replaces files that are already there
    #[arg(long)]
    force: bool,
    /// How often to try again when a connection is cut or a server is busy
    #[arg(long, value_name = "N", default_value_t = 3)]
    retries: u32,
    /// For mirrors and tests: replaces scheme and host of every address, and allows plain HTTP.
    #[arg(long, value_name = "URL", hide = true)]
    base_url: Option<String>,
    /// For mirrors and tests: a file of the shape of the built-in catalog, to be used instead of it.
    #[arg(long, value_name = "FILE", hide = true)]
    catalog: Option<PathBuf>,
}

/// Runs `ruge data …`. A [`crate::usage::UsageError`] in the chain asks for exit code 2.
pub fn run(command: DataCommand, console: Console) -> Result<()> {
    match command {
        DataCommand::List(args) => {
            let catalog = Catalog::load(args.catalog.as_deref())?;
            console.result(&if console.json { list::json(&catalog) } else { list::table(&catalog) })
        }
        DataCommand::Get(args) => get(&args, console),
    }
}

/// How a set came into its folder.
#[derive(Clone, Copy)]
enum Origin {
    Present,
    Local,
    Network,
}

/// `ruge data get`.
fn get(args: &GetArgs, console: Console) -> Result<()> {
    let catalog = Catalog::load(args.catalog.as_deref())?;
    let set = catalog.find(&args.name)?;
    let folder = args.out.clone().unwrap_or_else(|| default_folder(set));

    let wanted = wanted(set, &folder, args.force)?;
    let origin = if wanted.is_empty() {
        Origin::Present
    } else {
        let fresh: Vec<PathBuf> = folder
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
            .map(Path::to_owned)
            .collect();
        fs::create_dir_all(&folder).with_context(|| cannot_write(&folder))?;
        let outcome = match &args.from {
            Some(from) => take(set, from, &wanted, &folder, console).map(|()| Origin::Local),
            None => download(set, &wanted, &folder, args, console).map(|()| Origin::Network),
        };
        if outcome.is_err() {
            // Succeeds only where nothing is inside, which is where no folder should have been made.
            let _ = fresh.iter().try_for_each(fs::remove_dir);
        }
        outcome.with_context(|| format!("cannot get '{}'", set.name))?
    };
    report(set, &folder, origin, console)
}

/// The files that must be brought: all of them by force, otherwise those that are missing. A file that is there but
/// is not the published one may be the user's work, so it is never replaced unasked.
fn wanted<'a>(set: &'a BenchmarkSet, folder: &Path, force: bool) -> Result<Vec<&'a SetFile>> {
    let mut wanted = Vec::new();
    for file in &set.files {
        let path = set.path_in(folder, file.role);
        if force || !path.exists() {
            wanted.push(file);
        } else if let Some(expected) = &file.digest {
            let actual = digest_of(&path, expected)?;
            if actual != *expected {
                bail!(
                    "{} is there, but is not the published file of '{}'\n  expected {expected}\n  actual   {actual}\n  \
                     `--force` replaces it, `--out DIR` leaves it alone",
                    path.display(),
                    set.name
                );
            }
        }
    }
    Ok(wanted)
}

/// Brings the wanted files from the network.
fn download(set: &BenchmarkSet, wanted: &[&SetFile], folder: &Path, args: &GetArgs, console: Console) -> Result<()> {
    let advice = format!("with the set's files in a folder, `ruge data get {} --from DIR` needs no network", set.name);
    let fetcher = Fetcher::new(args.base_url.as_deref(), args.retries, console, advice);
    let Some(archive) = &set.archive else {
        for file in wanted {
            let remote = file.remote();
            let remote = remote.ok_or_else(|| anyhow!("no address for the {} file", file.role))?;
            fetcher.fetch(&remote, &set.path_in(folder, file.role))?;
        }
        return Ok(());
    };
    let path = folder.join(archive.file_name());
    // An archive left by a run that was stopped while unpacking need not be fetched again.
    if !path.is_file() || digest_of(&path, &archive.digest)? != archive.digest {
        fetcher.fetch(archive, &path)?;
    }
    unpack(&path, wanted, folder)?;
    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))
}

/// Brings the wanted files from a folder or an archive on this machine.
fn take(set: &BenchmarkSet, from: &Path, wanted: &[&SetFile], folder: &Path, console: Console) -> Result<()> {
    let files = match local::locate(set, from)? {
        Found::Archive(path) => {
            if let Some(archive) = &set.archive {
                let actual = digest_of(&path, &archive.digest)?;
                if actual != archive.digest {
                    bail!(
                        "{} is not the published archive\n  expected {}\n  actual   {actual}\n  get it anew from {}",
                        path.display(),
                        archive.digest,
                        archive.url
                    );
                }
            }
            return unpack(&path, wanted, folder);
        }
        Found::Files(files) => files,
    };
    let mut staged = Vec::new();
    for file in wanted {
        let Some((_, path)) = files.iter().find(|(role, _)| *role == file.role) else {
            console.note(&format!(
                "{} has no rules file, so there will be no rules.tsv; `ruge data get {}` without --from fetches it",
                from.display(),
                set.name
            ));
            continue;
        };
        let copy = local::stage(path, file.role, folder)?;
        let origin = path.display().to_string();
        match (&file.digest, set.triples(file.role)) {
            (Some(digest), _) => copy.check_digest(digest, &origin)?,
            (None, Some(triples)) => copy.check_lines(triples, &origin)?,
            (None, None) => console.note(&format!("{origin} has no published digest and was not verified")),
        }
        staged.push(copy);
    }
    staged.into_iter().try_for_each(Staged::commit)
}

/// Takes the wanted files out of a verified archive. They get their names only when all of them are good.
fn unpack(archive: &Path, wanted: &[&SetFile], folder: &Path) -> Result<()> {
    let roles: Vec<Role> = wanted.iter().map(|file| file.role).collect();
    let staged = unpack::extract(archive, &roles, folder)?;
    for (role, copy) in &staged {
        let digest = wanted.iter().find(|file| file.role == *role).and_then(|file| file.digest.as_ref());
        if let Some(digest) = digest {
            copy.check_digest(digest, &format!("the {role} file in {}", archive.display()))?;
        }
    }
    staged.into_iter().try_for_each(|(_, copy)| copy.commit())
}

/// Says what there is now, and what to type next.
fn report(set: &BenchmarkSet, folder: &Path, origin: Origin, console: Console) -> Result<()> {
    let next = format!("ruge check {}", quoted(folder));
    if console.json {
        let mut files = Vec::new();
        for file in &set.files {
            let path = set.path_in(folder, file.role);
            if let Ok(metadata) = fs::metadata(&path) {
                files.push(json!({ "path": path, "bytes": metadata.len(), "digest": file.digest }));
            }
        }
        let origin = match origin {
            Origin::Present => "present",
            Origin::Local => "local",
            Origin::Network => "network",
        };
        let object = json!({ "name": set.name, "path": folder, "origin": origin, "files": files, "next": next });
        return console.json_result(&object);
    }
    if console.quiet {
        return Ok(());
    }
    let place = folder.display();
    let what = match origin {
        Origin::Present => {
            format!("{} is already in {place}; nothing to do (`--force` fetches it anew)", set.name)
        }
        Origin::Local | Origin::Network => format!("{} is in {place}", set.name),
    };
    console.result(&format!("{what}\nnext: {next}\n"))
}

/// Where a set lives unless the user says otherwise.
fn default_folder(set: &BenchmarkSet) -> PathBuf {
    Path::new("data").join(&set.name)
}

/// A path as it can be pasted into a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+:~\\".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
