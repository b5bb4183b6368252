//! The one loop that joins core to tokio: it owns the node, feeds it what arrives, and does what it says.
//!
//! Everything that decides is in core; everything that waits for the world is in inputs and outputs.

mod handles;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_core::io::{Control, Destination, Event, Input, Output, PathState, PrepareError};
use tidegate_core::log::{LogName, SessionState};
use tidegate_core::node::Node;
use tidegate_core::options::{NodeOptions, OptionsError};
use tidegate_core::record::SourceId;
use tidegate_core::rules::Rules;
use tidegate_core::status::NodeStatus;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

pub use self::handles::{FleetDoor, StatusHandle};
use crate::fleet::FleetBoard;
use crate::port::{Arrival, Clock, Feedback, Intake, Notice, Order, OutputPort, Transmit};
use crate::spool::{self, CommitCounts, Spool, SpoolOptions};

/// Arrivals that may wait for the loop: a few batches, so that an input feels back-pressure early.
const ARRIVALS_MAX: usize = 64;
/// Arrivals taken before the node is polled again: bounds how long a free wire can wait.
const BATCH_MAX: usize = 16;
/// How long a start waits for the log's first commit.
const LOG_READY: Duration = Duration::from_secs(5);
/// How often the node hears what time it is in the world.
const WALL_PERIOD: Duration = Duration::from_secs(60);
/// How far off a clock may be that is kept by the system.
const WALL_UNCERTAINTY: Duration = Duration::from_secs(1);
/// No clock that was ever set shows less: the beginning of 2025, in seconds since 1970.
const WALL_EARLIEST: Duration = Duration::from_secs(1_735_689_600);

/// A node that runs.
#[derive(Debug)]
pub struct Running {
    /// The door for inputs.
    pub intake: Intake,
    /// Its status.
    pub status: StatusHandle,
    /// Sessions of clients that the log knows, each with how long it still lasts.
    pub sessions: Vec<SessionState>,
    log_is_ready: Option<watch::Receiver<bool>>,
    arrivals: mpsc::Sender<Arrival>,
    task: JoinHandle<NodeStatus>,
}

impl Running {
    /// The door for the fleet's agent.
    pub fn fleet_door(&self) -> FleetDoor {
        FleetDoor { arrivals: self.arrivals.clone(), clock: self.intake.clock() }
    }

    /// Waits until the log has taken its first entries: before, nothing durable is accepted. A log that
    /// takes long to say so (a full disk) is not waited for.
    pub async fn log_is_ready(&self) {
        let Some(mut ready) = self.log_is_ready.clone() else { return };
        if tokio::time::timeout(LOG_READY, ready.wait_for(|ready| *ready)).await.is_err() {
            tracing::warn!(
                "the log has written nothing yet: durable records are refused until it can"
            );
        }
    }

    /// Puts new rules in force; what comes of it is logged.
    pub async fn set_rules(&self, rules: Rules) {
        let rules = Input::Control(Control::Rules(rules.into()));
        // A send fails only when the loop has ended already.
        let _ = self.arrivals.send(Arrival::Input(rules)).await;
    }

    /// Accepts nothing more and waits until everything held has its fate, or until `patience` ends:
    /// then what is left is dropped (`stopped`). Returns the last status.
    pub async fn stop(mut self, patience: std::time::Duration) -> NodeStatus {
        // A send fails only when the loop has ended already.
        let _ = self.arrivals.send(Arrival::Input(Input::Control(Control::Stop))).await;
        if let Ok(status) = tokio::time::timeout(patience, &mut self.task).await {
            return status.expect("the loop does not panic");
        }
        let _ = self.arrivals.send(Arrival::Input(Input::Control(Control::Discard))).await;
        self.task.await.expect("the loop does not panic")
    }
}

/// A log that is open, and how it is written.
#[derive(Debug)]
pub struct Log {
    /// It, and what it says.
    pub opened: spool::Opened,
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
) -> Result<(Running, Vec<OutputPort>), StartError> {
    let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
    let (node, spool) = match log {
        None => (Node::new(options)?, None),
        Some(Log { opened, options: how }) => {
            let name = LogName {
                node: options.name.clone(),
                incarnation: opened.incarnation,
                boot: opened.boot,
                outputs: options.outputs.iter().map(|output| output.name.clone()).collect(),
            };
            let counts = CommitCounts::new(spool::damaged_ranges(&opened.recovery));
            let node = Node::resume(options, opened.recovery)?;
            (node, Some(Spool::start(opened.folder, &how, name, counts, sender.clone())?))
        }
    };
    let intake = Intake::new(sender.clone(), clock);
    let links = intake.links().clone();
    let lanes = node.options().scheduler.lanes(&node.options().classes);
    let (status_sender, status_requests) = mpsc::channel(8);
    let mut ports = Vec::new();
    let mut outputs = Vec::new();
    for place in 0..node.options().outputs.len() {
        let id = tidegate_core::io::OutputId(place as u16);
        let (orders, inbox) = mpsc::unbounded_channel();
        let feedback = Feedback::new(sender.clone(), id, clock);
        let links = links.clone();
        ports.push(OutputPort { id, lanes, orders: inbox, feedback, links });
        outputs.push(OutputEnd { orders, downs: vec![0; usize::from(lanes)] });
    }
    let log_is_ready = spool.as_ref().map(Spool::is_ready);
    let commits = spool.as_ref().map(Spool::commits);
    let mut drive = Drive {
        node,
        spool,
        clock,
        arrivals,
        status_requests,
        outputs,
        notices: Vec::new(),
        free: Vec::new(),
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
            links,
            fleet: FleetBoard::default(),
        },
        intake,
        sessions,
        log_is_ready,
        arrivals: sender,
        task: tokio::spawn(drive.run()),
    };
    Ok((running, ports))
}

#[derive(Debug)]
struct OutputEnd {
    orders: mpsc::UnboundedSender<Order>,
    /// How often each lane went down: an order given before the node knew is void.
    downs: Vec<u64>,
}

struct Drive {
    node: Node,
    spool: Option<Spool>,
    clock: Clock,
    arrivals: mpsc::Receiver<Arrival>,
    status_requests: mpsc::Receiver<oneshot::Sender<NodeStatus>>,
    outputs: Vec<OutputEnd>,
    /// Where the notices of each connection go.
    notices: Vec<Option<mpsc::UnboundedSender<Notice>>>,
    free: Vec<SourceId>,
}

impl Drive {
    async fn run(mut self) -> NodeStatus {
        let timer = sleep_until(Instant::now());
        tokio::pin!(timer);
        let mut wall = tokio::time::interval(WALL_PERIOD);
        loop {
            let now = self.clock.now();
            while let Some(output) = self.node.poll(now) {
                if matches!(output, Output::Report(Event::Drained)) {
                    return self.end().await;
                }
                self.act(output);
            }
            let timeout = self.node.next_timeout().and_then(|at| self.clock.instant(at));
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
            let _ = output.orders.send(Order::Stop);
        }
        self.node.status(self.clock.now())
    }

    fn take(&mut self, arrival: Arrival) {
        let input = match arrival {
            Arrival::Input(input) => input,
            Arrival::Open { name, relays, notices, reply } => {
                let source = self.free.pop().unwrap_or(SourceId(self.notices.len() as u32));
                let place = source.0 as usize;
                self.notices.resize_with(self.notices.len().max(place + 1), || None);
                self.notices[place] = Some(notices);
                let _ = reply.send(source);
                Input::Control(Control::Open { source, name, relays })
            }
            Arrival::Measure(reply) => {
                let _ = reply.send(self.node.measured(self.clock.now()));
                return;
            }
            Arrival::Close(source) => {
                self.notices[source.0 as usize] = None;
                self.free.push(source);
                Input::Control(Control::Close(source))
            }
        };
        if let Input::PathState { path, state: PathState::Down } = &input {
            self.outputs[usize::from(path.output.0)].downs[usize::from(path.lane)] += 1;
        }
        self.node.handle(self.clock.now(), input);
    }

    fn act(&mut self, output: Output) {
        match output {
            Output::Accept { source, token, result } => {
                self.notify(source, Notice::Accept(token, result));
            }
            Output::SessionReady(source) => self.notify(source, Notice::Ready),
            Output::Released(source, packets) => self.notify(source, Notice::Released(packets)),
            Output::PauseInput(source) => self.notify(source, Notice::Pause),
            Output::ResumeInput(source) => self.notify(source, Notice::Resume),
            Output::Transmit { path, id, range, again, .. } => {
                let record = self.node.record(id).expect("a transmitted record is held").clone();
                let class = self.node.class_of(id).expect("a transmitted record is held");
                let size = self.node.size_of(id).expect("a transmitted record is held").0;
                let (output, lane) = (&self.outputs[usize::from(path.output.0)], path.lane);
                let epoch = output.downs[usize::from(lane)];
                let (start, end) = (range.start, range.end);
                let transmit = Transmit { id, lane, epoch, record, class, start, end, size, again };
                // An output that is gone is stopping with the process; what it held stays unconfirmed.
                let _ = output.orders.send(Order::Transmit(transmit));
            }
            Output::Cancel(id) => {
                for output in &self.outputs {
                    let _ = output.orders.send(Order::Cancel(id));
                }
            }
            Output::Append(appends) => self.spool().append(appends),
            Output::Release(segments) => self.spool().release(segments),
            Output::Fetch(order) => self.spool().fetch(order),
            Output::Prepare { work, .. } => {
                let result = Err(PrepareError::Unreadable);
                self.node.handle(self.clock.now(), Input::Prepared { work, result });
            }
            Output::RunScript { .. } => {}
            Output::Report(event) => self.log(&event),
        }
    }

    fn spool(&self) -> &Spool {
        self.spool.as_ref().expect("a node without a log orders nothing of it")
    }

    fn notify(&self, source: SourceId, notice: Notice) {
        if let Some(Some(notices)) = self.notices.get(source.0 as usize) {
            // The connection may have ended a moment ago.
            let _ = notices.send(notice);
        }
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
            Event::LogFailing(false) => tracing::info!("the log works again"),
            other => tracing::warn!(?other, "unexpected report"),
        }
    }
}
