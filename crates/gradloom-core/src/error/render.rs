//! The layout of a printed error.
//!
//! The text follows rustc's format after the word `error: ` and has no trailing line break.

use super::{Footer, Place, Report, caret, excerpt};
use crate::ir::Origin;
use std::fmt::{self, Write};

/// Width of `error: `, by which continuation lines of a message are indented.
const MESSAGE_INDENT: usize = "error: ".len();

pub(super) fn render(
    out: &mut impl Write,
    report: &Report,
    line: impl Fn(&Origin) -> Option<String>,
) -> fmt::Result {
    write_lines(out, &report.message, MESSAGE_INDENT)?;
    // The gutter is as wide as the line number, or one digit if there is no line number.
    let gutter = report.place.as_ref().map_or(1, |place| place.origin.line.to_string().len());
    if let Some(Place { origin, token }) = &report.place {
        write!(out, "\n{:gutter$}--> {origin}", "")?;
        let text = line(origin);
        let span = text.as_ref().and_then(|text| caret::span(text, origin.column, token));
        if let (Some(text), Some(span)) = (text, span) {
            let excerpt = excerpt::around(&text, span);
            write!(out, "\n{:gutter$} |", "")?;
            write!(out, "\n{} | {}", origin.line, excerpt.text)?;
            write!(out, "\n{:gutter$} | {:indent$}", "", "", indent = excerpt.indent)?;
            write!(out, "{:^<width$}", "", width = excerpt.width)?;
        }
    }
    if !report.footers.is_empty() {
        write!(out, "\n{:gutter$} |", "")?;
    }
    for footer in &report.footers {
        let (label, text) = match footer {
            Footer::Note(text) => ("note", text),
            Footer::Help(text) => ("help", text),
        };
        write!(out, "\n{:gutter$} = {label}: ", "")?;
        write_lines(out, text, gutter + " = note: ".len())?;
    }
    Ok(())
}

/// Writes a text and indents its continuation lines by `indent` columns.
fn write_lines(out: &mut impl Write, text: &str, indent: usize) -> fmt::Result {
    for (index, line) in text.lines().enumerate() {
        if index > 0 {
            out.write_char('\n')?;
            // Avoid trailing spaces on empty lines.
            if !line.is_empty() {
                write!(out, "{:indent$}", "")?;
            }
        }
        out.write_str(line)?;
    }
    Ok(())
}
