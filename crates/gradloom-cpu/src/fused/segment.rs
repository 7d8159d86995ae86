//! Neighbouring instructions as machine code.

use super::execute::{Task, Tile};
use crate::native::{Call, Compiled};
use gradloom_codegen::cpu::loops::{self, Positions, RoutineOperand, Slot, Streaming};
use gradloom_codegen::cpu::machine::OperandNumber;
use std::ops::Range;
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
    /// Compiles a segment; where that cannot be, the numbers of its instructions.
    pub(super) fn load(of: &loops::Segment) -> Result<Self, Range<usize>> {
        let code = Compiled::new(of.routine.clone()).ok_or_else(|| of.instructions.clone())?;
        // WebAssembly has no stores past the caches.
        let streaming = of.streaming.as_ref().filter(|_| cfg!(target_arch = "x86_64"));
        let streaming = streaming.and_then(|Streaming { routine, operands }| {
            Some((Compiled::new(routine.clone())?, operands.clone()))
        });
        Ok(Self { code, streaming, of: of.clone() })
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
