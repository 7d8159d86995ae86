//! Parsing of an op: results, name, operands, attributes and origin.

use super::Parser;
use super::error::{ParseError, Position, Result};
use super::lexer::Token;
use crate::ir::{BlockId, DType, OriginId, Type, ValueId};

/// The parts of an op up to its name.
pub(super) struct Head {
    pub(super) name: String,
    pub(super) position: Position,
    /// Result types given in the text.
    pub(super) types: Vec<Type>,
}

impl Head {
    pub(super) fn error(&self, message: impl Into<String>) -> ParseError {
        self.position.error(message)
    }

    /// Returns the type of the only result, for ops that store it as an attribute.
    pub(super) fn ty(&self) -> Result<Type> {
        match &self.types[..] {
            [ty] => Ok(ty.clone()),
            types => Err(self.error(format!("{} has one result, found {}", self.name, types.len()))),
        }
    }
}

impl Parser<'_> {
    /// Parses an op such as `%4: f32[2] = add %2, %3 {attributes} @0`. An op without results has no `=`.
    pub(super) fn op(&mut self) -> Result<()> {
        let mut results: Vec<(u32, Position, Type)> = Vec::new();
        if matches!(self.peek(), Token::Value(_)) {
            loop {
                results.push(self.typed()?);
                if !self.take(",") {
                    break;
                }
            }
            self.expect("=")?;
        }
        let position = self.position();
        let name = self.word("the name of an op")?;
        let head = Head { name, position, types: results.iter().map(|(_, _, ty)| ty.clone()).collect() };
        let (kind, operands) = self.kind(&head)?;
        let origin = self.origin()?;
        let values = self.add(&head, kind, &operands, origin)?;
        for ((number, position, _), value) in results.into_iter().zip(values) {
            self.define(number, position, value)?;
        }
        Ok(())
    }

    /// Adds the op to the graph. Fails if the result types in the text differ from those of the shape rule.
    fn add(
        &mut self,
        head: &Head,
        kind: crate::ir::OpKind,
        operands: &[ValueId],
        origin: Option<OriginId>,
    ) -> Result<Vec<ValueId>> {
        let values = self.graph.add(kind, operands, origin).map_err(|error| head.error(error.to_string()))?;
        let types: Vec<Type> = values.iter().map(|&v| self.graph.ty(v).clone()).collect();
        if types != head.types {
            let list = |types: &[Type]| types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
            return Err(head.error(format!(
                "{} gives ({}), but the text says ({})",
                head.name,
                list(&types),
                list(&head.types)
            )));
        }
        Ok(values)
    }

    /// Parses the op's origin, if present. A following definition such as `@0 = ..` is not the op's origin.
    fn origin(&mut self) -> Result<Option<OriginId>> {
        let position = self.position();
        let Token::Origin(number) = *self.peek() else { return Ok(None) };
        if *self.peek_second() == Token::Mark("=") {
            return Ok(None);
        }
        self.advance();
        match self.origins.get(&number) {
            Some(&origin) => Ok(Some(origin)),
            None => Err(position.error(format!("@{number} is not defined before this place"))),
        }
    }

    /// Parses the reference to a block. The block must already be closed, so that no block can contain
    /// itself.
    pub(super) fn closed_block(&mut self) -> Result<BlockId> {
        let position = self.position();
        let Token::Block(number) = *self.peek() else { return self.expected("a block such as `^1`") };
        self.advance();
        match self.blocks.get(&number) {
            Some(&block) => Ok(block),
            None => Err(position.error(format!("^{number} is not defined before this place"))),
        }
    }

    /// Returns the dtype that the next token names.
    pub(super) fn dtype(&self) -> Option<DType> {
        let Token::Word(word) = self.peek() else { return None };
        DType::ALL.into_iter().find(|dtype| dtype.name() == word)
    }
}
