//! Split of a fused loop into tasks, and the scratch for their partial results.
//!
//! In: a [`Body`]. Out: a [`LoopSchedule`], which cuts the body's positions into rectangles, each of which is
//! computed by one thread. Invariants: everything is a function of the body alone. Rows stay whole if they
//! are reduced. Columns that are reduced are cut into at most [`COLUMN_PARTS`] ranges of rows, whose partial
//! results are combined in order. These ranges depend only on the body's extents, so that sums of columns
//! have the same bits whatever else the body computes, for example values that are recomputed to save memory.

use gradloom_core::ir::{CostClass, DType, ReduceOp};
use gradloom_core::kernel::{Body, Level, NodeKind, Store};
use std::ops::Range;

/// Maximum number of ranges of rows if [`Store::ColumnReduce`] combines them.
const COLUMN_PARTS: usize = 16;
/// Minimum number of rows of such a range: partial results are then a small part of what is read.
const PART_ROWS: usize = 16;
/// Nominal cost of a position of a body that reduces columns, in nanoseconds.
const COLUMN_COST: usize = 1;
/// Maximum number of tasks: enough to balance the threads of a large machine.
const TASKS: usize = 64;
/// Minimum cost of a task, in nanoseconds of one core.
const TASK_COST: usize = 16_000;
/// Unit in which columns are split: some cache lines.
const COLUMN_UNIT: usize = 256;
/// Alignment of partial results, in bytes: a cache line.
const LINE: usize = 64;
/// Maximum number of rows whose sums of columns are accumulated in f32. Sums of more rows have totals in f64,
/// whose rounding errors are not visible in f32: a sum of positive numbers has a relative error of at most
/// 1e-6, regardless of their number.
pub const LEAF_ROWS: usize = 32;

/// Split of a fused loop into chunks of rows and chunks of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopSchedule {
    rows: usize,
    columns: usize,
    row_piece: usize,
    column_piece: usize,
    cost: usize,
}

impl LoopSchedule {
    /// Creates the split of a body.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time, of which the magnitude matters; floats that are too large saturate"
    )]
    pub fn new(body: &Body) -> Self {
        let (rows, columns) = (body.rows, body.columns);
        let total = (cost_of_position(body) * rows as f64 * columns as f64 + cost_of_row(body) * rows as f64)
            as usize;
        let wanted = (total / TASK_COST).clamp(1, TASKS);
        let reduces_columns = body.stores.iter().any(|store| matches!(store, Store::ColumnReduce { .. }));
        // A single task writes a row's results, because they may overwrite operands that the whole row reads.
        let stores_rows =
            body.stores.iter().any(|store| matches!(store, Store::Value { level: Level::Row, .. }));
        let most_columns = match body.has_row_reductions() || stores_rows {
            true => 1,
            false => columns / COLUMN_UNIT,
        };
        let row_pieces = match reduces_columns {
            true => (rows.saturating_mul(columns).saturating_mul(COLUMN_COST) / TASK_COST)
                .min(rows / PART_ROWS)
                .clamp(1, COLUMN_PARTS),
            false => wanted.min(rows).max(1),
        };
        let column_pieces = (wanted / row_pieces).min(most_columns).max(1);
        let column_piece = match column_pieces {
            1 => columns,
            pieces => columns.div_ceil(pieces).next_multiple_of(COLUMN_UNIT),
        };
        let schedule = Self {
            rows,
            columns,
            row_piece: rows.div_ceil(row_pieces).max(1),
            column_piece: column_piece.max(1),
            cost: 0,
        };
        Self { cost: total / schedule.tasks(), ..schedule }
    }

    /// Returns the number of ranges of rows; at least 1.
    pub fn row_pieces(&self) -> usize {
        self.rows.div_ceil(self.row_piece).max(1)
    }

    /// Returns the number of tasks. It is at least 1, even if the body has no positions; the task is empty
    /// then.
    pub fn tasks(&self) -> usize {
        self.row_pieces() * self.columns.div_ceil(self.column_piece).max(1)
    }

    /// Returns the index of a task's range of rows, the rows, and the columns. `index` must be below
    /// [`LoopSchedule::tasks`].
    pub fn task(&self, index: usize) -> (usize, Range<usize>, Range<usize>) {
        let (column, row) = (index / self.row_pieces(), index % self.row_pieces());
        let piece = |index: usize, size: usize, extent: usize| index * size..((index + 1) * size).min(extent);
        (row, piece(row, self.row_piece, self.rows), piece(column, self.column_piece, self.columns))
    }

    /// Returns the approximate cost of a task, in nanoseconds of one core.
    pub fn cost(&self) -> usize {
        self.cost
    }
}

/// Returns the number of bytes that one range of rows keeps for a store until all ranges are done, a multiple
/// of a cache line. A [`Store::ColumnReduce`] has a partial result for each column, followed by the totals,
/// if any ([`column_total`]). A uniform result has room for one element, and other results need no bytes.
pub fn partial_bytes(body: &Body, store: &Store) -> usize {
    let partials = (4 * body.columns).next_multiple_of(LINE);
    match store {
        Store::ColumnReduce { .. } if column_total(body, store).is_some() => {
            partials + (8 * body.columns).next_multiple_of(LINE)
        }
        Store::ColumnReduce { .. } => partials,
        Store::Value { level: Level::Uniform, .. } => LINE,
        Store::Value { .. } => 0,
    }
}

/// Returns the number of bytes from the partial results of a store to its totals in f64. Returns `None`
/// unless the store is a sum of floats over more than [`LEAF_ROWS`] rows.
pub fn column_total(body: &Body, store: &Store) -> Option<usize> {
    match *store {
        Store::ColumnReduce { op: ReduceOp::Sum, node, .. }
            if body.rows > LEAF_ROWS && body.node(node).dtype == DType::F32 =>
        {
            Some((4 * body.columns).next_multiple_of(LINE))
        }
        _ => None,
    }
}

/// Returns the number of bytes of the partial results of one range of rows.
pub fn column_partials(body: &Body) -> usize {
    body.stores.iter().map(|store| partial_bytes(body, store)).sum()
}

/// Returns the number of bytes of scratch that a fused loop needs.
pub fn loop_workspace(body: &Body) -> usize {
    LoopSchedule::new(body).row_pieces() * column_partials(body)
}

/// Returns the approximate time of a position, in nanoseconds, for memory accesses and arithmetic.
fn cost_of_position(body: &Body) -> f64 {
    let nodes = body.nodes.iter().filter(|node| node.level == Level::Element).map(|node| cost(&node.kind));
    let stores = body.stores.iter().map(|store| match store {
        Store::Value { level: Level::Element, .. } => 0.3,
        Store::Value { .. } => 0.0,
        Store::ColumnReduce { .. } => 0.1,
    });
    let reductions = body.nodes.iter().filter(|node| matches!(node.kind, NodeKind::Reduce(..)));
    nodes.chain(stores).sum::<f64>() + 0.1 * reductions.count() as f64
}

/// Returns the approximate time of a row without its positions, in nanoseconds.
fn cost_of_row(body: &Body) -> f64 {
    let nodes = body.nodes.iter().filter(|node| node.level == Level::Row);
    nodes.map(|node| if matches!(node.kind, NodeKind::Reduce(..)) { 10.0 } else { cost(&node.kind) }).sum()
}

fn cost(kind: &NodeKind) -> f64 {
    match kind {
        NodeKind::Constant(_) | NodeKind::Repeat(_) => 0.0,
        NodeKind::Load(_) => 0.3,
        NodeKind::Unary(op, _) => cost_of_class(op.cost_class()),
        NodeKind::Binary(op, _) => cost_of_class(op.cost_class()),
        NodeKind::Accumulator
        | NodeKind::Column
        | NodeKind::Compare(..)
        | NodeKind::Select(_)
        | NodeKind::Cast(_)
        | NodeKind::CheckIndex { .. }
        | NodeKind::CheckDivisor(_)
        | NodeKind::Reduce(..) => 0.06,
    }
}

fn cost_of_class(class: CostClass) -> f64 {
    match class {
        CostClass::Simple => 0.06,
        CostClass::Divide => 0.2,
        CostClass::Function => 0.6,
        CostClass::Branches | CostClass::Loop => 3.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_core::ir::{BinaryOp, DType, ReduceOp, UnaryOp};
    use gradloom_core::kernel::{Node, NodeId};

    /// Returns a body that adds two operands and reduces rows, columns, both or neither.
    fn body(rows: usize, columns: usize, reduces_rows: bool, reduces_columns: bool) -> Body {
        let node = |kind, level| Node { kind, dtype: DType::F32, level };
        let mut nodes = vec![
            node(NodeKind::Load(0), Level::Element),
            node(NodeKind::Load(1), Level::Element),
            node(NodeKind::Binary(BinaryOp::Add, [NodeId(0), NodeId(1)]), Level::Element),
        ];
        let mut stores = vec![Store::Value { node: NodeId(2), level: Level::Element, write: 0 }];
        if reduces_rows {
            nodes.push(node(NodeKind::Reduce(ReduceOp::Sum, NodeId(2)), Level::Row));
            stores.push(Store::Value { node: NodeId(3), level: Level::Row, write: 1 });
        }
        if reduces_columns {
            stores.push(Store::ColumnReduce {
                op: ReduceOp::Sum,
                node: NodeId(2),
                write: stores.len(),
                parts: 1,
            });
        }
        Body { rows, columns, nodes, stores }
    }

    #[test]
    fn tasks_cover_each_position_once() {
        for (rows, columns) in
            [0, 1, 7, 300, 5000].into_iter().flat_map(|r| [0, 1, 64, 1000, 200_000].map(|c| (r, c)))
        {
            for (reduces_rows, reduces_columns) in
                [(false, false), (true, false), (false, true), (true, true)]
            {
                let body = body(rows, columns, reduces_rows, reduces_columns);
                let schedule = LoopSchedule::new(&body);
                let (mut positions, mut last) = (0, (0, 0));
                for (piece, rows, columns) in (0..schedule.tasks()).map(|index| schedule.task(index)) {
                    assert!(piece < schedule.row_pieces());
                    assert!(!reduces_rows || columns == (0..body.columns));
                    positions += rows.len() * columns.len();
                    last = (last.0.max(rows.end), last.1.max(columns.end));
                }
                assert_eq!((positions, last), (rows * columns, (rows, columns)));
                assert_eq!(loop_workspace(&body), schedule.row_pieces() * column_partials(&body));
                assert!(!reduces_columns || schedule.row_pieces() <= COLUMN_PARTS);
            }
        }
    }

    #[test]
    fn ranges_of_summed_rows_do_not_depend_on_the_rest_of_the_body() {
        for (rows, columns) in [(1, 5), (64, 64), (512, 32), (4096, 128), (33, 200_000), (100_000, 1)] {
            let mut bodies = [false, true].map(|reduces_rows| body(rows, columns, reduces_rows, true));
            for function in [UnaryOp::Exp, UnaryOp::Sin] {
                let node = Node {
                    kind: NodeKind::Unary(function, NodeId(0)),
                    dtype: DType::F32,
                    level: Level::Element,
                };
                bodies[0].nodes.extend(vec![node; 20]);
            }
            let ranges = bodies.map(|body| {
                let schedule = LoopSchedule::new(&body);
                let mut rows: Vec<_> = (0..schedule.tasks()).map(|index| schedule.task(index).1).collect();
                rows.dedup();
                rows.truncate(schedule.row_pieces());
                rows
            });
            assert_eq!(ranges[0], ranges[1], "{rows} x {columns}");
        }
    }

    #[test]
    fn work_is_split_where_it_pays() {
        let tasks = |rows, columns, reduces_rows| {
            LoopSchedule::new(&body(rows, columns, reduces_rows, false)).tasks()
        };
        assert_eq!(tasks(1, 100, false), 1);
        assert_eq!(tasks(64, 64, true), 1);
        // One long row is cut, unless it is reduced.
        assert_eq!(tasks(1, 10_000_000, true), 1);
        assert_eq!(tasks(1, 10_000_000, false), TASKS);
        assert_eq!(tasks(10_000, 768, true), TASKS);
    }
}
