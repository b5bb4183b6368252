//! `lab sim link-buffer`: how much of a small receive window is used.

use std::ops::Range;
use std::time::Duration;

use tidegate_link::LinkOptions;
use tidegate_types::units::Size;

use super::load::Load;
use super::scene::{HEAVY, NONE, PATIENT, RTT_MIN, world};
use super::statistics::mean;
use super::table::{Table, Target};
use crate::report::Findings;

const KIBS: [u64; 3] = [128, 256, 512];
/// Virtual time, and how much of it counts.
const SPAN: (u64, usize) = (12, 9);

pub(in crate::sim) fn run(seeds: Range<u64>) -> Findings {
    let mut table = Table::default();
    let cases =
        [("64 streams, no loss", 64, NONE, 0.9), ("one stream, heavy loss", 1, HEAVY, 0.45)];
    for (name, streams, loss, least) in cases {
        for kib in KIBS {
            for seed in seeds.clone() {
                let receive_window = Size::from_kib(kib);
                let options = LinkOptions { receive_window, ..LinkOptions::new(1, 1) };
                let mut world = world(&options, loss, seed);
                let mut load = Load::new(seed, PATIENT);
                load.streams = streams;
                let second = Duration::from_secs(1);
                let parts = load.bulk(&mut world, Duration::from_secs(SPAN.0), second);
                let counted = &parts[parts.len() - SPAN.1..];
                let counted: Vec<f64> = counted.iter().map(|&bytes| bytes as f64).collect();
                let part = mean(&counted) * RTT_MIN / receive_window.as_f64();
                let name = format!("{kib} KiB, {name}");
                table.add(&name, "window/rtt", Target::AtLeast(least), part);
            }
        }
    }
    table.findings("link_buffer")
}
