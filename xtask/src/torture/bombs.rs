//! Small files that stand for large ones: gigabytes in kilobytes, endless lines, deep nesting.

use std::time::Duration;

use anyhow::Result;

use super::case::Yard;
use super::inputs::{call, put};
use super::seeds;

/// After this a command is asked to end: unpacking gigabytes takes time, and a rule with eleven premises may too.
/// Memory is limited anyway.
const PATIENCE: Duration = Duration::from_secs(60);

/// After this it hangs.
const LIMIT: Duration = Duration::from_secs(75);

/// With less time left, nothing is started.
const LEAST: Duration = Duration::from_secs(30);

/// Runs every bomb.
pub fn attack(yard: &Yard<'_>) -> Result<()> {
    if yard.time < LEAST && !yard.is_narrowed() {
        yard.skip("files", "they need time of their own: give --minutes 20, or --only bombs");
        return Ok(());
    }
    let made = yard.ground.join("made");
    seeds::make(&yard.ruge, &made)?;
    let cases: Vec<_> =
        seeds::bombs().into_iter().map(|(name, bytes, line)| (format!("files/{name}"), (name, bytes, line))).collect();
    yard.try_all(&cases, |name, (file, bytes, line), folder| {
        put(&made, folder, file, bytes)?;
        let outcome = call(yard, &made, file, line, folder, LIMIT, Some(PATIENCE))?;
        Ok(outcome.verdict_if_asked(&format!("{name}: `ruge {line}`")))
    })
}
