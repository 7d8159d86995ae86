//! A learning rate that falls when the loss no longer does.

/// PyTorch's `ReduceLROnPlateau` for a measure that should fall: when it has not improved by a part
/// `threshold` of itself for more than `patience` looks in a row, the rate is multiplied by `factor`.
///
/// It follows a measure that the host knows, so it is no [`Schedule`](super::Schedule):
///
/// ```
/// # use gradloom_core::optim::Plateau;
/// let mut plateau = Plateau::new(0.1).patience(1);
/// let rates = [5.0, 4.0, 4.0, 4.0, 4.0].map(|loss| plateau.look(loss));
/// // To be given to `Train::set_lr`.
/// assert_eq!(rates, [0.1, 0.1, 0.1, 0.010000000000000002, 0.010000000000000002]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plateau {
    lr: f64,
    factor: f64,
    patience: u64,
    threshold: f64,
    cooldown: u64,
    least: f64,
    best: f64,
    /// Looks in a row without an improvement.
    bad: u64,
    /// Looks left that do not count.
    resting: u64,
}

impl Plateau {
    /// With the rate at the start, and PyTorch's numbers: a factor of 0.1, a patience of 10 looks, a
    /// threshold of 1e-4, no cooldown, and no least rate.
    pub fn new(lr: f64) -> Self {
        Self {
            lr,
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

    /// What the rate is multiplied by.
    #[must_use]
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Looks in a row without an improvement that are borne.
    #[must_use]
    pub fn patience(mut self, looks: u64) -> Self {
        self.patience = looks;
        self
    }

    /// The least part of the best measure that counts as an improvement.
    #[must_use]
    pub fn threshold(mut self, threshold: f64) -> Self {
        self.threshold = threshold;
        self
    }

    /// Looks after a change that do not count.
    #[must_use]
    pub fn cooldown(mut self, looks: u64) -> Self {
        self.cooldown = looks;
        self
    }

    /// A rate that it does not fall below.
    #[must_use]
    pub fn least(mut self, lr: f64) -> Self {
        self.least = lr;
        self
    }

    /// The rate now.
    pub fn lr(&self) -> f64 {
        self.lr
    }

    /// Takes note of a measure, and gives the rate from now on. A NaN is no improvement.
    pub fn look(&mut self, measure: f64) -> f64 {
        if measure < self.best * (1.0 - self.threshold) {
            self.best = measure;
            self.bad = 0;
        } else {
            self.bad += 1;
        }
        if self.resting > 0 {
            self.resting -= 1;
            self.bad = 0;
        }
        if self.bad > self.patience {
            let next = (self.lr * self.factor).max(self.least);
            // PyTorch's `eps`: a change that is too small is none.
            if self.lr - next > 1e-8 {
                self.lr = next;
            }
            self.resting = self.cooldown;
            self.bad = 0;
        }
        self.lr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// torch.optim.lr_scheduler.ReduceLROnPlateau(SGD(.., lr=0.5), factor=0.5, patience=2, cooldown=3,
    /// min_lr=0.1): the rate after each step.
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
