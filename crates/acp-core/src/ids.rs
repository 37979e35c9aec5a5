//! Maps of the engine: by numbers that are handed out one after the other, and by the names of sessions.

use std::collections::VecDeque;

use crate::connection::{LaneId, TurnId};

/// A key of an [`IdMap`].
pub(crate) trait Id: Copy {
    /// What tells this key from all others of its map, and gives it its place among them.
    fn number(self) -> u64;
}

impl Id for u64 {
    fn number(self) -> u64 {
        self
    }
}

impl Id for LaneId {
    fn number(self) -> u64 {
        self.0
    }
}

impl Id for TurnId {
    fn number(self) -> u64 {
        self.0
    }
}

/// A map in the order of its keys. New keys are mostly greater than all others, and entries mostly leave from the
/// front, so that a queue keeps the order; any key may come and go all the same.
///
/// What keeps the order is one piece of code for whatever the map holds. A `BTreeMap` for each of the engine's
/// tables was a third of all that the compiler had to translate.
#[derive(Debug)]
pub(crate) struct IdMap<K, V> {
    order: Order,
    slots: Vec<Option<(K, V)>>,
}

impl<K, V> Default for IdMap<K, V> {
    fn default() -> Self {
        Self {
            order: Order::default(),
            slots: Vec::new(),
        }
    }
}

impl<K: Id, V> IdMap<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.order.sorted.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let slot = self.order.slot(key.number())?;
        self.slots[slot].as_ref().map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let slot = self.order.slot(key.number())?;
        self.slots[slot].as_mut().map(|(_, value)| value)
    }

    /// Puts something under a key, and hands out what was there.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let slot = self.order.insert(key.number());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        let before = self.slots[slot].replace((key, value));
        before.map(|(_, value)| value)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.take_out(key.number()).map(|(_, value)| value)
    }

    fn take_out(&mut self, number: u64) -> Option<(K, V)> {
        let slot = self.order.remove(number)?;
        let removed = self.slots[slot].take();
        if self.order.is_spent() {
            self.slots = Vec::new();
        }
        removed
    }

    /// Takes out what has the least number between these two.
    pub(crate) fn pop_between(&mut self, first: u64, last: u64) -> Option<(K, V)> {
        let number = self
            .order
            .first_from(first)
            .filter(|&found| found <= last)?;
        self.take_out(number)
    }

    /// Takes out what has the least key.
    pub(crate) fn pop_first(&mut self) -> Option<V> {
        let first = self.keys().next()?;
        self.remove(&first)
    }

    /// Keeps what meets the condition.
    pub(crate) fn retain(&mut self, keep: impl Fn(&V) -> bool) {
        let gone = |(key, value)| (!keep(value)).then_some(key);
        let gone: Vec<K> = self.iter().filter_map(gone).collect();
        for key in gone {
            self.remove(&key);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// All keys, the least first.
    pub(crate) fn keys(&self) -> impl Iterator<Item = K> {
        self.iter().map(|(key, _)| key)
    }

    /// What is kept, in the order of the keys.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// What is kept, in no order.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        let taken = self.slots.iter_mut().flatten();
        taken.map(|(_, value)| value)
    }

    /// All entries, the one with the least key first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        let slots = self.order.sorted.iter();
        slots.filter_map(|&(_, slot)| {
            let (key, value) = self.slots[slot as usize].as_ref()?;
            Some((*key, value))
        })
    }
}

/// A map that becomes empty gives back the room for more than this many entries.
const KEPT: usize = 64;

/// Which slot belongs to which number.
#[derive(Debug, Default)]
struct Order {
    /// Numbers with their slots, the least first.
    sorted: VecDeque<(u64, u32)>,
    /// Slots that are free again.
    free: Vec<u32>,
}

impl Order {
    fn find(&self, number: u64) -> Result<usize, usize> {
        // Mostly the last one, or one that is new.
        match self.sorted.back() {
            None => Err(0),
            Some(&(last, _)) if last < number => Err(self.sorted.len()),
            Some(&(last, _)) if last == number => Ok(self.sorted.len() - 1),
            _ => self
                .sorted
                .binary_search_by(|(other, _)| other.cmp(&number)),
        }
    }

    fn slot(&self, number: u64) -> Option<usize> {
        // The only entry, or the next one in a queue.
        match self.sorted.front() {
            Some(&(first, slot)) if first == number => Some(slot as usize),
            _ => {
                let at = self.find(number).ok()?;
                Some(self.sorted[at].1 as usize)
            }
        }
    }

    /// The first number from this one on.
    fn first_from(&self, number: u64) -> Option<u64> {
        let (Ok(at) | Err(at)) = self.find(number);
        self.sorted.get(at).map(|&(other, _)| other)
    }

    /// The slot of a number that is new or not.
    fn insert(&mut self, number: u64) -> usize {
        match self.find(number) {
            Ok(at) => self.sorted[at].1 as usize,
            Err(at) => {
                // Every slot is taken or free: where none is free, as many are taken as there are.
                let next = || u32::try_from(self.sorted.len()).unwrap_or(u32::MAX);
                let slot = self.free.pop().unwrap_or_else(next);
                if at == self.sorted.len() {
                    self.sorted.push_back((number, slot));
                } else {
                    self.sorted.insert(at, (number, slot));
                }
                slot as usize
            }
        }
    }

    /// The slot that is free now.
    fn remove(&mut self, number: u64) -> Option<usize> {
        let (_, slot) = match self.sorted.front() {
            Some(&(first, _)) if first == number => self.sorted.pop_front()?,
            _ => {
                let at = self.find(number).ok()?;
                self.sorted.remove(at)?
            }
        };
        self.free.push(slot);
        if self.sorted.is_empty() && self.free.len() > KEPT {
            *self = Self::default();
        }
        Some(slot as usize)
    }

    /// Whether there are no slots, neither taken nor free.
    fn is_spent(&self) -> bool {
        self.sorted.is_empty() && self.free.is_empty()
    }
}

/// Which lane a session belongs to. An agent has few sessions, and one of them is looked up for every update.
#[derive(Debug, Default)]
pub(crate) struct LaneOfSession {
    /// In the order of the names.
    sorted: Vec<(String, LaneId)>,
}

impl LaneOfSession {
    pub(crate) fn get(&self, session_id: &str) -> Option<&LaneId> {
        let at = self.find(session_id).ok()?;
        Some(&self.sorted[at].1)
    }

    pub(crate) fn contains(&self, session_id: &str) -> bool {
        self.find(session_id).is_ok()
    }

    pub(crate) fn insert(&mut self, session_id: String, lane: LaneId) {
        match self.find(&session_id) {
            Ok(at) => self.sorted[at].1 = lane,
            Err(at) => self.sorted.insert(at, (session_id, lane)),
        }
    }

    pub(crate) fn remove(&mut self, session_id: &str) {
        if let Ok(at) = self.find(session_id) {
            self.sorted.remove(at);
        }
    }

    fn find(&self, session_id: &str) -> Result<usize, usize> {
        self.sorted
            .binary_search_by(|(other, _)| other.as_str().cmp(session_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Debug, Clone)]
    enum Step {
        /// A key greater than all that were.
        InsertNext,
        Insert(u64),
        Remove(u64),
        PopFirst,
        PopBetween(u64, u64),
        Change(u64),
        ChangeAll,
        KeepEven,
        Clear,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let key = 0..200u64;
        let step = prop_oneof![
            8 => Just(Step::InsertNext),
            2 => key.clone().prop_map(Step::Insert),
            6 => key.clone().prop_map(Step::Remove),
            3 => Just(Step::PopFirst),
            2 => (key.clone(), key.clone()).prop_map(|(first, last)| Step::PopBetween(first, last)),
            2 => key.prop_map(Step::Change),
            1 => Just(Step::ChangeAll),
            1 => Just(Step::KeepEven),
            1 => Just(Step::Clear),
        ];
        prop::collection::vec(step, 0..400)
    }

    proptest! {
        #[test]
        fn it_is_an_ordered_map(steps in steps()) {
            let (mut map, mut model) = (IdMap::<u64, u32>::default(), BTreeMap::<u64, u32>::new());
            let mut next = 0;
            for (value, step) in (0..).zip(steps) {
                match step {
                    Step::InsertNext => {
                        prop_assert_eq!(map.insert(next, value), model.insert(next, value));
                        next += 1;
                    }
                    Step::Insert(key) => {
                        prop_assert_eq!(map.insert(key, value), model.insert(key, value));
                        next = next.max(key + 1);
                    }
                    Step::Remove(key) => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    Step::PopFirst => {
                        let first = model.pop_first().map(|(_, value)| value);
                        prop_assert_eq!(map.pop_first(), first);
                    }
                    Step::PopBetween(first, last) => {
                        let mut keys = model.keys().copied();
                        let key = keys.find(|key| (first..=last).contains(key));
                        let entry = key.and_then(|key| model.remove_entry(&key));
                        prop_assert_eq!(map.pop_between(first, last), entry);
                    }
                    Step::Change(key) => {
                        let (changed, same) = (map.get_mut(&key), model.get_mut(&key));
                        prop_assert_eq!(&changed, &same);
                        changed.into_iter().chain(same).for_each(|kept| *kept = value);
                    }
                    Step::ChangeAll => {
                        let all = map.values_mut().chain(model.values_mut());
                        all.for_each(|kept| *kept = kept.wrapping_mul(3));
                    }
                    Step::KeepEven => {
                        map.retain(|kept| kept % 2 == 0);
                        model.retain(|_, kept| *kept % 2 == 0);
                    }
                    Step::Clear => (map.clear(), model.clear()).0,
                }
                let all: Vec<_> = map.iter().map(|(key, kept)| (key, *kept)).collect();
                let same: Vec<_> = model.iter().map(|(key, kept)| (*key, *kept)).collect();
                prop_assert_eq!(all, same);
                prop_assert_eq!(map.len(), model.len());
                prop_assert!(map.slots.len() <= map.len() + map.order.free.len());
                for key in 0..200 {
                    prop_assert_eq!(map.get(&key), model.get(&key));
                }
            }
        }
    }

    #[test]
    fn sessions_are_found_by_name() {
        let mut lanes = LaneOfSession::default();
        for (lane, name) in (0..).zip(["b", "a", "c", "ab", "b"]) {
            lanes.insert(name.to_owned(), LaneId(lane));
        }
        lanes.remove("c");
        lanes.remove("d");
        for (name, lane) in [("a", Some(1)), ("ab", Some(3)), ("b", Some(4)), ("c", None)] {
            assert_eq!(lanes.get(name).copied(), lane.map(LaneId));
            assert_eq!(lanes.contains(name), lane.is_some());
        }
    }

    #[test]
    fn room_is_used_again_and_given_back() {
        let mut map = IdMap::default();
        for key in 0..100_000u64 {
            map.insert(key, key);
            if key >= 3 {
                assert_eq!(map.remove(&(key - 3)), Some(key - 3));
            }
        }
        assert_eq!(map.slots.len(), 4);
        for key in 0..10_000 {
            map.insert(key, key);
        }
        map.retain(|_| false);
        assert!(
            map.is_empty() && map.slots.len() <= KEPT,
            "{}",
            map.slots.len()
        );
    }
}
