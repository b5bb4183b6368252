//! When a script that fails is switched off: its records then go as they are.

/// Failures in a row that are too many.
const LEVEL_MAX: u32 = 10 * STEP;
/// What a failure adds; a success takes one away. So one failure in ten calls is borne for ever.
const STEP: u32 = 10;

/// How much failing is left to a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget(u32);

impl Budget {
    /// A call went well.
    pub fn succeed(&mut self) {
        if !self.is_spent() {
            self.0 = self.0.saturating_sub(1);
        }
    }

    /// A call failed. True where that is one too many.
    pub fn fail(&mut self) -> bool {
        let was_spent = self.is_spent();
        self.0 = (self.0 + STEP).min(LEVEL_MAX);
        self.is_spent() && !was_spent
    }

    /// Whether it is switched off.
    pub fn is_spent(self) -> bool {
        self.0 >= LEVEL_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_failures_in_a_row_are_too_many() {
        let mut budget = Budget::default();
        assert_eq!((0..9).filter(|_| budget.fail()).count(), 0);
        assert!(budget.fail() && budget.is_spent());
        assert!(!budget.fail(), "told once");
        (0..1000).for_each(|_| budget.succeed());
        assert!(budget.is_spent(), "until it is loaded anew");
    }

    #[test]
    fn one_failure_in_eleven_calls_is_borne() {
        let mut budget = Budget::default();
        for call in 0..10_000 {
            match call % 11 {
                0 => assert!(!budget.fail()),
                _ => budget.succeed(),
            }
        }
    }
}
