//! The binary `ruge`; the command line itself is the library next to it.

fn main() -> std::process::ExitCode {
    ruge_cli::main()
}
