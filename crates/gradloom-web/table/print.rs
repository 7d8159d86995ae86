//! The table as code: calls for Rust, types for TypeScript.

use super::{Kind, Op};
use std::fmt::Write;

/// Codes below are commands that are no ops.
pub(crate) const FIRST_CODE: u32 = 32;

/// `fn call(code, arguments) -> Result<Tensor>`, which calls the op of a code. Ops that take the same share
/// the code that reads it.
pub(crate) fn rust(ops: &[Op]) -> String {
    let mut out = String::from(
        "/// Calls the op with a code on arguments that crossed.\n\
         fn call(code: u32, arguments: &mut Arguments<'_>) -> Result<Tensor> {\n    Ok(match code {\n",
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
        for (i, (_, kind)) in first.params.iter().enumerate() {
            let _ = write!(out, "let a{i} = arguments.{}()?; ", kind.name());
            list.push(kind.passed(i));
        }
        let path = |op: &Op| format!("{}::{}", if op.method { "Tensor" } else { "trace" }, op.name);
        let [others @ .., (_, last)] = &group[..] else { unreachable!("a group has an op") };
        if others.is_empty() {
            let _ = writeln!(out, "{}({}) }}", path(last), list.join(", "));
            continue;
        }
        let _ = write!(out, "let op: fn({}) -> Tensor = match code {{ ", vec!["_"; list.len()].join(", "));
        for (code, op) in others {
            let _ = write!(out, "{code} => {}, ", path(op));
        }
        let _ = writeln!(out, "_ => {} }}; op({}) }}", path(last), list.join(", "));
    }
    out += "        _ => return Err(arguments.unknown(code)),\n    })\n}\n";
    out
}

/// The table as a TypeScript module: `OPS` for running, `TensorOps` and `FunctionOps` for types and
/// documentation.
pub(crate) fn typescript(ops: &[Op]) -> String {
    let mut out = String::from(
        "// Made by wasm.mjs from the methods of `Tensor` in gradloom-core. Do not edit.\n\
         import type { AttentionOptions, DType, Operand, Tensor } from '../tensor.js'\n\n\
         export const OPS = {\n",
    );
    for (code, op) in (FIRST_CODE..).zip(ops) {
        let params: Vec<String> = op
            .params
            .iter()
            .map(|(name, kind)| format!("{{name:'{}',kind:'{}'}}", camel(name), kind.name()))
            .collect();
        let _ = writeln!(
            out,
            "  {}: {{ code: {code}, method: {}, params: [{}] }},",
            camel(&op.name),
            op.method,
            params.join(", ")
        );
    }
    out += "} as const\n";
    for (methods, name, of) in [
        (true, "TensorOps", "Methods of every tensor."),
        (false, "FunctionOps", "Functions that make tensors."),
    ] {
        let _ = write!(out, "\n/** {of} */\nexport interface {name} {{\n");
        for op in ops.iter().filter(|op| op.method == methods) {
            comment(&mut out, &op.doc);
            let params: Vec<String> = op
                .params
                .iter()
                .map(|(name, kind)| format!("{}: {}", camel(name), kind.typescript()))
                .collect();
            let _ = writeln!(out, "  {}({}): Tensor", camel(&op.name), params.join(", "));
        }
        out += "}\n";
    }
    out
}

fn comment(out: &mut String, doc: &[String]) {
    let line = |text: &str| {
        text.replace("[`Tensor::", "`")
            .replace("[`", "`")
            .replace("`](", "` (")
            .replace("`]", "`")
            .replace("*/", "* /")
    };
    match doc {
        [] => {}
        [only] => *out += &format!("  /** {} */\n", line(only)),
        lines => {
            *out += "  /**\n";
            for text in lines {
                *out += format!("   * {}", line(text)).trim_end();
                *out += "\n";
            }
            *out += "   */\n";
        }
    }
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_string();
    words.fold(first, |mut all, word| {
        let mut letters = word.chars();
        all.extend(letters.next().map(|c| c.to_ascii_uppercase()));
        all + letters.as_str()
    })
}

impl Op {
    /// Whether both are called alike. Integers are handed over as the type that the op has there, which is
    /// not known here.
    fn takes_the_same(&self, other: &Op) -> bool {
        let kinds = |op: &Op| -> Vec<Kind> { op.params.iter().map(|(_, kind)| *kind).collect() };
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
            Kind::Axes => "axes",
            Kind::Integers => "integers",
            Kind::Range => "range",
            Kind::Attention => "attention",
        }
    }

    /// How the value `a{i}` is handed to the op.
    fn passed(self, i: usize) -> String {
        match self {
            Kind::Axes | Kind::Tensors | Kind::Integers => format!("&a{i}[..]"),
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
            Kind::Shape | Kind::Integers => "readonly number[]",
            Kind::Axes => "number | readonly number[]",
            Kind::Range => "readonly [start: number, end: number]",
            Kind::Attention => "AttentionOptions",
        }
    }
}
