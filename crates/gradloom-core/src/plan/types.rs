//! The plan as a value.

use crate::collections::IdMap;
use crate::ir::{Type, ValueId};
use crate::kernel::{Access, Launch, Phase};

/// Alignment of every buffer but the scalars, in bytes: what every WebGPU device takes as the start of a
/// binding, and more than the widest vector registers ask for.
pub const ALIGNMENT: u64 = 256;

/// Alignment of the scalars, which stand next to each other at the start of the step arena: one write brings
/// them there.
pub const SCALAR_ALIGNMENT: u64 = 4;

/// The memory that a buffer is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Region {
    /// The store: parameters and states, shared by programs; the offset is that of the
    /// [`super::StoreLayout`].
    Store,
    /// Constants of the program, filled once when it is loaded, and what is computed from them then.
    Constants,
    /// The program's step arena: inputs, scalars, temporaries and outputs.
    Step,
}

impl Region {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Region::Store => "store",
            Region::Constants => "constants",
            Region::Step => "step",
        }
    }
}

/// The role of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Role {
    /// A parameter that the program updates.
    Parameter,
    /// A parameter that the program only reads: frozen, or of a forward program. Another program over the
    /// store may update it.
    Frozen,
    State,
    /// The next value of a parameter or state, written in place: over the bytes of the present one.
    Next,
    Constant,
    /// Computed from constants when the program is loaded; the same in every step.
    Hoisted,
    /// Data of one step. The step may overwrite it after its last use, so it is set before every step.
    Input,
    /// One number of the per-step block at the start of the arena; set before every step, and never
    /// overwritten.
    Scalar,
    /// Holds a value that the caller reads; lives to the end.
    Output,
    Temporary,
}

impl Role {
    /// Every role, in the order of the enum.
    pub const ALL: [Role; 10] = [
        Role::Parameter,
        Role::Frozen,
        Role::State,
        Role::Next,
        Role::Constant,
        Role::Hoisted,
        Role::Input,
        Role::Scalar,
        Role::Output,
        Role::Temporary,
    ];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Role::Parameter => "parameter",
            Role::Frozen => "frozen",
            Role::State => "state",
            Role::Next => "next",
            Role::Constant => "constant",
            Role::Hoisted => "hoisted",
            Role::Input => "input",
            Role::Scalar => "scalar",
            Role::Output => "output",
            Role::Temporary => "temporary",
        }
    }

    /// Returns whether the buffer holds its value before the first launch of a step.
    pub fn exists_before(self) -> bool {
        !matches!(self, Role::Next | Role::Output | Role::Temporary)
    }
}

/// The bytes of one value.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// The value that owns the bytes.
    pub value: ValueId,
    /// Its type. A constant may have fewer elements than its value: one for a splat, one axis for an iota.
    pub ty: Type,
    /// The role of the value.
    pub role: Role,
    /// Bytes, not rounded.
    pub bytes: u64,
    /// The memory that it is part of.
    pub region: Region,
    /// Bytes from the start of the region.
    pub offset: u64,
    /// Index of the launch that first writes it; 0 for what exists before.
    pub first: usize,
    /// Index of the last launch that uses it; the number of launches for what the caller reads or what
    /// persists.
    pub last: usize,
}

/// Bytes by region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Parameters and states of the store that this program uses.
    pub store: u64,
    /// Constants, and what is computed from them when the program is loaded.
    pub constants: u64,
    /// The step arena.
    pub step: u64,
    /// Scratch of the largest launch, for all threads; of several launches where they run side by side.
    pub workspace: u64,
}

impl Totals {
    /// Returns the number of bytes that running the program takes, in all.
    pub fn peak(&self) -> u64 {
        // Scratch is not part of what planning checks to be countable.
        (self.store + self.constants + self.step).saturating_add(self.workspace)
    }
}

/// The launches of a program in order, and the place of every buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Launches that run once, when the program is loaded: they read constants, and what they write is the
    /// same in every step. No step counts or repeats them.
    pub hoisted: Vec<Launch>,
    /// Compute launches, then commit launches.
    pub launches: Vec<Launch>,
    /// All buffers.
    pub buffers: Vec<Buffer>,
    /// The buffer of each value that owns bytes.
    pub buffer_of: IdMap<ValueId, usize>,
    /// The buffer and layout of each output, by name.
    pub outputs: Vec<(String, Access)>,
    /// Values that must be finite before the commit, by name.
    pub guards: Vec<(String, Access)>,
    /// Start of the scratch of each launch; 0 for all unless they run [side by side](Plan::side_by_side).
    pub scratch: Vec<u64>,
    /// Bytes by region.
    pub totals: Totals,
}

impl Plan {
    /// Returns the buffer behind an access.
    pub fn buffer(&self, value: ValueId) -> Option<&Buffer> {
        self.buffer_of.get(&value).map(|&i| &self.buffers[i])
    }

    /// Returns the index of the first launch that runs after the guards held; the number of launches if
    /// there is none.
    pub fn first_commit(&self) -> usize {
        self.launches.iter().position(|l| l.phase == Phase::Commit).unwrap_or(self.launches.len())
    }
}
