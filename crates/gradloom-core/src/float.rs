//! Functions on `f64` from libm, so that all platforms compute the same bits. In a browser, all except the
//! error function come from JavaScript's `Math` instead, which adds no code to the module.

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

        /// Returns the remainder of `x / y` with the sign of `x`.
        pub(crate) fn rem(x: f64, y: f64) -> f64 {
            x % y
        }
    }
}
