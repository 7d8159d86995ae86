//! Split of a product into tasks for threads.
//!
//! In: a [`DotProblem`]. Out: a [`DotSchedule`], a list of blocks, each of which is computed by one thread.
//! Invariant: the split is a function of the problem alone, so results do not depend on the number of
//! threads.
//!
//! A task packs its columns of the right operand, so each panel of rows packs them again. Hence columns are
//! split first, and rows only if there are enough of them to pay for that. If operands are rounded, those
//! that several tasks read are packed once for all of them.

use super::STRIP;
use super::dot_plan::{ROUNDED_DEPTH, ROW_BLOCK};
use crate::product::DotProblem;
use std::ops::Range;

/// Minimum number of tasks of a large problem: enough to balance 16 threads.
const TASKS: usize = 32;
/// Minimum number of tasks of a large problem of few rows, which each read a long run of memory.
const TASKS_OF_FEW_ROWS: usize = 16;
/// Minimum number of columns of a task if columns are split for the number of tasks alone.
const LEAST_COLUMNS: usize = 64;
/// As [`TASKS`] and [`LEAST_COLUMNS`], if operands are rounded.
const ROUNDED: [usize; 2] = [16, 128];
/// Minimum work of a task, in floating-point operations: about 20 microseconds.
const TASK_WORK: f64 = 4e6;
/// Cost of reading or writing an element, in floating-point operations. It dominates in matrix-vector
/// products, which are memory-bound.
const WORK_PER_ELEMENT: f64 = 40.0;
/// Fixed cost of a task, in floating-point operations.
const TASK_OVERHEAD: f64 = 2.5e5;
/// Number of elements of a rounded operand that are read in the time in which an element of a part of a sum,
/// in f32, is written, read and added.
const ADDED: f64 = 4.0;
/// Unit in which columns are split: two of the widest vectors.
const COLUMN_UNIT: usize = 32;
/// Unit in which rows are split: the height of the tallest micro-kernel.
const ROW_UNIT: usize = STRIP;
/// Maximum number of columns of a task, whose packed panel fits a second-level cache, together with the rows
/// of a [depth block](super::DotPlan::depth_block).
const MOST_COLUMNS: usize = 256;
/// Maximum number of columns of a task whose operands are rounded to 16 bits.
const MOST_ROUNDED_COLUMNS: usize = 2 * MOST_COLUMNS;
/// Maximum number of rows of a task.
const MOST_ROWS: usize = 528;
/// Minimum number of rows of a task if rows are split.
const LEAST_ROWS: usize = 96;
/// Minimum number of rows of a task if rows are split and every task has to transpose its columns of the
/// right operand.
const LEAST_ROWS_OF_TRANSPOSED: usize = 256;
/// Maximum number of rows of a product that is bound by reading the right operand, which is fastest in long
/// runs.
pub const FEW_ROWS: usize = 4;
/// Maximum number of columns of a task with few rows.
const MOST_COLUMNS_OF_FEW_ROWS: usize = 4096;
/// Minimum length of a part of a split sum.
const LEAST_DEPTH: usize = 512;
/// Minimum length of a part of a split sum of few rows.
const LEAST_DEPTH_OF_FEW_ROWS: usize = 64;
/// Maximum number of parts of a split sum of few rows. It is low because a single thread adds the parts up.
const MOST_PARTS_OF_FEW_ROWS: usize = 8;

/// The part of a [`DotProblem`] that one thread computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DotTask {
    /// Range of products of the batch.
    pub products: Range<usize>,
    /// Range of rows of each product.
    pub rows: Range<usize>,
    /// Range of columns of each product.
    pub columns: Range<usize>,
    /// Index of the part of a split sum. Part 0 goes to the result, the others to the workspace.
    pub part: usize,
    /// Range of the contracted indices of that part.
    pub depth: Range<usize>,
}

/// Split of a [`DotProblem`] into groups of products, then panels of rows and of columns, then parts of the
/// sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DotSchedule {
    products: Split,
    rows: Split,
    columns: Split,
    depth: Split,
}

/// Split of `extent` indices into chunks of `size`, the last of which may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Split {
    extent: usize,
    size: usize,
}

impl Split {
    /// Splits an extent into about `pieces` equal chunks whose size is a multiple of `unit`.
    fn new(extent: usize, pieces: usize, unit: usize) -> Self {
        Self { extent, size: extent.div_ceil(pieces.max(1)).next_multiple_of(unit).max(1) }
    }

    fn pieces(self) -> usize {
        self.extent.div_ceil(self.size)
    }

    fn piece(self, index: usize) -> Range<usize> {
        index * self.size..((index + 1) * self.size).min(self.extent)
    }
}

impl DotSchedule {
    /// Creates the split of a problem. Sums are only split if `may_split_sums` is true.
    pub fn new(problem: &DotProblem, may_split_sums: bool) -> Self {
        let tasks = if problem.m <= FEW_ROWS { TASKS_OF_FEW_ROWS } else { TASKS };
        Self::into_tasks(problem, may_split_sums, [tasks, LEAST_COLUMNS])
    }

    /// Creates the split of a large problem into at least `tasks` tasks of at least `least_columns` columns.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time, of which the magnitude matters; floats that are too large saturate"
    )]
    fn into_tasks(problem: &DotProblem, may_split_sums: bool, [tasks, least_columns]: [usize; 2]) -> Self {
        let DotProblem { m, n, k, .. } = *problem;
        let products = problem.batch_count();
        let work = 2.0 * m as f64 * n as f64 * k as f64
            + WORK_PER_ELEMENT * (m as f64 * k as f64 + k as f64 * n as f64 + m as f64 * n as f64);
        let wanted = ((work * products as f64 / TASK_WORK) as usize).clamp(1, tasks);
        let panels = wanted.div_ceil(products.max(1));

        let most_columns = if m <= FEW_ROWS { MOST_COLUMNS_OF_FEW_ROWS } else { MOST_COLUMNS };
        // Reads rows of the right operand from end to end, so that memory is read in one long run.
        let long_runs = m <= FEW_ROWS && problem.rhs.free_stride == 1 && may_split_sums;
        // Splits columns so that there are enough panels with the minimum number of row chunks.
        let least_row_pieces = m.div_ceil(MOST_ROWS).max(1);
        let column_pieces = match long_runs {
            true => n.div_ceil(most_columns),
            false => {
                n.div_ceil(most_columns).max(panels.div_ceil(least_row_pieces).min(n.div_ceil(least_columns)))
            }
        };
        let columns = Split::new(n, column_pieces, COLUMN_UNIT);
        let least_rows = if problem.rhs.free_stride == 1 { LEAST_ROWS } else { LEAST_ROWS_OF_TRANSPOSED };
        let row_pieces =
            panels.div_ceil(columns.pieces().max(1)).min(m.div_ceil(least_rows)).max(least_row_pieces);
        let rows = Split::new(m, row_pieces, ROW_UNIT);

        let blocks = rows.pieces() * columns.pieces();
        let most_parts = match (may_split_sums, long_runs) {
            (false, _) => 1,
            (true, false) => (k / LEAST_DEPTH).max(1),
            (true, true) => (k / LEAST_DEPTH_OF_FEW_ROWS).clamp(1, MOST_PARTS_OF_FEW_ROWS),
        };
        let parts = (panels / blocks.max(1)).clamp(1, most_parts);
        let group = if blocks * parts == 1 { products.div_ceil(wanted) } else { 1 };
        Self {
            products: Split { extent: products, size: group.max(1) },
            rows,
            columns,
            depth: Split::new(k, parts, 1),
        }
    }

    /// Creates the split of a problem whose operands are rounded: the one with the least estimate of the time
    /// on many threads, of all with blocks of limited size. The estimate counts the arithmetic of the busiest
    /// thread, the elements that all tasks read from the operands, and those of parts of sums.
    pub fn of_rounded(problem: &DotProblem, may_split_sums: bool) -> Self {
        let DotProblem { m, n, k, .. } = *problem;
        let [most_tasks, _] = ROUNDED;
        let plain = Self::into_tasks(problem, may_split_sums, ROUNDED);
        let products = plain.products.pieces();
        if plain.tasks() <= products {
            return plain;
        }
        let threads = (plain.tasks() / products).min(most_tasks);
        let [rows, columns, depth] = [m, n, k].map(|extent| extent as f64);
        let cost = |split: &Self| {
            let block: f64 = split.largest_task()[1..].iter().map(|&extent| extent as f64).product();
            let tasks = split.tasks() / products;
            let [of_left, of_right] = split.readers().map(|readers| readers as f64);
            let added = ADDED * (split.parts() - 1) as f64 * rows * columns;
            let elements = rows * depth * of_left + depth * columns * of_right + added;
            let busiest = tasks.next_multiple_of(threads) as f64;
            2.0 * block * busiest + WORK_PER_ELEMENT * elements + TASK_OVERHEAD * tasks as f64
        };
        let sizes = |unit, extent: usize, most| {
            (1..=most / unit).map(move |i| i * unit).take_while(move |&size| size < extent + unit)
        };
        let most_parts = if may_split_sums { (k / LEAST_DEPTH).clamp(1, most_tasks) } else { 1 };
        let splits = sizes(ROW_BLOCK, m, MOST_ROWS).flat_map(|rows| {
            let columns = sizes(COLUMN_UNIT, n, MOST_ROUNDED_COLUMNS);
            columns.flat_map(move |columns| (1..=most_parts).map(move |parts| [rows, columns, parts]))
        });
        let splits = splits.map(|[rows, columns, parts]| {
            let split = Self {
                rows: Split { extent: m, size: rows },
                columns: Split { extent: n, size: columns },
                depth: Split::new(k, parts, ROUNDED_DEPTH),
                ..plain.clone()
            };
            (cost(&split), split)
        });
        splits.min_by(|a, b| a.0.total_cmp(&b.0)).expect("a product that is split has elements").1
    }

    /// Returns the number of tasks; 0 if there is nothing to write.
    pub fn tasks(&self) -> usize {
        self.products.pieces() * self.rows.pieces() * self.columns.pieces() * self.parts()
    }

    /// Returns the number of parts of each sum: 1 unless sums are split. An empty sum has one part of depth
    /// 0.
    pub fn parts(&self) -> usize {
        self.depth.pieces().max(1)
    }

    /// Returns the ranges of columns, each of which belongs to a column of tasks.
    pub fn column_pieces(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.columns.pieces()).map(|piece| self.columns.piece(piece))
    }

    /// Returns the ranges of contracted indices, one for each part of a sum.
    pub fn depth_pieces(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.depth.pieces()).map(|piece| self.depth.piece(piece))
    }

    /// Returns the number of tasks that read each element of the left operand, and of the right one.
    pub fn readers(&self) -> [usize; 2] {
        [self.columns.pieces(), self.rows.pieces()]
    }

    /// Returns the number of products, rows, columns and contracted indices of the largest task.
    pub fn largest_task(&self) -> [usize; 4] {
        [self.products, self.rows, self.columns, self.depth].map(|split| split.size.min(split.extent))
    }

    /// Returns the number of groups of tasks that share rows, or columns if the product is `transposed`.
    pub fn panels(&self, transposed: bool) -> usize {
        self.products.pieces() * if transposed { self.columns } else { self.rows }.pieces()
    }

    /// Returns the index of the group of tasks that share rows (or columns, if the product is `transposed`)
    /// with the task `index`.
    pub fn panel(&self, index: usize, transposed: bool) -> usize {
        let (index, rows) = (index / self.rows.pieces(), index % self.rows.pieces());
        let (index, columns) = (index / self.columns.pieces(), index % self.columns.pieces());
        let products = index / self.parts();
        match transposed {
            true => products * self.columns.pieces() + columns,
            false => products * self.rows.pieces() + rows,
        }
    }

    /// Returns the task with this index, which must be below [`DotSchedule::tasks`].
    pub fn task(&self, index: usize) -> DotTask {
        let (index, rows) = (index / self.rows.pieces(), index % self.rows.pieces());
        let (index, columns) = (index / self.columns.pieces(), index % self.columns.pieces());
        let (products, part) = (index / self.parts(), index % self.parts());
        DotTask {
            products: self.products.piece(products),
            rows: self.rows.piece(rows),
            columns: self.columns.piece(columns),
            part,
            depth: self.depth.piece(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::MatrixView;

    fn problem(
        batch: usize,
        [m, n, k]: [usize; 3],
        lhs_transposed: bool,
        rhs_transposed: bool,
    ) -> DotProblem {
        let view = |transposed, rows: usize, columns: usize| match transposed {
            false => MatrixView { offset: 0, free_stride: columns, contract_stride: 1 },
            true => MatrixView { offset: 0, free_stride: 1, contract_stride: rows },
        };
        let batch = crate::product::BatchAxis { extent: batch, lhs_stride: m * k, rhs_stride: k * n };
        let rhs = view(!rhs_transposed, n, k);
        DotProblem { batch: vec![batch], m, n, k, lhs: view(lhs_transposed, m, k), rhs }
    }

    #[test]
    fn tasks_cover_each_product_once() {
        let sizes = [1, 5, 64, 65, 300, 2000];
        for batch in [0, 1, 3, 40] {
            for (m, n) in sizes.iter().flat_map(|&m| sizes.map(|n| (m, n))) {
                for k in [1, 700, 6000] {
                    let problem = problem(batch, [m, n, k], m % 2 == 0, n % 2 == 0);
                    for may_split_sums in [true, false] {
                        let of_rounded = DotSchedule::of_rounded(&problem, may_split_sums);
                        for schedule in [DotSchedule::new(&problem, may_split_sums), of_rounded] {
                            assert!(may_split_sums || schedule.parts() == 1, "{problem:?}");
                            covers_once(&schedule, [batch, m, n, k]);
                        }
                    }
                }
            }
        }
    }

    fn covers_once(schedule: &DotSchedule, extents: [usize; 4]) {
        let mut done = 0;
        let mut ends = [0; 4];
        for task in (0..schedule.tasks()).map(|index| schedule.task(index)) {
            let ranges = [&task.products, &task.rows, &task.columns, &task.depth];
            done += ranges.iter().map(|range| range.len()).product::<usize>();
            ends = [0, 1, 2, 3].map(|i| ends[i].max(ranges[i].end));
        }
        assert_eq!(done, extents.iter().product::<usize>(), "{schedule:?}");
        assert!(done == 0 || ends == extents, "{schedule:?}");
    }

    #[test]
    fn splits_of_rounded_products_are_square_and_enough() {
        let split = |extents, may_split_sums| {
            let problem = problem(1, extents, true, false);
            let schedule = DotSchedule::of_rounded(&problem, may_split_sums);
            let pieces = [schedule.rows.pieces(), schedule.columns.pieces(), schedule.parts()];
            let plain = DotSchedule::into_tasks(&problem, may_split_sums, ROUNDED);
            (pieces, pieces.iter().product::<usize>() >= plain.tasks().min(ROUNDED[0]))
        };
        assert_eq!(split([8, 8, 8], true), ([1, 1, 1], true));
        // A square product is split in both directions rather than by columns alone.
        assert_eq!(split([1024, 1024, 1024], false), ([4, 4, 1], true));
        // The gradient of a weight has long sums: it is cheaper to add parts than to read operands again.
        let (pieces, enough) = split([384, 384, 8192], true);
        assert!(enough && pieces[2] > 1, "{pieces:?}");
        assert_eq!(split([384, 384, 8192], false).0[2], 1);
    }

    #[test]
    fn products_are_split_where_it_pays() {
        let tasks = |batch, extents, lhs_transposed, rhs_transposed| {
            let schedule = DotSchedule::new(&problem(batch, extents, lhs_transposed, rhs_transposed), true);
            (schedule.tasks(), schedule.parts())
        };
        // Too small to wake a thread for.
        assert_eq!(tasks(1, [8, 8, 8], false, false), (1, 1));
        // Split by columns alone.
        assert_eq!(tasks(1, [1024, 1024, 1024], false, false), (32, 1));
        // Small gradients of weights are split into blocks first, then along the sum.
        assert_eq!(tasks(1, [128, 128, 1024], true, false).1, 2);
        assert_eq!(tasks(1, [32, 32, 8192], true, false), (9, 9));
        // Each task computes several of the small products of a batch.
        assert_eq!(tasks(1000, [16, 16, 16], false, false), (9, 1));
        // A product of one row is split by columns if these are contiguous, else along the sum.
        assert_eq!(tasks(1, [1, 50257, 768], false, true), (16, 1));
        assert_eq!(tasks(1, [1, 3072, 768], false, false), (8, 8));
        assert_eq!(tasks(1, [1, 768, 64], false, false), (1, 1));
    }
}
