//! What a process has used: processor time and memory, as the kernel counts them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::time::Duration;

/// Time that all threads of a process have been on a processor. Threads that have ended are not in it: what
/// we measure keeps its threads.
///
/// # Errors
/// There is no such process, or the kernel does not count.
pub fn on_processor(process: u32) -> io::Result<Duration> {
    Ok(of_threads(process)?.into_values().sum())
}

/// The same of each of its threads.
///
/// # Errors
/// As [`on_processor`].
pub fn of_threads(process: u32) -> io::Result<BTreeMap<OsString, Duration>> {
    let mut all = BTreeMap::new();
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let thread = thread?;
        // A thread that ends in between counts as if it had before.
        let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
        let on = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        let nanos = on.ok_or_else(|| io::Error::other("the kernel counts no processor time"))?;
        all.insert(thread.file_name(), Duration::from_nanos(nanos));
    }
    Ok(all)
}

/// Resident memory of a process, in KiB: now, and the most it ever had.
pub fn resident_kib(process: u32) -> io::Result<[u64; 2]> {
    let text = fs::read_to_string(format!("/proc/{process}/status"))?;
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        let word = line.and_then(|line| line.split_whitespace().nth(1));
        word.and_then(|word| word.parse().ok())
            .ok_or_else(|| io::Error::other(format!("no {name}")))
    };
    Ok([field("VmRSS:")?, field("VmHWM:")?])
}

/// Bytes that a process has read so far, from files, sockets and pipes, cached or not.
///
/// # Errors
/// There is no such process, or the kernel does not count.
pub fn read_bytes(process: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/io"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("rchar:"));
    let bytes = line.and_then(|word| word.trim().parse().ok());
    bytes.ok_or_else(|| io::Error::other("the kernel counts no reads"))
}

/// Raises the limit of open files as far as it goes, for this process and those that it starts: a load has
/// thousands of connections. Where it cannot be raised, what needs more says so itself.
pub fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Allowed to everybody: the soft limit up to the hard one.
    let _ = setrlimit(Resource::Nofile, limit);
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn this_process_uses_time_and_memory() {
        let own = std::process::id();
        let before = on_processor(own).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(30) {
            std::hint::black_box(start);
        }
        assert!(on_processor(own).unwrap() > before);
        let [now, most] = resident_kib(own).unwrap();
        assert!(0 < now && now <= most);
        let before = read_bytes(own).unwrap();
        let text = fs::read_to_string("/proc/self/status").unwrap();
        assert!(read_bytes(own).unwrap() >= before + text.len() as u64);
        assert!(resident_kib(u32::MAX).is_err());
    }
}
