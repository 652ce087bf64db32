//! Rules in words, for people.

use ruge_kg::{Dataset, EntityId, Names, RelationId};

use crate::atom::{Atom, Term};
use crate::io::{LOGIC, RuleFormat, RuleReadOptions, letter, natural, parse_rules, show_text};
use crate::rule::Rule;

/// Whether all names of a rule are in `names`: a rule file may use relations that the data do not have.
pub fn is_sayable(rule: &Rule, names: &Names) -> bool {
    let known = |term: Term| match term {
        Term::Variable(_) => true,
        Term::Constant(entity) => entity.index() < names.entities.len(),
    };
    let is_known =
        |atom: &Atom| atom.relation.index() < names.relations.len() && known(atom.subject) && known(atom.object);
    rule.premise.iter().chain(&rule.negated).chain([&rule.conclusion]).all(is_known)
}

/// `born_in(x,y) ∧ part_of(y,z) ⇒ nationality(x,z)`. The text form's reader accepts it.
pub fn formula(rule: &Rule, names: &Names) -> String {
    show_text(rule, names, &LOGIC)
}

/// `if x born_in y and y part_of z then x nationality z`
pub fn sentence(rule: &Rule, names: &Names) -> String {
    said(rule, |id| names.entities.name(id).to_string(), |id| names.relations.name(id).to_string())
}

/// The same for people who read the labels of the data: `if x capital y …` where the file says `P36`. IRIs are short. A label that
/// two relations share stands with the name, as everywhere.
pub fn told(rule: &Rule, data: &Dataset) -> String {
    let relation = |id: RelationId| match data.labels().relation(id) {
        Some(label) if data.labels().relations_called(label) == [id] => label.to_string(),
        _ => data.called_relation(id),
    };
    said(rule, |id| data.called_entity(id), relation)
}

/// A [`formula`] as [`told`] tells it; nothing where it is none about these data.
pub fn told_formula(formula: &str, data: &Dataset) -> Option<String> {
    // Names of its own, so that a formula about other data adds nothing to these.
    let mut names = Names::default();
    let options = RuleReadOptions { format: Some(RuleFormat::Text), ..RuleReadOptions::default() };
    let file = parse_rules(formula, &options, &mut names).ok()?;
    let [record] = &file.rules[..] else { return None };
    let relation = |id: RelationId| data.names().relations.id(names.relations.name(id));
    let entity = |id: EntityId| data.names().entities.id(names.entities.name(id));
    let term = |term: Term| match term {
        Term::Constant(id) => entity(id).map(Term::Constant),
        variable => Some(variable),
    };
    let atom = |atom: &Atom| {
        let (subject, object) = (term(atom.subject)?, term(atom.object)?);
        Some(Atom { relation: relation(atom.relation)?, subject, object })
    };
    let mut rule = record.rule.clone();
    rule.premise = rule.premise.iter().map(atom).collect::<Option<_>>()?;
    rule.negated = rule.negated.iter().map(atom).collect::<Option<_>>()?;
    rule.conclusion = atom(&rule.conclusion)?;
    Some(told(&rule, data))
}

fn said(rule: &Rule, entity: impl Fn(EntityId) -> String, relation: impl Fn(RelationId) -> String) -> String {
    let (rule, order) = natural(rule);
    let term = |term: Term| match term {
        Term::Variable(variable) => letter(order.iter().position(|&v| v == variable).unwrap_or(0)),
        Term::Constant(id) => entity(id),
    };
    let clause = |atom: &Atom| format!("{} {} {}", term(atom.subject), relation(atom.relation), term(atom.object));
    let mut premise: Vec<String> = rule.premise.iter().map(clause).collect();
    premise.extend(rule.negated.iter().map(|atom| format!("not {}", clause(atom))));
    let conclusion = clause(&rule.conclusion);
    if premise.is_empty() {
        return format!("always {conclusion}");
    }
    format!("if {} then {conclusion}", premise.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_aloud() {
        let mut names = Names::default();
        let text = "has_capital(a,b) => capital_of(b,a)\n\
                    part_of(q,r) & born_in(p,q) => nationality(p,r)\n\
                    parent(z,x) & parent(z,y) => sibling(x,y)\n\
                    spouse(y,x) => spouse(x,y)\n\
                    lives_in(x,Rome) => \"is a\"(x,Roman)\n\
                    parent(x,y) & !adopted(y,x) => resembles(y,x)\n";
        let file = parse_rules(text, &RuleReadOptions::default(), &mut names).expect("rules");
        assert_eq!(file.bad, []);
        let said: Vec<String> = file.rules.iter().map(|r| sentence(&r.rule, &names)).collect();
        assert_eq!(
            said,
            [
                "if x has_capital y then y capital_of x",
                "if x born_in y and y part_of z then x nationality z",
                "if x parent y and x parent z then y sibling z",
                "if x spouse y then y spouse x",
                "if x lives_in Rome then x is a Roman",
                "if x parent y and not y adopted x then y resembles x",
            ]
        );
        assert!(file.rules.iter().all(|record| is_sayable(&record.rule, &names)));
        let few = Names { relations: names.relations.clone(), ..Names::default() };
        assert!(!is_sayable(&file.rules[4].rule, &few) && is_sayable(&file.rules[5].rule, &few));
        assert_eq!(formula(&file.rules[1].rule, &names), "born_in(x,y) ∧ part_of(y,z) ⇒ nationality(x,z)");
        assert_eq!(formula(&file.rules[4].rule, &names), "lives_in(x,Rome) ⇒ \"is a\"(x,Roman)");
        assert_eq!(formula(&file.rules[5].rule, &names), "parent(x,y) ∧ ¬adopted(y,x) ⇒ resembles(y,x)");
    }
}
