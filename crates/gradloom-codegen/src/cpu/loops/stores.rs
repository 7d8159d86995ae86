//! The stores of a program: results of every level, and reductions of columns.
//!
//! In: a compilation whose row-level and uniform nodes have slots. Out: the last pass, with the element-level
//! nodes that only it needs, and the lists after it. Invariant: all values that a tile's results need are
//! computed before the first result is written, unless the instruction that computes a result may write it
//! directly to its destination.

use super::compile::{Compiler, grid};
use super::program::{ColumnResult, Grid, Instruction, Slot, SlotPlace, UniformResult};
use crate::cpu::loop_schedule::{column_total, partial_bytes};
use gradloom_core::kernel::{Level, NodeId, Store};

impl Compiler<'_> {
    /// Emits checks, reductions of columns, and results.
    pub(super) fn storing_pass(&mut self) -> Vec<Instruction> {
        let mut code = Vec::new();
        let body = self.body;
        let mut offset = 0;
        for store in &body.stores {
            match *store {
                Store::ColumnReduce { op, node, write, .. } => {
                    let total = column_total(body, store).map(|behind| offset + behind);
                    let operand = self.spread(node, &mut code);
                    let reduction = self.reduction(op, self.node(node).dtype);
                    code.push(Instruction::Columns { reduction, operand, offset });
                    let layout = &self.launch.writes[write].layout;
                    self.program.column_results.push(ColumnResult {
                        reduction,
                        offset,
                        total,
                        write,
                        write_offset: layout.offset,
                    });
                }
                Store::Value { .. } => {}
            }
            offset += partial_bytes(body, store);
        }
        for id in self.nodes_of(Level::Element) {
            if self.node(id).kind.is_check() && !self.checked[id.index()] {
                self.element(id, &mut code);
            }
        }
        self.element_stores(&mut code);
        code
    }

    /// Emits the results of level `Element`: first all values that they need, then the writes.
    fn element_stores(&mut self, code: &mut Vec<Instruction>) {
        let body = self.body;
        let stores: Vec<(NodeId, usize)> = body
            .stores
            .iter()
            .filter_map(|store| match *store {
                Store::Value { node, level: Level::Element, write } => Some((node, write)),
                _ => None,
            })
            .collect();
        for &(node, write) in &stores {
            let home = self.element(node, code);
            // True if another result may overwrite the value before this result is written: an operand, or
            // the product, which may be stored in another result's memory.
            let overwritten = match self.program.slots[home as usize].place {
                SlotPlace::Read(read, _) => self.overwriting.reads_of(read).iter().any(|&w| w != write),
                SlotPlace::Accumulator => stores.len() > 1,
                _ => false,
            };
            if overwritten {
                self.homes[node.index()] = self.copied(home, self.node(node).dtype, Level::Element, code);
            }
        }
        let mut writes = Vec::new();
        for &(node, write) in &stores {
            let access = &self.launch.writes[write];
            let home = self.homes[node.index()];
            match grid(access, body) {
                Some(grid) => {
                    let place = SlotPlace::Write(write, grid);
                    if self.node(node).level == Level::Element && self.can_compute_into(home, write, code) {
                        self.program.slots[home as usize].place = place;
                    } else {
                        let target = self.slot(place, access.dtype);
                        writes.push(self.copy(home, target, access.dtype));
                    }
                }
                None => {
                    // Scatters from a register, because a scatter reads neighboring elements.
                    let operand = match self.node(node).level == Level::Element {
                        true => self.spread(node, &mut writes),
                        false => self.copied(home, access.dtype, Level::Element, &mut writes),
                    };
                    writes.push(self.scatter(write, operand));
                }
            }
        }
        code.append(&mut writes);
    }

    /// Returns `true` if the instruction that computes a slot may write it directly to the result, because
    /// nothing that the result may overwrite is read afterwards.
    fn can_compute_into(&self, slot: Slot, write: usize, code: &[Instruction]) -> bool {
        let computes = |instruction: &Instruction| match instruction {
            Instruction::Map { target, .. } | Instruction::Pick { target, .. } => *target == slot,
            _ => false,
        };
        let Some(at) = code.iter().position(computes) else { return false };
        if !matches!(self.program.slots[slot as usize].place, SlotPlace::Pending) {
            return false;
        }
        let overwrites = |read: usize| self.aliases.contains(write, read);
        let reads = |slot: Slot| match self.program.slots.get(slot as usize).map(|slot| &slot.place) {
            Some(SlotPlace::Read(read, _)) => overwrites(*read),
            // The product may be stored in the result's memory.
            Some(SlotPlace::Accumulator) => true,
            _ => false,
        };
        code[at + 1..].iter().all(|instruction| match instruction {
            Instruction::Gather(gather) => !overwrites(gather.read),
            _ => !instruction.operands().into_iter().any(reads),
        })
    }

    pub(super) fn row_stores(&mut self) {
        let body = self.body;
        let mut code = Vec::new();
        for store in &body.stores {
            let Store::Value { node, level: Level::Row, write } = *store else { continue };
            let access = &self.launch.writes[write];
            let home = self.homes[node.index()];
            let grid =
                Grid::of(&access.layout, body.rows, 1).filter(|grid| body.rows == 1 || grid.row_stride == 1);
            if let Some(grid) = grid {
                let target = self.slot(SlotPlace::Write(write, Grid { row_stride: 1, ..grid }), access.dtype);
                code.push(self.copy(home, target, access.dtype));
                continue;
            }
            let register = matches!(self.program.slots[home as usize].place, SlotPlace::RowRegister(_));
            let operand =
                if register { home } else { self.copied(home, access.dtype, Level::Row, &mut code) };
            code.push(self.scatter(write, operand));
        }
        self.program.row_stores = code;
    }

    pub(super) fn uniform_results(&mut self) {
        let body = self.body;
        let mut offset = 0;
        for store in &body.stores {
            match *store {
                Store::Value { node, level: Level::Uniform, write } => {
                    let access = &self.launch.writes[write];
                    self.program.uniform_results.push(UniformResult {
                        operand: self.homes[node.index()],
                        bytes: access.dtype.bytes(),
                        offset,
                        write,
                        write_offset: access.layout.offset,
                    });
                }
                Store::ColumnReduce { .. } | Store::Value { .. } => {}
            }
            offset += partial_bytes(body, store);
        }
        debug_assert_eq!(offset, self.program.partials);
    }
}
