#![no_main]
//! See `ruge_fuzz::check_folder`.

const FILES: [&str; 5] = ["entity2id.txt", "relation2id.txt", "train2id.txt", "valid2id.txt", "test2id.txt"];

libfuzzer_sys::fuzz_target!(|data: &[u8]| ruge_fuzz::check_folder(&FILES, data));
