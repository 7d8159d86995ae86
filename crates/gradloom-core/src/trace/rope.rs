//! Rotary position embedding.

use super::tensor::{fail_with_help, has_floats, literal};
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
            fail_with_help("rope", format!("`rope` of {shape}"), "it takes [.., time, depth]");
            return self;
        };
        if !has_floats("rope", self) {
            return self;
        }
        if !depth.is_multiple_of(2) {
            let message = format!("`rope` of {shape}: the depth {depth} (last axis) is odd");
            fail_with_help("rope", message, "elements are turned in pairs, so the depth must be even");
            return self;
        }
        if !(base > 0.0 && base.is_finite()) {
            let help = "the base is finite and above 0; 10000 is usual";
            fail_with_help("rope", format!("`rope`: the base is {base}"), help);
            return self;
        }
        let half = depth / 2;
        if half == 0 {
            return self;
        }
        if time.saturating_mul(half) > MOST_ANGLES {
            let message = format!("`rope` of {shape}: more than {MOST_ANGLES} angles");
            fail_with_help("rope", message, "they are constants of the program: take fewer positions");
            return self;
        }
        let (mut cos, mut sin) = (vec![0.0; time * half], vec![0.0; time * half]);
        for (i, (cos, sin)) in cos.iter_mut().zip(&mut sin).enumerate() {
            let angle = (i / half) as f64 * libm::pow(base, -((i % half) as f64) / half as f64);
            (*cos, *sin) = (libm::cos(angle) as f32, libm::sin(angle) as f32);
        }
        let (cos, sin) = (literal(&cos, [time, half]), literal(&sin, [time, half]));
        let (a, b) = (self.slice(-1, 0..half), self.slice(-1, half..depth));
        concat(-1, &[a * cos - b * sin, b * cos + a * sin])
    }
}
