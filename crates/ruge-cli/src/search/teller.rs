//! What a search says on stderr while it runs: each trial as it ends, and how long the rest takes.

use std::time::{Duration, Instant};

use ruge_lab::search::space::shown;
use ruge_lab::search::{Search, SearchEvent, Space, Trial, epochs_left, ranked};

use crate::console::Console;
use crate::text::{counted, grouped, labelled};
use crate::{minutes, progress};

/// Tells on stderr how the search gets on.
pub(super) struct Teller {
    pub(super) space: Space,
    console: Console,
    pub(super) bar: progress::Bar,
    best: Option<(usize, f64)>,
    trial: String,
    /// The last validation of the trial.
    now: Option<f64>,
    /// The time that was given, and its end.
    limit: Option<(f64, Instant)>,
    /// All trials at the end of the last one.
    trials: Vec<Trial>,
    /// Of the trial under way: where its rung began, and the epochs of such a trial.
    begun: (u64, Option<ruge::Spec>),
    /// When the first epoch of this process was over, and how many were since.
    pace: Option<(Instant, u64)>,
    /// Whether the estimate was told.
    told: bool,
}

impl Teller {
    pub(super) fn new(search: &Search, limit: Option<(f64, Instant)>, console: Console) -> Self {
        let best = search.best().and_then(|best| Some((best.number, best.valid_mrr()?)));
        let (space, trials) = (search.space().clone(), search.trials().to_vec());
        let (bar, trial, begun) = (progress::Bar::hidden(), String::new(), (0, None));
        Self { space, console, bar, best, trial, now: None, limit, trials, begun, pace: None, told: false }
    }

    /// What a search in a given time will do. Trials differ, so epochs are counted as those of the first.
    pub(super) fn said_before(&self, minutes: f64) -> Option<String> {
        let point = self
            .trials
            .first()
            .map_or_else(|| self.space.point(&vec![0.0; self.space.parameters.len()]), |it| it.point.clone());
        let left = epochs_left(&self.space, &self.trials, &self.space.spec(&point).ok()?);
        let trials = counted(self.space.trials().max(self.trials.len()), "trial");
        Some(format!(
            "{trials}, about {} to train; what {minutes} {} are not enough for is left to --resume",
            counted(left as usize, "epoch"),
            plural_minutes(minutes)
        ))
    }

    /// Epochs that are left after this one of the trial under way.
    fn left(&self, epoch: u64) -> Option<u64> {
        let spec = self.begun.1.as_ref()?;
        let left = epochs_left(&self.space, &self.trials, spec);
        Some(left.saturating_sub(epoch.saturating_sub(self.begun.0)))
    }

    /// How long the rest takes, from what an epoch has taken, with all that comes between two of them.
    fn rest(&self, epoch: u64) -> Option<(Duration, u64)> {
        let (since, epochs) = self.pace.filter(|(_, epochs)| *epochs > 0)?;
        let (left, each) = (self.left(epoch)?, since.elapsed().div_f64(epochs as f64));
        Some((Duration::try_from_secs_f64(each.as_secs_f64() * left as f64).unwrap_or(Duration::MAX), left))
    }

    /// Says once whether the time is enough.
    fn estimate(&mut self, epoch: u64) -> Option<String> {
        let (_, until) = self.limit.filter(|_| !self.told)?;
        let ((rest, left), (minutes, _)) = (self.rest(epoch)?, self.limit?);
        self.told = true;
        let time = until.saturating_duration_since(Instant::now());
        Some(match rest <= time {
            true => format!("all trials take about {} more", minutes::said(rest)),
            false => format!(
                "{minutes} {} are enough for about {} of the {} that are left; the best so far is kept then",
                plural_minutes(minutes),
                grouped((left as f64 * time.as_secs_f64() / rest.as_secs_f64().max(1e-9)) as u64),
                counted(left as usize, "epoch")
            ),
        })
    }

    pub(super) fn hear(&mut self, event: &SearchEvent) {
        let of = self.space.trials();
        match event {
            SearchEvent::Rules => {
                self.bar = progress::spinner(self.console, "rules");
            }
            SearchEvent::Begins(trial, epochs) => {
                self.begun = (trial.rungs.last().map_or(0, |rung| rung.epochs), self.space.spec(&trial.point).ok());
                self.bar = progress::work(self.console, "", *epochs);
                (self.trial, self.now) = (format!("trial {} of {of}", trial.number), trial.valid_mrr());
                self.bar.set_message(self.message());
            }
            SearchEvent::Epoch(tick, epochs) => {
                if self.bar.length() != Some(*epochs) {
                    self.bar = progress::work(self.console, &self.message(), *epochs);
                }
                self.bar.set_position(tick.epoch);
                self.pace = Some(self.pace.map_or((Instant::now(), 0), |(since, epochs)| (since, epochs + 1)));
                if let Some(text) = self.estimate(tick.epoch) {
                    self.bar.suspend(|| self.console.note(&text));
                }
                self.now = tick.metrics.as_ref().map(|metrics| metrics.mrr).or(self.now);
                let rest = self.rest(tick.epoch);
                let rest = rest.map_or_else(String::new, |(rest, _)| format!(", all in {}", minutes::said(rest)));
                self.bar.set_message(self.message() + &rest);
            }
            SearchEvent::Ended(trial, trials) => {
                self.bar.finish_and_clear();
                let best = ranked(trials).first().map(|best| (best.number, best.valid_mrr().unwrap_or(0.0)));
                let is_best = best != self.best && best.is_some_and(|(number, _)| number == trial.number);
                self.best = best;
                self.trials.clone_from(trials);
                self.console.note(&self.line(trial, of, is_best));
            }
        }
    }

    fn message(&self) -> String {
        let now = self.now.map_or_else(String::new, |mrr| format!(", MRR {mrr:.4}"));
        let best = self.best.map_or_else(String::new, |(number, mrr)| format!(", best {mrr:.4} (trial {number})"));
        format!("{}{now}{best}", self.trial)
    }

    fn line(&self, trial: &Trial, of: usize, is_best: bool) -> String {
        let digits = of.min(99_999).to_string().len();
        let head = format!("trial {:>digits$} of {of}", trial.number);
        let leaves = words(&self.space, trial);
        let told = match (&trial.error, trial.rungs.last()) {
            (Some(error), _) => format!("failed: {error}; {leaves}"),
            (None, Some(rung)) => {
                let best = if is_best { ", best so far" } else { "" };
                format!(
                    "validation MRR {:.4} after {}{best}; {leaves}",
                    rung.valid_mrr,
                    counted(rung.epochs as usize, "epoch")
                )
            }
            (None, None) => leaves,
        };
        labelled(&head, head.len() + 2, &told, self.console.note_width()).trim_end().to_string()
    }
}

fn words(space: &Space, trial: &Trial) -> String {
    let leaves = space.short_names().into_iter().zip(&trial.point);
    leaves.map(|(leaf, value)| format!("{leaf} {}", shown(value))).collect::<Vec<_>>().join(", ")
}

fn plural_minutes(minutes: f64) -> &'static str {
    if minutes == 1.0 { "minute" } else { "minutes" }
}
