//! Data of types u8, which is packed into words, and i64, which occupies two words.

use crate::{devices, skipped};
use gradloom_runtime::Program;
use gradloom_testing::data::{check_traps, check_values};

#[test]
fn moved_and_converted_numbers_are_those_of_the_reference() {
    if skipped() {
        return;
    }
    for device in devices() {
        check_values(&mut |graph, data| {
            Program::standalone(graph, &device, &|kind| data.value(kind))?.evaluate(&|kind| data.value(kind))
        });
    }
}

#[test]
fn an_i64_out_of_range_is_a_trap() {
    if skipped() {
        return;
    }
    for device in devices() {
        check_traps(&mut |graph, data| {
            Program::standalone(graph, &device, &|kind| data.value(kind))?.evaluate(&|kind| data.value(kind))
        });
    }
}
