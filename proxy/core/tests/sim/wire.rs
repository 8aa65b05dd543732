//! What passes between the engine and the nodes: dialling, bytes that come late or never, ends.

use tsubaki_core::BackendId;
use tsubaki_core::action::Flow;

use crate::cluster::Cluster;
use crate::event::Event;
use crate::link::Link;
use crate::ops::tokens_in;
use crate::trouble::Trouble;
use crate::world::World;

/// What a node that is full says to a new connection.
const FULL: &[u8] = b"-ERR max number of clients reached\r\n";

impl World {
    pub(crate) fn link_of(&self, id: BackendId) -> Option<usize> {
        self.links.iter().rposition(|link| link.backend == id)
    }

    pub(crate) fn dial(&mut self, backend: BackendId, address: &str) {
        let Some(node) = self.cluster.at(address) else {
            self.fail(format!("the engine dialled {address}, where nobody is"));
            return;
        };
        let capacity = self.rng.pick(&[1_500, 4_000, 100_000]);
        self.links.push(Link::new(backend, node, capacity));
        let link = self.links.len() - 1;
        let took = self.now + self.rng.delay(300);
        if self.chaos.is_dark(node, self.now) {
            self.links[link].black = true;
        } else if !self.cluster.nodes[node].up || self.refuse_until[node] > self.now {
            self.at(took, Event::Dialed(link, Some("connection refused")));
        } else {
            self.at(took, Event::Dialed(link, None));
        }
    }

    pub(crate) fn dialed(&mut self, link: usize, refused: Option<&'static str>) {
        let (id, node) = (self.links[link].backend, self.links[link].node);
        if self.links[link].closed {
            return;
        }
        let gone = || (!self.cluster.nodes[node].up).then_some("connection refused");
        if let Some(reason) = refused.or_else(gone) {
            self.links[link].closed = true;
            self.troubles.died(self.now);
            self.worker.handle_backend_closed(id, reason, self.time());
            return;
        }
        self.links[link].open = true;
        self.links[link].node_closed = false;
        self.worker.handle_backend_connected(id, self.time());
        if self.full_until[node] > self.now {
            self.node_writes(link, FULL);
            self.node_closes(link, usize::MAX);
        }
    }

    /// The engine's socket takes what it has room for.
    pub(crate) fn pump(&mut self, link: usize) {
        let it = &self.links[link];
        if !it.open || it.closed {
            return;
        }
        let (id, node, room) = (it.backend, it.node, it.room());
        let output = self.worker.backend_output(id).to_vec();
        if output.is_empty() {
            return;
        }
        self.check_routes(node, &output);
        let mut taken = room.min(output.len());
        if taken > 1 && self.rng.percent(20) {
            taken = 1 + self.rng.below(taken);
        }
        self.worker.backend_sent(id, taken);
        let taken_bytes = self.links[link].taken(&output[..taken]);
        tokens_in(&taken_bytes).into_iter().for_each(|token| self.model.taken(token));
        let mut at = self.now;
        for piece in self.rng.cut(&output[..taken]) {
            at = self.links[link].up.send(piece.len(), at + self.rng.delay(80));
            self.at(at, Event::Up(link, piece));
        }
        if room > taken && !self.worker.backend_output(id).is_empty() {
            let pause = self.rng.delay(100);
            self.at(self.now + pause, Event::Pump(link));
        }
    }

    /// A command goes first to a node that the map names, a large one also where its question was sent by an ASK.
    fn check_routes(&mut self, node: usize, output: &[u8]) {
        for token in tokens_in(output) {
            let Some((key, invoked, large)) = self.model.first_sent(token) else { continue };
            let asked = large && self.troubles.was(Trouble::Move, invoked);
            if !asked
                && !self.routing.named(key.tag(), node, invoked)
                && self.worker.stats().redirect_loops == 0
            {
                let address = Cluster::address(node);
                self.fail(format!(
                    "<{token}> went to {address}, which neither view nor MOVED named for {key:?}"
                ));
            }
        }
    }

    pub(crate) fn up(&mut self, link: usize, bytes: Vec<u8>) {
        let it = &mut self.links[link];
        if it.black {
            it.up.kept.push(bytes);
            return;
        }
        let received = it.up.receive(bytes.len());
        if it.node_closed {
            return;
        }
        it.session.input.extend_from_slice(&bytes[..received]);
        it.unread += received;
        let (node, over) = (it.node, it.up.is_over() && it.up.in_flight() == 0);
        if received > 0 {
            self.wake_node(node);
        }
        if over && self.rng.percent(50) {
            self.links[link].node_closed = true;
        }
    }

    pub(crate) fn wake_node(&mut self, node: usize) {
        if !std::mem::replace(&mut self.node_turns[node], true) {
            let pause = self.rng.delay(self.chaos.slowness[node]);
            self.at(self.now + pause, Event::NodeTurn(node));
        }
    }

    /// A node looks at its connections, in any order, and runs some of what came.
    pub(crate) fn node_turn(&mut self, node: usize) {
        self.node_turns[node] = false;
        let stalled_until = self.cluster.nodes[node].stalled_until;
        if stalled_until > self.now {
            self.node_turns[node] = true;
            self.at(stalled_until, Event::NodeTurn(node));
            return;
        }
        let mut links: Vec<usize> = (0..self.links.len())
            .filter(|link| {
                let link = &self.links[*link];
                link.node == node && !link.node_closed && !link.session.input.is_empty()
            })
            .collect();
        self.rng.shuffle(&mut links);
        for link in links {
            self.links[link].unread = 0;
            if !self.worker.backend_output(self.links[link].backend).is_empty() {
                self.at(self.now + 1, Event::Pump(link));
            }
            let most = 1 + self.rng.below(self.chaos.batch);
            for _ in 0..most {
                if !self.serve(link) {
                    break;
                }
            }
        }
    }

    /// The node runs one command of a connection. False: none is whole.
    fn serve(&mut self, link: usize) -> bool {
        let it = &mut self.links[link];
        let node = it.node;
        let Some(done) = self.cluster.serve(node, &mut it.session, self.now) else { return false };
        self.trace(|| {
            format!("  {} ran {} -> {}", Cluster::address(node), done.name, done.reply.escape_ascii())
        });
        if let Some((tag, target)) = done.moved {
            let end = self.links[link].written + done.reply.len();
            self.links[link].moved.push_back((end, tag, target));
        }
        self.node_writes(link, &done.reply);
        if !self.links[link].session.input.is_empty() {
            self.wake_node(node);
        }
        true
    }

    fn node_writes(&mut self, link: usize, bytes: &[u8]) {
        let it = &mut self.links[link];
        if it.down.is_cut() {
            return;
        }
        it.written += bytes.len();
        let mut at = self.now;
        for piece in self.rng.cut(bytes) {
            at = self.links[link].down.send(piece.len(), at + self.rng.delay(80));
            self.at(at, Event::Down(link, piece));
        }
    }

    pub(crate) fn down(&mut self, link: usize, bytes: Vec<u8>) {
        let it = &mut self.links[link];
        if it.black {
            it.down.kept.push(bytes);
            return;
        }
        let received = it.down.receive(bytes.len());
        if it.closed {
            return;
        }
        let over = it.down.is_over();
        it.received += received;
        while let Some((_, tag, target)) = it.moved.front().copied().filter(|(end, ..)| *end <= it.received) {
            it.moved.pop_front();
            self.routing.moved(it.node, tag, target, self.now);
        }
        if received > 0 {
            self.links[link].kept.push_back(bytes[..received].to_vec());
            self.drink(link);
        }
        if over {
            self.close_engine_side(link, "the connection was reset");
        }
    }

    /// The engine reads what has arrived, as long as it wants to.
    pub(crate) fn drink(&mut self, link: usize) {
        while !self.links[link].closed
            && !self.links[link].paused
            && let Some(bytes) = self.links[link].kept.pop_front()
        {
            let flow = self.worker.handle_backend_input(self.links[link].backend, &bytes, self.time());
            self.links[link].paused |= flow == Flow::Pause;
            self.seen.paused_links += u64::from(flow == Flow::Pause);
        }
    }

    /// The engine sees the end of a connection.
    pub(crate) fn close_engine_side(&mut self, link: usize, reason: &str) {
        if std::mem::replace(&mut self.links[link].closed, true) {
            return;
        }
        self.troubles.died(self.now);
        let id = self.links[link].backend;
        self.seen.lost_unsent +=
            u64::from(self.links[link].open && !self.worker.backend_output(id).is_empty());
        self.worker.handle_backend_closed(id, reason, self.time());
    }

    /// The engine closes a connection: what its socket took may still arrive, or not.
    pub(crate) fn engine_closes(&mut self, link: usize) {
        if std::mem::replace(&mut self.links[link].closed, true) {
            return;
        }
        self.troubles.died(self.now);
        if self.links[link].black {
            self.links[link].node_closed = true;
            self.troubles.last(Trouble::Link, self.now);
        } else if self.rng.percent(30) {
            let left = self.rng.below(self.links[link].up.in_flight() + 1);
            self.links[link].up.cut(left);
        }
    }

    /// The node closes a connection; at most `left` bytes that it wrote still come out.
    pub(crate) fn node_closes(&mut self, link: usize, left: usize) {
        let it = &mut self.links[link];
        it.node_closed = true;
        it.down.cut(left);
        if it.down.is_over() {
            let at = it.down.last().max(self.now) + self.rng.delay(50);
            self.at(at, Event::LinkClosed(link));
        }
    }

    /// Cuts a connection in the middle, at any byte in either direction.
    pub(crate) fn cut(&mut self, link: usize) {
        let up = self.rng.below(self.links[link].up.in_flight() + 1);
        let down = self.rng.below(self.links[link].down.in_flight() + 1);
        self.links[link].up.cut(up);
        self.links[link].down.cut(down);
        self.troubles.last(Trouble::Link, self.now);
        if self.links[link].down.is_over() {
            let pause = self.rng.delay(200);
            self.at(self.now + pause, Event::LinkClosed(link));
        }
    }
}
