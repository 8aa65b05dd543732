//! Sockets and time as the worker sees them: its wishes come true at once, its bytes move as far as there is room.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use tsubaki_core::action::{Action, Event, Flow, GatherId, Gathered, RefreshReason};
use tsubaki_core::settings::Settings;
use tsubaki_core::time::Time;
use tsubaki_core::topology::Topology;
use tsubaki_core::{BackendId, ClientId, Worker};
use tsubaki_protocol::resp::args::Args;
use tsubaki_protocol::resp::request::{RequestLimits, RequestScan, RequestScanner};

/// What a node does when it is dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// It accepts and answers the handshake.
    Greets,
    /// It accepts, and the test answers the handshake.
    Scripted,
    /// It refuses the connection.
    Refuses,
    /// Nothing comes back, as from a machine that is off.
    Silent,
}

/// The node's end of a connection.
pub(super) struct Link {
    pub(super) id: BackendId,
    pub(super) address: String,
    pub(super) received: Vec<u8>,
    /// Bytes that the socket still takes.
    pub(super) room: usize,
    pub(super) open: bool,
    /// The commands of the handshake, if the node answers it by itself.
    pub(super) greeting: Vec<String>,
    pub(super) paused: bool,
    /// What the node said, piece by piece, and the proxy has not read.
    unread: VecDeque<Vec<u8>>,
    greets: bool,
    /// The worker asked for its output to be written, and not all of it is.
    dirty: bool,
}

/// The client's end of a connection.
pub(super) struct End {
    pub(super) id: ClientId,
    pub(super) received: Vec<u8>,
    pub(super) room: usize,
    pub(super) closed: bool,
    pub(super) paused: bool,
    /// How often the worker asked for its output to be written.
    pub(super) writes: usize,
    /// Bytes that the proxy has not read.
    unread: Vec<u8>,
}

pub(super) struct World {
    pub(super) worker: Worker,
    pub(super) now: Time,
    pub(super) links: Vec<Link>,
    pub(super) ends: Vec<End>,
    pub(super) behaviours: BTreeMap<String, Behaviour>,
    /// The link on which a node last got what the test expected.
    pub(super) speaker: Option<usize>,
    pub(super) refreshes: Vec<(RefreshReason, Option<String>)>,
    pub(super) events: Vec<Event>,
    pub(super) elsewhere: Gathered,
    pub(super) gathers_wait: bool,
    gathers: Vec<GatherId>,
}

impl World {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            worker: Worker::new(settings),
            now: Time::new(Duration::from_secs(1000)),
            links: Vec::new(),
            ends: Vec::new(),
            behaviours: BTreeMap::new(),
            speaker: None,
            refreshes: Vec::new(),
            events: Vec::new(),
            elsewhere: Gathered::default(),
            gathers_wait: false,
            gathers: Vec::new(),
        }
    }

    pub(super) fn accept(&mut self) -> usize {
        let address = (Ipv4Addr::new(192, 0, 2, 1), 50_000 + self.ends.len() as u16).into();
        let local = (Ipv4Addr::new(192, 0, 2, 9), 6380).into();
        let id = self.worker.handle_client_accepted(address, local, self.now);
        self.ends.push(End {
            id,
            received: Vec::new(),
            room: usize::MAX,
            closed: false,
            paused: false,
            writes: 0,
            unread: Vec::new(),
        });
        self.pump();
        self.ends.len() - 1
    }

    pub(super) fn send(&mut self, index: usize, bytes: &[u8]) {
        self.ends[index].unread.extend_from_slice(bytes);
        self.pump();
    }

    pub(super) fn finish(&mut self, index: usize) {
        self.worker.handle_client_finished(self.ends[index].id, self.now);
        self.pump();
    }

    pub(super) fn hang_up(&mut self, index: usize) {
        self.ends[index].closed = true;
        self.worker.handle_client_closed(self.ends[index].id, self.now);
        self.pump();
    }

    pub(super) fn node_says(&mut self, index: usize, bytes: &[u8]) {
        self.links[index].unread.push_back(bytes.to_vec());
        self.pump();
    }

    pub(super) fn lose(&mut self, index: usize, reason: &str) {
        self.links[index].open = false;
        self.worker.handle_backend_closed(self.links[index].id, reason, self.now);
        self.pump();
    }

    pub(super) fn learn(&mut self, topology: &Topology) {
        self.worker.handle_topology(topology, self.now);
        self.pump();
    }

    pub(super) fn stop(&mut self) {
        self.worker.handle_stop(self.now);
        self.pump();
    }

    pub(super) fn advance(&mut self, duration: Duration) {
        let end = self.now.after(duration);
        let mut steps = 0;
        while let Some(due) = self.worker.poll_timeout().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.worker.handle_timeout(self.now);
            self.pump();
            steps += 1;
            assert!(steps < 100_000, "time stands still");
        }
        self.now = end;
    }

    pub(super) fn finish_gathering(&mut self) {
        for id in std::mem::take(&mut self.gathers) {
            self.gathered(id);
        }
        self.pump();
    }

    /// Lets everything happen that can happen without time.
    pub(super) fn pump(&mut self) {
        loop {
            let mut moved = self.read_clients() | self.read_links();
            while let Some(action) = self.worker.poll_action() {
                self.act(action);
                moved = true;
            }
            moved |= self.flush_links();
            moved |= self.flush_ends();
            if !moved {
                return;
            }
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect { backend, address } => self.dial(backend, address),
            Action::CloseBackend(id) => {
                for link in self.links.iter_mut().filter(|link| link.id == id) {
                    link.open = false;
                }
            }
            Action::CloseClient(id) => self.end_of(id).closed = true,
            Action::ResumeClient(id) => self.end_of(id).paused = false,
            Action::ResumeBackend(id) => {
                for link in self.links.iter_mut().filter(|link| link.id == id) {
                    link.paused = false;
                }
            }
            Action::Refresh { reason, hint } => self.refreshes.push((reason, hint)),
            Action::Gather(id) if self.gathers_wait => self.gathers.push(id),
            Action::Gather(id) => self.gathered(id),
            Action::Report(event) => self.events.push(event),
        }
    }

    fn dial(&mut self, id: BackendId, address: String) {
        let behaviour = self.behaviours.get(&address).copied().unwrap_or(Behaviour::Greets);
        self.links.push(Link {
            id,
            address,
            received: Vec::new(),
            room: usize::MAX,
            open: behaviour != Behaviour::Refuses,
            greeting: Vec::new(),
            paused: false,
            unread: VecDeque::new(),
            greets: behaviour == Behaviour::Greets,
            dirty: false,
        });
        match behaviour {
            Behaviour::Greets | Behaviour::Scripted => self.worker.handle_backend_connected(id, self.now),
            Behaviour::Refuses => self.worker.handle_backend_closed(id, "connection refused", self.now),
            Behaviour::Silent => {}
        }
    }

    fn gathered(&mut self, id: GatherId) {
        let mut gathered = self.elsewhere.clone();
        gathered.stats.add(&self.worker.stats());
        gathered.clients.insert_str(0, &self.worker.client_list(self.now));
        self.worker.handle_gathered(id, &gathered, self.now);
    }

    fn end_of(&mut self, id: ClientId) -> &mut End {
        self.ends.iter_mut().find(|end| end.id == id).expect("a client that connected")
    }

    fn read_clients(&mut self) -> bool {
        let mut moved = false;
        for end in self.ends.iter_mut().filter(|end| !end.paused && !end.closed && !end.unread.is_empty()) {
            let bytes = std::mem::take(&mut end.unread);
            end.paused = self.worker.handle_client_input(end.id, &bytes, self.now) == Flow::Pause;
            moved = true;
        }
        moved
    }

    fn read_links(&mut self) -> bool {
        let mut moved = false;
        for link in self.links.iter_mut().filter(|link| !link.paused && link.open) {
            let Some(bytes) = link.unread.pop_front() else { continue };
            link.paused = self.worker.handle_backend_input(link.id, &bytes, self.now) == Flow::Pause;
            moved = true;
        }
        moved
    }

    fn flush_links(&mut self) -> bool {
        while let Some(id) = self.worker.next_dirty_backend(self.now) {
            for link in self.links.iter_mut().filter(|link| link.id == id) {
                link.dirty = true;
            }
        }
        let mut moved = false;
        for link in self.links.iter_mut().filter(|link| link.open && link.dirty) {
            let output = self.worker.backend_output(link.id);
            let count = output.len().min(link.room);
            link.received.extend_from_slice(&output[..count]);
            link.room -= count;
            self.worker.backend_sent(link.id, count);
            link.dirty = !self.worker.backend_output(link.id).is_empty();
            moved |= count > 0;
            if link.greets {
                let replies = link.greet();
                moved |= !replies.is_empty();
                self.worker.handle_backend_input(link.id, &replies, self.now);
            }
        }
        moved
    }

    fn flush_ends(&mut self) -> bool {
        while let Some(id) = self.worker.next_dirty_client(self.now) {
            self.end_of(id).writes += 1;
        }
        let mut moved = false;
        for end in self.ends.iter_mut().filter(|end| !end.closed) {
            let output = self.worker.client_output(end.id);
            let count = output.len().min(end.room);
            end.received.extend_from_slice(&output[..count]);
            end.room -= count;
            if count > 0 {
                self.worker.client_sent(end.id, count);
                moved = true;
            }
        }
        moved
    }
}

impl Link {
    /// Takes one whole command as words.
    pub(super) fn take_command(&mut self) -> Option<Vec<String>> {
        let mut scanner = RequestScanner::new();
        let Ok(RequestScan::Array { len }) = scanner.scan(&self.received, &RequestLimits::default()) else {
            return None;
        };
        let args = Args::new(&self.received, scanner.spans());
        let words = args.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        self.received.drain(..len);
        Some(words)
    }

    /// Answers the whole commands of the handshake that have come.
    fn greet(&mut self) -> Vec<u8> {
        let mut replies = Vec::new();
        while self.greets
            && let Some(words) = self.take_command()
        {
            replies.extend_from_slice(match words[0].as_ref() {
                "HELLO" => b"%1\r\n$5\r\nproto\r\n:3\r\n",
                "PING" => b"+PONG\r\n",
                _ => b"+OK\r\n",
            });
            self.greets = words[0] != "PING";
            self.greeting.push(words.join(" "));
        }
        replies
    }
}
