//! The one loop that joins the node to tokio: it owns the node, feeds it what arrives, and does what it says.
//!
//! Everything that decides is in the crates below; everything that waits for the world is in inputs and outputs.

pub(crate) mod adapting;
mod closing;
mod outputs;
mod running;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_log::LogName;
use tidegate_node::io::{Control, Destination, Event, Input, Output, OutputId, PathState};
use tidegate_node::node::Node;
use tidegate_node::options::{NodeOptions, OptionsError};
use tidegate_node::status::NodeStatus;
use tidegate_types::record::SourceId;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use self::adapting::Adapting;
use self::closing::Closing;
use self::outputs::OutputEnd;
pub use self::running::{FleetDoor, Running, StatusHandle};
use crate::node::broker::Hub;
use crate::node::contract::{
    Arrival, Clock, Feedback, Intake, Notice, NoticeSender, OutputPort, Transmit, Troubles,
};
use crate::node::log_store::{self, Beginning, CommitCounts, Spool, SpoolOptions};
use crate::script::{Scripts, Seat};

/// Arrivals that may wait for the loop: a few batches, so that an input feels back-pressure early.
const ARRIVALS_MAX: usize = 64;
/// Arrivals taken before the node is polled again: bounds how long a free wire can wait.
const BATCH_MAX: usize = 16;
/// How often the node hears what time it is in the world.
const WALL_PERIOD: Duration = Duration::from_secs(60);
/// How far off a clock may be that is kept by the system.
const WALL_UNCERTAINTY: Duration = Duration::from_secs(1);
/// No clock that was ever set shows less: the beginning of 2025, in seconds since 1970.
const WALL_EARLIEST: Duration = Duration::from_secs(1_735_689_600);

/// A log that is open, and how it is written.
#[derive(Debug)]
pub struct Log {
    /// It, and what it says.
    pub opened: log_store::Opened,
    /// How it is written.
    pub options: SpoolOptions,
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Options that lead nowhere.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// No thread for the log.
    #[error("starting the log's threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// Starts a node, where a log ends if there is one: the options' incarnation and boot are then those of
/// the log. Each returned port is for one output, in the order of the options: hand it to `output::run`.
///
/// # Errors
/// See [`StartError`].
pub fn start(
    options: NodeOptions,
    clock: Clock,
    log: Option<Log>,
    scripts: Scripts,
) -> Result<(Running, Vec<OutputPort>), StartError> {
    start_at(Hub::default(), options, clock, log, scripts)
}

/// The same, with this broker for who subscribes at the node.
///
/// # Errors
/// As [`start`].
pub fn start_at(
    hub: Hub,
    options: NodeOptions,
    clock: Clock,
    log: Option<Log>,
    scripts: Scripts,
) -> Result<(Running, Vec<OutputPort>), StartError> {
    let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
    let (node, spool) = begin(options, log, &sender)?;
    let intake = Intake::with(sender.clone(), clock, hub.clone());
    let (status_sender, status_requests) = mpsc::channel(8);
    let mut ports = Vec::new();
    let mut outputs = Vec::new();
    let troubles = Troubles::default();
    for place in 0..node.options().outputs.len() {
        let id = OutputId(place as u16);
        let feedback = Feedback::new(sender.clone(), id, clock).with_troubles(&troubles);
        let name = node.options().outputs[place].name.clone();
        ports.push(outputs::begin(&mut outputs, (id, name), node.options().lanes(id), feedback));
    }
    let log_is_ready = spool.as_ref().map(Spool::is_ready);
    let log_lengths = spool.as_ref().map(Spool::lengths);
    let commits = spool.as_ref().map(Spool::commits);
    let record_max = usize::try_from(node.options().record_max.0).unwrap_or(usize::MAX);
    let adapting = Adapting::new(scripts, record_max, sender.clone());
    let board = adapting.board();
    let mut drive = Drive {
        node: Seat::new(node),
        adapting,
        spool,
        clock,
        arrivals,
        status_requests,
        outputs,
        notices: Vec::new(),
        free: Vec::new(),
        closing: Closing::default(),
    };
    // Sessions end by the time in the world: it must be known before they are.
    drive.tell_wall_time();
    let sessions = drive.node.sessions(clock.now()).collect();
    let counts = intake.counts().clone();
    let running = Running {
        status: StatusHandle {
            requests: status_sender,
            counts,
            commits,
            hub,
            scripts: board,
            confirms: Arc::default(),
            troubles,
        },
        intake,
        sessions,
        log_lengths,
        log_is_ready,
        arrivals: sender,
        task: tokio::spawn(drive.run()),
    };
    Ok((running, ports))
}

/// The node, anew or where its log ends, and the log's threads.
fn begin(
    options: NodeOptions,
    log: Option<Log>,
    sender: &mpsc::Sender<Arrival>,
) -> Result<(Node, Option<Spool>), StartError> {
    let Some(Log { opened, options: how }) = log else {
        return Ok((Node::new(options)?, None));
    };
    let name = LogName {
        node: options.name.clone(),
        incarnation: opened.incarnation,
        boot: opened.boot,
        outputs: options.outputs.iter().map(|output| output.name.clone()).collect(),
    };
    let counts =
        CommitCounts::new(log_store::damaged_ranges(&opened.recovery), opened.folder.quarantined());
    let lengths = opened.recovery.segments.clone();
    let node = Node::resume(options, opened.recovery)?;
    let beginning = Beginning { folder: opened.folder, name, lengths };
    Ok((node, Some(Spool::start(beginning, &how, counts, sender.clone())?)))
}

struct Drive {
    node: Seat,
    adapting: Adapting,
    spool: Option<Spool>,
    clock: Clock,
    arrivals: mpsc::Receiver<Arrival>,
    status_requests: mpsc::Receiver<oneshot::Sender<NodeStatus>>,
    outputs: Vec<OutputEnd>,
    /// Where the notices of each connection go.
    notices: Vec<Option<NoticeSender>>,
    free: Vec<SourceId>,
    /// Connections that are gone, and whose last records wait for room.
    closing: Closing,
}

impl Drive {
    async fn run(mut self) -> NodeStatus {
        let timer = sleep_until(Instant::now());
        tokio::pin!(timer);
        let mut wall = tokio::time::interval(WALL_PERIOD);
        loop {
            let now = self.clock.now();
            self.adapting.begin_turn();
            while !self.adapting.is_turn_over()
                && let Some(output) = self.node.poll(now)
            {
                if matches!(output, Output::Report(Event::Drained)) {
                    return self.end().await;
                }
                self.act(output);
            }
            // Once scripts had their time, what others have said meanwhile is heard first.
            let has_fired = self.adapting.fire(&mut self.node, now);
            let is_behind = has_fired || self.adapting.is_turn_over();
            let timers = [self.node.next_timeout(), self.adapting.next_timer()];
            let timeout = timers.into_iter().flatten().min();
            let timeout = timeout.and_then(|at| self.clock.instant(at));
            if let Some(at) = timeout {
                timer.as_mut().reset(at.into());
            }
            tokio::select! {
                arrival = self.arrivals.recv() => {
                    let mut next = arrival;
                    for _ in 0..BATCH_MAX {
                        let Some(arrival) = next else { break };
                        self.take(arrival);
                        next = self.arrivals.try_recv().ok();
                    }
                    if let Some(arrival) = next {
                        self.take(arrival);
                    }
                }
                () = &mut timer, if timeout.is_some() => {}
                () = tokio::task::yield_now(), if is_behind => {}
                _ = wall.tick(), if self.spool.is_some() => self.tell_wall_time(),
                Some(reply) = self.status_requests.recv() => {
                    let _ = reply.send(self.node.status(self.clock.now()));
                }
            }
        }
    }

    /// What time it is in the world, once somebody has set the clock: nothing expires by one that nobody
    /// has.
    fn tell_wall_time(&mut self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        if since >= WALL_EARLIEST {
            let input = Input::Wall { unix_ns, uncertainty: WALL_UNCERTAINTY };
            self.node.handle(self.clock.now(), input);
        }
    }

    /// Everything has its fate, or is safe in the log: the outputs may go.
    async fn end(mut self) -> NodeStatus {
        if let Some(spool) = self.spool.take() {
            spool.finish().await;
        }
        for output in &self.outputs {
            output.orders.stop();
        }
        self.node.status(self.clock.now())
    }

    fn take(&mut self, arrival: Arrival) {
        let input = match arrival {
            Arrival::Input(input) => input,
            Arrival::Sent(all) => {
                let now = self.clock.now();
                let inputs = all.into_iter().map(|(id, bytes)| Input::Sent { id, bytes });
                return inputs.for_each(|input| self.node.handle(now, input));
            }
            Arrival::Open { name, relays, notices, reply } => {
                let source = self.free.pop().unwrap_or(SourceId(self.notices.len() as u32));
                let place = source.0 as usize;
                self.notices.resize_with(self.notices.len().max(place + 1), || None);
                self.notices[place] = Some(notices);
                let _ = reply.send(source);
                Input::Control(Control::Open { source, name, relays })
            }
            Arrival::EndOutput(id) => return self.outputs[usize::from(id.0)].orders.stop(),
            Arrival::Try { adaptation, outputs, uplinks, reply } => {
                let (now, all) = (self.clock.now(), (adaptation, outputs, uplinks));
                let _ = reply.send(self.adapting.try_on(&mut self.node, now, all));
                return;
            }
            Arrival::Adapt(adaptation) => {
                return self.adapting.adapt(&mut self.node, self.clock.now(), adaptation);
            }
            Arrival::Outputs(outputs, uplinks) => {
                if let Some(spool) = &self.spool {
                    spool.name_outputs(outputs.iter().map(|one| one.name.clone()).collect());
                }
                Input::Control(Control::Outputs(Box::new((outputs, uplinks))))
            }
            Arrival::BeginOutput { id, name, feedback, reply } => {
                let lanes = self.node.options().lanes(id);
                let port = outputs::begin(&mut self.outputs, (id, name), lanes, feedback);
                let _ = reply.send(port);
                return;
            }
            Arrival::Measure(reply) => {
                let _ = reply.send(self.node.measured(self.clock.now()));
                return;
            }
            Arrival::Close(source) => {
                self.notices[source.0 as usize] = None;
                if self.node.part(source) && self.closing.admit(source, self.node.owner_of(source))
                {
                    return;
                }
                return self.close(source);
            }
        };
        if let Input::PathState { path, state: PathState::Down } = &input {
            self.outputs[usize::from(path.output.0)].downs[usize::from(path.lane)] += 1;
        }
        self.node.handle(self.clock.now(), input);
    }

    fn close(&mut self, source: SourceId) {
        self.free.push(source);
        self.node.handle(self.clock.now(), Input::Control(Control::Close(source)));
    }

    fn act(&mut self, output: Output) {
        match output {
            Output::Accept { source, token, result } => {
                self.notify(source, Notice::Accept(token, result));
            }
            Output::SessionReady(source) => self.notify(source, Notice::Ready),
            Output::Released(source, packets) => self.notify(source, Notice::Released(packets)),
            Output::PauseInput(source) => self.notify(source, Notice::Pause),
            Output::ResumeInput(source) if self.closing.remove(source) => self.close(source),
            Output::ResumeInput(source) => self.notify(source, Notice::Resume),
            Output::Transmit { path, id, range, again } => {
                let record = self.node.record(id).expect("a transmitted record is held").clone();
                let class = self.node.class_of(id).expect("a transmitted record is held");
                let size = self.node.size_of(id).expect("a transmitted record is held").0;
                let (output, lane) = (&self.outputs[usize::from(path.output.0)], path.lane);
                let epoch = output.downs[usize::from(lane)];
                let (start, end) = (range.start, range.end);
                let transmit = Transmit { id, lane, epoch, record, class, start, end, size, again };
                output.orders.transmit(transmit);
            }
            Output::Cancel(id) => {
                for output in &self.outputs {
                    output.orders.cancel(id);
                }
            }
            Output::Append(appends) => self.spool().append(appends),
            Output::Release(segments) => self.spool().release(segments),
            Output::Fetch(order) => self.spool().fetch(order),
            Output::Transform { work, id, endpoint } => {
                // It may have left since the node asked.
                let payload = self.node.record(id).map(|record| record.payload.clone());
                self.adapting.transform(work, endpoint, payload);
            }
            Output::RunScript { queue, delivery } => {
                self.adapting.run(&mut self.node, self.clock.now(), queue, delivery);
            }
            Output::Report(event) => self.log(&event),
        }
    }

    fn notify(&self, source: SourceId, notice: Notice) {
        if let Some(Some(notices)) = self.notices.get(source.0 as usize) {
            // The connection may have ended a moment ago.
            notices.send(notice);
        }
    }

    fn spool(&self) -> &Spool {
        self.spool.as_ref().expect("a node without a log orders nothing of it")
    }

    fn log(&self, event: &Event) {
        match event {
            Event::Destination { destination: Destination::Output(output), up } => {
                let name: &Arc<str> = &self.node.options().outputs[usize::from(output.0)].name;
                match up {
                    true => tracing::info!(output = %name, "output is up"),
                    false => tracing::warn!(output = %name, "output is down: its records wait"),
                }
            }
            Event::Full { rule, full } => {
                let rules = &self.node.options().rules;
                let name = rules.iter().nth(*rule).map(|(_, rule)| rule.name.clone());
                let stream = name.unwrap_or_default();
                match full {
                    true => tracing::warn!(%stream, "a stream is full: its rule says what goes"),
                    false => tracing::info!(%stream, "a full stream has room again"),
                }
            }
            Event::NewRules { moved } => {
                tracing::info!(moved, "new rules are in force; moved is records that waited");
            }
            Event::RulesRefused(error) => {
                tracing::error!("the new rules are not in force: {error}");
            }
            Event::LogFailing(true) => {
                tracing::error!("the log cannot be written: durable records are refused");
            }
            Event::LogLacks { segment, deliveries } => {
                tracing::error!(%segment, deliveries, "the log has lost records: dropped (storage)");
            }
            Event::LogFailing(false) => tracing::info!("the log works again"),
            other => tracing::warn!(?other, "unexpected report"),
        }
    }
}
