//! Typed ids and the arena that they index.
//!
//! Each kind of id is a distinct type, so a value's id cannot be used to look up an op.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A typed index into an [`Arena`].
pub trait Id: Copy {
    /// Returns the id of the entry at `index`.
    fn from_index(index: usize) -> Self;
    /// Returns the index of the entry in its arena.
    fn index(self) -> usize;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
        impl Id for $name {
            fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("more than 2^32 entries in one graph"))
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

id!(
    /// Id of an SSA value: a result of an op or a parameter of a block.
    ValueId,
    "%"
);
id!(
    /// Id of an operation.
    OpId,
    "op"
);
id!(
    /// Id of a block: a sequence of ops with parameters and results.
    BlockId,
    "^"
);
id!(
    /// Id of a source position.
    OriginId,
    "@"
);

/// A growable list indexed by typed ids. Entries are never removed.
#[derive(Clone, PartialEq)]
pub struct Arena<I, T> {
    entries: Vec<T>,
    id: PhantomData<I>,
}

impl<I: Id, T> Arena<I, T> {
    /// Creates an arena without entries.
    pub fn new() -> Self {
        Self { entries: Vec::new(), id: PhantomData }
    }

    /// Adds an entry and returns its id.
    pub fn push(&mut self, entry: T) -> I {
        self.entries.push(entry);
        I::from_index(self.entries.len() - 1)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entry with this id, or `None` if the id is out of range.
    pub fn get(&self, id: I) -> Option<&T> {
        self.entries.get(id.index())
    }

    /// Iterates over ids and entries in insertion order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (I, &T)> + DoubleEndedIterator {
        self.entries.iter().enumerate().map(|(i, e)| (I::from_index(i), e))
    }
}

impl<I: Id, T> Default for Arena<I, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Id, T: fmt::Debug> fmt::Debug for Arena<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.fmt(f)
    }
}

impl<I: Id, T> Index<I> for Arena<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        &self.entries[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Arena<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.entries[id.index()]
    }
}
