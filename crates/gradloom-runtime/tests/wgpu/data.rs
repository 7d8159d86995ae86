//! u8, which are parts of words, and i64, which are two words.

use crate::{devices, graph, skipped};
use gradloom_core::error::ErrorKind;
use gradloom_core::passes;
use gradloom_core::reference::evaluate;
use gradloom_runtime::Program;
use gradloom_testing::data::{casts, moves, traps};
use gradloom_testing::values;

#[test]
fn moved_and_converted_numbers_are_those_of_the_reference() {
    if skipped() {
        return;
    }
    for data in moves().into_iter().chain(casts()) {
        let before = graph(&data.lines);
        let want = evaluate(&before, &|kind| data.value(kind)).unwrap();
        let (after, _) = passes::run(before);
        for device in devices() {
            let mut program = Program::standalone(after.clone(), &device, &|kind| data.value(kind)).unwrap();
            let got = program.evaluate(&|kind| data.value(kind)).unwrap();
            assert!(values(&got).eq(values(&want)), "{got:?}\ninstead of\n{want:?}\n{}", data.lines);
        }
    }
}

#[test]
fn an_i64_out_of_range_is_a_trap() {
    if skipped() {
        return;
    }
    for data in traps() {
        let (after, _) = passes::run(graph(&data.lines));
        for device in devices() {
            let mut program = Program::standalone(after.clone(), &device, &|kind| data.value(kind)).unwrap();
            let error = program.evaluate(&|kind| data.value(kind)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Trap);
            assert_eq!(error.message(), "the i64 at position [1, 2] is not in i32's range");
        }
    }
}
