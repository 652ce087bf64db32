//! Settings of training, by the names of the command line's flags.

use ruge::spec::{Overrides, Preset, Request, SpecText};
use ruge::{DeviceName, ModelName};
use serde_json::Value;

use crate::errors::{Fault, Result};

/// A request from a JSON object of keywords; those that are null are not given. Unknown ones are an error.
pub fn request(keywords: &str, spec: Option<SpecText>) -> Result<Request> {
    let Value::Object(mut given) = serde_json::from_str(keywords).map_err(|error| Fault::setting(error.to_string()))?
    else {
        return Err(Fault::setting("settings are keywords"));
    };
    given.retain(|_, value| !value.is_null());
    let preset: Option<String> = take(&mut given, "preset")?;
    let preset = preset.map(|name| preset_named(&name)).transpose()?;
    let model: Option<String> = take(&mut given, "model")?;
    let model = model.map(|name| ModelName::named(&name)).transpose()?;
    if preset.is_some() && (model.is_some() || given.contains_key("guidance")) {
        return Err(Fault::setting("preset cannot be given together with model or guidance"));
    }
    let given = &mut given;
    let settings = Overrides {
        mark: "",
        seed: take(given, "seed")?,
        device: take(given, "device")?,
        model,
        guidance: take(given, "guidance")?,
        rules: take(given, "rules")?,
        mine: take(given, "mine")?,
        min_conf: take(given, "min_conf")?,
        min_pca: take(given, "min_pca")?,
        min_hc: take(given, "min_hc")?,
        min_std: take(given, "min_std")?,
        min_support: take(given, "min_support")?,
        max_conclusions: take(given, "max_conclusions")?,
        ranking_rules: take(given, "ranking_rules")?,
        evidence: take(given, "evidence")?,
        max_body: take(given, "max_body")?,
        dim: take(given, "dim")?,
        norm: take(given, "norm")?,
        negatives: take(given, "negatives")?,
        batches: take(given, "batches")?,
        inner_steps: take(given, "inner_steps")?,
        batch: take(given, "batch")?,
        sample: take(given, "sample")?,
        n3: take(given, "n3")?,
        l2: take(given, "l2")?,
        rate: take(given, "rate")?,
        margin: take(given, "margin")?,
        slackness: take(given, "slackness")?,
        t_norm: take(given, "t_norm")?,
        weight: take(given, "weight")?,
        path_length: take(given, "path_length")?,
        rerank: take(given, "rerank")?,
        confidence_cut_off: take(given, "confidence_cut_off")?,
        epochs: take(given, "epochs")?,
        validate_every: take(given, "validate_every")?,
        patience: take(given, "patience")?,
    };
    match given.keys().next() {
        None => Ok(Request { preset, text: spec, settings }),
        Some(name) => Err(Fault::setting(format!(
            "there is no setting called {name}\n  remedy: the settings are the flags of `ruge train`, with _ for -; see `ruge train --help`"
        ))),
    }
}

fn take<T: serde::de::DeserializeOwned>(given: &mut serde_json::Map<String, Value>, name: &str) -> Result<Option<T>> {
    let Some(value) = given.remove(name) else { return Ok(None) };
    let said = value.to_string();
    serde_json::from_value(value).map(Some).map_err(|error| {
        let flag = name.replace('_', "-");
        Fault::setting(format!("{name}={said}: {error}\n  remedy: give {name} as the command takes --{flag}"))
    })
}

fn preset_named(name: &str) -> Result<Preset> {
    Preset::ALL.into_iter().find(|preset| preset.name() == name).ok_or_else(|| {
        let names: Vec<&str> = Preset::ALL.iter().map(|preset| preset.name()).collect();
        Fault::setting(format!("there is no preset called {name:?}; there are {}", names.join(", ")))
    })
}

/// Whether any keyword is given.
pub fn is_given(keywords: &str) -> Result<bool> {
    Ok(all(keywords)?.values().any(|value| !value.is_null()))
}

/// Whether this keyword is given.
pub fn has(keywords: &str, name: &str) -> Result<bool> {
    Ok(all(keywords)?.get(name).is_some_and(|value| !value.is_null()))
}

fn all(keywords: &str) -> Result<serde_json::Map<String, Value>> {
    serde_json::from_str(keywords).map_err(|error| Fault::setting(error.to_string()))
}

/// Where to compute.
pub fn device_named(name: &str) -> Result<DeviceName> {
    match name {
        "cpu" => Ok(DeviceName::Cpu),
        "cuda" => Ok(DeviceName::Cuda),
        other => Err(Fault::setting(format!("device is \"cpu\" or \"cuda\", not {other:?}"))),
    }
}
