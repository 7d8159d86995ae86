//! Options of ops for TypeScript, read from the structs of the tracing sources whose names end in `Options`.
//!
//! In: their constructors without parameters and their builder methods. Out: methods of `Arguments` that read
//! them, and for TypeScript the interfaces and the order in which fields are encoded.

use super::print::{camel, comment};
use super::{doc, is};
use std::fmt::Write;
use syn::{File, FnArg, ImplItem, Item, Signature, Type, Visibility};

/// Constructors that are equivalent to setting no field.
const PLAIN: [&str; 2] = ["new", "full"];

/// Options struct and name of each field that cannot be set in TypeScript.
const NOT_HERE: [(&str, &str); 1] = [
    // Only servers manage blocks.
    ("AttentionOptions", "block_table"),
];

/// Options of one or more ops.
pub(crate) struct Options {
    name: String,
    doc: Vec<String>,
    fields: Vec<Field>,
}

/// A builder method, or a constructor other than the default one.
struct Field {
    name: String,
    doc: Vec<String>,
    kind: FieldKind,
}

#[derive(Clone, Copy, PartialEq)]
enum FieldKind {
    /// A constructor, of which at most one is chosen.
    Constructor,
    Flag,
    Number,
    Integer,
    PerAxis,
    Tensor,
}

/// Reads all options from these sources, in the order of the files.
pub(crate) fn read(files: &[File]) -> Vec<Options> {
    let items = || files.iter().flat_map(|file| &file.items);
    let structs = items().filter_map(|item| match item {
        Item::Struct(declared) if declared.ident.to_string().ends_with("Options") => Some(declared),
        _ => None,
    });
    let all = structs.map(|declared| {
        let name = declared.ident.to_string();
        let methods = items().filter_map(|item| match item {
            Item::Impl(block) if block.trait_.is_none() && is(&block.self_ty, &name) => Some(&block.items),
            _ => None,
        });
        let fields = methods.flatten().filter_map(|item| match item {
            ImplItem::Fn(f) if matches!(f.vis, Visibility::Public(_)) => {
                let field = f.sig.ident.to_string();
                let here = !PLAIN.contains(&&field[..]) && !NOT_HERE.contains(&(&name[..], &field[..]));
                here.then(|| Field { kind: kind(&f.sig), doc: doc(&f.attrs), name: field })
            }
            _ => None,
        });
        Options { doc: doc(&declared.attrs), fields: fields.collect(), name: name.clone() }
    });
    all.collect()
}

fn kind(signature: &Signature) -> FieldKind {
    let name = &signature.ident;
    let params: Vec<&Type> = signature
        .inputs
        .iter()
        .filter_map(|input| if let FnArg::Typed(typed) = input { Some(&*typed.ty) } else { None })
        .collect();
    match (signature.receiver(), &params[..]) {
        (None, []) => FieldKind::Constructor,
        (Some(_), []) => FieldKind::Flag,
        (Some(_), [ty]) => match quote::quote!(#ty).to_string().replace(' ', "").as_str() {
            "f64" => FieldKind::Number,
            "usize" | "isize" | "i32" => FieldKind::Integer,
            "implPerAxis" => FieldKind::PerAxis,
            "Tensor" => FieldKind::Tensor,
            other => panic!("the option `{name}` is a {other}: say in `options::kind` how it crosses"),
        },
        _ => panic!("the option `{name}` takes more than one value, which TypeScript cannot give"),
    }
}

/// Returns the name of the method of `Arguments` that reads the options.
pub(crate) fn reader(options: &str) -> String {
    let words = options
        .chars()
        .map(|c| if c.is_ascii_uppercase() { format!("_{}", c.to_ascii_lowercase()) } else { c.to_string() });
    words.collect::<String>().trim_start_matches('_').to_string()
}

/// Returns the methods of `Arguments` that read options, with the fields in order.
pub(crate) fn rust(all: &[Options]) -> String {
    let mut out = String::from("impl Arguments<'_> {\n");
    for Options { name, fields, .. } in all {
        let reader = reader(name);
        let _ = writeln!(out, "    fn {reader}(&mut self) -> Result<trace::{name}> {{");
        let _ = writeln!(out, "        let mut options = trace::{name}::default();");
        for Field { name: field, kind, .. } in fields {
            let _ = match kind {
                FieldKind::Constructor => {
                    writeln!(out, "        if self.bool()? {{ options = trace::{name}::{field}(); }}")
                }
                FieldKind::Flag => {
                    writeln!(out, "        if self.bool()? {{ options = options.{field}(); }}")
                }
                FieldKind::Number => writeln!(
                    out,
                    "        if let Some(x) = self.optional()? {{ options = options.{field}(x); }}"
                ),
                FieldKind::Integer => writeln!(
                    out,
                    "        if let Some(x) = self.optional_integer()? {{ options = options.{field}(x); }}"
                ),
                FieldKind::PerAxis => writeln!(
                    out,
                    "        let list = self.integers()?; \
                     if !list.is_empty() {{ options = options.{field}(&list[..]); }}"
                ),
                FieldKind::Tensor => writeln!(
                    out,
                    "        if let Some(x) = self.optional_tensor()? {{ options = options.{field}(x); }}"
                ),
            };
        }
        out += "        Ok(options)\n    }\n";
    }
    out + "}\n"
}

/// Returns the order in which fields are encoded, and the interfaces.
pub(crate) fn typescript(all: &[Options]) -> String {
    let mut out = String::from("\n/** The fields of options, in the order in which they cross. */\n");
    out += "export const OPTIONS: Record<string, readonly (readonly [name: string, kind: string])[]> = {\n";
    for Options { name, fields, .. } in all {
        let fields: Vec<String> = fields
            .iter()
            .map(|field| format!("['{}', '{}']", camel(&field.name), field.kind.name()))
            .collect();
        let _ = writeln!(out, "  {name}: [{}],", fields.join(", "));
    }
    out += "}\n";
    for Options { name, doc, fields } in all {
        out += "\n";
        comment(&mut out, "", doc);
        let _ = writeln!(out, "export interface {name} {{");
        for field in fields {
            comment(&mut out, "  ", &field.doc);
            let _ = writeln!(out, "  {}?: {}", camel(&field.name), field.kind.typescript());
        }
        out += "}\n";
    }
    out
}

impl FieldKind {
    fn name(self) -> &'static str {
        match self {
            FieldKind::Constructor | FieldKind::Flag => "flag",
            FieldKind::Number => "number",
            FieldKind::Integer => "integer",
            FieldKind::PerAxis => "perAxis",
            FieldKind::Tensor => "tensor",
        }
    }

    fn typescript(self) -> &'static str {
        match self {
            FieldKind::Constructor | FieldKind::Flag => "boolean",
            FieldKind::Number | FieldKind::Integer => "number",
            FieldKind::PerAxis => "number | readonly number[]",
            FieldKind::Tensor => "Tensor",
        }
    }
}
