//! Loss on the wire: independent, or in bursts.

use crate::sim::random::Random;

/// Which packets are lost after the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Each with this probability.
    Random(f64),
    /// In bursts, as of Gilbert and Elliott.
    Bursts(GilbertElliott),
}

/// Two states, each with its loss; before each packet the state may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability of good to bad.
    pub to_bad: f64,
    /// Probability of bad to good.
    pub to_good: f64,
    /// Loss in the good state.
    pub good: f64,
    /// Loss in the bad state.
    pub bad: f64,
}

/// Decides packet by packet.
#[derive(Clone, Debug)]
pub(super) struct Fate {
    loss: Loss,
    is_bad: bool,
}

impl Fate {
    pub(super) fn new(loss: Loss) -> Self {
        Fate { loss, is_bad: false }
    }

    pub(super) fn is_lost(&mut self, random: &mut Random) -> bool {
        match self.loss {
            Loss::Random(probability) => random.happens(probability),
            Loss::Bursts(model) => {
                let change = if self.is_bad { model.to_good } else { model.to_bad };
                self.is_bad ^= random.happens(change);
                random.happens(if self.is_bad { model.bad } else { model.good })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part that is lost, and the mean length of a run of losses.
    fn measure(loss: Loss) -> (f64, f64) {
        const PACKETS: u32 = 400_000;
        let (mut random, mut fate) = (Random::new(7, 1), Fate::new(loss));
        let (mut lost, mut runs, mut before) = (0.0, 0.0, false);
        for _ in 0..PACKETS {
            let is_lost = fate.is_lost(&mut random);
            lost += f64::from(u8::from(is_lost));
            runs += f64::from(u8::from(is_lost && !before));
            before = is_lost;
        }
        (lost / f64::from(PACKETS), lost / f64::max(runs, 1.0))
    }

    #[test]
    fn random_loss_has_its_probability() {
        let (lost, run) = measure(Loss::Random(0.05));
        assert!((lost - 0.05).abs() < 0.002, "{lost}");
        assert!((run - 1.0 / 0.95).abs() < 0.02, "{run}");
        assert_eq!(measure(Loss::Random(0.0)).0.to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn bursts_have_the_stationary_loss_and_the_length_of_the_model() {
        let model = GilbertElliott { to_bad: 0.01, to_good: 0.25, good: 0.0, bad: 1.0 };
        let (lost, run) = measure(Loss::Bursts(model));
        assert!((lost - 0.01 / 0.26).abs() < 0.003, "{lost}");
        assert!((run - 4.0).abs() < 0.2, "a bad state lasts 1/0.25 packets: {run}");
    }

    #[test]
    fn a_state_that_never_changes_stays_good() {
        let still = GilbertElliott { to_bad: 0.0, to_good: 0.0, good: 0.1, bad: 1.0 };
        assert!((measure(Loss::Bursts(still)).0 - 0.1).abs() < 0.003);
    }
}
