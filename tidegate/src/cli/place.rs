//! `tidegate place` and `tidegate drain`: ask the members of a group what their topics cost and how late they are, and move few of
//! them. What is decided is in [`tidegate_cluster::place::keep`].

mod arguments;
mod show;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tidegate_cluster::handover::loads::MemberLoads;
use tidegate_cluster::place::model::{ModelKind, TrainedModel};
use tidegate_cluster::place::rebalance::{
    PlannedMove, RebalanceOptions, RebalanceRound, Rebalancer,
};
use tidegate_cluster::place::{LatencyModel, Physics};
use tidegate_types::units::Time;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub(super) use self::arguments::{DRAIN_HELP, PLACE_HELP};
pub use self::arguments::{DrainArguments, PlaceArguments};
use crate::assembly::drivers;
use crate::assembly::run::Signals;
use crate::cli::plan;
use crate::services::cluster::{self, Access, Order};

/// How long a member may take to tell its loads: then it is away for this round.
const PATIENCE: Duration = Duration::from_secs(5);
/// Rounds in a row in which nothing leaves a node that drains: then what stays is told.
const STUCK: usize = 4;

/// A round, and what came of it.
#[derive(Clone, Debug)]
struct Done {
    round: RebalanceRound,
    /// Each move of it; an error says why the topics stay. None are made in a dry run.
    moves: Vec<(PlannedMove, Result<(), String>)>,
    /// Members that could not be asked, and why.
    unasked: Vec<(Arc<str>, String)>,
    is_dry: bool,
}

impl Done {
    fn is_well(&self) -> bool {
        self.round.remarks.is_empty() && self.moves.iter().all(|(_, result)| result.is_ok())
    }
}

/// A group that is asked again and again.
struct Live {
    access: Access,
    keeper: Rebalancer,
    learned: Option<TrainedModel>,
    begun: Instant,
    is_dry: bool,
    /// Only topics of this node move.
    only: Option<Arc<str>>,
}

impl Live {
    fn new(config: &Path, model: Option<&Path>, options: RebalanceOptions) -> anyhow::Result<Live> {
        let learned = model.map(plan::model).transpose()?;
        let usual = learned.as_ref().map(|learned| learned.machine.machine());
        let options = RebalanceOptions { usual: usual.unwrap_or(options.usual), ..options };
        Ok(Live {
            access: drivers::access(config)?,
            keeper: Rebalancer::new(options),
            learned,
            begun: Instant::now(),
            is_dry: false,
            only: None,
        })
    }

    fn now(&self) -> Time {
        Time::ZERO + self.begun.elapsed()
    }

    /// Asks all members at once.
    async fn ask(&self) -> Vec<(Arc<str>, Result<MemberLoads, String>)> {
        let mut asked = JoinSet::new();
        for name in self.access.names() {
            let access = self.access.clone();
            asked.spawn(async move {
                let answer = timeout(PATIENCE, cluster::tell(&access, &name)).await;
                let answer = match answer {
                    Ok(answer) => answer.map_err(|error| format!("{error:#}")),
                    Err(_) => {
                        Err(format!("{name} does not answer within {} s", PATIENCE.as_secs()))
                    }
                };
                (name, answer)
            });
        }
        let mut all = asked.join_all().await;
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }

    /// One round: asks, decides, moves.
    async fn round(&mut self) -> anyhow::Result<Done> {
        let answers = self.ask().await;
        let unasked = answers.iter().filter_map(|(name, answer)| {
            let why = answer.as_ref().err()?;
            Some((name.clone(), why.clone()))
        });
        let unasked: Vec<(Arc<str>, String)> = unasked.collect();
        let answers = answers.into_iter().map(|(name, answer)| (name, answer.ok()));
        let asked =
            self.learned.as_ref().map(|learned| learned.by(ModelKind::Learned)).transpose()?;
        let model: &dyn LatencyModel = asked.as_ref().map_or(&Physics, |asked| asked);
        let now = Time::ZERO + self.begun.elapsed();
        let round = self.keeper.round(now, answers.collect(), model);
        Ok(Done { round, moves: Vec::new(), unasked, is_dry: self.is_dry })
    }

    /// Makes the moves of a round, one after another.
    async fn make(&mut self, done: &mut Done) {
        for step in &done.round.steps {
            if self.is_dry || self.only.as_ref().is_some_and(|only| *only != step.from) {
                continue;
            }
            let PlannedMove { unit, from, to, seizes, .. } = step.clone();
            // Its records wait already: that they wait for the end of what came before makes them hardly later.
            let order = Order { unit, from: Some(from), to, seize: seizes, patient: true };
            let result = cluster::order(&self.access, &order).await;
            if result.is_ok() {
                self.keeper.moved(self.now(), step);
            }
            let result = result.map(drop).map_err(|error| format!("{error:#}"));
            done.moves.push((step.clone(), result));
        }
    }
}

/// Keeps bounds until a signal stops it, or once.
///
/// # Errors
/// The configuration or the model cannot be read, or nobody takes what is printed.
pub async fn place(arguments: &PlaceArguments) -> anyhow::Result<ExitCode> {
    let usual = RebalanceOptions::default();
    let options = RebalanceOptions {
        moves_max: arguments.max_moves as usize,
        rest: arguments.rest.0,
        together_max: arguments.together as usize,
        margin: arguments.margin,
        seize_after: arguments.seize_after.map(|after| after.0),
        spreads: arguments.spread,
        ..usual
    };
    // One time to begin from, and as many as a bound must be missed in.
    let rounds = options.rounds as usize + 1;
    let mut live = Live::new(arguments.file.path(), arguments.model.as_deref(), options)?;
    live.is_dry = arguments.dry_run;
    let mut signals = Signals::new()?;
    let mut told = BTreeSet::new();
    if !arguments.once {
        let members = live.access.members.len();
        tracing::info!(members, every = %arguments.every, "keeping bounds; Ctrl-C stops it");
    }
    for turn in 1.. {
        let begun = Instant::now();
        let done = tokio::select! {
            done = async {
                let mut done = live.round().await?;
                live.make(&mut done).await;
                anyhow::Ok(done)
            } => done?,
            received = signals.next() => {
                // A move that was ordered goes on at the members.
                tracing::info!(signal = received.name, "stopped");
                return Ok(ExitCode::SUCCESS);
            }
        };
        let is_last = arguments.once && (turn >= rounds || !done.round.steps.is_empty());
        let text = if arguments.json {
            format!("{}\n", show::json(&done))
        } else {
            show::words(&done, &mut told, is_last)
        };
        print(&text)?;
        if is_last {
            return Ok(if done.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        let left = arguments.every.0.saturating_sub(begun.elapsed());
        tokio::select! {
            () = sleep(left) => {}
            received = signals.next() => {
                tracing::info!(signal = received.name, "stopped");
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Moves all topics off a node, or lets it own topics again.
///
/// # Errors
/// The configuration or the model cannot be read, or the node cannot be asked.
pub async fn drain(arguments: &DrainArguments) -> anyhow::Result<ExitCode> {
    let node: Arc<str> = arguments.node.as_str().into();
    let options = RebalanceOptions {
        moves_max: usize::MAX,
        rest: Duration::ZERO,
        only_drains: true,
        forces: arguments.force,
        ..RebalanceOptions::default()
    };
    let mut live = Live::new(&arguments.config, arguments.model.as_deref(), options)?;
    let names = live.access.names();
    anyhow::ensure!(
        names.contains(&node),
        "{node} is no member of the group: there are {}",
        names.join(", ")
    );
    let loads = cluster::drain(&live.access, &node, arguments.undo).await.with_context(|| {
        format!(
            "{node} must run to be drained; topics of a node that is gone are taken by \
             `tidegate move NAME --to NODE --seize`"
        )
    })?;
    if arguments.undo {
        print(&format!("{node} may own topics again\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !loads.remembers {
        print(&format!(
            "{node} has no [group] state: it forgets that it drains when it is restarted\n"
        ))?;
    }
    live.only = Some(node.clone());
    let mut stuck = 0;
    loop {
        let mut done = live.round().await?;
        live.make(&mut done).await;
        print(&show::moves(&done))?;
        let left = owned(&cluster::tell(&live.access, &node).await?, &node);
        if left.is_empty() {
            print(&format!("{node} owns no topics\n"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let has_moved = done.moves.iter().any(|(_, result)| result.is_ok());
        stuck = if has_moved { 0 } else { stuck + 1 };
        if stuck >= STUCK {
            let told = show::left(&done, &node, &left);
            write!(io::stderr(), "{told}")?;
            return Ok(ExitCode::FAILURE);
        }
        sleep(arguments.every.0).await;
    }
}

/// Units that a member owns, as it knows it.
fn owned(loads: &MemberLoads, node: &str) -> Vec<Arc<str>> {
    let own = loads.units.iter().filter(|unit| {
        let owner = loads.members.get(usize::from(unit.owner.member.0));
        owner.is_some_and(|owner| **owner == *node)
    });
    own.map(|unit| unit.name.clone()).collect()
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
