//! Who leads in a world, and what leaders hear and decide.

use super::*;

impl<N: Member> World<N> {
    /// The store's lease: who holds it leads, under a revision of its own.
    pub(super) fn elect(&mut self) {
        let is_store_up = self.is_up(Party::Store);
        for place in 0..ORCHESTRATORS {
            let party = Party::Orchestrator(place);
            let is_due = (self.tick + place as u64 * 7).is_multiple_of(self.plan.ticks(ELECTION));
            let is_able = self.is_up(party) && !self.plan.is_stalled(party, self.tick);
            let is_open = is_store_up && self.is_open(party, Party::Store);
            if !is_due || !is_able || !is_open {
                continue;
            }
            let now = self.now(party);
            let leads = self.leaders[place].orchestrator.revision();
            let is_free = self.store.leader.is_none() || self.store.until <= self.tick;
            let is_own = self.store.leader == Some(place) && !is_free;
            if is_own && leads == Some(self.store.revision) {
                self.store.until = self.tick + self.plan.ticks(LEADER_LEASE);
                self.leaders[place].believes = self.store.until;
            } else if is_free {
                self.store.revision += 1;
                self.store.leader = Some(place);
                self.store.until = self.tick + self.plan.ticks(LEADER_LEASE);
                self.leaders[place].believes = self.store.until;
                self.checks.elections += 1;
                let elected = OrchestratorInput::Elected { revision: self.store.revision };
                self.leaders[place].orchestrator.handle(now, elected);
            } else if leads.is_some() {
                self.leaders[place].orchestrator.handle(now, OrchestratorInput::Deposed);
            }
        }
    }

    /// Leaders hear and decide. One that stood still goes on with what waits, as if no time had passed,
    /// and only then sees that it leads no more.
    pub(super) fn lead(&mut self) {
        for place in 0..ORCHESTRATORS {
            let party = Party::Orchestrator(place);
            if self.plan.is_stalled(party, self.tick) || !self.is_up(party) {
                self.leaders[place].was_stalled = true;
                continue;
            }
            let now = self.now(party);
            let leader = &mut self.leaders[place];
            if leader.orchestrator.revision().is_some()
                && leader.believes <= self.tick
                && !leader.was_stalled
            {
                leader.orchestrator.handle(now, OrchestratorInput::Deposed);
            }
            leader.was_stalled = false;
            for beat in std::mem::take(&mut leader.waiting) {
                leader.orchestrator.handle(now, OrchestratorInput::Beat(beat));
            }
            leader.orchestrator.handle(now, OrchestratorInput::Timeout);
            let mut directives = Vec::new();
            while let Some(OrchestratorOutput::Directive(directive)) = leader.orchestrator.poll() {
                directives.push(directive);
            }
            for directive in directives {
                let to = Party::Node(directive.node.0 as usize);
                if self.is_open(party, to) {
                    self.post_loosely(Mail::Directive(directive));
                }
            }
        }
    }
}
