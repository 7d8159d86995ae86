//! The store: parameters and states with stable addresses, shared by programs.

use crate::memory::Memory;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Graph, Number, Type};
use gradloom_core::plan::{StoreEntry, StoreLayout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A shared handle to parameters and states.
///
/// Clones are the same store. A program's run reads under a shared lock and commits under an exclusive one, so a store can be
/// read, and other programs run over it, from any thread.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    content: RwLock<Content>,
    /// Held by a program that commits, from its first read to the end of its commit.
    turn: Mutex<()>,
    /// Whether bytes are kept at all: the null device only plans.
    resident: bool,
}

/// What the lock guards.
#[derive(Debug, Default)]
pub(crate) struct Content {
    layout: StoreLayout,
    segments: Vec<Segment>,
    lost: bool,
    version: u64,
}

#[derive(Clone, Debug)]
struct Segment {
    start: usize,
    memory: Arc<Memory>,
}

impl Store {
    pub(crate) fn new(resident: bool) -> Self {
        let shared = Shared { content: RwLock::new(Content::default()), turn: Mutex::new(()), resident };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn read_lock(&self) -> RwLockReadGuard<'_, Content> {
        // A panic while the lock was held may have left a commit half done; that is what `lost` says.
        self.shared.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write_lock(&self) -> RwLockWriteGuard<'_, Content> {
        self.shared.content.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other program is between its first read and its commit.
    pub(crate) fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what a graph needs. `initial` gives the elements of a new parameter.
    pub(crate) fn extend(
        &self,
        graph: &Graph,
        initial: impl Fn(&str, &Type) -> Result<Vec<f32>>,
    ) -> Result<StoreLayout> {
        let mut content = self.write_lock();
        let mut layout = content.layout.clone();
        layout.extend(graph).map_err(|message| Error::new(ErrorKind::Store, message))?;
        let start = content.layout.bytes();
        let known = content.layout.entries().len();
        if layout.bytes() > start && self.shared.resident {
            let bytes = layout.bytes() - start;
            let memory = Memory::new(bytes).ok_or_else(|| {
                Error::new(ErrorKind::Device, format!("no memory for {bytes} bytes of parameters and states"))
                    .help("use a smaller model, or a machine with more memory")
            })?;
            let segment = Segment { start, memory: Arc::new(memory) };
            for entry in &layout.entries()[known..] {
                let bytes = match entry.init {
                    Some(init) => splat(&entry.ty, init),
                    None => floats(&initial(&entry.name, &entry.ty)?),
                };
                segment.write(entry, &bytes);
            }
            content.segments.push(segment);
        }
        content.layout = layout.clone();
        Ok(layout)
    }

    /// Names, types and offsets of all parameters and states.
    pub fn entries(&self) -> Vec<StoreEntry> {
        self.read_lock().layout.entries().to_vec()
    }

    /// Bytes of all entries with their padding.
    pub fn bytes(&self) -> usize {
        self.read_lock().layout.bytes()
    }

    /// Number of commits, writes and resets so far.
    pub fn version(&self) -> u64 {
        self.read_lock().version
    }

    /// The elements of an entry, little-endian and row-major.
    ///
    /// # Errors
    /// When there is no entry of that name, or the store keeps no bytes (null device).
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let content = self.read_lock();
        let entry = content.entry(name)?;
        Ok(content.segment(entry)?.read(entry))
    }

    /// The elements of an f32 entry.
    ///
    /// # Errors
    /// As [`Store::read`], and when the entry is not f32.
    pub fn read_f32(&self, name: &str) -> Result<Vec<f32>> {
        let content = self.read_lock();
        let entry = content.entry(name)?;
        if entry.ty.dtype != DType::F32 {
            return Err(Error::new(ErrorKind::Store, format!("`{name}` is {}, not f32", entry.ty)));
        }
        let bytes = content.segment(entry)?.read(entry);
        Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// Replaces the named entries: all of them, or none if one is wrong.
    ///
    /// # Errors
    /// When a name is unknown or given twice, a type differs, or there are too many or too few bytes.
    pub fn write(&self, entries: &[(&str, &Type, &[u8])]) -> Result<()> {
        let mut content = self.write_lock();
        content.check(entries)?;
        content.write(entries)
    }

    /// Replaces every entry: all of them, or none if one is wrong or missing. A lost store is sound again afterwards.
    ///
    /// # Errors
    /// As [`Store::write`], and when an entry is missing.
    pub fn write_all(&self, entries: &[(&str, &Type, &[u8])]) -> Result<()> {
        let mut content = self.write_lock();
        content.check(entries)?;
        let given: std::collections::HashSet<&str> = entries.iter().map(|(name, ..)| *name).collect();
        let missing: Vec<&str> = content
            .layout
            .entries()
            .iter()
            .map(|e| e.name.as_str())
            .filter(|name| !given.contains(name))
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

    /// Fills the states whose names start with `prefix` with their initial values.
    ///
    /// # Errors
    /// When the store keeps no bytes (null device).
    pub fn reset_states(&self, prefix: &str) -> Result<()> {
        let mut content = self.write_lock();
        for entry in content.layout.entries() {
            if let Some(init) = entry.init.filter(|_| entry.name.starts_with(prefix)) {
                content.segment(entry)?.write(entry, &splat(&entry.ty, init));
            }
        }
        content.version += 1;
        Ok(())
    }
}

impl Content {
    /// The address of an entry's bytes, with the memory that keeps it valid.
    pub(crate) fn address(&self, offset: usize) -> Option<(*mut u8, Arc<Memory>)> {
        let segment = self.segments.iter().rev().find(|s| s.start <= offset)?;
        Some((segment.memory.at(offset - segment.start), Arc::clone(&segment.memory)))
    }

    /// Bytes that the store has asked the system for.
    pub(crate) fn allocated(&self) -> usize {
        self.segments.iter().map(|s| s.memory.len()).sum()
    }

    /// Says that a commit was interrupted, or ended.
    pub(crate) fn set_lost(&mut self, lost: bool) {
        self.lost = lost;
        self.version += 1;
    }

    /// # Errors
    /// When a commit was interrupted and the store was not restored since.
    pub(crate) fn check_sound(&self) -> Result<()> {
        if !self.lost {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Lost,
            "a step was interrupted while it wrote parameters: they may be half updated",
        )
        .help("restore them from a checkpoint with `store.write_all(..)`"))
    }

    fn entry(&self, name: &str) -> Result<&StoreEntry> {
        self.layout.get(name).ok_or_else(|| {
            let mut error =
                Error::new(ErrorKind::Store, format!("there is no parameter or state called `{name}`"));
            if let Some(near) = nearest(name, self.layout.entries().iter().map(|e| e.name.as_str())) {
                error = error.help(format!("did you mean `{near}`?"));
            }
            error
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
        let mut seen = std::collections::HashSet::new();
        for (name, ty, bytes) in entries {
            let entry = self.entry(name)?;
            if !seen.insert(*name) {
                return Err(Error::new(ErrorKind::Store, format!("`{name}` is given twice")));
            }
            if entry.ty != **ty {
                return Err(Error::new(ErrorKind::Store, format!("`{name}` is {}, not {ty}", entry.ty)));
            }
            if entry.ty.bytes() != bytes.len() {
                let message =
                    format!("`{name}` ({ty}) takes {} bytes, got {}", entry.ty.bytes(), bytes.len());
                return Err(Error::new(ErrorKind::Store, message));
            }
        }
        Ok(())
    }

    fn write(&mut self, entries: &[(&str, &Type, &[u8])]) -> Result<()> {
        for (name, _, bytes) in entries {
            let entry = self.entry(name)?;
            self.segment(entry)?.write(entry, bytes);
        }
        self.version += 1;
        Ok(())
    }
}

impl Segment {
    fn read(&self, entry: &StoreEntry) -> Vec<u8> {
        let mut bytes = vec![0; entry.ty.bytes()];
        // SAFETY: the entry lies inside its segment, and the caller holds the store's lock.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.memory.at(entry.offset - self.start),
                bytes.as_mut_ptr(),
                bytes.len(),
            )
        };
        bytes
    }

    fn write(&self, entry: &StoreEntry, bytes: &[u8]) {
        assert_eq!(bytes.len(), entry.ty.bytes(), "the size of {} was checked", entry.name);
        // SAFETY: the entry lies inside its segment, and the caller holds the store's lock exclusively.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.memory.at(entry.offset - self.start),
                bytes.len(),
            )
        };
    }
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn splat(ty: &Type, value: Number) -> Vec<u8> {
    let one: Vec<u8> = match (ty.dtype, value) {
        (DType::F32, v) => (v.as_f64() as f32).to_le_bytes().to_vec(),
        (DType::I32, v) => (v.as_f64() as i32).to_le_bytes().to_vec(),
        (DType::U32, v) => (v.as_f64() as u32).to_le_bytes().to_vec(),
        (DType::Bool, v) => vec![u8::from(v.as_f64() != 0.0)],
    };
    one.repeat(ty.elements())
}

/// The known name that shares the longest ending or beginning with a mistyped one.
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
