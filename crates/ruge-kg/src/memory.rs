//! Memory checks before large allocations: running out of memory later would end the whole program.
//!
//! Two checks are possible in advance. The system reports how much memory is left, and a fallible allocation fails
//! where a process limit is reached. Neither is a guarantee, since another program may take the rest a moment later.
//! But a file that unpacks to a thousand times its size is rejected before it is read.

use crate::error::KgError;

/// Smaller allocations are not checked: a check costs two small reads.
const WORTH_ASKING: u64 = 64 << 20;

/// Upper bound on the bytes this process can still allocate, if the system reports it. Only the impossible is refused.
pub fn available() -> Option<u64> {
    let (memory, swap) = parse_available(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups).into_iter();
    let limit = limits.filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()).min();
    // Inside a container or slice its cgroup limits apply, minus what this process already uses of them.
    let left = limit.map(|limit| limit.saturating_sub(resident().unwrap_or(0)));
    Some(left.map_or(memory, |left| left.min(memory)).saturating_add(swap))
}

/// Rejects a request for more memory than the system has left or than one allocation can get. `given` overrides the
/// system.
pub fn ensure(needed: u64, what: &str, given: Option<u64>) -> Result<(), KgError> {
    if needed < WORTH_ASKING && given.is_none() {
        return Ok(());
    }
    let left = given.or_else(available);
    let mut trial = Vec::<u8>::new();
    let fits = left.is_none_or(|left| needed <= left)
        && usize::try_from(needed).is_ok_and(|needed| trial.try_reserve_exact(needed).is_ok());
    if fits { Ok(()) } else { Err(missing(needed, what, left)) }
}

/// Makes room for `additional` more elements: doubles the capacity if memory allows, otherwise reserves just enough.
#[inline]
pub(crate) fn reserve<T>(list: &mut Vec<T>, additional: usize, what: &str, given: Option<u64>) -> Result<(), KgError> {
    if list.capacity() - list.len() >= additional {
        return Ok(());
    }
    let exact = room::<T>(list.len(), list.capacity(), additional, what, given)?;
    list.try_reserve_exact(exact).map_err(|_| missing(((list.len() + exact) * size_of::<T>()) as u64, what, None))
}

pub(crate) fn reserve_text(
    text: &mut String,
    additional: usize,
    what: &str,
    given: Option<u64>,
) -> Result<(), KgError> {
    if text.capacity() - text.len() >= additional {
        return Ok(());
    }
    let exact = room::<u8>(text.len(), text.capacity(), additional, what, given)?;
    text.try_reserve_exact(exact).map_err(|_| missing((text.len() + exact) as u64, what, None))
}

#[cold]
fn room<T>(
    length: usize,
    capacity: usize,
    additional: usize,
    what: &str,
    given: Option<u64>,
) -> Result<usize, KgError> {
    let bytes = |count: usize| (count as u64).saturating_mul(size_of::<T>() as u64);
    let least = length.saturating_add(additional);
    let doubled = least.max(capacity.saturating_mul(2)).max(4);
    if ensure(bytes(doubled), what, given).is_ok() {
        return Ok(doubled - length);
    }
    ensure(bytes(least), what, given).map(|()| additional)
}

pub(crate) fn missing(needed: u64, what: &str, available: Option<u64>) -> KgError {
    KgError::Memory { what: what.to_string(), needed, available }
}

/// Files that may hold a limit: of this process's cgroup and of all its ancestors, in both cgroup versions.
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
        // Inside a container the path may be the host's; then only the root exists.
        let mut group = group.trim_end_matches('/');
        loop {
            files.push(format!("{root}{group}/{file}"));
            let Some(at) = group.rfind('/') else { break };
            group = &group[..at];
        }
    }
    files
}

fn parse_available(text: &str) -> Option<(u64, u64)> {
    let bytes = |name: &str| kilobytes(text, name).map(|kilobytes| kilobytes.saturating_mul(1024));
    Some((bytes("MemAvailable:")?, bytes("SwapFree:").unwrap_or(0)))
}

fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    kilobytes(&status, "VmRSS:").map(|kilobytes| kilobytes.saturating_mul(1024))
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_doubled_where_it_fits_and_exact_where_only_that_does() {
        let mut list = vec![0u32; 100];
        list.shrink_to_fit();
        reserve(&mut list, 1, "numbers", Some(1 << 20)).unwrap();
        assert_eq!(list.capacity(), 200);
        list.resize(200, 0);
        reserve(&mut list, 10, "numbers", Some(900)).unwrap();
        assert_eq!(list.capacity(), 210);
        list.resize(210, 0);
        let error = reserve(&mut list, 100, "numbers", Some(900)).unwrap_err();
        assert!(matches!(error, KgError::Memory { needed: 1240, available: Some(900), .. }), "{error:?}");
        assert!(reserve(&mut list, usize::MAX / 2, "numbers", None).is_err(), "too much for any machine");
    }

    #[test]
    fn what_no_machine_has_is_refused() {
        assert!(ensure(u64::MAX, "everything", None).is_err());
        assert!(ensure(1 << 20, "a little", None).is_ok());
    }

    #[test]
    fn what_the_system_says_is_understood() {
        assert_eq!(parse_available("MemFree: 1 kB\nMemAvailable:  2000 kB\nSwapFree: 3 kB\n"), Some((2_048_000, 3072)));
        assert_eq!(parse_available("MemFree: 1 kB\n"), None);
        assert_eq!(limit_files("0::/a/b\n"), ["/a/b", "/a", ""].map(|g| format!("/sys/fs/cgroup{g}/memory.max")));
        assert_eq!(limit_files("3:cpu,memory:/\n"), ["/sys/fs/cgroup/memory/memory.limit_in_bytes"]);
    }
}
