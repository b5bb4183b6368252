//! Threads that must be on time: those that emulate, and those that measure the emulation.

use std::num::NonZeroU64;

use super::run;

/// Above whatever else of a benchmark runs at real-time priority (`chrt -r 5 lab bench ...`).
const PRIORITY: &str = "50";

/// Lets the calling thread run before all others that want the processor, and lets its waits end when
/// they should, not up to 50 us later to save power. A real wire takes no processor from anybody and waits
/// for none. Where that is not permitted the thread goes on as it is; `lab net selftest` shows the price.
pub fn urgent() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let _ = run("chrt", &["--fifo", "--pid", PRIORITY, &thread]);
}
