//! The layout of a store: names, types and offsets of parameters and states, which remain stable across
//! programs.

use super::{ALIGNMENT, MOST_BYTES};
use crate::collections::SortedMap;
use crate::decimal::Decimal;
use crate::ir::{Graph, Number, OpKind, Type};

/// A parameter or state in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreEntry {
    /// Path, such as `h.0.attn.c_attn.weight`.
    pub name: String,
    /// Element type and shape.
    pub ty: Type,
    /// Initial value of all elements of a state. `None` for parameters, which are filled by their
    /// initializers.
    pub init: Option<Number>,
    /// Extents of the tensor of which the entry is this rank's part; empty if it is whole (see
    /// [`OpKind::State`]).
    pub whole: Vec<usize>,
    /// Offset in bytes from the start of the store.
    pub offset: u64,
}

impl StoreEntry {
    /// Returns the type of the tensor of which the entry is a shard, or the entry's own.
    pub fn whole_type(&self) -> Type {
        match self.whole.is_empty() {
            true => self.ty.clone(),
            false => Type::new(self.ty.dtype, self.whole.clone()),
        }
    }
}

/// All entries of a store. Entries are only added, so offsets remain valid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreLayout {
    entries: Vec<StoreEntry>,
    by_name: SortedMap<String, usize>,
    bytes: u64,
}

impl StoreLayout {
    /// Adds the parameters and states of a graph that are not in the store yet. Adds nothing if one of them
    /// conflicts with an entry.
    ///
    /// # Errors
    /// Returns an error if an entry with the same name has another type or initial value, or if the store
    /// would exceed the maximum size.
    pub fn extend(&mut self, graph: &Graph) -> Result<(), String> {
        let mut added = Vec::new();
        let mut bytes = self.bytes;
        for (_, op) in graph.entry_ops() {
            let (name, ty, init, whole) = match &op.kind {
                OpKind::Param { name, ty } => (name, ty, None, &[][..]),
                OpKind::State { name, ty, init, whole } => (name, ty, Some(*init), &whole[..]),
                _ => continue,
            };
            if let Some(entry) = self.get(name) {
                if entry.ty != *ty || entry.init != init || entry.whole != whole {
                    return Err(format!(
                        "the store holds `{name}` as {}{}, the program wants {ty}{}",
                        entry.ty,
                        described(entry.init),
                        described(init)
                    ));
                }
                continue;
            }
            added.push(StoreEntry {
                name: name.clone(),
                ty: ty.clone(),
                init,
                whole: whole.to_vec(),
                offset: bytes,
            });
            bytes = ty
                .bytes()
                .checked_next_multiple_of(ALIGNMENT)
                .and_then(|size| bytes.checked_add(size))
                .filter(|&total| total <= MOST_BYTES)
                .ok_or_else(|| {
                    format!("with `{name}` ({ty}), the store has more bytes than any memory can hold")
                })?;
        }
        self.bytes = bytes;
        for entry in added {
            self.by_name.insert(entry.name.clone(), self.entries.len());
            self.entries.push(entry);
        }
        Ok(())
    }

    /// Returns the entry with this name.
    pub fn get(&self, name: &str) -> Option<&StoreEntry> {
        self.by_name.get(name).map(|&i| &self.entries[i])
    }

    /// Returns all entries in the order of their offsets.
    pub fn entries(&self) -> &[StoreEntry] {
        &self.entries
    }

    /// Returns the number of bytes of all entries, including padding.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn described(init: Option<Number>) -> String {
    match init {
        Some(number) => format!(" (a state that starts as {})", Decimal::from(number.as_f64())),
        None => " (a parameter)".to_string(),
    }
}
