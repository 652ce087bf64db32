//! Runs the commands of `docs/tutorial.md`, from top to bottom, as a reader would.

use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::CommandCargoExt;

/// A fenced block of commands, and whether its last one is meant to fail.
struct Block {
    line: usize,
    commands: Vec<String>,
    fails: bool,
}

/// The blocks fenced as `sh`; lines that begin with `$ ` are commands, others are what they print.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (index, line) in text.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(kind) if !open => {
                open = true;
                if kind.split(' ').next() == Some("sh") {
                    blocks.push(Block { line: index + 1, commands: Vec::new(), fails: kind.ends_with(" fails") });
                }
            }
            Some(_) => open = false,
            None if open => {
                if let (Some(command), Some(block)) = (line.strip_prefix("$ "), blocks.last_mut()) {
                    block.commands.push(command.to_string());
                }
            }
            None => {}
        }
    }
    blocks
}

#[test]
fn the_tutorial_works() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
    let text = std::fs::read_to_string(root.join("docs/tutorial.md")).expect("the tutorial");
    let blocks = blocks(&text);
    assert!(blocks.len() >= 8, "the tutorial has {} blocks", blocks.len());

    let place = tempfile::tempdir().expect("folder");
    std::os::unix::fs::symlink(root.join("crates"), place.path().join("crates")).expect("link");
    let binary = PathBuf::from(Command::cargo_bin("ruge").expect("built").get_program());
    let folder = binary.parent().expect("a folder").to_path_buf();
    let path = std::env::join_paths(
        std::iter::once(folder).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )
    .expect("a path");
    for Block { line, commands, fails } in blocks {
        let last = commands.len().saturating_sub(1);
        for (index, command) in commands.iter().enumerate() {
            let output = Command::new("sh")
                .args(["-c", command])
                .current_dir(place.path())
                .env("PATH", &path)
                .output()
                .expect("a shell");
            let said = String::from_utf8_lossy(&output.stderr);
            let expected = !(fails && index == last);
            assert_eq!(output.status.success(), expected, "docs/tutorial.md, block at line {line}: {command}\n{said}");
            assert!(
                !expected || command.contains('>') || !output.stdout.is_empty(),
                "docs/tutorial.md, block at line {line}: {command} prints nothing\n{said}"
            );
        }
    }
    assert!(place.path().join("runs/places/report.html").is_file());
}
