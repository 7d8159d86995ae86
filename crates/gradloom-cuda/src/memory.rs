//! Memory of a device, and host memory that the device can access.

use super::driver::Address;
use super::gpu::Gpu;
use gradloom_codegen::cuda::ROOM_BEHIND;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_device::memory::{DeviceMemory, Memory};
use std::ptr;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct CudaMemory {
    gpu: Arc<Gpu>,
    address: Address,
    bytes: usize,
}

impl CudaMemory {
    /// Allocates memory; returns `None` if there is not enough.
    pub(super) fn new(gpu: &Arc<Gpu>, bytes: usize) -> Option<Self> {
        // Allocate more bytes, because copies transfer whole 16-byte units and cuBLASLt may read past the end
        // of a matrix.
        let whole = bytes.checked_next_multiple_of(16)?.checked_add(ROOM_BEHIND)?;
        let address = gpu.ask_memory(|driver| driver.allocate(whole))?;
        let memory = Self { gpu: Arc::clone(gpu), address, bytes };
        gpu.ask("clear memory", |driver| driver.fill(address, 0, whole, gpu.stream)).ok()?;
        Some(memory)
    }

    /// Returns the device address of a byte; `offset` may be one past the end.
    pub(super) fn at(&self, offset: usize) -> Address {
        assert!(offset <= self.bytes, "offset {offset} in {} bytes", self.bytes);
        self.address + offset as Address
    }
}

impl DeviceMemory for CudaMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits for the device and copies bytes to the host.
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        assert!(into.len() <= self.bytes - offset, "the range was planned");
        if into.is_empty() {
            return self.gpu.check();
        }
        self.gpu.wait_for_all()?;
        self.gpu.ask("hand out bytes", |driver| driver.download(self.at(offset), into, self.gpu.stream))
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len() <= self.bytes - offset, "the range was planned");
        if bytes.is_empty() {
            return self.gpu.check();
        }
        self.gpu.ask("take bytes", |driver| driver.upload(self.at(offset), bytes, self.gpu.stream))
    }

    fn copy_to(&self, other: &Memory) -> Result<()> {
        let other: &Self = other.own();
        assert!(other.bytes >= self.bytes, "the copy is as large");
        if self.bytes == 0 {
            return self.gpu.check();
        }
        self.gpu.ask("copy memory", |driver| {
            driver.copy(self.address, other.address, self.bytes, self.gpu.stream)
        })
    }
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        self.gpu.give_back(|driver| driver.free(self.address));
    }
}

/// Returns the memory as CUDA memory.
pub(super) fn on_device(memory: &Memory) -> &CudaMemory {
    memory.own()
}

/// Page-locked host memory that the device accesses at the same address.
#[derive(Debug)]
pub(super) struct HostBuffer {
    gpu: Arc<Gpu>,
    address: Address,
    bytes: usize,
}

impl HostBuffer {
    /// Allocates a zeroed buffer of at least `bytes` bytes. `what` names it in the error message.
    ///
    /// # Errors
    /// Returns an error if the system cannot provide that much page-locked memory, or the device is lost.
    pub(super) fn new(gpu: &Arc<Gpu>, bytes: usize, what: &str) -> Result<Self> {
        let whole = bytes.max(16).next_multiple_of(16);
        let address = gpu.ask_memory(|driver| driver.allocate_host(whole)).ok_or_else(|| {
            gpu.check().err().unwrap_or_else(|| {
                Error::new(ErrorKind::Device, format!("no memory of the host for {bytes} bytes of {what}"))
                    .help("capture fewer or smaller tensors, or feed smaller ones")
            })
        })?;
        let buffer = Self { gpu: Arc::clone(gpu), address, bytes: whole };
        // SAFETY: the memory was just allocated with this size.
        unsafe { ptr::write_bytes(buffer.pointer(), 0, whole) };
        Ok(buffer)
    }

    pub(super) fn address(&self) -> Address {
        self.address
    }

    fn pointer(&self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(usize::try_from(self.address).expect("it is one of the host"))
    }

    /// Writes bytes that the device is not using.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(bytes.len() <= self.bytes - offset, "the range was planned");
        // SAFETY: the range lies inside the allocation, and the device has completed the steps that use it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.pointer().add(offset), bytes.len()) };
    }

    /// Returns the bytes. The device must have completed the step that writes them.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: all bytes are initialized, and the device has completed the step that wrote them.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.bytes) }
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        self.gpu.give_back(|driver| driver.free_host(self.address));
    }
}
