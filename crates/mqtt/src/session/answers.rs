//! QoS 1 and QoS 2 publishes that wait for the node's answer.
//!
//! Acknowledgements leave in the order of the publishes (MQTT 5, 4.6.0-2), however the node's answers
//! come, so an answer waits here for those before it.

use std::collections::VecDeque;

use tidegate_types::record::{RefuseReason, Token};

use super::memory::Memory;
use super::subscriber::{Nobody, SessionSubscriber};

/// What a publish is to the acknowledgement that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckKind {
    /// QoS 1: a PUBACK.
    AtLeastOnce,
    /// QoS 2: a PUBREC.
    ExactlyOnce,
    /// A QoS 2 publish that an earlier connection offered: a PUBREC.
    Again,
}

/// A publish that waits, or whose acknowledgement is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) id: u16,
    pub(crate) kind: AckKind,
    pub(crate) result: Option<Result<(), RefuseReason>>,
}

/// The unanswered publishes of one connection, oldest first. A token is the publish's number on its
/// source, so finding its place is a subtraction.
#[derive(Debug)]
pub(crate) struct Answers<S = Nobody> {
    first: u64,
    waiting: VecDeque<Waiting>,
    /// How many of those that wait are QoS 1.
    at_least_once: usize,
    pub(crate) memory: Memory<S>,
}

impl<S> Default for Answers<S> {
    fn default() -> Self {
        Answers { first: 0, waiting: VecDeque::new(), at_least_once: 0, memory: Memory::default() }
    }
}

impl<S: SessionSubscriber> Answers<S> {
    /// Goes on where an earlier connection ended.
    pub(crate) fn resume(&mut self, memory: Memory<S>) {
        self.first = memory.next;
        self.memory = memory;
        self.memory.kept = None;
    }

    /// The connection ends: what is to be remembered of it. Nothing waits any more.
    pub(crate) fn leave(&mut self) -> Memory<S> {
        let mut memory = std::mem::take(&mut self.memory);
        for Waiting { id, kind, result } in std::mem::take(&mut self.waiting) {
            if let Some(result) = result {
                memory.settle(Token(self.first), result.is_ok());
            }
            match (kind, result) {
                (AckKind::ExactlyOnce, None) => memory.owe(Token(self.first), id),
                (AckKind::ExactlyOnce | AckKind::Again, Some(Err(_))) => memory.forget(id),
                _ => {}
            }
            self.first += 1;
        }
        self.at_least_once = 0;
        memory.next = self.first;
        memory.leave();
        memory
    }

    /// Notes a QoS 1 publish, and returns the token to offer it with.
    pub(crate) fn expect(&mut self, id: u16) -> Token {
        self.at_least_once += 1;
        self.push(id, AckKind::AtLeastOnce, None)
    }

    /// Notes a QoS 2 publish, and returns the token to offer it with; `None` for a duplicate, which is
    /// not offered.
    pub(crate) fn expect_once(&mut self, id: u16) -> Option<Token> {
        match self.memory.find(id) {
            None => {
                self.memory.begin(id);
                return Some(self.push(id, AckKind::ExactlyOnce, None));
            }
            Some((_, true)) => drop(self.push(id, AckKind::Again, Some(Ok(())))),
            // Its first publish waits here, and one answer is enough.
            Some((true, false)) => {}
            Some((false, false)) => drop(self.push(id, AckKind::Again, None)),
        }
        self.memory.here_again(id);
        None
    }

    fn push(&mut self, id: u16, kind: AckKind, result: Option<Result<(), RefuseReason>>) -> Token {
        self.waiting.push_back(Waiting { id, kind, result });
        Token(self.first + self.waiting.len() as u64 - 1)
    }

    /// Notes the node's answer. Tokens that wait for nothing are ignored: the node answers once.
    pub(crate) fn answer(&mut self, token: Token, result: Result<(), RefuseReason>) {
        let Some(place) = token.0.checked_sub(self.first) else {
            return self.answer_owed(token, result);
        };
        let place = usize::try_from(place).ok();
        let Some(waiting) = place.and_then(|place| self.waiting.get_mut(place)) else { return };
        if waiting.result.is_some() {
            return;
        }
        waiting.result = Some(result);
        if waiting.kind == AckKind::ExactlyOnce && result.is_ok() {
            self.memory.accept(waiting.id);
        }
    }

    /// The answer to a publish of an earlier connection; if it came again, its duplicate waits.
    fn answer_owed(&mut self, token: Token, result: Result<(), RefuseReason>) {
        self.memory.settle(token, result.is_ok());
        let Some(id) = self.memory.owed(token) else { return };
        let again = |waiting: &&mut Waiting| {
            waiting.id == id && waiting.kind == AckKind::Again && waiting.result.is_none()
        };
        let waiting = self.waiting.iter_mut().find(again);
        match (&waiting, result) {
            (_, Ok(())) => self.memory.accept(id),
            (None, Err(_)) => self.memory.forget(id),
            (Some(_), Err(_)) => {}
        }
        if let Some(waiting) = waiting {
            waiting.result = Some(result);
        }
    }

    /// The oldest publish and its result, if it is answered.
    pub(crate) fn next(&mut self) -> Option<(u16, AckKind, Result<(), RefuseReason>)> {
        let &Waiting { id, kind, result } = self.waiting.front()?;
        let result = result?;
        self.waiting.pop_front();
        if kind == AckKind::ExactlyOnce {
            self.memory.settle(Token(self.first), result.is_ok());
        }
        self.first += 1;
        self.at_least_once -= usize::from(kind == AckKind::AtLeastOnce);
        if self.waiting.is_empty() && self.waiting.capacity() > KEPT {
            self.waiting = VecDeque::new();
        }
        Some((id, kind, result))
    }

    /// The QoS of a publish that was offered with this token.
    pub(crate) fn qos_of(&self, token: Token) -> u8 {
        let place = token.0.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let waiting = place.and_then(|place| self.waiting.get(place));
        if waiting.is_some_and(|waiting| waiting.kind == AckKind::AtLeastOnce) { 1 } else { 2 }
    }

    /// Publishes whose acknowledgement is not written.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Publishes that count against the receive maximum: QoS 1 to its PUBACK, QoS 2 to its PUBCOMP.
    pub(crate) fn open(&self) -> usize {
        self.at_least_once + self.memory.here()
    }
}

/// Room that a connection keeps while nothing waits.
const KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: AckKind = AckKind::AtLeastOnce;

    #[test]
    fn answers_leave_in_the_order_of_the_publishes() {
        let mut answers: Answers = Answers::default();
        let tokens: Vec<Token> = [7, 3, 9].map(|id| answers.expect(id)).to_vec();
        answers.answer(tokens[2], Ok(()));
        answers.answer(tokens[1], Err(RefuseReason::Full));
        assert_eq!(answers.next(), None);
        answers.answer(tokens[0], Ok(()));
        assert_eq!(answers.next(), Some((7, ONE, Ok(()))));
        assert_eq!(answers.next(), Some((3, ONE, Err(RefuseReason::Full))));
        assert_eq!(answers.next(), Some((9, ONE, Ok(()))));
        assert_eq!((answers.len(), answers.open()), (0, 0));
        assert_eq!(answers.expect(7), Token(3));
    }

    #[test]
    fn foreign_tokens_are_ignored() {
        let mut answers: Answers = Answers::default();
        let token = answers.expect(1);
        answers.answer(Token(99), Ok(()));
        answers.answer(token, Ok(()));
        assert_eq!(answers.next(), Some((1, ONE, Ok(()))));
        answers.answer(token, Ok(()));
        assert_eq!(answers.next(), None);
    }

    #[test]
    fn a_duplicate_is_answered_and_not_offered() {
        let mut answers: Answers = Answers::default();
        let token = answers.expect_once(5).unwrap();
        assert_eq!((answers.expect_once(5), answers.len()), (None, 1));
        answers.answer(token, Ok(()));
        assert_eq!(answers.next(), Some((5, AckKind::ExactlyOnce, Ok(()))));
        assert_eq!(answers.expect_once(5), None);
        assert_eq!(answers.next(), Some((5, AckKind::Again, Ok(()))));
        assert_eq!(answers.open(), 1);
    }

    #[test]
    fn a_late_answer_reaches_the_next_connection() {
        let mut answers: Answers = Answers::default();
        let (late, lost) = (answers.expect_once(5).unwrap(), answers.expect_once(6).unwrap());
        assert_eq!(answers.expect(7), Token(2));
        let memory = answers.leave();
        assert!(memory.owes() && answers.len() == 0);
        let mut answers: Answers = Answers::default();
        answers.resume(memory);
        assert_eq!((answers.expect_once(5), answers.expect_once(6)), (None, None));
        answers.answer(late, Ok(()));
        answers.answer(Token(2), Ok(()));
        assert_eq!(answers.next(), Some((5, AckKind::Again, Ok(()))));
        answers.answer(lost, Err(RefuseReason::Full));
        assert_eq!(answers.next(), Some((6, AckKind::Again, Err(RefuseReason::Full))));
        assert_eq!(answers.expect(7), Token(5), "tokens go on");
    }
}
