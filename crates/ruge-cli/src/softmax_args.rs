//! Flags of softmax training, for whoever trains.

use anyhow::{Result, bail};
use clap::Args;
use ruge::{GuidanceSpec, Spec};

use crate::usage::UsageError;

/// What may be said about softmax training and about examples.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct SoftmaxArgs {
    /// Questions per softmax batch; positives per batch if the spec sets batches.size
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Weight of the N3 penalty (softmax training)
    #[arg(long, value_name = "X")]
    n3: Option<f32>,
    /// Number of candidate entities per softmax batch; 0 for all
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Weight of a rule's conclusion relative to an observed triple (guidance examples)
    #[arg(long, value_name = "X")]
    weight: Option<f32>,
}

impl SoftmaxArgs {
    /// Whether anything was said at all.
    pub fn are_given(&self) -> bool {
        *self != Self::default()
    }

    /// Lays the flags over a spec; refuses those that it has no place for.
    pub fn lay_over(&self, spec: &mut Spec) -> Result<()> {
        match &mut spec.softmax {
            Some(softmax) => {
                softmax.batch = self.batch.unwrap_or(softmax.batch);
                softmax.sample = self.sample.unwrap_or(softmax.sample);
                softmax.n3 = self.n3.unwrap_or(softmax.n3);
            }
            None if self.n3.is_some()
                || self.sample.is_some()
                || (self.batch.is_some() && spec.batches.size.is_none()) =>
            {
                bail!(UsageError(
                    "--batch, --sample and --n3 need softmax training: complex, distmult or hole with --guidance examples, or \
                     `ruge train --preset complex-n3`"
                        .into()
                ))
            }
            None => spec.batches.size = self.batch.or(spec.batches.size),
        }
        match (&mut spec.guidance, self.weight) {
            (GuidanceSpec::Examples { weight, .. }, Some(wanted)) => *weight = wanted,
            (_, Some(_)) => bail!(UsageError("--weight needs --guidance examples".into())),
            _ => {}
        }
        Ok(())
    }
}
