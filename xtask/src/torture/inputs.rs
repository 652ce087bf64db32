//! Mutated files for every reader, and bombs. Each ends in an answer or in one message, in time and within memory.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::case::{Verdict, Yard, copy_folder};
use super::mutate::mutate;
use super::process::Call;
use super::seeds::{self, Seed};
use super::world::words;

/// Mutations of each seed that are planned; the time decides how many are made.
const MUTATIONS: usize = 5_000;

/// Address space a command may use, in MB, whatever the input: inputs are of a few KB, or of 1 MB where something is
/// repeated, and the program, its stacks and what it maps count too.
const MEMORY: u64 = 2_048;

/// How long one may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Bombs have gigabytes to say: they may take longer, and no more memory.
const BOMB_LIMIT: Duration = Duration::from_secs(90);

enum Case<'a> {
    Mutation(&'a Seed),
    Bomb(&'static str, Vec<u8>, &'static str),
}

/// Mutates every seed.
pub fn attack(yard: &Yard<'_>) -> Result<()> {
    let made = yard.ground.join("made");
    let seeds = seeds::all(&yard.ruge, &made)?;
    let mut cases: Vec<(String, Case<'_>)> = Vec::new();
    for (index, seed) in seeds.iter().enumerate() {
        for number in 0..MUTATIONS {
            cases.push((format!("{}/{index}/{number}", seed.group), Case::Mutation(seed)));
        }
    }
    yard.random("order").shuffle(&mut cases);
    let mut bombs = seeds::bombs();
    yard.random("bombs").shuffle(&mut bombs);
    let bombs = bombs.into_iter().map(|(name, bytes, line)| (format!("bombs/{name}"), Case::Bomb(name, bytes, line)));
    // Bombs are few and slow: they come in between, two for each thousand.
    let mut rest = cases.into_iter();
    let mut all: Vec<(String, Case<'_>)> = Vec::new();
    for bomb in bombs {
        all.push(bomb);
        all.extend(rest.by_ref().take(500));
    }
    all.extend(rest);
    yard.try_all(&all, |name, case, folder| attempt(yard, &made, name, case, folder))
}

fn attempt(yard: &Yard<'_>, made: &Path, name: &str, case: &Case<'_>, folder: &Path) -> Result<Verdict> {
    let (file, line, limit) = match case {
        Case::Mutation(seed) => {
            let mut random = yard.random(name);
            for (name, bytes) in &seed.files {
                put(made, folder, name, bytes)?;
            }
            let (file, bytes) = random.pick(&seed.files);
            let other = &random.pick(&seed.files).1;
            let mutated = mutate(bytes, other, &mut random);
            let mutated = seed.wrap.map_or(mutated.clone(), |wrap| wrap(&mutated));
            put(made, folder, file, &mutated)?;
            (file.as_str(), *random.pick(&seed.lines), LIMIT)
        }
        Case::Bomb(file, bytes, line) => {
            put(made, folder, file, bytes)?;
            (*file, *line, BOMB_LIMIT)
        }
    };
    // What the command reads besides.
    for word in words(line).iter().filter(|word| ["g", "m"].contains(&word.as_str())) {
        if !folder.join(word).join("model.safetensors").exists() && !folder.join(word).join("train.txt").exists() {
            let mutated = std::fs::read(folder.join(file))?;
            copy_folder(&made.join(word), &folder.join(word))?;
            std::fs::write(folder.join(file), mutated)?;
        }
    }
    let line = line.replace("FILE", file);
    let arguments = words(&format!("{line} --threads 1"));
    let mut call = Call::new(&arguments, folder);
    call.memory = Some(MEMORY);
    call.limit = limit;
    let outcome = yard.ruge.call(&call)?;
    Ok(outcome.verdict(&format!("{name}: `ruge {line}`")))
}

/// Writes a file of a seed, with the rest of its folder where it is one that the program made.
fn put(made: &Path, folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
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
