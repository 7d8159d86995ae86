//! A map from ids to values.

/// A map with few entries, of which the newest are used most.
#[derive(Debug)]
pub(crate) struct Ids<T>(Vec<(usize, T)>);

impl<T> Default for Ids<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Ids<T> {
    /// Adds a value under a new id.
    pub(crate) fn insert(&mut self, id: usize, thing: T) {
        self.0.push((id, thing));
    }

    fn position(&self, id: usize) -> Option<usize> {
        self.0.iter().rposition(|(known, _)| *known == id)
    }

    pub(crate) fn get(&self, id: usize) -> Option<&T> {
        self.position(id).map(|i| &self.0[i].1)
    }

    pub(crate) fn get_mut(&mut self, id: usize) -> Option<&mut T> {
        self.position(id).map(|i| &mut self.0[i].1)
    }

    pub(crate) fn remove(&mut self, id: usize) -> Option<T> {
        self.position(id).map(|i| self.0.remove(i).1)
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.0.retain(|(_, thing)| keep(thing));
    }
}
