//! Tests every primitive with operands of extreme extents and with extreme attributes, forward and backward.

use crate::{Counts, EXTREMES, gpu_stages, with_gradients};
use gradloom_core::ir::{
    ArgReduceOp, AttentionSpec, BinaryFraction, BinaryOp, CompareOp, DType, DotAxes, Graph, Literal, Number,
    OpKind, Output, ReduceOp, ScatterOp, Type, UnaryOp, parse,
};
use gradloom_core::verify::verify;

/// An op and the types of its operands.
type Case = (OpKind, Vec<Type>);

fn f32(shape: &[usize]) -> Type {
    Type::new(DType::F32, shape)
}

fn i32(shape: &[usize]) -> Type {
    Type::new(DType::I32, shape)
}

/// Returns shapes that contain the two given extents.
fn shapes(v: usize, w: usize) -> Vec<Vec<usize>> {
    vec![vec![v], vec![v, w], vec![v, 2, w], vec![1, v], vec![v, 1, 1, w], vec![v, 0, w]]
}

fn unary_cases(v: usize, w: usize) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for shape in shapes(v, w) {
        let x = f32(&shape);
        let last = shape.len() - 1;
        let all: Vec<usize> = (0..shape.len()).collect();
        let mut one = |kind: OpKind| cases.push((kind, vec![x.clone()]));
        one(OpKind::Unary(UnaryOp::Tanh));
        one(OpKind::Cast { dtype: DType::Bool });
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max] {
            one(OpKind::Reduce { op, axes: vec![0] });
            one(OpKind::Reduce { op, axes: vec![last] });
            one(OpKind::Reduce { op, axes: all.clone() });
        }
        one(OpKind::Reduce { op: ReduceOp::Min, axes: vec![w] });
        one(OpKind::ArgReduce { op: ArgReduceOp::ArgMax, axis: 0 });
        one(OpKind::ArgReduce { op: ArgReduceOp::ArgMin, axis: last });
        one(OpKind::ArgReduce { op: ArgReduceOp::ArgMin, axis: w });
        one(OpKind::Cumulate { op: ReduceOp::Sum, reverse: false });
        one(OpKind::Cumulate { op: ReduceOp::Max, reverse: true });
        for count in [0, 1, v, w] {
            one(OpKind::Sort { count, descending: count == v });
        }
        one(OpKind::Permute { perm: all.iter().rev().copied().collect() });
        one(OpKind::Permute { perm: vec![w; shape.len()] });
        for to in shapes(w, v) {
            one(OpKind::Reshape { shape: to.clone().into() });
            one(OpKind::Broadcast { shape: to.into() });
        }
        cases.push((OpKind::Binary(BinaryOp::Mul), vec![x.clone(), x.clone()]));
        cases.push((OpKind::Compare(CompareOp::Lt), vec![x.clone(), x.clone()]));
        let condition = Type::new(DType::Bool, &shape[..]);
        cases.push((OpKind::Select, vec![condition, x.clone(), x.clone()]));
        cases.push((OpKind::Barrier, vec![x.clone(), i32(&[w])]));
        for axis in [0, last, w] {
            cases.push((OpKind::Concat { axis }, vec![x.clone(), x.clone(), f32(&vec![1; shape.len()])]));
            cases.push((OpKind::Concat { axis }, vec![x.clone(); 3]));
        }
    }
    for to in shapes(v, w) {
        let ones = vec![1; to.len()];
        cases.push((OpKind::Broadcast { shape: to.clone().into() }, vec![f32(&ones)]));
        cases.push((OpKind::Reshape { shape: to.into() }, vec![f32(&ones)]));
    }
    cases
}

/// Returns slices and pads with extreme numbers along one axis, of small and large operands.
fn window_cases(v: usize, w: usize) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for extent in [0, 1, 4, v, w] {
        for step in [1, 2, v, w] {
            for (start, limit) in [(0, extent), (0, extent.min(2)), (1, extent), (v, w), (extent, extent)] {
                let kind = |at: [usize; 2], all: [usize; 2]| OpKind::Slice {
                    start: vec![start, at[0]],
                    limit: vec![limit, at[1]],
                    step: all.to_vec(),
                };
                cases.push((kind([0, 3], [step, 1]), vec![f32(&[extent, 3])]));
                cases.push((kind([0, 1], [step, step]), vec![f32(&[extent, 3])]));
            }
        }
        for (low, high, gap) in [(v, w, 0), (0, 0, v), (v, 0, w), (0, w, v), (v, v, v), (0, 1, v), (1, 0, 2)]
        {
            let value = Number::Float(0.5);
            let pad = |axis: usize| {
                let at = |n: usize| if axis == 0 { vec![n, 0] } else { vec![0, n] };
                OpKind::Pad { low: at(low), high: at(high), interior: at(gap), value }
            };
            cases.push((pad(0), vec![f32(&[extent, 3])]));
            cases.push((pad(1), vec![f32(&[3, extent])]));
        }
        let start = || i32(&[]);
        let window = OpKind::DynamicSlice { sizes: vec![v, 1] };
        cases.push((window, vec![f32(&[extent, 3]), start(), start()]));
        let update = vec![f32(&[extent, 3]), f32(&[w, 2]), start(), start()];
        cases.push((OpKind::DynamicUpdateSlice, update));
    }
    cases
}

fn index_cases(v: usize, w: usize) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for batch in [0, 1, v, w] {
        let operands = [
            [f32(&[v, 3]), i32(&[w]), f32(&[w, 3])],
            [f32(&[v, w]), i32(&[v]), f32(&[v])],
            [f32(&[2, v]), i32(&[2, w]), f32(&[2, w])],
            [f32(&[4, v]), i32(&[v, w]), f32(&[v, w, v])],
        ];
        for [x, index, updates] in operands {
            cases.push((OpKind::Gather { batch }, vec![x.clone(), index.clone()]));
            for op in [ScatterOp::Add, ScatterOp::Set, ScatterOp::Distinct] {
                cases.push((OpKind::Scatter { op, batch }, vec![x.clone(), index.clone(), updates.clone()]));
            }
        }
    }
    cases
}

fn product_cases(v: usize, w: usize) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let axes = |batch: &[usize], left: &[usize], right: &[usize]| DotAxes {
        lhs_batch: batch.to_vec(),
        rhs_batch: batch.to_vec(),
        lhs_contract: left.to_vec(),
        rhs_contract: right.to_vec(),
    };
    let mut dot =
        |axes: DotAxes, a: &[usize], b: &[usize]| cases.push((OpKind::Dot(axes), vec![f32(a), f32(b)]));
    dot(axes(&[], &[1], &[0]), &[v, w], &[w, 3]);
    dot(axes(&[], &[1], &[0]), &[v, 3], &[3, w]);
    dot(axes(&[], &[1], &[0]), &[2, v], &[v, 2]);
    dot(axes(&[0], &[2], &[1]), &[v, 2, 3], &[v, 3, w]);
    dot(axes(&[], &[0], &[0]), &[v], &[v]);
    dot(axes(&[], &[], &[]), &[v], &[w]);
    dot(axes(&[v], &[w], &[0]), &[2, 3], &[2, 3]);
    for [query_offset, key_length, block_table] in [[false; 3], [true, true, false], [true, true, true]] {
        for causal in [false, true] {
            let spec = AttentionSpec {
                causal,
                window: None,
                scale: 1e300,
                query_offset,
                key_length,
                block_table,
                dropout: None,
            };
            let shapes = [
                ([1, 1, v, 2], [1, 1, w, 2]),
                ([v, 2, 3, 4], [v, 1, w, 4]),
                ([1, v, 2, 2], [1, w, 2, 2]),
                ([1, 2, 2, v], [1, 2, w, v]),
                ([v, w, 1, 1], [v, w, 1, 1]),
            ];
            for (q, k) in shapes {
                let mut operands = vec![f32(&q), f32(&k), f32(&k)];
                operands.extend(query_offset.then(|| i32(&[])));
                operands.extend(key_length.then(|| i32(&[])));
                operands.extend(block_table.then(|| i32(&[q[0], w])));
                cases.push((OpKind::Attention(spec), operands.clone()));
                operands.extend([f32(&q), f32(&q[..3]), f32(&q)]);
                cases.push((OpKind::AttentionGrad(spec), operands));
            }
        }
    }
    cases
}

fn leaf_cases(v: usize, w: usize) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for shape in shapes(v, w) {
        let ty = f32(&shape);
        let init = Number::Float(0.5);
        cases.push((OpKind::Param { name: "w".into(), ty: ty.clone() }, vec![]));
        cases.push((OpKind::State { name: "s".into(), ty: ty.clone(), init, whole: Vec::new() }, vec![]));
        cases.push((OpKind::Constant { ty: ty.clone(), data: Literal::Splat(init) }, vec![]));
        for axis in [0, shape.len() - 1, v] {
            cases.push((OpKind::Iota { ty: ty.clone(), axis }, vec![]));
        }
        let site = u32::try_from(w).unwrap_or(u32::MAX);
        let key = vec![Type::scalar(DType::U32); 3];
        cases.push((OpKind::RandomBits { shape: shape.into(), site, ones: BinaryFraction::HALF }, key));
    }
    for dtype in DType::ALL {
        cases.push((OpKind::Scalar { name: "t".into(), dtype }, vec![]));
    }
    cases
}

/// Returns a graph of the op with inputs as operands, and with further ops on its results, which can be fused
/// with it. Returns `None` if the op is rejected.
fn graph_of((kind, operands): &Case) -> Option<Graph> {
    let mut graph = Graph::new();
    let mut inputs = Vec::new();
    for (i, ty) in operands.iter().enumerate() {
        let leaf = OpKind::Input { name: format!("x{i}"), ty: ty.clone() };
        inputs.extend(graph.add(leaf, &[], None).ok()?);
    }
    let results = graph.add(kind.clone(), &inputs, None).ok()?;
    for (i, &value) in results.iter().enumerate() {
        graph.outputs.push(Output { name: format!("y{i}"), value });
        if graph.ty(value).dtype == DType::F32 {
            let value = graph.add(OpKind::Unary(UnaryOp::Neg), &[value], None).ok()?[0];
            graph.outputs.push(Output { name: format!("z{i}"), value });
        }
    }
    // Apply the op to its own result.
    if let ([x], [y]) = (&operands[..], &results[..])
        && x.shape.rank() == graph.ty(*y).shape.rank()
        && let Ok(again) = graph.add(kind.clone(), &[*y], None)
    {
        graph.outputs.push(Output { name: "again".into(), value: again[0] });
    }
    Some(graph)
}

fn check(cases: impl Fn(usize, usize) -> Vec<Case>) {
    let (mut counts, mut backward) = (Counts::default(), Counts::default());
    for (i, v) in EXTREMES.into_iter().enumerate() {
        // Test every second pair, to save time; each number is still paired with smaller and larger ones.
        for w in EXTREMES.into_iter().skip(i % 2).step_by(2) {
            for case in cases(v, w) {
                let Some(graph) = graph_of(&case) else {
                    counts.refused += 1;
                    continue;
                };
                let text = graph.to_string();
                counts.check(&text);
                if let Some(graph) = parse(&text).ok().filter(|graph| verify(graph).is_ok()) {
                    gpu_stages(&text, &gradloom_core::passes::run(graph).0);
                }
                let values = |leaf: bool| {
                    let ops = graph.entry_ops().filter(move |(_, op)| op.kind.is_external_leaf() == leaf);
                    ops.flat_map(|(_, op)| op.results.clone()).collect::<Vec<_>>()
                };
                let (inputs, results) = (values(true), values(false));
                if let Some(gradients) = with_gradients(&text, graph, &results, &inputs) {
                    backward.check(&gradients.to_string());
                }
            }
        }
    }
    println!("forward {counts:?}, backward {backward:?}");
    assert!(counts.planned > 100 && counts.refused > 100, "{counts:?} {backward:?}");
}

#[test]
fn elementwise_ops_reductions_and_views() {
    check(unary_cases);
}

#[test]
fn slices_pads_and_windows() {
    check(window_cases);
}

#[test]
fn gathers_and_scatters() {
    check(index_cases);
}

#[test]
fn products_and_attention() {
    check(product_cases);
}

#[test]
fn leaves() {
    check(leaf_cases);
}

/// From a bug report: the product of the second step and the first exceeds 64 bits.
#[test]
fn a_step_that_is_never_taken_is_not_multiplied() {
    let text = "graph {\n%0: f32[4] = input \"x\"\n%1: f32[2] = slice %0 {start=[0], limit=[4], step=[2]}\n\
                %2: f32[1] = slice %1 {start=[0], limit=[2], step=[9223372036854775808]}\noutput \"y\" %2\n}";
    let mut counts = Counts::default();
    counts.check(text);
    assert_eq!((counts.refused, counts.planned), (0, 2));
}
