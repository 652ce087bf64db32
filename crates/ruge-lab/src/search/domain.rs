//! What a leaf may be: one of a list, or a number of a range.
//!
//! Every domain is laid out on [0, 1], so that samplers know nothing of lists, scales and steps: they choose a place, and the
//! domain says which value lies there.

use toml::Value;

use ruge::suggest;

/// What a leaf may be.
#[derive(Clone, PartialEq, Debug)]
pub enum Domain {
    /// One of these.
    Choice {
        /// In the order of the file.
        values: Vec<Value>,
        /// Whether they are numbers that rise: then neighbours are alike.
        ordered: bool,
    },
    /// A number between two others, both among them.
    Range {
        /// The least.
        low: f64,
        /// The most.
        high: f64,
        /// Whether equal factors, and not equal differences, are equally far apart.
        log: bool,
        /// What values differ by, counted from the least.
        step: Option<f64>,
        /// Whether only whole numbers are meant.
        whole: bool,
    },
}

impl Domain {
    /// What an open leaf of a space means; `None` for a leaf that is settled.
    pub fn read(value: &Value) -> Option<Result<Self, String>> {
        match value {
            Value::Array(values) => Some(Self::choice(values)),
            Value::Table(table) if ["low", "high"].iter().any(|key| table.contains_key(*key)) => {
                Some(Self::range(table))
            }
            _ => None,
        }
    }

    fn choice(values: &[Value]) -> Result<Self, String> {
        if values.is_empty() {
            return Err("an empty list has nothing to try".into());
        }
        if let Some(again) = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)) {
            return Err(format!("{} is in the list twice", again.1));
        }
        if !values.iter().all(is_finite) {
            return Err("a list holds finite numbers only".into());
        }
        let inner =
            |value: &Value| value.as_table().is_some_and(|table| table.values().any(|v| Self::read(v).is_some()));
        if values.iter().any(|value| value.is_array() || inner(value)) {
            return Err("a list holds values alone; a list or a range inside it is not searched".into());
        }
        let numbers: Option<Vec<f64>> = values.iter().map(number).collect();
        let ordered = numbers.is_some_and(|numbers| numbers.windows(2).all(|pair| pair[0] < pair[1]));
        Ok(Self::Choice { values: values.to_vec(), ordered })
    }

    fn range(table: &toml::Table) -> Result<Self, String> {
        let keys = ["low", "high", "scale", "step"];
        if let Some(key) = table.keys().find(|key| !keys.contains(&key.as_str())) {
            let hint = suggest::suggestion(key, keys.into_iter());
            return Err(format!("a range has low, high, scale and step, no {key:?}{hint}"));
        }
        let end = |key: &str| match table.get(key).map(number) {
            Some(Some(end)) if end.is_finite() => Ok(end),
            Some(_) => Err(format!("{key} must be a finite number")),
            None => Err(format!("a range needs both low and high; {key} is missing")),
        };
        let (low, high) = (end("low")?, end("high")?);
        if low >= high {
            return Err(format!("low is {low} and high is {high}; low must be less"));
        }
        let log = match table.get("scale").map(|scale| scale.as_str().unwrap_or("")) {
            None | Some("linear") => false,
            Some("log") => true,
            Some(_) => return Err("scale is \"linear\" or \"log\"".into()),
        };
        if log && low <= 0.0 {
            return Err(format!("low is {low}; on a logarithmic scale it must be above 0"));
        }
        let step = table.contains_key("step").then(|| end("step")).transpose()?;
        if step.is_some_and(|step| step <= 0.0 || step > high - low) {
            return Err(format!("step must be above 0 and at most high − low, {}", high - low));
        }
        if log && step.is_some() {
            return Err("a logarithmic scale has no steps; list the values instead, as in [1, 10, 100]".into());
        }
        let whole = ["low", "high", "step"].iter().filter_map(|key| table.get(*key)).all(Value::is_integer);
        Ok(Self::Range { low, high, log, step, whole })
    }

    /// How many values there are; `None` for a continuum.
    pub fn count(&self) -> Option<u64> {
        match *self {
            Self::Choice { ref values, .. } => Some(values.len() as u64),
            Self::Range { low, high, step: Some(step), .. } => {
                Some((((high - low) / step + 1e-9) as u64).saturating_add(1))
            }
            Self::Range { low, high, whole: true, .. } => Some(((high - low) as u64).saturating_add(1)),
            Self::Range { .. } => None,
        }
    }

    /// Every value in order, where they are few enough to be listed (`most`).
    pub fn values(&self, most: u64) -> Option<Vec<Value>> {
        let count = self.count().filter(|count| *count <= most)?;
        match self {
            Self::Choice { values, .. } => Some(values.clone()),
            Self::Range { .. } => Some((0..count).map(|at| self.at(at)).collect()),
        }
    }

    /// The value of a finite range at a place counted from 0.
    fn at(&self, place: u64) -> Value {
        let Self::Range { low, step, whole, .. } = *self else { unreachable!("asked of ranges alone") };
        let value = low + place as f64 * step.unwrap_or(1.0);
        if whole { Value::Integer(value as i64) } else { Value::Float(rounded(value, 10)) }
    }

    /// The value at a place of [0, 1].
    pub fn value(&self, unit: f64) -> Value {
        let unit = unit.clamp(0.0, 1.0);
        match (self, self.count()) {
            (Self::Choice { values, .. }, _) => {
                values[((unit * values.len() as f64) as usize).min(values.len() - 1)].clone()
            }
            (Self::Range { log: false, .. }, Some(count)) => self.at(((unit * count as f64) as u64).min(count - 1)),
            (&Self::Range { low, high, whole: true, .. }, _) => {
                // Half a step beyond both ends, so that the ends come up as often as their neighbours.
                let (least, most) = ((low - 0.5).ln(), (high + 0.5).ln());
                Value::Integer((least + unit * (most - least)).exp().round().clamp(low, high) as i64)
            }
            (&Self::Range { low, high, log, .. }, _) => {
                let value = if log { low * (high / low).powf(unit) } else { low + unit * (high - low) };
                // Four digits are more than any of this is worth, and can be read.
                Value::Float(rounded(value, 4).clamp(low, high))
            }
        }
    }

    /// Where a value lies in [0, 1]; values that come from places lie in the middle of theirs.
    pub fn unit(&self, value: &Value) -> f64 {
        let x = number(value).unwrap_or(0.0);
        let unit = match (self, self.count()) {
            (Self::Choice { values, .. }, _) => {
                let place = values.iter().position(|other| other == value).unwrap_or(0);
                (place as f64 + 0.5) / values.len() as f64
            }
            (&Self::Range { low, log: false, step, .. }, Some(count)) => {
                ((x - low) / step.unwrap_or(1.0) + 0.5) / count as f64
            }
            (&Self::Range { low, high, whole: true, .. }, _) => {
                (x / (low - 0.5)).ln() / ((high + 0.5) / (low - 0.5)).ln()
            }
            (&Self::Range { low, high, log: true, .. }, _) => (x / low).ln() / (high / low).ln(),
            (&Self::Range { low, high, .. }, _) => (x - low) / (high - low),
        };
        unit.clamp(0.0, 1.0)
    }

    /// Some of its values that a spec must be able to take, or the space is wrong: all of a list, both ends of a range.
    pub fn samples(&self) -> Vec<Value> {
        match self {
            Self::Choice { values, .. } => values.clone(),
            Self::Range { .. } => vec![self.value(0.0), self.value(1.0)],
        }
    }

    /// Whether neighbours in [0, 1] are alike.
    pub fn is_ordered(&self) -> bool {
        !matches!(self, Self::Choice { ordered: false, .. })
    }

    /// Whether a plot of it should have a logarithmic axis.
    pub fn is_log(&self) -> bool {
        match self {
            Self::Range { log, .. } => *log,
            // A list such as 0.001, 0.01, 0.1.
            Self::Choice { values, ordered } => {
                let ends = (values.first().and_then(number), values.last().and_then(number));
                matches!(ends, (Some(low), Some(high)) if *ordered && low > 0.0 && high / low >= 20.0)
            }
        }
    }
}

/// A number, whole or not.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(whole) => Some(*whole as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

/// Whether no number in it is infinite or none at all.
fn is_finite(value: &Value) -> bool {
    match value {
        Value::Float(value) => value.is_finite(),
        Value::Array(values) => values.iter().all(is_finite),
        Value::Table(table) => table.values().all(is_finite),
        _ => true,
    }
}

/// To so many significant digits.
fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn domain(text: &str) -> Result<Domain, String> {
        let table: toml::Table = toml::from_str(&format!("x = {text}")).unwrap();
        Domain::read(&table["x"]).expect("open")
    }

    #[test]
    fn values_lie_where_they_should() {
        let log = domain("{ low = 1e-3, high = 10.0, scale = \"log\" }").unwrap();
        assert_eq!((log.value(0.0), log.value(0.5), log.value(1.0)), (0.001.into(), 0.1.into(), 10.0.into()));
        let steps = domain("{ low = 0.1, high = 0.45, step = 0.1 }").unwrap();
        assert_eq!(steps.values(10).unwrap(), [0.1, 0.2, 0.3, 0.4].map(Value::from), "no digits of rounding");
        let whole = domain("{ low = 50, high = 400, step = 50 }").unwrap();
        assert_eq!((whole.count(), whole.value(0.999)), (Some(8), 400.into()));
        let dice = domain("{ low = 1, high = 6 }").unwrap();
        let mut counts = [0; 7];
        (0..6000).for_each(|at| counts[dice.value(f64::from(at) / 6000.0).as_integer().unwrap() as usize] += 1);
        assert_eq!(counts, [0, 1000, 1000, 1000, 1000, 1000, 1000]);
        let powers = domain("{ low = 1, high = 1000, scale = \"log\" }").unwrap();
        assert_eq!((powers.value(0.0), powers.value(1.0)), (1.into(), 1000.into()));
        let vast = domain("{ low = -9223372036854775808, high = 9223372036854775807 }").unwrap();
        assert_eq!((vast.count(), vast.value(0.0)), (Some(u64::MAX), i64::MIN.into()));
        assert!(domain("{ low = 0.0, high = 1e300, step = 1e-300 }").unwrap().value(1.0).is_float());
        assert!(domain("[1, 10, 100]").unwrap().is_log() && domain("[1, 2, 3]").unwrap().is_ordered());
        assert!(!domain("[3, 2]").unwrap().is_ordered() && !domain("[\"a\", \"b\"]").unwrap().is_ordered());
    }

    #[test]
    fn odd_domains_are_told() {
        for (text, say) in [
            ("[]", "empty list"),
            ("[1, 2, 1]", "twice"),
            ("[0.1, nan]", "finite"),
            ("[{ kind = \"l2\", weight = inf }]", "finite"),
            ("[[1], [2]]", "inside it"),
            ("[{ kind = \"l2\", weight = [1, 2] }]", "inside it"),
            ("{ low = 1 }", "high is missing"),
            ("{ low = 1, high = 1 }", "must be less"),
            ("{ low = nan, high = 1 }", "finite"),
            ("{ low = \"a\", high = 1 }", "finite"),
            ("{ low = 0, high = 1, scale = \"log\" }", "above 0"),
            ("{ low = 1, high = 2, scale = \"cubic\" }", "\"linear\" or \"log\""),
            ("{ low = 1, high = 2, step = 5 }", "at most"),
            ("{ low = 1, high = 9, step = 2, scale = \"log\" }", "list the values"),
            ("{ low = 1, high = 9, stepp = 2 }", "did you mean \"step\""),
        ] {
            let told = domain(text).unwrap_err();
            assert!(told.contains(say), "{text}: {told}");
        }
    }

    proptest! {
        /// A value that came from a place is found there again, and no value is outside.
        #[test]
        fn places_and_values_agree(unit in 0.0..=1.0f64, low in 1i64..50, more in 1i64..500, kind in 0..5) {
            let text = match kind {
                0 => format!("{{ low = {low}, high = {} }}", low + more),
                1 => format!("{{ low = {low}, high = {}, scale = \"log\" }}", low + more),
                2 => format!("{{ low = {low}.0, high = {}.5 }}", low + more),
                3 => format!("{{ low = {low}e-3, high = {}.0, scale = \"log\" }}", low + more),
                _ => format!("{{ low = {low}.0, high = {}.5, step = 0.25 }}", low + more),
            };
            let domain = domain(&text).unwrap();
            let value = domain.value(unit);
            prop_assert_eq!(domain.value(domain.unit(&value)), value.clone());
            let x = number(&value).unwrap();
            let least = if kind == 3 { low as f64 * 1e-3 } else { low as f64 };
            prop_assert!(x >= least - 1e-12 && x <= (low + more) as f64 + 0.5, "{}", x);
            if domain.count().is_none() {
                prop_assert!((domain.unit(&value) - unit).abs() < 1e-2);
            }
        }
    }
}
