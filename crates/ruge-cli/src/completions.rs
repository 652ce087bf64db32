//! `ruge completions`: lets the shell finish what is being typed.

use anyhow::Result;
use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::console::Console;

/// Print a completion script for your shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge completions bash > ~/.local/share/bash-completion/completions/ruge
  ruge completions zsh > \"${fpath[1]}/_ruge\"
  ruge completions fish > ~/.config/fish/completions/ruge.fish")]
pub struct CompletionsArgs {
    /// Shell
    shell: Shell,
}

/// Runs `ruge completions SHELL`.
pub fn run(args: &CompletionsArgs, mut command: Command, console: Console) -> Result<()> {
    let mut script = Vec::new();
    generate(args.shell, &mut command, "ruge", &mut script);
    console.data_result(&String::from_utf8_lossy(&script))
}
