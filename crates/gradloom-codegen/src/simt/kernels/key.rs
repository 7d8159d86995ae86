//! Unsigned integer keys that order elements, independent of a compiler's assumptions about floats.

use super::{Builder, Value};
use gradloom_core::ir::{CompareOp, DType};

/// Returns the key of a number. Both zeros have the same key. The key of a NaN is meaningless, see
/// [`is_nan`].
pub(super) fn of_number<'k>(k: &'k Builder, x: Value<'k>) -> Value<'k> {
    match x.dtype() {
        DType::F32 => {
            let bits = x.bitcast(DType::U32);
            let is_zero = (bits & 0x7fff_ffff).equals(k.u32(0));
            let is_negative = bits.compare(CompareOp::Ge, k.u32(0x8000_0000));
            let ordered = is_negative.select(!bits, bits | 0x8000_0000);
            is_zero.select(k.u32(0x8000_0000), ordered)
        }
        DType::I32 => x.bitcast(DType::U32) ^ 0x8000_0000,
        DType::U32 => x,
        DType::Bool | DType::F16 | DType::BF16 | DType::U8 | DType::I64 => {
            panic!("gradloom has no order of {}; please report this", x.dtype())
        }
    }
}

/// Returns a bool that is true if an element is NaN; `None` if its dtype has no NaN.
pub(super) fn is_nan<'k>(k: &'k Builder, x: Value<'k>) -> Option<Value<'k>> {
    let magnitude = || x.bitcast(DType::U32) & 0x7fff_ffff;
    (x.dtype() == DType::F32).then(|| magnitude().compare(CompareOp::Gt, k.u32(0x7f80_0000)))
}

/// Returns the key of an element in ascending or descending order, in which a NaN is greater than all
/// numbers.
pub(super) fn in_order<'k>(k: &'k Builder, x: Value<'k>, descending: bool) -> Value<'k> {
    let number = of_number(k, x);
    let key = match is_nan(k, x) {
        Some(is_nan) => is_nan.select(k.u32(u32::MAX), number),
        None => number,
    };
    if descending { !key } else { key }
}
