//! Loads, stores and declarations of a shader's memory.
//!
//! In: the operands of a launch. Out: statements and expressions, which depend on the declared type of their
//! binding, and the finished [`Dispatch`].

use super::dispatch::{Bound, Dispatch};
use super::functions::Function;
use super::operands::{Binding, Element, NONE, Operand, Operands};
use super::print::{Printer, array_name, array_type, name_of};
use crate::limits::Limits;
use crate::narrow::has_words;
use crate::simt::{Kernel, Role, Space, ValueType, turns};
use crate::step::STATUS_WORDS;
use gradloom_core::ir::DType;
use std::fmt::Write;

impl Printer<'_> {
    /// Returns an expression that loads a vector of four elements of the operand's buffer. The index counts
    /// vectors, and the binding must be declared as vectors.
    pub(super) fn load_vector(&self, operand: &Operand, index: &str) -> String {
        match operand.binding {
            NONE => format!("{}()", vector_name(operand.dtype)),
            binding => {
                let index = based(index, operand.base / (4 * operand.dtype.bytes() as u64));
                self.operands.item(binding, &index, self.limits)
            }
        }
    }

    /// Appends the statements that store an element of the result's buffer at an index.
    pub(super) fn store(&mut self, operand: &Operand, index: &str, value: &str) {
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
    pub(super) fn report_index(&mut self, index: &str, extent: u32, position: &str) {
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
    pub(super) fn check_divisor(&mut self, divisor: &str, position: &str) {
        let launch = self.launch + 1;
        let zero = format!("{divisor} == 0");
        self.line(format_args!(
            "if ({zero} && atomicCompareExchangeWeak(&status[1], 0u, {launch}u).exchanged) {{"
        ));
        self.line(format_args!("atomicStore(&status[2], {position});"));
        self.line("}");
    }

    /// Returns the declarations before the entry point, and the bindings. Only bindings that the entry point
    /// or a helper function uses are declared.
    fn declarations(&self) -> (String, Vec<Bound>) {
        let kernel = self.kernel;
        let mut functions = String::new();
        for (i, array) in
            kernel.arrays.iter().enumerate().filter(|(_, array)| array.space == Space::Workgroup)
        {
            writeln!(functions, "var<workgroup> a{i}: {};", array_type(array)).expect(TEXT);
        }
        self.functions.iter().for_each(|function| functions.push_str(function.text()));
        let uses = |name: &str| mentions(&self.body, name) || mentions(&functions, name);
        let mut text = String::new();
        let mut bindings: Vec<Bound> = Vec::new();
        let mut add = |access: &str, name: &str, ty: &str, bound: Bound| {
            let binding = bindings.len();
            writeln!(text, "@group(0) @binding({binding}) var<storage, {access}> {name}: {ty};").expect(TEXT);
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
        let (mut has_table, mut traps) = (false, kernel.traps());
        for (i, buffer) in kernel.buffers.iter().enumerate() {
            match buffer.role {
                Role::Workspace { start, bytes } if uses(&array_name(kernel, i)) => {
                    let ty = format!("array<{}>", name_of(buffer.ty));
                    let bound = Bound::Workspace(start..start + bytes);
                    add("read_write", &array_name(kernel, i), &ty, bound);
                }
                Role::Table => has_table = uses("entries"),
                Role::Status => traps = true,
                _ => {}
            }
        }
        if has_table {
            add("read", "entries", "array<u32>", Bound::Table(kernel.table.clone()));
        }
        if traps {
            let ty = format!("array<atomic<u32>, {STATUS_WORDS}>");
            add("read_write", "status", &ty, Bound::Status { writable: true });
        } else if kernel.is_gated() {
            let ty = format!("array<u32, {STATUS_WORDS}>");
            add("read", "status", &ty, Bound::Status { writable: false });
        }
        text.push_str(&pieces);
        text.push_str(&functions);
        (text, bindings)
    }

    /// Returns the finished shader. In its body, `group` is the index of the workgroup, and `local` that of
    /// the invocation in it.
    pub(super) fn finish(self) -> Dispatch {
        let Kernel { label, workgroup: size, groups: count, subgroup, .. } = self.kernel;
        let types =
            self.kernel.arrays.iter().map(|array| array.ty).chain(self.kernel.variables.iter().copied());
        let mut extensions = Vec::new();
        if types.into_iter().any(|ty| matches!(ty, ValueType::Matrix(..))) {
            extensions.push("wgpu_cooperative_matrix");
        }
        let (declarations, bindings) = self.declarations();
        if mentions(&declarations, "f16") || mentions(&self.body, "f16") {
            extensions.push("f16");
        }
        let enabled: String = extensions.iter().map(|name| format!("enable {name};\n")).collect();
        let mut text = format!("// {label}\n{enabled}{declarations}");
        let workgroups = self.limits.spread(*count);
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
        if workgroups[0] as usize * workgroups[1] as usize > *count {
            writeln!(text, "    if (group >= {count}u) {{\n        return;\n    }}").expect(TEXT);
        }
        if self.kernel.is_gated() {
            text.push_str("    let committed = status[0] == 0u;\n");
        }
        text.push_str(&self.body);
        text.push_str("}\n");
        Dispatch { label: label.clone(), source: text, bindings, workgroups, turns: turns(self.kernel) }
    }
}

impl Operands {
    /// Returns an expression that loads the element of the operand's buffer at an index.
    pub(super) fn load(&self, operand: &Operand, index: &str, limits: &Limits) -> String {
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
    pub(super) fn item(&self, binding: usize, index: &str, limits: &Limits) -> String {
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

pub(super) const TEXT: &str = "a string takes all text";

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
pub(super) fn type_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => "f32",
        DType::I32 | DType::U8 => "i32",
        DType::I64 => has_words(),
        DType::U32 => "u32",
        DType::Bool => "bool",
    }
}

/// Returns the zero of a dtype, in place of an element of an empty operand.
pub(super) fn zero(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => "0.0",
        DType::I32 | DType::U8 => "0i",
        DType::I64 => has_words(),
        DType::U32 => "0u",
        DType::Bool => "false",
    }
}
