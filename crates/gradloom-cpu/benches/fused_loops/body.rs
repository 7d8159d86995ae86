//! The loop bodies that the benchmark measures, in the form in which the fusion pass builds them.

use gradloom_core::ir::{BinaryOp, CompareOp, DType, Number, ReduceOp, Shape, UnaryOp};
use gradloom_core::kernel::{Body, Layout, Level, Node, NodeId, NodeKind, Store};

/// A body with its operands and results, built node by node.
pub(crate) struct Builder {
    pub(crate) body: Body,
    pub(crate) reads: Vec<(DType, Layout)>,
    /// Results, each with the operand that it may overwrite, if any.
    pub(crate) writes: Vec<(DType, Layout, Option<usize>)>,
}

impl Builder {
    pub(crate) fn new(rows: usize, columns: usize) -> Self {
        Self {
            body: Body { rows, columns, nodes: Vec::new(), stores: Vec::new() },
            reads: Vec::new(),
            writes: Vec::new(),
        }
    }

    fn shape(&self, level: Level) -> Shape {
        match level {
            Level::Uniform => Shape::scalar(),
            Level::Row => [self.body.rows].into(),
            Level::Element => [self.body.rows, self.body.columns].into(),
        }
    }

    fn node(&mut self, kind: NodeKind, dtype: DType, level: Level) -> NodeId {
        self.body.nodes.push(Node { kind, dtype, level });
        NodeId(self.body.nodes.len() as u32 - 1)
    }

    fn level(&self, nodes: &[NodeId]) -> Level {
        nodes.iter().map(|&node| self.body.node(node).level).max().unwrap_or(Level::Uniform)
    }

    pub(crate) fn load(&mut self, dtype: DType, level: Level) -> NodeId {
        self.reads.push((dtype, Layout::contiguous(&self.shape(level))));
        self.node(NodeKind::Load(self.reads.len() - 1), dtype, level)
    }

    pub(crate) fn load_column_vector(&mut self) -> NodeId {
        let shape = [self.body.rows, self.body.columns].into();
        self.reads.push((DType::F32, Layout::contiguous(&[1, self.body.columns].into()).broadcast(&shape)));
        self.node(NodeKind::Load(self.reads.len() - 1), DType::F32, Level::Element)
    }

    pub(crate) fn column(&mut self) -> NodeId {
        self.node(NodeKind::Column, DType::I32, Level::Element)
    }

    pub(crate) fn number(&mut self, value: f64) -> NodeId {
        self.node(NodeKind::Constant(Number::Float(value)), DType::F32, Level::Uniform)
    }

    pub(crate) fn unary(&mut self, op: UnaryOp, a: NodeId) -> NodeId {
        self.node(NodeKind::Unary(op, a), DType::F32, self.level(&[a]))
    }

    pub(crate) fn binary(&mut self, op: BinaryOp, a: NodeId, b: NodeId) -> NodeId {
        self.node(NodeKind::Binary(op, [a, b]), DType::F32, self.level(&[a, b]))
    }

    pub(crate) fn compare(&mut self, op: CompareOp, a: NodeId, b: NodeId) -> NodeId {
        self.node(NodeKind::Compare(op, [a, b]), DType::Bool, self.level(&[a, b]))
    }

    pub(crate) fn select(&mut self, condition: NodeId, a: NodeId, b: NodeId) -> NodeId {
        self.node(NodeKind::Select([condition, a, b]), DType::F32, self.level(&[condition, a, b]))
    }

    pub(crate) fn check(&mut self, index: NodeId, extent: usize) -> NodeId {
        self.node(NodeKind::CheckIndex { index, extent }, DType::I32, self.level(&[index]))
    }

    pub(crate) fn reduce(&mut self, op: ReduceOp, a: NodeId) -> NodeId {
        self.node(NodeKind::Reduce(op, a), DType::F32, Level::Row)
    }

    pub(crate) fn store(&mut self, node: NodeId, in_place: Option<usize>) {
        let Node { level, dtype, .. } = *self.body.node(node);
        self.body.stores.push(Store::Value { node, level, write: self.writes.len() });
        self.writes.push((dtype, Layout::contiguous(&self.shape(level)), in_place));
    }

    pub(crate) fn store_columns(&mut self, node: NodeId) {
        self.body.stores.push(Store::ColumnReduce {
            op: ReduceOp::Sum,
            node,
            write: self.writes.len(),
            parts: 1,
        });
        self.writes.push((DType::F32, Layout::contiguous(&[self.body.columns].into()), None));
    }
}

use BinaryOp::{Add, Div, Mul, Sub};

/// Builds layer normalization: (x - mean) · rsqrt(variance + ε) · scale + shift.
pub(crate) fn layer_norm(rows: usize, columns: usize) -> Builder {
    let mut b = Builder::new(rows, columns);
    let x = b.load(DType::F32, Level::Element);
    let (scale, shift) = (b.load_column_vector(), b.load_column_vector());
    let (n, epsilon) = (b.number(columns as f64), b.number(1e-5));
    let sum = b.reduce(ReduceOp::Sum, x);
    let mean = b.binary(Div, sum, n);
    let centered = b.binary(Sub, x, mean);
    let square = b.binary(Mul, centered, centered);
    let squares = b.reduce(ReduceOp::Sum, square);
    let variance = b.binary(Div, squares, n);
    let variance = b.binary(Add, variance, epsilon);
    let factor = b.unary(UnaryOp::Rsqrt, variance);
    let normal = b.binary(Mul, centered, factor);
    let scaled = b.binary(Mul, normal, scale);
    let result = b.binary(Add, scaled, shift);
    b.store(result, None);
    b.store(mean, None);
    b.store(factor, None);
    b
}

/// Builds the gradients of [`layer_norm`]: that of x per position, those of scale and shift per column.
pub(crate) fn layer_norm_gradient(rows: usize, columns: usize) -> Builder {
    let mut b = Builder::new(rows, columns);
    let (x, dy) = (b.load(DType::F32, Level::Element), b.load(DType::F32, Level::Element));
    let (mean, factor) = (b.load(DType::F32, Level::Row), b.load(DType::F32, Level::Row));
    let scale = b.load_column_vector();
    let n = b.number(columns as f64);
    let centered = b.binary(Sub, x, mean);
    let normal = b.binary(Mul, centered, factor);
    let g = b.binary(Mul, dy, scale);
    let sum = b.reduce(ReduceOp::Sum, g);
    let product = b.binary(Mul, g, normal);
    let dot = b.reduce(ReduceOp::Sum, product);
    let (sum, dot) = (b.binary(Div, sum, n), b.binary(Div, dot, n));
    let difference = b.binary(Sub, g, sum);
    let projection = b.binary(Mul, normal, dot);
    let difference = b.binary(Sub, difference, projection);
    let dx = b.binary(Mul, difference, factor);
    let weighted = b.binary(Mul, dy, normal);
    b.store(dx, None);
    b.store_columns(weighted);
    b.store_columns(dy);
    b
}

/// Builds the cross-entropy loss of each row of logits against its label, and the gradient of the logits.
pub(crate) fn cross_entropy(rows: usize, columns: usize) -> Builder {
    let mut b = Builder::new(rows, columns);
    let x = b.load(DType::F32, Level::Element);
    let label = b.load(DType::I32, Level::Row);
    let weight = b.load(DType::F32, Level::Uniform);
    let zero = b.number(0.0);
    let label = b.check(label, columns);
    let max = b.reduce(ReduceOp::Max, x);
    let shifted = b.binary(Sub, x, max);
    let exponential = b.unary(UnaryOp::Exp, shifted);
    let sum = b.reduce(ReduceOp::Sum, exponential);
    let logarithm = b.unary(UnaryOp::Log, sum);
    let column = b.column();
    let hit = b.compare(CompareOp::Eq, column, label);
    let picked = b.select(hit, shifted, zero);
    let picked = b.reduce(ReduceOp::Sum, picked);
    let loss = b.binary(Sub, logarithm, picked);
    // The row's factor comes first, as in the body that the compiler builds.
    let factor = b.binary(Div, weight, sum);
    let share = b.binary(Mul, factor, exponential);
    let difference = b.binary(Sub, share, weight);
    let gradient = b.select(hit, difference, share);
    b.store(loss, None);
    b.store(gradient, None);
    b
}

/// Builds an AdamW update, in place, of a parameter tensor.
pub(crate) fn adam_w(elements: usize) -> Builder {
    let mut b = Builder::new(1, elements);
    let [p, g, m, v] = [0; 4].map(|_| b.load(DType::F32, Level::Element));
    let [rate, first, second, clip] = [0; 4].map(|_| b.load(DType::F32, Level::Uniform));
    let [b1, b1_rest, b2, b2_rest, epsilon] = [0.9, 0.1, 0.999, 0.001, 1e-8].map(|value| b.number(value));
    let decay = b.number(0.01);
    let g = b.binary(Mul, g, clip);
    let old = b.binary(Mul, m, b1);
    let new = b.binary(Mul, g, b1_rest);
    let m = b.binary(Add, old, new);
    let old = b.binary(Mul, v, b2);
    let square = b.binary(Mul, g, g);
    let new = b.binary(Mul, square, b2_rest);
    let v = b.binary(Add, old, new);
    let (m_hat, v_hat) = (b.binary(Div, m, first), b.binary(Div, v, second));
    let root = b.unary(UnaryOp::Sqrt, v_hat);
    let root = b.binary(Add, root, epsilon);
    let direction = b.binary(Div, m_hat, root);
    let shrink = b.binary(Mul, p, decay);
    let direction = b.binary(Add, direction, shrink);
    let update = b.binary(Mul, direction, rate);
    let p = b.binary(Sub, p, update);
    b.store(p, Some(0));
    b.store(m, Some(2));
    b.store(v, Some(3));
    b
}

/// Builds the tanh approximation of GELU: x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))).
pub(crate) fn gelu(rows: usize, columns: usize) -> Builder {
    let mut b = Builder::new(rows, columns);
    let x = b.load(DType::F32, Level::Element);
    let [half, one, root, cubic] = [0.5, 1.0, 0.797_884_560_802_865_4, 0.044_715].map(|v| b.number(v));
    let square = b.binary(Mul, x, x);
    let cube = b.binary(Mul, square, x);
    let cube = b.binary(Mul, cube, cubic);
    let inner = b.binary(Add, x, cube);
    let inner = b.binary(Mul, inner, root);
    let tanh = b.unary(UnaryOp::Tanh, inner);
    let outer = b.binary(Add, tanh, one);
    let scaled = b.binary(Mul, x, half);
    let result = b.binary(Mul, scaled, outer);
    b.store(result, None);
    b
}

/// Builds a chain of ten cheap binary ops on two operands and a constant.
pub(crate) fn chain(rows: usize, columns: usize) -> Builder {
    let mut b = Builder::new(rows, columns);
    let (x, y) = (b.load(DType::F32, Level::Element), b.load(DType::F32, Level::Element));
    let two = b.number(2.0);
    let mut result = x;
    for _ in 0..3 {
        result = b.binary(Add, result, y);
        result = b.binary(Mul, result, two);
        result = b.binary(BinaryOp::Max, result, x);
    }
    let result = b.binary(Sub, result, y);
    b.store(result, None);
    b
}

/// Builds a copy, as a baseline.
pub(crate) fn copy(rows: usize, columns: usize) -> Builder {
    let mut b = Builder::new(rows, columns);
    let x = b.load(DType::F32, Level::Element);
    b.store(x, None);
    b
}

pub(crate) fn add(rows: usize, columns: usize) -> Builder {
    let mut b = Builder::new(rows, columns);
    let (x, y) = (b.load(DType::F32, Level::Element), b.load(DType::F32, Level::Element));
    let sum = b.binary(Add, x, y);
    b.store(sum, None);
    b
}
