//! Many worlds at once: each is a thread's own, so the answers are those of one after the other.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What `work` makes of each item, in their order, on all processors.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    map_on(thread::available_parallelism().map_or(1, usize::from), items, work)
}

/// The same on so many.
pub fn map_on<T: Sync, R: Send>(
    at_once: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let worker = || {
        while let Some((at, item)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            items.get(at).map(|item| (at, item))
        } {
            let answer = work(item);
            done.lock().expect("no holder panics").push((at, answer));
        }
    };
    thread::scope(|scope| (0..at_once).for_each(|_| drop(scope.spawn(worker))));
    let mut done = done.into_inner().expect("no holder panics");
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn answers_come_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..1000).collect();
        assert!(super::map(&items, |item| item * 2).into_iter().eq((0..1000).map(|item| item * 2)));
    }
}
