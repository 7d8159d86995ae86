//! Neighbouring instructions as machine code.

use super::execute::{Task, Tile};
use crate::native::{Call, Compiled};
use gradloom_codegen::cpu::loops::{self, Positions, RoutineOperand, Slot};
use gradloom_codegen::cpu::machine::OperandNumber;
use std::sync::Arc;

/// A compiled segment.
pub(super) struct Segment {
    code: Arc<Compiled>,
    /// Code that writes some results past the caches, where their rows start at whole vectors, and the
    /// numbers of those results.
    streaming: Option<(Arc<Compiled>, Vec<OperandNumber>)>,
    of: loops::Segment,
}

impl Segment {
    /// Loads the code of a segment, or returns `None` if the system does not allow it.
    pub(super) fn load(of: &loops::Segment) -> Option<Self> {
        let streaming = match &of.streaming {
            Some(streaming) => Some((Compiled::new(&streaming.code)?, streaming.operands.clone())),
            None => None,
        };
        Some(Self { code: Compiled::new(&of.code)?, streaming, of: of.clone() })
    }

    /// Returns the bytes of memory that a run needs.
    pub(super) fn frame_bytes(&self) -> usize {
        let streaming = self.streaming.as_ref().map_or(0, |(code, _)| code.frame_bytes());
        self.code.frame_bytes().max(streaming)
    }

    /// Returns the slots that are read from memory or written to it.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.of.slots()
    }

    /// Runs the segment on a tile.
    ///
    /// # Safety
    /// As [`Program::run_block`]; the task has a frame that is large enough.
    pub(super) unsafe fn run(&self, task: &Task<'_>, tile: &Tile) {
        let (mut rows, mut columns) = match self.of.positions {
            Positions::Tile => (tile.rows, tile.columns),
            Positions::Rows => (1, tile.rows),
        };
        let addresses = &task.memory.addresses;
        let has_no_gap = |operand: &RoutineOperand| match *operand {
            RoutineOperand::Slot(slot) => {
                let address = &addresses[slot as usize];
                address.row_stride == columns * address.bytes || address.repeated && address.row_stride == 0
            }
            RoutineOperand::Partials(_) => false,
        };
        if rows > 1 && self.of.flat && self.of.operands.iter().all(has_no_gap) {
            (rows, columns) = (1, rows * columns);
        }
        // SAFETY: the caller's promise; addresses are those of the tile's elements.
        unsafe {
            let call = Call::new(task.frame, rows, columns);
            if self.of.counts_columns {
                call.first_column(tile.column);
            }
            for (number, operand) in self.of.operands.iter().enumerate() {
                match *operand {
                    RoutineOperand::Slot(slot) => {
                        let at = match self.of.positions {
                            Positions::Tile => task.on_tile(slot, tile),
                            Positions::Rows => task.on_rows(slot, tile),
                        };
                        call.operand(OperandNumber::new(number), at.start, at.row_stride);
                    }
                    RoutineOperand::Partials(offset) => {
                        call.operand(
                            OperandNumber::new(number),
                            tile.partials.wrapping_add(offset + 4 * tile.column),
                            0,
                        );
                    }
                }
            }
            let aligned = |&number: &OperandNumber| call.starts_at_vectors(number, rows);
            match &self.streaming {
                Some((code, operands)) if operands.iter().all(aligned) => code.run(&call),
                _ => self.code.run(&call),
            }
        }
    }
}
