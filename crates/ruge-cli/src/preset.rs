//! Complete settings by name, for whoever trains.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use ruge::spec::Preset;

/// A preset as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresetArg(pub Preset);

impl ValueEnum for PresetArg {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: [PresetArg; Preset::ALL.len()] = {
            let mut all = [PresetArg(Preset::RugePaper); Preset::ALL.len()];
            let mut at = 0;
            while at < all.len() {
                all[at] = PresetArg(Preset::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.words()))
    }
}
