//! The evidence graph of a prediction, in the style of the page.

use ruge::explain;
use ruge::explain::drawing::{Drawing, Kind};

use crate::html::decimal;
use crate::report::{Fact, Prediction};

/// Draws the graph. `None` where no rule fires: an arrow alone says nothing.
pub fn draw(prediction: &Prediction) -> Option<String> {
    let fires = prediction.rules.iter().any(|rule| !rule.premises.is_empty());
    let mut drawing = Drawing::of(named(&prediction.fact), "");
    for (at, rule) in prediction.rules.iter().enumerate() {
        let facts: Vec<explain::Fact> = rule.premises.iter().map(named).collect();
        let kind = |premise: &Fact| if premise.negated { Kind::Absent } else { Kind::Premise };
        let premises: Vec<_> = facts.iter().zip(rule.premises.iter().map(kind)).collect();
        if !premises.is_empty() {
            drawing.ground(&premises, &format!("rule {}, {}", at + 1, decimal(rule.confidence)));
        }
    }
    fires.then(|| drawing.svg_for_page())
}

fn named(fact: &Fact) -> explain::Fact {
    explain::Fact { head: fact.head.clone(), relation: fact.relation.clone(), tail: fact.tail.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Firing, Standing};

    #[test]
    fn what_a_rule_starts_from_is_drawn_and_nothing_else() {
        let of = |premises: Vec<Fact>| Prediction {
            fact: Fact::new("Ann", "from", "Austria"),
            standing: Standing::New,
            truth: None,
            truth_unguided: None,
            rank: None,
            rank_unguided: None,
            rules: vec![Firing { words: "if …".into(), confidence: 0.9, push: None, premises }],
            similar: Vec::new(),
            against: Vec::new(),
            parts: Vec::new(),
            closing: String::new(),
            note: None,
        };
        let svg = draw(&of(vec![Fact::new("Ann", "born_in", "Graz"), Fact::new("Graz", "part_of", "Austria")]));
        let svg = svg.expect("a rule fires");
        assert_eq!((svg.matches("<rect").count(), svg.matches("<polygon").count()), (3, 3), "{svg}");
        assert!(svg.contains("rule 1, 0.9") && !svg.contains("<style>"), "{svg}");
        assert!(draw(&of(Vec::new())).is_none());
    }
}
