//! Eq. (9) for one triple: what its groundings do to its soft label.

use ruge_embed::TNorm;
use ruge_kg::Triple;

use super::SoftLabel;
use crate::engine::Engine;
use crate::spec::GuidanceSpec;

/// C, t-norm, and whether training used them with these rules.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub slackness: f32,
    pub t_norm: TNorm,
    pub in_training: bool,
}

impl Setting {
    pub fn of(engine: &Engine, own: bool) -> Self {
        match engine.spec().guidance() {
            // Rules that a model ranks with came after its training.
            GuidanceSpec::Ruge { slackness, t_norm, .. } => {
                Self { slackness, t_norm, in_training: own && engine.ranking().is_none() }
            }
            // The paper's.
            _ => Self { slackness: 0.01, t_norm: TNorm::Product, in_training: false },
        }
    }
}

pub(super) struct Fired {
    pub rule: usize,
    /// Premises, then negated premises, of each.
    pub groundings: Vec<Vec<Triple>>,
}

pub(super) struct Weighed {
    /// η of all premises, one grounding after the other.
    pub scores: Vec<f32>,
    pub groundings: Vec<WeighedGrounding>,
}

pub(super) struct WeighedGrounding {
    /// Where its premises begin in `scores`.
    pub start: usize,
    /// π of the premises.
    pub truth: f32,
    pub confidence: f32,
    /// False where another rule gave the same premises before.
    pub counts: bool,
    pub push: f32,
}

impl Weighed {
    /// (π, λ) of what counts, by falling truth, as `soft_label` takes them, and the places they came from.
    fn supports(&self) -> (Vec<(f32, f32)>, Vec<usize>) {
        let mut places: Vec<usize> = (0..self.groundings.len()).filter(|&at| self.groundings[at].counts).collect();
        places.sort_by(|&a, &b| self.groundings[b].truth.total_cmp(&self.groundings[a].truth));
        let pair = |&at: &usize| (self.groundings[at].truth, self.groundings[at].confidence);
        (places.iter().map(pair).collect(), places)
    }

    pub fn push(&mut self, conclusion: f32, setting: Setting) {
        let (supports, places) = self.supports();
        let mut label = conclusion;
        for (count, &at) in places.iter().enumerate() {
            let (truth, confidence) = supports[count];
            let push = match setting.t_norm {
                TNorm::Product => setting.slackness * confidence * truth,
                TNorm::Lukasiewicz | TNorm::Godel => {
                    let next = setting.t_norm.soft_label(conclusion, &supports[..=count], setting.slackness);
                    next - std::mem::replace(&mut label, next)
                }
            };
            self.groundings[at].push = push;
        }
    }

    pub fn soft_label(&self, before: f32, setting: Setting) -> SoftLabel {
        let (supports, _) = self.supports();
        let Setting { slackness, t_norm, in_training } = setting;
        let after = t_norm.soft_label(before, &supports, slackness);
        SoftLabel { before, after, slackness, t_norm, groundings: supports.len(), clipped: after >= 1.0, in_training }
    }
}
