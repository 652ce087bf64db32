//! Placeholder.
use anyhow::Result;
use super::case::Yard;
/// Attack.
pub fn attack(_: &Yard<'_>) -> Result<()> { Ok(()) }
