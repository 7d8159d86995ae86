//! Indented text.

use std::fmt::{Display, Write};

/// Collects lines of a shader, indented by the blocks that are open.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    text: String,
    depth: usize,
}

impl Writer {
    /// An empty text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a line; an empty one separates paragraphs.
    pub fn line(&mut self, line: impl Display) {
        self.add_line(&line);
    }

    fn add_line(&mut self, line: &dyn Display) {
        let start = self.text.len();
        write!(self.text, "{line}").expect("a string takes all text");
        if self.text.len() > start {
            self.text.insert_str(start, &"    ".repeat(self.depth));
        }
        self.text.push('\n');
    }

    /// Adds lines that were written elsewhere, indented like this place.
    pub fn lines(&mut self, text: &str) {
        text.lines().for_each(|line| self.line(line));
    }

    /// Opens a block: `head {`.
    pub fn open(&mut self, head: impl Display) {
        self.line(format_args!("{head} {{"));
        self.depth += 1;
    }

    /// Closes the innermost block.
    ///
    /// # Panics
    /// If no block is open.
    pub fn close(&mut self) {
        self.depth = self.depth.checked_sub(1).expect("a block is open");
        self.line("}");
    }

    /// Writes `body` in a block `head { .. }`.
    pub fn block(&mut self, head: impl Display, body: impl FnOnce(&mut Self)) {
        self.open(head);
        body(self);
        self.close();
    }

    /// Writes `body` in a block `if (condition) { .. }`, or without one where there is no condition.
    pub fn when(&mut self, condition: Option<String>, body: impl FnOnce(&mut Self)) {
        match condition {
            Some(condition) => self.block(format_args!("if ({condition})"), body),
            None => body(self),
        }
    }

    /// The text.
    ///
    /// # Panics
    /// If a block is still open.
    pub fn finish(self) -> String {
        assert_eq!(self.depth, 0, "every block is closed");
        self.text
    }
}
