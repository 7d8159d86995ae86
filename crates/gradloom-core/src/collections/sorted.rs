//! Maps and sets stored as sorted lists, for small collections and those that rarely grow after they are
//! built.

use std::borrow::Borrow;
use std::ops::Index;

/// A map that iterates in key order. Inserting or removing an entry moves all entries after it.
#[derive(Clone, Debug, PartialEq)]
pub struct SortedMap<K, V> {
    entries: Vec<(K, V)>,
}

impl<K: Ord, V> SortedMap<K, V> {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if the map is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns a reference to the value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let place = self.place(key).ok()?;
        Some(&self.entries[place].1)
    }

    /// Returns a mutable reference to the value of a key.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let place = self.place(key).ok()?;
        Some(&mut self.entries[place].1)
    }

    /// Returns `true` if a key has an entry.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.place(key).is_ok()
    }

    /// Sets the value of a key. Returns the previous value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Ok(place) => Some(std::mem::replace(&mut self.entries[place].1, value)),
            Err(place) => {
                self.entries.insert(place, (key, value));
                None
            }
        }
    }

    /// Returns a mutable reference to the value of a key, after inserting `value()` if the key is new.
    pub fn get_or_insert_with(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        let place = self.place(&key).unwrap_or_else(|place| {
            self.entries.insert(place, (key, value()));
            place
        });
        &mut self.entries[place].1
    }

    /// Removes and returns the last entry before a key if it satisfies `is_wanted`.
    pub fn take_before(&mut self, key: &K, is_wanted: impl FnOnce(&K, &V) -> bool) -> Option<(K, V)> {
        let place = self.entries.partition_point(|(known, _)| known < key).checked_sub(1)?;
        let (known, value) = &self.entries[place];
        is_wanted(known, value).then(|| self.entries.remove(place))
    }

    /// Retains the entries whose values satisfy `is_wanted`.
    pub fn retain(&mut self, is_wanted: impl Fn(&V) -> bool) {
        self.entries.retain(|(_, value)| is_wanted(value));
    }

    /// Iterates over the keys and their values in key order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// Iterates over the keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> {
        self.entries.iter().map(|(key, _)| key)
    }

    fn place<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.entries.binary_search_by(|(known, _)| known.borrow().cmp(key))
    }
}

impl<K: Ord, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Borrow<Q>, Q: Ord + ?Sized, V> Index<&Q> for SortedMap<K, V> {
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("the map has the key")
    }
}

impl<K: Ord, V> Extend<(K, V)> for SortedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for SortedMap<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K, V> IntoIterator for SortedMap<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

/// A set that iterates in element order. Inserting an element moves all elements after it.
#[derive(Clone, Debug, PartialEq)]
pub struct SortedSet<K> {
    keys: Vec<K>,
}

impl<K: Ord> SortedSet<K> {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self { keys: Vec::new() }
    }

    /// Inserts an element. Returns `true` if it is new.
    pub fn insert(&mut self, key: K) -> bool {
        let place = self.keys.binary_search(&key);
        let is_new = place.is_err();
        if let Err(place) = place {
            self.keys.insert(place, key);
        }
        is_new
    }

    /// Returns `true` if the set contains an element.
    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.keys.binary_search_by(|known| known.borrow().cmp(key)).is_ok()
    }

    /// Iterates over the elements in order.
    pub fn iter(&self) -> std::slice::Iter<'_, K> {
        self.keys.iter()
    }
}

impl<K: Ord> Default for SortedSet<K> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn holds_what_a_tree_holds() {
        let (mut map, mut expected) = (SortedMap::new(), BTreeMap::new());
        for i in 0..2000u32 {
            let key = i * 7919 % 61;
            if i % 3 == 0 {
                let before = expected.range(..key).next_back().map(|(&k, &v)| (k, v));
                let wanted = before.filter(|(_, value)| value % 2 == 0);
                assert_eq!(map.take_before(&key, |_, value| value % 2 == 0), wanted);
                wanted.map(|(key, _)| expected.remove(&key));
            } else {
                assert_eq!(map.insert(key, i), expected.insert(key, i));
            }
            assert!(map.iter().eq(&expected));
            assert!((0..61).all(|key| map.get(&key) == expected.get(&key)));
        }
    }
}
