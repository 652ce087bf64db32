//! `ruge export` from the outside.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

fn ruge() -> Command {
    Command::cargo_bin("ruge").unwrap()
}

/// A small guided model.
fn trained(folder: &Path) {
    let train = [
        "train",
        "demo",
        "--model",
        "complex",
        "--guidance",
        "ruge",
        "--dim",
        "5",
        "--epochs",
        "1",
        "--negatives",
        "2",
        "--quiet",
        "--out",
    ];
    ruge().args(train).arg(folder).assert().success();
}

fn export(model: &Path, to: &str, out: &Path) -> Value {
    let output = ruge().args(["export", "--json", "--to", to]).arg(model).arg("--out").arg(out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_format_writes_the_files_it_names() {
    let folder = TempDir::new().unwrap();
    let model = folder.path().join("run");
    trained(&model);
    for to in ["npy", "word2vec", "parquet", "pykeen"] {
        let out = folder.path().join(to);
        let object = export(&model, to, &out);
        let paths: Vec<&str> = object["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
        assert_eq!(paths.len(), fs::read_dir(&out).unwrap().count(), "{to}: {paths:?}");
        assert!(paths.iter().all(|path| Path::new(path).is_file()), "{to}: {paths:?}");
        let about: Value = serde_json::from_slice(&fs::read(out.join("about.json")).unwrap()).unwrap();
        assert_eq!((about["model"].as_str(), about["dimension"].as_u64()), (Some("complex"), Some(5)));
    }
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let entities = read("npy/entities.txt").lines().count();
    let header = fs::read(folder.path().join("npy/entities.npy")).unwrap();
    assert!(String::from_utf8_lossy(&header[..128]).contains(&format!("'shape': ({entities}, 10)")));
    let vectors = read("word2vec/entities.w2v.txt");
    assert_eq!(vectors.lines().next(), Some(format!("{entities} 10").as_str()));
    assert!(vectors.lines().skip(1).all(|line| line.split(' ').count() == 11));
    assert_eq!(read("pykeen/entity_to_id.tsv").lines().count(), entities);
    let expected = read("pykeen/expected.tsv");
    assert!(expected.lines().count() > 1 && expected.lines().all(|line| line.split('\t').count() == 6), "{expected}");
    let rules = read("npy/rules.tsv").lines().filter(|line| line.contains("=>")).count();
    assert!(rules > 0);
    for line in read("npy/groundings.tsv").lines().skip(1) {
        let number: usize = line.split('\t').next().unwrap().parse().unwrap();
        assert!((1..=rules).contains(&number), "{line}");
    }
}

#[test]
fn nothing_is_overwritten_unless_asked_for() {
    let folder = TempDir::new().unwrap();
    let model = folder.path().join("run");
    trained(&model);
    let out = model.join("export/npy");
    ruge().args(["export", "--to", "npy"]).arg(&model).assert().success();
    let first = fs::read(out.join("entities.npy")).unwrap();
    fs::write(out.join("relations.txt"), "mine").unwrap();
    let refused = ruge().args(["export", "--to", "npy"]).arg(&model).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--force"));
    assert_eq!(fs::read_to_string(out.join("relations.txt")).unwrap(), "mine");
    ruge().args(["export", "--to", "npy", "--force"]).arg(&model).assert().success();
    assert_ne!(fs::read_to_string(out.join("relations.txt")).unwrap(), "mine");
    assert_eq!(fs::read(out.join("entities.npy")).unwrap(), first, "the same model, the same bytes");
    assert!(fs::read_dir(&out).unwrap().all(|file| !file.unwrap().file_name().to_string_lossy().ends_with(".tmp")));
}

/// Killed at moments that drift until it is through: what looks finished is, and nothing is left of the rest.
#[test]
fn a_killed_export_does_not_look_finished() {
    let folder = TempDir::new().unwrap();
    let model = folder.path().join("run");
    trained(&model);
    let whole = folder.path().join("whole");
    export(&model, "npy", &whole);
    let names = |folder: &Path| -> Vec<String> {
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    // As an export leaves it that is killed while it writes, and while it moves.
    for (moving, in_place) in [(false, &[][..]), (true, &["entities.npy", "entities.txt"])] {
        let out = folder.path().join(format!("killed-{moving}"));
        let staging = out.join("export.unfinished");
        fs::create_dir_all(&staging).unwrap();
        fs::write(staging.join(".relations.npy.4194305-0.tmp"), "half").unwrap();
        fs::write(staging.join("relations.npy"), "of another model").unwrap();
        if moving {
            fs::write(staging.join("moving"), "").unwrap();
        }
        in_place.iter().for_each(|name| fs::write(out.join(name), "of another model").unwrap());
        export(&model, "npy", &out);
        assert_eq!(names(&out), names(&whole));
        for name in names(&whole) {
            assert_eq!(fs::read(out.join(&name)).unwrap(), fs::read(whole.join(&name)).unwrap(), "{name}");
        }
    }
}

#[test]
#[cfg(unix)]
fn links_in_the_folder_are_refused() {
    let folder = TempDir::new().unwrap();
    let (model, out, precious) = (folder.path().join("run"), folder.path().join("out"), folder.path().join("precious"));
    trained(&model);
    fs::create_dir(&out).unwrap();
    fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::symlink(&precious, out.join("entities.txt")).unwrap();
    for more in [&[][..], &["--force"]] {
        let refused = ruge().args(["export", "--to", "npy"]).arg(&model).arg("--out").arg(&out).args(more).output();
        let refused = refused.unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1));
        assert!(said.contains("entities.txt") && said.contains("is a link"), "{said}");
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1, "nothing was written");
}

#[test]
fn mistakes_are_told_apart() {
    let folder = TempDir::new().unwrap();
    let fails = |arguments: &[&str]| {
        let output = ruge().args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let missing = folder.path().join("none").to_string_lossy().into_owned();
    let (code, said) = fails(&["export", &missing, "--to", "npy"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("none"), "{said}");
    assert_eq!(fails(&["export", &missing, "--to", "excel"]).0, Some(2));
    let foreign = folder.path().join("foreign.safetensors");
    fs::write(&foreign, "no model").unwrap();
    let (code, said) = fails(&["export", &foreign.to_string_lossy(), "--to", "npy"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("not a usable model file"), "{said}");
    let model = folder.path().join("run");
    trained(&model);
    let (code, said) = fails(&["export", &model.to_string_lossy(), "--to", "npy", "--out", &foreign.to_string_lossy()]);
    assert_eq!(code, Some(1));
    assert!(said.contains("not a folder"), "{said}");
}
