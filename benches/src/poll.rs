//! Readiness of many sockets for one thread, with a timeout that is kept to the microsecond.
//!
//! Must not know: what the sockets are for.

use std::{
    io,
    num::NonZeroU64,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
    io::Errno,
    thread::set_current_timer_slack,
};

/// Most events taken at once.
const EVENTS: usize = 1024;

/// What a source is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Bytes to read, or the end.
    Read,
    /// The same, and room to write.
    ReadAndWrite,
    /// Room to write.
    Write,
}

/// A source that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The number under which the source was added.
    pub token: u64,
    /// It can be read; so can a broken one, which then tells its error.
    pub read: bool,
    /// It can be written.
    pub write: bool,
}

/// The sources of one thread.
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poll {
    /// No sources yet.
    ///
    /// Call it in the thread that will wait: the kernel is told to wake that one without slack, which is 50 us
    /// for others.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new() -> io::Result<Self> {
        set_current_timer_slack(NonZeroU64::new(1))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS) })
    }

    /// Watches `source`; closing it ends that.
    ///
    /// # Errors
    /// If it is watched already, or cannot be.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, epoll::EventData::new_u64(token), interest.flags())?)
    }

    /// Watches `source` for something else from now on.
    ///
    /// # Errors
    /// If it is not watched.
    pub fn change(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, epoll::EventData::new_u64(token), interest.flags())?)
    }

    /// Watches `source` no more.
    ///
    /// # Errors
    /// If it is not watched.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Waits until a source is ready or `until` has come, without end if that is `None`; the sources that are
    /// ready replace what is in `ready`.
    ///
    /// # Errors
    /// If the system refuses; kernels before 5.11 cannot wait so precisely.
    pub fn wait(&mut self, until: Option<Instant>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let left = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        ready.clear();
        ready.extend(self.events.drain(..).map(|event| {
            let flags = event.flags;
            let broken = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
            Ready {
                token: event.data.u64(),
                read: broken || flags.contains(epoll::EventFlags::IN),
                write: broken || flags.contains(epoll::EventFlags::OUT),
            }
        }));
        Ok(())
    }
}

impl Interest {
    const fn flags(self) -> epoll::EventFlags {
        match self {
            Self::Read => epoll::EventFlags::IN,
            Self::ReadAndWrite => epoll::EventFlags::IN.union(epoll::EventFlags::OUT),
            Self::Write => epoll::EventFlags::OUT,
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        net::{Ipv4Addr, TcpListener, TcpStream},
        time::{Duration, Instant},
    };

    use super::{Interest, Poll, Ready};

    fn ready(poll: &mut Poll, until: Option<Instant>) -> Vec<Ready> {
        let mut ready = Vec::new();
        poll.wait(until, &mut ready).unwrap();
        ready
    }

    #[test]
    fn a_wait_does_not_end_before_its_time() {
        let mut poll = Poll::new().unwrap();
        let until = Instant::now() + Duration::from_micros(300);
        assert_eq!(ready(&mut poll, Some(until)), []);
        assert!(Instant::now() >= until);
    }

    #[test]
    fn a_source_is_named_by_its_token() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let mut poll = Poll::new().unwrap();
        poll.add(&server, 7, Interest::Read).unwrap();
        client.write_all(b"x").unwrap();
        assert_eq!(ready(&mut poll, None), [Ready { token: 7, read: true, write: false }]);
        poll.change(&server, 8, Interest::Write).unwrap();
        assert_eq!(ready(&mut poll, None), [Ready { token: 8, read: false, write: true }]);
        poll.remove(&server).unwrap();
        assert_eq!(ready(&mut poll, Some(Instant::now())), []);
    }
}
