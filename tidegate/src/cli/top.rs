//! `tidegate top`: a running node, from its HTTP status.

mod fetch;
mod state;
mod terminal;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

pub use self::fetch::fetch;
use self::fetch::{fetch_text, parse};
use self::state::{State, View};
use self::terminal::Terminal;
use crate::cli::screen::{paint, width};
use crate::cli::tables::Sort;

/// Arguments of `top`.
#[derive(Clone, Debug, Args)]
pub struct TopArguments {
    /// Where the node's `[http]` listens
    #[arg(
        value_name = "ADDRESS",
        default_value = "127.0.0.1:7070",
        help = "Where the node's [http] listens"
    )]
    pub address: String,
    /// What to show first
    #[arg(long, value_name = "NAME", default_value = "overview")]
    pub view: View,
    /// Largest first by this
    #[arg(long, value_name = "COLUMN", default_value = "given")]
    pub sort: Sort,
    /// Print once and end
    #[arg(long)]
    pub once: bool,
    /// Print the status as JSON, an object a line
    #[arg(long, conflicts_with_all = ["view", "sort"])]
    pub json: bool,
}

pub(super) const TOP_HELP: &str = "\
Keys: q quits, ? explains, 1 to 6 or Tab choose what is shown, s sorts, arrows scroll.

Examples:
  tidegate top                    the node on this machine
  tidegate top 10.0.0.7:7070      another one
  tidegate top --view streams --sort p99   its latest streams first
  tidegate top --once             one table, for a script
  tidegate top --json             its status each second, for a program

NO_COLOR=1 in the environment switches colours off; without a terminal there are none.";

/// How often the node is asked.
const PACE: Duration = Duration::from_secs(1);
/// How often the table is printed where it cannot be refreshed in place.
const PACE_PRINTED: Duration = Duration::from_secs(5);

/// Shows the node until interrupted.
///
/// # Errors
/// At the start no node answers there, or what answers is none.
pub async fn top(arguments: &TopArguments) -> anyhow::Result<ExitCode> {
    let address = arguments.address.trim_start_matches("http://").trim_end_matches('/');
    // Who mistyped the address hears so at once; a node that goes away later is waited for.
    let first = fetch_text(address).await?;
    let is_watched = io::stdout().is_terminal() && io::stdin().is_terminal();
    let mut state = State::new(arguments.view, arguments.sort);
    state.told(parse(&first, address)?);
    let shown = if arguments.once {
        once(arguments, &first, &state)
    } else if arguments.json {
        lines(address, &first).await
    } else if is_watched {
        watch(address, state).await
    } else {
        print(address, state).await
    };
    match shown {
        // Nobody reads any more.
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn ticks(pace: Duration) -> Interval {
    let mut ticks = interval(pace);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    ticks
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

fn once(arguments: &TopArguments, first: &str, state: &State) -> anyhow::Result<()> {
    match arguments.json {
        true => write(&format!("{first}\n")),
        false => write(&state.render(width(), paint())),
    }
}

/// An object a line: the node's status as it told it, or how long the node has been away.
async fn lines(address: &str, first: &str) -> anyhow::Result<()> {
    let mut ticks = ticks(PACE);
    let mut seen = Instant::now();
    write(&format!("{first}\n"))?;
    loop {
        ticks.tick().await;
        let answer = fetch_text(address).await;
        match answer.and_then(|json| parse(&json, address).map(|_| json)) {
            Ok(json) => {
                seen = Instant::now();
                write(&format!("{json}\n"))?;
            }
            Err(error) => {
                let away = serde_json::json!({
                    "address": address,
                    "away_seconds": seen.elapsed().as_secs_f64(),
                    "error": format!("{error:#}"),
                });
                write(&format!("{away}\n"))?;
            }
        }
    }
}

/// One text below the other, for a file or a pipe.
async fn print(address: &str, mut state: State) -> anyhow::Result<()> {
    let mut ticks = ticks(PACE_PRINTED);
    loop {
        write(&format!("{}\n", state.render(width(), paint())))?;
        ticks.tick().await;
        ask(address, &mut state).await;
    }
}

async fn ask(address: &str, state: &mut State) {
    match fetch(address).await {
        Ok(view) => state.told(view),
        Err(error) => state.missed(format!("{error:#}")),
    }
}

/// In place on a terminal, and with keys.
async fn watch(address: &str, mut state: State) -> anyhow::Result<()> {
    let mut resized = signal(SignalKind::window_change()).context("listening for signals")?;
    let mut ended = signal(SignalKind::terminate()).context("listening for signals")?;
    let mut hung_up = signal(SignalKind::hangup()).context("listening for signals")?;
    let terminal = Terminal::open().context("the terminal")?;
    let mut ticks = ticks(PACE);
    // Asked while keys are served: a node that hangs must not hold up who wants to quit.
    let asking = fetch(address);
    tokio::pin!(asking);
    let mut is_asking = false;
    loop {
        let (columns, rows) = terminal.size();
        terminal.show(&state.screen(columns, rows, paint()))?;
        tokio::select! {
            _ = ticks.tick(), if !is_asking => {
                asking.set(fetch(address));
                is_asking = true;
            }
            told = &mut asking, if is_asking => {
                is_asking = false;
                match told {
                    Ok(view) => state.told(view),
                    Err(error) => state.missed(format!("{error:#}")),
                }
            }
            keys = terminal.keys() => {
                if keys?.into_iter().any(|key| state.pressed(key)) {
                    return Ok(());
                }
            }
            _ = resized.recv() => {}
            _ = tokio::signal::ctrl_c() => return Ok(()),
            _ = ended.recv() => return Ok(()),
            _ = hung_up.recv() => return Ok(()),
        }
    }
}
