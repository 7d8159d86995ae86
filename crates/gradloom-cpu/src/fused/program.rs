//! A compiled body with the loops and the machine code of this machine.

use super::native::Native;
use super::reductions::Reduction;
use crate::InstructionSet;
use crate::elementwise::MapFn;
use crate::elementwise::functions::function;
use crate::index::Places;
use crate::strided_reader::StridedReader;
use gradloom_codegen::cpu::loops;
use gradloom_core::kernel::Launch;
use std::ops::Deref;
use std::sync::Arc;

/// A compiled body, which the executor runs.
pub(crate) struct Program {
    body: Arc<loops::Program>,
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
    /// Prepares a compiled body for the launch that contains it.
    pub(crate) fn new(body: Arc<loops::Program>, launch: &Launch, level: InstructionSet) -> Self {
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
            native: body.native.as_ref().and_then(|native| Native::load(&body, native)),
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
