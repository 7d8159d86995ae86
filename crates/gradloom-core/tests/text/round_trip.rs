//! Round trips through the text form.

use crate::twice::customs;
use gradloom_core::ir::{
    Arena, Block, Builder, DType, Graph, Id, Literal, Number, OpKind, Origin, Output, Type, ValueId, parse,
    parse_with,
};
use gradloom_core::verify::verify;
use std::collections::HashSet;
use std::sync::Arc;

const EVERY_OP: &str = include_str!("every_op.txt");

/// Asserts that two graphs are equal in everything that the text form preserves.
fn assert_same_structure(a: &Graph, b: &Graph) {
    fn entries<I: Id, T: Clone>(arena: &Arena<I, T>) -> Vec<T> {
        arena.iter().map(|(_, entry)| entry.clone()).collect()
    }
    assert_eq!(entries(&a.ops), entries(&b.ops));
    assert_eq!(entries(&a.values), entries(&b.values));
    assert_eq!(entries(&a.blocks), entries(&b.blocks));
    assert_eq!((a.entry, a.cursor), (b.entry, b.cursor));
    assert_eq!(a.outputs, b.outputs);
    assert_eq!(a.updates, b.updates);
    assert_eq!(a.guards, b.guards);
    assert!(a.origins.iter().eq(b.origins.iter()));
    let names = |graph: &Graph| graph.customs.iter().map(|c| c.name().to_string()).collect::<Vec<_>>();
    assert_eq!(names(a), names(b));
}

/// Returns a distinct number for each variant. A new variant does not compile until it is added here, and
/// must then occur in the text.
fn variant(kind: &OpKind) -> usize {
    match kind {
        OpKind::Input { .. } => 0,
        OpKind::Param { .. } => 1,
        OpKind::State { .. } => 2,
        OpKind::Scalar { .. } => 3,
        OpKind::Constant { .. } => 4,
        OpKind::Iota { .. } => 5,
        OpKind::RandomBits { .. } => 6,
        OpKind::Unary(_) => 7,
        OpKind::Binary(_) => 8,
        OpKind::Compare(_) => 9,
        OpKind::Select => 10,
        OpKind::Cast { .. } => 11,
        OpKind::Reduce { .. } => 12,
        OpKind::ArgReduce { .. } => 13,
        OpKind::Reshape { .. } => 14,
        OpKind::Permute { .. } => 15,
        OpKind::Broadcast { .. } => 16,
        OpKind::Slice { .. } => 17,
        OpKind::Pad { .. } => 18,
        OpKind::Concat { .. } => 19,
        OpKind::DynamicSlice { .. } => 20,
        OpKind::DynamicUpdateSlice => 21,
        OpKind::Dot(_) => 22,
        OpKind::Gather { .. } => 23,
        OpKind::Scatter { .. } => 24,
        OpKind::Attention(_) => 25,
        OpKind::AttentionGrad(_) => 26,
        OpKind::Repeat { .. } => 27,
        OpKind::Checkpoint { .. } => 28,
        OpKind::Custom(_) => 29,
        OpKind::Barrier => 30,
        OpKind::Composite(_) => 31,
        OpKind::Windows { .. } => 32,
        OpKind::Conv(_) => 33,
        OpKind::Cumulate { .. } => 34,
        OpKind::Sort { .. } => 35,
        OpKind::Words => 36,
        OpKind::Dequantize { .. } => 37,
        OpKind::Collective { .. } => 38,
    }
}

#[test]
fn the_sample_has_every_op() {
    use gradloom_core::ir::{BinaryOp, CompareOp, CompositeOp, ReduceOp, UnaryOp};
    let graph = parse_with(EVERY_OP, &customs()).unwrap();
    let variants: HashSet<usize> = graph.ops.iter().map(|(_, op)| variant(&op.kind)).collect();
    assert_eq!(variants, (0..39).collect());
    let names: HashSet<&str> = graph.ops.iter().map(|(_, op)| op.kind.name()).collect();
    let all = UnaryOp::ALL.iter().map(|op| op.name());
    let all = all.chain(CompositeOp::ALL.iter().map(|op| op.name()));
    let all = all.chain(BinaryOp::ALL.iter().map(|op| op.name()));
    let all = all.chain(CompareOp::ALL.iter().map(|op| op.name()));
    for name in all.chain(ReduceOp::ALL.iter().map(|op| op.name())).chain(["argmax", "argmin"]) {
        assert!(names.contains(name), "{name}");
    }
}

#[test]
fn the_sample_round_trips() {
    let graph = parse_with(EVERY_OP, &customs()).unwrap();
    verify(&graph).unwrap();
    let text = graph.to_string();
    assert_eq!(text, EVERY_OP.trim_end());
    let again = parse_with(&text, &customs()).unwrap();
    assert_same_structure(&graph, &again);
}

#[test]
fn numbers_follow_the_text_and_not_the_arena() {
    let mut graph = Graph::new();
    let origin = graph.origins.intern(Origin { file: "unused.rs".into(), line: 1, column: 1 });
    let mut b = Builder::new(&mut graph, Some(origin));
    let dropped = b.number(1.0);
    let used = graph.origins.intern(Origin { file: "used.rs".into(), line: 2, column: 3 });
    let dead = graph.add_block(&[Type::scalar(DType::I32)]);
    let mut b = Builder::new(&mut graph, Some(used));
    let kept = b.number(2.0);
    let doubled = b.add(kept, kept);
    let entry = graph.entry;
    graph.blocks[entry].ops.remove(0);
    graph.outputs.push(Output { name: "y".into(), value: doubled });
    assert_eq!((dropped, doubled), (ValueId(0), ValueId(3)));
    assert_eq!(graph.blocks[dead], Block { params: vec![ValueId(1)], ..Block::default() });
    let text = "\
graph {
  @0 = \"used.rs\":2:3
  %0: f32[] = constant 2.0 @0
  %1: f32[] = add %0, %0 @0
  output \"y\" %1
}";
    assert_eq!(graph.to_string(), text);
    assert_eq!(parse(text).unwrap().to_string(), text);
    let last = *graph.blocks[entry].ops.last().unwrap();
    assert_eq!(graph.op_text(last), "%1: f32[] = add %0, %0");
}

#[test]
fn floats_keep_their_bits() {
    let mut numbers = vec![0.0, -0.0, 1.0, 0.1, 1e-300, f64::MAX, f64::MIN_POSITIVE, 5e-324, f64::INFINITY];
    numbers.extend([f64::NEG_INFINITY, f64::NAN, -f64::NAN, f64::from_bits(0x7ff8_0000_0000_0123)]);
    numbers.extend([1e15, 1e16, 123_456_789_012_345_680.0, 1.0 / 3.0, f64::from(0.1_f32)]);
    // Few numbers are printed as a list, many numbers as hexadecimal digits.
    for copies in [0, 1, 40] {
        for count in [1, 3, numbers.len()] {
            let data: Vec<Number> = numbers[..count].repeat(copies).into_iter().map(Number::Float).collect();
            let ty = Type::new(DType::F32, [data.len()]);
            let mut graph = Graph::new();
            let data = Literal::Dense(data.into());
            graph.add(OpKind::Constant { ty, data }, &[], None).unwrap();
            assert_same_structure(&graph, &parse(&graph.to_string()).unwrap());
        }
    }
    for &number in &numbers {
        let mut graph = Graph::new();
        let mut b = Builder::new(&mut graph, None);
        b.number(number);
        assert_same_structure(&graph, &parse(&graph.to_string()).unwrap());
    }
}

#[test]
fn bools_and_integers_keep_their_values_in_both_forms() {
    for dtype in [DType::I32, DType::U32, DType::U8, DType::I64] {
        let (Number::Int(low), Number::Int(high)) = dtype.range() else { panic!("{dtype} has no integers") };
        for count in [1, 16, 17, 1000] {
            let of = |i: i64| Number::Int(if i % 2 == 0 { low + i % 100 } else { high - i % 100 });
            let data: Arc<[Number]> = (0..count).map(of).collect();
            let mut graph = Graph::new();
            let ty = Type::new(dtype, [data.len()]);
            graph.add(OpKind::Constant { ty, data: Literal::Dense(data) }, &[], None).unwrap();
            assert_same_structure(&graph, &parse(&graph.to_string()).unwrap());
        }
    }
    let data: Arc<[Number]> = (0..33).map(|i| Number::Bool(i % 3 == 0)).collect();
    let mut graph = Graph::new();
    let ty = Type::new(DType::Bool, [3, 11]);
    graph.add(OpKind::Constant { ty, data: Literal::Dense(data) }, &[], None).unwrap();
    assert_same_structure(&graph, &parse(&graph.to_string()).unwrap());
}

#[test]
fn names_may_hold_any_characters() {
    let name = "späße \"x\"\\ \u{7} \u{200d} \n\t\r {}%0 // no comment";
    let mut graph = Graph::new();
    let kind = OpKind::Input { name: name.into(), ty: Type::scalar(DType::F32) };
    let value = graph.add(kind, &[], None).unwrap()[0];
    graph.outputs.push(Output { name: name.into(), value });
    assert_same_structure(&graph, &parse(&graph.to_string()).unwrap());
}

#[test]
fn blanks_and_comments_mean_nothing_and_numbers_may_be_sparse() {
    let text = "// first\ngraph{%7:f32[2]=input\"x\"// note\n\n%9 :f32 [ 2 ]= add %7 , %7\n\
                \toutput \"y\" %9}// last";
    let graph = parse(text).unwrap();
    assert_eq!(
        graph.to_string(),
        "graph {\n  %0: f32[2] = input \"x\"\n  %1: f32[2] = add %0, %0\n  output \"y\" %1\n}"
    );
}

#[test]
fn large_constants_can_be_left_out_for_reading() {
    let graph = parse_with(EVERY_OP, &customs()).unwrap();
    let short = format!("{graph:#}");
    assert!(short.contains("%16: f32[17] = constant [.. 17 elements]\n"), "{short}");
    assert!(short.contains("%11: f32[2, 2] = constant [1.0, -0.0, inf, nan]\n"), "{short}");
}

#[test]
fn an_empty_graph_round_trips() {
    assert_eq!(Graph::new().to_string(), "graph {\n}");
    assert_same_structure(&Graph::new(), &parse("graph {\n}").unwrap());
}
