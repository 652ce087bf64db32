//! Folders that are replaced, locked, cut off and left alone.

use super::*;

const KIND: Kind = Kind {
    name: "thing",
    command: "train",
    resumes: true,
    signs: &["a"],
    files: &["a", "b", "sub/c"],
    leftovers: &[],
    folders: &["many"],
};

fn put(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Every file below a folder with its text.
fn all(folder: &Path) -> Vec<(String, String)> {
    let text = |name: String| (name.clone(), fs::read_to_string(folder.join(&name)).unwrap());
    files_in(folder).unwrap().into_iter().map(text).collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
}

fn old(home: &Path) {
    for (name, text) in [("a", "old"), ("sub/c", "old"), ("many/1/x", "old"), ("notes.txt", "mine")] {
        put(home, name, text);
    }
}

#[test]
fn the_old_stays_until_the_new_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    old(home);
    let before = all(home);
    let place = Workplace::open(home, KIND, Mode::Force).unwrap();
    assert!(place.replaces());
    put(place.work(), "a", "new");
    drop(place);
    assert_eq!(all(home)[2..], before, "untouched: {:?}", all(home));
    // The unfinished one is what is resumed.
    assert!(Workplace::open(home, KIND, Mode::Fresh).unwrap_err().to_string().contains("unfinished"));
    let place = Workplace::open(home, KIND, Mode::Resume).unwrap();
    assert_eq!(fs::read_to_string(place.work().join("a")).unwrap(), "new");
    put(place.work(), "many/2/x", "new");
    place.finish().unwrap();
    assert_eq!(all(home), pairs(&[("a", "new"), ("many/2/x", "new"), ("notes.txt", "mine")]));
    assert!(!home.join("sub").exists() && !home.join(NEXT).exists());
}

#[test]
fn a_move_that_was_cut_off_is_finished_by_the_next_who_comes() {
    for moved in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        old(home);
        let place = Workplace::open(home, KIND, Mode::Force).unwrap();
        for name in ["a", "b"] {
            put(place.work(), name, "new");
        }
        let gone = serde_json::json!({ "remove": ["sub/c", "many/1/x"] });
        sealed_json::write(&place.work().join(MARKER), &gone).unwrap();
        for name in ["a", "b"].iter().take(moved) {
            fs::rename(place.work().join(name), home.join(name)).unwrap();
        }
        drop(place);
        assert!(Workplace::open(home, KIND, Mode::Fresh).unwrap_err().to_string().contains("already holds a thing"));
        assert_eq!(all(home), pairs(&[("a", "new"), ("b", "new"), ("notes.txt", "mine")]), "{moved} moved");
    }
}

#[test]
fn forced_again_the_unfinished_one_goes() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    old(home);
    put(Workplace::open(home, KIND, Mode::Force).unwrap().work(), "b", "half");
    let place = Workplace::open(home, KIND, Mode::Force).unwrap();
    assert_eq!(files_in(place.work()).unwrap(), [OWNER]);
}

#[test]
fn what_is_made_aside_appears_whole() {
    let folder = tempfile::tempdir().unwrap();
    let home = &folder.path().join("new");
    let kind = Kind { command: "combine", resumes: false, ..KIND };
    let place = Workplace::aside(home, kind, Mode::Fresh).unwrap();
    put(place.work(), "a", "half");
    drop(place);
    assert!(!KIND.is_in(home));
    let place = Workplace::aside(home, kind, Mode::Fresh).unwrap();
    put(place.work(), "b", "other");
    put(place.work(), "a", "whole");
    place.finish().unwrap();
    assert_eq!(all(home), pairs(&[("a", "whole"), ("b", "other")]));
    assert!(Workplace::aside(home, kind, Mode::Fresh).unwrap_err().to_string().contains("already holds a thing"));
}

#[test]
fn what_is_not_ours_or_of_another_kind_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    put(home, ".ruge-next/server/x", "mine");
    Workplace::open(home, KIND, Mode::Fresh).unwrap();
    put(home, "a", "old");
    assert!(Workplace::open(home, KIND, Mode::Force).unwrap_err().to_string().contains("did not make"));
    assert!(home.join(".ruge-next/server/x").exists());
    fs::remove_dir_all(home.join(NEXT)).unwrap();
    put(Workplace::open(home, KIND, Mode::Force).unwrap().work(), "a", "half");
    let other = Kind { command: "search", ..KIND };
    for mode in [Mode::Fresh, Mode::Resume, Mode::Continue] {
        let told = Workplace::open(home, other, mode).unwrap_err().to_string();
        assert!(told.contains("unfinished result of `train`"), "{mode:?}: {told}");
    }
    assert!(home.join(".ruge-next/a").exists());
    put(home, "b", "mine");
    fs::remove_file(home.join("a")).unwrap();
    fs::remove_dir_all(home.join(NEXT)).unwrap();
    assert!(Workplace::open(home, KIND, Mode::Fresh).unwrap_err().to_string().contains("b is in it"));
}

#[test]
#[cfg(unix)]
fn links_are_not_followed() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let home = folder.path();
    put(home, "a", "old");
    put(elsewhere.path(), "a", "mine");
    std::os::unix::fs::symlink(elsewhere.path(), home.join(NEXT)).unwrap();
    assert!(Workplace::open(home, KIND, Mode::Force).unwrap_err().to_string().contains("is a link"));
    assert!(Workplace::within(&home.join(NEXT), KIND, false).is_err());
    assert_eq!(fs::read_to_string(elsewhere.path().join("a")).unwrap(), "mine");
}

#[test]
fn nothing_to_resume_is_an_error_and_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("absent");
    let told = Workplace::open(&home, KIND, Mode::Resume).unwrap_err().to_string();
    assert!(told.contains("no thing to resume") && !home.exists(), "{told}");
    fs::create_dir(&home).unwrap();
    assert!(Workplace::open(&home, KIND, Mode::Resume).is_err());
}

#[test]
#[cfg(target_os = "linux")]
fn two_processes_do_not_work_in_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = Workplace::open(folder.path(), KIND, Mode::Fresh).unwrap();
    let told = Workplace::open(folder.path(), KIND, Mode::Force).unwrap_err().to_string();
    assert!(told.contains("another ruge process is working"), "{told}");
    drop(first);
    Workplace::open(folder.path(), KIND, Mode::Fresh).unwrap();
    assert!(files_in(folder.path()).unwrap().is_empty(), "a lock leaves no file");
}
