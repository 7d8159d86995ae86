//! Memory of a program: the buffers that hold the plan's regions.
//!
//! In: a plan and the store that it was made for. Out: the buffer that holds each byte of a region.
//! Invariant: the bytes of a binding are contiguous.
use super::results::gather;
use super::status::STATUS_BYTES;
use crate::content::StoreMemory;
use crate::elements::{Elements, zeroed};
use crate::host::fill_constant;
use crate::memory::{Allocate, Memory, counted};
use gradloom_codegen::pipeline::Cuts;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Access;
use gradloom_core::plan::{Plan, Region, Role};
use std::ops::Range;
use std::sync::Arc;

/// Memory of each region, and of the step's status.
pub struct Regions {
    store: Vec<Piece>,
    arena: Vec<Piece>,
    constants: Vec<Piece>,
    scratch: Vec<Piece>,
    status: Arc<Memory>,
}

/// A buffer that holds a range of a region's bytes.
struct Piece {
    range: Range<u64>,
    memory: Arc<Memory>,
}

/// Allocates memory for a part of a program.
///
/// # Errors
/// Returns an error if the device does not have enough memory.
pub(super) fn allocate(with: Allocate<'_>, bytes: u64, what: &str) -> Result<Memory> {
    with(bytes).ok_or_else(|| {
        Error::new(ErrorKind::Device, format!("no memory for {bytes} bytes of {what} on the GPU"))
            .help("make the batch or the context smaller")
    })
}

/// Returns the boundaries between the buffers of [`Regions`], which no binding may cross.
pub fn cuts(plan: &Plan, store: &StoreMemory, segment: u64) -> Cuts {
    let mut cuts = Cuts::default();
    for (region, bytes) in [(Region::Step, plan.totals.step), (Region::Constants, plan.totals.constants)] {
        starts(bytes, segment).for_each(|start| cuts.add(region, start));
    }
    store_pieces(plan, store).iter().for_each(|piece| cuts.add(Region::Store, piece.range.start));
    cuts
}

/// Returns the start offsets of a region's buffers.
fn starts(bytes: u64, segment: u64) -> impl Iterator<Item = u64> {
    (0..bytes.max(1).div_ceil(segment)).map(move |piece| piece * segment)
}

impl Regions {
    /// Allocates the plan's memory in buffers of at most `segment` bytes and fills in the constants.
    pub fn new(
        graph: &Graph,
        plan: &Plan,
        store: &StoreMemory,
        segment: u64,
        with: Allocate<'_>,
    ) -> Result<Self> {
        let pieces = |bytes: u64, what: &str| -> Result<Vec<Piece>> {
            let piece = |start: u64| {
                let end = bytes.min(start.saturating_add(segment));
                let memory = Arc::new(allocate(with, end - start, what)?);
                Ok(Piece { range: start..end.max(start + 1), memory })
            };
            starts(bytes, segment).map(piece).collect()
        };
        if plan.totals.workspace > segment {
            let message = format!(
                "a kernel needs {} bytes of scratch, a buffer of the device has at most {segment}",
                plan.totals.workspace
            );
            return Err(Error::new(ErrorKind::Plan, message)
                .help("make the batch, the context or the vocabulary smaller, or use another device"));
        }
        let regions = Self {
            store: store_pieces(plan, store),
            arena: pieces(plan.totals.step, "temporaries")?,
            constants: pieces(plan.totals.constants, "constants")?,
            scratch: pieces(plan.totals.workspace, "scratch")?,
            status: Arc::new(allocate(with, STATUS_BYTES as u64, "status")?),
        };
        regions.fill_constants(graph, plan)?;
        Ok(regions)
    }

    /// Returns the buffer that holds a region's byte, and the byte's offset in it.
    pub fn place(&self, region: Region, offset: u64) -> (&Memory, usize) {
        let pieces = match region {
            Region::Step => &self.arena,
            Region::Constants => &self.constants,
            Region::Store => &self.store,
        };
        place(pieces, offset)
    }

    /// Waits for the device and appends the elements of an access, row-major.
    pub fn read(&self, plan: &Plan, access: &Access, into: &mut Elements) -> Result<()> {
        let buffer = &plan.buffers[plan.buffer_of[&access.buffer]];
        let (start, end) = (counted(access.start()), counted(access.end()));
        if start >= end {
            return Ok(());
        }
        let (memory, at) = self.place(buffer.region, buffer.offset);
        let mut bytes = zeroed(end - start, &"a value that is read")?;
        memory.read(at + start, &mut bytes)?;
        gather(access, start, &bytes, into);
        Ok(())
    }

    /// Returns the buffer that holds a scratch byte, and the byte's offset in it.
    pub fn scratch(&self, offset: u64) -> (&Memory, usize) {
        place(&self.scratch, offset)
    }

    /// Returns the memory of the step's status.
    pub fn status(&self) -> &Arc<Memory> {
        &self.status
    }

    /// Returns the number of bytes allocated for the arena, constants and scratch.
    pub fn planned(&self) -> u64 {
        let pieces = self.arena.iter().chain(&self.constants).chain(&self.scratch);
        pieces.map(|piece| piece.memory.len() as u64).sum()
    }

    fn fill_constants(&self, graph: &Graph, plan: &Plan) -> Result<()> {
        for piece in &self.constants {
            let mut bytes = vec![0; piece.memory.len()];
            let here = |b: &&_| is_constant(b) && piece.range.contains(&b.offset);
            for buffer in plan.buffers.iter().filter(here) {
                let op = graph.defining_op(buffer.value).expect("constants are ops");
                let start = counted(buffer.offset - piece.range.start);
                fill_constant(&op.kind, buffer, &mut bytes[start..][..counted(buffer.bytes)]);
            }
            piece.memory.write(0, &bytes)?;
        }
        Ok(())
    }
}

fn is_constant(buffer: &gradloom_core::plan::Buffer) -> bool {
    buffer.role == Role::Constant
}

fn place(pieces: &[Piece], offset: u64) -> (&Memory, usize) {
    let piece = pieces.iter().find(|piece| piece.range.contains(&offset));
    let piece = piece.expect("every byte of a plan has memory");
    (&piece.memory, counted(offset - piece.range.start))
}

/// Returns the memory of the store's segments that a plan uses.
fn store_pieces(plan: &Plan, store: &StoreMemory) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for buffer in plan.buffers.iter().filter(|b| b.region == Region::Store) {
        let (memory, offset) = store.place(buffer.offset).expect("the store was extended first");
        if !pieces.iter().any(|known| Arc::ptr_eq(&known.memory, &memory)) {
            let start = buffer.offset - offset as u64;
            pieces.push(Piece { range: start..start + memory.len().max(1) as u64, memory });
        }
    }
    pieces
}
