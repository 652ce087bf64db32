//! JSON files of ours with a checksum: its last entry is the SHA-256 of everything else, byte by byte.
//!
//! Ledgers are small, written often and read by people, so they are text. A flipped bit, a torn write or an edit is found when the
//! file is read.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use ruge_kg::io::write::replace_file_in;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::error::{Result, RugeError};
use crate::model_file::hex;

/// What stands before the checksum, and what behind it.
const BEFORE: &str = ",\n  \"sha256\": \"";
const BEHIND: &str = "\"\n}\n";

/// Writes a value, which must be a JSON object with at least one entry: complete or not at all.
pub fn write<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let (folder, name) =
        (path.parent().unwrap_or(Path::new("")), path.file_name().and_then(|name| name.to_str()).unwrap_or_default());
    replace_file_in(folder, name, |mut file| {
        file.write_all(print(value).as_bytes()).map_err(RugeError::io(path, "write"))?;
        Ok((file, ()))
    })
}

/// Reads a value; nothing if there is no such file.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RugeError::io(path, "read")(error)),
    };
    parse(&text).map(Some).map_err(|reason| RugeError::Run { path: path.to_path_buf(), reason })
}

/// A value as text, with its checksum.
fn print<T: Serialize>(value: &T) -> String {
    let text = serde_json::to_string_pretty(value).expect("a ledger is plain data");
    let body = text.strip_suffix("\n}").expect("a ledger is an object with entries");
    format!("{body}{BEFORE}{}{BEHIND}", sum(body))
}

fn sum(body: &str) -> String {
    hex(&Sha256::digest(body))
}

fn parse<T: DeserializeOwned>(text: &[u8]) -> std::result::Result<T, String> {
    let damaged = "it was changed or damaged: its content does not match its checksum".to_string();
    let text = std::str::from_utf8(text).map_err(|_| damaged.clone())?;
    let (body, rest) = text.rsplit_once(BEFORE).ok_or_else(|| match text.contains("\"format\"") {
        true => damaged.clone(),
        false => "it was made by an earlier version of ruge, or is damaged".to_string(),
    })?;
    if rest.strip_suffix(BEHIND) != Some(&sum(body)) {
        return Err(damaged);
    }
    serde_json::from_str(&format!("{body}\n}}")).map_err(|error| format!("its content is not as expected: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_flipped_bit_is_accepted() {
        let value = serde_json::json!({ "format": 4, "words": "zwölf, \"sha256\": \"", "list": [1.5, null] });
        let text = print(&value);
        assert_eq!(parse::<serde_json::Value>(text.as_bytes()), Ok(value.clone()));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["list"], value["list"], "it is JSON");
        for bit in 0..8 * text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(parse::<serde_json::Value>(&bytes).is_err(), "bit {bit}");
        }
        for length in 0..text.len() {
            assert!(parse::<serde_json::Value>(&text.as_bytes()[..length]).is_err(), "{length} bytes");
        }
        assert!(parse::<serde_json::Value>(format!("{text} ").as_bytes()).is_err());
    }

    #[test]
    fn a_file_comes_back_or_is_told_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        assert_eq!(read::<serde_json::Value>(&path).unwrap(), None);
        let value = serde_json::json!({ "a": 1 });
        write(&path, &value).unwrap();
        assert_eq!(read(&path).unwrap(), Some(value));
        fs::write(&path, "{}").unwrap();
        let told = read::<serde_json::Value>(&path).unwrap_err().to_string();
        assert!(told.contains("x.json") && told.contains("earlier version"), "{told}");
    }
}
