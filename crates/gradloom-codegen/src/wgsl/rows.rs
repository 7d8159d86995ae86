//! Bodies that reduce: along rows, which lanes of a workgroup take together, and across rows, which leaves
//! partial results for a second shader.
//!
//! In: a body. Out: its shaders. A workgroup has `slots` rows at a time, `lanes` invocations on each, and
//! goes through `steps` of them. Always holds: the order in which elements are combined depends on the body
//! and the limits alone; barriers are met by all invocations.

use super::body::{Nodes, Place, checks_of, stores_of};
use super::source::{Source, WORKGROUP, index_at, type_name};
use super::{Dispatch, Limits, Operands};
use crate::narrow::narrow;
use gradloom_core::ir::{DType, ReduceOp};
use gradloom_core::kernel::{Body, Level, NodeId, NodeKind, Store};
use gradloom_core::plan::ALIGNMENT;
use std::ops::Range;

/// Positions of a row that an invocation keeps in registers, at most; of longer rows it computes values again
/// for each pass.
const UNROLLED: usize = 8;
/// Partial results of a column, at most.
const MOST_PARTIALS: usize = 128;
/// The same on a software device, which has few threads.
const FEW_PARTIALS: usize = 16;
/// Rows from which on an invocation of a software device takes whole ones.
const ROWS_ALONE: usize = 32;
/// Sums of columns that such an invocation keeps, at most: they are in memory of its own, of which there is
/// little.
const SUMS_ALONE: usize = 512;
/// The same of one that shares its row.
const SUMS_OF_A_LANE: usize = 64;
/// Invocations that a software device runs at once: lanes of its vectors.
const VECTOR: usize = 8;
/// Lanes that add up the partial results of a column.
const FINISHING_LANES: usize = 8;

/// How a body's rows are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSchedule {
    /// Invocations of a row; a power of two.
    lanes: usize,
    /// Rows of a workgroup at a time.
    slots: usize,
    /// Rows that a slot takes one after the other.
    steps: usize,
    /// Positions of an invocation in a row.
    each: usize,
    /// Workgroups; each gives a partial result of every column.
    pub(crate) groups: usize,
}

impl RowSchedule {
    pub(crate) fn new(body: &Body, limits: &Limits) -> Self {
        // A software device runs a workgroup's invocations one after the other, a few at a time, and goes
        // from one to the next at each barrier: there, invocations that share nothing are many times faster,
        // as long as there are some rows for each of its threads.
        let sums = reduces_columns(body);
        let along = body.nodes.iter().any(|node| matches!(node.kind, NodeKind::Reduce(..)));
        let long = sums && body.columns > SUMS_ALONE;
        let alone = limits.software && along && body.rows >= ROWS_ALONE && !long;
        // Pure column sums need no workgroup barrier. Lanes that meet have sums of columns to keep
        // besides.
        let all = WORKGROUP.min(limits.invocations) as usize;
        let kept = if sums { body.columns.div_ceil(SUMS_OF_A_LANE).next_power_of_two() } else { 1 };
        let most = if along { limits.sharing().max(kept).min(all) } else { all };
        let lanes = match alone {
            true => 1,
            false => body.columns.div_ceil(4).next_power_of_two().clamp(1, most),
        };
        let slots = if alone { VECTOR } else { limits.sharing().max(lanes) / lanes };
        let partials = if limits.software { FEW_PARTIALS } else { MOST_PARTIALS };
        let turns = body.rows.div_ceil(slots);
        let steps = if sums { turns.div_ceil(partials).max(1) } else { 1 };
        Self { lanes, slots, steps, each: body.columns.div_ceil(lanes), groups: turns.div_ceil(steps) }
    }

    fn unrolled(&self) -> bool {
        self.each <= UNROLLED
    }

    fn workgroup(&self) -> usize {
        self.lanes * self.slots
    }
}

/// Whether a body combines the elements of columns.
pub(crate) fn reduces_columns(body: &Body) -> bool {
    body.stores.iter().any(|store| matches!(store, Store::Columns { .. }))
}

/// Reductions of columns, as (number, operator, node, write).
fn columns_of(body: &Body) -> Vec<(usize, ReduceOp, NodeId, usize)> {
    let columns = body.stores.iter().filter_map(|store| match *store {
        Store::Columns { op, node, write, .. } => Some((op, node, write)),
        Store::Whole { .. } => None,
    });
    columns.enumerate().map(|(i, (op, node, write))| (i, op, node, write)).collect()
}

/// Whether the kernel itself has to take the partial results of its columns together.
fn finishes(body: &Body, schedule: &RowSchedule) -> bool {
    let whole = |store: &Store| matches!(store, Store::Columns { parts: 1, .. });
    schedule.groups != 1 && body.stores.iter().any(whole)
}

/// The scratch of a column reduction's partial results, by its number.
fn partials(body: &Body, schedule: &RowSchedule, number: usize) -> Range<usize> {
    let bytes = (4 * schedule.groups * body.columns).max(4);
    let start = number * bytes.next_multiple_of(ALIGNMENT);
    start..start + bytes
}

/// Bytes of scratch that a body with reductions needs.
pub(crate) fn row_workspace(body: &Body, limits: &Limits) -> usize {
    let schedule = RowSchedule::new(body, limits);
    let last = columns_of(body).last().filter(|_| finishes(body, &schedule)).map(|&(last, ..)| last);
    last.map_or(0, |last| partials(body, &schedule, last).end)
}

/// The shaders of a body with reductions.
pub(crate) fn rows(
    operands: &Operands,
    limits: &Limits,
    gated: bool,
    launch: usize,
    body: &Body,
    label: &str,
) -> Vec<Dispatch> {
    let schedule = RowSchedule::new(body, limits);
    let mut shaders = Vec::new();
    if schedule.groups > 0 {
        let source = Source::new(operands, limits, gated, launch);
        shaders.push(Rows::new(source, body, schedule).write(label));
    }
    if body.columns > 0 && finishes(body, &schedule) {
        let source = Source::new(operands, limits, gated, launch);
        shaders.push(sums(source, body, &schedule, label));
    }
    shaders
}

/// The first shader in the making.
struct Rows<'a, 'b> {
    source: Source<'a>,
    body: &'b Body,
    schedule: RowSchedule,
    nodes: Nodes<'b>,
    /// How many reductions lie before each node.
    depths: Vec<usize>,
    /// Workgroup arrays that were declared, by dtype and number.
    scratch: Vec<(DType, usize)>,
}

impl<'a, 'b> Rows<'a, 'b> {
    fn new(source: Source<'a>, body: &'b Body, schedule: RowSchedule) -> Self {
        let mut depths = vec![0; body.nodes.len()];
        for (i, node) in body.nodes.iter().enumerate() {
            let before = node.kind.operands().iter().map(|o| depths[o.index()]).max().unwrap_or(0);
            depths[i] = before + usize::from(matches!(node.kind, NodeKind::Reduce(..)));
        }
        Self { source, body, schedule, nodes: Nodes::new(body), depths, scratch: Vec::new() }
    }

    fn write(mut self, label: &str) -> Dispatch {
        let RowSchedule { lanes, slots, steps, each, groups } = self.schedule;
        let (rows, columns) = (self.body.rows, self.body.columns);
        // Written so that compilers see that all invocations of a lane's loops make as many turns.
        match lanes {
            1 => {
                self.source.line("let lane = 0u;");
                self.source.line("let slot = local;");
            }
            _ => {
                self.source.line(format_args!("let lane = local % {lanes}u;"));
                self.source.line(format_args!("let slot = local / {lanes}u;"));
            }
        }
        if self.schedule.unrolled() {
            for k in 0..each {
                let column = format!("lane + {}u", k * lanes);
                let column = if k == 0 { "lane".to_string() } else { column };
                match self.is_ragged(k) {
                    true => {
                        self.source.line(format_args!("let column_{k} = min({column}, {}u);", columns - 1));
                        self.source.line(format_args!("let inside_{k} = {column} < {columns}u;"));
                    }
                    false => self.source.line(format_args!("let column_{k} = {column};")),
                }
            }
        }
        let exists = "group == 0u && local == 0u";
        let place = Place { row: "0u", column: "0u", position: None, suffix: "", exists };
        for id in checks_of(self.body, Level::Uniform) {
            self.nodes.compute(&mut self.source, id, place);
        }
        for i in self.body.ids() {
            if self.body.node(i).level == Level::Uniform {
                self.nodes.compute(&mut self.source, i, place);
            }
        }
        self.declare_sums();
        if steps > 1 {
            self.source.line(format_args!("for (var step = 0u; step < {steps}u; step++) {{"));
        }
        let turn = if steps > 1 { format!("(group * {steps}u + step)") } else { "group".to_string() };
        let raw = if slots > 1 { format!("{turn} * {slots}u + slot") } else { turn };
        match self.has_spare_rows() {
            true => {
                self.source.line(format_args!("let row = min({raw}, {}u);", rows - 1));
                self.source.line(format_args!("let live = {raw} < {rows}u;"));
            }
            false => self.source.line(format_args!("let row = {raw};")),
        }
        let depth = self.depths.iter().max().copied().unwrap_or(0);
        for depth in 1..=depth {
            self.reduce(depth);
        }
        self.finish_rows();
        if steps > 1 {
            self.source.line("}");
        }
        self.store_partials();
        self.source.finish(label, narrow(self.schedule.workgroup()), groups)
    }

    /// Whether some invocations have no position with this number.
    fn is_ragged(&self, k: usize) -> bool {
        (k + 1) * self.schedule.lanes > self.body.columns
    }

    fn has_spare_rows(&self) -> bool {
        let RowSchedule { slots, steps, groups, .. } = self.schedule;
        slots * steps * groups > self.body.rows
    }

    /// `value` where the position exists, `otherwise` elsewhere.
    fn guarded(&self, value: &str, otherwise: &str, k: usize, rows_too: bool) -> String {
        let mut conditions = Vec::new();
        if self.schedule.unrolled() && self.is_ragged(k) {
            conditions.push(format!("inside_{k}"));
        }
        if rows_too && self.has_spare_rows() {
            conditions.push("live".to_string());
        }
        match conditions.is_empty() {
            true => value.to_string(),
            false => format!("select({otherwise}, {value}, {})", conditions.join(" && ")),
        }
    }

    /// When the invocation has a position with this number.
    fn exists(&self, k: usize) -> String {
        let inside = (self.schedule.unrolled() && self.is_ragged(k)).then(|| format!("inside_{k}"));
        let live = self.has_spare_rows().then(|| "live".to_string());
        inside.into_iter().chain(live).collect::<Vec<_>>().join(" && ")
    }

    /// When the invocation answers for what its row has.
    fn row_exists(&self) -> String {
        format!("lane == 0u{}", if self.has_spare_rows() { " && live" } else { "" })
    }

    /// Runs `f` for each of the invocation's positions: unrolled, or in a loop, in which nodes of level
    /// `Element` live for one turn.
    fn for_each(&mut self, f: &mut dyn FnMut(&mut Self, Place<'_>, usize)) {
        let RowSchedule { lanes, each, .. } = self.schedule;
        if self.schedule.unrolled() {
            for k in 0..each {
                self.nodes.turn_to(k);
                let (column, suffix) = (format!("column_{k}"), format!("_{k}"));
                let exists = self.exists(k);
                let place =
                    Place { row: "row", column: &column, position: None, suffix: &suffix, exists: &exists };
                f(self, place, k);
            }
            self.nodes.turn_to(0);
            return;
        }
        let columns = self.body.columns;
        self.source.line(format_args!("for (var column = lane; column < {columns}u; column += {lanes}u) {{"));
        let exists = self.exists(0);
        f(self, Place { row: "row", column: "column", position: None, suffix: "", exists: &exists }, 0);
        self.source.line("}");
        self.nodes.forget(Level::Element);
    }

    /// The reductions of a depth.
    fn reduce(&mut self, depth: usize) {
        let all: Vec<(NodeId, ReduceOp, NodeId, DType)> = self
            .body
            .ids()
            .filter_map(|id| match self.body.node(id).kind {
                NodeKind::Reduce(op, operand) if self.depths[id.index()] == depth => {
                    Some((id, op, operand, self.body.node(id).dtype))
                }
                _ => None,
            })
            .collect();
        // Computed outside of a loop's scope, where all passes see them.
        self.row_nodes(depth - 1);
        let mut identities = Vec::new();
        for &(id, op, _, dtype) in &all {
            let identity = self.source.identity(op, dtype);
            self.source.line(format_args!("var sum_{id} = {identity};"));
            identities.push(identity);
        }
        self.for_each(&mut |this, place, k| {
            for (&(id, op, operand, dtype), identity) in all.iter().zip(&identities) {
                let value = this.nodes.compute(&mut this.source, operand, place);
                let value = this.guarded(&value, identity, k, false);
                let sum = this.source.combine(op, dtype, &format!("sum_{id}"), &value);
                this.source.line(format_args!("sum_{id} = {sum};"));
            }
        });
        self.across_lanes(&all);
    }

    /// Combines the lanes' shares of each reduction, which then has a name.
    fn across_lanes(&mut self, all: &[(NodeId, ReduceOp, NodeId, DType)]) {
        let lanes = self.schedule.lanes;
        if lanes == 1 {
            for &(id, ..) in all {
                self.nodes.name(id, format!("sum_{id}"));
            }
            return;
        }
        let workgroup = self.schedule.workgroup();
        // Neighbours first: what is left is one share of a row for each of its subgroups.
        let together = self.source.subgroup(workgroup).unwrap_or(1).min(lanes);
        for &(id, op, _, dtype) in all {
            self.source.across_subgroup(op, dtype, &format!("sum_{id}"), together);
        }
        if together == lanes {
            for &(id, ..) in all {
                self.source.line(format_args!("let {id} = sum_{id};"));
                self.nodes.name(id, id.to_string());
            }
            return;
        }
        if together > 1 {
            return self.across_subgroups(all, lanes / together, together);
        }
        let arrays: Vec<String> =
            all.iter().enumerate().map(|(number, &(.., dtype))| self.array(dtype, number)).collect();
        for (&(id, ..), array) in all.iter().zip(&arrays) {
            self.source.line(format_args!("{array}[local] = sum_{id};"));
        }
        self.source.line("workgroupBarrier();");
        self.source.line(format_args!("for (var half = {}u; half > 0u; half /= 2u) {{", lanes / 2));
        self.source.line("if (lane < half) {");
        for (&(_, op, _, dtype), array) in all.iter().zip(&arrays) {
            let (a, b) = (format!("{array}[local]"), format!("{array}[local + half]"));
            let sum = self.source.combine(op, dtype, &a, &b);
            self.source.line(format_args!("{a} = {sum};"));
        }
        self.source.line("}");
        self.source.line("workgroupBarrier();");
        self.source.line("}");
        for (&(id, ..), array) in all.iter().zip(&arrays) {
            self.source.line(format_args!("let {id} = {array}[slot * {lanes}u];"));
            self.nodes.name(id, id.to_string());
        }
        self.source.line("workgroupBarrier();");
    }

    /// The same for rows of several subgroups, each of which has combined its share.
    fn across_subgroups(&mut self, all: &[(NodeId, ReduceOp, NodeId, DType)], shares: usize, size: usize) {
        let arrays: Vec<String> =
            all.iter().enumerate().map(|(number, &(.., dtype))| self.array(dtype, number)).collect();
        self.source.line(format_args!("if (lane % {size}u == 0u) {{"));
        for (&(id, ..), array) in all.iter().zip(&arrays) {
            self.source.line(format_args!("{array}[local / {size}u] = sum_{id};"));
        }
        self.source.line("}");
        self.source.line("workgroupBarrier();");
        for (&(id, op, _, dtype), array) in all.iter().zip(&arrays) {
            self.source.line(format_args!("var all_{id} = {array}[slot * {shares}u];"));
            for share in 1..shares {
                let other = format!("{array}[slot * {shares}u + {share}u]");
                let sum = self.source.combine(op, dtype, &format!("all_{id}"), &other);
                self.source.line(format_args!("all_{id} = {sum};"));
            }
            self.source.line(format_args!("let {id} = all_{id};"));
            self.nodes.name(id, id.to_string());
        }
        self.source.line("workgroupBarrier();");
    }

    /// The workgroup array for the reduction of this number among those that are combined together.
    fn array(&mut self, dtype: DType, number: usize) -> String {
        let name = format!("shared_{}_{number}", type_name(dtype));
        if !self.scratch.contains(&(dtype, number)) {
            self.scratch.push((dtype, number));
            let (ty, size) = (type_name(dtype), self.schedule.workgroup());
            self.source.global(format_args!("var<workgroup> {name}: array<{ty}, {size}>;"));
        }
        name
    }

    /// Computes the nodes of level `Row` behind so many reductions.
    fn row_nodes(&mut self, depth: usize) {
        let exists = self.row_exists();
        let place = Place { row: "row", column: "0u", position: None, suffix: "", exists: &exists };
        for id in self.body.ids() {
            let node = self.body.node(id);
            if node.level == Level::Row
                && self.depths[id.index()] == depth
                && !matches!(node.kind, NodeKind::Reduce(..))
            {
                self.nodes.compute(&mut self.source, id, place);
            }
        }
    }

    /// Stores, and shares of column reductions.
    fn finish_rows(&mut self) {
        let depth = self.depths.iter().max().copied().unwrap_or(0);
        self.row_nodes(depth);
        let body = self.body;
        let elements = stores_of(body, Level::Element);
        let columns = columns_of(body);
        let checks: Vec<NodeId> = checks_of(body, Level::Element);
        if !(elements.is_empty() && columns.is_empty() && checks.is_empty()) {
            // Of all positions first: a result may lie where an operand does.
            if self.schedule.unrolled() {
                self.for_each(&mut |this, place, _| this.compute_stored(&elements, &columns, &checks, place));
            }
            self.for_each(&mut |this, place, k| {
                this.compute_stored(&elements, &columns, &checks, place);
                this.add_to_columns(&columns, place, k);
                this.store_elements(&elements, place, k);
            });
        }
        let exists = self.row_exists();
        let place = Place { row: "row", column: "0u", position: None, suffix: "", exists: &exists };
        for (level, condition) in [(Level::Row, &*exists), (Level::Uniform, "group == 0u && local == 0u")] {
            let stores = stores_of(body, level);
            if stores.is_empty() {
                continue;
            }
            let mut condition = condition.to_string();
            if level == Level::Uniform && self.schedule.steps > 1 {
                condition.push_str(" && step == 0u");
            }
            self.when(&condition, &mut |this| {
                for &(node, write) in &stores {
                    let value = this.nodes.compute(&mut this.source, node, place);
                    this.nodes.store(&mut this.source, write, level, place, &value);
                }
            });
        }
    }

    fn compute_stored(
        &mut self,
        elements: &[(NodeId, usize)],
        columns: &[(usize, ReduceOp, NodeId, usize)],
        checks: &[NodeId],
        place: Place<'_>,
    ) {
        let wanted =
            elements.iter().map(|&(node, _)| node).chain(columns.iter().map(|&(_, _, node, _)| node));
        for node in wanted.chain(checks.iter().copied()) {
            self.nodes.compute(&mut self.source, node, place);
        }
    }

    fn store_elements(&mut self, elements: &[(NodeId, usize)], place: Place<'_>, k: usize) {
        if elements.is_empty() {
            return;
        }
        self.when(&self.exists(k), &mut |this| {
            for &(node, write) in elements {
                let value = this.nodes.compute(&mut this.source, node, place);
                this.nodes.store(&mut this.source, write, Level::Element, place, &value);
            }
        });
    }

    /// Runs `f` in a block of its own, if there is a condition or the step may not commit.
    fn when(&mut self, condition: &str, f: &mut dyn FnMut(&mut Self)) {
        let gate = if self.source.gated { "committed" } else { "" };
        let all: Vec<&str> = [condition, gate].into_iter().filter(|c| !c.is_empty()).collect();
        if all.is_empty() {
            return f(self);
        }
        self.source.line(format_args!("if ({}) {{", all.join(" && ")));
        f(self);
        self.source.line("}");
    }

    /// The invocation's sum of a column.
    fn sum_name(&self, number: usize, k: usize) -> String {
        match self.schedule.unrolled() {
            true => format!("column_sum_{number}_{k}"),
            false => format!("column_sums_{number}[column / {}u]", self.schedule.lanes),
        }
    }

    fn declare_sums(&mut self) {
        for (number, op, node, _) in columns_of(self.body) {
            let dtype = self.body.node(node).dtype;
            let identity = self.source.identity(op, dtype);
            if self.schedule.unrolled() {
                for k in 0..self.schedule.each {
                    let name = self.sum_name(number, k);
                    self.source.line(format_args!("var {name} = {identity};"));
                }
                continue;
            }
            let (ty, each) = (type_name(dtype), self.schedule.each);
            self.source.line(format_args!("var column_sums_{number}: array<{ty}, {each}>;"));
            self.source.line(format_args!("for (var i = 0u; i < {each}u; i++) {{"));
            self.source.line(format_args!("column_sums_{number}[i] = {identity};"));
            self.source.line("}");
        }
    }

    fn add_to_columns(&mut self, columns: &[(usize, ReduceOp, NodeId, usize)], place: Place<'_>, k: usize) {
        for &(number, op, node, _) in columns {
            let dtype = self.body.node(node).dtype;
            let value = self.nodes.compute(&mut self.source, node, place);
            let identity = self.source.identity(op, dtype);
            let value = self.guarded(&value, &identity, k, true);
            let name = self.sum_name(number, k);
            let sum = self.source.combine(op, dtype, &name, &value);
            self.source.line(format_args!("{name} = {sum};"));
        }
    }

    /// The workgroup's sum of each column: over the slots, in order. To the scratch, if another shader of
    /// this kernel takes them together.
    fn store_partials(&mut self) {
        let RowSchedule { lanes, slots, .. } = self.schedule;
        let columns = self.body.columns;
        let finishes = finishes(self.body, &self.schedule);
        for (number, op, node, write) in columns_of(self.body) {
            if columns == 0 {
                break;
            }
            let dtype = self.body.node(node).dtype;
            let partials =
                finishes.then(|| self.source.workspace(partials(self.body, &self.schedule, number), dtype));
            let result = self.source.operands.writes[write].clone();
            let gated = self.source.gated && partials.is_none();
            let array = if slots > 1 { self.array(dtype, 0) } else { String::new() };
            self.for_each_sum(&mut |this, k, column| {
                let own = this.sum_name(number, k);
                if slots > 1 {
                    this.source.line(format_args!("{array}[local] = {own};"));
                    this.source.line("workgroupBarrier();");
                }
                let conditions = [
                    (slots > 1).then(|| "slot == 0u".to_string()),
                    (this.schedule.unrolled() && this.is_ragged(k)).then(|| format!("inside_{k}")),
                    gated.then(|| "committed".to_string()),
                ];
                let condition = conditions.into_iter().flatten().collect::<Vec<_>>().join(" && ");
                if !condition.is_empty() {
                    this.source.line(format_args!("if ({condition}) {{"));
                }
                this.source.line(format_args!("var all = {own};"));
                if slots > 1 {
                    this.source.line(format_args!("for (var other = 1u; other < {slots}u; other++) {{"));
                    let sum =
                        this.source.combine(op, dtype, "all", &format!("{array}[other * {lanes}u + lane]"));
                    this.source.line(format_args!("all = {sum};"));
                    this.source.line("}");
                }
                let at = match this.schedule.groups {
                    1 => index_at(&result.layout, column),
                    _ => format!("group * {columns}u + {column}"),
                };
                match &partials {
                    Some(partials) => this.source.line(format_args!("{partials}[{at}] = all;")),
                    None => this.source.store(&result, &at, "all"),
                }
                if !condition.is_empty() {
                    this.source.line("}");
                }
                if slots > 1 {
                    this.source.line("workgroupBarrier();");
                }
            });
        }
    }

    /// Runs `f` for each of the invocation's sums. A loop has barriers only if all invocations make as many
    /// turns.
    fn for_each_sum(&mut self, f: &mut dyn FnMut(&mut Self, usize, &str)) {
        let RowSchedule { lanes, each, .. } = self.schedule;
        if self.schedule.unrolled() {
            for k in 0..each {
                self.source.line("{");
                f(self, k, &format!("column_{k}"));
                self.source.line("}");
            }
            return;
        }
        // More than 8 positions of a lane: so there is one slot, and no barrier, or one lane, and all make as
        // many turns.
        let columns = self.body.columns;
        self.source.line(format_args!("for (var column = lane; column < {columns}u; column += {lanes}u) {{"));
        f(self, 0, "column");
        self.source.line("}");
    }
}

/// The second shader of column reductions: adds up the partial results, a few lanes to a column.
fn sums(mut source: Source<'_>, body: &Body, schedule: &RowSchedule, label: &str) -> Dispatch {
    let (columns, count) = (body.columns, schedule.groups);
    let workgroup = source.limits.sharing();
    let lanes = if source.limits.software { 1 } else { FINISHING_LANES };
    let wide = workgroup / lanes;
    source.line(format_args!("let lane = local / {wide}u;"));
    source.line(format_args!("let column = group * {wide}u + local % {wide}u;"));
    for (number, op, node, write) in columns_of(body) {
        let dtype = body.node(node).dtype;
        let scratch = source.workspace(partials(body, schedule, number), dtype);
        let (identity, sum) = (source.identity(op, dtype), format!("sum_{number}"));
        source.line(format_args!("var {sum} = {identity};"));
        source.line(format_args!("if (column < {columns}u) {{"));
        source.line(format_args!("for (var i = lane; i < {count}u; i += {lanes}u) {{"));
        let share = source.combine(op, dtype, &sum, &format!("{scratch}[i * {columns}u + column]"));
        source.line(format_args!("{sum} = {share};"));
        source.line("}");
        source.line("}");
        source.across_columns(op, dtype, (&sum, &format!("shares_{number}")), (lanes, wide));
        let gate = if source.gated { " && committed" } else { "" };
        source.line(format_args!("if (lane == 0u && column < {columns}u{gate}) {{"));
        let operand = source.operands.writes[write].clone();
        source.store(&operand, &index_at(&operand.layout, "column"), &sum);
        source.line("}");
    }
    source.finish(&format!("{label}: sums of columns"), narrow(workgroup), columns.div_ceil(wide))
}
