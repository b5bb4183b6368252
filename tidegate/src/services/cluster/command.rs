//! Commands to a group: dials a member, and another one where that knows better.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tidegate_cluster::handover::loads::MemberLoads;
use tidegate_cluster::handover::wire::MemberFrame;
use tokio::time::timeout;

use super::dial::{Peer, connect};
use crate::support::tls;

/// How long an order may take: ending what is worked on, and handing over.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same for an owner that may take long.
const PATIENCE_MAX: Duration = Duration::from_secs(40);
/// Members that are asked, at most: ownership may change meanwhile.
const ASKED_MAX: usize = 4;

/// How a group is asked.
#[derive(Clone, Debug)]
pub struct Access {
    /// All members, and where they listen.
    pub(crate) members: Vec<Peer>,
    /// What we show, and whose proof we believe.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

impl Access {
    /// The names of all members.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.members.iter().map(|peer| peer.name.as_str().into()).collect()
    }

    /// Says something to a member, and hears its answer.
    async fn ask(&self, member: &str, what: &MemberFrame) -> io::Result<MemberFrame> {
        let peer = self.members.iter().find(|peer| peer.name == member);
        let peer = peer.ok_or_else(|| io::Error::other("it is no member of the group"))?;
        let mut talk = connect(peer, self.tls.clone()).await?;
        // It may have many loads to tell of.
        talk.trust(usize::MAX);
        talk.say(&MemberFrame::Hello { node: "".into(), incarnation: 0, digest: 0 }).await?;
        talk.say(what).await?;
        let is_patient = matches!(what, MemberFrame::Order { patient: true, .. });
        let patience = if is_patient { PATIENCE_MAX } else { PATIENCE };
        timeout(patience, talk.hear()).await.map_err(|_| io::ErrorKind::TimedOut)?
    }
}

/// What is ordered.
#[derive(Clone, Debug)]
pub struct Order {
    /// The unit.
    pub unit: Arc<str>,
    /// Who owns it; if that is wrong by now, it stays. `None` is whoever does.
    pub from: Option<Arc<str>>,
    /// Where it is to go.
    pub to: Arc<str>,
    /// Whether its owner is gone for good.
    pub seize: bool,
    /// Whether its owner may take long to end what it has: it is late already.
    pub patient: bool,
}

/// What a member tells of its loads.
///
/// # Errors
/// It cannot be reached, or does not know the question.
pub async fn tell(access: &Access, member: &str) -> anyhow::Result<MemberLoads> {
    loads(access.ask(member, &MemberFrame::Tell).await, member)
}

/// A member is to own nothing from now on, or again what it is given; returns its loads.
///
/// # Errors
/// It cannot be reached, does not know the command, or cannot remember it.
pub async fn drain(access: &Access, member: &str, is_over: bool) -> anyhow::Result<MemberLoads> {
    loads(access.ask(member, &MemberFrame::Drain { is_over }).await, member)
}

fn loads(answer: io::Result<MemberFrame>, member: &str) -> anyhow::Result<MemberLoads> {
    match answer {
        Ok(MemberFrame::Loads(loads)) if &*loads.node == member => Ok(*loads),
        Ok(MemberFrame::Loads(loads)) => {
            anyhow::bail!(
                "{member}: {} answers at its address: correct [group] members",
                loads.node
            )
        }
        Ok(MemberFrame::Done(Err(why)) | MemberFrame::Refused(why)) => {
            anyhow::bail!("{member}: {why}")
        }
        Ok(_) => anyhow::bail!("{member} is no member of a group"),
        // What it does not understand ends the connection.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            anyhow::bail!("{member} does not know the question: it is older, update it")
        }
        Err(error) => {
            anyhow::bail!("{member}: {}", tls::explain(&error).unwrap_or_else(|| error.to_string()))
        }
    }
}

/// Moves a unit; returns whether it was elsewhere.
///
/// # Errors
/// No member can be reached, or what it says is wrong.
pub async fn order(access: &Access, order: &Order) -> anyhow::Result<bool> {
    if !order.seize && tell(access, &order.to).await.is_ok_and(|loads| loads.is_draining) {
        let to = &order.to;
        anyhow::bail!("{to} drains: let it own again by `tidegate drain {to} --undo`");
    }
    // Who is to seize a unit must do it itself; else any member knows the owner.
    let mut ask: String = match order.seize {
        true => order.to.to_string(),
        false => access.members.first().map(|peer| peer.name.clone()).unwrap_or_default(),
    };
    if let Some(from) = order.from.as_ref().filter(|_| !order.seize) {
        ask = from.to_string();
    }
    let Order { unit, to, seize, patient, .. } = order.clone();
    let what = MemberFrame::Order { unit, to, seize, patient };
    let mut tried = Vec::new();
    for _ in 0..ASKED_MAX {
        match access.ask(&ask, &what).await {
            Ok(MemberFrame::Done(Ok(moved))) => return Ok(moved),
            Ok(MemberFrame::Done(Err(why))) => anyhow::bail!("{ask}: {why}"),
            Ok(MemberFrame::Ask(other)) if order.from.is_some() && !order.seize => {
                anyhow::bail!("it is at {other} by now: somebody else has moved it")
            }
            Ok(MemberFrame::Ask(other)) => ask = other.to_string(),
            Ok(MemberFrame::Refused(why)) => anyhow::bail!("{ask} refuses: {why}"),
            Ok(_) => anyhow::bail!("{ask} is no member of a group"),
            // It may be one that does not run; another one knows as much.
            Err(error) => {
                tried.push(ask.clone());
                let next = access.members.iter().find(|peer| !tried.contains(&peer.name));
                match next.filter(|_| !order.seize && order.from.is_none()) {
                    Some(next) => ask = next.name.clone(),
                    None => anyhow::bail!("{ask}: {error}"),
                }
            }
        }
    }
    anyhow::bail!("the members do not agree on who owns {:?}: try again", order.unit)
}
