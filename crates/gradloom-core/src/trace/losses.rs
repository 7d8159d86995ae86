//! Losses of predictions against targets. Each loss is a mean over all elements or rows; sums and other
//! weightings can be composed of the functions that a loss calls. Invariant: only two kinds of operands
//! broadcast: a target that is one number for all predictions, and a variance as `gaussian_nll_loss`
//! documents.

use super::alike::{are_alike, are_targets, is_one_per_row, no_loss};
use super::bounds::{Range, is_in_range};
use super::tensor::{full, refused};
use super::{Operand, Tensor, op};
use crate::ir::{DType, Shape};

/// Options of [`Tensor::cross_entropy_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CrossEntropyOptions {
    label_smoothing: f64,
    ignore_index: Option<i32>,
    weights: Option<Tensor>,
}

impl CrossEntropyOptions {
    /// Returns the defaults: equal class weights, no label smoothing, no ignored targets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the fraction of each target, from 0 to 1, that is distributed evenly over all classes. Szegedy et
    /// al., 2016.
    pub fn label_smoothing(mut self, part: f64) -> Self {
        self.label_smoothing = part;
        self
    }

    /// Excludes targets that equal `index`, such as padding, from the mean. The index need not be a class.
    pub fn ignore_index(mut self, index: i32) -> Self {
        self.ignore_index = Some(index);
        self
    }

    /// Sets a weight for each class, f32 `[classes]`; the loss is then a weighted mean.
    pub fn weights(mut self, weights: Tensor) -> Self {
        self.weights = Some(weights);
        self
    }
}

impl Tensor {
    /// Computes the mean cross-entropy of logits `[B.., classes]` and class numbers i32 `[B..]`, in nats,
    /// with optional class weights, label smoothing and an ignored class number, like PyTorch's
    /// `cross_entropy` with class numbers. The logits of an ignored target may hold any values, even NaN.
    ///
    /// If all targets are ignored, the loss and its gradients are 0, where PyTorch's loss is NaN: a
    /// micro-batch without targets then contributes nothing.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let options = CrossEntropyOptions::new().ignore_index(-1);
    ///     let targets = literal(&[0.0, -1.0], [2]).cast(DType::I32);
    ///     full(DType::F32, [2, 1], 3.0).cross_entropy_with(targets, options)
    /// });
    /// assert_eq!(y, [0.0]);
    /// ```
    #[op]
    pub fn cross_entropy_with(self, targets: Tensor, options: CrossEntropyOptions) -> Tensor {
        let targets = targets.counted();
        let (logits, wanted) = (self.shape(), targets.ty());
        let CrossEntropyOptions { label_smoothing: smoothing, ignore_index, weights } = options;
        let lead = Shape::from(&logits[..logits.rank().saturating_sub(1)]);
        let classes = logits.last().copied().unwrap_or(0);
        if logits.rank() == 0 || wanted.dtype != DType::I32 || wanted.shape != lead {
            let message = format!("`cross_entropy_with` of logits {logits} with targets {wanted}");
            let help = format!("targets are i32{lead}, class numbers");
            return refused("cross_entropy_with", message, help, self);
        }
        if !is_in_range("cross_entropy_with", "label smoothing", smoothing, Range::Part) {
            return self;
        }
        if let Some(weights) = weights.map(Tensor::ty)
            && (weights.dtype != self.dtype() || weights.shape != Shape::from([classes]))
        {
            let message = format!("`cross_entropy_with` of logits {logits} with weights {weights}");
            let help = format!("weights are {}[{classes}]", self.dtype());
            return refused("cross_entropy_with", message, help, self);
        }
        let counts = ignore_index.map(|index| targets.ne(index));
        // Replace ignored targets by class 0, so that the index is in range.
        let targets = counts.map_or(targets, |counts| counts.select(targets, 0));
        let logits = counts.map_or(self, |counts| counts.unsqueeze(-1).select(self, 0.0));
        let logs = logits.log_softmax(-1);
        let mut weight =
            weights.map_or(full(self.dtype(), lead, 1.0), |weights| weights.gather_rows(targets));
        if let Some(counts) = counts {
            weight = counts.select(weight, 0.0);
        }
        let mut losses = -logs.take_last(targets) * weight * (1.0 - smoothing);
        if smoothing > 0.0 {
            let weighted = weights.map_or(logs, |weights| logs * weights);
            let spread = -weighted.sum_axes(-1) * (smoothing / classes as f64);
            losses = losses + counts.map_or(spread, |counts| counts.select(spread, 0.0));
        }
        let total = weight.sum();
        // If all targets are ignored, divide by 1, so that the result is 0 instead of 0 / 0. If the weights
        // of the other targets sum to 0, the result is NaN, as in PyTorch.
        losses.sum() / counts.map_or(total, |counts| counts.any().select(total, 1.0))
    }

    /// Computes the mean negative log-likelihood of class numbers i32 `[B..]` under log-probabilities
    /// `[B.., classes]`.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]);
    ///     x.nll_loss(literal(&[0.0, 1.0], [2]).cast(DType::I32))
    /// });
    /// assert_eq!(y, [-2.5]);
    /// ```
    #[doc(alias = "NLLLoss")]
    #[op]
    pub fn nll_loss(self, targets: Tensor) -> Tensor {
        -self.take_last(targets).mean()
    }

    /// Computes the mean of `(x - y)²`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 3.0], [2]).mse_loss(1.0)), [2.0]);
    /// ```
    #[doc(alias = "MSELoss")]
    #[op]
    pub fn mse_loss(self, targets: impl Operand) -> Tensor {
        if !are_targets("mse_loss", self, targets) {
            return no_loss(self);
        }
        (self - targets).square().mean()
    }

    /// Computes the mean of `|x - y|`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 3.0], [2]).l1_loss(1.0)), [1.0]);
    /// ```
    #[doc(alias = "L1Loss")]
    #[op]
    pub fn l1_loss(self, targets: impl Operand) -> Tensor {
        if !are_targets("l1_loss", self, targets) {
            return no_loss(self);
        }
        (self - targets).abs().mean()
    }

    /// Computes the mean of `e² / 2` where `|e| < delta` and of `delta (|e| - delta / 2)` elsewhere, with
    /// `e = x - y`; `delta` must be finite and positive. Huber, 1964.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[3.0], [1]).huber_loss(0.0, 1.0)), [2.5]);
    /// ```
    #[doc(alias = "HuberLoss")]
    #[op]
    pub fn huber_loss(self, targets: impl Operand, delta: f64) -> Tensor {
        if !are_targets("huber_loss", self, targets)
            || !is_in_range("huber_loss", "delta", delta, Range::Positive)
        {
            return no_loss(self);
        }
        let error = self - targets;
        let size = error.abs();
        let near = size.lt(delta);
        // Replace large errors by 0, as their squares could overflow in the branch that is not selected.
        let square = near.select(error, 0.0).square() * 0.5;
        near.select(square, (size - 0.5 * delta) * delta).mean()
    }

    /// Computes [`Tensor::huber_loss`] with a delta of `beta`, divided by `beta`; for a `beta` of 0, the mean
    /// of `|x - y|`. Girshick, 2015.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[3.0], [1]).smooth_l1_loss(0.0, 2.0)), [2.0]);
    /// ```
    #[op]
    pub fn smooth_l1_loss(self, targets: impl Operand, beta: f64) -> Tensor {
        if !are_targets("smooth_l1_loss", self, targets)
            || beta != 0.0 && !is_in_range("smooth_l1_loss", "beta", beta, Range::Positive)
        {
            return no_loss(self);
        }
        if beta == 0.0 { self.l1_loss(targets) } else { self.huber_loss(targets, beta) * (1.0 / beta) }
    }

    /// Computes the mean binary cross-entropy of logits and targets in `0..=1`, in nats, without overflow for
    /// large logits.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1000.0], [1]).bce_with_logits(1.0)), [0.0]);
    /// ```
    #[doc(alias = "binary_cross_entropy_with_logits")]
    #[doc(alias = "BCEWithLogitsLoss")]
    #[op]
    pub fn bce_with_logits(self, targets: impl Operand) -> Tensor {
        if !are_targets("bce_with_logits", self, targets) {
            return no_loss(self);
        }
        let targets = targets.tensor(self);
        // -y log(sigmoid(x)) - (1 - y) log(1 - sigmoid(x))
        (self.softplus() - self * targets).mean()
    }

    /// Computes the mean binary cross-entropy of probabilities and targets in `0..=1`, in nats. As in
    /// PyTorch, logarithms are clamped to at least -100; [`Tensor::bce_with_logits`] does not clamp.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0], [1]).bce_loss(1.0)), [0.0]);
    /// ```
    #[doc(alias = "binary_cross_entropy")]
    #[doc(alias = "BCELoss")]
    #[op]
    pub fn bce_loss(self, targets: impl Operand) -> Tensor {
        if !are_targets("bce_loss", self, targets) {
            return no_loss(self);
        }
        let targets = targets.tensor(self);
        // Where `p · (1 - p)` is at most this number, the gradient is PyTorch's, `(p - y) / 1e-12`. It is the
        // gradient of a parabola, whose value is subtracted again.
        const LEAST: f64 = 1e-12;
        let mixed = |log: Tensor, log_of_rest: Tensor| -(targets * log + (1.0 - targets) * log_of_rest);
        let ordinary = (self * (1.0 - self)).gt(LEAST);
        let p = ordinary.select(self, 0.5);
        let near = mixed(p.log(), (1.0 - p).log());
        let bounded = |x: Tensor| x.detach().log().clamp(-100.0, f64::INFINITY);
        let edge = ordinary.select(0.5, self);
        let parabola = (edge - targets.detach()).square() * (0.5 / LEAST);
        let far = mixed(bounded(edge), bounded(1.0 - edge)) + (parabola - parabola.detach());
        ordinary.select(near, far).mean()
    }

    /// Computes the mean over rows `[B.., classes]` of the Kullback-Leibler divergence of log-probabilities
    /// `x` from target probabilities `y`, `sum y (log y - x)`; a target of 0 contributes 0. Corresponds to
    /// PyTorch's `kl_div` with `batchmean`. Kullback and Leibler, 1951.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1, 1]).kl_div_loss(literal(&[1.0], [1, 1]))), [0.0]);
    /// ```
    #[doc(alias = "kl_div")]
    #[doc(alias = "KLDivLoss")]
    #[op]
    pub fn kl_div_loss(self, targets: Tensor) -> Tensor {
        if !are_alike("kl_div_loss", ["predictions", "targets"], self, targets) {
            return no_loss(self);
        }
        let positive = targets.gt(0.0);
        let own = targets * positive.select(targets, 1.0).log();
        // Replace the log-probabilities of classes with a target of 0 by 0: one may be `-inf`, and 0 times
        // infinity is NaN.
        let logs = targets.eq(0.0).select(0.0, self);
        (own - targets * logs).sum_axes(-1).mean()
    }

    /// Computes the mean over rows of `1 - cos(x, y)` where the target is 1, and of
    /// `max(0, cos(x, y) - margin)` where it is -1. `self` and `other` are `[B.., width]`, and targets are
    /// `[B..]`, of the dtype of `self`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 0.0], [1, 2]);
    ///     x.cosine_embedding_loss(literal(&[0.0, 1.0], [1, 2]), literal(&[1.0], [1]), 0.0)
    /// });
    /// assert_eq!(y, [1.0]);
    /// ```
    #[op]
    pub fn cosine_embedding_loss(self, other: Tensor, targets: Tensor, margin: f64) -> Tensor {
        let token = "cosine_embedding_loss";
        if !are_alike(token, ["vectors", "other vectors"], self, other)
            || !is_one_per_row(token, ["vectors", "targets"], self, targets)
            || !is_in_range(token, "margin", margin, Range::Finite)
        {
            return no_loss(self);
        }
        let cosine = self.cosine_similarity(other, -1);
        targets.gt(0.0).select(1.0 - cosine, (cosine - margin).relu()).mean()
    }

    /// Computes the mean over rows of `max(0, |a - p| - |a - n| + margin)`, where `self` is the anchor a,
    /// `positive` is p and `negative` is n, all `[B.., width]`. As in PyTorch, distances are Euclidean norms
    /// of differences to which 1e-6 is added. The margin must be finite and non-negative. Schroff,
    /// Kalenichenko, Philbin, 2015.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| { let x = literal(&[1.0, 0.0], [1, 2]); x.triplet_loss(x, x, 1.0) }), [1.0]);
    /// ```
    #[doc(alias = "triplet_margin_loss")]
    #[op]
    pub fn triplet_loss(self, positive: Tensor, negative: Tensor, margin: f64) -> Tensor {
        if !are_alike("triplet_loss", ["anchors", "positive examples"], self, positive)
            || !are_alike("triplet_loss", ["anchors", "negative examples"], self, negative)
            || !is_in_range("triplet_loss", "margin", margin, Range::NotNegative)
        {
            return no_loss(self);
        }
        let (near, far) = (self - positive + 1e-6, self - negative + 1e-6);
        let excess = |near: Tensor, far: Tensor| near.norm_axes(-1, 2.0) - far.norm_axes(-1, 2.0) + margin;
        // Replace rows whose loss is 0 by zeros, so that their gradient is 0: the slope of an infinite norm
        // would be inf / inf, which is NaN.
        let closed = excess(near, far).le(0.0);
        let rows = closed.unsqueeze(-1);
        closed.select(0.0, excess(rows.select(0.0, near), rows.select(0.0, far))).mean()
    }

    /// Computes the mean of `max(0, 1 - x y)`, with targets of -1 and 1.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.5], [1]).hinge_loss(1.0)), [0.5]);
    /// ```
    #[op]
    pub fn hinge_loss(self, targets: impl Operand) -> Tensor {
        if !are_targets("hinge_loss", self, targets) {
            return no_loss(self);
        }
        let targets = targets.tensor(self);
        let kept = (self * targets).ge(1.0);
        // Replace elements whose loss is 0, and their targets, by 1, so that the gradients of both are 0.
        let product = kept.select(1.0, self) * kept.select(1.0, targets);
        (1.0 - product).relu().mean()
    }

    /// Computes the mean negative log-likelihood of Poisson counts whose rates have the logarithms `self`,
    /// without the term that depends only on the targets: `e^x - y x`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).poisson_nll_loss(2.0)), [1.0]);
    /// ```
    #[doc(alias = "PoissonNLLLoss")]
    #[op]
    pub fn poisson_nll_loss(self, targets: impl Operand) -> Tensor {
        if !are_targets("poisson_nll_loss", self, targets) {
            return no_loss(self);
        }
        (self.exp() - self * targets).mean()
    }

    /// Computes the mean negative log-likelihood of targets under normal distributions with the means `self`
    /// and the given variances, without the constant term: `(log v + (x - y)² / v) / 2`, with variances
    /// clamped to at least 1e-6. As in PyTorch, `variance` has one number for each mean, one for all means
    /// along an axis (which has extent 1 or, if it is the last one, may be omitted), or one number in total.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0], [1]).gaussian_nll_loss(3.0, literal(&[1.0], [1]))), [2.0]);
    /// ```
    #[doc(alias = "GaussianNLLLoss")]
    #[op]
    pub fn gaussian_nll_loss(self, targets: impl Operand, variance: Tensor) -> Tensor {
        if !are_targets("gaussian_nll_loss", self, targets) {
            return no_loss(self);
        }
        let Some(variance) = variance_of(self, variance) else { return no_loss(self) };
        let variance = variance.clamp(1e-6, f64::INFINITY);
        (0.5 * (variance.log() + (self - targets).square() / variance)).mean()
    }
}

/// Returns variances that broadcast to the means `x`, with an axis of extent 1 if all means along an axis
/// share one variance. Returns `None` after an error of `gaussian_nll_loss`.
#[track_caller]
fn variance_of(x: Tensor, variance: Tensor) -> Option<Tensor> {
    let (shape, own) = (x.shape(), variance.shape());
    let differ = shape.iter().zip(own.iter()).filter(|(extent, own)| extent != own);
    let one_for_several = shape.rank() == own.rank() && differ.clone().count() <= 1;
    if own.rank() == 0 || (one_for_several && differ.clone().all(|(_, &own)| own == 1)) {
        return Some(variance);
    }
    if shape.split_last().is_some_and(|(_, lead)| own[..] == *lead) {
        return Some(variance.unsqueeze(-1));
    }
    are_alike("gaussian_nll_loss", ["predictions", "variances"], x, variance).then_some(variance)
}
