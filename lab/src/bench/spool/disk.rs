//! The disk under a folder: what it wrote, and how often it can sync.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a sector in the kernel's statistics, whatever the disk's own are.
const SECTOR: u64 = 512;

/// What the disk of a folder had written at some time, whoever asked for it.
pub(super) struct Written(u64);

impl Written {
    pub(super) fn now(folder: &Path) -> io::Result<Written> {
        let device = std::fs::metadata(folder)?.dev();
        let numbers = (libc::major(device).to_string(), libc::minor(device).to_string());
        let text = std::fs::read_to_string("/proc/diskstats")?;
        let written = text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let own = (words.next()?, words.next()?) == (&numbers.0, &numbers.1);
            // Name, then reads (4 numbers), writes, writes merged, sectors written.
            own.then(|| words.nth(7)?.parse::<u64>().ok())?
        });
        // A folder without a disk (a tmpfs) writes nothing.
        Ok(Written(written.unwrap_or(0) * SECTOR))
    }

    /// Bytes written since then.
    pub(super) fn since(&self, folder: &Path) -> io::Result<f64> {
        Ok(Written::now(folder)?.0.saturating_sub(self.0) as f64)
    }
}

/// Waits until everything is written that anybody wrote to the disk under a folder.
pub(super) fn settle(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(std::fs::File::open(folder)?)?)
}

/// How often 4 KiB can be appended and made safe.
pub(super) fn syncs_a_second(folder: &Path, time: Duration) -> io::Result<f64> {
    let path = folder.join("syncs");
    let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
    let (start, mut count) = (Instant::now(), 0_u32);
    while start.elapsed() < time {
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        count += 1;
    }
    let rate = f64::from(count) / start.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}
