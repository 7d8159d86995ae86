//! The memory of a store or a program, on the host or on a device.

use gradloom_core::error::Result;
use gradloom_core::plan::ALIGNMENT;
#[cfg(not(all(test, unix, not(miri))))]
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Gives memory, or `None` when there is not that much.
pub(crate) type Allocate<'a> = &'a dyn Fn(u64) -> Option<Memory>;

/// Returns the number of bytes as one of this process's memory, or of one buffer: [`usize::MAX`], which none
/// has, where that is too small.
pub(crate) fn counted(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Zeroed bytes. Who may touch them when is governed by the locks of the [`Store`](crate::Store) and by
/// `&mut` on the program.
#[derive(Debug)]
pub(crate) enum Memory {
    /// Memory of the host.
    Host(HostMemory),
    /// A buffer of a GPU.
    #[cfg(feature = "wgpu")]
    Wgpu(crate::wgpu::DeviceMemory),
    /// Memory of an NVIDIA GPU.
    #[cfg(feature = "cuda")]
    Cuda(crate::cuda::CudaMemory),
    /// A buffer of a page's GPU.
    #[cfg(feature = "web")]
    Web(crate::web::WebMemory),
}

impl Memory {
    /// Host memory; `None` when the system has not that much.
    pub(crate) fn new(bytes: u64) -> Option<Self> {
        HostMemory::new(usize::try_from(bytes).ok()?).map(Self::Host)
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Host(memory) => memory.bytes,
            #[cfg(feature = "wgpu")]
            Self::Wgpu(memory) => memory.len(),
            #[cfg(feature = "cuda")]
            Self::Cuda(memory) => memory.len(),
            #[cfg(feature = "web")]
            Self::Web(memory) => memory.len(),
        }
    }

    /// Address of a byte of host memory; `offset` may be one past the end.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        match self {
            Self::Host(memory) => memory.at(offset),
            #[cfg(any(feature = "wgpu", feature = "web", feature = "cuda"))]
            _ => unreachable!("a device's memory has no address"),
        }
    }

    /// Copies bytes out, once the device has done what was submitted before. No thread writes them meanwhile.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        match self {
            Self::Host(memory) => {
                assert!(into.len() <= memory.bytes - offset, "the range was planned");
                // SAFETY: the range lies inside the allocation, and the caller holds the lock that keeps
                // others from writing it.
                unsafe { std::ptr::copy_nonoverlapping(memory.at(offset), into.as_mut_ptr(), into.len()) };
                Ok(())
            }
            #[cfg(feature = "wgpu")]
            Self::Wgpu(memory) => memory.read(offset, into),
            #[cfg(feature = "cuda")]
            Self::Cuda(memory) => memory.read(offset, into),
            #[cfg(feature = "web")]
            Self::Web(memory) => memory.read(),
        }
    }

    /// Replaces bytes, for what is submitted from here on. Nothing else may touch them meanwhile.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Host(memory) => {
                assert!(bytes.len() <= memory.bytes - offset, "the range was planned");
                // SAFETY: as in `read`, and the caller is alone.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.at(offset), bytes.len()) };
                Ok(())
            }
            #[cfg(feature = "wgpu")]
            Self::Wgpu(memory) => memory.write(offset, bytes),
            #[cfg(feature = "cuda")]
            Self::Cuda(memory) => memory.write(offset, bytes),
            #[cfg(feature = "web")]
            Self::Web(memory) => {
                memory.write(offset, bytes);
                Ok(())
            }
        }
    }

    /// Lets `f` fill new, zeroed memory with f32s. It is not shared yet.
    pub(crate) fn fill(
        &self,
        offset: usize,
        elements: usize,
        f: impl FnOnce(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Host(memory) => {
                assert!(4 * elements <= memory.bytes - offset, "the range was planned");
                let start = memory.at(offset).cast();
                // SAFETY: the range lies inside the allocation, aligned and zeroed, and the caller is alone.
                f(unsafe { std::slice::from_raw_parts_mut(start, elements) })
            }
            #[cfg(any(feature = "wgpu", feature = "web", feature = "cuda"))]
            _ => {
                let mut values = crate::elements::zeroed(elements, &"initial values")?;
                f(&mut values)?;
                self.write(offset, crate::feed::bytes_of(&values))
            }
        }
    }

    /// The same bytes in memory of their own. They may not be written meanwhile.
    pub(crate) fn duplicate(&self, allocate: Allocate<'_>) -> Result<Option<Self>> {
        let Some(copy) = allocate(self.len() as u64) else { return Ok(None) };
        match (self, &copy) {
            #[cfg(feature = "wgpu")]
            (Self::Wgpu(from), Self::Wgpu(to)) => from.copy_to(to)?,
            #[cfg(feature = "cuda")]
            (Self::Cuda(from), Self::Cuda(to)) => from.copy_to(to)?,
            (Self::Host(from), _) => {
                // SAFETY: as in `read`: these are all bytes of the allocation.
                copy.write(0, unsafe { std::slice::from_raw_parts(from.at(0), from.bytes) })?;
            }
            #[cfg(any(feature = "wgpu", feature = "web", feature = "cuda"))]
            _ => {
                let mut bytes = crate::elements::zeroed(self.len(), &"a copy of the device's memory")?;
                self.read(0, &mut bytes)?;
                copy.write(0, &bytes)?;
            }
        }
        Ok(Some(copy))
    }
}

/// Zeroed bytes at an address that never changes, aligned as the plan demands. CPU programs keep raw
/// addresses into it. In tests, it ends where a page begins that cannot be touched.
#[derive(Debug)]
pub(crate) struct HostMemory {
    /// The pointer that the system gave.
    #[cfg(not(all(test, unix, not(miri))))]
    allocated: NonNull<u8>,
    #[cfg(all(test, unix, not(miri)))]
    _allocated: crate::guarded::Guarded,
    /// The first aligned byte in it.
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is plain bytes; access through raw pointers is synchronised by its owners as said above.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    #[cfg(all(test, unix, not(miri)))]
    fn new(bytes: usize) -> Option<Self> {
        let allocated = crate::guarded::Guarded::new(bytes.checked_next_multiple_of(ALIGNMENT as usize)?)?;
        Some(Self { start: allocated.start(), _allocated: allocated, bytes })
    }

    #[cfg(not(all(test, unix, not(miri))))]
    fn new(bytes: usize) -> Option<Self> {
        let layout = Self::layout(bytes)?;
        // SAFETY: the layout has at least one byte.
        let allocated = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let before = allocated.align_offset(ALIGNMENT as usize);
        // SAFETY: the layout has room for as many bytes before the first aligned one.
        let start = unsafe { allocated.add(before) };
        Some(Self { allocated, start, bytes })
    }

    /// Has room to align what is in it. The system is not asked to: it has zeroed pages, which cost nothing
    /// before they are used, but of aligned memory, the standard library writes every byte to make it 0.
    #[cfg(not(all(test, unix, not(miri))))]
    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes.checked_add(ALIGNMENT as usize)?, 1).ok()
    }

    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.bytes, "offset {offset} in {} bytes", self.bytes);
        // SAFETY: inside the allocation, as just checked.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

#[cfg(not(all(test, unix, not(miri))))]
impl Drop for HostMemory {
    fn drop(&mut self) {
        let layout = Self::layout(self.bytes).expect("it was allocated with this layout");
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.allocated.as_ptr(), layout) };
    }
}
