//! Schedules, initial values and optimizers for TypeScript, read from their declarations.
//!
//! In: the variants of `Schedule` and `Init`, and the builder methods of each type with a constructor
//! `new(lr: impl Into<Schedule>)`. Out: functions for Rust that read them from numbers, and the codes,
//! settings and types for TypeScript. Invariant: both sides are generated from the same list, so no code
//! is maintained by hand.

use super::print::{camel, comment};
use super::{doc, is};
use quote::quote;
use std::fmt::Write;
use syn::{Fields, File, ImplItem, Item, ItemEnum, Type};

/// Builder methods that are not settings in TypeScript, with the reason.
const NO_SETTINGS: [&str; 2] = [
    // In TypeScript, the two betas are separate settings.
    "betas",
    // In TypeScript, each parameter states whether it decays.
    "decay_everything",
];

/// Settings with another name in tensorgrad: gradloom's name and tensorgrad's.
const NAMES: [(&str, &str); 1] = [("epsilon", "eps")];

/// An optimizer, whose code is its position in the list.
struct Optimizer {
    name: String,
    doc: Vec<String>,
    settings: Vec<Setting>,
}

/// A builder method with a number, or for a flag without arguments.
struct Setting {
    method: String,
    flag: bool,
    doc: Vec<String>,
}

/// Returns the Rust functions that read schedules, initial values and optimizers.
pub(crate) fn rust(optim: &[File], init: &[File]) -> String {
    schedules(find(optim, "Schedule")) + &initial(find(init, "Init")) + &building(&optimizers(optim))
}

/// Returns the codes, settings and types for TypeScript.
pub(crate) fn typescript(optim: &[File], init: &[File]) -> String {
    let mut out = String::from(
        "// Made by wasm.mjs from gradloom-core. Do not edit.\n\
         import type { CommonConfig } from '../schedule.js'\n\n",
    );
    for (of, name, declared) in
        [("schedules", "SCHEDULES", find(optim, "Schedule")), ("initial values", "INITS", find(init, "Init"))]
    {
        let codes = declared.variants.iter().enumerate();
        let codes: Vec<String> =
            codes.map(|(code, variant)| format!("{}: {code}", lower(&variant.ident.to_string()))).collect();
        let _ = writeln!(
            out,
            "/** Codes of {of}. */\nexport const {name} = {{ {} }} as const\n",
            codes.join(", ")
        );
    }
    let all = optimizers(optim);
    out += "/** Settings of each optimizer; the codes of both are their places. */\n";
    out += "export const OPTIMIZERS = {\n";
    for optimizer in &all {
        let names: Vec<String> = optimizer.settings.iter().map(|s| format!("'{}'", s.public())).collect();
        let _ = writeln!(out, "  {}: [{}],", optimizer.name.to_lowercase(), names.join(", "));
    }
    out += "} as const\n";
    let mut flags: Vec<String> = all
        .iter()
        .flat_map(|optimizer| &optimizer.settings)
        .filter(|setting| setting.flag)
        .map(|setting| format!("'{}'", setting.public()))
        .collect();
    flags.sort();
    flags.dedup();
    out += "\n/** Settings that are true or false; the others are numbers. */\n";
    let _ = writeln!(out, "export const FLAGS: readonly string[] = [{}]", flags.join(", "));
    for optimizer in &all {
        out += "\n";
        comment(&mut out, "", first_paragraph(&optimizer.doc));
        let _ = writeln!(out, "export interface {}Config extends CommonConfig {{", optimizer.name);
        let _ = writeln!(out, "  kind: '{}'", optimizer.name.to_lowercase());
        for setting in &optimizer.settings {
            comment(&mut out, "  ", first_paragraph(&setting.doc));
            let ty = if setting.flag { "boolean" } else { "number" };
            let _ = writeln!(out, "  {}?: {ty}", setting.public());
        }
        out += "}\n";
    }
    let names: Vec<String> = all.iter().map(|optimizer| format!("{}Config", optimizer.name)).collect();
    let _ = write!(
        out,
        "\n/** How parameters are updated. */\nexport type OptimizerConfig = {}\n",
        names.join(" | ")
    );
    out
}

/// Returns the first paragraph, which applies to both languages; the rest is about Rust.
fn first_paragraph(doc: &[String]) -> &[String] {
    doc.split(String::is_empty).next().unwrap_or_default()
}

impl Setting {
    fn public(&self) -> String {
        let known = NAMES.iter().find(|(rust, _)| *rust == self.method);
        known.map_or_else(|| camel(&self.method), |(_, name)| (*name).to_string())
    }
}

/// Returns the public enum with this name.
fn find<'f>(files: &'f [File], name: &str) -> &'f ItemEnum {
    let mut items = files.iter().flat_map(|file| &file.items);
    let found = items.find_map(|item| match item {
        Item::Enum(declared) if declared.ident == name => Some(declared),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("there is no enum {name}"))
}

/// Returns `fn schedule(arguments)`, which reads a code and then the fields in order.
fn schedules(declared: &ItemEnum) -> String {
    let mut out = String::from(
        "/// A schedule: its code, then its fields in order.\n\
         pub(crate) fn schedule(arguments: &mut Arguments<'_>) -> Result<Schedule> {\n    \
         let code = arguments.index()?;\n    Ok(match code {\n",
    );
    for (code, variant) in declared.variants.iter().enumerate() {
        let value = |ty: &Type| match quote!(#ty).to_string().replace(' ', "").as_str() {
            "f64" => "arguments.number()?",
            "u64" => "arguments.index()? as u64",
            "Vec<u64>" => "arguments.integers()?.into_iter().map(|step| step as u64).collect()",
            "Box<Schedule>" => "Box::new(schedule(arguments)?)",
            other => panic!("a schedule has a field of {other}: say in `schedules` how it crosses"),
        };
        let _ = writeln!(out, "        {code} => Schedule::{},", construct(variant, value));
    }
    out + "        _ => return Err(arguments.unknown(code as u32)),\n    })\n}\n"
}

/// Returns `fn init(code, numbers, values)`, which takes numeric fields from `numbers`, in order.
fn initial(declared: &ItemEnum) -> String {
    let mut out = String::from(
        "/// Initial values: a code with up to two numbers, or given values.\n\
         pub(crate) fn init(code: usize, numbers: [f64; 2], values: impl FnOnce() -> Result<Arc<[f32]>>) -> Result<Init> {\n\
         \x20   Ok(match code {\n",
    );
    for (code, variant) in declared.variants.iter().enumerate() {
        let next = std::cell::Cell::new(0);
        let value = |ty: &Type| match quote!(#ty).to_string().replace(' ', "").as_str() {
            "f64" => ["numbers[0]", "numbers[1]"][next.replace(next.get() + 1)],
            "Arc<[f32]>" => "values()?",
            other => panic!("initial values have a field of {other}: say in `initial` how it crosses"),
        };
        let _ = writeln!(out, "        {code} => Init::{},", construct(variant, value));
    }
    out + "        _ => return Err(misuse(\"there is no such init\")),\n    })\n}\n"
}

/// Returns the expression that constructs a variant with its fields.
fn construct(variant: &syn::Variant, value: impl Fn(&Type) -> &'static str) -> String {
    let name = &variant.ident;
    match &variant.fields {
        Fields::Unit => name.to_string(),
        Fields::Unnamed(fields) => {
            let values: Vec<_> = fields.unnamed.iter().map(|field| value(&field.ty)).collect();
            format!("{name}({})", values.join(", "))
        }
        Fields::Named(fields) => {
            let named = fields.named.iter().map(|field| {
                format!("{}: {}", field.ident.as_ref().expect("a named field"), value(&field.ty))
            });
            format!("{name} {{ {} }}", named.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns `fn with_optimizer(trainer, code, lr, settings)`.
fn building(optimizers: &[Optimizer]) -> String {
    let mut out = String::from(
        "/// Gives a trainer the optimizer of a code, with settings by their codes; none if there is no such code.\n\
         fn with_optimizer(trainer: Trainer<Model>, code: usize, lr: Schedule, settings: &[(usize, f64)])\n    \
         -> Option<Trainer<Model>>\n{\n    match code {\n",
    );
    for (code, Optimizer { name, settings, .. }) in optimizers.iter().enumerate() {
        let _ = writeln!(
            out,
            "        {code} => {{\n            let mut made = gradloom_core::optim::{name}::new(lr);"
        );
        out += "            for &(setting, value) in settings {\n                made = match setting {\n";
        let deep = " ".repeat(20);
        for (i, Setting { method, flag, .. }) in settings.iter().enumerate() {
            let _ = match flag {
                true => writeln!(out, "{deep}{i} if value != 0.0 => made.{method}(),\n{deep}{i} => made,"),
                false => writeln!(out, "{deep}{i} => made.{method}(value),"),
            };
        }
        out += "                    _ => return None,\n                };\n            }\n";
        out += "            Some(trainer.optimizer(made))\n        }\n";
    }
    out + "        _ => None,\n    }\n}\n"
}

/// Returns the types with `new(lr: impl Into<Schedule>)`, under the names of their aliases if they have any.
fn optimizers(files: &[File]) -> Vec<Optimizer> {
    let items = || files.iter().flat_map(|file| &file.items);
    let mut all = Vec::new();
    for item in items() {
        let Item::Impl(block) = item else { continue };
        let Type::Path(path) = &*block.self_ty else { continue };
        let made = path.path.segments.last().expect("a path has a name").ident.to_string();
        let methods = || {
            block.items.iter().filter_map(|item| match item {
                ImplItem::Fn(f) => Some(f),
                _ => None,
            })
        };
        let takes_a_rate = methods().any(|f| {
            f.sig.ident == "new" && f.sig.inputs.len() == 1 && {
                let inputs = &f.sig.inputs;
                quote!(#inputs).to_string().contains("Into < Schedule >")
            }
        });
        if !takes_a_rate {
            continue;
        }
        let settings = || block.items.iter().flat_map(settings).collect::<Vec<_>>();
        let before = all.len();
        for item in items() {
            match item {
                Item::Type(alias) if target(&alias.ty) == made => {
                    let (name, doc) = (alias.ident.to_string(), doc(&alias.attrs));
                    all.push(Optimizer { name, doc, settings: settings() });
                }
                _ => {}
            }
        }
        if all.len() == before {
            let declared = items().find_map(|item| match item {
                Item::Struct(declared) if declared.ident == made => Some(doc(&declared.attrs)),
                _ => None,
            });
            all.push(Optimizer { name: made, doc: declared.unwrap_or_default(), settings: settings() });
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Returns the name of an alias's type.
fn target(ty: &Type) -> String {
    match ty {
        Type::Path(path) => path.path.segments.last().expect("a path has a name").ident.to_string(),
        _ => String::new(),
    }
}

/// Returns the settings of a builder method, or of each number in the macro `setters`.
fn settings(item: &ImplItem) -> Vec<Setting> {
    match item {
        ImplItem::Fn(f) => setting(f).into_iter().collect(),
        ImplItem::Macro(setters) if setters.mac.path.is_ident("setters") => {
            let numbers = |input: syn::parse::ParseStream<'_>| {
                let mut all = Vec::new();
                while input.peek(syn::Token![#]) {
                    let doc = doc(&input.call(syn::Attribute::parse_outer)?);
                    let method = input.parse::<syn::Ident>()?.to_string();
                    all.push(Setting { method, flag: false, doc });
                }
                // Ignore the rest, which is about the decayed parameters and declares no setting.
                input.parse::<proc_macro2::TokenStream>().map(|_| all)
            };
            setters.mac.parse_body_with(numbers).expect("documented numbers")
        }
        _ => Vec::new(),
    }
}

/// Returns a builder method as a setting, or `None` if it is not one.
fn setting(f: &syn::ImplItemFn) -> Option<Setting> {
    let method = f.sig.ident.to_string();
    let syn::ReturnType::Type(_, result) = &f.sig.output else { return None };
    if f.sig.receiver().is_none() || !is(result, "Self") || NO_SETTINGS.contains(&method.as_str()) {
        return None;
    }
    let numbers = f.sig.inputs.iter().filter(|input| matches!(input, syn::FnArg::Typed(_))).count();
    assert!(numbers <= 1, "`{method}` takes {numbers} numbers: TypeScript gives a setting one");
    Some(Setting { method, flag: numbers == 0, doc: doc(&f.attrs) })
}

/// Returns a variant's name in TypeScript.
fn lower(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(letters).collect()
}
