//! A learning rate that decreases when the loss no longer does.

use super::words::{Words, wrong};
use crate::error::Error;
use std::fmt;
use std::str::FromStr;

/// PyTorch's `ReduceLROnPlateau` for a measure that should decrease, such as a loss. The rate is multiplied
/// by `factor` after more than `patience` consecutive looks at which the measure has not improved on the best
/// one by more than the fraction `threshold`.
///
/// A plateau depends on a measure on the host, so it is not a [`Schedule`](super::Schedule).
/// `Train::set_plateau` makes training follow a plateau and stores it in checkpoints: call
/// `train.set_plateau(Plateau::new(0.1))`, then `train.look(loss)?` after each epoch. It can also be used
/// alone:
///
/// ```
/// # use gradloom_core::optim::Plateau;
/// let mut plateau = Plateau::new(0.1).patience(1);
/// let rates = [5.0, 4.0, 4.0, 4.0, 4.0].map(|loss| plateau.look(loss));
/// assert_eq!(rates, [0.1, 0.1, 0.1, 0.010000000000000002, 0.010000000000000002]);
/// // All of it as a text, to go on from.
/// assert_eq!(plateau.to_string().parse::<Plateau>()?, plateau);
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plateau {
    lr: f64,
    /// Initial rate.
    start: f64,
    factor: f64,
    patience: u64,
    threshold: f64,
    cooldown: u64,
    least: f64,
    best: f64,
    /// Number of consecutive looks without an improvement.
    bad: u64,
    /// Number of remaining looks of the cooldown.
    resting: u64,
}

impl Plateau {
    /// Creates a plateau with the initial rate `lr` and PyTorch's defaults: a factor of 0.1, a patience of 10
    /// looks, a threshold of 1e-4, no cooldown, and no minimum rate.
    pub fn new(lr: f64) -> Self {
        Self {
            lr,
            start: lr,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            cooldown: 0,
            least: 0.0,
            best: f64::INFINITY,
            bad: 0,
            resting: 0,
        }
    }

    setters! {
        /// Sets the factor by which the rate is multiplied.
        factor
        /// Sets the number of consecutive looks without an improvement that are tolerated.
        patience: u64
        /// Sets the fraction of the best measure that an improvement must exceed.
        threshold
        /// Sets the cooldown, the number of looks after a decrease that do not count as looks without an
        /// improvement.
        cooldown: u64
        /// Sets the minimum rate.
        least
    }

    /// Returns the current rate.
    pub fn lr(&self) -> f64 {
        self.lr
    }

    /// Returns the current rate of a group of parameters with the initial rate `rate`, which decreases by the
    /// same factors as `lr`, but not below the minimum rate.
    pub fn scaled(&self, rate: f64) -> f64 {
        if self.lr == self.start {
            return rate;
        }
        (rate * (self.lr / self.start)).max(self.least.min(rate))
    }

    /// Records a measure, and returns the new rate. NaN is not an improvement.
    pub fn look(&mut self, measure: f64) -> f64 {
        if measure < self.best * (1.0 - self.threshold) {
            self.best = measure;
            self.bad = 0;
        } else {
            self.bad = self.bad.saturating_add(1);
        }
        if self.resting > 0 {
            self.resting -= 1;
            self.bad = 0;
        }
        if self.bad > self.patience {
            let next = (self.lr * self.factor).max(self.least);
            // As with PyTorch's `eps`, ignore a smaller decrease.
            if self.lr - next > 1e-8 {
                self.lr = next;
            }
            self.resting = self.cooldown;
            self.bad = 0;
        }
        self.lr
    }
}

/// Writes the name and value of each number, for [`FromStr`].
impl fmt::Display for Plateau {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lr, start, factor, patience, threshold, cooldown, least, best, bad, resting } = self;
        write!(f, "lr {lr} start {start} factor {factor} patience {patience} threshold {threshold} ")?;
        write!(f, "cooldown {cooldown} least {least} best {best} bad {bad} resting {resting}")
    }
}

impl FromStr for Plateau {
    type Err = Error;

    /// Parses a text that [`Display`](fmt::Display) wrote.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut words = Words::of("plateau", text);
        let plateau = Self {
            lr: words.named("lr")?,
            start: words.named("start")?,
            factor: words.named("factor")?,
            patience: words.named("patience")?,
            threshold: words.named("threshold")?,
            cooldown: words.named("cooldown")?,
            least: words.named("least")?,
            best: words.named("best")?,
            bad: words.named("bad")?,
            resting: words.named("resting")?,
        };
        if words.is_empty() { Ok(plateau) } else { Err(wrong("plateau", text)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_from_its_text() {
        let measures = [3.0, 2.0, 2.0, f64::NAN, 2.5, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5];
        let new = || Plateau::new(0.3).factor(0.7).patience(1).cooldown(1).least(0.01).threshold(0.01);
        let mut whole = new();
        let rates = measures.map(|measure| whole.look(measure));
        for cut in 0..measures.len() {
            let mut first = new();
            measures[..cut].iter().for_each(|&measure| _ = first.look(measure));
            let mut rest: Plateau = first.to_string().parse().unwrap();
            assert_eq!(rest, first);
            let later: Vec<f64> = measures[cut..].iter().map(|&measure| rest.look(measure)).collect();
            assert_eq!(later, rates[cut..], "{cut}");
        }
        let text = new().to_string();
        for damaged in [&text[1..], &text[..text.len() - 1], &format!("{text} 1"), "", "lr x"] {
            assert!(damaged.parse::<Plateau>().is_err(), "{damaged}");
        }
    }

    #[test]
    fn groups_fall_with_it() {
        let mut plateau = Plateau::new(0.5).factor(0.5).patience(0).least(0.1);
        plateau.look(1.0);
        assert_eq!(plateau.scaled(0.3), 0.3);
        plateau.look(1.0);
        assert_eq!([0.4, 0.15, 0.05].map(|rate| plateau.scaled(rate)), [0.2, 0.1, 0.05]);
    }

    /// The expected rates are those of PyTorch after each step of
    /// torch.optim.lr_scheduler.ReduceLROnPlateau(SGD(.., lr=0.5), factor=0.5, patience=2, cooldown=3,
    /// min_lr=0.1).
    #[test]
    fn rates_are_pytorchs() {
        let mut plateau = Plateau::new(0.5).factor(0.5).patience(2).cooldown(3).least(0.1);
        let measures = [
            3.0,
            2.0,
            2.0,
            1.9999,
            2.5,
            f64::NAN,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
        ];
        let rates = measures.map(|measure| plateau.look(measure));
        let pytorch = [
            0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125,
            0.1, 0.1,
        ];
        assert_eq!(rates, pytorch);
    }
}
