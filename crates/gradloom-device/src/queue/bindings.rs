//! Memory bound to the shaders of a program.
//!
//! In: shaders and the memory of their plan. Out: the byte range of each binding.

use super::regions::{Regions, allocate};
use super::status::STATUS_BYTES;
use crate::memory::{Allocate, Memory, counted};
use gradloom_codegen::wgsl::{Bound, Shader};
use gradloom_core::error::Result;

/// Byte range of a binding.
pub struct BoundBytes<'a> {
    /// Memory that contains the range.
    pub memory: &'a Memory,
    /// Offset of the first byte in `memory`.
    pub start: usize,
    /// Number of bytes: a multiple of 4, and not 0.
    pub bytes: usize,
}

/// Memory of the tables that kernels read in addition to their operands.
pub struct Tables(Vec<Memory>);

impl Tables {
    /// Allocates and fills the tables of all kernels, in kernel order.
    pub fn new<'a>(shaders: impl Iterator<Item = Shader<'a>>, with: Allocate<'_>) -> Result<Self> {
        let mut all = Vec::new();
        for bound in shaders.flat_map(|shader| &shader.dispatch.bindings) {
            if let Bound::Table(numbers) = bound {
                all.push(table(numbers, with)?);
            }
        }
        Ok(Self(all))
    }

    /// Returns the total number of bytes.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(Memory::len).sum()
    }

    /// Returns the tables in kernel order, for [`bound_bytes`].
    pub fn iter(&self) -> impl Iterator<Item = &Memory> {
        self.0.iter()
    }
}

/// Allocates and fills the memory of a table.
///
/// # Errors
/// Returns an error if there is not enough memory, or the device is lost.
pub fn table(numbers: &[u32], with: Allocate<'_>) -> Result<Memory> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let table = allocate(with, bytes.len() as u64, "tables")?;
    table.write(0, &bytes)?;
    Ok(table)
}

/// Returns the byte ranges of a kernel's bindings. Takes the kernel's tables from the iterator.
pub fn bound_bytes<'m>(
    shader: &Shader<'_>,
    memory: &'m Regions,
    tables: &mut impl Iterator<Item = &'m Memory>,
) -> Vec<BoundBytes<'m>> {
    let operands = shader.operands;
    let mut place = |bound: &Bound| {
        let ((memory, start), bytes) = match bound {
            Bound::Operand(i) => {
                let binding = &operands.bindings[*i];
                (memory.place(binding.region, binding.range.start), binding.bytes())
            }
            Bound::Piece(i, bytes) => {
                let binding = &operands.bindings[*i];
                let (memory, start) = memory.place(binding.region, binding.range.start);
                ((memory, start + counted(bytes.start)), bytes.end - bytes.start)
            }
            Bound::Workspace(range) => (memory.scratch(range.start), range.end - range.start),
            Bound::Table(numbers) => ((tables.next().expect("each has memory"), 0), 4 * numbers.len() as u64),
            Bound::Status { .. } => ((&**memory.status(), 0), STATUS_BYTES as u64),
        };
        assert!(bytes > 0, "bindings are not empty");
        BoundBytes { memory, start, bytes: counted(bytes).next_multiple_of(4) }
    };
    shader.dispatch.bindings.iter().map(&mut place).collect()
}
