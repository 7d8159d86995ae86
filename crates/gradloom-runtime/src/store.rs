//! Store of parameters and states at stable addresses, shared by programs.
//!
//! In: graphs, which declare entries, and their initial values. Out: bytes by name, for callers, and
//! addresses, for programs. Invariant: entries that are written together change together or not at all; no
//! reader observes part of a commit; growing moves no entry.

use gradloom_core::collections::SortedSet;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Graph, Number, Type};
use gradloom_core::plan::{StoreEntry, StoreLayout};
use gradloom_device::Device;
use gradloom_device::cancel::Stop;
use gradloom_device::content::StoreMemory;
use gradloom_device::elements::{Elements, zeroed};
use gradloom_device::feed::bytes_of;
use gradloom_device::memory::{Allocate, Memory, counted};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::TryLockError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

// Callers exchange little-endian bytes with the store, and kernels use the same bytes in native order.
const _: () = assert!(cfg!(target_endian = "little"), "gradloom's stores and checkpoints are little-endian");

/// Shared handle to parameters and states.
///
/// Clones refer to the same store. A run of a program reads under a shared lock and commits under an
/// exclusive one, so that a store can be read, and other programs run with it, from any thread.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    content: RwLock<Content>,
    /// Locked while elements change: by a program, from its first read to the end of its commit.
    turn: Mutex<()>,
    /// Locked while the store grows, from the planning of its layout to the allocation of its memory.
    growth: Mutex<()>,
    /// True if the store keeps bytes; false on the null device, which only plans.
    resident: bool,
    /// Maximum size of a segment in bytes.
    segment: u64,
}

/// Contents of the store, guarded by the lock.
#[derive(Debug, Default)]
pub(crate) struct Content {
    layout: StoreLayout,
    /// Number of the rank whose shards the store holds.
    rank: usize,
    segments: Vec<Segment>,
    lost: bool,
    version: u64,
}

#[derive(Clone, Debug)]
struct Segment {
    start: u64,
    memory: Arc<Memory>,
}

/// Function that overwrites the zeros of a new parameter, given its name and type, with its initial values.
pub(crate) type Initial<'a> = &'a dyn Fn(&str, &Type, &mut [f32]) -> Result<()>;

impl Store {
    /// Creates an empty store for a device.
    pub(crate) fn of(device: &Device) -> Self {
        let segment = device.backend().buffer_bytes().unwrap_or(u64::MAX);
        Self::new(device.backend().is_resident(), segment, device.rank())
    }

    fn new(resident: bool, segment: u64, rank: usize) -> Self {
        let content = RwLock::new(Content { rank, ..Content::default() });
        let (turn, growth) = (Mutex::default(), Mutex::default());
        Self { shared: Arc::new(Shared { content, turn, growth, resident, segment }) }
    }

    pub(crate) fn read_lock(&self) -> RwLockReadGuard<'_, Content> {
        // Ignore poisoning: if a panic interrupted a commit, `lost` is true.
        self.shared.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write_lock(&self) -> RwLockWriteGuard<'_, Content> {
        self.shared.content.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no program is between its first read and its commit, and prevents others from starting.
    pub(crate) fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`Store::take_turn`], but the wait can be stopped.
    ///
    /// # Errors
    /// Returns an error if it is stopped.
    pub(crate) fn take_turn_unless(&self, stop: Stop<'_>) -> Result<MutexGuard<'_, ()>> {
        if stop.is_possible() {
            // A wait for a `Mutex` cannot be interrupted, so it is polled. The cost of polling is negligible
            // compared to the step of another program for which it waits.
            loop {
                stop.check()?;
                match self.shared.turn.try_lock() {
                    Ok(turn) => return Ok(turn),
                    Err(TryLockError::Poisoned(turn)) => return Ok(turn.into_inner()),
                    Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(200)),
                }
            }
        }
        let turn = self.take_turn();
        stop.check()?;
        Ok(turn)
    }

    /// Begins to grow the store by the entries that a graph needs. Nothing changes before [`Growth::commit`].
    /// Another call waits until this growth is dropped.
    ///
    /// # Errors
    /// Returns an error if an entry exists with another type.
    pub(crate) fn grow(&self, graph: &Graph) -> Result<Growth<'_>> {
        let turn = self.shared.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, segments) = {
            let content = self.read_lock();
            (content.layout.clone(), content.segments.clone())
        };
        let mut layout = before.clone();
        layout.extend(graph).map_err(|message| Error::new(ErrorKind::Store, message))?;
        let entries = before.entries().len();
        Ok(Growth { shared: &self.shared, layout, segments, entries, _turn: turn })
    }

    pub(crate) fn layout(&self) -> StoreLayout {
        self.read_lock().layout.clone()
    }

    /// Returns the names, types and offsets of all parameters and states.
    pub fn entries(&self) -> Vec<StoreEntry> {
        self.read_lock().layout.entries().to_vec()
    }

    /// Returns the memory of all entries, for a script that shares memory and buffers with the store.
    #[doc(hidden)]
    pub fn memory(&self) -> StoreMemory {
        self.read_lock().memory()
    }

    /// Returns the number of bytes of all entries, including padding.
    pub fn bytes(&self) -> u64 {
        self.read_lock().layout.bytes()
    }

    /// Returns `true` if a commit was interrupted, so that some parameters may be updated and others not.
    /// Programs refuse to run until [`Store::write_all`] restores every entry.
    pub fn is_lost(&self) -> bool {
        self.read_lock().lost
    }

    /// Returns the number of commits, writes and resets so far.
    pub fn version(&self) -> u64 {
        self.read_lock().version
    }

    /// Returns the elements of an entry, little-endian and row-major. Of a sharded state, these are the
    /// elements of this rank's shard.
    ///
    /// # Errors
    /// Returns an error if there is no entry with this name, if the store keeps no bytes (null device), or if
    /// there is no memory for a copy.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let content = self.read_lock();
        let entry = content.entry(name)?;
        content.segment(entry)?.read(entry)
    }

    /// Returns all entries with their elements, as of a single moment.
    ///
    /// # Errors
    /// Returns the same errors as [`Store::read`].
    pub fn read_all(&self) -> Result<Vec<(StoreEntry, Vec<u8>)>> {
        self.read_where(|_| true)
    }

    /// Like [`Store::read_all`], but reuses the memory of an earlier result.
    ///
    /// # Errors
    /// Returns the same errors as [`Store::read`]. Some entries in `into` may then be outdated.
    pub fn read_all_into(&self, into: &mut Vec<(StoreEntry, Vec<u8>)>) -> Result<()> {
        let content = self.read_lock();
        let entries = content.layout.entries();
        if !into.iter().map(|(entry, _)| entry).eq(entries) {
            into.clear();
            into.extend(entries.iter().map(|entry| (entry.clone(), Vec::new())));
        }
        into.iter_mut().try_for_each(|(entry, bytes)| content.segment(entry)?.read_into(entry, bytes))
    }

    /// Returns the entries for which `wanted` returns `true`, with their elements.
    pub(crate) fn read_where(
        &self,
        wanted: impl Fn(&StoreEntry) -> bool,
    ) -> Result<Vec<(StoreEntry, Vec<u8>)>> {
        let content = self.read_lock();
        let read = |entry: &StoreEntry| Ok((entry.clone(), content.segment(entry)?.read(entry)?));
        content.layout.entries().iter().filter(|entry| wanted(entry)).map(read).collect()
    }

    pub(crate) fn ty(&self, name: &str) -> Result<Type> {
        Ok(self.read_lock().entry(name)?.ty.clone())
    }

    /// Returns the elements of a floating-point entry as f32.
    ///
    /// # Errors
    /// Returns the same errors as [`Store::read`]. Also returns an error if the elements are not floats.
    pub fn read_f32(&self, name: &str) -> Result<Vec<f32>> {
        let content = self.read_lock();
        let entry = content.entry(name)?;
        if !entry.ty.dtype.is_float() {
            return Err(Error::new(ErrorKind::Store, format!("`{name}` is {}, not floats", entry.ty)));
        }
        let segment = content.segment(entry)?;
        let read = |bytes: &mut [u8]| segment.memory.read(segment.offset(entry), bytes);
        Elements::filled(counted(entry.ty.bytes()), &quoted(entry), read)?
            .take_f32(entry.ty.dtype, &quoted(entry))
    }

    /// Replaces the named entries. If one is invalid, none is replaced. A sharded state is given as a whole,
    /// of which the store takes this rank's shard, or as that shard.
    ///
    /// # Errors
    /// Returns an error if a name is unknown or occurs twice, if a type or a number of bytes is wrong, or on
    /// the null device, which stores no bytes.
    pub fn write(&self, entries: &[(&str, &Type, &[u8])]) -> Result<()> {
        let _turn = self.take_turn();
        let mut content = self.write_lock();
        content.check(entries)?;
        content.write(entries)
    }

    /// Replaces every entry. If one is invalid or missing, none is replaced. A lost store can be used again
    /// afterwards.
    ///
    /// # Errors
    /// Returns the same errors as [`Store::write`]. Also returns an error if an entry is missing.
    pub fn write_all(&self, entries: &[(&str, &Type, &[u8])]) -> Result<()> {
        let _turn = self.take_turn();
        let mut content = self.write_lock();
        content.check(entries)?;
        let mut given = SortedSet::new();
        entries.iter().for_each(|(name, ..)| _ = given.insert(*name));
        let missing: Vec<&str> = content
            .layout
            .entries()
            .iter()
            .map(|e| e.name.as_str())
            .filter(|name| !given.contains(*name))
            .collect();
        if let Some(first) = missing.first() {
            return Err(Error::new(ErrorKind::Store, format!("`{first}` is missing")).note(format!(
                "{} of {} entries are missing",
                missing.len(),
                content.layout.entries().len()
            )));
        }
        content.write(entries)?;
        content.lost = false;
        Ok(())
    }

    /// Resets the states whose names start with `prefix` to their initial values.
    ///
    /// # Errors
    /// Returns an error if the store keeps no bytes (null device).
    pub fn reset_states(&self, prefix: &str) -> Result<()> {
        self.reset_states_where(|name| name.starts_with(prefix)).map(|_| ())
    }

    /// Resets the states for whose names `wanted` returns `true` to their initial values, and returns their
    /// number.
    pub(crate) fn reset_states_where(&self, wanted: impl Fn(&str) -> bool) -> Result<usize> {
        let _turn = self.take_turn();
        let mut content = self.write_lock();
        let mut count = 0;
        for entry in content.layout.entries() {
            if let Some(init) = entry.init.filter(|_| wanted(&entry.name)) {
                content.segment(entry)?.write_splat(entry, init)?;
                count += 1;
            }
        }
        content.version += 1;
        Ok(count)
    }
}

/// Growth of a store that has not yet taken effect.
#[derive(Debug)]
pub(crate) struct Growth<'s> {
    shared: &'s Shared,
    layout: StoreLayout,
    segments: Vec<Segment>,
    /// Number of entries that have memory.
    entries: usize,
    _turn: MutexGuard<'s, ()>,
}

impl Growth<'_> {
    /// Returns the layout of the store after the growth.
    pub(crate) fn layout(&self) -> &StoreLayout {
        &self.layout
    }

    /// Allocates the new entries and fills them. A store of the null device allocates nothing.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory, or the first error of `initial`.
    pub(crate) fn allocate(&mut self, allocate: Allocate<'_>, initial: Initial<'_>) -> Result<()> {
        if self.shared.resident {
            let added = &self.layout.entries()[self.entries..];
            for (bytes, entries) in cut(added, self.layout.bytes(), self.shared.segment)? {
                self.segments.push(Segment::new(bytes, entries, allocate, initial)?);
            }
        }
        self.entries = self.layout.entries().len();
        Ok(())
    }

    /// Returns the memory of the store after the growth.
    pub(crate) fn memory(&self) -> StoreMemory {
        memory(&self.segments)
    }

    pub(crate) fn commit(self) {
        let mut content = self.shared.content.write().unwrap_or_else(PoisonError::into_inner);
        (content.layout, content.segments) = (self.layout, self.segments);
    }
}

fn memory(segments: &[Segment]) -> StoreMemory {
    StoreMemory::new(segments.iter().map(|segment| (segment.start, Arc::clone(&segment.memory))))
}

impl Content {
    pub(crate) fn memory(&self) -> StoreMemory {
        memory(&self.segments)
    }

    /// Copies the entries and their elements to newly allocated memory.
    pub(crate) fn duplicate(&self, allocate: Allocate<'_>) -> Result<Self> {
        let copied = |segment: &Segment| {
            let memory =
                segment.memory.duplicate(allocate)?.ok_or_else(|| no_memory(segment.memory.len() as u64))?;
            Ok(Segment { start: segment.start, memory: Arc::new(memory) })
        };
        let segments = self.segments.iter().map(copied).collect::<Result<_>>()?;
        Ok(Self { layout: self.layout.clone(), segments, ..*self })
    }

    /// Returns the number of bytes allocated by the store.
    pub(crate) fn allocated(&self) -> u64 {
        self.segments.iter().map(|s| s.memory.len() as u64).sum()
    }

    /// Marks the store as lost until the commit ends.
    pub(crate) fn begin_commit(&mut self) {
        self.lost = true;
        self.version += 1;
    }

    /// Marks the store as sound: all updates were written.
    pub(crate) fn end_commit(&mut self) {
        self.lost = false;
    }

    /// Checks that no commit was interrupted.
    ///
    /// # Errors
    /// Returns an error if a commit was interrupted and the store has not been restored.
    pub(crate) fn check_sound(&self) -> Result<()> {
        if !self.lost {
            return Ok(());
        }
        Err(lost())
    }

    fn entry(&self, name: &str) -> Result<&StoreEntry> {
        self.layout.get(name).ok_or_else(|| {
            let error =
                Error::new(ErrorKind::Store, format!("there is no parameter or state called `{name}`"));
            match nearest(name, self.layout.entries().iter().map(|e| e.name.as_str())) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.help("`summary()` lists the names"),
            }
        })
    }

    fn segment(&self, entry: &StoreEntry) -> Result<&Segment> {
        self.segments
            .iter()
            .rev()
            .find(|s| s.start <= entry.offset)
            .ok_or_else(|| Error::new(ErrorKind::Device, "this device plans only: the store has no bytes"))
    }

    fn check(&self, entries: &[(&str, &Type, &[u8])]) -> Result<()> {
        let mut seen = SortedSet::new();
        for (name, ty, bytes) in entries {
            let entry = self.entry(name)?;
            if !seen.insert(*name) {
                return Err(Error::new(ErrorKind::Store, format!("`{name}` is given twice")));
            }
            let whole = entry.whole_type();
            if whole != **ty && entry.ty != **ty {
                return Err(Error::new(ErrorKind::Store, format!("`{name}` is {whole}, not {ty}")));
            }
            if ty.bytes() != bytes.len() as u64 {
                let message = format!("`{name}` ({ty}) takes {} bytes, got {}", ty.bytes(), bytes.len());
                return Err(Error::new(ErrorKind::Store, message));
            }
        }
        Ok(())
    }

    fn write(&mut self, entries: &[(&str, &Type, &[u8])]) -> Result<()> {
        for (name, ty, bytes) in entries {
            let entry = self.entry(name)?;
            let own = counted(entry.ty.bytes());
            let start = if entry.ty == **ty { 0 } else { self.rank * own };
            self.segment(entry)?.write(entry, &bytes[start..start + own])?;
        }
        self.version += 1;
        Ok(())
    }
}

/// Returns the bytes of an entry's elements, after rounding the values to its type.
///
/// # Errors
/// Returns an error if there is no memory for them.
pub(crate) fn rounded<'a>(entry: &StoreEntry, values: &'a [f32]) -> Result<Cow<'a, [u8]>> {
    let dtype = entry.ty.dtype;
    if dtype == DType::F32 {
        return Ok(Cow::Borrowed(bytes_of(values)));
    }
    let mut bytes = zeroed::<u8>(counted(entry.ty.bytes()), &quoted(entry))?;
    for (place, &value) in bytes.chunks_exact_mut(dtype.bytes()).zip(values) {
        place.copy_from_slice(&element(dtype, Number::Float(f64::from(value))));
    }
    Ok(Cow::Owned(bytes))
}

impl Segment {
    /// Allocates memory for a range of the store's bytes, and fills it with the initial values of its
    /// entries.
    fn new(
        range: Range<u64>,
        entries: &[StoreEntry],
        allocate: Allocate<'_>,
        initial: Initial<'_>,
    ) -> Result<Self> {
        let bytes = range.end - range.start;
        let memory = allocate(bytes).ok_or_else(|| no_memory(bytes))?;
        let segment = Self { start: range.start, memory: Arc::new(memory) };
        for entry in entries {
            match entry.init {
                Some(init) => {
                    let one = element(entry.ty.dtype, init);
                    // Skip zeros, the initial value of most states, because new memory is zero.
                    if one.iter().any(|&byte| byte != 0) {
                        segment.write_splat(entry, init)?;
                    }
                }
                None => segment.fill(entry, initial)?,
            }
        }
        Ok(segment)
    }

    /// Fills a new entry with the f32s that `initial` writes, converted to its type.
    fn fill(&self, entry: &StoreEntry, initial: Initial<'_>) -> Result<()> {
        let elements = entry.ty.elements();
        let initial = |elements: &mut [f32]| initial(&entry.name, &entry.ty, elements);
        if entry.ty.dtype == DType::F32 {
            return self.memory.fill(self.offset(entry), elements, initial);
        }
        let mut values = zeroed::<f32>(elements, &quoted(entry))?;
        initial(&mut values)?;
        self.write(entry, &rounded(entry, &values)?)
    }

    /// Returns the offset of an entry in the segment's memory, in bytes.
    fn offset(&self, entry: &StoreEntry) -> usize {
        counted(entry.offset - self.start)
    }

    /// Returns the elements of an entry. The caller must hold the store's lock.
    fn read(&self, entry: &StoreEntry) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_into(entry, &mut bytes)?;
        Ok(bytes)
    }

    /// Like `read`, but reuses the memory of `bytes` if its size is that of the entry.
    fn read_into(&self, entry: &StoreEntry, bytes: &mut Vec<u8>) -> Result<()> {
        let wanted = counted(entry.ty.bytes());
        if bytes.len() != wanted {
            *bytes = zeroed(wanted, &quoted(entry))?;
        }
        self.memory.read(self.offset(entry), bytes)
    }

    /// Sets every element to a number. Writes in chunks, so that no buffer of the entry's size is needed.
    /// Requires the same lock as [`Segment::write`].
    fn write_splat(&self, entry: &StoreEntry, value: Number) -> Result<()> {
        let bytes = counted(entry.ty.bytes());
        let one = element(entry.ty.dtype, value);
        let piece = one.repeat(entry.ty.elements().min(PIECE / one.len()));
        let mut done = 0;
        while done < bytes {
            let length = piece.len().min(bytes - done);
            self.memory.write(self.offset(entry) + done, &piece[..length])?;
            done += length;
        }
        Ok(())
    }

    /// Writes the elements of an entry. The caller must hold the store's lock exclusively, or own the
    /// segment.
    fn write(&self, entry: &StoreEntry, bytes: &[u8]) -> Result<()> {
        assert_eq!(bytes.len() as u64, entry.ty.bytes(), "the size of {} was checked", entry.name);
        self.memory.write(self.offset(entry), bytes)
    }
}

/// Splits the bytes of new entries, which extend to the end of the store, into ranges of at most `most`
/// bytes. Returns each range with its entries.
fn cut(entries: &[StoreEntry], end: u64, most: u64) -> Result<Vec<(Range<u64>, &[StoreEntry])>> {
    let ends = |i: usize| entries.get(i + 1).map_or(end, |next| next.offset);
    let mut cuts: Vec<(Range<u64>, &[StoreEntry])> = Vec::new();
    let mut first = 0;
    for (i, entry) in entries.iter().enumerate() {
        if ends(i) - entry.offset > most {
            let message = format!(
                "`{}` takes {} bytes, a buffer of the device at most {most}",
                entry.name,
                entry.ty.bytes()
            );
            return Err(Error::new(ErrorKind::Plan, message).help(
                "make its largest extent smaller, split it into several parameters, or use another device",
            ));
        }
        let start = entries[first].offset;
        if ends(i) - start > most {
            cuts.push((start..entry.offset, &entries[first..i]));
            first = i;
        }
    }
    if let Some(entry) = entries.get(first) {
        cuts.push((entry.offset..end, &entries[first..]));
    }
    Ok(cuts)
}

fn no_memory(bytes: u64) -> Error {
    Error::new(ErrorKind::Device, format!("no memory for {bytes} bytes of parameters and states"))
        .help("use a smaller model, or a machine with more memory")
}

pub(crate) fn lost() -> Error {
    Error::new(ErrorKind::Lost, "a step was interrupted while it wrote parameters: they may be half updated")
        .help("restore them from a checkpoint with `store.write_all(..)`")
}

/// Maximum number of bytes that [`Segment::write_splat`] writes at a time; a multiple of every element size.
const PIECE: usize = 1 << 20;

/// Returns an entry's name for messages.
fn quoted(entry: &StoreEntry) -> impl std::fmt::Display {
    format!("`{}` on the host", entry.name)
}

/// Returns the little-endian bytes of a number.
pub(crate) fn element(dtype: DType, value: Number) -> Vec<u8> {
    match dtype {
        DType::F32 => (value.as_f64() as f32).to_le_bytes().to_vec(),
        DType::I32 => (value.as_f64() as i32).to_le_bytes().to_vec(),
        DType::U32 => (value.as_f64() as u32).to_le_bytes().to_vec(),
        DType::F16 | DType::BF16 => dtype.narrow_bits(value.as_f64() as f32).to_le_bytes().to_vec(),
        DType::Bool => vec![u8::from(value.as_f64() != 0.0)],
        DType::U8 => vec![value.as_f64() as u8],
        // Convert integers directly, because f64 cannot represent every i64.
        DType::I64 => match value {
            Number::Int(value) => value.to_le_bytes().to_vec(),
            value => (value.as_f64() as i64).to_le_bytes().to_vec(),
        },
    }
}

/// Returns the known name that shares the longest prefix and suffix with a mistyped one.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let common = |a: &mut dyn Iterator<Item = char>, b: &mut dyn Iterator<Item = char>| {
        a.zip(b).take_while(|(x, y)| x == y).count()
    };
    known
        .map(|k| {
            (
                common(&mut k.chars(), &mut name.chars())
                    + common(&mut k.chars().rev(), &mut name.chars().rev()),
                k,
            )
        })
        .filter(|(score, k)| 2 * score >= k.chars().count())
        .max_by_key(|(score, _)| *score)
        .map(|(_, k)| k)
}

#[cfg(test)]
mod tests;
