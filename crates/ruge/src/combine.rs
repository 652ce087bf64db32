//! A trained model with rules beside it, as a run folder of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ruge_kg::{Control, Dataset, Ranker};
use ruge_rules::rank::{Combined, Effort, Prepared, Ranking, Weighing, fit};
use ruge_rules::{RuleFormat, RuleWriteOptions, write_rules};

use crate::calibrate::Calibration;
use crate::engine::Engine;
use crate::error::{Result, RugeError};
use crate::model_file::{Contents, ModelFile, data_hash};
use crate::run::{Folder, KIND, MOST_RULES_AS_TEXT, Mode};
use crate::spec::{ModelName, RulesSpec, Spec};
use crate::truth::{Truth, Witness};
use crate::workplace::{self, Kind, Workplace};

/// What came of a combination.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was fitted.
    pub ranking: Ranking,
    /// The rules that stand beside the model.
    pub rules: usize,
    /// The model file.
    pub model: PathBuf,
}

/// Says why rules cannot stand beside a model, before anything long begins.
pub fn refuse(spec: &Spec, data: &Dataset, path: &Path, mode: Mode) -> Result<()> {
    if spec.model.name == ModelName::Rules {
        return Err(RugeError::refused("this model is rules alone; combine rules with an embedding"));
    }
    if data.valid().is_empty() {
        let message = "the model holds no validation triples, so there is nothing to fit the weight of rules on; train it \
                       on data with a part `valid`";
        return Err(RugeError::refused(message));
    }
    workplace::settle(path)?;
    if mode == Mode::Fresh && KIND.is_in(path) {
        return Err(workplace::there(path, KIND, false));
    }
    Ok(())
}

/// Fits rules beside a trained model on its validation triples and writes both as a run folder. Its own rules, if it was guided,
/// make place for these.
pub fn combine(
    engine: &Engine,
    prepared: &Prepared,
    path: &Path,
    mode: Mode,
    control: &Control<'_>,
) -> Result<Outcome> {
    refuse(engine.spec(), engine.data(), path, mode)?;
    // A run that is to be replaced stays until there is something to replace it, and half of a new one is never seen.
    let place = Workplace::aside(path, Kind { command: "combine", resumes: false, ..KIND }, mode)?;
    let outcome = combine_within(engine, prepared, place.work(), control)?;
    place.finish()?;
    Ok(Outcome { model: path.join("model.safetensors"), ..outcome })
}

/// How long fitting these rules beside a model takes, on the validation triples that they are to be fitted on. Nothing of it is kept.
pub fn tried(engine: &Engine, prepared: &Prepared, control: &Control<'_>) -> Result<Duration> {
    let base = engine.shared_model().map(|model| model as Arc<dyn Ranker>);
    let begun = Instant::now();
    fit(base.as_ref(), prepared, engine.data(), control)?;
    Ok(begun.elapsed())
}

/// How many rules the budget leaves, in words; nothing where it leaves all.
pub fn kept(prepared: &Prepared) -> Option<String> {
    let (kept, all) = (prepared.rules.len(), prepared.rules.len() + prepared.over_budget);
    (kept < all).then(|| format!("{kept} of {all} {} kept: budget", ruge_kg::visible::plural(all, "rule")))
}

/// The same in a folder that is ours already.
pub fn combine_within(engine: &Engine, prepared: &Prepared, path: &Path, control: &Control<'_>) -> Result<Outcome> {
    Workplace::within(path, KIND, true)?;
    let folder = Folder::at(path);
    let data = engine.data();
    let base = engine.shared_model().map(|model| model as Arc<dyn Ranker>);
    let mut ranking = fit(base.as_ref(), prepared, data, control)?;
    if base.is_some() && ranking.uses_rules() {
        ranking.alone = Some(Box::new(fit(None, prepared, data, control)?));
    }
    let (rules, weights) = (&prepared.rules, prepared.weights(&ranking));
    let model = Combined::new(base.clone(), prepared.scores(), &ranking);
    let calibration = Calibration::fit(&model, data, engine.spec().seed, control)?;
    let alone = base.as_ref().map(|base| &**base as &dyn Ranker);
    let witness = Witness { ranker: &model, model: alone, rules: model.rules(), graph: data.graph(), listed: None };
    let truth = Truth::fit(&witness, data, engine.spec().seed, control)?;
    let head = format!("# ruge {}, data sha256 {}\n", env!("CARGO_PKG_VERSION"), data_hash(data));
    // How the rules were weighed is part of what was done.
    let Weighing { effort, evidence, .. } = prepared.weighing();
    let rules_spec = RulesSpec { thorough: effort == Effort::THOROUGH, evidence, ..engine.spec().rules.clone() };
    let spec = &Spec { rules: rules_spec, ..engine.spec().clone() };
    let what = "# rules beside the model at ranking time: ruge combine\n";
    folder.write("spec.toml", format!("{head}{what}{}", spec.to_toml()).as_bytes())?;
    if rules.len() <= MOST_RULES_AS_TEXT {
        let mut text = Vec::new();
        write_rules(&mut text, RuleFormat::Native, rules, data.names(), &RuleWriteOptions::default())?;
        folder.write("rules.tsv", &text)?;
    } else {
        folder.remove("rules.tsv")?;
    }
    let mut notes = engine.notes().clone();
    notes.extend(ranking.valid_mrr().map(|mrr| ("valid_mrr_with_rules".into(), mrr.to_string())));
    notes.extend(kept(prepared).map(|kept| ("ranking_rules".into(), kept)));
    let contents = Contents {
        spec,
        embeddings: engine.embeddings()?,
        data,
        rules,
        notes: &notes,
        calibration: calibration.as_ref(),
        truth: truth.as_ref(),
        ranking: Some(&ranking),
        weights: weights.as_deref(),
    };
    let model = folder.file("model.safetensors");
    ModelFile::write(&model, &contents)?;
    Ok(Outcome { ranking, rules: rules.len(), model })
}
