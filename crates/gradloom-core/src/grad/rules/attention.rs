//! Attention, which is differentiated by a dedicated op.

use super::{ATTENTION_HELP, Rule, refusal, refuse, rest_none, some};
use crate::ir::{AttentionSpec, OpKind};

/// Returns the rule of attention, (dq, dk, dv) = attention_grad(operands, output, log-sum-exp, cotangent of
/// the output). See [`OpKind::AttentionGrad`] for the formulas.
pub(super) fn rule(spec: AttentionSpec) -> Option<Rule<'static>> {
    if spec.block_table {
        return refuse(
            "attention over a block table reads a cache, which is not trained",
            "pass the keys and values themselves when training",
        );
    }
    some(move |b, s| {
        let (Some(g), None) = (s.cotangents[0], s.cotangents[1]) else {
            let message = "the loss depends on its log-sum-exp, which has no gradient";
            return Err(refusal(b.graph, s.op, message, ATTENTION_HELP));
        };
        let operands = [&s.op.operands[..], &s.op.results, &[g]].concat();
        let all = b.all(OpKind::AttentionGrad(spec), &operands);
        Ok(rest_none(s, [Some(all[0]), Some(all[1]), Some(all[2])]))
    })
}
