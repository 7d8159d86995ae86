//! Segments for processors without machine code: there are none, and every instruction stays interpreted.

use super::execute::{Task, Tile};
use super::native::{Fetched, Positions, Step};
use super::program::{Instruction, Program, Slot};

/// See the segments of x86-64.
pub(super) enum Segment {}

/// See the segments of x86-64.
pub(super) struct Uses;

impl Uses {
    pub(super) fn new(_: &Program) -> Self {
        Self
    }
}

pub(super) fn segments(
    _: &Program,
    list: &[Instruction],
    _: Positions,
    _: &Uses,
    _: &[Fetched],
) -> Vec<Step> {
    (0..list.len()).map(Step::Interpreted).collect()
}

impl Segment {
    pub(super) fn frame_bytes(&self) -> usize {
        match *self {}
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        std::iter::empty()
    }

    /// # Safety
    /// There is none to run.
    pub(super) unsafe fn run(&self, _: &Task<'_>, _: &Tile) {
        match *self {}
    }
}
