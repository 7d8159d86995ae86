//! Rotary position embedding.

use super::tensor::{constant, has_floats, refused};
use super::{Tensor, concat, op};
use crate::decimal::Decimal;
use crate::float;
use crate::ir::{DType, Type};

/// Maximum number of angles in a call: 268 MB of constant cosines and sines in f32.
const MOST_ANGLES: usize = 1 << 25;

impl Tensor {
    /// Applies rotary position embedding to queries or keys, f32 `[.., T, D]` with an even `D`. The result
    /// has the same shape.
    ///
    /// At position `t`, elements `i` and `i + D/2`, as a pair (a, b), are rotated by the angle
    /// `θ = t · base^(-2i/D)`, to `a cos θ - b sin θ` and `b cos θ + a sin θ`. `base` is usually 10000. The
    /// method is from Su et al., "RoFormer", 2021; GPT-NeoX and Llama form the pairs in the same way. The
    /// angles are computed in f64, and their cosines and sines become constants of the program.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// assert_eq!(eval(|| full(DType::F32, [1, 2], 3.0).rope(10_000.0)), [3.0, 3.0]);
    /// ```
    #[op]
    pub fn rope(self, base: f64) -> Tensor {
        let shape = self.shape();
        let time = shape[..].iter().rev().nth(1).copied().unwrap_or(0);
        match self.angles("rope", time, base) {
            Some([cos, sin]) => self.turned(cos, sin),
            None => self,
        }
    }

    /// Applies [`Tensor::rope`] at given positions, as for generation with cached keys. `positions` are i32
    /// `[T]` or, for f32 `[batch, .., T, D]`, `[batch, T]`; they must be below `context`. A position out of
    /// range fails the step.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = full(DType::F32, [1, 2], 3.0);
    ///     x.rope_at(literal(&[0.0], [1]).cast(DType::I32), 8, 10_000.0)
    /// });
    /// assert_eq!(y, [3.0, 3.0]);
    /// ```
    #[op]
    pub fn rope_at(self, positions: Tensor, context: usize, base: f64) -> Tensor {
        let positions = positions.counted();
        let (shape, at) = (self.shape(), positions.ty());
        let fits = at.dtype == DType::I32
            && match (&shape[..], &at.shape[..]) {
                ([.., time, _], [own]) => own == time,
                ([batch, .., time, _], [rows, own]) if shape.rank() >= 3 => rows == batch && own == time,
                _ => false,
            };
        if !fits {
            let message = format!("`rope_at` of {shape} at positions {at}");
            return refused("rope_at", message, "positions are i32, [time] or [batch, time]", self);
        }
        let Some(tables) = self.angles("rope_at", context, base) else { return self };
        let [cos, sin] = tables.map(|table| {
            let rows = table.gather_rows(positions);
            let mut extents = rows.shape().to_vec();
            if at.shape.rank() == 2 {
                extents.splice(1..1, vec![1; shape.rank() - 3]);
            }
            rows.reshape(extents)
        });
        self.turned(cos, sin)
    }

    /// Returns the cosines and sines, each `[positions, D/2]`, for rows of `D` elements. Returns `None` after
    /// an error of the op `token`, or if `D` is 0.
    #[track_caller]
    fn angles(self, token: &str, positions: usize, base: f64) -> Option<[Tensor; 2]> {
        let shape = self.shape();
        let [.., _, depth] = shape[..] else {
            return refused(token, format!("`{token}` of {shape}"), "it takes [.., time, depth]", None);
        };
        if !has_floats(token, self) {
            return None;
        }
        if !depth.is_multiple_of(2) {
            let message = format!("`{token}` of {shape}: the depth {depth} (last axis) is odd");
            return refused(token, message, "elements are turned in pairs, so the depth must be even", None);
        }
        if !(base > 0.0 && base.is_finite()) {
            let help = "the base is finite and above 0; 10000 is usual";
            return refused(token, format!("`{token}`: the base is {}", Decimal::from(base)), help, None);
        }
        let half = depth / 2;
        if half == 0 {
            return None;
        }
        if positions.saturating_mul(half) > MOST_ANGLES {
            let message = format!("`{token}` of {shape}: more than {MOST_ANGLES} angles");
            return refused(token, message, "they are constants of the program: take fewer positions", None);
        }
        let angle = |i: usize| (i / half) as f64 * float::pow(base, -((i % half) as f64) / half as f64);
        Some([float::cos as fn(f64) -> f64, float::sin].map(|function| {
            let table: Vec<f64> = (0..positions * half).map(|i| function(angle(i))).collect();
            constant(&table, Type::new(DType::F32, [positions, half]))
        }))
    }

    /// Rotates each pair of elements i and `i + D/2` of each row.
    #[track_caller]
    fn turned(self, cos: Tensor, sin: Tensor) -> Tensor {
        let (shape, axis) = (self.shape(), self.rank() - 1);
        let (cos, sin) = (cos.cast(self.dtype()), sin.cast(self.dtype()));
        let (a, b) = (self.slice(-1, 0..shape[axis] / 2), self.slice(-1, shape[axis] / 2..));
        concat(-1, &[a * cos - b * sin, b * cos + a * sin])
    }
}
