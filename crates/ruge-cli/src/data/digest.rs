//! Digests: how a file proves that it is the published one.
//!
//! Most publishers' files are known by their sha256. One is known only by the name git gives it, the SHA-1 of
//! `blob <length>\0` followed by the bytes; it tells the right file from a damaged one just as well. A digest is
//! written `sha256:<hex>` or `git-blob:<hex>` and always taken from the file on disk, so that what was resumed,
//! copied or unpacked is judged by what the user will read.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// The way a digest is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-256 of the bytes.
    Sha256,
    /// SHA-1 of git's blob header and the bytes.
    GitBlob,
}

impl Algorithm {
    /// The word before the colon.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::GitBlob => "git-blob",
        }
    }

    /// How many hexadecimal digits follow it.
    const fn digits(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::GitBlob => 40,
        }
    }
}

/// A fingerprint of a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

impl Digest {
    /// How it is computed.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The digest of the file at `path`, computed the same way as this one, so that the two can be compared.
    pub fn of_same_kind(&self, path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let hex = match self.algorithm {
            Algorithm::Sha256 => {
                let mut hasher = Sha256::new();
                absorb(&mut file, |bytes| hasher.update(bytes))?;
                to_hex(&hasher.finalize())
            }
            Algorithm::GitBlob => {
                let mut hasher = Sha1::new();
                hasher.update(format!("blob {}\0", file.metadata()?.len()));
                absorb(&mut file, |bytes| hasher.update(bytes))?;
                to_hex(&hasher.finalize())
            }
        };
        Ok(Self { algorithm: self.algorithm, hex })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.algorithm.name(), self.hex)
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, hex) = text.split_once(':').unwrap_or(("", text));
        let algorithm = [Algorithm::Sha256, Algorithm::GitBlob]
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
            .ok_or_else(|| format!("digest '{text}' begins with neither 'sha256:' nor 'git-blob:'"))?;
        if hex.len() != algorithm.digits() || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("digest '{text}' needs {} hexadecimal digits", algorithm.digits()));
        }
        Ok(Self { algorithm, hex: hex.to_ascii_lowercase() })
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// Feeds a reader to a hasher in pieces: the files are tens of megabytes, the buffer need not be.
fn absorb(reader: &mut impl Read, mut update: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Lower-case hexadecimal, as every checksum tool prints it.
fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: &str, expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, content).unwrap();
        let expected: Digest = expected.parse().unwrap();
        assert_eq!(expected.of_same_kind(&path).unwrap(), expected);
    }

    #[test]
    fn known_digests() {
        check("abc", "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        // `printf 'hello\n' | git hash-object --stdin`
        check("hello\n", "git-blob:ce013625030ba8dba906f756967f9e9ca394464a");
        check("", "git-blob:e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    }

    #[test]
    fn malformed_digests_are_explained() {
        assert!("md5:00".parse::<Digest>().unwrap_err().contains("neither"));
        assert!("sha256:00".parse::<Digest>().unwrap_err().contains("64"));
        assert!("".parse::<Digest>().is_err());
    }
}
