//! Generates random graphs of every primitive, with many of the patterns that passes match.
//!
//! Constants are dyadic, and functions that round are applied only to values that depend on a leaf.

use crate::Random;
use gradloom_core::ir::{
    ArgReduceOp, AttentionSpec, BinaryFraction, BinaryOp, CompareOp, CompositeOp, DType, DotAxes, Graph,
    Guard, Literal, Number, OpKind, Output, ReduceOp, ScatterOp, Shape, Type, UnaryOp, Update, ValueId,
};
use std::collections::HashSet;

/// Maximum number of elements of a value.
const MAX_ELEMENTS: usize = 150;

/// Draws a random graph that verifies; few of the graphs trap.
pub fn generate(seed: u64) -> Graph {
    let mut generator =
        Generator { graph: Graph::new(), random: Random::new(seed), varying: HashSet::new(), depth: 0 };
    let mut pool = generator.leaves();
    let ops = 8 + generator.random.below(40);
    generator.ops(&mut pool, ops);
    generator.give_out(&pool);
    generator.graph
}

struct Generator {
    graph: Graph,
    random: Random,
    /// Values that depend on a leaf.
    varying: HashSet<ValueId>,
    /// Number of open blocks.
    depth: usize,
}

const SMOOTH: [UnaryOp; 12] = [
    UnaryOp::Exp,
    UnaryOp::Expm1,
    UnaryOp::Log,
    UnaryOp::Log1p,
    UnaryOp::Sqrt,
    UnaryOp::Rsqrt,
    UnaryOp::Sin,
    UnaryOp::Cos,
    UnaryOp::Tanh,
    UnaryOp::Sigmoid,
    UnaryOp::Erf,
    UnaryOp::Neg,
];
/// Functions whose expansions have no error except rounding.
const COMPOSITE: [CompositeOp; 3] = [CompositeOp::Sinh, CompositeOp::Cosh, CompositeOp::Asinh];
const EXACT: [UnaryOp; 6] =
    [UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Sign, UnaryOp::Floor, UnaryOp::Not, UnaryOp::Detach];

impl Generator {
    fn leaves(&mut self) -> Vec<ValueId> {
        let mut pool = Vec::new();
        // Most leaves have the same shape, so that ops find several operands that fit.
        let common: Vec<_> = (0..2 + self.random.below(2)).map(|_| 2 + self.random.below(3)).collect();
        for i in 0..4 + self.random.below(4) {
            let rank = self.random.below(4);
            let shape = if self.random.below(3) > 0 { common.clone() } else { self.random.shape(rank) };
            let dtype =
                self.random.pick(&[DType::F32, DType::F32, DType::F32, DType::I32, DType::U32, DType::Bool]);
            let ty = Type::new(dtype, shape);
            let name = format!("leaf{i}");
            let kind = match self.random.below(3) {
                0 => OpKind::Input { name, ty },
                1 => OpKind::Param { name, ty: Type { dtype: DType::F32, ..ty } },
                _ => OpKind::State { name, init: Number::of(ty.dtype, 1.0), ty, whole: Vec::new() },
            };
            pool.extend(self.add(kind, &[]));
        }
        for name in ["seed_lo", "seed_hi", "step"] {
            pool.extend(self.add(OpKind::Scalar { name: name.into(), dtype: DType::U32 }, &[]));
        }
        pool
    }

    /// Adds outputs, updates and guards.
    fn give_out(&mut self, pool: &[ValueId]) {
        // Either every value is an output, so that no error goes undetected, or only a few are, so that there
        // is dead code.
        let count = if self.random.below(2) == 0 { pool.len() } else { 1 + self.random.below(4) };
        for (i, at) in self.random.order(pool.len()).into_iter().take(count).enumerate() {
            self.graph.outputs.push(Output { name: format!("y{i}"), value: pool[at] });
        }
        let stored: Vec<_> = self
            .graph
            .entry_ops()
            .filter(|(_, op)| matches!(op.kind, OpKind::Param { .. } | OpKind::State { .. }))
            .map(|(_, op)| op.results[0])
            .collect();
        for target in stored.into_iter().filter(|_| self.random.below(2) == 0).collect::<Vec<_>>() {
            let value = self.like(pool, target);
            self.graph.updates.push(Update { target, region: None, value, must_alias: false });
        }
        let floats: Vec<_> = pool.iter().copied().filter(|&v| self.graph.ty(v).dtype == DType::F32).collect();
        if !floats.is_empty() && self.random.below(2) == 0 {
            let value = self.random.pick(&floats);
            self.graph.guards.push(Guard { name: "guard".into(), value });
        }
    }

    /// Adds ops with operands from the pool, and adds their results to the pool.
    fn ops(&mut self, pool: &mut Vec<ValueId>, count: usize) {
        for _ in 0..count {
            if let Some(results) = self.op(pool) {
                pool.extend(results);
            }
        }
    }

    fn add(&mut self, kind: OpKind, operands: &[ValueId]) -> Vec<ValueId> {
        self.try_add(kind, operands).unwrap_or_default()
    }

    /// Adds an op. Returns `None` if it does not fit its operands, or if its result is too large.
    fn try_add(&mut self, kind: OpKind, operands: &[ValueId]) -> Option<Vec<ValueId>> {
        let types = gradloom_core::ir::infer(&self.graph, &kind, operands).ok()?;
        if types.iter().any(|ty| ty.elements() > MAX_ELEMENTS || ty.shape.iter().any(|&n| n > MAX_ELEMENTS)) {
            return None;
        }
        let varies = kind.is_external_leaf()
            || matches!(kind, OpKind::RandomBits { .. })
            || operands.iter().any(|v| self.varying.contains(v));
        let results = self.graph.add(kind, operands, None).ok()?;
        if varies {
            self.varying.extend(&results);
        }
        Some(results)
    }

    fn constant(&mut self, ty: &Type) -> ValueId {
        let mut number = || {
            let value = self.random.pick(&[0.0, 0.0, -0.0, 1.0, 1.0, -1.0, 2.0, 0.5, 4.0, -1.5]);
            match ty.dtype {
                DType::U32 | DType::U8 => Number::of(ty.dtype, f64::abs(value)),
                dtype => Number::of(dtype, value),
            }
        };
        let first = number();
        let dense: Vec<_> = (0..ty.elements()).map(|_| number()).collect();
        let data =
            if self.random.below(3) > 0 { Literal::Splat(first) } else { Literal::Dense(dense.into()) };
        // The size is not limited, because a value of this type already exists.
        let kind = OpKind::Constant { ty: ty.clone(), data };
        self.graph.add(kind, &[], None).expect("a value of this type is there")[0]
    }

    /// Returns a value, from the pool or a constant, that has the same type as `value`.
    fn like(&mut self, pool: &[ValueId], value: ValueId) -> ValueId {
        let ty = self.graph.ty(value).clone();
        let same: Vec<_> = pool.iter().copied().filter(|&v| *self.graph.ty(v) == ty).collect();
        if self.random.below(4) == 0 { self.constant(&ty) } else { self.random.pick(&same) }
    }

    /// Returns a value from the pool with the given dtype.
    fn of(&mut self, pool: &[ValueId], dtype: DType) -> Option<ValueId> {
        let fits: Vec<_> = pool.iter().copied().filter(|&v| self.graph.ty(v).dtype == dtype).collect();
        (!fits.is_empty()).then(|| self.random.pick(&fits))
    }

    fn op(&mut self, pool: &[ValueId]) -> Option<Vec<ValueId>> {
        // Prefer recent values, which form chains, and the larger of two values, which is the better test.
        let recent = &pool[pool.len() - pool.len().min(3)..];
        let [first, second] = [self.random.pick(recent), self.random.pick(pool)];
        let larger = |v: &ValueId| self.graph.ty(*v).elements();
        let x = [first, second].into_iter().max_by_key(larger)?;
        let shape = self.graph.ty(x).shape.clone();
        match self.random.below(29) {
            0..=3 => self.unary(x),
            4..=8 => self.binary(pool, x),
            9 => {
                let other = self.like(pool, x);
                // Randomly reverse the operands of the second comparison.
                let (op, reversed) = (self.random.pick(CompareOp::ALL), self.random.pick(CompareOp::ALL));
                let y = self.try_add(OpKind::Compare(op), &[x, other])?;
                let (a, b) = self.random.pick(&[(x, other), (other, x)]);
                let z = self.try_add(OpKind::Compare(reversed), &[a, b])?;
                Some([y, z].concat())
            }
            10 => self.select(pool, x),
            11 => {
                // Draw no i64, because a pass replaces it, but graphs are also run without passes.
                let dtype = self.random.pick(&DType::ALL.map(|dtype| match dtype {
                    DType::I64 => DType::U8,
                    dtype => dtype,
                }));
                self.try_add(OpKind::Cast { dtype }, &[x])
            }
            12 => {
                let axes = (0..shape.rank()).filter(|_| self.random.below(2) == 0).collect();
                let op = self.random.pick(ReduceOp::ALL);
                self.try_add(OpKind::Reduce { op, axes }, &[x])
            }
            13 => {
                let op = self.random.pick(&[ArgReduceOp::ArgMax, ArgReduceOp::ArgMin]);
                let axis = self.random.below(shape.rank().max(1));
                self.try_add(OpKind::ArgReduce { op, axis }, &[x])
            }
            14 | 15 => {
                let y = self.view(x, &shape)?;
                let shape = self.graph.ty(y[0]).shape.clone();
                self.view(y[0], &shape)
            }
            16 => self.slice(x, &shape),
            17 => self.split(x, &shape),
            18 => {
                let axis = self.random.below(shape.rank().max(1));
                let other = self.like(pool, x);
                let operands = self.random.pick(&[vec![x], vec![x, other], vec![other, x, x]]);
                self.try_add(OpKind::Concat { axis }, &operands)
            }
            19 => self.window(x, &shape),
            20 | 21 => self.rows(pool),
            22 => self.dot(pool),
            23 => self.attention(pool),
            24 => self.random_bits(pool, shape),
            25 => self.try_add(OpKind::Barrier, &[x, second]),
            26 => {
                let (op, reverse) = (self.random.pick(ReduceOp::ALL), self.random.below(2) == 0);
                self.try_add(OpKind::Cumulate { op, reverse }, &[x])
            }
            27 => {
                let extent = shape.last().copied().unwrap_or(0);
                let count = self.random.below(extent + 1);
                let descending = self.random.below(2) == 0;
                self.try_add(OpKind::Sort { count, descending }, &[x])
            }
            _ => self.block(pool, x),
        }
    }

    fn unary(&mut self, x: ValueId) -> Option<Vec<ValueId>> {
        let rounds = self.varying.contains(&x) && self.random.below(2) == 0;
        if rounds && self.random.below(6) == 0 {
            let op = self.random.pick(&COMPOSITE);
            return self.try_add(op.into(), &[x]);
        }
        let op = if rounds { self.random.pick(&SMOOTH) } else { self.random.pick(&EXACT) };
        let y = self.try_add(OpKind::Unary(op), &[x])?;
        // Often apply the same function twice in a row.
        let again = self.random.below(3) == 0 && EXACT.contains(&op);
        if again { self.try_add(OpKind::Unary(op), &y) } else { Some(y) }
    }

    fn binary(&mut self, pool: &[ValueId], x: ValueId) -> Option<Vec<ValueId>> {
        use BinaryOp::{Div, Pow, Rem};
        let other = self.like(pool, x);
        let (a, b) = if self.random.below(2) == 0 { (x, other) } else { (other, x) };
        let op = self.random.pick(BinaryOp::ALL);
        let varies = self.varying.contains(&x) || self.varying.contains(&other);
        let op = if matches!(op, Div | Pow | Rem) && !varies { BinaryOp::Mul } else { op };
        if matches!(op, Div | Rem) && self.graph.ty(x).dtype.is_integer() {
            // Divide by a positive constant, because a divisor of zero would trap.
            let ty = self.graph.ty(x).clone();
            let data = Literal::Splat(Number::Int(1 + self.random.below(3) as i64));
            let divisor = self.add(OpKind::Constant { ty, data }, &[])[0];
            return self.try_add(OpKind::Binary(op), &[a, divisor]);
        }
        let y = self.try_add(OpKind::Binary(op), &[a, b])?;
        if op.is_commutative() && self.random.below(4) == 0 {
            // Add the same op with its operands reversed, for common subexpression elimination.
            let z = self.try_add(OpKind::Binary(op), &[b, a])?;
            return Some([y, z].concat());
        }
        Some(y)
    }

    fn select(&mut self, pool: &[ValueId], x: ValueId) -> Option<Vec<ValueId>> {
        let condition_ty = Type::new(DType::Bool, self.graph.ty(x).shape.clone());
        let condition = self.constant(&condition_ty);
        let condition = self.like(&[pool, &[condition]].concat(), condition);
        let other = self.like(pool, x);
        self.try_add(OpKind::Select, &[condition, x, other])
    }

    fn view(&mut self, x: ValueId, shape: &Shape) -> Option<Vec<ValueId>> {
        let rank = shape.rank();
        match self.random.below(4) {
            0 => {
                let extents: Vec<_> = self.random.order(rank).into_iter().map(|axis| shape[axis]).collect();
                self.try_add(OpKind::Reshape { shape: extents.into() }, &[x])
            }
            1 => {
                let extents: Vec<_> =
                    if rank > 3 { vec![shape.elements()] } else { [&[1], &shape[..]].concat() };
                self.try_add(OpKind::Reshape { shape: extents.into() }, &[x])
            }
            2 => {
                let perm = self.random.order(rank);
                self.try_add(OpKind::Permute { perm }, &[x])
            }
            _ => {
                let extents: Vec<_> =
                    shape.iter().map(|&n| if n == 1 { self.random.below(4) } else { n }).collect();
                self.try_add(OpKind::Broadcast { shape: extents.into() }, &[x])
            }
        }
    }

    fn slice(&mut self, x: ValueId, shape: &Shape) -> Option<Vec<ValueId>> {
        let start: Vec<_> = shape.iter().map(|&n| self.random.below(n / 2 + 1)).collect();
        let limit: Vec<_> =
            shape.iter().zip(&start).map(|(&n, &s)| n - self.random.below((n - s).min(2) + 1)).collect();
        let step = shape.iter().map(|_| self.random.pick(&[1, 1, 1, 2])).collect();
        let y = self.try_add(OpKind::Slice { start, limit, step }, &[x])?;
        if self.random.below(2) == 0 { self.slice(y[0], &self.graph.ty(y[0]).shape.clone()) } else { Some(y) }
    }

    /// Slices along an axis, then pads the parts or concatenates them, as when tensors and their cotangents
    /// are split.
    fn split(&mut self, x: ValueId, shape: &Shape) -> Option<Vec<ValueId>> {
        let rank = shape.rank();
        let axis = self.random.below(rank.max(1));
        let extent = *shape.get(axis)?;
        let cut = self.random.below(extent + 1);
        let value = Number::of(self.graph.ty(x).dtype, self.random.pick(&[0.0, 0.0, 0.0, 1.0]));
        let mut parts = Vec::new();
        let mut pads = Vec::new();
        for (from, to) in [(0, cut), (cut, extent)] {
            let (mut start, mut limit) = (vec![0; rank], shape.to_vec());
            (start[axis], limit[axis]) = (from, to);
            let part = self.try_add(OpKind::Slice { start, limit, step: vec![1; rank] }, &[x])?[0];
            let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
            (low[axis], high[axis]) = (from, extent - to);
            let kind = OpKind::Pad { low, high, interior: vec![0; rank], value };
            pads.push(self.try_add(kind, &[part])?[0]);
            parts.push(part);
        }
        if self.random.below(3) == 0 {
            return self.try_add(OpKind::Concat { axis }, &parts);
        }
        pads.extend(parts);
        let mut sum = self.try_add(OpKind::Binary(BinaryOp::Add), &[pads[0], x])?[0];
        sum = self.try_add(OpKind::Binary(BinaryOp::Add), &[pads[1], sum])?[0];
        pads.push(sum);
        Some(pads)
    }

    fn window(&mut self, x: ValueId, shape: &Shape) -> Option<Vec<ValueId>> {
        let mut starts = Vec::new();
        let mut sizes = Vec::new();
        for &n in shape.iter() {
            let size = self.random.below(n + 1);
            let data = Literal::Splat(Number::Int(self.random.below(n - size + 1) as i64));
            starts.extend(self.add(OpKind::Constant { ty: Type::scalar(DType::I32), data }, &[]));
            sizes.push(size);
        }
        let window = self.try_add(OpKind::DynamicSlice { sizes }, &[&[x], &starts[..]].concat())?;
        let replaced = self.try_add(OpKind::DynamicUpdateSlice, &[&[x, window[0]], &starts[..]].concat())?;
        Some([window, replaced].concat())
    }

    /// Adds a gather of rows of a table, and a scatter of the rows into zeros.
    fn rows(&mut self, pool: &[ValueId]) -> Option<Vec<ValueId>> {
        let x = self.of(pool, DType::F32)?;
        let ty = self.graph.ty(x).clone();
        let rows = *ty.shape.first()?;
        let count = if rows == 0 { 0 } else { self.random.below(4) };
        let numbers: Vec<_> = (0..count).map(|_| Number::Int(self.random.below(rows) as i64)).collect();
        let kind =
            OpKind::Constant { ty: Type::new(DType::I32, [count]), data: Literal::Dense(numbers.into()) };
        let index = self.add(kind, &[])[0];
        let found = self.try_add(OpKind::Gather { batch: 0 }, &[x, index])?[0];
        let data = Literal::Splat(Number::Float(0.0));
        let zeros = self.add(OpKind::Constant { ty, data }, &[])[0];
        let op = self.random.pick(&[ScatterOp::Add, ScatterOp::Set]);
        let back = self.try_add(OpKind::Scatter { op, batch: 0 }, &[zeros, index, found])?[0];
        let sum = self.try_add(OpKind::Binary(BinaryOp::Add), &[back, x])?[0];
        let seen = self.random.pick(&[vec![found, sum], vec![found, sum, back]]);
        Some(seen)
    }

    fn dot(&mut self, pool: &[ValueId]) -> Option<Vec<ValueId>> {
        let (a, b) = (self.of(pool, DType::F32)?, self.of(pool, DType::F32)?);
        let (left, right) = (self.graph.ty(a).shape.clone(), self.graph.ty(b).shape.clone());
        let mut axes = DotAxes::default();
        let pair = (0..left.rank()).find_map(|i| Some((i, right.iter().position(|&n| n == left[i])?)));
        if let Some((i, j)) = pair {
            let (lhs, rhs) = if self.random.below(3) == 0 {
                (&mut axes.lhs_batch, &mut axes.rhs_batch)
            } else {
                (&mut axes.lhs_contract, &mut axes.rhs_contract)
            };
            lhs.push(i);
            rhs.push(j);
        }
        self.try_add(OpKind::Dot(axes), &[a, b])
    }

    fn attention(&mut self, pool: &[ValueId]) -> Option<Vec<ValueId>> {
        let x = self.of(pool, DType::F32).filter(|x| self.varying.contains(x))?;
        let shape = self.graph.ty(x).shape.clone();
        let lead = [&[1, 1, 1, 1], &shape[..]].concat();
        let q = self.try_add(OpKind::Reshape { shape: lead[lead.len() - 4..].to_vec().into() }, &[x])?[0];
        let spec = AttentionSpec {
            causal: self.random.below(2) == 0,
            window: [None, Some(2), Some(3)][self.random.below(3)],
            scale: 0.5,
            query_offset: false,
            key_length: false,
            block_table: false,
            dropout: [None, Some(1.5)][self.random.below(2)],
        };
        let mut operands = vec![q, q, q];
        if spec.dropout.is_some() {
            let shape = &self.graph.ty(q).shape;
            let words = Type::new(DType::U32, [shape[0], shape[1], shape[2], shape[2].div_ceil(32)]);
            operands.push(self.try_add(OpKind::Iota { ty: words, axis: 2 }, &[])?[0]);
        }
        let results = self.try_add(OpKind::Attention(spec), &operands)?;
        operands.extend(results.iter().copied().chain([q]));
        let gradients = self.try_add(OpKind::AttentionGrad(spec), &operands)?;
        Some([results, gradients].concat())
    }

    fn random_bits(&mut self, pool: &[ValueId], shape: Shape) -> Option<Vec<ValueId>> {
        let scalars: Vec<_> =
            pool.iter().copied().filter(|&v| *self.graph.ty(v) == Type::scalar(DType::U32)).collect();
        if scalars.is_empty() {
            return None;
        }
        let operands = [0; 3].map(|_| self.random.pick(&scalars));
        let site = self.random.below(3) as u32;
        let ones = BinaryFraction::close_to([0.5, 0.25, 0.9, 0.001][self.random.below(4)]);
        let bits = self.try_add(OpKind::RandomBits { shape: shape.clone(), site, ones }, &operands)?;
        if shape.rank() == 0 {
            return Some(bits);
        }
        let iota =
            OpKind::Iota { ty: Type::new(DType::U32, shape.clone()), axis: self.random.below(shape.rank()) };
        let iota = self.try_add(iota, &[])?;
        Some([bits, iota].concat())
    }

    /// Adds a loop or a checkpoint with random ops in its block.
    fn block(&mut self, pool: &[ValueId], x: ValueId) -> Option<Vec<ValueId>> {
        if self.depth == 2 {
            return None;
        }
        let carried: Vec<_> =
            [x].into_iter().chain((0..self.random.below(3)).map(|_| self.random.pick(pool))).collect();
        let trip = self.random.below(4);
        let stacked: Vec<_> =
            pool.iter().copied().filter(|&v| self.graph.ty(v).shape.first() == Some(&trip)).take(2).collect();
        let repeat = self.random.below(2) == 0;
        let operands = if repeat { [&carried[..], &stacked].concat() } else { carried.clone() };
        let types: Vec<_> = operands
            .iter()
            .enumerate()
            .map(|(i, &v)| {
                let ty = self.graph.ty(v);
                if i < carried.len() { ty.clone() } else { row(ty) }
            })
            .collect();
        let block = self.graph.add_block(&types);
        let params = self.graph.blocks[block].params.clone();
        if !repeat {
            // Parameters of a loop do not count as varying, because a later iteration may receive a constant
            // where the first one receives a leaf.
            let varying =
                params.iter().zip(&operands).filter(|(_, v)| self.varying.contains(v)).map(|(p, _)| *p);
            let varying: Vec<_> = varying.collect();
            self.varying.extend(varying);
        }
        let cursor = std::mem::replace(&mut self.graph.cursor, block);
        self.depth += 1;
        let mut inner = params.clone();
        let count = 1 + self.random.below(6);
        self.ops(&mut inner, count);
        // Return one value with the type of each carried value, then any values.
        let mut results: Vec<_> =
            params[..carried.len()].iter().map(|&param| self.like(&inner, param)).collect();
        results.extend((0..self.random.below(3)).map(|_| self.random.pick(&inner)));
        self.depth -= 1;
        self.graph.cursor = cursor;
        let constant: Vec<_> =
            (0..results.len()).filter(|&i| repeat || !self.varying.contains(&results[i])).collect();
        self.graph.blocks[block].results = results;
        let kind = match repeat {
            true => OpKind::Repeat { block, trip, carried: carried.len() },
            false => OpKind::Checkpoint { block },
        };
        let results = self.try_add(kind, &operands)?;
        for i in constant {
            self.varying.remove(&results[i]);
        }
        Some(results)
    }
}

/// Returns the type of one slice of a stacked operand.
fn row(ty: &Type) -> Type {
    Type::new(ty.dtype, &ty.shape[1..])
}
