//! WebGPU devices as a target.

use super::{Context, Unit, units};
use crate::kernels::{self, Program};
use crate::lower::{self, Pass};
use crate::pipeline::{Code, Dialect, Source, Text, common};
use gradloom_core::error::Result;

/// Target that generates WGSL shaders.
pub(crate) struct Wgsl;

impl<'s> From<&Source<'s>> for Context<'s> {
    fn from(source: &Source<'s>) -> Self {
        let Source { target, graph, plan, cuts } = *source;
        Self { plan, graph, limits: &target.limits, cuts }
    }
}

impl Dialect for Wgsl {
    fn name(&self) -> &'static str {
        "wgsl"
    }

    fn can_communicate(&self) -> bool {
        false
    }

    fn passes(&self) -> &'static [Pass] {
        lower::WGSL
    }

    /// Returns code that contains a `Vec<Unit>`.
    fn code(&self, source: &Source<'_>) -> Result<Code> {
        Ok(Code::new::<Vec<Unit>>(units(&source.into())?))
    }

    fn kernels(&self, source: &Source<'_>) -> Result<Vec<Text>> {
        let Source { plan, graph, .. } = *source;
        let context = Context::from(source);
        Ok(common(&kernels::units(Program { plan, graph }, &context)?, plan))
    }

    fn texts(&self, source: &Source<'_>) -> Result<Vec<Text>> {
        let mut texts = Vec::new();
        for unit in units(&source.into())? {
            let all = unit.dispatches.iter();
            texts
                .extend(all.map(|made| Text::new(unit.owner, source.plan, &made.label, made.source.clone())));
        }
        Ok(texts)
    }
}
