//! Random numbers: counter-based, so that a run can be repeated, resumed, and moved between backends bit for
//! bit.

use super::scope::{RNG_SCALARS, with_scope};
use super::tensor::{emit, fail, full};
use super::{Tensor, is_training};
use crate::ir::{DType, OpKind, Shape};

/// Uniform f32 numbers in
/// `[0, 1)`, multiples of 2^-24, keyed by (seed, attempted step, place in the model, element).
#[track_caller]
pub fn uniform(shape: impl Into<Shape>) -> Tensor {
    let shape = shape.into();
    let (key, site, allowed) = with_scope(|scope| {
        let key = RNG_SCALARS.map(|name| {
            let value = scope.scalar(name, DType::U32);
            scope.tensor(value)
        });
        let (site, allowed) = scope.next_site();
        (key, site, allowed)
    });
    if !allowed {
        fail(
            "uniform",
            "random numbers inside `scan` would be the same in every repetition",
            Some("draw them outside, stacked along the first axis".into()),
        );
    }
    let bits = emit(OpKind::RandomBits { shape, site }, &key, "uniform");
    // 24 random bits fill an f32's significand, so that 1.0 cannot come out by rounding.
    bits.shift_right(8).cast(DType::F32) * full(DType::F32, Shape::scalar(), 1.0 / f64::from(1 << 24))
}

impl Tensor {
    /// While a training loss is traced: zero with probability `p` in `0..=1`, else `x / (1 - p)`. Otherwise
    /// `x`. Srivastava et al., JMLR 2014.
    #[track_caller]
    pub fn dropout(self, p: f64) -> Tensor {
        if !(0.0..=1.0).contains(&p) {
            fail("dropout", format!("the probability {p} is not in 0..=1"), None);
            return self;
        }
        if p == 0.0 || !is_training() {
            return self;
        }
        if p == 1.0 {
            return full(self.dtype(), self.shape(), 0.0);
        }
        uniform(self.shape()).ge(p).select(self * (1.0 / (1.0 - p)), 0.0)
    }
}
