//! Forms: what a page changes without script.

use ruge::Cancel;

use crate::ask::Ask;
use crate::problem::Problem;

use super::{Go, View, back};

/// Accepts, rejects or skips a fact, or takes that back.
pub fn decide(view: &View, ask: &Ask, cancel: &Cancel) -> Result<Go, Problem> {
    match ask.needed("decision")? {
        "undo" => crate::decide::undo(view, ask, cancel)?,
        _ => crate::decide::decide(view, ask, cancel)?,
    };
    Ok(Go { to: back(ask.text("back")?), cookie: None })
}

/// Says who decides.
pub fn reviewer(_: &View, ask: &Ask, _: &Cancel) -> Result<Go, Problem> {
    let name = ask.text("reviewer")?.unwrap_or_default().trim();
    if name.len() > 100 {
        return Err(Problem::refused("the name is too long").limit(100));
    }
    let name: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
    let cookie = format!("ruge_reviewer={name}; Max-Age=31536000; HttpOnly; SameSite=Strict; Path=/");
    Ok(Go { to: back(ask.text("back")?), cookie: Some(cookie) })
}
