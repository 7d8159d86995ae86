//! Simulates the launches to determine which value each byte range contains.

use super::super::{Buffer, Plan, Region, Role};
use super::broken;
use crate::collections::{IdMap, SortedMap, sort_by_key};
use crate::error::Result;
use crate::ir::{Type, ValueId};
use crate::kernel::{Access, Kernel, Launch, Layout, Overwrites};

/// The content of a byte range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A value. For a parameter or state, its value at the start of the step.
    Value(ValueId),
    /// The next value of this parameter or state, written in whole or in part by a copy.
    Updated(ValueId),
}

/// The contents of memory. Empty buffers always contain their values.
pub(super) struct Contents<'p> {
    plan: &'p Plan,
    /// Disjoint byte ranges, as a map from (region, start) to (end, content).
    stretches: SortedMap<(Region, u64), (u64, Content)>,
    /// Number of elements written to each buffer by the last launch that writes to it.
    written: IdMap<ValueId, usize>,
}

/// Simulates all launches.
///
/// # Errors
/// Returns an error if a launch reads a value that is missing or overwritten, or overwrites an operand that
/// it still reads.
pub(super) fn replay(plan: &Plan) -> Result<Contents<'_>> {
    let mut contents = Contents { plan, stretches: SortedMap::new(), written: IdMap::new() };
    for buffer in &plan.buffers {
        if !buffer.role.exists_before() || buffer.role == Role::Hoisted {
            continue;
        }
        if let Some(other) = contents.put(buffer, Content::Value(buffer.value)) {
            return Err(broken(format!("{} and {other:?} share bytes from the start", buffer.value)));
        }
    }
    for (i, launch) in plan.hoisted.iter().enumerate() {
        contents.launch(launch, &format!("hoisted launch {i} ({})", launch.kernel.name()))?;
    }
    let commit = plan.first_commit();
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

    /// Returns the content of a buffer's bytes if it is uniform.
    pub(super) fn of(&self, buffer: &Buffer) -> Option<Content> {
        if buffer.bytes == 0 {
            return Some(Content::Value(buffer.value));
        }
        let &(end, content) = self.stretches.get(&(buffer.region, buffer.offset))?;
        (end == buffer.offset + buffer.bytes).then_some(content)
    }

    /// Sets the content of a buffer's bytes. Returns a previous content of any of these bytes.
    fn put(&mut self, buffer: &Buffer, content: Content) -> Option<Content> {
        if buffer.bytes == 0 {
            return None;
        }
        let (region, start, end) = (buffer.region, buffer.offset, buffer.offset + buffer.bytes);
        let mut before = None;
        let shares =
            |other: &(Region, u64), (other_end, _): &(u64, Content)| other.0 == region && *other_end > start;
        while let Some((_, (_, other))) = self.stretches.take_before(&(region, end), shares) {
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

    /// Checks that no result overwrites an operand, unless the kernel supports it. All operands are present,
    /// so they do not overlap each other.
    fn check_operands_kept(&self, launch: &Launch, name: &str) -> Result<()> {
        let mut operands: Vec<&Buffer> = launch.reads.iter().map(|read| self.buffer(read.buffer)).collect();
        operands.retain(|buffer| buffer.bytes > 0);
        sort_by_key(&mut operands, |buffer| (buffer.region, buffer.offset));
        operands.dedup_by_key(|buffer| buffer.value);
        let overwrites = Overwrites::new(launch);
        for (w, write) in launch.writes.iter().enumerate() {
            let to = self.buffer(write.buffer);
            let behind = |from: &&Buffer| (from.region, from.offset + from.bytes) <= (to.region, to.offset);
            let near = operands.partition_point(behind);
            for from in operands[near..].iter().take_while(|from| overlap(from, to)) {
                if from.offset != to.offset || !overwrites.allow(w, from.value) {
                    return Err(broken(format!(
                        "{name} writes {} over its operand {}",
                        to.value, from.value
                    )));
                }
            }
        }
        Ok(())
    }

    /// Checks that no two results overlap, unless they are disjoint windows of the same buffer.
    fn check_results_apart(&self, launch: &Launch, name: &str) -> Result<()> {
        let mut results: Vec<(&Buffer, &Access)> =
            launch.writes.iter().map(|write| (self.buffer(write.buffer), write)).collect();
        results.retain(|(buffer, _)| buffer.bytes > 0);
        sort_by_key(&mut results, |(buffer, _)| (buffer.region, buffer.offset));
        for (i, (buffer, write)) in results.iter().enumerate() {
            for (other, also) in results[i + 1..].iter().take_while(|(other, _)| overlap(other, buffer)) {
                if other.value != buffer.value || !also.layout.is_disjoint(&write.layout) {
                    let (a, b) = (buffer.value, other.value);
                    return Err(broken(format!("{name} writes {a} and {b} to the same bytes")));
                }
            }
        }
        Ok(())
    }

    fn launch(&mut self, launch: &Launch, name: &str) -> Result<()> {
        for read in &launch.reads {
            self.check_read(read.buffer, name)?;
        }
        self.check_operands_kept(launch, name)?;
        self.check_results_apart(launch, name)?;
        self.written.extend(launch.writes.iter().map(|write| (write.buffer, 0)));
        for write in &launch.writes {
            let sum = self.written.get_or_insert_with(write.buffer, || 0);
            *sum = sum.saturating_add(write.layout.shape.elements());
        }
        for write in &launch.writes {
            let to = self.buffer(write.buffer).clone();
            let written = self.written[&write.buffer];
            let all = [written, covered(&write.layout, &to.ty)].contains(&to.ty.elements());
            if launch.kernel != Kernel::WriteRegion && !all {
                return Err(broken(format!("{name} writes {written} elements of {} {}", to.ty, to.value)));
            }
            let content = match to.role {
                Role::Parameter | Role::State => Content::Updated(to.value),
                _ => Content::Value(to.value),
            };
            // Writing a window keeps the remaining elements, so they must be present.
            let present = [Some(Content::Value(to.value)), Some(Content::Updated(to.value))];
            if launch.kernel == Kernel::WriteRegion && !present.contains(&self.of(&to)) {
                return Err(broken(format!("{name} writes a window of {}, which is not there", to.value)));
            }
            self.put(&to, content);
        }
        Ok(())
    }
}

/// Returns the number of elements of a buffer that a result covers: the written elements, the padding at the
/// end of rows that aligns the next row, and a few additional rows after the last one.
fn covered(layout: &Layout, ty: &Type) -> usize {
    let elements = layout.shape.elements();
    let (Some(&row), Some(&columns)) = (ty.shape.last(), layout.shape.last()) else { return elements };
    let few_rows = ty.elements().checked_sub(elements).is_some_and(|more| more < FEW_ROWS * row);
    if columns == row && few_rows && layout.offset == 0 && layout.is_contiguous() {
        return ty.elements();
    }
    let is_padded = columns < row && row - columns < FEW_COLUMNS;
    match layout.strides.split_last() {
        Some((1, others)) if is_padded && others.iter().all(|stride| stride.is_multiple_of(row)) => {
            elements / columns.max(1) * row
        }
        _ => elements,
    }
}

/// Multiple to which the number of rows is padded.
const FEW_ROWS: usize = 8;
/// Multiple to which the number of columns is padded.
const FEW_COLUMNS: usize = 8;

fn overlap(a: &Buffer, b: &Buffer) -> bool {
    a.region == b.region
        && a.bytes > 0
        && b.bytes > 0
        && a.offset < b.offset + b.bytes
        && b.offset < a.offset + a.bytes
}
