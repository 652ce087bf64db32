//! Settings by name, and the trainer that came after the paper.

use ruge_embed::softmax::StaticLabel;
use ruge_embed::{Answers, Cap, Init, Softmax, Start, UpdateRule};

use super::{DeviceName, ExamplesSpec, MinePreset, ModelName, SoftmaxSpec, Spec, Training, Weigh};
use crate::error::{Result, RugeError};

/// A complete setting by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preset {
    /// RUGE as in the paper, with rules mined by the recipe of its published file.
    RugePaper,
    /// The same trainer without rules.
    ComplexPaper,
    /// ComplEx by softmax over all entities, with N3 and reciprocal relations.
    ComplexN3,
    /// The same with the conclusions of rules as weighted examples.
    ComplexN3Rules,
    /// DistMult by the same trainer.
    DistmultN3,
    /// TransE with self-adversarial negatives.
    Transe,
    /// RotatE with self-adversarial negatives.
    Rotate,
}

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 7] = [
        Preset::RugePaper,
        Preset::ComplexPaper,
        Preset::ComplexN3,
        Preset::ComplexN3Rules,
        Preset::DistmultN3,
        Preset::Transe,
        Preset::Rotate,
    ];

    /// As typed.
    pub fn name(self) -> &'static str {
        match self {
            Preset::RugePaper => "ruge-paper",
            Preset::ComplexPaper => "complex-paper",
            Preset::ComplexN3 => "complex-n3",
            Preset::ComplexN3Rules => "complex-n3-rules",
            Preset::DistmultN3 => "distmult-n3",
            Preset::Transe => "transe",
            Preset::Rotate => "rotate",
        }
    }

    /// What it is, in a line.
    pub fn words(self) -> &'static str {
        match self {
            Preset::RugePaper => "RUGE as in the paper, with rules mined by the recipe of its published file",
            Preset::ComplexPaper => "The same trainer without rules",
            Preset::ComplexN3 => "ComplEx by softmax over all entities, with N3 and reciprocal relations",
            Preset::ComplexN3Rules => "The same with the conclusions of mined rules as weighted examples",
            Preset::DistmultN3 => "DistMult by softmax over all entities, with N3 and reciprocal relations",
            Preset::Transe => "TransE with 200 self-adversarial negatives, as it is trained today",
            Preset::Rotate => "RotatE with 256 self-adversarial negatives, close to its authors' setting on FB15k-237",
        }
    }

    /// The setting.
    pub fn spec(self) -> Result<Spec> {
        let mut spec = match self {
            Preset::RugePaper => Spec::paper(ModelName::ComplEx, "ruge")?,
            Preset::ComplexPaper | Preset::ComplexN3 => Spec::paper(ModelName::ComplEx, "none")?,
            Preset::ComplexN3Rules => Spec::paper(ModelName::ComplEx, "examples")?,
            Preset::DistmultN3 => Spec::paper(ModelName::DistMult, "none")?,
            Preset::Transe => Spec::paper(ModelName::TransE, "none")?,
            Preset::Rotate => Spec::paper(ModelName::RotatE, "none")?,
        };
        match self {
            Preset::RugePaper => spec.rules.mine = MinePreset::RugeFb15k,
            Preset::ComplexPaper => {}
            Preset::ComplexN3 | Preset::DistmultN3 => spec.set_softmax(),
            Preset::ComplexN3Rules => {
                spec.set_softmax();
                spec.set_examples();
            }
            Preset::Transe => spec.set_transe(),
            Preset::Rotate => spec.set_rotate(),
        }
        Ok(spec)
    }
}

impl Spec {
    /// Softmax with N3 and reciprocal relations as its authors set it (Lacroix et al. 2018). Start values are small:
    /// large ones make the softmax of the first steps almost hard.
    pub fn set_softmax(&mut self) {
        let examples = self.softmax_mut().and_then(|training| training.examples);
        self.training = Training::Softmax(SoftmaxSpec { softmax: Softmax::default(), examples });
        // HolE is scored in another basis than its parameters', and has none.
        self.model.reciprocal = self.model.name != ModelName::HolE;
        let start = Start::Normal { deviation: 1e-3, unit: false };
        self.init = Init { entities: start, relations: start, shared: false };
        self.optimizer.rule = UpdateRule::AdaGrad { epsilon: 1e-10, inside: false };
        (self.optimizer.entity_rate, self.optimizer.relation_rate) = (0.1, 0.1);
        self.optimizer.cap = Cap::None;
        self.schedule.epochs = 100;
        self.schedule.validate_every = 5;
    }

    /// Conclusions as examples where nothing is known of the rules: each counts for what validation says it is worth, and those that
    /// say the same count once. Confidence overstates most of them, and on graphs without a leak such examples harm.
    pub fn set_examples(&mut self) {
        let examples = ExamplesSpec { weight: 0.3, least: 0.0, label: StaticLabel::Max };
        if let Some(training) = self.softmax_mut() {
            training.examples = Some(examples);
        }
        self.rules.weigh = Weigh::Validated;
    }

    pub(super) fn check_softmax(&self, SoftmaxSpec { softmax, examples }: &SoftmaxSpec) -> Result<()> {
        let refuse = |message: String| Err(RugeError::spec(message));
        let on_card = self.device == DeviceName::Cuda;
        if self.model.name == ModelName::HolE && (softmax.relations > 0.0 || on_card && softmax.sample > 0) {
            return refuse(
                "hole by softmax supports neither questions for relations nor, on a GPU, a sample of candidates; use complex, which is hole in another basis"
                    .into(),
            );
        }
        if let Some(ExamplesSpec { weight, least, .. }) = examples
            && !(weight.is_finite() && *weight >= 0.0 && (0.0..=1.0).contains(least))
        {
            return refuse(format!(
                "guidance.weight must be finite and not negative, not {weight}; guidance.least lies in [0, 1]"
            ));
        }
        let several = softmax.answers == Answers::All;
        if softmax.sample > 0 && !softmax.is_plain() {
            let leaves = "softmax.smoothing, softmax.loss and softmax.answers";
            return refuse(format!("{leaves} need all entities; remove softmax.sample"));
        }
        if several && softmax.relations > 0.0 {
            return refuse(
                "softmax.relations asks for a head and a tail, and softmax.answers = \"all\" has many".into(),
            );
        }
        for (leaf, share) in [("dropout", softmax.dropout), ("smoothing", softmax.smoothing)] {
            if !(0.0..1.0).contains(&share) {
                return refuse(format!("softmax.{leaf} is a share from 0 to below 1, not {share}"));
            }
        }
        if softmax.batch == 0 {
            return refuse("softmax.batch must be at least 1".into());
        }
        for (leaf, weight) in [("n3", softmax.n3), ("l2", softmax.l2), ("relations", softmax.relations)] {
            if !(weight.is_finite() && weight >= 0.0) {
                return refuse(format!("softmax.{leaf} must be finite and not negative, not {weight}"));
            }
        }
        if matches!(self.optimizer.cap, Cap::Matrix { .. }) {
            return refuse("softmax training has no projection and no cap on matrices".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_whole() {
        for preset in Preset::ALL {
            let spec = preset.spec().unwrap();
            assert!(spec.check().is_ok(), "{}", preset.name());
            assert_eq!(Spec::from_toml(&spec.to_toml(), "x").unwrap(), spec, "{}", preset.name());
        }
    }

    #[test]
    fn a_section_is_enough() {
        let spec = Spec::from_toml("[softmax]\nn3 = 0.05\n", "x").unwrap();
        assert_eq!(spec.softmax(), Some(&Softmax { n3: 0.05, ..Softmax::default() }));
        assert!(spec.model.reciprocal && spec.check().is_ok());
        let refused = |text: &str| Spec::from_toml(text, "x").and_then(|spec| spec.check()).is_err();
        assert!(refused("[softmax]\n[model]\nname = \"transe\"\n"));
        let hole = |more: &str| format!("device = \"cpu\"\n[softmax]\n{more}\n[model]\nname = \"hole\"\n");
        assert!(!Spec::from_toml(&hole(""), "x").unwrap().model.reciprocal);
        assert!(!refused(&hole("")) && refused(&hole("relations = 1.0")) && !refused(&hole("").replace("cpu", "cuda")));
        assert!(!refused(&hole("sample = 50")) && refused(&hole("sample = 50").replace("cpu", "cuda")));
        assert!(refused(&format!("{}reciprocal = true\n", hole(""))));
        assert!(refused("[softmax]\n[guidance]\nkind = \"ruge\"\n"));
        assert!(refused("[softmax]\nn3 = nan\n") && refused("[softmax]\nbatch = 0\n"));
        assert!(refused("[model]\nreciprocal = true\n"));
        assert!(refused("[softmax]\ndropout = 1.0\n") && refused("[softmax]\nsmoothing = -0.1\n"));
        assert!(refused("[softmax]\nl2 = -1.0\n") && refused("[softmax]\nsample = 9\nloss = \"bce\"\n"));
        assert!(refused("[softmax]\nanswers = \"all\"\nrelations = 0.5\n"));
        assert!(refused("[softmax]\nanswers = \"all\"\nsample = 100\n"));
        let whole = "[softmax]\nanswers = \"all\"\nloss = \"bce\"\nsmoothing = 0.1\ndropout = 0.2\nl2 = 0.01\n";
        assert!(!refused(whole) && !refused("[softmax]\nsample = 100\ndropout = 0.2\nl2 = 0.01\n"));
        let spec = Spec::from_toml(whole, "x").unwrap();
        assert_eq!(Spec::from_toml(&spec.to_toml(), "x").unwrap(), spec);
        assert!(!refused("[guidance]\nkind = \"examples\"\nweight = 1.0\n"));
    }
}
