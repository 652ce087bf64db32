//! The front page of `ruge --help`: the commands in the groups in which people look for them, not in one long list.

use std::io::{self, IsTerminal};

use clap::Command;

use crate::console;
use crate::text::labelled;

/// What people come for, and the commands for it.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Start here", &["run", "demo", "check", "data"]),
    ("Use a model", &["predict", "explain", "complete", "serve", "export", "import"]),
    ("Step by step", &["mine", "rules", "ground", "train", "combine", "eval", "search"]),
    ("And", &["reproduce", "completions", "help"]),
];
/// Columns of a command's name with the gap behind it.
const COLUMN: usize = 13;

/// The command with a front page of its own.
pub fn grouped(command: Command) -> Command {
    let mut commands = String::new();
    for (group, names) in GROUPS {
        commands.push_str(&format!("{}\n", heading(&format!("{group}:"))));
        for name in names {
            let about = match command.find_subcommand(name) {
                Some(found) => found.get_about().map(ToString::to_string).unwrap_or_default(),
                None => "Show this page, or the help of a command".into(),
            };
            commands.push_str(&labelled(name, COLUMN, &about, console::help_width()));
        }
        commands.push('\n');
    }
    let options = heading("Options:");
    let template =
        format!("{{about}}\n\n{{usage-heading}} {{usage}}\n\n{commands}{options}\n{{options}}{{after-help}}");
    command.help_template(template)
}

/// As clap writes its own headings.
fn heading(text: &str) -> String {
    if io::stdout().is_terminal() && console::colours() {
        format!("\u{1b}[1m\u{1b}[4m{text}\u{1b}[0m")
    } else {
        text.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_stands_in_one_group() {
        let command = crate::Cli::command();
        let mut known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        known.push("help");
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        known.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, known);
        assert!(grouped.iter().all(|name| name.len() + 2 <= COLUMN));
    }
}
