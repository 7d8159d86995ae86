//! Ops of small programs, each implemented twice: with the methods that users call, and by definition.

use super::dual::{Array, Dual};
use gradloom_core::ir::DType;
use gradloom_core::trace::{ConvOptions, PoolOptions, Tensor, concat, literal, stack};

/// Function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Three times the number.
    Triple,
    /// Hyperbolic tangent.
    Tanh,
    /// Exponential function.
    Exp,
    /// The number if it is positive, otherwise 0.
    Relu,
}

/// Function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// The larger number.
    Max,
}

/// Reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Sum.
    Sum,
    /// Arithmetic mean.
    Mean,
    /// Product.
    Prod,
    /// Largest element.
    Max,
}

/// Sliding window of pooling and convolution, with the same parameters along each spatial axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sliding {
    /// Number of spatial axes, 1 or 2.
    pub axes: usize,
    /// Number of elements of a window along an axis.
    pub size: usize,
    /// Distance between the starts of adjacent windows, in elements.
    pub stride: usize,
    /// Number of elements added at each end of an axis.
    pub padding: usize,
    /// Distance between adjacent elements of a window.
    pub dilation: usize,
}

impl Sliding {
    /// Returns the number of windows along an axis; `None` if no window fits.
    pub fn count(self, extent: usize) -> Option<usize> {
        let span = (self.size - 1) * self.dilation + 1;
        Some((extent + 2 * self.padding).checked_sub(span)? / self.stride + 1)
    }

    fn shape(self, shape: &[usize]) -> Vec<usize> {
        let lead = shape.len() - self.axes;
        let windows = shape[lead..].iter().map(|&n| self.count(n).expect("only legal windows are made"));
        shape[..lead].iter().copied().chain(windows).collect()
    }
}

/// Op of a small program.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named and documented as the methods of `Tensor` that they call")]
pub enum Op {
    Reshape(Vec<usize>),
    Permute(Vec<usize>),
    Broadcast(Vec<usize>),
    Slice {
        axis: usize,
        start: usize,
        end: usize,
        step: usize,
    },
    Flip(usize),
    Roll {
        axis: usize,
        shift: isize,
    },
    Pad {
        axis: usize,
        low: usize,
        high: usize,
    },
    Unfold {
        axis: usize,
        size: usize,
        step: usize,
    },
    Unary(Function),
    /// Broadcasts both operands.
    Binary(Pair),
    Reduce {
        op: Reduction,
        axes: Vec<usize>,
    },
    CumulativeSum(usize),
    Softmax(usize),
    Matmul,
    Concat(usize),
    Stack(usize),
    IndexSelect {
        axis: usize,
        index: Vec<usize>,
    },
    ScatterAdd {
        axis: usize,
        index: Vec<usize>,
    },
    Scatter {
        axis: usize,
        index: Vec<usize>,
    },
    Conv(Sliding),
    MaxPool(Sliding),
    MeanPool(Sliding),
}

fn integers(index: &[usize]) -> Tensor {
    let numbers: Vec<f32> = index.iter().map(|&i| i as f32).collect();
    literal(&numbers, [index.len()]).cast(DType::I32)
}

/// Broadcasts a vector of indices along the other axes.
fn indices_along(index: &[usize], axis: usize, shape: &[usize]) -> Tensor {
    let mut all = shape.to_vec();
    all[axis] = index.len();
    let mut column = vec![1; shape.len()];
    column[axis] = index.len();
    integers(index).reshape(column).broadcast_to(all)
}

fn signed(axes: &[usize]) -> Vec<isize> {
    axes.iter().map(|&axis| axis as isize).collect()
}

impl Op {
    /// Adds the op to the open trace.
    pub(super) fn trace(&self, operands: &[Tensor]) -> Tensor {
        let x = operands[0];
        match self {
            Op::Reshape(shape) => x.reshape(shape.clone()),
            Op::Permute(order) => x.permute(signed(order)),
            Op::Broadcast(shape) => x.broadcast_to(shape.clone()),
            &Op::Slice { axis, start, end, step } => x.slice_step(axis as isize, start..end, step),
            &Op::Flip(axis) => x.flip(axis as isize),
            &Op::Roll { axis, shift } => x.roll(axis as isize, shift),
            &Op::Pad { axis, low, high } => x.pad(axis as isize, low, high, 0.0),
            &Op::Unfold { axis, size, step } => x.unfold(axis as isize, size, step),
            Op::Unary(Function::Triple) => x * 3.0,
            Op::Unary(Function::Tanh) => x.tanh(),
            Op::Unary(Function::Exp) => x.exp(),
            Op::Unary(Function::Relu) => x.relu(),
            Op::Binary(pair) => match pair {
                Pair::Add => x + operands[1],
                Pair::Sub => x - operands[1],
                Pair::Mul => x * operands[1],
                Pair::Max => x.maximum(operands[1]),
            },
            Op::Reduce { op, axes } => match op {
                Reduction::Sum => x.sum_axes(signed(axes)),
                Reduction::Mean => x.mean_axes(signed(axes)),
                Reduction::Prod => x.prod_axes(signed(axes)),
                Reduction::Max => x.max_axes(signed(axes)),
            },
            &Op::CumulativeSum(axis) => x.cumsum(axis as isize),
            &Op::Softmax(axis) => x.softmax(axis as isize),
            Op::Matmul => x.matmul(operands[1]),
            &Op::Concat(axis) => concat(axis as isize, operands),
            &Op::Stack(axis) => stack(axis as isize, operands),
            Op::IndexSelect { axis, index } => x.index_select(*axis as isize, integers(index)),
            Op::ScatterAdd { axis, index } => {
                let places = indices_along(index, *axis, &x.shape());
                x.scatter_add(places, operands[1], *axis as isize)
            }
            Op::Scatter { axis, index } => {
                let places = indices_along(index, *axis, &x.shape());
                x.scatter(places, operands[1], *axis as isize)
            }
            Op::Conv(window) => {
                let options = ConvOptions::new()
                    .stride(window.stride)
                    .padding(window.padding)
                    .dilation(window.dilation);
                match window.axes {
                    1 => x.conv1d(operands[1], options),
                    _ => x.conv2d(operands[1], options),
                }
            }
            Op::MaxPool(window) => {
                let options = PoolOptions::new().stride(window.stride).padding(window.padding);
                match window.axes {
                    1 => x.max_pool1d(window.size, options),
                    _ => x.max_pool2d(window.size, options),
                }
            }
            Op::MeanPool(window) => {
                let options = PoolOptions::new().stride(window.stride).padding(window.padding);
                match window.axes {
                    1 => x.avg_pool1d(window.size, options),
                    _ => x.avg_pool2d(window.size, options),
                }
            }
        }
    }

    /// Computes the result by definition.
    pub(super) fn compute(&self, operands: &[&Array]) -> Array {
        let mut result = self.defined(operands);
        result.kinked |= operands.iter().any(|operand| operand.kinked);
        result
    }

    fn defined(&self, operands: &[&Array]) -> Array {
        let x = operands[0];
        match self {
            Op::Reshape(shape) => Array { shape: shape.clone(), ..x.clone() },
            Op::Permute(order) => {
                let shape: Vec<usize> = order.iter().map(|&axis| x.shape[axis]).collect();
                x.pick(&shape, 0.0, |index| {
                    let mut from = vec![0; order.len()];
                    order.iter().zip(index).for_each(|(&axis, &i)| from[axis] = i);
                    Some(from)
                })
            }
            Op::Broadcast(shape) => x.broadcast(shape),
            &Op::Slice { axis, start, end, step } => {
                x.moved(axis, (end - start).div_ceil(step), |i| Some(start + i * step))
            }
            &Op::Flip(axis) => x.moved(axis, x.shape[axis], |i| Some(x.shape[axis] - 1 - i)),
            &Op::Roll { axis, shift } => {
                let extent = x.shape[axis] as isize;
                x.moved(axis, x.shape[axis], |i| Some((i as isize - shift).rem_euclid(extent) as usize))
            }
            &Op::Pad { axis, low, high } => x.moved(axis, low + x.shape[axis] + high, |i| {
                i.checked_sub(low).filter(|from| *from < x.shape[axis])
            }),
            &Op::Unfold { axis, size, step } => {
                let mut shape = x.shape.clone();
                shape[axis] = (shape[axis] - size) / step + 1;
                shape.push(size);
                x.pick(&shape, 0.0, |index| {
                    let mut from = index[..index.len() - 1].to_vec();
                    from[axis] = from[axis] * step + index[index.len() - 1];
                    Some(from)
                })
            }
            Op::Unary(Function::Triple) => x.map(|v| (3.0 * v, 3.0)),
            Op::Unary(Function::Tanh) => x.map(|v| (v.tanh(), 1.0 - v.tanh() * v.tanh())),
            Op::Unary(Function::Exp) => x.map(|v| (v.exp(), v.exp())),
            Op::Unary(Function::Relu) => {
                let zero = x.map(|_| (0.0, 0.0));
                x.max(&zero)
            }
            Op::Binary(pair) => {
                let shape = broadcast_shape(&x.shape, &operands[1].shape).expect("only legal pairs are made");
                let (a, b) = (x.broadcast(&shape), operands[1].broadcast(&shape));
                match pair {
                    Pair::Add => a.zip(&b, |a, b| a + b),
                    Pair::Sub => a.zip(&b, |a, b| a + &b.scaled(-1.0)),
                    Pair::Mul => a.zip(&b, |a, b| a * b),
                    Pair::Max => a.max(&b),
                }
            }
            Op::Reduce { op, axes } => x.reduce(*op, axes),
            &Op::CumulativeSum(axis) => {
                let mut total = x.clone();
                for i in 1..x.shape[axis] {
                    total = total.build(&x.shape, |index| match index[axis] == i {
                        true => {
                            let mut before = index.to_vec();
                            before[axis] = i - 1;
                            total.at(index) + total.at(&before)
                        }
                        false => total.at(index).clone(),
                    });
                }
                total
            }
            &Op::Softmax(axis) => {
                let powers = x.map(|v| (v.exp(), v.exp()));
                let sums = powers.sum(axis).map(|v| (1.0 / v, -1.0 / (v * v)));
                powers.zip(&sums.unsqueeze(axis).broadcast(&x.shape), |a, b| a * b)
            }
            Op::Matmul => matmul(x, operands[1]),
            &Op::Concat(axis) => {
                let first = x.shape[axis];
                let mut shape = x.shape.clone();
                shape[axis] += operands[1].shape[axis];
                x.build(&shape, |index| {
                    let mut from = index.to_vec();
                    let part = usize::from(index[axis] >= first);
                    from[axis] -= part * first;
                    operands[part].at(&from).clone()
                })
            }
            &Op::Stack(axis) => {
                let mut shape = x.shape.clone();
                shape.insert(axis, 2);
                x.build(&shape, |index| {
                    let mut from = index.to_vec();
                    let part = from.remove(axis);
                    operands[part].at(&from).clone()
                })
            }
            Op::IndexSelect { axis, index } => x.moved(*axis, index.len(), |i| Some(index[i])),
            Op::ScatterAdd { axis, index } => put(x, operands[1], *axis, index, |old, new| old + new),
            Op::Scatter { axis, index } => put(x, operands[1], *axis, index, |_, new| new.clone()),
            Op::Conv(window) => conv(x, operands[1], *window),
            Op::MaxPool(window) => {
                let outside = Dual::constant(f64::NEG_INFINITY, x.leaves);
                pool(x, *window, &outside, |a, b| {
                    let (larger, near) = a.larger(b);
                    (larger.clone(), near)
                })
            }
            Op::MeanPool(window) => {
                let outside = Dual::constant(0.0, x.leaves);
                let sums = pool(x, *window, &outside, |a, b| (a + b, false));
                let share = 1.0 / window.size.pow(window.axes as u32) as f64;
                sums.map(|v| (v * share, share))
            }
        }
    }
}

impl Array {
    /// Returns the array with another extent along an axis. `source` maps an index along the axis to the
    /// index of the source element; `None` results in 0.
    fn moved(&self, axis: usize, extent: usize, source: impl Fn(usize) -> Option<usize>) -> Self {
        let mut shape = self.shape.clone();
        shape[axis] = extent;
        self.pick(&shape, 0.0, |index| {
            let mut from = index.to_vec();
            from[axis] = source(index[axis])?;
            Some(from)
        })
    }

    fn reduce(&self, op: Reduction, axes: &[usize]) -> Self {
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        let count: usize = axes.iter().map(|&axis| self.shape[axis]).product();
        let mut result = self.clone();
        for axis in axes.into_iter().rev() {
            result = match op {
                Reduction::Sum | Reduction::Mean => result.sum(axis),
                Reduction::Prod => result.fold(axis, 1.0, |a, b| (a * b, false)),
                Reduction::Max => result.fold(axis, f64::NEG_INFINITY, |a, b| {
                    let (larger, near) = a.larger(b);
                    (larger.clone(), near)
                }),
            };
        }
        match op {
            Reduction::Mean => result.map(|v| (v / count as f64, 1.0 / count as f64)),
            _ => result,
        }
    }
}

/// Returns the common broadcast shape, if there is one.
pub(super) fn broadcast_shape(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let extent =
        |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
    (0..rank)
        .map(|axis| match (extent(a, axis), extent(b, axis)) {
            (1, n) | (n, 1) => Some(n),
            (n, m) => (n == m).then_some(n),
        })
        .collect()
}

/// Computes a product of matrices, or of batches with equal extents.
fn matmul(a: &Array, b: &Array) -> Array {
    let inner = a.shape.len() - 1;
    let shared = b.shape.len() > 2;
    let mut shape = a.shape.clone();
    shape[inner] = b.shape[b.shape.len() - 1];
    a.build(&shape, |index| {
        let (mut left, column) = (index.to_vec(), index[inner]);
        let mut right = if shared { index.to_vec() } else { vec![0, column] };
        let mut sum = Dual::constant(0.0, a.leaves);
        for k in 0..a.shape[inner] {
            left[inner] = k;
            let at = right.len() - 2;
            right[at] = k;
            sum = &sum + &(a.at(&left) * b.at(&right));
        }
        sum
    })
}

fn put(
    x: &Array,
    updates: &Array,
    axis: usize,
    index: &[usize],
    combine: impl Fn(&Dual, &Dual) -> Dual,
) -> Array {
    x.build(&x.shape, |at| {
        let mut element = x.at(at).clone();
        for (k, _) in index.iter().enumerate().filter(|(_, place)| **place == at[axis]) {
            let mut from = at.to_vec();
            from[axis] = k;
            element = combine(&element, updates.at(&from));
        }
        element
    })
}

/// Combines the elements of each window in row-major order.
fn pool(x: &Array, window: Sliding, outside: &Dual, combine: impl Fn(&Dual, &Dual) -> (Dual, bool)) -> Array {
    let mut kinked = false;
    let mut pooled = x.build(&window.shape(&x.shape), |index| {
        let mut total: Option<Dual> = None;
        each_place(window, |place| {
            let element = x.padded(index, place, window).unwrap_or(outside);
            total = Some(match &total {
                None => element.clone(),
                Some(total) => {
                    let (total, near) = combine(total, element);
                    kinked |= near;
                    total
                }
            });
        });
        total.expect("windows have elements")
    });
    pooled.kinked |= kinked;
    pooled
}

fn each_place(window: Sliding, visit: impl FnMut(&[usize])) {
    super::dual::each_index(&vec![window.size; window.axes], visit);
}

impl Array {
    /// Returns the element at a position in the window at an index; `None` in the padding.
    fn padded(&self, index: &[usize], place: &[usize], window: Sliding) -> Option<&Dual> {
        let lead = self.shape.len() - window.axes;
        let mut from = index.to_vec();
        for (axis, &within) in place.iter().enumerate() {
            let at = index[lead + axis] * window.stride + within * window.dilation;
            from[lead + axis] = at.checked_sub(window.padding).filter(|at| *at < self.shape[lead + axis])?;
        }
        Some(self.at(&from))
    }
}

fn conv(x: &Array, weights: &Array, window: Sliding) -> Array {
    let mut shape = window.shape(&x.shape);
    shape[1] = weights.shape[0];
    x.build(&shape, |index| {
        let mut sum = Dual::constant(0.0, x.leaves);
        for channel in 0..x.shape[1] {
            let mut at = index.to_vec();
            at[1] = channel;
            each_place(window, |place| {
                if let Some(element) = x.padded(&at, place, window) {
                    let weight = [&[index[1], channel], place].concat();
                    sum = &sum + &(element * weights.at(&weight));
                }
            });
        }
        sum
    })
}
