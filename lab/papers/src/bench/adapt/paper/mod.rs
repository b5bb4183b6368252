//! `lab bench adapt-paper`: BumbleBee's three scripts (Fig. 3, 9 and 13), as printed, in every place where scripts run:
//! the product's processes with real clients and servers around them. It passes or fails; nothing is timed.

mod places;

use std::time::Duration;

use tokio::time::sleep;

use self::places::{CLOUD, Place, Running, Setup};
use super::Verdict;
use crate::report::Findings;
use crate::rig::versions::Program;

const FIG_3: &str = include_str!("../../../../../../tidegate/lua/paper/fig3.luau");
const FIG_9: &str = include_str!("../../../../../../tidegate/lua/paper/fig9.luau");
const FIG_13: &str = include_str!("../../../../../../tidegate/lua/paper/fig13.luau");
/// What Fig. 13 leaves to the configuration.
const FIND_RESOLUTION: &str =
    "function find_resolution(bw) return if tonumber(bw) < 1000 then 240 else 720 end";
/// How often it is tried until a place knows that its far end is down.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    /// Fig. 3 without a cloud: the edge gets it.
    Fig3Cut,
    /// Fig. 3 on a slow way: it is made smaller, and the source is told.
    Fig3Slow,
    /// Fig. 9: late events are dropped.
    Fig9,
    /// Fig. 13: another resolution is asked for.
    Fig13,
}

impl Trial {
    const ALL: [Trial; 4] = [Trial::Fig3Cut, Trial::Fig3Slow, Trial::Fig9, Trial::Fig13];

    fn name(self) -> &'static str {
        match self {
            Trial::Fig3Cut => "fig3_cut",
            Trial::Fig3Slow => "fig3_slow",
            Trial::Fig9 => "fig9",
            Trial::Fig13 => "fig13",
        }
    }

    fn setup(self) -> Setup {
        const FIG_3_KEYS: &str = "parameters = { required = 250000 }\n\
             transform = { \"180p\" = \"SMALL\" }\nnotify = [\"NOTIFY\"]";
        match self {
            Trial::Fig3Cut => {
                Setup { script: FIG_3, keys: FIG_3_KEYS, is_cut: true, ..Setup::default() }
            }
            Trial::Fig3Slow => {
                Setup { script: FIG_3, keys: FIG_3_KEYS, rate: Some("80kbit"), ..Setup::default() }
            }
            Trial::Fig9 => Setup { script: FIG_9, ..Setup::default() },
            Trial::Fig13 => Setup {
                script: FIG_13,
                helper: FIND_RESOLUTION,
                keys: "path = \"^/?(%d+)/(.+)$\"",
                ..Setup::default()
            },
        }
    }

    /// Whether it does what the paper says; why not otherwise.
    async fn passes(self, running: &mut Running) -> anyhow::Result<Result<(), String>> {
        let is_good = match self {
            Trial::Fig3Cut => redirected(running).await?,
            Trial::Fig3Slow => made_smaller(running).await?,
            Trial::Fig9 => shed(running).await?,
            Trial::Fig13 => {
                for (path, bandwidth) in
                    [("720/7.ts", "500"), ("240/8.ts", "5000"), ("720/9.ts", "5000")]
                {
                    running.send(path, &[("bw-est", bandwidth)], "x").await?;
                }
                let mut is_good = true;
                for path in ["240/7.ts", "720/8.ts", "720/9.ts"] {
                    is_good &= running.saw(|seen| seen.at == CLOUD && seen.path == path).await;
                }
                is_good && running.seen().len() == 3
            }
        };
        Ok(if is_good { Ok(()) } else { Err(format!("seen: {:?}", running.seen())) })
    }
}

/// Until the place has found out that nobody listens in the cloud, messages may be refused.
async fn redirected(running: &mut Running) -> anyhow::Result<bool> {
    for _ in 0..TRIES {
        running.send("frame", &[], "large").await?;
        if running.seen().iter().any(|seen| seen.at == "edge-detector" && seen.text == "large") {
            return Ok(true);
        }
        sleep(PAUSE).await;
    }
    Ok(running.saw(|seen| seen.at == "edge-detector").await)
}

/// What an endpoint made of a message comes to the cloud, and the source is told a rate. Until connections are up the
/// way counts as down.
async fn made_smaller(running: &mut Running) -> anyhow::Result<bool> {
    for _ in 0..TRIES {
        running.send("frame", &[], "large").await?;
        sleep(PAUSE).await;
        let seen = running.seen();
        let is_small = seen.iter().any(|seen| seen.at == CLOUD && seen.text == "small");
        let is_told = seen.iter().any(|seen| {
            seen.at == "notify" && seen.text.parse::<f64>().is_ok_and(|bandwidth| bandwidth > 0.0)
        });
        if is_small && is_told {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Of a late and a fresh event only the fresh one gets through: to the far end, or back from it.
async fn shed(running: &mut Running) -> anyhow::Result<bool> {
    let late = "{\"event_type\": \"view\", \"event_time\": 1}";
    let fresh = "{\"event_type\": \"view\", \"event_time\": 9999999999}";
    let answers =
        [running.send("events", &[], late).await?, running.send("events", &[], fresh).await?];
    if let [Some((first, _)), Some((second, text))] = &answers {
        return Ok(first == "504" && second == "200" && text == fresh);
    }
    let has_come = running.saw(|seen| seen.text == fresh).await;
    Ok(has_come && running.seen().len() == 1)
}

/// Runs it and returns what was found.
pub async fn run() -> anyhow::Result<Findings> {
    let mut verdict = Verdict::new("adapt_paper");
    let names: String = Trial::ALL.iter().map(|trial| format!("{:>12}", trial.name())).collect();
    verdict.say(format!("{:<12}{names}", ""));
    for place in Place::ALL {
        if let Some(Err(error)) = place.program().map(Program::path) {
            verdict.say(format!("skipped: {}: {error}", place.name()));
            continue;
        }
        let mut cells = String::new();
        for trial in Trial::ALL {
            let mut running = Running::start(place, &trial.setup()).await?;
            let result = trial.passes(&mut running).await?;
            cells.push_str(&format!("{:>12}", if result.is_ok() { "runs" } else { "FAILS" }));
            verdict.figure(
                &format!("{}_{}", trial.name(), place.name()),
                f64::from(u8::from(result.is_ok())),
                "1",
            );
            if let Err(why) = result {
                verdict.breaks(format!("{} in the {}: {why}", trial.name(), place.name()));
            }
        }
        verdict.say(format!("{:<12}{cells}", place.name()));
    }
    Ok(verdict.findings(&[Program::Tidegate, Program::Envoy]))
}
