//! Compares the error messages for a family of mistakes, as a user reads them, with a file.
//!
//! An entry consists of the user's line with a caret, the message, notes and help. If an error has no source
//! location, its title is printed instead. `UPDATE=1` rewrites the files; review the changes.

use gradloom::prelude::*;
use std::fmt::Write;
use std::path::Path;

/// Model and inputs of programs with mistakes.
#[derive(Clone, Copy)]
pub(crate) struct Given<'m> {
    pub(crate) m: &'m Model,
    /// f32 `[8, 64]`.
    pub(crate) x: Tensor,
    /// i32 `[8]`.
    pub(crate) ids: Tensor,
    /// f32 `[2, 3, 8, 8]`.
    pub(crate) image: Tensor,
    /// u8 `[4]`.
    pub(crate) bytes: Tensor,
    /// i64 `[4]`.
    pub(crate) longs: Tensor,
    /// bool `[8, 64]`.
    pub(crate) mask: Tensor,
}

#[derive(Module)]
pub(crate) struct Model {
    pub(crate) layers: Vec<Linear>,
    pub(crate) conv: Conv2d,
    pub(crate) count: State,
}

pub(crate) fn model() -> Model {
    Model {
        layers: vec![Linear::new(64, 64), Linear::new(32, 64)],
        conv: Conv2d::new(1, 4, 3, ConvOptions::new()),
        count: State::new([4, 2], DType::F32, 0.0),
    }
}

pub(crate) struct Book {
    file: &'static str,
    text: String,
    entries: usize,
    /// Defects of the error messages themselves.
    faults: Vec<String>,
}

impl Book {
    pub(crate) fn new(file: &'static str) -> Self {
        Self { file, text: String::new(), entries: 0, faults: Vec::new() }
    }

    /// Traces a closure that has a mistake, and adds its error message.
    pub(crate) fn trace(&mut self, f: impl FnOnce(Given<'_>) -> Tensor) {
        let inputs = [
            f32("x", [8, 64]),
            i32("ids", [8]),
            f32("image", [2, 3, 8, 8]),
            u8("bytes", [4]),
            i64("longs", [4]),
        ];
        let session = Session::new(model(), &Device::null(), 0).unwrap();
        let program = session.infer(inputs, |m, [x, ids, image, bytes, longs]| {
            f(Given { m, x, ids, image, bytes, longs, mask: x.gt(0.0) })
        });
        let title = format!("entry {}", self.entries + 1);
        self.answer(&title, program.map(|_| ()));
    }

    /// Adds an error. The title is printed if it has no source location.
    pub(crate) fn answer<T>(&mut self, title: &str, outcome: Result<T>) {
        self.entries += 1;
        let Err(error) = outcome else {
            return self.faults.push(format!("{title}, number {}: there is no error", self.entries));
        };
        let text = error.to_string();
        if error.remedies().next().is_none() {
            self.faults.push(format!("no help: {text}"));
        }
        if error.origin().is_some_and(|origin| !origin.file.replace('\\', "/").contains("tests/diagnostics"))
        {
            self.faults.push(format!("not at the user's line: {text}"));
        }
        let mut lines = text.lines().map(|line| line.split_once(" | ").map_or(line, |(_, rest)| rest));
        let (code, caret) = (lines.nth(3), lines.next());
        match (error.origin(), code, caret) {
            (Some(_), Some(code), Some(caret)) if caret.contains('^') => {
                let indent = code.len() - code.trim_start().len();
                let cut = |line: &str| line.get(indent..).unwrap_or_default().to_string();
                writeln!(self.text, "    {}\n    {}", cut(code), cut(caret)).unwrap();
            }
            _ => writeln!(self.text, "    {title}").unwrap(),
        }
        writeln!(self.text, "error: {}", error.message()).unwrap();
        error.notes().for_each(|note| writeln!(self.text, "note: {note}").unwrap());
        error.remedies().for_each(|help| writeln!(self.text, "help: {help}").unwrap());
        self.text.push('\n');
    }

    /// Compares the entries with the file, and checks that there are at least `at_least`.
    pub(crate) fn check(self, at_least: usize) {
        assert!(self.faults.is_empty(), "{}", self.faults.join("\n\n"));
        assert!(self.entries >= at_least, "{} entries", self.entries);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics").join(self.file);
        if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
            std::fs::write(&path, &self.text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default().replace('\r', "");
        let difference = kept.lines().zip(self.text.lines()).find(|(kept, now)| kept != now);
        assert!(kept == self.text, "{} differs at {difference:?}; `UPDATE=1` writes it anew", self.file);
    }
}
