//! Sliding windows and convolutions.

use super::{Shape, TypeError};

/// Sliding windows along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Number of elements in a window.
    pub size: usize,
    /// Distance between the starts of consecutive windows.
    pub step: usize,
    /// Distance between consecutive elements of a window.
    pub dilation: usize,
}

impl Window {
    /// Returns the number of windows along an axis of this extent, or `None` if no window fits.
    pub fn count(&self, extent: usize) -> Option<usize> {
        Some(self.room(extent)?.checked_div(self.step)? + 1)
    }

    /// Returns the number of elements after the first window, or `None` if no window fits.
    pub fn room(&self, extent: usize) -> Option<usize> {
        if self.dilation == 0 {
            return None;
        }
        let span = self.size.checked_sub(1)?.checked_mul(self.dilation)?.checked_add(1)?;
        extent.checked_sub(span)
    }
}

/// A neural-network convolution (cross-correlation) over the last axes.
///
/// Operands: x `[batch, channels, S..]` and weights `[outputs, channels / groups, K..]`, both f32, where
/// `outputs` and `channels` are multiples of `groups`, and output group g uses only channel group g. The
/// result is `[batch, outputs, W..]`. Its element at output o and position w is the sum over channels c and
/// kernel positions k of `weights[o, c, k] · x[c, stride·w - low + dilation·k]`, where x is 0 outside its
/// bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConvSpec {
    /// Distance between consecutive window positions for each spatial axis, at least 1.
    pub stride: Vec<usize>,
    /// Number of zeros before x on each spatial axis.
    pub low: Vec<usize>,
    /// Number of zeros after x on each spatial axis.
    pub high: Vec<usize>,
    /// Distance between the input elements of consecutive weights on each spatial axis, at least 1.
    pub dilation: Vec<usize>,
    /// Number of groups. The outputs of a group depend only on the channels of that group.
    pub groups: usize,
}

impl ConvSpec {
    /// Returns the shape of the result.
    ///
    /// # Errors
    /// Returns an error if the operands are incompatible with each other or with the attributes.
    pub fn result_shape(&self, x: &Shape, weights: &Shape) -> Result<Shape, TypeError> {
        let axes = self.stride.len();
        let fail = |message: String, help: &str| Err(TypeError::new(message).help(help));
        let lists = [&self.low, &self.high, &self.dilation];
        if axes == 0 || lists.iter().any(|list| list.len() != axes) {
            return fail(
                "conv: stride, padding and dilation do not have as many axes".into(),
                "give each a number for each spatial axis",
            );
        }
        if x.rank() != axes + 2 || weights.rank() != axes + 2 {
            return fail(
                format!("conv over {axes} axes of {x} with weights {weights}"),
                "x is [batch, channels, S..], the weights [outputs, channels / groups, K..]",
            );
        }
        let groups = self.groups;
        if groups == 0 || !x[1].is_multiple_of(groups) || !weights[0].is_multiple_of(groups) {
            return fail(
                format!("conv: {} channels and {} outputs in {groups} groups", x[1], weights[0]),
                "both must be multiples of the groups",
            );
        }
        if weights[1] != x[1] / groups {
            return fail(
                format!("conv of {x} with weights {weights} in {groups} groups: the channels differ"),
                "the second extent of the weights is the channels of x, divided by the groups",
            );
        }
        let mut extents = vec![x[0], weights[0]];
        for axis in 0..axes {
            let padded = x[axis + 2].saturating_add(self.low[axis]).saturating_add(self.high[axis]);
            let window = self.window(axis, weights);
            let Some(count) = window.count(padded) else {
                return fail(
                    format!(
                        "conv of {x} with weights {weights}: spatial axis {axis} has {padded} elements with its \
                         padding, stride {} and dilation {}",
                        window.step, window.dilation
                    ),
                    "the dilated weights must fit into the padded input; stride and dilation are at least 1",
                );
            };
            extents.push(count);
        }
        Ok(extents.into())
    }

    /// Returns the windows of the weights along a spatial axis.
    pub fn window(&self, axis: usize, weights: &Shape) -> Window {
        Window { size: weights[axis + 2], step: self.stride[axis], dilation: self.dilation[axis] }
    }

    /// Returns the number of floating-point operations: a multiplication and an addition per result element
    /// and weight of its output.
    pub(crate) fn flops(&self, weights: &Shape, results: u64) -> u64 {
        let each = super::product(weights[1..].iter().copied());
        results.saturating_mul(each).saturating_mul(2)
    }
}
