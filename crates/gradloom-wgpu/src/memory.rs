//! Memory of a device, in a buffer.

use super::download::Download;
use super::gpu::Gpu;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_device::memory::{DeviceMemory, Memory};
use std::sync::Arc;
use wgpu::{Buffer, BufferUsages, CommandEncoderDescriptor};

#[derive(Debug)]
pub(crate) struct WgpuMemory {
    gpu: Arc<Gpu>,
    pub(super) buffer: Buffer,
    bytes: usize,
}

impl WgpuMemory {
    /// Allocates memory; returns `None` if there is not enough.
    pub(super) fn new(gpu: &Arc<Gpu>, bytes: usize) -> Option<Self> {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let buffer = gpu.buffer("gradloom", bytes, usage)?;
        Some(Self { gpu: Arc::clone(gpu), buffer, bytes })
    }
}

impl DeviceMemory for WgpuMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits for the device and copies bytes to the host.
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        self.gpu.check()?;
        // Copy whole 4-byte words, as WebGPU requires.
        let first = offset / 4 * 4;
        let bytes = (offset + into.len()).next_multiple_of(4) - first;
        let staging = staging(&self.gpu, bytes)?;
        let mut encoder = self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(&self.buffer, first as u64, &staging, 0, bytes as u64);
        let submission = self.gpu.submit(encoder)?;
        let copy = |mapped: &[u8]| into.copy_from_slice(&mapped[offset - first..][..into.len()]);
        Download::new(staging, submission).read(&self.gpu, copy).map(|_| ())
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.gpu.check()?;
        if offset.is_multiple_of(4) && bytes.len().is_multiple_of(4) {
            self.gpu.queue.write_buffer(&self.buffer, offset as u64, bytes);
            return self.gpu.check();
        }
        // Only whole words can be written, so the other bytes of the first and last words are read first.
        let first = offset / 4 * 4;
        let mut words = vec![0; (offset + bytes.len()).next_multiple_of(4) - first];
        self.read(first, &mut words)?;
        words[offset - first..][..bytes.len()].copy_from_slice(bytes);
        self.gpu.queue.write_buffer(&self.buffer, first as u64, &words);
        self.gpu.check()
    }

    fn copy_to(&self, other: &Memory) -> Result<()> {
        let other: &Self = other.own();
        let mut encoder = self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(&self.buffer, 0, &other.buffer, 0, self.buffer.size());
        self.gpu.submit(encoder).map(|_| ())
    }
}

/// Returns the memory as WebGPU memory.
pub(super) fn on_device(memory: &Memory) -> &WgpuMemory {
    memory.own()
}

/// Creates a buffer that the host can read.
pub(super) fn staging(gpu: &Gpu, bytes: usize) -> Result<Buffer> {
    let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
    gpu.buffer("gradloom results", bytes, usage).ok_or_else(|| {
        Error::new(ErrorKind::Device, format!("no memory for {bytes} bytes of results"))
            .help("capture fewer or smaller tensors")
    })
}
