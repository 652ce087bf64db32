#![no_main]
//! See `ruge_fuzz::made::check_space`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| ruge_fuzz::made::check_space(data));
