//! Tests runs of single launches: the store is unchanged, values equal those of whole runs, and no stale
//! value is read.

use super::*;
use crate::{Device, Store};
use gradloom_core::ir::{DType, OpKind, parse};
use gradloom_core::reference::Leaves;
use gradloom_cpu::CpuDevice as _;
use std::collections::HashMap;

/// A product, a gather that can trap, an output, and updates in place, by copying (a swap of two states), and
/// of a region.
const TEXT: &str = "graph {
  %0: f32[4, 3] = param \"w\"
  %1: f32[3] = state \"a\" {init=1.0}
  %2: f32[3] = state \"b\" {init=2.0}
  %3: f32[2, 4] = input \"x\"
  %4: i32[2] = input \"rows\"
  %5: f32[2, 3] = dot %3, %0 {lhs_contract=[1], rhs_contract=[0]}
  %6: f32[2, 3] = gather %0, %4 {batch=0}
  %7: f32[2, 3] = mul %5, %6
  %8: f32[3] = sum %7 {axes=[0]}
  %9: f32[3] = exp %8
  %10: f32[4, 3] = add %0, %0
  %11: f32[2] = param \"fixed\"
  %12: f32[] = sum %11 {axes=[0]}
  output \"sums\" %9
  output \"fixed\" %12
  update %0 <- %10
  update %1 <- %2
  update %2 <- %1
}";

fn given(name: &str, rows: [f64; 2]) -> Option<HostTensor> {
    let ramp = |shape: &[usize], scale: f64| {
        let ty = Type::new(DType::F32, shape.to_vec());
        let elements: Vec<f64> =
            (0..ty.elements()).map(|i| f64::from((i as f32 - 3.0) * scale as f32)).collect();
        HostTensor::from_f64(ty, elements)
    };
    Some(match name {
        "w" => ramp(&[4, 3], 0.125),
        "fixed" => ramp(&[2], 1.0),
        "x" => ramp(&[2, 4], 0.25),
        "rows" => HostTensor::from_f64(Type::new(DType::I32, [2]), rows),
        _ => return None,
    })
}

fn leaf(rows: [f64; 2]) -> impl Fn(&OpKind) -> Option<HostTensor> {
    move |kind| given(Graph::leaf_name(kind)?, rows)
}

fn program(leaves: &Leaves<'_>) -> Program {
    let graph = parse(TEXT).unwrap();
    gradloom_core::verify::verify(&graph).unwrap();
    Program::standalone(graph, &Device::cpu_with_threads(2).unwrap(), leaves).unwrap()
}

fn debug(program: &Program, rows: [f64; 2], retention: Retention) -> DebugRun {
    let fed: Vec<(&str, Vec<u8>)> =
        ["x", "rows"].map(|name| (name, bytes(&given(name, rows).unwrap()))).to_vec();
    let fed: Vec<(&str, &[u8])> = fed.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    program.debug_run(&fed, |_| None, retention).unwrap()
}

fn stored(store: &Store) -> Vec<(String, Vec<u8>)> {
    store.entries().into_iter().map(|e| (e.name.clone(), store.read(&e.name).unwrap())).collect()
}

#[test]
fn a_debug_run_gives_what_the_whole_run_gives_and_changes_nothing() {
    let leaves = leaf([3.0, 1.0]);
    let mut program = program(&leaves);
    let before = (stored(program.store()), program.store().version());
    for retention in [Retention::AsPlanned, Retention::EveryValue] {
        let mut run = debug(&program, [3.0, 1.0], retention);
        let launches = run.plan().launches.len();
        // Read launch by launch, this run must have the same values as the run that keeps every value.
        let mut beside = debug(&program, [3.0, 1.0], Retention::AsPlanned);
        run.run(0..launches).unwrap();
        let mut compared = 0;
        for launch in 0..launches {
            beside.run(launch..launch + 1).unwrap();
            if retention == Retention::EveryValue {
                for write in beside.plan().launches[launch].writes.clone() {
                    assert_eq!(beside.read(write.buffer).unwrap(), run.read(write.buffer).unwrap());
                    compared += 1;
                }
            }
        }
        assert!(retention == Retention::AsPlanned || compared >= launches);
        assert_eq!((stored(program.store()), program.store().version()), before);

        let mut whole = self::program(&leaves);
        let evaluation = whole.evaluate(&leaves).unwrap();
        for (name, expected) in &evaluation.outputs {
            assert_eq!(run.output(name).unwrap(), *expected);
        }
        let next: HashMap<_, _> = evaluation.next.into_iter().collect();
        for name in ["a", "b"] {
            let op = run.graph().entry_ops().find(|(_, op)| Graph::leaf_name(&op.kind) == Some(name));
            assert_eq!(
                run.read(op.unwrap().1.results[0]).unwrap(),
                next[name],
                "{name} was updated by a copy"
            );
        }
    }
    // The program itself is not affected by the debug runs.
    assert_eq!(program.evaluate(&leaves).unwrap(), self::program(&leaves).evaluate(&leaves).unwrap());
    assert_ne!(stored(program.store()), before.0);
}

#[test]
fn nothing_stale_is_read() {
    let program = program(&leaf([0.0, 0.0]));
    let mut run = debug(&program, [0.0, 0.0], Retention::AsPlanned);
    let launches = run.plan().launches.len();
    let (sums, _) = run.plan().outputs.iter().map(|(_, access)| (access.buffer, ())).next().unwrap();
    let error = run.read(sums).unwrap_err();
    assert!(error.to_string().contains("was not computed yet"), "{error}");
    let producer =
        run.plan().launches.iter().position(|l| l.writes.iter().any(|w| w.buffer == sums)).unwrap();
    let needs_others = run.plan().launches[producer]
        .reads
        .iter()
        .any(|r| !run.plan().buffer(r.buffer).unwrap().role.exists_before());
    assert_eq!(run.run(producer..producer + 1).is_err(), needs_others);

    run.run(0..launches).unwrap();
    let weight = ValueId(0);
    let error = run.read(weight).unwrap_err().to_string();
    assert!(error.contains("w") && error.contains("have been taken by"), "{error}");
    assert!(run.values().all(|b| run.read(b.value).is_ok()) && run.values().all(|b| b.value != weight));
    let error = run.run(0..launches).unwrap_err().to_string();
    assert!(error.contains("have been taken"), "{error}");
    assert!(run.run(0..launches + 1).is_err());
    #[allow(clippy::reversed_empty_ranges, reason = "a caller may write it")]
    let reversed = 1..0;
    assert!(run.run(reversed).is_err());
    assert!(run.read(ValueId(7777)).unwrap_err().to_string().contains("no bytes of its own"));
}

#[test]
fn operands_can_be_replaced_and_a_launch_run_again() {
    let program = program(&leaf([0.0, 0.0]));
    let mut run = debug(&program, [0.0, 0.0], Retention::EveryValue);
    let launches = run.plan().launches.len();
    run.run(0..launches).unwrap();
    assert_eq!(run.output("fixed").unwrap().to_f64(), [-5.0]);
    let fixed =
        run.plan().buffers.iter().find(|b| b.role == gradloom_core::plan::Role::Frozen).unwrap().value;
    run.write(fixed, &HostTensor::from_f64(Type::new(DType::F32, [2]), [40.0, 2.0])).unwrap();
    let reader = run.plan().launches.iter().position(|l| l.reads.iter().any(|r| r.buffer == fixed)).unwrap();
    run.run(reader..reader + 1).unwrap();
    assert_eq!(run.output("fixed").unwrap().to_f64(), [42.0]);
    assert_eq!(program.store().read_f32("fixed").unwrap(), [-3.0, -2.0]);
    let error = run.write(fixed, &HostTensor::from_f64(Type::new(DType::F32, [1]), [1.0])).unwrap_err();
    assert!(error.to_string().contains("its bytes are f32[2], not f32[1]"), "{error}");
}

#[test]
fn a_trap_leaves_what_ran_before_it() {
    let program = program(&leaf([0.0, 0.0]));
    let mut run = debug(&program, [0.0, 4.0], Retention::AsPlanned);
    let launches = run.plan().launches.len();
    let error = run.run(0..launches).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Trap, "{error}");
    assert!(run.output("sums").is_err());
    let rows =
        run.graph().entry_ops().find(|(_, op)| Graph::leaf_name(&op.kind) == Some("rows")).unwrap().1.results
            [0];
    run.write(rows, &given("rows", [0.0, 3.0]).unwrap()).unwrap();
    run.run(0..launches).unwrap();
    assert!(run.output("sums").is_ok());
}

#[test]
fn a_window_out_of_range_is_refused_before_it_is_written() {
    let text = "graph {\n%0: f32[8] = state \"s\" {init=0.0}\n%1: f32[2] = input \"x\"\n\
                %2: i32[] = input \"at\"\n\
                update %0[%2] <- %1\n}";
    let value = |name: &str, at: f64| match name {
        "x" => HostTensor::from_f64(Type::new(DType::F32, [2]), [5.0, 6.0]),
        _ => HostTensor::from_f64(Type::scalar(DType::I32), [at]),
    };
    let graph = parse(text).unwrap();
    let program = Program::standalone(graph, &Device::cpu_with_threads(1).unwrap(), &|_| None).unwrap();
    let start = |at: f64| {
        let fed = ["x", "at"].map(|name| (name, bytes(&value(name, at))));
        let fed = [0, 1].map(|i| (fed[i].0, fed[i].1.as_slice()));
        program.debug_run(&fed, |_| None, Retention::AsPlanned).unwrap()
    };
    let whole = |run: &DebugRun| 0..run.plan().launches.len();
    let mut run = start(7.0);
    assert_eq!(run.run(whole(&run)).unwrap_err().kind(), ErrorKind::Trap);
    let mut run = start(6.0);
    run.run(whole(&run)).unwrap();
    assert_eq!(run.read(ValueId(0)).unwrap().to_f64(), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0, 6.0]);
    assert_eq!(program.store().read_f32("s").unwrap(), [0.0; 8]);
}

#[test]
fn the_null_device_runs_nothing() {
    let program = Program::standalone(parse(TEXT).unwrap(), &Device::null(), &leaf([0.0, 0.0])).unwrap();
    let error = program.debug_run(&[], |_| None, Retention::AsPlanned).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
}

#[test]
fn attention_reads_in_its_own_order_wherever_it_was_written() {
    let text = "graph {
  %0: f32[1, 2, 3, 4] = input \"x\"
  %1: f32[1, 2, 3, 4], %2: f32[1, 2, 3] = attention %0, %0, %0 {scale=0.5, causal}
  %3: f32[1, 3, 2, 4] = permute %1 {perm=[0, 2, 1, 3]}
  %4: f32[3, 8] = reshape %3
  %5: f32[3, 3] = dot %4, %4 {lhs_contract=[1], rhs_contract=[1]}
  output \"a\" %1
  output \"y\" %5
}";
    let graph = parse(text).unwrap();
    let program =
        Program::standalone(graph, &Device::cpu_with_threads(1).unwrap(), &|_: &OpKind| None).unwrap();
    let x =
        HostTensor::from_f64(Type::new(DType::F32, [1, 2, 3, 4]), (0..24).map(|i| f64::from(i % 7) / 8.0));
    let mut run = program.debug_run(&[("x", &bytes(&x))], |_| None, Retention::EveryValue).unwrap();
    let launches = run.plan().launches.len();
    run.run(0..launches).unwrap();
    let value = run.graph().output("a").unwrap();
    let (read, output) = (run.read(value).unwrap(), run.output("a").unwrap());
    assert_eq!(read, output);
    run.write(value, &output).unwrap();
    assert_eq!(run.read(value).unwrap(), output);
}
