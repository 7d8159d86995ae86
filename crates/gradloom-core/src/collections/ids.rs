//! Maps and sets of typed ids, in the order in which these were added.
//!
//! One hash table, that of [`Places`], serves them all: a map of its own for each pair of types is 2 KB of
//! machine code a pair.

use super::hash::Mixer;
use crate::ir::Id;
use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasherDefault;
use std::ops::Index;

/// Keys of the maps and sets of this module.
pub trait Key: Copy {
    /// The number that is the key's alone.
    fn number(self) -> u64;
}

impl<I: Id> Key for I {
    fn number(self) -> u64 {
        self.index() as u64
    }
}

impl Key for u64 {
    fn number(self) -> u64 {
        self
    }
}

/// The position of each id's entry in a list.
#[derive(Clone, Debug, Default)]
struct Places(HashMap<u64, usize, BuildHasherDefault<Mixer>>);

impl Places {
    fn get(&self, id: u64) -> Option<usize> {
        self.0.get(&id).copied()
    }

    /// The place of an id; a new one gets `next`.
    fn get_or_add(&mut self, id: u64, next: usize) -> usize {
        *self.0.entry(id).or_insert(next)
    }

    /// Forgets an id and gives its place to that of the list's last entry.
    fn replace(&mut self, id: u64, last: u64) -> Option<usize> {
        let place = self.0.remove(&id)?;
        if last != id {
            self.0.insert(last, place);
        }
        Some(place)
    }
}

/// A map from ids; its entries come in the order in which their ids were first added.
#[derive(Clone)]
pub struct IdMap<K, V> {
    places: Places,
    entries: Vec<(K, V)>,
}

impl<K: Key, V> IdMap<K, V> {
    /// A map without entries.
    pub fn new() -> Self {
        Self { places: Places::default(), entries: Vec::new() }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether an id has an entry.
    pub fn contains_key(&self, id: &K) -> bool {
        self.places.get(id.number()).is_some()
    }

    /// The value of an id.
    pub fn get(&self, id: &K) -> Option<&V> {
        let place = self.places.get(id.number())?;
        Some(&self.entries[place].1)
    }

    /// The value of an id, to change it.
    pub fn get_mut(&mut self, id: &K) -> Option<&mut V> {
        let place = self.places.get(id.number())?;
        Some(&mut self.entries[place].1)
    }

    /// The value of an id; a new id gets `value()`.
    pub fn get_or_insert_with(&mut self, id: K, value: impl FnOnce() -> V) -> &mut V {
        let place = self.places.get_or_add(id.number(), self.entries.len());
        if place == self.entries.len() {
            self.entries.push((id, value()));
        }
        &mut self.entries[place].1
    }

    /// Sets what stands for an id, and gives what stood there before.
    pub fn insert(&mut self, id: K, value: V) -> Option<V> {
        let place = self.places.get_or_add(id.number(), self.entries.len());
        if place == self.entries.len() {
            self.entries.push((id, value));
            return None;
        }
        Some(std::mem::replace(&mut self.entries[place].1, value))
    }

    /// Ids and what stands for them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &V)> {
        self.entries.iter().map(|(id, value)| (id, value))
    }

    /// The ids, in the order in which they were added.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> {
        self.entries.iter().map(|(id, _)| id)
    }

    /// The values of the ids.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> {
        self.entries.iter().map(|(_, value)| value)
    }
}

impl<K: Key, V> Default for IdMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, V: PartialEq> PartialEq for IdMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(id, value)| other.get(id) == Some(value))
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for IdMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.entries.iter().map(|(id, value)| (id, value))).finish()
    }
}

impl<K: Key, V> Index<&K> for IdMap<K, V> {
    type Output = V;

    fn index(&self, id: &K) -> &V {
        self.get(id).expect("the map has the id")
    }
}

impl<K: Key, V> Extend<(K, V)> for IdMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (id, value) in entries {
            self.insert(id, value);
        }
    }
}

impl<K: Key, V> FromIterator<(K, V)> for IdMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

/// A set of ids; they come in the order in which they were added, as long as none is removed.
#[derive(Clone)]
pub struct IdSet<K> {
    places: Places,
    ids: Vec<K>,
}

impl<K: Key> IdSet<K> {
    /// A set without ids.
    pub fn new() -> Self {
        Self { places: Places::default(), ids: Vec::new() }
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Whether the set has an id.
    pub fn contains(&self, id: &K) -> bool {
        self.places.get(id.number()).is_some()
    }

    /// Adds an id; whether it is new.
    pub fn insert(&mut self, id: K) -> bool {
        let next = self.ids.len();
        let is_new = self.places.get_or_add(id.number(), next) == next;
        if is_new {
            self.ids.push(id);
        }
        is_new
    }

    /// Takes an id away, and the last one takes its place; whether it was there.
    pub fn remove(&mut self, id: &K) -> bool {
        let Some(last) = self.ids.last() else { return false };
        let place = self.places.replace(id.number(), last.number());
        place.is_some_and(|place| {
            self.ids.swap_remove(place);
            true
        })
    }

    /// The ids, in the order in which they were added.
    pub fn iter(&self) -> std::slice::Iter<'_, K> {
        self.ids.iter()
    }
}

impl<K: Key> Default for IdSet<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: fmt::Debug> fmt::Debug for IdSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(&self.ids).finish()
    }
}

impl<K: Key> Extend<K> for IdSet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, ids: I) {
        for id in ids {
            self.insert(id);
        }
    }
}

impl<'s, K: Key + 's> Extend<&'s K> for IdSet<K> {
    fn extend<I: IntoIterator<Item = &'s K>>(&mut self, ids: I) {
        self.extend(ids.into_iter().copied());
    }
}

impl<K: Key> FromIterator<K> for IdSet<K> {
    fn from_iter<I: IntoIterator<Item = K>>(ids: I) -> Self {
        let mut set = Self::new();
        set.extend(ids);
        set
    }
}

impl<K: Key, const N: usize> From<[K; N]> for IdSet<K> {
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
        let (mut set, mut expected) = (IdSet::new(), HashSet::new());
        for i in 0..2000u32 {
            let id = OpId(i * 7919 % 61);
            if i % 3 == 0 {
                assert_eq!(set.remove(&id), expected.remove(&id));
            } else {
                assert_eq!(set.insert(id), expected.insert(id));
            }
            assert!((0..61).all(|j| set.contains(&OpId(j)) == expected.contains(&OpId(j))));
            assert_eq!(set.iter().copied().collect::<HashSet<_>>(), expected);
            assert_eq!(set.len(), expected.len());
        }
    }
}
