//! Functions of float64: libm's, so that every platform gives the same bits; in a browser JavaScript's
//! `Math`, which is there already, and of which the error function alone is missing.

pub(crate) use libm::erf;

cfg_select! {
    target_arch = "wasm32" => {
        mod script;
        pub(crate) use script::*;
    }
    _ => {
        pub(crate) use libm::{
            acos, acosh, asin, asinh, atan, atanh, cos, cosh, exp, expm1, log, log1p, pow, sin, sinh, tan, tanh,
        };

        /// Returns the rest of `x` after a division by `y` that is rounded towards zero.
        pub(crate) fn rem(x: f64, y: f64) -> f64 {
            x % y
        }
    }
}
