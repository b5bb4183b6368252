//! Joins the election to etcd: what the candidate asks is asked in tasks of its own, so that nothing that
//! etcd is slow with delays the hub.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_fleet::{Election, ElectionInput, ElectionOptions, ElectionOutput, KeyHolder};
use tidegate_types::units::Time;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;
use tonic::Status;

use crate::fleet::attend::told;
use crate::fleet::etcd::{Claim, Etcd};
use crate::port::Clock;

/// Answers that wait for the hub: more questions are never under way.
const ANSWERS_MAX: usize = 64;
/// Added to etcd's revisions, which begin at 1: they come after those of a single orchestrator, which are
/// milliseconds since 1970, so that a fleet can go from one to several.
const REVISIONS: u64 = 1 << 48;

/// An orchestrator that may lead.
#[derive(Debug)]
pub(super) struct Candidate {
    election: Election,
    etcd: Etcd,
    /// Where nodes, people and other orchestrators find it.
    address: Arc<str>,
    /// The newest session, and its lease.
    session: u64,
    lease: Option<i64>,
    answer: mpsc::Sender<Answer>,
    answers: mpsc::Receiver<Answer>,
    /// Where the leader is, if it is another one.
    leader: watch::Sender<Option<Arc<str>>>,
    /// What etcd's silence was last said to be.
    complaint: Option<String>,
}

/// What came of a question.
#[derive(Debug)]
pub(super) enum Answer {
    Opened(u64, Result<(i64, Duration), Status>),
    Renewed(u64, u64, Result<Option<Duration>, Status>),
    Seen(u64, Result<Option<Claim>, Status>),
    /// None: time has come.
    Due,
}

/// What changes for the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Lead(u64),
    StepDown,
}

impl Candidate {
    pub(super) fn new(options: ElectionOptions, etcd: Etcd, address: Arc<str>) -> Self {
        let (answer, answers) = mpsc::channel(ANSWERS_MAX);
        let leader = watch::Sender::new(None);
        let election = Election::new(options);
        Candidate {
            election,
            etcd,
            address,
            session: 0,
            lease: None,
            answer,
            answers,
            leader,
            complaint: None,
        }
    }

    /// Where the leader is, as it changes.
    pub(super) fn leader(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.leader.subscribe()
    }

    /// Whether it leads.
    pub(super) fn leads(&self, now: Time) -> bool {
        self.election.leads(now).is_some()
    }

    /// The next answer, or that time has come.
    pub(super) async fn answer(&mut self, clock: &Clock) -> Answer {
        let due = self.election.next_timeout().and_then(|at| clock.instant(at));
        tokio::select! {
            Some(answer) = self.answers.recv() => answer,
            () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => Answer::Due,
        }
    }

    /// Takes an answer in, and asks what is to be asked. Returns what changes, in order.
    pub(super) fn take(&mut self, now: Time, answer: Answer) -> Vec<Turn> {
        let input = self.input(answer);
        self.election.handle(now, input);
        let mut turns = Vec::new();
        while let Some(output) = self.election.poll() {
            turns.extend(self.obey(output));
        }
        turns
    }

    /// Leaves the key to others; done when etcd knows, or does not answer.
    pub(super) async fn resign(mut self, now: Time) {
        self.election.handle(now, ElectionInput::Resign);
        if let Some(lease) = self.lease.take() {
            let _ = self.etcd.revoke(lease).await;
        }
    }

    fn input(&mut self, answer: Answer) -> ElectionInput {
        match answer {
            Answer::Opened(session, Ok((id, lease))) if session == self.session => {
                self.lease = Some(id);
                ElectionInput::Opened { session, lease }
            }
            // Of a session that is over: it ends by itself.
            Answer::Opened(_, Ok(_)) => ElectionInput::Timeout,
            Answer::Opened(session, Err(status)) => {
                self.complain(&status);
                ElectionInput::Lost { session }
            }
            Answer::Renewed(session, number, Ok(Some(lease))) => {
                ElectionInput::Renewed { session, number, lease }
            }
            Answer::Renewed(session, _, Ok(None)) => ElectionInput::Lost { session },
            Answer::Renewed(_, _, Err(status)) | Answer::Seen(_, Err(status)) => {
                self.complain(&status);
                ElectionInput::Timeout
            }
            Answer::Seen(number, Ok(claim)) => {
                if self.complaint.take().is_some() {
                    tracing::info!("etcd answers again");
                }
                let is_own = claim.as_ref().is_some_and(|claim| Some(claim.lease) == self.lease);
                let other =
                    claim.as_ref().filter(|_| !is_own).map(|claim| claim.value.as_str().into());
                self.leader.send_if_modified(|before| {
                    let has_changed = *before != other;
                    *before = other;
                    has_changed
                });
                let revision = |claim: Claim| REVISIONS.saturating_add(claim.revision);
                let holder = claim.map(|claim| KeyHolder { revision: revision(claim), is_own });
                ElectionInput::Seen { number, holder }
            }
            Answer::Due => ElectionInput::Timeout,
        }
    }

    fn complain(&mut self, status: &Status) {
        let text = told(status);
        if self.complaint.as_ref() != Some(&text) {
            tracing::warn!("etcd does not answer: {text}");
            self.complaint = Some(text);
        }
    }

    fn obey(&mut self, output: ElectionOutput) -> Option<Turn> {
        let etcd = self.etcd.clone();
        match output {
            ElectionOutput::Lead { revision } => return Some(Turn::Lead(revision)),
            ElectionOutput::StepDown => return Some(Turn::StepDown),
            ElectionOutput::Open { session } => {
                (self.session, self.lease) = (session, None);
                let wanted = ElectionOptions::default().lease;
                self.ask(async move { Answer::Opened(session, etcd.grant(wanted).await) });
            }
            ElectionOutput::Renew { session, number } => {
                let lease = self.lease?;
                self.ask(async move { Answer::Renewed(session, number, etcd.renew(lease).await) });
            }
            ElectionOutput::Look { number } => {
                self.ask(async move { Answer::Seen(number, etcd.look().await) });
            }
            ElectionOutput::Claim { number } => {
                let (lease, address) = (self.lease?, self.address.clone());
                self.ask(async move { Answer::Seen(number, etcd.claim(&address, lease).await) });
            }
            ElectionOutput::Close { .. } => {
                let lease = self.lease.take()?;
                // Best effort: a lease ends by itself.
                tokio::spawn(async move { etcd.revoke(lease).await });
            }
        }
        None
    }

    fn ask(&self, asking: impl Future<Output = Answer> + Send + 'static) {
        let answer = self.answer.clone();
        // It ends: each member of etcd has its time to answer.
        tokio::spawn(async move { answer.send(asking.await).await });
    }
}
