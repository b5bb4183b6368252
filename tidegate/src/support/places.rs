//! Places for connections. Where all are taken, the eldest idle connection makes room for a new one.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// A connection, as far as its place is concerned.
pub(crate) trait Occupant: Debug + Send + Sync {
    /// When it fell idle, where it is, and whether it has served before; those that have not leave first.
    fn idle_since(&self) -> Option<(bool, Instant)>;

    /// Since when its client reads nothing of what is sent to it.
    fn blocked_since(&self) -> Option<Instant> {
        None
    }
}

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    all: Mutex<All>,
    /// Whether a client that does not read what it asked for may have to leave as well.
    gives_up_blocked: bool,
}

#[derive(Debug, Default)]
struct All {
    last: u64,
    max: u32,
    /// Places that are given up as soon as they are left.
    too_many: u32,
    open: BTreeMap<u64, (Arc<dyn Occupant>, Arc<Notify>)>,
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    leave: Arc<Notify>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Places {
    /// So many.
    pub(crate) fn new(max: u32, gives_up_blocked: bool) -> Arc<Places> {
        let free = Arc::new(Semaphore::new(max as usize));
        let all = Mutex::new(All { max, ..All::default() });
        Arc::new(Places { free, all, gives_up_blocked })
    }

    /// So many from now on. Nobody has to leave: where there are fewer, places that are left are no more.
    pub(crate) fn resize(&self, max: u32) {
        let mut all = self.all();
        let before = std::mem::replace(&mut all.max, max);
        let more = max.saturating_sub(before);
        let back = more.min(all.too_many);
        all.too_many -= back;
        self.free.add_permits((more - back) as usize);
        let fewer = before.saturating_sub(max);
        let at_once = self.free.forget_permits(fewer as usize);
        all.too_many += fewer - u32::try_from(at_once).unwrap_or(fewer);
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection; none where all are taken and nobody is idle.
    pub(crate) async fn enter(self: &Arc<Self>, occupant: Arc<dyn Occupant>) -> Option<Place> {
        let permit = match self.free.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                // Who leaves then makes no room: there are more than there may be.
                if self.all().too_many > 0 {
                    return None;
                }
                let eldest = self.take_eldest()?;
                // It leaves when its task has its turn.
                eldest.notify_one();
                self.free.clone().acquire_owned().await.ok()?
            }
        };
        let all = &mut *self.all();
        all.last += 1;
        let leave = Arc::new(Notify::new());
        all.open.insert(all.last, (occupant, leave.clone()));
        Some(Place { places: self.clone(), number: all.last, leave, permit: Some(permit) })
    }

    /// Who has to leave: first those who asked for nothing yet, then those whose last exchange is longest over.
    fn take_eldest(&self) -> Option<Arc<Notify>> {
        let all = &mut *self.all();
        let age = |(number, (occupant, _)): (&u64, &(Arc<dyn Occupant>, _))| {
            let blocked = occupant.blocked_since().filter(|_| self.gives_up_blocked);
            let since = occupant.idle_since().or(blocked.map(|since| (true, since)))?;
            Some((since, *number))
        };
        let (_, number) = all.open.iter().filter_map(age).min()?;
        all.open.remove(&number).map(|(_, leave)| leave)
    }

    /// Waits until all places are free.
    pub(crate) async fn emptied(&self) {
        let max = self.all().max;
        let _ = self.free.acquire_many(max).await;
    }
}

impl Place {
    /// Waits until it is needed by somebody else.
    pub(crate) async fn needed(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.places.all();
        all.open.remove(&self.number);
        if all.too_many > 0
            && let Some(permit) = self.permit.take()
        {
            all.too_many -= 1;
            permit.forget();
        }
    }
}

/// The name that clients share of which only the address is known. An IPv6 client can have any address of its /64.
pub(crate) fn address(peer: IpAddr) -> String {
    match peer.to_canonical() {
        IpAddr::V4(address) => format!("at {address}"),
        IpAddr::V6(address) => format!("at {:x}", address.to_bits() >> 64),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;
    use crate::support::http::{Busy, Meter};

    #[tokio::test]
    async fn there_can_be_more_places_and_fewer_and_nobody_has_to_leave() {
        let places = Places::new(2, false);
        let busy = Meter::new(None);
        let _busy = Busy::begin(&busy);
        let enter = async || places.enter(busy.clone()).await;
        let mut held = vec![enter().await.unwrap(), enter().await.unwrap()];
        assert!(enter().await.is_none());
        places.resize(4);
        held.extend([enter().await.unwrap(), enter().await.unwrap()]);
        assert!(enter().await.is_none());
        places.resize(1);
        for _ in 0..3 {
            held.pop();
            assert!(enter().await.is_none(), "{} are there", held.len());
        }
        places.resize(2);
        held.push(enter().await.unwrap());
        assert!(enter().await.is_none());
        held.clear();
        places.emptied().await;
        assert_eq!(places.free.available_permits(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_eldest_idle_connection_makes_room_and_who_asked_nothing_first() {
        let places = Places::new(3, false);
        let meters = [(); 3].map(|()| Meter::new(None));
        let mut held = Vec::new();
        for meter in &meters {
            held.push(places.enter(meter.clone()).await.unwrap());
        }
        let busy = Busy::begin(&meters[0]);
        advance(Duration::from_secs(1)).await;
        drop(Busy::begin(&meters[1]));
        // The first is busy, the second was served, the third has said nothing.
        for leaves in [2, 1] {
            let place = held.remove(leaves);
            let leaving = tokio::spawn(async move { place.needed().await });
            let meter = Meter::new(None);
            let place = places.enter(meter.clone()).await.unwrap();
            leaving.await.unwrap();
            std::mem::forget((Busy::begin(&meter), place));
        }
        assert!(places.enter(Meter::new(None)).await.is_none(), "all are busy");
        drop(busy);
        let place = held.remove(0);
        let leaving = tokio::spawn(async move { place.needed().await });
        assert!(places.enter(Meter::new(None)).await.is_some());
        leaving.await.unwrap();
    }
}
