//! NVIDIA GPUs with CUDA as a target.

use super::{Addresses, CudaKernel, REUSE_DISTANCE, Replay, Work, units};
use crate::kernels::{self, Program};
use crate::lower::{self, Pass};
use crate::pipeline::{Code, Dialect, Source, Text, comment, common};
use gradloom_core::error::Result;

/// Target that generates CUDA C kernels and library products.
pub(crate) struct Cuda;

impl Dialect for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn passes(&self) -> &'static [Pass] {
        lower::CUDA
    }

    fn reuse_distance(&self, _: usize) -> usize {
        REUSE_DISTANCE
    }

    /// Returns code that contains a `Vec<CudaKernel>`.
    fn code(&self, source: &Source<'_>) -> Result<Code> {
        Ok(Code::new::<Vec<CudaKernel>>(units(source.plan, source.graph, source.cuts)?))
    }

    fn kernels(&self, source: &Source<'_>) -> Result<Vec<Text>> {
        let Source { target, plan, graph, cuts } = *source;
        let addresses = Addresses { plan, limits: &target.limits, cuts };
        Ok(common(&kernels::units(Program { plan, graph }, &addresses)?, plan))
    }

    fn texts(&self, source: &Source<'_>) -> Result<Vec<Text>> {
        let text = |kernel: &CudaKernel| {
            let text = match &kernel.work {
                Work::Function { source, .. } => source.clone(),
                Work::Product(product) => comment(product),
                Work::Collective(collective) => comment(collective),
            };
            Text::new(kernel.owner, source.plan, &kernel.label, text)
        };
        Ok(units(source.plan, source.graph, source.cuts)?.iter().map(text).collect())
    }

    fn replay(&self, source: &Source<'_>) -> Option<Replay> {
        let units = units(source.plan, source.graph, source.cuts).ok()?;
        Some(Replay::new(source.plan, source.graph, &units))
    }
}
