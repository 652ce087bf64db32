//! What rules at ranking time may cost, measured by what training costs.
//!
//! Nobody waits an hour for rules that are added to a model trained in ten minutes. A limit in seconds would make results depend
//! on the machine and on what else it does. So both are counted: training in multiplications, from the spec and the data, and rules in steps
//! from edge to edge ([`Weighing::steps`](ruge_rules::rank::Weighing)).

use ruge_kg::Dataset;

use crate::spec::{DeviceName, ModelName, NegativesSpec, SoftmaxSpec, Spec, Training};

/// Multiplications of training in the time of one step along an edge, on the same processor. A rough estimate, from the embedded graph, CoDEx-S,
/// WN18RR and FB15k-237.
const PER_STEP: f64 = 100.0;
/// How many times as many a GPU does in that time.
const ON_GPU: f64 = 100.0;
/// A sampled negative is computed by itself and not in a product of matrices, which takes about so many times as long.
const BY_ITSELF: f64 = 10.0;
/// Steps that may be taken in any case.
const AT_LEAST: f64 = 4e9;

/// Steps that weighing and fitting rules for ranking may take: about as long as training one model takes.
pub fn ranking_steps(spec: &Spec, data: &Dataset) -> u64 {
    let per_step = match spec.device {
        DeviceName::Cpu => PER_STEP,
        DeviceName::Cuda => PER_STEP * ON_GPU,
    };
    (multiplications(spec, data.train().len(), data.entity_count()) / per_step).max(AT_LEAST) as u64
}

/// Multiplications of all epochs, scores alone: gradients take as much again, and patience often ends training early.
fn multiplications(spec: &Spec, triples: usize, entities: usize) -> f64 {
    let complex = matches!(spec.model.name, ModelName::ComplEx | ModelName::HolE | ModelName::RotatE);
    let width = spec.model.dimension as f64 * if complex { 2.0 } else { 1.0 };
    let candidates = match &spec.training {
        // A question about each end.
        Training::Softmax(SoftmaxSpec { softmax, .. }) => {
            2.0 * if softmax.sample == 0 { entities } else { softmax.sample } as f64
        }
        Training::Negatives(NegativesSpec { negatives, batches, .. }) => {
            BY_ITSELF * (1 + negatives.count) as f64 * batches.inner_steps as f64
        }
        Training::PTransE(_) | Training::Rules => 0.0,
    };
    spec.schedule.epochs as f64 * triples as f64 * candidates * width
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruge_kg::Names;

    fn data(triples: usize) -> Dataset {
        let mut names = Names::default();
        let train = (0..triples).map(|at| names.triple(&format!("h{at}"), "r", &format!("t{}", at % 10))).collect();
        Dataset::new(names, train, Vec::new(), Vec::new())
    }

    #[test]
    fn rules_may_cost_what_training_costs() {
        let mut spec = Spec::paper(ModelName::ComplEx, "examples").unwrap();
        spec.schedule.epochs = 100;
        spec.softmax_mut().unwrap().softmax.sample = 500;
        assert_eq!(ranking_steps(&spec, &data(100)), AT_LEAST as u64, "small graphs are not starved");
        let data = data(20_000);
        let steps = ranking_steps(&spec, &data);
        // 100 epochs of 20,000 triples, each with two questions among 500 candidates of 400 numbers.
        assert_eq!(steps as f64, 100.0 * 20_000.0 * 2.0 * 500.0 * 400.0 / PER_STEP);
        spec.schedule.epochs = 200;
        assert_eq!(ranking_steps(&spec, &data), 2 * steps);
        spec.softmax_mut().unwrap().softmax.sample = 0;
        let all = ranking_steps(&spec, &data);
        assert!(all > 20 * steps, "{all}: all 20,010 entities are candidates");
        spec.device = DeviceName::Cuda;
        assert!(ranking_steps(&spec, &data) < all / 10, "a GPU trains faster, and rules do not run on it");
        let distance = Spec::paper(ModelName::TransE, "none").unwrap();
        assert!(multiplications(&distance, 20_000, 20_010) > 0.0);
    }
}
