//! Every kernel compiles, for every model and setting. Needs NVRTC, not a GPU; fails without it if `RUGE_NVRTC=required`.

use std::process::ExitCode;

use ruge_cuda::{Constants, CudaError, compile_kernels, constants};
use ruge_embed::scoring::{ComplEx, DistMult, HolE, Reciprocal, RotatE, TransEL1, TransEL2};
use ruge_embed::{Cap, Guidance, Loss, Objective, Optimizer, ScoringFunction, TNorm, UpdateRule};
use ruge_testing::{Missing, Need, Tests};

fn main() -> ExitCode {
    let nvrtc = nvrtc();
    Tests::default()
        .test(nvrtc.clone(), kernels_compile_for_every_model)
        .test(nvrtc, softmax_kernels_compile_with_reciprocal_relations)
        .run()
}

fn nvrtc() -> Need<()> {
    match compile_kernels(&constants(&DistMult::new(2), Optimizer::default())) {
        Err(error @ CudaError::Missing { .. }) => {
            assert!(std::env::var("RUGE_NVRTC").as_deref() != Ok("required"), "{error}");
            Err(Missing::new("NVRTC", error))
        }
        // Other errors are left to the tests.
        _ => Ok(()),
    }
}

fn compiles(constants: &Constants) {
    let text = compile_kernels(constants).unwrap_or_else(|error| panic!("{error}"));
    for kernel in ["draw_negatives", "sort_touches", "pass", "inject", "update", "count_ranks", "distances"] {
        assert!(text.contains(&format!(".entry {kernel}(")), "{kernel} is in the program");
    }
    let dot = matches!(constants.model, "complex" | "distmult" | "hole");
    for kernel in ["softmax_slopes", "target_slopes", "gather_sample", "sample_slopes", "move_sampled"] {
        assert_eq!(text.contains(&format!(".entry {kernel}(")), dot, "{kernel} is for models that softmax trains");
    }
    let sees_all = matches!(constants.objective.loss, Loss::SelfAdversarial { .. } | Loss::SampledSoftmax);
    assert_eq!(text.contains(".entry slope_crowd("), sees_all, "only losses that see all negatives weigh them");
}

fn every_setting<F: ScoringFunction>(scoring: &F) {
    let rules = [
        UpdateRule::AdaGrad { epsilon: 1e-8, inside: false },
        UpdateRule::AdaGrad { epsilon: 1e-8, inside: true },
        UpdateRule::Sgd,
        UpdateRule::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 },
    ];
    let losses = [
        Loss::Logistic,
        Loss::PairwiseRanking { margin: 1.0 },
        Loss::TruthRanking { margin: 0.1 },
        Loss::SelfAdversarial { temperature: 0.5 },
        Loss::SampledSoftmax,
    ];
    let guidances = [
        Guidance::None,
        Guidance::SoftLabels { slackness: 0.01, t_norm: TNorm::Product },
        Guidance::SoftLabels { slackness: 0.01, t_norm: TNorm::Lukasiewicz },
        Guidance::Injection { weight: 1.0, margin: 0.1 },
        Guidance::FixedLabels,
    ];
    for (at, guidance) in guidances.into_iter().enumerate() {
        let cap = if at == 3 { Cap::Matrix { norm: 1.0 } } else { Cap::Row { norm: 1.0 } };
        let optimizer = Optimizer { rule: rules[at % 4], cap, ..Optimizer::default() };
        let mut constants = constants(scoring, optimizer);
        constants.objective = Objective { loss: losses[at], subsampling: at % 2 == 1, ..Objective::default() };
        constants.guidance = guidance;
        constants.negatives = [10, 2, 1, 5, 400][at];
        (constants.premises, constants.stack) = (1 + at, 1 + at);
        compiles(&constants);
    }
}

fn kernels_compile_for_every_model((): ()) {
    every_setting(&ComplEx::new(200));
    every_setting(&DistMult::new(50));
    every_setting(&HolE::new(200));
    every_setting(&TransEL1::new(100));
    every_setting(&TransEL2::new(31));
    every_setting(&RotatE::new(1000));
}

fn softmax_kernels_compile_with_reciprocal_relations((): ()) {
    for rule in [UpdateRule::AdaGrad { epsilon: 1e-10, inside: false }, UpdateRule::Sgd] {
        let optimizer = Optimizer { rule, cap: Cap::None, ..Optimizer::default() };
        for rounded in [false, true] {
            compiles(&Constants { rounded, ..constants(&Reciprocal(ComplEx::new(2000)), optimizer) });
            compiles(&Constants { rounded, ..constants(&Reciprocal(DistMult::new(37)), optimizer) });
        }
    }
}
