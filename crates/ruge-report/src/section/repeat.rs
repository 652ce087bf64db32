//! Everything needed to reproduce the run: commands, specs, versions, times.

use crate::html::{escape, seconds};
use crate::report::Repeat;

/// Commands first, then facts, then the complete specs.
pub fn body(repeat: &Repeat) -> String {
    let mut out = String::new();
    if !repeat.commands.is_empty() {
        let commands: Vec<String> = repeat.commands.iter().map(|command| escape(command)).collect();
        out.push_str(&format!("<pre tabindex=\"0\"><code>{}</code></pre>\n", commands.join("\n")));
    }
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            facts.push((escape(name), value));
        }
    };
    fact(
        "program",
        if repeat.version.is_empty() { String::new() } else { format!("ruge {}", escape(&repeat.version)) },
    );
    fact("seed", repeat.seed.to_string());
    let hash = &repeat.data_hash;
    fact("data (SHA-256)", if hash.is_empty() { String::new() } else { format!("<code>{}</code>", escape(hash)) });
    for (name, value) in &repeat.notes {
        fact(name, escape(value));
    }
    let total: f64 = repeat.stages.iter().map(|(_, time)| time).sum();
    if !repeat.stages.is_empty() {
        let stages: Vec<String> =
            repeat.stages.iter().map(|(name, time)| format!("{} {}", escape(name), seconds(*time))).collect();
        fact("time", format!("{}; {} in all", stages.join(", "), seconds(total)));
    }
    let facts: String = facts.iter().map(|(name, value)| format!("<dt>{name}</dt><dd>{value}</dd>")).collect();
    out.push_str(&format!("<dl>{facts}</dl>\n"));
    out.push_str(
        "<p>The same program, data, spec and seed give the same model, bit for bit, on any number of threads.</p>\n",
    );
    for (name, toml) in &repeat.specs {
        out.push_str(&format!(
            "<details><summary>{}</summary><pre tabindex=\"0\"><code>{}</code></pre></details>\n",
            escape(name),
            escape(toml)
        ));
    }
    out
}
