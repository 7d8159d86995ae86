//! Functions on `f64` provided by JavaScript.

#[link(wasm_import_module = "host")]
unsafe extern "C" {
    safe fn remainder(x: f64, y: f64) -> f64;
}

pub(crate) fn rem(x: f64, y: f64) -> f64 {
    remainder(x, y)
}

macro_rules! math {
    ($($name:ident)*) => {
        mod math {
            #[link(wasm_import_module = "Math")]
            unsafe extern "C" {
                $(pub(super) safe fn $name(x: f64) -> f64;)*
                pub(super) safe fn pow(x: f64, y: f64) -> f64;
            }
        }
        $(pub(crate) fn $name(x: f64) -> f64 { math::$name(x) })*
        pub(crate) fn pow(x: f64, y: f64) -> f64 {
            // JavaScript returns NaN here, where IEEE 754 requires 1.
            if x == 1.0 || (x == -1.0 && y.is_infinite()) { 1.0 } else { math::pow(x, y) }
        }
    };
}
math! { acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p sin sinh tan tanh }
