//! The binary `ruge`.
fn main() {}
