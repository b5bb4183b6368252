//! `tidegate script`: a script on a recorded trace in virtual time, and the time of its calls.

mod arguments;

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use tidegate_node::io::Edit;
use tidegate_types::record::{DropReason, Offered, Properties, SourceId};
use tidegate_types::units::Time;

pub use self::arguments::{
    BenchArguments, SCRIPT_HELP, ScriptArguments, ScriptCommand, TestArguments,
};
use crate::config::ScriptConfig;
use crate::input::replay::{self, Format, KeyTemplate, Payload, Recorded, ReplayFile, Rules};
use crate::script::rehearsal::{Line, Rehearsal};
use crate::script::spec::{Parameter, ScriptSpec};
use crate::script::vm::{Clock, Limits};

/// A turn that is measured may take as long as a loaded machine needs.
const TIME: Duration = Duration::from_secs(10);
/// How long what waits at the end of a trace may still go.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Calls that a time is the median of, where few messages wait.
const CALLS: usize = 200;
/// Messages that wait, of which a time is told.
const WAITING: [usize; 5] = [0, 100, 1000, 10_000, 100_000];

/// Does what is asked with a script.
///
/// # Errors
/// The script or the trace cannot be used.
pub fn script(command: &ScriptCommand) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match command {
        ScriptCommand::Test(arguments) => {
            let is_sound = test(arguments, &mut out)?;
            Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        ScriptCommand::Bench(arguments) => bench(arguments, &mut out).map(|()| ExitCode::SUCCESS),
    }
}

fn spec(arguments: &ScriptArguments) -> anyhow::Result<ScriptSpec> {
    let value = |text: &String| match (text.parse(), text.parse()) {
        (Ok(number), _) => Parameter::Number(number),
        (_, Ok(switch)) => Parameter::Switch(switch),
        _ => Parameter::Text(text.clone()),
    };
    let parameters = arguments.parameters.iter().map(|(name, text)| (name.clone(), value(text)));
    let here = |name: &String| (name.clone(), format!("http://localhost/{name}"));
    let config = ScriptConfig {
        name: Some("script".into()),
        file: Some(arguments.file.clone()),
        helpers: arguments.helpers.clone(),
        parameters: parameters.collect(),
        path: arguments.path.clone(),
        transform: arguments.transforms.iter().map(here).collect(),
        ..ScriptConfig::default()
    };
    let spec = config.spec().map_err(anyhow::Error::msg)?;
    // In virtual time a call must take the same whenever it is made.
    Ok(ScriptSpec { limits: Limits { clock: Clock::Looks, ..spec.limits }, ..spec })
}

/// What came of a trace.
struct Outcome {
    rehearsal: Rehearsal,
    offered: u64,
}

/// Plays the trace; answers whether no call failed.
fn test(arguments: &TestArguments, out: &mut impl Write) -> anyhow::Result<bool> {
    let spec = Arc::new(spec(&arguments.script)?);
    let records = trace(arguments)?;
    let with = play(arguments, &[spec], &records, (!arguments.summary).then_some(&mut *out))?;
    let without = play(arguments, &[], &records, None::<&mut Vec<u8>>)?;
    let script = with.rehearsal.scripts.get(tidegate_node::rules::ScriptId(0));
    let mut is_sound = true;
    if let Some(script) = script {
        let counts = script.counts();
        let failed = counts.too_long + counts.too_large + counts.wrong;
        is_sound = failed == 0;
        writeln!(out, "calls {}, failed {failed}, left out {}", counts.runs, counts.unadapted)?;
        if let Some(failure) = script.last_failure() {
            writeln!(out, "last failure: {failure}")?;
        }
        let kinds = crate::script::Verdict::ALL.iter().zip(counts.verdicts);
        let kinds = kinds.filter(|(_, count)| *count > 0);
        let kinds: Vec<String> =
            kinds.map(|(verdict, count)| format!("{} {count}", verdict.name())).collect();
        let kinds = if kinds.is_empty() { "none".into() } else { kinds.join(", ") };
        writeln!(out, "verdicts: {kinds}")?;
    }
    writeln!(out)?;
    writeln!(
        out,
        "{:<16}{:>10}{:>10}{:>10}{:>12}{:>12}",
        "", "came", "went", "dropped", "p50 ms", "p99 ms"
    )?;
    summary("with the script", &with, out)?;
    summary("without", &without, out)?;
    Ok(is_sound)
}

fn trace(arguments: &TestArguments) -> anyhow::Result<Vec<Recorded>> {
    let path = &arguments.trace;
    let rules = Rules {
        format: Format::Auto,
        key: KeyTemplate::new(&arguments.topic)?,
        time: arguments.time.clone(),
        payload: Payload::default(),
    };
    let file = ReplayFile { path: path.clone(), rules };
    let records: Result<Vec<Recorded>, _> = replay::recorded(file).collect();
    records.with_context(|| path.display().to_string())
}

fn play(
    arguments: &TestArguments,
    specs: &[Arc<ScriptSpec>],
    records: &[Recorded],
    mut out: Option<&mut impl Write>,
) -> anyhow::Result<Outcome> {
    let line = Line {
        outputs: arguments.script.outputs.clone(),
        rate: arguments.rate,
        rtt: arguments.delay,
        latency: arguments.latency,
        ..Line::default()
    };
    let mut rehearsal = Rehearsal::new(specs, line)?;
    rehearsal.halves = true;
    let start = rehearsal.now;
    if let Some(first) = records.first() {
        rehearsal.unix_ns = first.recorded;
    }
    let mut cuts: VecDeque<(Duration, bool)> =
        arguments.cuts.iter().flat_map(|(from, to)| [(*from, false), (*to, true)]).collect();
    cuts.make_contiguous().sort_unstable();
    let mut told = 0;
    let mut reach = |rehearsal: &mut Rehearsal, due: Duration| -> anyhow::Result<()> {
        while let Some((at, is_up)) = cuts.front().copied().filter(|(at, _)| *at <= due) {
            rehearsal.advance((start + at).since(rehearsal.now));
            rehearsal.connect(0, is_up);
            cuts.pop_front();
        }
        rehearsal.advance((start + due).since(rehearsal.now));
        for (at, edit, what) in &rehearsal.verdicts[told..] {
            if let Some(out) = &mut out {
                tell(rehearsal, start, *at, edit, what, out)?;
            }
        }
        told = rehearsal.verdicts.len();
        Ok(())
    };
    for record in records {
        reach(&mut rehearsal, record.due)?;
        rehearsal.offer(offered(record.key.clone(), record.payload.clone()));
    }
    let end = records.last().map(|last| last.due).unwrap_or_default();
    reach(&mut rehearsal, end)?;
    let last_cut = arguments.cuts.iter().map(|(_, to)| *to).max().unwrap_or_default();
    reach(&mut rehearsal, end.max(last_cut))?;
    let limit = rehearsal.now + PATIENCE;
    while rehearsal.seat.held_bytes().0 > 0 && rehearsal.now < limit {
        let next = rehearsal.now.since(start) + Duration::from_secs(1);
        reach(&mut rehearsal, next)?;
    }
    Ok(Outcome { rehearsal, offered: records.len() as u64 })
}

fn offered(key: Bytes, payload: Bytes) -> Offered {
    Offered {
        source: SourceId(0),
        token: None,
        key,
        properties: Properties::default(),
        payload,
        read_at: Time::ZERO,
        source_unix_ns: None,
        ttl: None,
        foreign: None,
        packet: None,
    }
}

fn tell(
    rehearsal: &Rehearsal,
    start: Time,
    at: Time,
    edit: &Edit,
    (key, age, size): &(Bytes, Duration, u64),
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let what = match edit {
        Edit::Drop(_) => "drop".into(),
        Edit::MoveFront(_) => "first".into(),
        Edit::MoveBack(_) => "last".into(),
        Edit::Redirect(_, tidegate_node::io::Destination::Output(to)) => {
            format!("to {}", rehearsal.seat.options().outputs[usize::from(to.0)].name)
        }
        Edit::Redirect(..) => "redirect".into(),
        Edit::Replace(..) => "replace".into(),
        // They only say what happens where the next one fails, and when a record is looked at.
        Edit::Guard(..) | Edit::Wait(_) | Edit::Ready(_) | Edit::Show(_) => return Ok(()),
        Edit::Fail(_, otherwise) => format!("failed: {otherwise:?}").to_lowercase(),
        Edit::Insert(..) => "insert".into(),
        Edit::Transform { .. } => "transform".into(),
    };
    let (seconds, waited) = (at.since(start).as_secs_f64(), age.as_secs_f64());
    let key = String::from_utf8_lossy(key);
    writeln!(out, "{seconds:>10.3} s  {what:<12} {key}  waited {waited:.3} s, {size} bytes")?;
    Ok(())
}

fn summary(name: &str, outcome: &Outcome, out: &mut impl Write) -> anyhow::Result<()> {
    let Outcome { rehearsal, offered } = outcome;
    let mut waits: Vec<f64> = rehearsal
        .went
        .iter()
        .map(|went| went.at.since(went.record.arrived).as_secs_f64() * 1e3)
        .collect();
    waits.sort_unstable_by(f64::total_cmp);
    let part = |share: f64| {
        let place = (waits.len() as f64 * share).ceil() as usize;
        waits.get(place.saturating_sub(1)).copied().unwrap_or_default()
    };
    let dropped = rehearsal.seat.counts().dropped[DropReason::Script.index()];
    let (went, p50, p99) = (waits.len(), part(0.5), part(0.99));
    writeln!(out, "{name:<16}{offered:>10}{went:>10}{dropped:>10}{p50:>12.1}{p99:>12.1}")?;
    let mut by_output: BTreeMap<u16, u64> = BTreeMap::new();
    for went in &rehearsal.went {
        *by_output.entry(went.output.0).or_default() += 1;
    }
    for (output, count) in by_output.iter().filter(|_| by_output.len() > 1) {
        let output = &rehearsal.seat.options().outputs[usize::from(*output)].name;
        writeln!(out, "  by {output}: {count}")?;
    }
    Ok(())
}

fn bench(arguments: &BenchArguments, out: &mut impl Write) -> anyhow::Result<()> {
    let spec = Arc::new(ScriptSpec {
        limits: Limits { time: TIME, ..Limits::default() },
        ..spec(&arguments.script)?
    });
    let file = file_name(&arguments.script.file);
    writeln!(out, "{file}: microseconds of a call, beside the record that came")?;
    writeln!(out, "{:>10}{:>12}{:>12}", "waiting", "median", "best")?;
    for waiting in WAITING {
        let times = times(&spec, &arguments.script.outputs, &arguments.payload, waiting)?;
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let (median, best) = (micros(times[times.len() / 2]), micros(times[0]));
        writeln!(out, "{waiting:>10}{median:>12.1}{best:>12.1}")?;
    }
    Ok(())
}

fn times(
    spec: &Arc<ScriptSpec>,
    outputs: &[String],
    payload: &str,
    waiting: usize,
) -> anyhow::Result<Vec<Duration>> {
    let line = Line { outputs: outputs.to_vec(), ..Line::default() };
    // What waits, waits unseen: no script runs before it is timed.
    let mut rehearsal = Rehearsal::new(std::slice::from_ref(spec), line)?;
    rehearsal.is_watching_only = true;
    rehearsal.connect(0, false);
    for _ in 0..=waiting {
        let payload = Bytes::copy_from_slice(payload.as_bytes());
        rehearsal.offer(offered(Bytes::from_static(b"bench"), payload));
    }
    let queue = rehearsal.seat.queues_of(tidegate_node::rules::ScriptId(0)).next();
    let queue = queue.context("nothing waits")?;
    let last = rehearsal.seat.waiting(queue).last().context("nothing waits")?;
    let mut moment = rehearsal.moment();
    let mut times = Vec::new();
    for _ in 0..(CALLS * 1000 / waiting.max(1000)).max(5) {
        // What a call leaves unpaid is paid by then.
        moment.now += Duration::from_secs(3600);
        let ran = rehearsal.scripts.run(&mut rehearsal.seat, moment, queue, last);
        let mut took = ran.took;
        while rehearsal.scripts.is_busy() {
            moment.now += Duration::from_secs(3600);
            took += rehearsal.scripts.fire(&mut rehearsal.seat, moment).unwrap_or_default().took;
        }
        times.push(took);
    }
    let script = rehearsal.scripts.get(tidegate_node::rules::ScriptId(0));
    if let Some(failure) = script.and_then(|script| script.last_failure()) {
        anyhow::bail!("with {waiting} waiting: {failure}");
    }
    times.sort_unstable();
    Ok(times)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn run(arguments: &[&str]) -> String {
        let all = ["tidegate", "script"].iter().chain(arguments);
        let Command::Script { command } = Cli::try_parse_from(all).unwrap().command else {
            panic!("not this command");
        };
        let mut out = Vec::new();
        match &command {
            ScriptCommand::Test(arguments) => drop(test(arguments, &mut out).unwrap()),
            ScriptCommand::Bench(arguments) => bench(arguments, &mut out).unwrap(),
        }
        String::from_utf8(out).unwrap()
    }

    fn lua(name: &str) -> String {
        format!("{}/lua/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    fn trace_file(name: &str) -> String {
        let file = std::env::temp_dir().join(format!("tidegate-{name}-{}.csv", std::process::id()));
        let mut text = String::from("time,value\n");
        for number in 0..6 {
            text.push_str(&format!("{},{number}\n", 1_700_000_000 + number));
        }
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    #[test]
    fn a_trace_is_played_and_told() {
        let trace = trace_file("script-test");
        let script = lua("fallback.luau");
        let outputs = ["--output", "cloud", "--output", "edge"];
        let play = || {
            let given = ["--cut", "1500ms-3500ms", "--topic", "frame"];
            run(&[&["test", &script, "--trace", &trace][..], &outputs, &given].concat())
        };
        let told = play();
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[0].starts_with("     2.000 s  to edge      frame  waited 0.000 s"), "{told}");
        assert!(told.contains("calls ") && told.contains("redirect 2"), "{told}");
        assert!(told.contains("with the script          6         6         0"), "{told}");
        assert!(told.contains("  by edge: 2"), "{told}");
        assert!(told.contains("without                  6         6         0"), "{told}");
        assert_eq!(told, play(), "the same each time");
        std::fs::remove_file(trace).unwrap();
    }

    #[test]
    fn a_trace_whose_calls_fail_fails() {
        let trace = trace_file("script-fails");
        let script =
            std::env::temp_dir().join(format!("tidegate-fails-{}.luau", std::process::id()));
        let code = |text: &str| {
            std::fs::write(&script, text).unwrap();
            let path = script.display().to_string();
            let all = ["tidegate", "script", "test", &path, "--trace", &trace, "--topic", "a"];
            let Command::Script { command } = Cli::try_parse_from(all).unwrap().command else {
                panic!("not this command");
            };
            let ScriptCommand::Test(arguments) = &command else { panic!("not this command") };
            test(arguments, &mut Vec::new()).unwrap()
        };
        assert!(code("function on_message(h)\nend\n"));
        assert!(!code("function on_message(h)\n  error(\"wrong\")\nend\n"));
        std::fs::remove_file(script).unwrap();
        std::fs::remove_file(trace).unwrap();
    }

    #[test]
    fn calls_are_timed() {
        let told = run(&["bench", &lua("shed.luau"), "--set", "latency=0.1"]);
        assert_eq!(told.lines().count(), 7, "{told}");
        assert!(told.lines().last().unwrap().trim_start().starts_with("100000 "), "{told}");
    }
}
