//! Rotary position embedding.

use super::tensor::{fail, has_floats, literal};
use super::{Tensor, concat};

/// Angles that a program may have as constants: 268 MB of cosines and sines in float32.
const MOST_ANGLES: usize = 1 << 25;

impl Tensor {
    /// Rotary position embedding of queries or keys, f32 `[.., T, D]` with an even `D`, of the same shape.
    ///
    /// Position `t` turns the pair of elements `i` and `i + D/2` of its row by the angle
    /// `θ = t · base^(-2i/D)`: `a cos θ - b sin θ` and `b cos θ + a sin θ`. `base` is usually 10000. Su et
    /// al., "RoFormer", 2021, with halves for pairs as in GPT-NeoX and Llama. The angles are computed in
    /// float64 and become constants of the program.
    #[track_caller]
    pub fn rope(self, base: f64) -> Tensor {
        let shape = self.shape();
        let [.., time, depth] = shape[..] else {
            fail("rope", format!("`rope` of {shape}"), Some("it takes [.., time, depth]".into()));
            return self;
        };
        if !has_floats("rope", self) {
            return self;
        }
        if !depth.is_multiple_of(2) {
            let message = format!("`rope` of {shape}: the depth {depth} (last axis) is odd");
            fail("rope", message, Some("elements are turned in pairs, so the depth must be even".into()));
            return self;
        }
        if !(base > 0.0 && base.is_finite()) {
            let help = "the base is finite and above 0; 10000 is usual".to_string();
            fail("rope", format!("`rope`: the base is {base}"), Some(help));
            return self;
        }
        let half = depth / 2;
        if half == 0 {
            return self;
        }
        if time.saturating_mul(half) > MOST_ANGLES {
            let message = format!("`rope` of {shape}: more than {MOST_ANGLES} angles");
            fail("rope", message, Some("they are constants of the program: take fewer positions".into()));
            return self;
        }
        let angles = (0..time)
            .flat_map(|t| (0..half).map(move |i| t as f64 * libm::pow(base, -(i as f64) / half as f64)));
        let (cos, sin): (Vec<f32>, Vec<f32>) =
            angles.map(|angle| (libm::cos(angle) as f32, libm::sin(angle) as f32)).unzip();
        let (cos, sin) = (literal(&cos, [time, half]), literal(&sin, [time, half]));
        let (a, b) = (self.slice(-1, ..half), self.slice(-1, half..));
        concat(-1, &[a * cos - b * sin, b * cos + a * sin])
    }
}
