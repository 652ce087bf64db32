//! What a request asks: parameters by name, or a JSON object. Both are read the same way, and what nobody knows is refused.

use axum::http::StatusCode;
use serde_json::{Map, Value};

use crate::problem::Problem;

/// Levels that JSON may be nested.
const DEPTH: usize = 32;

/// The parameters of a request.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    fields: Map<String, Value>,
}

impl Ask {
    /// Of parameters that were read elsewhere.
    pub fn of(fields: Map<String, Value>) -> Self {
        Self { fields }
    }

    /// From the part of an address behind `?`; only these names are known.
    pub fn query(text: &str, known: &[&str]) -> Result<Self, Problem> {
        let mut fields = Map::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            check(&name, known)?;
            if fields.insert(name.to_string(), Value::String(value.into_owned())).is_some() {
                return Err(Problem::bad(format!("the parameter {name:?} is given twice")));
            }
        }
        Ok(Self { fields })
    }

    /// The same without what is empty: fields of a form that nobody filled in.
    #[must_use]
    pub fn filled(mut self) -> Self {
        self.fields.retain(|_, value| value.as_str() != Some(""));
        self
    }

    /// From a JSON object; only these names are known.
    pub fn json(bytes: &[u8], known: &[&str]) -> Result<Self, Problem> {
        if depth(bytes) > DEPTH {
            return Err(Problem::bad("the JSON is nested too deeply").limit(DEPTH));
        }
        let value: Value = serde_json::from_slice(bytes).map_err(|error| Problem::bad(format!("not JSON: {error}")))?;
        let Value::Object(fields) = value else { return Err(Problem::bad("the body is not a JSON object")) };
        fields.keys().try_for_each(|name| check(name, known))?;
        Ok(Self { fields })
    }

    /// A text that may be missing.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Problem::bad(format!("{name:?} is not a string"))),
        }
    }

    /// A text that must be there.
    pub fn needed(&self, name: &str) -> Result<&str, Problem> {
        self.text(name)?.ok_or_else(|| Problem::bad(format!("the parameter {name:?} is missing")))
    }

    /// A whole number up to `most`.
    pub fn count(&self, name: &str, default: usize, most: usize) -> Result<usize, Problem> {
        let number = match self.fields.get(name) {
            None | Some(Value::Null) => return Ok(default),
            // Whole numbers may have any length, and a fraction of nothing.
            Some(Value::String(text)) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(text.parse().unwrap_or(usize::MAX))
            }
            Some(Value::String(_)) => None,
            Some(value) => value.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0).map(|number| {
                let exactly = value.as_u64().and_then(|number| usize::try_from(number).ok());
                exactly.unwrap_or(number as usize)
            }),
        };
        match number {
            Some(number) if number <= most => Ok(number),
            Some(_) => Err(Problem::refused(format!("{name:?} may be {most} at most")).limit(most)),
            None => Err(Problem::bad(format!("{name:?} is not a whole number"))),
        }
    }

    /// How many of a list are wanted.
    pub fn limit(&self, default: usize, most: usize) -> Result<usize, Problem> {
        match self.count("limit", default, most)? {
            0 => Err(Problem::refused("\"limit\" must be at least 1")),
            limit => Ok(limit),
        }
    }

    /// A share between 0 and 1.
    pub fn share(&self, name: &str) -> Result<f64, Problem> {
        let number = match self.fields.get(name) {
            None | Some(Value::Null) => return Ok(0.0),
            Some(Value::String(text)) => text.parse().ok(),
            Some(value) => value.as_f64(),
        };
        let share = number.filter(|number: &f64| (0.0..=1.0).contains(number));
        share.ok_or_else(|| Problem::bad(format!("{name:?} is not a number between 0 and 1")))
    }

    /// Yes or no.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, Problem> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if matches!(text.as_str(), "true" | "1") => Ok(true),
            Some(Value::String(text)) if matches!(text.as_str(), "false" | "0") => Ok(false),
            Some(_) => Err(Problem::bad(format!("{name:?} is neither true nor false"))),
        }
    }

    /// A list, at most so long.
    pub fn list(&self, name: &str, most: usize) -> Result<Option<&[Value]>, Problem> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(list)) if list.len() <= most => Ok(Some(list)),
            Some(Value::Array(_)) => {
                Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "too many", format!("{name:?} is too long"))
                    .limit(most))
            }
            Some(_) => Err(Problem::bad(format!("{name:?} is not a list"))),
        }
    }
}

fn check(name: &str, known: &[&str]) -> Result<(), Problem> {
    if known.contains(&name) {
        return Ok(());
    }
    Err(Problem::bad(format!("there is no parameter {name:?}")).remedy(format!("known here: {}", known.join(", "))))
}

/// How deep brackets are nested, without building anything.
fn depth(bytes: &[u8]) -> usize {
    let (mut deep, mut deepest, mut in_text, mut escaped) = (0usize, 0, false, false);
    for &byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                deep += 1;
                deepest = deepest.max(deep);
            }
            b']' | b'}' if !in_text => deep = deep.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
