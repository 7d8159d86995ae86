//! Arrays of dual numbers, which define small programs independently of the compiler.
//!
//! In: values of leaves. Out: the value of each element, and its derivatives with respect to every element of
//! every leaf (forward-mode differentiation). Invariant: nothing here calls the tracer, the graph or the
//! reference evaluator, so that an error common to all of them is found.

use std::ops::{Add, Mul};

/// Difference between two numbers below which rounding may decide which is larger.
const NEAR: f64 = 1e-5;

/// Number with its derivatives with respect to every element of every leaf.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dual {
    pub(super) value: f64,
    pub(super) slope: Vec<f64>,
}

impl Dual {
    /// Returns a constant, whose `leaves` derivatives are 0.
    pub(super) fn constant(value: f64, leaves: usize) -> Self {
        Self { value, slope: vec![0.0; leaves] }
    }

    /// Applies a function, given its value and derivative at this number.
    pub(super) fn map(&self, value: f64, derivative: f64) -> Self {
        Self { value, slope: self.slope.iter().map(|s| chain(derivative, *s)).collect() }
    }

    pub(super) fn scaled(&self, factor: f64) -> Self {
        self.map(self.value * factor, factor)
    }

    /// Returns the larger number, or a NaN if there is one, and whether rounding may decide which is larger.
    pub(super) fn larger<'a>(&'a self, other: &'a Self) -> (&'a Self, bool) {
        let near = (self.value - other.value).abs() < NEAR && self.slope != other.slope;
        (if other.value > self.value || other.value.is_nan() { other } else { self }, near)
    }
}

/// Multiplies two derivatives by the chain rule; 0 times any derivative, even infinity or NaN, is 0.
fn chain(outer: f64, inner: f64) -> f64 {
    if outer == 0.0 || inner == 0.0 { 0.0 } else { outer * inner }
}

impl Add for &Dual {
    type Output = Dual;

    fn add(self, other: Self) -> Dual {
        let slope = self.slope.iter().zip(&other.slope).map(|(a, b)| a + b).collect();
        Dual { value: self.value + other.value, slope }
    }
}

impl Mul for &Dual {
    type Output = Dual;

    fn mul(self, other: Self) -> Dual {
        let (left, right) = (self.scaled(other.value), other.scaled(self.value));
        Dual { value: self.value * other.value, ..&left + &right }
    }
}

/// Array in row-major order.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) shape: Vec<usize>,
    pub(super) elements: Vec<Dual>,
    /// Number of derivatives of each element.
    pub(super) leaves: usize,
    /// True if a choice between nearly equal values decided an element, so that derivatives cannot be
    /// compared.
    pub(super) kinked: bool,
}

/// Calls `visit` with every index of a shape, in row-major order.
pub(super) fn each_index(shape: &[usize], mut visit: impl FnMut(&[usize])) {
    let count: usize = shape.iter().product();
    let mut index = vec![0; shape.len()];
    for _ in 0..count {
        visit(&index);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

impl Array {
    pub(super) fn at(&self, index: &[usize]) -> &Dual {
        let place = index.iter().zip(&self.shape).fold(0, |place, (i, extent)| place * extent + i);
        &self.elements[place]
    }

    /// Returns an array with the given shape, whose elements are computed from their indices.
    pub(super) fn build(&self, shape: &[usize], mut element: impl FnMut(&[usize]) -> Dual) -> Self {
        let mut elements = Vec::new();
        each_index(shape, |index| elements.push(element(index)));
        Self { shape: shape.to_vec(), elements, leaves: self.leaves, kinked: self.kinked }
    }

    /// Returns an array of elements of this one. `source` returns the index of an element, or `None` for the
    /// constant `outside`.
    pub(super) fn pick(
        &self,
        shape: &[usize],
        outside: f64,
        source: impl Fn(&[usize]) -> Option<Vec<usize>>,
    ) -> Self {
        self.build(shape, |index| match source(index) {
            Some(from) => self.at(&from).clone(),
            None => Dual::constant(outside, self.leaves),
        })
    }

    /// Broadcasts the array to a shape, aligned at the last axis.
    pub(super) fn broadcast(&self, shape: &[usize]) -> Self {
        let lead = shape.len() - self.shape.len();
        self.pick(shape, 0.0, |index| {
            Some(self.shape.iter().zip(&index[lead..]).map(|(&n, &i)| if n == 1 { 0 } else { i }).collect())
        })
    }

    /// Applies a function that returns its value and derivative.
    pub(super) fn map(&self, function: impl Fn(f64) -> (f64, f64)) -> Self {
        let elements = self.elements.iter().map(|x| {
            let (value, derivative) = function(x.value);
            x.map(value, derivative)
        });
        Self { elements: elements.collect(), ..self.clone() }
    }

    /// Combines two arrays of the same shape element by element.
    pub(super) fn zip(&self, other: &Self, function: impl Fn(&Dual, &Dual) -> Dual) -> Self {
        let elements = self.elements.iter().zip(&other.elements).map(|(a, b)| function(a, b)).collect();
        Self { elements, kinked: self.kinked || other.kinked, ..self.clone() }
    }

    /// Returns the larger element of each pair.
    pub(super) fn max(&self, other: &Self) -> Self {
        let kinked = self.elements.iter().zip(&other.elements).any(|(a, b)| a.larger(b).1);
        let mut larger = self.zip(other, |a, b| a.larger(b).0.clone());
        larger.kinked |= kinked;
        larger
    }

    /// Combines the elements along an axis, from first to last; `empty` is the result for no elements.
    pub(super) fn fold(
        &self,
        axis: usize,
        empty: f64,
        combine: impl Fn(&Dual, &Dual) -> (Dual, bool),
    ) -> Self {
        let mut shape = self.shape.clone();
        let extent = shape.remove(axis);
        let mut kinked = self.kinked;
        let mut folded = self.build(&shape, |index| {
            let mut from = index.to_vec();
            from.insert(axis, 0);
            let mut total: Option<Dual> = None;
            for i in 0..extent {
                from[axis] = i;
                let element = self.at(&from);
                total = Some(match total {
                    None => element.clone(),
                    Some(total) => {
                        let (total, near) = combine(&total, element);
                        kinked |= near;
                        total
                    }
                });
            }
            total.unwrap_or_else(|| Dual::constant(empty, self.leaves))
        });
        folded.kinked = kinked;
        folded
    }

    pub(super) fn sum(&self, axis: usize) -> Self {
        self.fold(axis, 0.0, |a, b| (a + b, false))
    }

    /// Returns the array with an additional axis of extent 1.
    pub(super) fn unsqueeze(&self, axis: usize) -> Self {
        let mut shape = self.shape.clone();
        shape.insert(axis, 1);
        Self { shape, ..self.clone() }
    }
}
