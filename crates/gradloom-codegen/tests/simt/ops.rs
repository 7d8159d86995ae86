//! Tests of the kernels of each op against the reference, with operands in several layouts.

use gradloom_codegen::schedule::tuning::Choices;
use gradloom_codegen::simt::kernels::{View, Views, kernels};
use gradloom_codegen::simt::{self, Fault, verify};
use gradloom_codegen::wgsl::Limits;
use gradloom_core::fuse::single;
use gradloom_core::ir::{BinaryOp, DType, Graph, Op, OpKind, UnaryOp, ValueId, parse};
use gradloom_core::kernel::{Access, Kernel, Layout, Schedule};
use gradloom_core::reference::{HostTensor, evaluate_values};
use gradloom_grid::{Machine, bits};
use gradloom_testing::Leaves;

/// Returns a graph of inputs and one op.
#[track_caller]
fn graph(lines: &str) -> Graph {
    let graph = parse(&format!("graph {{\n{lines}\n}}")).unwrap_or_else(|error| panic!("{error:?}\n{lines}"));
    gradloom_core::verify::verify(&graph).unwrap_or_else(|error| panic!("{error}\n{lines}"));
    graph
}

/// Layout of the operands in their buffers.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// Contiguous, in row-major order.
    Dense,
    /// Reversed axes, an innermost stride of 2, and an offset of 3.
    Scattered,
}

impl Lie {
    fn layout(self, shape: &[usize]) -> Layout {
        let mut strides = vec![0; shape.len()];
        let mut next = if matches!(self, Self::Dense) { 1 } else { 2 };
        let axes: Vec<usize> = match self {
            Self::Dense => (0..shape.len()).rev().collect(),
            Self::Scattered => (0..shape.len()).collect(),
        };
        for axis in axes {
            strides[axis] = next;
            next *= shape[axis].max(1);
        }
        Layout::new(if matches!(self, Self::Dense) { 0 } else { 3 }, shape.to_vec().into(), strides)
    }
}

/// Returns a buffer with the elements at the indices of the layout. All other words hold a NaN pattern, so
/// that their use is detected.
fn spread(layout: &Layout, elements: &[u32]) -> Vec<u32> {
    let mut buffer = vec![0x7fc0_dead; layout.end().max(1)];
    layout.positions().zip(elements).for_each(|(at, &bits)| buffer[at] = bits);
    buffer
}

/// Returns the last op of a graph, and its operands.
fn last(graph: &Graph) -> (&Op, Vec<ValueId>) {
    let (_, op) = graph.entry_ops().last().expect("the graph has an op");
    (op, op.operands.clone())
}

/// Returns the kernels of a graph's last op, and the layouts of its operands.
#[track_caller]
fn made(graph: &Graph, lie: Lie, shares: bool, gated: bool) -> (Vec<simt::Kernel>, Vec<Layout>) {
    let (op, operands) = last(graph);
    let layouts: Vec<Layout> = operands.iter().map(|&value| lie.layout(&graph.ty(value).shape)).collect();
    let types: Vec<_> = op.results.iter().map(|&value| graph.ty(value)).collect();
    let whole: Vec<_> = types.iter().map(|ty| Lie::Dense.layout(&ty.shape)).collect();
    let of = |dtype, layout| View { dtype, layout, has_vectors: false, is_early: false };
    let views = Views {
        reads: operands
            .iter()
            .zip(&layouts)
            .map(|(&value, layout)| of(graph.ty(value).dtype, layout))
            .collect(),
        writes: types.iter().zip(&whole).map(|(ty, layout)| of(ty.dtype, layout)).collect(),
        gated,
        in_place: false,
    };
    let schedule = schedule(graph, shares);
    let access = |(&value, layout): (&ValueId, &Layout)| Access {
        buffer: value,
        dtype: graph.ty(value).dtype,
        layout: layout.clone(),
        blocks: None,
    };
    let mut reads: Vec<Access> = operands.iter().zip(&layouts).map(access).collect();
    let kernel = single(&op.kind, &mut reads, types[0].dtype);
    let made = kernels(&kernel, &schedule, &views, op.kind.name()).expect("the op has kernels");
    made.iter().for_each(|kernel| verify(kernel).unwrap_or_else(|error| panic!("{error}\n{kernel}")));
    (made, layouts)
}

/// Returns the schedule of a graph's last op. `shares` selects one in which a workgroup processes an axis
/// together, if the op has schedules with and without that.
fn schedule(graph: &Graph, shares: bool) -> Schedule {
    let (op, operands) = last(graph);
    let access = |&value: &ValueId| {
        let ty = graph.ty(value);
        Access { buffer: value, dtype: ty.dtype, layout: Layout::contiguous(&ty.shape), blocks: None }
    };
    match op.kind {
        OpKind::ArgReduce { .. } if shares => Schedule::Axes(1024),
        OpKind::Cumulate { .. } if !shares => Schedule::Whole,
        OpKind::Cumulate { .. } | OpKind::Sort { .. } => {
            let reads: Vec<_> = operands.iter().map(access).collect();
            let kernel = Kernel::Op(op.kind.clone());
            gradloom_codegen::schedule::schedule(&kernel, &reads, &[], &Limits::cuda(), &Choices::default())
        }
        _ => Schedule::Whole,
    }
}

/// Returns kernels of every op, for every dtype and layout.
pub(super) fn every_kernel() -> Vec<simt::Kernel> {
    let mut texts: Vec<String> = MOVEMENT.iter().map(ToString::to_string).collect();
    texts.extend([SLICE.into(), UPDATE.into(), GATHER.into()]);
    for (format, bytes) in [("q8_0", 68), ("q4_0", 36)] {
        let result = format!("%1: f32[5, 64] = dequantize %0 {{format={format}}}");
        texts.push(format!("%0: u8[5, {bytes}] = input \"x\"\n{result}"));
    }
    for extent in [50, 5000] {
        for dtype in ["f32", "i32", "u32"] {
            let x = format!("%0: {dtype}[2, {extent}] = input \"a\"");
            texts.push(format!("{x}\n%1: {dtype}[2, {extent}] = cumsum %0 {{reverse}}"));
            for count in [20, extent] {
                let results = format!("%1: {dtype}[2, {count}], %2: i32[2, {count}]");
                texts.push(format!("{x}\n{results} = sort %0 {{count={count}}}"));
            }
        }
    }
    texts.push("%0: u32[] = input \"a\"\n%1: u32[5] = random_bits %0, %0, %0 {site=9}".into());
    for dtype in DType::IN_KERNELS {
        for op in UnaryOp::ALL.iter().filter(|op| op.accepts(dtype)) {
            let name = op.name();
            texts.push(format!("%0: {dtype}[9] = input \"a\"\n%1: {dtype}[9] = {name} %0"));
        }
        for op in BinaryOp::ALL.iter().filter(|op| op.accepts(dtype)) {
            let name = op.name();
            texts.push(format!("%0: {dtype}[9] = input \"a\"\n%1: {dtype}[9] = {name} %0, %0"));
        }
        for op in ["eq", "ne", "lt", "le", "gt", "ge"].into_iter().filter(|_| !dtype.is_for_memory()) {
            texts.push(format!("%0: {dtype}[9] = input \"a\"\n%1: bool[9] = {op} %0, %0"));
        }
        for to in DType::IN_KERNELS.into_iter().filter(|&to| dtype.casts_to(to)) {
            texts.push(format!("%0: {dtype}[9] = input \"a\"\n%1: {to}[9] = cast %0"));
        }
        if dtype.is_for_memory() {
            continue;
        }
        if dtype != DType::Bool {
            texts.push(format!("%0: {dtype}[5, 130] = input \"x\"\n%1: i32[5] = argmin %0 {{axis=1}}"));
        }
    }
    let mut all = super::attention::every_kernel();
    for text in texts {
        let Ok(graph) = parse(&format!("graph {{\n{text}\n}}")) else { panic!("{text}") };
        if gradloom_core::verify::verify(&graph).is_ok() {
            for lie in [Lie::Dense, Lie::Scattered] {
                all.extend(made(&graph, lie, true, false).0);
                all.extend(made(&graph, lie, false, true).0);
            }
        }
    }
    all
}

/// Runs the kernels of a graph's last op on the simulated grid; returns the machine with results and faults.
#[track_caller]
fn run(graph: &Graph, leaves: &Leaves, lie: Lie, shares: bool, committed: bool) -> Machine {
    let (op, operands) = last(graph);
    let (made, layouts) = made(graph, lie, shares, !committed || shares);
    let of_leaf = |value: ValueId| -> HostTensor {
        let leaf = graph.entry_ops().find(|(_, op)| op.results.contains(&value)).expect("a leaf").1;
        leaves.value(&leaf.kind).expect("a value for the leaf")
    };
    let spread = |(&value, layout): (&ValueId, &Layout)| spread(layout, &bits(&of_leaf(value)));
    let mut machine = Machine {
        operands: operands.iter().zip(&layouts).map(spread).collect(),
        results: op.results.iter().map(|&value| vec![None; graph.ty(value).elements()]).collect(),
        workspace: vec![None; schedule(graph, shares).workspace(&Kernel::Op(op.kind.clone())) as usize / 4],
        faults: Vec::new(),
        checked: Vec::new(),
        committed,
        status: Vec::new(),
    };
    for kernel in &made {
        machine.run(kernel).unwrap_or_else(|error| panic!("{error}"));
    }
    machine
}

/// Checks the kernels of a graph's last op in every layout and schedule.
#[track_caller]
fn agrees(lines: &str, leaves: &Leaves) {
    let graph = graph(lines);
    let (op, _) = last(&graph);
    let values = evaluate_values(&graph, &|kind: &OpKind| leaves.value(kind))
        .unwrap_or_else(|error| panic!("{error}"));
    let expected: Vec<_> =
        op.results.iter().map(|&value| bits(values.get(value).expect("the op was evaluated"))).collect();
    for (lie, shares) in
        [(Lie::Dense, true), (Lie::Dense, false), (Lie::Scattered, true), (Lie::Scattered, false)]
    {
        let machine = run(&graph, leaves, lie, shares, true);
        assert_eq!(machine.faults, [], "{lines}");
        let words = |result: &Vec<Option<u32>>| -> Vec<u32> {
            result.iter().map(|bits| bits.expect("all is written")).collect()
        };
        let got: Vec<_> = machine.results.iter().map(words).collect();
        assert_eq!(got, expected, "{lie:?}, sharing {shares}, of\n{lines}");
        let stopped = run(&graph, leaves, lie, shares, false);
        let mut written = stopped.results.iter().flatten();
        assert!(written.all(Option::is_none), "a step that fails writes nothing\n{lines}");
    }
}

const MOVEMENT: [&str; 6] = [
    "%0: f32[3, 5] = input \"a\"\n%1: f32[3, 2] = input \"b\"\n%2: f32[3, 7] = concat %0, %1 {axis=1}",
    "%0: i32[300] = input \"a\"\n%1: i32[1] = input \"b\"\n%2: i32[301] = concat %0, %1 {axis=0}",
    "%0: f32[0, 5] = input \"a\"\n%1: f32[3, 5] = input \"b\"\n%2: f32[3, 5] = concat %0, %1 {axis=0}",
    "%0: f32[3, 4] = input \"a\"\n%1: f32[6, 9] = pad %0 {low=[1, 0], high=[2, 2], interior=[0, 1], value=-1.5}",
    "%0: f32[1] = input \"a\"\n%1: f32[260] = pad %0 {low=[258], high=[1], interior=[4], value=inf}",
    "%0: f32[0] = input \"a\"\n%1: f32[3] = pad %0 {low=[1], high=[2], interior=[0], value=2.0}",
];

const SLICE: &str = "%0: f32[6, 5] = input \"x\"
    %1: i32[] = input \"i\"
    %2: i32[] = input \"j\"
    %3: f32[2, 3] = dynamic_slice %0, %1, %2";

const UPDATE: &str = "%0: f32[6, 5] = input \"x\"
    %1: f32[2, 3] = input \"y\"
    %2: i32[] = input \"i\"
    %3: i32[] = input \"j\"
    %4: f32[6, 5] = dynamic_update_slice %0, %1, %2, %3";

const GATHER: &str = "%0: f32[2, 7, 3] = input \"x\"
    %1: i32[2, 4] = input \"i\"
    %2: f32[2, 4, 3] = gather %0, %1 {batch=1}";

fn leaves() -> Leaves {
    Leaves::random(5)
}

#[test]
fn movement() {
    for lines in MOVEMENT {
        agrees(lines, &leaves());
    }
    // Concatenate more operands than one kernel joins.
    let operands = ["%0, %2, %1, %1"; 9].join(", ");
    let elements = 9 * 302;
    agrees(
        &format!(
            "%0: f32[300] = input \"a\"\n%1: f32[1] = input \"b\"\n%2: f32[0] = input \"c\"\n\
             %3: f32[{elements}] = concat {operands} {{axis=0}}"
        ),
        &leaves(),
    );
}

#[test]
fn windows() {
    let at = |i: f64, j: f64| leaves().with("i", DType::I32, &[], &[i]).with("j", DType::I32, &[], &[j]);
    for lines in [SLICE, UPDATE] {
        agrees(lines, &at(0.0, 0.0));
        agrees(lines, &at(4.0, 2.0));
        let machine = run(&graph(lines), &at(-1.0, 3.0), Lie::Dense, true, true);
        let extents: Vec<u32> = machine
            .faults
            .iter()
            .map(|(fault, _)| match fault {
                Fault::Index(_, extent) => *extent,
                Fault::Divisor(_) => panic!("nothing is divided"),
            })
            .collect();
        assert!(extents.contains(&5) && extents.contains(&3), "{:?}", machine.faults);
    }
}

#[test]
fn gather() {
    let lines = "%0: f32[7, 3] = input \"x\"\n%1: i32[4, 5] = input \"i\"\n%2: f32[4, 5, 3] = gather %0, %1 {batch=0}";
    let index: Vec<f64> = (0..20).map(|i| f64::from(i * 3 % 7)).collect();
    agrees(lines, &leaves().with("i", DType::I32, &[4, 5], &index));
    let index: Vec<f64> = (0..8).map(|i| f64::from(i * 5 % 7)).collect();
    agrees(GATHER, &leaves().with("i", DType::I32, &[2, 4], &index));
    let wrong = leaves().with("i", DType::I32, &[2, 4], &[0.0, 1.0, 7.0, 2.0, -1.0, 3.0, 4.0, 5.0]);
    let machine = run(&graph(GATHER), &wrong, Lie::Dense, true, true);
    let mut at: Vec<u32> = machine.faults.iter().map(|&(_, position)| position).collect();
    at.sort_unstable();
    at.dedup();
    assert_eq!(at, [2, 4]);
}

#[test]
fn dequantize() {
    for (format, bytes) in [("q8_0", 34), ("q4_0", 18)] {
        let lines = format!(
            "%0: u8[3, 2, {}] = input \"x\"\n%1: f32[3, 2, 96] = dequantize %0 {{format={format}}}",
            3 * bytes
        );
        // The scales are normal numbers, subnormals, zeros of both signs, and infinities.
        let scales = [0x2e66, 0xb555, 0x0001, 0x83ff, 0x0000, 0x8000, 0x7bff, 0x7c00, 0xfc00];
        let byte = |i: usize| match i % bytes {
            place @ (0 | 1) => f64::from(scales[i / bytes % 9] >> (8 * place) & 0xff),
            _ => (i * 37 % 251) as f64,
        };
        let blocks: Vec<f64> = (0..18 * bytes).map(byte).collect();
        agrees(&lines, &leaves().with("x", DType::U8, &[3, 2, 3 * bytes], &blocks));
    }
}

#[test]
fn arg_reduce() {
    // Short and long reductions, of few results: a workgroup computes each.
    for ([rows, columns], axes) in
        [([5, 13], 0..2), ([3, 70], 0..2), ([40, 1], 0..2), ([700, 2], 0..1), ([2, 700], 1..2)]
    {
        for (dtype, axis) in
            ["f32", "i32", "u32"].into_iter().flat_map(|dtype| axes.clone().map(move |axis| (dtype, axis)))
        {
            for op in ["argmax", "argmin"] {
                let results = if axis == 0 { columns } else { rows };
                let lines = format!(
                    "%0: {dtype}[{rows}, {columns}] = input \"x\"\n%1: i32[{results}] = {op} %0 {{axis={axis}}}"
                );
                agrees(&lines, &leaves());
            }
        }
    }
    let special: Vec<f64> = (0..200)
        .map(|i| match i {
            20 | 150 => f64::INFINITY,
            30 => -0.0,
            31 => 0.0,
            _ => -1.0,
        })
        .collect();
    let mut with_nan = special.clone();
    with_nan[170] = f64::NAN;
    for values in [special, with_nan] {
        for op in ["argmax", "argmin"] {
            let lines = format!("%0: f32[200] = input \"x\"\n%1: i32[] = {op} %0 {{axis=0}}");
            agrees(&lines, &leaves().with("x", DType::F32, &[200], &values));
        }
    }
}

#[test]
fn cumulative_reductions() {
    for shape in ["[5, 130]", "[300, 3]", "[2, 700]", "[1, 5000]", "[3, 2049]"] {
        for op in ["cumsum", "cumprod", "cummax", "cummin"] {
            for reverse in ["", " {reverse}"] {
                let lines = format!("%0: u32{shape} = input \"x\"\n%1: u32{shape} = {op} %0{reverse}");
                agrees(&lines, &leaves());
            }
        }
    }
    let mut values: Vec<f64> = (0..600).map(|i| f64::from(i * 37 % 101)).collect();
    values[400] = f64::NAN;
    for op in ["cumsum", "cummax", "cummin"] {
        let lines = format!("%0: f32[2, 300] = input \"x\"\n%1: f32[2, 300] = {op} %0");
        agrees(&lines, &leaves().with("x", DType::F32, &[2, 300], &values));
    }
}

#[test]
fn rows_in_order() {
    // The cases use one part, several rounds of parts, and radix sort.
    for (rows, extent, counts) in
        [(5, 7, &[7, 1][..]), (2, 1024, &[1024]), (1, 5000, &[3, 400, 512]), (2, 2500, &[513, 2500])]
    {
        let elements = rows * extent;
        let numbers = |spread: usize| (0..elements).map(move |i| ((i * 7919) % spread) as f64 - 50.0);
        let special = [f64::NAN, f64::INFINITY, -0.0, 0.0, f64::NEG_INFINITY];
        let floats = numbers(701).enumerate().map(|(i, x)| match i % 101 {
            at if at < special.len() => special[at],
            _ => x * 0.25,
        });
        let floats: Vec<f64> = floats.collect();
        let integers: Vec<f64> = numbers(90).collect();
        let shape = [rows, extent];
        for count in counts {
            for order in ["", ", descending"] {
                for dtype in ["f32", "i32"] {
                    let lines = format!(
                        "%0: {dtype}[{rows}, {extent}] = input \"{dtype}\"\n\
                         %1: {dtype}[{rows}, {count}], %2: i32[{rows}, {count}] = sort %0 \
                         {{count={count}{order}}}"
                    );
                    let leaves = leaves().with("f32", DType::F32, &shape, &floats);
                    agrees(&lines, &leaves.with("i32", DType::I32, &shape, &integers));
                }
            }
        }
    }
}

#[test]
fn random_bits() {
    let sizes = [1, 2, 3, 4, 5, 1027].map(|elements| (elements, ""));
    let fractions = [", ones=1, digits=3", ", ones=1843, digits=11", ", ones=16777215, digits=24"];
    for (elements, ones) in sizes.into_iter().chain(fractions.map(|ones| (1027, ones))) {
        let lines = format!(
            "%0: u32[] = input \"a\"\n%1: u32[] = input \"b\"\n%2: u32[] = input \"step\"\n\
             %3: u32[{elements}] = random_bits %0, %1, %2 {{site=9{ones}}}"
        );
        let seed = leaves().with("a", DType::U32, &[], &[3_000_000_000.0]).with("b", DType::U32, &[], &[7.0]);
        agrees(&lines, &seed.with("step", DType::U32, &[], &[4_294_967_295.0]));
    }
}

#[test]
fn elementwise() {
    let with = |divisors: &[f64]| {
        leaves().with("a", DType::I32, &[4], &[7.0, -7.0, -2_147_483_648.0, 9.0]).with(
            "b",
            DType::I32,
            &[4],
            divisors,
        )
    };
    for op in ["div", "rem", "add", "min"] {
        let lines = format!("%0: i32[4] = input \"a\"\n%1: i32[4] = input \"b\"\n%2: i32[4] = {op} %0, %1");
        agrees(&lines, &with(&[2.0, 2.0, 3.0, -4.0]));
        if op == "div" || op == "rem" {
            let machine = run(&graph(&lines), &with(&[2.0, 0.0, 1.0, 0.0]), Lie::Dense, false, true);
            let at: Vec<u32> = machine.faults.iter().map(|&(_, position)| position).collect();
            assert_eq!(at, [1, 3]);
        }
    }
    agrees("%0: f32[300] = input \"a\"\n%1: i32[300] = cast %0", &leaves());
    agrees(
        "%0: bool[9] = input \"c\"\n%1: f32[9] = input \"a\"\n%2: f32[9] = input \"b\"\n%3: f32[9] = select %0, %1, %2",
        &leaves(),
    );
    agrees("%0: u32[9] = input \"a\"\n%1: u32[9] = input \"b\"\n%2: bool[9] = lt %0, %1", &leaves());
}
