//! Many questions: read, answered and written block by block, so that a file of any length needs little memory and a
//! program that pipes questions in gets answers as soon as it waits for them.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use ruge::Control;
use ruge::Engine;
use ruge::predict::{Answer, NamedQuestion, PredictOptions, Question};
use ruge_kg::Names;
use serde_json::json;

use super::questions::Lines;
use super::{FormatArg, PredictArgs};
use crate::console::{self, Console};
use crate::text::{counted, grouped};
use crate::usage::UsageError;
use crate::{output, progress};

/// Answers held at once: a long --top takes fewer questions at a time.
const HELD: usize = 1 << 20;
/// Questions whose lines are made in one piece of work.
const CHUNK: usize = 64;

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Tsv,
    Lines,
    /// The elements of one array, in one object.
    Object,
}

/// What was done.
#[derive(Default)]
struct Counts {
    queries: usize,
    answers: usize,
    skipped: usize,
}

/// Answers a file of questions.
pub fn run(args: &PredictArgs, path: &Path, engine: &Engine, options: &PredictOptions, console: Console) -> Result<()> {
    let shape = match (args.to.unwrap_or(FormatArg::Tsv), console.json && args.out.is_none()) {
        (_, true) => Shape::Object,
        (FormatArg::Tsv, _) => Shape::Tsv,
        (FormatArg::Jsonl, _) => Shape::Lines,
    };
    if shape == Shape::Tsv {
        fits_tsv(engine.data().names())?;
    }
    let entities = engine.data().entity_count();
    if args.top > entities {
        console.note(&format!("note: the model has {}, so --top {} shows all", counted(entities, "entity"), args.top));
    }
    let lines = Lines::open(path)?;
    let work = Asking { args, engine, options, shape, console };
    let started = Instant::now();
    let counts = match &args.out {
        Some(out) => {
            if out.exists() && !args.force {
                bail!(UsageError(format!("{}: it already exists; overwrite it with --force", out.display())));
            }
            output::to_file(out, |file: &mut BufWriter<File>| work.answer_all(lines, file))?
        }
        None => work.answer_all(lines, &mut console.data_out())?,
    };
    let seconds = started.elapsed().as_secs_f64();
    let Counts { queries, answers, skipped } = counts;
    let rate = queries as f64 / seconds.max(1e-9);
    if skipped > 0 {
        console.note(&match skipped {
            1 => "warning: 1 line skipped: not a question".to_string(),
            count => format!("warning: {count} lines skipped: not questions"),
        });
    }
    if console.json {
        let sums = json!({"queries": queries, "skipped": skipped, "seconds": seconds, "queries_per_second": rate});
        return match &args.out {
            Some(out) => {
                let mut object = sums;
                object["answers"] = answers.into();
                object["out"] = out.display().to_string().into();
                object["assumes"] = engine.truth_assumes()?.into();
                console.json_result(&object)
            }
            // The array is open: close it, and put the sums behind it.
            None => {
                let mut object = sums;
                object["assumes"] = engine.truth_assumes()?.into();
                console.result(&format!("],{}\n", &object.to_string()[1..]))
            }
        };
    }
    // Beside the answers, whose lines are for programs.
    console.note(&engine.truth_assumes()?);
    console.note(&format!("{} in {seconds:.2} s, {rate:.0} per second", counted(queries, "question")));
    Ok(())
}

/// Tab-separated lines cannot hold every name.
fn fits_tsv(names: &Names) -> Result<()> {
    let all = names.entities.iter().map(|(_, name)| name).chain(names.relations.iter().map(|(_, name)| name));
    match all.into_iter().find(|name| name.contains(['\t', '\n', '\r'])) {
        Some(name) => bail!("the name {name:?} holds a tab or a line end, which TSV cannot express; use --to jsonl"),
        None => Ok(()),
    }
}

/// A question as it was asked.
struct Asked {
    /// Its line, from 1.
    line: u64,
    named: NamedQuestion,
    question: Question,
}

impl Asked {
    /// As JSON, with its answers.
    fn with(&self, answers: &[Answer]) -> serde_json::Value {
        let mut object = json!(self.named);
        object["query"] = self.line.into();
        object["answers"] = json!(answers);
        object
    }
}

struct Asking<'a> {
    args: &'a PredictArgs,
    engine: &'a Engine,
    options: &'a PredictOptions,
    shape: Shape,
    console: Console,
}

impl Asking<'_> {
    fn answer_all(&self, mut lines: Lines, out: &mut impl Write) -> Result<Counts> {
        let spinner = progress::spinner(self.console, "answering");
        let mut counts = Counts::default();
        match self.shape {
            Shape::Tsv => write(out, "query\trank\thead\trelation\ttail\tscore\ttruth\tknown\n")?,
            Shape::Lines => true,
            Shape::Object => write(out, "{\"results\":[")?,
        };
        loop {
            let block = lines.next()?;
            if block.is_empty() {
                return Ok(counts);
            }
            let parsed: Vec<(u64, Result<Option<Asked>, String>)> =
                block.into_par_iter().map(|(line, text)| (line, self.parse(line, &text))).collect();
            let mut asked = Vec::with_capacity(parsed.len());
            let mut failed = None;
            for (line, question) in parsed {
                match question {
                    Ok(None) => {}
                    Ok(Some(question)) => asked.push(question),
                    Err(reason) if self.args.lenient => {
                        counts.skipped += 1;
                        if counts.skipped <= 20 {
                            self.console.note(&format!("warning: {}:{line}: {reason}", lines.name()));
                        }
                    }
                    Err(reason) => {
                        failed =
                            Some(format!("{}:{line}: {reason}\n  or skip such lines with --lenient", lines.name()));
                        break;
                    }
                }
            }
            // What stands before a bad line is answered: work that can be done is not lost.
            let per_question = self.args.top.min(self.engine.data().entity_count()).max(1);
            for asked in asked.chunks((HELD / per_question).max(1)) {
                let texts = self.answer(asked, counts.queries)?;
                counts.queries += asked.len();
                for (text, answers) in texts {
                    counts.answers += answers;
                    if !write(out, &text)? {
                        return Ok(counts);
                    }
                }
            }
            out.flush().or_else(forgive_closed).context("cannot write the answers")?;
            if let Some(message) = failed {
                bail!(message);
            }
            spinner.set_message(format!("answering: {} questions", grouped(counts.queries)));
        }
    }

    /// The lines of some questions, and how many answers they hold.
    fn answer(&self, asked: &[Asked], before: usize) -> Result<Vec<(String, usize)>> {
        let questions: Vec<Question> = asked.iter().map(|asked| asked.question).collect();
        let lists = self.engine.predict(&questions, self.options, &Control::default())?;
        let pieces = asked.par_chunks(CHUNK).zip(lists.par_chunks(CHUNK)).enumerate();
        Ok(pieces
            .map(|(piece, (asked, lists))| {
                let mut text = String::new();
                for (at, (asked, list)) in asked.iter().zip(lists).enumerate() {
                    match self.shape {
                        Shape::Tsv => self.tsv(&mut text, asked, list),
                        Shape::Lines => {
                            let _ = writeln!(text, "{}", console::json(&asked.with(list)));
                        }
                        Shape::Object => {
                            let comma = if before + piece * CHUNK + at > 0 { ",\n" } else { "" };
                            let _ = write!(text, "{comma}{}", console::json(&asked.with(list)));
                        }
                    }
                }
                (text, lists.iter().map(Vec::len).sum())
            })
            .collect())
    }

    fn tsv(&self, text: &mut String, asked: &Asked, list: &[Answer]) {
        for (at, answer) in list.iter().enumerate() {
            let Some(triple) = asked.question.answered(answer.who) else { continue };
            let [head, relation, tail] = self.engine.data().show(triple);
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{}\t{}\t{head}\t{relation}\t{tail}\t{}\t{:.6}\t{}",
                asked.line,
                at + 1,
                answer.score,
                answer.truth,
                answer.known
            );
        }
    }

    /// A line as it was asked; nothing if it is blank.
    fn parse(&self, line: u64, text: &[u8]) -> Result<Option<Asked>, String> {
        let Some(named) = NamedQuestion::parse(text)? else { return Ok(None) };
        let question = Question::of(&named, self.engine).map_err(|error| error.to_string())?;
        Ok(Some(Asked { line, named, question }))
    }
}

/// Writes; false if the reader has seen enough (`| head`).
fn write(out: &mut impl Write, text: &str) -> Result<bool> {
    match out.write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        other => other.map(|()| true).context("cannot write the answers"),
    }
}

fn forgive_closed(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
}
