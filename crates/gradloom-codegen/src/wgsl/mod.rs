//! Lowering to WGSL: what a launch is as compute shaders.
//!
//! In: a graph's kernels, and later their plan. Out: launches whose scratch is known ([`lower`]), and the shaders of each ([`shaders`]). Shapes are baked into the text,
//! offsets are not, but where several values share a binding: equal layers share pipelines.
//! Always holds: a result is a function of the operands, the shapes, the [`Limits`] and the [`Choices`] alone; there are no atomic sums.

mod attention;
mod body;
pub mod dot;
mod elementwise;
mod expression;
mod extreme;
mod functions;
mod gather;
mod group;
mod guards;
mod limits;
mod lower;
mod map;
mod movement;
mod operands;
mod product;
mod random;
mod reduce;
mod rows;
mod scatter;
mod source;
mod writer;

pub use dot::{Choices, Precision};
pub use guards::{STATUS_WORDS, Verdict, guards};
pub use limits::Limits;
pub use lower::{lower, lower_fused};
pub use operands::{Binding, Element, Operand, Operands};
pub use product::{product_alone, products};
pub use writer::Writer;

use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{Graph, OpKind};
use gradloom_core::kernel::{Body, Kernel, Launch, Part, Phase};
use gradloom_core::plan::Plan;
use source::Source;
use std::ops::Range;

/// One shader and how it is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// What it computes, for people.
    pub label: String,
    /// WGSL with the entry point `main`.
    pub source: String,
    /// What stands at `@group(0) @binding(i)`.
    pub bindings: Vec<Bound>,
    /// Workgroups along x, y and z.
    pub workgroups: [u32; 3],
}

/// A compute shader with the size of its dispatch; the entry point is `main`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shader {
    /// The WGSL source.
    pub source: String,
    /// Number of workgroups along x, y and z; a zero means that there is nothing to do, and such a dispatch may be left out.
    pub workgroups: [u32; 3],
}

/// What a shader's binding is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The binding of this index in the launch's [`Operands`].
    Operand(usize),
    /// Bytes of the scratch; read and written.
    Workspace(Range<usize>),
    /// Numbers of the launch's own.
    Table(Vec<u32>),
    /// The step's status: [`STATUS_WORDS`] words.
    Status {
        /// Whether the shader may write it.
        writable: bool,
    },
}

/// A launch as shaders, which run one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Shaders {
    /// What they bind.
    pub operands: Operands,
    /// In order; none if there is nothing to compute.
    pub dispatches: Vec<Dispatch>,
}

/// The shaders of a plan's launch, with the choices that it was lowered with. Those of the commit write nothing if the step's status says so.
///
/// # Errors
/// When the kernel cannot run on an adapter with these limits.
pub fn shaders(
    launch: &Launch,
    number: usize,
    plan: &Plan,
    graph: &Graph,
    limits: &Limits,
    choices: &Choices,
) -> Result<Vec<Shaders>> {
    let Kernel::Group(parts) = &launch.kernel else {
        return Ok(vec![one(launch, number, plan, graph, limits, choices)?]);
    };
    let alone = |part: &Part| -> Result<Shaders> {
        let launch = Launch {
            kernel: part.kernel.clone(),
            reads: launch.reads[part.reads.clone()].to_vec(),
            writes: launch.writes[part.writes.clone()].to_vec(),
            may_alias: Vec::new(),
            workspace: part.workspace.len(),
            ..launch.clone()
        };
        let mut shaders = one(&launch, number, plan, graph, limits, choices)?;
        for bound in shaders.dispatches.iter_mut().flat_map(|dispatch| &mut dispatch.bindings) {
            if let Bound::Workspace(bytes) = bound {
                *bytes = bytes.start + part.workspace.start..bytes.end + part.workspace.start;
            }
        }
        Ok(shaders)
    };
    // Parts that compute the same run together, where the first of them stands.
    let classes = group::classes(parts, launch, plan);
    let mut all = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        let alike: Vec<usize> = match &classes[i] {
            Some(_) => (0..parts.len()).filter(|&j| classes[j] == classes[i]).collect(),
            None => vec![i],
        };
        match alike[..] {
            [_] => all.push(alone(part)?),
            [first, ..] if first == i => {
                let members: Vec<&Part> = alike.iter().map(|&j| &parts[j]).collect();
                all.push(group::together(launch, &members, number, plan, limits)?);
            }
            _ => {}
        }
    }
    Ok(all)
}

fn one(
    launch: &Launch,
    number: usize,
    plan: &Plan,
    graph: &Graph,
    limits: &Limits,
    choices: &Choices,
) -> Result<Shaders> {
    if let Kernel::Op(OpKind::Reduce { op, axes }) = &launch.kernel {
        return one(&reduce::as_body(*op, axes, launch), number, plan, graph, limits, choices);
    }
    let mut operands = bind(launch, plan, limits)?;
    if let Kernel::Dot { axes, .. } | Kernel::Op(OpKind::Dot(axes)) = &launch.kernel {
        product::vectorise(&mut operands, axes);
    }
    let gated = launch.phase == Phase::Commit;
    let source = || Source::new(&operands, limits, gated, number);
    let label = launch.kernel.title();
    let dispatches = match &launch.kernel {
        Kernel::Loop(body) => body_shaders(&operands, limits, gated, number, body, &label),
        Kernel::Dot { axes, epilogue } => product::product(source, axes, choices, Some(epilogue), &label),
        Kernel::Op(OpKind::Dot(axes)) => product::product(source, axes, choices, None, &label),
        Kernel::Copy => movement::copy(source(), &label),
        Kernel::WriteRegion => movement::write_region(source(), &label),
        Kernel::Op(OpKind::Concat { axis }) => movement::concat(&operands, limits, gated, number, *axis),
        Kernel::Op(OpKind::Pad { low, interior, value, .. }) => {
            movement::pad(source(), low, interior, *value)
        }
        Kernel::Op(OpKind::DynamicSlice { .. }) => movement::dynamic_slice(source()),
        Kernel::Op(OpKind::DynamicUpdateSlice) => {
            movement::dynamic_update_slice(&operands, limits, gated, number)
        }
        Kernel::Op(OpKind::Attention(spec)) => attention::attention(source(), spec),
        Kernel::Op(OpKind::AttentionGrad(spec)) => {
            attention::attention_grad(&operands, limits, gated, number, spec)
        }
        Kernel::Op(OpKind::RandomBits { site, .. }) => random::random_bits(source(), *site),
        Kernel::Op(OpKind::ArgReduce { op, axis }) => extreme::arg_reduce(source(), *op, *axis, &label),
        Kernel::Op(OpKind::Gather { batch }) => gather::gather(source(), *batch),
        Kernel::Op(OpKind::ScatterAdd { batch }) => {
            scatter::scatter_add(&operands, limits, gated, number, *batch)
        }
        Kernel::Op(
            kind @ (OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Compare(_)
            | OpKind::Select
            | OpKind::Cast { .. }),
        ) => elementwise::elementwise(source(), kind, &label),
        other => {
            let op = &graph.ops[launch.op];
            let error = Error::new(ErrorKind::Device, format!("`{}` has no WGSL kernel yet", other.name()));
            return Err(match graph.origin(op) {
                Some(origin) => error.at(origin.clone(), op.kind.name()),
                None => error,
            });
        }
    };
    Ok(Shaders { operands, dispatches })
}

/// What a launch binds.
fn bind(launch: &Launch, plan: &Plan, limits: &Limits) -> Result<Operands> {
    // Two are kept for scratch, one for the status.
    checked(launch, limits, Operands::new(launch, plan, limits, 3))
}

/// What a launch binds, its values of one region all together.
fn bind_together(launch: &Launch, plan: &Plan, limits: &Limits) -> Result<Operands> {
    checked(launch, limits, Operands::new(launch, plan, limits, usize::MAX / 2))
}

fn checked(
    launch: &Launch,
    limits: &Limits,
    operands: std::result::Result<Operands, usize>,
) -> Result<Operands> {
    operands.map_err(|bytes| {
        let message =
            format!("a kernel needs a binding of {bytes} bytes, the adapter allows {}", limits.binding_bytes);
        Error::new(ErrorKind::Plan, message)
            .note(format!("in `{}`", launch.kernel.title()))
            .help("make the batch, the context or the vocabulary smaller, or use another device")
    })
}

/// The shaders of a fused expression.
fn body_shaders(
    operands: &Operands,
    limits: &Limits,
    gated: bool,
    number: usize,
    body: &Body,
    label: &str,
) -> Vec<Dispatch> {
    let reduces = body.has_row_reductions() || rows::reduces_columns(body);
    if body.rows * body.columns == 0 || reduces {
        return rows::rows(operands, limits, gated, number, body, label);
    }
    vec![map::map(Source::new(operands, limits, gated, number), body, label)]
}
