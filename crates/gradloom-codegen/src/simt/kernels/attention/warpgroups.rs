//! Attention and its gradient by products of warpgroups. Operands have 16 bits, and are copied to workgroup
//! memory while earlier blocks are multiplied; scores stay in registers.
//!
//! Forward: Dao, FlashAttention-2 (2023), algorithm 1. The gradient computes the scores again in each of its
//! two kernels, so that no result is summed in an order that varies.

use super::super::{Builder, Value};
use super::block::Window;
use super::bounds::KeyRange;
use super::fragments::scaled;
use super::matrices::{Keys, Own, Place, QueriesOfKeys, SIDE, elements_of, sum_of_elements};
use super::rows::Rows;
use super::{Attention, Head, LOWEST};
use crate::narrow::narrow;
use crate::simt::{Factor, SharedMatrix, Variable, WarpgroupProduct};
use gradloom_core::ir::{CompareOp, DType};
use gradloom_core::kernel::AttentionWarpgroups;
use std::f32::consts::LOG2_E;

/// Number of rows of a block of the other operand.
const ROWS: u32 = WarpgroupProduct::ROWS;
const _: () = assert!(ROWS as usize == AttentionWarpgroups::ROWS);
/// Number of matrices of scores along a block of the other operand.
const MATRICES: u32 = ROWS / SIDE;

/// Function that returns the index of a row's first element.
type Start<'a, 'k> = &'a dyn Fn(Value<'k>) -> Value<'k>;

/// Two operands whose blocks are copied to workgroup memory, alternately to two slots.
struct Blocks<'k, 'b> {
    k: &'k Builder,
    threads: usize,
    operands: [(SharedMatrix, Rows<'k, 'b>); 2],
}

impl<'k, 'b> Blocks<'k, 'b> {
    fn new(k: &'k Builder, threads: usize, half: DType, operands: [(Rows<'k, 'b>, usize); 2]) -> Self {
        let stages = narrow(AttentionWarpgroups::STAGES);
        let operands =
            operands.map(|(rows, width)| (k.shared_matrix(half, [ROWS, narrow(width)], stages), rows));
        Self { k, threads, operands }
    }

    /// Returns a matrix in a slot, with the index of its first item.
    fn at(&self, which: usize, slot: Value<'k>) -> (SharedMatrix, Value<'k>) {
        let matrix = self.operands[which].0;
        (matrix, slot * matrix.items())
    }

    /// Starts copying blocks to a slot.
    fn copy(&self, slot: Value<'k>, window: &Window<'k>, starts: [Start<'_, 'k>; 2]) {
        for (which, start) in starts.into_iter().enumerate() {
            copy(self.k, self.threads, self.operands[which].1, self.at(which, slot), window, start);
        }
    }
}

/// State of a kernel that iterates over blocks of keys and values for a workgroup's queries.
struct Queries<'k, 'b> {
    place: Place<'k>,
    own: Own<'k>,
    /// Sequence and key head.
    of: Head<'k>,
    visible: Keys<'k>,
    /// Keys visible to all queries of the workgroup.
    of_all: KeyRange<'k>,
    /// Blocks of keys and of values.
    blocks: Blocks<'k, 'b>,
}

/// Starts copying rows of an operand to a matrix.
fn copy<'k>(
    k: &'k Builder,
    threads: usize,
    operand: Rows<'k, '_>,
    (matrix, first): (SharedMatrix, Value<'k>),
    window: &Window<'k>,
    start: Start<'_, 'k>,
) {
    let (threads, along) = (narrow(threads), matrix.columns / SharedMatrix::EIGHT);
    let last = k.u32(narrow(window.count) - 1);
    for turn in 0..matrix.items().div_ceil(threads) {
        let at = k.local() + turn * threads;
        let is_inside = (matrix.items() < (turn + 1) * threads).then(|| at.below(matrix.items()));
        k.guard([is_inside], || {
            let (within, eight) = (at / along, at % along);
            let row = window.first + within;
            let item = first + k.item_of(matrix, within, eight);
            let from = operand.eight(start(row.min(last)), eight);
            k.start_copy((matrix.array, item), from, row.less(window.end));
        });
    }
}

/// Combines values in pairs.
fn paired<'k>(values: &[Value<'k>], combine: &dyn Fn(Value<'k>, Value<'k>) -> Value<'k>) -> Value<'k> {
    match values {
        [value] => *value,
        _ => {
            let (left, right) = values.split_at(values.len() / 2);
            combine(paired(left, combine), paired(right, combine))
        }
    }
}

/// Returns left operands made of the invocation's elements of its upper and its lower row.
fn lefts<'k>(k: &'k Builder, half: DType, rows: &[Vec<[Value<'k>; 4]>; 2]) -> Vec<Value<'k>> {
    let left = |(upper, lower): (&[Value<'k>; 4], &[Value<'k>; 4])| {
        sum_of_elements(k, [*upper, *lower]).to_left(half)
    };
    rows[0].iter().zip(&rows[1]).map(left).collect()
}

impl<'k, 'b> Attention<'k, 'b> {
    /// Returns variables for the scores of a block of the other operand.
    fn block_scores(&self) -> Vec<Variable<'k>> {
        self.matrix_sums(AttentionWarpgroups::ROWS)
    }

    /// Returns the initial state of a kernel of queries.
    fn queries(&self, choice: AttentionWarpgroups) -> Queries<'k, 'b> {
        let (k, problem) = (self.k, self.problem);
        let place = Place::new(k, [choice.threads(), 32], true);
        let own = self.own_queries(choice.rows());
        let of = [own.of[0], self.key_head(own.of[1])];
        let [_, keys, values] = self.queries_keys_values();
        let visible = self.keys_of(&place, &own);
        let last = (own.first + (own.rows - 1)).min(k.u32(narrow(problem.queries) - 1));
        let of_all = own.bounds.keys_of_all(own.first, last);
        let widths = [(keys, problem.depth), (values, problem.value_depth)];
        let blocks = Blocks::new(k, place.threads, self.half, widths);
        Queries { place, own, of, visible, of_all, blocks }
    }

    /// Starts copying the blocks of keys and values from key `first` on to a slot.
    fn copy_keys(
        &self,
        Queries { of, visible, blocks, .. }: &Queries<'k, '_>,
        slot: Value<'k>,
        first: Value<'k>,
    ) {
        let window = Window { first, end: visible.end, count: self.problem.keys };
        blocks.copy(slot, &window, [&|key| self.key_row(1, *of, key), &|key| self.key_row(2, *of, key)]);
    }

    /// Waits for the blocks from key `start` on, starts copying the next ones, and returns the slot of the
    /// former.
    fn next_keys(&self, state: &Queries<'k, '_>, start: Value<'k>) -> Value<'k> {
        let k = self.k;
        let slot = (start - state.visible.begin) / ROWS % 2;
        k.await_copies(0);
        k.barrier();
        k.when((start + ROWS).less(state.visible.end), || self.copy_keys(state, slot ^ 1, start + ROWS));
        k.end_copies();
        slot
    }

    /// Replaces the elements for keys that are not visible, in the block from key `start` on.
    fn mask_keys(&self, state: &Queries<'k, '_>, scores: &[Variable<'k>], otherwise: f32, start: Value<'k>) {
        let first = start + state.place.column;
        let is_partial = state.of_all.excludes_any(start, ROWS);
        self.mask((scores, otherwise), is_partial, &state.place, &|which, column| {
            state.visible.ranges[which].relative_to(first)(column)
        });
    }

    /// Returns the shares after dropout of the block of keys from key `start` on, given those of the
    /// invocation's two rows.
    fn shares_of_rows(
        &self,
        Queries { place, own, .. }: &Queries<'k, '_>,
        start: Value<'k>,
        rows: [Vec<[Value<'k>; 4]>; 2],
    ) -> [Vec<[Value<'k>; 4]>; 2] {
        let mut queries = place.rows.into_iter();
        rows.map(|fours| {
            let query = own.first + queries.next().expect("there are two rows");
            let first = |j: u32| (start + place.column + j * SIDE, place.columns);
            fours.into_iter().zip(0..).map(|(four, j)| self.shares(own.of, query, first(j), four)).collect()
        })
    }

    /// Creates the matrix of a workgroup's rows of an operand.
    fn own_matrix(&self, choice: AttentionWarpgroups, width: usize) -> SharedMatrix {
        self.k.shared_matrix(self.half, [choice.rows(), width].map(narrow), 1)
    }

    /// Returns the window of a workgroup's queries.
    fn window(&self, own: &Own<'k>) -> Window<'k> {
        let end = self.k.u32(narrow(self.problem.queries));
        Window { first: own.first, end, count: self.problem.queries }
    }

    /// Replaces the elements that are not `visible` if the block `is_partial`, that is, contains any such
    /// elements.
    fn mask(
        &self,
        (scores, otherwise): (&[Variable<'k>], f32),
        is_partial: Value<'k>,
        place: &Place<'k>,
        visible: &dyn Fn(usize, u32) -> Value<'k>,
    ) {
        let k = self.k;
        k.when(is_partial, || {
            for (sum, j) in scores.iter().zip(0..) {
                let value = sum.get();
                let shown = [0, 1].map(|which: u32| {
                    let four = elements_of(value, which);
                    [0, 1, 2, 3].map(|i: usize| {
                        let is_visible = visible(which as usize, j * SIDE + place.columns[i]);
                        is_visible.select(four[i], k.f32(otherwise))
                    })
                });
                sum.set(sum_of_elements(k, shown));
            }
        });
    }

    /// Starts copying the workgroup's rows of operands, and ends the batch of copies.
    fn copy_own(
        &self,
        place: &Place<'k>,
        own: &[(SharedMatrix, Rows<'k, '_>)],
        (of, window): (Head<'k>, &Window<'k>),
    ) {
        let k = self.k;
        for &(matrix, rows) in own {
            copy(k, place.threads, rows, (matrix, k.u32(0)), window, &|row| rows.start(of, row));
        }
        k.end_copies();
    }

    /// Appends the computation of the output and the log-sum-exp.
    pub(super) fn forward_by_warpgroups(&self, choice: AttentionWarpgroups) {
        let (k, problem) = (self.k, self.problem);
        let state = self.queries(choice);
        let Queries { place, own, visible: Keys { ranges, begin, end }, blocks, .. } = &state;
        self.check_table_of(own, place.threads);
        self.copy_keys(&state, k.u32(0), *begin);
        let q = self.operand(0);
        let queries = self.own_matrix(choice, problem.depth);
        self.copy_own(place, &[(queries, q)], (own.of, &self.window(own)));
        let [scale, away] = [1.0, -1.0].map(|sign| k.f32(sign * self.scale_of_exponents()));
        let (maxima, totals) = self.softmax_state();
        let scores = self.block_scores();
        let sums = self.matrix_sums(problem.value_depth);
        k.count(*begin, *end, k.u32(ROWS), |start| {
            let slot = self.next_keys(&state, start);
            let (keys, first) = blocks.at(0, slot);
            k.start_product((&scores, false), Factor::Shared(queries), (keys, first, true));
            k.await_products(0, &[&scores]);
            self.mask_keys(&state, &scores, LOWEST, start);
            let values: Vec<Value<'k>> = scores.iter().map(|sum| sum.get()).collect();
            let shown = [0, 1].map(|which: u32| -> Vec<[Value<'k>; 4]> {
                values.iter().map(|value| elements_of(*value, which)).collect()
            });
            let before = maxima.map(Variable::get);
            let most = [0, 1].map(|which: usize| {
                paired(shown[which].as_flattened(), &|a, b| a.native_max(b)).native_max(before[which])
            });
            let most = [2, 1].into_iter().fold(most, |most, bits| {
                let others = most.map(|most| place.other(most, bits));
                [0, 1].map(|which: usize| most[which].native_max(others[which]))
            });
            let weights = [0, 1].map(|which: usize| -> Vec<[Value<'k>; 4]> {
                let off = most[which] * away;
                let weight = |score: Value<'k>| score.mul_add(scale, off).native_exp2();
                shown[which].iter().map(|four| four.map(weight)).collect()
            });
            let factors = [0, 1].map(|which: usize| {
                let factor = ((before[which] - most[which]) * scale).native_exp2();
                let sum = paired(weights[which].as_flattened(), &|a, b| a + b);
                totals[which].set(totals[which].get().mul_add(factor, sum));
                maxima[which].set(most[which]);
                factor
            });
            scaled(self, &sums, factors);
            let weights = self.shares_of_rows(&state, start, weights);
            let (values, first) = blocks.at(1, slot);
            k.start_product(
                (&sums, true),
                Factor::Held(&lefts(k, self.half, &weights)),
                (values, first, false),
            );
            k.await_products(0, &[&sums]);
        });
        let shares = self.store_log_sums(place, own, (maxima, totals, *ranges));
        scaled(self, &sums, shares);
        self.store_rows(place, &sums, (self.result(0), own, problem.queries));
    }

    /// Writes the sums of a workgroup's rows, up to row `end`, to a result. Adjacent invocations exchange
    /// halves, so that each writes four adjacent elements.
    fn store_rows(
        &self,
        place: &Place<'k>,
        sums: &[Variable<'k>],
        (result, own, end): (Rows<'k, '_>, &Own<'k>, usize),
    ) {
        let k = self.k;
        let lane = place.lane % 4;
        let is_odd = (lane % 2).equals(k.u32(1));
        let first = lane / 2 * 4 + lane % 2 * (SIDE / 2);
        let values: Vec<Value<'k>> = sums.iter().map(|sum| sum.get()).collect();
        for (row, which) in place.rows.into_iter().zip(0..) {
            let four = |value: &Value<'k>| {
                let [a, b, c, d] = elements_of(*value, which);
                let [x, y] = [(a, c), (b, d)].map(|(left, right)| place.other(is_odd.select(left, right), 1));
                let pairs = [(x, a), (y, b), (c, x), (d, y)];
                k.vector(&pairs.map(|(odd, even)| is_odd.select(odd, even)))
            };
            let fours: Vec<Value<'k>> = values.iter().map(four).collect();
            let row = own.first + row;
            k.guard([Some(row.below(narrow(end))), self.views.gate(k)], || {
                let start = result.start(own.of, row);
                for (four, column) in fours.into_iter().zip((0..).step_by(SIDE as usize)) {
                    result.store_four(start, first + column, four);
                }
            });
        }
    }

    /// Appends the computation of dq and, for the kernel of the keys, of each query's mean.
    pub(super) fn query_gradient_by_warpgroups(&self, choice: AttentionWarpgroups) {
        let (k, problem) = (self.k, self.problem);
        let state = self.queries(choice);
        let Queries { place, own, visible: Keys { ranges, begin, end }, blocks, .. } = &state;
        let [_, log_sum, cotangent] = self.output_and_cotangent();
        self.copy_keys(&state, k.u32(0), *begin);
        let matrices = [problem.depth, problem.value_depth].map(|width| self.own_matrix(choice, width));
        let of_own = [(matrices[0], self.operand(0)), (matrices[1], cotangent)];
        self.copy_own(place, &of_own, (own.of, &self.window(own)));
        let there = place.rows.map(|row| (own.first + row).min(k.u32(narrow(problem.queries) - 1)));
        let offs = [0, 1].map(|which: usize| {
            let sees = ranges[which].is_any();
            let off = log_sum.number(log_sum.start(own.of, there[which])) * k.f32(-LOG2_E);
            sees.select(off, k.f32(0.0))
        });
        let (scale, away) = (self.scale(), k.f32(-self.factor()));
        let means = self.means_by_matrices(place, own, there).map(|mean| mean * away);
        let has_unused_rows = problem.has_unused_rows();
        let means = [0, 1].map(|which: usize| match has_unused_rows {
            true => ranges[which].is_any().select(means[which], k.f32(0.0)),
            false => means[which],
        });
        let exponent = k.f32(self.scale_of_exponents());
        let (scores, slopes) = (self.block_scores(), self.block_scores());
        let sums = self.matrix_sums(problem.depth);
        k.count(*begin, *end, k.u32(ROWS), |start| {
            let slot = self.next_keys(&state, start);
            let [(keys, first_key), (values, first_value)] = [0, 1].map(|which| blocks.at(which, slot));
            k.start_product((&scores, false), Factor::Shared(matrices[0]), (keys, first_key, true));
            k.start_product((&slopes, false), Factor::Shared(matrices[1]), (values, first_value, true));
            k.await_products(1, &[&scores]);
            self.mask_keys(&state, &scores, LOWEST, start);
            let values: Vec<Value<'k>> = scores.iter().map(|sum| sum.get()).collect();
            let weights = [0, 1].map(|which: u32| {
                let weight = |score: Value<'k>| score.mul_add(exponent, offs[which as usize]).native_exp2();
                values
                    .iter()
                    .map(|value| elements_of(*value, which).map(weight))
                    .collect::<Vec<[Value<'k>; 4]>>()
            });
            k.await_products(0, &[&slopes]);
            if has_unused_rows {
                self.mask_keys(&state, &slopes, 0.0, start);
            }
            let values: Vec<Value<'k>> = slopes.iter().map(|sum| sum.get()).collect();
            let products = [0, 1].map(|which: u32| -> Vec<[Value<'k>; 4]> {
                values.iter().map(|value| elements_of(*value, which)).collect()
            });
            let products = self.shares_of_rows(&state, start, products);
            let slopes = [0, 1].map(|which: usize| {
                let slope = |(products, weights): (&[Value<'k>; 4], &[Value<'k>; 4])| {
                    [0, 1, 2, 3].map(|i: usize| weights[i] * products[i].mul_add(scale, means[which]))
                };
                products[which].iter().zip(&weights[which]).map(slope).collect::<Vec<_>>()
            });
            k.start_product(
                (&sums, true),
                Factor::Held(&lefts(k, self.half, &slopes)),
                (keys, first_key, false),
            );
            k.await_products(0, &[&sums]);
        });
        self.store_rows(place, &sums, (self.result(0), own, problem.queries));
    }

    /// Appends the computation of dk and dv.
    pub(super) fn key_gradient_by_warpgroups(&self, choice: AttentionWarpgroups) {
        let (k, problem) = (self.k, self.problem);
        let place = Place::new(k, [choice.threads(), 32], true);
        let own = self.own_keys(choice.rows());
        let [q, all_keys, all_values] = self.queries_keys_values();
        let [_, log_sum, cotangent] = self.output_and_cotangent();
        let (count, sharing) = (narrow(problem.queries), narrow(problem.sharing()));
        let QueriesOfKeys { ranges, begin, end } = self.queries_of(&place, &own, ROWS);
        let has_unused_rows = problem.has_unused_rows();
        let turns = match end {
            None if !has_unused_rows => (k.u32(count.next_multiple_of(ROWS)) - begin) / ROWS,
            _ => (end.unwrap_or(k.u32(count)).max(begin) - begin + (ROWS - 1)) / ROWS,
        };
        let end = end.unwrap_or(k.u32(count));
        // The blocks of queries of all heads that share the keys are numbered consecutively.
        let block = |number: Value<'k>| {
            let (head, turn) = match sharing {
                1 => (own.of[1], number),
                _ => {
                    let turns = turns.max(k.u32(1));
                    (own.of[1] * sharing + number / turns, number % turns)
                }
            };
            ([own.of[0], head], begin + turn * ROWS)
        };
        let total = turns * sharing;
        let blocks =
            Blocks::new(k, place.threads, self.half, [(q, problem.depth), (cotangent, problem.value_depth)]);
        let copy = |slot: Value<'k>, number: Value<'k>| {
            let (of, first) = block(number);
            let window = Window { first, end, count: problem.queries };
            blocks.copy(slot, &window, [&|row| q.start(of, row), &|row| cotangent.start(of, row)]);
        };
        // The negated log-sum-exp, as the exponent of a power of two, and the negated and scaled mean of each
        // query of a block.
        let numbers = [0; 2].map(|_| k.shared(DType::F32, ROWS * narrow(AttentionWarpgroups::STAGES)));
        let load = |number: Value<'k>| {
            let (of, first) = block(number);
            let query = (first + k.local() % ROWS).min(k.u32(count - 1));
            let known = log_sum.number(log_sum.start(of, query));
            let sees = known.compare(CompareOp::Gt, k.f32(LOWEST));
            let off = sees.select(known * k.f32(-LOG2_E), k.f32(0.0));
            let mean = k.load(self.means(), self.query_number(of, query)) * k.f32(-self.factor());
            [off, if has_unused_rows { sees.select(mean, k.f32(0.0)) } else { mean }]
        };
        let store = |slot: Value<'k>, values: [Value<'k>; 2]| {
            k.when(k.local().below(ROWS), || {
                for (array, value) in numbers.into_iter().zip(values) {
                    k.set_element(array, slot * ROWS + k.local(), value);
                }
            });
        };
        copy(k.u32(0), k.u32(0));
        store(k.u32(0), load(k.u32(0)));
        let matrices = [problem.depth, problem.value_depth].map(|width| self.own_matrix(choice, width));
        let window = Window { first: own.first, end: k.u32(narrow(problem.keys)), count: problem.keys };
        let of_own = [(matrices[0], all_keys), (matrices[1], all_values)];
        self.copy_own(&place, &of_own, (own.of, &window));
        let of_all = own.bounds.queries_of_all(own.first, own.first + (own.rows - 1));
        let scale = self.scale();
        let exponent = k.f32(self.scale_of_exponents());
        let (scores, slopes) = (self.block_scores(), self.block_scores());
        let [key_sums, value_sums] =
            [problem.depth, problem.value_depth].map(|width| self.matrix_sums(width));
        k.count(k.u32(0), total, k.u32(1), |number| {
            let (slot, (_, start)) = (number % 2, block(number));
            k.await_copies(0);
            k.barrier();
            let next = number + 1;
            k.when(next.less(total), || copy(slot ^ 1, next));
            k.end_copies();
            let following = load(next.min(total - 1));
            let [(queries, first_query), (cotangents, first_cotangent)] =
                [0, 1].map(|which| blocks.at(which, slot));
            k.start_product((&scores, false), Factor::Shared(matrices[0]), (queries, first_query, true));
            k.start_product(
                (&slopes, false),
                Factor::Shared(matrices[1]),
                (cotangents, first_cotangent, true),
            );
            let kept = self.kept_of_keys(block(number).0, (&place, &own), (start, MATRICES));
            k.await_products(1, &[&scores]);
            let is_partial =
                of_all.excludes_any(start, ROWS) | (start + (ROWS - 1)).compare(CompareOp::Ge, k.u32(count));
            let first = start + place.column;
            let visible = |which: usize, column: u32| {
                let query = first + column;
                ranges[which].contains(query) & query.below(count)
            };
            self.mask((&scores, LOWEST), is_partial, &place, &visible);
            // Returns a number of each query of the invocation's columns.
            let of_columns = |which: usize| -> Vec<[Value<'k>; 4]> {
                let first = slot * ROWS + place.column;
                let four = |j: u32| {
                    place.columns.map(|column| k.element(numbers[which], first + (j * SIDE + column)))
                };
                (0..MATRICES).map(four).collect()
            };
            let offs = of_columns(0);
            let values: Vec<Value<'k>> = scores.iter().map(|sum| sum.get()).collect();
            let weights = [0, 1].map(|which: u32| {
                let weight = |(value, offs): (&Value<'k>, &[Value<'k>; 4])| {
                    let scores = elements_of(*value, which);
                    [0, 1, 2, 3].map(|i: usize| scores[i].mul_add(exponent, offs[i]).native_exp2())
                };
                values.iter().zip(&offs).map(weight).collect::<Vec<_>>()
            });
            // Returns the shares after dropout of the elements of a row in a matrix.
            let shares = |which: u32, j: u32, four: [Value<'k>; 4]| match &kept {
                Some(kept) => [0, 1, 2, 3].map(|i: u32| kept.share(which, (j, i), four[i as usize])),
                None => four,
            };
            let shown = [0, 1].map(|which: u32| -> Vec<[Value<'k>; 4]> {
                (0..).zip(&weights[which as usize]).map(|(j, four)| shares(which, j, *four)).collect()
            });
            let left = lefts(k, self.half, &shown);
            k.start_product((&value_sums, true), Factor::Held(&left), (cotangents, first_cotangent, false));
            k.await_products(1, &[&slopes]);
            if has_unused_rows {
                self.mask((&slopes, 0.0), is_partial, &place, &visible);
            }
            let means = of_columns(1);
            let values: Vec<Value<'k>> = slopes.iter().map(|sum| sum.get()).collect();
            let slopes = [0, 1].map(|which: u32| {
                let slope = |(j, value): (usize, &Value<'k>)| {
                    let products = shares(which, narrow(j), elements_of(*value, which));
                    let (weights, means) = (&weights[which as usize][j], &means[j]);
                    [0, 1, 2, 3].map(|i: usize| weights[i] * products[i].mul_add(scale, means[i]))
                };
                values.iter().enumerate().map(slope).collect::<Vec<_>>()
            });
            let left = lefts(k, self.half, &slopes);
            k.start_product((&key_sums, true), Factor::Held(&left), (queries, first_query, false));
            k.await_products(0, &[&value_sums, &key_sums]);
            store(slot ^ 1, following);
        });
        for (write, sums) in [(1, key_sums), (2, value_sums)] {
            self.store_rows(&place, &sums, (self.result(write), &own, problem.keys));
        }
    }
}
