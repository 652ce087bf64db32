//! How much memory the program has held at most.

/// The high-water mark of resident memory in megabytes (10⁶ bytes); `None` where the system does not tell.
pub fn peak_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn the_peak_is_that_of_a_small_program() {
        let megabytes = super::peak_mb().expect("Linux tells");
        assert!((0.5..10_000.0).contains(&megabytes), "{megabytes} MB");
    }
}
