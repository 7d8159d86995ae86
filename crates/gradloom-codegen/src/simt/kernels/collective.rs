//! Preparation of collective ops, which libraries compute.

use super::super::ir::{Kernel, Role};
use super::Views;
use super::each::each;
use crate::narrow::narrow;
use crate::step::status::LAUNCH;
use gradloom_core::ir::{DType, Number};

/// Returns the kernel that copies the operand to the result, with NaN in place of the first element if a
/// kernel before it has trapped.
pub(crate) fn checked(views: &Views<'_>) -> Vec<Kernel> {
    each("check", views, views.elements(), |k, position| {
        let status = k.buffer(Role::Status, DType::U32);
        let fine = k.load(status, k.u32(narrow(LAUNCH))).equals(k.u32(0));
        let keeps = fine | !position.equals(k.u32(0));
        let nan = k.number(Number::Float(f64::NAN), DType::F32);
        views.store(k, position, keeps.select(views.load(k, 0, position), nan));
    })
}
