//! Attention and its gradient by matrix instructions: operands rounded to 16 bits, sums in f32.
//!
//! A workgroup has a block of rows, of which each subgroup has a strip of 16, and goes through blocks of the
//! others. Which invocation holds which element of a matrix is not known, so scores go through workgroup
//! memory on their way to weights. The forward kernel goes through the keys twice: sums of matrices cannot be
//! scaled when a larger score turns up, so the first time is for the log-sum-exp alone.

use super::super::super::ir::ValueType;
use super::super::{Builder, Value};
use super::block::Window;
use super::bounds::Bounds;
use super::rows::Rows;
use super::{Attention, Head, LOWEST};
use crate::narrow::narrow;
use crate::simt::{MatrixUse, Variable};
use gradloom_core::ir::{CompareOp, DType, ReduceOp, UnaryOp};
use gradloom_core::kernel::{AttentionMatrices, MATRIX};

/// Rows of a matrix.
const SIDE: u32 = 16;
const _: () = assert!(SIDE as usize == MATRIX);
/// Vectors of four elements in a row of a matrix.
const FOURS: u32 = SIDE / 4;
/// Vectors that an invocation has on their way at the same time.
const AHEAD: usize = 8;

/// Rows of an operand in workgroup memory, as floats of 16 bits; zeros behind the last.
struct HalfBlock<'k> {
    k: &'k Builder,
    array: u32,
    width: usize,
    half: DType,
}

/// Where an invocation stands.
struct Place<'k> {
    choice: AttentionMatrices,
    subgroup: Value<'k>,
    /// First row of the subgroup's strip in the block.
    strip: Value<'k>,
    lane: Value<'k>,
    /// The rows of the block of which it has elements, and the column of the first one of four.
    rows: [Value<'k>; 2],
    column: Value<'k>,
}

/// Scores of the strips, and what becomes of them.
struct Scores<'k> {
    k: &'k Builder,
    /// Arrays of f32 and of floats of 16 bits.
    sums: u32,
    halves: u32,
    half: DType,
    /// Matrices of a subgroup.
    count: u32,
}

/// What a block of rows of the other side is filled from.
type Filled<'a, 'k, 'b> = (&'a HalfBlock<'k>, Rows<'k, 'b>, &'a dyn Fn(Value<'k>) -> Value<'k>);

impl<'k> HalfBlock<'k> {
    fn new(k: &'k Builder, width: usize, half: DType) -> Self {
        let items = AttentionMatrices::ROWS * AttentionMatrices::pitch(width);
        Self { k, array: k.shared(ValueType::Half4(half), narrow(items)), width, half }
    }

    fn pitch(&self) -> u32 {
        narrow(AttentionMatrices::pitch(self.width))
    }

    /// Matrices along a row.
    fn steps(&self) -> u32 {
        narrow(self.width) / SIDE
    }

    fn matrix(&self, which: MatrixUse, row: Value<'k>, step: u32, by_rows: bool) -> Value<'k> {
        self.k.matrix(which, self.array, row * self.pitch() + FOURS * step, (self.pitch(), by_rows))
    }

    /// 16 rows as a left operand, of the elements from `16 * step` on.
    fn left(&self, row: Value<'k>, step: u32) -> Value<'k> {
        self.matrix(MatrixUse::Left, row, step, true)
    }

    /// 16 rows as the columns of a right operand.
    fn turned(&self, row: Value<'k>, step: u32) -> Value<'k> {
        self.matrix(MatrixUse::Right, row, step, false)
    }

    /// 16 rows as those of a right operand.
    fn right(&self, row: Value<'k>, step: u32) -> Value<'k> {
        self.matrix(MatrixUse::Right, row, step, true)
    }

    /// Loads rows; `start` gives the index of a row's first element.
    fn fill(
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
    fn new(k: &'k Builder, choice: AttentionMatrices) -> Self {
        let size = narrow(choice.subgroup);
        k.uses_subgroups(size);
        let (subgroup, lane) = (k.local() / size, k.local() % size);
        let strip = subgroup * SIDE;
        let row = strip + lane / FOURS;
        Self { choice, subgroup, strip, lane, rows: [row, row + SIDE / 2], column: lane % FOURS * 4 }
    }

    fn threads(&self) -> usize {
        self.choice.threads()
    }

    /// Its share of something about each of its rows, together with those of the others that have elements
    /// of the row.
    fn across(&self, op: ReduceOp, share: Value<'k>) -> Value<'k> {
        share.across_subgroup(op, FOURS as usize, narrow(self.choice.subgroup))
    }
}

impl<'k> Scores<'k> {
    /// So many of each strip, for each of a phase's columns of matrices.
    fn new(k: &'k Builder, choice: AttentionMatrices, half: DType, kinds: usize) -> Self {
        let count = narrow(kinds * choice.columns / MATRIX);
        let all = count * narrow(AttentionMatrices::STRIPS);
        let sums = k.shared(DType::F32, all * SIDE * SIDE);
        let halves = k.shared(ValueType::Half4(half), all * SIDE * FOURS);
        Self { k, sums, halves, half, count }
    }

    fn first(&self, place: &Place<'k>, matrix: u32) -> Value<'k> {
        (place.subgroup * self.count + matrix) * SIDE
    }

    fn put(&self, place: &Place<'k>, matrix: u32, value: Value<'k>) {
        self.k.store_matrix(self.sums, self.first(place, matrix) * SIDE, SIDE, value);
    }

    /// The invocation's four elements of its first or second row.
    fn four(&self, place: &Place<'k>, matrix: u32, which: u32) -> [Value<'k>; 4] {
        let at = (self.first(place, matrix) + place.lane / FOURS + which * (SIDE / 2)) * SIDE + place.column;
        [0, 1, 2, 3].map(|i| self.k.element(self.sums, at + i))
    }

    /// Writes what became of them.
    fn set(&self, place: &Place<'k>, matrix: u32, which: u32, four: [Value<'k>; 4]) {
        let row = self.first(place, matrix) + place.lane / FOURS + which * (SIDE / 2);
        self.k.set_element(
            self.halves,
            row * FOURS + place.lane % FOURS,
            self.k.vector(&four).to_half(self.half),
        );
    }

    /// The same as a left operand.
    fn left(&self, place: &Place<'k>, matrix: u32) -> Value<'k> {
        let first = self.first(place, matrix) * FOURS;
        self.k.matrix(MatrixUse::Left, self.halves, first, (FOURS, true))
    }
}

/// The products of a strip with the rows of a block.
fn product<'k>(lefts: &[Value<'k>], block: &HalfBlock<'k>, row: Value<'k>) -> Value<'k> {
    let steps = lefts.iter().zip(0..);
    steps.fold(block.k.matrix_zero(), |sum, (left, step)| left.matrix_mul_add(block.turned(row, step), sum))
}

/// Adds the products of weights with the rows of a block to sums.
fn add<'k>(sums: &[Variable<'k>], weights: Value<'k>, block: &HalfBlock<'k>, row: Value<'k>) {
    for (sum, step) in sums.iter().zip(0..) {
        sum.set(weights.matrix_mul_add(block.right(row, step), sum.get()));
    }
}

/// A workgroup's rows and what it meets.
struct Own<'k> {
    of: Head<'k>,
    first: Value<'k>,
    bounds: Bounds<'k>,
}

impl<'k> Attention<'k, '_> {
    fn matrix_sums(&self, width: usize) -> Vec<Variable<'k>> {
        (0..width / MATRIX).map(|_| self.k.var(self.k.matrix_zero())).collect()
    }

    /// The strip's rows of an operand as left matrices; its rows were loaded into a block.
    fn lefts(&self, place: &Place<'k>, block: &HalfBlock<'k>) -> Vec<Value<'k>> {
        (0..block.steps()).map(|step| block.left(place.strip, step)).collect()
    }

    /// What `body` does with each phase of a block: the first of its rows and the matrices' numbers.
    fn each_phase(&self, choice: AttentionMatrices, body: impl FnOnce(Value<'k>)) {
        let k = self.k;
        k.count(k.u32(0), k.u32(narrow(AttentionMatrices::ROWS)), k.u32(narrow(choice.columns)), body);
    }

    /// Fills blocks; all invocations have come here, and all go on when they are filled.
    fn fill_blocks(&self, threads: usize, window: &Window<'k>, all: &[Filled<'_, 'k, '_>]) {
        for (block, operand, start) in all {
            block.fill(threads, *operand, window, start);
        }
        self.k.barrier();
    }

    /// Writes a strip's sums to rows of a result, those below `end`.
    fn store_sums(
        &self,
        place: &Place<'k>,
        scores: &Scores<'k>,
        sums: &[Variable<'k>],
        (result, own, end): (Rows<'k, '_>, &Own<'k>, usize),
    ) {
        let k = self.k;
        for (sum, column) in sums.iter().zip((0..).step_by(MATRIX)) {
            k.barrier();
            scores.put(place, 0, sum.get());
            k.barrier();
            for (row, which) in place.rows.into_iter().zip(0..) {
                let row = own.first + row;
                k.guard([Some(row.below(narrow(end))), self.views.gate(k)], || {
                    let start = result.start(own.of, row);
                    for (value, i) in scores.four(place, 0, which).into_iter().zip(0..) {
                        result.store(start, place.column + (column + i), value);
                    }
                });
            }
        }
    }

    /// The block of queries of a workgroup: the last ones, which see most keys, first.
    fn own_queries(&self) -> Own<'k> {
        let (k, problem) = (self.k, self.problem);
        let [pairs, heads] = [problem.pairs(), problem.heads].map(narrow);
        let blocks = narrow(problem.queries.div_ceil(AttentionMatrices::ROWS));
        let number = k.u32(blocks - 1) - k.group() / pairs;
        let of = [k.group() % pairs / heads, k.group() % pairs % heads];
        let first = number * narrow(AttentionMatrices::ROWS);
        Own { of, first, bounds: self.shared_bounds(of[0]) }
    }

    /// How many keys each of the invocation's queries sees, and how many any of the workgroup's.
    fn limits_of(&self, place: &Place<'k>, own: &Own<'k>) -> ([Value<'k>; 2], Value<'k>) {
        let (k, queries) = (self.k, narrow(self.problem.queries));
        let limits = place.rows.map(|row| {
            let query = own.first + row;
            query.below(queries).select(own.bounds.limit(query), k.u32(0))
        });
        let last = own.first + narrow(AttentionMatrices::ROWS - 1);
        (limits, own.bounds.limit(last.min(k.u32(queries - 1))))
    }

    /// Output and log-sum-exp.
    pub(super) fn forward_by_matrices(&self, choice: AttentionMatrices) {
        let (k, problem) = (self.k, self.problem);
        let place = Place::new(k, choice);
        let own = self.own_queries();
        let of = [own.of[0], self.key_head(own.of[1])];
        let [q, all_keys, all_values] = self.queries_keys_values();
        let (limits, end) = self.limits_of(&place, &own);
        self.check_table_of(&own, place.threads());
        let blocks = [problem.depth, problem.value_depth].map(|width| HalfBlock::new(k, width, self.half));
        let [keys, values] = &blocks;
        let scores = Scores::new(k, choice, self.half, 1);
        let queries_end = k.u32(narrow(problem.queries));
        let window = Window { first: own.first, end: queries_end, count: problem.queries };
        self.fill_blocks(place.threads(), &window, &[(keys, q, &|row| q.start(own.of, row))]);
        let lefts = self.lefts(&place, keys);
        k.barrier();
        let scale = self.scale();
        let matrices = narrow(choice.columns) / SIDE;
        // Scores of a phase, and what is done with each of the invocation's.
        let phase =
            |start: Value<'k>, column: Value<'k>, each: &dyn Fn(u32, u32, [Value<'k>; 4], [Value<'k>; 4])| {
                for j in 0..matrices {
                    scores.put(&place, j, product(&lefts, keys, column + j * SIDE));
                }
                k.barrier();
                for j in 0..matrices {
                    for which in 0..2 {
                        let first = start + column + place.column + j * SIDE;
                        let seen = [0, 1, 2, 3].map(|i| (first + i).less(limits[which as usize]));
                        let four = scores.four(&place, j, which).map(|score| score * scale);
                        each(j, which, four, seen);
                    }
                }
                k.barrier();
            };
        let key_row = |key: Value<'k>| self.key_row(1, of, key);
        let value_row = |key: Value<'k>| self.key_row(2, of, key);
        let blocks_of_keys = |body: &dyn Fn(Value<'k>, Window<'k>)| {
            k.count(k.u32(0), end, k.u32(narrow(AttentionMatrices::ROWS)), |start| {
                body(start, Window { first: start, end, count: problem.keys });
                k.barrier();
            });
        };
        let maxima = [0; 2].map(|_| k.var(k.f32(LOWEST)));
        let totals = [0; 2].map(|_| k.var(k.f32(0.0)));
        blocks_of_keys(&|start, window| {
            self.fill_blocks(place.threads(), &window, &[(keys, all_keys, &key_row)]);
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
            let sees = limits[which].compare(CompareOp::Gt, k.u32(0));
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
            self.fill_blocks(place.threads(), &window, &filled);
            self.each_phase(choice, |column| {
                phase(start, column, &|j, which, four, seen| {
                    let log_sum = log_sums[which as usize];
                    let weight =
                        |i: usize| seen[i].select((four[i] - log_sum).unary(UnaryOp::Exp), k.f32(0.0));
                    scores.set(&place, j, which, [0, 1, 2, 3].map(weight));
                });
                for j in 0..matrices {
                    add(&sums, scores.left(&place, j), values, column + j * SIDE);
                }
            });
        });
        self.store_sums(&place, &scores, &sums, (self.result(0), &own, problem.queries));
    }

    /// Makes the step fail where a block table names blocks that are not there: the first head's workgroups
    /// look.
    fn check_table_of(&self, own: &Own<'k>, threads: usize) {
        let k = self.k;
        let is_first = own.of[1].equals(k.u32(0)) & own.first.equals(k.u32(0));
        self.check_table(&own.bounds, own.of[0], is_first, [k.local(), k.u32(narrow(threads))]);
    }

    /// dq, and each query's mean, for the keys' kernel.
    pub(super) fn query_gradient_by_matrices(&self, choice: AttentionMatrices) {
        let (k, problem) = (self.k, self.problem);
        let place = Place::new(k, choice);
        let own = self.own_queries();
        let of = [own.of[0], self.key_head(own.of[1])];
        let [q, all_keys, all_values] = self.queries_keys_values();
        let [_, log_sum, cotangent] = self.output_and_cotangent();
        let (limits, end) = self.limits_of(&place, &own);
        let blocks = [problem.depth, problem.value_depth].map(|width| HalfBlock::new(k, width, self.half));
        let [keys, values] = &blocks;
        let scores = Scores::new(k, choice, self.half, 2);
        let queries_end = k.u32(narrow(problem.queries));
        let window = Window { first: own.first, end: queries_end, count: problem.queries };
        let filled: [Filled<'_, 'k, '_>; 2] = [
            (keys, q, &|row| q.start(own.of, row)),
            (values, cotangent, &|row| cotangent.start(own.of, row)),
        ];
        self.fill_blocks(place.threads(), &window, &filled);
        let [queries, slopes] = [keys, values].map(|block| self.lefts(&place, block));
        k.barrier();
        let there = place.rows.map(|row| (own.first + row).min(k.u32(narrow(problem.queries) - 1)));
        let log_sums = there.map(|query| log_sum.number(log_sum.start(own.of, query)));
        let means = self.means_by_matrices(&place, &own, there);
        let sums = self.matrix_sums(problem.depth);
        let scale = self.scale();
        let matrices = narrow(choice.columns) / SIDE;
        k.count(k.u32(0), end, k.u32(narrow(AttentionMatrices::ROWS)), |start| {
            let window = Window { first: start, end, count: problem.keys };
            let filled: [Filled<'_, 'k, '_>; 2] = [
                (keys, all_keys, &|key| self.key_row(1, of, key)),
                (values, all_values, &|key| self.key_row(2, of, key)),
            ];
            self.fill_blocks(place.threads(), &window, &filled);
            self.each_phase(choice, |column| {
                for j in 0..matrices {
                    scores.put(&place, j, product(&queries, keys, column + j * SIDE));
                    scores.put(&place, matrices + j, product(&slopes, values, column + j * SIDE));
                }
                k.barrier();
                for j in 0..matrices {
                    for which in 0..2 {
                        let at = which as usize;
                        let first = start + column + place.column + j * SIDE;
                        let [products, slopes] =
                            [j, matrices + j].map(|matrix| scores.four(&place, matrix, which));
                        let slope = |i: usize| {
                            let weight = (products[i] * scale - log_sums[at]).unary(UnaryOp::Exp);
                            let slope = weight * (slopes[i] - means[at]) * scale;
                            (first + narrow(i)).less(limits[at]).select(slope, k.f32(0.0))
                        };
                        scores.set(&place, j, which, [0, 1, 2, 3].map(slope));
                    }
                }
                k.barrier();
                for j in 0..matrices {
                    add(&sums, scores.left(&place, j), keys, column + j * SIDE);
                }
            });
            k.barrier();
        });
        self.store_sums(&place, &scores, &sums, (self.result(0), &own, problem.queries));
    }

    /// The products of outputs with their cotangents, of the invocation's rows; they go to the scratch, too.
    fn means_by_matrices(&self, place: &Place<'k>, own: &Own<'k>, there: [Value<'k>; 2]) -> [Value<'k>; 2] {
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

    /// dk and dv.
    pub(super) fn key_gradient_by_matrices(&self, choice: AttentionMatrices) {
        let (k, problem) = (self.k, self.problem);
        let place = Place::new(k, choice);
        let key_heads = narrow(problem.key_heads);
        let pairs = narrow(problem.batch) * key_heads;
        // The first keys have most queries.
        let first = k.group() / pairs * narrow(AttentionMatrices::ROWS);
        let of = [k.group() % pairs / key_heads, k.group() % pairs % key_heads];
        let own = Own { of, first, bounds: self.shared_bounds(of[0]) };
        let [q, all_keys, all_values] = self.queries_keys_values();
        let [_, log_sum, cotangent] = self.output_and_cotangent();
        let blocks = [problem.depth, problem.value_depth].map(|width| HalfBlock::new(k, width, self.half));
        let [queries, slopes] = &blocks;
        let scores = Scores::new(k, choice, self.half, 2);
        let window = Window { first, end: k.u32(narrow(problem.keys)), count: problem.keys };
        let filled: [Filled<'_, 'k, '_>; 2] = [
            (queries, all_keys, &|key| all_keys.start(of, key)),
            (slopes, all_values, &|key| all_values.start(of, key)),
        ];
        self.fill_blocks(place.threads(), &window, &filled);
        let [keys, values] = [queries, slopes].map(|block| self.lefts(&place, block));
        k.barrier();
        let seen_from = place.rows.map(|row| own.bounds.first_query(first + row));
        let [key_sums, value_sums] =
            [problem.depth, problem.value_depth].map(|width| self.matrix_sums(width));
        let (count, scale) = (narrow(problem.queries), self.scale());
        let matrices = narrow(choice.columns) / SIDE;
        let rows = narrow(AttentionMatrices::ROWS);
        let begin = own.bounds.first_query(first) / rows * rows;
        let sharing = narrow(problem.sharing());
        k.count(of[1] * sharing, (of[1] + 1) * sharing, k.u32(1), |head| {
            let of = [of[0], head];
            k.count(begin, k.u32(count), k.u32(rows), |start| {
                let window = Window { first: start, end: k.u32(count), count: problem.queries };
                let filled: [Filled<'_, 'k, '_>; 2] = [
                    (queries, q, &|row| q.start(of, row)),
                    (slopes, cotangent, &|row| cotangent.start(of, row)),
                ];
                self.fill_blocks(place.threads(), &window, &filled);
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
                        (0..matrices).map(|j| [0, 1, 2, 3].map(|i| known(j * SIDE + i))).collect();
                    k.barrier();
                    for j in 0..matrices {
                        for which in 0..2 {
                            let [products, slopes] =
                                [j, matrices + j].map(|matrix| scores.four(&place, matrix, which));
                            let both = [0, 1, 2, 3].map(|i| {
                                let [log_sum, mean] = known[j as usize][i];
                                let query = first + (j * SIDE + narrow(i));
                                let sees = query.compare(CompareOp::Ge, seen_from[which as usize]);
                                let shown =
                                    |value: Value<'k>| (sees & query.below(count)).select(value, k.f32(0.0));
                                let weight = shown((products[i] * scale - log_sum).unary(UnaryOp::Exp));
                                [weight, shown(weight * (slopes[i] - mean) * scale)]
                            });
                            scores.set(&place, j, which, both.map(|[weight, _]| weight));
                            scores.set(&place, matrices + j, which, both.map(|[_, slope]| slope));
                        }
                    }
                    k.barrier();
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
