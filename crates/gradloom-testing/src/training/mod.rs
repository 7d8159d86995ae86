//! Draws random training steps with small numbers, so that float32 can be compared with float64: functions
//! have moderate slopes, values are bounded, and only exact values are compared.
//!
//! Steps vary in properties that affect plans: shapes with extents of 1 and 0, views of views, reductions,
//! products over odd axes, indexing, concatenation, layers of networks (`layers`), and updates of parameters
//! and states, direct or by an optimizer.

mod layers;

use crate::{Leaves, Random};
use gradloom_core::grad;
use gradloom_core::ir::{
    BinaryOp, CompareOp, DType, DotAxes, Graph, Guard, Literal, Number, OpKind, Output, ReduceOp, ScatterOp,
    Shape, Type, UnaryOp, Update, ValueId,
};
use gradloom_core::optim::{self, Adam, AdamW, Optimizer, Settings, Sgd, Trainable};
use std::collections::HashMap;

const MOST_ELEMENTS: usize = 200;
/// Maximum bound of a value; values with a larger bound are passed through tanh.
const BOUND: f64 = 20.0;

/// Training step, and values for its leaves.
#[derive(Clone, Debug)]
pub struct TrainingStep {
    /// Graph with the forward pass, the gradient of a loss, and updates.
    pub graph: Graph,
    /// Values for the first step.
    pub leaves: Leaves,
}

/// Draws a random training step.
pub fn training_step(seed: u64) -> TrainingStep {
    let mut maker = Maker {
        graph: Graph::new(),
        random: Random::new(seed),
        bounds: HashMap::new(),
        stored: Vec::new(),
        leaves: Leaves::random(seed),
    };
    maker.leaves();
    let mut pool = maker.stored.clone();
    for i in 0..maker.random.below(3) {
        let ty = maker.random_type();
        pool.extend(maker.leaf(OpKind::Input { name: format!("x{i}"), ty }));
    }
    for _ in 0..6 + maker.random.below(25) {
        let made = maker.op(&pool).unwrap_or_default();
        pool.extend(made);
    }
    maker.finish(&pool);
    TrainingStep { graph: maker.graph, leaves: maker.leaves }
}

struct Maker {
    graph: Graph,
    random: Random,
    /// Upper bound of the magnitude of each value's elements.
    bounds: HashMap<ValueId, f64>,
    stored: Vec<ValueId>,
    leaves: Leaves,
}

impl Maker {
    fn random_type(&mut self) -> Type {
        let rank = self.random.below(4);
        Type::new(DType::F32, self.random.shape(rank))
    }

    fn leaf(&mut self, kind: OpKind) -> Option<ValueId> {
        self.add(kind, &[], 2.0)
    }

    fn parameter(&mut self, shape: &[usize]) -> Option<ValueId> {
        let name = format!("w{}", self.stored.len());
        let value = self.leaf(OpKind::Param { name, ty: Type::new(DType::F32, shape) })?;
        self.stored.push(value);
        Some(value)
    }

    fn leaves(&mut self) {
        for i in 0..2 + self.random.below(3) {
            let ty = self.random_type();
            self.parameter(&ty.shape);
            // Often draw a state of the same type, as the states of optimizers are.
            let ty = if self.random.below(2) == 0 { ty } else { self.random_type() };
            let state = self.leaf(OpKind::State {
                name: format!("s{i}"),
                ty,
                init: Number::Float(0.5),
                whole: Vec::new(),
            });
            self.stored.extend(state);
        }
    }

    fn finish(&mut self, pool: &[ValueId]) {
        let mut loss = None;
        for i in 0..1 + self.random.below(4) {
            let value = self.random.pick(pool);
            self.graph.outputs.push(Output { name: format!("y{i}"), value });
            let mean = self.mean(value);
            loss = match loss {
                Some(loss) => self.add(OpKind::Binary(BinaryOp::Add), &[loss, mean], 1e3),
                None => Some(mean),
            };
        }
        let loss = loss.expect("there is an output");
        self.graph.outputs.push(Output { name: "loss".into(), value: loss });
        self.graph.guards.push(Guard { name: "loss".into(), value: loss });
        let (parameters, states): (Vec<ValueId>, Vec<ValueId>) = self.stored.iter().partition(|&&value| {
            matches!(self.graph.defining_op(value).map(|op| &op.kind), Some(OpKind::Param { .. }))
        });
        let gradients =
            grad::append(&mut self.graph, loss, None, &parameters).expect("every op has a gradient");
        let found: Vec<(ValueId, ValueId)> =
            parameters.into_iter().zip(gradients).filter_map(|(p, g)| Some((p, g?))).collect();
        if found.is_empty() || self.random.below(2) == 0 {
            for (i, (target, gradient)) in found.into_iter().enumerate() {
                match self.random.below(4) {
                    0 => self.graph.outputs.push(Output { name: format!("g{i}"), value: gradient }),
                    _ => self.descend(target, gradient),
                }
            }
        } else {
            self.optimize(&found);
        }
        for target in states {
            let value = self.like(pool, target);
            if self.random.below(3) > 0 {
                self.graph.updates.push(Update { target, region: None, value, must_alias: false });
            } else {
                self.region(target, value);
            }
        }
    }

    fn mean(&mut self, value: ValueId) -> ValueId {
        let axes = (0..self.graph.ty(value).shape.rank()).collect();
        let scale = 1.0 / self.graph.ty(value).elements().max(1) as f64;
        let sum =
            self.add(OpKind::Reduce { op: ReduceOp::Sum, axes }, &[value], 1e3).expect("a sum is small");
        let scale = self.splat(&Type::scalar(DType::F32), scale);
        self.add(OpKind::Binary(BinaryOp::Mul), &[sum, scale], BOUND).expect("a scalar is small")
    }

    fn descend(&mut self, target: ValueId, gradient: ValueId) {
        let rate = self.splat(&self.graph.ty(target).clone(), 0.1);
        let step = self.add(OpKind::Binary(BinaryOp::Mul), &[gradient, rate], 1e3).expect("of a known size");
        let value = self.add(OpKind::Binary(BinaryOp::Sub), &[target, step], 1e3).expect("of a known size");
        self.graph.updates.push(Update { target, region: None, value, must_alias: false });
    }

    /// Adds the updates of one of the optimizers. Adam has a large epsilon, because otherwise a gradient that
    /// is 0 except for rounding would result in an arbitrary step.
    fn optimize(&mut self, found: &[(ValueId, ValueId)]) {
        let optimizer: Box<dyn Optimizer> = match self.random.below(5) {
            0 => Box::new(Sgd::new(0.1).weight_decay(0.1)),
            1 => Box::new(Sgd::new(0.1).momentum(0.9)),
            2 => Box::new(Sgd::new(0.1).momentum(0.5).nesterov()),
            3 => Box::new(Adam::new(0.05).epsilon(0.1)),
            _ => Box::new(AdamW::new(0.05).epsilon(0.1).weight_decay(0.1)),
        };
        let trainables: Vec<Trainable> = found
            .iter()
            .map(|&(value, gradient)| {
                let kind = self.graph.defining_op(value).map(|op| &op.kind);
                let name = kind.and_then(Graph::leaf_name).unwrap_or_default().to_string();
                Trainable { name, value, gradient, decay: None, shard: None }
            })
            .collect();
        let mut chance = |value: f64| (self.random.below(2) == 0).then_some(value);
        let settings = Settings {
            clip_norm: chance(1.0),
            clip_value: chance(0.5),
            // Normalize no gradient: if it should be 0, rounding errors would become a direction.
            normalize: Vec::new(),
            average: chance(0.9),
        };
        let graph = std::mem::take(&mut self.graph);
        self.graph = optim::attach(graph, &trainables, optimizer.as_ref(), &settings)
            .expect("there is something to train");
        let mut numbers = optimizer.hyperparameters();
        numbers.extend(settings.numbers());
        optimizer.set_rates(&mut numbers, 0);
        settings.derive(&mut numbers).expect("the numbers are in range");
        optimizer.derive(&mut numbers).expect("the numbers are in range");
        for (name, value) in numbers {
            let value = f64::from(value as f32);
            self.leaves = self.leaves.clone().with(&optim::scalar_name(&name), DType::F32, &[], &[value]);
        }
    }

    /// Updates one or two regions of a state with slices of a value of its type.
    fn region(&mut self, target: ValueId, value: ValueId) {
        let shape = self.graph.ty(target).shape.clone();
        for _ in 0..1 + self.random.below(2) {
            let sizes: Vec<usize> = shape.iter().map(|&n| self.random.below(n + 1)).collect();
            let starts: Vec<ValueId> =
                shape.iter().zip(&sizes).map(|(&n, &size)| self.index(n - size + 1)).collect();
            let step = vec![1; shape.rank()];
            let kind = OpKind::Slice { start: vec![0; shape.rank()], limit: sizes, step };
            let Some(window) = self.add(kind, &[value], BOUND) else { return };
            // No alias is required, because outputs may be copies of states.
            self.graph.updates.push(Update {
                target,
                region: Some(starts),
                value: window,
                must_alias: false,
            });
        }
    }

    /// Adds an op, unless it does not fit its operands or its result is too large.
    fn add(&mut self, kind: OpKind, operands: &[ValueId], bound: f64) -> Option<ValueId> {
        let types = gradloom_core::ir::infer(&self.graph, &kind, operands).ok()?;
        if types[0].elements() > MOST_ELEMENTS {
            return None;
        }
        let value = self.graph.add(kind, operands, None).ok()?[0];
        self.bounds.insert(value, bound);
        if bound > BOUND && bound < 1e3 {
            return self.add(OpKind::Unary(UnaryOp::Tanh), &[value], 1.0);
        }
        Some(value)
    }

    fn splat(&mut self, ty: &Type, value: f64) -> ValueId {
        let kind = OpKind::Constant { ty: ty.clone(), data: Literal::Splat(Number::of(ty.dtype, value)) };
        // Always succeeds, because a value of this type already exists.
        let value_of = self.graph.add(kind, &[], None).expect("the type is that of a value")[0];
        self.bounds.insert(value_of, value.abs().min(BOUND));
        value_of
    }

    /// Adds an i32 scalar below `bound`.
    fn index(&mut self, bound: usize) -> ValueId {
        let value = self.random.below(bound) as f64;
        self.splat(&Type::scalar(DType::I32), value)
    }

    fn shape(&self, value: ValueId) -> Shape {
        self.graph.ty(value).shape.clone()
    }

    /// Returns a value from the pool with the same type as `value`.
    fn like(&mut self, pool: &[ValueId], value: ValueId) -> ValueId {
        let same: Vec<_> =
            pool.iter().copied().filter(|&v| self.graph.ty(v) == self.graph.ty(value)).collect();
        self.random.pick(&same)
    }

    fn op(&mut self, pool: &[ValueId]) -> Option<Vec<ValueId>> {
        // Prefer recent values, which make the graph deep.
        let recent = &pool[pool.len() - pool.len().min(4)..];
        let x = if self.random.below(2) == 0 { self.random.pick(recent) } else { self.random.pick(pool) };
        let bound = self.bounds[&x];
        let made = match self.random.below(24) {
            0 | 1 => self.unary(x),
            2..=4 => self.binary(pool, x),
            5 | 6 => self.views(x),
            7 => self.reduce(x),
            8 | 9 => self.dot(pool, x),
            10 => self.rows(x),
            11 => self.window(x),
            12 => self.select(pool, x),
            14..=23 => return self.layer(x),
            _ => {
                let axis = self.random.below(self.shape(x).rank().max(1));
                let other = self.like(pool, x);
                let bound = bound.max(self.bounds[&other]);
                let operands = self.random.pick(&[vec![x, other], vec![x], vec![other, x, x]]);
                self.add(OpKind::Concat { axis }, &operands, bound)
            }
        };
        made.map(|value| vec![value])
    }

    fn unary(&mut self, x: ValueId) -> Option<ValueId> {
        use UnaryOp::{Cos, Erf, Exp, Neg, Sigmoid, Sin, Tanh};
        match self.random.pick(&[Cos, Erf, Exp, Neg, Sigmoid, Sin, Tanh]) {
            Neg => self.add(OpKind::Unary(Neg), &[x], self.bounds[&x]),
            Exp => {
                let small = self.add(OpKind::Unary(Tanh), &[x], 1.0)?;
                self.add(OpKind::Unary(Exp), &[small], 3.0)
            }
            op => self.add(OpKind::Unary(op), &[x], 1.0),
        }
    }

    fn binary(&mut self, pool: &[ValueId], x: ValueId) -> Option<ValueId> {
        let y = self.like(pool, x);
        let (a, b) = (self.bounds[&x], self.bounds[&y]);
        match self.random.below(5) {
            0 => self.add(OpKind::Binary(BinaryOp::Add), &[x, y], a + b),
            1 => self.add(OpKind::Binary(BinaryOp::Sub), &[x, y], a + b),
            2 => self.add(OpKind::Binary(BinaryOp::Mul), &[x, y], a * b),
            3 => self.add(OpKind::Binary(BinaryOp::Mul), &[x, x], a * a),
            _ => {
                // Divide by a number between 2 and 4.
                let three = self.splat(&self.graph.ty(y).clone(), 3.0);
                let small = self.add(OpKind::Unary(UnaryOp::Sin), &[y], 1.0)?;
                let divisor = self.add(OpKind::Binary(BinaryOp::Add), &[small, three], 4.0)?;
                self.add(OpKind::Binary(BinaryOp::Div), &[x, divisor], a / 2.0)
            }
        }
    }

    /// Adds two or three views in a row.
    fn views(&mut self, x: ValueId) -> Option<ValueId> {
        let mut value = x;
        for _ in 0..2 + self.random.below(2) {
            let (shape, bound) = (self.shape(value), self.bounds[&value]);
            let rank = shape.rank();
            let kind = match self.random.below(5) {
                0 => OpKind::Permute { perm: self.random.order(rank) },
                1 => {
                    let merged = match self.random.below(3) {
                        0 => vec![shape.elements()],
                        1 => [&[1], &shape[..], &[1]].concat(),
                        _ => shape.iter().copied().filter(|&n| n != 1).collect(),
                    };
                    OpKind::Reshape { shape: merged.into() }
                }
                2 => {
                    let wide = shape
                        .iter()
                        .map(|&n| if n == 1 { self.random.below(4) } else { n })
                        .collect::<Vec<_>>();
                    OpKind::Broadcast { shape: wide.into() }
                }
                3 => {
                    let start: Vec<_> = shape.iter().map(|&n| self.random.below(n + 1)).collect();
                    let limit =
                        shape.iter().zip(&start).map(|(&n, &s)| s + self.random.below(n - s + 1)).collect();
                    OpKind::Slice {
                        start,
                        limit,
                        step: (0..rank).map(|_| 1 + self.random.below(3)).collect(),
                    }
                }
                _ => {
                    let mut amounts = || (0..rank).map(|_| self.random.below(3)).collect::<Vec<_>>();
                    OpKind::Pad {
                        low: amounts(),
                        high: amounts(),
                        interior: amounts(),
                        value: Number::Float(0.25),
                    }
                }
            };
            value = self.add(kind, &[value], bound)?;
        }
        Some(value)
    }

    fn reduce(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        let axes: Vec<_> = (0..shape.rank()).filter(|_| self.random.below(2) == 0).collect();
        let count: usize = axes.iter().map(|&axis| shape[axis]).product();
        let bound = self.bounds[&x] * count.max(1) as f64;
        let sum = self.add(OpKind::Reduce { op: ReduceOp::Sum, axes: axes.clone() }, &[x], bound)?;
        if self.random.below(2) == 0 {
            return Some(sum);
        }
        // Broadcast the result to the operand's shape, as in normalization.
        let mut kept = shape.to_vec();
        axes.iter().for_each(|&axis| kept[axis] = 1);
        let bound = self.bounds[&sum];
        let kept = self.add(OpKind::Reshape { shape: kept.into() }, &[sum], bound)?;
        let wide = self.add(OpKind::Broadcast { shape }, &[kept], bound)?;
        self.add(OpKind::Binary(BinaryOp::Sub), &[x, wide], self.bounds[&x] + bound)
    }

    /// Adds a product, with random pairs of axes of equal extent.
    fn dot(&mut self, pool: &[ValueId], x: ValueId) -> Option<ValueId> {
        let y = self.random.pick(pool);
        let (left, right) = (self.shape(x), self.shape(y));
        let mut axes = DotAxes::default();
        let mut count = 1;
        for i in self.random.order(left.rank()) {
            let free: Vec<usize> = DotAxes::free(right.rank(), &axes.rhs_batch, &axes.rhs_contract);
            let Some(&j) = free.iter().find(|&&j| right[j] == left[i]) else { continue };
            let (lhs, rhs) = match self.random.below(3) {
                0 => (&mut axes.lhs_batch, &mut axes.rhs_batch),
                1 => {
                    count *= left[i].max(1);
                    (&mut axes.lhs_contract, &mut axes.rhs_contract)
                }
                _ => continue,
            };
            lhs.push(i);
            rhs.push(j);
        }
        let bound = self.bounds[&x] * self.bounds[&y] * count as f64;
        self.add(OpKind::Dot(axes), &[x, y], bound)
    }

    /// Adds a gather of rows of a table, and half of the time also a scatter that adds the rows to the table.
    fn rows(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        let rows = *shape.first()?;
        let count = if rows == 0 { 0 } else { self.random.below(4) };
        let numbers: Vec<_> = (0..count).map(|_| Number::Int(self.random.below(rows) as i64)).collect();
        let ty = Type::new(DType::I32, [count]);
        let index = self.add(OpKind::Constant { ty, data: Literal::Dense(numbers.into()) }, &[], 0.0)?;
        let bound = self.bounds[&x];
        let found = self.add(OpKind::Gather { batch: 0 }, &[x, index], bound)?;
        match self.random.below(2) {
            0 => Some(found),
            _ => self.add(OpKind::Scatter { op: ScatterOp::Add, batch: 0 }, &[x, index, found], bound * 4.0),
        }
    }

    /// Adds a dynamic slice, and half of the time also a dynamic update at the same position.
    fn window(&mut self, x: ValueId) -> Option<ValueId> {
        let (shape, bound) = (self.shape(x), self.bounds[&x]);
        let sizes: Vec<usize> = shape.iter().map(|&n| self.random.below(n + 1)).collect();
        let starts: Vec<ValueId> =
            shape.iter().zip(&sizes).map(|(&n, &size)| self.index(n - size + 1)).collect();
        let window = self.add(OpKind::DynamicSlice { sizes }, &[&[x], &starts[..]].concat(), bound)?;
        match self.random.below(2) {
            0 => Some(window),
            _ => {
                let changed = self.add(OpKind::Unary(UnaryOp::Sin), &[window], 1.0)?;
                self.add(OpKind::DynamicUpdateSlice, &[&[x, changed], &starts[..]].concat(), bound.max(1.0))
            }
        }
    }

    fn select(&mut self, pool: &[ValueId], x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        if shape.rank() == 0 {
            return None;
        }
        let axis = self.random.below(shape.rank());
        let iota = self.add(OpKind::Iota { ty: Type::new(DType::I32, shape.clone()), axis }, &[], 0.0)?;
        let two = self.splat(&Type::new(DType::I32, shape), 2.0);
        let op = self.random.pick(CompareOp::ALL);
        let condition = self.add(OpKind::Compare(op), &[iota, two], 0.0)?;
        let y = self.like(pool, x);
        let bound = self.bounds[&x].max(self.bounds[&y]);
        self.add(OpKind::Select, &[condition, x, y], bound)
    }
}
