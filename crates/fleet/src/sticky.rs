//! Lets any matching keep what is granted: it is asked for the difference only.
//!
//! `augment` does this by itself, and better: it may move a grant where somebody else gains. Beside the
//! others what is held stays, the most urgent first; an urgent request that still lacks something then
//! takes the place of less urgent ones at the providers that it reaches.

use super::{Amount, MatchingName, MatchingProblem, Redirection};

/// What a matching answers, with what is held kept where it fits.
pub(super) fn solve(
    matching: MatchingName,
    problem: &MatchingProblem<'_>,
    seed: u64,
) -> Vec<Redirection> {
    if matching == MatchingName::Augment || problem.held().is_empty() {
        return matching.solve(problem, seed);
    }
    let mut wanted = problem.wanted().to_vec();
    let mut spare = problem.spare().to_vec();
    let mut kept: Vec<Redirection> = problem.held().to_vec();
    kept.sort_by_key(|held| held.class);
    for held in &mut kept {
        let (request, provider) = (problem.request_of(held), held.provider as usize);
        let is_near = problem.candidates().way(held.receiver as usize, provider).is_some();
        let room = if is_near { wanted[request].min(spare[provider]) } else { Amount::ZERO };
        held.amount = held.amount.min(room);
        wanted[request] -= held.amount;
        spare[provider] -= held.amount;
    }
    // A node that lacks nothing more is still no provider.
    let rest = MatchingProblem::new(problem.candidates(), wanted.clone(), spare);
    let rest = rest.asked((0..wanted.len()).map(|request| problem.asked_at(request)).collect());
    let more = matching.solve(&rest, seed);
    for redirection in &more {
        wanted[problem.request_of(redirection)] -= redirection.amount;
    }
    kept.extend(more);
    displace(problem, &mut kept, &mut wanted);
    merge(kept)
}

/// Requests that lack something take it from less urgent ones, the least urgent first.
fn displace(problem: &MatchingProblem<'_>, kept: &mut Vec<Redirection>, wanted: &mut [Amount]) {
    let mut lacking: Vec<usize> =
        (0..wanted.len()).filter(|&request| !wanted[request].is_zero()).collect();
    lacking.sort_unstable_by_key(|&request| (problem.class_of(request), request));
    let mut at: Vec<Vec<usize>> = vec![Vec::new(); problem.nodes()];
    for (place, held) in kept.iter().enumerate() {
        at[held.provider as usize].push(place);
    }
    for request in lacking {
        let class = problem.class_of(request) as u8;
        let receiver = problem.node_of(request) as u32;
        for peer in problem.candidates().peers(receiver as usize) {
            let places = &mut at[peer.place as usize];
            places.sort_unstable_by_key(|&place| std::cmp::Reverse(kept[place].class));
            for &place in &places.clone() {
                let amount = kept[place].amount.min(wanted[request]);
                if kept[place].class > class && !amount.is_zero() {
                    kept[place].amount -= amount;
                    wanted[request] -= amount;
                    places.push(kept.len());
                    kept.push(Redirection { receiver, class, provider: peer.place, amount });
                }
            }
        }
    }
}

/// One redirection for each triple, none of nothing.
fn merge(mut redirections: Vec<Redirection>) -> Vec<Redirection> {
    let key = |one: &Redirection| (one.receiver, one.class, one.provider);
    redirections.sort_unstable_by_key(key);
    let mut merged: Vec<Redirection> = Vec::with_capacity(redirections.len());
    for redirection in redirections.into_iter().filter(|one| !one.amount.is_zero()) {
        match merged.last_mut().filter(|last| key(last) == key(&redirection)) {
            Some(last) => last.amount += redirection.amount,
            None => merged.push(redirection),
        }
    }
    merged
}
