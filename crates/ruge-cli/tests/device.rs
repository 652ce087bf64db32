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
    assert!(words.contains("ptranse runs on the CPU"), "{words}");
}

/// A driver that answers as it is told to, in a folder of its own.
#[cfg(target_os = "linux")]
fn faulty_driver() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/driver.c");
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(folder.path().join("libcuda.so")).arg(source);
    assert!(compiler.status().unwrap().success(), "cc, which links this program too, must compile tests/driver.c");
    folder
}

#[cfg(target_os = "linux")]
#[test]
fn an_unfit_driver_is_named_with_a_remedy() {
    let folder = faulty_driver();
    let said = |variables: &[(&str, &str)]| {
        let mut command = Command::cargo_bin("ruge").unwrap();
        command.args(["train", "demo", "--dim", "8", "--epochs", "1", "--device", "cuda", "--out"]);
        command.arg(folder.path().join("run")).env("LD_LIBRARY_PATH", folder.path());
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(!words.contains("panicked"), "{words}");
        assert!(words.contains("--device cpu"), "{words}");
        words
    };
    // An old driver.
    let words = said(&[("FAULT_VERSION", "11040"), ("FAULT_INIT", "0")]);
    assert!(words.contains("it knows CUDA 11.4") && words.contains("update it"), "{words}");
    // One that is not the system's: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH.
    let words = said(&[("FAULT_INIT", "803")]);
    assert!(words.contains("driver") && words.contains("restart the machine"), "{words}");
    // A driver and no card: CUDA_ERROR_NO_DEVICE.
    let words = said(&[]);
    assert!(words.contains("no GPU") && words.contains("nvidia-smi"), "{words}");
}
