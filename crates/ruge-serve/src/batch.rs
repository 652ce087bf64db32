//! Many questions, a line each: answered as they come, so that a list of any length needs little memory.
//!
//! Lines in and out are those of `ruge predict --queries - --to jsonl`; a bad line answers `{"line":…, "error":…}`. What has come
//! while the last block was answered is the next block. The sender waits when the reader does, and both wait for a place in the queue.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use ruge::Control;
use ruge::predict::{NamedQuestion, PredictOptions, Question};
use serde_json::json;
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::app::App;
use crate::problem::Problem;
use crate::snapshot::Snapshot;

/// Bytes of a line at most.
pub const LINE: usize = 1 << 16;
/// Within which more of the body must come.
const SILENCE: Duration = Duration::from_secs(crate::app::SECONDS);
/// Questions answered together: as many as ranking takes at once.
const BLOCK: usize = 192;

/// A line and its number; too long ones have no text.
type Line = (u64, Option<Vec<u8>>);

/// Answers a stream of questions by a stream of answers.
pub fn answer(app: Arc<App>, snapshot: Arc<Snapshot>, options: PredictOptions, body: Body) -> Body {
    let (sender, receiver) = channel::<Result<Bytes, std::io::Error>>(4);
    tokio::spawn(async move {
        let (gone, options) = (sender.clone(), Arc::new(options));
        tokio::select! {
            // Whoever is gone gets nothing more, and what was begun is stopped.
            () = gone.closed() => {}
            _ = run(&app, &snapshot, &options, body.into_data_stream(), &sender) => {}
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}

async fn run(
    app: &App,
    snapshot: &Arc<Snapshot>,
    options: &Arc<PredictOptions>,
    mut body: BodyDataStream,
    sender: &Sender<Result<Bytes, std::io::Error>>,
) -> Option<()> {
    let (mut number, mut line, mut is_long, mut block) = (1, Vec::new(), false, Vec::<Line>::new());
    loop {
        let piece = match tokio::time::timeout(SILENCE, body.next()).await {
            Ok(Some(Ok(piece))) => piece,
            Ok(None) => break,
            // An end that cannot be taken for that of all answers: the connection is cut.
            Ok(Some(Err(_))) | Err(_) => {
                let cut = std::io::Error::new(std::io::ErrorKind::TimedOut, "the questions stopped coming");
                return sender.send(Err(cut)).await.ok();
            }
        };
        for &byte in piece.iter() {
            if byte != b'\n' {
                is_long |= line.len() >= LINE;
                if !is_long {
                    line.push(byte);
                }
                continue;
            }
            let text = std::mem::take(&mut line);
            block.push((number, (!is_long).then_some(text)));
            (number, is_long) = (number + 1, false);
            if block.len() == BLOCK {
                send(app, snapshot, options, std::mem::take(&mut block), sender).await?;
            }
        }
        if !block.is_empty() {
            send(app, snapshot, options, std::mem::take(&mut block), sender).await?;
        }
    }
    if !line.is_empty() || is_long {
        send(app, snapshot, options, vec![(number, (!is_long).then_some(line))], sender).await?;
    }
    Some(())
}

async fn send(
    app: &App,
    snapshot: &Arc<Snapshot>,
    options: &Arc<PredictOptions>,
    block: Vec<Line>,
    sender: &Sender<Result<Bytes, std::io::Error>>,
) -> Option<()> {
    let (snapshot, options, block) = (Arc::clone(snapshot), Arc::clone(options), Arc::new(block));
    let asked = Arc::clone(&block);
    let done = match app.work.place_in_turn().await {
        Ok(place) => {
            let job = move |cancel: &ruge::Cancel| lines(&snapshot, &options, &asked, &Control::new(cancel));
            app.work.run_at(place, job).await
        }
        Err(problem) => Err(problem),
    };
    let text = done.unwrap_or_else(|problem| {
        let is_blank = |text: &Vec<u8>| text.iter().all(u8::is_ascii_whitespace);
        let asked = block.iter().filter(|(_, text)| !text.as_ref().is_some_and(is_blank));
        asked.map(|(line, _)| format!("{}\n", json!({"line": line, "error": problem.detail}))).collect()
    });
    sender.send(Ok(text.into())).await.ok()
}

/// A line as read: a question, nothing (a blank line), or what is wrong with it.
type Parsed = Result<Option<(NamedQuestion, Question)>, String>;

fn lines(
    snapshot: &Snapshot,
    options: &PredictOptions,
    block: &[Line],
    control: &Control<'_>,
) -> Result<String, Problem> {
    let read = |text: &Option<Vec<u8>>| -> Parsed {
        let Some(text) = text else { return Err(format!("longer than {LINE} bytes; a question is a single line")) };
        let Some(named) = NamedQuestion::parse(text.strip_suffix(b"\r").unwrap_or(text))? else { return Ok(None) };
        let question = Question::of(&named, &snapshot.engine).map_err(|error| error.to_string())?;
        Ok(Some((named, question)))
    };
    let parsed: Vec<(u64, Parsed)> = block.iter().map(|(line, text)| (*line, read(text))).collect();
    let questions: Vec<Question> =
        parsed.iter().filter_map(|(_, read)| read.as_ref().ok()?.as_ref().map(|(_, question)| *question)).collect();
    let mut lists = snapshot.engine.predict(&questions, options, control)?.into_iter();
    let mut text = String::new();
    for (line, read) in parsed {
        let object = match read {
            Ok(None) => continue,
            Err(error) => json!({"line": line, "error": error}),
            Ok(Some((named, _))) => {
                let mut object = json!(named);
                object["query"] = line.into();
                object["answers"] = json!(lists.next().unwrap_or_default());
                object
            }
        };
        text.push_str(&ruge_kg::visible::json(&object.to_string()));
        text.push('\n');
    }
    Ok(text)
}
