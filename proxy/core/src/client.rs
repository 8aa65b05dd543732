//! One client connection: what it said of itself, what it is owed, and what it has sent that has not run.
//!
//! Must not know: nodes, slots' owners, sockets.

use std::net::SocketAddr;

use tsubaki_protocol::resp::Resp;
use tsubaki_protocol::resp::request::RequestScanner;

use crate::BackendId;
use crate::buffer::Output;
use crate::hold::is_later;
use crate::limits::CORK_BYTES;
use crate::pipeline::{Pipeline, Seq};
use crate::settings::Settings;
use crate::stream::Upload;
use crate::time::Time;
use crate::worker::HoldId;

/// One client connection.
#[derive(Debug)]
pub struct Client {
    pub(crate) session: Session,
    pub(crate) pipeline: Pipeline,
    pub(crate) output: Output,
    /// Bytes that have not run: the beginning of a request, or requests behind a pause.
    pub(crate) input: Vec<u8>,
    /// The scanner of a large request that is not whole.
    pub(crate) scanner: Option<Box<RequestScanner>>,
    /// The slots on which commands of this client wait, in order; almost always empty.
    pub(crate) holds: Vec<(u16, HoldId)>,
    /// Commands, each part of a split one counted, at nodes or waiting.
    pub(crate) in_flight: usize,
    /// Their bytes.
    pub(crate) pending_bytes: usize,
    /// Bytes of replies that are not whole: parts of split commands, and large ones whose turn has not come.
    pub(crate) partial_bytes: usize,
    /// The large request that its newest bytes belong to.
    pub(crate) upload: Option<Box<Upload>>,
    /// Of the last request of which the beginning was looked at for streaming it: its number, and how many arguments were
    /// whole then.
    pub(crate) looked_at: (Seq, usize),
    /// The connection from which the large reply comes that is its next.
    pub(crate) feeder: Option<BackendId>,
    /// The caller was told not to read it.
    pub(crate) paused: bool,
    /// It is paused until all that it asked for is answered.
    pub(crate) awaits_all: bool,
    /// Runs nothing more; is closed when all is answered and sent.
    pub(crate) closing: bool,
    /// Will send nothing more, but is owed what it asked for.
    pub(crate) finished: bool,
    pub(crate) flush: Flush,
    /// One past the newest of the requests that came together, whose replies are to leave together.
    burst: Seq,
    /// Waits in the list of clients to go on with.
    pub(crate) resuming: bool,
}

/// What of a client decides the way of its command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// Where its commands on this slot wait, if they do.
    pub(crate) hold: Option<HoldId>,
    pub(crate) resp: Resp,
    /// As `CLIENT ID` tells.
    pub(crate) number: u64,
}

/// What becomes of a client's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    /// There is none, or its socket is full.
    Clean,
    /// It leaves at the end of the turn, unless more is expected.
    Dirty,
    /// It waits for the replies to commands that came with those it answers, but not beyond this time.
    Corked(Time),
}

/// What a client said of itself.
#[derive(Debug)]
pub(crate) struct Session {
    /// As `CLIENT ID` tells.
    pub(crate) id: u64,
    /// The client's address.
    pub(crate) address: SocketAddr,
    /// The proxy's address that it connected to.
    pub(crate) local_address: SocketAddr,
    pub(crate) resp: Resp,
    pub(crate) authenticated: bool,
    pub(crate) name: Box<[u8]>,
    pub(crate) library: Box<[u8]>,
    pub(crate) library_version: Box<[u8]>,
    pub(crate) transaction: Option<Transaction>,
    pub(crate) no_evict: bool,
    pub(crate) no_touch: bool,
    pub(crate) created: Time,
    pub(crate) active: Time,
    pub(crate) last_command: &'static str,
}

/// A transaction that was begun; nothing of it is sent anywhere.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Transaction {
    /// Commands that were answered with QUEUED.
    pub(crate) queued: u32,
    /// A command was refused, so EXEC must fail for that reason first.
    pub(crate) broken: bool,
}

impl Client {
    pub(crate) fn new(session: Session) -> Self {
        Self {
            session,
            pipeline: Pipeline::default(),
            output: Output::default(),
            input: Vec::new(),
            scanner: None,
            holds: Vec::new(),
            in_flight: 0,
            pending_bytes: 0,
            partial_bytes: 0,
            upload: None,
            looked_at: (0, 0),
            feeder: None,
            paused: false,
            awaits_all: false,
            closing: false,
            finished: false,
            flush: Flush::Clean,
            burst: 0,
            resuming: false,
        }
    }

    #[inline(always)]
    pub(crate) fn hold_on(&self, slot: u16) -> Option<HoldId> {
        if self.holds.is_empty() { None } else { self.find_hold(slot) }
    }

    #[cold]
    fn find_hold(&self, slot: u16) -> Option<HoldId> {
        let place = self.holds.binary_search_by_key(&slot, |(of, _)| *of).ok()?;
        self.holds.get(place).map(|(_, hold)| *hold)
    }

    /// Remembers a hold on a slot that has none.
    pub(crate) fn add_hold(&mut self, slot: u16, hold: HoldId) {
        let place = self.holds.partition_point(|(of, _)| *of < slot);
        self.holds.insert(place, (slot, hold));
    }

    /// Forgets the hold on a slot.
    pub(crate) fn end_hold(&mut self, slot: u16) {
        if let Ok(place) = self.holds.binary_search_by_key(&slot, |(of, _)| *of) {
            self.holds.remove(place);
        }
    }

    /// Counts one more command, or part of one, of `len` bytes as under way, and says what its way depends on.
    #[inline(always)]
    pub(crate) fn take_on(&mut self, slot: u16, len: usize) -> Origin {
        self.in_flight += 1;
        self.pending_bytes += len;
        Origin { hold: self.hold_on(slot), resp: self.session.resp, number: self.session.id }
    }

    /// True if it has not so much under way that it must wait.
    #[inline(always)]
    pub(crate) fn has_room(&self, settings: &Settings) -> bool {
        self.pipeline.len().max(self.in_flight) < settings.max_in_flight
            && self.pending_bytes < settings.max_in_flight_bytes
    }

    /// True if the other half of a request is on its way.
    pub(crate) fn is_mid_request(&self) -> bool {
        !self.input.is_empty() || self.upload.is_some()
    }

    /// Makes room for `more` bytes of input, and for the rest of a long request: no more than sixteen times what has come, as
    /// its length is only what its client says.
    pub(crate) fn make_room(&mut self, more: usize) {
        let come = self.input.len() + more;
        if come > self.input.capacity()
            && let Some(scanner) = &self.scanner
        {
            let room = scanner.least_len(&self.input).min(16 * come);
            // Below that, it grows by the vector's own steps.
            if room > come {
                self.input.reserve_exact(room - self.input.len());
            }
        }
    }

    /// A read was run to its end: if all that came before it is answered, its commands are the next to be answered together.
    pub(crate) fn end_burst(&mut self) {
        if !self.owes_burst() {
            self.burst = self.pipeline.next();
        }
    }

    /// What was to be answered together no longer is.
    pub(crate) fn forget_burst(&mut self) {
        self.burst = self.pipeline.first();
    }

    fn owes_burst(&self) -> bool {
        is_later(self.burst, self.pipeline.first())
    }

    /// True if output is to wait for more.
    #[inline]
    pub(crate) fn expects_more(&self) -> bool {
        self.owes_burst() && self.output.len() < CORK_BYTES
    }

    /// Replies that the client has not read, sent or not.
    #[inline]
    pub(crate) fn unread(&self) -> usize {
        self.output.len() + self.pipeline.parked_bytes() + self.partial_bytes
    }
}

impl Session {
    pub(crate) fn new(
        id: u64,
        address: SocketAddr,
        local_address: SocketAddr,
        authenticated: bool,
        now: Time,
    ) -> Self {
        Self {
            id,
            address,
            local_address,
            resp: Resp::V2,
            authenticated,
            name: Box::default(),
            library: Box::default(),
            library_version: Box::default(),
            transaction: None,
            no_evict: false,
            no_touch: false,
            created: now,
            active: now,
            last_command: "NULL",
        }
    }

    /// What RESET does to a connection.
    pub(crate) fn reset(&mut self, authenticated: bool) {
        self.resp = Resp::V2;
        self.authenticated = authenticated;
        self.name = Box::default();
        self.transaction = None;
        self.no_evict = false;
        self.no_touch = false;
    }
}
