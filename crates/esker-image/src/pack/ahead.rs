//! Work that is begun before anybody needs what comes of it.
//!
//! Above: `data`, `incoming`. Below: `pool`, whose threads do it when they come to it. Invariant: it is done once, by
//! one of them or, if it may, by whoever needs it and finds it not begun.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Error, Result};

/// Something that is to be changed.
pub(super) struct Ahead<T> {
    /// What nobody began with.
    waiting: Arc<Mutex<Option<T>>>,
    done: Receiver<T>,
    act: Box<dyn FnOnce(&mut T) + Send>,
}

/// What a thread does.
pub(super) type Act = Box<dyn FnOnce() + Send>;

impl<T: Send + 'static> Ahead<T> {
    /// `act` is done to `thing`; also what a thread is to do for that.
    pub fn new(thing: T, act: impl FnOnce(&mut T) + Clone + Send + 'static) -> (Self, Act) {
        let waiting = Arc::new(Mutex::new(Some(thing)));
        let (sender, done) = channel();
        let (other, own) = (Arc::clone(&waiting), act.clone());
        let begin = move || {
            if let Some(mut thing) = begun(&other) {
                own(&mut thing);
                // Nobody may want it any more.
                let _ = sender.send(thing);
            }
        };
        (Self { waiting, done, act: Box::new(act) }, Box::new(begin))
    }

    /// The thing, once that is done.
    ///
    /// # Errors
    /// `Stopped`: the thread that did it is no more.
    pub fn get(self) -> Result<T> {
        if let Some(mut thing) = begun(&self.waiting) {
            (self.act)(&mut thing);
            return Ok(thing);
        }
        self.wait()
    }

    /// The thing, once a thread has done that: it takes what only threads have.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn wait(self) -> Result<T> {
        self.done.recv().map_err(|_| Error::Stopped)
    }
}

/// What is waiting, for who begins.
fn begun<T>(waiting: &Mutex<Option<T>>) -> Option<T> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl<T> std::fmt::Debug for Ahead<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ahead")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double(number: &mut u32) {
        *number *= 2;
    }

    #[test]
    fn it_is_done_once_by_whoever_is_first() {
        let (ahead, act) = Ahead::new(21, double);
        let thread = std::thread::spawn(act);
        thread.join().unwrap();
        assert_eq!(ahead.get().unwrap(), 42);
        let (ahead, act) = Ahead::new(4, double);
        assert_eq!(ahead.get().unwrap(), 8);
        act();
        let (ahead, act) = Ahead::new(5, double);
        std::thread::spawn(act).join().unwrap();
        assert_eq!(ahead.wait().unwrap(), 10);
        // Nobody is left who would say what came of it.
        let (ahead, act) = Ahead::new(4, |_| panic!("what is done fails"));
        assert!(std::thread::spawn(act).join().is_err());
        assert!(matches!(ahead.get(), Err(Error::Stopped)));
    }
}
