//! A topic that moves between two nodes while it is published and subscribed to: what is lost, what comes twice, what
//! comes out of order, and how long nothing comes.
//!
//! Two nodes as processes of one group. Two publishers share the rate, one of MQTT 3.1.1 and one of MQTT 5, which follows
//! the server reference where it is given one; both begin at the first node. At each node one client subscribes to the
//! topic and one to the results of its operator. Moves are ordered by `tidegate move`, one each second.

mod client;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tidegate_testbed::free_address;

use self::client::{Publisher, Version};
use super::median;
use crate::load::subscriber::{Seen, Subscriber};
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::{Findings, figure};
use crate::rig::server::Server;

/// Before the first move and after the last one.
const AROUND: Duration = Duration::from_secs(1);
/// How long after the last publish the last deliveries are waited for.
const DRAIN: Duration = Duration::from_secs(10);
/// Names of the nodes.
const NODES: [&str; 2] = ["edge-1", "edge-2"];
/// Subscribers: where, and to what.
const SUBSCRIBERS: [(usize, &str); 4] =
    [(0, "bench/raw"), (1, "bench/raw"), (0, "bench/done"), (1, "bench/done")];

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Records a second, of both publishers together
    #[arg(long, default_value_t = 1000)]
    pub(crate) per_second: u32,
    /// Moves, one a second
    #[arg(long, default_value_t = 20)]
    pub(crate) moves: u32,
    /// Time on a processor that the operator takes for a record, in microseconds
    #[arg(long, default_value_t = 100)]
    pub(crate) cost_us: u32,
    /// Whether the node writes a log and acknowledges what is in it
    #[arg(long)]
    pub(crate) durable: bool,
}

/// Runs the benchmark; returns what was found.
///
/// # Errors
/// A process that does not start or a connection that breaks.
pub(crate) fn run(options: &Options, tidegate: &Path) -> io::Result<Findings> {
    let _awake = Spinners::start().map_err(io::Error::other)?;
    let scratch = Scratch::new().map_err(io::Error::other)?;
    let addresses: Vec<SocketAddr> = std::iter::repeat_with(free_address).take(4).collect();
    let texts: Vec<String> =
        (0..2).map(|node| config(options, &addresses, node, scratch.path())).collect();
    let files = texts.iter().zip(NODES).map(|(text, name)| scratch.file(name, text));
    let files: Vec<_> = files.collect::<Result<_, _>>().map_err(io::Error::other)?;
    let mut servers = Vec::new();
    for (text, address) in texts.iter().zip(&addresses) {
        servers.push(Server::launch_with((tidegate, &["run"]), "-c", *address, text, false)?);
    }
    let origin = Instant::now();
    let subscribers: Vec<Subscriber> = SUBSCRIBERS
        .into_iter()
        .map(|(node, topic)| {
            Subscriber::to(addresses[node], &format!("sees {topic}"), topic, 1, origin)
        })
        .collect::<io::Result<_>>()?;
    let pause = Duration::from_secs_f64(2.0 / f64::from(options.per_second.max(2)));
    let publishers: Vec<Publisher> = [Version::Old, Version::New]
        .into_iter()
        .map(|version| Publisher::start(addresses[0], version, pause))
        .collect::<io::Result<_>>()?;
    let progress = Progress::new("move", options.moves as usize);
    thread::sleep(AROUND);
    let mut moves = Vec::new();
    for number in 0..options.moves as usize {
        let to = NODES[(number + 1) % 2];
        progress.step(&format!("to {to}"), None);
        let begin = origin.elapsed();
        let done = Command::new(tidegate)
            .args(["move", "bench", "--to", to, "-c"])
            .arg(&files[0])
            .output()?;
        if !done.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()));
        }
        moves.push((begin, origin.elapsed()));
        thread::sleep(AROUND.saturating_sub(origin.elapsed().saturating_sub(begin)));
    }
    thread::sleep(AROUND);
    let mut followed = 0;
    let mut counts = Vec::new();
    for publisher in publishers {
        let (sent, references) = publisher.finish()?;
        followed += references;
        counts.push(sent);
    }
    let all: u64 = counts.iter().sum();
    let books: Vec<Vec<Seen>> =
        subscribers.into_iter().map(|subscriber| subscriber.finish(all, DRAIN)).collect();
    drop(servers);
    Ok(report(options, &counts, &books, &moves, followed))
}

fn config(options: &Options, addresses: &[SocketAddr], node: usize, folder: &Path) -> String {
    let (name, other) = (NODES[node], NODES[1 - node]);
    let (mqtt, group, far) = (addresses[node], addresses[2 + node], addresses[3 - node]);
    let clients = addresses[1 - node];
    let (log, stream) = match options.durable {
        true => {
            let folder = folder.join(format!("log-{node}"));
            let log = format!("[log]\ndirectory = \"{}\"\n", folder.display());
            let output = "[[output]]\nname = \"far\"\nsink = { discard = true }\n";
            (format!("{log}{output}"), "accept = \"durable\"\n")
        }
        false => (String::new(), "to = []\n"),
    };
    format!(
        "[node]\nname = \"{name}\"\n[http]\nlisten = []\n{log}[[input]]\nmqtt = {{ listen = \"{mqtt}\" }}\n\
         [[stream]]\nlatency = \"1s\"\n{stream}\
         [group]\nlisten = \"{group}\"\n\
         members = [{{ name = \"{other}\", address = \"{far}\", clients = \"{clients}\" }}]\n\
         [[placed]]\nname = \"bench\"\ntopics = [\"bench/raw\", \"bench/done\"]\nowner = \"{}\"\n\
         [[operator]]\nname = \"work\"\nfrom = [\"bench/raw\"]\nto = \"bench/done\"\n\
         do = [{{ spin = \"{}us\" }}]\n",
        NODES[0], options.cost_us
    )
}

/// What one subscriber saw of what was published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Score {
    lost: u64,
    repeated: u64,
    disordered: u64,
}

/// `counts` has how many each publisher has sent.
fn score(counts: &[u64], book: &[Seen]) -> Score {
    let mut score = Score::default();
    for (publisher, count) in counts.iter().enumerate() {
        let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
        let mut last = 0;
        let own = book.iter().filter(|seen| seen.numbers[0] == publisher as u64);
        for number in own.map(|seen| seen.numbers[1]) {
            let times = seen.entry(number).or_default();
            *times += 1;
            if *times == 1 && number < last {
                score.disordered += 1;
            }
            last = last.max(number);
        }
        score.repeated += seen.values().map(|times| times - 1).sum::<u64>();
        score.lost += (1..=*count).filter(|number| !seen.contains_key(number)).count() as u64;
    }
    score
}

/// The longest time without an arrival, of those that end within `from..to`.
fn pause(book: &[Seen], from: Duration, to: Duration) -> f64 {
    let at = |seen: &Seen| Duration::from_nanos(seen.at_ns);
    let gaps = book.windows(2).filter(|pair| (from..to).contains(&at(&pair[1])));
    gaps.map(|pair| (at(&pair[1]) - at(&pair[0])).as_secs_f64() * 1e3).fold(0.0, f64::max)
}

fn report(
    options: &Options,
    counts: &[u64],
    books: &[Vec<Seen>],
    moves: &[(Duration, Duration)],
    followed: u64,
) -> Findings {
    let mut lines = vec![format!(
        "{} records by 2 publishers at {}/s, {} moves, {} us a record, {}; MQTT 5 followed {followed} references",
        counts.iter().sum::<u64>(),
        options.per_second,
        moves.len(),
        options.cost_us,
        if options.durable { "durable" } else { "in memory" }
    )];
    let mut figures = Vec::new();
    let mut worst = (Score::default(), 0.0_f64, Vec::new(), 0.0_f64);
    for ((node, topic), book) in SUBSCRIBERS.iter().zip(books) {
        let score = score(counts, book);
        // What a move delays has come a second later.
        let pauses: Vec<f64> = moves
            .iter()
            .map(|(begin, end)| pause(book, *begin, *end + Duration::from_millis(300)))
            .collect();
        let longest = pauses.iter().copied().fold(0.0, f64::max);
        let first = moves.first().map_or(Duration::MAX, |(begin, _)| *begin);
        let calm = pause(book, first.saturating_sub(AROUND / 2), first);
        lines.push(format!(
            "  {topic:<10} at {}: lost {}, repeated {}, out of order {}; pause median {:.1} ms, longest {longest:.1} ms (without a move {calm:.1} ms)",
            NODES[*node],
            score.lost,
            score.repeated,
            score.disordered,
            median(pauses.clone())
        ));
        worst.0.lost += score.lost;
        worst.0.repeated += score.repeated;
        worst.0.disordered += score.disordered;
        worst.1 = worst.1.max(longest);
        worst.2.extend(pauses);
        worst.3 = worst.3.max(calm);
    }
    let (score, longest, pauses, calm) = worst;
    figures.push(figure("move_lost", score.lost as f64, "records"));
    figures.push(figure("move_repeated", score.repeated as f64, "records"));
    figures.push(figure("move_out_of_order", score.disordered as f64, "records"));
    figures.push(figure("move_longest_pause", longest, "ms"));
    figures.push(figure("move_median_pause", median(pauses), "ms"));
    figures.push(figure("move_longest_pause_without", calm, "ms"));
    let is_met = score == Score::default() && longest <= 200.0;
    lines.push(format!(
        "goal: 0 lost, 0 repeated, in order, pause of at most 200 ms: {}",
        if is_met { "met" } else { "missed" }
    ));
    (lines, figures).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_twice_or_late_is_counted() {
        let book = [(0, 1, 1), (0, 3, 2), (0, 2, 3), (1, 1, 9), (0, 3, 10)].map(
            |(publisher, number, ms)| Seen { numbers: [publisher, number], at_ns: ms * 1_000_000 },
        );
        let found = score(&[4, 1], &book);
        assert_eq!(found, Score { lost: 1, repeated: 1, disordered: 1 });
        let within =
            |from, to| pause(&book, Duration::from_millis(from), Duration::from_millis(to));
        assert_eq!((within(0, 5), within(0, 100)), (1.0, 6.0));
    }

    #[test]
    fn both_nodes_are_right() {
        let addresses: Vec<SocketAddr> =
            (1..5).map(|port| ([127, 0, 0, 1], 1000 + port).into()).collect();
        for durable in [false, true] {
            let options = Options { per_second: 1000, moves: 1, cost_us: 100, durable };
            for node in 0..2 {
                let text = config(&options, &addresses, node, Path::new("folder"));
                assert_eq!(tidegate::config::read(&text).render("node.toml", &text), "");
            }
        }
    }
}
