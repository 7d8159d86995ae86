//! The operands and results of a measured kernel.
//!
//! In: the shaders of a kernel for each choice, which share their operands. Out: memory filled with random
//! numbers or, for some operands, with the words that the kernel requires; after a run, the results.

use super::super::gpu::Gpu;
use super::super::memory::WgpuMemory;
use gradloom_codegen::step::STATUS_WORDS;
use gradloom_codegen::wgsl::tuning::Alone;
use gradloom_codegen::wgsl::{Bound, Operands};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_device::memory::{DeviceMemory as _, counted};
use std::ops::Range;
use std::sync::Arc;
use wgpu::CommandEncoderDescriptor;

/// Length in bytes of the sequence of random numbers, which is repeated.
const PATTERN: usize = 1 << 20;
/// Number of bytes that are compared at the start and at the end of each result, which cover whole tiles and
/// partial tiles.
const LOOK: u64 = 1 << 20;

/// Memory of a kernel.
pub(super) struct Values {
    gpu: Arc<Gpu>,
    arena: WgpuMemory,
    scratch: WgpuMemory,
    status: WgpuMemory,
}

impl Values {
    /// Allocates and fills memory that suffices for each of the given choices of a kernel.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn new(gpu: &Arc<Gpu>, all: &[Alone]) -> Result<Self> {
        let allocate = |bytes: u64| {
            WgpuMemory::new(gpu, counted(bytes)).ok_or_else(|| {
                Error::new(ErrorKind::Device, format!("no memory for {bytes} bytes of operands on the GPU"))
            })
        };
        let bounds = all.iter().flat_map(|alone| &alone.dispatches).flat_map(|d| &d.bindings);
        let scratch = bounds.map(|bound| match bound {
            Bound::Workspace(range) => range.end,
            _ => 0,
        });
        let ends = |alone: &Alone| alone.operands.bindings.last().map_or(0, |last| last.range.end);
        let values = Self {
            gpu: Arc::clone(gpu),
            arena: allocate(all.first().map_or(0, ends))?,
            scratch: allocate(scratch.max().unwrap_or(0))?,
            status: allocate(4 * STATUS_WORDS as u64)?,
        };
        values.fill(&values.arena)?;
        values.fill(&values.scratch)?;
        for alone in all.iter().take(1) {
            for (binding, words) in &alone.words {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                values.arena.write(counted(alone.operands.bindings[*binding].range.start), &bytes)?;
            }
        }
        Ok(values)
    }

    /// Fills memory with numbers in [-1, 1).
    fn fill(&self, memory: &WgpuMemory) -> Result<()> {
        let mut x = 0x9E37_79B9_7F4A_7C15_u64;
        let pattern: Vec<u8> = (0..PATTERN / 4)
            .flat_map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                ((x >> 40) as f32 / (1_u64 << 23) as f32 - 1.0).to_le_bytes()
            })
            .collect();
        let from = WgpuMemory::new(&self.gpu, PATTERN)
            .ok_or_else(|| Error::new(ErrorKind::Device, "no memory for random numbers on the GPU"))?;
        from.write(0, &pattern)?;
        let mut encoder = self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
        let size = memory.buffer.size();
        for start in (0..size).step_by(PATTERN) {
            let bytes = (size - start).min(PATTERN as u64);
            encoder.copy_buffer_to_buffer(&from.buffer, 0, &memory.buffer, start, bytes);
        }
        self.gpu.submit(encoder).map(|_| ())
    }

    /// Returns the memory and the bytes of a binding.
    pub(super) fn place(&self, operands: &Operands, bound: &Bound) -> (&WgpuMemory, Range<u64>) {
        match bound {
            Bound::Operand(i) => (&self.arena, operands.bindings[*i].range.clone()),
            Bound::Workspace(range) => (&self.scratch, range.clone()),
            Bound::Piece(i, bytes) => {
                let start = operands.bindings[*i].range.start;
                (&self.arena, start + bytes.start..start + bytes.end)
            }
            Bound::Status { .. } => (&self.status, 0..self.status.bytes() as u64),
            Bound::Table(_) => unreachable!("no kernel that runs alone has one"),
        }
    }

    /// Clears the results, so that those of an earlier choice are not mistaken for new ones.
    pub(super) fn clear(&self, alone: &Alone) -> Result<()> {
        let mut encoder = self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
        for bound in &alone.results {
            let (memory, range) = self.place(&alone.operands, bound);
            encoder.clear_buffer(&memory.buffer, range.start, Some(range.end - range.start));
        }
        self.gpu.submit(encoder).map(|_| ())
    }

    /// Returns the first and the last bytes of each result, at most [`LOOK`] each, as f32.
    pub(super) fn results(&self, alone: &Alone) -> Result<Vec<f32>> {
        let mut all = Vec::new();
        for bound in &alone.results {
            let (memory, Range { start, end }) = self.place(&alone.operands, bound);
            let head = end.min(start + LOOK);
            for Range { start, end } in [start..head, head.max(end.saturating_sub(LOOK))..end] {
                let mut bytes = vec![0; counted(end - start)];
                memory.read(counted(start), &mut bytes)?;
                let word = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("4 bytes"));
                all.extend(bytes.chunks_exact(4).map(word));
            }
        }
        Ok(all)
    }
}

/// Returns `true` if the results differ from `first` by at most `tolerance` times the largest finite
/// magnitude in `first`.
pub(super) fn agree(results: &[f32], first: &[f32], tolerance: f32) -> bool {
    let largest = first.iter().filter(|x| x.is_finite()).fold(0.0_f32, |most, x| most.max(x.abs()));
    let same = |(a, b): (&f32, &f32)| a == b || (a - b).abs() <= tolerance * largest;
    results.len() == first.len() && results.iter().zip(first).all(same)
}

#[cfg(test)]
mod tests {
    use super::agree;

    #[test]
    fn results_agree_up_to_a_share_of_the_largest() {
        let first = [4.0, -0.001, f32::NEG_INFINITY];
        assert!(agree(&first, &first, 0.0));
        assert!(agree(&[4.0003, 0.0, f32::NEG_INFINITY], &first, 1e-3));
        assert!(!agree(&[4.01, 0.0, f32::NEG_INFINITY], &first, 1e-3));
        for wrong in [f32::NAN, f32::INFINITY, 0.0] {
            assert!(!agree(&[4.0, 0.0, wrong], &first, 1e-3), "{wrong}");
        }
        assert!(!agree(&first[..2], &first, 1e-3));
    }
}
