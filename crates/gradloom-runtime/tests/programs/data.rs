//! Tests u8 and i64, which are moved and converted, but computed with as i32.

use crate::devices;
use gradloom_runtime::Program;
use gradloom_testing::data::{check_traps, check_values};

#[test]
fn moved_and_converted_numbers_are_those_of_the_reference() {
    for device in devices() {
        check_values(&mut |graph, data| {
            Program::standalone(graph, &device, &|kind| data.value(kind))?.evaluate(&|kind| data.value(kind))
        });
    }
}

#[test]
fn an_i64_out_of_range_is_a_trap() {
    for device in devices() {
        check_traps(&mut |graph, data| {
            Program::standalone(graph, &device, &|kind| data.value(kind))?.evaluate(&|kind| data.value(kind))
        });
    }
}
