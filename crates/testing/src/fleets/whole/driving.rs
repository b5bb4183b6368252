//! What stands for the runtime: it offers, sends, answers and tells, and decides nothing.

use tidegate_capacity::pace::cut_size;

use super::*;

impl Whole {
    pub(super) fn options(&self) -> NodeOptions {
        options(self.place, self.nodes, self.told, self.lives)
    }

    /// What the node wants to send goes, as far as the uplink takes it.
    pub(super) fn pump(&mut self) {
        loop {
            self.note_picked();
            let Process { wire, budget, .. } = &mut self.process;
            let is_own = |path: PathId| path.output == OWN;
            let to_peer = wire.cuts.iter().find(|cut| !is_own(cut.path));
            let own = wire.cuts.iter().find(|cut| is_own(cut.path));
            let fits = |size: u64| size as f64 <= *budget;
            let own = own.filter(|cut| fits(cut.range.end - cut.range.start));
            let Some(cut) = to_peer.or(own).cloned() else { break };
            let (path, bytes) = (cut.path, cut.range.end - cut.range.start);
            wire.send_on(path);
            if is_own(path) {
                *budget -= bytes as f64;
                if !self.is_silent {
                    wire.acknowledge(path, ms(1));
                }
                self.note_behind(&cut);
            }
            if cut.is_last() {
                self.went(cut.id, path.output);
            }
        }
    }

    /// A cut left: what waits behind it, and what waits no more.
    fn note_behind(&mut self, cut: &Cut) {
        let Some(&((origin, seq, class), _)) = self.process.begun.get(&cut.id) else { return };
        self.waits_no_more((origin, seq));
        if class == 2 {
            self.process
                .behind
                .values_mut()
                .for_each(|bytes| *bytes += cut.range.end - cut.range.start);
        }
    }

    fn waits_no_more(&mut self, record: (usize, Seq)) {
        let Process { behind, wire, .. } = &mut self.process;
        // Records are not cut here: a cut's worth of them is a whole number.
        let cut = || cut_size(wire.node.uplinks()[0].capacity).0.next_multiple_of(RECORD as u64);
        self.behind.extend(behind.remove(&record).map(|bytes| (bytes, cut())));
    }

    /// What is in the records that the node picked since the last call.
    pub(super) fn note_picked(&mut self) {
        let Process { wire, begun, away, picked, .. } = &mut self.process;
        for cut in std::mem::take(&mut wire.history) {
            let Some(record) = wire.node.record(cut.id).filter(|_| cut.range.start == 0) else {
                continue;
            };
            let content @ (origin, seq, class) = content(&record.payload);
            begun.insert(cut.id, (content, cut.again));
            if origin != self.place {
                picked.insert((origin, seq));
                let again = cut.again;
                let sent = Sent { origin, seq, class, again, ticket: (cut.id.0, 0) };
                self.wishes.push_back(Wish::Pick(sent));
            } else if cut.path.output != OWN {
                // It may be on the silent uplink as well, or at another neighbour.
                let mut open = wire.unconfirmed.iter();
                let was_handed =
                    open.any(|(id, path)| *id == cut.id && path.output != cut.path.output);
                self.may_repeat += u64::from(was_handed);
                let peer = peer_by(self.place, cut.path.output);
                let is_there = away.insert((cut.id, peer), seq).is_some();
                assert!(!is_there, "nobody is given what it has");
            }
        }
        wire.appends.clear();
    }

    /// The last byte of a record left.
    pub(super) fn went(&mut self, id: DeliveryId, output: OutputId) {
        let Process { wire, begun, links, epoch, .. } = &mut self.process;
        let Some(&(content, again)) = begun.get(&id) else { return };
        let (origin, seq, class) = content;
        if output == OWN {
            let ticket = (id.0, *epoch);
            let sent = Sent { origin, seq, class, again, ticket };
            if self.is_silent {
                self.process.stuck.push(sent);
            } else {
                self.wishes.push_back(Wish::Send(sent));
            }
            return;
        }
        let Some(record) = wire.node.record(id) else { return };
        let left = self.says_left.then(|| record.deadline.since(wire.now));
        let item = Item { identity: record.identity.clone(), again, left, content };
        let class = wire.node.class_of(id).expect("its record is held");
        let peer = peer_by(self.place, output);
        let word = Word::Record(links[peer], id, class, item);
        self.wishes.push_back(Wish::Say(peer, word));
    }

    /// Records come.
    pub(super) fn arrive(&mut self, rates: [f64; 3]) {
        let mut offers = Vec::new();
        for (class, rate) in rates.into_iter().enumerate() {
            self.coming[class] += rate * self.tick as f64 / 1e3;
            while self.coming[class] >= 1.0 {
                self.coming[class] -= 1.0;
                let plain = offer(self.process.wire.now, LOAD.0, CLASSES[class], 0);
                let payload = payload((self.place, self.next, class)).into();
                let token = Some(Token(u64::from(self.next)));
                offers.push(Offered { payload, token, ..plain });
                self.next += 1;
                self.came.push(class);
            }
        }
        if !offers.is_empty() {
            self.process.wire.handle(Input::Arrived(offers));
        }
    }

    /// The log makes safe what it has; who waits for an answer gets it.
    pub(super) fn answer(&mut self) {
        let wire = &mut self.process.wire;
        wire.sync();
        while wire.read_back() {}
        for (source, Token(number), result) in std::mem::take(&mut wire.answers) {
            if source == LOAD {
                self.accepted.extend(result.is_ok().then_some(number as Seq));
                continue;
            }
            let Some(ticket) = self.process.tickets.remove(&number) else { continue };
            let Ticket { from, class, item, asked } = ticket;
            let (origin, seq, _) = item.content;
            self.waits_no_more((origin, seq));
            if result.is_ok() {
                self.process.taken.insert(&item.identity);
                if let Some(token) = self.agent.lent_to(NodeId(from as u64), class) {
                    let size = Size(RECORD as u64);
                    self.agent.handle(self.process.wire.now, AgentInput::Carried(token, size));
                }
            }
            let was_picked = self.process.picked.contains(&(origin, seq));
            for (life, id) in asked {
                let word = Word::Answer(life, id, result.is_ok(), was_picked);
                self.wishes.push_back(Wish::Say(from, word));
            }
        }
    }

    /// What it may send by others.
    pub(super) fn grant(&mut self, now: Time) {
        let mut over = std::mem::take(&mut self.process.told);
        let mut orders = Vec::new();
        for ((provider, class), (amount, until)) in self.agent.borrowing() {
            let peer = output_to(self.place, provider.0 as usize);
            over.remove(&(peer, class));
            self.process.told.insert((peer, class));
            orders.push(Control::Grant { peer, class, amount, lease: until.since(now) });
        }
        for (peer, class) in over {
            orders.push(Control::Grant { peer, class, amount: Amount::ZERO, lease: ms(100) });
        }
        for (class, (amount, until)) in (0..).map(ClassId).zip(self.agent.reserved()) {
            orders.push(Control::Reserve { class, amount, lease: until.since(now) });
        }
        orders.into_iter().for_each(|order| self.process.wire.control(order));
    }

    /// A neighbour's record, for our uplink.
    pub(super) fn relay(
        &mut self,
        from: usize,
        asked: (u64, DeliveryId),
        class: ClassId,
        item: Item,
    ) {
        let process = &mut self.process;
        if process.taken.contains(&item.identity) {
            let word = Word::Answer(asked.0, asked.1, true, true);
            return self.wishes.push_back(Wish::Say(from, word));
        }
        let is_same = |ticket: &&mut Ticket| ticket.item.identity == item.identity;
        if let Some(known) = process.tickets.values_mut().find(is_same) {
            return known.asked.push(asked);
        }
        let source = SourceId(1 + from as u32 * 3 + u32::from(class.0));
        if process.sources.insert(source) {
            let name = format!("{from}/{}", class.0).into();
            process.wire.control(Control::Open { source, name, relays: Some(class) });
        }
        process.last += 1;
        let token = process.last;
        let left = item.left;
        let identity = item.identity.clone();
        if class.0 == 0 {
            process.behind.insert((item.content.0, item.content.1), 0);
        }
        let foreign = Some(Foreign { identity, again: item.again, left });
        let payload = payload(item.content).into();
        let plain = offer(process.wire.now, source.0, CLASSES[class.index()], 0);
        let offered = Offered { token: Some(Token(token)), payload, foreign, ..plain };
        let ticket = Ticket { from, class, item, asked: vec![asked] };
        process.tickets.insert(token, ticket);
        process.wire.handle(Input::Arrived(vec![offered]));
    }

    /// A delivery has its fate, or comes back.
    pub(super) fn settle(&mut self, output: OutputId, id: DeliveryId, is_confirmed: bool) {
        let Process { wire, begun, confirmed, .. } = &mut self.process;
        begun.remove(&id);
        wire.unconfirmed.retain(|(other, path)| *other != id || path.output != output);
        let (destination, ids) = (Destination::Output(output), vec![id]);
        wire.handle(match is_confirmed {
            true => Input::Confirmed { destination, ids },
            false => Input::Refused { destination, ids, reason: Refusal::Retry },
        });
        confirmed.extend(is_confirmed.then_some(wire.now));
    }

    /// The uplink does this now.
    pub(super) fn shine(&mut self, uplink: Uplink) {
        let process = &mut self.process;
        if let Uplink::Carries(_) = uplink {
            if !process.is_up {
                process.is_up = true;
                process.set(OWN, PathState::Up);
            }
            process.dark = 0;
            if !process.stuck.is_empty() {
                let lanes = process.wire.paths().into_iter().filter(|path| path.output == OWN);
                lanes.for_each(|lane| process.wire.acknowledge(lane, ms(self.tick)));
            }
            self.wishes.extend(process.stuck.drain(..).map(Wish::Send));
        } else {
            process.dark += 1;
            let breaks = process.dark == BROKEN / self.tick || uplink == Uplink::Refused;
            if breaks && process.is_up {
                self.may_repeat += process.open_on(OWN);
                process.epoch += 1;
                process.is_up = false;
                process.stuck.clear();
                process.set(OWN, PathState::Down);
            }
        }
        // A silent uplink takes what the window lets go.
        let carries =
            if uplink == Uplink::Silent { self.capacity } else { uplink.carries() * RECORD as f64 };
        let a_tick = carries * self.tick as f64 / 1e3;
        let most = a_tick + RECORD as f64;
        process.budget = (process.budget + a_tick).min(most);
        self.is_silent = uplink == Uplink::Silent;
        if self.is_silent && process.is_up {
            let lanes = process.wire.paths().into_iter().filter(|path| path.output == OWN);
            lanes.for_each(|lane| process.wire.sample(lane, None));
        }
    }
}
