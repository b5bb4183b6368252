//! Processor time that other machines on the same host took from this one: what a run meets then is not the broker's doing.

use std::time::Duration;

/// Where the kernel counts it, in hundredths of a second whatever its own clock.
const FILE: &str = "/proc/stat";
/// Its place among the numbers of the first line: user, nice, system, idle, iowait, irq, softirq, steal.
const PLACE: usize = 7;

/// Taken since this machine began, of all processors together; nothing where no kernel counts it.
pub(super) fn stolen() -> Duration {
    std::fs::read_to_string(FILE).map_or(Duration::ZERO, |text| of(&text))
}

fn of(text: &str) -> Duration {
    let mut words = text.split_whitespace();
    let hundredths = match words.next() {
        Some("cpu") => words.nth(PLACE).and_then(|word| word.parse().ok()).unwrap_or(0),
        _ => 0,
    };
    Duration::from_millis(10 * hundredths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eighth_number_counts() {
        let text = "cpu  74123 5 4000 14 1 2 3 731 8 9\ncpu0 1 2 3 4 5 6 7 99 0 0\n";
        assert_eq!(of(text), Duration::from_millis(7310));
        assert_eq!(of("cpu 1 2 3"), Duration::ZERO);
        assert_eq!(of(""), Duration::ZERO);
    }
}
