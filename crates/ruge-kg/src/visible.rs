//! Names made safe to display: characters that control a terminal or mislead the reader become visible marks.
//!
//! Names come from files that somebody else wrote. An escape sequence could clear the screen, a bidirectional override
//! turn `gnp.exe` into `exe.png`, a zero-width space make two names look like one. All output for people passes through
//! here; output for programs (JSON, TSV, rules) keeps its bytes.
//!
//! | characters | shown as |
//! |---|---|
//! | C0 controls (U+0000–001F) and U+007F | their names: `⟨NUL⟩`, `⟨ESC⟩`, `⟨LF⟩`, `⟨DEL⟩` |
//! | C1 controls (U+0080–009F) | `⟨U+009B⟩` |
//! | bidirectional controls (U+061C, 200E–200F, 202A–202E, 2066–2069) | `⟨U+202E⟩` |
//! | zero-width and other invisible characters (U+00AD, 034F, 115F–1160, 17B4–17B5, 180E, 200B–200D, 2060–2065, 206A–206F, 3164, FEFF, FFA0, FFF0–FFFB, 13430–1343F, 1BCA0–1BCA3, 1D173–1D17A, E0000–E00FF) | `⟨U+200B⟩` |
//! | line and paragraph separators (U+2028, U+2029) | `⟨U+2028⟩` |
//! | noncharacters (U+FDD0–FDEF, and the last two of every plane) and planes without characters | `⟨U+FFFE⟩` |
//!
//! Combining letters, variation selectors (U+FE00–FE0F, E0100–E01EF) and right-to-left scripts are visible and stay. No
//! mark contains a marked character, so marking twice changes nothing.

use std::borrow::Cow;

/// Ranges of characters other than C0 controls that are shown by number, in ascending order.
const BY_NUMBER: [(char, char); 24] = [
    ('\u{80}', '\u{9f}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fdd0}', '\u{fdef}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{fffe}', '\u{ffff}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{1fffe}', '\u{1ffff}'),
    ('\u{2fffe}', '\u{2ffff}'),
    ('\u{3fffe}', '\u{3ffff}'),
    ('\u{4fffe}', '\u{e00ff}'),
    ('\u{e01f0}', '\u{10ffff}'),
];

/// ASCII names of the C0 controls, which every font can show; few fonts have the pictures of U+2400.
const CONTROLS: [&str; 32] = [
    "NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "TAB", "LF", "VT", "FF", "CR", "SO", "SI", "DLE",
    "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US",
];

/// Whether a character is shown as a mark. This includes line ends and tabs; [`text`] keeps those.
pub fn is_marked(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    let at = BY_NUMBER.partition_point(|&(_, last)| last < character);
    BY_NUMBER.get(at).is_some_and(|&(first, _)| first <= character) && !is_private(character)
}

/// Planes 15 and 16 are private use; what their characters look like is up to the font.
fn is_private(character: char) -> bool {
    let (number, in_plane) = (character as u32, character as u32 & 0xffff);
    number >= 0xf_0000 && in_plane < 0xfffe
}

/// Appends a character or its mark.
fn push(out: &mut String, character: char) {
    match character {
        '\u{7f}' => out.push_str("⟨DEL⟩"),
        c if c.is_ascii_control() => out.push_str(&format!("⟨{}⟩", CONTROLS[c as usize])),
        c if is_marked(c) => out.push_str(&format!("⟨U+{:04X}⟩", c as u32)),
        c => out.push(c),
    }
}

fn marked(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(|c| is_marked(c) && !is_kept(c)) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for character in text[first..].chars() {
        if is_kept(character) { out.push(character) } else { push(&mut out, character) }
    }
    Cow::Owned(out)
}

/// A name or other text within a line: every character in the table above is marked.
///
/// ```
/// use ruge_kg::visible;
/// assert_eq!(visible::line("Zürich"), "Zürich");
/// assert_eq!(visible::line("\u{1b}[31mred"), "⟨ESC⟩[31mred");
/// assert_eq!(visible::line("two\nlines"), "two⟨LF⟩lines");
/// assert_eq!(visible::line("\u{202e}gnp.exe"), "⟨U+202E⟩gnp.exe");
/// ```
pub fn line(name: &str) -> Cow<'_, str> {
    marked(name, |_| false)
}

/// Text of several lines: like [`line()`], but line ends and tabs stay.
pub fn text(text: &str) -> Cow<'_, str> {
    marked(text, |c| matches!(c, '\n' | '\t'))
}

/// A noun as it follows a count: `relation` after 1, `relations` otherwise.
///
/// ```
/// use ruge_kg::visible::plural;
/// assert_eq!([0, 1, 2].map(|count| plural(count, "entity")), ["entities", "entity", "entities"]);
/// ```
pub fn plural(count: usize, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => noun.to_string(),
        (_, Some(stem)) => format!("{stem}ies"),
        _ => format!("{noun}s"),
    }
}

/// `name` as [`line()`] shows it, in at most `width` characters. The middle is replaced by `…`, because paths differ at
/// their ends; an IRI loses its start, so that what is left of it is whole. Marks are never cut.
pub fn cut(name: &str, width: usize) -> String {
    let shown = line(name);
    if shown.chars().count() <= width {
        return shown.into_owned();
    }
    let pieces: Vec<String> = name
        .chars()
        .map(|character| {
            let mut piece = String::new();
            push(&mut piece, character);
            piece
        })
        .collect();
    let kept = width.saturating_sub(1);
    let is_iri = name.contains("://") && !name.contains([' ', '(']);
    let end = if is_iri { kept } else { kept * 2 / 3 };
    let fits = |mut room: usize| {
        move |piece: &&String| {
            let length = piece.chars().count();
            let fits = length <= room;
            room = if fits { room - length } else { 0 };
            fits
        }
    };
    let first: String = pieces.iter().take_while(fits(kept - end)).cloned().collect();
    let last: Vec<&String> = pieces.iter().rev().take_while(fits(end)).collect();
    let last: String = last.into_iter().rev().map(String::as_str).collect();
    if width == 0 { String::new() } else { format!("{first}…{last}") }
}

/// JSON with every character that would be marked written as an escape. The value is the same.
///
/// Expects complete JSON text: outside strings, only line ends and tabs could be marked, and those are kept.
pub fn json(text: &str) -> Cow<'_, str> {
    let is_kept = |c: char| matches!(c, '\n' | '\t' | '\r');
    let Some(first) = text.find(|c| is_marked(c) && !is_kept(c)) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for character in text[first..].chars() {
        if is_marked(character) && !is_kept(character) {
            character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_drives_or_deceives_is_marked() {
        let bad = "\0\u{7}\u{8}\t\n\r\u{1b}\u{7f}\u{80}\u{9b}\u{9f}\u{ad}\u{61c}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\
                   \u{2028}\u{2029}\u{202a}\u{202e}\u{2060}\u{2066}\u{2069}\u{206f}\u{feff}\u{fff9}\u{fdd0}\u{ffff}\
                   \u{e0001}\u{e007f}\u{10fffe}\u{10ffff}\u{ffffe}";
        for character in bad.chars() {
            let name = format!("a{character}b");
            let shown = line(&name);
            assert!(is_marked(character) && shown != name, "{character:?}");
            assert!(!shown.chars().any(is_marked), "a mark needs no mark: {shown:?}");
        }
        for character in "aé東ש\u{301}\u{fe0f}\u{e0100}👩\u{e000}\u{f0000}\u{10fffd}⟨ESC⟩⟨⟩\u{fffd} \u{a0}".chars()
        {
            assert!(!is_marked(character), "{character:?}");
        }
        assert!(BY_NUMBER.windows(2).all(|pair| pair[0].1 < pair[1].0), "searched by halves");
    }

    #[test]
    fn every_control_character_is_marked() {
        for character in ('\0'..=char::MAX).filter(|c| c.is_control()) {
            assert!(is_marked(character), "{character:?}");
        }
    }

    #[test]
    fn text_keeps_its_lines() {
        assert_eq!(text("a\tb\r\nc\u{1b}"), "a\tb⟨CR⟩\nc⟨ESC⟩");
        assert!(matches!(text("plain\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn names_lose_their_middle_and_marks_stay_whole() {
        assert_eq!(cut("short", 10), "short");
        assert_eq!(cut("/people/person/nationality", 13), "/peo…ionality");
        assert_eq!(cut("http://example.org/some/path#name", 13), "…me/path#name");
        assert_eq!(cut("tab\there\u{1b}[31m", 21), "tab⟨TAB⟩here⟨ESC⟩[31m");
        let long = "\u{202e}abcdefghijklm\u{200b}";
        for width in 0..40 {
            let shown = cut(long, width);
            assert!(shown.chars().count() <= width, "{shown} in {width}");
            assert_eq!(shown.matches('⟨').count(), shown.matches('⟩').count(), "{shown}");
        }
        assert_eq!(cut(long, 20), "…jklm⟨U+200B⟩", "half a mark is none");
    }

    #[test]
    fn escapes_in_json_are_the_same_value() {
        let name = "\u{202e}\u{9b}\u{7f}\u{e0001}\u{1b}\n\"\\é";
        let plain = format!("{{\"x\":{}}}", quoted(name));
        let shown = json(&plain);
        assert!(
            !shown.chars().any(is_marked) && shown.contains("\\u202e") && shown.contains("\\udb40\\udc01"),
            "{shown}"
        );
        assert!(matches!(json("{\n}\n"), Cow::Borrowed(_)));
    }

    /// A JSON string with only the required escapes.
    fn quoted(name: &str) -> String {
        let inner: String = name
            .chars()
            .map(|c| match c {
                '"' | '\\' => format!("\\{c}"),
                c if (c as u32) < 0x20 => format!("\\u{:04x}", c as u32),
                c => c.to_string(),
            })
            .collect();
        format!("\"{inner}\"")
    }
}
