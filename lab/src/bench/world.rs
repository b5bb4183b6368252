//! `lab bench FILE.toml`: a world with real processes, beside the same file in virtual time.

use std::path::Path;

use crate::play::{self, Played};
use crate::report::{Findings, Machine, figure};
use crate::sim;
use crate::world::{self, Records, World};

/// Medians that differ by more than this part disagree.
const AGREES: f64 = 0.25;

/// Plays the world of a file; answers with what it found, and with the checks that do not hold.
pub(crate) async fn run(file: &Path, say: fn(&str)) -> anyhow::Result<Findings> {
    let (world, folder) = World::read(file)?;
    let before = Machine::this().load_before;
    let played = play::play(&world, &folder, None, say).await?;
    let mut found = Findings { broken: played.broken.clone(), ..Findings::default() };
    if !world.source.is_empty() {
        match sim::play(&world, &folder, None) {
            Ok(virtually) => {
                let load = before.max(Machine::this().load_before);
                found.add(beside(&world, &played, &virtually, load));
            }
            Err(error) => found.lines.push(format!("not in virtual time: {error:#}")),
        }
        found.figures.extend(world::figures(&world, &played.records));
    }
    found.figures.extend(played.figures);
    Ok(found)
}

/// Median and p99 of each source, real and virtual, and where they disagree what is known of why.
fn beside(world: &World, played: &Played, virtually: &sim::Played, load: f64) -> Findings {
    let mut lines = vec![format!(
        "{:<16} {:>12} {:>12} {:>8} {:>12} {:>12} {:>8}",
        "source", "p50 real", "virtual", "ratio", "p99 real", "virtual", "ratio"
    )];
    let mut disagree = Vec::new();
    let mut figures = Vec::new();
    for source in &world.source {
        let name = &source.name;
        let of = |records: &Records, part| {
            let quantile = records.get(name).and_then(|one| one.quantile(part));
            quantile.map_or(f64::NAN, |took| took.as_secs_f64() * 1e3)
        };
        let [p50, p99] =
            [0.5, 0.99].map(|part| (of(&played.records, part), of(&virtually.records, part)));
        let ratio = |(real, virtually): (f64, f64)| real / virtually;
        lines.push(format!(
            "{name:<16} {:>9.1} ms {:>9.1} ms {:>8.3} {:>9.1} ms {:>9.1} ms {:>8.3}",
            p50.0,
            p50.1,
            ratio(p50),
            p99.0,
            p99.1,
            ratio(p99)
        ));
        let figure_name = format!("{}_{name}_p50_real_over_virtual", world.name.replace('-', "_"));
        figures.push(figure(&figure_name, ratio(p50), "1"));
        // What never came agrees with nothing.
        if ratio(p50).is_nan() || (ratio(p50) - 1.0).abs() > AGREES {
            disagree.push(name.as_str());
        }
    }
    let (link, virtual_rate) = &virtually.carried;
    let [up, down] = played.carried.get(link).copied().unwrap_or_default();
    let rate = up.max(down);
    lines.push(format!(
        "{link} carried {rate:.3} Mbit/s while sources sent, in virtual time {virtual_rate:.3}"
    ));
    if disagree.is_empty() {
        lines.push(format!("real and virtual agree within {:.0} % at p50", AGREES * 100.0));
    } else {
        lines.push(format!(
            "real and virtual disagree by more than {:.0} % at p50: {}",
            AGREES * 100.0,
            disagree.join(", ")
        ));
        lines.extend(why(played, load));
    }
    (lines, figures).into()
}

/// What virtual time does not have, with how much of it there was.
fn why(played: &Played, load: f64) -> Vec<String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let (sent, again) = played.segments;
    vec![
        "virtual time has no processor, no kernel, no broker and no publisher; here".into(),
        format!("  {load:.1} processes wanted {processors} processors"),
        format!("  the emulator was late by {:.1} ms (p99)", played.late.as_secs_f64() * 1e3),
        format!("  TCP sent {again} of {sent} segments again; queues refused {}", played.refused),
        "  connections began with slow start, records carried properties of their publisher,"
            .into(),
        "  and a latency ends when a consumer of the broker has the record".into(),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::world::{Came, Delivered};

    fn records(took: u64) -> Records {
        let came = |due| Came {
            due: Duration::from_millis(due),
            took: Duration::from_millis(took),
            bytes: 200,
        };
        let one = Delivered { came: (0..10).map(came).collect(), ..Delivered::default() };
        [("alarm".to_owned(), one.clone()), ("bulk".to_owned(), one)].into()
    }

    #[test]
    fn a_disagreement_is_named_and_explained() {
        let world = World::parse(include_str!("../../worlds/hol.toml")).unwrap();
        let lines = |real| {
            let played = Played { records: records(real), segments: (900, 7), ..Played::default() };
            let virtually = sim::Played {
                records: records(100),
                carried: ("lte".into(), 1.9),
                ..sim::Played::default()
            };
            beside(&world, &played, &virtually, 3.5).printed().join("\n")
        };
        assert!(lines(110).contains("agree within 25 %"), "{}", lines(110));
        let text = lines(130);
        assert!(text.contains("disagree by more than 25 % at p50: alarm, bulk"), "{text}");
        assert!(text.contains("TCP sent 7 of 900") && text.contains("3.5 processes"), "{text}");
        assert!(text.contains("FIGURE hol_alarm_p50_real_over_virtual 1.3 1"), "{text}");
    }
}
