//! Parsing of an op by its name, with its operands and attributes.

use super::Parser;
use super::error::Result;
use super::op::Head;
use crate::ir::{DType, Number, OpKind, ValueId};

impl Parser<'_> {
    /// Parses the part of the op between its name and its origin.
    pub(super) fn kind(&mut self, head: &Head) -> Result<(OpKind, Vec<ValueId>)> {
        let name = head.name.as_str();
        // Parse the arguments before the operands.
        let mut kind = match name {
            "input" => OpKind::Input { name: self.leaf_name()?, ty: head.ty()? },
            "param" => OpKind::Param { name: self.leaf_name()?, ty: head.ty()? },
            "state" => {
                let (name, ty) = (self.leaf_name()?, head.ty()?);
                OpKind::State { name, init: Number::of(ty.dtype, 0.0), ty, whole: Vec::new() }
            }
            "scalar" => OpKind::Scalar { name: self.leaf_name()?, dtype: head.ty()?.dtype },
            "constant" => {
                let ty = head.ty()?;
                OpKind::Constant { data: self.literal(ty.dtype)?, ty }
            }
            "repeat" => OpKind::Repeat { block: self.closed_block()?, trip: 0, carried: 0 },
            "checkpoint" => OpKind::Checkpoint { block: self.closed_block()? },
            "custom" => OpKind::Custom(self.custom()?),
            _ => match OpKind::named(name, || head.ty())? {
                Some(kind) => kind,
                None => return Err(head.error(format!("expected the name of an op, found `{name}`"))),
            },
        };
        let operands = self.operands()?;
        let mut attributes = self.attributes(head.types.first().map_or(DType::F32, |ty| ty.dtype))?;
        kind.attributes(&mut attributes)?;
        attributes.finish(name)?;
        Ok((kind, operands))
    }

    fn leaf_name(&mut self) -> Result<String> {
        self.string("a name in quotes")
    }

    /// Parses the name of a custom op. Returns its index in the graph.
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
