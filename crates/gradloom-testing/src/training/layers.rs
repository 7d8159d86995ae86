//! Draws small layers of networks, which are the main targets of fusion.

use super::Maker;
use gradloom_core::ir::{
    AttentionSpec, BinaryOp, DType, DotAxes, Literal, Number, OpKind, ReduceOp, ScatterOp, Type, UnaryOp,
    ValueId,
};

impl Maker {
    /// Adds one layer with the input `x`, and returns the values that other ops may use; `None` if it does
    /// not fit.
    pub(super) fn layer(&mut self, x: ValueId) -> Option<Vec<ValueId>> {
        let one = |value: ValueId| vec![value];
        match self.random.below(10) {
            0 => self.softmax(x).map(one),
            1 => self.normalised(x).map(one),
            2 => self.cross_entropy(x).map(one),
            3 | 4 => self.linear(x).map(one),
            5 => self.siblings(x),
            6 => self.attention(x).map(one),
            7 => self.merged_axes(x).map(one),
            8 => self.rows_of_batches(x).map(one),
            _ => self.block(x),
        }
    }

    fn binary_of(&mut self, op: BinaryOp, a: ValueId, b: ValueId, bound: f64) -> Option<ValueId> {
        self.add(OpKind::Binary(op), &[a, b], bound)
    }

    fn times(&mut self, x: ValueId, factor: f64) -> Option<ValueId> {
        let factor_value = self.splat(&self.graph.ty(x).clone(), factor);
        self.binary_of(BinaryOp::Mul, x, factor_value, self.bounds[&x] * factor.abs())
    }

    fn plus(&mut self, x: ValueId, term: f64) -> Option<ValueId> {
        let term_value = self.splat(&self.graph.ty(x).clone(), term);
        self.binary_of(BinaryOp::Add, x, term_value, self.bounds[&x] + term.abs())
    }

    /// Reduces the last axis, and broadcasts the result along it.
    fn along_rows(&mut self, op: ReduceOp, x: ValueId, bound: f64) -> Option<ValueId> {
        let shape = self.shape(x);
        let last = shape.rank().checked_sub(1)?;
        let reduced = self.add(OpKind::Reduce { op, axes: vec![last] }, &[x], bound)?;
        let reduced = if op == ReduceOp::Max {
            self.add(OpKind::Unary(UnaryOp::Detach), &[reduced], bound)?
        } else {
            reduced
        };
        let mut kept = shape.to_vec();
        kept[last] = 1;
        let bound = self.bounds[&reduced];
        let kept = self.add(OpKind::Reshape { shape: kept.into() }, &[reduced], bound)?;
        self.add(OpKind::Broadcast { shape }, &[kept], bound)
    }

    /// Subtracts the largest element of each row. Empty rows are excluded, because their maximum is infinite.
    fn shifted(&mut self, x: ValueId) -> Option<ValueId> {
        let bound = self.bounds[&x];
        if self.shape(x).contains(&0) || 2.0 * bound > super::BOUND {
            return None;
        }
        let largest = self.along_rows(ReduceOp::Max, x, bound)?;
        self.binary_of(BinaryOp::Sub, x, largest, 2.0 * bound)
    }

    fn softmax(&mut self, x: ValueId) -> Option<ValueId> {
        let shifted = self.shifted(x)?;
        let powers = self.add(OpKind::Unary(UnaryOp::Exp), &[shifted], 1.0)?;
        let columns = *self.shape(x).last()? as f64;
        let total = self.along_rows(ReduceOp::Sum, powers, columns)?;
        self.binary_of(BinaryOp::Div, powers, total, 1.0)
    }

    /// Adds a layer normalization or an RMS normalization, usually with gain and bias.
    fn normalised(&mut self, x: ValueId) -> Option<ValueId> {
        let columns = *self.shape(x).last()?;
        let mean = 1.0 / columns.max(1) as f64;
        let bound = self.bounds[&x];
        let centred = if self.random.below(2) == 0 {
            x
        } else {
            let scaled = self.times(x, mean)?;
            let average = self.along_rows(ReduceOp::Sum, scaled, bound)?;
            self.binary_of(BinaryOp::Sub, x, average, (2.0 * bound).min(super::BOUND))?
        };
        let squares = self.binary_of(BinaryOp::Mul, centred, centred, super::BOUND)?;
        let squares = self.times(squares, mean)?;
        let spread = self.along_rows(ReduceOp::Sum, squares, super::BOUND)?;
        let spread = self.add(OpKind::Unary(UnaryOp::Abs), &[spread], super::BOUND - 1.0)?;
        let safe = self.plus(spread, 0.1)?;
        let factor = self.add(OpKind::Unary(UnaryOp::Rsqrt), &[safe], 4.0)?;
        let normal = self.binary_of(BinaryOp::Mul, centred, factor, (columns.max(1) as f64).sqrt())?;
        if self.random.below(3) == 0 {
            return Some(normal);
        }
        let gain = self.parameter(&[columns])?;
        let gained = self.with_row(BinaryOp::Mul, normal, gain)?;
        let bias = self.parameter(&[columns])?;
        self.with_row(BinaryOp::Add, gained, bias)
    }

    /// Adds `x op row`, with the row broadcast.
    fn with_row(&mut self, op: BinaryOp, x: ValueId, row: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        let (a, b) = (self.bounds[&x], self.bounds[&row]);
        let mut kept = vec![1; shape.rank()];
        *kept.last_mut()? = *shape.last()?;
        let row = self.add(OpKind::Reshape { shape: kept.into() }, &[row], b)?;
        let row = self.add(OpKind::Broadcast { shape }, &[row], b)?;
        self.binary_of(op, x, row, if op == BinaryOp::Mul { a * b } else { a + b })
    }

    /// Adds class indices for rows, as a constant or as an input.
    fn classes(&mut self, shape: &[usize], classes: usize) -> Option<ValueId> {
        let ty = Type::new(DType::I32, shape);
        // An input has the values 0 and 1, so it requires two classes.
        if classes > 1 && self.random.below(2) == 0 {
            let name = format!("classes{}", self.graph.ops.len());
            return self.add(OpKind::Input { name, ty }, &[], 0.0);
        }
        let numbers: Vec<_> =
            (0..ty.elements()).map(|_| Number::Int(self.random.below(classes) as i64)).collect();
        self.add(OpKind::Constant { ty, data: Literal::Dense(numbers.into()) }, &[], 0.0)
    }

    /// Adds the cross-entropy of each row.
    fn cross_entropy(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        let shifted = self.shifted(x)?;
        let last = shape.rank() - 1;
        let targets = self.classes(&shape[..last], shape[last])?;
        let powers = self.add(OpKind::Unary(UnaryOp::Exp), &[shifted], 1.0)?;
        let total = OpKind::Reduce { op: ReduceOp::Sum, axes: vec![last] };
        let total = self.add(total, &[powers], shape[last] as f64)?;
        let normaliser = self.add(OpKind::Unary(UnaryOp::Log), &[total], 6.0)?;
        let picked = self.add(OpKind::Gather { batch: last }, &[shifted, targets], self.bounds[&shifted])?;
        self.binary_of(BinaryOp::Sub, normaliser, picked, 6.0 + self.bounds[&picked])
    }

    /// Adds a product with a new parameter, contracting the last axis.
    fn projected(&mut self, x: ValueId, columns: usize) -> Option<ValueId> {
        let shape = self.shape(x);
        let inner = *shape.last()?;
        let transposed = self.random.below(3) == 0;
        let weight = self.parameter(&if transposed { [columns, inner] } else { [inner, columns] })?;
        let axes = DotAxes {
            lhs_contract: vec![shape.rank() - 1],
            rhs_contract: vec![usize::from(transposed)],
            ..DotAxes::default()
        };
        let bound = 2.0 * self.bounds[&x] * inner.max(1) as f64;
        self.add(OpKind::Dot(axes), &[x, weight], bound)
    }

    /// Adds a product, usually with bias, activation, and residual connection.
    fn linear(&mut self, x: ValueId) -> Option<ValueId> {
        let inner = *self.shape(x).last()?;
        let residual = self.random.below(3) == 0;
        let columns = if residual { inner } else { 1 + self.random.below(6) };
        let mut y = self.projected(x, columns)?;
        if self.random.below(4) > 0 {
            let bias = self.parameter(&[columns])?;
            y = self.with_row(BinaryOp::Add, y, bias)?;
        }
        y = self.activated(y)?;
        if residual {
            y = self.binary_of(BinaryOp::Add, y, x, self.bounds[&x] + self.bounds[&y])?;
        }
        Some(y)
    }

    fn activated(&mut self, x: ValueId) -> Option<ValueId> {
        let bound = self.bounds[&x];
        match self.random.below(5) {
            0 => Some(x),
            1 => {
                let zero = self.splat(&self.graph.ty(x).clone(), 0.0);
                self.binary_of(BinaryOp::Max, x, zero, bound)
            }
            2 => {
                let gate = self.add(OpKind::Unary(UnaryOp::Sigmoid), &[x], 1.0)?;
                self.binary_of(BinaryOp::Mul, x, gate, bound)
            }
            3 => {
                let scaled = self.times(x, std::f64::consts::FRAC_1_SQRT_2)?;
                let error = self.add(OpKind::Unary(UnaryOp::Erf), &[scaled], 1.0)?;
                let gate = self.plus(error, 1.0)?;
                let half = self.times(x, 0.5)?;
                self.binary_of(BinaryOp::Mul, half, gate, bound)
            }
            _ => self.add(OpKind::Unary(UnaryOp::Tanh), &[x], 1.0),
        }
    }

    /// Adds several products that share one operand.
    fn siblings(&mut self, x: ValueId) -> Option<Vec<ValueId>> {
        let columns = 1 + self.random.below(4);
        (0..2 + self.random.below(2)).map(|_| self.projected(x, columns)).collect()
    }

    /// Adds self-attention over `[batch, time, width]`.
    fn attention(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        let [time, width] = shape[shape.rank().checked_sub(2)?..] else { return None };
        let batch: usize = shape[..shape.rank() - 2].iter().product();
        let x = self.add(OpKind::Reshape { shape: [batch, time, width].into() }, &[x], self.bounds[&x])?;
        let (heads, depth) = (1 + self.random.below(2), 1 + self.random.below(3));
        let key_heads = self.random.pick(&[1, heads]);
        let mut part = |heads: usize| {
            let y = self.projected(x, heads * depth)?;
            let bound = self.bounds[&y];
            let split = OpKind::Reshape { shape: [batch, time, heads, depth].into() };
            let y = self.add(split, &[y], bound)?;
            self.add(OpKind::Permute { perm: vec![0, 2, 1, 3] }, &[y], bound)
        };
        let mut operands = vec![part(heads)?, part(key_heads)?, part(key_heads)?];
        let bound = self.bounds[&operands[2]];
        let spec = AttentionSpec {
            causal: self.random.below(2) == 0,
            window: [None, Some(1), Some(2)][self.random.below(3)],
            scale: 0.25,
            query_offset: self.random.below(3) == 0,
            key_length: self.random.below(3) == 0,
            block_table: false,
            dropout: None,
        };
        if spec.query_offset {
            operands.push(self.index(3));
        }
        if spec.key_length {
            operands.push(self.index(time + 1));
        }
        let mixed = self.add(OpKind::Attention(spec), &operands, bound)?;
        let mixed = self.add(OpKind::Permute { perm: vec![0, 2, 1, 3] }, &[mixed], bound)?;
        self.add(OpKind::Reshape { shape: [batch, time, heads * depth].into() }, &[mixed], bound)
    }

    /// Permutes axes and merges two of them, with elementwise ops before and after.
    fn merged_axes(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        if shape.rank() < 2 {
            return None;
        }
        let perm = self.random.order(shape.rank());
        let mut merged: Vec<usize> = perm.iter().map(|&axis| shape[axis]).collect();
        let at = self.random.below(merged.len() - 1);
        let second = merged.remove(at + 1);
        merged[at] *= second;
        let y = self.add(OpKind::Unary(UnaryOp::Sin), &[x], 1.0)?;
        let y = self.add(OpKind::Permute { perm }, &[y], 1.0)?;
        let y = self.add(OpKind::Reshape { shape: merged.into() }, &[y], 1.0)?;
        self.binary_of(BinaryOp::Mul, y, y, 1.0)
    }

    /// Gathers rows of the tables of a batch, changes them, and adds them back with a scatter.
    fn rows_of_batches(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        let (batch, rows) = (*shape.first()?, *shape.get(1)?);
        let count = if rows == 0 { 0 } else { self.random.below(4) };
        let index = self.classes(&[batch, count], rows.max(1))?;
        let bound = self.bounds[&x];
        let found = self.add(OpKind::Gather { batch: 1 }, &[x, index], bound)?;
        let changed = self.add(OpKind::Unary(UnaryOp::Cos), &[found], 1.0)?;
        self.add(OpKind::Scatter { op: ScatterOp::Add, batch: 1 }, &[x, index, changed], bound + count as f64)
    }

    /// Adds a checkpoint, or a loop that stacks a slice per iteration.
    fn block(&mut self, x: ValueId) -> Option<Vec<ValueId>> {
        let ty = self.graph.ty(x).clone();
        let bound = self.bounds[&x];
        let block = self.graph.add_block(std::slice::from_ref(&ty));
        let carried = self.graph.blocks[block].params[0];
        self.bounds.insert(carried, bound);
        let cursor = std::mem::replace(&mut self.graph.cursor, block);
        let inner = self.unary(carried).and_then(|y| {
            let next = self.add(OpKind::Binary(BinaryOp::Mul), &[carried, y], 0.0)?;
            let next = self.add(OpKind::Unary(UnaryOp::Sin), &[next], 1.0)?;
            Some([next, y])
        });
        self.graph.cursor = cursor;
        let results = inner?;
        self.graph.blocks[block].results = results.to_vec();
        let kind = match self.random.below(2) {
            0 => OpKind::Checkpoint { block },
            _ => OpKind::Repeat { block, trip: self.random.below(4), carried: 1 },
        };
        // The bound of the result is at least that of the input, which a loop with no iterations returns.
        let first = self.add(kind, &[x], bound.max(1.0))?;
        let all = self.graph.defining_op(first)?.results.clone();
        self.bounds.insert(all[1], bound.max(3.0));
        Some(all)
    }
}
