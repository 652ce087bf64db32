//! From what somebody asks for to a [`Spec`]: a named set of settings, a TOML text laid over it, single settings over both.
//!
//! Every edge that trains asks here, so that a setting of one name means the same in all of them and is refused for the same
//! reasons. What a command does where nothing is said (the paper's setting, or one sized to the data) it hands in.

use std::path::Path;

use ruge_embed::{Loss, Penalty, TNorm};
use ruge_rules::rank::evidence::Features;
use toml::Table;

use super::file::SpecFile;
use super::place::{line_of, table_of};
use super::{DeviceName, GuidanceSpec, MinePreset, ModelName, Norm, Preset, RankingRules, Spec};
use crate::error::{Result, RugeError};

/// What somebody asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// A named set of settings, instead of the usual ones.
    pub preset: Option<Preset>,
    /// Leaves laid over it.
    pub text: Option<SpecText>,
    /// Settings laid over both.
    pub settings: Overrides,
}

/// A spec as TOML, whole or in part.
#[derive(Clone, Debug, PartialEq)]
pub struct SpecText {
    /// How it is called in complaints.
    pub name: String,
    /// TOML.
    pub text: String,
    /// Whether it is all of the file `name`, so that lines can be told.
    pub is_file: bool,
}

/// Settings by names of their own. They speak of what a user thinks of: one may change several leaves of a spec, and where the model,
/// the guidance or the trainer has no place for one, it is refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// What stands before the name of a setting when it is told: `--` for flags.
    pub mark: &'static str,
    /// Seed of every draw.
    pub seed: Option<u64>,
    /// Where it computes.
    pub device: Option<DeviceName>,
    /// The scoring function.
    pub model: Option<ModelName>,
    /// The guidance, by name.
    pub guidance: Option<String>,
    /// A rule file. Nothing is mined then.
    pub rules: Option<String>,
    /// How rules are mined.
    pub mine: Option<MinePreset>,
    /// Least confidence of a rule, as mined or read.
    pub min_conf: Option<f64>,
    /// Least PCA confidence of a mined rule.
    pub min_pca: Option<f64>,
    /// Least head coverage of a mined rule.
    pub min_hc: Option<f64>,
    /// Least standard confidence of a mined rule.
    pub min_std: Option<f64>,
    /// Least support of a mined rule.
    pub min_support: Option<u64>,
    /// Most conclusions of all mined rules, per training triple.
    pub max_conclusions: Option<f64>,
    /// Rules that rank in addition to the model: auto, none, or a file.
    pub ranking_rules: Option<String>,
    /// Evidence that may count.
    pub evidence: Option<Features>,
    /// Most atoms in the premise of a mined rule.
    pub max_body: Option<usize>,
    /// Dimension.
    pub dim: Option<usize>,
    /// TransE's distance.
    pub norm: Option<Norm>,
    /// Negatives per positive.
    pub negatives: Option<usize>,
    /// Batches of an epoch.
    pub batches: Option<usize>,
    /// Gradient steps on a batch.
    pub inner_steps: Option<usize>,
    /// Questions of a softmax batch, or positives of a batch where a spec counts them.
    pub batch: Option<usize>,
    /// Candidates of a softmax batch; 0 for all.
    pub sample: Option<usize>,
    /// Weight of N3.
    pub n3: Option<f32>,
    /// Weight of L2; 0 for none.
    pub l2: Option<f32>,
    /// Learning rate of entities and relations.
    pub rate: Option<f32>,
    /// Margin of a ranking loss.
    pub margin: Option<f32>,
    /// C of the guidance `ruge`.
    pub slackness: Option<f32>,
    /// T-norm of the guidance `ruge`.
    pub t_norm: Option<TNorm>,
    /// What a conclusion weighs as an example.
    pub weight: Option<f32>,
    /// Most relations in a path of PTransE.
    pub path_length: Option<usize>,
    /// Candidates that PTransE ranks again.
    pub rerank: Option<usize>,
    /// What the confidence of PTransE's longest paths must exceed.
    pub confidence_cut_off: Option<f64>,
    /// Most epochs.
    pub epochs: Option<u64>,
    /// Epochs between validations; 0 for none.
    pub validate_every: Option<u64>,
    /// Validations without a better one after which a run ends.
    ///
    /// Rates fall before a run ends or not at all: a [`Plateau`](ruge_embed::Plateau) of a preset or of a usual setting is brought
    /// forward, or dropped where there is no time for it. One that a text asks for stays, and what contradicts it is refused.
    pub patience: Option<u64>,
}

/// What is said about the system, by text or setting: it decides which setting the rest is laid over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Base {
    /// The scoring function.
    pub model: Option<ModelName>,
    /// The guidance.
    pub guidance: Option<String>,
    /// Where it computes.
    pub device: Option<DeviceName>,
    /// Whether the text trains by softmax.
    pub softmax: bool,
    /// Whether the text names a rule file.
    pub rule_file: bool,
    /// Whether the text says when rates fall.
    pub plateau: bool,
}

impl Base {
    /// Of a table read from `name`.
    fn of(table: &Table, name: &str) -> Result<Self> {
        let leaf = |section: &str, key: &str| table.get(section).and_then(|section| section.get(key)?.as_str());
        let of_file = |error: RugeError| RugeError::spec(format!("{name}: {error}"));
        let guidance = leaf("guidance", "kind");
        guidance.map(GuidanceSpec::named).transpose().map_err(of_file)?;
        Ok(Self {
            model: leaf("model", "name").map(ModelName::named).transpose().map_err(of_file)?,
            guidance: guidance.map(str::to_string),
            // Another word is told with its place when all of it is read.
            device: table.get("device").and_then(|device| device.clone().try_into().ok()),
            softmax: table.contains_key("softmax"),
            rule_file: leaf("rules", "file").is_some(),
            plateau: table.get("schedule").is_some_and(|schedule| schedule.get("plateau").is_some()),
        })
    }

    /// The paper's setting of that system.
    pub fn spec(&self) -> Result<Spec> {
        let guidance = self.guidance.as_deref().unwrap_or("none");
        let mut spec = Spec::paper(self.model.unwrap_or(ModelName::ComplEx), guidance)?;
        if self.softmax {
            spec.set_softmax();
        }
        Ok(spec)
    }
}

impl SpecText {
    /// All of a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(RugeError::io(path, "read"))?;
        Ok(Self { name: path.display().to_string(), text, is_file: true })
    }

    fn base(&self) -> Result<Base> {
        Base::of(&table_of(&self.text, &self.name)?, &self.name)
    }

    /// Refuses settings that no spec has, or not with such values. Whether they go together is not asked.
    pub fn check_form(&self) -> Result<()> {
        self.file_over(&self.base()?.spec()?).map(|_| ())
    }

    /// A spec with its leaves laid over it.
    pub(super) fn over(&self, spec: &Spec) -> Result<Spec> {
        self.file_over(spec)?.try_into()
    }

    fn file_over(&self, spec: &Spec) -> Result<SpecFile> {
        spec.laid(&table_of(&self.text, &self.name)?).map_err(|slip| {
            let line = line_of(&self.text, &slip.leaf()).filter(|_| self.is_file);
            let line = line.map_or_else(String::new, |line| format!(":{line}"));
            RugeError::spec(format!("{}{line}: {}", self.name, slip.words()))
        })
    }
}

impl Spec {
    /// The spec a TOML text means on its own: what it says about model and guidance decides which setting of the paper the
    /// rest of it is laid over.
    pub fn from_toml(text: &str, name: &str) -> Result<Self> {
        let text = SpecText { name: name.into(), text: text.into(), is_file: false };
        text.over(&text.base()?.spec()?)
    }

    /// The same of a file: what is wrong in it is told with its line.
    pub fn read(path: &Path) -> Result<Self> {
        let text = SpecText::read(path)?;
        text.over(&text.base()?.spec()?)
    }

    /// This spec with the leaves of a TOML text laid over it.
    pub fn overlaid(&self, text: &str, name: &str) -> Result<Self> {
        SpecText { name: name.into(), text: text.into(), is_file: false }.over(self)
    }
}

impl Request {
    /// The spec, over the paper's settings; and whether a text asks for its plateau.
    pub fn resolve(&self) -> Result<(Spec, bool)> {
        self.resolve_over(&|base| {
            let mut spec = base.spec()?;
            // A text says itself what rules weigh, or leaves it at what was once the default.
            if self.settings.guidance.as_deref() == Some("examples") && self.text.is_none() {
                spec.set_examples();
            }
            Ok(spec)
        })
    }

    /// The same over other settings.
    pub fn resolve_over(&self, usual: &dyn Fn(&Base) -> Result<Spec>) -> Result<(Spec, bool)> {
        let mut base = self.text.as_ref().map_or_else(|| Ok(Base::default()), SpecText::base)?;
        base.model = self.settings.model.or(base.model);
        base.guidance = self.settings.guidance.clone().or(base.guidance);
        base.device = self.settings.device.or(base.device);
        let spec = self.preset.map_or_else(|| usual(&base), Preset::spec)?;
        let file = self.text.as_ref().map_or_else(|| Ok(spec.clone().into()), |text| text.file_over(&spec))?;
        Ok((self.laid_over(file, base.plateau)?, base.plateau))
    }

    /// The settings alone, over the spec of a run that goes on.
    pub fn resume(&self, stored: Spec) -> Result<Spec> {
        self.laid_over(stored.into(), true)
    }

    fn laid_over(&self, mut file: SpecFile, own_plateau: bool) -> Result<Spec> {
        let (spec, said) = (&mut file, &self.settings);
        put(&mut spec.seed, said.seed);
        put(&mut spec.device, said.device);
        put(&mut spec.model.name, said.model);
        self.refuse_idle(spec)?;
        put(&mut spec.model.dimension, said.dim);
        put(&mut spec.model.norm, said.norm);
        put(&mut spec.optimizer.entity_rate, said.rate);
        put(&mut spec.optimizer.relation_rate, said.rate);
        said.objective(spec)?;
        said.trainer(spec)?;
        said.rules(spec)?;
        said.guidance(spec)?;
        said.schedule(spec, own_plateau)?;
        let spec = Spec::try_from(file)?;
        spec.check()?;
        Ok(spec)
    }

    /// Refuses settings that this model or guidance would never look at.
    fn refuse_idle(&self, spec: &SpecFile) -> Result<()> {
        let said = &self.settings;
        let mark = said.mark;
        let given = |settings: &[(&str, bool)]| -> Vec<String> {
            settings.iter().filter(|(_, given)| *given).map(|(name, _)| format!("{mark}{name}")).collect()
        };
        if spec.model.name == ModelName::Rules {
            let idle = given(&[
                ("dim", said.dim.is_some()),
                ("epochs", said.epochs.is_some()),
                ("negatives", said.negatives.is_some()),
                ("rate", said.rate.is_some()),
                ("l2", said.l2.is_some()),
                ("margin", said.margin.is_some()),
                ("inner-steps", said.inner_steps.is_some()),
                ("batches", said.batches.is_some()),
                ("validate-every", said.validate_every.is_some()),
                ("patience", said.patience.is_some()),
            ]);
            if !idle.is_empty() {
                let (idle, them) = (idle.join(", "), if idle.len() == 1 { "it" } else { "them" });
                return refuse(format!(
                    "{idle}: rules alone ({mark}model rules) have no vectors and train nothing; remove {them}"
                ));
            }
        }
        if said.norm.is_some() && spec.model.name != ModelName::TransE {
            let name = spec.model.name.name();
            return refuse(format!("{mark}norm is the distance of transe, but the model is {name}; remove it"));
        }
        let mining = said.mining();
        let of_rules =
            [&[("rules", said.rules.is_some()), ("min-conf", said.min_conf.is_some())][..], &mining].concat();
        if let Some(first) = given(&of_rules).first()
            && !spec.takes_rules()
        {
            let instead = match (spec.softmax.is_some(), self.preset.is_some()) {
                (true, true) => format!("use {mark}preset complex-n3-rules"),
                (false, true) => format!("use {mark}preset ruge-paper"),
                (true, false) => format!("add {mark}guidance examples, or use {mark}model rules"),
                (false, false) => format!("add {mark}guidance ruge or kale, or use {mark}model rules"),
            };
            return refuse(format!("{first} would be ignored without guidance by rules; {instead}"));
        }
        Ok(())
    }
}

fn refuse<T>(message: String) -> Result<T> {
    Err(RugeError::spec(message))
}

fn put<T: Copy>(place: &mut T, said: Option<T>) {
    *place = said.unwrap_or(*place);
}

impl Overrides {
    /// Thresholds of mining, and whether each is given.
    fn mining(&self) -> [(&'static str, bool); 7] {
        [
            ("mine", self.mine.is_some()),
            ("min-pca", self.min_pca.is_some()),
            ("min-hc", self.min_hc.is_some()),
            ("min-std", self.min_std.is_some()),
            ("min-support", self.min_support.is_some()),
            ("max-conclusions", self.max_conclusions.is_some()),
            ("max-body", self.max_body.is_some()),
        ]
    }

    fn objective(&self, spec: &mut SpecFile) -> Result<()> {
        match (&mut spec.softmax, self.l2) {
            (_, None) => {}
            // The trainer's own, over the rows of a batch.
            (Some(softmax), Some(weight)) => (softmax.l2, spec.objective.penalty) = (weight, Penalty::None),
            (None, Some(0.0)) => spec.objective.penalty = Penalty::None,
            (None, Some(weight)) => spec.objective.penalty = Penalty::L2 { weight },
        }
        let Some(new) = self.margin else { return Ok(()) };
        match &mut spec.objective.loss {
            Loss::PairwiseRanking { margin } | Loss::TruthRanking { margin } => *margin = new,
            // Its margin is where the sigmoid turns.
            Loss::SelfAdversarial { .. } => spec.objective.shift = new,
            Loss::Logistic | Loss::SampledSoftmax => {
                return refuse(format!("{}margin needs a ranking loss; this spec has another loss", self.mark));
            }
        }
        Ok(())
    }

    fn trainer(&self, spec: &mut SpecFile) -> Result<()> {
        let mark = self.mark;
        if let Some(softmax) = &mut spec.softmax {
            if [self.negatives, self.batches, self.inner_steps].iter().any(Option::is_some) {
                return refuse(format!(
                    "{mark}negatives, {mark}batches and {mark}inner-steps are for training with negatives; this spec trains by \
                     softmax (use {mark}batch and {mark}sample, or train as the paper does with {mark}guidance ruge)"
                ));
            }
            put(&mut softmax.batch, self.batch);
            put(&mut softmax.sample, self.sample);
            put(&mut softmax.n3, self.n3);
            return Ok(());
        }
        put(&mut spec.negatives.count, self.negatives);
        put(&mut spec.batches.inner_steps, self.inner_steps);
        if let Some(count) = self.batches {
            (spec.batches.count, spec.batches.size) = (count, None);
        }
        if self.n3.is_some() || self.sample.is_some() || (self.batch.is_some() && spec.batches.size.is_none()) {
            return refuse(format!(
                "{mark}batch, {mark}sample and {mark}n3 need softmax training: complex, distmult or hole with {mark}guidance \
                 examples, or {mark}preset complex-n3-rules"
            ));
        }
        spec.batches.size = self.batch.or(spec.batches.size);
        Ok(())
    }

    fn rules(&self, spec: &mut SpecFile) -> Result<()> {
        if let Some(file) = &self.rules {
            if self.mining().iter().any(|(_, given)| *given) {
                let mark = self.mark;
                return refuse(format!(
                    "mining thresholds do not apply to {mark}rules FILE; use {mark}min-conf to filter its rules"
                ));
            }
            spec.rules = std::mem::take(&mut spec.rules).from_file(file.clone());
        }
        let rules = &mut spec.rules;
        put(&mut rules.mine, self.mine);
        put(&mut rules.min_confidence, self.min_conf);
        rules.min_pca = self.min_pca.or(rules.min_pca);
        rules.min_hc = self.min_hc.or(rules.min_hc);
        rules.min_std = self.min_std.or(rules.min_std);
        rules.max_conclusions = self.max_conclusions.or(rules.max_conclusions);
        if let Some(ranking) = &self.ranking_rules {
            rules.ranking = RankingRules::from(ranking.clone());
        }
        put(&mut rules.evidence, self.evidence);
        rules.min_support = self.min_support.or(rules.min_support);
        rules.max_body = self.max_body.or(rules.max_body);
        Ok(())
    }

    fn guidance(&self, spec: &mut SpecFile) -> Result<()> {
        let mark = self.mark;
        if let GuidanceSpec::Ruge { slackness, t_norm, .. } = &mut spec.guidance {
            put(slackness, self.slackness);
            put(t_norm, self.t_norm);
        } else if self.slackness.is_some() || self.t_norm.is_some() {
            return refuse(format!("{mark}slackness and {mark}t-norm need {mark}guidance ruge"));
        }
        if let GuidanceSpec::Examples { weight, .. } = &mut spec.guidance {
            put(weight, self.weight);
        } else if self.weight.is_some() {
            return refuse(format!("{mark}weight needs {mark}guidance examples"));
        }
        if let GuidanceSpec::PTransE { path_length, rerank, confidence_cut_off, .. } = &mut spec.guidance {
            put(path_length, self.path_length);
            put(rerank, self.rerank);
            put(confidence_cut_off, self.confidence_cut_off);
        } else if self.path_length.is_some() || self.rerank.is_some() || self.confidence_cut_off.is_some() {
            return refuse(format!(
                "{mark}path-length, {mark}rerank and {mark}confidence-cut-off belong to {mark}guidance ptranse"
            ));
        }
        Ok(())
    }

    fn schedule(&self, spec: &mut SpecFile, own_plateau: bool) -> Result<()> {
        let mark = self.mark;
        let schedule = &mut spec.schedule;
        put(&mut schedule.epochs, self.epochs);
        put(&mut schedule.validate_every, self.validate_every);
        schedule.patience = self.patience.or(schedule.patience);
        if self.validate_every == Some(0) && self.patience.is_some() {
            return refuse(format!(
                "{mark}patience counts validations, and {mark}validate-every 0 turns them off; remove one of them"
            ));
        }
        if !own_plateau {
            let last = self.patience.map_or(u64::MAX, |patience| patience.saturating_sub(1));
            schedule.plateau = schedule.plateau.filter(|_| self.validate_every != Some(0) && last > 0);
            schedule.plateau.iter_mut().for_each(|plateau| plateau.patience = plateau.patience.min(last));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(settings: Overrides) -> Request {
        Request { settings: Overrides { mark: "--", ..settings }, ..Request::default() }
    }

    fn told(request: &Request) -> String {
        request.resolve().unwrap_err().to_string()
    }

    #[test]
    fn settings_stand_over_text_and_text_over_presets() {
        let text = "[model]\ndimension = 50\n[schedule]\nepochs = 7\n";
        let text = Some(SpecText { name: "x".into(), text: text.into(), is_file: true });
        let settings = Overrides { epochs: Some(9), ..Overrides::default() };
        let (spec, own) = Request { preset: Some(Preset::Rotate), text, settings }.resolve().unwrap();
        assert_eq!((spec.model.name, spec.model.dimension, spec.schedule.epochs), (ModelName::RotatE, 50, 9));
        assert!(!own && spec.schedule.plateau.is_some());
        assert_eq!(Request::default().resolve().unwrap(), (Spec::default(), false));
    }

    #[test]
    fn rates_fall_before_a_run_ends_or_not_at_all() {
        let text = Some(SpecText {
            name: "x".into(),
            text: "[schedule.plateau]\nfactor = 0.5\npatience = 2\n".into(),
            is_file: true,
        });
        let asked = |text: &Option<SpecText>, patience: u64| {
            let preset = Some(Preset::Rotate);
            let settings = Overrides { patience: Some(patience), ..Overrides::default() };
            let resolved = Request { preset, text: text.clone(), settings }.resolve();
            resolved.map(|(spec, own)| (spec.schedule.plateau.map(|plateau| plateau.patience), own))
        };
        assert_eq!(asked(&None, 1).unwrap(), (None, false));
        assert_eq!(asked(&None, 5).unwrap(), (Some(1), false));
        assert_eq!(asked(&text, 5).unwrap(), (Some(2), true));
        assert!(asked(&text, 2).unwrap_err().to_string().contains("schedule.plateau"), "it was asked for");
        let never = Overrides { validate_every: Some(0), ..Overrides::default() };
        let request = Request { preset: Some(Preset::Rotate), text: None, settings: never };
        assert_eq!(request.resolve().unwrap().0.schedule.plateau, None);
        assert!(Request { text, ..request }.resolve().is_err());
    }

    #[test]
    fn a_rule_file_is_not_mined() {
        let settings = Overrides { rules: Some("a.tsv".into()), guidance: Some("ruge".into()), ..Overrides::default() };
        let text = Some(SpecText { name: "x".into(), text: "[rules]\nmin-pca = 0.5\n".into(), is_file: true });
        let request = Request { settings, text, ..Request::default() };
        let spec = request.resolve().unwrap().0;
        assert_eq!((spec.rules.file.as_deref(), spec.rules.min_pca), (Some("a.tsv"), None));
        let both = Overrides { min_hc: Some(0.1), ..request.settings };
        assert!(told(&flags(both)).contains("do not apply to --rules"));
        assert!(told(&flags(Overrides { min_hc: Some(0.1), ..Overrides::default() })).contains("--min-hc would be"));
    }

    #[test]
    fn settings_are_named_as_the_caller_names_them() {
        let margin = Overrides { margin: Some(1.0), ..Overrides::default() };
        assert!(told(&flags(margin.clone())).starts_with("--margin needs"));
        assert!(told(&Request { settings: margin, ..Request::default() }).starts_with("margin needs"));
    }
}
