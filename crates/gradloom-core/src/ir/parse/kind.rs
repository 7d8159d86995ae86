//! The primitive behind a name, with its operands and attributes.

use super::Parser;
use super::attributes::Attributes;
use super::error::Result;
use super::op::Head;
use crate::ir::{
    ArgReduceOp, AttentionSpec, BinaryOp, CompareOp, DType, DotAxes, OpKind, ReduceOp, UnaryOp, ValueId,
};

impl Parser<'_> {
    /// Reads what follows the op's name, up to its origin.
    pub(super) fn kind(&mut self, head: &Head) -> Result<(OpKind, Vec<ValueId>)> {
        let name = head.name.as_str();
        // What stands before the operands.
        let early = match name {
            "input" => Some(OpKind::Input { name: self.leaf_name()?, ty: head.ty()? }),
            "param" => Some(OpKind::Param { name: self.leaf_name()?, ty: head.ty()? }),
            "scalar" => Some(OpKind::Scalar { name: self.leaf_name()?, dtype: head.ty()?.dtype }),
            "constant" => {
                let ty = head.ty()?;
                Some(OpKind::Constant { data: self.literal(ty.dtype)?, ty })
            }
            "checkpoint" => Some(OpKind::Checkpoint { block: self.closed_block()? }),
            "custom" => Some(OpKind::Custom(self.custom()?)),
            _ => None,
        };
        let state = if name == "state" { Some(self.leaf_name()?) } else { None };
        let block = if name == "repeat" { Some(self.closed_block()?) } else { None };
        let operands = self.operands()?;
        let mut attributes = self.attributes()?;
        let kind = match (early, state, block) {
            (Some(kind), ..) => kind,
            (_, Some(name), _) => {
                let ty = head.ty()?;
                OpKind::State { name, init: attributes.number("init", ty.dtype)?, ty }
            }
            (_, _, Some(block)) => OpKind::Repeat {
                block,
                trip: attributes.integer("trip")?,
                carried: attributes.integer("carried")?,
            },
            _ => plain(head, &mut attributes)?,
        };
        attributes.finish(name)?;
        Ok((kind, operands))
    }

    fn leaf_name(&mut self) -> Result<String> {
        self.string("a name in quotes")
    }

    /// The number in the graph of the custom op whose name comes next.
    fn custom(&mut self) -> Result<usize> {
        let position = self.position();
        let name = self.string("the name of a custom op in quotes")?;
        if let Some(known) = self.graph.customs.iter().position(|custom| custom.name() == name) {
            return Ok(known);
        }
        let Some(custom) = self.customs.iter().find(|custom| custom.name() == name) else {
            return Err(position.error(format!("the custom op {name:?} was not given to the parser")));
        };
        self.graph.customs.push(custom.clone());
        Ok(self.graph.customs.len() - 1)
    }
}

/// An op that has only operands and attributes.
fn plain(head: &Head, attributes: &mut Attributes) -> Result<OpKind> {
    let name = head.name.as_str();
    if let Some(op) = UnaryOp::parse(name) {
        return Ok(OpKind::Unary(op));
    }
    if let Some(op) = BinaryOp::parse(name) {
        return Ok(OpKind::Binary(op));
    }
    if let Some(op) = CompareOp::parse(name) {
        return Ok(OpKind::Compare(op));
    }
    if let Some(op) = ReduceOp::parse(name) {
        return Ok(OpKind::Reduce { op, axes: attributes.list("axes")? });
    }
    Ok(match name {
        "iota" => OpKind::Iota { ty: head.ty()?, axis: attributes.integer("axis")? },
        "random_bits" => OpKind::RandomBits { shape: head.ty()?.shape, site: attributes.integer("site")? },
        "select" => OpKind::Select,
        "cast" => OpKind::Cast { dtype: head.ty()?.dtype },
        "argmax" => OpKind::ArgReduce { op: ArgReduceOp::ArgMax, axis: attributes.integer("axis")? },
        "argmin" => OpKind::ArgReduce { op: ArgReduceOp::ArgMin, axis: attributes.integer("axis")? },
        "reshape" => OpKind::Reshape { shape: head.ty()?.shape },
        "permute" => OpKind::Permute { perm: attributes.list("perm")? },
        "broadcast" => OpKind::Broadcast { shape: head.ty()?.shape },
        "slice" => OpKind::Slice {
            start: attributes.list("start")?,
            limit: attributes.list("limit")?,
            step: attributes.list("step")?,
        },
        "pad" => OpKind::Pad {
            low: attributes.list("low")?,
            high: attributes.list("high")?,
            interior: attributes.list("interior")?,
            value: attributes.number("value", head.ty()?.dtype)?,
        },
        "concat" => OpKind::Concat { axis: attributes.integer("axis")? },
        "dynamic_slice" => OpKind::DynamicSlice { sizes: head.ty()?.shape.to_vec() },
        "dynamic_update_slice" => OpKind::DynamicUpdateSlice,
        "barrier" => OpKind::Barrier,
        "dot" => OpKind::Dot(DotAxes {
            lhs_batch: attributes.list_or_empty("lhs_batch")?,
            rhs_batch: attributes.list_or_empty("rhs_batch")?,
            lhs_contract: attributes.list_or_empty("lhs_contract")?,
            rhs_contract: attributes.list_or_empty("rhs_contract")?,
        }),
        "gather" => OpKind::Gather { batch: attributes.integer("batch")? },
        "scatter_add" => OpKind::ScatterAdd { batch: attributes.integer("batch")? },
        "attention" => OpKind::Attention(attention(attributes)?),
        "attention_grad" => OpKind::AttentionGrad(attention(attributes)?),
        _ => return Err(head.error(format!("expected the name of an op, found `{name}`"))),
    })
}

fn attention(attributes: &mut Attributes) -> Result<AttentionSpec> {
    Ok(AttentionSpec {
        causal: attributes.flag("causal")?,
        scale: attributes.number("scale", DType::F32)?.as_f64(),
        query_offset: attributes.flag("query_offset")?,
        key_length: attributes.flag("key_length")?,
        block_table: attributes.flag("block_table")?,
    })
}
