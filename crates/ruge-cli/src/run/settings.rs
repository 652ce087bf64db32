//! The settings of a run: sized to the data, a spec file's leaves over them, flags over both.

use anyhow::Result;
use clap::Arg;
use ruge::spec::{NegativesSpec, Preset, Request, SoftmaxSpec, Training};
use ruge::{DeviceName, GuidanceSpec, ModelName, RugeError, Spec};
use ruge_embed::Penalty;
use ruge_lab::recipe::{self, Size};

use crate::settings::{SettingsArgs, guidances, presets};
use crate::usage;

/// Guidances that have rules; without rules there is nothing to compare.
pub fn guidance(flag: Arg) -> Arg {
    let with_rules = |name: &str| GuidanceSpec::named(name).is_ok_and(GuidanceSpec::takes_rules);
    flag.value_parser(guidances(with_rules))
        .help("How rules guide training [default: examples for complex, distmult and hole, ruge for others]")
}

/// The presets that have rules.
pub fn preset(flag: Arg) -> Arg {
    let with_rules = |preset: &Preset| preset.spec().is_ok_and(|spec| spec.guidance().takes_rules());
    flag.value_parser(presets(with_rules))
}

/// Flags of PTransE, which has no rules, are refused and need not be shown.
pub fn hide_paths(flag: Arg) -> Arg {
    let is_of_paths = ["path_length", "rerank", "confidence_cut_off"].contains(&flag.get_id().as_str());
    if is_of_paths { flag.hide(true) } else { flag }
}

/// The spec for data of this size. A seed that was typed wins over one in a file.
pub fn resolve(args: &SettingsArgs, size: Size, seed: Option<u64>) -> Result<Spec> {
    of_request(&args.request(seed)?, size).map_err(usage::of_spec)
}

/// The same from a request, for other programs that run the whole job.
pub fn of_request(request: &Request, size: Size) -> ruge::error::Result<Spec> {
    let resolved = request.resolve_over(&|base| {
        let model = base.model.unwrap_or(ModelName::ComplEx);
        let device = base.device.unwrap_or(DeviceName::Cpu);
        let guidance = match base.guidance.as_deref() {
            // A file of `ruge search` or `ruge train`: the settings are its own, as `ruge train` takes them.
            Some("none") if model != ModelName::Rules => return Ok(Spec { device, ..Spec::paper(model, "none")? }),
            Some(guidance) => guidance,
            None => recipe::usual_guidance(model),
        };
        let mut spec = recipe::sized(size, model, guidance, device)?;
        compares(&spec)?;
        if base.rule_file {
            // Thresholds for mining would contradict it.
            spec.rules = Default::default();
        }
        Ok(spec)
    });
    let spec = guided(resolved?.0)?;
    compares(&spec)?;
    Ok(spec)
}

/// A model without rules is compared with itself under the usual guidance of its training.
fn guided(mut spec: Spec) -> ruge::error::Result<Spec> {
    if spec.guidance() == GuidanceSpec::None {
        let usual = |guidance: &str| Spec::paper(spec.model.name, guidance).map(|paper| paper.training);
        match spec.training {
            Training::Negatives(own) => {
                if let Training::Negatives(NegativesSpec { guidance, .. }) = usual("ruge")? {
                    spec.training = Training::Negatives(NegativesSpec { guidance, ..own });
                }
            }
            Training::Softmax(own) => {
                if let Training::Softmax(SoftmaxSpec { examples, .. }) = usual("examples")? {
                    spec.training = Training::Softmax(SoftmaxSpec { examples, ..own });
                }
            }
            Training::PTransE(_) | Training::Rules => {}
        }
    }
    Ok(spec)
}

/// Refuses settings without rules beside a model.
fn compares(spec: &Spec) -> ruge::error::Result<()> {
    let (what, instead) = match (spec.model.name, spec.guidance()) {
        (ModelName::Rules, _) => ("a model", "for rules alone use `ruge train DATA --model rules`"),
        (_, guidance) if !guidance.takes_rules() => ("models", "use `ruge train` for one model without them"),
        _ => return Ok(()),
    };
    Err(RugeError::spec(format!("`ruge run` compares {what} with and without rules; {instead}")))
}

/// The settings that matter, a label and a sentence each.
pub fn words(spec: &Spec) -> Vec<(&'static str, String)> {
    let unless = if spec.is_of_the_paper() { "" } else { ", unless validation is better without" };
    let guidance = match spec.guidance() {
        GuidanceSpec::Ruge { slackness, .. } => format!("ruge, slackness {slackness}{unless}"),
        GuidanceSpec::Examples { weight, .. } => {
            format!("conclusions as examples of weight {weight}{unless}")
        }
        other => format!("{}{unless}", other.name()),
    };
    let patience = spec.schedule.patience.map_or_else(String::new, |n| format!(", patience {n}"));
    let part = spec.schedule.validation_triples.map_or_else(String::new, |n| format!(" on {n} triples"));
    let config = spec.rules.config();
    let most = spec.rules.max_conclusions.map_or_else(String::new, |share| {
        format!("; the most confident ones, up to {share} conclusions per training triple")
    });
    let rules = match &spec.rules.file {
        Some(file) => format!("from {file}, confidence {} or more", spec.rules.min_confidence),
        None => format!(
            "at most {} atoms; at least PCA confidence {}, standard confidence {}, head coverage {}, support {}, {} facts of the \
             head{most}",
            config.max_body,
            config.min_pca,
            config.min_std,
            config.min_head_coverage,
            config.min_support,
            config.min_head_size
        ),
    };
    let (model, rate) = (spec.model, spec.optimizer.entity_rate);
    let training = match &spec.training {
        Training::Softmax(SoftmaxSpec { softmax, .. }) => {
            let among = match softmax.sample {
                0 => "all entities".to_string(),
                sample => format!("{sample} sampled entities"),
            };
            format!("softmax over {among}, batches of {} questions, rate {rate}, N3 {}", softmax.batch, softmax.n3)
        }
        Training::Negatives(training) => {
            let batches = match training.batches.size {
                Some(size) => format!("batches of {size}"),
                None => format!("{} batches", training.batches.count),
            };
            let penalty = match training.objective.penalty {
                Penalty::L2 { weight } => format!(", L2 {weight}"),
                Penalty::None => String::new(),
            };
            let hard = if spec.is_of_the_paper() { "" } else { ", hard ones weighted more" };
            format!("{} negatives{hard}, {batches}, rate {rate}{penalty}", training.negatives.count)
        }
        // `ruge run` compares a model with and without rules, which these do not have or are.
        Training::PTransE(_) | Training::Rules => format!("rate {rate}"),
    };
    let schedule = spec.schedule;
    vec![
        ("model", format!("{}, dimension {}", model.name.name(), model.dimension)),
        ("training", training),
        ("epochs", format!("at most {}, validated every {}{part}{patience}", schedule.epochs, schedule.validate_every)),
        ("rules", rules),
        ("guidance", guidance),
        ("seed", spec.seed.to_string()),
    ]
}
