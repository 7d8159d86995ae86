//! Tests NaN and large angles.

#[path = "../common/nan.rs"]
mod table;

use crate::{device, skipped};
use gradloom::prelude::*;

#[test]
fn functions_of_nan() {
    if skipped() {
        return;
    }
    let session = Session::new((), &device(), 0).unwrap();
    let mut run = session.infer([f32("x", [2, 4])], |(), [x]| table::outputs(x)).unwrap();
    table::verify("WebGPU", &run.run([&table::INPUT]).unwrap());
    let mut run = session.infer([f32("x", [10])], |(), [x]| [x.sin(), x.cos()]).unwrap();
    table::verify_angles("WebGPU", run.run([&table::ANGLES]).unwrap());
}
