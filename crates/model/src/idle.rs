//! What connectors keep open from one stream of a job to the next.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// A shelf for connections that are free for now. Of a job of one stream it keeps nothing; where there are many streams, opening a
/// connection for each of them may take longer than their rows.
#[derive(Clone, Default)]
pub struct Idle(Option<Arc<Mutex<Shelf>>>);

type Shelf = Vec<Box<dyn Any + Send>>;

impl Idle {
    /// One that keeps what it is given, for as long as a copy of it lives.
    pub fn kept() -> Self {
        Self(Some(Arc::default()))
    }

    /// Whether anything is kept at all.
    pub fn keeps(&self) -> bool {
        self.0.is_some()
    }

    /// Takes the latest thing of this type that fits.
    pub fn take<T: Any>(&self, fits: impl Fn(&T) -> bool) -> Option<T> {
        let mut shelf = self.shelf()?;
        let at = shelf.iter().rposition(|thing| thing.downcast_ref().is_some_and(&fits))?;
        shelf.remove(at).downcast().ok().map(|thing| *thing)
    }

    /// Gives a thing back.
    pub fn give<T: Any + Send>(&self, thing: T) {
        if let Some(mut shelf) = self.shelf() {
            shelf.push(Box::new(thing));
        }
    }

    /// How many things of this type fit.
    pub fn count<T: Any>(&self, fits: impl Fn(&T) -> bool) -> usize {
        self.shelf().map_or(0, |shelf| shelf.iter().filter(|thing| thing.downcast_ref().is_some_and(&fits)).count())
    }

    fn shelf(&self) -> Option<std::sync::MutexGuard<'_, Shelf>> {
        self.0.as_ref().map(|shelf| shelf.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idle").field("things", &self.shelf().map(|shelf| shelf.len())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_that_fits_comes_back_once() {
        let idle = Idle::kept();
        (1..=4_u32).for_each(|n| idle.give(n));
        idle.give("text");
        assert_eq!((idle.count(|n: &u32| *n < 3), idle.take(|n: &u32| *n < 3), idle.take(|n: &u32| *n < 3)), (2, Some(2), Some(1)));
        assert_eq!((idle.take(|n: &u32| *n < 3), idle.take(|t: &&str| !t.is_empty())), (None, Some("text")));
        let none = Idle::default();
        none.give(1_u32);
        assert_eq!((none.keeps(), none.take(|_: &u32| true)), (false, None));
    }
}
