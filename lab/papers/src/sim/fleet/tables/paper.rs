//! What the paper prints.
//! Source: papers/janus.txt, Table IV.

use tidegate_fleet::MatchingName;
use tidegate_schedule::SchedulerName;

use super::case::System;

/// Mean latencies of `ls`, `nm` and `lt` on 3G, 4G and WiFi, seconds.
const TABLE_IV: [(&str, [[f64; 3]; 3]); 7] = [
    ("Native", [[10.86; 3], [7.52; 3], [7.26; 3]]),
    ("QM-Only", [[1.13, 8.51, 13.22], [0.53, 4.51, 9.69], [0.41, 3.57, 8.72]]),
    ("FCFS", [[4.75, 6.95, 7.69], [1.52, 2.29, 5.19], [1.29, 2.24, 4.63]]),
    ("LRFS", [[4.73, 6.89, 7.77], [1.48, 2.26, 5.68], [1.26, 2.19, 4.81]]),
    ("Best-Fit", [[4.68, 6.83, 7.70], [1.55, 2.33, 5.04], [1.30, 2.29, 4.08]]),
    ("Random", [[4.81, 6.93, 7.66], [1.49, 2.30, 5.26], [1.27, 2.21, 4.41]]),
    ("Janus", [[4.71, 6.54, 8.04], [1.58, 2.41, 3.53], [1.32, 2.39, 3.06]]),
];

/// The row of the paper that a system stands beside.
fn row(system: System) -> &'static str {
    match system {
        System::Alone(SchedulerName::Native) => "Native",
        System::Alone(_) => "QM-Only",
        System::Fleet(MatchingName::Fcfs) => "FCFS",
        System::Fleet(MatchingName::Lrfs) => "LRFS",
        System::Fleet(MatchingName::BestFit) => "Best-Fit",
        System::Fleet(MatchingName::Random) => "Random",
        System::Fleet(_) | System::Janus | System::Oracle => "Janus",
    }
}

/// The paper's means for a network and a system, as they are printed.
pub(super) fn means(network: &str, system: System) -> String {
    let place = ["3G", "4G", "WiFi"].iter().position(|name| *name == network);
    let row = TABLE_IV.iter().find(|(name, _)| *name == row(system));
    match place.zip(row) {
        Some((place, (name, rows))) => {
            let [ls, nm, lt] = rows[place];
            format!("{name}: {ls} / {nm} / {lt}")
        }
        None => String::new(),
    }
}
