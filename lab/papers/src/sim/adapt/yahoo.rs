//! `lab sim adapt-yahoo`: the benchmark with the paper's burst in virtual time, at a thousandth of its rate: what decides
//! is how long things take beside each other, not how many there are.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use tidegate::script::{ScriptSpec, Side};
use tidegate_node::io::OutputId;
use tidegate_types::record::DeliveryId;
use tidegate_types::units::Time;

use super::stage::{Stage, Stream, UNIX_NS, spec};
use crate::bench::adapt::yahoo::{CAPACITY, Events, Plan, Score, Worker, tell};
use crate::report::{Findings, Verdict};
use crate::sim::parallel;

const SHED: &str = include_str!("../../../../../tidegate/lua/shed.luau");
const FIG_9: &str = include_str!("../../../../../tidegate/lua/paper/fig9.luau");
/// Seconds of warm-up, before, in and after the burst: the paper's.
const SECONDS: [f64; 4] = [25.0, 100.0, 100.0, 200.0];
/// Events a second outside of the burst.
const BASE: f64 = 200.0;
/// Events that the worker may hold.
const HELD: usize = 4;

/// The lines to print, and what was broken.
pub fn run(data: &Path) -> anyhow::Result<Findings> {
    let Some(events) = Events::read(data)? else {
        return Ok(vec![Events::absent(data)].into());
    };
    let plan = Plan { base: BASE, seconds: SECONDS };
    let mut verdict = Verdict::new("sim_adapt_yahoo");
    verdict.say(format!(
        "{BASE} events/s, twice that for {} s; a worker that does {CAPACITY} times {BASE} a second",
        SECONDS[2]
    ));
    let runs = [
        ("plain", None),
        ("shed", Some(spec("shed", SHED, &[]))),
        ("fig. 9", Some(spec("fig9", FIG_9, &[]))),
    ];
    let played = parallel::map(&runs, |(name, script)| {
        play(&plan, &events, script.clone()).map(|score| (*name, score))
    });
    let rows = played.into_iter().collect::<anyhow::Result<Vec<(&str, Score)>>>()?;
    tell(&rows, &mut verdict);
    Ok(verdict.findings(&[]))
}

fn play(plan: &Plan, events: &Events, script: Option<ScriptSpec>) -> anyhow::Result<Score> {
    let stream = Stream { name: "ad-events", side: Side::Request, to: 0, is_adapted: true };
    let mut stage = Stage::new(script, &[stream], &[("worker", HELD)])?;
    let mut worker = Worker::new(&events.campaigns);
    let service = Duration::from_secs_f64(1.0 / (plan.base * CAPACITY));
    let begin = Time::from_millis(1000);
    let begin_ms = UNIX_NS / 1_000_000 + 1000;
    // What the worker has and when it is done with it, in order.
    let mut busy: VecDeque<(Time, OutputId, DeliveryId)> = VecDeque::new();
    let mut free_at = Time::ZERO;
    let mut number = 0;
    loop {
        let due = plan.due(number).map(|(at, _)| begin + Duration::from_secs_f64(at));
        let done = busy.front().map(|(at, ..)| *at);
        let next = [due, done].into_iter().flatten().min();
        let Some(now) = next.or_else(|| stage.next().filter(|_| stage.held() > 0)) else { break };
        stage.advance(now);
        while busy.front().is_some_and(|(at, ..)| *at <= now) {
            if let Some((_, output, id)) = busy.pop_front() {
                stage.confirm(output, id);
            }
        }
        if due == Some(now) {
            let unix_ms = stage.unix_ns() / 1_000_000;
            stage.offer(0, "ad-events", &[], events.payload(number, unix_ms));
            number += 1;
        }
        for went in stage.went() {
            free_at = free_at.max(now) + service;
            let done_ms = (UNIX_NS as f64 + free_at.as_nanos() as f64) / 1e6;
            worker.take(&went.payload(), done_ms)?;
            busy.push_back((free_at, went.output, went.id));
        }
    }
    if let Some(failure) = stage.failure() {
        anyhow::bail!("the script fails: {failure}");
    }
    Ok(Score::of(plan, events, &worker.taken, begin_ms))
}
