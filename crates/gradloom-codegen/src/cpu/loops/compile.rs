//! Compiles a body to a program.
//!
//! In: a body, and the layouts of its operands and results. Out: a [`Program`]. Rows that are reduced need
//! one pass for each reduction of the longest chain of dependent reductions. Element-level nodes are
//! recomputed in each pass that needs them, unless the tile registers hold whole rows or the node is worth
//! keeping ([`super::keep`]). Invariant: within a tile, an operand that a result may overwrite is read before
//! the result is written.

use super::keep::keeps;
use super::native::{Native, is_bound_by_memory};
use super::needs::{needed, uses};
use super::program::{
    Check, Condition, Gather, Grid, Instruction, NONE, OPERANDS, Pass, Program, Reduction, Scatter, Slot,
    SlotInfo, SlotPlace, bits, slot_number,
};
use super::registers;
use super::shared::with_shared_nodes;
use super::streams::streams;
use crate::cpu::functions::{MapOp, is_pair};
use crate::cpu::loop_schedule::column_partials;
use crate::cpu::machine::{Assembler, VectorIsa};
use gradloom_core::ir::{BinaryOp, DType, ReduceOp, UnaryOp};
use gradloom_core::kernel::{Access, Aliases, Body, Launch, Level, Node, NodeId, NodeKind};
use std::collections::HashMap;

/// Properties of the machine that a program depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Instruction set that segments of instructions are compiled for; `None` if all are interpreted.
    pub isa: Option<VectorIsa>,
    /// Size of the largest cache, in bytes.
    pub last_level_cache: usize,
}

/// Size of all tile registers together, in bytes: half of a first-level cache, which leaves the other half
/// for operands and results.
const TILE_BYTES: usize = 24 * 1024;
/// Maximum size of the tile registers if they hold whole rows, in bytes: most of a first-level cache.
const WHOLE_ROW_BYTES: usize = 40 * 1024;
/// Maximum number of elements of a register.
const MOST_ELEMENTS: usize = 2048;
/// Number of elements that loops process at a time. The size of a register is a multiple of it.
const UNIT: usize = 64;
/// Minimum number of columns for which the last, incomplete chunk of a row does not matter.
const SHORT_ROW: usize = 4 * UNIT;

/// Instruction set of [`Machine::TYPICAL`].
const TYPICAL_ISA: Option<VectorIsa> =
    if cfg!(target_arch = "x86_64") { Some(VectorIsa::Avx512) } else { None };

impl Machine {
    /// Machine of programs that are shown and not run.
    pub const TYPICAL: Self = Self { isa: TYPICAL_ISA, last_level_cache: 32 << 20 };
}

impl Program {
    /// Compiles a body for the launch that contains it. Loads and stores refer to the launch's reads and
    /// writes.
    ///
    /// # Panics
    /// If [`Body::check`] rejects the body, or shape inference rejects its dtypes.
    pub fn new(body: &Body, launch: &Launch, machine: Machine, assembler: Option<&mut Assembler>) -> Self {
        let body = &with_shared_nodes(body);
        let reduces = body.has_row_reductions();
        let mut program = Compiler::compile(body, launch, machine, true);
        if reduces && 4 * body.columns * program.registers.max(1) > WHOLE_ROW_BYTES {
            program = Compiler::compile(body, launch, machine, false);
        }
        // Do not compile bodies with u8 values, because machine code treats bytes as truth values.
        let has_u8 = body.nodes.iter().any(|node| node.dtype == DType::U8);
        if let Some(assembler) = assembler.filter(|_| !has_u8) {
            if !is_bound_by_memory(&program) {
                program.large_results.clear();
            }
            program.native = Native::new(&program, assembler);
        }
        program
    }
}

/// A compilation in progress.
pub(super) struct Compiler<'a> {
    pub body: &'a Body,
    pub launch: &'a Launch,
    pub aliases: Aliases,
    /// Results that may overwrite each operand.
    pub overwriting: Aliases,
    /// Reduction depth of each node: the number of reductions that it depends on, one after the other.
    stages: Vec<usize>,
    needed: Vec<bool>,
    /// True for element-level nodes that a later pass takes from an earlier one.
    keeps: Vec<bool>,
    /// Number of uses of each node by needed nodes and by stores.
    uses: Vec<usize>,
    /// Slot of each node's elements; for element-level nodes, in the current pass.
    pub homes: Vec<Slot>,
    pub program: Program,
    /// True for checks that were emitted.
    pub checked: Vec<bool>,
    /// True if rows are so short, and so far from filling vectors, that it is better to process a tile as a
    /// single row. All operands are then dense.
    ragged: bool,
    /// Row-level slots that were spread in the current pass, each with the slot of the result.
    spread: HashMap<Slot, Slot>,
}

/// Computation of an element-level node.
struct ElementStep {
    /// Nodes that must be computed first, in this order.
    operands: Vec<NodeId>,
    how: How,
}

#[derive(Clone, Copy)]
enum How {
    /// By the function of the node's kind.
    Plain,
    /// Together with the node of an operand, as one function of three operands.
    Pair(MapOp),
    /// With [`Instruction::Pick`].
    Pick,
}

impl<'a> Compiler<'a> {
    fn compile(body: &'a Body, launch: &'a Launch, machine: Machine, whole_rows: bool) -> Program {
        let nodes = body.nodes.len();
        let aliases = Aliases::new(&launch.may_alias);
        let turned: Vec<_> = launch.may_alias.iter().map(|&(write, read)| (read, write)).collect();
        let program = Program {
            columns: body.columns,
            cuts_columns: !(whole_rows && body.has_row_reductions()),
            slots: Vec::new(),
            constants: Vec::new(),
            uniform: Vec::new(),
            rows: Vec::new(),
            passes: Vec::new(),
            row_stores: Vec::new(),
            functions: Vec::new(),
            reductions: Vec::new(),
            gathers: Vec::new(),
            scatters: Vec::new(),
            column_results: Vec::new(),
            uniform_results: Vec::new(),
            partials: column_partials(body),
            large_results: large_results(launch, &aliases, machine.last_level_cache),
            streams: Vec::new(),
            can_trap: body.can_trap(),
            capacity: 0,
            most_rows: 0,
            registers: 0,
            kept: 0,
            row_registers: 0,
            uniforms: 0,
            native: None,
        };
        // Ensure that no value needs a conversion. The plan's verifier allows kernels to read and write
        // 16-bit values as f32, but only GPU kernels support it.
        for node in &body.nodes {
            if let NodeKind::Load(read) = node.kind {
                assert_eq!(
                    launch.reads[read].dtype, node.dtype,
                    "the CPU's loops convert nothing on the way"
                );
            }
        }
        for store in &body.stores {
            let (stored, dtype) = (&launch.writes[store.write()], body.node(store.node()).dtype);
            assert_eq!(stored.dtype, dtype, "the CPU's loops convert nothing on the way");
        }
        let needed = needed(body);
        let mut compiler = Self {
            body,
            launch,
            aliases,
            overwriting: Aliases::new(&turned),
            stages: body.reduction_depths(),
            uses: uses(body, &needed),
            keeps: if whole_rows { vec![false; nodes] } else { keeps(body, &needed) },
            needed,
            homes: vec![NONE; nodes],
            program,
            checked: vec![false; nodes],
            ragged: !body.columns.is_multiple_of(UNIT) && body.columns < SHORT_ROW,
            spread: HashMap::new(),
        };
        compiler.uniform_nodes();
        let rows = compiler.row_nodes(0);
        compiler.program.rows = rows;
        compiler.passes(whole_rows);
        compiler.row_stores();
        compiler.uniform_results();
        compiler.registers(whole_rows);
        compiler.program.streams = streams(&compiler.program.slots, &compiler.aliases, body.rows);
        compiler.program
    }

    pub(super) fn slot(&mut self, place: SlotPlace, dtype: DType) -> Slot {
        self.program.slots.push(SlotInfo { place, bytes: dtype.bytes() });
        slot_number(self.program.slots.len() - 1)
    }

    pub(super) fn node(&self, id: NodeId) -> &'a Node {
        &self.body.nodes[id.index()]
    }

    /// Returns the needed nodes of a level, in order.
    pub(super) fn nodes_of(&self, level: Level) -> Vec<NodeId> {
        let wanted = |&i: &usize| self.needed[i] && self.body.nodes[i].level == level;
        (0..self.body.nodes.len()).filter(wanted).map(NodeId::new).collect()
    }

    /// Returns `true` if a result may overwrite this operand.
    fn is_overwritten(&self, read: usize) -> bool {
        !self.overwriting.reads_of(read).is_empty()
    }

    fn uniform_nodes(&mut self) {
        let mut code = Vec::new();
        for id in self.nodes_of(Level::Uniform) {
            let node = self.node(id);
            let home = match &node.kind {
                NodeKind::Constant(number) => {
                    self.program.constants.push(bits(*number, node.dtype));
                    self.slot(SlotPlace::Constant(self.program.constants.len() - 1), node.dtype)
                }
                NodeKind::Load(read) => {
                    let offset = self.launch.reads[*read].layout.offset;
                    let grid = Grid { offset, row_stride: 0, repeated: true };
                    let place = self.slot(SlotPlace::Read(*read, grid), node.dtype);
                    match self.is_overwritten(*read) {
                        true => self.copied(place, node.dtype, Level::Uniform, &mut code),
                        false => place,
                    }
                }
                NodeKind::Repeat(a) => self.homes[a.index()],
                _ => self.computed(id, &mut code),
            };
            self.homes[id.index()] = home;
        }
        self.program.uniform = code;
    }

    /// Emits the row-level nodes with the reduction depth `stage`, except for reductions, which belong to the
    /// preceding pass.
    fn row_nodes(&mut self, stage: usize) -> Vec<Instruction> {
        let mut code = Vec::new();
        for id in self.nodes_of(Level::Row) {
            let node = self.node(id);
            if self.stages[id.index()] != stage || matches!(node.kind, NodeKind::Reduce(..)) {
                continue;
            }
            self.homes[id.index()] = match &node.kind {
                NodeKind::Load(read) => self.row_load(*read, &mut code),
                // A uniform value applies to all rows without a copy.
                NodeKind::Repeat(a) => self.homes[a.index()],
                _ => self.computed(id, &mut code),
            };
        }
        code
    }

    fn row_load(&mut self, read: usize, code: &mut Vec<Instruction>) -> Slot {
        let access = &self.launch.reads[read];
        if let Some(grid) = Grid::of(&access.layout, self.body.rows, 1)
            && matches!(grid.row_stride, 0 | 1)
            && !self.is_overwritten(read)
        {
            return self.slot(SlotPlace::Read(read, Grid { repeated: true, ..grid }), access.dtype);
        }
        let target = self.row_register(access.dtype);
        code.push(self.gather(read, target));
        target
    }

    fn row_register(&mut self, dtype: DType) -> Slot {
        self.program.row_registers += 1;
        self.slot(SlotPlace::RowRegister(self.program.row_registers - 1), dtype)
    }

    /// Creates a slot for elements of a level.
    pub(super) fn fresh(&mut self, level: Level, dtype: DType) -> Slot {
        match level {
            Level::Uniform => {
                self.program.uniforms += 1;
                self.slot(SlotPlace::Uniform(self.program.uniforms - 1), dtype)
            }
            Level::Row => self.row_register(dtype),
            Level::Element => self.slot(SlotPlace::Pending, dtype),
        }
    }

    /// Emits the instruction that computes a node whose operands already have slots.
    fn computed(&mut self, id: NodeId, code: &mut Vec<Instruction>) -> Slot {
        let node = self.node(id);
        let home = |operand: NodeId| self.homes[operand.index()];
        let check = match node.kind {
            NodeKind::CheckIndex { index, extent } => {
                Some((index, Condition::Index { extent, shape: self.index_shape(index, node.level) }))
            }
            NodeKind::CheckDivisor(divisor) => Some((divisor, Condition::Divisor)),
            _ => None,
        };
        if let Some((operand, condition)) = check {
            if !std::mem::replace(&mut self.checked[id.index()], true) {
                let check = Check { operand: home(operand), condition, node: id.index() };
                code.push(Instruction::Check(Box::new(check)));
            }
            return home(operand);
        }
        let mut operands = [NONE; OPERANDS];
        for (slot, &operand) in operands.iter_mut().zip(node.kind.operands()) {
            *slot = home(operand);
        }
        if self.ragged && node.level == Level::Element {
            operands.iter_mut().for_each(|slot| *slot = self.dense(*slot, code));
        }
        let op = map_op(self.body, node);
        let target = self.fresh(node.level, node.dtype);
        code.push(self.map(op, operands, target));
        target
    }

    /// Spreads a row-level slot over the positions. Returns other slots unchanged.
    fn dense(&mut self, slot: Slot, code: &mut Vec<Instruction>) -> Slot {
        let info = match self.program.slots.get(slot as usize) {
            Some(info) if info.is_row_level() => info.clone(),
            _ => return slot,
        };
        if let Some(&known) = self.spread.get(&slot) {
            return known;
        }
        self.program.slots.push(SlotInfo { place: SlotPlace::Pending, ..info });
        let target = slot_number(self.program.slots.len() - 1);
        code.push(Instruction::Spread { operand: slot, target });
        self.spread.insert(slot, target);
        target
    }

    /// Emits a copy of a slot's elements to a new slot, which is returned.
    pub(super) fn copied(
        &mut self,
        from: Slot,
        dtype: DType,
        level: Level,
        code: &mut Vec<Instruction>,
    ) -> Slot {
        let target = self.fresh(level, dtype);
        code.push(self.copy(from, target, dtype));
        target
    }

    /// Returns the instruction that applies a function to each element.
    fn map(&mut self, op: MapOp, operands: [Slot; OPERANDS], target: Slot) -> Instruction {
        let functions = &mut self.program.functions;
        let function = functions.iter().position(|&known| known == op).unwrap_or(functions.len());
        if function == functions.len() {
            functions.push(op);
        }
        Instruction::Map { op, function, operands, target }
    }

    /// Returns the instruction that copies elements to another slot.
    pub(super) fn copy(&mut self, from: Slot, target: Slot, dtype: DType) -> Instruction {
        self.map(MapOp::Unary(UnaryOp::Detach, dtype), [from, NONE, NONE], target)
    }

    fn gather(&mut self, read: usize, target: Slot) -> Instruction {
        self.program.gathers.push(read);
        Instruction::Gather(Gather { number: self.program.gathers.len() - 1, read, target })
    }

    pub(super) fn scatter(&mut self, write: usize, operand: Slot) -> Instruction {
        self.program.scatters.push(write);
        let offset = self.launch.writes[write].layout.offset;
        Instruction::Scatter(Scatter { number: self.program.scatters.len() - 1, write, offset, operand })
    }

    pub(super) fn reduction(&mut self, op: ReduceOp, dtype: DType) -> Reduction {
        self.program.reductions.push((op, dtype));
        let number = self.program.reductions.len() - 1;
        Reduction { number, op, dtype, identity: bits(op.identity(dtype), dtype) }
    }

    /// Returns the shape of indices, for error messages.
    fn index_shape(&self, index: NodeId, level: Level) -> Vec<usize> {
        match (&self.node(index).kind, level) {
            (NodeKind::Load(read), _) => self.launch.reads[*read].layout.shape.to_vec(),
            (_, Level::Uniform) => Vec::new(),
            (_, Level::Row) => vec![self.body.rows],
            (_, Level::Element) => vec![self.body.rows, self.body.columns],
        }
    }

    fn passes(&mut self, whole_rows: bool) {
        let stages = &self.stages;
        let last = (0..stages.len()).filter(|&i| self.needed[i]).map(|i| stages[i]).max().unwrap_or(0);
        for stage in 1..=last {
            if !whole_rows {
                self.forget_elements();
            }
            let pass = self.reducing_pass(stage);
            self.program.passes.push(pass);
        }
        if !whole_rows {
            self.forget_elements();
        }
        let tile = self.storing_pass();
        if !tile.is_empty() {
            self.program.passes.push(Pass { tile, ..Pass::default() });
        }
    }

    fn forget_elements(&mut self) {
        self.spread.clear();
        for (home, node) in self.homes.iter_mut().zip(&self.body.nodes) {
            let slot = self.program.slots.get(*home as usize);
            let is_kept = slot.is_some_and(|slot| matches!(slot.place, SlotPlace::Kept(_)));
            if node.level == Level::Element && !is_kept {
                *home = NONE;
            }
        }
    }

    /// Returns the pass with the reductions of a stage and the row-level nodes that depend on them.
    fn reducing_pass(&mut self, stage: usize) -> Pass {
        let mut pass = Pass::default();
        for id in self.nodes_of(Level::Row) {
            let node = self.node(id);
            let NodeKind::Reduce(op, of) = node.kind else { continue };
            if self.stages[id.index()] != stage {
                continue;
            }
            let reduction = self.reduction(op, node.dtype);
            let target = self.row_register(node.dtype);
            if !self.picked(op, of, target, &mut pass.tile) {
                let operand = self.spread(of, &mut pass.tile);
                pass.tile.push(Instruction::Reduce { reduction, operand, target });
            }
            pass.starts.push((target, reduction.identity));
            if reduction.op == ReduceOp::Sum && reduction.dtype == DType::F32 {
                pass.sums.push(target);
            }
            self.homes[id.index()] = target;
        }
        pass.rows = self.row_nodes(stage);
        pass
    }

    /// Emits an element-level node and the nodes that it needs, except for those that were already emitted.
    /// Nodes of lower levels already have slots.
    pub(super) fn element(&mut self, id: NodeId, code: &mut Vec<Instruction>) -> Slot {
        // Uses an explicit stack instead of recursion, because bodies may be deep.
        let mut pending = vec![id];
        while let Some(&id) = pending.last() {
            if self.homes[id.index()] != NONE {
                pending.pop();
                continue;
            }
            let step = self.element_step(id);
            let missing = step.operands.iter().find(|operand| self.homes[operand.index()] == NONE);
            match missing {
                Some(&operand) => pending.push(operand),
                None => {
                    pending.pop();
                    self.emit_element(id, &step, code);
                }
            }
        }
        self.homes[id.index()]
    }

    /// Returns the computation of an element-level node, and the nodes that it needs.
    fn element_step(&self, id: NodeId) -> ElementStep {
        let kind = &self.node(id).kind;
        let (operands, how) = match kind {
            NodeKind::Binary(op, operands) if let Some((pair, op)) = self.pair(*op, *operands) => {
                (pair.to_vec(), How::Pair(op))
            }
            NodeKind::Select(operands) if let Some(pick) = self.pick(*operands) => (pick.to_vec(), How::Pick),
            kind => (kind.operands().to_vec(), How::Plain),
        };
        ElementStep { operands, how }
    }

    /// Emits an element-level node whose operands already have slots.
    fn emit_element(&mut self, id: NodeId, step: &ElementStep, code: &mut Vec<Instruction>) {
        let node = self.node(id);
        let home = |operand: &NodeId| self.homes[operand.index()];
        let home = match (&node.kind, step.how, &step.operands[..]) {
            (_, How::Pair(op), [a, b, other]) => {
                let mut slots = [a, b, other].map(home);
                if self.ragged {
                    slots.iter_mut().for_each(|slot| *slot = self.dense(*slot, code));
                }
                let target = self.fresh(Level::Element, DType::F32);
                code.push(self.map(op, slots, target));
                target
            }
            (_, How::Pick, [index, chosen, others]) => {
                let [index, chosen, others] = [index, chosen, others].map(home);
                let target = self.fresh(Level::Element, node.dtype);
                code.push(Instruction::Pick { index, chosen, others, target });
                target
            }
            (NodeKind::Load(read), ..) => self.element_load(*read, code),
            (NodeKind::Accumulator, ..) => self.slot(SlotPlace::Accumulator, node.dtype),
            (NodeKind::Column, ..) => {
                let target = self.fresh(Level::Element, node.dtype);
                code.push(Instruction::Number { target });
                target
            }
            (NodeKind::Repeat(a), ..) => home(a),
            _ => self.computed(id, code),
        };
        self.homes[id.index()] = home;
        if self.keeps[id.index()] && matches!(self.program.slots[home as usize].place, SlotPlace::Pending) {
            self.program.slots[home as usize].place = SlotPlace::Kept(self.program.kept);
            self.program.kept += 1;
        }
    }

    /// Combines two functions of f32 into one instruction if the second is the only user of the first one's
    /// result. The operands are those of the first function, and the other operand of the second.
    fn pair(&self, second: BinaryOp, operands: [NodeId; 2]) -> Option<([NodeId; 3], MapOp)> {
        [false, true].into_iter().find_map(|reversed| {
            let [inner, other] = if reversed { [operands[1], operands[0]] } else { operands };
            let node = self.node(inner);
            let NodeKind::Binary(first, [a, b]) = node.kind else { return None };
            let alone = self.uses[inner.index()] == 1 && self.homes[inner.index()] == NONE;
            let fits = node.dtype == DType::F32 && node.level == Level::Element && alone;
            (fits && is_pair(first, second))
                .then_some(([a, b, other], MapOp::Pair { first, second, reversed }))
        })
    }

    fn element_load(&mut self, read: usize, code: &mut Vec<Instruction>) -> Slot {
        let access = &self.launch.reads[read];
        let wanted = |grid: &Grid| !self.ragged || grid.is_dense(self.body.rows, self.body.columns);
        match grid(access, self.body).filter(wanted) {
            Some(grid) => self.slot(SlotPlace::Read(read, grid), access.dtype),
            None => {
                let target = self.fresh(Level::Element, access.dtype);
                code.push(self.gather(read, target));
                target
            }
        }
    }

    /// Computes a node like [`Compiler::element`], but with one element in memory for each position.
    pub(super) fn spread(&mut self, id: NodeId, code: &mut Vec<Instruction>) -> Slot {
        let home = self.element(id, code);
        match &self.program.slots[home as usize].place {
            SlotPlace::Read(_, Grid { repeated: true, .. })
            | SlotPlace::RowRegister(_)
            | SlotPlace::Uniform(_)
            | SlotPlace::Constant(_) => {
                let home = self.copied(home, self.node(id).dtype, Level::Element, code);
                self.homes[id.index()] = home;
                home
            }
            _ => home,
        }
    }

    /// Assigns registers to pending slots, and computes the size of registers.
    fn registers(&mut self, whole_rows: bool) {
        let program = &mut self.program;
        program.registers = registers::assign(&mut program.slots, &program.passes);
        let fitting = TILE_BYTES / 4 / program.registers.max(1) / UNIT * UNIT;
        program.capacity = fitting.clamp(UNIT, MOST_ELEMENTS);
        if whole_rows && self.body.has_row_reductions() {
            program.capacity = program.capacity.max(self.body.columns.next_multiple_of(UNIT));
        }
        let width = self.body.columns.min(program.capacity).max(1);
        program.most_rows = (program.capacity / width).max(16);
    }
}

/// Returns the layout of an element-level operand or result as a grid, if its rows are worth a loop.
pub(super) fn grid(access: &Access, body: &Body) -> Option<Grid> {
    /// Minimum number of columns for which a single row is worth a loop.
    const WORTHWHILE: usize = 16;
    let grid = Grid::of(&access.layout, body.rows, body.columns)?;
    (grid.is_dense(body.rows, body.columns) || body.columns >= WORTHWHILE).then_some(grid)
}

/// Returns the function that computes a node from its operands.
fn map_op(body: &Body, node: &Node) -> MapOp {
    let of = |operand: NodeId| body.node(operand).dtype;
    match &node.kind {
        NodeKind::Unary(op, _) => MapOp::Unary(*op, node.dtype),
        NodeKind::Binary(op, _) => MapOp::Binary(*op, node.dtype),
        NodeKind::Compare(op, [a, _]) => MapOp::Compare(*op, of(*a)),
        NodeKind::Select(_) => MapOp::Select(node.dtype),
        NodeKind::Cast(a) => MapOp::Cast(of(*a), node.dtype),
        NodeKind::Constant(_)
        | NodeKind::Load(_)
        | NodeKind::Column
        | NodeKind::Accumulator
        | NodeKind::Repeat(_)
        | NodeKind::CheckIndex { .. }
        | NodeKind::CheckDivisor(_)
        | NodeKind::Reduce(..) => {
            panic!("gradloom fused {:?} at a level it cannot have; please report this", node.kind)
        }
    }
}

/// Returns the results that are larger than the last-level cache and overwrite no operand.
fn large_results(launch: &Launch, aliases: &Aliases, last_level_cache: usize) -> Vec<usize> {
    let is_large = |&write: &usize| {
        let access = &launch.writes[write];
        access.layout.shape.elements() * access.dtype.bytes() > last_level_cache
            && aliases.reads_of(write).is_empty()
    };
    (0..launch.writes.len()).filter(is_large).collect()
}
