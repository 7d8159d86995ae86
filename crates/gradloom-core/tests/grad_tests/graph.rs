//! Reverse mode as a rewrite: the ops that it adds, the values at which gradients stop, and the graphs that
//! it refuses.

use gradloom_core::error::ErrorKind;
use gradloom_core::grad::{Differentiability, append, coverage, differentiability, expand_blocks};
use gradloom_core::ir::{
    AttentionSpec, Builder, CompareOp, CustomOp, DType, DotAxes, Graph, OpKind, Origin, OriginId, ReduceOp,
    Type, TypeError, UnaryOp, ValueId,
};
use gradloom_core::reference::HostTensor;
use std::sync::Arc;

fn f32(shape: &[usize]) -> Type {
    Type::new(DType::F32, shape)
}

fn param(b: &mut Builder<'_>, name: &str, ty: Type) -> ValueId {
    b.op(OpKind::Param { name: name.into(), ty }, &[])
}

fn input(b: &mut Builder<'_>, name: &str, ty: Type) -> ValueId {
    b.op(OpKind::Input { name: name.into(), ty }, &[])
}

fn sum_all(b: &mut Builder<'_>, x: ValueId) -> ValueId {
    let axes: Vec<_> = (0..b.shape(x).rank()).collect();
    b.reduce(ReduceOp::Sum, x, &axes)
}

fn count(graph: &Graph, name: &str) -> usize {
    graph.entry_ops().filter(|(_, op)| op.kind.name() == name).count()
}

#[test]
fn a_layer_needs_one_product_for_each_operand_that_wants_one_and_no_permutation() {
    let mut graph = Graph::new();
    let mut b = Builder::new(&mut graph, None);
    let x = input(&mut b, "x", f32(&[8, 3]));
    let w = param(&mut b, "w", f32(&[3, 5]));
    let axes = DotAxes { lhs_contract: vec![1], rhs_contract: vec![0], ..DotAxes::default() };
    let y = b.dot(x, w, axes);
    let loss = sum_all(&mut b, y);
    let (mut for_w, mut for_both) = (graph.clone(), graph);
    let gradients = append(&mut for_w, loss, None, &[w]).unwrap();
    assert_eq!(for_w.ty(gradients[0].unwrap()), &f32(&[3, 5]));
    assert_eq!((count(&for_w, "dot"), count(&for_w, "permute")), (2, 0));
    append(&mut for_both, loss, None, &[x, w]).unwrap();
    assert_eq!((count(&for_both, "dot"), count(&for_both, "permute")), (3, 0));
}

#[test]
fn ops_that_are_not_between_the_parameters_and_the_loss_get_no_cotangent() {
    let mut graph = Graph::new();
    let mut b = Builder::new(&mut graph, None);
    let (x, w) = (input(&mut b, "x", f32(&[4])), param(&mut b, "w", f32(&[4])));
    let features = b.unary(UnaryOp::Sin, x);
    let y = b.mul(features, w);
    let unused = b.unary(UnaryOp::Tanh, w);
    let loss = sum_all(&mut b, y);
    let gradients = append(&mut graph, loss, None, &[w, x, unused]).unwrap();
    assert!(gradients[0].is_some() && gradients[1].is_some());
    assert_eq!(gradients[2], None, "no path from there to the loss");

    let mut graph = Graph::new();
    let mut b = Builder::new(&mut graph, None);
    let (x, w) = (input(&mut b, "x", f32(&[4])), param(&mut b, "w", f32(&[4])));
    let features = b.unary(UnaryOp::Sin, x);
    let y = b.mul(features, w);
    let loss = sum_all(&mut b, y);
    append(&mut graph, loss, None, &[w]).unwrap();
    assert_eq!(count(&graph, "cos"), 0, "the gradient of the features was not asked for");
    assert_eq!(count(&graph, "mul"), 2);
}

#[test]
fn the_loss_has_its_seed_as_gradient_and_a_value_that_is_no_float_has_none() {
    let mut graph = Graph::new();
    let mut b = Builder::new(&mut graph, None);
    let loss = param(&mut b, "loss", f32(&[]));
    let scale = b.scalar("loss_scale", DType::F32);
    let index = input(&mut b, "i", Type::scalar(DType::I32));
    let gradients = append(&mut graph, loss, Some(scale), &[loss, loss, index]).unwrap();
    assert_eq!(gradients, [Some(scale), Some(scale), None]);
}

#[test]
fn new_ops_carry_the_origin_of_the_op_that_they_differentiate() {
    let mut graph = Graph::new();
    let at = |graph: &mut Graph, line| {
        Some(graph.origins.intern(Origin { file: "model.rs".into(), line, column: 5 }))
    };
    let (first, second) = (at(&mut graph, 10), at(&mut graph, 20));
    let w = param(&mut Builder::new(&mut graph, None), "w", f32(&[4]));
    let y = Builder::new(&mut graph, first).unary(UnaryOp::Sin, w);
    let loss = sum_all(&mut Builder::new(&mut graph, second), y);
    let before = graph.ops.len();
    append(&mut graph, loss, None, &[w]).unwrap();
    let origins: Vec<(&str, Option<OriginId>)> =
        graph.ops.iter().skip(before).map(|(_, op)| (op.kind.name(), op.origin)).collect();
    assert_eq!(
        origins,
        [("constant", second), ("reshape", second), ("broadcast", second), ("cos", first), ("mul", first)]
    );
}

#[test]
fn gradients_stop_where_an_op_has_no_slope() {
    let stops: [fn(&mut Builder<'_>, ValueId) -> ValueId; 5] = [
        |b, w| b.unary(UnaryOp::Floor, w),
        |b, w| b.unary(UnaryOp::Sign, w),
        |b, w| b.unary(UnaryOp::Detach, w),
        |b, w| {
            let integer = b.cast(w, DType::I32);
            b.cast(integer, DType::F32)
        },
        |b, w| {
            let zeros = b.splat_like(w, 0.0);
            let positive = b.compare(CompareOp::Gt, w, zeros);
            b.cast(positive, DType::F32)
        },
    ];
    for (i, stop) in stops.into_iter().enumerate() {
        let mut graph = Graph::new();
        let mut b = Builder::new(&mut graph, None);
        let w = param(&mut b, "w", f32(&[4]));
        let stopped = stop(&mut b, w);
        let loss = sum_all(&mut b, stopped);
        let before = graph.ops.len();
        assert_eq!(append(&mut graph, loss, None, &[w]).unwrap(), [None], "case {i}");
        assert_eq!(graph.ops.len(), before, "case {i} did work for nothing");
    }
}

#[test]
fn only_a_scalar_loss_can_be_differentiated() {
    let mut graph = Graph::new();
    let w = param(&mut Builder::new(&mut graph, None), "w", f32(&[4]));
    let error = append(&mut graph, w, None, &[w]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotDifferentiable);
    assert_eq!(error.message(), "the loss is f32[4], not one f32 number");
}

#[test]
fn coverage_names_every_parameter_without_a_gradient_and_the_remedy() {
    let mut graph = Graph::new();
    let origin = graph.origins.intern(Origin { file: "model.rs".into(), line: 7, column: 20 });
    let mut b = Builder::new(&mut graph, Some(origin));
    let used = param(&mut b, "head.weight", f32(&[4]));
    let idle = param(&mut b, "body.weight", f32(&[4]));
    let bias = param(&mut b, "body.bias", f32(&[4]));
    let loss = sum_all(&mut b, used);
    let wrt = [used, idle, bias];
    let gradients = append(&mut graph, loss, None, &wrt).unwrap();
    let names = ["head.weight", "body.weight", "body.bias"];
    let params: Vec<_> = names.into_iter().zip(wrt).collect();
    let error = coverage(&graph, &params, &gradients).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingGradient);
    assert_eq!(
        error.message(),
        "the loss does not depend on 2 trainable parameters: `body.weight`, `body.bias`"
    );
    assert_eq!(error.origin().map(|o| o.line), Some(7));
    assert!(error.to_string().contains(".freeze()"), "{error}");
    coverage(&graph, &params[..1], &gradients[..1]).unwrap();
}

fn attention(spec: AttentionSpec) -> (Graph, Vec<ValueId>, Vec<ValueId>) {
    let mut graph = Graph::new();
    let origin = graph.origins.intern(Origin { file: "model.rs".into(), line: 3, column: 9 });
    let mut b = Builder::new(&mut graph, Some(origin));
    let mut operands: Vec<_> =
        ["q", "k", "v"].iter().map(|name| param(&mut b, name, f32(&[2, 1, 4, 3]))).collect();
    if spec.block_table {
        operands.push(input(&mut b, "table", Type::new(DType::I32, [2, 2])));
    }
    let results = b.all(OpKind::Attention(spec), &operands);
    (graph, operands, results)
}

const PLAIN: AttentionSpec = AttentionSpec {
    causal: true,
    window: None,
    scale: 0.5,
    query_offset: false,
    key_length: false,
    block_table: false,
    dropout: None,
};

#[test]
fn what_attention_cannot_differentiate_is_refused_by_name_and_place() {
    // A loss that depends on the log-sum-exp is refused.
    let (mut graph, operands, results) = attention(PLAIN);
    let loss = sum_all(&mut Builder::new(&mut graph, None), results[1]);
    let error = append(&mut graph, loss, None, &operands).unwrap_err();
    assert_eq!((error.kind(), error.origin().map(|o| o.line)), (ErrorKind::NotDifferentiable, Some(3)));
    assert!(error.message().contains("attention") && error.message().contains("log-sum-exp"), "{error}");

    // Attention with a block table is refused.
    let (mut graph, operands, results) = attention(AttentionSpec { block_table: true, ..PLAIN });
    let loss = sum_all(&mut Builder::new(&mut graph, None), results[0]);
    let error = append(&mut graph, loss, None, &operands).unwrap_err();
    assert_eq!((error.kind(), error.origin().map(|o| o.line)), (ErrorKind::NotDifferentiable, Some(3)));
    assert!(error.message().contains("block table"), "{error}");

    // Second derivatives are refused.
    let (mut graph, operands, results) = attention(PLAIN);
    let loss = sum_all(&mut Builder::new(&mut graph, None), results[0]);
    let first = append(&mut graph, loss, None, &operands).unwrap();
    let again = sum_all(&mut Builder::new(&mut graph, None), first[0].unwrap());
    let error = append(&mut graph, again, None, &operands).unwrap_err();
    assert_eq!((error.kind(), error.origin().map(|o| o.line)), (ErrorKind::NotDifferentiable, Some(3)));
    assert!(error.message().contains("attention_grad"), "{error}");

    // A detached result is not an error, as no gradient flows to it.
    let (mut graph, operands, results) = attention(AttentionSpec { block_table: true, ..PLAIN });
    let mut b = Builder::new(&mut graph, None);
    let detached = b.unary(UnaryOp::Detach, results[0]);
    let loss = sum_all(&mut b, detached);
    assert_eq!(append(&mut graph, loss, None, &operands).unwrap(), [None; 4]);
}

/// The identity, with the kind of gradient that a test requires.
#[derive(Debug)]
enum Identity {
    NoGradient,
    TooMany,
    WrongShape,
    Right,
}

impl CustomOp for Identity {
    fn name(&self) -> &str {
        "identity"
    }
    fn infer(&self, operands: &[Type]) -> Result<Vec<Type>, TypeError> {
        Ok(operands.to_vec())
    }
    fn gradient(
        &self,
        builder: &mut Builder<'_>,
        _operands: &[ValueId],
        _results: &[ValueId],
        cotangents: &[Option<ValueId>],
    ) -> Option<Vec<Option<ValueId>>> {
        match self {
            Identity::NoGradient => None,
            Identity::TooMany => Some([cotangents, cotangents].concat()),
            Identity::WrongShape => Some(vec![Some(builder.number(1.0))]),
            Identity::Right => Some(cotangents.to_vec()),
        }
    }
    fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
        Ok(operands.to_vec())
    }
    fn run_on_host(
        &self,
        _: &[gradloom_core::ir::Slice<'_>],
        _: &mut [gradloom_core::ir::SliceMut<'_>],
    ) -> Result<(), String> {
        Err("not run here".into())
    }
}

#[test]
fn custom_ops_bring_their_own_rule_and_it_is_checked() {
    let cases = [
        (Identity::NoGradient, Some("the custom op `identity` has no gradient")),
        (Identity::TooMany, Some("returned 2 cotangents for 1 operands")),
        (Identity::WrongShape, Some("returned f32[] for operand 0, whose cotangent is f32[4]")),
        (Identity::Right, None),
    ];
    for (custom, message) in cases {
        let mut graph = Graph::new();
        graph.customs.push(Arc::new(custom));
        let mut b = Builder::new(&mut graph, None);
        let w = param(&mut b, "w", f32(&[4]));
        let y = b.op(OpKind::Custom(0), &[w]);
        let loss = sum_all(&mut b, y);
        match (append(&mut graph, loss, None, &[w]), message) {
            (Ok(gradients), None) => assert!(gradients[0].is_some()),
            (Err(error), Some(message)) => {
                assert_eq!(error.kind(), ErrorKind::NotDifferentiable);
                assert!(error.message().contains(message), "{error}");
            }
            (outcome, _) => panic!("{outcome:?}"),
        }
    }
}

#[test]
fn cotangents_of_sixteen_bits_are_f32_for_custom_ops_too() {
    let mut graph = Graph::new();
    graph.customs.push(Arc::new(Identity::Right));
    let mut b = Builder::new(&mut graph, None);
    let w = param(&mut b, "w", Type::new(DType::F16, [4]));
    let y = b.op(OpKind::Custom(0), &[w]);
    let y = b.op(OpKind::Cast { dtype: DType::F32 }, &[y]);
    let loss = sum_all(&mut b, y);
    let gradients = append(&mut graph, loss, None, &[w]).unwrap();
    assert_eq!(*graph.ty(gradients[0].unwrap()), f32(&[4]));
}

#[test]
fn expanding_a_graph_without_blocks_changes_nothing() {
    let mut graph = Graph::new();
    param(&mut Builder::new(&mut graph, None), "w", f32(&[4]));
    let before = (graph.ops.clone(), graph.blocks.clone());
    expand_blocks(&mut graph);
    assert_eq!((graph.ops, graph.blocks), before);
    assert_eq!(
        differentiability(&OpKind::Checkpoint { block: graph.entry }),
        Differentiability::Flows,
        "block ops are inlined, not refused"
    );
}

/// Appends `x <= 0 ? 0 : x`, where `zeros` builds both zeros. Returns the condition and the result.
fn rectified(b: &mut Builder<'_>, x: ValueId, zeros: impl Fn(&mut Builder<'_>) -> ValueId) -> [ValueId; 2] {
    let (limit, other) = (zeros(b), zeros(b));
    let condition = b.compare(CompareOp::Le, x, limit);
    [condition, b.select(condition, other, x)]
}

#[test]
fn the_backward_pass_of_a_rectifier_reads_its_result_alone() {
    type Zeros = fn(&mut Builder<'_>) -> ValueId;
    let as_written: Zeros = |b| b.splat(&f32(&[2, 3]), 0.0);
    let repeated: Zeros = |b| {
        let number = b.splat(&f32(&[]), 0.0);
        let one = b.reshape(number, [1, 1]);
        b.broadcast(one, &[2, 3].into())
    };
    let readers = |x_first: bool, zeros: Zeros| {
        let mut graph = Graph::new();
        let mut b = Builder::new(&mut graph, None);
        let w = param(&mut b, "w", f32(&[2, 3]));
        let x = b.unary(UnaryOp::Sin, w);
        let [condition, y] = rectified(&mut b, x, zeros);
        let y = if x_first { y } else { b.select(condition, w, x) };
        let loss = sum_all(&mut b, y);
        let forward = b.graph.entry_ops().count();
        append(&mut graph, loss, None, &[w]).unwrap();
        graph.entry_ops().skip(forward).filter(|(_, op)| op.operands.contains(&condition)).count()
    };
    assert_eq!([readers(true, as_written), readers(true, repeated)], [0, 0]);
    assert_eq!(readers(false, as_written), 2, "a choice between two that need gradients reads its condition");
}
