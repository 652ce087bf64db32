//! The source text of a model's kernels: constants first, then the kernels.
//!
//! Whatever a model and its plan fix (shapes, loss, optimiser) is compiled in: loops unroll and rows stay in registers.

use std::fmt::Write;

use ruge_embed::evidence::Guidance;
use ruge_embed::fuzzy::TNorm;
use ruge_embed::objective::{Loss, Objective, Penalty, share, truth_scale};
use ruge_embed::optimizer::{Cap, Optimizer, UpdateRule};

const MODEL: &str = include_str!("../kernels/model.cu");
const RANDOM: &str = include_str!("../kernels/random.cu");
const ORDER: &str = include_str!("../kernels/order.cu");
const CROWD: &str = include_str!("../kernels/crowd.cu");
const TRAIN: &str = include_str!("../kernels/train.cu");
const SOFTMAX: &str = include_str!("../kernels/softmax.cu");
const TARGETS: &str = include_str!("../kernels/targets.cu");
const SAMPLE: &str = include_str!("../kernels/sample.cu");
const RANK: &str = include_str!("../kernels/rank.cu");

/// Shape of one kind of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowShape {
    /// Entries per row.
    pub entries: usize,
    /// Components per entry: 2 if the real half is followed by an imaginary half.
    pub components: usize,
    /// Floats between rows.
    pub stride: usize,
}

impl RowShape {
    /// Floats per row.
    pub fn width(&self) -> usize {
        self.entries * self.components
    }
}

/// All compiled-in constants.
#[derive(Clone, Debug)]
pub struct Constants {
    /// The scoring function's name.
    pub model: &'static str,
    /// d as counted by the paper.
    pub dimension: usize,
    /// Entity rows as scored.
    pub entities: RowShape,
    /// Relation rows as scored; one half of them with reciprocal relations.
    pub relations: RowShape,
    /// Entity rows as stored.
    pub entity_parameters: RowShape,
    /// Relation rows as stored.
    pub relation_parameters: RowShape,
    /// Negatives per positive.
    pub negatives: usize,
    /// Entities in the graph, which a sample stands for.
    pub all_entities: usize,
    /// Loss and penalty.
    pub objective: Objective,
    /// How evidence is used.
    pub guidance: Guidance,
    /// The optimiser.
    pub optimizer: Optimizer,
    /// Maximum premises of a grounding.
    pub premises: usize,
    /// Maximum stack depth of a premise formula.
    pub stack: usize,
    /// Halves of a relation row: 2 with reciprocal relations.
    pub sides: usize,
    /// Whether factors of softmax training have 16 bits.
    pub rounded: bool,
}

impl Constants {
    /// Threads that share a row: enough that each holds at most eight entries.
    pub fn team(&self) -> usize {
        let widest = [self.entities, self.relations, self.entity_parameters, self.relation_parameters];
        let entries = widest.iter().map(|rows| rows.entries).max().unwrap_or(1);
        entries.div_ceil(8).next_power_of_two().clamp(32, 256)
    }

    /// Threads per block.
    pub fn block(&self) -> usize {
        if self.team() == 32 { 256 } else { self.team() }
    }

    /// Rows or slots per block at a time.
    pub fn teams(&self) -> usize {
        self.block() / self.team()
    }
}

/// The architecture to compile for: the newest that both the GPU runs and the compiler (1000 · major + 10 · minor)
/// supports. A GPU runs code compiled for an older one.
pub(crate) fn architecture(card: (i32, i32), compiler: i32) -> &'static str {
    match card {
        (12.., _) if compiler >= 12_080 => "compute_120",
        (10.., _) if compiler >= 12_080 => "compute_100",
        (9.., _) if compiler >= 11_080 => "compute_90",
        (9.., _) => "compute_80",
        (8, 9) => "compute_89",
        (8, 6..) => "compute_86",
        (8, _) => "compute_80",
        _ => "compute_75",
    }
}

/// The parts of a program; each is compiled on first use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Program {
    /// Sampling, scoring, updating.
    Train,
    Softmax,
    Rank,
}

pub(crate) fn program(constants: &Constants, part: Program) -> String {
    let mut text = String::new();
    let mut whole = |name: &str, value: usize| {
        let _ = writeln!(text, "#define {name} {value}");
    };
    whole(
        "MODEL",
        match constants.model {
            "complex" | "hole" => 0,
            "distmult" => 1,
            "transe-l1" => 2,
            "transe-l2" => 3,
            _ => 4,
        },
    );
    whole("D", constants.entities.entries);
    whole("EC", constants.entities.components);
    whole("RC", constants.relations.components);
    whole("ES", constants.entities.stride);
    whole("RS", constants.relations.stride);
    for (kind, rows) in [("E", constants.entity_parameters), ("R", constants.relation_parameters)] {
        whole(&format!("PD_{kind}"), rows.entries);
        whole(&format!("PC_{kind}"), rows.components);
        whole(&format!("PS_{kind}"), rows.stride);
    }
    whole("SIDES", constants.sides);
    whole("ROUNDED", usize::from(constants.rounded));
    whole("T", constants.team());
    whole("BLOCK", constants.block());
    whole("ALPHA", constants.negatives);
    whole("CHUNK", crate::crowd::CHUNK);
    whole("SUBSAMPLED", usize::from(constants.objective.subsampling));
    whole("PREMISES", constants.premises.max(1));
    whole("STACK", constants.stack.max(1));
    whole(
        "LOSS",
        match constants.objective.loss {
            Loss::Logistic => 0,
            Loss::PairwiseRanking { .. } => 1,
            Loss::TruthRanking { .. } => 2,
            Loss::SelfAdversarial { .. } => 3,
            Loss::SampledSoftmax => 4,
        },
    );
    let (guidance, t_norm) = match constants.guidance {
        Guidance::None => (0, 0),
        Guidance::SoftLabels { t_norm, .. } => (
            1,
            match t_norm {
                TNorm::Product => 0,
                TNorm::Lukasiewicz => 1,
                TNorm::Godel => 2,
            },
        ),
        Guidance::Injection { .. } => (2, 0),
        Guidance::FixedLabels => (3, 0),
    };
    whole("GUIDANCE", guidance);
    whole("T_NORM", t_norm);
    let (rule, epsilon, beta1, beta2) = match constants.optimizer.rule {
        UpdateRule::AdaGrad { epsilon, inside } => (usize::from(inside), epsilon, 0.0, 0.0),
        UpdateRule::Sgd => (2, 0.0, 0.0, 0.0),
        UpdateRule::Adam { beta1, beta2, epsilon } => (3, epsilon, beta1, beta2),
    };
    whole("OPTIMIZER", rule);
    let mut real = |name: &str, value: f32| {
        // As bits, so that no precision is lost in the text.
        let _ = writeln!(text, "#define {name} (__int_as_float({:#x}))", value.to_bits());
    };
    let margin = match constants.objective.loss {
        Loss::Logistic | Loss::SelfAdversarial { .. } | Loss::SampledSoftmax => 0.0,
        Loss::PairwiseRanking { margin } | Loss::TruthRanking { margin } => margin,
    };
    let by_truth = matches!(constants.objective.loss, Loss::TruthRanking { .. });
    real("MARGIN", margin);
    let temperature = match constants.objective.loss {
        Loss::SelfAdversarial { temperature } => temperature,
        _ => 1.0,
    };
    real("TEMPERATURE", temperature);
    real("SHARE", share(constants.all_entities, constants.negatives));
    real("SHIFT", constants.objective.shift);
    real("SCALE", if by_truth { truth_scale(constants.dimension) } else { 1.0 });
    real("TRUTH_SCALE", truth_scale(constants.dimension));
    let l2 = match constants.objective.penalty {
        Penalty::None => 0.0,
        Penalty::L2 { weight } => 2.0 * weight / constants.dimension as f32,
    };
    real("L2", l2);
    let (slackness, injection, injection_margin) = match constants.guidance {
        Guidance::None | Guidance::FixedLabels => (0.0, 0.0, 0.0),
        Guidance::SoftLabels { slackness, .. } => (slackness, 0.0, 0.0),
        Guidance::Injection { weight, margin } => (0.0, weight, margin),
    };
    real("SLACKNESS", slackness);
    real("INJECTION", injection);
    real("INJECTION_MARGIN", injection_margin);
    real("EPSILON", epsilon);
    real("BETA1", beta1);
    real("BETA2", beta2);
    let (row, matrix) = match constants.optimizer.cap {
        Cap::None => (0.0, 0.0),
        Cap::Row { norm } => (norm, 0.0),
        Cap::Matrix { norm } => (0.0, norm),
    };
    real("CAP", row);
    real("MATRIX_CAP", matrix);
    match part {
        Program::Train => [&text, MODEL, RANDOM, ORDER, CROWD, TRAIN].concat(),
        Program::Softmax => [&text, MODEL, RANDOM, SOFTMAX, TARGETS, SAMPLE].concat(),
        Program::Rank => [&text, MODEL, RANK].concat(),
    }
}

/// Compiles every kernel for a model to PTX text; needs NVRTC (CUDA's run-time compiler) but no GPU.
pub fn compile_kernels(constants: &Constants) -> crate::Result<String> {
    // SAFETY: this only tries to load a library by name.
    if !unsafe { cudarc::nvrtc::sys::is_culib_present() } {
        return Err(crate::CudaError::Missing { library: "libnvrtc" });
    }
    let mut text = String::new();
    let dot = matches!(constants.model, "complex" | "distmult" | "hole");
    let parts = [Program::Train, Program::Softmax, Program::Rank];
    for part in parts.into_iter().filter(|part| dot || *part != Program::Softmax) {
        text += &crate::device::compile(&program(constants, part), "compute_90")?.to_src();
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_compiled_for_what_card_and_compiler_both_know() {
        assert_eq!(architecture((9, 0), 13_000), "compute_90");
        assert_eq!(architecture((12, 0), 13_000), "compute_120");
        assert_eq!(architecture((10, 3), 12_080), "compute_100");
        assert_eq!(architecture((12, 0), 12_040), "compute_90", "an older compiler");
        assert_eq!(architecture((8, 9), 13_000), "compute_89");
        assert_eq!(architecture((7, 5), 13_000), "compute_75");
    }
}
