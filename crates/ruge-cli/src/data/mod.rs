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
use digest::Digest;
use fetch::Fetcher;
use local::Found;
use staged::{Staged, cannot_write, count_lines, digest_of};

use crate::console::Console;

/// What `ruge data` can do.
#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// List the public benchmark sets
    #[command(after_help = "Example:\n  ruge data list")]
    List(ListArgs),
    /// Download a benchmark set and verify its checksums
    ///
    /// The folder holds train.txt, valid.txt and test.txt, and rules.tsv if rules are published with the set. To resume an
    /// interrupted download, run the command again.
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
    /// Name of the set, see `ruge data list`
    name: String,
    /// Output folder [default: data/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Take the set from this folder instead of the network: DIR/NAME or DIR with train, valid and test as .txt,
    /// .txt.gz or NAME_triples.train, or the publisher's archive
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
    /// Number of retries if a connection is cut or a server is busy
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
            if console.json {
                console.json_result(&list::json(&catalog))
            } else {
                console.result(&list::table(&catalog))
            }
        }
        DataCommand::Get(args) => get(&args, console),
    }
}

/// What shows that a file is the published one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Proof {
    /// Its own digest.
    Digest(digest::Algorithm),
    /// The digest of the archive it was taken from.
    Archive,
    /// Its number of lines alone: it may hold anything.
    Lines,
    /// Nothing at all.
    None,
}

impl Proof {
    fn of(digest: &Digest) -> Self {
        Self::Digest(digest.algorithm())
    }

    /// Whether a checksum was compared.
    fn is_checksum(self) -> bool {
        matches!(self, Self::Digest(_) | Self::Archive)
    }

    /// The word for it in JSON.
    fn name(self) -> &'static str {
        match self {
            Self::Digest(algorithm) => algorithm.name(),
            Self::Archive => "archive",
            Self::Lines => "line-count",
            Self::None => "nothing",
        }
    }
}

/// The files that are there, and what is known about each.
type Proofs = Vec<(Role, Proof)>;

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

    let (wanted, mut proofs) = wanted(set, &folder, args.force)?;
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
            Some(from) => take(set, from, &wanted, &folder, console).map(|brought| (Origin::Local, brought)),
            None => download(set, &wanted, &folder, args, console).map(|brought| (Origin::Network, brought)),
        };
        if outcome.is_err() {
            // Succeeds only where nothing is inside, which is where no folder should have been made.
            let _ = fresh.iter().try_for_each(fs::remove_dir);
        }
        let (origin, brought) = outcome.with_context(|| format!("cannot get '{}'", set.name))?;
        proofs.extend(brought);
        origin
    };
    report(set, &folder, origin, &proofs, console)
}

/// The files that must be brought: all of them by force, otherwise those that are missing. A file that is there but
/// is not the published one may be the user's work, so it is never replaced unasked. Also what is known about those
/// that are there.
fn wanted<'a>(set: &'a BenchmarkSet, folder: &Path, force: bool) -> Result<(Vec<&'a SetFile>, Proofs)> {
    let (mut wanted, mut proofs) = (Vec::new(), Vec::new());
    let not_published = |path: &Path, expected: &dyn std::fmt::Display, actual: &dyn std::fmt::Display| {
        anyhow!(
            "{} exists, but is not the published file of '{}'\n  expected {expected}\n  actual   {actual}\n  \
             `--force` replaces it, `--out DIR` leaves it alone",
            path.display(),
            set.name
        )
    };
    for file in &set.files {
        let path = set.path_in(folder, file.role);
        if force || !path.exists() {
            wanted.push(file);
        } else if let Some(expected) = &file.digest {
            let actual = digest_of(&path, expected)?;
            if actual != *expected {
                return Err(not_published(&path, expected, &actual));
            }
            proofs.push((file.role, Proof::of(expected)));
        } else if let Some(triples) = set.triples(file.role) {
            let lines = count_lines(&path)?;
            if lines != triples {
                return Err(not_published(&path, &format!("{triples} triples"), &format!("{lines} triples")));
            }
            proofs.push((file.role, Proof::Lines));
        } else {
            proofs.push((file.role, Proof::None));
        }
    }
    Ok((wanted, proofs))
}

/// Brings the wanted files from the network.
fn download(
    set: &BenchmarkSet,
    wanted: &[&SetFile],
    folder: &Path,
    args: &GetArgs,
    console: Console,
) -> Result<Proofs> {
    let advice = format!("with the set's files in a folder, `ruge data get {} --from DIR` needs no network", set.name);
    let fetcher = Fetcher::new(args.base_url.as_deref(), args.retries, console, advice);
    let Some(archive) = &set.archive else {
        let mut proofs = Vec::new();
        for file in wanted {
            let remote = file.remote();
            let remote = remote.ok_or_else(|| anyhow!("no address for the {} file", file.role))?;
            fetcher.fetch(&remote, &set.path_in(folder, file.role))?;
            proofs.push((file.role, Proof::of(&remote.digest)));
        }
        return Ok(proofs);
    };
    let path = folder.join(archive.file_name());
    // An archive left by a run that was stopped while unpacking need not be fetched again.
    if !path.is_file() || digest_of(&path, &archive.digest)? != archive.digest {
        fetcher.fetch(archive, &path)?;
    }
    let proofs = unpack(&path, wanted, folder, console)?;
    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    Ok(proofs)
}

/// Brings the wanted files from a folder or an archive on this machine.
fn take(set: &BenchmarkSet, from: &Path, wanted: &[&SetFile], folder: &Path, console: Console) -> Result<Proofs> {
    let files = match local::locate(set, from)? {
        Found::Archive(path) => {
            if let Some(archive) = &set.archive {
                let actual = digest_of(&path, &archive.digest)?;
                if actual != archive.digest {
                    bail!(
                        "{} is not the published archive\n  expected {}\n  actual   {actual}\n  download it again from {}",
                        path.display(),
                        archive.digest,
                        archive.url
                    );
                }
            }
            return unpack(&path, wanted, folder, console);
        }
        Found::Files(files) => files,
    };
    let (mut staged, mut proofs) = (Vec::new(), Vec::new());
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
        let proof = match (&file.digest, set.triples(file.role)) {
            (Some(digest), _) => {
                copy.check_digest(digest, &origin)?;
                Proof::of(digest)
            }
            (None, Some(triples)) => {
                copy.check_lines(triples, &origin)?;
                Proof::Lines
            }
            (None, None) => Proof::None,
        };
        staged.push(copy);
        proofs.push((file.role, proof));
    }
    staged.into_iter().try_for_each(Staged::commit)?;
    Ok(proofs)
}

/// Takes the wanted files out of a verified archive. They get their names only when all of them are good.
fn unpack(archive: &Path, wanted: &[&SetFile], folder: &Path, console: Console) -> Result<Proofs> {
    let roles: Vec<Role> = wanted.iter().map(|file| file.role).collect();
    let staged = unpack::extract(archive, &roles, folder)?;
    let mut proofs = Vec::new();
    for (role, copy) in &staged {
        let file = wanted.iter().find(|file| file.role == *role);
        let mut proof = Proof::Archive;
        if let Some((file, digest)) = file.and_then(|file| Some((file, file.digest.as_ref()?))) {
            match copy.check_digest(digest, &format!("the {role} file in {}", archive.display())) {
                Ok(()) => proof = Proof::of(digest),
                Err(_) if file.from_copy => console.note(&format!(
                    "note: the {role} file of the published archive differs from the copy this program knows by {digest}; \
                     the archive has its published checksum"
                )),
                Err(error) => return Err(error),
            }
        }
        proofs.push((*role, proof));
    }
    staged.into_iter().try_for_each(|(_, copy)| copy.commit())?;
    Ok(proofs)
}

/// Says what there is now, and what to type next.
fn report(set: &BenchmarkSet, folder: &Path, origin: Origin, proofs: &Proofs, console: Console) -> Result<()> {
    let proof = |role: Role| proofs.iter().find(|(of, _)| *of == role).map_or(Proof::None, |(_, proof)| *proof);
    let next = format!("ruge check {}", quoted(folder));
    if console.json {
        let mut files = Vec::new();
        for file in &set.files {
            let path = set.path_in(folder, file.role);
            if let Ok(metadata) = fs::metadata(&path) {
                let proof = proof(file.role);
                files.push(json!({
                    "path": path, "bytes": metadata.len(), "digest": file.digest,
                    "verified": proof.is_checksum(), "verified_by": proof.name(),
                }));
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
    let warning = unverified(proofs);
    if console.quiet {
        // What is not verified is told however quiet.
        return if warning.is_empty() { Ok(()) } else { console.result(&warning) };
    }
    let place = folder.display();
    let what = match origin {
        Origin::Present => {
            format!("{} is already in {place}; nothing to do (`--force` fetches it again)", set.name)
        }
        Origin::Local | Origin::Network => format!("{} is in {place}", set.name),
    };
    let verified = if warning.is_empty() { "every file has its published checksum\n" } else { &warning };
    console.result(&format!("{what}\n{verified}next: {next}\n"))
}

/// A loud line for the files that no checksum was compared for.
fn unverified(proofs: &Proofs) -> String {
    let names = |wanted: Proof| -> Vec<&str> {
        proofs.iter().filter(|(_, proof)| *proof == wanted).map(|(role, _)| role.file_name()).collect()
    };
    let mut text = String::new();
    for (proof, what) in [
        (Proof::Lines, "no checksum is known for it; only its number of lines was compared"),
        (Proof::None, "no checksum and no number of lines is known for it; nothing was compared"),
    ] {
        let files = names(proof);
        if !files.is_empty() {
            text.push_str(&format!("WARNING: NOT VERIFIED: {}: {what}\n", files.join(", ")));
        }
    }
    text
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
