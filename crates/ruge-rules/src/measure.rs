//! AMIE's measures of a rule, as exact counts.
//!
//! All counts are over *distinct pairs* (x, y), not over groundings; a body holds for (x, y) if some binding of the
//! inner variables makes it true.

use serde::{Deserialize, Serialize};

/// Which argument of the conclusion the PCA keeps: the one on which the head relation is more functional.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// `∃y' h(x, y')`
    Subject,
    /// `∃x' h(x', y)`
    Object,
}

/// The counts of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct Counts {
    /// |{(x,y): body and head}|
    pub support: u64,
    /// |{(x,y): body}|
    pub body: u64,
    /// |{(x,y): body, and x is the subject of some head fact}|
    pub pca_subject: u64,
    /// |{(x,y): body, and y is the object of some head fact}|
    pub pca_object: u64,
    /// Facts of the head relation (of `h(·,c)` for a rule with a constant in its head).
    pub head: u64,
    /// The side used for the PCA confidence.
    pub side: Side,
}

impl Counts {
    /// The PCA body size on that side.
    pub fn pca_body(&self) -> u64 {
        match self.side {
            Side::Subject => self.pca_subject,
            Side::Object => self.pca_object,
        }
    }

    /// support / facts of the head.
    pub fn head_coverage(&self) -> f64 {
        ratio(self.support, self.head)
    }

    /// support / body size.
    pub fn standard(&self) -> f64 {
        ratio(self.support, self.body)
    }

    /// support / PCA body size on the functional side.
    pub fn pca(&self) -> f64 {
        ratio(self.support, self.pca_body())
    }

    /// The PCA confidence on the given side.
    pub fn pca_on(&self, side: Side) -> f64 {
        Counts { side, ..*self }.pca()
    }

    /// support / (body size + 5): used for ranking by AnyBURL and related tools.
    pub fn smoothed(&self) -> f64 {
        self.support as f64 / (self.body as f64 + 5.0)
    }

    /// The lower bound of Wilson's 95 % interval for the standard confidence.
    pub fn wilson(&self) -> f64 {
        wilson_lower(self.support, self.body)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The lower bound of Wilson's 95 % score interval; 0 without trials.
pub fn wilson_lower(successes: u64, trials: u64) -> f64 {
    if trials == 0 {
        return 0.0;
    }
    const Z: f64 = 1.959_963_984_540_054;
    let n = trials as f64;
    let p = successes as f64 / n;
    let centre = p + Z * Z / (2.0 * n);
    let margin = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((centre - margin) / (1.0 + Z * Z / n)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_counted_by_hand() {
        let counts = Counts { support: 8, body: 20, pca_subject: 10, pca_object: 16, head: 32, side: Side::Object };
        assert_eq!(counts.head_coverage(), 0.25);
        assert_eq!(counts.standard(), 0.4);
        assert_eq!(counts.pca(), 0.5);
        assert_eq!(counts.pca_on(Side::Subject), 0.8);
        assert_eq!(counts.smoothed(), 8.0 / 25.0);
        assert!((counts.wilson() - 0.218_8).abs() < 1e-4, "{}", counts.wilson());
        assert_eq!(wilson_lower(0, 0), 0.0);
    }
}
