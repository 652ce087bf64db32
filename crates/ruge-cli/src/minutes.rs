//! `--minutes`: how long a command may take, and how a time is said.

use std::time::{Duration, Instant};

/// Share of the time that training may take; what comes after it, such as fitting truth, has the rest.
const TRAINING: f64 = 0.9;

/// A number of minutes, as a flag has it.
pub fn parse(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.0..=1e6).contains(&minutes) => Ok(minutes),
        _ => Err("give a number of minutes, as in 10 or 0.5".into()),
    }
}

/// So many minutes.
pub fn duration(minutes: f64) -> Duration {
    Duration::try_from_secs_f64(60.0 * minutes).unwrap_or_default()
}

/// When training has to end.
pub fn training_ends(started: Instant, minutes: f64) -> Instant {
    started + duration(minutes).mul_f64(TRAINING)
}

/// A time as people say it: `40 s`, `12 min`, `3.5 h`.
pub fn said(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 100.0 => format!("{seconds:.0} s"),
        seconds if seconds < 6000.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_read_and_times_are_said() {
        assert_eq!((parse("0.5"), parse("0")), (Ok(0.5), Ok(0.0)));
        for wrong in ["", "-1", "nan", "inf", "10m", "1e9"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let said = [0.4, 59.6, 99.0, 120.0, 5000.0, 12_600.0].map(|seconds| said(Duration::from_secs_f64(seconds)));
        assert_eq!(said, ["0 s", "60 s", "99 s", "2 min", "83 min", "3.5 h"]);
    }
}
