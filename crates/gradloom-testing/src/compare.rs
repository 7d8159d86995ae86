//! Compares two evaluations.

use crate::values;
use gradloom_core::ir::DType;
use gradloom_core::reference::Evaluation;

/// Maximum difference between two numbers.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Difference relative to the larger number.
    pub relative: f64,
    /// Absolute difference that is always accepted.
    pub absolute: f64,
}

impl Tolerance {
    fn accepts(self, a: f64, b: f64) -> bool {
        a == b
            || (a.is_nan() && b.is_nan())
            || (a - b).abs() <= self.absolute.max(self.relative * a.abs().max(b.abs()))
    }
}

/// Compares two evaluations within a tolerance; integers and bools must be equal.
///
/// # Errors
/// Returns a description of the first value that differs by more.
pub fn same(got: &Evaluation, want: &Evaluation, tolerance: Tolerance) -> Result<(), String> {
    if got.not_finite != want.not_finite {
        return Err(format!("the guard {:?} is not finite, expected {:?}", got.not_finite, want.not_finite));
    }
    let (count, wanted) = (values(got).count(), values(want).count());
    if count != wanted {
        return Err(format!("{count} values, expected {wanted}"));
    }
    for ((name, got), (_, want)) in values(got).zip(values(want)) {
        if got.ty != want.ty {
            return Err(format!("{name} is {}, expected {}", got.ty, want.ty));
        }
        for (at, (a, b)) in got.to_f64().into_iter().zip(want.to_f64()).enumerate() {
            let close = if got.ty.dtype == DType::F32 { tolerance.accepts(a, b) } else { a == b };
            if !close {
                return Err(format!("element {at} of {name} is {a:e}, expected {b:e} ({tolerance:?})"));
            }
        }
    }
    Ok(())
}

/// Compares two evaluations bit for bit.
///
/// # Errors
/// Returns a description of the first value that differs.
pub fn same_bits(got: &Evaluation, want: &Evaluation) -> Result<(), String> {
    same_as(got, want, &|a, b| a.to_bits() == b.to_bits())
}

/// Compares like [`same_bits`], but all NaNs are equal: if both operands of an instruction are NaN, the
/// result may depend on their order.
///
/// # Errors
/// Returns a description of the first value that differs.
pub fn same_numbers(got: &Evaluation, want: &Evaluation) -> Result<(), String> {
    same_as(got, want, &|a, b| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
}

fn same_as(got: &Evaluation, want: &Evaluation, is_same: &dyn Fn(f64, f64) -> bool) -> Result<(), String> {
    for ((name, got), (_, want)) in values(got).zip(values(want)) {
        for (at, (a, b)) in got.to_f64().into_iter().zip(want.to_f64()).enumerate() {
            if !is_same(a, b) {
                return Err(format!("element {at} of {name} is {a:e}, expected exactly {b:e}"));
            }
        }
    }
    if got.not_finite == want.not_finite { Ok(()) } else { Err("another guard is not finite".into()) }
}
