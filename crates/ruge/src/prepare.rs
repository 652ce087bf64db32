//! Rules made ready to rank with, in steps that survive a kill.
//!
//! Mining and weighing rules takes minutes, and nothing in between depends on a model. What is finished is written to one file next to
//! what the stage will leave: first the rules as mined, then those that are kept with their weights. It is sealed like a model, and says what
//! it was made from. One that is damaged, or of other data, settings or another program, counts as none. Whoever finishes the
//! stage removes it ([`clear`]).

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ruge_embed::tensor_file::{self, Content, TensorFile};
use ruge_kg::io::write::remove_for_good;
use ruge_kg::{Control, Dataset, Work};
use ruge_rules::RuleRecord;
use ruge_rules::io::packed;
use ruge_rules::rank::{Learned, Prepared, Weighing};
use safetensors::Dtype;
use serde::{Deserialize, Serialize};

use crate::assemble;
use crate::error::{Result, RugeError};
use crate::model_file::data_hash;
use crate::run::PREPARED;
use crate::spec::{RankingRules, RulesSpec};
use crate::workplace::refuse_link;

/// Who hears of mining, and of learning weights.
pub struct Hearers<'c> {
    /// Of mining.
    pub mining: Control<'c>,
    /// Of learning.
    pub learning: Control<'c>,
}

/// What stands next to the rules.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Words {
    version: u32,
    /// What all of it was made from.
    made_from: String,
    /// What was found besides weights; nothing while rules are only mined.
    learned: Option<Learned>,
}

/// The entry of a file's metadata that is ours.
const OURS: &str = "ruge-prepared";
const RULES: &str = "rules";
const WEIGHTS: &str = "rule_weights";

/// Mines and weighs the rules that a spec wants for ranking. What an earlier call had finished in the folder is taken over, and gives
/// the same bits.
pub fn prepare(
    folder: &Path,
    wanted: &RulesSpec,
    weighing: Weighing,
    data: &Dataset,
    control: &Hearers<'_>,
) -> Result<Prepared> {
    let made_from = made_from(wanted, weighing, data);
    let begun = read(folder, &made_from);
    let rules = match begun {
        Some(Begun { rules, learned: Some((learned, weights)) }) => {
            return Ok(Prepared::restored(rules, data, weighing, learned, &weights));
        }
        Some(Begun { rules, learned: None }) => rules,
        None => {
            let rules = assemble::ranking_rules(wanted, data, &control.mining)?;
            // Reading a file again is quick, and it may have changed.
            if wanted.ranking == RankingRules::Auto {
                write(folder, &made_from, &rules, None)?;
            }
            rules
        }
    };
    // How far rare rules are trusted comes first, and takes a while.
    control.learning.report(&Work { done: 0, total: 0 });
    let prepared = Prepared::beside(rules, data, weighing, &control.learning)?;
    if wanted.ranking == RankingRules::Auto {
        let weights = prepared.scores().weights(prepared.rules.len());
        write(folder, &made_from, &prepared.rules, Some((prepared.learned(), &weights)))?;
    }
    Ok(prepared)
}

/// Removes what was kept: the stage is finished, or is to be done again.
pub fn clear(folder: &Path) -> Result<()> {
    Ok(remove_for_good(&folder.join(PREPARED))?)
}

/// Everything that decides the rules and their weights.
fn made_from(wanted: &RulesSpec, weighing: Weighing, data: &Dataset) -> String {
    let (program, numerics) = (env!("CARGO_PKG_VERSION"), ruge_embed::NUMERICS);
    format!("{} {:?} {weighing:?} {program} {numerics}", data_hash(data), wanted.ranking)
}

/// What an earlier call had finished.
struct Begun {
    rules: Vec<RuleRecord>,
    learned: Option<(Learned, Vec<[f32; 2]>)>,
}

fn write(folder: &Path, made_from: &str, rules: &[RuleRecord], learned: Option<(Learned, &[[f32; 2]])>) -> Result<()> {
    // Rules that cannot be packed are mined again.
    let Some(bytes) = packed::encode(rules) else { return Ok(()) };
    refuse_link(folder)?;
    std::fs::create_dir_all(folder).map_err(RugeError::io(folder, "create"))?;
    let mut tensors = vec![(RULES.to_string(), Content::Bytes(Dtype::U32, vec![bytes.len() / 4], Cow::Owned(bytes)))];
    if let Some((_, weights)) = learned {
        let bytes: Vec<u8> = weights.as_flattened().iter().flat_map(|weight| weight.to_le_bytes()).collect();
        tensors.push((WEIGHTS.into(), Content::Bytes(Dtype::F32, vec![weights.len(), 2], Cow::Owned(bytes))));
    }
    let learned = learned.map(|(learned, _)| learned);
    let words = Words { version: tensor_file::FORMAT, made_from: made_from.into(), learned };
    let words = serde_json::to_string(&words).expect("plain data");
    let path: PathBuf = folder.join(PREPARED);
    tensor_file::write(&path, tensors, HashMap::from([(OURS.to_string(), words)]))
        .map_err(RugeError::io(&path, "write"))
}

/// What is there, whole and made from the same; nothing otherwise: it can be made again.
fn read(folder: &Path, made_from: &str) -> Option<Begun> {
    let file = TensorFile::open(&folder.join(PREPARED)).ok()?;
    let words: Words = serde_json::from_str(file.words()?.get(OURS)?).ok()?;
    if words.made_from != made_from || !file.is_sealed(words.version.into()).ok()? {
        return None;
    }
    let stored = file.read(true, |_| false).ok()?;
    let rules = packed::decode(&stored.tensor(RULES)?.bytes)?;
    let learned = match words.learned {
        None => None,
        Some(learned) => {
            let numbers =
                stored.tensor(WEIGHTS)?.bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
            let weights: Vec<[f32; 2]> = numbers.collect::<Vec<f32>>().as_chunks::<2>().0.to_vec();
            (weights.len() == rules.len()).then_some(())?;
            Some((learned, weights))
        }
    };
    Some(Begun { rules, learned })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ruge_kg::{Cancel, ReadOptions};

    use super::*;

    fn demo() -> Dataset {
        Dataset::load(Path::new("demo"), &ReadOptions::default()).expect("it is embedded").0
    }

    /// Prepares; cancels as soon as learning is heard of, if wanted. The answer: what came, and how often each part was heard of.
    fn go(folder: &Path, data: &Dataset, weighing: Weighing, cut: bool) -> (Result<Prepared>, [usize; 2]) {
        let (cancel, heard) = (Cancel::new(), [const { AtomicUsize::new(0) }; 2]);
        let mining = |_: &Work| {
            heard[0].fetch_add(1, Ordering::Relaxed);
        };
        let learning = |_: &Work| {
            heard[1].fetch_add(1, Ordering::Relaxed);
            if cut {
                cancel.cancel();
            }
        };
        let control = Hearers {
            mining: Control::new(&cancel).with_listener(&mining),
            learning: Control::new(&cancel).with_listener(&learning),
        };
        let found = prepare(folder, &RulesSpec::default(), weighing, data, &control);
        (found, heard.map(AtomicUsize::into_inner))
    }

    fn same(a: &Prepared, b: &Prepared) {
        assert_eq!((&a.rules, a.over_budget, a.learned()), (&b.rules, b.over_budget, b.learned()));
        assert_eq!(a.scores().weights(a.rules.len()), b.scores().weights(b.rules.len()), "to the bit");
    }

    #[test]
    fn what_was_finished_is_not_done_again() {
        let (data, folder) = (demo(), tempfile::tempdir().unwrap());
        let (at, weighing) = (folder.path().join("stage"), Weighing::of(false));
        let whole = Prepared::beside(
            assemble::ranking_rules(&RulesSpec::default(), &data, &Control::default()).unwrap(),
            &data,
            weighing,
            &Control::default(),
        )
        .unwrap();
        let (cut, [mined, learned]) = go(&at, &data, weighing, true);
        assert!(cut.unwrap_err().is_cancelled() && mined > 0 && learned > 0, "cut while weights are learned");
        let (second, [mined, learned]) = go(&at, &data, weighing, false);
        assert!(mined == 0 && learned > 0, "the rules were mined");
        same(&second.unwrap(), &whole);
        let (third, heard) = go(&at, &data, weighing, false);
        assert_eq!(heard, [0, 0], "everything was there");
        same(&third.unwrap(), &whole);
        // Other settings, a flipped bit: what is there does not count.
        let made_from = made_from(&RulesSpec::default(), weighing, &data);
        assert!(read(&at, &made_from).is_some() && read(&at, "something else").is_none());
        let mut bytes = std::fs::read(at.join(PREPARED)).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(at.join(PREPARED), bytes).unwrap();
        assert!(read(&at, &made_from).is_none());
        clear(&at).unwrap();
        clear(&at).unwrap();
        assert!(!at.join(PREPARED).exists());
    }
}
