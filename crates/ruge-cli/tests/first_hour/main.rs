//! The first hour of a user: data as people have them, careless commands, and what is said about both, word for word in `snapshots/`.
//!
//! `INSTA_UPDATE=always cargo test -p ruge-cli --test first_hour` writes them again; read the difference before you commit it.

#[path = "../support/mod.rs"]
mod support;

mod doubts;
mod graphs;
mod runs;
mod tables;

use support::page::Page;

/// Compares with the text in `snapshots/` beside this file.
fn hold(page: Page, name: &str) {
    page.hold_in("../first_hour/snapshots", name);
}

/// Sixty cities and countries, and which is whose capital.
fn places() -> String {
    let mut lines = String::new();
    for n in 0..60 {
        lines += &format!("c{n}\tcapital_of\tk{n}\nk{n}\thas_capital\tc{n}\nk{n}\tin_continent\tz{}\n", n % 5);
        lines += &format!("c{n}\tin_continent\tz{}\nk{n}\tborders\tk{}\n", n % 5, (n + 1) % 60);
    }
    lines
}
