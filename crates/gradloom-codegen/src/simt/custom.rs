//! Kernels of user-defined ops, in the kernel language.
//!
//! In: a function that writes the kernels of an op ([`gpu_lowering`]), and a launch of it. Out: verified
//! kernels, and the number of bytes of scratch memory that they share. Invariant: regardless of the function,
//! the kernels access only the operands, results and scratch memory of the op. A load beyond the end returns
//! the last element; a store beyond the end has no effect.

use super::builder::{Builder, Value, Variable};
use super::ir::{Kernel, Role, Space, ValueType};
use super::kernels::{View, Views, WORKGROUP};
use super::{index_at, verify};
use crate::limits::Limits;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{CustomOp, DType, GpuLowering, Graph, OpKind, Shape};
use gradloom_core::kernel::{self, Access, Launch, Layout};
use gradloom_core::plan::ALIGNMENT;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Maximum number of bytes of scratch memory per op: kernels index its elements with 32 bits.
const MOST_SCRATCH: u64 = 1 << 31;

/// Maximum number of bytes of private arrays per invocation. Larger arrays would be in slow memory, and take
/// long to compile.
const MOST_PRIVATE: u32 = 16 << 10;

type Write = Box<dyn Fn(&CustomLaunch<'_>) + Send + Sync>;

/// Creates the return value of [`CustomOp::gpu`]. `write` is called for each launch of the op and appends
/// kernels to it, which run in sequence, on every kind of GPU. Together they must write every element of the
/// op's results.
///
/// ```
/// use gradloom_codegen::simt::custom::gpu_lowering;
///
/// let square = gpu_lowering(|op| {
///     let (x, y) = (op.operand(0), op.result(0));
///     op.each(y.elements(), |k, i| {
///         let value = k.load(x, i);
///         k.store(y, i, value * value);
///     });
/// });
/// ```
pub fn gpu_lowering(write: impl Fn(&CustomLaunch<'_>) + Send + Sync + 'static) -> GpuLowering {
    GpuLowering::new(Box::new(write) as Write)
}

/// Launch of a user-defined op, to which its kernels are added.
pub struct CustomLaunch<'a> {
    views: &'a Views<'a>,
    limits: &'a Limits,
    kernels: RefCell<Vec<Kernel>>,
    /// Number of bytes of scratch memory allocated so far.
    scratch: Cell<u64>,
    /// True while a kernel is being written. No other kernel may be added then, because values must not be
    /// used in another kernel.
    is_open: Cell<bool>,
    /// Message of the first mistake.
    mistake: RefCell<Option<String>>,
}

/// Operand, result, or scratch buffer of a launch. Its elements are numbered in row-major order, from 0.
#[derive(Clone, Copy, Debug)]
pub struct CustomBuffer<'a> {
    role: Role,
    dtype: DType,
    /// Layout of its elements; `None` for scratch memory, which is contiguous.
    layout: Option<&'a Layout>,
    elements: usize,
}

/// Program of one invocation of a kernel: expressions, statements and memory accesses, in order.
///
/// The operators of [`Value`]s take two values of one dtype, or a value and a u32 constant. [`Value::unary`],
/// [`Value::binary`] and [`Value::compare`] are the elementwise functions of graphs. 16-bit floats are loaded
/// as f32.
#[derive(Clone, Copy)]
pub struct Invocation<'k> {
    k: &'k Builder,
    mistake: &'k RefCell<Option<String>>,
}

/// Array private to each invocation or shared by each workgroup, initially undefined.
#[derive(Clone, Copy)]
pub struct CustomArray<'k> {
    /// Kernel that declares the array.
    k: &'k Builder,
    number: u32,
    elements: u32,
}

impl<'a> CustomLaunch<'a> {
    /// Returns an operand of the op.
    pub fn operand(&self, number: usize) -> CustomBuffer<'a> {
        self.buffer(Role::Operand(number), self.views.reads.get(number), "operand")
    }

    /// Returns a result of the op.
    pub fn result(&self, number: usize) -> CustomBuffer<'a> {
        self.buffer(Role::Result(number), self.views.writes.get(number), "result")
    }

    fn buffer(&self, role: Role, view: Option<&View<'a>>, what: &str) -> CustomBuffer<'a> {
        match view {
            Some(View { dtype, layout, .. }) => {
                let elements = layout.shape.elements();
                CustomBuffer { role, dtype: *dtype, layout: Some(layout), elements }
            }
            None => {
                note(&self.mistake, || format!("the op has no such {what}: {role:?}"));
                CustomBuffer { role, dtype: DType::F32, layout: None, elements: 0 }
            }
        }
    }

    /// Allocates scratch memory that the kernels of this launch share: a kernel can read elements that
    /// earlier kernels have written. Its contents are initially undefined.
    pub fn scratch(&self, dtype: DType, elements: usize) -> CustomBuffer<'a> {
        if dtype == DType::Bool || dtype.is_for_memory() {
            note(&self.mistake, || format!("scratch of {dtype}: it has elements of 32 bits"));
        }
        let start = self.scratch.get();
        let fits =
            (elements as u64).checked_mul(4).filter(|&bytes| bytes.saturating_add(start) <= MOST_SCRATCH);
        let bytes = fits.unwrap_or_else(|| {
            note(&self.mistake, || format!("{elements} elements of scratch: 32 bits cannot count them"));
            0
        });
        let elements = (bytes / 4) as usize;
        self.scratch.set((start + bytes).next_multiple_of(ALIGNMENT));
        CustomBuffer { role: Role::Workspace { start, bytes }, dtype, layout: None, elements }
    }

    /// Returns the device's limits on a kernel.
    pub fn limits(&self) -> &'a Limits {
        self.limits
    }

    /// Adds a kernel in which one invocation per position below `elements` runs `f`.
    pub fn each(&self, elements: usize, f: impl for<'k> FnOnce(Invocation<'k>, Value<'k>)) {
        let workgroup = WORKGROUP.min(self.limits.invocations);
        let Ok(count) = u32::try_from(elements) else {
            return note(&self.mistake, || format!("{elements} positions are more than 32 bits count"));
        };
        self.kernel(workgroup, elements.div_ceil(workgroup as usize), |k| {
            let position = k.group() * workgroup + k.local();
            k.when(position.below(count), || f(k, position));
        });
    }

    /// Adds a kernel of `groups` workgroups of `workgroup` invocations; if `groups` is 0, no kernel is added.
    pub fn kernel(&self, workgroup: u32, groups: usize, f: impl for<'k> FnOnce(Invocation<'k>)) {
        let most = self.limits.invocations;
        if workgroup == 0 || workgroup > most {
            return note(&self.mistake, || format!("a workgroup of {workgroup}: the device has 1 to {most}"));
        }
        if groups.checked_mul(workgroup as usize).is_none_or(|all| all > u32::MAX as usize) {
            return note(&self.mistake, || format!("{groups} workgroups are more than 32 bits count"));
        }
        if self.is_open.replace(true) {
            return note(&self.mistake, || "a kernel inside of another: write one after the other".into());
        }
        let number = self.kernels.borrow().len();
        let k = Builder::new(&format!("custom {number}"), workgroup, groups);
        f(Invocation { k: &k, mistake: &self.mistake });
        self.is_open.set(false);
        if groups > 0 {
            self.kernels.borrow_mut().push(k.finish());
        }
    }
}

impl<'a> CustomBuffer<'a> {
    /// Returns the number of elements.
    pub fn elements(self) -> usize {
        self.elements
    }

    /// Returns the buffer's shape; `None` for scratch memory.
    pub fn shape(self) -> Option<&'a Shape> {
        self.layout.map(|layout| &layout.shape)
    }

    /// Returns the dtype of the buffer's elements in memory.
    pub fn dtype(self) -> DType {
        self.dtype
    }
}

impl CustomArray<'_> {
    /// Checks that the array belongs to the kernel, as its lifetime ensures.
    fn check(self, k: &Builder) {
        assert!(std::ptr::eq(self.k, k), "an array of another kernel; please report this");
    }
}

fn note(mistake: &RefCell<Option<String>>, what: impl FnOnce() -> String) {
    mistake.borrow_mut().get_or_insert_with(what);
}

impl<'k> Invocation<'k> {
    /// Returns a u32 constant.
    pub fn u32(self, number: u32) -> Value<'k> {
        self.k.u32(number)
    }

    /// Returns an i32 constant.
    pub fn i32(self, number: i32) -> Value<'k> {
        self.k.i32(number)
    }

    /// Returns an f32 constant.
    pub fn f32(self, number: f32) -> Value<'k> {
        self.k.f32(number)
    }

    /// Returns a bool constant.
    pub fn bool(self, is: bool) -> Value<'k> {
        self.k.bool(is)
    }

    /// Returns the workgroup's number, a u32.
    pub fn group(self) -> Value<'k> {
        self.k.group()
    }

    /// Returns the invocation's number in its workgroup, a u32.
    pub fn local(self) -> Value<'k> {
        self.k.local()
    }

    /// Loads the element at a position, which is a u32.
    pub fn load(self, from: CustomBuffer<'_>, position: Value<'k>) -> Value<'k> {
        match self.within(position, from.elements) {
            Some(position) => {
                let index = from.layout.map_or(position, |layout| index_at(self.k, layout, position));
                self.k.load(self.k.buffer(from.role, from.dtype), index)
            }
            None => self.k.bits(from.dtype.computed(), 0),
        }
    }

    /// Writes the element at a position, which is a u32.
    pub fn store(self, to: CustomBuffer<'_>, position: Value<'k>, value: Value<'k>) {
        if matches!(to.role, Role::Operand(_)) {
            return note(self.mistake, || "a store to an operand: kernels write results and scratch".into());
        }
        let (wide, got) = (ValueType::Scalar(to.dtype.computed()), value.ty());
        if got != wide {
            return note(self.mistake, || format!("a store of {got} where elements are {wide}: cast it"));
        }
        if let Some(within) = self.within(position, to.elements) {
            self.k.when(position.equals(within), || {
                let index = to.layout.map_or(within, |layout| index_at(self.k, layout, within));
                self.k.store(self.k.buffer(to.role, to.dtype), index, value);
            });
        }
    }

    /// Clamps a position to the last element; returns `None` if there are no elements, or the position is not
    /// a u32.
    fn within(self, position: Value<'k>, elements: usize) -> Option<Value<'k>> {
        if position.ty() != ValueType::Scalar(DType::U32) {
            note(self.mistake, || format!("a position of {}: positions are u32, cast it", position.ty()));
            return None;
        }
        let last = u32::try_from(elements.checked_sub(1)?).ok()?;
        Some(position.min(self.k.u32(last)))
    }

    /// Creates an array that the invocations of a workgroup share.
    pub fn shared(self, dtype: DType, elements: u32) -> CustomArray<'k> {
        let elements = elements.max(1);
        CustomArray { k: self.k, number: self.k.shared(dtype, elements), elements }
    }

    /// Creates an array private to each invocation.
    pub fn private(self, dtype: DType, elements: u32) -> CustomArray<'k> {
        let elements = elements.max(1);
        CustomArray { k: self.k, number: self.k.private(dtype, elements), elements }
    }

    /// Loads the element of an array at an index, which is a u32.
    pub fn get(self, array: CustomArray<'k>, index: Value<'k>) -> Value<'k> {
        array.check(self.k);
        let index = self.within(index, array.elements as usize).unwrap_or_else(|| self.k.u32(0));
        self.k.element(array.number, index)
    }

    /// Writes the element of an array at an index, which is a u32.
    pub fn set(self, array: CustomArray<'k>, index: Value<'k>, value: Value<'k>) {
        array.check(self.k);
        if let Some(within) = self.within(index, array.elements as usize) {
            self.k.when(index.equals(within), || self.k.set_element(array.number, within, value));
        }
    }

    /// Creates a variable with an initial value.
    pub fn var(self, first: Value<'k>) -> Variable<'k> {
        self.k.var(first)
    }

    /// Appends a conditional block with the statements that `then` appends.
    pub fn when(self, condition: Value<'k>, then: impl FnOnce()) {
        self.k.when(condition, then);
    }

    /// Appends a loop over the statements that `body` appends. Its u32 counter starts at `start`, increases
    /// by 1, and stays below `end`.
    pub fn count(self, start: Value<'k>, end: Value<'k>, body: impl FnOnce(Value<'k>)) {
        self.k.count(start, end, self.k.u32(1), body);
    }

    /// Appends a barrier: all invocations of the workgroup arrive before any of them continues, and then see
    /// what the others have written to shared memory. All invocations must reach the barrier.
    pub fn barrier(self) {
        self.k.barrier();
    }

    /// Appends a check that fails the step if an index, an i32, is outside of `0..extent`. Returns the
    /// nearest index in range as a u32, or 0 if there is none. The error message contains `position`.
    pub fn check_index(self, index: Value<'k>, extent: u32, position: Value<'k>) -> Value<'k> {
        self.k.check_index(index, extent, position)
    }
}

/// Returns the user-defined op that a launch runs, if any.
fn op_of<'g>(kernel: &kernel::Kernel, graph: &'g Graph) -> Option<&'g Arc<dyn CustomOp>> {
    match kernel {
        kernel::Kernel::Op(OpKind::Custom(id)) => Some(&graph.customs[*id]),
        _ => None,
    }
}

/// Returns the user-defined op that a launch runs, if it has no kernels for GPUs.
pub fn on_host<'g>(launch: &Launch, graph: &'g Graph) -> Option<&'g Arc<dyn CustomOp>> {
    op_of(&launch.kernel, graph).filter(|op| op.gpu().is_none())
}

/// Returns the kernels of a user-defined op that has kernels for GPUs; `None` for any other launch.
///
/// # Errors
/// Returns an error if the kernels are invalid. It contains the reason, and the op's location in the user's
/// source.
pub fn kernels(
    launch: &Launch,
    graph: &Graph,
    views: &Views<'_>,
    limits: &Limits,
) -> Result<Option<Vec<Kernel>>> {
    let Some(op) = op_of(&launch.kernel, graph) else { return Ok(None) };
    let Some(lowering) = op.gpu() else { return Ok(None) };
    let made = written(&lowering, views, limits).and_then(|(kernels, scratch)| {
        if scratch > launch.workspace {
            return Err("its function asks for other scratch at each call".to_string());
        }
        Ok(Some(kernels))
    });
    made.map_err(|what| {
        let message = format!("the GPU kernels of the custom op `{}` are not valid: {what}", op.name());
        let error = Error::new(ErrorKind::Plan, message)
            .help("mend `CustomOp::gpu`, or return `None` there, to run the op on the host");
        graph.blame(&graph.ops[launch.op], error)
    })
}

/// Returns the number of bytes of scratch memory that the kernels of a user-defined op share. It is 0 for any
/// other kernel, and for invalid kernels, which [`kernels`] reports later.
pub(crate) fn scratch(
    kernel: &kernel::Kernel,
    graph: &Graph,
    reads: &[Access],
    writes: &[Access],
    limits: &Limits,
) -> u64 {
    let view = |access| View::of(access, false);
    let views = Views {
        reads: reads.iter().map(view).collect(),
        writes: writes.iter().map(view).collect(),
        gated: false,
        in_place: false,
    };
    let lowering = op_of(kernel, graph).and_then(|op| op.gpu());
    lowering.and_then(|lowering| written(&lowering, &views, limits).ok()).map_or(0, |(_, scratch)| scratch)
}

/// Runs a user's function; returns the kernels that it writes, and their number of bytes of scratch memory.
fn written(
    lowering: &GpuLowering,
    views: &Views<'_>,
    limits: &Limits,
) -> std::result::Result<(Vec<Kernel>, u64), String> {
    let write: &Write = lowering.get().ok_or("`gpu` is to return what `gpu_lowering` made")?;
    let launch = CustomLaunch {
        views,
        limits,
        kernels: RefCell::default(),
        scratch: Cell::new(0),
        is_open: Cell::new(false),
        mistake: RefCell::default(),
    };
    write(&launch);
    if let Some(mistake) = launch.mistake.into_inner() {
        return Err(mistake);
    }
    let kernels = launch.kernels.into_inner();
    for kernel in &kernels {
        check(kernel, limits)?;
    }
    Ok((kernels, launch.scratch.get()))
}

/// Verifies a kernel and checks its resources against the device's limits.
fn check(kernel: &Kernel, limits: &Limits) -> std::result::Result<(), String> {
    verify(kernel)?;
    let bytes = |space: Space| {
        let arrays = kernel.arrays.iter().filter(|array| array.space == space);
        arrays.fold(0u32, |bytes, array| bytes.saturating_add(array.elements.saturating_mul(4)))
    };
    let (shared, private) = (bytes(Space::Workgroup), bytes(Space::Invocation));
    if shared > limits.workgroup_memory {
        let most = limits.workgroup_memory;
        return Err(format!("a workgroup shares {shared} bytes, the device has {most}"));
    }
    if private > MOST_PRIVATE {
        return Err(format!("an invocation has arrays of {private} bytes, {MOST_PRIVATE} are allowed"));
    }
    if kernel.subgroup.is_some() && kernel.subgroup != limits.subgroup {
        return Err(format!(
            "it exchanges values in subgroups of {:?}, the device has {:?}",
            kernel.subgroup, limits.subgroup
        ));
    }
    Ok(())
}
