//! From a body to a program.
//!
//! In: a body, and the layouts that its operands and results have. Out: a [`Program`]. Rows that are reduced need one pass for each
//! reduction that depends on another; element-level nodes are computed again in each pass that needs them, unless the tile registers
//! take whole rows.
//! Always holds: within a tile, what a result may overwrite is read before the result is written.

use super::program::{
    Check, ColumnResult, Gather, Grid, Instruction, NONE, Pass, Place, Program, Scatter, Slot, SlotInfo,
    UniformResult,
};
use super::reductions::Reduction;
use super::registers;
use crate::cpu::Level as InstructionSet;
use crate::cpu::elementwise::{MapFn, OPERANDS, functions};
use crate::cpu::index::Places;
use crate::cpu::source::Source;
use gradloom_codegen::cpu::column_partials;
use gradloom_core::ir::{DType, Number, UnaryOp};
use gradloom_core::kernel::{Access, Body, Launch, Level, Node, NodeId, NodeKind, Store};

/// Bytes that the tile registers take together: half of a first-level cache, the other half being for operands and results.
const TILE_BYTES: usize = 24 * 1024;
/// Bytes that they may take so that rows stay whole: a part of a second-level cache.
const WHOLE_ROW_BYTES: usize = 96 * 1024;
/// Most elements of a register.
const MOST_ELEMENTS: usize = 2048;
/// Elements of a register are a multiple of this.
const UNIT: usize = 64;

impl Program {
    /// Compiles a body for the launch that it stands in: loads and stores name the launch's reads and writes.
    ///
    /// # Panics
    /// For a body that [`Body::check`] refuses, or whose dtypes shape inference refuses.
    pub(in crate::cpu) fn new(body: &Body, launch: &Launch, level: InstructionSet) -> Self {
        let reduces = body.has_row_reductions();
        let whole = Compiler::compile(body, launch, level, true);
        if !reduces || 4 * body.columns * whole.registers.max(1) <= WHOLE_ROW_BYTES {
            return whole;
        }
        Compiler::compile(body, launch, level, false)
    }
}

struct Compiler<'a> {
    body: &'a Body,
    launch: &'a Launch,
    level: InstructionSet,
    /// For each node: how many reductions come before it, one after the other.
    stages: Vec<usize>,
    needed: Vec<bool>,
    /// Where each node's elements are; for element-level nodes, in the current pass.
    homes: Vec<Slot>,
    program: Program,
    /// Checks that were emitted.
    checked: Vec<bool>,
}

impl<'a> Compiler<'a> {
    fn compile(body: &'a Body, launch: &'a Launch, level: InstructionSet, whole_rows: bool) -> Program {
        let nodes = body.nodes.len();
        let program = Program {
            columns: body.columns,
            cuts_columns: !(whole_rows && body.has_row_reductions()),
            slots: Vec::new(),
            constants: Vec::new(),
            uniform: Vec::new(),
            rows: Vec::new(),
            passes: Vec::new(),
            row_stores: Vec::new(),
            column_results: Vec::new(),
            uniform_results: Vec::new(),
            partials: column_partials(body),
            can_trap: body.can_trap(),
            capacity: 0,
            most_rows: 0,
            registers: 0,
            row_registers: 0,
            uniforms: 0,
        };
        let mut compiler = Self {
            body,
            launch,
            level,
            stages: stages(body),
            needed: needed(body),
            homes: vec![NONE; nodes],
            program,
            checked: vec![false; nodes],
        };
        compiler.uniform_nodes();
        let rows = compiler.row_nodes(0);
        compiler.program.rows = rows;
        compiler.passes(whole_rows);
        compiler.row_stores();
        compiler.uniform_results();
        compiler.registers(whole_rows);
        compiler.program
    }

    fn slot(&mut self, place: Place, dtype: DType) -> Slot {
        self.program.slots.push(SlotInfo { place, bytes: dtype.bytes() });
        (self.program.slots.len() - 1) as Slot
    }

    fn node(&self, id: NodeId) -> &'a Node {
        &self.body.nodes[id.index()]
    }

    /// The nodes of a level that have to be computed, in order.
    fn nodes_of(&self, level: Level) -> Vec<NodeId> {
        let wanted = |&i: &usize| self.needed[i] && self.body.nodes[i].level == level;
        (0..self.body.nodes.len()).filter(wanted).map(|i| NodeId(i as u32)).collect()
    }

    /// Whether a result may overwrite what this node loads.
    fn is_overwritten(&self, read: usize) -> bool {
        self.launch.may_alias.iter().any(|&(_, r)| r == read)
    }

    fn uniform_nodes(&mut self) {
        let mut code = Vec::new();
        for id in self.nodes_of(Level::Uniform) {
            let node = self.node(id);
            let home = match &node.kind {
                NodeKind::Constant(number) => {
                    self.program.constants.push(bits(*number, node.dtype));
                    self.slot(Place::Constant(self.program.constants.len() - 1), node.dtype)
                }
                NodeKind::Load(read) => {
                    let offset = self.launch.reads[*read].layout.offset;
                    let grid = Grid { offset, row_stride: 0, repeated: true };
                    let place = self.slot(Place::Read(*read, grid), node.dtype);
                    match self.is_overwritten(*read) {
                        true => self.copied(place, node.dtype, Level::Uniform, &mut code),
                        false => place,
                    }
                }
                _ => self.computed(id, &mut code),
            };
            self.homes[id.index()] = home;
        }
        self.program.uniform = code;
    }

    /// Row-level nodes that this many reductions come before; those that are reductions belong to the pass before.
    fn row_nodes(&mut self, stage: usize) -> Vec<Instruction> {
        let mut code = Vec::new();
        for id in self.nodes_of(Level::Row) {
            let node = self.node(id);
            if self.stages[id.index()] != stage || matches!(node.kind, NodeKind::Reduce(..)) {
                continue;
            }
            self.homes[id.index()] = match &node.kind {
                NodeKind::Load(read) => self.row_load(*read, &mut code),
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
            return self.slot(Place::Read(read, Grid { repeated: true, ..grid }), access.dtype);
        }
        let target = self.row_register(access.dtype);
        code.push(Instruction::Gather(Box::new(Gather { read, source: Source::new(access), target })));
        target
    }

    fn row_register(&mut self, dtype: DType) -> Slot {
        self.program.row_registers += 1;
        self.slot(Place::RowRegister(self.program.row_registers - 1), dtype)
    }

    /// A new place for elements of a level.
    fn fresh(&mut self, level: Level, dtype: DType) -> Slot {
        match level {
            Level::Uniform => {
                self.program.uniforms += 1;
                self.slot(Place::Uniform(self.program.uniforms - 1), dtype)
            }
            Level::Row => self.row_register(dtype),
            Level::Element => self.slot(Place::Pending, dtype),
        }
    }

    /// Emits what a node computes from other nodes, whose homes are known.
    fn computed(&mut self, id: NodeId, code: &mut Vec<Instruction>) -> Slot {
        let node = self.node(id);
        let home = |operand: NodeId| self.homes[operand.index()];
        if let NodeKind::CheckIndex { index, extent } = node.kind {
            if !std::mem::replace(&mut self.checked[id.index()], true) {
                let check = Check {
                    operand: home(index),
                    extent,
                    node: id.index(),
                    shape: self.index_shape(index, node.level),
                };
                code.push(Instruction::Check(Box::new(check)));
            }
            return home(index);
        }
        let mut operands = [NONE; OPERANDS];
        for (slot, &operand) in operands.iter_mut().zip(node.kind.operands()) {
            *slot = home(operand);
        }
        let function = function(self.body, node, self.level);
        let target = self.fresh(node.level, node.dtype);
        code.push(Instruction::Map { function, operands, target });
        target
    }

    /// Emits a copy.
    fn copied(&mut self, from: Slot, dtype: DType, level: Level, code: &mut Vec<Instruction>) -> Slot {
        let target = self.fresh(level, dtype);
        code.push(copy(from, target, dtype, self.level));
        target
    }

    /// The shape of indices, for messages.
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
        for (home, node) in self.homes.iter_mut().zip(&self.body.nodes) {
            if node.level == Level::Element {
                *home = NONE;
            }
        }
    }

    /// The reductions of a stage, and the row-level nodes that follow from them.
    fn reducing_pass(&mut self, stage: usize) -> Pass {
        let mut pass = Pass::default();
        for id in self.nodes_of(Level::Row) {
            let node = self.node(id);
            let NodeKind::Reduce(op, of) = node.kind else { continue };
            if self.stages[id.index()] != stage {
                continue;
            }
            let reduction = Reduction::new(op, node.dtype, self.level);
            let operand = self.spread(of, &mut pass.tile);
            let target = self.row_register(node.dtype);
            pass.tile.push(Instruction::Reduce { function: reduction.rows, operand, target });
            pass.starts.push((target, reduction.identity));
            self.homes[id.index()] = target;
        }
        pass.rows = self.row_nodes(stage);
        pass
    }

    /// Emits an element-level node, and what it needs, unless that is done; a node of a lower level has its home already.
    fn element(&mut self, id: NodeId, code: &mut Vec<Instruction>) -> Slot {
        if self.homes[id.index()] != NONE {
            return self.homes[id.index()];
        }
        let node = self.node(id);
        let home = match &node.kind {
            NodeKind::Load(read) => self.element_load(*read, code),
            NodeKind::Accumulator => self.slot(Place::Accumulator, node.dtype),
            kind => {
                for &operand in kind.operands() {
                    self.element(operand, code);
                }
                self.computed(id, code)
            }
        };
        self.homes[id.index()] = home;
        home
    }

    fn element_load(&mut self, read: usize, code: &mut Vec<Instruction>) -> Slot {
        let access = &self.launch.reads[read];
        match grid(access, self.body) {
            Some(grid) => self.slot(Place::Read(read, grid), access.dtype),
            None => {
                let target = self.fresh(Level::Element, access.dtype);
                code.push(Instruction::Gather(Box::new(Gather {
                    read,
                    source: Source::new(access),
                    target,
                })));
                target
            }
        }
    }

    /// Like [`Compiler::element`], with one element in memory for each position.
    fn spread(&mut self, id: NodeId, code: &mut Vec<Instruction>) -> Slot {
        let home = self.element(id, code);
        match &self.program.slots[home as usize].place {
            Place::Read(_, Grid { repeated: true, .. }) => {
                let home = self.copied(home, self.node(id).dtype, Level::Element, code);
                self.homes[id.index()] = home;
                home
            }
            _ => home,
        }
    }

    /// Checks, reductions of columns, and results.
    fn storing_pass(&mut self) -> Vec<Instruction> {
        let mut code = Vec::new();
        let body = self.body;
        let mut offset = 0;
        for store in &body.stores {
            match *store {
                Store::Columns { op, node, write } => {
                    let operand = self.spread(node, &mut code);
                    let reduction = Reduction::new(op, self.node(node).dtype, self.level);
                    code.push(Instruction::Columns { function: reduction.columns, operand, offset });
                    let layout = &self.launch.writes[write].layout;
                    self.program.column_results.push(ColumnResult {
                        reduction,
                        offset,
                        write,
                        write_offset: layout.offset,
                        places: Places::new(layout, 0, layout.shape.rank()),
                    });
                    offset += (4 * body.columns).next_multiple_of(64);
                }
                Store::Whole { level: Level::Uniform, .. } => offset += 64,
                Store::Whole { .. } => {}
            }
        }
        for id in self.nodes_of(Level::Element) {
            if matches!(self.node(id).kind, NodeKind::CheckIndex { .. }) && !self.checked[id.index()] {
                self.element(id, &mut code);
            }
        }
        self.element_stores(&mut code);
        code
    }

    /// Emits the results of level `Element`: all that they need first, then the writes.
    fn element_stores(&mut self, code: &mut Vec<Instruction>) {
        let body = self.body;
        let stores: Vec<(NodeId, usize)> = body
            .stores
            .iter()
            .filter_map(|store| match *store {
                Store::Whole { node, level: Level::Element, write } => Some((node, write)),
                _ => None,
            })
            .collect();
        for &(node, write) in &stores {
            let home = self.element(node, code);
            // Another result may overwrite the operand before it is copied to this one.
            if let Place::Read(read, _) = self.program.slots[home as usize].place
                && self.launch.may_alias.iter().any(|&(w, r)| r == read && w != write)
            {
                self.homes[node.index()] = self.copied(home, self.node(node).dtype, Level::Element, code);
            }
        }
        let mut writes = Vec::new();
        for &(node, write) in &stores {
            let access = &self.launch.writes[write];
            let home = self.homes[node.index()];
            match grid(access, body) {
                Some(grid) => {
                    let place = Place::Write(write, grid);
                    if self.node(node).level == Level::Element && self.can_compute_into(home, write, code) {
                        self.program.slots[home as usize].place = place;
                    } else {
                        let target = self.slot(place, access.dtype);
                        writes.push(copy(home, target, access.dtype, self.level));
                    }
                }
                None => {
                    // Scattered from a register: the walk wants neighbouring elements.
                    let operand = match self.node(node).level == Level::Element {
                        true => self.spread(node, &mut writes),
                        false => self.copied(home, access.dtype, Level::Element, &mut writes),
                    };
                    let layout = &access.layout;
                    let places = Places::new(layout, 0, layout.shape.rank());
                    let scatter = Scatter { write, offset: layout.offset, places, operand };
                    writes.push(Instruction::Scatter(Box::new(scatter)));
                }
            }
        }
        code.append(&mut writes);
    }

    /// Whether the instruction that computes a slot may write it straight to the result: nothing that the result may overwrite is read
    /// afterwards.
    fn can_compute_into(&self, slot: Slot, write: usize, code: &[Instruction]) -> bool {
        let Some(at) =
            code.iter().position(|i| matches!(i, Instruction::Map { target, .. } if *target == slot))
        else {
            return false;
        };
        if !matches!(self.program.slots[slot as usize].place, Place::Pending) {
            return false;
        }
        let overwrites = |read: usize| self.launch.may_alias.contains(&(write, read));
        let reads = |slot: Slot| match self.program.slots.get(slot as usize).map(|slot| &slot.place) {
            Some(Place::Read(read, _)) => overwrites(*read),
            _ => false,
        };
        code[at + 1..].iter().all(|instruction| match instruction {
            Instruction::Map { operands, .. } => !operands.iter().any(|&slot| reads(slot)),
            Instruction::Gather(gather) => !overwrites(gather.read),
            Instruction::Reduce { operand, .. } | Instruction::Columns { operand, .. } => !reads(*operand),
            Instruction::Check(check) => !reads(check.operand),
            Instruction::Scatter(_) => true,
        })
    }

    fn row_stores(&mut self) {
        let body = self.body;
        let mut code = Vec::new();
        for store in &body.stores {
            let Store::Whole { node, level: Level::Row, write } = *store else { continue };
            let access = &self.launch.writes[write];
            let home = self.homes[node.index()];
            let grid =
                Grid::of(&access.layout, body.rows, 1).filter(|grid| body.rows == 1 || grid.row_stride == 1);
            if let Some(grid) = grid {
                let target = self.slot(Place::Write(write, Grid { row_stride: 1, ..grid }), access.dtype);
                code.push(copy(home, target, access.dtype, self.level));
                continue;
            }
            let register = matches!(self.program.slots[home as usize].place, Place::RowRegister(_));
            let operand =
                if register { home } else { self.copied(home, access.dtype, Level::Row, &mut code) };
            let layout = &access.layout;
            let places = Places::new(layout, 0, layout.shape.rank());
            code.push(Instruction::Scatter(Box::new(Scatter {
                write,
                offset: layout.offset,
                places,
                operand,
            })));
        }
        self.program.row_stores = code;
    }

    fn uniform_results(&mut self) {
        let body = self.body;
        let mut offset = 0;
        for store in &body.stores {
            match *store {
                Store::Columns { .. } => offset += (4 * body.columns).next_multiple_of(64),
                Store::Whole { node, level: Level::Uniform, write } => {
                    let access = &self.launch.writes[write];
                    self.program.uniform_results.push(UniformResult {
                        operand: self.homes[node.index()],
                        bytes: access.dtype.bytes(),
                        offset,
                        write,
                        write_offset: access.layout.offset,
                    });
                    offset += 64;
                }
                Store::Whole { .. } => {}
            }
        }
        debug_assert_eq!(offset, self.program.partials);
    }

    /// Gives the pending slots registers, and the registers their size.
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

/// The layout of an element-level operand or result as a grid whose rows are worth a loop.
fn grid(access: &Access, body: &Body) -> Option<Grid> {
    /// Columns from which on a row by itself is worth a loop.
    const WORTHWHILE: usize = 16;
    let grid = Grid::of(&access.layout, body.rows, body.columns)?;
    let dense = !grid.repeated && (grid.row_stride == body.columns || body.rows == 1);
    (dense || body.columns >= WORTHWHILE).then_some(grid)
}

/// A copy of elements to another slot.
fn copy(from: Slot, target: Slot, dtype: DType, level: InstructionSet) -> Instruction {
    let function = functions::unary(UnaryOp::Detach, dtype, level);
    Instruction::Map { function, operands: [from, NONE, NONE], target }
}

/// The loop that computes a node from its operands.
fn function(body: &Body, node: &Node, level: InstructionSet) -> MapFn {
    let of = |operand: NodeId| body.node(operand).dtype;
    match &node.kind {
        NodeKind::Unary(op, _) => functions::unary(*op, node.dtype, level),
        NodeKind::Binary(op, _) => functions::binary(*op, node.dtype, level),
        NodeKind::Compare(op, [a, _]) => functions::compare(*op, of(*a), level),
        NodeKind::Select(_) => functions::select(node.dtype, level),
        NodeKind::Cast(a) => functions::cast(of(*a), node.dtype, level),
        NodeKind::Constant(_)
        | NodeKind::Load(_)
        | NodeKind::Accumulator
        | NodeKind::CheckIndex { .. }
        | NodeKind::Reduce(..) => {
            panic!("gradloom fused {:?} at a level it cannot have; please report this", node.kind)
        }
    }
}

/// A number as an element in memory.
fn bits(number: Number, dtype: DType) -> u32 {
    match (number, dtype) {
        (Number::Float(value), _) => (value as f32).to_bits(),
        (Number::Int(value), DType::I32) => (value as i32).cast_unsigned(),
        (Number::Int(value), _) => value as u32,
        (Number::Bool(value), _) => u32::from(value).to_le(),
    }
}

/// For each node, the number of reductions that have to come before it, one after the other.
fn stages(body: &Body) -> Vec<usize> {
    let mut stages: Vec<usize> = Vec::with_capacity(body.nodes.len());
    for node in &body.nodes {
        let before = node.kind.operands().iter().map(|operand| stages[operand.index()]).max().unwrap_or(0);
        stages.push(before + usize::from(matches!(node.kind, NodeKind::Reduce(..))));
    }
    stages
}

/// Whether each node is stored, checked, or used by one that is.
fn needed(body: &Body) -> Vec<bool> {
    let mut needed = vec![false; body.nodes.len()];
    body.stores.iter().for_each(|store| needed[store.node().index()] = true);
    for (i, node) in body.nodes.iter().enumerate().rev() {
        if needed[i] || matches!(node.kind, NodeKind::CheckIndex { .. }) {
            needed[i] = true;
            node.kind.operands().iter().for_each(|operand| needed[operand.index()] = true);
        }
    }
    needed
}
