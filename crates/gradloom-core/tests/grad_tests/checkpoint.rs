//! Gradients through `checkpoint`: ops are recomputed, and gradients are unchanged.

use crate::leaves::Leaves;
use crate::random::Random;
use gradloom_core::grad::{append, expand_blocks};
use gradloom_core::ir::{Builder, DType, Graph, OpKind, Output, ReduceOp, Type, ValueId, parse};
use gradloom_core::verify::verify;
use gradloom_testing::table::CASES;

/// Differentiates output 0 with respect to all parameters, once with blocks and once after inlining them,
/// which removes the segments. The gradients must be equal. Returns both graphs.
fn both(graph: &Graph, leaves: &Leaves) -> (Graph, Graph) {
    let [again, kept] = [false, true].map(|inline| {
        let mut graph = graph.clone();
        let params: Vec<ValueId> = graph
            .entry_ops()
            .filter(|(_, op)| matches!(op.kind, OpKind::Param { .. }))
            .map(|(_, op)| op.results[0])
            .collect();
        if inline {
            expand_blocks(&mut graph);
        }
        let loss = graph.outputs[0].value;
        let gradients = append(&mut graph, loss, None, &params).unwrap();
        for (i, gradient) in gradients.into_iter().enumerate() {
            graph.outputs.push(Output { name: format!("d{i}"), value: gradient.expect("a gradient") });
        }
        verify(&graph).unwrap_or_else(|error| panic!("{error}\n{graph}"));
        graph
    });
    assert_eq!(leaves.run(&again).outputs, leaves.run(&kept).outputs, "{again}");
    (again, kept)
}

fn leaves(shapes: &[(&str, &[usize])]) -> Leaves {
    let mut random = Random::new(7);
    let mut leaves = Leaves::default();
    let mut scratch = Graph::new();
    let mut builder = Builder::new(&mut scratch, None);
    for (name, shape) in shapes {
        let elements = Type::new(DType::F32, *shape).elements();
        let values: Vec<f64> = (0..elements).map(|_| random.uniform(-1.0, 1.0)).collect();
        leaves.param(&mut builder, name, shape, &values);
    }
    leaves
}

fn count(graph: &Graph, name: &str) -> usize {
    graph.entry_ops().filter(|(_, op)| op.kind.name() == name).count()
}

fn graph(lines: &str) -> Graph {
    parse(&format!("graph {{\n{lines}\n}}")).unwrap()
}

#[test]
fn only_what_the_rules_read_is_computed_again() {
    let graph = graph(
        "%0: f32[2] = param \"w\"
         ^1(%1: f32[2]) {
           %2: f32[2] = sin %1
           %3: f32[2] = exp %2
           %4: f32[2] = neg %3
           -> %4
         }
         %5: f32[2] = checkpoint ^1 %0
         %6: f32[] = sum %5 {axes=[0]}
         output \"loss\" %6",
    );
    let (again, kept) = both(&graph, &leaves(&[("w", &[2])]));
    // The gradient rule of exp reads the result of exp, and that of sin its operand, so both are recomputed.
    // The second neg is the gradient of neg, not a copy.
    let expected = [("sin", 2), ("exp", 2), ("neg", 2), ("barrier", 1)];
    for (name, wanted) in expected {
        assert_eq!(count(&again, name), wanted, "{name}\n{again}");
    }
    assert_eq!([count(&kept, "sin"), count(&kept, "exp"), count(&kept, "barrier")], [1, 1, 0]);
    // The barrier waits for the cotangent of the segment's result, so it comes after the broadcast.
    let names: Vec<&str> = again.entry_ops().map(|(_, op)| op.kind.name()).collect();
    let barrier = names.iter().position(|&name| name == "barrier").unwrap();
    assert!(names[..barrier].contains(&"broadcast"), "{again}");
}

#[test]
fn random_bits_keep_their_site() {
    let graph = graph(
        "%0: f32[8] = param \"w\"
         %1: u32[] = scalar \"lo\"
         %2: u32[] = scalar \"hi\"
         %3: u32[] = scalar \"step\"
         ^1(%4: f32[8], %5: u32[], %6: u32[], %7: u32[]) {
           %8: u32[8] = random_bits %5, %6, %7 {site=3}
           %9: f32[8] = cast %8
           %10: f32[8] = mul %9, %4
           %11: f32[8] = sin %10
           -> %11
         }
         %12: f32[8] = checkpoint ^1 %0, %1, %2, %3
         %13: f32[] = sum %12 {axes=[0]}
         output \"loss\" %13",
    );
    let mut leaves = leaves(&[("w", &[8])]);
    let mut scratch = Graph::new();
    let mut builder = Builder::new(&mut scratch, None);
    for (name, value) in [("lo", 5.0), ("hi", 0.0), ("step", 2.0)] {
        leaves.input(&mut builder, name, Type::scalar(DType::U32), &[value]);
    }
    let (again, _) = both(&graph, &leaves);
    assert_eq!(count(&again, "random_bits"), 2);
}

#[test]
fn a_nested_segment_is_computed_again_from_what_the_outer_one_computed_again() {
    let graph = graph(
        "%0: f32[2] = param \"w\"
         ^1(%1: f32[2]) {
           %2: f32[2] = exp %1
           %3: f32[2] = sin %2
           -> %3
         }
         ^2(%4: f32[2]) {
           %5: f32[2] = tanh %4
           %6: f32[2] = checkpoint ^1 %5
           %7: f32[2] = mul %6, %5
           -> %7
         }
         %8: f32[2] = checkpoint ^2 %0
         %9: f32[2] = checkpoint ^2 %8
         %10: f32[] = sum %9 {axes=[0]}
         output \"loss\" %10",
    );
    let (again, _) = both(&graph, &leaves(&[("w", &[2])]));
    // In each of the two outer segments, an op is computed in the forward pass and again for the gradient
    // rules of the segment. An op of the inner segment is computed a third time, for the gradient rules of
    // that segment. Only tanh is outside the inner segment.
    assert_eq!([count(&again, "tanh"), count(&again, "exp")], [2 * 2, 2 * 3], "{again}");
}

#[test]
fn segments_in_a_loop_and_loops_in_a_segment() {
    let graph = graph(
        "%0: f32[2] = param \"w\"
         %1: f32[3, 2] = param \"stack\"
         ^1(%2: f32[2], %3: f32[2]) {
           %4: f32[2] = mul %2, %3
           %5: f32[2] = tanh %4
           -> %5
         }
         ^2(%6: f32[2], %7: f32[2]) {
           %8: f32[2] = checkpoint ^1 %6, %7
           -> %8, %8
         }
         ^3(%9: f32[2], %10: f32[3, 2]) {
           %11: f32[2], %12: f32[3, 2] = repeat ^2 %9, %10 {trip=3, carried=1}
           %13: f32[3, 2] = exp %12
           -> %11, %13
         }
         %14: f32[2], %15: f32[3, 2] = repeat ^2 %0, %1 {trip=3, carried=1}
         %16: f32[2], %17: f32[3, 2] = checkpoint ^3 %14, %15
         %18: f32[3, 2] = mul %17, %17
         %19: f32[] = sum %18 {axes=[0, 1]}
         output \"loss\" %19",
    );
    let (again, kept) = both(&graph, &leaves(&[("w", &[2]), ("stack", &[3, 2])]));
    assert_eq!(count(&kept, "tanh"), 6);
    // The three outer iterations are computed twice, and the three inner ones up to three times.
    assert!(count(&again, "tanh") > 6 + 3, "{again}");
}

/// Checks that the rule of every op in the table works on the copies that a segment recomputes.
#[test]
fn every_rule_works_inside_a_segment() {
    let mut copied = 0;
    for case in CASES {
        let mut random = Random::new(11);
        let mut graph = Graph::new();
        let instance = (case.sample)(&mut random, &mut graph);
        let mut leaves = Leaves::default();
        let mut builder = Builder::new(&mut graph, None);
        let operands: Vec<ValueId> = instance
            .operands
            .iter()
            .enumerate()
            .map(|(i, (ty, values))| match ty.dtype.is_float() {
                true => leaves.param(&mut builder, &format!("p{i}"), &ty.shape, values),
                false => leaves.input(&mut builder, &format!("i{i}"), ty.clone(), values),
            })
            .collect();
        let types: Vec<Type> = operands.iter().map(|&value| graph.ty(value).clone()).collect();
        let block = graph.add_block(&types);
        let mut inner = graph.blocks[block].params.clone();
        graph.cursor = block;
        let mut builder = Builder::new(&mut graph, None);
        // Negate the operands twice, so that the op reads values that the segment computes.
        for value in &mut inner {
            if builder.ty(*value).dtype.is_float() {
                let negative = builder.neg(*value);
                *value = builder.neg(negative);
            }
        }
        let results = builder.all(instance.kind.clone(), &inner);
        graph.cursor = graph.entry;
        graph.blocks[block].results = results;
        let outer = graph.add(OpKind::Checkpoint { block }, &operands, None).unwrap();
        let mut builder = Builder::new(&mut graph, None);
        let mut loss = builder.number(0.0);
        for &value in &outer[..instance.observed(outer.len())] {
            let squared = builder.mul(value, value);
            let axes: Vec<usize> = (0..builder.shape(value).rank()).collect();
            let sum = builder.reduce(ReduceOp::Sum, squared, &axes);
            loss = builder.add(loss, sum);
        }
        graph.outputs.push(Output { name: "loss".into(), value: loss });
        let (again, _) = both(&graph, &leaves);
        copied += usize::from(count(&again, "barrier") > 0);
    }
    // The gradient rules of the other ops read neither operands nor results, so nothing is recomputed for
    // them.
    assert!(copied > CASES.len() / 2, "only {copied} ops were computed again");
}
