//! The part of a target that says how its kernels are made.
//!
//! Each kind of device has one value of a type that implements [`Dialect`], in its own folder. Nothing else
//! tells kinds of devices apart, so that a program for one of them links no code of the others.

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

/// A kind of device: its passes, and the kernels of its plans.
pub(crate) trait Dialect: Sync {
    /// Returns a short name: `cpu`, `wgsl`, `cuda`.
    fn name(&self) -> &'static str;

    /// Returns whether kernels run on a GPU, whose limits and choices then count.
    fn is_gpu(&self) -> bool {
        true
    }

    /// Returns the passes that make launches of kernels, in order.
    fn passes(&self) -> &'static [Pass];

    /// Returns for how many launches bytes rest before they are used again.
    fn reuse_distance(&self) -> usize {
        0
    }

    /// Makes kernels for a device to load; none where the device makes them itself.
    ///
    /// # Errors
    /// When a kernel cannot run on such a device.
    fn code(&self, _source: &Source<'_>) -> Result<Code> {
        Ok(Code::default())
    }

    /// Returns the kernels in the language that all GPUs share; none for a CPU.
    ///
    /// # Errors
    /// When a kernel cannot run on such a device.
    fn kernels(&self, _source: &Source<'_>) -> Result<Vec<Text>> {
        Ok(Vec::new())
    }

    /// Returns the texts of the kernels.
    ///
    /// # Errors
    /// When a kernel cannot run on such a device.
    fn texts(&self, source: &Source<'_>) -> Result<Vec<Text>>;

    /// Returns the graphs that a step replays; `None` where steps are no graphs.
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

/// A planned program, as the input of the last stages.
pub(crate) struct Source<'s> {
    pub(crate) target: &'s Target,
    pub(crate) graph: &'s Graph,
    pub(crate) plan: &'s Plan,
    /// Places where regions of memory are cut into buffers.
    pub(crate) cuts: &'s Cuts,
}

/// The kernels of a plan, ready for their device: a value of a type of the device's own.
#[derive(Default)]
pub struct Code(Option<Box<dyn Any + Send + Sync>>);

impl Code {
    /// Wraps kernels of a device's own type.
    pub fn new<T: Any + Send + Sync>(kernels: T) -> Self {
        Self(Some(Box::new(kernels)))
    }

    /// Returns the kernels.
    ///
    /// # Errors
    /// When they are of another type, as those for another kind of device are.
    pub fn get<T: Any>(&self) -> Result<&T> {
        self.0.as_ref().and_then(|kernels| kernels.downcast_ref()).ok_or_else(other_device)
    }

    /// Returns the kernels, to be changed.
    ///
    /// # Errors
    /// As [`Code::get`].
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
    /// Number of the launch in its list.
    pub launch: usize,
    /// True if it runs once, when the program is loaded.
    pub is_hoisted: bool,
    /// Title for people.
    pub label: String,
    /// Source text.
    pub source: String,
}

impl Text {
    /// Creates the text of a kernel that belongs to a part of a plan.
    pub(crate) fn new(owner: Owner, plan: &Plan, label: &str, source: &str) -> Self {
        let (launch, is_hoisted) = match owner {
            Owner::Hoisted(number) => (number, true),
            Owner::Launch(number) => (number, false),
            Owner::Guards => (plan.first_commit(), false),
        };
        Self { launch, is_hoisted, label: label.into(), source: source.into() }
    }
}

/// Returns the kernels of units in the language that all GPUs share.
pub(crate) fn common<O>(units: &[Unit<O>], plan: &Plan) -> Vec<Text> {
    let of_unit = |unit: &Unit<O>| -> Vec<Text> {
        let text = |label: &str, source: &str| Text::new(unit.owner, plan, label, source);
        match &unit.work {
            Work::Kernels(kernels) => {
                kernels.iter().map(|kernel| text(&kernel.label, &kernel.to_string())).collect()
            }
            Work::Library(product) => vec![text("dot", &format!("// {product}\n"))],
        }
    };
    units.iter().flat_map(of_unit).collect()
}

/// Returns all launches of a plan, each with its place.
pub(crate) fn launches(plan: &Plan) -> impl Iterator<Item = (Owner, &Launch)> {
    let hoisted = plan.hoisted.iter().enumerate().map(|(number, launch)| (Owner::Hoisted(number), launch));
    hoisted.chain(plan.launches.iter().enumerate().map(|(number, launch)| (Owner::Launch(number), launch)))
}
