//! Connectionist temporal classification: the loss of a sequence of labels that are not aligned in time.
//! Graves, Fernández, Gomez, Schmidhuber, 2006.
//!
//! In: log-probabilities of classes at each time, and sequences of labels. Out: the negative logarithm of the
//! total probability of all alignments. Invariant: intermediate values and gradients are finite where the
//! log-probabilities are finite or `-inf`.

use super::tensor::{has_floats, placeholder, refused};
use super::{Tensor, iota, op, scan};
use crate::ir::{DType, Type};

/// Options of [`Tensor::ctc_loss`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CtcOptions {
    blank: i32,
    zero_infinity: bool,
}

impl CtcOptions {
    /// Returns the defaults: class 0 is the blank, and a sequence that cannot be aligned has an infinite
    /// loss.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the blank, the class that stands for no label.
    pub fn blank(mut self, class: i32) -> Self {
        self.blank = class;
        self
    }

    /// Sets to 0 the loss of sequences that cannot be aligned because they have more labels, including the
    /// blanks required between equal labels, than times.
    pub fn zero_infinity(mut self) -> Self {
        self.zero_infinity = true;
        self
    }
}

/// Finite substitute for the logarithm of 0, so that differences are finite. The log-probabilities of a
/// sequence sum to less than half of its magnitude, so a total below `NEVER / 2` contains this number.
const NEVER: f64 = -1e30;

impl Tensor {
    /// Computes the mean loss of sequences of unaligned labels, each divided by its number of labels (at
    /// least 1): PyTorch's `ctc_loss`, for batches with padded targets.
    ///
    /// `self` holds log-probabilities `[times, batch, classes]`, for example from `log_softmax`; `targets`
    /// holds labels `[batch, labels]`. The two lengths, both `[batch]`, are the numbers of valid times and
    /// labels of each sequence; later times and labels are padding. Targets and lengths are i32, i64 or u8. A
    /// target length above the number of labels, a negative length or a label that is the blank fails the
    /// step; an input length above the number of times means all times. The gradient is with respect to the
    /// log-probabilities. PyTorch returns the gradient with respect to the logits instead; after the backward
    /// pass of `log_softmax`, both are the same. A sequence that cannot be aligned has an infinite loss (see
    /// [`CtcOptions::zero_infinity`]) and a gradient of 0.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// // Two times of one sequence: class 1, then the blank.
    /// let loss = eval(|| {
    ///     let logs = literal(&[-1000.0, 0.0, 0.0, -1000.0], [2, 1, 2]);
    ///     let number = |shape: &[usize], n: f64| full(DType::I32, shape.to_vec(), n);
    ///     logs.ctc_loss(number(&[1, 1], 1.0), number(&[1], 2.0), number(&[1], 1.0), CtcOptions::new())
    /// });
    /// assert_eq!(loss, [0.0]);
    /// ```
    #[doc(alias = "CTCLoss")]
    #[op]
    pub fn ctc_loss(
        self,
        targets: Tensor,
        input_lengths: Tensor,
        target_lengths: Tensor,
        options: CtcOptions,
    ) -> Tensor {
        let target_lengths = target_lengths.counted();
        let losses = self.ctc_loss_rows(targets, input_lengths, target_lengths, options);
        (losses / target_lengths.maximum(1).cast(self.dtype())).mean()
    }

    /// Computes the loss of each sequence, `[batch]`, not divided by its length. See [`Tensor::ctc_loss`].
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// // Two sequences of one time, labeled 1: the first gives it half of the probability, the second all.
    /// let losses = eval(|| {
    ///     let logs = literal(&[0.5, 0.5, 0.0, 1.0], [1, 2, 2]).log();
    ///     let ones = |shape: &[usize]| full(DType::I32, shape.to_vec(), 1.0);
    ///     (-logs.ctc_loss_rows(ones(&[2, 1]), ones(&[2]), ones(&[2]), CtcOptions::new())).exp()
    /// });
    /// assert!((losses[0] - 0.5).abs() < 1e-6 && losses[1] == 1.0);
    /// ```
    #[op]
    pub fn ctc_loss_rows(
        self,
        targets: Tensor,
        input_lengths: Tensor,
        target_lengths: Tensor,
        options: CtcOptions,
    ) -> Tensor {
        let [targets, input_lengths, target_lengths] =
            [targets, input_lengths, target_lengths].map(|numbers| numbers.counted());
        let (shape, dtype, labels) = (self.shape(), self.dtype(), targets.shape());
        let batch = shape.get(1).copied().unwrap_or(1);
        let most = labels.last().copied().unwrap_or(0);
        let fits = |x: Tensor, shape: &[usize]| x.ty() == Type::new(DType::I32, shape);
        if !has_floats("ctc_loss", self) {
            return placeholder(DType::F32, [batch]);
        }
        if shape.rank() != 3
            || !fits(targets, &[batch, most])
            || !fits(input_lengths, &[batch])
            || !fits(target_lengths, &[batch])
        {
            let (inputs, numbers) = (input_lengths.ty(), target_lengths.ty());
            let message = format!(
                "`ctc_loss` of {shape} with targets {}, lengths {inputs} and {numbers}",
                targets.ty()
            );
            let help = "log-probabilities are [times, batch, classes], targets [batch, labels], both lengths \
                        [batch], of i32, i64 or u8";
            return refused("ctc_loss", message, help, placeholder(dtype, [batch]));
        }
        let [times, _, classes] = self.dims();
        let CtcOptions { blank, zero_infinity } = options;
        if !usize::try_from(blank).is_ok_and(|blank| blank < classes) {
            let message = format!("`ctc_loss` with the blank {blank} of {shape}");
            let help = format!("it is a class, from 0 to {}", classes.max(1) - 1);
            return refused("ctc_loss", message, help, placeholder(dtype, [batch]));
        }
        // The sequence of states: a blank, a label, a blank, .. and a final blank. Padding of the targets may
        // be any number, so replace it by the blank.
        let none = f64::from(blank);
        let counts = iota(DType::I32, [batch, most], 1).lt(target_lengths.unsqueeze(1));
        // Replace a label that is the blank by the index -1, which is out of range and fails the step.
        let targets = targets.eq(blank).select(-1, targets);
        let places = counts.select(targets, blank).unsqueeze(2).pad(2, 1, 0, none);
        let width = 2 * most + 1;
        let places = places.reshape([batch, width - 1]).pad(1, 0, 1, none);
        let places = input_lengths.lt(0).unsqueeze(1).select(-1, places);
        // The blank between two different labels may be skipped, so a label is also reached from the label
        // two states before it if they differ.
        let before = places.pad(1, 2, 0, none).slice(1, 0..width as isize);
        let skip = places.eq(before).select(NEVER, 0.0);
        let index = places.broadcast_to([times, batch, width]);
        let logs = self.cast(DType::F32).take_along_axis(index, -1).maximum(NEVER);
        let runs = iota(DType::I32, [times, batch, 1], 0).lt(input_lengths.unsqueeze(1));
        // Log-probabilities of all paths to each state, after two columns of padding. Before the first time,
        // only the first blank is reachable; from there, a path continues to the first blank or the first
        // label.
        let first = iota(DType::I32, [batch, width + 2], 1).eq(2).select(0.0, NEVER);
        let (last, ()) = scan(times, first, (logs, runs), |paths, (logs, runs)| {
            let from = |back: isize| paths.slice(1, 2 - back..width as isize + 2 - back);
            let next = log_add(log_add(from(0), from(1)), from(2) + skip) + logs;
            (runs.select(next, from(0)).pad(1, 2, 0, NEVER), ())
        });
        let end = target_lengths * 2;
        let total = log_add(last.take_last(end + 2), last.take_last(end + 1));
        let infinite = if zero_infinity { 0.0 } else { f64::INFINITY };
        total.le(NEVER / 2.0).select(infinite, -total).cast(dtype)
    }
}

/// Computes `log(e^a + e^b)` of finite numbers. Equal numbers each get half of the gradient.
#[track_caller]
fn log_add(a: Tensor, b: Tensor) -> Tensor {
    // Select between the two orders of the operands instead of computing a maximum: each branch is the whole
    // function, so its first and higher derivatives are exact even where a equals b.
    let above = a.gt(b);
    above.select(a, b) + above.select(b - a, a - b).exp().log1p()
}
