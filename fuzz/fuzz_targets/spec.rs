#![no_main]
//! See `ruge_fuzz::made::check_spec`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| ruge_fuzz::made::check_spec(data));
