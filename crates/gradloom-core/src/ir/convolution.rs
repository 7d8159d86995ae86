//! Windows along axes, and convolutions over them.

use super::{Shape, TypeError};

/// Windows along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Elements of a window.
    pub size: usize,
    /// Distance from one window to the next.
    pub step: usize,
    /// Distance from one element of a window to the next.
    pub dilation: usize,
}

impl Window {
    /// Returns the number of windows along an axis of this extent; `None` if not even one fits.
    pub fn count(&self, extent: usize) -> Option<usize> {
        Some(self.room(extent)?.checked_div(self.step)? + 1)
    }

    /// Returns the number of elements behind the first window; `None` if it does not fit.
    pub fn room(&self, extent: usize) -> Option<usize> {
        if self.dilation == 0 {
            return None;
        }
        let span = self.size.checked_sub(1)?.checked_mul(self.dilation)?.checked_add(1)?;
        extent.checked_sub(span)
    }
}

/// A convolution as neural networks have it (a cross-correlation) over the last axes.
///
/// Operands: x `[batch, channels, S..]` and weights `[outputs, channels / groups, K..]`, f32, with `outputs`
/// and `channels` multiples of `groups`: group g of the outputs sees group g of the channels. Result:
/// `[batch, outputs, W..]`, at output o and position w the sum over channels c and places k of `weights[o,
/// c, k] · x[c, stride·w - low + dilation·k]`, where x is 0 outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConvSpec {
    /// Distance from one position to the next, for each spatial axis, at least 1.
    pub stride: Vec<usize>,
    /// Zeros before x.
    pub low: Vec<usize>,
    /// Zeros after x.
    pub high: Vec<usize>,
    /// Distance from one element of the weights to the next, at least 1.
    pub dilation: Vec<usize>,
    /// Parts of the channels that do not see each other.
    pub groups: usize,
}

impl ConvSpec {
    /// Returns the shape of the result.
    ///
    /// # Errors
    /// When the operands do not fit each other or the attributes.
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

    /// Returns the number of operations: a multiplication and an addition for each weight that each element
    /// of the result sees.
    pub(crate) fn flops(&self, weights: &Shape, results: u64) -> u64 {
        let each = super::product(weights[1..].iter().copied());
        results.saturating_mul(each).saturating_mul(2)
    }
}
