//! Segments for processors that no code is made for: there are none.

use super::execute::{Task, Tile};
use gradloom_codegen::cpu::loops::{self, Slot};

/// See the segments of x86-64.
pub(super) enum Segment {}

impl Segment {
    pub(super) fn load(_: &loops::Segment) -> Option<Self> {
        None
    }

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
