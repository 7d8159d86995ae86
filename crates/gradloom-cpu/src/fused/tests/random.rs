//! Random bodies. Operands of sums and products are first converted to small integers, so that every order
//! of evaluation computes the same bits and results can be compared exactly.

use super::interpreter::interpret;
use super::{job, run};
use crate::testing::{Random, Tensor, assert_close};
use gradloom_core::ir::{BinaryOp, CompareOp, DType, Number, ReduceOp, Shape, UnaryOp};
use gradloom_core::kernel::{Body, Layout, Level, Node, NodeId, NodeKind, Store};

const LEVELS: [Level; 3] = [Level::Uniform, Level::Row, Level::Element];
const DTYPES: [DType; 6] = [DType::F32, DType::F32, DType::F32, DType::I32, DType::U32, DType::Bool];

struct Generator<'r> {
    random: &'r mut Random,
    body: Body,
    reads: Vec<Tensor>,
}

impl Generator<'_> {
    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.random.below(choices.len())]
    }

    fn push(&mut self, kind: NodeKind, dtype: DType) -> NodeId {
        let level = match &kind {
            NodeKind::Reduce(..) => Level::Row,
            NodeKind::Constant(_) => Level::Uniform,
            kind => kind.operands().iter().map(|&a| self.body.node(a).level).max().expect("an operand"),
        };
        self.body.nodes.push(Node { kind, dtype, level });
        NodeId(self.body.nodes.len() as u32 - 1)
    }

    fn load(&mut self, level: Level, dtype: DType) -> NodeId {
        let (rows, columns) = (self.body.rows, self.body.columns);
        let halves = |n: usize| if n.is_multiple_of(2) { vec![2, n / 2] } else { vec![n] };
        let shape: Vec<usize> = match (level, self.random.below(3)) {
            (Level::Uniform, _) => vec![],
            (Level::Row, 0) => halves(rows),
            (Level::Row, _) => vec![rows],
            (Level::Element, 0) => [vec![rows], halves(columns)].concat(),
            (Level::Element, 1) => [halves(rows), vec![columns]].concat(),
            (Level::Element, _) => vec![rows, columns],
        };
        let shape = Shape::from(&shape[..]);
        let tensor = match self.random.below(3) {
            0 => Tensor::contiguous(self.random, dtype, &shape),
            _ => Tensor::random(self.random, dtype, &shape),
        };
        self.reads.push(tensor);
        self.body.nodes.push(Node { kind: NodeKind::Load(self.reads.len() - 1), dtype, level });
        NodeId(self.body.nodes.len() as u32 - 1)
    }

    /// Returns a node of a dtype, existing or new.
    fn any(&mut self, dtype: DType) -> NodeId {
        let known: Vec<NodeId> = (0..self.body.nodes.len())
            .filter(|&i| self.body.nodes[i].dtype == dtype)
            .map(|i| NodeId(i as u32))
            .collect();
        if known.is_empty() || self.random.below(6) == 0 {
            if self.random.below(3) == 0 {
                let number = Number::of(dtype, self.random.below(5) as f64);
                return self.push(NodeKind::Constant(number), dtype);
            }
            let level = self.pick(&[Level::Uniform, Level::Row, Level::Element, Level::Element]);
            return self.load(level, dtype);
        }
        // Prefer recent nodes, so that chains grow.
        let recent = known.len().saturating_sub(4);
        if self.random.below(2) == 0 { self.pick(&known[recent..]) } else { self.pick(&known) }
    }

    fn number(&mut self, value: f64) -> NodeId {
        self.push(NodeKind::Constant(Number::Float(value)), DType::F32)
    }

    /// Returns a node of level `Element` whose reduction is exact.
    fn reducible(&mut self, op: ReduceOp, dtype: DType) -> NodeId {
        let mut node = self.any(dtype);
        if self.body.node(node).level != Level::Element {
            node = self.load(Level::Element, dtype);
        }
        match (op, dtype) {
            (ReduceOp::Sum, DType::F32) => {
                let (low, high) = (self.number(-8.0), self.number(8.0));
                let node = self.push(NodeKind::Binary(BinaryOp::Max, [node, low]), dtype);
                let node = self.push(NodeKind::Binary(BinaryOp::Min, [node, high]), dtype);
                self.push(NodeKind::Unary(UnaryOp::Floor, node), dtype)
            }
            (ReduceOp::Prod, DType::F32) => self.push(NodeKind::Unary(UnaryOp::Sign, node), dtype),
            _ => node,
        }
    }

    fn node(&mut self) {
        let dtype = self.pick(&DTYPES);
        match self.random.below(14) {
            0..=2 => {
                let ops: Vec<UnaryOp> = UnaryOp::ALL
                    .iter()
                    .copied()
                    .filter(|op| op.accepts(dtype) && *op != UnaryOp::Detach)
                    .collect();
                let (op, a) = (self.pick(&ops), self.any(dtype));
                self.push(NodeKind::Unary(op, a), dtype);
            }
            3..=6 => {
                let ops: Vec<BinaryOp> =
                    BinaryOp::ALL.iter().copied().filter(|op| op.accepts(dtype)).collect();
                let (op, a, mut b) = (self.pick(&ops), self.any(dtype), self.any(dtype));
                if op.divides_integers(dtype) {
                    let one = self.push(NodeKind::Constant(Number::of(dtype, 1.0)), dtype);
                    b = self.push(NodeKind::Binary(BinaryOp::Or, [b, one]), dtype);
                    b = self.push(NodeKind::CheckDivisor(b), dtype);
                }
                self.push(NodeKind::Binary(op, [a, b]), dtype);
            }
            7 => {
                let (op, a, b) = (self.pick(CompareOp::ALL), self.any(dtype), self.any(dtype));
                self.push(NodeKind::Compare(op, [a, b]), DType::Bool);
            }
            8 => {
                let (condition, a, b) = (self.any(DType::Bool), self.any(dtype), self.any(dtype));
                self.push(NodeKind::Select([condition, a, b]), dtype);
            }
            9 => {
                let from = self.pick(&DTYPES);
                let a = self.any(from);
                self.push(NodeKind::Cast(a), dtype);
            }
            10 => {
                self.body.nodes.push(Node {
                    kind: NodeKind::Column,
                    dtype: DType::I32,
                    level: Level::Element,
                });
            }
            11 => {
                let a = self.any(dtype);
                let least = self.body.node(a).level;
                let levels: Vec<Level> = LEVELS.into_iter().filter(|&level| level >= least).collect();
                let level = self.pick(&levels);
                self.body.nodes.push(Node { kind: NodeKind::Repeat(a), dtype, level });
            }
            12 => {
                let index = self.any(DType::I32);
                self.push(NodeKind::CheckIndex { index, extent: usize::MAX >> 1 }, DType::I32);
            }
            _ => {
                let dtype = if dtype == DType::Bool { DType::F32 } else { dtype };
                let op = self.pick(ReduceOp::ALL);
                let a = self.reducible(op, dtype);
                self.push(NodeKind::Reduce(op, a), dtype);
            }
        }
    }

    fn store(&mut self, results: &mut Vec<(DType, Layout, Option<usize>)>) {
        let write = results.len();
        let (rows, columns) = (self.body.rows, self.body.columns);
        if self.random.below(4) == 0 {
            let dtype = self.pick(&[DType::F32, DType::F32, DType::I32, DType::U32]);
            let op = self.pick(ReduceOp::ALL);
            let node = self.reducible(op, dtype);
            self.body.stores.push(Store::ColumnReduce { op, node, write, parts: 1 });
            let layout = window(self.random, &[columns].into());
            results.push((dtype, layout, None));
            return;
        }
        let dtype = self.pick(&DTYPES);
        let node = self.any(dtype);
        let of = self.body.node(node).level;
        let levels: Vec<Level> = LEVELS.into_iter().filter(|&level| level >= of).collect();
        let level = if self.random.below(3) == 0 { self.pick(&levels) } else { of };
        self.body.stores.push(Store::Value { node, level, write });
        // The result may overwrite an operand of the same level and size whose elements are distinct.
        let bytes = dtype.bytes();
        let fits = |generator: &Self, read: usize| {
            let tensor = &generator.reads[read];
            let mut positions = tensor.positions();
            positions.sort_unstable();
            positions.dedup();
            let loads = generator.body.nodes.iter().filter(|node| node.kind == NodeKind::Load(read));
            tensor.dtype.bytes() == bytes
                && loads.clone().all(|node| node.level == level)
                && positions.len() == tensor.layout.shape.elements()
                && results.iter().all(|result| result.2 != Some(read))
        };
        let free: Vec<usize> = (0..self.reads.len()).filter(|&read| fits(self, read)).collect();
        if !free.is_empty() && self.random.below(2) == 0 {
            let read = self.pick(&free);
            results.push((dtype, self.reads[read].layout.clone(), Some(read)));
            return;
        }
        let shape = match level {
            Level::Uniform => Shape::scalar(),
            Level::Row => [rows].into(),
            Level::Element => [rows, columns].into(),
        };
        results.push((dtype, window(self.random, &shape), None));
    }
}

/// Returns a layout of distinct elements: contiguous, a window of a wider one, or permuted.
fn window(random: &mut Random, shape: &Shape) -> Layout {
    let rank = shape.rank();
    match random.below(4) {
        0 => Layout { offset: 3, ..Layout::contiguous(shape) },
        1 if rank > 0 => {
            let wide: Vec<usize> = shape.iter().map(|n| n + 3).collect();
            let limit: Vec<usize> = shape.iter().map(|n| n + 1).collect();
            Layout::contiguous(&wide.into()).slice(&vec![1; rank], &limit, &vec![1; rank])
        }
        2 if rank == 2 => Layout::contiguous(&[shape[1], shape[0]].into()).permute(&[1, 0]),
        _ => Layout::contiguous(shape),
    }
}

fn check(seed: u64, rows: usize, columns: usize, nodes: usize) {
    let mut random = Random(seed);
    let body = Body { rows, columns, nodes: Vec::new(), stores: Vec::new() };
    let mut generator = Generator { random: &mut random, body, reads: Vec::new() };
    for _ in 0..nodes {
        generator.node();
    }
    let mut results = Vec::new();
    for _ in 0..1 + generator.random.below(4) {
        generator.store(&mut results);
    }
    let Generator { body, reads, .. } = generator;
    let expected = interpret(&body, &reads.iter().map(Tensor::values).collect::<Vec<_>>());
    let job = job(&body, reads, results);
    let outcome = run(&job);
    let negative_index = body.can_trap();
    match outcome {
        Ok(got) => {
            for (write, (got, expected)) in got.iter().zip(&expected).enumerate() {
                assert_close(
                    &format!("seed {seed}, {rows} x {columns}, write {write} of\n{body}"),
                    got,
                    expected,
                    0.0,
                );
            }
        }
        // Only a negative index may trap; random indices are sometimes negative.
        Err(trap) => assert!(negative_index && trap.message.contains("out of range"), "{}", trap.message),
    }
}

#[test]
fn random_bodies_mean_what_the_interpreter_says() {
    let extents = [0, 1, 2, 3, 5, 16, 17, 64, 65, 100, 300];
    for seed in 0..3000 {
        let mut random = Random(seed ^ 0x5eed);
        let rows = extents[random.below(extents.len())];
        let columns = extents[random.below(extents.len())].min(6000 / rows.max(1));
        check(seed, rows, columns, 1 + random.below(16));
    }
}

#[test]
fn random_bodies_with_rows_longer_than_a_tile() {
    for seed in 0..150 {
        let mut random = Random(seed ^ 0x10e9);
        let columns = [1500, 2049, 5000, 30_001][random.below(4)];
        check(seed, 1 + random.below(4), columns, 1 + random.below(20));
    }
}

#[test]
fn random_bodies_of_many_rows() {
    for seed in 0..150 {
        let mut random = Random(seed ^ 0xa0b5);
        let columns = [1, 2, 10, 64][random.below(4)];
        check(seed, 500 + random.below(3000), columns, 1 + random.below(12));
    }
}
