//! Mutated files for every reader. Each must give an answer or one message, within time and memory limits.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::case::{Yard, copy_folder};
use super::mutate::mutate;
use super::process::{Call, Outcome};
use super::seeds::{self, Seed};
use super::world::words;

/// Planned mutations per seed; the time limits how many are run.
const MUTATIONS: usize = 5_000;

/// Address space of a command in MB, for any input. Inputs have a few KB, or 1 MB if something is repeated; the
/// program, its stacks and mappings count too.
const MEMORY: u64 = 2_048;

/// Time limit of a command.
const LIMIT: Duration = Duration::from_secs(10);

/// Mutates every seed.
pub fn attack(yard: &Yard<'_>) -> Result<()> {
    let made = yard.ground.join("made");
    let seeds = seeds::all(&yard.ruge, &made)?;
    for (index, seed) in seeds.iter().enumerate() {
        // A seed that is itself refused would only test the first check of its reader.
        let outcome = read(yard, &made, seed, None, seed.lines[0], &yard.ground.join(format!("seed-{index}")))?;
        ensure!(outcome.success(), "seed {index} of {} is refused: {}", seed.group, outcome.last_words());
    }
    let mut cases = Vec::new();
    for (index, seed) in seeds.iter().enumerate() {
        cases.extend((0..MUTATIONS).map(|number| (format!("{}/{index}/{number}", seed.group), seed)));
    }
    yard.random("order").shuffle(&mut cases);
    yard.try_all(&cases, |name, seed, folder| {
        let mut random = yard.random(name);
        let (file, bytes) = random.pick(&seed.files);
        let other = &random.pick(&seed.files).1;
        let mutated = mutate(bytes, other, &mut random);
        let line = *random.pick(&seed.lines);
        let outcome = read(yard, &made, seed, Some((file, mutated)), line, folder)?;
        Ok(outcome.verdict(&format!("{name}: `ruge {line}`")))
    })
}

/// Writes a seed with one of its files mutated, and has it read.
fn read(
    yard: &Yard<'_>,
    made: &Path,
    seed: &Seed,
    mutated: Option<(&String, Vec<u8>)>,
    line: &str,
    folder: &Path,
) -> Result<Outcome> {
    let pack = |bytes: &[u8]| seed.wrap.map_or_else(|| bytes.to_vec(), |wrap| wrap(bytes));
    for (name, bytes) in &seed.files {
        put(made, folder, name, &pack(bytes))?;
    }
    let mut file = &seed.files[0].0;
    if let Some((name, bytes)) = mutated {
        put(made, folder, name, &pack(&bytes))?;
        file = name;
    }
    call(yard, made, file, line, folder, LIMIT, None)
}

/// Runs the program on a file, with the command's other files and the limits of every input.
pub fn call(
    yard: &Yard<'_>,
    made: &Path,
    file: &str,
    line: &str,
    folder: &Path,
    limit: Duration,
    patience: Option<Duration>,
) -> Result<Outcome> {
    // The command's other files.
    for word in words(line).iter().filter(|word| ["g", "m"].contains(&word.as_str())) {
        if !folder.join(word).exists() {
            copy_folder(&made.join(word), &folder.join(word))?;
            std::fs::copy(made.join("rules.tsv"), folder.join("rules.tsv"))?;
        }
    }
    let arguments = words(&format!("{} --threads 1", line.replace("FILE", file)));
    let mut call = Call::new(&arguments, folder);
    call.memory = Some(MEMORY);
    call.limit = limit;
    call.signal = patience.map(|patience| ("TERM", patience));
    yard.ruge.call(&call)
}

/// Writes a file of a seed, with the rest of its folder if the program made it.
pub fn put(made: &Path, folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = folder.join(name);
    if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
        let source = made.join(parent.strip_prefix(folder)?);
        if source.is_dir() && parent != folder {
            copy_folder(&source, parent)?;
        }
        std::fs::create_dir_all(parent)?;
    }
    Ok(std::fs::write(path, bytes)?)
}
