//! The table as code: calls for Rust, types for TypeScript.

use super::{Kind, Op};
use std::fmt::Write;

/// Codes below are commands that are no ops.
pub(crate) const FIRST_CODE: u32 = 32;

/// `fn op(code, arguments) -> Result<Tensor>`, which calls the op of a code.
pub(crate) fn rust(ops: &[Op]) -> String {
    let mut out = String::from(
        "/// Calls the op with a code on arguments that crossed.\n\
         fn call(code: u32, arguments: &mut Arguments<'_>) -> Result<Tensor> {\n    Ok(match code {\n",
    );
    for (code, op) in (FIRST_CODE..).zip(ops) {
        let _ = write!(out, "        {code} => {{ ");
        if op.method {
            out += "let this = arguments.tensor()?; ";
        }
        for (i, (_, kind)) in op.params.iter().enumerate() {
            let _ = write!(out, "let a{i} = arguments.{}()?; ", kind.name());
        }
        let list: Vec<String> = op.params.iter().enumerate().map(|(i, (_, kind))| kind.passed(i)).collect();
        let path = if op.method { format!("this.{}", op.name) } else { format!("trace::{}", op.name) };
        let _ = writeln!(out, "{path}({}) }}", list.join(", "));
    }
    out += "        _ => return Err(arguments.unknown(code)),\n    })\n}\n";
    out
}

/// The table as a TypeScript module: `OPS` for running, `TensorOps` and `FunctionOps` for types and documentation.
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
