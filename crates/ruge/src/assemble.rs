//! From a spec to running objects: the only place that knows every model and every guidance by name.

use ruge_kg::{Cancelled, Control};
use std::path::Path;

use ruge_cuda::{CudaModel, Device};
use ruge_embed::fuzzy::Step;
use ruge_embed::model::State;
use ruge_embed::optimizer::UpdateRule;
use ruge_embed::scoring::{ComplEx, DistMult, HolE, Reciprocal, RotatE, TransEL1, TransEL2};
use ruge_embed::softmax::static_labels;
use ruge_embed::{Embeddings, Evidence, Example, Guidance, Init, Model, OnProcessor, Optimizer, PTransE, Paths, Plan};
use ruge_kg::{Dataset, RelationId};
use ruge_rules::words::formula;
use ruge_rules::words::is_sayable;
use ruge_rules::{
    Confidence, Groundings, Rule, RuleError, RuleReadOptions, RuleRecord, ground_within, mine, read_rules_about,
};

use crate::error::{Result, RugeError};
use crate::memory::{self, Shape, Sizes};
use crate::spec::{
    DeviceName, FixedLabel, GuidanceSpec, MinePreset, ModelName, ModelSpec, NegativesSpec, Norm, Pull, RankingRules,
    RulesSpec, SoftmaxSpec, Spec, Training, Weigh,
};

/// Does something with the scoring function of a [`ModelSpec`], each of which has a type of its own; nothing where there is none.
macro_rules! for_scoring {
    ($model:expr, |$scoring:ident| $then:expr) => {{
        let ModelSpec { name, dimension, norm, reciprocal } = $model;
        macro_rules! with {
            ($made:expr) => {{
                let $scoring = $made;
                Some($then)
            }};
        }
        match (name, norm) {
            (ModelName::ComplEx, _) if reciprocal => with!(Reciprocal(ComplEx::new(dimension))),
            (ModelName::DistMult, _) if reciprocal => with!(Reciprocal(DistMult::new(dimension))),
            (ModelName::ComplEx, _) => with!(ComplEx::new(dimension)),
            (ModelName::DistMult, _) => with!(DistMult::new(dimension)),
            (ModelName::HolE, _) => with!(HolE::new(dimension)),
            (ModelName::TransE, Norm::L1) => with!(TransEL1::new(dimension)),
            (ModelName::TransE, Norm::L2) => with!(TransEL2::new(dimension)),
            (ModelName::RotatE, _) => with!(RotatE::new(dimension)),
            (ModelName::Rules, _) => None,
        }
    }};
}

/// What a device calls itself; nothing for the processor, whose name the edges know.
pub fn device_words(device: DeviceName) -> Result<Option<String>> {
    match device {
        DeviceName::Cpu => Ok(None),
        DeviceName::Cuda => Ok(Some(Device::open()?.name())),
    }
}

/// A model before its first step. What it knows of the data are names to have rows for and, where it walks paths, the
/// training graph.
pub fn model(spec: &Spec, data: &Dataset) -> Result<Box<dyn Model>> {
    let paths = match spec.ptranse()? {
        Some(config) => {
            memory::ptranse(&config, &sizes(data)).require()?;
            Some(Paths::measure(data.shared_graph(), &config, &Control::default())?)
        }
        None => None,
    };
    model_with(spec, data, paths)
}

/// The relation paths a spec asks for, with what training needs of them; none for most.
pub fn paths(spec: &Spec, data: &Dataset, control: &Control<'_>) -> Result<Option<Paths>> {
    match spec.ptranse()? {
        Some(config) => {
            memory::ptranse(&config, &sizes(data)).require()?;
            Ok(Some(Paths::extract(data.shared_graph(), &config, control)?))
        }
        None => Ok(None),
    }
}

/// How much there is to train on, rules not counted.
fn sizes(data: &Dataset) -> Sizes {
    Sizes {
        entities: data.entity_count() as u64,
        relations: data.relation_count() as u64,
        triples: data.train().len() as u64,
        valid: data.valid().len() as u64,
        ..Sizes::default()
    }
}

/// The same as [`model`], over [`paths`] found before.
pub fn model_with(spec: &Spec, data: &Dataset, paths: Option<Paths>) -> Result<Box<dyn Model>> {
    spec.check()?;
    if let Some(paths) = paths {
        let config = *paths.config();
        return Ok(Box::new(PTransE::with_paths(paths, config, spec.seed)));
    }
    begin(spec, data, None)
}

/// A model with the numbers that training gave it, to be asked and not to be trained: it has no room for an optimiser.
pub fn trained(spec: &Spec, data: &Dataset, embeddings: Embeddings) -> Result<Box<dyn Model>> {
    if spec.ptranse()?.is_some() {
        let mut model = model(spec, data)?;
        let moments = model.state()?.moments.clone();
        model.restore(State { embeddings, moments, steps: 0 })?;
        return Ok(model);
    }
    spec.check()?;
    begin(spec, data, Some(embeddings))
}

fn begin(spec: &Spec, data: &Dataset, stored: Option<Embeddings>) -> Result<Box<dyn Model>> {
    let (entities, relations) = (data.entity_count(), data.relation_count());
    let rule = if stored.is_some() { UpdateRule::Sgd } else { spec.optimizer.rule };
    let start = Begin {
        entities,
        relations,
        init: &spec.init,
        stored,
        seed: spec.seed,
        optimizer: Optimizer { rule, ..spec.optimizer },
        device: spec.device,
        spec,
        sizes: sizes(data),
    };
    for_scoring!(spec.model, |scoring| start.with(scoring))
        .unwrap_or_else(|| Err(RugeError::refused("rules alone are fitted, not trained: they have no parameters")))
}

struct Begin<'s> {
    entities: usize,
    relations: usize,
    init: &'s Init,
    stored: Option<Embeddings>,
    seed: u64,
    optimizer: Optimizer,
    device: DeviceName,
    spec: &'s Spec,
    sizes: Sizes,
}

impl Begin<'_> {
    fn with<F: OnProcessor>(self, scoring: F) -> Result<Box<dyn Model>> {
        // A missing card is told before anything long begins.
        let device = match self.device {
            DeviceName::Cpu => None,
            DeviceName::Cuda => Some(Device::open()?),
        };
        // So are tables that fit nowhere.
        if let Some(device) = &device {
            CudaModel::require(device, &scoring, self.entities, self.relations, self.optimizer)?;
        }
        // Numbers that are here already take their room already.
        if self.stored.is_none() {
            let training = memory::training(self.spec, &Shape::of(&scoring), &self.sizes)?;
            if device.is_none() { training.require()? } else { training.only("parameters").require()? }
        }
        let embeddings = match self.stored {
            None => Embeddings::new(&scoring, self.entities, self.relations, self.init, self.seed),
            Some(embeddings) => {
                embeddings.require(&scoring, self.entities, self.relations)?;
                embeddings
            }
        };
        Ok(match device {
            None => scoring.on_processor(embeddings, self.optimizer),
            Some(device) => Box::new(CudaModel::new(device, &scoring, &embeddings, self.optimizer)?),
        })
    }
}

/// 𝒢 as the trainer takes it: no rule in sight, only premises, conclusions and confidences.
pub fn evidence(rules: &[RuleRecord], groundings: &Groundings) -> Evidence {
    let mut evidence = Evidence::default();
    for (rule, record) in rules.iter().enumerate() {
        for grounding in groundings.of_rule(rule) {
            let conclusion = groundings.unlabeled()[groundings.conclusion(grounding)];
            let confidence = record.confidence.get() as f32;
            let (premises, negated) = (groundings.premises(grounding), groundings.negated(grounding));
            if negated.is_empty() {
                evidence.push(premises, conclusion, confidence);
            } else {
                let formula = conjunction(premises.len(), negated.len());
                evidence.push_formula(&[premises, negated].concat(), &formula, conclusion, confidence);
            }
        }
    }
    evidence
}

/// What the guidance of a spec is made of: 𝒢, or one entry per conclusion where its label is fixed.
pub fn evidence_for(spec: &Spec, rules: &[RuleRecord], groundings: &Groundings) -> Result<Evidence> {
    // The trainer counts groundings and premises in 32 bits.
    let premises = rules.iter().map(|record| record.rule.premise.len()).max().unwrap_or(0).max(1);
    if groundings.len().saturating_mul(premises) > u32::MAX as usize {
        let count = groundings.len();
        return Err(RugeError::setting(
            "rules.min-confidence",
            format!(
                "the rules have {count} groundings, more than can be trained on\n  remedy: raise rules.min-confidence or rules.min-hc"
            ),
        ));
    }
    Ok(match spec.guidance() {
        GuidanceSpec::Static { label } => fixed_labels(label, rules, groundings),
        _ => evidence(rules, groundings),
    })
}

/// What softmax learns from besides the observed triples: conclusions, weighted by what their groundings say.
pub fn examples_for(spec: &Spec, evidence: &Evidence) -> Vec<Example> {
    match spec.guidance() {
        GuidanceSpec::Examples { weight, least, label } => {
            let mut examples = static_labels(evidence, label);
            examples.retain(|example| example.weight >= least);
            examples.iter_mut().for_each(|example| example.weight *= weight);
            examples.retain(|example| example.weight > 0.0);
            examples
        }
        _ => Vec::new(),
    }
}

/// Every conclusion once, with its label for a confidence and no premise.
fn fixed_labels(label: FixedLabel, rules: &[RuleRecord], groundings: &Groundings) -> Evidence {
    let mut evidence = Evidence::default();
    for (index, &conclusion) in groundings.unlabeled().iter().enumerate() {
        let doubt = |&grounding: &u32| 1.0 - rules[groundings.rule(grounding as usize)].confidence.get();
        let label = match label {
            FixedLabel::Hard => 1.0,
            FixedLabel::Confidence => 1.0 - groundings.concluding(index).iter().map(doubt).product::<f64>(),
        };
        evidence.push(&[], conclusion, label as f32);
    }
    evidence
}

/// p ∧ … ∧ ¬n ∧ …, in postfix.
fn conjunction(premises: usize, negated: usize) -> Vec<Step> {
    let mut formula = Vec::new();
    for at in 0..premises + negated {
        formula.push(Step::Premise(at as u32));
        if at >= premises {
            formula.push(Step::Not);
        }
        if at > 0 {
            formula.push(Step::And);
        }
    }
    formula
}

/// The rules a spec leaves in, and their groundings in train. A rule that names relations or entities the data do not have
/// concludes nothing and is left out.
pub fn grounded(
    spec: &Spec,
    data: &Dataset,
    rules: Vec<RuleRecord>,
    control: &Control<'_>,
) -> Result<(Vec<RuleRecord>, Groundings)> {
    let mut rules = left_in(spec, data, rules);
    let horn: Vec<_> = rules.iter().map(|record| record.rule.clone()).collect();
    let groundings = groundings(data, &horn, control)?;
    weigh(spec, data, &mut rules, &groundings);
    Ok((rules, groundings))
}

/// Gives rules that a spec has left in the confidence it says: one for all, or what validation says of their groundings.
pub fn weigh(spec: &Spec, data: &Dataset, rules: &mut [RuleRecord], groundings: &Groundings) {
    if let Some(confidence) = spec.rules.confidence.and_then(Confidence::new) {
        rules.iter_mut().for_each(|record| record.confidence = confidence);
    }
    if spec.rules.weigh == Weigh::Validated {
        ruge_rules::rank::validated::weigh(rules, groundings, data);
    }
}

/// All groundings of rules in train, where they fit into memory; else an error that names the rule.
pub fn groundings(data: &Dataset, rules: &[Rule], control: &Control<'_>) -> Result<Groundings> {
    ground_within(data.graph(), rules, memory::ground_limit(), control).map_err(|error| match error {
        RuleError::TooManyGroundings { rule, limit } => {
            let rule = &rules[rule];
            // A name that only a rule file knows has no text here.
            let is_sayable = is_sayable(rule, data.names());
            let rule = if is_sayable { formula(rule, data.names()) } else { format!("{rule:?}") };
            RugeError::Groundings { limit, rule }
        }
        other => other.into(),
    })
}

/// The rules a spec leaves in, with the confidence it says.
pub fn left_in(spec: &Spec, data: &Dataset, rules: Vec<RuleRecord>) -> Vec<RuleRecord> {
    let stays = |record: &RuleRecord| {
        record.confidence.get() >= spec.rules.min_confidence && is_sayable(&record.rule, data.names())
    };
    let mut rules: Vec<RuleRecord> = rules.into_iter().filter(stays).collect();
    if let Some(confidence) = spec.rules.confidence.and_then(Confidence::new) {
        rules.iter_mut().for_each(|record| record.confidence = confidence);
    }
    rules
}

/// What an epoch consists of.
pub fn plan<'a>(spec: &Spec, data: &'a Dataset, evidence: &'a Evidence, examples: &'a [Example]) -> Result<Plan<'a>> {
    spec.check()?;
    if data.train().is_empty() {
        return Err(RugeError::refused("there are no training triples"));
    }
    if spec.schedule.plateau.is_some() && data.valid().is_empty() {
        return Err(RugeError::setting(
            "schedule.plateau",
            "schedule.plateau needs validation, but the data have no validation triples",
        ));
    }
    let mut plan = Plan::new(data.graph(), data.train(), spec.seed);
    (plan.evidence, plan.examples) = (evidence, examples);
    plan.most_groundings = spec.rules.most_groundings.unwrap_or(usize::MAX);
    match spec.training {
        Training::Negatives(NegativesSpec { batches, negatives, objective, projection, guidance }) => {
            let count = batches.size.map_or(batches.count, |size| data.train().len().div_ceil(size));
            plan.batches = count.min(data.train().len());
            (plan.batching, plan.inner_steps) = (batches.positives, batches.inner_steps);
            (plan.negatives, plan.objective, plan.projection) = (negatives, objective, projection);
            match guidance {
                Pull::None => {}
                Pull::Ruge { slackness, t_norm, dealing } => {
                    plan.guidance = Guidance::SoftLabels { slackness, t_norm };
                    plan.dealing = dealing;
                }
                Pull::Static { .. } => plan.guidance = Guidance::FixedLabels,
                Pull::Kale { weight, margin } => plan.guidance = Guidance::Injection { weight, margin },
            }
        }
        Training::Softmax(SoftmaxSpec { softmax, .. }) => plan.softmax = Some(softmax),
        Training::PTransE(_) | Training::Rules => {}
    }
    require_memory(spec, data, evidence, examples)?;
    Ok(plan)
}

/// Refuses training that would take more memory than there is, now that it is known what rules add. On a card it is the card that
/// must have room for a batch.
fn require_memory(spec: &Spec, data: &Dataset, evidence: &Evidence, examples: &[Example]) -> Result<()> {
    if spec.device != DeviceName::Cpu || matches!(spec.training, Training::PTransE(_)) {
        return Ok(());
    }
    let sizes = Sizes {
        groundings: evidence.len() as u64,
        premises: evidence.all_premises().len() as u64,
        examples: examples.len() as u64,
        ..sizes(data)
    };
    // The groundings are in memory already, and so not in what is left.
    shape(&spec.model).map_or(Ok(()), |shape| memory::training(spec, &shape, &sizes)?.without("groundings").require())
}

/// The widths of a model; none where there are no vectors.
fn shape(model: &ModelSpec) -> Option<Shape> {
    for_scoring!(*model, |scoring| Shape::of(&scoring))
}

/// The rules a spec asks for: read from its file, or mined from train. Guidances without rules get none.
pub fn rules(spec: &Spec, data: &Dataset, control: &Control<'_>) -> Result<Vec<RuleRecord>> {
    if spec.takes_rules() { rules_of(&spec.rules, data, control) } else { Ok(Vec::new()) }
}

/// The rules of a spec whether or not its guidance takes any: read from the file, or mined from train.
pub fn rules_of(wanted: &RulesSpec, data: &Dataset, control: &Control<'_>) -> Result<Vec<RuleRecord>> {
    match &wanted.file {
        Some(file) => {
            let mut names = data.names().clone();
            Ok(read_rules_about(Path::new(file), &RuleReadOptions::default(), &mut names)?.0.rules)
        }
        None => mined(wanted, data, control),
    }
}

/// The rules that rank in addition to a model, as a spec wants them: mined for the purpose, of a file, or none.
pub fn ranking_rules(wanted: &RulesSpec, data: &Dataset, control: &Control<'_>) -> Result<Vec<RuleRecord>> {
    match &wanted.ranking {
        RankingRules::Auto => mined(&RulesSpec { mine: MinePreset::Ranking, ..RulesSpec::default() }, data, control),
        RankingRules::None => Ok(Vec::new()),
        RankingRules::File(path) => {
            let mut rules = rules_of(&RulesSpec::default().from_file(path.clone()), data, control)?;
            rules.retain(|record| ruge_rules::words::is_sayable(&record.rule, data.names()));
            Ok(rules)
        }
    }
}

/// Rules for ranking, mined until the control says stop: those of the heads that were searched, and the heads that were not.
pub fn ranking_rules_until(data: &Dataset, control: &Control<'_>) -> Result<(Vec<RuleRecord>, Vec<RelationId>)> {
    mined_until(&RulesSpec { mine: MinePreset::Ranking, ..RulesSpec::default() }, data, control)
}

/// The rules that mining finds.
pub fn mined(wanted: &RulesSpec, data: &Dataset, control: &Control<'_>) -> Result<Vec<RuleRecord>> {
    let (rules, unfinished) = mined_until(wanted, data, control)?;
    if !unfinished.is_empty() {
        return Err(Cancelled.into());
    }
    match wanted.max_conclusions {
        Some(share) => surest(rules, data, share, control),
        None => Ok(rules),
    }
}

fn mined_until(
    wanted: &RulesSpec,
    data: &Dataset,
    control: &Control<'_>,
) -> Result<(Vec<RuleRecord>, Vec<RelationId>)> {
    let graph = data.graph();
    let size = [data.train().len(), graph.entity_count(), graph.relation_count()];
    let mut config = wanted.config_for(size);
    if wanted.mine == MinePreset::Ranking {
        config = config.at_hubs_of(graph);
        config.max_body = wanted.max_body.unwrap_or(config.max_body);
    }
    config.memory = memory::mining(config.memory);
    let mined = mine(graph, &config, control);
    if let Some(limit) = mined.over_memory {
        let size = limit as f64 / 1e9;
        return Err(RugeError::setting(
            "rules.min-support",
            format!(
                "mining finds more candidates and rules than fit into {size:.1} GB of memory\n  \
                 remedy: raise rules.min-support, rules.min-hc or rules.min-pca"
            ),
        ));
    }
    let rules = mined.rules.into_iter().map(|rule| RuleRecord::counted(rule.rule, rule.counts)).collect();
    Ok((rules, mined.unfinished))
}

/// The surest rules whose conclusions, taken together, are at most `share` as many as the training triples.
///
/// Surest by the lower bound of the standard confidence given its counts, which asks for evidence and does not believe
/// that a relation is a function. Rules that conclude nothing new cost nothing and stay. The order is kept.
fn surest(rules: Vec<RuleRecord>, data: &Dataset, share: f64, control: &Control<'_>) -> Result<Vec<RuleRecord>> {
    let horn: Vec<_> = rules.iter().map(|record| record.rule.clone()).collect();
    let groundings = groundings(data, &horn, control)?;
    let most = (share * data.train().len() as f64) as usize;
    let sure = |rule: usize| rules[rule].counts.map_or(0.0, |counts| counts.wilson());
    let mut order: Vec<usize> = (0..rules.len()).collect();
    order.sort_by(|&a, &b| sure(b).total_cmp(&sure(a)).then(a.cmp(&b)));
    let mut concluded = vec![false; groundings.unlabeled().len()];
    let mut count = 0;
    let mut kept = vec![false; rules.len()];
    for rule in order {
        let conclusions = groundings.of_rule(rule).map(|grounding| groundings.conclusion(grounding));
        let mut new: Vec<usize> = conclusions.filter(|&place| !concluded[place]).collect();
        new.sort_unstable();
        new.dedup();
        if count + new.len() > most {
            // Those after it are less sure.
            break;
        }
        count += new.len();
        new.into_iter().for_each(|place| concluded[place] = true);
        kept[rule] = true;
    }
    let quiet = |rule: usize| groundings.of_rule(rule).is_empty();
    let keeps: Vec<bool> = (0..rules.len()).map(|rule| kept[rule] || quiet(rule)).collect();
    Ok(rules.into_iter().zip(keeps).filter_map(|(record, keep)| keep.then_some(record)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruge_kg::ReadOptions;

    #[test]
    fn a_rule_with_more_groundings_than_memory_is_named() {
        let (data, _) = Dataset::load(Path::new("demo"), &ReadOptions::default()).expect("it is embedded");
        let relation = data.graph().relations().max_by_key(|&r| data.graph().facts(r).len()).expect("there are some");
        let variable =
            |at: u8| if at == 60 { ruge_rules::Variable::Y } else { ruge_rules::Variable(at + u8::from(at > 0)) };
        // To and fro along one relation: the ways multiply with every atom.
        let step = |at: u8| match at % 2 {
            0 => ruge_rules::Atom::new(relation, variable(at), variable(at + 1)),
            _ => ruge_rules::Atom::new(relation, variable(at + 1), variable(at)),
        };
        let rule = Rule::new(
            ruge_rules::Atom::new(relation, ruge_rules::Variable::X, ruge_rules::Variable::Y),
            (0..60).map(step).collect(),
        );
        let error =
            groundings(&data, std::slice::from_ref(&rule), &Control::default()).expect_err("too many").to_string();
        assert!(error.contains("groundings") && error.contains("remedy") && error.contains('⇒'), "{error}");
        let control = Control::default();
        control.cancel().cancel();
        assert!(groundings(&data, &[rule], &control).expect_err("cancelled").is_cancelled());
        assert!(mined(&RulesSpec::default(), &data, &control).expect_err("cancelled").is_cancelled());
        assert!(rules_of(&RulesSpec::default(), &data, &control).expect_err("cancelled").is_cancelled());
    }

    #[test]
    fn the_surest_rules_stay() {
        let (data, _) = Dataset::load(Path::new("demo"), &ReadOptions::default()).expect("it is embedded");
        let mut wanted = RulesSpec { min_pca: Some(0.3), ..RulesSpec::default() };
        let mined = |wanted: &RulesSpec| mined(wanted, &data, &Control::default()).expect("it fits");
        let all = mined(&wanted);
        wanted.max_conclusions = Some(0.1);
        let some = mined(&wanted);
        let conclusions = |rules: &[RuleRecord]| {
            let horn: Vec<_> = rules.iter().map(|record| record.rule.clone()).collect();
            ruge_rules::ground(data.graph(), &horn).unlabeled().len()
        };
        assert!(conclusions(&all) > 952 && conclusions(&some) <= 952, "{} of {}", some.len(), all.len());
        assert!(some.len() > 5 && some.iter().all(|record| all.contains(record)));
        let least = some.iter().filter_map(|record| record.counts).map(|counts| counts.wilson()).fold(1.0, f64::min);
        let left_out = all.iter().filter(|record| !some.contains(record)).filter_map(|record| record.counts);
        assert!(left_out.into_iter().all(|counts| counts.wilson() <= least), "a surer rule was left out");
        wanted.max_conclusions = Some(100.0);
        assert_eq!(mined(&wanted), all);
    }
}
