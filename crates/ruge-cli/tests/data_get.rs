//! `ruge data`, from the outside: a small published world, a web server that behaves or misbehaves, and what the user
//! is left with.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::http::{Reply, Request, Server};
use assert_cmd::Command;
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// The files of the small world: `tiny` is published as single files, `boxed` as an archive of the same splits.
const FILES: [(&str, &str, &str); 4] = [
    ("train", "train.txt", "rome\tcapital_of\titaly\nparis\tcapital_of\tfrance\nnice\tin\tfrance\n"),
    ("valid", "valid.txt", "milan\tin\titaly\n"),
    ("test", "test.txt", "lyon\tin\tfrance\n"),
    ("rules", "rules.tsv", "?a capital_of ?b => ?a in ?b\t0.9\n"),
];

/// A folder to work in, with the catalog of the small world in it.
struct World {
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        let single: Vec<Value> = FILES
            .iter()
            .map(|(role, _, content)| {
                json!({
                    "role": role, "digest": sha256(content.as_bytes()),
                    "url": format!("https://example.org/tiny/{}", published(role)),
                })
            })
            .collect();
        let members: Vec<Value> = FILES[..3]
            .iter()
            .map(|(role, _, content)| json!({ "role": role, "digest": sha256(content.as_bytes()) }))
            .collect();
        let catalog = json!({ "sets": [
            { "name": "tiny", "source": "example.org", "licence": "MIT", "train": 3, "valid": 1, "test": 1,
              "files": single },
            { "name": "boxed", "files": members, "archive":
              { "url": "https://example.org/boxed.tar.gz", "digest": sha256(&archive()) } },
            { "name": "undigested", "train": 3, "valid": 1, "test": 1,
              "files": [{ "role": "train" }, { "role": "valid" }, { "role": "test" }],
              "archive": { "url": "https://example.org/boxed.tar.gz", "digest": sha256(&archive()) } },
        ]});
        fs::write(world.path("catalog.json"), catalog.to_string()).unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `ruge data COMMAND…` in the folder.
    fn ruge(&self, arguments: &[&str]) -> Output {
        ruge(self.folder.path(), &[arguments, &["--catalog", "catalog.json"]].concat())
    }

    /// Runs `ruge data get NAME` against a server.
    fn get(&self, name: &str, server: &Server, more: &[&str]) -> Output {
        self.ruge(&[&["get", name, "--base-url", &server.url()], more].concat())
    }

    /// The folder holds exactly the finished set.
    fn assert_complete(&self, folder: &str, files: usize) {
        for (_, name, content) in &FILES[..files] {
            let path = self.path(folder).join(name);
            assert_eq!(&fs::read_to_string(&path).unwrap(), content, "{}", path.display());
        }
        assert_eq!(listing(&self.path(folder)).len(), files, "{:?}", listing(&self.path(folder)));
    }
}

fn ruge(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::cargo_bin("ruge").unwrap();
    for proxy in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(proxy);
    }
    command.current_dir(folder).arg("data").args(arguments).output().unwrap()
}

/// The publisher's name of a file of `tiny`.
fn published(role: &str) -> String {
    if role == "rules" { "tiny_rule".to_owned() } else { format!("tiny_triples.{role}") }
}

/// What the publisher has at `path`.
fn content(path: &str) -> Vec<u8> {
    if path == "/boxed.tar.gz" {
        return archive();
    }
    let found = FILES.iter().find(|(role, ..)| path == format!("/tiny/{}", published(role)));
    found.unwrap_or_else(|| panic!("{path} is not published")).2.as_bytes().to_vec()
}

/// A server without faults.
fn honest(request: &Request, _: usize) -> Reply {
    Reply::ranged(request, &content(&request.path))
}

/// The splits in a folder, with a hidden file, a decoy, and a member that would like to be elsewhere.
fn archive() -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let evil = [("../../evil.txt", "evil"), ("../train.txt", "evil"), ("boxed/._train.txt", "junk")];
    let decoys = [("boxed/readme.md", "hello"), ("boxed/train_small.txt", "decoy")];
    let files: Vec<_> = FILES[..3].iter().map(|(_, name, text)| (format!("boxed/{name}"), *text)).collect();
    let files = files.iter().map(|(name, text)| (name.as_str(), *text));
    for (name, text) in evil.into_iter().chain(decoys).chain(files) {
        let mut header = tar::Header::new_gnu();
        // Past the library's own check, as an attacker would.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, text.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn listing(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Fails with `code`, with nothing on stdout and every one of `words` in the message.
#[track_caller]
fn fails(output: &Output, code: i32, words: &[&str]) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(output.stdout.is_empty());
    for word in words {
        assert!(errors.contains(word), "no '{word}' in:\n{errors}");
    }
}

#[test]
fn a_good_download_makes_a_complete_folder() {
    let (world, server) = (World::new(), Server::start(honest));
    let output = succeeds(&world.get("tiny", &server, &[]));
    assert!(output.contains("next: ruge check data/tiny"), "{output}");
    world.assert_complete("data/tiny", 4);
    assert!(server.requests().iter().all(|request| request.range.is_none()));

    let output = world.get("TINY", &server, &["--out", "else where", "--json"]);
    let object: Value = serde_json::from_str(&succeeds(&output)).unwrap();
    assert_eq!(object["origin"], "network");
    assert_eq!(object["next"], "ruge check 'else where'");
    assert_eq!(object["files"].as_array().unwrap().len(), 4);
    world.assert_complete("else where", 4);

    let output = world.get("tiny", &server, &["--out", "quiet", "--quiet"]);
    assert!(succeeds(&output).is_empty() && output.stderr.is_empty());
}

#[test]
fn an_archive_is_unpacked_without_following_its_paths() {
    let (world, server) = (World::new(), Server::start(honest));
    succeeds(&world.get("boxed", &server, &["--out", "a/b/c"]));
    world.assert_complete("a/b/c", 3);
    assert_eq!(listing(&world.path("a")), ["b"]);
    assert_eq!(listing(&world.path("a/b")), ["c"]);
    assert_eq!(listing(world.folder.path()), ["a", "catalog.json"]);
}

#[test]
fn a_cut_download_is_resumed_in_the_same_run() {
    let world = World::new();
    let server = Server::start(|request, before| {
        let reply = honest(request, before);
        if before == 0 { reply.cut_after(10) } else { reply }
    });
    succeeds(&world.get("tiny", &server, &[]));
    assert_eq!(server.requests()[1].range, Some(10));
    world.assert_complete("data/tiny", 4);
}

#[test]
fn a_cut_download_is_kept_and_resumed_by_the_next_run() {
    let world = World::new();
    let server = Server::start(|request, before| {
        let reply = honest(request, before);
        if before == 0 { reply.cut_after(10) } else { reply }
    });
    let output = world.get("tiny", &server, &["--retries", "0"]);
    let url = format!("{}/tiny/tiny_triples.train", server.url());
    let total = format!("10 of {} bytes", FILES[0].2.len());
    fails(&output, 1, &["was cut after", &total, &url, "train.txt.part", "resume", "--from"]);
    assert_eq!(listing(&world.path("data/tiny")), ["train.txt.part"]);

    succeeds(&world.get("tiny", &server, &["--retries", "0"]));
    assert_eq!(server.requests()[1].range, Some(10));
    world.assert_complete("data/tiny", 4);
}

#[test]
fn a_server_without_ranges_sends_everything_again() {
    let world = World::new();
    let server = Server::start(|request, before| {
        let reply = Reply::whole(&content(&request.path));
        if before == 0 { reply.cut_after(10) } else { reply }
    });
    succeeds(&world.get("tiny", &server, &[]));
    assert_eq!(server.requests()[1].range, Some(10));
    world.assert_complete("data/tiny", 4);
}

#[test]
fn parts_that_do_not_fit_are_thrown_away() {
    let length = FILES[0].2.len();
    let complete = FILES[0].2.to_owned();
    // Too long (answered by 416), of another file (found out by the digest), and complete but not renamed.
    for (part, requests) in [("x".repeat(length + 5), 2), ("x".repeat(5), 2), (complete, 1)] {
        let (world, server) = (World::new(), Server::start(honest));
        fs::create_dir_all(world.path("data/tiny")).unwrap();
        fs::write(world.path("data/tiny/train.txt.part"), &part).unwrap();
        succeeds(&world.get("tiny", &server, &["--retries", "0"]));
        world.assert_complete("data/tiny", 4);
        let asked = server.requests();
        assert_eq!(asked[0].range, Some(part.len()));
        assert_eq!(asked.len(), requests + 3);
    }

    // A server that answers with another range than was asked for.
    let world = World::new();
    let server = Server::start(|request, _| match request.range {
        Some(_) => Reply::new("206 Partial Content", b"?").header("Content-Range: bytes 0-0/9"),
        None => Reply::whole(&content(&request.path)),
    });
    fs::create_dir_all(world.path("data/tiny")).unwrap();
    fs::write(world.path("data/tiny/train.txt.part"), "rome").unwrap();
    succeeds(&world.get("tiny", &server, &["--retries", "0"]));
    world.assert_complete("data/tiny", 4);
}

#[test]
fn a_corrupted_download_is_removed_and_explained() {
    let world = World::new();
    let server = Server::start(|request, before| {
        let mut body = content(&request.path);
        if before == 0 {
            body[3] ^= 1;
        }
        Reply::whole(&body)
    });
    let mut wrong = content("/tiny/tiny_triples.train");
    let right = sha256(&wrong);
    wrong[3] ^= 1;
    let output = world.get("tiny", &server, &[]);
    let url = format!("{}/tiny/tiny_triples.train", server.url());
    fails(&output, 1, &["corrupted", &url, "train.txt.part", &right, &sha256(&wrong), "removed"]);
    assert!(listing(&world.path("data/tiny")).is_empty());

    succeeds(&world.get("tiny", &server, &[]));
    assert_eq!(server.requests()[1].range, None);
    world.assert_complete("data/tiny", 4);
}

#[test]
fn refusals_are_final_and_hiccups_are_not() {
    let world = World::new();
    let gone = Server::start(|_, _| Reply::new("404 Not Found", b"404: Not Found"));
    fails(&world.get("tiny", &gone, &[]), 1, &["404", "/tiny/tiny_triples.train", "--from DIR"]);
    assert_eq!(gone.requests().len(), 1);
    assert!(!world.path("data").exists());

    let busy = Server::start(|request, before| match before {
        0 | 1 => Reply::new("500 Internal Server Error", b""),
        2 => Reply::new("429 Too Many Requests", b"").header("Retry-After: 0"),
        _ => honest(request, before),
    });
    let output = world.get("tiny", &busy, &[]);
    succeeds(&output);
    assert!(String::from_utf8_lossy(&output.stderr).contains("trying again"));
    world.assert_complete("data/tiny", 4);

    let down = Server::start(|_, _| Reply::new("503 Service Unavailable", b""));
    let output = world.get("tiny", &down, &["--out", "new", "--retries", "1"]);
    fails(&output, 1, &["503", "2 attempts", "--from DIR"]);
    assert_eq!(down.requests().len(), 2);
}

#[test]
fn another_file_of_known_length_is_not_even_stored() {
    let world = World::new();
    let text = fs::read_to_string(world.path("catalog.json")).unwrap();
    let mut catalog: Value = serde_json::from_str(&text).unwrap();
    catalog["sets"][0]["files"][0]["bytes"] = json!(FILES[0].2.len());
    fs::write(world.path("catalog.json"), catalog.to_string()).unwrap();
    let portal = Server::start(|_, _| Reply::whole(b"<html>please log in</html>"));
    fails(&world.get("tiny", &portal, &[]), 1, &["another file", "26 bytes instead of"]);
    assert!(!world.path("data/tiny").exists());

    // Nor does it cost what an earlier run had.
    fs::create_dir_all(world.path("data/tiny")).unwrap();
    fs::write(world.path("data/tiny/train.txt.part"), "rome").unwrap();
    fails(&world.get("tiny", &portal, &[]), 1, &["another file"]);
    let part = fs::read_to_string(world.path("data/tiny/train.txt.part")).unwrap();
    assert_eq!(part, "rome");
}

#[test]
fn without_a_network_the_way_out_is_named() {
    let world = World::new();
    // A port that was free a moment ago and has nobody behind it now.
    let url = Server::start(honest).url();
    let output = world.ruge(&["get", "tiny", "--base-url", &url]);
    fails(&output, 1, &["cannot reach 127.0.0.1", "ruge data get tiny --from DIR"]);
    assert!(!world.path("data/tiny").exists());
}

#[test]
fn what_is_there_is_left_alone_unless_forced() {
    let (world, server) = (World::new(), Server::start(honest));
    succeeds(&world.get("tiny", &server, &[]));
    let asked = server.requests().len();
    assert!(succeeds(&world.get("tiny", &server, &[])).contains("already in data/tiny"));
    assert_eq!(server.requests().len(), asked);

    // One file gone: only that one is fetched.
    fs::remove_file(world.path("data/tiny/valid.txt")).unwrap();
    succeeds(&world.get("tiny", &server, &[]));
    assert_eq!(server.requests().len(), asked + 1);

    // One file changed: perhaps on purpose.
    fs::write(world.path("data/tiny/train.txt"), "mine").unwrap();
    fails(&world.get("tiny", &server, &[]), 1, &["train.txt", "not the published", "--force"]);
    assert_eq!(fs::read_to_string(world.path("data/tiny/train.txt")).unwrap(), "mine");

    let asked = server.requests().len();
    succeeds(&world.get("tiny", &server, &["--force"]));
    assert_eq!(server.requests().len(), asked + 4);
    world.assert_complete("data/tiny", 4);
}

#[test]
fn mistyped_commands_exit_with_2() {
    let world = World::new();
    fails(&world.ruge(&["get", "tinny"]), 2, &["'tinny'", "did you mean 'tiny'", "boxed"]);
    fails(&world.ruge(&["get"]), 2, &["<NAME>"]);
    fails(&world.ruge(&["get", "tiny", "--fast"]), 2, &["--fast"]);
}

#[test]
fn sets_are_taken_from_folders_and_archives() {
    let world = World::new();
    let write = |folder: &str, name: &dyn Fn(&str, &str) -> String, gzip: bool| {
        fs::create_dir_all(world.path(folder)).unwrap();
        for (role, file, content) in FILES {
            let path = world.path(folder).join(name(role, file));
            if gzip {
                let mut encoder = GzEncoder::new(fs::File::create(path).unwrap(), Compression::fast());
                encoder.write_all(content.as_bytes()).unwrap();
                encoder.finish().unwrap();
            } else {
                fs::write(path, content).unwrap();
            }
        }
    };
    write("plain", &|_, file| file.to_owned(), false);
    write("gzipped/tiny", &|_, file| format!("{file}.gz"), true);
    write("published", &|role, _| published(role), false);
    for from in ["plain", "gzipped", "published"] {
        let out = format!("from-{from}");
        let output = world.ruge(&["get", "tiny", "--from", from, "--out", &out, "--json"]);
        let object: Value = serde_json::from_str(&succeeds(&output)).unwrap();
        assert_eq!(object["origin"], "local");
        world.assert_complete(&out, 4);
    }

    fs::create_dir(world.path("archives")).unwrap();
    fs::write(world.path("archives/boxed.tar.gz"), archive()).unwrap();
    for (from, out) in [("archives", "x"), ("archives/boxed.tar.gz", "y"), ("plain", "z")] {
        succeeds(&world.ruge(&["get", "boxed", "--from", from, "--out", out]));
        world.assert_complete(out, 3);
    }
    // The rules are nice to have: without them there is a set, and a word about it.
    fs::remove_file(world.path("plain/rules.tsv")).unwrap();
    let output = world.ruge(&["get", "tiny", "--from", "plain"]);
    succeeds(&output);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no rules.tsv"));
    world.assert_complete("data/tiny", 3);
}

#[test]
fn wrong_folders_are_told_from_right_ones() {
    let world = World::new();
    fs::create_dir(world.path("wrong")).unwrap();
    let get = |name: &str| world.ruge(&["get", name, "--from", "wrong"]);
    fails(&get("tiny"), 1, &["neither in", "train.txt.gz", "tiny_triples.train"]);
    fails(&get("boxed"), 1, &["the archive boxed.tar.gz"]);
    fs::write(world.path("wrong/train.txt"), "a\tb\tc\n").unwrap();
    fails(&get("tiny"), 1, &["no valid file", "valid.txt.gz"]);
    fs::write(world.path("wrong/valid.txt"), FILES[1].2).unwrap();
    fs::write(world.path("wrong/test.txt"), FILES[2].2).unwrap();
    fails(&get("tiny"), 1, &["train.txt is not the published", &sha256(b"a\tb\tc\n")]);
    fails(&get("undigested"), 1, &["1 triples instead of 3"]);
    fs::write(world.path("wrong/train.txt.gz"), "not gzip").unwrap();
    fs::remove_file(world.path("wrong/train.txt")).unwrap();
    fails(&get("tiny"), 1, &["cannot read", "train.txt.gz"]);
    fs::write(world.path("wrong/boxed.tar.gz"), "damaged").unwrap();
    let output = world.ruge(&["get", "boxed", "--from", "wrong/boxed.tar.gz"]);
    fails(&output, 1, &["not the published archive", &sha256(b"damaged")]);
    fails(&world.ruge(&["get", "tiny", "--from", "nowhere"]), 1, &["nowhere", "no such folder"]);
    assert!(!world.path("data/tiny").exists() && !world.path("data/boxed").exists());
}

#[test]
fn unwritable_places_are_named() {
    let (world, server) = (World::new(), Server::start(honest));
    fs::write(world.path("file"), "").unwrap();
    fails(&world.get("tiny", &server, &["--out", "file/set"]), 1, &["cannot write file/set", "--out DIR"]);
    assert!(server.requests().is_empty());

    // Somebody else is at it.
    #[cfg(unix)]
    {
        fs::create_dir(world.path("locked")).unwrap();
        let part = fs::File::create(world.path("locked/train.txt.part")).unwrap();
        part.lock().unwrap();
        let output = world.get("tiny", &server, &["--out", "locked"]);
        fails(&output, 1, &["locked/train.txt.part", "another `ruge data get`"]);
    }

    // A disk without space, as far as anybody writing there can tell.
    #[cfg(target_os = "linux")]
    {
        let program = Command::cargo_bin("ruge").unwrap();
        let program = program.get_program().to_str().unwrap().to_string();
        let line = format!(
            "trap '' XFSZ; ulimit -f 0; exec '{program}' data get tiny --base-url '{}' --catalog catalog.json --out full",
            server.url()
        );
        let output = std::process::Command::new("sh").args(["-c", &line]).current_dir(world.folder.path()).output();
        fails(&output.unwrap(), 1, &["cannot write full/train.txt.part", "space"]);
        assert!(!world.path("full").exists());
    }
}

/// Whoever can write into the folder must not be able to choose another file that we then write.
#[test]
#[cfg(unix)]
fn links_in_the_folder_are_not_followed() {
    use std::os::unix::fs::symlink;
    let (world, server) = (World::new(), Server::start(honest));
    fs::write(world.path("precious"), "precious").unwrap();
    let precious = || assert_eq!(fs::read_to_string(world.path("precious")).unwrap(), "precious");
    for name in ["train.txt.part", "valid.txt.part"] {
        let folder = world.path(&format!("to-{name}"));
        fs::create_dir(&folder).unwrap();
        symlink(world.path("precious"), folder.join(name)).unwrap();
        let output = world.get("tiny", &server, &["--out", folder.to_str().unwrap()]);
        fails(&output, 1, &[name, "is a link", "--out"]);
        precious();
    }
    for (name, from) in [("test.txt.tmp", "plain"), ("train.txt.tmp", "archives/boxed.tar.gz")] {
        fs::create_dir_all(world.path("plain")).unwrap();
        fs::create_dir_all(world.path("archives")).unwrap();
        FILES.iter().for_each(|(_, file, text)| fs::write(world.path("plain").join(file), text).unwrap());
        fs::write(world.path("archives/boxed.tar.gz"), archive()).unwrap();
        let folder = world.path(&format!("to-{name}"));
        fs::create_dir(&folder).unwrap();
        symlink(world.path("precious"), folder.join(name)).unwrap();
        let set = if from == "plain" { "tiny" } else { "boxed" };
        let output = world.ruge(&["get", set, "--from", from, "--out", folder.to_str().unwrap()]);
        fails(&output, 1, &[name, "is a link"]);
        assert!(!folder.join("train.txt").exists(), "all or nothing");
        precious();
    }
    // A finished file is given its name, which replaces a link and does not follow it.
    fs::create_dir(world.path("named")).unwrap();
    symlink(world.path("precious"), world.path("named/train.txt")).unwrap();
    succeeds(&world.get("tiny", &server, &["--out", "named", "--force"]));
    world.assert_complete("named", 4);
    precious();
}

#[test]
fn what_no_checksum_is_known_for_is_never_called_verified() {
    let (world, server) = (World::new(), Server::start(honest));
    fs::create_dir(world.path("plain")).unwrap();
    FILES.iter().for_each(|(_, file, text)| fs::write(world.path("plain").join(file), text).unwrap());
    let loud = "WARNING: NOT VERIFIED: train.txt, valid.txt, test.txt: no checksum is known";
    let get = ["get", "undigested", "--from", "plain"];
    let first = succeeds(&world.ruge(&get));
    assert!(first.contains(loud) && !first.contains("published checksum"), "{first}");
    assert!(succeeds(&world.ruge(&get)).contains(loud), "nor when it is there already");
    assert!(succeeds(&world.ruge(&[&get[..], &["--quiet", "--force"]].concat())).contains(loud), "however quiet");
    let object: Value = serde_json::from_str(&succeeds(&world.ruge(&[&get[..], &["--json"]].concat()))).unwrap();
    for file in object["files"].as_array().unwrap() {
        assert_eq!((&file["verified"], &file["verified_by"]), (&json!(false), &json!("line-count")));
    }
    // Another number of lines shows that it is another file.
    fs::write(world.path("data/undigested/test.txt"), "a\tb\tc\nd\te\tf\n").unwrap();
    fails(&world.ruge(&get), 1, &["test.txt exists, but is not the published file", "2 triples", "--force"]);

    // Out of an archive that has its checksum, or with checksums of their own, they are.
    let object = succeeds(&world.get("undigested", &server, &["--out", "unpacked", "--json"]));
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!(
        (&object["files"][0]["verified"], &object["files"][0]["verified_by"]),
        (&json!(true), &json!("archive"))
    );
    let text = succeeds(&world.get("tiny", &server, &[]));
    assert!(text.contains("every file has its published checksum") && !text.contains("WARNING"), "{text}");
}

#[test]
fn the_list_shows_what_there_is() {
    let (world, server) = (World::new(), Server::start(honest));
    succeeds(&world.get("tiny", &server, &[]));
    let object: Value = serde_json::from_str(&succeeds(&world.ruge(&["list", "--json"]))).unwrap();
    let sets = object["sets"].as_array().unwrap();
    assert_eq!((&sets[0]["name"], &sets[0]["present"]), (&json!("tiny"), &json!(true)));
    assert_eq!((&sets[1]["name"], &sets[1]["present"]), (&json!("boxed"), &json!(false)));

    let table = succeeds(&ruge(world.folder.path(), &["list"]));
    for word in ["fb15k-237", "14,951", "46.2 MB", "codex-m", "CC-BY", "github.com/TimDettmers/ConvE"] {
        assert!(table.contains(word), "no '{word}' in:\n{table}");
    }
}
