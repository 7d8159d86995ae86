//! Source locations of ops.
//!
//! Origins are interned positions rather than `&'static Location`s, because they can also come from the text
//! form or from JavaScript.

use super::{Arena, OriginId};
use crate::collections::SortedMap;
use std::fmt;

/// A position in a source file. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Path as reported by the Rust compiler or the script engine.
    pub file: String,
    /// Line number, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Origin {
    /// Returns the position of the caller of the nearest `#[track_caller]` function.
    #[track_caller]
    pub fn caller() -> Self {
        Self::from(std::panic::Location::caller())
    }
}

impl From<&std::panic::Location<'_>> for Origin {
    fn from(location: &std::panic::Location<'_>) -> Self {
        Self { file: location.file().to_string(), line: location.line(), column: location.column() }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The interned origins of one graph. Equal positions have equal ids.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    entries: Arena<OriginId, Origin>,
    ids: SortedMap<Origin, OriginId>,
}

impl Origins {
    /// Returns the id of a position, after interning it if it is new.
    pub fn intern(&mut self, origin: Origin) -> OriginId {
        if let Some(&id) = self.ids.get(&origin) {
            return id;
        }
        let id = self.entries.push(origin.clone());
        self.ids.insert(origin, id);
        id
    }

    /// Returns the position with this id.
    pub fn get(&self, id: OriginId) -> Option<&Origin> {
        self.entries.get(id)
    }

    /// Iterates over all positions in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (OriginId, &Origin)> {
        self.entries.iter()
    }
}
