//! What is done to a contestant while it works.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Contestant, Options};
use crate::net::namespace::Link;
use crate::net::process::{Process, Quiet};
use crate::net::scratch::Scratch;

/// Lives of the contestant, in milliseconds.
const LIVES: std::ops::Range<u32> = 200..1500;
/// Between two faults of the cloud's broker, and of the link.
const PEACE: Duration = Duration::from_secs(6);
/// How long the link is cut.
const CUT: Duration = Duration::from_secs(3);

/// How long the load and the kills should take, one contestant.
pub(super) fn expected(options: &Options) -> Duration {
    let load = options.records as f64 / f64::from(options.per_second.max(1));
    let life = Duration::from_millis(u64::from(LIVES.start + LIVES.end) / 2);
    (life * options.kills).max(Duration::from_secs_f64(load))
}

/// What remains when all faults are over.
pub(super) struct Survivors {
    /// The contestant's last life.
    pub(super) contestant: Quiet,
    pub(super) cloud: Option<Quiet>,
    /// From each start to the first publish that could be taken.
    pub(super) starts: Vec<Duration>,
}

/// All faults, side by side.
pub(super) async fn all(
    contestant: Contestant,
    options: &Options,
    link: &Link,
    scratch: &Scratch,
    cloud: Option<Quiet>,
) -> anyhow::Result<Survivors> {
    let kills = kills(contestant, options, link, scratch);
    let restarts = restarts(contestant, options.restarts, link, scratch, cloud);
    let ((contestant, starts), cloud, ()) =
        tokio::try_join!(kills, restarts, cuts(options.cuts, link))?;
    Ok(Survivors { contestant: contestant.quietly(), cloud, starts })
}

async fn kills(
    contestant: Contestant,
    options: &Options,
    link: &Link,
    scratch: &Scratch,
) -> anyhow::Result<(Process, Vec<Duration>)> {
    let mut random = oorandom::Rand32::new(options.seed);
    let mut starts = Vec::new();
    for _ in 0..options.kills {
        let started = Instant::now();
        let life = contestant.start(link, scratch).await?;
        starts.push(started.elapsed());
        let life = life.quietly();
        sleep(Duration::from_millis(random.rand_range(LIVES).into())).await;
        life.kill().await;
    }
    Ok((contestant.start(link, scratch).await?, starts))
}

async fn restarts(
    contestant: Contestant,
    restarts: u32,
    link: &Link,
    scratch: &Scratch,
    mut cloud: Option<Quiet>,
) -> anyhow::Result<Option<Quiet>> {
    if contestant.has_cloud() {
        for _ in 0..restarts {
            sleep(PEACE).await;
            contestant.kill_cloud(link).await?;
            if let Some(cloud) = cloud.take() {
                cloud.kill().await;
            }
            cloud = contestant.start_cloud(link, scratch).await?;
        }
    }
    Ok(cloud)
}

async fn cuts(cuts: u32, link: &Link) -> anyhow::Result<()> {
    for _ in 0..cuts {
        sleep(2 * PEACE).await;
        link.set_up(false)?;
        sleep(CUT).await;
        link.set_up(true)?;
    }
    Ok(())
}
