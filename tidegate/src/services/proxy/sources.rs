//! Sources of the node: one for each client and route, whose queues are apart.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tidegate_node::io::Control;
use tidegate_node::rules::RuleId;
use tidegate_types::record::SourceId;

/// Clients that have queues of their own; all others share one.
const SOURCES_MAX: usize = 4096;

/// Who a message is from, and where it goes where that is no upstream of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) client: IpAddr,
    pub(super) original: Option<SocketAddr>,
}

impl Name {
    /// Of everybody for whom there is no room.
    const OTHERS: Name = Name { client: IpAddr::V4(Ipv4Addr::UNSPECIFIED), original: None };
}

/// The sources that there are.
#[derive(Debug, Default)]
pub(super) struct Sources {
    by_name: BTreeMap<(RuleId, Name), SourceId>,
    /// What was looked for last: most clients come again at once.
    last: Option<((RuleId, Name), SourceId)>,
    next: u32,
    /// Numbers of sources that are gone.
    free: Vec<SourceId>,
}

impl Sources {
    /// The source of a name under a rule; `tell` is what the node must hear of a new one.
    pub(super) fn find(
        &mut self,
        name: Name,
        rule: RuleId,
        mut tell: impl FnMut(Control),
    ) -> SourceId {
        if let Some((last, source)) = self.last
            && last == (rule, name)
        {
            return source;
        }
        let is_full =
            self.by_name.len() >= SOURCES_MAX && !self.by_name.contains_key(&(rule, name));
        let name = if is_full { Name::OTHERS } else { name };
        let (next, free) = (&mut self.next, &mut self.free);
        let source = *self.by_name.entry((rule, name)).or_insert_with(|| {
            let source = free.pop().unwrap_or_else(|| {
                *next += 1;
                SourceId(*next - 1)
            });
            let text = match name.original {
                None => name.client.to_string(),
                Some(original) => format!("{} > {original}", name.client),
            };
            tell(Control::Open { source, name: text.into(), relays: None });
            tell(Control::Bind { source, rule });
            source
        });
        self.last = Some(((rule, name), source));
        source
    }

    /// Only those of these rules stay: nothing of the others waits. `close` is told of each that goes.
    pub(super) fn keep(&mut self, rules: &BTreeSet<RuleId>, close: impl FnMut(SourceId)) {
        let gone = self.by_name.extract_if(.., |(rule, _), _| !rules.contains(rule));
        let gone: Vec<SourceId> = gone.map(|(_, source)| source).collect();
        self.last = None;
        self.free.extend(&gone);
        gone.into_iter().for_each(close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_queues_of_their_own_up_to_a_bound() {
        let (mut sources, mut told) = (Sources::default(), 0);
        let mut find = |number: u32| {
            let name = Name { client: Ipv4Addr::from(number + 1).into(), original: None };
            sources.find(name, RuleId(0), |_| told += 1)
        };
        let first = find(0);
        assert_eq!((find(0), find(1) == first), (first, false));
        (2..SOURCES_MAX as u32).for_each(|number| _ = find(number));
        assert_eq!(find(1 << 20), find(1 << 21), "they share one");
        assert_eq!(find(0), first);
        assert_eq!(told, 2 * (SOURCES_MAX + 1));
    }

    #[test]
    fn those_of_rules_that_are_gone_leave_their_numbers() {
        let (mut sources, mut closed) = (Sources::default(), Vec::new());
        let name = Name { client: Ipv4Addr::LOCALHOST.into(), original: None };
        let [one, two] = [0, 1].map(|rule| sources.find(name, RuleId(rule), |_| ()));
        sources.keep(&BTreeSet::from([RuleId(1)]), |source| closed.push(source));
        assert_eq!(closed, [one]);
        assert_eq!(sources.find(name, RuleId(1), |_| ()), two);
        assert_eq!(sources.find(name, RuleId(2), |_| ()), one);
    }
}
