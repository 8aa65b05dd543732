//! Processes kept on chosen CPUs for a while.
//!
//! Must not know: what the processes do.
//!
//! Where one client waits for one reply, the latency is mostly that of waking the next process, and whether that runs on
//! the same CPU, on another one or on one that sleeps is chance, which differs between subjects more than they do.

use std::{fs, io};

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

/// Who runs where; all may run where they might before once this value is dropped.
#[derive(Default)]
pub struct Places {
    before: Vec<(Pid, CpuSet)>,
}

/// The CPUs for the client, what is in the middle, and the servers behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpus {
    /// For the client.
    pub client: usize,
    /// For the middle alone.
    pub middle: usize,
    /// For the servers; the client's where there are but two.
    pub servers: usize,
}

impl Cpus {
    /// Out of those that this process may use; `None` if there are not two.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn of_this_machine() -> io::Result<Option<Self>> {
        let allowed = sched_getaffinity(None)?;
        let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        let (Some(client), Some(middle)) = (cpus.next(), cpus.next()) else { return Ok(None) };
        Ok(Some(Self { client, middle, servers: cpus.next().unwrap_or(client) }))
    }
}

impl Places {
    /// Keeps all threads of a process on one CPU.
    ///
    /// # Errors
    /// If the process has ended, or may not run there.
    pub fn put_process(&mut self, pid: u32, cpu: usize) -> io::Result<()> {
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let name = thread?.file_name();
            let thread = name.to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
            self.put(thread.ok_or(io::ErrorKind::InvalidData)?, cpu)?;
        }
        Ok(())
    }

    /// Keeps the calling thread on one CPU.
    ///
    /// # Errors
    /// If it may not run there.
    pub fn put_this_thread(&mut self, cpu: usize) -> io::Result<()> {
        self.put(rustix::thread::gettid(), cpu)
    }

    fn put(&mut self, thread: Pid, cpu: usize) -> io::Result<()> {
        self.before.push((thread, sched_getaffinity(Some(thread))?));
        let mut only = CpuSet::new();
        only.set(cpu);
        Ok(sched_setaffinity(Some(thread), &only)?)
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for (thread, cpus) in self.before.drain(..) {
            // A thread that has ended runs nowhere.
            let _ = sched_setaffinity(Some(thread), &cpus);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::{gettid, sched_getaffinity};

    use super::{Cpus, Places};

    #[test]
    fn a_thread_is_where_it_was_put_until_the_places_are_given_up() {
        let Some(cpus) = Cpus::of_this_machine().unwrap() else { return };
        let before = sched_getaffinity(Some(gettid())).unwrap();
        let mut places = Places::default();
        places.put_this_thread(cpus.middle).unwrap();
        let now = sched_getaffinity(Some(gettid())).unwrap();
        assert_eq!((now.count(), now.is_set(cpus.middle)), (1, true));
        drop(places);
        assert_eq!(sched_getaffinity(Some(gettid())).unwrap(), before);
    }

    #[test]
    fn every_thread_of_a_process_is_put() {
        let Some(cpus) = Cpus::of_this_machine().unwrap() else { return };
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut places = Places::default();
        places.put_process(sleeper.id(), cpus.middle).unwrap();
        let thread = rustix::process::Pid::from_child(&sleeper);
        assert_eq!(sched_getaffinity(Some(thread)).unwrap().count(), 1);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}
