//! Whether tables fit into the machine, asked before they are made: memory that turns out to be missing later takes the
//! whole program down, with everything it had not written yet.

use ruge_embed::scoring::{entity_parameters, relation_parameters};
use ruge_embed::{Optimizer, ScoringFunction, Table};

use crate::error::{Result, RugeError};

/// Refuses a model whose tables are larger than what this machine has left.
pub(crate) fn require_tables(
    scoring: &impl ScoringFunction,
    entities: usize,
    relations: usize,
    optimizer: &Optimizer,
) -> Result<()> {
    let Some(available) = available() else { return Ok(()) };
    let stride = |width| Table::zeros(0, width).stride() as u64;
    let floats =
        entities as u64 * stride(entity_parameters(scoring)) + relations as u64 * stride(relation_parameters(scoring));
    let needed = Needed { parameters: 4 * floats, optimizer: 4 * floats * optimizer.state_tables() as u64 };
    needed.within(available, scoring.dimension(), entities)
}

struct Needed {
    parameters: u64,
    optimizer: u64,
}

impl Needed {
    fn within(&self, available: u64, dimension: usize, entities: usize) -> Result<()> {
        let all = self.parameters + self.optimizer;
        if all <= available {
            return Ok(());
        }
        let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
        Err(RugeError::Spec(format!(
            "a model of dimension {dimension} for {entities} entities needs {} of memory: {} for its parameters, {} for the \
             optimiser; this machine has {} left, with what it can swap; train it with a lower --dim, or free some",
            gigabytes(all),
            gigabytes(self.parameters),
            gigabytes(self.optimizer),
            gigabytes(available),
        )))
    }
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
        let needed = Needed { parameters: 3_000_000_000, optimizer: 3_000_000_000 };
        assert!(needed.within(6_000_000_000, 1000, 750).is_ok());
        let words = needed.within(5_999_999_999, 1000, 750).unwrap_err().to_string();
        for part in ["dimension 1000", "750 entities", "needs 6.0 GB", "3.0 GB for its parameters", "--dim"] {
            assert!(words.contains(part), "{words}");
        }
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
