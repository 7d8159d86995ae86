//! The table of ops for TypeScript, read from the methods of `Tensor`.
//!
//! In: the sources of `gradloom-core/src/trace` and of its layers. Out: the name, documentation and
//! parameters of each public method and function that returns a tensor. Invariant: an op added there is in
//! the table without further work; one that TypeScript cannot call must be listed in [`NOT_HERE`] with a
//! reason, or the build fails.

pub(crate) mod options;
pub(crate) mod print;
pub(crate) mod training;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::path::Path;
use syn::{Attribute, FnArg, ImplItem, Item, ReturnType, Signature, Type, Visibility};

/// An op of the table.
pub(crate) struct Op {
    /// Name in Rust.
    pub(crate) name: String,
    /// Lines of the documentation.
    pub(crate) doc: Vec<String>,
    /// True for a method of `Tensor`, whose receiver is not among the parameters.
    pub(crate) method: bool,
    pub(crate) params: Vec<Param>,
}

/// A parameter of an op.
pub(crate) struct Param {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Default value in TypeScript; `None` if the parameter is required.
    pub(crate) default: Option<&'static str>,
}

/// Kind of a parameter, which determines its encoding: see `arguments.rs`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tensor,
    Tensors,
    Operand,
    Number,
    Integer,
    Bool,
    DType,
    Shape,
    Extents,
    Axes,
    Integers,
    Range,
    Text,
    /// A struct of an op's options, with its name.
    Options(&'static str),
}

/// Functions that return tensors in Rust, but have parameters other than numbers, texts and tensors, or are
/// not ops.
const NOT_HERE: [&str; 16] = [
    // These are separate commands, with names and elements.
    "literal",
    "capture",
    // These take closures.
    "checkpoint",
    "scan",
    // These take lists whose length is part of the type, or return several tensors.
    "split",
    "split_sizes",
    "chunk",
    "meshgrid",
    "top_k",
    "attention_with_log_sum",
    "gradients",
    "gradients_of",
    "custom",
    // `matmul` and views cover it.
    "dot_general",
    // These serve generation from published models, which pages do not do.
    "dequantize",
    "scatter_distinct_rows",
];

/// Op, parameter and value of each default argument in TypeScript. Rust has no default arguments.
const DEFAULTS: [(&str, &str, &str); 50] = [
    ("arg_top_k", "axis", "-1"),
    ("argsort", "axis", "-1"),
    ("argsort_descending", "axis", "-1"),
    ("attention", "options", "{}"),
    ("categorical", "axis", "-1"),
    ("celu", "alpha", "1"),
    ("conv1d", "options", "{}"),
    ("conv2d", "options", "{}"),
    ("conv_transpose1d", "options", "{}"),
    ("conv_transpose2d", "options", "{}"),
    ("max_pool1d", "options", "{}"),
    ("max_pool2d", "options", "{}"),
    ("avg_pool1d", "options", "{}"),
    ("avg_pool2d", "options", "{}"),
    ("cosine_embedding_loss", "margin", "0"),
    ("cosine_similarity", "axis", "-1"),
    ("cross_entropy_with", "options", "{}"),
    ("ctc_loss", "options", "{}"),
    ("ctc_loss_rows", "options", "{}"),
    ("elu", "alpha", "1"),
    ("glu", "axis", "-1"),
    ("hard_shrink", "lambda", "0.5"),
    ("huber_loss", "delta", "1"),
    ("layer_norm", "epsilon", "0.00001"),
    ("leaky_relu", "slope", "0.01"),
    ("log_softmax", "axis", "-1"),
    ("norm", "p", "2"),
    ("norm_axes", "p", "2"),
    ("norm_keep", "p", "2"),
    ("normalize", "axis", "-1"),
    ("normalize", "p", "2"),
    ("normalize", "epsilon", "1e-12"),
    ("rms_norm", "epsilon", "0.000001"),
    ("rope", "base", "10000"),
    ("rope_at", "base", "10000"),
    ("self_attention", "options", "{}"),
    ("smooth_l1_loss", "beta", "1"),
    ("soft_shrink", "lambda", "0.5"),
    ("softmax", "axis", "-1"),
    ("sort", "axis", "-1"),
    ("sort_descending", "axis", "-1"),
    ("std", "correction", "1"),
    ("std_axes", "correction", "1"),
    ("std_keep", "correction", "1"),
    ("tril", "diagonal", "0"),
    ("triplet_loss", "margin", "1"),
    ("triu", "diagonal", "0"),
    ("var", "correction", "1"),
    ("var_axes", "correction", "1"),
    ("var_keep", "correction", "1"),
];

/// Parses the files of a folder, sorted by name.
///
/// # Panics
/// Panics if a file cannot be read or parsed.
pub(crate) fn parse(folder: &Path) -> Vec<syn::File> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = entries.map(|f| f.expect("a file of the folder").path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "rs"));
    files.sort();
    let parsed = files.iter().map(|file| {
        let text = std::fs::read_to_string(file).expect("a source");
        syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
    });
    parsed.collect()
}

/// Reads the table.
///
/// # Panics
/// Panics if a source cannot be read, or has an op that the table cannot represent.
pub(crate) fn read(folders: &[&Path]) -> Vec<Op> {
    let mut ops = Vec::new();
    for file in folders.iter().flat_map(|folder| parse(folder)) {
        file.items.iter().for_each(|item| of_item(item, &mut ops));
    }
    ops.retain(|op| !NOT_HERE.contains(&op.name.as_str()));
    ops.sort_by(|a, b| a.name.cmp(&b.name));
    for pair in ops.windows(2) {
        assert!(pair[0].name != pair[1].name, "two ops are called {}", pair[0].name);
    }
    for (name, param, default) in DEFAULTS {
        let mut all = ops.iter_mut().filter(|op| op.name == name).flat_map(|op| &mut op.params);
        let param = all.find(|p| p.name == param).unwrap_or_else(|| panic!("`{name}` has no `{param}`"));
        param.default = Some(default);
    }
    ops
}

fn of_item(item: &Item, ops: &mut Vec<Op>) {
    match item {
        Item::Fn(f) if matches!(f.vis, Visibility::Public(_)) => ops.extend(of_signature(&f.attrs, &f.sig)),
        Item::Impl(block) if block.trait_.is_none() && is(&block.self_ty, "Tensor") => {
            for item in &block.items {
                if let ImplItem::Fn(f) = item
                    && matches!(f.vis, Visibility::Public(_))
                {
                    ops.extend(of_signature(&f.attrs, &f.sig));
                }
            }
        }
        Item::Impl(block)
            if is(&block.self_ty, "Tensor") && block.trait_.as_ref().is_some_and(|t| t.0.is_ident("Neg")) =>
        {
            let doc = vec!["`-x`.".to_string()];
            ops.push(Op { name: "neg".into(), doc, method: true, params: Vec::new() });
        }
        Item::Macro(call) if call.ident.is_none() => of_macro(call, ops),
        _ => {}
    }
}

/// Returns the op with this signature; `None` if it does not return a tensor.
fn of_signature(attributes: &[Attribute], signature: &Signature) -> Option<Op> {
    let name = signature.ident.to_string();
    let ReturnType::Type(_, result) = &signature.output else { return None };
    if NOT_HERE.contains(&name.as_str()) {
        return None;
    }
    if !is(result, "Tensor") {
        let text = quote::quote!(#result).to_string();
        let makes = text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "Tensor");
        assert!(!makes, "`{name}` gives {text}, which cannot cross: list it in NOT_HERE, with the reason");
        return None;
    }
    let mut params = Vec::new();
    for input in &signature.inputs {
        if let FnArg::Typed(typed) = input {
            let syn::Pat::Ident(param) = &*typed.pat else { panic!("a parameter of {name} has no name") };
            params.push(Param { name: param.ident.to_string(), kind: kind(&typed.ty, &name), default: None });
        }
    }
    Some(Op { name, doc: doc(attributes), method: signature.receiver().is_some(), params })
}

fn kind(ty: &Type, op: &str) -> Kind {
    let text = quote::quote!(#ty).to_string().replace(' ', "");
    match text.as_str() {
        "Tensor" => Kind::Tensor,
        "&[Tensor]" => Kind::Tensors,
        "implOperand" => Kind::Operand,
        "f64" => Kind::Number,
        "usize" | "isize" | "u32" | "i32" => Kind::Integer,
        "bool" => Kind::Bool,
        "DType" => Kind::DType,
        "implInto<Shape>" => Kind::Shape,
        "implAxes" => Kind::Axes,
        "implPerAxis" => Kind::Integers,
        "&[usize]" | "implAsRef<[usize]>" => Kind::Integers,
        "implSpan" => Kind::Range,
        "implExtents" => Kind::Extents,
        "&str" => Kind::Text,
        options if options.ends_with("Options") => Kind::Options(options.to_string().leak()),
        other => panic!(
            "`{op}` takes a {other}, which TypeScript cannot give: add a kind, or list the op in NOT_HERE"
        ),
    }
}

/// Appends the ops that a macro of the tracing sources declares. Each macro must be listed here.
fn of_macro(call: &syn::ItemMacro, ops: &mut Vec<Op>) {
    let name = call.mac.path.get_ident().map(ToString::to_string).unwrap_or_default();
    let one = |name: &str, kind| vec![Param { name: name.into(), kind, default: None }];
    let right = || one("right", Kind::Operand);
    let axes = || one("axes", Kind::Axes);
    if name == "operators" {
        return operators(call.mac.tokens.clone(), ops);
    }
    for (doc, names) in entries(call.mac.tokens.clone()) {
        let mut add = |at: usize, params, extra: &str| {
            let mut doc = doc.clone();
            if !extra.is_empty() {
                doc.extend([String::new(), extra.to_string()]);
            }
            ops.push(Op { name: names[at].clone(), doc, method: true, params });
        };
        match name.as_str() {
            "unary" | "composite" => add(0, Vec::new(), ""),
            "binary" | "compare" => add(0, right(), ""),
            // The third form of `forms` is a separate method, with numbers after its name.
            "reductions" | "forms" => {
                let count = if name == "forms" { 3 } else { names.len() };
                let numbers = || names[count..].iter().flat_map(|name| one(name, Kind::Number));
                add(0, numbers().collect(), "Over all axes; gives rank 0.");
                add(1, axes().into_iter().chain(numbers()).collect(), "Over the given axes, which vanish.");
                if name == "reductions" {
                    add(2, axes(), "Over the given axes, which stay with extent 1.");
                }
            }
            // Skip macros that declare no ops.
            "thread_local" | "leaf_operand" | "number_operand" | "layers" | "pools" => return,
            other => panic!("the macro `{other}` may declare ops: say in `of_macro` what its entries are"),
        }
    }
}

/// Appends operators, from entries of the form `Add add "+"`.
fn operators(tokens: TokenStream, ops: &mut Vec<Op>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for entry in tokens.split(|token| matches!(token, TokenTree::Punct(_))) {
        let [_, TokenTree::Ident(name), TokenTree::Literal(sign)] = entry else {
            panic!("an operator is `Trait method sign`")
        };
        let doc = format!("`x {} y`, elementwise.", sign.to_string().trim_matches('"'));
        let params = vec![Param { name: "right".into(), kind: Kind::Operand, default: None }];
        ops.push(Op { name: name.to_string(), doc: vec![doc], method: true, params });
    }
}

/// Parses entries of the form `#[doc] a b c => X;` or `#[doc] a b c(d);`, in which d is also a name.
fn entries(tokens: TokenStream) -> Vec<(Vec<String>, Vec<String>)> {
    let mut all = Vec::new();
    let (mut doc, mut names, mut named) = (Vec::new(), Vec::new(), false);
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => {
                names.extend(group.stream().into_iter().filter_map(|token| match token {
                    TokenTree::Ident(ident) => Some(ident.to_string()),
                    _ => None,
                }));
            }
            TokenTree::Group(group) if !named => doc.extend(doc_line(&group.stream())),
            TokenTree::Ident(ident) if !named => names.push(ident.to_string()),
            TokenTree::Punct(sign) if sign.as_char() == '=' => named = true,
            TokenTree::Punct(sign) if sign.as_char() == ';' => {
                all.push((without_examples(std::mem::take(&mut doc)), std::mem::take(&mut names)));
                named = false;
            }
            _ => {}
        }
    }
    all
}

/// Returns the text of an attribute `doc = ".."`.
fn doc_line(attribute: &TokenStream) -> Option<String> {
    let value: syn::MetaNameValue = syn::parse2(attribute.clone()).ok()?;
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = value.value else { return None };
    value.path.is_ident("doc").then(|| text.value().trim().to_string())
}

pub(crate) fn doc(attributes: &[Attribute]) -> Vec<String> {
    let lines = attributes.iter().filter_map(|a| {
        let meta = &a.meta;
        doc_line(&quote::quote!(#meta))
    });
    without_examples(lines.collect())
}

/// Removes the Rust examples from documentation.
fn without_examples(lines: Vec<String>) -> Vec<String> {
    let mut is_code = false;
    let mut kept: Vec<String> = Vec::new();
    for line in lines {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence {
            kept.push(line);
        }
    }
    while kept.last().is_some_and(String::is_empty) {
        kept.pop();
    }
    kept
}

fn is(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident(name))
}
