#![no_main]
//! See `ruge_fuzz::check_folder`.

const FILES: [&str; 5] = ["dataset.yaml", "train.del", "valid.del", "entity_ids.del", "relation_ids.del"];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // Millions of stated entities are read correctly, but slowly.
    let description = data.split(|&byte| byte == 0xff).next().unwrap_or_default();
    if !description.windows(6).any(|window| window.iter().all(u8::is_ascii_digit)) {
        ruge_fuzz::check_folder(&FILES, data);
    }
});
