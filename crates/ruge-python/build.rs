//! What the linker of macOS must be told of an extension of Python: its symbols come from the interpreter that loads it.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
