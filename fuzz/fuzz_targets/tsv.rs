#![no_main]
//! See `ruge_fuzz::check_reader`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| ruge_fuzz::check_reader("a.tsv", data));
