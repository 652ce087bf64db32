//! The page around the sections: head, table of contents, style.
//!
//! Names in a page come from other people's files, and reports are shared. Every name is escaped. If one ever slipped
//! through, the page's content security policy would still block it: no script and no style except ours (by hash), no
//! loading, no forms, no base address. Only the page with proposed facts has a script; without one it is the same table.

use ruge_kg::visible;
use sha2::{Digest, Sha256};

use crate::html::escape;
use crate::report::Report;
use crate::section::{self, Section};

/// The page as one string: complete HTML that loads nothing.
///
/// Write it with `ruge_kg::io::write::replace_file`, so that a reader never sees half a page.
pub fn render(report: &Report) -> String {
    let sections = section::all(report);
    let title = if report.title.is_empty() { "a run" } else { &report.title };
    let version = report.repeat.given().map_or("", |repeat| &repeat.version);
    let script = match report.proposals.given() {
        Some(list) if !list.facts.is_empty() => section::proposals::SCRIPT,
        _ => "",
    };
    with_script(title, "ruge report", &sections, version, script)
}

/// Sections under a title, with a table of contents. `over` is shown above the title.
pub(crate) fn whole(title: &str, over: &str, sections: &[Section], version: &str) -> String {
    with_script(title, over, sections, version, "")
}

fn with_script(title: &str, over: &str, sections: &[Section], version: &str, script: &str) -> String {
    let contents: String = sections
        .iter()
        .map(|section| format!("<li><a href=\"#{}\">{}</a></li>", section.id, escape(&section.title)))
        .collect();
    let body: String = sections
        .iter()
        .map(|section| {
            format!(
                "<section id=\"{id}\" aria-labelledby=\"{id}-title\"><h2 id=\"{id}-title\">{}</h2>\n{}</section>\n",
                escape(&section.title),
                section.body,
                id = section.id
            )
        })
        .collect();
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} · {over}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <header><p class=\"over\">{over}</p><h1>{title}</h1></header>\n\
         <nav aria-label=\"Contents\"><ol>{contents}</ol></nav>\n<main>\n{body}</main>\n\
         <footer><p>Made by ruge {version}. This page is complete: it loads nothing from elsewhere.</p></footer>\n\
         {script}</body>\n</html>\n",
        policy = policy(script),
        script = if script.is_empty() { String::new() } else { format!("<script>{script}</script>\n") },
        title = escape(title),
        over = escape(over),
        version = escape(version),
    );
    // Names in plots pass through the plotting library, which escapes only markup.
    visible::text(&page).into_owned()
}

/// The content security policy, as strict as possible. The only data URL is the empty icon.
fn policy(script: &str) -> String {
    let hash = |text: &str| base64(&Sha256::digest(text.as_bytes()));
    let scripts = if script.is_empty() { String::new() } else { format!(" script-src 'sha256-{}';", hash(script)) };
    let style = hash(STYLE);
    format!(
        "default-src 'none';{scripts} style-src 'sha256-{style}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
}

/// Bytes as base64, for hashes in the policy.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            out.push(if digit <= three.len() { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    out
}

const STYLE: &str = include_str!("style.css");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_padded() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
    }

    #[test]
    fn the_policy_allows_our_style_and_nothing_else() {
        let [plain, script] = ["", "x"].map(policy);
        assert!(plain.starts_with("default-src 'none'; style-src 'sha256-"), "{plain}");
        assert!(!plain.contains("script-src") && script.contains("script-src 'sha256-"), "{script}");
        for word in ["unsafe", "http", "*", "nonce", "strict-dynamic", "self", "blob"] {
            assert!(!plain.contains(word) && !script.contains(word), "{word} in {script}");
        }
        assert!(!STYLE.contains("</") && visible::text(STYLE) == STYLE, "or the hash is not that of the page's style");
    }
}
