//! User-defined ops. The rule is [`crate::ir::CustomOp::gradient`], whose results are checked.

use super::super::cotangent_type;
use super::{Rule, refusal, some};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Builder, ValueId};
use std::sync::Arc;

/// Returns the rule of the custom op with this index.
pub(super) fn rule(id: usize) -> Option<Rule<'static>> {
    some(move |b, s| {
        let custom = Arc::clone(&b.graph.customs[id]);
        let cotangents = custom.gradient(b, &s.op.operands, &s.op.results, s.cotangents);
        let Some(cotangents) = cotangents else {
            let message = format!("the custom op `{}` has no gradient", custom.name());
            return Err(refusal(b.graph, s.op, &message, "implement CustomOp::gradient for it"));
        };
        check(b, custom.name(), &s.op.operands, &cotangents).map_err(|error| b.graph.blame(s.op, error))?;
        Ok(cotangents)
    })
}

/// Checks that each cotangent has the type of its operand, with f32 for 16-bit floats.
fn check(b: &Builder<'_>, name: &str, operands: &[ValueId], cotangents: &[Option<ValueId>]) -> Result<()> {
    let fail = |message: String| Err(Error::new(ErrorKind::NotDifferentiable, message));
    if cotangents.len() != operands.len() {
        return fail(format!(
            "CustomOp::gradient of `{name}` returned {} cotangents for {} operands",
            cotangents.len(),
            operands.len()
        ));
    }
    for (i, (&operand, cotangent)) in operands.iter().zip(cotangents).enumerate() {
        let Some(cotangent) = *cotangent else { continue };
        let (expected, got) = (cotangent_type(b.graph.ty(operand)), b.graph.ty(cotangent));
        if *got != expected {
            return fail(format!(
                "CustomOp::gradient of `{name}` returned {got} for operand {i}, whose cotangent is {expected}"
            ));
        }
    }
    Ok(())
}
