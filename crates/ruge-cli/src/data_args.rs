//! DATA and the flags that say how to read it: shared by every command that reads a graph.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use ruge_kg::io::folder::Layout;
use ruge_kg::{ColumnChoice, Dataset, Format, GraphChoice, Header, Literals, LoadReport, ReadOptions, Warning};

use crate::console::Console;
use crate::progress;

/// Where the graph is, and how it is written down.
#[derive(Debug, Clone, Args)]
pub struct DataArgs {
    /// `demo` (the embedded graph), a folder with train, valid and test, or one file of triples, which will be split; several files
    /// are separated by commas
    #[arg(value_name = "DATA")]
    pub data: PathBuf,
    /// Columns of a table: an order (h head, r relation, t tail, - an ignored column), or head, relation and tail by name or number,
    /// as in subject,predicate,object or 1,3,2 [default: by the header, or hrt]
    #[arg(long, value_name = "COLUMNS", allow_hyphen_values = true, help_heading = READING)]
    pub columns: Option<ColumnChoice>,
    /// Whether the first line of a file is a header
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = HeaderArg::Auto, help_heading = READING)]
    pub header: HeaderArg,
    /// File format [default: by name and content]
    #[arg(long, value_name = "FORMAT", value_enum, help_heading = READING)]
    pub format: Option<FormatArg>,
    /// Skip and count malformed lines instead of stopping
    #[arg(long, help_heading = READING)]
    pub lenient: bool,
    /// Random seed, also of the split of a single file [default: 0]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Shares of valid and test when splitting a single file, or a folder with train alone [default: 0.1,0.1]
    #[arg(long, value_name = "VALID,TEST", value_parser = shares, help_heading = READING)]
    pub held_out: Option<Shares>,
    /// Labels, descriptions and types of names: a table with name, label, description, type, or with a header; may be repeated
    #[arg(long, value_name = "FILE", help_heading = READING)]
    pub labels: Vec<PathBuf>,
    /// RDF literals: skip leaves them out (labels and descriptions are kept as such), entities reads them as entities
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = LiteralsArg::Skip, help_heading = READING)]
    pub literals: LiteralsArg,
    /// Graph to read from N-Quads, TriG and JSON-LD: all, default, or its name
    #[arg(long, value_name = "NAME", default_value = "all", help_heading = READING)]
    pub graph_name: String,
    /// IRI that relative IRIs in RDF belong to
    #[arg(long, value_name = "IRI", help_heading = READING)]
    pub base: Option<String>,
}

/// What becomes of literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LiteralsArg {
    /// They are counted and left out
    Skip,
    /// They are entities
    Entities,
}

const READING: &str = "Reading DATA";

/// When a first line is a header.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum HeaderArg {
    /// If it looks like `head relation tail`
    Auto,
    /// Always
    Yes,
    /// Never
    No,
}

/// How triples are written down, as the user names it.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum FormatArg {
    /// Tab-separated
    Tsv,
    /// Whitespace-separated
    Blanks,
    /// Comma-separated, quoted if needed
    Csv,
    /// Semicolon-separated, quoted if needed
    CsvSemicolon,
    /// Bar-separated (|), quoted if needed
    CsvBar,
    /// N-Triples
    Nt,
    /// Turtle
    Ttl,
    /// N-Quads
    Nq,
    /// TriG
    Trig,
    /// RDF/XML
    Rdf,
    /// JSON-LD
    Jsonld,
    /// Tab-separated, quoted
    TsvQuoted,
    /// Parquet
    Parquet,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Tsv => Format::Tsv,
            FormatArg::Blanks => Format::Whitespace,
            FormatArg::Csv => Format::Csv(b','),
            FormatArg::CsvSemicolon => Format::Csv(b';'),
            FormatArg::CsvBar => Format::Csv(b'|'),
            FormatArg::Nt => Format::NTriples,
            FormatArg::Ttl => Format::Turtle,
            FormatArg::Nq => Format::NQuads,
            FormatArg::Trig => Format::TriG,
            FormatArg::Rdf => Format::RdfXml,
            FormatArg::Jsonld => Format::JsonLd,
            FormatArg::TsvQuoted => Format::Csv(b'\t'),
            FormatArg::Parquet => Format::Parquet,
        }
    }
}

/// The shares of valid and test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares(pub [f64; 2]);

/// `0.1,0.1`; together less than everything, or nothing would be left to learn from.
fn shares(text: &str) -> Result<Shares, String> {
    let remedy = "give the shares of valid and test as in 0.1,0.1; together below 1";
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    match numbers.as_deref() {
        Ok(&[valid, test]) if valid >= 0.0 && test >= 0.0 && valid + test < 1.0 => Ok(Shares([valid, test])),
        _ => Err(remedy.to_string()),
    }
}

/// A graph as it was read, with what was met on the way.
#[derive(Debug)]
pub struct Loaded {
    /// The graph.
    pub data: Dataset,
    /// What was met.
    pub report: LoadReport,
    /// Whether shares were given of data that are not split here.
    unused_shares: bool,
}

impl Loaded {
    /// Tells the user what was met, on stderr.
    pub fn announce(&self, console: Console) {
        for warning in self.warnings() {
            console.note(&format!("warning: {warning}"));
        }
        for note in notes(&self.report) {
            console.note(&format!("note: {note}"));
        }
    }
}

impl Loaded {
    /// What makes results on these data doubtful, with what to type.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self
            .report
            .warnings
            .iter()
            .map(|warning| match warning {
                Warning::ColumnOrder { .. } => format!("{warning} --columns htr reads head, tail, relation"),
                Warning::MaybeHeader { .. } => format!("{warning} --header yes skips it"),
                Warning::Untested { .. } => format!("{warning}; results say nothing about that"),
                _ => warning.to_string(),
            })
            .map(|warning| self.data.prefixes().shorten_all(&warning).into_owned())
            .collect();
        if self.unused_shares {
            warnings.push("--held-out has no effect: DATA is split already".into());
        }
        warnings
    }
}

/// Remarks on what was met, with the flags that read it otherwise.
pub fn notes(report: &LoadReport) -> Vec<String> {
    let mut notes = report.notes();
    if report.files.iter().any(|file| file.header.is_some()) {
        notes.push("--header no reads the first line as a triple".into());
    }
    if report.files.iter().any(|file| file.literals > 0 && file.literals_skipped) {
        notes.push("--literals entities reads literals as entities".into());
    }
    notes
}

impl DataArgs {
    /// DATA alone, read with every flag at its default.
    pub fn plain(data: &Path) -> Self {
        Self {
            data: data.to_path_buf(),
            columns: None,
            header: HeaderArg::Auto,
            format: None,
            lenient: false,
            seed: None,
            held_out: None,
            labels: Vec::new(),
            literals: LiteralsArg::Skip,
            graph_name: "all".into(),
            base: None,
        }
    }

    /// As the library wants it. `demo` is no file, so nothing said about files touches it.
    pub fn options(&self) -> ReadOptions {
        if self.data == Path::new("demo") {
            return ReadOptions { seed: self.seed.unwrap_or(0), ..ReadOptions::default() };
        }
        ReadOptions {
            columns: self.columns.clone().unwrap_or_default(),
            format: self.format.map(Format::from),
            header: match self.header {
                HeaderArg::Auto => Header::Auto,
                HeaderArg::Yes => Header::Yes,
                HeaderArg::No => Header::No,
            },
            lenient: self.lenient,
            seed: self.seed.unwrap_or(0),
            held_out: self.held_out.map_or(ReadOptions::default().held_out, |shares| shares.0),
            // Who gives shares wants something held out.
            split_train: self.held_out.is_some(),
            labels: self.labels.clone(),
            literals: match self.literals {
                LiteralsArg::Skip => Literals::Skip,
                LiteralsArg::Entities => Literals::Entities,
            },
            graph: match self.graph_name.as_str() {
                "all" => GraphChoice::All,
                "default" => GraphChoice::Default,
                name => GraphChoice::Named(name.to_string()),
            },
            base: self.base.clone(),
            ..ReadOptions::default()
        }
    }

    /// The files that DATA stands for; none where it cannot be found, which loading will tell.
    pub fn files(&self) -> Vec<PathBuf> {
        let files = Layout::find(&self.data).map_or_else(|_| Vec::new(), |layout| layout.files());
        files.into_iter().chain(self.labels.iter().cloned()).collect()
    }

    /// Reads the graph. Notes are left to the caller: most [`announce`](Loaded::announce) them.
    pub fn load(&self, console: Console) -> Result<Loaded> {
        self.load_with(&self.options(), console)
    }

    /// Reads only what is learnt from, for commands that look at nothing else.
    pub fn load_train(&self, console: Console) -> Result<Loaded> {
        self.load_with(&ReadOptions { train_only: true, ..self.options() }, console)
    }

    fn load_with(&self, options: &ReadOptions, console: Console) -> Result<Loaded> {
        let started = Instant::now();
        let _spinner = progress::spinner(console, &format!("reading {}", self.data.display()));
        let (data, report) = Dataset::load(&self.data, options)?;
        let triples: usize = report.read.iter().sum();
        tracing::info!(triples, "read {} in {:.3} s", self.data.display(), started.elapsed().as_secs_f64());
        let unused_shares = self.held_out.is_some() && (!report.split_here || self.data == Path::new("demo"));
        Ok(Loaded { data, report, unused_shares })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_two_and_leave_something() {
        assert_eq!(shares("0.1, 0.05"), Ok(Shares([0.1, 0.05])));
        assert_eq!(shares("0,0"), Ok(Shares([0.0, 0.0])));
        for wrong in ["0.1", "0.5,0.5", "-0.1,0.1", "a,b", "0.1,0.1,0.1", "NaN,0.1", ""] {
            assert!(shares(wrong).is_err(), "{wrong:?}");
        }
    }
}
