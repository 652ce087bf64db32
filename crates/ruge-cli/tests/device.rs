//! `--device cuda` on whatever machine this is: it computes there, or says in one sentence why it cannot.

use assert_cmd::Command;

#[test]
fn a_card_is_used_or_its_absence_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let arguments = ["train", "demo", "--dim", "8", "--epochs", "2", "--device", "cuda", "--json", "--out"];
    let output = Command::cargo_bin("ruge").unwrap().args(arguments).arg(&out).output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    if output.status.success() {
        let arguments = ["eval", "--device", "cuda", "--json"];
        let output = Command::cargo_bin("ruge").unwrap().args(arguments).arg(&out).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    } else {
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(words.contains("CUDA") && words.contains("--device cpu"), "{words}");
        assert!(!words.contains("panicked"), "{words}");
    }
}

#[test]
fn path_guidance_stays_on_the_processor() {
    let arguments = ["train", "demo", "--model", "transe", "--guidance", "ptranse", "--device", "cuda"];
    let output = Command::cargo_bin("ruge").unwrap().args(arguments).output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("ptranse runs on the processor"), "{words}");
}
