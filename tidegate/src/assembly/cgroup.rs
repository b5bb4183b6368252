//! The control group of this process: how much memory it may take before the kernel ends it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::config::LimitsConfig;

/// Where control groups are mounted (version 2).
const MOUNT: &str = "/sys/fs/cgroup";
/// Memory of a connection beside what clients may make the node hold.
const CONNECTION: u64 = 16 * 1024;
/// Memory of the program itself, scripts and frames not counted.
const PROGRAM: u64 = 64 << 20;

/// The least memory that this process's control group, or one above it, allows. `None` where there is no bound
/// or no such group.
pub(crate) fn memory_max() -> Option<u64> {
    least(Path::new(MOUNT), &fs::read_to_string("/proc/self/cgroup").ok()?)
}

/// The same for a file of processes' groups below a mount.
fn least(mount: &Path, groups: &str) -> Option<u64> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder: PathBuf = mount.join(group.trim());
    let folders = folder.ancestors().take_while(|folder| folder.starts_with(mount));
    let bound = |folder: &Path| {
        fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse::<u64>().ok()
    };
    folders.filter_map(bound).min()
}

/// Bytes that a node may take with these limits.
pub(crate) fn wanted(limits: &LimitsConfig) -> u64 {
    let connections = u64::from(limits.connections) * CONNECTION;
    [limits.memory.0.0, limits.clients() as u64, limits.retained.0.0, connections, PROGRAM]
        .iter()
        .fold(0, |sum: u64, bytes| sum.saturating_add(*bytes))
}

/// What to say where a node may take more than its control group allows.
pub(crate) fn warning(limits: &LimitsConfig, allowed: Option<u64>) -> Option<String> {
    let (wanted, allowed) = (wanted(limits), allowed?);
    (wanted > allowed).then(|| {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        format!(
            "with these [limits] the node may take {} MiB, and its control group allows {} MiB: the kernel \
             would end it when it is full. Raise memory.max (systemd: MemoryMax), or lower limits.memory, \
             limits.retained or limits.connections",
            mib(wanted),
            mib(allowed)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_bound_of_all_groups_above_counts() {
        let name = format!("tidegate-cgroup-{}", std::process::id());
        let mount = std::env::temp_dir().join(name);
        let folder = mount.join("system.slice/tidegate.service");
        fs::create_dir_all(&folder).unwrap();
        let put = |folder: &Path, text: &str| fs::write(folder.join("memory.max"), text).unwrap();
        let groups = "1:name=systemd:/old\n0::/system.slice/tidegate.service\n";
        assert_eq!(least(&mount, groups), None);
        put(&folder, "max\n");
        assert_eq!(least(&mount, groups), None);
        put(&folder, "1000\n");
        put(folder.parent().unwrap(), "900\n");
        assert_eq!(least(&mount, groups), Some(900));
        assert_eq!(least(&mount, "12:memory:/only-the-first-version\n"), None);
        fs::remove_dir_all(mount).unwrap();
    }

    #[test]
    fn bounds_beyond_the_control_group_are_told_with_their_cure() {
        let limits = LimitsConfig::default();
        assert_eq!(wanted(&limits), (64 + 32 + 64 + 64) * (1 << 20) + 10_000 * CONNECTION);
        assert_eq!(warning(&limits, None), None);
        assert_eq!(warning(&limits, Some(wanted(&limits))), None);
        let told = warning(&limits, Some(128 << 20)).unwrap();
        assert!(told.contains("381 MiB") && told.contains("128 MiB"), "{told}");
        assert!(told.contains("memory.max") && told.contains("limits.connections"), "{told}");
    }
    #[test]
    fn the_packaged_units_bound_memory_and_write_no_core() {
        for unit in [
            include_str!("../../../packaging/tidegate.service"),
            include_str!("../../../packaging/tidegate-orchestrate.service"),
        ] {
            assert!(unit.lines().any(|line| line.starts_with("MemoryMax=")), "{unit}");
            assert!(unit.lines().any(|line| line == "LimitCORE=0"), "{unit}");
        }
    }
}
