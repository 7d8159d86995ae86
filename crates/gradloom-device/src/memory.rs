//! Memory of a store or a program, on the host or on a device.

use gradloom_core::error::Result;
use gradloom_core::plan::ALIGNMENT;
#[cfg(not(all(feature = "guarded", unix, not(miri))))]
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::fmt::Debug;
use std::ptr::NonNull;

/// Function that allocates device memory; returns `None` if there is not enough.
pub type Allocate<'a> = &'a dyn Fn(u64) -> Option<Memory>;

/// Converts a number of bytes to `usize`; returns [`usize::MAX`], a size that no allocation has, if it does
/// not fit.
pub fn counted(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Zero-initialized memory of a kind of device. Accesses are synchronized by the store's locks and by
/// exclusive references to the program.
pub trait DeviceMemory: Any + Debug + Send + Sync {
    /// Returns the number of bytes.
    fn bytes(&self) -> usize;

    /// Copies the bytes from `offset` on to the host, after the device has completed the work submitted
    /// before. No thread may write these bytes during the call.
    ///
    /// # Errors
    /// Returns an error if the device is lost, or cannot return bytes synchronously.
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<()>;

    /// Writes bytes at an offset, for work that is submitted later. Nothing else may access the range during
    /// the call.
    ///
    /// # Errors
    /// Returns an error if the device is lost.
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()>;

    /// Copies all bytes to memory of the same device that is at least as large. No thread may write the bytes
    /// during the call.
    ///
    /// # Errors
    /// Returns an error if the device is lost.
    fn copy_to(&self, other: &Memory) -> Result<()> {
        let mut bytes = crate::elements::zeroed(self.bytes(), &"a copy of the device's memory")?;
        self.read(0, &mut bytes)?;
        other.write(0, &bytes)
    }
}

/// Memory of a store or a program, on the host or on a device.
#[derive(Debug)]
pub struct Memory(Box<dyn DeviceMemory>);

impl Memory {
    /// Allocates host memory; returns `None` if there is not enough.
    pub fn new(bytes: u64) -> Option<Self> {
        HostMemory::new(usize::try_from(bytes).ok()?).map(Self::of)
    }

    /// Wraps memory of a kind of device.
    pub fn of(memory: impl DeviceMemory) -> Self {
        Self(Box::new(memory))
    }

    /// Returns the memory as an `M`; `None` if it belongs to another kind of device.
    pub fn get<M: DeviceMemory>(&self) -> Option<&M> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// Returns the memory as an `M`, the type its device allocates.
    ///
    /// # Panics
    /// Panics if the memory belongs to another kind of device, which is a bug in gradloom.
    pub fn own<M: DeviceMemory>(&self) -> &M {
        self.get().expect("the backend allocates on its device")
    }

    /// Returns the number of bytes.
    #[allow(clippy::len_without_is_empty, reason = "nothing asks for it")]
    pub fn len(&self) -> usize {
        self.0.bytes()
    }

    /// Returns the address of a byte in host memory; `offset` may be one past the end.
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.own::<HostMemory>().at(offset)
    }

    /// Copies bytes to the host; see [`DeviceMemory::read`].
    ///
    /// # Errors
    /// Same as [`DeviceMemory::read`].
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.0.read(offset, into)
    }

    /// Writes bytes; see [`DeviceMemory::write`].
    ///
    /// # Errors
    /// Same as [`DeviceMemory::write`].
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.0.write(offset, bytes)
    }

    /// Calls `f` to fill a range of zeroed, not yet shared memory with f32 values.
    ///
    /// # Errors
    /// Returns an error if `f` fails, the device is lost, or there is no host memory for the values.
    pub fn fill(
        &self,
        offset: usize,
        elements: usize,
        f: impl FnOnce(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let Some(memory) = self.get::<HostMemory>() else {
            let mut values = crate::elements::zeroed(elements, &"initial values")?;
            f(&mut values)?;
            return self.write(offset, crate::feed::bytes_of(&values));
        };
        assert!(4 * elements <= memory.bytes - offset, "the range was planned");
        let start = memory.at(offset).cast();
        // SAFETY: the range lies inside the allocation, is aligned and zeroed, and nothing else accesses it.
        f(unsafe { std::slice::from_raw_parts_mut(start, elements) })
    }

    /// Returns a copy of the memory; `None` if there is not enough memory for it. No thread may write the
    /// bytes during the call.
    ///
    /// # Errors
    /// Returns an error if the device is lost.
    pub fn duplicate(&self, allocate: Allocate<'_>) -> Result<Option<Self>> {
        let Some(copy) = allocate(self.len() as u64) else { return Ok(None) };
        self.0.copy_to(&copy)?;
        Ok(Some(copy))
    }
}

impl DeviceMemory for HostMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        assert!(into.len() <= self.bytes - offset, "the range was planned");
        // SAFETY: the range lies inside the allocation, and the caller holds the lock that prevents
        // concurrent writes.
        unsafe { std::ptr::copy_nonoverlapping(self.at(offset), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len() <= self.bytes - offset, "the range was planned");
        // SAFETY: as in `read`, and nothing else accesses the range.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(offset), bytes.len()) };
        Ok(())
    }

    fn copy_to(&self, other: &Memory) -> Result<()> {
        // SAFETY: as in `read`; the slice covers the whole allocation.
        other.write(0, unsafe { std::slice::from_raw_parts(self.at(0), self.bytes) })
    }
}

/// Zero-initialized host memory at a fixed address, aligned to the plan's alignment. CPU programs keep raw
/// pointers into it. With the feature `guarded`, it ends at an inaccessible page.
#[derive(Debug)]
pub struct HostMemory {
    #[cfg(not(all(feature = "guarded", unix, not(miri))))]
    allocated: NonNull<u8>,
    #[cfg(all(feature = "guarded", unix, not(miri)))]
    _allocated: crate::guarded::Guarded,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain bytes, accessed through raw pointers; the owners synchronize the accesses, see
// `DeviceMemory`.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    #[cfg(all(feature = "guarded", unix, not(miri)))]
    fn new(bytes: usize) -> Option<Self> {
        let allocated = crate::guarded::Guarded::new(bytes.checked_next_multiple_of(ALIGNMENT as usize)?)?;
        Some(Self { start: allocated.start(), _allocated: allocated, bytes })
    }

    #[cfg(not(all(feature = "guarded", unix, not(miri))))]
    fn new(bytes: usize) -> Option<Self> {
        let layout = Self::layout(bytes)?;
        // SAFETY: the layout has at least one byte.
        let allocated = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let before = allocated.align_offset(ALIGNMENT as usize);
        // SAFETY: the layout has room for up to `ALIGNMENT` bytes before the first aligned byte.
        let start = unsafe { allocated.add(before) };
        Some(Self { allocated, start, bytes })
    }

    /// Returns an unaligned layout with room to align the bytes in it. An aligned layout would be slow: for
    /// it, `alloc_zeroed` writes every byte instead of obtaining zeroed pages from the system.
    #[cfg(not(all(feature = "guarded", unix, not(miri))))]
    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes.checked_add(ALIGNMENT as usize)?, 1).ok()
    }

    /// Returns the address of a byte; `offset` may be one past the end.
    pub fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.bytes, "offset {offset} in {} bytes", self.bytes);
        // SAFETY: the offset is inside the allocation, as just checked.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

#[cfg(not(all(feature = "guarded", unix, not(miri))))]
impl Drop for HostMemory {
    fn drop(&mut self) {
        let layout = Self::layout(self.bytes).expect("it was allocated with this layout");
        // SAFETY: `new` allocated the memory with the same layout.
        unsafe { dealloc(self.allocated.as_ptr(), layout) };
    }
}
