//! Links between the nodes of a world, and their ways to a leader.

use super::*;

impl<N: Member> World<N> {
    /// Links live, break, are noticed to be broken, and are made anew.
    pub(super) fn connect(&mut self) {
        let mut changed = vec![false; self.nodes.len()];
        for pair in self.links.keys().copied().collect::<Vec<_>>() {
            let ends = [pair.0, pair.1];
            let stands = ends.map(|place| self.stands(place));
            let is_usable =
                stands == [false; 2] && self.is_open(Party::Node(pair.0), Party::Node(pair.1));
            let mut notices = [0, 1];
            for notice in &mut notices {
                let detection = self.random.between(self.plan.ticks(500), self.plan.ticks(2000));
                *notice = self.tick + detection + self.plan.ticks(N::PATIENCE);
            }
            let tick = self.tick;
            let link = self.links.get_mut(&pair).expect("it is one of them");
            if is_usable {
                link.broken = None;
            } else if link.broken.is_none() {
                (link.broken, link.notices) = (Some(tick), notices);
            }
            let mut lost = Vec::new();
            for (end, place) in ends.into_iter().enumerate() {
                let is_dead = self.alive[place].is_none();
                let has_noticed =
                    link.broken.is_some() && link.notices[end] <= tick && !stands[end];
                if link.is_open[end] && (is_dead || has_noticed) {
                    link.is_open[end] = false;
                    lost.push(place);
                }
            }
            let is_new = is_usable && link.is_open != [true, true];
            if is_new {
                // Whoever still held the old life to be alive hears now that it is over.
                let open = ends.into_iter().zip(link.is_open).filter(|(_, is_open)| *is_open);
                lost.extend(open.map(|(place, _)| place));
                link.is_open = [true, true];
            }
            if !lost.is_empty() || is_new {
                link.under_way = Default::default();
            }
            for place in &lost {
                let now = self.now(Party::Node(*place));
                let peer = if *place == pair.0 { pair.1 } else { pair.0 };
                if self.alive[*place].is_some() {
                    self.nodes[*place].lose(now, peer);
                }
            }
            if is_new {
                for (place, peer) in [pair, (pair.1, pair.0)] {
                    let now = self.now(Party::Node(place));
                    self.nodes[place].meet(now, peer);
                }
            }
            ends.into_iter().for_each(|place| changed[place] |= is_new || !lost.is_empty());
        }
        for place in (0..self.nodes.len()).filter(|&place| changed[place]) {
            let peers: Vec<usize> =
                (0..self.nodes.len()).filter(|&peer| self.is_linked(place, peer)).collect();
            let now = self.now(Party::Node(place));
            self.nodes[place].reach(now, &peers);
        }
        (0..self.nodes.len()).for_each(|place| self.follow(place));
    }

    pub(super) fn is_linked(&self, place: usize, peer: usize) -> bool {
        let link = self.links.get(&(place.min(peer), place.max(peer)));
        link.is_some_and(|link| link.is_open[usize::from(place > peer)])
    }

    /// A node finds a leader, and finds out that it has none.
    pub(super) fn follow(&mut self, place: usize) {
        if self.alive[place].is_none() || self.stands(place) {
            return;
        }
        let now = self.now(Party::Node(place));
        if let Some(leader) = self.follows[place] {
            let is_open = self.is_open(Party::Node(place), Party::Orchestrator(leader));
            let leads = self.leaders[leader].orchestrator.revision().is_some();
            self.mute[place] = if is_open { self.tick } else { self.mute[place] };
            let is_mute = self.tick - self.mute[place] >= self.plan.ticks(1000);
            if is_mute || is_open && !leads {
                self.follows[place] = None;
                self.mute[place] = self.alive[place].unwrap_or_default();
                self.nodes[place].agent_mut().handle(now, AgentInput::Leader(false));
            }
        } else if self.tick.is_multiple_of(self.plan.ticks(250)) {
            let one = self.random.between(0, ORCHESTRATORS as u64 - 1) as usize;
            let is_open = self.is_open(Party::Node(place), Party::Orchestrator(one));
            let is_stalled = self.plan.is_stalled(Party::Orchestrator(one), self.tick);
            let leads = self.leaders[one].orchestrator.revision().is_some();
            if is_open && leads && !is_stalled {
                self.follows[place] = Some(one);
                self.mute[place] = self.tick;
                self.nodes[place].agent_mut().handle(now, AgentInput::Leader(true));
            }
        }
    }
}
