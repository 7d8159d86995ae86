//! Segments for processors without machine code: there are none, and every instruction stays interpreted.

use super::native::{Fetched, Positions, Step};
use super::program::{Instruction, Program};

/// See the segments of x86-64.
#[derive(Clone, Debug)]
pub enum Segment {}

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
