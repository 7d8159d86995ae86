//! The memory of a store or a program, on the host or on a device.

use gradloom_core::error::Result;
use gradloom_core::plan::ALIGNMENT;
#[cfg(not(all(feature = "guarded", unix, not(miri))))]
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::fmt::Debug;
use std::ptr::NonNull;

/// Gives memory, or `None` when there is not that much.
pub type Allocate<'a> = &'a dyn Fn(u64) -> Option<Memory>;

/// Returns the number of bytes as one of this process's memory, or of one buffer: [`usize::MAX`], which none
/// has, where that is too small.
pub fn counted(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Zeroed bytes of a kind of device. Who may touch them when is governed by the locks of the store and by
/// `&mut` on the program.
pub trait DeviceMemory: Any + Debug + Send + Sync {
    /// Returns the number of bytes.
    fn bytes(&self) -> usize;

    /// Copies bytes out, once the device has done what was submitted before. No thread writes them meanwhile.
    ///
    /// # Errors
    /// When the device is lost, or cannot hand bytes out at once.
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<()>;

    /// Writes bytes at an offset; work that is submitted later sees them. Nothing else may access them during
    /// the call.
    ///
    /// # Errors
    /// When the device is lost.
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()>;

    /// Copies all bytes to memory of the same device, which has as many. They may not be written meanwhile.
    ///
    /// # Errors
    /// When the device is lost.
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
    /// Host memory; `None` when the system has not that much.
    pub fn new(bytes: u64) -> Option<Self> {
        HostMemory::new(usize::try_from(bytes).ok()?).map(Self::of)
    }

    /// Memory of a kind of device.
    pub fn of(memory: impl DeviceMemory) -> Self {
        Self(Box::new(memory))
    }

    /// Returns the memory as that of a kind of device; `None` if it is of another kind.
    pub fn get<M: DeviceMemory>(&self) -> Option<&M> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// Returns the memory as that of the device that allocated it.
    ///
    /// # Panics
    /// When it is of another kind of device: a bug of gradloom.
    pub fn own<M: DeviceMemory>(&self) -> &M {
        self.get().expect("the backend allocates on its device")
    }

    /// Returns the number of bytes.
    #[allow(clippy::len_without_is_empty, reason = "nothing asks for it")]
    pub fn len(&self) -> usize {
        self.0.bytes()
    }

    /// Returns the address of a byte of host memory; `offset` may be one past the end.
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.own::<HostMemory>().at(offset)
    }

    /// Copies bytes out: see [`DeviceMemory::read`].
    ///
    /// # Errors
    /// As there.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.0.read(offset, into)
    }

    /// Replaces bytes: see [`DeviceMemory::write`].
    ///
    /// # Errors
    /// As there.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.0.write(offset, bytes)
    }

    /// Lets `f` fill new, zeroed memory with f32s. It is not shared yet.
    ///
    /// # Errors
    /// Those of `f`; when the device is lost, or there is no memory for the values on the way to it.
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
        // SAFETY: the range lies inside the allocation, aligned and zeroed, and the caller is alone.
        f(unsafe { std::slice::from_raw_parts_mut(start, elements) })
    }

    /// Returns the same bytes in memory of their own; `None` if there is no memory for them. They may not be
    /// written meanwhile.
    ///
    /// # Errors
    /// When the device is lost.
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
        // SAFETY: the range lies inside the allocation, and the caller holds the lock that keeps others from
        // writing it.
        unsafe { std::ptr::copy_nonoverlapping(self.at(offset), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len() <= self.bytes - offset, "the range was planned");
        // SAFETY: as in `read`, and the caller is alone.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(offset), bytes.len()) };
        Ok(())
    }

    fn copy_to(&self, other: &Memory) -> Result<()> {
        // SAFETY: as in `read`: these are all bytes of the allocation.
        other.write(0, unsafe { std::slice::from_raw_parts(self.at(0), self.bytes) })
    }
}

/// Zeroed bytes at an address that never changes, aligned as the plan demands. CPU programs keep raw
/// addresses into it. In tests, it ends where a page begins that cannot be touched.
#[derive(Debug)]
pub struct HostMemory {
    /// The pointer that the system gave.
    #[cfg(not(all(feature = "guarded", unix, not(miri))))]
    allocated: NonNull<u8>,
    #[cfg(all(feature = "guarded", unix, not(miri)))]
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
        // SAFETY: the layout has room for as many bytes before the first aligned one.
        let start = unsafe { allocated.add(before) };
        Some(Self { allocated, start, bytes })
    }

    /// Has room to align what is in it. The system is not asked to: it has zeroed pages, which cost nothing
    /// before they are used, but of aligned memory, the standard library writes every byte to make it 0.
    #[cfg(not(all(feature = "guarded", unix, not(miri))))]
    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes.checked_add(ALIGNMENT as usize)?, 1).ok()
    }

    /// Returns the address of a byte; `offset` may be one past the end.
    pub fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.bytes, "offset {offset} in {} bytes", self.bytes);
        // SAFETY: inside the allocation, as just checked.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

#[cfg(not(all(feature = "guarded", unix, not(miri))))]
impl Drop for HostMemory {
    fn drop(&mut self) {
        let layout = Self::layout(self.bytes).expect("it was allocated with this layout");
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.allocated.as_ptr(), layout) };
    }
}
