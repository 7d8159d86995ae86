//! Tests that after each step, the stored values are exactly those of the reference, even if a step fails.

use crate::{bits, devices, graph};
use gradloom_core::error::ErrorKind;
use gradloom_core::ir::{DType, Graph};
use gradloom_core::passes;
use gradloom_core::reference::evaluate;
use gradloom_cpu::CpuDevice as _;
use gradloom_runtime::{Device, Program};
use gradloom_testing::Leaves;

/// Runs a graph with exact numbers for three steps, before and after the passes.
#[track_caller]
fn agrees(lines: &str, leaves: impl Fn() -> Leaves) {
    let graph = graph(lines);
    for graph in [graph.clone(), passes::run(graph).0] {
        for device in devices() {
            let mut leaves = leaves();
            let mut program = load(&graph, &device, &leaves);
            for step in 0..3 {
                let want = evaluate(&graph, &|kind| leaves.value(kind)).unwrap();
                let got = program.evaluate(&|kind| leaves.value(kind)).unwrap();
                assert_eq!(bits(&got), bits(&want), "step {step}\n{}", program.plan().report(&graph));
                leaves.advance(&want);
            }
        }
    }
}

#[track_caller]
fn load(graph: &Graph, device: &Device, leaves: &Leaves) -> Program {
    Program::standalone(graph.clone(), device, &|kind| leaves.value(kind))
        .unwrap_or_else(|e| panic!("{e}\n{graph}"))
}

fn one() -> Leaves {
    Leaves::random(1)
}

#[test]
fn swaps_and_rotations() {
    agrees(
        "%0: f32[3] = param \"a\"\n%1: f32[3] = param \"b\"\noutput \"a\" %0\nupdate %0 <- %1\n\
         update %1 <- %0",
        one,
    );
    agrees(
        "%0: f32[3] = param \"a\"\n%1: f32[3] = param \"b\"\n%2: f32[3] = param \"c\"\n\
         update %0 <- %1\nupdate %1 <- %2\nupdate %2 <- %0",
        one,
    );
    agrees("%0: f32[2, 2] = param \"a\"\n%1: f32[2, 2] = permute %0 {perm=[1, 0]}\nupdate %0 <- %1", one);
    agrees("%0: f32[3] = param \"a\"\nupdate %0 <- %0\noutput \"a\" %0", one);
}

#[test]
fn views_constants_inputs_and_shared_values() {
    agrees(
        "%0: f32[2, 3] = param \"a\"\n%1: f32[2, 3] = param \"b\"\n%2: i32[2, 3] = state \"c\" {init=5}\n\
         %3: f32[3, 2] = input \"x\"\n%4: f32[2, 3] = permute %3 {perm=[1, 0]}\n\
         %5: f32[2, 3] = constant 2.0\n\
         %6: i32[2, 3] = iota {axis=1}\nupdate %0 <- %4\nupdate %1 <- %5\nupdate %2 <- %6",
        one,
    );
    agrees(
        "%0: f32[3] = param \"a\"\n%1: f32[3] = param \"b\"\n%2: f32[3] = neg %0\nupdate %0 <- %2\n\
         update %1 <- %2",
        one,
    );
}

#[test]
fn old_values_are_read_before_and_after_the_next_ones_exist() {
    agrees(
        "%0: f32[3] = param \"a\"\n%1: f32[3] = param \"b\"\n%2: f32[3] = neg %0\n%3: f32[3] = add %2, %0\n\
         %4: f32[3] = sub %0, %1\n%5: f32[3] = mul %4, %2\noutput \"a\" %0\noutput \"next\" %2\n\
         update %0 <- %2\nupdate %1 <- %3",
        one,
    );
    // A counter, and the sum of its powers of two.
    agrees(
        "%0: i32[] = state \"n\" {init=0}\n%1: i32[] = constant 1\n%2: i32[] = add %0, %1\n\
         %3: i32[] = shl %1, %0\n\
         %4: i32[] = state \"power\" {init=0}\n%5: i32[] = add %4, %3\nupdate %0 <- %2 {alias}\n\
         update %4 <- %5 {alias}",
        one,
    );
}

#[test]
fn windows_of_a_cache() {
    agrees(
        "%0: f32[4, 2] = state \"cache\" {init=0.0}\n%1: i32[] = state \"position\" {init=0}\n\
         %2: i32[] = constant 0\n\
         %3: i32[] = constant 1\n%4: f32[1, 2] = input \"row\"\n%5: f32[2] = sum %0 {axes=[0]}\n\
         %6: f32[1, 2] = reshape %5\n\
         %7: i32[] = add %1, %3\n\
         update %0[%1, %2] <- %4 {alias}\nupdate %0[%7, %2] <- %6 {alias}\nupdate %1 <- %7\n\
         output \"sums\" %5",
        || one().with("row", DType::F32, &[1, 2], &[3.0, 4.0]),
    );
    // A ring that is rotated by one element, and an empty window.
    agrees(
        "%0: f32[4] = param \"ring\"\n%1: i32[] = constant 0\n%2: i32[] = constant 3\n\
         %3: f32[3] = slice %0 {start=[1], limit=[4], step=[1]}\n\
         %4: f32[1] = slice %0 {start=[0], limit=[1], step=[1]}\n\
         %5: f32[0] = slice %0 {start=[4], limit=[4], step=[1]}\n\
         update %0[%1] <- %3\nupdate %0[%2] <- %4\nupdate %0[%2] <- %5",
        one,
    );
}

#[test]
fn states_without_elements() {
    agrees("%0: f32[0, 3] = param \"a\"\n%1: f32[0, 3] = neg %0\noutput \"a\" %0\nupdate %0 <- %1", one);
}

/// Checks that parameters, states and their version do not change, however the step ends.
#[track_caller]
fn leaves_everything(
    lines: &str,
    leaves: &Leaves,
) -> (Result<Option<String>, gradloom_core::error::Error>, Program) {
    let graph = graph(lines);
    let device = Device::cpu_with_threads(2).unwrap();
    let mut program = load(&graph, &device, leaves);
    let contents = |program: &Program| -> Vec<_> {
        let store = program.store();
        store.entries().iter().map(|entry| store.read(&entry.name).unwrap()).collect()
    };
    let before = contents(&program);
    let result = program.evaluate(&|kind| leaves.value(kind)).map(|step| step.not_finite);
    assert_eq!(contents(&program), before);
    assert!(!program.store().is_lost());
    let reference = evaluate(&graph, &|kind| leaves.value(kind));
    match (&result, &reference) {
        (Ok(guard), Ok(reference)) => assert_eq!(*guard, reference.not_finite),
        (result, reference) => assert_eq!(result.is_err(), reference.is_err(), "{result:?}, {reference:?}"),
    }
    (result, program)
}

const BUMP: &str = "%0: f32[3] = param \"w\"\n%1: f32[3] = constant 1.0\n%2: f32[3] = add %0, %1\n\
                    update %0 <- %2\n\
                    %3: f32[4, 2] = state \"cache\" {init=0.0}\n%4: i32[] = input \"i\"\n\
                    %5: i32[] = constant 0\n\
                    %6: f32[2, 2] = constant 9.0\nupdate %3[%5, %5] <- %6\nupdate %3[%4, %5] <- %6\n";

#[test]
fn a_window_out_of_range_writes_nothing_at_all() {
    for start in [-1.0, 3.0, f64::from(i32::MAX), f64::from(i32::MIN)] {
        let leaves = one().with("i", DType::I32, &[], &[start]);
        let (result, _) = leaves_everything(BUMP, &leaves);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Trap, "{start}");
    }
    let fits = one().with("i", DType::I32, &[], &[2.0]);
    agrees(BUMP, || one().with("i", DType::I32, &[], &[2.0]).with("w", DType::F32, &[3], &[1.0, -2.0, 0.5]));
    // The program that trapped works again with a valid input.
    let (_, mut program) = leaves_everything(BUMP, &one().with("i", DType::I32, &[], &[3.0]));
    program.evaluate(&|kind| fits.value(kind)).unwrap();
    assert_eq!(program.store().read_f32("cache").unwrap(), [9.0; 8]);
}

#[test]
fn a_guard_that_is_not_finite_writes_nothing_at_all() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let leaves =
            one().with("i", DType::I32, &[], &[0.0]).with("loss", DType::F32, &[2, 2], &[1.0, 2.0, bad, 3.0]);
        let text = format!(
            "{BUMP}%7: f32[2, 2] = input \"loss\"\n%8: f32[2, 2] = permute %7 {{perm=[1, 0]}}\n\
             guard \"w\" %0\nguard \"loss\" %8\noutput \"loss\" %7"
        );
        let (result, _) = leaves_everything(&text, &leaves);
        assert_eq!(result.unwrap(), Some("loss".to_string()));
    }
}

#[test]
fn a_guard_may_be_a_parameter_that_changes() {
    let text = "%0: f32[2] = param \"w\"\n%1: f32[2] = mul %0, %0\nguard \"w\" %0\nupdate %0 <- %1";
    let huge = || one().with("w", DType::F32, &[2], &[2e30, 1.0]);
    let mut program = load(&graph(text), &Device::cpu_with_threads(1).unwrap(), &huge());
    let mut step = || program.evaluate(&|kind| huge().value(kind)).unwrap();
    // The first step checks the old value and writes an infinity, which the second step detects.
    assert_eq!(step().not_finite, None);
    assert_eq!(step().not_finite.as_deref(), Some("w"));
}

#[test]
fn an_index_out_of_range_that_only_an_update_needs_writes_nothing_at_all() {
    let text = format!(
        "{BUMP}%7: f32[2, 2] = param \"table\"\n%8: i32[2] = input \"rows\"\n\
         %9: f32[2, 2] = gather %7, %8 {{batch=0}}\nupdate %7 <- %9"
    );
    let leaves = one().with("i", DType::I32, &[], &[0.0]).with("rows", DType::I32, &[2], &[0.0, 2.0]);
    let (result, _) = leaves_everything(&text, &leaves);
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Trap);
}

#[test]
fn leaves_of_the_wrong_type_are_named() {
    let graph = graph(BUMP);
    let device = Device::cpu_with_threads(1).unwrap();
    let wrong = one().with("w", DType::F32, &[4], &[0.0; 4]);
    let error = Program::standalone(graph.clone(), &device, &|kind| wrong.value(kind)).unwrap_err();
    assert_eq!(error.message(), "the param `w`: a value of type f32[4] for f32[3]");
    let error = Program::standalone(graph.clone(), &device, &|_| None).unwrap_err();
    assert_eq!(error.message(), "the param `w` has no value");
    let mut program = load(&graph, &device, &one());
    assert_eq!(program.evaluate(&|_| None).unwrap_err().message(), "the input `i` has no value");
}
