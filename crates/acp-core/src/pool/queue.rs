//! Who waits, in a fair order: keys take turns, and callers of one key come in the order of their arrival.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::digest::Digests;

/// Whose text a lane may hold. Callers without a key are a group of their own.
pub(crate) type Key = Option<Arc<str>>;

/// One caller that wants a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(super) u64);

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) ticket: Ticket,
    pub(super) request: Digests,
    pub(super) since: Instant,
}

#[derive(Debug, Default)]
pub(super) struct FairQueue {
    /// Keys with somebody who waits; the first one is the next to be served.
    order: VecDeque<Key>,
    waiting: HashMap<Key, VecDeque<Waiting>>,
    key_of: HashMap<Ticket, Key>,
}

impl FairQueue {
    pub(super) fn len(&self) -> usize {
        self.key_of.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.key_of.is_empty()
    }

    pub(super) fn push(&mut self, key: Key, waiting: Waiting) {
        self.key_of.insert(waiting.ticket, key.clone());
        let of_key = self.waiting.entry(key.clone()).or_default();
        if of_key.is_empty() {
            self.order.push_back(key);
        }
        of_key.push_back(waiting);
    }

    /// The first one of each key, in the order in which the keys are to be served.
    pub(super) fn heads(&self) -> impl Iterator<Item = (&Key, &Waiting)> {
        self.order.iter().filter_map(|key| {
            let head = self.waiting.get(key)?.front()?;
            Some((key, head))
        })
    }

    /// Takes the first one of this key, whose next one then comes after all other keys.
    pub(super) fn serve(&mut self, key: &Key) -> Option<Waiting> {
        let of_key = self.waiting.get_mut(key)?;
        let served = of_key.pop_front()?;
        let more = !of_key.is_empty();
        self.key_of.remove(&served.ticket);
        self.order.retain(|other| other != key);
        if more {
            self.order.push_back(key.clone());
        } else {
            self.waiting.remove(key);
        }
        Some(served)
    }

    /// Takes the one who is to be served next.
    pub(super) fn serve_next(&mut self) -> Option<Waiting> {
        let key = self.order.front()?.clone();
        self.serve(&key)
    }

    /// Takes out one who waits no more; whether it did.
    pub(super) fn leave(&mut self, ticket: Ticket) -> bool {
        let Some(key) = self.key_of.remove(&ticket) else {
            return false;
        };
        if let Some(of_key) = self.waiting.get_mut(&key) {
            of_key.retain(|waiting| waiting.ticket != ticket);
            if of_key.is_empty() {
                self.waiting.remove(&key);
                self.order.retain(|other| *other != key);
            }
        }
        true
    }
}
