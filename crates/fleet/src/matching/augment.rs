//! Serves every class as well as can be, the most urgent first, with few redirections.
//! Source: own; the volumes are those of the optimum of papers/janus.txt, §IV-B.2, Eq. 15-21.
//! Inputs: wanted bytes/s[node][class], spare bytes/s[node], candidate peers, what is held. Outputs:
//! redirections in bytes/s. O(r c) where direct ways do, O(ways) for each augmenting path beyond.
//! Deviations: what is held stays where it fits, and moves only where somebody else gains by it
//! (docs/algorithms-fleet.md#augment).
//! Limits: NODES_MAX, CANDIDATES_MAX, CLASSES_MAX.
//!
//! What can be served together is a polymatroid: serving class after class, each request by paths that
//! take nothing from a request served before, ends at the largest volume of every class and of all.
//!
//! A request first takes the smallest provider that can serve all of it, else the largest. What it still
//! lacks it gets by pushing others from its providers to theirs.

use std::cmp::Reverse;

use super::Matching;
use super::graph::{AugmentingPath, Graph, NONE};
use crate::{Amount, MatchingProblem, Redirection};

/// How the fleet asks for it.
pub(crate) const ENTRY: Matching = |problem, _| augment(problem);

fn augment(problem: &MatchingProblem<'_>) -> Vec<Redirection> {
    let mut state = Augment::new(problem);
    for class in 0..problem.classes() {
        state.keep_held(class);
        let mut receivers: Vec<usize> =
            (0..problem.nodes()).filter(|&node| !state.wanted(node, class).is_zero()).collect();
        receivers.sort_unstable_by_key(|&node| (Reverse(state.wanted(node, class)), node));
        // What less urgent classes hold is touched only where there is no other way.
        let rounds: &[bool] = if problem.held().is_empty() { &[true] } else { &[false, true] };
        for &touch_held in rounds {
            state.round += 1;
            for &receiver in &receivers {
                state.serve(receiver, class, touch_held);
            }
        }
    }
    state.redirections()
}

struct Augment<'p> {
    problem: &'p MatchingProblem<'p>,
    graph: Graph<'p>,
    /// What each request still wants.
    wanted: Vec<Amount>,
    /// What each provider has left.
    free: Vec<Amount>,
    /// What of that less urgent classes hold, and are to keep if they can.
    held: Vec<Amount>,
    /// What goes by each way, by class; and all of it.
    by_class: Vec<Amount>,
    carried: Vec<Amount>,
    /// The round in which nothing was left to be found from a receiver, `FOR_GOOD` if that stays so:
    /// nothing leads out of what such a search has reached.
    dead: Vec<u32>,
    round: u32,
    /// The number of the search that saw each node last, and the way by which it came.
    seen: Vec<u32>,
    came_by: Vec<u32>,
    search: u32,
    queue: Vec<u32>,
    path: AugmentingPath,
}

/// No round has this number.
const FOR_GOOD: u32 = u32::MAX;

impl<'p> Augment<'p> {
    fn new(problem: &'p MatchingProblem<'p>) -> Self {
        let (nodes, ways) = (problem.nodes(), problem.candidates().ways());
        let mut held = vec![Amount::ZERO; nodes];
        for redirection in problem.held() {
            held[redirection.provider as usize] += redirection.amount;
        }
        Augment {
            problem,
            graph: Graph::new(problem),
            wanted: problem.wanted().to_vec(),
            free: problem.spare().to_vec(),
            held,
            by_class: vec![Amount::ZERO; ways * problem.classes()],
            carried: vec![Amount::ZERO; ways],
            dead: vec![0; nodes],
            round: 0,
            seen: vec![0; nodes],
            came_by: vec![NONE; nodes],
            search: 0,
            queue: Vec::new(),
            path: AugmentingPath::default(),
        }
    }

    fn wanted(&self, receiver: usize, class: usize) -> Amount {
        self.wanted[receiver * self.problem.classes() + class]
    }

    fn left(&self, provider: usize, touch_held: bool) -> Amount {
        let kept = if touch_held { Amount::ZERO } else { self.held[provider] };
        self.free[provider].saturating_sub(kept)
    }

    /// What a class holds stays, as far as it is still wanted and still there.
    fn keep_held(&mut self, class: usize) {
        let of_class = |held: &&Redirection| usize::from(held.class) == class;
        for held in self.problem.held().iter().filter(of_class) {
            let (receiver, provider) = (held.receiver as usize, held.provider as usize);
            self.held[provider] -= held.amount;
            let way = self.problem.candidates().way(receiver, provider);
            if let Some(way) = way.filter(|&way| self.graph.is_open(way)) {
                let room = self.wanted(receiver, class).min(self.free[provider]);
                self.give(way, class, held.amount.min(room));
            }
        }
    }

    /// Gives a receiver what its providers have, then what they have when others move.
    fn serve(&mut self, receiver: usize, class: usize, touch_held: bool) {
        while let Some((way, left)) = self.direct(receiver, class, touch_held) {
            self.give(way, class, left.min(self.wanted(receiver, class)));
        }
        while !self.wanted(receiver, class).is_zero() {
            let Some(provider) = self.find(receiver, touch_held) else { return };
            self.path.trace(receiver, provider, &self.came_by, &self.graph);
            let room = self.left(provider, touch_held).min(self.wanted(receiver, class));
            self.push(receiver, class, self.path.bottleneck(&self.carried).min(room));
        }
    }

    /// The provider to take from: the smallest that has enough, else the largest; and what it has.
    fn direct(&self, receiver: usize, class: usize, touch_held: bool) -> Option<(usize, Amount)> {
        let wanted = self.wanted(receiver, class);
        if wanted.is_zero() {
            return None;
        }
        let ways = self.graph.outgoing(receiver);
        let ways = ways.map(|way| (way, self.left(self.graph.provider(way), touch_held)));
        ways.filter(|(_, left)| !left.is_zero()).min_by_key(|&(_, left)| {
            let is_short = left < wanted;
            (is_short, if is_short { u64::MAX - left.0 } else { left.0 })
        })
    }

    fn give(&mut self, way: usize, class: usize, amount: Amount) {
        let classes = self.problem.classes();
        self.by_class[way * classes + class] += amount;
        self.carried[way] += amount;
        self.free[self.graph.provider(way)] -= amount;
        self.wanted[self.graph.receiver(way) * classes + class] -= amount;
    }

    /// A provider with something left that the receiver reaches by pushing others aside: breadth first, so
    /// that as few as possible are pushed.
    fn find(&mut self, receiver: usize, touch_held: bool) -> Option<usize> {
        if self.is_dead(receiver) {
            return None;
        }
        self.search += 1;
        self.queue.clear();
        self.queue.push(receiver as u32);
        self.seen[receiver] = self.search;
        let mut next = 0;
        while let Some(&at) = self.queue.get(next) {
            next += 1;
            for way in self.problem.candidates().of(at as usize) {
                let provider = self.graph.provider(way);
                if !self.graph.is_open(way) || self.seen[provider] == self.search {
                    continue;
                }
                self.seen[provider] = self.search;
                self.came_by[provider] = way as u32;
                if !self.left(provider, touch_held).is_zero() {
                    return Some(provider);
                }
                for &back in self.graph.incoming(provider) {
                    let other = self.graph.receiver(back as usize);
                    let is_new = self.seen[other] != self.search && !self.is_dead(other);
                    if is_new && !self.carried[back as usize].is_zero() {
                        self.seen[other] = self.search;
                        self.came_by[other] = back;
                        self.queue.push(other as u32);
                    }
                }
            }
        }
        let since = if touch_held { FOR_GOOD } else { self.round };
        self.queue.iter().for_each(|&node| self.dead[node as usize] = since);
        None
    }

    fn is_dead(&self, receiver: usize) -> bool {
        self.dead[receiver] == self.round || self.dead[receiver] == FOR_GOOD
    }

    /// Moves so much along the path: at each step a receiver leaves one provider for the next.
    fn push(&mut self, receiver: usize, class: usize, amount: Amount) {
        let classes = self.problem.classes();
        for place in 0..self.path.steps().len() {
            let (more, less) = self.path.steps()[place];
            if place == 0 {
                self.free[self.graph.provider(more)] -= amount;
            }
            self.carried[more] += amount;
            let Some(less) = less else {
                self.by_class[more * classes + class] += amount;
                continue;
            };
            self.carried[less] -= amount;
            // The least urgent records have the least to lose by another provider.
            let mut left = amount;
            for class in (0..classes).rev() {
                let moved = left.min(self.by_class[less * classes + class]);
                self.by_class[less * classes + class] -= moved;
                self.by_class[more * classes + class] += moved;
                left -= moved;
            }
        }
        self.wanted[receiver * classes + class] -= amount;
    }

    fn redirections(&self) -> Vec<Redirection> {
        let classes = self.problem.classes();
        let mut redirections = Vec::new();
        for way in (0..self.carried.len()).filter(|&way| !self.carried[way].is_zero()) {
            for class in 0..classes {
                let amount = self.by_class[way * classes + class];
                if !amount.is_zero() {
                    let (receiver, provider) = (self.graph.receiver(way), self.graph.provider(way));
                    redirections.push(Redirection {
                        receiver: receiver as u32,
                        class: class as u8,
                        provider: provider as u32,
                        amount,
                    });
                }
            }
        }
        redirections
    }
}
