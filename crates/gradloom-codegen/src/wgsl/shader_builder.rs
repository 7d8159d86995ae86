//! Builder of a shader's text.
//!
//! In: the operands of a launch, and statements in order. Out: a [`Dispatch`]. Loads and stores depend on the
//! declared type of their binding. Helper functions are added to the module on first use.

use super::dispatch::{Bound, Dispatch};
use super::functions::Function;
use super::operands::{Binding, Element, NONE, Operand, Operands};
use crate::limits::Limits;
use crate::narrow::has_words;
use crate::step::STATUS_WORDS;
use gradloom_core::collections::SortedSet;
use gradloom_core::ir::DType;
use std::fmt::{Display, Write};
use std::ops::Range;

/// Shader under construction.
pub(crate) struct ShaderBuilder<'a> {
    pub(crate) operands: &'a Operands,
    pub(crate) limits: &'a Limits,
    /// True if the shader reads whether the step may commit.
    pub(crate) gated: bool,
    /// Index of the launch; a trap records it plus 1.
    pub(crate) launch: usize,
    globals: String,
    functions: SortedSet<Function>,
    body: String,
    indent: usize,
    workspace: Vec<(Range<u64>, String, String)>,
    table: Option<Vec<u32>>,
    traps: bool,
    /// WGSL extensions that the shader uses.
    extensions: Vec<&'static str>,
    /// Number of invocations per subgroup, if the shader uses subgroup operations.
    subgroup: Option<u32>,
}

impl<'a> ShaderBuilder<'a> {
    pub(crate) fn new(operands: &'a Operands, limits: &'a Limits, launch: usize) -> Self {
        Self {
            operands,
            limits,
            gated: false,
            launch,
            globals: String::new(),
            functions: SortedSet::new(),
            body: String::new(),
            indent: 1,
            workspace: Vec::new(),
            table: None,
            traps: false,
            extensions: Vec::new(),
            subgroup: None,
        }
    }

    /// Appends a line to the body of `main`. A trailing `{` opens a block; a leading `}` closes one.
    pub(crate) fn line(&mut self, text: impl Display) {
        self.add_line(&text);
    }

    fn add_line(&mut self, text: &dyn Display) {
        let start = self.body.len();
        write!(self.body, "{text}").expect(TEXT);
        let line = &self.body.as_bytes()[start..];
        if line.starts_with(b"}") {
            self.indent -= 1;
        }
        let opens = line.ends_with(b"{");
        self.body.insert_str(start, &"    ".repeat(self.indent));
        self.body.push('\n');
        if opens {
            self.indent += 1;
        }
    }

    /// Appends a declaration outside of `main`.
    pub(crate) fn global(&mut self, text: impl Display) {
        self.add_global(&text);
    }

    fn add_global(&mut self, text: &dyn Display) {
        writeln!(self.globals, "{text}").expect(TEXT);
    }

    /// Adds a helper function to the module; returns its name.
    pub(crate) fn function(&mut self, function: Function) -> &'static str {
        for &needed in function.needs() {
            self.function(needed);
        }
        self.functions.insert(function);
        function.name()
    }

    /// Declares a range of the launch's scratch memory as a separate binding; returns its name: `w0`, `w1`,
    /// ..
    pub(crate) fn workspace(&mut self, bytes: Range<u64>, ty: &str) -> String {
        let name = format!("w{}", self.workspace.len());
        self.named_workspace(bytes, &name, &format!("array<{ty}>"));
        name
    }

    /// Declares a range of the scratch memory as a binding with a given name and type.
    pub(crate) fn named_workspace(&mut self, bytes: Range<u64>, name: &str, ty: &str) {
        self.workspace.push((bytes, name.to_string(), ty.to_string()));
    }

    /// Declares the constants of the shader; returns the name of their array.
    pub(crate) fn table(&mut self, numbers: Vec<u32>) -> &'static str {
        self.table = Some(numbers);
        "entries"
    }

    /// Enables a WGSL extension.
    pub(crate) fn enable(&mut self, extension: &'static str) {
        if !self.extensions.contains(&extension) {
            self.extensions.push(extension);
        }
    }

    /// Requires subgroups of `size` invocations, numbered consecutively within the workgroup.
    pub(crate) fn uses_subgroups(&mut self, size: u32) {
        self.subgroup = Some(size);
    }

    /// Returns an expression that loads the element of an operand at an index, see [`Operands::load`].
    pub(crate) fn load(&mut self, operand: &Operand, index: &str) -> String {
        self.operands.load(operand, index, self.limits)
    }

    /// Returns an expression that loads a vector of four elements of the operand's buffer. The index counts
    /// vectors, and the binding must be declared as vectors.
    pub(crate) fn load_vector(&mut self, operand: &Operand, index: &str) -> String {
        match operand.binding {
            NONE => format!("{}()", vector_name(operand.dtype)),
            binding => {
                let index = based(index, operand.base / (4 * operand.dtype.bytes() as u64));
                self.operands.item(binding, &index, self.limits)
            }
        }
    }

    /// Appends the statements that store an element of the result's buffer at an index.
    pub(crate) fn store(&mut self, operand: &Operand, index: &str, value: &str) {
        if operand.binding == NONE {
            return;
        }
        let (name, binding) = (format!("b{}", operand.binding), &self.operands.bindings[operand.binding]);
        let size = operand.dtype.bytes();
        let index = based(index, operand.base / size as u64);
        if binding.pieces(self.limits) > 1 && binding.element != Element::Atomic {
            let value = match binding.element {
                Element::Word => format!("bitcast<u32>({value})"),
                _ if size == 2 => format!("f16({value})"),
                _ => value.into(),
            };
            return self.line(format_args!("set_{name}({index}, {value});"));
        }
        if binding.element == Element::Atomic && size < 4 {
            // Change only the element's bits, atomically, because other invocations may write the other bits
            // of the word.
            let (count, mask) = (4 / size, (1u32 << (8 * size)) - 1);
            let bits = match operand.dtype {
                DType::F16 => format!("{}({value})", self.function(Function::F16Bits)),
                DType::BF16 => format!("(bitcast<u32>({value}) >> 16u)"),
                _ => format!("u32({value})"),
            };
            let shift = format!("({}u * (({index}) % {count}u))", 8 * size);
            self.line(format_args!("atomicAnd(&{name}[({index}) / {count}u], ~({mask}u << {shift}));"));
            self.line(format_args!("atomicOr(&{name}[({index}) / {count}u], {bits} << {shift});"));
            return;
        }
        self.line(match binding.element {
            Element::Plain(DType::F16) => format!("{name}[{index}] = f16({value});"),
            Element::Plain(_) => format!("{name}[{index}] = {value};"),
            Element::Vector(DType::F16) => format!("{name}[({index}) / 4u][({index}) % 4u] = f16({value});"),
            Element::Vector(_) => format!("{name}[({index}) / 4u][({index}) % 4u] = {value};"),
            Element::Word => format!("{name}[{index}] = bitcast<u32>({value});"),
            Element::Atomic => format!("atomicStore(&{name}[{index}], bitcast<u32>({value}));"),
        });
    }

    /// Appends the check of an index, which is recorded as the step's trap if it is outside of `0..extent`.
    pub(crate) fn report_index(&mut self, index: &str, extent: u32, position: &str) {
        self.traps = true;
        let launch = self.launch + 1;
        self.line(format_args!("if ({index} < 0 || {index} >= {extent}) {{"));
        self.line(format_args!("if (atomicCompareExchangeWeak(&status[1], 0u, {launch}u).exchanged) {{"));
        self.line(format_args!("atomicStore(&status[2], {position});"));
        self.line(format_args!("atomicStore(&status[3], bitcast<u32>({index}));"));
        self.line(format_args!("atomicStore(&status[4], {extent}u);"));
        self.line("}");
        self.line("}");
    }

    /// Appends the check of an integer divisor: if it is zero, the step does not commit.
    pub(crate) fn check_divisor(&mut self, divisor: &str, position: &str) {
        self.traps = true;
        let launch = self.launch + 1;
        let zero = format!("{divisor} == 0");
        self.line(format_args!(
            "if ({zero} && atomicCompareExchangeWeak(&status[1], 0u, {launch}u).exchanged) {{"
        ));
        self.line(format_args!("atomicStore(&status[2], {position});"));
        self.line("}");
    }

    /// Declares the status as writable.
    pub(crate) fn uses_status(&mut self) {
        self.traps = true;
    }

    /// Returns the declarations before the entry point, and the bindings. Only bindings that `entry`, the
    /// text of the entry point, or a helper function uses are declared.
    pub(crate) fn declarations(self, entry: &str) -> (String, Vec<Bound>) {
        let mut functions = self.globals.clone();
        self.functions.iter().for_each(|function| functions.push_str(function.text()));
        let uses = |name: &str| mentions(entry, name) || mentions(&functions, name);
        let mut text = String::new();
        let mut bindings: Vec<Bound> = Vec::new();
        let mut add = |access: &str, name: &str, ty: &str, bound: Bound| {
            declare(&mut text, bindings.len(), access, name, ty);
            bindings.push(bound);
        };
        let mut pieces = String::new();
        for (i, binding) in self.operands.bindings.iter().enumerate() {
            let name = format!("b{i}");
            let ty = format!("array<{}>", binding.element.type_name());
            let access = if binding.writable { "read_write" } else { "read" };
            let count = binding.pieces(self.limits);
            if count == 1 && uses(&name) {
                add(access, &name, &ty, Bound::Operand(i));
            }
            let (gets, sets) = (uses(&format!("get_{name}")), uses(&format!("set_{name}")));
            if count > 1 && (gets || sets) {
                for piece in 0..count {
                    add(
                        access,
                        &format!("{name}_{piece}"),
                        &ty,
                        Bound::Piece(i, binding.piece(piece, self.limits)),
                    );
                }
                pieces.push_str(&accessors(&name, binding, self.limits, gets, sets));
            }
        }
        for (bytes, name, ty) in &self.workspace {
            if uses(name) {
                add("read_write", name, ty, Bound::Workspace(bytes.clone()));
            }
        }
        if let Some(table) = self.table.filter(|_| uses("entries")) {
            add("read", "entries", "array<u32>", Bound::Table(table));
        }
        if self.traps {
            let ty = format!("array<atomic<u32>, {STATUS_WORDS}>");
            add("read_write", "status", &ty, Bound::Status { writable: true });
        } else if self.gated {
            let ty = format!("array<u32, {STATUS_WORDS}>");
            add("read", "status", &ty, Bound::Status { writable: false });
        }
        text.push_str(&pieces);
        text.push_str(&functions);
        (text, bindings)
    }

    /// Returns the finished shader, run by `count` workgroups of `size` invocations. In its body, `group` is
    /// the index of the workgroup, and `local` that of the invocation in it.
    pub(crate) fn finish(self, label: &str, size: u32, count: usize) -> Dispatch {
        let (limits, gated, body) = (*self.limits, self.gated, self.body.clone());
        let subgroup = self.subgroup;
        let mut extensions = self.extensions.clone();
        let (declarations, bindings) = self.declarations(&body);
        if mentions(&declarations, "f16") || mentions(&body, "f16") {
            extensions.push("f16");
        }
        let enabled: String = extensions.iter().map(|name| format!("enable {name};\n")).collect();
        let mut text = format!("// {label}\n{enabled}{declarations}");
        let workgroups = limits.spread(count);
        let local = match subgroup {
            None => "@builtin(local_invocation_index) local: u32",
            // Compute the index of the invocation from that of its subgroup, because WGSL does not specify
            // which invocations of a workgroup are adjacent in a subgroup.
            Some(_) => "@builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) place: u32",
        };
        let entry = format!("@builtin(workgroup_id) workgroup: vec3<u32>, {local}");
        write!(text, "@compute @workgroup_size({size})\nfn main({entry}) {{\n").expect(TEXT);
        if let Some(size) = subgroup {
            writeln!(text, "    let local = subgroup * {size}u + place;").expect(TEXT);
        }
        match workgroups[1] {
            0 | 1 => text.push_str("    let group = workgroup.x;\n"),
            _ => {
                writeln!(text, "    let group = workgroup.x + workgroup.y * {}u;", workgroups[0]).expect(TEXT)
            }
        }
        if workgroups[0] as usize * workgroups[1] as usize > count {
            writeln!(text, "    if (group >= {count}u) {{\n        return;\n    }}").expect(TEXT);
        }
        if gated {
            text.push_str("    let committed = status[0] == 0u;\n");
        }
        text.push_str(&body);
        text.push_str("}\n");
        Dispatch { label: label.to_string(), source: text, bindings, workgroups, turns: 0 }
    }
}

impl Operands {
    /// Returns an expression that loads the element of the operand's buffer at an index.
    pub(crate) fn load(&self, operand: &Operand, index: &str, limits: &Limits) -> String {
        if operand.binding == NONE {
            // An operand without elements is never loaded, so this expression is not evaluated.
            return zero(operand.dtype).to_string();
        }
        let binding = &self.bindings[operand.binding];
        let item = |index: &str| self.item(operand.binding, index, limits);
        let size = operand.dtype.bytes();
        let index = based(index, operand.base / size as u64);
        if size < 4 && matches!(binding.element, Element::Word | Element::Atomic) {
            let (count, mask) = (4 / size, (1u32 << (8 * size)) - 1);
            let word = item(&format!("({index}) / {count}u"));
            let word = if binding.element == Element::Atomic { format!("atomicLoad(&{word})") } else { word };
            let bits = format!("(({word} >> ({}u * (({index}) % {count}u))) & {mask}u)", 8 * size);
            return match operand.dtype {
                DType::F16 => format!("unpack2x16float({bits}).x"),
                DType::BF16 => format!("bitcast<f32>({bits} << 16u)"),
                DType::U8 => format!("i32{bits}"),
                _ => format!("({bits} != 0u)"),
            };
        }
        match binding.element {
            Element::Plain(DType::F16) => format!("f32({})", item(&index)),
            Element::Plain(_) => item(&index),
            Element::Vector(DType::F16) => {
                format!("f32({}[({index}) % 4u])", item(&format!("({index}) / 4u")))
            }
            Element::Vector(_) => format!("{}[({index}) % 4u]", item(&format!("({index}) / 4u"))),
            Element::Word if operand.dtype == DType::U32 => item(&index),
            Element::Word => format!("bitcast<{}>({})", type_name(operand.dtype), item(&index)),
            Element::Atomic => {
                format!("bitcast<{}>(atomicLoad(&{}))", type_name(operand.dtype), item(&index))
            }
        }
    }

    /// Returns an expression for the item of a binding at an index. An item is an element, a vector or a
    /// word.
    pub(crate) fn item(&self, binding: usize, index: &str, limits: &Limits) -> String {
        match self.bindings[binding].pieces(limits) {
            1 => format!("b{binding}[{index}]"),
            _ => format!("get_b{binding}({index})"),
        }
    }
}

impl Element {
    /// Returns the WGSL name of the type.
    fn type_name(self) -> &'static str {
        match self {
            Element::Plain(DType::F16) => "f16",
            Element::Plain(dtype) => type_name(dtype),
            Element::Vector(dtype) => vector_name(dtype),
            Element::Word => "u32",
            Element::Atomic => "atomic<u32>",
        }
    }
}

/// Returns the functions that load and store elements of a value that is bound in several pieces.
fn accessors(name: &str, binding: &Binding, limits: &Limits, gets: bool, sets: bool) -> String {
    let ty = binding.element.type_name();
    let size = match binding.element {
        Element::Plain(dtype) => dtype.bytes() as u64,
        Element::Vector(dtype) => 4 * dtype.bytes() as u64,
        Element::Word | Element::Atomic => 4,
    };
    let last = binding.pieces(limits) - 1;
    // Emit a branch for each piece.
    let branches = |statement: &dyn Fn(&str) -> String| -> String {
        let branch = |i: usize| {
            let range = binding.piece(i, limits);
            let index = if i == 0 { "i".to_string() } else { format!("i - {}u", range.start / size) };
            let statement = statement(&format!("{name}_{i}[{index}]"));
            match i {
                0 => format!("    if (i < {}u) {{\n        {statement}\n    }}", range.end / size),
                _ if i == last => format!(" else {{\n        {statement}\n    }}\n"),
                _ => format!(" else if (i < {}u) {{\n        {statement}\n    }}", range.end / size),
            }
        };
        (0..=last).map(branch).collect()
    };
    let mut text = String::new();
    if gets {
        let body = branches(&|item| format!("value = {item};"));
        let value = format!("    var value = {ty}();\n{body}    return value;\n");
        text.push_str(&format!("fn get_{name}(i: u32) -> {ty} {{\n{value}}}\n"));
    }
    if let (true, Element::Vector(dtype)) = (sets, binding.element) {
        let body = branches(&|item| format!("{item}[element % 4u] = value;"));
        let body = format!("    let i = element / 4u;\n{body}");
        let ty = Element::Plain(dtype).type_name();
        text.push_str(&format!("fn set_{name}(element: u32, value: {ty}) {{\n{body}}}\n"));
    } else if sets {
        let body = branches(&|item| format!("{item} = value;"));
        text.push_str(&format!("fn set_{name}(i: u32, value: {ty}) {{\n{body}}}\n"));
    }
    text
}

/// Returns `true` if a text contains a name as a whole word.
fn mentions(text: &str, name: &str) -> bool {
    let part = |c: &u8| c.is_ascii_alphanumeric() || *c == b'_';
    let (text, name) = (text.as_bytes(), name.as_bytes());
    (0..text.len()).any(|at| {
        text[at] == name[0]
            && text[at..].starts_with(name)
            && !text[..at].last().is_some_and(part)
            && !text[at + name.len()..].first().is_some_and(part)
    })
}

const TEXT: &str = "a string takes all text";

fn declare(text: &mut String, binding: usize, access: &str, name: &str, ty: &str) {
    writeln!(text, "@group(0) @binding({binding}) var<storage, {access}> {name}: {ty};").expect(TEXT);
}

/// Converts an index in a buffer that starts at item `base` of the binding to an index in the binding.
fn based(index: &str, base: u64) -> String {
    match base {
        0 => index.to_string(),
        base => format!("{base}u + {index}"),
    }
}

/// Returns the WGSL name of a vector of four elements.
fn vector_name(dtype: DType) -> &'static str {
    if dtype == DType::F16 { "vec4<f16>" } else { "vec4<f32>" }
}

/// Returns the WGSL name of the type in which kernels compute on a dtype.
pub(crate) fn type_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => "f32",
        DType::I32 | DType::U8 => "i32",
        DType::I64 => has_words(),
        DType::U32 => "u32",
        DType::Bool => "bool",
    }
}

/// Returns the zero of a dtype, in place of an element of an empty operand.
pub(crate) fn zero(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => "0.0",
        DType::I32 | DType::U8 => "0i",
        DType::I64 => has_words(),
        DType::U32 => "0u",
        DType::Bool => "false",
    }
}
