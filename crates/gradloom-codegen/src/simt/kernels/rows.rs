//! Fused expressions with reductions: along rows, by several lanes of a workgroup, and across rows, with
//! partial results that a second kernel combines.
//!
//! In: a body and its [`RowSchedule`]. Out: its kernels. Invariants: the order in which elements are combined
//! depends only on the body and the schedule; all invocations reach each barrier.

use super::super::ir::{Kernel, Role};
use super::body::{Nodes, Operands, Position, checks_of, stores_of};
use super::columns::{Column, ColumnSums, LEAF, MOST_IN_A_ROW, columns_of, finish, in_halves};
use super::{Builder, Value, Views};
use crate::narrow::narrow;
use gradloom_core::ir::{DType, ReduceOp};
use gradloom_core::kernel::{Body, Level, NodeId, NodeKind, RowSchedule};

/// Returns the kernels of a body with reductions.
pub(super) fn rows(views: &Views<'_>, body: &Body, schedule: &RowSchedule, label: &str) -> Vec<Kernel> {
    let mut kernels = Vec::new();
    if schedule.groups > 0 {
        let k = Builder::new(label, narrow(schedule.workgroup()), schedule.groups * schedule.blocks);
        Rows::new(&k, views, body, schedule).write();
        kernels.push(k.finish());
    }
    if let Some(sharing) = schedule.finishing.filter(|_| body.columns > 0) {
        kernels.push(finish(views, body, schedule, sharing, label));
    }
    kernels
}

/// Minimum number of partial results of a row that a subgroup combines with a reduction across its lanes.
/// Each lane combines fewer results alone.
const MANY_SUBGROUPS: u32 = 8;

/// Reduction along rows: its node, its op, the operand node, and its dtype.
type Reduction = (NodeId, ReduceOp, NodeId, DType);

/// First kernel, under construction.
struct Rows<'k, 'b> {
    k: &'k Builder,
    views: &'b Views<'b>,
    body: &'b Body,
    schedule: &'b RowSchedule,
    nodes: Nodes<'k, 'b>,
    /// Depth of each node, which is the maximum number of reductions on a path to it.
    depths: Vec<usize>,
    /// Shared arrays, by dtype, purpose, and number.
    arrays: Vec<((DType, Purpose, usize), u32)>,
    /// Index of the workgroup along the rows.
    group: Value<'k>,
    /// True if the workgroup is the first along the columns; `None` if there is only one.
    is_first_block: Option<Value<'k>>,
    lane: Value<'k>,
    /// Index of the invocation's row among those that the workgroup processes concurrently.
    slot: Value<'k>,
    /// The invocation's columns, if they are unrolled, each with a condition that is true if the column
    /// exists; `None` if it always does.
    unrolled: Vec<(Value<'k>, Option<Value<'k>>)>,
    /// First column of each group of four positions, if positions are processed in groups of four.
    firsts: Vec<Value<'k>>,
}

/// Purpose of a shared array.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Reductions along rows of an odd depth.
    Odd,
    /// Reductions along rows of an even depth.
    Even,
    /// Sums of columns.
    Columns,
}

/// One of an invocation's positions in a row.
#[derive(Clone, Copy)]
struct LanePlace<'k> {
    position: Position<'k>,
    /// True if the column exists; `None` if it always does.
    inside: Option<Value<'k>>,
    which: Which<'k>,
    /// Results to store at this position.
    stored: Stored,
}

/// Results to store at a position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stored {
    /// Results of this position.
    Own,
    /// Results of the group of four positions that ends here.
    Four,
    /// No results, because the position is not the last of its group of four.
    Later,
}

/// Row that an invocation processes in one iteration.
#[derive(Clone, Copy)]
struct TurnRow<'k> {
    number: Value<'k>,
    /// True if the row exists; `None` if it always does.
    live: Option<Value<'k>>,
    /// Index of the row among those of its slot, if there are several.
    step: Option<Value<'k>>,
    /// Index of its first position among those of the rows that are in progress.
    at: usize,
}

impl<'k, 'b> Rows<'k, 'b> {
    fn new(k: &'k Builder, views: &'b Views<'b>, body: &'b Body, schedule: &'b RowSchedule) -> Self {
        let depths = body.reduction_depths();
        let lanes = narrow(schedule.lanes);
        let (lane, slot) = (k.local() % lanes, k.local() / lanes);
        let blocks = narrow(schedule.blocks);
        let (group, block) = match schedule.blocks {
            0 | 1 => (k.group(), None),
            _ => (k.group() / blocks, Some(k.group() % blocks)),
        };
        let own = schedule.lanes * schedule.each;
        let first = block.map_or(lane, |block| lane + block * narrow(own));
        let mut unrolled = Vec::new();
        let mut firsts = Vec::new();
        if schedule.is_unrolled() && schedule.fours {
            let first = block.map_or(lane, |block| lane + block * lanes * narrow(schedule.each / 4));
            for number in 0..schedule.each / 4 {
                let at = (first + narrow(number * schedule.lanes)) * 4;
                let end = own * (schedule.blocks - 1) + (number + 1) * schedule.lanes * 4;
                let (at, inside) = match end > body.columns {
                    true => {
                        let last = k.u32(narrow(body.columns - 4));
                        (at.min(last), Some(at.below(narrow(body.columns))))
                    }
                    false => (at, None),
                };
                firsts.push(at);
                unrolled.extend((0..4).map(|i| (at + i, inside)));
            }
        } else if schedule.is_unrolled() {
            for number in 0..schedule.each {
                let column = first + narrow(number * schedule.lanes);
                let end = own * (schedule.blocks - 1) + (number + 1) * schedule.lanes;
                let is_ragged = end > body.columns;
                unrolled.push(match is_ragged {
                    true => {
                        let last = k.u32(narrow(body.columns - 1));
                        (column.min(last), Some(column.below(narrow(body.columns))))
                    }
                    false => (column, None),
                });
            }
        }
        let mut nodes = Nodes::new(k, body, Operands::Views(views));
        if let Some(read) = schedule.kept {
            nodes.keep(read);
        }
        let is_first_block = block.map(|block| block.equals(k.u32(0)));
        let arrays = Vec::new();
        Self {
            k,
            views,
            body,
            schedule,
            nodes,
            depths,
            arrays,
            group,
            is_first_block,
            lane,
            slot,
            unrolled,
            firsts,
        }
    }

    fn write(mut self) {
        let (k, steps) = (self.k, narrow(self.schedule.steps));
        let zero = k.u32(0);
        let owned = self.is_first();
        let position = Position { row: zero, column: zero, number: None, owned: Some(owned) };
        self.nodes.check(Level::Uniform, position);
        for id in self.body.ids() {
            if self.body.node(id).level == Level::Uniform {
                self.nodes.compute(id, position);
            }
        }
        let sums = ColumnSums::new(k, self.body, self.schedule);
        if self.schedule.steps > MOST_IN_A_ROW && self.sums_floats() {
            self.turns_in_parts(&sums, zero, self.schedule.steps);
        } else if steps > 1 {
            self.turns(&sums, zero, k.u32(steps));
        } else {
            self.turn(&sums, None);
        }
        self.store_partials(&sums);
    }

    /// Appends a loop over the steps from `first` to `end`.
    fn turns(&mut self, sums: &ColumnSums<'k>, first: Value<'k>, end: Value<'k>) {
        self.k.count(first, end, self.k.u32(narrow(self.schedule.ahead)), |step| self.turn(sums, Some(step)));
    }

    /// Appends a loop over up to `count` iterations from `first` on, whose sums are added hierarchically.
    fn turns_in_parts(&mut self, sums: &ColumnSums<'k>, first: Value<'k>, count: usize) {
        let k = self.k;
        let end = (first + narrow(count)).min(k.u32(narrow(self.schedule.steps)));
        if count <= MOST_IN_A_ROW {
            return self.turns(sums, first, end);
        }
        let mut part = MOST_IN_A_ROW;
        while part * LEAF < count {
            part *= LEAF;
        }
        let sums_of_part = ColumnSums::new(k, self.body, self.schedule);
        k.count(first, end, k.u32(narrow(part)), |first| {
            self.turns_in_parts(&sums_of_part, first, part);
            sums.take(k, self.body, self.schedule, &sums_of_part);
        });
    }

    /// Returns `true` if a float sum is computed across rows.
    fn sums_floats(&self) -> bool {
        columns_of(self.body).iter().any(Column::is_float_sum)
    }

    /// Returns a bool that is true in a single invocation of the grid, which computes uniform nodes.
    fn is_first(&self) -> Value<'k> {
        let zero = self.k.u32(0);
        self.k.group().equals(zero) & self.k.local().equals(zero)
    }

    /// Appends the processing of the rows of one iteration.
    fn turn(&mut self, sums: &ColumnSums<'k>, step: Option<Value<'k>>) {
        let rows: Vec<TurnRow<'k>> = (0..self.schedule.ahead).map(|i| self.turn_row(step, i)).collect();
        if self.schedule.is_unrolled() && step.is_none() {
            self.load_early(rows[0]);
        }
        let depth = self.depths.iter().max().copied().unwrap_or(0);
        for &row in &rows {
            self.nodes.begin_row(row.at);
            for depth in 1..=depth {
                self.reduce(row, depth);
            }
            self.row_nodes(row, depth);
            self.compute_row(row);
        }
        for row in rows {
            self.nodes.begin_row(row.at);
            self.finish_row(row, sums);
        }
    }

    /// Returns row `i` of an iteration.
    fn turn_row(&self, step: Option<Value<'k>>, i: usize) -> TurnRow<'k> {
        let RowSchedule { slots, steps, groups, each, .. } = *self.schedule;
        let step = step.map(|step| if i == 0 { step } else { step + narrow(i) });
        let turn = match step {
            Some(step) => self.group * narrow(steps) + step,
            None => self.group,
        };
        let raw = if slots > 1 { turn * narrow(slots) + self.slot } else { turn };
        let rows = narrow(self.body.rows);
        let (number, live) = match slots * steps * groups > self.body.rows {
            true => (raw.min(self.k.u32(rows - 1)), Some(raw.below(rows))),
            false => (raw, None),
        };
        TurnRow { number, live, step, at: i * each }
    }

    /// Loads operands that may be loaded before the preceding kernels have completed: weights of norms, and
    /// biases.
    fn load_early(&mut self, row: TurnRow<'k>) {
        let is_early = |id: &NodeId| {
            let node = self.body.node(*id);
            let of_store = matches!(node.kind, NodeKind::Load(read) if self.views.reads[read].is_early);
            of_store && node.level == Level::Element
        };
        let loads: Vec<NodeId> = self.body.ids().filter(is_early).collect();
        if !loads.is_empty() {
            self.for_each(row, &mut |nodes, place| {
                loads.iter().for_each(|&load| _ = nodes.compute(load, place.position));
            });
        }
    }

    /// Returns the position for results of a row, which one of its invocations owns.
    fn row_position(&self, row: TurnRow<'k>) -> Position<'k> {
        let zero = self.k.u32(0);
        let first = self.lane.equals(zero);
        let first = self.is_first_block.map_or(first, |block| block & first);
        let owned = Some(row.live.map_or(first, |live| first & live));
        Position { row: row.number, column: zero, number: None, owned }
    }

    /// Runs `f` for each of the invocation's positions: unrolled, or in a loop, in which nodes of level
    /// `Element` are valid for one iteration.
    fn for_each(&mut self, row: TurnRow<'k>, f: &mut dyn FnMut(&mut Nodes<'k, 'b>, LanePlace<'k>)) {
        let both = |a: Option<Value<'k>>, b: Option<Value<'k>>| match (a, b) {
            (Some(a), Some(b)) => Some(a & b),
            (a, b) => a.or(b),
        };
        let at = |column, owned| Position { row: row.number, column, number: None, owned };
        if self.schedule.is_unrolled() {
            for (i, (column, inside)) in self.unrolled.clone().into_iter().enumerate() {
                let owned = both(inside, row.live);
                let stored = if let Some(&first) = self.firsts.get(i / 4) {
                    self.nodes.turn_to_four(row.at + i, at(first, owned));
                    if i % 4 == 3 { Stored::Four } else { Stored::Later }
                } else {
                    self.nodes.turn_to(row.at + i);
                    Stored::Own
                };
                let position = at(column, owned);
                f(&mut self.nodes, LanePlace { position, inside, which: Which::Unrolled(i), stored });
            }
            self.nodes.turn_to_single();
            return;
        }
        let (columns, lanes) = (narrow(self.body.columns), narrow(self.schedule.lanes));
        let single = |position| LanePlace {
            position,
            inside: None,
            which: Which::Turn(position.column / lanes),
            stored: Stored::Own,
        };
        if self.schedule.fours {
            let whole = columns / 4 * 4;
            self.k.count(self.lane * 4, self.k.u32(whole), self.k.u32(lanes * 4), |first| {
                for i in 0..4 {
                    self.nodes.turn_to_four(i, at(first, row.live));
                    let stored = if i == 3 { Stored::Four } else { Stored::Later };
                    let place = single(at(first + narrow(i), row.live));
                    f(&mut self.nodes, LanePlace { stored, ..place });
                }
            });
            self.nodes.turn_to_single();
            self.nodes.forget(Level::Element);
            if columns > whole {
                self.k.when(self.lane.below(columns - whole), || {
                    f(&mut self.nodes, single(at(self.lane + whole, row.live)));
                });
                self.nodes.forget(Level::Element);
            }
            self.nodes.end_pass();
            return;
        }
        self.k.count(self.lane, self.k.u32(columns), self.k.u32(lanes), |column| {
            f(&mut self.nodes, single(at(column, row.live)));
        });
        self.nodes.forget(Level::Element);
    }

    /// Appends the reductions of a depth.
    fn reduce(&mut self, row: TurnRow<'k>, depth: usize) {
        let all: Vec<Reduction> = self
            .body
            .ids()
            .filter_map(|id| match self.body.node(id).kind {
                NodeKind::Reduce(op, operand) if self.depths[id.index()] == depth => {
                    Some((id, op, operand, self.body.node(id).dtype))
                }
                _ => None,
            })
            .collect();
        // Compute these nodes before the loop, so that later loops can use them, too.
        self.row_nodes(row, depth - 1);
        let k = self.k;
        let sums: Vec<_> = all.iter().map(|&(_, op, _, dtype)| k.var(k.identity(op, dtype))).collect();
        self.for_each(row, &mut |nodes, LanePlace { position, inside, .. }| {
            for (&(_, op, operand, dtype), sum) in all.iter().zip(&sums) {
                let value = nodes.compute(operand, position);
                let value = inside.map_or(value, |inside| inside.select(value, k.identity(op, dtype)));
                sum.set(sum.get().combine(op, value));
            }
        });
        let shares: Vec<Value<'k>> = sums.iter().map(|sum| sum.get()).collect();
        for (&(id, ..), value) in all.iter().zip(self.across_lanes(&all, shares, depth)) {
            self.nodes.set(id, value);
        }
    }

    /// Combines the lanes' partial results of each reduction of a depth. Odd and even depths have different
    /// shared arrays: before an array is written again, all invocations have passed a barrier of the depth
    /// between. If the last depth is odd, it has the arrays of the first depth of the next row.
    fn across_lanes(
        &mut self,
        all: &[Reduction],
        mut shares: Vec<Value<'k>>,
        depth: usize,
    ) -> Vec<Value<'k>> {
        let (k, lanes, together) = (self.k, self.schedule.lanes, self.schedule.together());
        // Combine within subgroups first, which leaves one partial result of a row per subgroup.
        if let Some(size) = self.schedule.subgroup {
            for (share, &(_, op, ..)) in shares.iter_mut().zip(all) {
                *share = share.across_subgroup(op, together, size);
            }
        }
        if together == lanes {
            return shares;
        }
        let purpose = if depth.is_multiple_of(2) { Purpose::Even } else { Purpose::Odd };
        let arrays: Vec<u32> =
            all.iter().enumerate().map(|(number, &(.., dtype))| self.array(dtype, purpose, number)).collect();
        let results = match together {
            1 => self.across_invocations(all, &arrays, &shares),
            _ => self.across_subgroups(all, &arrays, &shares),
        };
        let is_last = self.depths.iter().max() == Some(&depth);
        if is_last && purpose == Purpose::Odd && self.schedule.steps > 1 {
            k.barrier();
        }
        results
    }

    /// Combines the partial results of a row's invocations through shared memory.
    fn across_invocations(&self, all: &[Reduction], arrays: &[u32], shares: &[Value<'k>]) -> Vec<Value<'k>> {
        let (k, lanes) = (self.k, self.schedule.lanes);
        for (&share, &array) in shares.iter().zip(arrays) {
            k.set_element(array, k.local(), share);
        }
        k.barrier();
        k.halve(narrow(lanes / 2), |half| {
            k.when(self.lane.less(half), || {
                for (&(_, op, ..), &array) in all.iter().zip(arrays) {
                    let other = k.element(array, k.local() + half);
                    k.set_element(array, k.local(), k.element(array, k.local()).combine(op, other));
                }
            });
            k.barrier();
        });
        arrays.iter().map(|&array| k.element(array, self.slot * narrow(lanes))).collect()
    }

    /// Combines the partial results of a row's subgroups through shared memory.
    fn across_subgroups(&self, all: &[Reduction], arrays: &[u32], shares: &[Value<'k>]) -> Vec<Value<'k>> {
        let (k, size) = (self.k, narrow(self.schedule.together()));
        let count = narrow(self.schedule.lanes) / size;
        k.when((self.lane % size).equals(k.u32(0)), || {
            for (&share, &array) in shares.iter().zip(arrays) {
                k.set_element(array, k.local() / size, share);
            }
        });
        k.barrier();
        let result = |(&(_, op, ..), &array): (&Reduction, &u32)| {
            let first = self.slot * count;
            if (MANY_SUBGROUPS..=size).contains(&count) {
                let share = k.element(array, first + self.lane % count);
                return share.across_subgroup(op, count as usize, size);
            }
            let share = |i| k.element(array, first + i);
            (1..count).fold(share(0), |sum, i| sum.combine(op, share(i)))
        };
        all.iter().zip(arrays).map(result).collect()
    }

    /// Returns the shared array for a dtype, a purpose, and the index of a reduction among those combined at
    /// the same time.
    fn array(&mut self, dtype: DType, purpose: Purpose, number: usize) -> u32 {
        let key = (dtype, purpose, number);
        if let Some(&(_, array)) = self.arrays.iter().find(|(known, _)| *known == key) {
            return array;
        }
        let array = self.k.shared(dtype, narrow(self.schedule.workgroup()));
        self.arrays.push((key, array));
        array
    }

    /// Computes the nodes of level `Row` that depend on exactly `depth` reductions.
    fn row_nodes(&mut self, row: TurnRow<'k>, depth: usize) {
        let position = self.row_position(row);
        for id in self.body.ids() {
            let node = self.body.node(id);
            if node.level == Level::Row
                && self.depths[id.index()] == depth
                && !matches!(node.kind, NodeKind::Reduce(..))
            {
                self.nodes.compute(id, position);
            }
        }
    }

    /// Returns the nodes that a row's results and sums of columns depend on directly, and the checks.
    fn wanted(&self) -> Vec<NodeId> {
        let stores = stores_of(self.body, Level::Element).into_iter().map(|(node, _)| node);
        let columns = columns_of(self.body).into_iter().map(|column| column.node);
        stores.chain(columns).chain(checks_of(self.body, Level::Element)).collect()
    }

    /// Computes all positions of a row if they are unrolled. This precedes the first store, because a result
    /// may alias an operand.
    fn compute_row(&mut self, row: TurnRow<'k>) {
        let wanted = self.wanted();
        if self.schedule.is_unrolled() && !wanted.is_empty() {
            self.for_each(row, &mut |nodes, place| {
                wanted.iter().for_each(|&node| _ = nodes.compute(node, place.position));
            });
        }
    }

    /// Stores the results of a row, and adds its elements to the column sums.
    fn finish_row(&mut self, row: TurnRow<'k>, sums: &ColumnSums<'k>) {
        let (k, body, views) = (self.k, self.body, self.views);
        let stores = stores_of(body, Level::Element);
        let columns = columns_of(body);
        let wanted = self.wanted();
        if !wanted.is_empty() {
            self.for_each(row, &mut |nodes, LanePlace { position, which, stored, .. }| {
                wanted.iter().for_each(|&node| _ = nodes.compute(node, position));
                for column in &columns {
                    let value = nodes.compute(column.node, position);
                    let value = position.owned.map_or(value, |owned| owned.select(value, column.identity(k)));
                    sums.add(k, column, which, value);
                }
                if !stores.is_empty() && stored != Stored::Later {
                    k.guard([position.owned, views.gate(k)], || {
                        for &(node, write) in &stores {
                            match stored {
                                Stored::Four => nodes.store_four(node, write, position),
                                _ => nodes.store(node, write, Level::Element, position),
                            }
                        }
                    });
                }
            });
        }
        let position = self.row_position(row);
        let first = row.step.map(|step| step.equals(k.u32(0)));
        for (level, conditions) in
            [(Level::Row, [position.owned, None]), (Level::Uniform, [Some(self.is_first()), first])]
        {
            let stores = stores_of(body, level);
            if !stores.is_empty() {
                k.guard([conditions[0], conditions[1], views.gate(k)], || {
                    stores.iter().for_each(|&(node, write)| self.nodes.store(node, write, level, position));
                });
            }
        }
    }

    /// Stores the workgroup's sum of each column, added over its slots in order. The destination is the
    /// result, or the scratch memory if a second kernel combines the sums.
    fn store_partials(&mut self, sums: &ColumnSums<'k>) {
        let (k, schedule, columns) = (self.k, self.schedule, narrow(self.body.columns));
        let (lanes, slots) = (narrow(schedule.lanes), narrow(schedule.slots));
        if columns == 0 {
            return;
        }
        for column in columns_of(self.body) {
            let target = column.target(self.views, self.body, schedule);
            let gate = self.views.gate(k).filter(|_| matches!(target.0, Role::Result(_)));
            let array = if slots > 1 { self.array(column.dtype, Purpose::Columns, 0) } else { 0 };
            let lane = self.lane;
            let halved = schedule.slots > LEAF && column.is_float_sum();
            let store = |at: Value<'k>, which: Which<'k>, inside: Option<Value<'k>>| {
                let own = sums.get(k, &column, which);
                if slots > 1 {
                    k.set_element(array, k.local(), own);
                    k.barrier();
                }
                if halved {
                    in_halves(k, column.op, array, self.slot, [schedule.slots, schedule.lanes]);
                }
                let is_first = (slots > 1).then(|| self.slot.equals(k.u32(0)));
                k.guard([is_first, inside, gate], || {
                    let all = k.var(if halved { k.element(array, k.local()) } else { own });
                    if slots > 1 && !halved {
                        k.count(k.u32(1), k.u32(slots), k.u32(1), |other| {
                            let share = k.element(array, other * lanes + lane);
                            all.set(all.get().combine(column.op, share));
                        });
                    }
                    let index = match schedule.groups {
                        1 => super::super::index_at(k, self.views.writes[column.write].layout, at),
                        _ => self.group * columns + at,
                    };
                    k.store(k.buffer(target.0, target.1), index, all.get());
                });
                if slots > 1 {
                    k.barrier();
                }
            };
            if schedule.is_unrolled() {
                for (i, &(at, inside)) in self.unrolled.iter().enumerate() {
                    store(at, Which::Unrolled(i), inside);
                }
                continue;
            }
            // A lane has many positions. All invocations reach the barriers in the loop: either there is one
            // slot, and therefore no barrier, or there is one lane, and all slots run the same number of
            // iterations.
            k.count(lane, k.u32(columns), k.u32(lanes), |at| store(at, Which::Turn(at / lanes), None));
        }
    }
}

/// One of an invocation's positions in a row, selected by a constant or by the iteration of a loop.
#[derive(Clone, Copy)]
pub(super) enum Which<'k> {
    /// Unrolled position with this index.
    Unrolled(usize),
    /// Position of an iteration of a loop.
    Turn(Value<'k>),
}
