//! The report for people: a few sections, each a table that lines up, strongest first.

use std::path::Path;

use ruge::constraints::Violation;
use ruge_kg::stats::{Leakage, MIN_FACTS, Pattern, STRONG, Spread};
use ruge_kg::{Format, RelationId, Stats, visible};

use super::Laws;
use crate::console::Console;
use crate::data_args::Loaded;
use crate::text::{Column, Table, counted, cut, grouped, percent, plural, wrapped};

use Column::{Left, Name, Right};

/// Rows of a list; `--json` has them all.
const ROWS: usize = 8;

/// The whole report.
pub fn text(path: &Path, loaded: &Loaded, stats: &Stats, laws: &Laws, console: Console) -> String {
    let report = Report { loaded, stats, width: console.width() };
    let mut sections = vec![
        ("What was read", report.read(path)),
        ("Counts", report.counts()),
        ("Held-out parts", report.held_out()),
        ("Degrees (edges per entity in train)", report.degrees()),
        ("Relations (facts in train)", report.relations()),
        ("Patterns (all splits together)", report.patterns()),
        ("Habits (all splits together)", report.habits(laws)),
        ("Leakage", report.leakage()),
    ];
    if let Some(violations) = &laws.violations {
        sections.push(("Facts that violate a constraint", broken_laws(violations, console)));
    }
    let sections: Vec<String> =
        sections.iter().map(|(heading, body)| format!("{}\n{body}", console.heading(heading))).collect();
    sections.join("\n")
}

struct Report<'a> {
    loaded: &'a Loaded,
    stats: &'a Stats,
    width: usize,
}

impl Report<'_> {
    fn render(&self, table: &Table) -> String {
        table.render(self.width)
    }

    fn say(&self, sentence: &str) -> String {
        wrapped(sentence, self.width)
    }

    fn relation(&self, id: RelationId) -> String {
        self.loaded.data.called_relation(id)
    }

    fn read(&self, path: &Path) -> String {
        let report = &self.loaded.report;
        let mut table = Table::new(&[Name, Left, Right, Left]);
        for file in &report.files {
            // The name alone: the folder stands above it once.
            let name = file.path.file_name().unwrap_or(file.path.as_os_str()).to_string_lossy();
            let packed = match file.compression {
                ruge_kg::io::Compression::None => "",
                ruge_kg::io::Compression::Gzip => ", gzip",
                ruge_kg::io::Compression::Zstd => ", zstd",
                ruge_kg::io::Compression::Zip => ", zip",
            };
            let format = format!("{}{packed}", format_name(file.format));
            let bad = match file.bad_lines {
                0 => plural(file.triples, "triple"),
                bad => format!("{}, {} skipped", plural(file.triples, "triple"), counted(bad as usize, "bad line")),
            };
            table.row([name.to_string(), format, grouped(file.triples), bad]);
        }
        let mut text = self.say(&format!("{} ({})", path.display(), report.layout));
        text += &self.render(&table);
        for warning in self.loaded.warnings() {
            text += &self.say(&format!("warning: {warning}"));
        }
        for note in crate::data_args::notes(report) {
            // A note may hold a line of the file below it; that line is shown as it is.
            for (index, line) in note.lines().enumerate() {
                match index {
                    0 => text += &self.say(&format!("note: {}", cut(line, 1000))),
                    _ => text += &format!("  {}\n", cut(line, self.width.saturating_sub(2))),
                }
            }
        }
        text
    }

    fn counts(&self) -> String {
        let (stats, report) = (self.stats, &self.loaded.report);
        let mut table = Table::new(&[Left, Right, Right, Right]);
        table.head(["", "triples", "repeated", "reflexive"]);
        for (index, name) in ["train", "valid", "test"].into_iter().enumerate() {
            let split = &stats.splits[index];
            let repeated = report.duplicates[index].count;
            table.row([name.to_string(), grouped(split.triples), grouped(repeated), grouped(split.reflexive)]);
        }
        let mut text = self.render(&table);
        let unused = |count: usize| match count {
            0 => String::new(),
            n => format!(" ({} without any triple)", grouped(n)),
        };
        text += &self.say(&format!(
            "{}{}, {}{}",
            counted(stats.entities, "entity"),
            unused(stats.unused_entities),
            counted(stats.relations, "relation"),
            unused(stats.unused_relations)
        ));
        text
    }

    fn held_out(&self) -> String {
        let stats = self.stats;
        let [_, valid, test] = &stats.splits;
        if valid.triples + test.triples == 0 {
            return self.say("None: nothing can be validated or tested on this data.");
        }
        let mut table = Table::new(&[Left, Right, Right]);
        table.head(["", "valid", "test"]);
        for (what, valid, test) in [
            ("triples that are also in train", stats.overlap.train_valid, stats.overlap.train_test),
            ("triples with an entity not in train", valid.with_unseen_entity, test.with_unseen_entity),
            ("triples with a relation not in train", valid.with_unseen_relation, test.with_unseen_relation),
        ] {
            table.row([what.to_string(), grouped(valid), grouped(test)]);
        }
        let mut text = self.render(&table);
        if stats.overlap.valid_test > 0 {
            let shared = stats.overlap.valid_test;
            let are = if shared == 1 { "is" } else { "are" };
            text += &self.say(&format!("{} {are} in both valid and test", counted(shared, "triple")));
        }
        let (data, unseen) = (&self.loaded.data, &stats.unseen);
        let entities = unseen.first_entities.iter().map(|&id| data.called_entity(id));
        text += &self.unseen(["entity occurs", "entities occur"], unseen.entities, entities);
        let relations = unseen.first_relations.iter().map(|&id| data.called_relation(id));
        text += &self.unseen(["relation occurs", "relations occur"], unseen.relations, relations);
        text
    }

    fn unseen(&self, words: [&str; 2], count: usize, names: impl Iterator<Item = String>) -> String {
        if count == 0 {
            return String::new();
        }
        let mut shown: Vec<String> = names.take(5).map(|name| cut(&name, 40)).collect();
        if count > shown.len() {
            shown.push("…".to_string());
        }
        let words = words[usize::from(count != 1)];
        self.say(&format!("{} {words} only here: {}", grouped(count), shown.join(", ")))
    }

    fn degrees(&self) -> String {
        let mut text = self.render(&spread(&self.stats.degrees.spread));
        let mut table = Table::new(&[Name, Right]);
        for &(entity, degree) in self.stats.degrees.top.iter().take(ROWS) {
            table.row([self.loaded.data.called_entity(entity), grouped(degree)]);
        }
        text += &self.titled("most edges", &table);
        text
    }

    fn relations(&self) -> String {
        let sizes = &self.stats.relation_sizes;
        let mut text = self.render(&spread(&sizes.spread));
        let have = if sizes.below_10 == 1 { "has" } else { "have" };
        text += &self.say(&format!(
            "{} {have} fewer than 10 facts, {} fewer than 100",
            counted(sizes.below_10, "relation"),
            grouped(sizes.below_100)
        ));
        let mut table = Table::new(&[Name, Right, Left, Right, Right]);
        table.head(["", "facts", "class", "tails per head", "heads per tail"]);
        for &(relation, facts) in sizes.largest.iter().take(ROWS) {
            let row = &self.stats.per_relation[relation.index()];
            table.row([
                self.relation(relation),
                grouped(facts),
                row.cardinality.map_or("", |class| class.name()).to_string(),
                format!("{:.1}", row.tails_per_head),
                format!("{:.1}", row.heads_per_tail),
            ]);
        }
        text += &self.titled("largest", &table);
        let total = self.stats.splits[0].triples.max(1) as f64;
        let mut table = Table::new(&[Left, Right, Right, Right]);
        table.head(["", "relations", "facts", "share of facts"]);
        for cardinality in &self.stats.cardinalities {
            table.row([
                cardinality.class.name().to_string(),
                grouped(cardinality.relations),
                grouped(cardinality.triples),
                percent(cardinality.triples as f64 / total),
            ]);
        }
        text += &self.titled("cardinality (many: 1.5 or more on average)", &table);
        text
    }

    fn patterns(&self) -> String {
        let patterns = &self.stats.patterns;
        let mut text = self.say(&format!(
            "Relations with at least {MIN_FACTS} facts, {:.0} % or more of which match the pattern.",
            STRONG * 100.0
        ));
        let mut table = Table::new(&[Name, Right, Right]);
        table.head(["r", "share", "support"]);
        for pattern in patterns.symmetric.iter().take(ROWS) {
            let name = self.relation(pattern.first);
            table.row([name, percent(pattern.share_of_first), grouped(pattern.support)]);
        }
        text += &self.list("symmetric: r(x,y) and r(y,x)", patterns.symmetric.len(), &table);
        for (title, list) in
            [("inverse: r(x,y) and s(y,x)", &patterns.inverse), ("duplicate: r(x,y) and s(x,y)", &patterns.duplicate)]
        {
            text += &self.list(title, list.len(), &self.pairs(list));
        }
        text
    }

    fn pairs(&self, list: &[Pattern]) -> Table {
        let mut table = Table::new(&[Name, Name, Right, Right, Right]);
        table.head(["r", "s", "of r", "of s", "support"]);
        for pattern in list.iter().take(ROWS) {
            table.row([
                self.relation(pattern.first),
                self.relation(pattern.second),
                percent(pattern.share_of_first),
                percent(pattern.share_of_second),
                grouped(pattern.support),
            ]);
        }
        table
    }

    /// A list under its title, with its full length and what is not shown.
    fn list(&self, title: &str, count: usize, table: &Table) -> String {
        if count == 0 {
            return "\n".to_string() + &self.say(&format!("{title}: none"));
        }
        let mut text = "\n".to_string() + &self.say(&format!("{title}: {}", grouped(count))) + &self.render(table);
        if count > ROWS {
            text += &self.say(&format!("… and {} more; --json lists all", grouped(count - ROWS)));
        }
        text
    }

    fn titled(&self, title: &str, table: &Table) -> String {
        "\n".to_string() + &self.say(title) + &self.render(table)
    }

    fn habits(&self, laws: &Laws) -> String {
        if laws.habits.is_empty() {
            return self.say("None: no relation has enough facts that all do alike.");
        }
        let mut text = self.say("What nearly all facts do. --suggest-constraints FILE writes them as constraints.");
        let mut table = Table::new(&[Left, Name, Right, Right, Right]);
        table.head(["", "r", "share", "of", "exceptions"]);
        let mut habits: Vec<_> = laws.habits.iter().collect();
        // What says most first: the habits of the largest relations.
        habits.sort_by_key(|habit| std::cmp::Reverse(habit.of));
        for habit in habits.iter().take(2 * ROWS) {
            let (kind, exceptions) = (habit.kind.name().to_string(), grouped(habit.exceptions));
            table.row([kind, habit.relation.clone(), percent(habit.share), grouped(habit.of), exceptions]);
        }
        text += &self.render(&table);
        if habits.len() > 2 * ROWS {
            text += &self.say(&format!("… and {} more; --json lists all", grouped(habits.len() - 2 * ROWS)));
        }
        text
    }

    fn leakage(&self) -> String {
        let (valid, test) = (&self.stats.valid_leakage, &self.stats.test_leakage);
        if valid.triples + test.triples == 0 {
            return self.say("Nothing is held out, so nothing can leak.");
        }
        let mut table = Table::new(&[Left, Right, Right]);
        table.head(["For a held-out r(x,y), train has", "of valid", "of test"]);
        let mut row = |what: &str, count: fn(&Leakage) -> usize| {
            let share = |part: &Leakage| match part.triples {
                0 => "-".to_string(),
                n => percent(count(part) as f64 / n as f64),
            };
            table.row([what.to_string(), share(valid), share(test)]);
        };
        row("r(y,x)", |part| part.counts.reverse_same);
        row("s(y,x), s mostly inverse to r", |part| part.counts.reverse_inverse);
        row("s(y,x), s any relation", |part| part.counts.reverse_any);
        row("s(x,y), s mostly within r", |part| part.counts.duplicate_strong);
        row("s(x,y), s any other relation", |part| part.counts.duplicate_any);
        row("one of the strong patterns: copyable", |part| part.counts.copyable);
        row("any of them: linked", |part| part.counts.linked);
        self.render(&table) + &self.say(&verdict(if test.triples > 0 { ("test", test) } else { ("valid", valid) }))
    }
}

/// Listed facts that violate a constraint, each with its reason.
pub fn broken_laws(violations: &[Violation], console: Console) -> String {
    let width = console.width();
    if violations.is_empty() {
        return wrapped("None: all listed facts obey the constraints.", width);
    }
    let mut text = wrapped(&format!("{}:", counted(violations.len(), "listed fact")), width);
    for Violation { fact, split, reason } in violations.iter().take(ROWS) {
        // Cut would be the reason, which is what one wants to read.
        text += &wrapped(&visible::line(&format!("{} (in {split}): {reason}", fact.join("  "))), width);
    }
    if violations.len() > ROWS {
        text += &wrapped(&format!("… and {} more; --json lists all", grouped(violations.len() - ROWS)), width);
    }
    text
}

/// A format as `--format` names it.
fn format_name(format: Format) -> &'static str {
    match format {
        Format::Tsv => "tsv",
        Format::Whitespace => "blanks",
        Format::Csv(b'\t') => "tsv, quoted",
        Format::Csv(_) => "csv",
        Format::NTriples => "nt",
        Format::Turtle => "ttl",
        Format::NQuads => "nq",
        Format::TriG => "trig",
        Format::RdfXml => "rdf",
        Format::JsonLd => "jsonld",
        Format::Parquet => "parquet",
    }
}

/// What leakage means for evaluation, in one sentence or two.
fn verdict((name, part): (&str, &Leakage)) -> String {
    let share = percent(part.share_copyable);
    let meaning = match part.share_copyable {
        share if share >= 0.5 => {
            "A model that only copies reversed or duplicate facts scores high here, so a high score shows little else; \
             compare on a set without such pairs too."
        }
        share if share >= 0.1 => {
            "Part of any score here comes from copying reversed or duplicate facts; compare on a set without such pairs, \
             too."
        }
        share if share > 0.0 => "Copying reversed or duplicate facts gains little here.",
        _ => "Copying reversed or duplicate facts gains nothing here.",
    };
    format!("{share} of {name} can be read off train by a one-atom rule. {meaning}")
}

fn spread(spread: &Spread) -> Table {
    let mut table = Table::new(&[Right; 6]);
    table.head(["min", "median", "mean", "p90", "p99", "max"]).row([
        grouped(spread.min),
        grouped(spread.median),
        format!("{:.1}", spread.mean),
        grouped(spread.p90),
        grouped(spread.p99),
        grouped(spread.max),
    ]);
    table
}
