//! The table as code: calls for Rust, types for TypeScript.

use super::options::{self, Options};
use super::{Kind, Op};
use std::fmt::Write;

/// First code of an op; smaller codes are other commands.
pub(crate) const FIRST_CODE: u32 = 32;

/// Returns `fn call(code, arguments) -> Result<Tensor>`, which calls the op with a code. Ops with the same
/// parameters share the code that reads them.
pub(crate) fn rust(ops: &[Op]) -> String {
    let mut out = String::from(
        "/// Calls the op with a code on arguments that crossed.\n\
         #[allow(clippy::manual_range_patterns)]\n\
         fn call(code: u32, arguments: &mut Arguments<'_>) -> Result<Tensor> {\n    \
         // All calls of a macro have one place, the macro's: a table of them is large.\n    \
         macro_rules! calls { () => { match code {\n",
    );
    let mut groups: Vec<Vec<(u32, &Op)>> = Vec::new();
    for (code, op) in (FIRST_CODE..).zip(ops) {
        match groups.iter_mut().find(|group| group[0].1.takes_the_same(op)) {
            Some(group) => group.push((code, op)),
            None => groups.push(vec![(code, op)]),
        }
    }
    for group in groups {
        let (_, first) = group[0];
        let codes: Vec<String> = group.iter().map(|(code, _)| code.to_string()).collect();
        let _ = write!(out, "        {} => {{ ", codes.join(" | "));
        let mut list = Vec::new();
        if first.method {
            out += "let this = arguments.tensor()?; ";
            list.push("this".to_string());
        }
        for (i, param) in first.params.iter().enumerate() {
            let _ = write!(out, "let a{i} = arguments.{}()?; ", param.kind.reader());
            list.push(param.kind.passed(i));
        }
        let call = |op: &Op| {
            format!("{}::{}({})", if op.method { "Tensor" } else { "trace" }, op.name, list.join(", "))
        };
        let [others @ .., (_, last)] = &group[..] else { unreachable!("a group has an op") };
        if others.is_empty() {
            let _ = writeln!(out, "{} }}", call(last));
            continue;
        }
        // Use direct calls, which are smaller than function pointers: functions that track their caller need
        // a shim each.
        out += "match code { ";
        for (code, op) in others {
            let _ = write!(out, "{code} => {}, ", call(op));
        }
        let _ = writeln!(out, "_ => {} }} }}", call(last));
    }
    out += "        _ => return Err(arguments.unknown(code)),\n    } } }\n    Ok(calls!())\n}\n";
    out
}

/// Returns the table as a TypeScript module: `OPS` for calls, `TensorOps` and `FunctionOps` for types and
/// documentation.
pub(crate) fn typescript(ops: &[Op], options: &[Options]) -> String {
    let mut out = String::from(
        "// Made by wasm.mjs from the methods of `Tensor` in gradloom-core. Do not edit.\n\
         import type { DType, Operand, Tensor } from '../tensor.js'\n\n\
         /** Whether it is a method of its first tensor, and its other parameters: name, kind, default. \
         An op's code is its place, counted from FIRST_CODE. */\n\
         export const OPS = {\n",
    );
    for op in ops {
        let params = op.params.iter().map(|param| {
            let default = param.default.map(|value| format!(", {value}")).unwrap_or_default();
            format!(", ['{}', '{}'{default}]", camel(&param.name), param.kind.name())
        });
        let _ =
            writeln!(out, "  {}: [{}{}],", camel(&op.name), u8::from(op.method), params.collect::<String>());
    }
    let _ = writeln!(out, "}} as const\n\nexport const FIRST_CODE = {FIRST_CODE}");
    out += &options::typescript(options);
    for (methods, name, of) in [
        (true, "TensorOps", "Methods of every tensor."),
        (false, "FunctionOps", "Functions that make tensors."),
    ] {
        let _ = write!(out, "\n/** {of} */\nexport interface {name} {{\n");
        for op in ops.iter().filter(|op| op.method == methods) {
            comment(&mut out, "  ", &op.doc);
            let params: Vec<String> = op
                .params
                .iter()
                .map(|param| {
                    let mark = if param.default.is_some() { "?" } else { "" };
                    format!("{}{mark}: {}", camel(&param.name), param.kind.typescript())
                })
                .collect();
            let _ = writeln!(out, "  {}({}): Tensor", camel(&op.name), params.join(", "));
        }
        out += "}\n";
    }
    out
}

/// Writes documentation before a declaration, with Rust's links replaced by plain names.
pub(super) fn comment(out: &mut String, indent: &str, doc: &[String]) {
    let line = |text: &str| {
        text.replace("[`Tensor::", "`")
            .replace("[`", "`")
            .replace("`](", "` (")
            .replace("`]", "`")
            .replace("*/", "* /")
    };
    match doc {
        [] => {}
        [only] => *out += &format!("{indent}/** {} */\n", line(only)),
        lines => {
            *out += &format!("{indent}/**\n");
            for text in lines {
                *out += format!("{indent} * {}", line(text)).trim_end();
                *out += "\n";
            }
            *out += &format!("{indent} */\n");
        }
    }
}

pub(super) fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_string();
    words.fold(first, |mut all, word| {
        let mut letters = word.chars();
        all.extend(letters.next().map(|c| c.to_ascii_uppercase()));
        all + letters.as_str()
    })
}

impl Op {
    /// Returns `true` if both ops have the same parameters. Returns `false` for ops with integers, which are
    /// passed as the type that the op takes: that type is not known here.
    fn takes_the_same(&self, other: &Op) -> bool {
        let kinds = |op: &Op| -> Vec<Kind> { op.params.iter().map(|param| param.kind).collect() };
        self.method == other.method && kinds(self) == kinds(other) && !kinds(self).contains(&Kind::Integer)
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Tensor => "tensor",
            Kind::Tensors => "tensors",
            Kind::Operand => "operand",
            Kind::Number => "number",
            Kind::Integer => "integer",
            Kind::Bool => "bool",
            Kind::DType => "dtype",
            Kind::Shape => "shape",
            Kind::Extents => "extents",
            Kind::Axes => "axes",
            Kind::Integers => "integers",
            Kind::Range => "range",
            Kind::Text => "text",
            Kind::Options(name) => name,
        }
    }

    /// Returns the method of `Arguments` that reads a parameter of this kind.
    fn reader(self) -> String {
        match self {
            Kind::Options(name) => options::reader(name),
            // Extents are read as a list of signed integers, as axes are.
            Kind::Extents => "axes".to_string(),
            kind => kind.name().to_string(),
        }
    }

    /// Returns the expression that passes the value `a{i}` to the op.
    fn passed(self, i: usize) -> String {
        match self {
            Kind::Axes | Kind::Extents | Kind::Tensors | Kind::Integers => format!("&a{i}[..]"),
            Kind::Integer => format!("a{i}.try_into().map_err(|_| arguments.out_of_range())?"),
            _ => format!("a{i}"),
        }
    }

    fn typescript(self) -> &'static str {
        match self {
            Kind::Tensor => "Tensor",
            Kind::Tensors => "readonly Tensor[]",
            Kind::Operand => "Operand",
            Kind::Number | Kind::Integer => "number",
            Kind::Bool => "boolean",
            Kind::DType => "DType",
            Kind::Shape | Kind::Extents | Kind::Integers => "readonly number[]",
            Kind::Axes => "number | readonly number[]",
            Kind::Range => "readonly [start: number, end: number]",
            Kind::Text => "string",
            Kind::Options(name) => name,
        }
    }
}
