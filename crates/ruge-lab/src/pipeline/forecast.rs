//! How long a run still takes: one number for all of its stages, from the first batch on.
//!
//! Everything is counted in epochs of the unguided model, the first long work of a run: what an epoch takes is measured while it
//! trains, and what the other stages take follows from it until they are measured themselves. When patience will end a training is not
//! known, so the number of epochs expected is between the least and the most that may come, in the middle on a scale of factors.
//!
//! A forecast decides nothing: results are the same whatever it says.

use std::collections::BTreeMap;

use ruge::run::Tick;
use ruge_embed::Schedule;

use super::Stage;

/// The time that weighing rules for ranking takes, in that of all epochs without guidance.
const WEIGHING: f64 = 0.9;
/// The time that the last stages take, in that of a validation on test.
const ASKING: f64 = 12.0;

/// What the forecast of a run goes by.
#[derive(Clone, Debug)]
pub(super) struct Outlook {
    /// The stages of the run, in order.
    pub stages: Vec<Stage>,
    /// How long each model trains at most, and when it is validated.
    pub schedule: Schedule,
    /// Whether there is something to validate on.
    pub validates: bool,
    /// How much longer an epoch takes with guidance.
    pub guided: f64,
    /// How much longer one takes on all listed facts.
    pub all: f64,
    /// Whether rules are weighed for ranking.
    pub ranks: bool,
    /// Test triples for each triple that a validation ranks.
    pub asked: f64,
}

/// A training, as far as it has come.
#[derive(Clone, Copy, Debug, Default)]
struct Training {
    /// Epochs done.
    epochs: u64,
    /// Of these, in this process.
    measured: u64,
    /// The part of the next one that is done.
    part: f64,
    /// The best so far.
    best: u64,
    /// Seconds in this process.
    seconds: f64,
    /// The same at the end of the last epoch.
    trained: f64,
    /// Where measuring began, after what had to be set up: seconds, and epochs of this process.
    from: Option<(f64, f64)>,
    /// Whether it is over.
    is_over: bool,
}

impl Training {
    /// Seconds an epoch takes, validations included.
    fn pace(&self) -> Option<f64> {
        let (seconds, epochs) = self.from?;
        let measured = self.measured as f64 + self.part - epochs;
        (measured > 0.0).then(|| (self.seconds - seconds) / measured)
    }

    /// Measuring begins here, unless it has begun.
    fn begin_at(&mut self, seconds: f64, epochs: f64) {
        self.from.get_or_insert((seconds, epochs));
    }

    /// Epochs done, with the part of the next one.
    fn done(&self) -> f64 {
        self.epochs as f64 + self.part
    }
}

/// The forecast of a run.
#[derive(Clone, Debug)]
pub(super) struct Forecast {
    outlook: Outlook,
    unguided: Training,
    guided: Training,
    deployed: Training,
    /// Seconds of an epoch alone and of a validation, as measured.
    validation: f64,
    over: BTreeMap<Stage, f64>,
    under_way: Option<(Stage, f64)>,
    /// The part of a counted stage that is done.
    part: f64,
}

impl Forecast {
    pub fn new(outlook: Outlook) -> Self {
        let none = Training::default();
        let (over, validation) = (BTreeMap::new(), 0.0);
        Self { outlook, unguided: none, guided: none, deployed: none, validation, over, under_way: None, part: 0.0 }
    }

    /// What is known better now.
    pub fn renew(&mut self, change: impl FnOnce(&mut Outlook)) {
        change(&mut self.outlook);
    }

    /// A stage begins, at so many seconds.
    pub fn begin(&mut self, stage: Stage, at: f64) {
        (self.under_way, self.part) = (Some((stage, at)), 0.0);
    }

    /// A stage is over; it took so many seconds in all, if anybody knows.
    pub fn end(&mut self, stage: Stage, seconds: f64, epochs: Option<u64>) {
        self.over.insert(stage, seconds);
        self.under_way = None;
        let Some(training) = self.training(stage) else { return };
        training.is_over = true;
        training.part = 0.0;
        if let (Some(epochs), 0) = (epochs, training.measured) {
            (training.epochs, training.measured, training.seconds) = (epochs, epochs, seconds);
            training.begin_at(0.0, 0.0);
        }
    }

    /// A part of an epoch, or of a stage that counts what it does, is done.
    pub fn part(&mut self, stage: Stage, part: f64, at: f64) {
        let part = part.clamp(0.0, 1.0);
        self.part = part;
        let begun = self.under_way.map_or(at, |(_, begun)| begun);
        if let Some(training) = self.training(stage) {
            (training.part, training.seconds) = (part, at - begun);
            training.begin_at(at - begun, training.measured as f64 + part);
        }
    }

    /// An epoch is done.
    pub fn epoch(&mut self, stage: Stage, tick: &Tick, at: f64) {
        let begun = self.under_way.map_or(at, |(_, begun)| begun);
        let Some(training) = self.training(stage) else { return };
        training.begin_at(0.0, 0.0);
        // Of a training that goes on, earlier epochs were measured by nobody.
        (training.epochs, training.measured, training.part) = (tick.epoch, training.measured + 1, 0.0);
        if tick.improved {
            training.best = tick.epoch;
        }
        let validated = at - begun - training.trained - tick.seconds;
        (training.seconds, training.trained) = (at - begun, at - begun);
        if tick.metrics.is_some() {
            self.validation = self.validation.max(validated.max(0.0));
        }
    }

    fn training(&mut self, stage: Stage) -> Option<&mut Training> {
        match stage {
            Stage::TrainUnguided => Some(&mut self.unguided),
            Stage::TrainGuided => Some(&mut self.guided),
            Stage::Deploy => Some(&mut self.deployed),
            _ => None,
        }
    }

    /// The epochs that a training will have done when it ends.
    fn epochs(&self, training: &Training, like: Option<&Training>) -> f64 {
        let Schedule { epochs, patience, validate_every, .. } = self.outlook.schedule;
        let most = epochs as f64;
        if training.is_over {
            return training.epochs as f64;
        }
        let Some(patience) = patience.filter(|_| self.outlook.validates && validate_every > 0) else { return most };
        let least = (training.best.max(validate_every) + patience * validate_every) as f64;
        let least = least.max(training.done()).min(most);
        // Its twin ended there, so this one probably does.
        match like.filter(|like| like.is_over) {
            Some(like) => (like.epochs as f64).clamp(least, most),
            None => (least * most).sqrt(),
        }
    }

    /// Seconds until the run is finished; nothing before anything is measured.
    pub fn left(&self, at: f64) -> Option<f64> {
        let Outlook { guided, all, ranks, asked, schedule, .. } = self.outlook;
        let pace = self.unguided.pace().or_else(|| Some(self.guided.pace()? / guided))?;
        let pace_guided = self.guided.pace().unwrap_or(pace * guided);
        let unguided = self.epochs(&self.unguided, None);
        let with_rules = self.epochs(&self.guided, Some(&self.unguided));
        // The epoch that is kept is the last one before patience began.
        let kept = match self.guided.is_over && self.guided.best > 0 {
            true => self.guided.best as f64,
            false => 0.75 * with_rules,
        };
        let pace_deployed = self.deployed.pace().unwrap_or(pace_guided * all);
        let elapsed = self.under_way.map_or(0.0, |(_, begun)| at - begun);
        let left = |stage: Stage| -> f64 {
            let is_now = self.under_way.is_some_and(|(now, _)| now == stage);
            // What takes longer than expected takes a while longer.
            let rest = |expected: f64| match is_now {
                true => (expected - elapsed).max(0.2 * elapsed),
                false => expected,
            };
            match stage {
                Stage::TrainUnguided => (unguided - self.unguided.done()).max(0.0) * pace,
                Stage::TrainGuided => (with_rules - self.guided.done()).max(0.0) * pace_guided,
                Stage::Deploy => (kept - self.deployed.done()).max(0.0) * pace_deployed,
                Stage::WithRules if ranks => rest(WEIGHING * schedule.epochs as f64 * pace),
                Stage::Evaluate if is_now && self.part > 0.1 => elapsed * (1.0 - self.part) / self.part,
                Stage::Evaluate => rest(0.5 * ASKING * self.validation * asked),
                Stage::Predict => rest(0.5 * ASKING * self.validation * asked),
                _ => 0.0,
            }
        };
        Some(self.outlook.stages.iter().filter(|stage| !self.over.contains_key(stage)).map(|&stage| left(stage)).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruge_embed::Losses;

    fn outlook(patience: Option<u64>) -> Outlook {
        let schedule = Schedule { epochs: 100, validate_every: 5, patience, ..Schedule::default() };
        let stages = vec![Stage::Mine, Stage::TrainUnguided, Stage::TrainGuided, Stage::WithRules, Stage::Deploy];
        Outlook { stages, schedule, validates: true, guided: 1.5, all: 1.2, ranks: true, asked: 1.0 }
    }

    fn tick(epoch: u64, improved: bool) -> Tick {
        Tick { epoch, losses: Losses::default(), metrics: None, improved, seconds: 1.0, rate: 1.0 }
    }

    #[test]
    fn the_first_batches_say_how_long_all_of_it_takes() {
        let mut forecast = Forecast::new(outlook(None));
        assert_eq!(forecast.left(0.0), None, "nothing is measured");
        forecast.begin(Stage::TrainUnguided, 5.0);
        forecast.part(Stage::TrainUnguided, 0.0, 10.0);
        assert_eq!(forecast.left(10.0), None, "setting up says nothing");
        forecast.part(Stage::TrainUnguided, 0.5, 11.0);
        // An epoch takes two seconds: 99.5 more, 100 guided ones of three, 0.9 · 100 for rules, 75 of 3.6 for all facts.
        let left = forecast.left(11.0).unwrap();
        assert!((left - (199.0 + 300.0 + 180.0 + 270.0)).abs() < 1e-6, "{left}");
        for epoch in 1..=100 {
            forecast.epoch(Stage::TrainUnguided, &tick(epoch, true), 10.0 + 2.0 * epoch as f64);
        }
        forecast.end(Stage::TrainUnguided, 200.0, None);
        assert!((forecast.left(210.0).unwrap() - (300.0 + 180.0 + 270.0)).abs() < 1e-6);
    }

    #[test]
    fn patience_makes_it_shorter_and_the_twin_says_when() {
        let mut forecast = Forecast::new(outlook(Some(3)));
        forecast.begin(Stage::TrainUnguided, 0.0);
        forecast.epoch(Stage::TrainUnguided, &tick(1, false), 1.0);
        let early = forecast.epochs(&forecast.unguided, None);
        assert!((early - (20.0f64 * 100.0).sqrt()).abs() < 1e-6, "between 20 and 100: {early}");
        for epoch in 2..=35 {
            forecast.epoch(Stage::TrainUnguided, &tick(epoch, epoch == 20), epoch as f64);
        }
        forecast.end(Stage::TrainUnguided, 35.0, None);
        assert_eq!(forecast.epochs(&forecast.guided, Some(&forecast.unguided)), 35.0);
    }

    #[test]
    fn a_run_that_goes_on_knows_what_was_measured_before() {
        let mut forecast = Forecast::new(outlook(None));
        forecast.end(Stage::Mine, 1.0, None);
        forecast.end(Stage::TrainUnguided, 50.0, Some(100));
        forecast.begin(Stage::TrainGuided, 0.0);
        assert!((forecast.left(0.0).unwrap() - (75.0 + 45.0 + 75.0 * 0.9)).abs() < 1e-6);
        // The fortieth epoch is the first of this process.
        forecast.epoch(Stage::TrainGuided, &tick(40, true), 2.0);
        assert!((forecast.guided.pace().unwrap() - 2.0).abs() < 1e-6);
    }
}
