//! A rule file on the command line: shared by every command that reads one.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use ruge_kg::Names;
use ruge_rules::io::read_relation_dictionary;
use ruge_rules::{RuleFile, RuleFormat, RuleReadOptions, Take, read_rules, read_rules_about};

use crate::console::Console;
use crate::text::grouped;

/// How a rule file is read.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Reading rules")]
pub struct RuleArgs {
    /// Format of the rule file [default: by content]
    #[arg(long, value_name = "FORMAT")]
    pub rule_format: Option<RuleFormat>,
    /// Which number of the file to use as confidence
    #[arg(long, value_name = "NUMBER", value_enum, default_value_t = TakeArg::Written)]
    pub confidence: TakeArg,
    /// Relation names for formats with ids, one `id TAB name` per line [default: the data's order]
    #[arg(long, value_name = "FILE")]
    pub relation_ids: Option<PathBuf>,
}

/// Which number to trust.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum TakeArg {
    /// As the format defines it: PCA for AMIE, the confidence column elsewhere
    Written,
    /// PCA confidence
    Pca,
    /// Standard confidence
    Std,
    /// support / (body size + 5)
    Smoothed,
}

impl RuleArgs {
    /// Every flag at its default.
    pub fn plain() -> Self {
        Self { rule_format: None, confidence: TakeArg::Written, relation_ids: None }
    }

    /// The files that [`read`](Self::read) opens for the rules in `path`.
    pub fn files(&self, path: Option<&Path>) -> Vec<PathBuf> {
        path.map(Path::to_path_buf).into_iter().chain(self.relation_ids.clone()).collect()
    }

    /// Reads `path`, interning names into `names`; tells on stderr what was not understood.
    ///
    /// `names` are those of the data, where there are data.
    pub fn read(&self, path: &Path, names: &mut Names, console: Console) -> Result<RuleFile> {
        let about = !names.relations.is_empty();
        let relations = self.relation_ids.as_deref().map(read_relation_dictionary).transpose()?;
        let take = match self.confidence {
            TakeArg::Written => Take::Written,
            TakeArg::Pca => Take::Pca,
            TakeArg::Std => Take::Std,
            TakeArg::Smoothed => Take::Smoothed,
        };
        let options = RuleReadOptions { format: self.rule_format, take, relations };
        let (file, unknown) = match about {
            true => read_rules_about(path, &options, names)?,
            false => (read_rules(path, &options, names)?, Vec::new()),
        };
        announce(path, &file, console);
        for unknown in unknown {
            console.note(&format!("note: {}:{}: {unknown}", path.display(), unknown.line));
        }
        Ok(file)
    }
}

/// Lines an announcement shows in full.
const SHOWN: usize = 20;

/// Says what of a rule file was passed over.
fn announce(path: &Path, file: &RuleFile, console: Console) {
    let name = path.display();
    for bad in file.bad.iter().take(SHOWN) {
        console.note(&format!("warning: {name}:{}: {}\n    {}", bad.line, bad.reason, bad.text));
    }
    if !file.bad.is_empty() {
        let kinds: Vec<String> = file.bad_by_kind().iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let lines = match file.bad.len() {
            1 => "1 line is not a rule".to_string(),
            count => format!("{} lines are not rules", grouped(count)),
        };
        console.note(&format!("warning: {name}: {lines}: {}", kinds.join(", ")));
    }
    if !file.skipped.is_empty() {
        let (line, why) = file.skipped[0];
        let lines = match file.skipped.len() {
            1 => format!("line {line} skipped"),
            count => format!("{} lines skipped, the first is line {line}", grouped(count)),
        };
        console.note(&format!("note: {name}: {lines}: {why}"));
    }
    if let Some(first) = file.duplicates.first() {
        let rules = match file.duplicates.len() {
            1 => format!("1 duplicate rule ignored: line {}", first.line),
            count => format!("{} duplicate rules ignored, the first is line {}", grouped(count), first.line),
        };
        console.note(&format!("note: {name}: {rules} (same as line {})", first.first));
    }
}
