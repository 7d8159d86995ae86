//! Parser of the text form; `print.rs` describes the syntax.
//!
//! The text may come from a person, a test file or another process, so it may be malformed in any way. The
//! parser returns a graph, or the first error with its line, column and the expected syntax. It never panics,
//! and every op of the returned graph has passed its shape rule. The verifier checks the remaining invariants
//! (names, updates, leaves inside blocks). White space only separates tokens; `//` starts a comment.

mod attributes;
mod error;
mod kind;
mod lexer;
mod literal;
mod op;

pub use error::ParseError;

use super::attributes::Attributes;
use super::{BlockId, CustomOp, DType, Graph, Guard, Origin, OriginId, Output, Shape, Type, Update, ValueId};
use crate::verify::check_type;
use error::{Position, Result};
use lexer::{Token, lex};
use std::collections::HashMap;
use std::sync::Arc;

/// Parses a graph without custom ops.
///
/// # Errors
/// Returns the first syntax or type error in the text.
pub fn parse(text: &str) -> Result<Graph> {
    parse_with(text, &[])
}

/// Parses a graph. Its custom ops are looked up in `customs` by name.
///
/// # Errors
/// Returns the first syntax or type error in the text.
pub fn parse_with(text: &str, customs: &[Arc<dyn CustomOp>]) -> Result<Graph> {
    let mut parser = Parser {
        tokens: lex(text),
        next: 0,
        graph: Graph::new(),
        customs,
        values: HashMap::new(),
        blocks: HashMap::new(),
        origins: HashMap::new(),
    };
    parser.graph()?;
    Ok(parser.graph)
}

struct Parser<'a> {
    /// Tokens. The last one is an end or error token, which is never consumed.
    tokens: Vec<(Token, Position)>,
    next: usize,
    graph: Graph,
    customs: &'a [Arc<dyn CustomOp>],
    /// For each value number in the text, the value and the block that defines it.
    values: HashMap<u32, (ValueId, BlockId)>,
    /// For each block number in the text, its closed block.
    blocks: HashMap<u32, BlockId>,
    origins: HashMap<u32, OriginId>,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn peek_second(&self) -> &Token {
        &self.tokens[(self.next + 1).min(self.tokens.len() - 1)].0
    }

    fn position(&self) -> Position {
        self.tokens[self.next].1
    }

    fn advance(&mut self) {
        self.next = (self.next + 1).min(self.tokens.len() - 1);
    }

    /// Returns an error at the position of the next token.
    fn expected<T>(&self, what: &str) -> Result<T> {
        let position = self.position();
        match self.peek() {
            Token::Error(message) => Err(position.error(message.clone())),
            found => Err(position.error(format!("expected {what}, found {found}"))),
        }
    }

    /// Consumes `mark` if it is the next token. Returns `true` if it was consumed.
    fn take(&mut self, mark: &'static str) -> bool {
        let found = *self.peek() == Token::Mark(mark);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, mark: &'static str) -> Result<()> {
        if self.take(mark) { Ok(()) } else { self.expected(&format!("`{mark}`")) }
    }

    fn word(&mut self, what: &str) -> Result<String> {
        let Token::Word(word) = self.peek() else { return self.expected(what) };
        let word = word.clone();
        self.advance();
        Ok(word)
    }

    fn string(&mut self, what: &str) -> Result<String> {
        let Token::String(string) = self.peek() else { return self.expected(what) };
        let string = string.clone();
        self.advance();
        Ok(string)
    }

    /// Parses an integer without a sign that fits into `T`.
    fn unsigned<T: std::str::FromStr>(&mut self, what: &str) -> Result<T> {
        let position = self.position();
        let Token::Number(number) = self.peek() else { return self.expected(what) };
        let parsed = number.parse::<T>();
        let message = format!("expected {what}, found {number}, which is not a whole number in range");
        self.advance();
        parsed.map_err(|_| position.error(message))
    }

    /// Parses comma-separated items between `open` and `close`.
    fn list<T>(
        &mut self,
        open: &'static str,
        close: &'static str,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.expect(open)?;
        let mut items = Vec::new();
        if self.take(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.take(close) {
                return Ok(items);
            }
            if !self.take(",") {
                return self.expected(&format!("`,` or `{close}`"));
            }
        }
    }

    fn value_number(&mut self) -> Result<u32> {
        let Token::Value(number) = *self.peek() else { return self.expected("a value such as `%0`") };
        self.advance();
        Ok(number)
    }

    /// Parses a reference to a value of the current block.
    fn value(&mut self) -> Result<ValueId> {
        let position = self.position();
        let number = self.value_number()?;
        match self.values.get(&number) {
            Some((value, home)) if *home == self.graph.cursor => Ok(*value),
            Some(_) => {
                let message = format!("%{number} belongs to another block; blocks use no value from outside");
                Err(position.error(message))
            }
            None => Err(position.error(format!("%{number} is not defined before this place"))),
        }
    }

    /// Parses comma-separated values. Returns no values if the next token is not a value or starts a
    /// definition.
    fn operands(&mut self) -> Result<Vec<ValueId>> {
        let mut values = Vec::new();
        if !matches!(self.peek(), Token::Value(_)) || *self.peek_second() == Token::Mark(":") {
            return Ok(values);
        }
        loop {
            values.push(self.value()?);
            if !self.take(",") {
                return Ok(values);
            }
        }
    }

    /// Parses a definition such as `%3: f32[2]`: a value number, its position and its type.
    fn typed(&mut self) -> Result<(u32, Position, Type)> {
        let position = self.position();
        let number = self.value_number()?;
        self.expect(":")?;
        Ok((number, position, self.ty()?))
    }

    fn define(&mut self, number: u32, position: Position, value: ValueId) -> Result<()> {
        match self.values.insert(number, (value, self.graph.cursor)) {
            None => Ok(()),
            Some(_) => Err(position.error(format!("%{number} is defined twice"))),
        }
    }

    fn ty(&mut self) -> Result<Type> {
        let position = self.position();
        let Some(dtype) = self.dtype() else { return self.expected("a type such as `f32[2, 3]`") };
        self.advance();
        let extents = self.list("[", "]", |parser| parser.unsigned("an extent"))?;
        let ty = Type { dtype, shape: Shape::from(extents) };
        check_type(&ty).map_err(|message| position.error(message))?;
        Ok(ty)
    }

    fn graph(&mut self) -> Result<()> {
        if *self.peek() != Token::Word("graph".to_string()) {
            return self.expected("`graph`");
        }
        self.advance();
        self.expect("{")?;
        while !self.take("}") {
            self.item()?;
        }
        if *self.peek() == Token::End { Ok(()) } else { self.expected("the end of the text") }
    }

    fn item(&mut self) -> Result<()> {
        match self.peek() {
            Token::Origin(_) => self.origin_definition(),
            Token::Block(_) => self.block(),
            Token::Word(word) if word == "output" => self.output(),
            Token::Word(word) if word == "update" => self.update(),
            Token::Word(word) if word == "guard" => self.guard(),
            Token::Word(_) | Token::Value(_) => self.op(),
            _ => self.expected("an op, a block, an output, an update, a guard, or `}`"),
        }
    }

    /// Parses `@0 = "src/model.rs":12:20`.
    fn origin_definition(&mut self) -> Result<()> {
        let position = self.position();
        let Token::Origin(number) = *self.peek() else { return self.expected("an origin") };
        self.advance();
        self.expect("=")?;
        let file = self.string("a file in quotes")?;
        self.expect(":")?;
        let line = self.unsigned("a line")?;
        self.expect(":")?;
        let column = self.unsigned("a column")?;
        let id = self.graph.origins.intern(Origin { file, line, column });
        match self.origins.insert(number, id) {
            None => Ok(()),
            Some(_) => Err(position.error(format!("@{number} is defined twice"))),
        }
    }

    /// Parses `^1(%7: f32[4]) { ops -> %9 }`.
    fn block(&mut self) -> Result<()> {
        let position = self.position();
        let Token::Block(number) = *self.peek() else { return self.expected("a block") };
        self.advance();
        let params = self.list("(", ")", Self::typed)?;
        let types: Vec<Type> = params.iter().map(|(_, _, ty)| ty.clone()).collect();
        let block = self.graph.add_block(&types);
        let outer = std::mem::replace(&mut self.graph.cursor, block);
        for (i, (number, position, _)) in params.into_iter().enumerate() {
            let value = self.graph.blocks[block].params[i];
            self.define(number, position, value)?;
        }
        self.expect("{")?;
        while !self.take("->") {
            if !matches!(self.peek(), Token::Word(_) | Token::Value(_)) {
                return self.expected("an op, or `->` and the results of the block");
            }
            self.op()?;
        }
        self.graph.blocks[block].results = self.operands()?;
        self.expect("}")?;
        self.graph.cursor = outer;
        match self.blocks.insert(number, block) {
            None => Ok(()),
            Some(_) => Err(position.error(format!("^{number} is defined twice"))),
        }
    }

    /// Parses `output "loss" %9`.
    fn output(&mut self) -> Result<()> {
        self.advance();
        let name = self.string("the output's name in quotes")?;
        let value = self.value()?;
        self.graph.outputs.push(Output { name, value });
        Ok(())
    }

    /// Parses `update %1[%2, %3] <- %4 {alias}`.
    fn update(&mut self) -> Result<()> {
        self.advance();
        let target = self.value()?;
        let is_region = *self.peek() == Token::Mark("[");
        let region = if is_region { Some(self.list("[", "]", Self::value)?) } else { None };
        self.expect("<-")?;
        let value = self.value()?;
        let mut attributes = self.attributes(DType::F32)?;
        let mut must_alias = false;
        attributes.flag("alias", &mut must_alias)?;
        attributes.finish("update")?;
        self.graph.updates.push(Update { target, region, value, must_alias });
        Ok(())
    }

    /// Parses `guard "loss" %9`.
    fn guard(&mut self) -> Result<()> {
        self.advance();
        let name = self.string("the guard's name in quotes")?;
        let value = self.value()?;
        self.graph.guards.push(Guard { name, value });
        Ok(())
    }
}
