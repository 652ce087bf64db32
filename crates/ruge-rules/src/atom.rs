//! Atoms: a relation between two terms, each a variable or an entity.

use ruge_kg::{EntityId, RelationId};
use serde::{Deserialize, Serialize};

/// A variable of a rule. `X` and `Y` are the subject and object of the conclusion, the others are inner variables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Variable(pub u8);

impl Variable {
    /// The conclusion's subject, if it is a variable.
    pub const X: Variable = Variable(0);
    /// The conclusion's object, if it is a variable.
    pub const Y: Variable = Variable(1);
    /// The first inner variable.
    pub const Z: Variable = Variable(2);

    /// The position in an array of bindings.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// `x`, `y`, `z`, then `z1`, `z2`, …
    pub fn name(self) -> String {
        match self.0 {
            0 => "x".into(),
            1 => "y".into(),
            2 => "z".into(),
            n => format!("z{}", n - 2),
        }
    }
}

/// A term: one argument of an atom.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Term {
    /// A variable.
    Variable(Variable),
    /// An entity.
    Constant(EntityId),
}

impl Term {
    /// The variable, if it is one.
    pub fn variable(self) -> Option<Variable> {
        match self {
            Term::Variable(variable) => Some(variable),
            Term::Constant(_) => None,
        }
    }
}

impl From<Variable> for Term {
    fn from(variable: Variable) -> Self {
        Term::Variable(variable)
    }
}

impl From<EntityId> for Term {
    fn from(entity: EntityId) -> Self {
        Term::Constant(entity)
    }
}

/// `relation(subject, object)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Atom {
    /// The relation.
    pub relation: RelationId,
    /// The first argument.
    pub subject: Term,
    /// The second argument.
    pub object: Term,
}

impl Atom {
    /// An atom over variables and entities.
    pub fn new(relation: RelationId, subject: impl Into<Term>, object: impl Into<Term>) -> Self {
        Self { relation, subject: subject.into(), object: object.into() }
    }

    /// Both arguments.
    pub fn terms(self) -> [Term; 2] {
        [self.subject, self.object]
    }

    /// Its variables, first argument first.
    pub fn variables(self) -> impl Iterator<Item = Variable> {
        self.terms().into_iter().filter_map(Term::variable)
    }
}
