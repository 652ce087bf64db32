//! HTML that cannot be broken by names.
//!
//! A page is put together from templates, which are constants of this program, and values, which are escaped when they are put in.
//! Only [`Html`] itself goes in as it is, and nothing but these functions makes one. Characters that mislead the reader become
//! visible marks, as everywhere in this project.

use ruge_kg::visible;

/// Characters of a name that are shown; the middle of longer ones is given up.
const WIDTH: usize = 72;

/// A piece of a page.
#[derive(Clone, Debug, Default)]
pub struct Html(String);

/// What can be put into a page.
pub trait Put {
    /// Appends it, escaped.
    fn put_into(&self, out: &mut String);
}

impl Html {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A template with values for its `{}`.
    pub fn of(template: &'static str, values: &[&dyn Put]) -> Self {
        let mut html = Self::new();
        html.put(template, values);
        html
    }

    /// Appends a template with values for its `{}`.
    pub fn put(&mut self, template: &'static str, values: &[&dyn Put]) -> &mut Self {
        let mut pieces = template.split("{}");
        self.0.push_str(pieces.next().unwrap_or_default());
        debug_assert_eq!(template.matches("{}").count(), values.len(), "{template}");
        for (piece, value) in pieces.zip(values) {
            value.put_into(&mut self.0);
            self.0.push_str(piece);
        }
        self
    }

    /// Appends a drawing that another part of this project made and escaped.
    pub fn drawing(&mut self, svg: &str) -> &mut Self {
        self.0.push_str(svg);
        self
    }

    /// As text.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl Put for Html {
    fn put_into(&self, out: &mut String) {
        out.push_str(&self.0);
    }
}

impl Put for str {
    fn put_into(&self, out: &mut String) {
        escape(&visible::text(self), out);
    }
}

impl Put for String {
    fn put_into(&self, out: &mut String) {
        self.as_str().put_into(out);
    }
}

impl<T: Put + ?Sized> Put for &T {
    fn put_into(&self, out: &mut String) {
        (*self).put_into(out);
    }
}

impl<T: Put> Put for Option<T> {
    fn put_into(&self, out: &mut String) {
        if let Some(value) = self {
            value.put_into(out);
        }
    }
}

impl Put for usize {
    fn put_into(&self, out: &mut String) {
        out.push_str(&grouped(*self));
    }
}

/// A name as people read it: not too long, and in a direction of its own, with places to break.
pub struct Name<'n>(pub &'n str);

impl Put for Name<'_> {
    fn put_into(&self, out: &mut String) {
        let shown = visible::cut(self.0, WIDTH);
        out.push_str("<bdi>");
        let is_long = shown.chars().count() > 24;
        let mut rest = shown.as_str();
        while let Some(at) = rest.find(|c| c == '/' || (is_long && c == '_')) {
            escape(&rest[..=at], out);
            out.push_str("<wbr>");
            rest = &rest[at + 1..];
        }
        escape(rest, out);
        out.push_str("</bdi>");
    }
}

/// A sentence that may be long.
pub struct Sentence<'s>(pub &'s str);

impl Put for Sentence<'_> {
    fn put_into(&self, out: &mut String) {
        escape(&visible::cut(self.0, 600), out);
    }
}

/// The value of an attribute that a browser sends back: every character as it is.
pub struct Value<'v>(pub &'v str);

impl Put for Value<'_> {
    fn put_into(&self, out: &mut String) {
        escape(self.0, out);
    }
}

/// A number with so many digits.
pub struct Number(pub f64, pub usize);

impl Put for Number {
    fn put_into(&self, out: &mut String) {
        match self.0.is_finite() {
            true => out.push_str(&format!("{:.*}", self.1, self.0)),
            false => out.push('–'),
        }
    }
}

/// A truth in two digits that never rounds to certainty.
pub struct Truth(pub f64);

impl Put for Truth {
    fn put_into(&self, out: &mut String) {
        escape(&truth(self.0), out);
    }
}

/// A truth in two digits that never rounds to certainty.
pub fn truth(value: f64) -> String {
    match format!("{value:.2}").as_str() {
        "1.00" if value < 1.0 => "> 0.99".into(),
        "0.00" if value > 0.0 => "< 0.01".into(),
        text => text.into(),
    }
}

/// 1234567 as `1,234,567`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 rule`, `57 rules`.
pub fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// An address on this server: relative, so that it holds below any path.
pub fn url(page: &str, query: &[(&str, &str)]) -> String {
    if query.is_empty() {
        return page.to_string();
    }
    let start = format!("{page}?");
    let length = start.len();
    form_urlencoded::Serializer::for_suffix(start, length).extend_pairs(query).finish()
}

fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\0' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_users_becomes_markup() {
        let name = "<script>alert(\"1\")</script>\u{202e}";
        let html = Html::of("<p title=\"{}\">{}</p>", &[&name, &Name(name)]).into_string();
        assert_eq!(html.matches('<').count(), 5, "{html}");
        assert!(html.contains("⟨U+202E⟩") && !html.contains('\u{202e}'), "{html}");
        assert_eq!(
            Html::of("{} {}", &[&1234567usize, &Html::of("<b>{}</b>", &[&"a&b"])]).into_string(),
            "1,234,567 <b>a&amp;b</b>"
        );
        let long = "x".repeat(10_000);
        assert!(Html::of("{}", &[&Name(&long)]).into_string().len() < 300);
    }

    #[test]
    fn addresses_are_relative_and_encoded() {
        assert_eq!(url("entity", &[("name", "/m/0&a=b #")]), "entity?name=%2Fm%2F0%26a%3Db+%23");
        assert_eq!(url("rules", &[]), "rules");
        assert_eq!([truth(0.9999), truth(1.0), truth(0.001), truth(0.456)], ["> 0.99", "1.00", "< 0.01", "0.46"]);
    }
}
