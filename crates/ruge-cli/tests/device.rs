//! `--device cuda` where it cannot be: path guidance, drivers that are unfit. `needs/gpu.rs` computes on one.

use assert_cmd::Command;

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
