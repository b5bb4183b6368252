//! QoS 1 publishes that wait for the node's answer.
//!
//! PUBACKs leave in the order of the publishes (MQTT 5, 4.6.0-2), however the node's answers come, so
//! an answer waits here for those before it.

use std::collections::VecDeque;

use tidegate_core::record::{RefuseReason, Token};

/// The unanswered publishes of one connection, oldest first. A token is the publish's number on its
/// connection, so finding its place is a subtraction.
#[derive(Debug, Default)]
pub(super) struct Answers {
    first: u64,
    waiting: VecDeque<(u16, Option<Result<(), RefuseReason>>)>,
}

impl Answers {
    /// Notes a publish, and returns the token to offer it with.
    pub(super) fn expect(&mut self, id: u16) -> Token {
        self.waiting.push_back((id, None));
        Token(self.first + self.waiting.len() as u64 - 1)
    }

    /// Notes the node's answer. Tokens that wait for nothing are ignored: the node answers once.
    pub(super) fn answer(&mut self, token: Token, result: Result<(), RefuseReason>) {
        let place = token.0.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        if let Some((_, answer)) = place.and_then(|place| self.waiting.get_mut(place)) {
            *answer = Some(result);
        }
    }

    /// The oldest publish, if it is answered.
    pub(super) fn next(&mut self) -> Option<(u16, Result<(), RefuseReason>)> {
        let &(id, answer) = self.waiting.front()?;
        let answer = answer?;
        self.waiting.pop_front();
        self.first += 1;
        if self.waiting.is_empty() && self.waiting.capacity() > KEPT {
            self.waiting = VecDeque::new();
        }
        Some((id, answer))
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// Room that a connection keeps while nothing waits.
const KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_leave_in_the_order_of_the_publishes() {
        let mut answers = Answers::default();
        let tokens: Vec<Token> = [7, 3, 9].map(|id| answers.expect(id)).to_vec();
        answers.answer(tokens[2], Ok(()));
        answers.answer(tokens[1], Err(RefuseReason::Full));
        assert_eq!(answers.next(), None);
        answers.answer(tokens[0], Ok(()));
        assert_eq!(answers.next(), Some((7, Ok(()))));
        assert_eq!(answers.next(), Some((3, Err(RefuseReason::Full))));
        assert_eq!(answers.next(), Some((9, Ok(()))));
        assert_eq!(answers.len(), 0);
        assert_eq!(answers.expect(7), Token(3));
    }

    #[test]
    fn foreign_tokens_are_ignored() {
        let mut answers = Answers::default();
        let token = answers.expect(1);
        answers.answer(Token(99), Ok(()));
        answers.answer(token, Ok(()));
        assert_eq!(answers.next(), Some((1, Ok(()))));
        answers.answer(token, Ok(()));
        assert_eq!(answers.next(), None);
    }
}
