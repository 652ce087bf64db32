//! `RUGE_ISA` forces an instruction set, or says why it cannot.

use std::process::Output;

use crate::support::{command, stderr};

/// `ruge ARGS` under a set.
fn with(isa: &str, args: &[&str]) -> Output {
    command(args).env("RUGE_ISA", isa).output().expect("runs")
}

#[test]
fn a_set_that_is_unknown_or_missing_is_refused() {
    let output = with("sse9", &["check", "demo"]);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("RUGE_ISA=sse9") && told.contains("avx512, avx2 or portable"), "{told}");
    for isa in ["avx512", "avx2", "portable"] {
        let output = with(isa, &["check", "demo", "-q"]);
        let told = stderr(&output);
        assert!(output.status.success() || output.status.code() == Some(2) && told.contains(isa), "{told}");
    }
    assert!(with("", &["check", "demo", "-q"]).status.success(), "an empty wish is none");
}
