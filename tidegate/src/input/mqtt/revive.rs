//! Sessions of an earlier process: they are there again before any client comes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_broker::Kept;
use tidegate_broker::journal::{Note, WillNote};
use tidegate_log::{SessionOwner, SessionState};
use tidegate_types::account::Level;
use tidegate_types::record::{Offered, SourceId};
use tidegate_types::units::Time;
use tokio::sync::watch;
use tokio::time::Instant;

use super::afterlife::{Afterlife, Parting};
use super::clients::{Caller, Clients, Line};
use super::session::Memory;
use super::terms::Ending;
use crate::node::broker::{Hub, Payer};
use crate::node::contract::Intake;
use crate::node::journal::Journal;
use crate::support::access::Quota;

/// The listener of a session that came by none.
pub(super) const NO_DOOR: u64 = u64::MAX;
/// How much later than its last note a process may have ended.
const TICK: Duration = Duration::from_secs(60);

/// Puts sessions back: those that only the log knows (publishers that never subscribed), and those of the journal. What
/// is over goes; time counts while no process ran.
pub async fn revive(intake: &Intake, clients: &Arc<Clients>, logged: Vec<SessionState>) {
    let hub = intake.hub();
    let Some(journal) = hub.journal().cloned() else { return clients.restore(logged) };
    let mut packets: BTreeMap<Arc<str>, SessionState> =
        logged.into_iter().map(|state| (state.client.clone(), state)).collect();
    let kept: Vec<Kept> = journal.read(|ledger| ledger.sessions().cloned().collect());
    let (now, told) = {
        let pen = journal.pen();
        (pen.wall(), pen.ledger().wall())
    };
    // Nobody knows when a process that was killed ended: not before its last note, and not long after.
    let gone = now.min(told.saturating_add(nanos(TICK)));
    let (stop, stopped) = watch::channel(false);
    let closed = intake.clone();
    tokio::spawn(async move {
        closed.closed().await;
        let _ = stop.send(true);
    });
    for kept in kept {
        let mut note = kept.note.clone();
        let of_log = packets.remove(&note.client);
        if note.ends == 0 {
            note.ends = gone.saturating_add(nanos(Duration::from_secs(note.expiry.into()))).max(1);
            if let Some(will) = &mut note.will {
                will.due = gone.saturating_add(will.delay).max(1);
            }
        }
        let will = note.will.take();
        if note.ends <= now && will.is_none() {
            journal.write_soon(&Note::Over(note.session));
            continue;
        }
        let mut memory = Memory::restored(of_log.into_iter().flat_map(|state| state.packets));
        memory.published(kept.packets.iter().copied());
        memory.subscriber = Some(hub.restore(&kept, &payer(hub, &note.client, &note.payer)));
        let lasting = Duration::from_nanos(note.ends.saturating_sub(now));
        let owner = SessionOwner::new(note.user.as_deref());
        let caller =
            Caller { owner, payer: note.payer.clone(), quota: Quota::default(), door: NO_DOOR };
        let client = note.client.clone();
        note.will.clone_from(&will);
        journal.write_soon(&Note::Session(Box::new(note)));
        let Some(will) = will else {
            clients.restore_kept(client, caller, memory, lasting);
            continue;
        };
        let Ok((registration, _)) = clients.register(&client, caller, false, usize::MAX) else {
            continue;
        };
        let Ok(source) = intake.open(client).await else { return };
        let after = |at: u64| Instant::now() + Duration::from_nanos(at.saturating_sub(now));
        let afterlife = Afterlife {
            registration,
            memory,
            line: Some(Line { source, paused: false }),
            will: Some((parting(&will), after(will.due))),
            until: Instant::now() + lasting,
            ending: Ending::Node(stopped.clone()),
            permit: None,
        };
        tokio::spawn(await_loaded(journal.clone(), afterlife));
    }
    clients.restore(packets.into_values());
}

/// A will is published when who waits for it is known.
async fn await_loaded(journal: Arc<Journal>, afterlife: Afterlife) {
    journal.loaded().await;
    afterlife.run().await;
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Whose account a session is on again.
fn payer(hub: &Hub, client: &Arc<str>, payer: &str) -> Payer {
    Payer {
        client: client.clone(),
        account: hub.account().fair_named(Level::User, payer),
        subscriptions: hub.subscriptions_of(payer, None),
    }
}

fn parting(will: &WillNote) -> Parting {
    let message = &will.message;
    let record = Offered {
        source: SourceId(0),
        token: None,
        key: message.topic.clone(),
        properties: message.properties.clone(),
        payload: message.payload.clone(),
        read_at: Time::ZERO,
        source_unix_ns: message.source_unix_ns,
        ttl: will.ttl.map(Duration::from_nanos),
        foreign: None,
        packet: None,
    };
    Parting { record, qos: message.qos }
}
