//! Benchmark: from text to an indexed data set, filter included.
//!
//! ```text
//! cargo bench -p ruge-kg --bench load              FB15K against `sort -u`, and the curve at 0.5 and 5 million
//! cargo bench -p ruge-kg --bench load -- --full    and at 50 million (2 GB of text in the temporary folder)
//! cargo bench -p ruge-kg --bench load -- --small   the curve at 0.5 million only
//! ```
//!
//! Each measurement runs in its own process and is timed by the shell (`time`: real, user, sys), so `sort` and `ruge`
//! are measured by the same clock and the peak memory is that of loading alone. Runs alternate; the median is reported.
//! Nothing is asserted, because machines differ.
//!
//! FB15K is read from the folder named by `RUGE_DATA`, or from `shared/data` next to the repository; otherwise
//! synthetic text of the same size is used. *Synthetic text* has n distinct triples over n/40 entities and 1,345
//! relations, in shuffled order. The k-th head is drawn ∝ k^-½, the k-th relation ∝ 1/k, tails uniformly.
//!
//! *Lower bounds of the memory.* Each size comes with two probes from the same run: the time of a dependent random read
//! in a table as large as the entity names, and the time to touch a new page, over as many pages as loading touched.
//! Both grow with size and bound any program from below.

#![allow(clippy::print_stdout, reason = "a benchmark reports to the terminal")]
#![allow(missing_docs, reason = "a program, not a library")]

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use ruge_kg::random::{Stream, draw, unit};
use ruge_kg::{Dataset, ReadOptions};

const SPLITS: [&str; 3] = ["train", "valid", "test"];
const FB15K: u64 = 592_213;
const RELATIONS: f64 = 1345.0;
const SYNTHETIC: Stream = Stream(0x10ad);
/// The argument that makes this program load a folder, print its peak memory and exit.
const CHILD: &str = "--load";

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, folder] = arguments.as_slice()
        && first == CHILD
    {
        return load(Path::new(folder));
    }
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let folder = tempfile::tempdir()?;
    if !has("--small") {
        against_sort(folder.path())?;
    }
    let sizes: &[u64] = match (has("--small"), has("--full")) {
        (true, _) => &[500_000],
        (_, true) => &[500_000, 5_000_000, 50_000_000],
        _ => &[500_000, 5_000_000],
    };
    curve(folder.path(), sizes)
}

/// What a child process runs: the work that is measured.
fn load(folder: &Path) -> io::Result<()> {
    let (data, report) = Dataset::load(folder, &ReadOptions::default()).map_err(io::Error::other)?;
    let known = data.train().first().is_some_and(|&triple| data.filter().contains(triple));
    assert!(known, "the filter knows the first triple");
    assert!(report.duplicates.iter().all(|split| split.count == 0), "nothing is repeated in the text");
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB"));
    println!("{}", peak.map_or("0", str::trim));
    Ok(())
}

/// FB15K and `LC_ALL=C sort -u` over the same text, in turn.
fn against_sort(folder: &Path) -> io::Result<()> {
    let text = folder.join("fb15k");
    fs::create_dir(&text)?;
    let what = if unpack_fb15k(&text)? {
        "FB15K"
    } else {
        synthetic(&text, FB15K, 78)?;
        "synthetic text of the size of FB15K, which is not here (RUGE_DATA names a folder with fb15k)"
    };
    let files: Vec<PathBuf> = SPLITS.iter().map(|split| text.join(format!("{split}.txt"))).collect();
    let files: Vec<&PathBuf> = files.iter().filter(|file| file.is_file()).collect();
    let bytes = size(&text)?;
    println!("{what}: {:.1} MB of text", bytes as f64 / 1e6);
    let quoted: Vec<String> = files.iter().map(|file| format!("'{}'", file.display())).collect();
    let sort = format!("LC_ALL=C sort -u {}", quoted.join(" "));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        ours.push(measure(&child(&text)?)?);
        theirs.push(measure(&sort)?);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    for (name, run) in [("ruge", &ours), ("sort -u", &theirs)] {
        let peak = if run.peak_mb > 0.0 { format!("  peak {:.0} MB", run.peak_mb) } else { String::new() };
        println!(
            "  {name:<8} wall {:.3} s  CPU {:.3} s  {:.0} MB/s{peak}",
            run.wall,
            run.cpu,
            bytes as f64 / 1e6 / run.wall
        );
    }
    println!("  CPU, ruge / sort -u: {:.2}", ours.cpu / theirs.cpu);
    Ok(())
}

fn curve(folder: &Path, sizes: &[u64]) -> io::Result<()> {
    println!("synthetic text, about 40 bytes a line");
    for &triples in sizes {
        let text = folder.join(triples.to_string());
        fs::create_dir(&text)?;
        synthetic(&text, triples, 40)?;
        let command = child(&text)?;
        let repeats = if triples > 10_000_000 { 1 } else { 3 };
        let run = median((0..repeats).map(|_| measure(&command)).collect::<io::Result<_>>()?);
        println!(
            "  {:>5.1} million  {:>7.1} MB  wall {:>7.3} s  CPU {:>7.3} s  peak {:>6.0} MB  {:>5.0} ns CPU per triple",
            triples as f64 / 1e6,
            size(&text)? as f64 / 1e6,
            run.wall,
            run.cpu,
            run.peak_mb,
            run.cpu * 1e9 / triples as f64
        );
        let (table, read) = random_read(triples / 40);
        let page = new_page(run.peak_mb);
        println!(
            "{:>17}  user {:.0}, system {:.0} ns per triple; a random read of {:.1} MB {read:.1} ns; a new page {page:.0} ns, {:.0} ns per triple",
            "",
            run.user * 1e9 / triples as f64,
            (run.cpu - run.user) * 1e9 / triples as f64,
            table as f64 / 1e6,
            page * run.peak_mb * 1e6 / PAGE as f64 / triples as f64
        );
        fs::remove_dir_all(&text)?;
    }
    Ok(())
}

/// One process: wall and CPU seconds, and peak megabytes if it prints them.
struct Run {
    wall: f64,
    cpu: f64,
    user: f64,
    peak_mb: f64,
}

const PAGE: usize = 4096;

/// Bytes of the name table for this many entities, and nanoseconds per dependent random read in it.
fn random_read(entities: u64) -> (usize, f64) {
    let slots = (2 * entities.max(8)).next_power_of_two();
    // One cycle through all slots: an odd step added to a multiple of 4 plus 1 has the full period.
    let table: Vec<u64> = (0..slots).map(|slot| (slot * 0x9e37_79b5 + 0x6d2b_79f5) % slots).collect();
    let mut at = 0;
    let read = median_time(400, 10_000, &mut |_| at = table[at as usize]);
    std::hint::black_box(at);
    (8 * table.len(), read)
}

/// Nanoseconds to touch a page for the first time, over `megabytes` of pages.
fn new_page(megabytes: f64) -> f64 {
    let mut pages = vec![0u8; (megabytes * 1e6) as usize];
    let count = pages.len() / PAGE;
    let time = median_time(count / 512, 512, &mut |page| pages[page * PAGE] = 1);
    std::hint::black_box(&pages);
    time
}

/// Nanoseconds per unit of work: the median of `portions`, since the machine may be shared.
fn median_time(portions: usize, size: usize, work: &mut impl FnMut(usize)) -> f64 {
    let mut times: Vec<f64> = (0..portions)
        .map(|portion| {
            let started = Instant::now();
            (portion * size..(portion + 1) * size).for_each(&mut *work);
            started.elapsed().as_nanos() as f64 / size as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times.get(portions / 2).copied().unwrap_or(f64::NAN)
}

fn child(folder: &Path) -> io::Result<String> {
    Ok(format!("'{}' {CHILD} '{}'", std::env::current_exe()?.display(), folder.display()))
}

fn measure(command: &str) -> io::Result<Run> {
    // The times go to stderr. Our child's output is kept, that of `sort` discarded.
    let rest = if command.contains(CHILD) { "" } else { ">/dev/null" };
    let script = format!("TIMEFORMAT='%R %U %S'; time {command} {rest}");
    let output = Command::new("bash").args(["-c", &script]).output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(io::Error::other(format!("{command}: {errors}")));
    }
    let times: Vec<f64> = errors.split_whitespace().filter_map(|word| word.replace(',', ".").parse().ok()).collect();
    let [wall, user, system] = times[..] else {
        return Err(io::Error::other(format!("the shell told no times: {errors}")));
    };
    let kibibytes: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(0.0);
    Ok(Run { wall, cpu: user + system, user, peak_mb: kibibytes * 1024.0 / 1e6 })
}

fn median(mut runs: Vec<Run>) -> Run {
    runs.sort_by(|a, b| a.cpu.total_cmp(&b.cpu));
    let middle = runs.len() / 2;
    runs.swap_remove(middle)
}

fn unpack_fb15k(target: &Path) -> io::Result<bool> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let source = std::env::var_os("RUGE_DATA").map_or(beside, PathBuf::from).join("fb15k");
    if !source.is_dir() {
        return Ok(false);
    }
    for split in SPLITS {
        let mut text = File::create(target.join(format!("{split}.txt")))?;
        match File::open(source.join(format!("{split}.txt.gz"))) {
            Ok(packed) => io::copy(&mut flate2::read::MultiGzDecoder::new(packed), &mut text)?,
            Err(_) => io::copy(&mut File::open(source.join(format!("{split}.txt")))?, &mut text)?,
        };
    }
    Ok(true)
}

/// Writes `train.txt` as described above, with lines padded to about `width` bytes by longer relation names.
fn synthetic(folder: &Path, triples: u64, width: usize) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(folder.join("train.txt"))?);
    let entities = (triples / 40).max(1);
    // Head k owns the positions from start(k) to start(k + 1): a density ∝ k^-½, and never more positions than tails.
    let start = |k: u64| (triples as f64 * (k as f64 / entities as f64).sqrt()).ceil() as u64;
    let name = "relation_between_two_entities_of_the_graph";
    let padding = &name[..width.saturating_sub(30).min(name.len())];
    // A step coprime to the size visits every position once; near the golden ratio it jumps about.
    let golden = (triples as f64 * 0.618_034) as u64;
    let step = (golden..).find(|&step| gcd(step, triples) == 1).unwrap_or(1);
    let mut place = 0;
    for _ in 0..triples {
        place = (place + step) % triples;
        let share = place as f64 / triples as f64;
        let mut head = ((share * share) * entities as f64) as u64;
        while start(head + 1) <= place {
            head += 1;
        }
        while start(head) > place {
            head -= 1;
        }
        let first_tail = draw(1, SYNTHETIC, 0, head) % entities;
        let tail = (first_tail + place - start(head)) % entities;
        let relation = RELATIONS.powf(unit(draw(1, SYNTHETIC, 1, place))) as u64;
        writeln!(out, "/m/{head:07x}\t/r/{padding}/{relation}\t/m/{tail:07x}")?;
    }
    out.flush()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn size(folder: &Path) -> io::Result<u64> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}
