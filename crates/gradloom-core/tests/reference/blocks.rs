//! Repeat, checkpoint and custom ops.

use crate::{assert_same, eval, run};
use gradloom_core::error::ErrorKind;
use gradloom_core::ir::{CustomOp, DType, OpKind, Slice, SliceMut, Type, TypeError, parse_with};
use gradloom_core::reference::{HostData, HostTensor, evaluate};
use std::sync::Arc;

/// A block that adds a row to a running sum. The loop starts from `%1` and takes the rows of `%2`.
const SUMS: &str = "^1(%10: f32[2], %11: f32[2]) {\n%12: f32[2] = add %10, %11\n-> %12, %12, %11\n}\n";

#[test]
fn repeat_carries_and_stacks() {
    let lines = format!(
        "{SUMS}%1: f32[2] = constant [10.0, 20.0]\n%2: f32[3, 2] = constant [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n\
         %3: f32[2], %4: f32[3, 2], %5: f32[3, 2] = repeat ^1 %1, %2 {{trip=3, carried=1}}\n\
         output \"last\" %3\noutput \"sums\" %4\noutput \"rows\" %5"
    );
    let evaluation = run(&lines, &[]).unwrap();
    let output = |name| evaluation.output(name).unwrap().to_f64();
    assert_same(output("last"), &[19.0, 32.0]);
    assert_same(output("sums"), &[11.0, 22.0, 14.0, 26.0, 19.0, 32.0]);
    assert_same(output("rows"), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn repeat_zero_times() {
    let lines = format!(
        "{SUMS}%1: f32[2] = constant [10.0, 20.0]\n%2: f32[0, 2] = constant []\n\
         %3: f32[2], %4: f32[0, 2], %5: f32[0, 2] = repeat ^1 %1, %2 {{trip=0, carried=1}}\n\
         output \"last\" %3\noutput \"sums\" %4"
    );
    let evaluation = run(&lines, &[]).unwrap();
    assert_same(evaluation.output("last").unwrap().to_f64(), &[10.0, 20.0]);
    assert_eq!(*evaluation.output("sums").unwrap(), HostTensor::from_f64(Type::new(DType::F32, [0, 2]), []));
}

#[test]
fn repeat_with_nothing_carried_or_nothing_stacked() {
    let map = "^1(%1: i32[]) {\n%2: i32[] = mul %1, %1\n-> %2\n}\n%3: i32[3] = constant [1, 2, 3]\n\
               %9: i32[3] = repeat ^1 %3 {trip=3, carried=0}";
    assert_same(eval(map, &[]), &[1.0, 4.0, 9.0]);
    let power = "^1(%1: i32[]) {\n%2: i32[] = add %1, %1\n-> %2\n}\n%3: i32[] = constant 3\n\
                 %9: i32[] = repeat ^1 %3 {trip=5, carried=1}";
    assert_same(eval(power, &[]), &[96.0]);
}

#[test]
fn blocks_nest() {
    let lines = "^1(%1: f32[]) {\n%2: f32[] = add %1, %1\n-> %2\n}\n\
                 ^2(%3: f32[]) {\n%4: f32[] = repeat ^1 %3 {trip=2, carried=1}\n\
                 %5: f32[] = checkpoint ^1 %4\n-> %5\n}\n\
                 %6: f32[] = constant 1.0\n%9: f32[] = repeat ^2 %6 {trip=2, carried=1}";
    assert_same(eval(lines, &[]), &[64.0]);
}

#[test]
fn a_trap_in_a_block_names_the_op_inside() {
    let lines = "@0 = \"inner.rs\":1:2\n@1 = \"outer.rs\":3:4\n\
                 ^1(%1: i32[]) {\n%2: i32[] = div %1, %1 @0\n-> %2\n}\n\
                 %3: i32[2] = constant [1, 0]\n%4: i32[2] = repeat ^1 %3 {trip=2, carried=0} @1";
    let error = run(lines, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Trap);
    assert_eq!(error.origin().unwrap().to_string(), "inner.rs:1:2");
    assert_eq!(error.message(), "div of 0 by zero at element 0");
}

/// An op that returns a given result.
#[derive(Debug)]
struct Told(Result<Vec<HostTensor>, String>);

impl CustomOp for Told {
    fn name(&self) -> &str {
        "told"
    }

    fn infer(&self, _: &[Type]) -> Result<Vec<Type>, TypeError> {
        Ok(vec![Type::new(DType::F32, [2])])
    }

    fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
        assert_eq!(operands[0].to_f64(), [3.0]);
        self.0.clone()
    }

    fn run_on_host(&self, _: &[Slice<'_>], _: &mut [SliceMut<'_>]) -> Result<(), String> {
        Err("no test runs this on a device".to_string())
    }
}

#[test]
fn custom_ops_run_their_reference_and_are_held_to_their_types() {
    let told = |results: Result<Vec<HostTensor>, String>| {
        let customs: [Arc<dyn CustomOp>; 1] = [Arc::new(Told(results))];
        let text = "graph { %0: f32[] = constant 3.0 %1: f32[2] = custom \"told\" %0 output \"y\" %1 }";
        let graph = parse_with(text, &customs).unwrap();
        assert!(graph.entry_ops().any(|(_, op)| op.kind == OpKind::Custom(0)));
        match evaluate(&graph, &|_| None) {
            Ok(evaluation) => Ok(evaluation.output("y").unwrap().to_f64()),
            Err(error) => Err((error.kind(), error.message().to_string())),
        }
    };
    let tensor = |n: usize| HostTensor::from_f64(Type::new(DType::F32, [n]), (0..n).map(|i| i as f64));
    assert_same(told(Ok(vec![tensor(2)])).unwrap(), &[0.0, 1.0]);
    assert_eq!(told(Err("no".into())), Err((ErrorKind::Trap, "no".into())));
    let wrong = |message: &str| {
        Err((ErrorKind::Verify, format!("the reference of the custom op \"told\" {message}")))
    };
    assert_eq!(told(Ok(vec![])), wrong("gave 0 results, expected 1"));
    assert_eq!(told(Ok(vec![tensor(3)])), wrong("gave a f32[3] as result 0, expected a f32[2]"));
    let short = HostTensor { ty: Type::new(DType::F32, [2]), data: HostData::Float(vec![0.0]) };
    assert_eq!(
        told(Ok(vec![short])),
        wrong("gave a malformed result 0: a tensor of type f32[2] has 1 elements")
    );
}
