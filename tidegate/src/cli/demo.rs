//! `tidegate demo`: sensors, a node, a slow line and a second node, in one process that needs nothing
//! else.
//!
//! Everything is real but the line: MQTT clients, MQTT between the nodes, sockets, and the capacity is
//! measured, not told. Only the line is a [`Relay`] on loopback.

pub mod load;
pub mod meter;
pub mod relay;

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tidegate_schedule::SchedulerName;
use tidegate_types::class::{Classes, default_classes};
use tidegate_types::units::{Rate, Size};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use self::load::{ALARMS, BULK};
use self::meter::Meter;
use self::relay::{LineOptions, Relay};
use crate::assembly::{self, Assembled};
use crate::cli::screen::{Screen, paint, width};
use crate::cli::tables::{self, EndToEnd, Sort};
use crate::cli::{line_delay, line_rate};
use crate::config::{Config, read};
use crate::link::Links;
use crate::observe::status::Snapshot;
use crate::observe::status::table::{Paint, rate, size, span};
use crate::observe::status::view::{ClassView, NodeView};

/// Arguments of `demo`.
#[derive(Clone, Debug, Args)]
pub struct DemoArguments {
    /// Who picks the next record: tidegate, or native for one queue first come first served
    #[arg(long, value_name = "NAME", default_value = "tidegate", value_parser = scheduler_names())]
    pub scheduler: SchedulerName,
    /// How long to run
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Rate of the line
    #[arg(long, value_name = "RATE", default_value = "2mbit", value_parser = line_rate)]
    pub rate: Rate,
    /// Delay of the line, each way
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = line_delay)]
    pub delay: Duration,
}

/// The schedulers by name, for the command line.
fn scheduler_names() -> impl TypedValueParser<Value = SchedulerName> {
    let names = SchedulerName::ALL.map(|one| PossibleValue::new(one.name()).help(one.about()));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<SchedulerName>())
}

pub(super) const DEMO_HELP: &str = "\
Two nodes and a line of 2 Mbit/s and 50 ms between them, all on loopback. Sensors publish alarms
(200 bytes, 5 a second) and bulk (20 kB, 20 a second): 1.6 times what the line can carry. The table
shows how long each class waits in the first node, and how old records are at the far end.

What the line carries is counted in the line. The first node's own estimates of its rate and round trip are
not shown: the line is a relay on this machine whose kernel acknowledges for the far end, so they are those
of the way to the relay.";

/// How often the table is printed where it cannot be refreshed in place.
const PACE_PRINTED: Duration = Duration::from_secs(5);

/// How long the nodes may take to connect through the line.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the demo, its table and its summary.
///
/// # Errors
/// A part could not be started or failed.
pub async fn demo(arguments: &DemoArguments) -> anyhow::Result<ExitCode> {
    let stage = Stage::build(arguments).await?;
    let connected = timeout(PATIENCE, stage.connected()).await;
    connected.context("the nodes of the demo do not connect")??;
    let start = Instant::now();
    let mut sensors = JoinSet::new();
    for sensor in [ALARMS, BULK] {
        sensors.spawn(load::publish(stage.gate_input, sensor));
    }
    let mut screen = Screen::stdout();
    let end = start + Duration::from_secs(arguments.seconds);
    tokio::select! {
        () = sleep_until(end) => {}
        _ = tokio::signal::ctrl_c() => {}
        Some(ended) = sensors.join_next() => {
            ended?.context("a sensor of the demo")?;
            bail!("a sensor of the demo ended");
        }
        shown = stage.show(arguments, start, &mut screen) => shown?,
    }
    let view = stage.view(start).await?;
    let summary = summary(arguments, &view, &stage.meter.read(), stage.relay.carried());
    sensors.shutdown().await;
    stage.end().await;
    let _ = screen.say(&summary);
    Ok(ExitCode::SUCCESS)
}

/// Everything but the sensors.
struct Stage {
    gate: Assembled,
    gate_input: SocketAddr,
    far: Assembled,
    relay: Relay,
    meter: Meter,
}

impl Stage {
    async fn build(arguments: &DemoArguments) -> anyhow::Result<Self> {
        let meter = Meter::new(&Classes::new(default_classes())?);
        let far_config = far_config();
        let far = assembly::start_with(&far_config, Links::default(), |_, port, tasks| {
            let meter = meter.clone();
            tasks.spawn(async move { Ok(meter.run(port).await?) });
            Ok(())
        });
        let far = far.await.context("the far node of the demo")?;
        let line = LineOptions { rate: arguments.rate, delay: arguments.delay };
        let relay = Relay::start(only_input(&far)?, line).context("the line of the demo")?;
        let gate_config = gate_config(relay.address, arguments.scheduler);
        let gate = assembly::start(&gate_config).await.context("the near node of the demo")?;
        Ok(Stage { gate_input: only_input(&gate)?, gate, far, relay, meter })
    }

    /// The near node, its time counted from `start`, when the sensors began.
    async fn view(&self, start: Instant) -> anyhow::Result<NodeView> {
        let view = NodeView::from(&Snapshot::bare(self.gate.running.status.get().await?));
        Ok(NodeView { uptime_seconds: start.elapsed().as_secs_f64(), ..view })
    }

    /// Waits until the near node is connected through the line: connecting is not what is shown.
    async fn connected(&self) -> anyhow::Result<()> {
        let mut ticks = interval(Duration::from_millis(50));
        loop {
            ticks.tick().await;
            let view = self.view(Instant::now()).await?;
            if view.outputs.iter().all(|output| output.lanes_up == output.lanes) {
                return Ok(());
            }
        }
    }

    /// Shows the table until nobody reads it any more.
    async fn show(
        &self,
        arguments: &DemoArguments,
        start: Instant,
        screen: &mut Screen,
    ) -> anyhow::Result<()> {
        let pace = if screen.is_terminal() { Duration::from_secs(1) } else { PACE_PRINTED };
        let mut ticks = interval(pace);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut before = (Instant::now(), self.relay.carried());
        loop {
            ticks.tick().await;
            let view = self.view(start).await?;
            let (at, carried) = (Instant::now(), self.relay.carried());
            let bytes = carried.saturating_sub(before.1);
            let now = bytes.as_f64() / at.duration_since(before.0).as_secs_f64().max(1e-3);
            before = (at, carried);
            let text = shown(arguments, &view, now, &self.meter.read(), width(), paint());
            match screen.show(&text) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn end(self) {
        // What the line did not carry yet is not waited for.
        self.gate.stop(Duration::ZERO).await;
        self.far.stop(Duration::ZERO).await;
    }
}

fn only_input(node: &Assembled) -> anyhow::Result<SocketAddr> {
    node.listens.first().copied().context("the node does not listen")
}

/// Streams of both nodes. The bound on bulk keeps the demo's memory small: about 17 s of the line.
const STREAMS: &str = r#"
[[stream]]
name = "alarms"
topics = ["plant/alarms"]
class = "ls"

[[stream]]
name = "bulk"
topics = ["plant/bulk"]
class = "lt"
full = "drop-oldest"
memory = "4MiB"

[[input]]
mqtt = { listen = "127.0.0.1:0" }

[http]
listen = []
"#;

fn gate_config(line: SocketAddr, scheduler: SchedulerName) -> Config {
    let text = format!(
        "[node]\nname = \"gate\"\n\n[[output]]\nname = \"line\"\n\
         mqtt = {{ url = \"mqtt://{line}\" }}\n{STREAMS}"
    );
    let mut config = read(&text).config;
    config.node.scheduler = scheduler;
    config
}

fn far_config() -> Config {
    let own = "[node]\nname = \"far\"\n\n[[output]]\nname = \"meter\"\nsink = { discard = true }\n";
    read(&format!("{own}{STREAMS}")).config
}

/// The table, below what the line is and carries.
fn shown(
    arguments: &DemoArguments,
    view: &NodeView,
    carried: f64,
    far: &[EndToEnd],
    width: usize,
    paint: Paint,
) -> String {
    let head = [
        format!("line of {}, {} each way", arguments.rate, span(arguments.delay.as_secs_f64())),
        format!("carries {}", rate(carried)),
        format!("scheduler {}", arguments.scheduler.name()),
        format!("{:.0} of {} s", view.uptime_seconds, arguments.seconds),
    ];
    // The kernel's figures are those of the way to the relay.
    let node = NodeView { uplinks: Vec::new(), ..view.clone() };
    tables::wrapped(&head, width)
        + &tables::summary(&node, width, paint)
        + &tables::classes(&node, Some(far), Sort::Given).render(width, paint)
}

/// What was seen, and what the other scheduler would show.
fn summary(arguments: &DemoArguments, view: &NodeView, far: &[EndToEnd], carried: Size) -> String {
    let could = arguments.rate.in_span(Duration::from_secs_f64(view.uptime_seconds));
    let used = 100.0 * carried.as_f64() / could.as_f64().max(1.0);
    let mut text = format!(
        "\nIn {:.0} s the line of {} carried {}, {used:.0} % of what it can.\n",
        view.uptime_seconds,
        arguments.rate,
        size(carried.0)
    );
    text += &class_in_words("Alarms", "ls", arguments, view, far);
    text += &class_in_words("Bulk", "lt", arguments, view, far);
    let backlog: u64 = view.classes.iter().map(|class| class.backlog_bytes).sum();
    let wait = arguments.rate.time_for(Size(backlog)).as_secs_f64();
    text += &match arguments.scheduler {
        SchedulerName::Tidegate => format!(
            "{} wait now. In one queue, first come first served, an alarm would wait behind all of it: \
             {}.\nSee it with: tidegate demo --scheduler native\n",
            size(backlog),
            span(wait)
        ),
        SchedulerName::Native => format!(
            "{} wait now in one queue, first come first served: the next alarm waits {}.\n\
             See urgent records overtake with: tidegate demo\n",
            size(backlog),
            span(wait)
        ),
        _ => format!(
            "{} wait now, each class for the rate that it was granted ahead.\n\
             See what is lent at once with: tidegate demo\n",
            size(backlog)
        ),
    };
    if view.lost_deliveries != 0 {
        text +=
            &format!("{} deliveries have no fate: a mistake of Tidegate\n", view.lost_deliveries);
    }
    text
}

fn class_in_words(
    what: &str,
    name: &str,
    arguments: &DemoArguments,
    view: &NodeView,
    far: &[EndToEnd],
) -> String {
    let nothing = ClassView::default();
    let class = view.classes.iter().find(|class| class.name == name).unwrap_or(&nothing);
    let Some(arrived) = far.iter().find(|far| far.class == name && far.times.count > 0) else {
        return format!(
            "{what}: {} accepted, none arrived at the far end.\n",
            class.counts.accepted
        );
    };
    let drops = match class.counts.drops_in_words() {
        none if none.is_empty() => String::new(),
        words => format!(", dropped: {words}"),
    };
    format!(
        "{what}: {} offered, {} of {} records arrived; half within {}, 99 of 100 within {} end to end, \
         the line's {} included{drops}.\n",
        rate(class.counts.accepted_bytes as f64 / view.uptime_seconds.max(1.0)),
        arrived.times.count,
        class.counts.accepted,
        span(arrived.times.p50_seconds),
        span(arrived.times.p99_seconds),
        span(arguments.delay.as_secs_f64()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::status::view::{CountsView, StagesView, TimesView, UplinkView};

    #[test]
    fn the_configurations_are_right() {
        let line = ([127, 0, 0, 1], 4711).into();
        let gate = gate_config(line, SchedulerName::Native);
        assert_eq!(crate::config::check::check(&gate), []);
        assert_eq!(crate::config::check::check(&far_config()), []);
        assert_eq!(gate.stream.len(), 3);
        assert_eq!(gate.node.scheduler, SchedulerName::Native);
    }

    #[test]
    fn end_to_end_latency_is_there_at_80_columns() {
        let times = |count, p50_seconds, p99_seconds| TimesView {
            count,
            p50_seconds,
            p99_seconds,
            ..Default::default()
        };
        let class = |name: &str, bound_seconds, residence| ClassView {
            name: name.into(),
            bound_seconds,
            input_bytes_per_second: 403_000.0,
            output_bytes_per_second: 245_000.0,
            backlog_records: 154,
            backlog_bytes: 3_100_000,
            late_records: 135,
            counts: CountsView { dropped: [("full".into(), 120)].into(), ..Default::default() },
            stages: StagesView { residence, ..Default::default() },
            ..Default::default()
        };
        let view = NodeView {
            node: "gate".into(),
            uptime_seconds: 20.0,
            memory_bytes: 64 << 20,
            classes: vec![
                class("ls", 0.05, times(105, 0.000_03, 0.000_137)),
                class("lt", 1.0, times(257, 1.07, 10.6)),
            ],
            uplinks: vec![UplinkView { capacity_bytes_per_second: 1e6, ..Default::default() }],
            ..Default::default()
        };
        let far = [
            EndToEnd { class: "ls".into(), times: times(105, 0.062, 0.066) },
            EndToEnd { class: "lt".into(), times: times(257, 1.16, 10.6) },
        ];
        let text =
            shown(&arguments(SchedulerName::Native), &view, 246_000.0, &far, 80, Paint::Plain);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    fn arguments(scheduler: SchedulerName) -> DemoArguments {
        DemoArguments {
            scheduler,
            seconds: 30,
            rate: Rate::from_bits(2e6),
            delay: Duration::from_millis(50),
        }
    }

    #[test]
    fn the_summary_says_what_was_seen() {
        let class = |name: &str, accepted, backlog_bytes| ClassView {
            name: name.into(),
            backlog_bytes,
            counts: CountsView {
                accepted,
                accepted_bytes: accepted * 20_000,
                dropped: [("full".into(), accepted / 5)].into(),
                ..Default::default()
            },
            ..Default::default()
        };
        let view = NodeView {
            uptime_seconds: 30.0,
            classes: vec![class("ls", 150, 0), class("lt", 600, 4_000_000)],
            ..Default::default()
        };
        let times = TimesView {
            count: 148,
            p50_seconds: 0.0582,
            p99_seconds: 0.0961,
            ..Default::default()
        };
        let far = [EndToEnd { class: "ls".into(), times }];
        let ours = arguments(SchedulerName::Tidegate);
        insta::assert_snapshot!(summary(&ours, &view, &far, Size(7_100_000)));
        let native = arguments(SchedulerName::Native);
        insta::assert_snapshot!(summary(&native, &view, &far, Size(7_100_000)));
    }
}
