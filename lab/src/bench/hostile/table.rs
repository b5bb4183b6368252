//! The attacks, each with the promise that it is on; and what is asked of a run.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use super::bystander::{Bystander, Served};
use super::victim::Setup;
use super::{Scene, memory, waiting, web};
use crate::report::Verdict;

/// Resident memory that a node of default limits may have, in MiB: `memory`, `retained`, and 64 for the program.
const RESIDENT_MAX: f64 = 64.0 + 64.0 + 64.0;
/// More for each connection, in MiB.
const CONNECTION_MAX: f64 = 16.0 / 1024.0;
/// How long the status page may take, in milliseconds.
const HEALTH_MAX: f64 = 100.0;
/// Fewer answers than this have no p99: the longest is judged in its place.
const ANSWERS_MIN: usize = 50;

/// See the file's header.
pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) promise: &'static str,
    pub(super) setup: Setup,
    pub(super) bystander: Bystander,
    pub(super) act: fn(&Scene) -> io::Result<()>,
}

const MEMORY: &str = "memory is bounded";
const SERVED: &str = "nobody shuts others out";
const ACCEPTED: &str = "what was accepted is not lost";

const fn attack(
    name: &'static str,
    promise: &'static str,
    setup: Setup,
    bystander: Bystander,
    act: fn(&Scene) -> io::Result<()>,
) -> Attack {
    Attack { name, promise, setup, bystander, act }
}

const SMALL: Bystander = Bystander::Publish(64);

pub(super) const ATTACKS: &[Attack] = &[
    attack("subscribe-80k", MEMORY, Setup::Node, SMALL, memory::subscribe_80k),
    attack("subscribe-200k", MEMORY, Setup::Node, SMALL, memory::subscribe_200k),
    attack("retained-deep", MEMORY, Setup::Node, SMALL, memory::retained_deep),
    attack("never-acknowledges", MEMORY, Setup::Node, SMALL, memory::never_acknowledges),
    attack("deep-filters", MEMORY, Setup::Node, SMALL, memory::deep_filters),
    attack("away-sessions", MEMORY, Setup::Node, SMALL, memory::away_sessions),
    attack("away-small", MEMORY, Setup::Node, SMALL, memory::away_small),
    attack("proxy-bodies", MEMORY, Setup::Proxy, Bystander::Request, memory::proxy_bodies),
    attack("proxy-heads", MEMORY, Setup::Proxy, Bystander::Request, web::proxy_heads),
    attack("group-frames", MEMORY, Setup::Group, SMALL, memory::group_frames),
    attack("wills", MEMORY, Setup::Node, SMALL, memory::wills),
    attack("partial-connects", MEMORY, Setup::Node, SMALL, waiting::partial_connects),
    attack("share-groups", SERVED, Setup::Node, SMALL, waiting::share_groups),
    attack("wrong-passwords", SERVED, Setup::Users, Bystander::UserLogin, waiting::wrong_passwords),
    attack("idle-tls", SERVED, Setup::Tls, Bystander::TlsLogin, waiting::idle_tls),
    attack("silent-mqtt", SERVED, Setup::Node, Bystander::Login, waiting::silent),
    attack("silent-proxy", SERVED, Setup::Proxy, Bystander::Request, waiting::silent),
    attack(
        "partial-publishes",
        SERVED,
        Setup::Node,
        Bystander::Publish(65_536),
        waiting::partial_publishes,
    ),
    attack("evict-session", SERVED, Setup::Node, SMALL, waiting::evict_session),
    attack("client-ids", SERVED, Setup::Down, SMALL, waiting::client_ids),
    attack("fill-log", SERVED, Setup::Log, SMALL, waiting::fill_log),
    attack("healthz-unread", SERVED, Setup::Node, SMALL, web::healthz_unread),
    attack("healthz-partial", SERVED, Setup::Node, SMALL, web::healthz_partial),
    attack("kept", SERVED, Setup::Proxy, Bystander::Request, web::kept),
    attack("take-over", ACCEPTED, Setup::Node, SMALL, waiting::take_over),
];

/// What came of one.
pub(super) struct Row {
    pub(super) lives: bool,
    pub(super) peak: f64,
    pub(super) connections: u64,
    pub(super) quiet: Served,
    pub(super) attacked: Served,
    pub(super) health: Vec<f64>,
    pub(super) lasted: Duration,
    pub(super) lost: f64,
    pub(super) accepted: f64,
    pub(super) refused: BTreeMap<String, u64>,
    pub(super) balances: Vec<(&'static str, u64, u64)>,
    pub(super) ended: Option<String>,
}

pub(super) fn head() -> String {
    format!(
        "{:<20}{:>14}{:>16}{:>18}{:>7}{:>12}{:>7}{:>7}{:>10}{:>6}",
        "attack",
        "MiB / limit",
        "p50 / p99 ms",
        "under attack",
        "shut",
        "/healthz ms",
        "s",
        "lives",
        "accepted",
        "lost"
    )
}

impl Row {
    /// Adds its line, what was refused, and what was missed.
    pub(super) fn tell(&self, attack: &Attack, is_timed: bool, verdict: &mut Verdict) {
        let limit = RESIDENT_MAX + self.connections as f64 * CONNECTION_MAX;
        let health = self.health.iter().copied().fold(0.0, f64::max);
        let pair =
            |served: &Served| format!("{:.1} / {:.1}", served.quantile(0.5), served.quantile(0.99));
        verdict.say(format!(
            "{:<20}{:>14}{:>16}{:>18}{:>7}{health:>12.1}{:>7.1}{:>7}{:>10.0}{:>6.0}",
            attack.name,
            format!("{:.0} / {limit:.0}", self.peak),
            pair(&self.quiet),
            pair(&self.attacked),
            self.attacked.failed,
            self.lasted.as_secs_f64(),
            if self.lives { "yes" } else { "NO" },
            self.accepted,
            self.lost + self.attacked.lost as f64,
        ));
        let refused: Vec<_> =
            self.refused.iter().map(|(word, count)| format!("{word} x {count}")).collect();
        if !refused.is_empty() {
            verdict.say(format!("  refused: {}", refused.join(", ")));
        }
        for (what, owed, there) in &self.balances {
            verdict.say(format!("  {what}: {there} of {owed}"));
        }
        self.judge(attack, is_timed, (limit, health), verdict);
    }

    fn judge(
        &self,
        attack: &Attack,
        is_timed: bool,
        (limit, health): (f64, f64),
        verdict: &mut Verdict,
    ) {
        let name = attack.name.replace('-', "_");
        let mut miss = |what: String| verdict.breaks(format!("{}: {what}", attack.name));
        if !self.lives {
            miss("the process has ended".into());
        }
        if let Some(why) = &self.ended {
            miss(format!("the attack could not go on: {why}"));
        }
        let most = attack.bystander.limit();
        let part = if self.attacked.took.len() < ANSWERS_MIN { 1.0 } else { 0.99 };
        let worst = self.attacked.quantile(part);
        if self.peak > limit {
            miss(format!("{:.0} MiB resident, at most {limit:.0}", self.peak));
        }
        // NaN too: nobody was served.
        if worst.is_nan() || is_timed && worst > most {
            miss(format!("a client waited {worst:.1} ms, at most {most}"));
        }
        if self.attacked.failed > 0 {
            let why = self.attacked.why.as_deref().unwrap_or_default();
            miss(format!("a client was shut out {} times: {why}", self.attacked.failed));
        }
        if health.is_infinite() || is_timed && health > HEALTH_MAX {
            miss(format!("/healthz took {health:.1} ms, at most {HEALTH_MAX}"));
        }
        if self.lost.is_nan() || self.lost != 0.0 || self.attacked.lost > 0 {
            miss(format!("lost: {} of the node, {} published", self.lost, self.attacked.lost));
        }
        for (what, owed, there) in &self.balances {
            if owed != there {
                miss(format!("{what}: {there} of {owed}"));
            }
        }
        verdict.figure(&format!("{name}_ended"), (!self.lives).into(), "processes");
        verdict.figure(&format!("{name}_resident"), self.peak, "MiB");
        verdict.figure(&format!("{name}_served"), worst, "ms");
        let ratio = worst / self.quiet.quantile(part);
        verdict.figure(&format!("{name}_ratio"), ratio, "of_quiet");
        verdict.figure(&format!("{name}_health"), health, "ms");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        let served = Served { took: vec![1.0; 100], ..Served::default() };
        Row {
            lives: true,
            peak: 100.0,
            connections: 16,
            quiet: served.clone(),
            attacked: served,
            health: vec![2.0],
            lasted: Duration::from_secs(1),
            lost: 0.0,
            accepted: 100.0,
            refused: BTreeMap::from([("SUBACK 0x97".to_owned(), 2)]),
            balances: vec![("wills", 1, 1)],
            ended: None,
        }
    }

    fn missed(row: &Row, is_timed: bool) -> usize {
        let mut verdict = Verdict::new("h");
        row.tell(&ATTACKS[0], is_timed, &mut verdict);
        verdict.parts().1.len()
    }

    #[test]
    fn every_promise_is_judged() {
        assert_eq!(missed(&row(), true), 0);
        let broken: [fn(&mut Row); 9] = [
            |row| row.lives = false,
            |row| row.peak = 193.0,
            |row| row.attacked.took = vec![60.0; 100],
            |row| row.attacked.took = Vec::new(),
            |row| row.attacked.failed = 1,
            |row| row.attacked.lost = 1,
            |row| row.health.push(f64::INFINITY),
            |row| row.lost = f64::NAN,
            |row| row.balances.push(("publishes", 3, 2)),
        ];
        for (number, breaks) in broken.iter().enumerate() {
            let mut row = row();
            breaks(&mut row);
            assert_eq!(missed(&row, true), 1, "{number}");
            // Only the third one is about a time.
            assert_eq!(missed(&row, false), usize::from(number != 2), "{number}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ATTACKS.iter().map(|attack| attack.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ATTACKS.len());
    }
}
