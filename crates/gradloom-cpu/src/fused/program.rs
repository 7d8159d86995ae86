//! A compiled body with the loops and the machine code of this machine.

use super::native::{Native, Segment};
use super::reductions::Reduction;
use crate::elementwise::MapFn;
use crate::elementwise::functions::function;
use crate::index::Places;
use crate::strided_reader::StridedReader;
use crate::{InstructionSet, Loops};
use gradloom_codegen::cpu::loops::{self, Machine};
use gradloom_core::kernel::{Body, Launch};
use std::ops::Deref;

/// A compiled body, which the executor runs.
pub(crate) struct Program {
    body: loops::Program,
    /// The loop of each of the body's functions.
    pub(super) functions: Vec<MapFn>,
    /// The loops of each of its reductions.
    pub(super) reductions: Vec<Reduction>,
    /// Reader of each gather's operand.
    pub(super) sources: Vec<StridedReader>,
    /// Destinations of each scatter's elements.
    pub(super) scatters: Vec<Places>,
    /// Destinations of the results of column reductions.
    pub(super) columns_at: Vec<Places>,
    /// Machine code for the instructions, if there is any.
    pub(super) native: Option<Native>,
}

impl Program {
    /// Compiles a body for the launch that it stands in: loads and stores name the launch's reads and writes.
    ///
    /// # Panics
    /// For a body that [`Body::check`] refuses, or whose dtypes shape inference refuses.
    pub(crate) fn new(body: &Body, launch: &Launch, level: InstructionSet, loops: Loops) -> Self {
        let machine = Machine {
            has_machine_code: loops == Loops::Native && crate::device::compiles_loops(level),
            last_level_cache: gradloom_device::host::last_level_cache(),
        };
        let body = loops::Program::new(body, launch, machine);
        let places = |write: usize| {
            let layout = &launch.writes[write].layout;
            Places::new(layout, 0, layout.shape.rank())
        };
        Self {
            functions: body.functions.iter().map(|&op| function(op, level)).collect(),
            reductions: body.reductions.iter().map(|&(op, dtype)| Reduction::new(op, dtype, level)).collect(),
            sources: body.gathers.iter().map(|&read| StridedReader::new(&launch.reads[read])).collect(),
            scatters: body.scatters.iter().map(|&write| places(write)).collect(),
            columns_at: body.column_results.iter().map(|result| places(result.write)).collect(),
            native: body.native.as_ref().and_then(|native| Native::load(&body, native, Segment::load)),
            body,
        }
    }
}

impl Deref for Program {
    type Target = loops::Program;
    fn deref(&self) -> &loops::Program {
        &self.body
    }
}
