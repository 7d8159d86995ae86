//! The part of a target that decides how its kernels are generated.
//!
//! Each kind of device implements [`Dialect`] in a separate folder. No other code distinguishes kinds of
//! devices, so a program for one of them links no code of the others.

use super::Target;
use crate::cuda::Replay;
use crate::kernels::{Cuts, Unit, Work};
use crate::lower::Pass;
use crate::step::Owner;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Launch;
use gradloom_core::plan::Plan;
use std::any::Any;
use std::fmt;

/// A kind of device: its lowering passes, and the code generator for its plans.
pub(crate) trait Dialect: Sync {
    /// Returns the short name: `cpu`, `wgsl` or `cuda`.
    fn name(&self) -> &'static str;

    /// Returns `true` if kernels run on a GPU, so that the target's limits and choices apply.
    fn is_gpu(&self) -> bool {
        true
    }

    /// Returns `true` if devices of this kind can be part of a world of several ranks.
    fn can_communicate(&self) -> bool {
        true
    }

    /// Returns the passes that lower kernels to launches, in order.
    fn passes(&self) -> &'static [Pass];

    /// Returns the number of launches after a value's last use for which its memory is not reused, on a
    /// device that runs launches on `threads` threads of the host.
    fn reuse_distance(&self, threads: usize) -> usize {
        let _ = threads;
        0
    }

    /// Generates kernels for a device to load. Returns an empty [`Code`] if the device generates them itself.
    ///
    /// # Errors
    /// Returns an error if a kernel cannot run on this kind of device.
    fn code(&self, _source: &Source<'_>) -> Result<Code> {
        Ok(Code::default())
    }

    /// Returns the kernels in the language that all GPUs share, or an empty list for a CPU.
    ///
    /// # Errors
    /// Returns an error if a kernel cannot run on this kind of device.
    fn kernels(&self, _source: &Source<'_>) -> Result<Vec<Text>> {
        Ok(Vec::new())
    }

    /// Returns the kernels as text.
    ///
    /// # Errors
    /// Returns an error if a kernel cannot run on this kind of device.
    fn texts(&self, source: &Source<'_>) -> Result<Vec<Text>>;

    /// Returns the graphs that a step replays, or `None` if the device does not record steps as graphs.
    fn replay(&self, _source: &Source<'_>) -> Option<Replay> {
        None
    }
}

impl fmt::Debug for dyn Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for dyn Dialect {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// A planned program, the input of the last stages.
pub(crate) struct Source<'s> {
    pub(crate) target: &'s Target,
    pub(crate) graph: &'s Graph,
    pub(crate) plan: &'s Plan,
    /// Offsets at which memory regions are split into buffers.
    pub(crate) cuts: &'s Cuts,
}

/// The kernels of a plan, ready for their device, as a value of a type that the device defines.
#[derive(Default)]
pub struct Code(Option<Box<dyn Any + Send + Sync>>);

impl Code {
    /// Wraps kernels of a device-specific type.
    pub fn new<T: Any + Send + Sync>(kernels: T) -> Self {
        Self(Some(Box::new(kernels)))
    }

    /// Returns the kernels.
    ///
    /// # Errors
    /// Returns an error if there are no kernels, or if they have another type, as those for another kind of
    /// device do.
    pub fn get<T: Any>(&self) -> Result<&T> {
        self.0.as_ref().and_then(|kernels| kernels.downcast_ref()).ok_or_else(other_device)
    }

    /// Returns a mutable reference to the kernels.
    ///
    /// # Errors
    /// Returns an error if [`Code::get`] does.
    pub fn get_mut<T: Any>(&mut self) -> Result<&mut T> {
        self.0.as_mut().and_then(|kernels| kernels.downcast_mut()).ok_or_else(other_device)
    }
}

fn other_device() -> Error {
    Error::new(ErrorKind::Internal, "the program was compiled for another device")
}

/// A kernel of a launch as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Index of the launch among the hoisted launches of its plan if `is_hoisted` is true, else among the
    /// other launches. For the guards, the index of the first launch of the commit.
    pub launch: usize,
    /// True if the kernel runs once, when the program is loaded.
    pub is_hoisted: bool,
    /// Human-readable title.
    pub label: String,
    /// Source text.
    pub source: String,
}

impl Text {
    /// Creates the text of a kernel that belongs to this part of a plan.
    pub(crate) fn new(owner: Owner, plan: &Plan, label: &str, source: String) -> Self {
        let (launch, is_hoisted) = match owner {
            Owner::Hoisted(number) => (number, true),
            Owner::Launch(number) => (number, false),
            Owner::Guards => (plan.first_commit(), false),
        };
        Self { launch, is_hoisted, label: label.into(), source }
    }
}

/// Returns the kernels of these units in the language that all GPUs share.
pub(crate) fn common<O>(units: &[Unit<O>], plan: &Plan) -> Vec<Text> {
    let of_unit = |unit: &Unit<O>| -> Vec<Text> {
        let text = |label: &str, source: String| Text::new(unit.owner, plan, label, source);
        match &unit.work {
            Work::Kernels(kernels) => {
                kernels.iter().map(|kernel| text(&kernel.label, kernel.to_string())).collect()
            }
            Work::Library(product) => vec![text("dot", comment(product))],
            Work::Collective(collective) => vec![text(collective.op.name(), comment(collective))],
        }
    };
    units.iter().flat_map(of_unit).collect()
}

/// Returns the text in place of a kernel that a library computes.
pub(crate) fn comment(work: &dyn fmt::Display) -> String {
    format!("// {work}\n")
}

/// Returns all launches of a plan with their owners, hoisted ones first.
pub(crate) fn launches(plan: &Plan) -> impl Iterator<Item = (Owner, &Launch)> {
    let hoisted = plan.hoisted.iter().enumerate().map(|(number, launch)| (Owner::Hoisted(number), launch));
    hoisted.chain(plan.launches.iter().enumerate().map(|(number, launch)| (Owner::Launch(number), launch)))
}
