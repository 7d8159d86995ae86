//! The layout of a store: names, types and offsets of parameters and states, stable while programs come and
//! go.

use super::{ALIGNMENT, MOST_BYTES};
use crate::collections::SortedMap;
use crate::decimal::Decimal;
use crate::ir::{Graph, Number, OpKind, Type};

/// One parameter or state.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreEntry {
    /// Path, as `h.0.attn.c_attn.weight`.
    pub name: String,
    /// Element type and shape.
    pub ty: Type,
    /// The value of every element at the start, for a state; parameters are filled by their initialisers.
    pub init: Option<Number>,
    /// Bytes from the start of the store.
    pub offset: u64,
}

/// All entries of a store. It only grows, so offsets stay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreLayout {
    entries: Vec<StoreEntry>,
    by_name: SortedMap<String, usize>,
    bytes: u64,
}

impl StoreLayout {
    /// Adds the parameters and states of a graph that are not there yet; nothing if one of them does not
    /// agree.
    ///
    /// # Errors
    /// When an entry of that name has another type, or a state another initial value.
    pub fn extend(&mut self, graph: &Graph) -> Result<(), String> {
        let mut added = Vec::new();
        let mut bytes = self.bytes;
        for (_, op) in graph.entry_ops() {
            let (name, ty, init) = match &op.kind {
                OpKind::Param { name, ty } => (name, ty, None),
                OpKind::State { name, ty, init } => (name, ty, Some(*init)),
                _ => continue,
            };
            if let Some(entry) = self.get(name) {
                if entry.ty != *ty || entry.init != init {
                    return Err(format!(
                        "the store holds `{name}` as {}{}, the program wants {ty}{}",
                        entry.ty,
                        described(entry.init),
                        described(init)
                    ));
                }
                continue;
            }
            added.push(StoreEntry { name: name.clone(), ty: ty.clone(), init, offset: bytes });
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

    /// Returns the entry of this name.
    pub fn get(&self, name: &str) -> Option<&StoreEntry> {
        self.by_name.get(name).map(|&i| &self.entries[i])
    }

    /// Returns all entries in the order of their offsets.
    pub fn entries(&self) -> &[StoreEntry] {
        &self.entries
    }

    /// Returns the number of bytes of all entries with their padding.
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
