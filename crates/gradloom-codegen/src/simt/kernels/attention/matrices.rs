//! Attention and its gradient by matrix instructions: operands are rounded to 16 bits or TF32, sums are f32.
//!
//! A workgroup iterates over blocks of the other operand for a block of rows, in which each subgroup has a
//! strip of 16. Portable matrix instructions do not specify which invocation holds which element, so scores
//! pass through shared memory to become weights. The forward kernel then iterates over the keys twice: matrix
//! sums cannot be rescaled when the maximum score increases, so the first pass computes the log-sum-exp. If
//! the device specifies the layout of fragments, scores stay in registers, and the forward kernel rescales in
//! a single pass: see `fragments.rs`.

use super::super::super::ir::ValueType;
use super::super::{Builder, Value};
use super::block::Window;
use super::bounds::{Bounds, KeyRange, QueryRange};
use super::rows::Rows;
use super::{Attention, Head, LOWEST};
use crate::narrow::narrow;
use crate::simt::{MatrixUse, Variable};
use gradloom_core::ir::{DType, ReduceOp, UnaryOp};
use gradloom_core::kernel::{AttentionMatrices, MATRIX};
use std::cell::RefCell;
use std::f32::consts::LOG2_E;

/// Number of rows of a matrix.
pub(super) const SIDE: u32 = 16;
const _: () = assert!(SIDE as usize == MATRIX);
/// Number of vectors of four elements in a row of a matrix.
const FOURS: u32 = SIDE / 4;
/// Number of vectors that an invocation loads before it stores them.
const AHEAD: usize = 8;

/// Shared memory for a block of an operand's rows, as floats of the type of matrix operands, padded with rows
/// of zeros.
pub(super) struct HalfBlock<'k> {
    k: &'k Builder,
    array: u32,
    width: usize,
    half: DType,
}

/// Position of an invocation in a block.
pub(super) struct Place<'k> {
    /// Number of invocations of the workgroup.
    pub(super) threads: usize,
    /// Number of invocations of a subgroup.
    size: u32,
    subgroup: Value<'k>,
    /// First row of the subgroup's strip in the block.
    strip: Value<'k>,
    pub(super) lane: Value<'k>,
    /// Rows of the block of which the invocation holds elements.
    pub(super) rows: [Value<'k>; 2],
    /// Column of the first of the invocation's four elements in each row of a matrix.
    pub(super) column: Value<'k>,
    /// Columns of the invocation's four elements, relative to `column`.
    pub(super) columns: [u32; 4],
}

/// Matrices of scores of the strips, and of the weights computed from them.
pub(super) struct Scores<'k> {
    k: &'k Builder,
    held: Held<'k>,
    half: DType,
    /// Number of matrices per subgroup.
    count: u32,
}

/// Storage of scores.
enum Held<'k> {
    /// Shared memory: an array of f32 for scores, and one of 16-bit floats for weights.
    Arrays(u32, u32),
    /// Registers: for each matrix, the sum returned by matrix instructions, and the weights of the
    /// invocation's two rows.
    Registers(RefCell<Vec<Option<Value<'k>>>>, RefCell<Vec<[Option<[Value<'k>; 4]>; 2]>>),
}

/// Block to fill with rows, the operand to load, and a function that returns the index of a row's first
/// element.
pub(super) type Filled<'a, 'k, 'b> = (&'a HalfBlock<'k>, Rows<'k, 'b>, &'a dyn Fn(Value<'k>) -> Value<'k>);

impl<'k> HalfBlock<'k> {
    pub(super) fn new(k: &'k Builder, width: usize, half: DType) -> Self {
        let items = AttentionMatrices::ROWS * AttentionMatrices::pitch(width);
        Self { k, array: k.shared(ValueType::four(half), narrow(items)), width, half }
    }

    fn pitch(&self) -> u32 {
        narrow(AttentionMatrices::pitch(self.width))
    }

    /// Returns the number of matrices along a row.
    fn steps(&self) -> u32 {
        narrow(self.width) / SIDE
    }

    fn matrix(&self, which: MatrixUse, row: Value<'k>, step: u32, by_rows: bool) -> Value<'k> {
        self.k.matrix(which, self.array, row * self.pitch() + FOURS * step, (self.pitch(), by_rows))
    }

    /// Loads the 16 x 16 matrix at row `row` and column `16 * step` as a left operand.
    pub(super) fn left(&self, row: Value<'k>, step: u32) -> Value<'k> {
        self.matrix(MatrixUse::Left, row, step, true)
    }

    /// Loads the matrix at row `row` and column `16 * step`, transposed, as a right operand.
    pub(super) fn turned(&self, row: Value<'k>, step: u32) -> Value<'k> {
        self.matrix(MatrixUse::Right, row, step, false)
    }

    /// Loads the matrix at row `row` and column `16 * step` as a right operand.
    pub(super) fn right(&self, row: Value<'k>, step: u32) -> Value<'k> {
        self.matrix(MatrixUse::Right, row, step, true)
    }

    /// Loads rows; `start` returns the index of a row's first element.
    pub(super) fn fill(
        &self,
        threads: usize,
        operand: Rows<'k, '_>,
        window: &Window<'k>,
        start: &dyn Fn(Value<'k>) -> Value<'k>,
    ) {
        let k = self.k;
        let (vectors, total) = (narrow(self.width / 4), AttentionMatrices::ROWS * self.width / 4);
        let last = k.u32(narrow(window.count) - 1);
        let zero = k.f32(0.0).splat().to_half(self.half);
        let turns: Vec<usize> = (0..total / threads).collect();
        for turns in turns.chunks(AHEAD) {
            let load = |&turn: &usize| {
                let at = k.local() + narrow(turn * threads);
                let row = window.first + at / vectors;
                let value = operand.halves(start(row.min(last)), at % vectors * 4, self.half);
                (at / vectors * self.pitch() + at % vectors, row.less(window.end).select(value, zero))
            };
            let loaded: Vec<_> = turns.iter().map(load).collect();
            for (place, value) in loaded {
                k.set_element(self.array, place, value);
            }
        }
    }
}

impl<'k> Place<'k> {
    /// Creates the position of an invocation among `threads` in subgroups of `size`.
    pub(super) fn new(k: &'k Builder, [threads, size]: [usize; 2], fragments: bool) -> Self {
        let size = narrow(size);
        k.uses_subgroups(size);
        let (subgroup, lane) = (k.local() / size, k.local() % size);
        let strip = subgroup * SIDE;
        let row = strip + lane / FOURS;
        let (width, columns) = if fragments { (2, [0, 1, 8, 9]) } else { (4, [0, 1, 2, 3]) };
        let (rows, column) = ([row, row + SIDE / 2], lane % FOURS * width);
        Self { threads, size, subgroup, strip, lane, rows, column, columns }
    }

    /// Returns `value` in the lane whose number differs in exactly the bits that are set in `bits`.
    pub(super) fn other(&self, value: Value<'k>, bits: u32) -> Value<'k> {
        value.shuffle_xor(bits, self.size)
    }

    /// Combines partial results of one of the invocation's rows with those of the other lanes that hold
    /// elements of the row.
    pub(super) fn across(&self, op: ReduceOp, share: Value<'k>) -> Value<'k> {
        share.across_subgroup(op, FOURS as usize, self.size)
    }
}

impl<'k> Scores<'k> {
    /// Creates matrices of `kinds` kinds of scores for each strip and each column of matrices in a phase.
    pub(super) fn new(
        k: &'k Builder,
        choice: AttentionMatrices,
        half: DType,
        kinds: usize,
        fragments: bool,
    ) -> Self {
        let count = narrow(kinds * choice.columns / MATRIX);
        let all = count * narrow(AttentionMatrices::STRIPS);
        let held = match fragments {
            true => {
                let count = count as usize;
                Held::Registers(RefCell::new(vec![None; count]), RefCell::new(vec![[None; 2]; count]))
            }
            false => {
                let sums = k.shared(DType::F32, all * SIDE * SIDE);
                Held::Arrays(sums, k.shared(ValueType::four(half), all * SIDE * FOURS))
            }
        };
        Self { k, held, half, count }
    }

    /// Appends a barrier if scores are exchanged through shared memory.
    pub(super) fn meet(&self) {
        if let Held::Arrays(..) = self.held {
            self.k.barrier();
        }
    }

    fn first(&self, place: &Place<'k>, matrix: u32) -> Value<'k> {
        (place.subgroup * self.count + matrix) * SIDE
    }

    pub(super) fn put(&self, place: &Place<'k>, matrix: u32, value: Value<'k>) {
        match &self.held {
            Held::Arrays(sums, _) => {
                self.k.store_matrix(*sums, self.first(place, matrix) * SIDE, SIDE, value);
            }
            Held::Registers(sums, _) => sums.borrow_mut()[matrix as usize] = Some(value),
        }
    }

    /// Returns the invocation's four elements of its first or second row.
    pub(super) fn four(&self, place: &Place<'k>, matrix: u32, which: u32) -> [Value<'k>; 4] {
        match &self.held {
            Held::Arrays(sums, _) => {
                let row = self.first(place, matrix) + place.lane / FOURS + which * (SIDE / 2);
                [0, 1, 2, 3].map(|i| self.k.element(*sums, row * SIDE + place.column + i))
            }
            Held::Registers(sums, _) => {
                elements_of(sums.borrow()[matrix as usize].expect("it was put there"), which)
            }
        }
    }

    /// Stores four weights computed from the scores of a row.
    pub(super) fn set(&self, place: &Place<'k>, matrix: u32, which: u32, four: [Value<'k>; 4]) {
        match &self.held {
            Held::Arrays(_, halves) => {
                let row = self.first(place, matrix) + place.lane / FOURS + which * (SIDE / 2);
                let value = self.k.vector(&four).to_half(self.half);
                self.k.set_element(*halves, row * FOURS + place.lane % FOURS, value);
            }
            Held::Registers(_, made) => made.borrow_mut()[matrix as usize][which as usize] = Some(four),
        }
    }

    /// Returns a matrix of weights as a left operand.
    pub(super) fn left(&self, place: &Place<'k>, matrix: u32) -> Value<'k> {
        match &self.held {
            Held::Arrays(_, halves) => {
                let first = self.first(place, matrix) * FOURS;
                self.k.matrix(MatrixUse::Left, *halves, first, (FOURS, true))
            }
            Held::Registers(_, made) => {
                let both = made.borrow()[matrix as usize].map(|four| four.expect("it was set"));
                sum_of_elements(self.k, both).to_left(self.half)
            }
        }
    }
}

/// Returns the invocation's four elements of the upper (0) or lower (1) row of a matrix sum.
pub(super) fn elements_of<'k>(sum: Value<'k>, which: u32) -> [Value<'k>; 4] {
    let [left, right] = [0, 1].map(|half| sum.matrix_half(half));
    let first = 2 * which;
    [left.component(first), left.component(first + 1), right.component(first), right.component(first + 1)]
}

/// Returns a matrix sum, given the invocation's four elements of both rows.
pub(super) fn sum_of_elements<'k>(k: &'k Builder, [upper, lower]: [[Value<'k>; 4]; 2]) -> Value<'k> {
    let half = |i: usize| k.vector(&[upper[i], upper[i + 1], lower[i], lower[i + 1]]);
    half(0).matrix_from(half(2))
}

/// Returns the product of a strip and 16 transposed rows of a block.
pub(super) fn product<'k>(lefts: &[Value<'k>], block: &HalfBlock<'k>, row: Value<'k>) -> Value<'k> {
    let steps = lefts.iter().zip(0..);
    steps.fold(block.k.matrix_zero(), |sum, (left, step)| left.matrix_mul_add(block.turned(row, step), sum))
}

/// Adds the product of weights and 16 rows of a block to matrix sums.
pub(super) fn add<'k>(sums: &[Variable<'k>], weights: Value<'k>, block: &HalfBlock<'k>, row: Value<'k>) {
    for (sum, step) in sums.iter().zip(0..) {
        sum.set(weights.matrix_mul_add(block.right(row, step), sum.get()));
    }
}

/// Constants for computing weights and gradients of scores ("slopes"). The weight of a score s is exp(scale *
/// s - log-sum-exp). Its slope is scale * weight * (s' - mean), where s' is the dot product of the cotangent
/// and the value.
struct SlopesOf<'k> {
    k: &'k Builder,
    /// Scale of the scores.
    scale: f32,
    /// Scale of the exponents, if weights are computed as powers of two.
    exponent: Option<f32>,
}

impl<'k> SlopesOf<'k> {
    fn new(attention: &Attention<'k, '_>) -> Self {
        let exponent = attention.schedule.fragments.then(|| attention.scale_of_exponents());
        Self { k: attention.k, scale: attention.factor(), exponent }
    }

    /// Returns a weight and its slope.
    fn both(&self, [product, slope]: [Value<'k>; 2], [log_sum, mean]: [Value<'k>; 2]) -> [Value<'k>; 2] {
        let k = self.k;
        match self.exponent {
            Some(exponent) => {
                let [exponent, scale, off] = [exponent, self.scale, -LOG2_E].map(|factor| k.f32(factor));
                let weight = product.mul_add(exponent, log_sum * off).native_exp2();
                [weight, weight * slope.mul_add(scale, mean * k.f32(-self.scale))]
            }
            None => {
                let scale = k.f32(self.scale);
                let weight = (product * scale - log_sum).unary(UnaryOp::Exp);
                [weight, weight * (slope - mean) * scale]
            }
        }
    }
}

/// Block of rows of a workgroup.
pub(super) struct Own<'k> {
    pub(super) of: Head<'k>,
    pub(super) first: Value<'k>,
    /// Number of rows of the block.
    pub(super) rows: u32,
    pub(super) bounds: Bounds<'k>,
}

/// Keys visible to a workgroup's queries.
#[derive(Clone, Copy)]
pub(super) struct Keys<'k> {
    /// Keys visible to each of the invocation's queries; none for a query that does not exist.
    pub(super) ranges: [KeyRange<'k>; 2],
    /// First key visible to any query of the workgroup.
    pub(super) begin: Value<'k>,
    /// End of the keys visible to any query of the workgroup.
    pub(super) end: Value<'k>,
}

/// Queries to which a workgroup's keys are visible.
pub(super) struct QueriesOfKeys<'k> {
    /// Queries to which each of the invocation's keys is visible.
    pub(super) ranges: [QueryRange<'k>; 2],
    /// Start of the blocks of queries to which a key of the workgroup is visible.
    pub(super) begin: Value<'k>,
    /// End of the queries to which a key of the workgroup is visible; `None` if it is the number of queries.
    pub(super) end: Option<Value<'k>>,
}

/// Initial state of the forward kernel.
pub(super) struct Forward<'k> {
    pub(super) place: Place<'k>,
    pub(super) own: Own<'k>,
    /// Sequence and key head.
    pub(super) of: Head<'k>,
    pub(super) visible: Keys<'k>,
    /// Blocks of keys and of values.
    pub(super) blocks: [HalfBlock<'k>; 2],
    pub(super) scores: Scores<'k>,
    /// Queries of the strip, as left operands.
    pub(super) lefts: Vec<Value<'k>>,
}

impl<'k> Attention<'k, '_> {
    pub(super) fn matrix_sums(&self, width: usize) -> Vec<Variable<'k>> {
        (0..width / MATRIX).map(|_| self.k.var(self.k.matrix_zero())).collect()
    }

    /// Returns the strip's rows of a loaded block, as left operands.
    pub(super) fn lefts(&self, place: &Place<'k>, block: &HalfBlock<'k>) -> Vec<Value<'k>> {
        (0..block.steps()).map(|step| block.left(place.strip, step)).collect()
    }

    /// Appends `body` for each phase of a block, given the phase's first row.
    fn each_phase(&self, choice: AttentionMatrices, body: impl FnOnce(Value<'k>)) {
        let k = self.k;
        k.count(k.u32(0), k.u32(narrow(AttentionMatrices::ROWS)), k.u32(narrow(choice.columns)), body);
    }

    /// Fills blocks, and appends a barrier, which all invocations must reach.
    pub(super) fn fill_blocks(&self, threads: usize, window: &Window<'k>, all: &[Filled<'_, 'k, '_>]) {
        for (block, operand, start) in all {
            block.fill(threads, *operand, window, start);
        }
        self.k.barrier();
    }

    /// Writes a strip's sums to the rows of a result, up to row `end`.
    pub(super) fn store_sums(
        &self,
        place: &Place<'k>,
        scores: &Scores<'k>,
        sums: &[Variable<'k>],
        (result, own, end): (Rows<'k, '_>, &Own<'k>, usize),
    ) {
        let k = self.k;
        for (sum, column) in sums.iter().zip((0..).step_by(MATRIX)) {
            scores.meet();
            scores.put(place, 0, sum.get());
            scores.meet();
            for (row, which) in place.rows.into_iter().zip(0..) {
                let row = own.first + row;
                k.guard([Some(row.below(narrow(end))), self.views.gate(k)], || {
                    let start = result.start(own.of, row);
                    for (value, i) in scores.four(place, 0, which).into_iter().zip(place.columns) {
                        result.store(start, place.column + (column + i), value);
                    }
                });
            }
        }
    }

    /// Returns the workgroup's block of `rows` queries. The last queries, which see the most keys, are
    /// processed first.
    pub(super) fn own_queries(&self, rows: usize) -> Own<'k> {
        let (k, problem) = (self.k, self.problem);
        let [pairs, heads] = [problem.pairs(), problem.heads].map(narrow);
        let blocks = narrow(problem.queries.div_ceil(rows));
        let number = k.u32(blocks - 1) - k.group() / pairs;
        let of = [k.group() % pairs / heads, k.group() % pairs % heads];
        let first = number * narrow(rows);
        Own { of, first, rows: narrow(rows), bounds: self.shared_bounds(of[0]) }
    }

    /// Returns the workgroup's block of `rows` keys. The first keys, which the most queries see, are
    /// processed first.
    pub(super) fn own_keys(&self, rows: usize) -> Own<'k> {
        let (k, problem) = (self.k, self.problem);
        let key_heads = narrow(problem.key_heads);
        let pairs = narrow(problem.batch) * key_heads;
        let first = k.group() / pairs * narrow(rows);
        let of = [k.group() % pairs / key_heads, k.group() % pairs % key_heads];
        Own { of, first, rows: narrow(rows), bounds: self.shared_bounds(of[0]) }
    }

    /// Returns the keys visible to the workgroup's queries.
    pub(super) fn keys_of(&self, place: &Place<'k>, own: &Own<'k>) -> Keys<'k> {
        let (k, queries) = (self.k, narrow(self.problem.queries));
        let ranges = place.rows.map(|row| {
            let query = own.first + row;
            own.bounds.keys(query).given(query.below(queries))
        });
        let last = (own.first + (own.rows - 1)).min(k.u32(queries - 1));
        let begin = own.bounds.begin_of_keys(own.first);
        Keys { ranges, begin, end: own.bounds.end_of_keys(last) }
    }

    /// Returns the queries to which the workgroup's keys are visible, in blocks of `block` queries.
    pub(super) fn queries_of(&self, place: &Place<'k>, own: &Own<'k>, block: u32) -> QueriesOfKeys<'k> {
        let ranges = place.rows.map(|row| own.bounds.queries(own.first + row));
        let begin = self.start_of_queries(&own.bounds, own.first, block);
        QueriesOfKeys { ranges, begin, end: own.bounds.query_end(own.first + (own.rows - 1)) }
    }

    /// Loads the workgroup's queries, and returns the initial state of the forward kernel.
    pub(super) fn forward(&self, choice: AttentionMatrices, fragments: bool) -> Forward<'k> {
        let (k, problem) = (self.k, self.problem);
        let place = Place::new(k, [choice.threads(), choice.subgroup], fragments);
        let own = self.own_queries(AttentionMatrices::ROWS);
        let of = [own.of[0], self.key_head(own.of[1])];
        let [q, ..] = self.queries_keys_values();
        let visible = self.keys_of(&place, &own);
        self.check_table_of(&own, place.threads);
        let blocks = [problem.depth, problem.value_depth].map(|width| HalfBlock::new(k, width, self.half));
        let scores = Scores::new(k, choice, self.half, 1, fragments);
        let queries_end = k.u32(narrow(problem.queries));
        let window = Window { first: own.first, end: queries_end, count: problem.queries };
        self.fill_blocks(place.threads, &window, &[(&blocks[0], q, &|row| q.start(own.of, row))]);
        let lefts = self.lefts(&place, &blocks[0]);
        k.barrier();
        Forward { place, own, of, visible, blocks, scores, lefts }
    }

    /// Appends the computation of the output and the log-sum-exp.
    pub(super) fn forward_by_matrices(&self, choice: AttentionMatrices) {
        // `forward_by_fragments` computes maxima before scaling, which requires a positive scale.
        if self.schedule.fragments && self.problem.spec.scale > 0.0 {
            return self.forward_by_fragments(choice);
        }
        let (k, problem) = (self.k, self.problem);
        let Forward { place, own, of, visible, blocks, scores, lefts } = self.forward(choice, false);
        let [_, all_keys, all_values] = self.queries_keys_values();
        let [keys, values] = &blocks;
        let scale = self.scale();
        let matrices = narrow(choice.columns) / SIDE;
        // Computes the scores of a phase, and calls `each` for every four scores of the invocation.
        let phase =
            |start: Value<'k>, column: Value<'k>, each: &dyn Fn(u32, u32, [Value<'k>; 4], [Value<'k>; 4])| {
                for j in 0..matrices {
                    scores.put(&place, j, product(&lefts, keys, column + j * SIDE));
                }
                k.barrier();
                for j in 0..matrices {
                    for which in 0..2 {
                        let first = start + column + place.column + j * SIDE;
                        let seen = [0, 1, 2, 3].map(|i| visible.ranges[which as usize].contains(first + i));
                        let four = scores.four(&place, j, which).map(|score| score * scale);
                        each(j, which, four, seen);
                    }
                }
                k.barrier();
            };
        let key_row = |key: Value<'k>| self.key_row(1, of, key);
        let value_row = |key: Value<'k>| self.key_row(2, of, key);
        let blocks_of_keys = |body: &dyn Fn(Value<'k>, Window<'k>)| {
            let Keys { begin, end, .. } = visible;
            k.count(begin, end, k.u32(narrow(AttentionMatrices::ROWS)), |start| {
                body(start, Window { first: start, end, count: problem.keys });
                k.barrier();
            });
        };
        let maxima = [0; 2].map(|_| k.var(k.f32(LOWEST)));
        let totals = [0; 2].map(|_| k.var(k.f32(0.0)));
        blocks_of_keys(&|start, window| {
            self.fill_blocks(place.threads, &window, &[(keys, all_keys, &key_row)]);
            self.each_phase(choice, |column| {
                phase(start, column, &|_, which, four, seen| {
                    let (maximum, total) = (maxima[which as usize], totals[which as usize]);
                    let shown = [0, 1, 2, 3].map(|i| seen[i].select(four[i], k.f32(LOWEST)));
                    let before = maximum.get();
                    let most = shown.into_iter().fold(before, |most, score| most.native_max(score));
                    let weights = shown
                        .into_iter()
                        .zip(seen)
                        .map(|(score, seen)| seen.select((score - most).unary(UnaryOp::Exp), k.f32(0.0)));
                    let kept = total.get() * (before - most).unary(UnaryOp::Exp);
                    total.set(weights.fold(kept, |sum, weight| sum + weight));
                    maximum.set(most);
                });
            });
        });
        let log_sum = self.result(1);
        let log_sums = [0, 1].map(|which| {
            let own_most = maxima[which].get();
            let most = place.across(ReduceOp::Max, own_most);
            let share = totals[which].get() * (own_most - most).unary(UnaryOp::Exp);
            let total = place.across(ReduceOp::Sum, share);
            let sees = visible.ranges[which].is_any();
            let value = sees
                .select(most + total.max(k.f32(f32::MIN_POSITIVE)).native_log(), k.f32(f32::NEG_INFINITY));
            let row = own.first + place.rows[which];
            let is_first = (place.lane % FOURS).equals(k.u32(0));
            k.guard([Some(is_first), Some(row.below(narrow(problem.queries))), self.views.gate(k)], || {
                log_sum.store_number(log_sum.start(own.of, row), value);
            });
            value
        });
        let sums = self.matrix_sums(problem.value_depth);
        blocks_of_keys(&|start, window| {
            let filled: [Filled<'_, 'k, '_>; 2] =
                [(keys, all_keys, &key_row), (values, all_values, &value_row)];
            self.fill_blocks(place.threads, &window, &filled);
            self.each_phase(choice, |column| {
                phase(start, column, &|j, which, four, seen| {
                    let log_sum = log_sums[which as usize];
                    let weight =
                        |i: usize| seen[i].select((four[i] - log_sum).unary(UnaryOp::Exp), k.f32(0.0));
                    let keys = (start + column + place.column + j * SIDE, place.columns);
                    let query = own.first + place.rows[which as usize];
                    let shares = self.shares(own.of, query, keys, [0, 1, 2, 3].map(weight));
                    scores.set(&place, j, which, shares);
                });
                for j in 0..matrices {
                    add(&sums, scores.left(&place, j), values, column + j * SIDE);
                }
            });
        });
        self.store_sums(&place, &scores, &sums, (self.result(0), &own, problem.queries));
    }

    /// Appends a check that fails the step if a block table refers to blocks that do not exist. The first
    /// workgroup of each sequence's first head checks the table.
    pub(super) fn check_table_of(&self, own: &Own<'k>, threads: usize) {
        let k = self.k;
        let is_first = own.of[1].equals(k.u32(0)) & own.first.equals(k.u32(0));
        self.check_table(&own.bounds, own.of[0], is_first, [k.local(), k.u32(narrow(threads))]);
    }

    /// Appends the computation of dq and, for the kernel of the keys, of each query's mean.
    pub(super) fn query_gradient_by_matrices(&self, choice: AttentionMatrices) {
        let (k, problem) = (self.k, self.problem);
        let fragments = self.schedule.fragments;
        let place = Place::new(k, [choice.threads(), choice.subgroup], fragments);
        let own = self.own_queries(AttentionMatrices::ROWS);
        let of = [own.of[0], self.key_head(own.of[1])];
        let [q, all_keys, all_values] = self.queries_keys_values();
        let [_, log_sum, cotangent] = self.output_and_cotangent();
        let Keys { ranges, begin, end } = self.keys_of(&place, &own);
        let blocks = [problem.depth, problem.value_depth].map(|width| HalfBlock::new(k, width, self.half));
        let [keys, values] = &blocks;
        let scores = Scores::new(k, choice, self.half, 2, fragments);
        let queries_end = k.u32(narrow(problem.queries));
        let window = Window { first: own.first, end: queries_end, count: problem.queries };
        let filled: [Filled<'_, 'k, '_>; 2] = [
            (keys, q, &|row| q.start(own.of, row)),
            (values, cotangent, &|row| cotangent.start(own.of, row)),
        ];
        self.fill_blocks(place.threads, &window, &filled);
        let [queries, slopes] = [keys, values].map(|block| self.lefts(&place, block));
        k.barrier();
        let there = place.rows.map(|row| (own.first + row).min(k.u32(narrow(problem.queries) - 1)));
        let log_sums = there.map(|query| log_sum.number(log_sum.start(own.of, query)));
        let means = self.means_by_matrices(&place, &own, there);
        let sums = self.matrix_sums(problem.depth);
        let slopes_of = SlopesOf::new(self);
        let matrices = narrow(choice.columns) / SIDE;
        k.count(begin, end, k.u32(narrow(AttentionMatrices::ROWS)), |start| {
            let window = Window { first: start, end, count: problem.keys };
            let filled: [Filled<'_, 'k, '_>; 2] = [
                (keys, all_keys, &|key| self.key_row(1, of, key)),
                (values, all_values, &|key| self.key_row(2, of, key)),
            ];
            self.fill_blocks(place.threads, &window, &filled);
            self.each_phase(choice, |column| {
                for j in 0..matrices {
                    scores.put(&place, j, product(&queries, keys, column + j * SIDE));
                    scores.put(&place, matrices + j, product(&slopes, values, column + j * SIDE));
                }
                scores.meet();
                for j in 0..matrices {
                    for which in 0..2 {
                        let at = which as usize;
                        let first = start + column + place.column + j * SIDE;
                        let [products, slopes] =
                            [j, matrices + j].map(|matrix| scores.four(&place, matrix, which));
                        let slopes = self.shares(own.of, there[at], (first, place.columns), slopes);
                        let slope = |i: usize| {
                            let [_, slope] =
                                slopes_of.both([products[i], slopes[i]], [log_sums[at], means[at]]);
                            ranges[at].contains(first + place.columns[i]).select(slope, k.f32(0.0))
                        };
                        scores.set(&place, j, which, [0, 1, 2, 3].map(slope));
                    }
                }
                scores.meet();
                for j in 0..matrices {
                    add(&sums, scores.left(&place, j), keys, column + j * SIDE);
                }
            });
            k.barrier();
        });
        self.store_sums(&place, &scores, &sums, (self.result(0), &own, problem.queries));
    }

    /// Returns the dot products of the outputs of the invocation's rows and their cotangents, and stores them
    /// in the scratch memory if no earlier kernel has.
    pub(super) fn means_by_matrices(
        &self,
        place: &Place<'k>,
        own: &Own<'k>,
        there: [Value<'k>; 2],
    ) -> [Value<'k>; 2] {
        if let Some(known) = self.known_means(own.of, &there) {
            return [known[0], known[1]];
        }
        let k = self.k;
        let [output, _, cotangent] = self.output_and_cotangent();
        let scratch = self.means();
        [0, 1].map(|which| {
            let starts = [output, cotangent].map(|rows| rows.start(own.of, there[which]));
            let share = k.var(k.f32(0.0));
            k.count(place.lane % FOURS, k.u32(narrow(output.width())), k.u32(FOURS), |d| {
                share.set(output.load(starts[0], d).mul_add(cotangent.load(starts[1], d), share.get()));
            });
            let mean = place.across(ReduceOp::Sum, share.get());
            let row = own.first + place.rows[which];
            let is_first = (place.lane % FOURS).equals(k.u32(0));
            k.when(is_first & row.below(narrow(self.problem.queries)), || {
                k.store(scratch, self.query_number(own.of, row), mean);
            });
            mean
        })
    }

    /// Appends the computation of dk and dv.
    pub(super) fn key_gradient_by_matrices(&self, choice: AttentionMatrices) {
        let (k, problem) = (self.k, self.problem);
        let fragments = self.schedule.fragments;
        let place = Place::new(k, [choice.threads(), choice.subgroup], fragments);
        let own = self.own_keys(AttentionMatrices::ROWS);
        let (of, first) = (own.of, own.first);
        let [q, all_keys, all_values] = self.queries_keys_values();
        let [_, log_sum, cotangent] = self.output_and_cotangent();
        let blocks = [problem.depth, problem.value_depth].map(|width| HalfBlock::new(k, width, self.half));
        let [queries, slopes] = &blocks;
        let scores = Scores::new(k, choice, self.half, 2, fragments);
        let window = Window { first, end: k.u32(narrow(problem.keys)), count: problem.keys };
        let filled: [Filled<'_, 'k, '_>; 2] = [
            (queries, all_keys, &|key| all_keys.start(of, key)),
            (slopes, all_values, &|key| all_values.start(of, key)),
        ];
        self.fill_blocks(place.threads, &window, &filled);
        let [keys, values] = [queries, slopes].map(|block| self.lefts(&place, block));
        k.barrier();
        let [key_sums, value_sums] =
            [problem.depth, problem.value_depth].map(|width| self.matrix_sums(width));
        let (count, slopes_of) = (narrow(problem.queries), SlopesOf::new(self));
        let matrices = narrow(choice.columns) / SIDE;
        let rows = narrow(AttentionMatrices::ROWS);
        let QueriesOfKeys { ranges, begin, end } = self.queries_of(&place, &own, rows);
        let end = end.unwrap_or(k.u32(count));
        let whole = count.is_multiple_of(rows) && !problem.has_unused_rows();
        let sharing = narrow(problem.sharing());
        k.count(of[1] * sharing, (of[1] + 1) * sharing, k.u32(1), |head| {
            let of = [of[0], head];
            k.count(begin, end, k.u32(rows), |start| {
                let window = Window { first: start, end, count: problem.queries };
                let filled: [Filled<'_, 'k, '_>; 2] = [
                    (queries, q, &|row| q.start(of, row)),
                    (slopes, cotangent, &|row| cotangent.start(of, row)),
                ];
                self.fill_blocks(place.threads, &window, &filled);
                self.each_phase(choice, |column| {
                    for j in 0..matrices {
                        scores.put(&place, j, product(&keys, queries, column + j * SIDE));
                        scores.put(&place, matrices + j, product(&values, slopes, column + j * SIDE));
                    }
                    let first = start + column + place.column;
                    let known = |i: u32| {
                        let query = (first + i).min(k.u32(count - 1));
                        let mean = k.load(self.means(), self.query_number(of, query));
                        [log_sum.number(log_sum.start(of, query)), mean]
                    };
                    let known: Vec<[[Value<'k>; 2]; 4]> =
                        (0..matrices).map(|j| place.columns.map(|i| known(j * SIDE + i))).collect();
                    let kept = self.kept_of_keys(of, (&place, &own), (start + column, matrices));
                    scores.meet();
                    for j in 0..matrices {
                        for which in 0..2 {
                            let [products, slopes] =
                                [j, matrices + j].map(|matrix| scores.four(&place, matrix, which));
                            let both = [0, 1, 2, 3].map(|i| {
                                let query = first + (j * SIDE + place.columns[i]);
                                let sees = ranges[which as usize].contains(query);
                                let sees = if whole { sees } else { sees & query.below(count) };
                                let share = |share| match &kept {
                                    Some(kept) => kept.share(which, (j, narrow(i)), share),
                                    None => share,
                                };
                                let [weight, slope] =
                                    slopes_of.both([products[i], share(slopes[i])], known[j as usize][i]);
                                [share(weight), slope].map(|value| sees.select(value, k.f32(0.0)))
                            });
                            scores.set(&place, j, which, both.map(|[weight, _]| weight));
                            scores.set(&place, matrices + j, which, both.map(|[_, slope]| slope));
                        }
                    }
                    scores.meet();
                    for j in 0..matrices {
                        add(&value_sums, scores.left(&place, j), slopes, column + j * SIDE);
                        add(&key_sums, scores.left(&place, matrices + j), queries, column + j * SIDE);
                    }
                });
                k.barrier();
            });
        });
        for (write, sums) in [(1, key_sums), (2, value_sums)] {
            self.store_sums(&place, &scores, &sums, (self.result(write), &own, problem.keys));
        }
    }
}
