//! Whether work fits into the machine, asked before it starts: memory that turns out to be missing later takes the
//! whole program down, with everything it had not written yet.

use ruge_rules::GroundLimit;

use crate::error::{Result, RugeError};

mod training;

pub(crate) use training::{Shape, Sizes, ptranse, training};

/// What some work takes.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    /// The work, in words.
    work: String,
    parts: Vec<Part>,
}

/// A part of it.
#[derive(Clone, Debug)]
struct Part {
    what: String,
    bytes: u64,
    /// How it gets smaller.
    remedy: &'static str,
}

/// What stays free for everything that is not counted: a twentieth, within these bounds.
const RESERVE: [u64; 2] = [64_000_000, 1_000_000_000];

/// What can be used of what is available.
fn usable(available: u64) -> u64 {
    available.saturating_sub((available / 20).clamp(RESERVE[0], RESERVE[1]))
}

impl Need {
    fn new(work: String) -> Self {
        Self { work, parts: Vec::new() }
    }

    /// Refuses work that takes more than this machine has left.
    pub(crate) fn require(&self) -> Result<()> {
        available().map_or(Ok(()), |available| self.within(available))
    }

    fn within(&self, available: u64) -> Result<()> {
        let all = self.parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.bytes));
        let Some(largest) = self.parts.iter().max_by_key(|part| part.bytes).filter(|_| all > usable(available)) else {
            return Ok(());
        };
        Err(RugeError::Spec(format!(
            "{} needs {} of memory, and this machine has {} left, swap included\n  the largest part is {} for {}\n  remedy: {}",
            self.work,
            gigabytes(all),
            gigabytes(usable(available)),
            gigabytes(largest.bytes),
            largest.what,
            largest.remedy,
        )))
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

/// How many groundings may be held: three quarters of the memory that is left, since guidance takes the rest.
pub(crate) fn ground_limit() -> GroundLimit {
    GroundLimit::of_bytes(available().map_or(u64::MAX, |available| usable(available) / 4 * 3))
}

/// Bytes that mining may take: no more than its own limit, and no more than the machine has left.
pub fn mining(limit: u64) -> u64 {
    available().map_or(limit, |available| usable(available).min(limit))
}

/// Bytes that can still be had, where the system says so: at most, since only what cannot work is to be refused.
fn available() -> Option<u64> {
    let (memory, swap) = parse_available(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    // Inside a container or a slice the limits of its groups count.
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups).into_iter();
    let limits = limits.filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse().ok());
    Some(limits.fold(memory, u64::min).saturating_add(swap))
}

/// Files that may tell a limit: of this process's group and of all above it, in both versions of the kernel's interface.
fn limit_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // Inside a container the path may be that of the machine outside; then only the root is there.
        let mut group = group.trim_end_matches('/');
        loop {
            files.push(format!("{root}{group}/{file}"));
            let Some(at) = group.rfind('/') else { break };
            group = &group[..at];
        }
    }
    files
}

/// Memory and swap.
fn parse_available(text: &str) -> Option<(u64, u64)> {
    let kilobytes = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    Some((1024 * kilobytes("MemAvailable:")?, 1024 * kilobytes("SwapFree:").unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_the_arithmetic() {
        let mut need = Need::new("training".into());
        need.add("parameters", 3_000_000_000, "lower the dimension");
        need.add("the optimiser", 2_700_000_000, "use another");
        assert!(need.within(6_000_000_000).is_ok());
        let words = need.within(5_999_999_900).unwrap_err().to_string();
        for part in ["training needs 5.7 GB", "5.7 GB left", "3.0 GB for parameters", "remedy: lower the dimension"] {
            assert!(words.contains(part), "{words}");
        }
        need.add("everything", u64::MAX, "ask for less");
        assert!(need.within(u64::MAX).unwrap_err().to_string().contains("ask for less"));
    }

    #[test]
    fn something_is_kept_free() {
        assert_eq!(usable(10_000_000_000), 9_500_000_000);
        assert_eq!(usable(100_000_000_000), 99_000_000_000);
        assert_eq!((usable(100_000_000), usable(1)), (36_000_000, 0));
    }

    #[test]
    fn limits_of_all_groups_are_looked_at() {
        assert_eq!(
            limit_files("0::/user.slice/run-1.scope\n"),
            [
                "/sys/fs/cgroup/user.slice/run-1.scope/memory.max",
                "/sys/fs/cgroup/user.slice/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert_eq!(limit_files("0::/\n"), ["/sys/fs/cgroup/memory.max"]);
        assert_eq!(
            limit_files("5:cpu:/x\n4:hugetlb,memory:/box\nnothing\n"),
            ["/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        );
        assert!(limit_files("").is_empty());
    }

    #[test]
    fn the_systems_words_are_understood() {
        let text = "MemTotal:       24000000 kB\nMemFree:  1 kB\nMemAvailable:    2000 kB\nBuffers: 3 kB\n";
        assert_eq!(parse_available(text), Some((2_048_000, 0)));
        assert_eq!(parse_available(&format!("{text}SwapFree:  1000 kB\n")), Some((2_048_000, 1_024_000)));
        assert_eq!(parse_available("MemTotal: 4 kB\n"), None);
    }
}
