//! Insertion-ordered maps and sets of the ids of one graph, implemented as sparse sets (Briggs and Torczon,
//! 1993): a list of ids plus a table of their positions.
//!
//! Ids count from 0, so the table is never longer than the graph's id range. Short lists are searched
//! linearly and have no table, which saves memory when each op or kernel of a large graph has a map. For
//! other keys, use [`SortedMap`](super::SortedMap).

use crate::ir::Id;
use std::fmt;
use std::ops::Index;

/// Maximum length of a list without a position table.
const FEW: usize = 16;

/// A set of ids. Iterates in insertion order as long as no id is removed.
#[derive(Clone)]
pub struct IdSet<K> {
    ids: Vec<K>,
    /// Position of each id in the list, indexed by id; the entry of an absent id is arbitrary.
    positions: Vec<u32>,
}

impl<K: Id> IdSet<K> {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self { ids: Vec::new(), positions: Vec::new() }
    }

    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns `true` if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns `true` if the set contains an id.
    pub fn contains(&self, id: &K) -> bool {
        self.position(id).is_some()
    }

    /// Returns the position of an id in the order of [`IdSet::iter`].
    pub fn position(&self, id: &K) -> Option<usize> {
        let is_it = |known: &K| known.index() == id.index();
        if self.positions.is_empty() {
            return self.ids.iter().position(is_it);
        }
        let position = *self.positions.get(id.index())? as usize;
        self.ids.get(position).is_some_and(is_it).then_some(position)
    }

    /// Inserts an id. Returns `true` if it is new.
    pub fn insert(&mut self, id: K) -> bool {
        let is_new = !self.contains(&id);
        if is_new {
            self.ids.push(id);
            match self.ids.len() {
                len if !self.positions.is_empty() => self.note(len - 1),
                len if len > FEW => (0..len).for_each(|position| self.note(position)),
                _ => {}
            }
        }
        is_new
    }

    /// Records the position of a listed id in the table.
    fn note(&mut self, position: usize) {
        let index = self.ids[position].index();
        if index >= self.positions.len() {
            self.positions.resize(index + 1, 0);
        }
        self.positions[index] = position as u32;
    }

    /// Removes an id and moves the last id to its position. Returns `true` if the id was present.
    pub fn remove(&mut self, id: &K) -> bool {
        let Some(position) = self.position(id) else { return false };
        self.ids.swap_remove(position);
        if position < self.ids.len() && !self.positions.is_empty() {
            self.note(position);
        }
        true
    }

    /// Keeps the first `len` ids and the allocated capacity.
    pub fn truncate(&mut self, len: usize) {
        self.ids.truncate(len);
    }

    /// Iterates over the ids in insertion order.
    pub fn iter(&self) -> std::slice::Iter<'_, K> {
        self.ids.iter()
    }
}

impl<K: Id> Default for IdSet<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: fmt::Debug> fmt::Debug for IdSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(&self.ids).finish()
    }
}

impl<K: Id> Extend<K> for IdSet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, ids: I) {
        for id in ids {
            self.insert(id);
        }
    }
}

impl<'s, K: Id + 's> Extend<&'s K> for IdSet<K> {
    fn extend<I: IntoIterator<Item = &'s K>>(&mut self, ids: I) {
        self.extend(ids.into_iter().copied());
    }
}

impl<K: Id> FromIterator<K> for IdSet<K> {
    fn from_iter<I: IntoIterator<Item = K>>(ids: I) -> Self {
        let mut set = Self::new();
        set.extend(ids);
        set
    }
}

impl<K: Id, const N: usize> From<[K; N]> for IdSet<K> {
    fn from(ids: [K; N]) -> Self {
        ids.into_iter().collect()
    }
}

impl<'s, K> IntoIterator for &'s IdSet<K> {
    type Item = &'s K;
    type IntoIter = std::slice::Iter<'s, K>;

    fn into_iter(self) -> Self::IntoIter {
        self.ids.iter()
    }
}

/// A map with ids as keys. Iterates in the order in which the ids were first inserted.
#[derive(Clone)]
pub struct IdMap<K, V> {
    ids: IdSet<K>,
    values: Vec<V>,
}

impl<K: Id, V> IdMap<K, V> {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self { ids: IdSet::new(), values: Vec::new() }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns `true` if the map is empty.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns `true` if an id has an entry.
    pub fn contains_key(&self, id: &K) -> bool {
        self.ids.contains(id)
    }

    /// Returns a reference to the value of an id.
    pub fn get(&self, id: &K) -> Option<&V> {
        self.ids.position(id).map(|position| &self.values[position])
    }

    /// Returns a mutable reference to the value of an id.
    pub fn get_mut(&mut self, id: &K) -> Option<&mut V> {
        self.ids.position(id).map(|position| &mut self.values[position])
    }

    /// Returns a mutable reference to the value of an id, after inserting `value()` if the id is new.
    pub fn get_or_insert_with(&mut self, id: K, value: impl FnOnce() -> V) -> &mut V {
        let position = self.ids.position(&id).unwrap_or_else(|| {
            self.ids.insert(id);
            self.values.push(value());
            self.values.len() - 1
        });
        &mut self.values[position]
    }

    /// Sets the value of an id. Returns the previous value.
    pub fn insert(&mut self, id: K, value: V) -> Option<V> {
        if let Some(known) = self.get_mut(&id) {
            return Some(std::mem::replace(known, value));
        }
        self.ids.insert(id);
        self.values.push(value);
        None
    }

    /// Iterates over the ids and their values, in the order in which the ids were first inserted.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &V)> {
        self.ids.iter().zip(&self.values)
    }

    /// Iterates over the ids in insertion order.
    pub fn keys(&self) -> std::slice::Iter<'_, K> {
        self.ids.iter()
    }

    /// Iterates over the values in the insertion order of their ids.
    pub fn values(&self) -> std::slice::Iter<'_, V> {
        self.values.iter()
    }
}

impl<K: Id, V> Default for IdMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Id, V: PartialEq> PartialEq for IdMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(id, value)| other.get(id) == Some(value))
    }
}

impl<K: Id + fmt::Debug, V: fmt::Debug> fmt::Debug for IdMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Id, V> Index<&K> for IdMap<K, V> {
    type Output = V;

    fn index(&self, id: &K) -> &V {
        self.get(id).expect("the map has the id")
    }
}

impl<K: Id, V> Extend<(K, V)> for IdMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (id, value) in entries {
            self.insert(id, value);
        }
    }
}

impl<K: Id, V> FromIterator<(K, V)> for IdMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::OpId;
    use std::collections::HashSet;

    #[test]
    fn a_map_keeps_what_was_set_last_and_the_order_of_the_first() {
        let mut map: IdMap<OpId, &str> = [(OpId(7), "a"), (OpId(2), "b")].into_iter().collect();
        assert_eq!(map.insert(OpId(7), "c"), Some("a"));
        assert_eq!(map.insert(OpId(9), "d"), None);
        assert_eq!(*map.get_or_insert_with(OpId(2), || "e"), "b");
        assert_eq!(*map.get_or_insert_with(OpId(1), || "e"), "e");
        *map.get_mut(&OpId(9)).unwrap() = "f";
        let entries = [(&OpId(7), &"c"), (&OpId(2), &"b"), (&OpId(9), &"f"), (&OpId(1), &"e")];
        assert!(map.iter().eq(entries));
        assert_eq!((map.get(&OpId(3)), map[&OpId(2)], map.len()), (None, "b", 4));
        let reversed: IdMap<OpId, &str> = entries.into_iter().rev().map(|(&id, &v)| (id, v)).collect();
        assert_eq!(map, reversed);
        map.insert(OpId(2), "x");
        assert_ne!(map, reversed);
    }

    #[test]
    fn a_set_holds_what_a_hash_set_holds() {
        for most in [8, 61] {
            let (mut set, mut expected) = (IdSet::new(), HashSet::new());
            for i in 0..2000u32 {
                let id = OpId(i * 7919 % most);
                match i % 100 {
                    99 => {
                        set.truncate(5);
                        expected = set.iter().copied().collect();
                        assert_eq!(expected.len(), set.len().min(5));
                    }
                    step if step % 3 == 0 => assert_eq!(set.remove(&id), expected.remove(&id)),
                    _ => assert_eq!(set.insert(id), expected.insert(id)),
                }
                assert!((0..most).all(|j| set.contains(&OpId(j)) == expected.contains(&OpId(j))));
                assert_eq!(set.iter().copied().collect::<HashSet<_>>(), expected);
                assert!(set.iter().enumerate().all(|(position, id)| set.position(id) == Some(position)));
            }
        }
    }
}
