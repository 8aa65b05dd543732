//! How many clients the process and each of its workers have, and which worker takes in the next one.
//!
//! The kernel gives a connection to any worker's listener: of 50, the busiest of eight workers gets 1.8 times its share.
//! So who accepts one hands it over if it has more clients than another worker. Where each worker's CPU has a network queue
//! of its own, a client goes to the worker on whose CPU its packets arrive, unless that one has far more than others.
//! Counters are touched when a client comes and when it goes, not once a command.
//!
//! Must not know: sockets, CPUs, how a client is handed over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A worker keeps a client while it has at most this share more clients than the one with the fewest: few clients are
/// spread exactly, many well, and then hardly any has to be handed over.
const SLACK: usize = 16;

/// A worker on whose CPU packets arrive has this share of the mean more clients than it at most ...
const FAR_MORE: (usize, usize) = (3, 2);

/// ... or so many more than the worker with the fewest, where few clients make shares meaningless.
const FEW: usize = 2;

/// Set in the counter of a worker that takes no more clients, which makes it greater than any other.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// One worker's way in.
#[derive(Debug)]
pub(crate) struct Gate {
    own: usize,
    shared: Arc<Shared>,
}

/// Where a client belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// At any worker.
    Any,
    /// At the worker on whose CPU its packets arrive, by number.
    Worker(usize),
    /// Its packets arrive on a CPU that has no worker.
    None,
}

/// Clients so far that were taken in elsewhere than on the CPU where their packets arrive.
#[derive(Debug)]
pub(crate) struct Away(Arc<Shared>);

/// A client's place at a worker; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    worker: usize,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit: usize,
    inside: Counter,
    away: Counter,
    workers: Box<[Counter]>,
}

/// A counter on cache lines of its own: processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicUsize);

impl Gate {
    /// One gate a worker, all with the same limit of clients.
    pub(crate) fn all(limit: usize, workers: usize) -> Vec<Self> {
        let counters = (0..workers).map(|_| Counter::default()).collect();
        let shared = Arc::new(Shared {
            limit,
            inside: Counter::default(),
            away: Counter::default(),
            workers: counters,
        });
        (0..workers).map(|own| Self { own, shared: Arc::clone(&shared) }).collect()
    }

    /// A place for a client that connected to this worker, here or at another; `None` if the limit is reached.
    pub(crate) fn enter(&self, home: Home) -> Option<Place> {
        let shared = &self.shared;
        if shared.inside.0.fetch_add(1, Ordering::Relaxed) >= shared.limit {
            shared.inside.0.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let worker = match home {
            Home::Worker(worker) if worker < shared.workers.len() => shared.claim(worker, choose_near),
            Home::Any | Home::None | Home::Worker(_) => shared.claim(self.own, choose),
        };
        if home != Home::Any && home != Home::Worker(worker) {
            shared.away.0.fetch_add(1, Ordering::Relaxed);
        }
        Some(Place { worker, shared: Arc::clone(shared) })
    }

    /// The count of all workers' clients that are away.
    pub(crate) fn away(&self) -> Away {
        Away(Arc::clone(&self.shared))
    }

    /// True if the place is at this worker.
    pub(crate) fn is_own(&self, place: &Place) -> bool {
        place.worker == self.own
    }

    /// From now on no other worker finds a place here.
    pub(crate) fn close(&self) {
        self.shared.workers[self.own].0.fetch_or(CLOSED, Ordering::Relaxed);
    }

    /// Clients that have a place at this worker, those included that are on their way from another.
    pub(crate) fn clients(&self) -> usize {
        self.shared.workers[self.own].0.load(Ordering::Relaxed) & !CLOSED
    }
}

impl Away {
    pub(crate) fn count(&self) -> u64 {
        self.0.away.0.load(Ordering::Relaxed) as u64
    }
}

impl Place {
    /// The number of the worker that takes the client in.
    pub(crate) fn worker(&self) -> usize {
        self.worker
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.workers[self.worker].0.fetch_sub(1, Ordering::Relaxed);
        self.shared.inside.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Counts a client that belongs to `own` at the worker that takes it in.
    fn claim(&self, own: usize, choose: Choose) -> usize {
        let counters = &self.workers;
        for _ in 0..counters.len() {
            let (worker, count) =
                choose(counters.len(), own, &|worker| counters[worker].0.load(Ordering::Relaxed));
            // Others accept meanwhile: a worker that got a client since, or closed, may not be the one any more.
            let claimed =
                counters[worker].0.compare_exchange(count, count + 1, Ordering::Relaxed, Ordering::Relaxed);
            if claimed.is_ok() {
                return worker;
            }
        }
        counters[own].0.fetch_add(1, Ordering::Relaxed);
        own
    }
}

/// Of so many workers, which takes in a client that belongs to this one, and how many clients it has.
type Choose = fn(usize, usize, &dyn Fn(usize) -> usize) -> (usize, usize);

/// Which worker takes in a client that connected to `own`, and how many it has: the one with the fewest, unless `own` has
/// hardly more.
fn choose(workers: usize, own: usize, count: &dyn Fn(usize) -> usize) -> (usize, usize) {
    let mine = count(own);
    // Each begins with its neighbour, so that those who accept at once do not all choose the same.
    let others = (1..workers).map(|step| (own + step) % workers).map(|worker| (worker, count(worker)));
    match others.min_by_key(|(_, count)| *count) {
        Some((worker, fewest)) if mine > fewest + fewest / SLACK => (worker, fewest),
        Some(_) | None => (own, mine),
    }
}

/// Which worker takes in a client whose packets arrive on the CPU of `own`: that one, unless it would have far more clients
/// than others. One that is closed takes none.
fn choose_near(workers: usize, own: usize, count: &dyn Fn(usize) -> usize) -> (usize, usize) {
    let mine = count(own);
    if mine & CLOSED != 0 {
        return choose(workers, own, count);
    }
    let open = || (0..workers).map(count).filter(|count| count & CLOSED == 0);
    let (fewest, total, open) = (open().min().unwrap_or_default(), open().sum::<usize>(), open().count());
    let (most, of) = FAR_MORE;
    let far_more = (mine + 1) * open * of > (total + 1) * most;
    if far_more && mine >= fewest + FEW { choose(workers, own, count) } else { (own, mine) }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn choice(counts: &[usize], own: usize) -> usize {
        choose(counts.len(), own, &|worker| counts[worker]).0
    }

    fn counts(gates: &[Gate]) -> Vec<usize> {
        gates.iter().map(Gate::clients).collect()
    }

    #[test]
    fn places_come_back() {
        let gates = Gate::all(2, 1);
        let first = gates[0].enter(Home::Any).unwrap();
        let _second = gates[0].enter(Home::Any).unwrap();
        assert!(gates[0].enter(Home::Any).is_none());
        drop(first);
        assert!(gates[0].enter(Home::Any).is_some());
        assert_eq!(counts(&gates), [1]);
    }

    #[test]
    fn a_worker_keeps_a_client_unless_another_has_fewer() {
        assert_eq!(choice(&[0], 0), 0);
        assert_eq!(choice(&[3, 3, 3], 1), 1);
        assert_eq!(choice(&[3, 4, 3], 0), 0);
        assert_eq!(choice(&[3, 4, 3], 1), 2, "the neighbour of two that have the fewest");
        assert_eq!(choice(&[2, 4, 3], 2), 0);
    }

    #[test]
    fn among_many_clients_a_sixteenth_more_is_even_enough() {
        assert_eq!(choice(&[170, 160], 0), 0);
        assert_eq!(choice(&[171, 160], 0), 1);
    }

    #[test]
    fn a_closed_worker_gets_no_clients_but_may_keep_its_own() {
        let gates = Gate::all(100, 3);
        gates[1].close();
        gates[2].close();
        let places: Vec<Place> = (0..9).map(|_| gates[0].enter(Home::Any).unwrap()).collect();
        assert_eq!(counts(&gates), [9, 0, 0]);
        gates[0].close();
        assert!(gates[0].is_own(&gates[0].enter(Home::Any).unwrap()));
        drop(places);
        assert_eq!(counts(&gates), [0, 0, 0]);
    }

    #[test]
    fn clients_that_all_come_to_one_worker_are_spread_and_those_that_come_after_many_left_fill_the_gap() {
        let gates = Gate::all(2000, 4);
        let mut places: Vec<Place> = (0..16).map(|_| gates[2].enter(Home::Any).unwrap()).collect();
        assert_eq!(counts(&gates), [4, 4, 4, 4]);
        places.extend((16..1000).map(|_| gates[2].enter(Home::Any).unwrap()));
        assert!(counts(&gates).into_iter().all(|count| count <= 270), "{:?}", counts(&gates));
        places.retain(|place| place.worker() != 1);
        places.extend((0..200).map(|number| gates[number % 4].enter(Home::Any).unwrap()));
        assert!(counts(&gates)[1] >= 195, "{:?}", counts(&gates));
    }

    #[test]
    fn clients_that_come_to_all_workers_at_once_are_counted_and_spread() {
        const EACH: usize = 5000;
        let gates = Gate::all(4 * EACH, 4);
        let places: Vec<Vec<Place>> = thread::scope(|scope| {
            let enter = |gate: &Gate| (0..EACH).map(|_| gate.enter(Home::Any).unwrap()).collect();
            let threads: Vec<_> = gates.iter().map(|gate| scope.spawn(move || enter(gate))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(gates[0].enter(Home::Any).is_none());
        assert_eq!(counts(&gates).iter().sum::<usize>(), 4 * EACH);
        assert!(counts(&gates).into_iter().all(|count| count <= EACH * 12 / 10), "{:?}", counts(&gates));
        drop(places);
        assert_eq!(counts(&gates), [0; 4]);
    }

    #[test]
    fn a_client_stays_on_the_cpu_where_its_packets_arrive_until_that_worker_has_far_more_than_others() {
        let gates = Gate::all(10_000, 2);
        let at = |worker: usize, clients: usize| -> Vec<Place> {
            (0..clients).map(|_| gates[1].enter(Home::Worker(worker)).unwrap()).collect()
        };
        let places = at(0, 2);
        assert_eq!(counts(&gates), [2, 0], "few clients");
        let more = at(0, 998);
        assert_eq!(counts(&gates), [750, 250]);
        assert_eq!(gates[0].away().count(), 250);
        drop((places, more));
        let _spread: Vec<_> = (0..200).flat_map(|_| [0, 1, 0, 1, 0].map(|worker| at(worker, 1))).collect();
        assert_eq!(counts(&gates), [600, 400], "not even, and within bounds");
        assert_eq!(gates[0].away().count(), 250);
    }

    #[test]
    fn a_client_that_belongs_nowhere_goes_to_who_has_the_fewest_and_a_closed_worker_gets_none() {
        let gates = Gate::all(100, 2);
        let _places: Vec<Place> = (0..10).map(|_| gates[0].enter(Home::None).unwrap()).collect();
        assert_eq!((counts(&gates), gates[0].away().count()), (vec![5, 5], 10));
        gates[1].close();
        let _there: Vec<Place> = (0..4).map(|_| gates[0].enter(Home::Worker(1)).unwrap()).collect();
        let _far = gates[0].enter(Home::Worker(7)).unwrap();
        assert_eq!(counts(&gates), [10, 5]);
    }
}
