//! Scripts in the loop: they run where the node asks for it, but never for long before others are heard.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tidegate_node::io::{Control, Input, QueueId};
use tidegate_node::options::{NodeOptions, OutputOptions, UplinkOptions};
use tidegate_node::rules::Rules;
use tidegate_types::record::{DeliveryId, WorkId};
use tidegate_types::units::Time;
use tokio::sync::mpsc;

use crate::node::contract::{Adaptation, Arrival};
use crate::script::board::ScriptBoard;
use crate::script::{LoadError, Moment, Ran, Script, Scripts, Seat};
use crate::support::http::endpoint::Postman;

/// Time of scripts in one turn of the loop, after which inputs and outputs are heard. One call more may
/// have begun: with the default bound on a call, others wait for 3 ms at most.
const TURN_MAX: Duration = Duration::from_millis(2);

/// The scripts of the loop.
#[derive(Debug)]
pub(crate) struct Adapting {
    scripts: Scripts,
    postman: Postman,
    arrivals: mpsc::Sender<Arrival>,
    /// Time that scripts took in this turn.
    used: Duration,
    /// When the last of them ended.
    ended: Instant,
}

impl Adapting {
    /// Endpoints answer with records of up to `record_max` bytes.
    pub(crate) fn new(
        scripts: Scripts,
        record_max: usize,
        arrivals: mpsc::Sender<Arrival>,
    ) -> Adapting {
        let postman = Postman::new(record_max);
        Adapting { scripts, postman, arrivals, used: Duration::ZERO, ended: Instant::now() }
    }

    pub(crate) fn board(&self) -> ScriptBoard {
        self.scripts.board()
    }

    /// A turn of the loop begins.
    pub(crate) fn begin_turn(&mut self) {
        self.used = Duration::ZERO;
    }

    /// The turn goes on for one event more of many that may come in the same round of the loop: it gets back what time
    /// has passed without scripts.
    pub(crate) fn go_on(&mut self, now: Instant) {
        self.used = self.used.saturating_sub(now.saturating_duration_since(self.ended));
        self.ended = now;
    }

    /// Whether others must be heard before another script runs.
    pub(crate) fn is_turn_over(&self) -> bool {
        self.used >= TURN_MAX
    }

    /// Runs the script of a queue, and tells the node what came of it.
    pub(crate) fn run(&mut self, node: &mut Seat, now: Time, queue: QueueId, id: DeliveryId) {
        let begun = Instant::now();
        let ran = self.scripts.run(node, moment(now), queue, id);
        self.take(node, now, ran);
        self.spend(begun);
    }

    fn spend(&mut self, begun: Instant) {
        self.ended = Instant::now();
        self.used += self.ended - begun;
    }

    /// When [`Adapting::fire`] wants to be called.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.scripts.next_timer()
    }

    /// Runs what is due, as long as the turn lasts; false if there was nothing. The node has been polled
    /// before, so that timers never hold up what can be sent.
    pub(crate) fn fire(&mut self, node: &mut Seat, now: Time) -> bool {
        let mut has_fired = false;
        while !self.is_turn_over() && self.scripts.next_timer().is_some_and(|at| at <= now) {
            let begun = Instant::now();
            let Some(ran) = self.scripts.fire(node, moment(now)) else { break };
            has_fired = true;
            self.take(node, now, ran);
            self.spend(begun);
        }
        has_fired
    }

    fn take(&mut self, node: &mut Seat, now: Time, ran: Ran) {
        ran.inputs.into_iter().for_each(|input| node.handle(now, input));
        for (id, notice) in ran.notices {
            let Some(script) = self.scripts.get(id) else { continue };
            for endpoint in script.notified(&notice) {
                let (postman, board) = (self.postman.clone(), self.board());
                let (endpoint, text) = (endpoint.clone(), notice.text.clone());
                tokio::spawn(async move {
                    let told = postman.tell(&endpoint, text).await;
                    board.note_endpoint(id, told.is_ok());
                });
            }
        }
    }

    /// Has an endpoint work on a payload; its answer, or that there is none, goes to the node.
    pub(crate) fn transform(&self, work: WorkId, endpoint: u16, payload: Option<Bytes>) {
        let (arrivals, postman, board) =
            (self.arrivals.clone(), self.postman.clone(), self.board());
        let known = self.scripts.endpoint(endpoint);
        let known = known.map(|(script, to)| (script.id(), script.spec().timeout, to.clone()));
        tokio::spawn(async move {
            let payload = match known.zip(payload) {
                Some(((id, timeout, to), payload)) => {
                    let answer = postman.ask(&to, payload, timeout).await;
                    board.note_endpoint(id, answer.is_ok());
                    let failed =
                        |error| tracing::debug!(endpoint = %to, "the original goes: {error}");
                    answer.map_err(failed).ok()
                }
                None => None,
            };
            // A send fails only when the loop has ended already.
            let _ = arrivals.send(Arrival::Input(Input::Transformed { work, payload })).await;
        });
    }

    /// Whether the node would take other scripts and rules at these outputs. Nothing changes.
    pub(crate) fn try_on(
        &self,
        node: &mut Seat,
        now: Time,
        (mut adaptation, outputs, uplinks): (Adaptation, Vec<OutputOptions>, Vec<UplinkOptions>),
    ) -> anyhow::Result<Adaptation> {
        Adapting::check(node, &adaptation.rules, outputs, uplinks)?;
        self.try_scripts(node, now, &mut adaptation.scripts)?;
        Ok(adaptation)
    }

    /// Whether the node would take other rules at these outputs.
    pub(crate) fn check(
        node: &Seat,
        wanted: &Rules,
        outputs: Vec<OutputOptions>,
        uplinks: Vec<UplinkOptions>,
    ) -> anyhow::Result<()> {
        let present = node.options();
        let rules = present.rules.updated(wanted)?;
        let options = NodeOptions { rules, outputs, uplinks, ..present.clone() };
        options.check()?;
        for (_, rule) in wanted.iter() {
            let leads_there = rule.to.iter().all(|to| options.has_output(*to));
            anyhow::ensure!(leads_there, "stream {:?} leads to an output that is gone", rule.name);
        }
        Ok(())
    }

    /// Tries those of other scripts that are new on what waits.
    pub(crate) fn try_scripts(
        &self,
        node: &mut Seat,
        now: Time,
        new: &mut [Script],
    ) -> Result<(), LoadError> {
        self.scripts.try_on(new, node, moment(now))
    }

    /// Puts what was tried in force: scripts and the rules that name them.
    pub(crate) fn adapt(&mut self, node: &mut Seat, now: Time, adaptation: Adaptation) {
        let Adaptation { scripts, rules } = adaptation;
        self.scripts.put(scripts, node, moment(now));
        node.handle(now, Input::Control(Control::Reconsider));
        node.handle(now, Input::Control(Control::Rules(rules)));
    }
}

fn moment(now: Time) -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment { now, unix_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_node::io::{Output, PathState};
    use tidegate_node::rules::ScriptId;
    use tidegate_types::record::{Offered, Properties, SourceId};
    use tidegate_types::units::Size;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::assembly::node_options;
    use crate::config::read;
    use crate::node::contract::{Clock, Order};
    use crate::node::event_loop;
    use crate::script::ScriptSpec;
    use crate::script::rehearsal::{Line, Rehearsal};

    fn record() -> Offered {
        Offered {
            source: SourceId(0),
            token: None,
            key: Bytes::from_static(b"t"),
            properties: Properties::default(),
            payload: Bytes::from_static(b"x"),
            read_at: Time::from_millis(5),
            source_unix_ns: None,
            ttl: None,
            foreign: None,
            packet: None,
        }
    }

    #[tokio::test]
    async fn a_slow_script_lets_others_be_heard() {
        // Every call burns its turns.
        let text = "function on_message(h) while true do end end";
        let specs = [Arc::new(ScriptSpec::new("slow", text))];
        let Rehearsal { mut seat, .. } = Rehearsal::new(&specs, Line::default()).unwrap();
        let scripts = Scripts::load(&specs).unwrap();
        let (sender, _receiver) = mpsc::channel(1);
        let mut adapting = Adapting::new(scripts, 1000, sender);
        let now = Time::from_millis(5);
        seat.handle(now, Input::Arrived((0..9).map(|_| record()).collect()));
        let turns = |adapting: &Adapting| {
            let counts = &adapting.board().read()[0].counts;
            counts.suspended + counts.too_long
        };
        let (mut later, mut before) = (now, 0);
        for _ in 0..40 {
            adapting.begin_turn();
            while !adapting.is_turn_over()
                && let Some(output) = seat.poll(later)
            {
                if let Output::RunScript { queue, delivery } = output {
                    adapting.run(&mut seat, later, queue, delivery);
                }
            }
            adapting.fire(&mut seat, later);
            let all = turns(&adapting);
            assert!(all - before <= 2, "2 ms are two turns of a millisecond");
            before = all;
            later += Duration::from_millis(100);
        }
        // Ten turns, and 10 µs for each of the nine records: for these an eleventh, where the ten took no longer.
        let counts = adapting.board().read()[0].counts.clone();
        assert_eq!(
            (counts.runs, counts.too_long),
            (1, 1),
            "what came with its record went meanwhile"
        );
        assert!(before <= 11, "{counts:?}");
    }

    #[tokio::test]
    async fn events_of_one_round_share_a_turn() {
        // Calls for each record, none of which is suspended.
        let text = "function on_message(h) h:message() for i = 1, 20000 do end end";
        let mut spec = ScriptSpec::new("slow", text);
        spec.limits.time = Duration::from_secs(10);
        let specs = [Arc::new(spec)];
        let Rehearsal { mut seat, .. } = Rehearsal::new(&specs, Line::default()).unwrap();
        let (sender, _receiver) = mpsc::channel(1);
        let mut adapting = Adapting::new(Scripts::load(&specs).unwrap(), 1000, sender);
        let now = Time::from_millis(5);
        adapting.begin_turn();
        while !adapting.is_turn_over() {
            seat.handle(now, Input::Arrived(vec![record()]));
            // No time has passed without scripts.
            adapting.go_on(adapting.ended);
            while let Some(output) = seat.poll(now) {
                if let Output::RunScript { queue, delivery } = output {
                    adapting.run(&mut seat, now, queue, delivery);
                }
            }
        }
        adapting.go_on(adapting.ended);
        assert!(adapting.is_turn_over(), "what came together has one turn");
        // Others were heard meanwhile. A call that was interrupted may have used all of a turn.
        adapting.go_on(adapting.ended + Duration::from_secs(100));
        assert!(!adapting.is_turn_over());
    }

    /// Takes everything and tells the payloads.
    async fn output(mut port: crate::node::contract::OutputPort, to: mpsc::UnboundedSender<Bytes>) {
        for lane in 0..port.lanes {
            port.feedback.path_state(lane, PathState::Up).await.unwrap();
        }
        while let Some(order) = port.orders.recv().await {
            let Order::Transmit(cut) = order else { continue };
            let payload = cut.record.payload.clone();
            let is_last = cut.end >= cut.size;
            let sent = port.feedback.sent(cut.id, Size(cut.end - cut.start)).await;
            if sent.is_err() || !is_last {
                continue;
            }
            to.send(payload).unwrap();
            let _ = port.feedback.confirmed(vec![cut.id]).await;
        }
    }

    #[tokio::test]
    async fn a_script_sees_the_paths_of_a_link() {
        use tidegate_link::{PathCounts, PathHealth as Health};
        use tidegate_types::units::Rate;

        use crate::link::{LinkFigures, Links, PathFigures};

        let text = "function on_message(h)
            for queue in h:Queues():getQueue() do
                local said = {}
                for _, path in queue:paths() do
                    table.insert(said, string.format('%s %s %s %d %.3f %.3f %.2f', path.name, path.state,
                        path.transport or 'none', path.rate, path.rtt or -1, path.delay, path.loss))
                end
                h:message():setBody(table.concat(said, ', '))
            end
        end";
        let mut spec = ScriptSpec::new("s", text);
        spec.limits.time = Duration::from_millis(100);
        let config =
            read("[[stream]]\nscript = \"s\"\n[[output]]\nsink = { discard = true }").config;
        let config = crate::config::Config {
            script: vec![crate::config::ScriptConfig {
                name: Some("s".into()),
                ..crate::config::ScriptConfig::default()
            }],
            ..config
        };
        let mut scripts = Scripts::load(&[Arc::new(spec)]).unwrap();
        let links = Links::default();
        scripts.see_links(links.clone());
        let options = node_options(&config, 1, 1).unwrap();
        let (running, mut ports) =
            event_loop::start(options, Clock::start(), None, scripts).unwrap();
        let (to, mut went) = mpsc::unbounded_channel();
        tokio::spawn(output(ports.remove(0), to));
        let source = running.intake.open("test".into()).await.unwrap();
        let offer = || Offered { read_at: source.now(), source: source.id(), ..record() };
        source.offer(vec![offer()]).await.unwrap();
        assert_eq!(went.recv().await.unwrap(), "", "no link, no paths");
        let path = |name: &str, state, transport, srtt| PathFigures {
            name: name.into(),
            state,
            transport,
            rate: Rate::new(250_000.0),
            srtt,
            queue_delay: Duration::from_millis(4),
            loss: 0.05,
            counts: PathCounts::default(),
        };
        let rtt = Some(Duration::from_millis(70));
        let figures = |name: &str, is_output, paths| LinkFigures {
            name: name.into(),
            is_output,
            paths,
            repeated: 0,
            duplicates: 0,
            strange: 0,
        };
        let own =
            vec![path("lte", Health::Up, Some("quic"), rtt), path("dsl", Health::Dead, None, None)];
        // One that came to an input under the same name is another one.
        links.tell(1, figures("sink", false, vec![path("0", Health::Up, None, None)]));
        links.tell(0, figures("sink", true, own));
        source.offer(vec![offer()]).await.unwrap();
        let wanted = "lte up quic 250000 0.070 0.004 0.05, dsl dead none 250000 -1.000 0.004 0.05";
        assert_eq!(went.recv().await.unwrap(), wanted);
        running.stop(Duration::from_secs(60)).await;
    }

    #[tokio::test]
    async fn a_script_works_in_a_running_node_and_can_be_changed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer).await;
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nsmall";
                stream.write_all(answer).await.unwrap();
                let _ = stream.read(&mut buffer).await;
            }
        });
        let file = std::env::temp_dir().join(format!("tidegate-drive-{}.luau", std::process::id()));
        std::fs::write(&file, "function on_message(h) h:transform('half') end").unwrap();
        let text = format!(
            "[[script]]\nname = \"s\"\nfile = {:?}\ntime = \"100ms\"\ntimeout = \"1m\"\n\
             transform = {{ half = \"http://{address}/\" }}\n[[stream]]\nscript = \"s\"\n\
             [[output]]\nsink = {{ discard = true }}",
            file.display().to_string()
        );
        let config = read(&text).config;
        let scripts = Scripts::load(&config.script_specs().unwrap()).unwrap();
        let options = node_options(&config, 1, 1).unwrap();
        let (running, mut ports) =
            event_loop::start(options, Clock::start(), None, scripts).unwrap();
        let (to, mut went) = mpsc::unbounded_channel();
        tokio::spawn(output(ports.remove(0), to));
        let source = running.intake.open("test".into()).await.unwrap();
        let offer = || Offered { read_at: source.now(), source: source.id(), ..record() };
        source.offer(vec![offer()]).await.unwrap();
        assert_eq!(went.recv().await.unwrap(), "small");
        // Another text takes over; one that is wrong for what comes does not end anything.
        let new = ScriptSpec::new("s", "function on_message(h) h:message():setBody('new') end");
        let new = Script::load(Arc::new(new), ScriptId(0)).unwrap();
        let rules = crate::assembly::rules(&config).unwrap();
        let outputs = crate::assembly::all_outputs(&config.output);
        let adaptation = running.try_on(vec![new], rules, outputs).await.unwrap();
        running.adapt(adaptation).await;
        source.offer(vec![offer()]).await.unwrap();
        assert_eq!(went.recv().await.unwrap(), "new");
        let status = running.status.scripts().read();
        assert_eq!((status[0].counts.runs, status[0].answered), (2, 1));
        let end = running.stop(Duration::from_secs(60)).await;
        assert_eq!((end.counts.confirmed, end.counts.lost(end.held)), (2, 0));
        std::fs::remove_file(file).unwrap();
    }
}
