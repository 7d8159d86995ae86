//! Formats floats as decimal text, like std's `{}` and `{:?}`.
//!
//! The digits are the shortest that parse back to the same float. In a browser, JavaScript computes the
//! digits because std's code for them would add 7 kB to the compressed module; code compiled for browsers
//! therefore prints floats only through [`Decimal`]. If several shortest representations exist, JavaScript
//! may choose a different one than std; both parse back to the same float.

use std::fmt::{self, Write};

/// A float that displays as decimal text.
#[derive(Clone, Copy)]
pub struct Decimal {
    value: f64,
    /// True if the digits need only identify an `f32`, not an `f64`.
    single: bool,
}

impl From<f64> for Decimal {
    fn from(value: f64) -> Self {
        Self { value, single: false }
    }
}

impl From<f32> for Decimal {
    fn from(value: f32) -> Self {
        Self { value: value.into(), single: true }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, false)
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, true)
    }
}

impl Decimal {
    /// Returns the shortest digits of the float's magnitude in scientific notation: `1.25e-3`.
    fn scientific(self) -> String {
        let size = self.value.abs();
        cfg_select! {
            target_arch = "wasm32" => {
                #[link(wasm_import_module = "host")]
                unsafe extern "C" {
                    fn decimal(size: f64, single: bool, text: *mut u8, room: usize) -> usize;
                }
                // Room for a sign, 17 digits, a point and a signed exponent.
                let mut text = vec![0; 32];
                // SAFETY: `text` is valid for writes of `text.len()` bytes, and the script writes no more.
                let length = unsafe { decimal(size, self.single, text.as_mut_ptr(), text.len()) };
                text.truncate(length);
                String::from_utf8_lossy(&text).into_owned()
            }
            _ => if self.single { format!("{:e}", size as f32) } else { format!("{size:e}") },
        }
    }

    fn write(self, f: &mut fmt::Formatter<'_>, debug: bool) -> fmt::Result {
        if self.value.is_nan() {
            return f.write_str("NaN");
        }
        if self.value.is_sign_negative() {
            f.write_char('-')?;
        }
        if self.value.is_infinite() {
            return f.write_str("inf");
        }
        let size = self.value.abs();
        // Skip the script for integers small enough that all their digits are significant. Most printed
        // floats are such integers.
        if size.fract() == 0.0 && size < if self.single { 1e7 } else { 1e15 } {
            return write!(f, "{}{}", size as u64, if debug { ".0" } else { "" });
        }
        lay_out(&self.scientific(), debug, f)
    }
}

/// Lays out a number in scientific notation as std's `{}` does, or as `{:?}` does if `debug` is true. The
/// debug layout always contains a point and keeps numbers far from 1 in scientific notation.
fn lay_out(scientific: &str, debug: bool, f: &mut impl Write) -> fmt::Result {
    let (size, power) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let power = power.parse::<i32>().unwrap_or(0);
    if debug && !(-4..16).contains(&power) {
        return write!(f, "{size}e{power}");
    }
    let digits: Vec<char> = size.chars().filter(|&c| c != '.').collect();
    let last = (power + 1 - digits.len() as i32).min(if debug { -1 } else { 0 });
    for place in (last..=power.max(0)).rev() {
        if place == -1 {
            f.write_char('.')?;
        }
        f.write_char(*digits.get((power - place) as usize).unwrap_or(&'0'))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_as_std_has_it<T: Copy + fmt::Display + fmt::Debug + Into<Decimal>>(x: T) {
        let decimal: Decimal = x.into();
        assert_eq!(decimal.to_string(), x.to_string());
        assert_eq!(format!("{decimal:?}"), format!("{x:?}"));
    }

    #[test]
    fn floats_are_printed_as_by_std() {
        // Pseudorandom bits, covering all exponents.
        for i in 0..20_000_u64 {
            let bits = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            is_as_std_has_it(f64::from_bits(bits));
            is_as_std_has_it(f32::from_bits((bits >> 32) as u32));
        }
        for i in -20_000..20_000_i32 {
            is_as_std_has_it(f64::from(i) / 1e3);
            is_as_std_has_it(i as f32);
        }
    }

    #[test]
    fn bounds_of_the_notations() {
        for x in [
            0.0,
            1.0,
            1e-4,
            9.99e-5,
            1e15,
            9.99e15,
            1e16,
            9_999_999.0,
            1e7,
            999_999_999_999_999.0,
            1e300,
            f64::MIN_POSITIVE,
            f64::INFINITY,
        ] {
            for x in [x, -x] {
                is_as_std_has_it(x);
                is_as_std_has_it(x as f32);
            }
        }
        is_as_std_has_it(f64::NAN);
    }
}
