//! The catalog: which public benchmark sets exist, where they live and how their files are recognised.
//!
//! The catalog is data, not code: `catalog.json` beside this file is compiled into the binary, and a file of the
//! same shape can stand in for it (`--catalog FILE`), which is how the tests bring their own small world and how a
//! laboratory can describe sets of its own. A set is published either as single files, each with an address, or as
//! one archive from which the split files are taken.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::unpack::ArchiveKind;
use crate::usage::UsageError;

/// The built-in catalog.
const BUILT_IN: &str = include_str!("catalog.json");

/// All sets that can be asked for by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// In the order in which `ruge data list` shows them.
    pub sets: Vec<BenchmarkSet>,
}

/// One benchmark set: what it is, how large, and where its files come from.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkSet {
    /// What the user types; also the name of its folder.
    pub name: String,
    /// One line about where the triples come from.
    #[serde(default)]
    pub about: String,
    /// The publisher.
    #[serde(default)]
    pub source: String,
    /// The licence of the triples, or of the repository where the triples have none of their own.
    #[serde(default)]
    pub licence: String,
    /// Distinct entities in all splits.
    pub entities: Option<u64>,
    /// Distinct relations in all splits.
    pub relations: Option<u64>,
    /// Training triples.
    pub train: Option<u64>,
    /// Validation triples.
    pub valid: Option<u64>,
    /// Test triples.
    pub test: Option<u64>,
    /// The archive that holds the files, when they are not published one by one.
    pub archive: Option<Remote>,
    /// The files of the finished folder.
    pub files: Vec<SetFile>,
}

/// Something to download, and how to recognise it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    /// Where it is published.
    pub url: String,
    /// What its bytes must hash to.
    pub digest: Digest,
    /// Its length, where known: shows a cut or foreign file before it is hashed.
    pub bytes: Option<u64>,
}

/// One file of the finished folder.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetFile {
    /// What the file is in the set.
    pub role: Role,
    /// Its own address; absent when it comes out of the set's archive.
    pub url: Option<String>,
    /// The digest of the uncompressed file; only members of an archive may lack it, for there the archive has one.
    pub digest: Option<Digest>,
    /// Its length, where known.
    pub bytes: Option<u64>,
    /// Whether the digest was taken from a copy of the set: then a file out of the set's archive, whose own digest is
    /// right, may differ from it.
    #[serde(default)]
    pub from_copy: bool,
}

/// The part a file plays in its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The observed triples.
    Train,
    /// The triples on which training chooses its best epoch.
    Valid,
    /// The triples that are ranked in the end.
    Test,
    /// Soft rules published with the set.
    Rules,
}

impl Role {
    /// The word for it in file names and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Valid => "valid",
            Self::Test => "test",
            Self::Rules => "rules",
        }
    }

    /// The name of the file in the finished folder: what `ruge check` and all other commands expect.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Train => "train.txt",
            Self::Valid => "valid.txt",
            Self::Test => "test.txt",
            Self::Rules => "rules.tsv",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Catalog {
    /// The built-in catalog, or the one in `file`.
    pub fn load(file: Option<&Path>) -> Result<Self> {
        match file {
            None => Self::parse(BUILT_IN).context("the built-in catalog is broken"),
            Some(path) => {
                let text =
                    fs::read_to_string(path).with_context(|| format!("cannot read the catalog {}", path.display()))?;
                Self::parse(&text).with_context(|| format!("cannot use the catalog {}", path.display()))
            }
        }
    }

    /// The set called `name`, whatever its case; otherwise a usage error that knows the names.
    pub fn find(&self, name: &str) -> Result<&BenchmarkSet> {
        let wanted = name.to_lowercase();
        if let Some(set) = self.sets.iter().find(|set| set.name == wanted) {
            return Ok(set);
        }
        let names: Vec<&str> = self.sets.iter().map(|set| set.name.as_str()).collect();
        let nearest = names
            .iter()
            .map(|candidate| (strsim::jaro_winkler(&wanted, candidate), *candidate))
            .max_by(|left, right| left.0.total_cmp(&right.0))
            .filter(|(similarity, _)| *similarity > 0.7);
        let hint = nearest.map_or(String::new(), |(_, best)| format!("; did you mean '{best}'?"));
        Err(UsageError(format!(
            "unknown set '{name}'{hint}\n  known sets: {}\n  `ruge data list` describes them",
            names.join(", ")
        ))
        .into())
    }

    /// Reads and checks a catalog: everything later code relies on is established here.
    fn parse(text: &str) -> Result<Self> {
        let catalog: Self = serde_json::from_str(text)?;
        for (index, set) in catalog.sets.iter().enumerate() {
            set.check().with_context(|| format!("set '{}'", set.name))?;
            ensure!(
                catalog.sets[..index].iter().all(|other| other.name != set.name),
                "set '{}' occurs twice",
                set.name
            );
        }
        Ok(catalog)
    }
}

impl BenchmarkSet {
    /// Where the file goes inside the set's folder.
    pub fn path_in(&self, folder: &Path, role: Role) -> PathBuf {
        folder.join(role.file_name())
    }

    /// How many lines the file must have, where known.
    pub fn triples(&self, role: Role) -> Option<u64> {
        match role {
            Role::Train => self.train,
            Role::Valid => self.valid,
            Role::Test => self.test,
            Role::Rules => None,
        }
    }

    /// The bytes to be downloaded, where all of them are known.
    pub fn download_bytes(&self) -> Option<u64> {
        match &self.archive {
            Some(archive) => archive.bytes,
            None => self.files.iter().map(|file| file.bytes).sum(),
        }
    }

    /// Whether soft rules come with the set.
    pub fn has_rules(&self) -> bool {
        self.files.iter().any(|file| file.role == Role::Rules)
    }

    /// A set must be safe to make a folder of and must say where each file comes from.
    fn check(&self) -> Result<()> {
        // The name becomes a folder: no separators, no dots in front, nothing a shell would have to quote.
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
        ensure!(
            !self.name.is_empty() && !self.name.starts_with('.') && self.name.chars().all(plain),
            "a set's name is made of lower-case letters, digits, '-', '_' and '.'"
        );
        for role in [Role::Train, Role::Valid, Role::Test] {
            let count = self.files.iter().filter(|file| file.role == role).count();
            ensure!(count == 1, "there must be one {role} file, not {count}");
        }
        match &self.archive {
            Some(archive) => {
                ensure!(
                    ArchiveKind::of(&archive.file_name()).is_some(),
                    "the archive {} is neither .tar.gz, .tgz nor .zip",
                    archive.url
                );
                ensure!(!self.has_rules(), "rules are not looked for in archives");
            }
            None => {
                for file in &self.files {
                    if file.remote().is_none() {
                        bail!("the {} file needs a url and a digest", file.role);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Remote {
    /// The last part of the address, without anything that could lead out of a folder.
    pub fn file_name(&self) -> String {
        let path = self.url.split(['?', '#']).next().unwrap_or_default();
        path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
    }
}

impl SetFile {
    /// The file as a download of its own.
    pub fn remote(&self) -> Option<Remote> {
        Some(Remote { url: self.url.clone()?, digest: self.digest.clone()?, bytes: self.bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_catalog_is_sound() {
        let catalog = Catalog::load(None).unwrap();
        let names: Vec<_> = catalog.sets.iter().map(|set| set.name.as_str()).collect();
        assert_eq!(
            names,
            ["fb15k", "yago37", "fb15k-237", "wn18", "wn18rr", "kinships", "umls", "nations", "codex-s", "codex-m"]
        );
        for set in &catalog.sets {
            let urls = set.files.iter().filter_map(|file| file.url.as_ref());
            for url in urls.chain(set.archive.iter().map(|archive| &archive.url)) {
                assert!(url.starts_with("https://"), "{url}");
            }
        }
        // Every file of every set is known by a digest, but for one set of which no copy could be had.
        for set in catalog.sets.iter().filter(|set| set.name != "nations") {
            for file in &set.files {
                let digest = file.digest.as_ref().map(ToString::to_string).unwrap_or_default();
                let weak = set.name == "yago37" && file.role == Role::Train;
                assert!(digest.starts_with(if weak { "git-blob:" } else { "sha256:" }), "{} {}", set.name, file.role);
            }
        }
        assert_eq!(catalog.find("FB15k").unwrap().download_bytes(), Some(46_180_910));
        assert_eq!(catalog.find("yago37").unwrap().download_bytes(), None);
    }

    #[test]
    fn unknown_names_get_a_suggestion() {
        let catalog = Catalog::load(None).unwrap();
        let error = catalog.find("kinship").unwrap_err();
        assert!(error.is::<UsageError>());
        assert!(error.to_string().contains("did you mean 'kinships'"), "{error}");
        let error = catalog.find("zzz").unwrap_err().to_string();
        assert!(!error.contains("did you mean") && error.contains("codex-m"), "{error}");
    }

    #[test]
    fn unsound_catalogs_are_refused() {
        let refuse = |text: &str, reason: &str| {
            let error = format!("{:#}", Catalog::parse(text).unwrap_err());
            assert!(error.contains(reason), "{error}");
        };
        refuse(r#"{"sets":[{"name":"../x","files":[]}]}"#, "name");
        refuse(r#"{"sets":[{"name":"x","files":[]}]}"#, "one train file");
        refuse(
            r#"{"sets":[{"name":"x","files":[{"role":"train"},{"role":"valid"},{"role":"test"}]}]}"#,
            "needs a url and a digest",
        );
        refuse(r#"{"sets":[],"more":1}"#, "unknown field");
    }
}
