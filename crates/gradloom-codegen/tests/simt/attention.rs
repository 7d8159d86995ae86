//! Tests of the attention kernels against the reference, with every schedule and with operands in several
//! layouts.

use gradloom_codegen::schedule::attention::{
    Choice, Kernel, Lanes, Matrices, Problem, Tile, Warpgroups, choose,
};
use gradloom_codegen::simt::kernels::{View, Views, kernels};
use gradloom_codegen::simt::{self, Array, Fault, Space, ValueType, verify};
use gradloom_codegen::wgsl::Limits;
use gradloom_core::ir::{AttentionSpec, DType, Graph, Op, OpKind, Type, ValueId, parse};
use gradloom_core::kernel::{self, AttentionSchedule, Layout, Schedule};
use gradloom_core::philox::random_word;
use gradloom_core::reference::{HostTensor, evaluate_values};
use gradloom_grid::{Machine, bits};
use gradloom_testing::Leaves;

/// Extents: batch, heads, key heads, queries, keys, depth, value depth.
type Extents = [usize; 7];

/// For schedules without shared memory on GPUs, the number of invocations of a workgroup, and the minimum
/// number of rows for which a workgroup has a single head.
const GPU: [usize; 2] = [64, 64];
/// Same numbers as [`GPU`], for devices that emulate a GPU on a CPU.
const CPU: [usize; 2] = [8, 0];

/// Schedule of all kernels, and the dtype to which matrix instructions round.
type How = (Choice, [usize; 2], DType);

fn block(rows_each: usize, columns_each: usize, row_threads: usize, column_threads: usize) -> How {
    (Choice::Block(Tile { rows_each, columns_each, row_threads, column_threads }), GPU, DType::F16)
}

fn matrices(columns: usize, half: DType) -> How {
    (Choice::Matrices(Matrices { subgroup: 32, columns }), GPU, half)
}

fn warpgroups(warpgroups: usize, half: DType) -> How {
    (Choice::Warpgroups(Warpgroups { warpgroups }), GPU, half)
}

/// Returns a schedule by lanes, which each hold `each` elements of a key.
fn lanes(threads: usize, each: usize) -> How {
    (Choice::Lanes(Lanes { threads, each }), GPU, DType::F16)
}

fn own(rows: usize, of: [usize; 2]) -> How {
    (Choice::Own { rows }, of, DType::F16)
}

/// Returns schedules with blocks of both widths of columns, and schedules by rows for both kinds of devices.
fn every_way() -> [How; 6] {
    [block(2, 4, 2, 2), block(1, 2, 4, 2), block(3, 2, 1, 3), own(1, GPU), own(1, CPU), own(2, CPU)]
}

fn list(extents: &[usize]) -> String {
    extents.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the text of attention and its gradient; `flags` are the op's attributes.
fn text([b, h, g, t, s, d, e]: Extents, flags: &str) -> String {
    let (q, k, v) = (list(&[b, h, t, d]), list(&[b, g, s, d]), list(&[b, g, s, e]));
    let (output, log_sum) = (list(&[b, h, t, e]), list(&[b, h, t]));
    let kept = list(&[b, h, t, s.div_ceil(32)]);
    let mut operands = "%0, %1, %2".to_string();
    for (flag, operand) in [("query_offset", ", %3"), ("key_length", ", %4"), ("dropout", ", %11")] {
        if flags.contains(flag) {
            operands.push_str(operand);
        }
    }
    let op =
        if flags.starts_with("scale") { format!("{{{flags}}}") } else { format!("{{scale=0.25{flags}}}") };
    format!(
        "%0: f32[{q}] = input \"q\"\n%1: f32[{k}] = input \"k\"\n%2: f32[{v}] = input \"v\"\n\
         %11: u32[{kept}] = input \"kept\"\n%3: i32[] = input \"offset\"\n%4: i32[] = input \"length\"\n%5: f32[{output}] = input \"g\"\n\
         %6: f32[{output}], %7: f32[{log_sum}] = attention {operands} {op}\n\
         %8: f32[{q}], %9: f32[{k}], %10: f32[{v}] = attention_grad {operands}, %6, %7, %5 {op}"
    )
}

/// Attention over paged keys and values.
const OVER_A_TABLE: &str = "%0: f32[2, 2, 3, 6] = input \"q\"\n%1: f32[5, 1, 4, 6] = input \"k\"\n\
    %2: f32[5, 1, 4, 5] = input \"v\"\n%3: i32[] = input \"offset\"\n%4: i32[] = input \"length\"\n\
    %5: i32[2, 3] = input \"table\"\n\
    %6: f32[2, 2, 3, 5], %7: f32[2, 2, 3] = attention %0, %1, %2, %3, %4, %5 \
    {scale=0.25, causal, query_offset, key_length, block_table}";

#[track_caller]
fn graph(lines: &str) -> Graph {
    let graph = parse(&format!("graph {{\n{lines}\n}}")).unwrap_or_else(|error| panic!("{error:?}\n{lines}"));
    gradloom_core::verify::verify(&graph).unwrap_or_else(|error| panic!("{error}\n{lines}"));
    graph
}

fn leaves(offset: i32, length: i32) -> Leaves {
    let number = |value: i32| [f64::from(value)];
    let leaves = Leaves::random(7).with("offset", DType::I32, &[], &number(offset));
    leaves.with("length", DType::I32, &[], &number(length))
}

/// Returns the attention op of a graph, or its gradient.
fn attention_of(graph: &Graph, gradient: bool) -> (&Op, AttentionSpec) {
    let found = graph.entry_ops().find_map(|(_, op)| match &op.kind {
        OpKind::Attention(spec) if !gradient => Some((op, *spec)),
        OpKind::AttentionGrad(spec) if gradient => Some((op, *spec)),
        _ => None,
    });
    found.expect("the graph has it")
}

/// Returns the layout of a tensor: contiguous, or with reversed axes, an innermost stride of 2, and an offset
/// of 3.
fn layout(shape: &[usize], scattered: bool) -> Layout {
    let natural = Layout::contiguous(&shape.to_vec().into());
    if !scattered {
        return natural;
    }
    let mut strides = vec![0; shape.len()];
    let mut next = 2;
    for (stride, &extent) in strides.iter_mut().zip(shape) {
        *stride = next;
        next *= extent.max(1);
    }
    Layout::new(3, shape.to_vec().into(), strides)
}

/// Kernels of an op, with the layouts of its operands and results.
struct Made {
    kernels: Vec<simt::Kernel>,
    schedule: AttentionSchedule,
    reads: Vec<Layout>,
    /// Dtype of each operand in memory.
    dtypes: Vec<DType>,
    writes: Vec<Layout>,
}

#[track_caller]
fn made(graph: &Graph, gradient: bool, (choice, own, half): How, scattered: bool, gated: bool) -> Made {
    let (op, spec) = attention_of(graph, gradient);
    // Products of warpgroups copy rows of 16-bit floats.
    let copies = matches!(choice, Choice::Warpgroups(_));
    let scattered = scattered && !copies;
    let dtypes: Vec<DType> = op
        .operands
        .iter()
        .map(|&value| match graph.ty(value) {
            ty if copies && ty.shape.rank() == 4 && ty.dtype == DType::F32 => half,
            ty => ty.dtype,
        })
        .collect();
    let layouts = |values: &[ValueId]| -> Vec<Layout> {
        values.iter().map(|&value| layout(&graph.ty(value).shape, scattered)).collect()
    };
    let (reads, writes) = (layouts(&op.operands), layouts(&op.results));
    // Matrices and lanes load rows as vectors if the rows consist of whole vectors.
    let loads_vectors = !scattered
        && matches!(choice, Choice::Matrices(_) | Choice::Lanes(_) | Choice::Warpgroups(_))
        && op
            .operands
            .iter()
            .filter(|&&value| graph.ty(value).shape.rank() == 4 && graph.ty(value).dtype == DType::F32)
            .all(|&value| graph.ty(value).shape[3].is_multiple_of(4));
    fn views<'l>(dtypes: &[DType], layouts: &'l [Layout], loads_vectors: bool) -> Vec<View<'l>> {
        let view = |(&dtype, layout): (&DType, &'l Layout)| {
            let has_vectors = loads_vectors && layout.shape.rank() == 4;
            View { dtype, layout, has_vectors, is_early: loads_vectors }
        };
        dtypes.iter().zip(layouts).map(view).collect()
    }
    let written: Vec<DType> = op.results.iter().map(|&value| graph.ty(value).dtype).collect();
    let shape = |read: usize| &reads[read].shape[..];
    let table = spec.extra_positions()[2].map(shape);
    let kinds: &[Kernel] = if gradient { &[Kernel::Queries, Kernel::Keys] } else { &[Kernel::Forward] };
    let schedule = AttentionSchedule {
        problem: Problem::new(&spec, [shape(0), shape(1), shape(2)], table),
        kernels: kinds.iter().map(|&kernel| (kernel, choice)).collect(),
        half,
        fragments: gated,
        means_apart: (gradient && gated).then_some(32),
        workgroup: own[0],
        together_from: own[1],
    };
    let views = Views {
        reads: views(&dtypes, &reads, loads_vectors),
        writes: views(&written, &writes, false),
        gated,
        in_place: false,
    };
    let launch = kernel::Kernel::Op(op.kind.clone());
    let kernels = kernels(&launch, &Schedule::Attention(schedule.clone()), &views, "attention")
        .expect("attention has kernels");
    kernels.iter().for_each(|kernel| verify(kernel).unwrap_or_else(|error| panic!("{error}\n{kernel}")));
    Made { kernels, schedule, reads, dtypes, writes }
}

/// Runs the kernels of an op on the values of its operands; returns the machine afterwards.
#[track_caller]
fn run(graph: &Graph, made: &Made, value: &dyn Fn(ValueId) -> HostTensor, committed: bool) -> Machine {
    let (op, _) = attention_of(graph, made.kernels.len() == 2 || made.schedule.workspace() > 0);
    let spread = |((&operand, layout), &dtype): ((&ValueId, &Layout), &DType)| {
        // Words outside of the layout hold a NaN pattern, so that their use is detected.
        let mut buffer = vec![0x7fc0_dead; layout.end().max(1)];
        let ty = Type::new(dtype, &layout.shape[..]);
        let elements = bits(&HostTensor::from_f64(ty, value(operand).to_f64()));
        layout.positions().zip(elements).for_each(|(at, bits)| buffer[at] = bits);
        buffer
    };
    let mut machine = Machine {
        operands: op.operands.iter().zip(&made.reads).zip(&made.dtypes).map(spread).collect(),
        results: made.writes.iter().map(|layout| vec![None; layout.end()]).collect(),
        workspace: vec![None; made.schedule.workspace() as usize / 4],
        faults: Vec::new(),
        checked: Vec::new(),
        committed,
        status: Vec::new(),
    };
    for kernel in &made.kernels {
        machine.run(kernel).unwrap_or_else(|error| panic!("{error}"));
    }
    machine
}

/// Returns random words if a leaf is the kept keys.
fn kept(leaf: &OpKind) -> Option<HostTensor> {
    let OpKind::Input { name, ty } = leaf else { return None };
    let word = |i: usize| f64::from(random_word([3, 7], 0, 0, i as u64, 0));
    (name == "kept").then(|| HostTensor::from_f64(ty.clone(), (0..ty.elements()).map(word)))
}

/// Checks attention or its gradient, computed with one schedule.
#[track_caller]
fn agrees(lines: &str, leaves: &Leaves, gradient: bool, how: How, scattered: bool) {
    let graph = graph(lines);
    let (op, _) = attention_of(&graph, gradient);
    let values = evaluate_values(&graph, &|kind| kept(kind).or_else(|| leaves.value(kind)))
        .unwrap_or_else(|error| panic!("{error}"));
    let value = |id: ValueId| values.get(id).expect("it was evaluated").clone();
    let made = made(&graph, gradient, how, scattered, true);
    let machine = run(&graph, &made, &value, true);
    assert_eq!(machine.faults, [], "{lines}");
    for ((&result, layout), words) in op.results.iter().zip(&made.writes).zip(&machine.results) {
        let expected = value(result).to_f64();
        let places: Vec<usize> = layout.positions().collect();
        let written = words.iter().filter(|word| word.is_some()).count();
        assert_eq!(written, places.len(), "{how:?} writes its results and nothing else, of\n{lines}");
        let largest = expected.iter().filter(|x| x.is_finite()).fold(1.0_f64, |a, b| a.max(b.abs()));
        for (i, (at, want)) in places.into_iter().zip(expected).enumerate() {
            let got = f64::from(f32::from_bits(words[at].expect("all is written")));
            let tolerance = match how {
                (Choice::Matrices(_) | Choice::Warpgroups(_), _, DType::BF16) => 8.0 * TOLERANCE_OF_HALVES,
                (Choice::Matrices(_) | Choice::Warpgroups(_), ..) => TOLERANCE_OF_HALVES,
                _ => TOLERANCE,
            };
            let is_close = got == want || (got - want).abs() <= tolerance * largest;
            assert!(is_close, "{result}[{i}] is {got}, expected {want}, by {how:?}, of\n{lines}");
        }
    }
}

/// A score is a sum of up to 70 products of numbers below 2, times 1/4: the magnitudes of its terms add up to
/// less than 70, and to 17 on average. Each addition has a relative rounding error of 2^-24 of the partial
/// sum, so the error of a score is below 70 * 17 * 2^-24 = 7e-5 in the worst case and, because rounding
/// errors have random signs, typically sqrt(70) * 17 * 2^-24 = 8e-6. That is also the relative error of its
/// exponential. Sums of weights and values add less. A missing or additional key, or a wrong element, changes
/// results by about a hundredth.
const TOLERANCE: f64 = 2e-5;
/// Operands, weights and slopes have 11 bits. The sum of about 16 terms of a score is below 17, so its error
/// is 17 / sqrt(16) * 2^-11 = 2e-3, because rounding errors have random signs. With bf16, they have 8 bits.
const TOLERANCE_OF_HALVES: f64 = 6e-3;

/// Checks attention and its gradient with several schedules.
#[track_caller]
fn agree_by(ways: &[How], extents: Extents, flags: &str, [offset, length]: [i32; 2]) {
    for (i, &how) in ways.iter().enumerate() {
        for gradient in [false, true] {
            agrees(&text(extents, flags), &leaves(offset, length), gradient, how, i % 2 == 0);
        }
    }
}

#[test]
fn every_mask_in_every_way() {
    let extents = [1, 2, 1, 5, 11, 3, 5];
    agree_by(&every_way(), extents, "", [0, 0]);
    agree_by(&every_way(), extents, ", causal", [0, 0]);
    agree_by(&every_way(), extents, ", causal, query_offset", [4, 0]);
    agree_by(&every_way(), extents, ", key_length", [0, 7]);
    agree_by(&every_way(), extents, ", causal, query_offset, key_length", [3, 6]);
}

#[test]
fn windows_in_every_way() {
    let ways = [block(2, 4, 2, 2), block(3, 2, 1, 3), own(1, GPU), own(1, CPU), own(2, CPU)];
    for window in ["1", "3", "10", "268435456"] {
        for masks in ["", ", causal"] {
            let flags = |more: &str| format!("{masks}, window={window}{more}");
            agree_by(&ways, [1, 2, 1, 13, 11, 3, 5], &flags(""), [0, 0]);
            for bounds in [[3, 9], [-6, 9], [30, 11], [i32::MIN, 9], [i32::MAX, 9]] {
                agree_by(&ways, [1, 2, 2, 13, 11, 4, 4], &flags(", query_offset, key_length"), bounds);
            }
        }
    }
    // With this many rows, all rows of a workgroup have the same head.
    agree_by(&ways, [1, 1, 1, 140, 70, 4, 4], ", causal, window=5", [0, 0]);
    agree_by(&ways, [1, 1, 1, 70, 140, 4, 4], ", window=5", [0, 0]);
}

#[test]
fn dropout_in_every_way() {
    let masks = ["", ", causal", ", causal, window=5", ", window=40, query_offset, key_length"];
    for flags in masks.map(|masks| format!("{masks}, dropout=1.25")) {
        agree_by(&every_way(), [2, 2, 1, 5, 11, 3, 5], &flags, [4, 7]);
        agree_by(&every_way(), [1, 2, 2, 13, 70, 4, 4], &flags, [30, 60]);
        let halves = [DType::F16, DType::BF16].map(|half| [matrices(32, half), warpgroups(1, half)]).concat();
        let ways = [&halves[..], &[matrices(16, DType::F32), warpgroups(2, DType::F16)]].concat();
        agree_by(&ways, [1, 2, 1, 70, 130, 16, 32], &flags, [50, 110]);
        agree_by(&ways, [2, 1, 1, 130, 70, 32, 16], &flags, [-20, 70]);
    }
    // The matrices of this scale exchange scores through memory.
    agree_by(&[matrices(32, DType::F16)], [1, 2, 1, 70, 130, 16, 32], "scale=-0.5, dropout=1.25", [0, 0]);
}

/// Returns leaves in which the elements of queries that see no key, and of keys that no query sees, are NaN.
fn spoiled(graph: &Graph, leaves: Leaves, [offset, length]: [i32; 2]) -> Leaves {
    let (op, spec) = attention_of(graph, false);
    let shape = |read: usize| graph.ty(op.operands[read]).shape.clone();
    let (queries, keys) = (shape(0)[2] as i64, shape(1)[2] as i64);
    let offset = if spec.query_offset { i64::from(offset) } else { 0 };
    let length = if spec.key_length { i64::from(length) } else { keys };
    let sees = |query: i64, key: i64| {
        let distance = offset + query - key;
        let window = spec.window.map_or(i64::MAX, i64::from);
        key < length && (!spec.causal || distance >= 0) && distance.abs() < window
    };
    let sees_any = |query: usize| (0..keys).any(|key| sees(query as i64, key));
    let is_seen = |key: usize| (0..queries).any(|query| sees(query, key as i64));
    let used: [(&str, &dyn Fn(usize) -> bool); 4] =
        [("q", &sees_any), ("k", &is_seen), ("v", &is_seen), ("g", &sees_any)];
    used.into_iter().fold(leaves, |leaves, (name, is_used)| {
        let is_leaf = |op: &&Op| matches!(&op.kind, OpKind::Input { name: other, .. } if *other == name);
        let leaf = graph.entry_ops().map(|(_, op)| op).find(is_leaf).expect("it is an input");
        let value = leaves.value(&leaf.kind).expect("it has a value");
        let shape = value.ty.shape.to_vec();
        let mut data = value.to_f64();
        for (i, x) in data.iter_mut().enumerate() {
            if !is_used(i / shape[3] % shape[2]) {
                *x = f64::NAN;
            }
        }
        leaves.with(name, DType::F32, &shape, &data)
    })
}

#[test]
fn rows_that_are_not_used_may_be_nan() {
    let small = [block(2, 4, 2, 2), block(3, 2, 1, 3), own(1, GPU), own(1, CPU), own(2, CPU), lanes(32, 4)];
    let large = [matrices(32, DType::F16), warpgroups(1, DType::F16), warpgroups(2, DType::BF16)];
    let everything = ", query_offset, key_length";
    for (ways, [queries, keys], window, bounds) in [
        (&small[..], [13, 11], 3, [[4, 9], [-6, 11], [9, 11], [-2, 3], [0, 0]]),
        (&large[..], [100, 130], 20, [[40, 100], [-50, 130], [110, 130], [-30, 25], [0, 0]]),
    ] {
        let extents = [1, 2, 1, queries, keys, 16, 16];
        for (flags, bounds) in bounds.into_iter().flat_map(|bounds| {
            let windows =
                ["", ", causal"].map(|mask| (format!("{mask}, window={window}{everything}"), bounds));
            [windows, ["", ", causal"].map(|mask| (format!("{mask}{everything}"), bounds))].concat()
        }) {
            let lines = text(extents, &flags);
            let leaves = spoiled(&graph(&lines), leaves(bounds[0], bounds[1]), bounds);
            for &how in ways {
                for gradient in [false, true] {
                    if !(gradient && matches!(how.0, Choice::Lanes(_))) {
                        agrees(&lines, &leaves, gradient, how, false);
                    }
                }
            }
        }
        // Keys beyond the last query's position.
        let lines = text(extents, ", causal");
        let spoiled = spoiled(&graph(&lines), leaves(0, 0), [0, 0]);
        for &how in ways.iter().filter(|how| !matches!(how.0, Choice::Lanes(_))) {
            agrees(&lines, &spoiled, true, how, false);
        }
    }
}

#[test]
fn windows_by_matrices() {
    let ways = [
        matrices(32, DType::F16),
        matrices(16, DType::BF16),
        warpgroups(1, DType::F16),
        warpgroups(2, DType::BF16),
    ];
    for (window, extents) in [
        (1, [1, 2, 1, 70, 100, 16, 32]),
        (50, [1, 1, 1, 200, 200, 32, 16]),
        (70, [1, 2, 1, 280, 150, 16, 16]),
    ] {
        for masks in ["", ", causal"] {
            agree_by(&ways, extents, &format!("{masks}, window={window}"), [0, 0]);
        }
    }
    for bounds in [[40, 63], [-30, 70], [200, 70], [90, 70]] {
        agree_by(&ways, [2, 1, 1, 20, 70, 16, 16], ", causal, window=30, query_offset, key_length", bounds);
        agree_by(&ways, [2, 1, 1, 20, 70, 16, 16], ", window=30, query_offset, key_length", bounds);
    }
    // Warpgroups require a positive scale.
    agree_by(&ways[..2], [1, 1, 1, 70, 70, 16, 16], "scale=-0.5, causal, window=40", [0, 0]);
}

#[test]
fn matrices_of_every_mask() {
    for half in [DType::F16, DType::BF16, DType::F32] {
        matrices_of_every_mask_in(half);
    }
}

fn matrices_of_every_mask_in(half: DType) {
    let ways = [matrices(32, half), matrices(16, half)];
    agree_by(&ways, [1, 2, 1, 70, 100, 16, 32], "", [0, 0]);
    agree_by(&ways, [1, 1, 1, 130, 130, 32, 16], ", causal", [0, 0]);
    agree_by(&ways, [2, 1, 1, 20, 70, 16, 16], ", causal, query_offset, key_length", [40, 63]);
    // With a negative scale, the greatest score is not the greatest product; with a scale of zero, all scores
    // are equal.
    for scale in ["scale=-0.5, causal", "scale=0.0, causal"] {
        if half != DType::F32 {
            agree_by(&ways, [1, 1, 1, 70, 70, 16, 16], scale, [0, 0]);
        }
    }
    agree_by(
        &[matrices(64, half), matrices(16, half)],
        [1, 1, 1, 3, 5, 64, 64],
        ", causal, query_offset",
        [-2, 0],
    );
}

#[test]
fn warpgroups_of_every_mask() {
    let ways = [warpgroups(1, DType::F16), warpgroups(2, DType::BF16)];
    agree_by(&ways, [1, 2, 1, 70, 100, 16, 32], "", [0, 0]);
    agree_by(&ways, [1, 1, 1, 130, 130, 32, 16], ", causal", [0, 0]);
    agree_by(&ways, [1, 1, 1, 140, 140, 64, 64], ", causal", [0, 0]);
    agree_by(&ways, [2, 1, 1, 20, 70, 16, 16], ", causal, query_offset, key_length", [40, 63]);
    agree_by(&ways, [1, 1, 1, 3, 5, 64, 64], ", causal, query_offset", [-2, 0]);
    // Widths of one panel, of several narrow ones, and of two wide ones.
    for width in [48, 80, 96, 128] {
        agree_by(&[warpgroups(1, DType::F16)], [1, 1, 1, 66, 67, width, width], ", causal", [0, 0]);
    }
}

#[test]
fn queries_that_see_no_key() {
    let ways = [block(2, 4, 2, 2), own(1, GPU), own(2, CPU)];
    let extents = [1, 2, 2, 5, 6, 4, 4];
    agree_by(&ways, extents, ", causal, query_offset", [-2, 0]);
    for bounds in [[i32::MIN, 6], [i32::MAX, 6], [3, 0]] {
        agree_by(&ways, extents, ", causal, query_offset, key_length", bounds);
    }
}

#[test]
fn heads_that_share_keys() {
    agree_by(&[block(2, 4, 2, 2), own(1, GPU), own(2, CPU)], [2, 4, 2, 6, 9, 8, 8], ", causal", [0, 0]);
    agree_by(&[block(1, 2, 2, 2), own(4, CPU)], [1, 3, 1, 3, 4, 8, 4], "", [0, 0]);
}

#[test]
fn rows_longer_than_registers() {
    for extents in [[1, 1, 1, 3, 5, 70, 66], [1, 1, 1, 3, 4, 70, 3], [1, 1, 1, 2, 3, 8, 130]] {
        agree_by(
            &[block(1, 4, 2, 4), block(1, 2, 2, 2), own(1, GPU), own(2, CPU)],
            extents,
            ", causal",
            [0, 0],
        );
    }
}

#[test]
fn few_rows_and_many() {
    let all = [block(2, 4, 4, 2), block(1, 4, 2, 8), own(1, GPU), own(4, CPU)];
    agree_by(&all, [1, 1, 1, 2, 40, 4, 4], "", [0, 0]);
    // With this many rows, all rows of a workgroup have the same head.
    agree_by(&all, [1, 2, 1, 67, 3, 4, 4], "", [0, 0]);
    agree_by(&all, [1, 1, 1, 3, 65, 4, 4], ", causal, query_offset", [60, 0]);
    agree_by(&all, [1, 1, 1, 34, 34, 4, 4], ", causal", [0, 0]);
}

#[test]
fn extents_of_one_and_none() {
    agree_by(&every_way(), [1, 1, 1, 1, 1, 1, 1], ", causal", [0, 0]);
    agree_by(&every_way(), [2, 1, 1, 1, 3, 1, 2], "", [0, 0]);
    let rows = [own(1, GPU), own(2, CPU)];
    for extents in [[1, 1, 1, 3, 3, 0, 2], [1, 1, 1, 3, 3, 2, 0], [1, 2, 2, 3, 0, 2, 2]] {
        agree_by(&rows, extents, ", causal", [0, 0]);
    }
    for (extents, count) in [([0, 2, 2, 3, 3, 2, 2], 0), ([1, 2, 2, 0, 3, 2, 2], 1)] {
        let graph = graph(&text(extents, ""));
        assert_eq!(made(&graph, false, own(1, GPU), false, true).kernels, []);
        assert_eq!(made(&graph, true, own(1, GPU), false, true).kernels.len(), count);
    }
}

#[test]
fn lanes_have_keys_together() {
    for (extents, threads) in [
        ([2, 3, 3, 1, 70, 8, 8], 32),
        ([1, 4, 1, 2, 200, 16, 12], 64),
        ([1, 2, 2, 3, 130, 5, 3], 32),
        ([1, 1, 1, 1, 5, 128, 128], 128),
        ([1, 6, 2, 1, 33, 64, 64], 96),
    ] {
        for (flags, bounds) in [
            ("", [0, 0]),
            (", causal", [0, 0]),
            (", causal, query_offset", [4, 0]),
            (", key_length", [0, 3]),
            (", key_length", [0, 0]),
            (", causal, query_offset, key_length", [-1, 5]),
            (", causal, window=2", [0, 0]),
            (", causal, window=40, query_offset, key_length", [60, 65]),
            (", causal, window=3, query_offset, key_length", [60, 5]),
            (", window=9, query_offset", [20, 0]),
        ] {
            for scattered in [false, true] {
                let leaves = leaves(bounds[0], bounds[1].min(extents[4] as i32));
                for each in [4, 8] {
                    agrees(&text(extents, flags), &leaves, false, lanes(threads, each), scattered);
                }
            }
        }
    }
}

#[test]
fn lanes_give_zeros_where_there_is_no_key_whatever_the_values() {
    let extents = [1, 2, 2, 2, 70, 8, 8];
    let values = leaves(0, 0).with("v", DType::F32, &[1, 2, 70, 8], &[f64::NAN; 2 * 70 * 8]);
    agrees(&text(extents, ", key_length"), &values, false, lanes(32, 4), false);
}

#[test]
fn tables_are_followed_and_checked() {
    // Entries after the existing keys may have any value.
    let right = [4.0, 0.0, 1.0, 3.0, 2.0, -7.0];
    let wrong = [4.0, 5.0, 1.0, 3.0, -1.0, -7.0];
    let with = |table: &[f64], length: i32| leaves(5, length).with("table", DType::I32, &[2, 3], table);
    let graph = graph(OVER_A_TABLE);
    for how in [block(2, 4, 2, 2), block(1, 2, 2, 2), own(1, GPU), own(2, CPU), lanes(32, 4), lanes(64, 8)] {
        for scattered in [false, true] {
            agrees(OVER_A_TABLE, &with(&right, 7), false, how, scattered);
        }
        let made = made(&graph, false, how, false, false);
        let faults = |leaves: &Leaves| {
            let value = |id: ValueId| {
                let leaf = graph.entry_ops().find(|(_, op)| op.results.contains(&id)).expect("a leaf").1;
                leaves.value(&leaf.kind).expect("it has a value")
            };
            let machine = run(&graph, &made, &value, true);
            let fault = |(fault, position): (Fault, u32)| match fault {
                Fault::Index(_, extent) => (extent, position),
                Fault::Divisor(_) => panic!("nothing is divided"),
            };
            let mut faults: Vec<_> = machine.faults.into_iter().map(fault).collect();
            faults.sort_unstable();
            faults.dedup();
            faults
        };
        // Positions of entries follow those of the two sequences.
        assert_eq!(faults(&with(&wrong, 7)), [(5, 3), (5, 6)]);
        assert_eq!(faults(&with(&wrong, 4)), []);
        for length in [13, -1] {
            assert!(faults(&with(&[0.0; 6], length)).contains(&(13, 0)));
        }
    }
}

/// Prompts of several blocks of 64 over paged keys and values.
#[test]
fn warpgroups_follow_tables() {
    let lines = "%0: f32[2, 4, 70, 16] = input \"q\"\n%1: f32[9, 2, 32, 16] = input \"k\"\n\
        %2: f32[9, 2, 32, 32] = input \"v\"\n%3: i32[] = input \"offset\"\n%4: i32[] = input \"length\"\n\
        %5: i32[2, 6] = input \"table\"\n\
        %6: f32[2, 4, 70, 32], %7: f32[2, 4, 70] = attention %0, %1, %2, %3, %4, %5 \
        {scale=0.25, causal, query_offset, key_length, block_table}";
    let table = [4.0, 0.0, 1.0, 3.0, 2.0, -7.0, 8.0, 5.0, 6.0, 7.0, 0.0, 100.0];
    for (offset, length) in [(80, 150), (0, 70), (-20, 50)] {
        let lines = lines.replace("causal,", ["causal,", "causal, window=50,"][usize::from(offset > 0)]);
        let leaves = leaves(offset, length).with("table", DType::I32, &[2, 6], &table);
        for how in [warpgroups(1, DType::F16), warpgroups(2, DType::BF16)] {
            agrees(&lines, &leaves, false, how, false);
        }
    }
}

#[test]
fn a_step_that_fails_writes_nothing() {
    let graph = graph(&text([1, 2, 1, 5, 6, 4, 4], ", causal"));
    let values = evaluate_values(&graph, &|kind| leaves(0, 0).value(kind)).unwrap();
    let value = |id: ValueId| values.get(id).expect("it was evaluated").clone();
    for how in every_way() {
        // In schedules without shared memory, the first kernel of the gradient stores no means if the step
        // has failed, so the second kernel is omitted.
        let forward = made(&graph, false, how, false, true);
        let mut gradient = made(&graph, true, how, false, true);
        if matches!(how.0, Choice::Own { .. }) {
            gradient.kernels.truncate(1);
        }
        for made in [forward, gradient] {
            let machine = run(&graph, &made, &value, false);
            assert!(machine.results.iter().flatten().all(Option::is_none), "{how:?}");
        }
    }
}

/// Returns the number of bytes of shared memory.
fn shared_bytes(kernel: &simt::Kernel) -> usize {
    let words = |array: &Array| match array.ty {
        ValueType::Vector(elements) => (elements * array.elements) as usize,
        _ => array.elements as usize,
    };
    // Round up, because vectors are aligned to 16 bytes.
    let bytes = |array: &Array| (4 * words(array)).next_multiple_of(16);
    kernel.arrays.iter().filter(|array| array.space == Space::Workgroup).map(bytes).sum()
}

#[test]
fn blocks_take_the_memory_that_the_rule_counts() {
    let tiles = [[4, 4, 16, 8], [1, 2, 4, 4], [1, 4, 8, 16]];
    for (flags, tile) in [", causal", ", causal, query_offset", ", key_length"]
        .into_iter()
        .flat_map(|flags| tiles.map(|tile| (flags, tile)))
    {
        let graph = graph(&text([1, 2, 2, 33, 70, 22, 40], flags));
        let how = block(tile[0], tile[1], tile[2], tile[3]);
        let Choice::Block(tile) = how.0 else { panic!("it is a block") };
        for gradient in [false, true] {
            let Made { kernels, schedule, .. } = made(&graph, gradient, how, false, false);
            for ((kernel, _), made) in schedule.kernels.iter().zip(&kernels) {
                assert_eq!(shared_bytes(made), tile.bytes(*kernel, &schedule.problem), "{made}");
            }
        }
    }
}

/// Returns kernels of every kind, as scheduled for small and large devices, and for one that emulates a GPU
/// on a CPU.
pub(super) fn every_kernel() -> Vec<simt::Kernel> {
    let portable = Limits::portable();
    let large = Limits { invocations: 1024, workgroup_memory: 48 << 10, ..portable };
    let software = Limits { software: true, ..portable };
    let everything = ", causal, query_offset, key_length";
    let mut all = Vec::new();
    for (extents, flags, limits) in [
        ([1, 4, 2, 40, 60, 24, 30], everything, portable),
        ([1, 4, 2, 40, 60, 24, 30], "", large),
        ([1, 4, 2, 40, 60, 8, 6], everything, software),
        ([1, 2, 2, 4, 40, 70, 8], ", causal", portable),
        ([1, 1, 1, 3, 5, 70, 66], everything, portable),
    ] {
        let graph = graph(&text(extents, flags));
        let of = if limits.software { CPU } else { GPU };
        for (gradient, number, kernel) in
            [(false, 0, Kernel::Forward), (true, 0, Kernel::Queries), (true, 1, Kernel::Keys)]
        {
            let problem = made(&graph, gradient, own(1, of), false, true).schedule.problem;
            let choice = choose(kernel, &problem, None, &limits);
            all.push(
                made(&graph, gradient, (choice, of, DType::F16), true, true).kernels.swap_remove(number),
            );
        }
    }
    for how in [block(2, 4, 4, 4), own(1, GPU)] {
        all.extend(made(&graph(OVER_A_TABLE), false, how, false, true).kernels);
    }
    for (extents, flags, how) in [
        ([2, 3, 3, 1024, 1024, 64, 64], ", causal", warpgroups(2, DType::BF16)),
        ([2, 4, 2, 1000, 1000, 128, 128], everything, warpgroups(1, DType::F16)),
        ([1, 1, 1, 70, 70, 80, 96], "", warpgroups(1, DType::BF16)),
        ([1, 2, 1, 300, 300, 64, 64], ", causal, window=100, query_offset", warpgroups(2, DType::BF16)),
        ([1, 2, 1, 300, 300, 64, 64], ", window=100", matrices(32, DType::F16)),
        ([1, 2, 1, 300, 300, 64, 64], ", causal, dropout=1.25", warpgroups(2, DType::BF16)),
        ([1, 2, 1, 300, 300, 64, 64], ", causal, dropout=1.25", matrices(32, DType::F16)),
        ([1, 2, 1, 30, 30, 8, 8], ", causal, dropout=1.25", block(2, 4, 4, 4)),
    ] {
        for gradient in [false, true] {
            all.extend(made(&graph(&text(extents, flags)), gradient, how, false, true).kernels);
        }
    }
    all
}
