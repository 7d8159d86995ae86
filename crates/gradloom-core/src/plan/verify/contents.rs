//! Follows the bytes from launch to launch: which value does each stretch of memory hold?

use super::super::{Buffer, Plan, Region, Role};
use super::broken;
use crate::error::Result;
use crate::ir::ValueId;
use crate::kernel::{Access, Kernel, Launch, Phase};
use std::collections::BTreeMap;

/// What a stretch of bytes holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A value; of a parameter or state, the one from the start of the step.
    Value(ValueId),
    /// The next value of this parameter or state, all or part of which a copy has written.
    Updated(ValueId),
}

/// Which content stands where. Buffers without bytes always hold their value.
pub(super) struct Contents<'p> {
    plan: &'p Plan,
    /// Disjoint stretches: region and first byte to end and content.
    stretches: BTreeMap<(Region, usize), (usize, Content)>,
}

/// Runs through all launches.
///
/// # Errors
/// When something that is read is not there (any more), or a launch writes where it still reads.
pub(super) fn replay(plan: &Plan) -> Result<Contents<'_>> {
    let mut contents = Contents { plan, stretches: BTreeMap::new() };
    for buffer in &plan.buffers {
        if !buffer.role.exists_before() {
            continue;
        }
        if let Some(other) = contents.put(buffer, Content::Value(buffer.value)) {
            return Err(broken(format!("{} and {other:?} share bytes from the start", buffer.value)));
        }
    }
    let commit = plan.launches.iter().position(|l| l.phase == Phase::Commit).unwrap_or(plan.launches.len());
    for (i, launch) in plan.launches.iter().enumerate() {
        if i == commit {
            contents.check_guards()?;
        }
        contents.launch(launch, &format!("launch {i} ({})", launch.kernel.name()))?;
    }
    if commit == plan.launches.len() {
        contents.check_guards()?;
    }
    for (name, access) in &plan.outputs {
        contents.check_read(access.buffer, &format!("output {name:?}"))?;
    }
    Ok(contents)
}

impl Contents<'_> {
    fn buffer(&self, value: ValueId) -> &Buffer {
        self.plan.buffer(value).expect("the structure was checked")
    }

    /// What a buffer's bytes hold, if they hold one thing.
    pub(super) fn of(&self, buffer: &Buffer) -> Option<Content> {
        if buffer.bytes == 0 {
            return Some(Content::Value(buffer.value));
        }
        let &(end, content) = self.stretches.get(&(buffer.region, buffer.offset))?;
        (end == buffer.offset + buffer.bytes).then_some(content)
    }

    /// Sets what a buffer's bytes hold; gives what they held before, even in part.
    fn put(&mut self, buffer: &Buffer, content: Content) -> Option<Content> {
        if buffer.bytes == 0 {
            return None;
        }
        let (region, start, end) = (buffer.region, buffer.offset, buffer.offset + buffer.bytes);
        let mut before = None;
        while let Some((&at, &(other_end, other))) =
            self.stretches.range((region, 0)..(region, end)).next_back()
        {
            if other_end <= start {
                break;
            }
            self.stretches.remove(&at);
            before = Some(other);
        }
        self.stretches.insert((region, start), (end, content));
        before
    }

    fn check_read(&self, value: ValueId, reader: &str) -> Result<()> {
        let buffer = self.buffer(value);
        match self.of(buffer) {
            Some(Content::Value(held)) if held == value => Ok(()),
            Some(Content::Updated(held)) if held == value => {
                Err(broken(format!("{reader} reads {value} after its next value was written")))
            }
            held => Err(broken(format!("{reader} reads {value}, but finds {held:?} in its bytes"))),
        }
    }

    fn check_guards(&self) -> Result<()> {
        self.plan
            .guards
            .iter()
            .try_for_each(|(name, access)| self.check_read(access.buffer, &format!("guard {name:?}")))
    }

    fn launch(&mut self, launch: &Launch, name: &str) -> Result<()> {
        for read in &launch.reads {
            self.check_read(read.buffer, name)?;
        }
        for (w, write) in launch.writes.iter().enumerate() {
            let to = self.buffer(write.buffer);
            for read in &launch.reads {
                let from = self.buffer(read.buffer);
                let in_place = from.offset == to.offset && launch.may_overwrite(w, read.buffer);
                if overlap(from, to) && !in_place {
                    return Err(broken(format!(
                        "{name} writes {} over its operand {}",
                        write.buffer, read.buffer
                    )));
                }
            }
            let clashes = |other: &&Access| match other.buffer == write.buffer {
                true => !other.layout.is_disjoint(&write.layout),
                false => overlap(self.buffer(other.buffer), to),
            };
            if let Some(other) = launch.writes[..w].iter().find(clashes) {
                return Err(broken(format!(
                    "{name} writes {} and {} to the same bytes",
                    other.buffer, write.buffer
                )));
            }
        }
        for write in &launch.writes {
            let to = self.buffer(write.buffer).clone();
            let parts = launch.writes.iter().filter(|other| other.buffer == write.buffer);
            let written: usize = parts.map(|part| part.layout.shape.elements()).sum();
            if launch.kernel != Kernel::WriteRegion && written != to.ty.elements() {
                return Err(broken(format!("{name} writes {written} elements of {} {}", to.ty, to.value)));
            }
            let content = match to.role {
                Role::Parameter | Role::State => Content::Updated(to.value),
                _ => Content::Value(to.value),
            };
            // A window leaves the rest as it was.
            let present = [Some(Content::Value(to.value)), Some(Content::Updated(to.value))];
            if launch.kernel == Kernel::WriteRegion && !present.contains(&self.of(&to)) {
                return Err(broken(format!("{name} writes a window of {}, which is not there", to.value)));
            }
            self.put(&to, content);
        }
        Ok(())
    }
}

fn overlap(a: &Buffer, b: &Buffer) -> bool {
    a.region == b.region
        && a.bytes > 0
        && b.bytes > 0
        && a.offset < b.offset + b.bytes
        && b.offset < a.offset + a.bytes
}
