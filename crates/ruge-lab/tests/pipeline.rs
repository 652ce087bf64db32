//! A whole run from the inside: skipped, stopped, continued, taken over from an earlier program, and by which rules it goes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use ruge::run::{self, Mode};
use ruge::spec::{ExamplesSpec, RulesSpec, Weigh};
use ruge::{Engine, ModelFile, ModelName, Spec, assemble, sealed_json};
use ruge_kg::{Cancel, Control, Dataset, ReadOptions};
use ruge_lab::pipeline::{self, Choice, Ended, Event, Findings, Job, Stage};
use ruge_rules::RuleRecord;

fn demo() -> Dataset {
    Dataset::load(Path::new("demo"), &ReadOptions::default()).expect("it is embedded").0
}

/// A setting that takes a second.
fn tiny(guidance: &str) -> Spec {
    let mut spec = Spec::paper(ModelName::ComplEx, guidance).expect("a system of the paper");
    spec.model.dimension = 8;
    spec.schedule.epochs = 6;
    spec.schedule.validate_every = 2;
    spec
}

fn job<'d>(data: &'d Dataset, spec: Spec, out: PathBuf) -> Job<'d> {
    Job {
        data,
        source: "demo".into(),
        spec,
        home: out.clone(),
        out,
        force: false,
        choice: Choice::All,
        deploys: true,
        samples: 3,
        told: Default::default(),
        checkpoint_every: Duration::ZERO,
        budget: None,
        keeps_dimension: false,
    }
}

/// What a run told: the stages it took, those it skipped, and how it ended.
#[derive(PartialEq, Debug)]
struct Told {
    taken: Vec<Stage>,
    skipped: Vec<Stage>,
    ended: Ended,
}

/// Takes the stages; is stopped in the second epoch of the stage `until`.
fn go(job: &Job<'_>, until: Option<Stage>) -> ruge::Result<Told> {
    let (cancel, heard) = (Cancel::new(), Mutex::new((Vec::new(), Vec::new())));
    let hear = |event: &Event| match *event {
        Event::Finished { stage, .. } => heard.lock().unwrap().0.push(stage),
        Event::Skipped { stage, .. } => heard.lock().unwrap().1.push(stage),
        Event::Progress { stage, done, .. } | Event::Epoch { stage, epoch: done, .. }
            if Some(stage) == until && done >= 2 =>
        {
            cancel.cancel();
        }
        _ => {}
    };
    let page = |findings: &Findings| Ok(format!("{} rules", findings.rules.len()));
    let ended = pipeline::run(job, &page, &Control::new(&cancel).with_listener(&hear))?;
    let (taken, skipped) = heard.into_inner().unwrap();
    Ok(Told { taken, skipped, ended })
}

/// The results of a run, byte by byte; the page is left out of it, as is what tells the time.
fn results(out: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    let names = [
        "rules.tsv",
        "ground.json",
        "unguided/model.safetensors",
        "model.safetensors",
        "evaluation.json",
        "calibration.json",
        "consistency.json",
        "predictions.json",
    ];
    names.into_iter().map(|name| (name, fs::read(out.join(name)).expect(name))).collect()
}

#[test]
fn what_is_finished_is_skipped_and_what_is_asked_for_is_done_again() {
    let (folder, data) = (tempfile::tempdir().unwrap(), demo());
    let mut job = job(&data, tiny("ruge"), folder.path().join("run"));
    let all: Vec<Stage> = job.stages().collect();
    let first = go(&job, None).unwrap();
    assert_eq!(first, Told { taken: all.clone(), skipped: vec![], ended: Ended::Finished });
    let before = results(&job.out);
    let findings = Findings::read(&job).unwrap();
    let (grounded, comparison) = (findings.grounded.unwrap(), findings.comparison.unwrap());
    assert!(grounded.groundings > 0 && grounded.of_rule.len() == findings.rules.len());
    assert!(comparison.guided.is_some() && comparison.unguided.is_some() && comparison.rules_only.is_some());
    assert_eq!(findings.samples.map(|samples| samples.len() > 3), Some(true));
    assert_eq!(go(&job, None).unwrap(), Told { taken: vec![], skipped: all.clone(), ended: Ended::Finished });
    job.choice = Choice::Only(Stage::Consistency);
    assert_eq!(go(&job, None).unwrap().taken, [Stage::Consistency]);
    job.choice = Choice::From(Stage::TrainGuided);
    assert_eq!(go(&job, None).unwrap().skipped, all[..4]);
    assert_eq!(results(&job.out), before, "the same again, to the bit");
    // What a stage left is part of what the ones after it are made from.
    job.choice = Choice::All;
    fs::remove_file(job.out.join("consistency.json")).unwrap();
    assert_eq!(go(&job, None).unwrap().taken, [Stage::Consistency]);
    job.samples = 1;
    assert_eq!(go(&job, None).unwrap().taken, [Stage::Predict, Stage::Report]);
    job.spec.seed = 1;
    let told = go(&job, None).unwrap_err().to_string();
    assert!(told.contains("seed is 0 there and 1 here"), "{told}");
}

#[test]
fn a_run_that_was_stopped_goes_on_to_the_same_bits() {
    let (folder, data) = (tempfile::tempdir().unwrap(), demo());
    let whole = job(&data, tiny("ruge"), folder.path().join("whole"));
    assert_eq!(go(&whole, None).unwrap().ended, Ended::Finished);
    let cut = job(&data, tiny("ruge"), folder.path().join("cut"));
    for stage in [Stage::TrainUnguided, Stage::TrainGuided] {
        assert_eq!(go(&cut, Some(stage)).unwrap().ended, Ended::Stopped(stage));
    }
    let last = go(&cut, None).unwrap();
    assert_eq!((last.skipped.last(), last.taken[0]), (Some(&Stage::TrainUnguided), Stage::TrainGuided));
    assert_eq!(results(&cut.out), results(&whole.out));
}

#[test]
fn rules_for_ranking_that_were_mined_or_weighed_are_not_made_again() {
    let (folder, data) = (tempfile::tempdir().unwrap(), demo());
    let mut spec = tiny("examples");
    spec.set_softmax();
    spec.schedule.epochs = 2;
    let whole = job(&data, spec.clone(), folder.path().join("whole"));
    assert_eq!(go(&whole, None).unwrap().ended, Ended::Finished);
    let cut = job(&data, spec, folder.path().join("cut"));
    // Stopped at the first word of a part; the answer says which parts were heard of.
    let until = |word: &str| {
        let (cancel, heard) = (Cancel::new(), Mutex::new(Vec::new()));
        let hear = |event: &Event| {
            if let Event::Progress { stage: Stage::WithRules, note, .. } = event {
                let mut heard = heard.lock().unwrap();
                if !heard.contains(note) {
                    heard.push(note.clone());
                }
                if note == word {
                    cancel.cancel();
                }
            }
        };
        let page = |_: &Findings| Ok(String::new());
        let ended = pipeline::run(&cut, &page, &Control::new(&cancel).with_listener(&hear)).unwrap();
        (ended, heard.into_inner().unwrap())
    };
    let begun = cut.out.join("evaluated/prepared.safetensors");
    let (mining, learning, fitting) = ("mining", "learning weights", "fitting on validation");
    let stopped = Ended::Stopped(Stage::WithRules);
    assert_eq!(until(mining).0, stopped);
    assert!(!begun.exists(), "half of the rules are none");
    assert_eq!(until(learning), (stopped, vec![mining.to_string(), learning.into()]));
    let mined = fs::read(&begun).unwrap();
    assert_eq!(until(fitting), (stopped, vec![learning.to_string(), fitting.into()]));
    assert_ne!(fs::read(&begun).unwrap(), mined, "with weights");
    assert_eq!(until("nothing"), (Ended::Finished, vec![fitting.to_string()]));
    assert!(!begun.exists(), "nothing is left to go on with");
    let model = |out: &Path| fs::read(out.join("evaluated/model.safetensors")).unwrap();
    assert!(model(&cut.out) == model(&whole.out), "to the bit");
    assert_eq!(results(&cut.out), results(&whole.out));
}

/// The ledger as the program before wrote it: version 4, with other inputs of every stage.
fn as_version_4(out: &Path) {
    let path = out.join("stages.json");
    let mut ledger: serde_json::Value = sealed_json::read(&path).unwrap().unwrap();
    ledger["format"] = 4.into();
    for entry in ledger["stages"].as_object_mut().unwrap().values_mut() {
        entry["inputs"] = format!("4{}", entry["inputs"].as_str().unwrap()).into();
    }
    sealed_json::write(&path, &ledger).unwrap();
}

#[test]
fn a_run_of_an_earlier_program_is_gone_through_again_from_its_checkpoints() {
    let (folder, data) = (tempfile::tempdir().unwrap(), demo());
    let job = job(&data, tiny("ruge"), folder.path().join("run"));
    let all: Vec<Stage> = job.stages().collect();
    go(&job, None).unwrap();
    let before = results(&job.out);
    let curve = fs::read(job.out.join("metrics.jsonl")).unwrap();
    as_version_4(&job.out);
    let again = go(&job, None).unwrap();
    assert_eq!((again.taken, again.skipped), (all.clone(), vec![]));
    assert_eq!(results(&job.out), before);
    assert_eq!(fs::read(job.out.join("metrics.jsonl")).unwrap(), curve, "no epoch was trained again");
    assert_eq!(go(&job, None).unwrap().skipped, all, "from now on it is a run of this program");
}

/// Rules as they are compared: a file does not say on which line of another file they stood.
fn plain(rules: &[RuleRecord]) -> Vec<(ruge_rules::Rule, f64)> {
    rules.iter().map(|record| (record.rule.clone(), record.confidence.get())).collect()
}

#[test]
fn a_threshold_of_confidence_is_applied_once_to_what_was_mined() {
    let (folder, data) = (tempfile::tempdir().unwrap(), demo());
    let mined = assemble::rules_of(&tiny("ruge").rules, &data, &Control::default()).unwrap();
    let sure = mined.iter().filter(|record| record.confidence.get() >= 0.9).count();
    assert!(sure > 0 && sure < mined.len(), "{sure} of {}", mined.len());
    for (name, weigh, confidence) in [("validated", Weigh::Validated, None), ("fixed", Weigh::Confidence, Some(0.5))] {
        let mut spec = tiny("ruge");
        spec.rules = RulesSpec { min_confidence: 0.9, weigh, confidence, ..spec.rules };
        let job = job(&data, spec.clone(), folder.path().join(name));
        go(&job, None).unwrap();
        let guided = Engine::open(&job.out.join("guided")).unwrap();
        assert_eq!(guided.rules().len(), sure, "{name}: those that were mined with 0.9 guide, whatever they weigh");
        assert!(guided.rules().iter().any(|rule| rule.confidence.get() < 0.9), "{name}");
        assert_eq!(plain(&Findings::read(&job).unwrap().rules), plain(guided.rules()), "{name}: as the file says");
        // As `ruge train` does it with the same spec.
        let out = folder.path().join(format!("{name}-trained"));
        run::train(&spec, &data, mined.clone(), &out, Mode::Fresh, &Control::default()).unwrap();
        let trained = ModelFile::read(&out.join("model.safetensors")).unwrap();
        assert_eq!(plain(&trained.rules), plain(guided.rules()), "{name}");
        assert_eq!(trained.embeddings.as_ref(), guided.embeddings().unwrap(), "{name}: to the bit");
        let weights = |folder: &Path| ruge::identity::read(folder).unwrap().and_then(|identity| identity.rules);
        assert_eq!(
            weights(&job.out.join("guided")),
            weights(&out),
            "{name}: the file rounds weights, training does not"
        );
    }
}

#[test]
fn rules_that_do_not_help_are_not_used() {
    let (folder, data) = (tempfile::tempdir().unwrap(), demo());
    let mut spec = tiny("examples");
    spec.set_softmax();
    spec.model.dimension = 8;
    spec.schedule.epochs = 2;
    spec.schedule.validate_every = 1;
    // A rule as wrong as it is sure.
    let relation = |at: u32| data.names().relations.name(ruge_kg::RelationId(at)).to_string();
    let file = folder.path().join("wrong.txt");
    fs::write(&file, format!("{}(x,y) => {}(x,y)\t1\n{1}(x,y) => {0}(y,x)\t1\n", relation(0), relation(1))).unwrap();
    spec.rules = spec.rules.from_file(file.display().to_string());
    if let Some(ExamplesSpec { weight, .. }) = spec.softmax_mut().and_then(|training| training.examples.as_mut()) {
        *weight = 50.0;
    }
    let job = job(&data, spec, folder.path().join("run"));
    go(&job, None).unwrap();
    let [without, with] =
        ["unguided", "guided"].map(|name| job.out.join(name)).map(|path| Engine::open(&path).unwrap());
    assert_eq!(with.embeddings().unwrap(), without.embeddings().unwrap(), "the unguided model stands in its place");
    assert_eq!((with.rules().len(), without.rules().len()), (2, 0), "with the rules that explain it");
}
