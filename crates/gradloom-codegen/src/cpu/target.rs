//! CPUs as a kind of device.

use super::CpuCompiler;
use crate::lower::{self, Pass};
use crate::pipeline::{Code, Dialect, Source, Text, launches};
use gradloom_core::error::Result;

/// Number of launches after a value's last use for which several threads do not reuse its memory, so that the
/// launches need not wait for each other.
const REUSE_DISTANCE: usize = 2;

/// The CPU dialect, whose kernels are loops over tiles and functions of the runtime.
pub(crate) struct Cpu;

impl Dialect for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn is_gpu(&self) -> bool {
        false
    }

    fn passes(&self) -> &'static [Pass] {
        lower::CPU
    }

    fn reuse_distance(&self, threads: usize) -> usize {
        if threads > 1 { REUSE_DISTANCE } else { 0 }
    }

    fn code(&self, source: &Source<'_>) -> Result<Code> {
        Ok(Code::new(CpuCompiler::new(source.target.machine).plan(source.plan)))
    }

    /// Returns the instructions of the tile loops that kernels consist of or end with.
    fn texts(&self, source: &Source<'_>) -> Result<Vec<Text>> {
        let (mut texts, mut compiler) = (Vec::new(), CpuCompiler::new(source.target.machine));
        for (owner, launch) in launches(source.plan) {
            let made = compiler.launch(launch).texts(launch);
            texts.extend(made.into_iter().map(|(label, made)| Text::new(owner, source.plan, &label, made)));
        }
        Ok(texts)
    }
}
