//! A relay that holds bytes for a set time in each direction: network delay on a machine whose kernel has none to add.
//!
//! Must not know: what the bytes mean.
//!
//! ```text
//!  client --read--> held, in order of time --(delay later)--> write--> server
//!         <-write-- (delay later)-- held, in order of time <----read--
//! ```
//!
//! One thread. Every piece waits equally long, so one queue serves all connections and its front is due first. The
//! end of a stream is held like its bytes. Nothing limits the bandwidth.

use std::{
    collections::{HashMap, VecDeque},
    io::{self, ErrorKind, Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use anyhow::Context as _;

use crate::poll::{Interest, Poll, Ready};

/// Bytes read at once.
const READ: usize = 64 * 1024;

/// Bytes on the way to one socket above which its peer is not read: more than any network holds.
const MAX_HELD: usize = 64 * 1024 * 1024;

/// The token of the listener; ends have two each for the number of their pair, which is never this large.
const LISTENER: u64 = u64::MAX;

/// What a user may choose.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Port on 127.0.0.1 to listen on
    #[arg(long)]
    pub listen: u16,
    /// Port on 127.0.0.1 of the server behind
    #[arg(long)]
    pub to: u16,
    /// How long bytes are held in each direction: a number with us, ms or s
    #[arg(long, value_parser = parse_delay)]
    pub delay: Duration,
}

/// Relays until the process is killed.
///
/// # Errors
/// If the port is taken, or the system refuses to poll or to accept.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let Options { listen, to, delay } = *options;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, listen))
        .with_context(|| format!("cannot listen on 127.0.0.1:{listen}"))?;
    serve(listener, (Ipv4Addr::LOCALHOST, to).into(), delay).context("the relay ended")
}

/// Relays every connection of `listener` to `to`, holding all bytes for `delay`. Returns only with an error.
///
/// # Errors
/// If the system refuses to poll or to accept.
pub fn serve(listener: TcpListener, to: SocketAddr, delay: Duration) -> io::Result<()> {
    let mut relay = Relay::new(listener, to, delay)?;
    let mut ready = Vec::new();
    loop {
        relay.poll.wait(relay.held.front().map(|held| held.due), &mut ready)?;
        for event in &ready {
            relay.serve(*event)?;
        }
        relay.release()?;
    }
}

struct Relay {
    poll: Poll,
    listener: TcpListener,
    to: SocketAddr,
    delay: Duration,
    /// By number; numbers are not used again, as held bytes name them.
    pairs: HashMap<u64, Pair>,
    accepted: u64,
    held: VecDeque<Held>,
    buffer: Vec<u8>,
}

/// Bytes on the way.
struct Held {
    due: Instant,
    pair: u64,
    /// The end that will get them.
    side: usize,
    /// None: the stream's end.
    bytes: Vec<u8>,
}

/// The client's end and the server's.
type Pair = [End; 2];

struct End {
    /// Does not block.
    socket: TcpStream,
    /// Due, but the socket is full.
    late: VecDeque<u8>,
    /// Bytes on the way to this end, those that are late included.
    coming: usize,
    /// It will send nothing more.
    has_ended: bool,
    /// It will be sent nothing more than what is late.
    finished: bool,
    watched: Option<Interest>,
}

impl Relay {
    fn new(listener: TcpListener, to: SocketAddr, delay: Duration) -> io::Result<Self> {
        let poll = Poll::new()?;
        listener.set_nonblocking(true)?;
        poll.add(&listener, LISTENER, Interest::Read)?;
        Ok(Self {
            poll,
            listener,
            to,
            delay,
            pairs: HashMap::new(),
            accepted: 0,
            held: VecDeque::new(),
            buffer: vec![0; READ],
        })
    }

    fn serve(&mut self, event: Ready) -> io::Result<()> {
        if event.token == LISTENER {
            return self.accept();
        }
        let (pair, side) = (event.token / 2, (event.token % 2) as usize);
        let sound = (!event.write || self.write(pair, side)) && (!event.read || self.read(pair, side));
        self.settle(pair, sound)
    }

    fn accept(&mut self) -> io::Result<()> {
        let client = match self.listener.accept() {
            Ok((client, _)) => client,
            Err(error) if is_passing(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        // A server that refuses is passed on as a connection that closes.
        let Ok(server) = TcpStream::connect(self.to) else { return Ok(()) };
        self.pairs.insert(self.accepted, [End::new(client)?, End::new(server)?]);
        self.settle(self.accepted, true)?;
        self.accepted += 1;
        Ok(())
    }

    /// Takes what an end has sent; false if it is broken.
    fn read(&mut self, pair: u64, side: usize) -> bool {
        let Some(ends) = self.pairs.get_mut(&pair) else { return true };
        if ends[side].has_ended {
            return true;
        }
        let count = match ends[side].socket.read(&mut self.buffer) {
            Ok(count) => count,
            Err(error) => return is_passing(&error),
        };
        ends[side].has_ended = count == 0;
        ends[1 - side].coming += count;
        let bytes = self.buffer[..count].to_vec();
        self.held.push_back(Held { due: Instant::now() + self.delay, pair, side: 1 - side, bytes });
        true
    }

    /// Writes what is late for an end; false if it is broken.
    fn write(&mut self, pair: u64, side: usize) -> bool {
        self.pairs.get_mut(&pair).is_none_or(|ends| ends[side].flush())
    }

    /// Hands on everything whose time has come.
    fn release(&mut self) -> io::Result<()> {
        let now = Instant::now();
        while self.held.front().is_some_and(|held| held.due <= now) {
            let Some(Held { pair, side, bytes, .. }) = self.held.pop_front() else { break };
            let Some(ends) = self.pairs.get_mut(&pair) else { continue };
            let sound = ends[side].take(&bytes);
            self.settle(pair, sound)?;
        }
        Ok(())
    }

    /// Watches a pair for what it can do next, or drops it if it is broken or has nothing left to do.
    fn settle(&mut self, pair: u64, sound: bool) -> io::Result<()> {
        let Some(ends) = self.pairs.get_mut(&pair) else { return Ok(()) };
        if !sound || ends.iter().all(|end| end.finished && end.late.is_empty()) {
            self.pairs.remove(&pair);
            return Ok(());
        }
        for side in [0, 1] {
            let reads = !ends[side].has_ended && ends[1 - side].coming < MAX_HELD;
            let writes = !ends[side].late.is_empty();
            ends[side].watch(&self.poll, pair * 2 + side as u64, interest(reads, writes))?;
        }
        Ok(())
    }
}

impl End {
    fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let late = VecDeque::new();
        Ok(Self { socket, late, coming: 0, has_ended: false, finished: false, watched: None })
    }

    /// Takes what came for this end, no bytes standing for the end of the stream; false if it is broken.
    fn take(&mut self, bytes: &[u8]) -> bool {
        self.finished = bytes.is_empty();
        self.late.extend(bytes);
        self.flush()
    }

    /// Writes as much as the socket takes; false if it is broken.
    fn flush(&mut self) -> bool {
        while !self.late.is_empty() {
            match self.socket.write(self.late.as_slices().0) {
                Ok(written) => {
                    self.late.drain(..written);
                    self.coming -= written;
                }
                Err(error) => return is_passing(&error),
            }
        }
        if self.finished {
            // It fails if the peer is gone, which reading will tell.
            let _ = self.socket.shutdown(Shutdown::Write);
        }
        true
    }

    /// Has the poll watch for what is wanted. A socket with nothing wanted is taken out: a broken one would wake the
    /// thread without end.
    fn watch(&mut self, poll: &Poll, token: u64, wanted: Option<Interest>) -> io::Result<()> {
        match (self.watched, wanted) {
            (None, Some(interest)) => poll.add(&self.socket, token, interest)?,
            (Some(_), None) => poll.remove(&self.socket)?,
            (Some(old), Some(interest)) if old != interest => poll.change(&self.socket, token, interest)?,
            _ => {}
        }
        self.watched = wanted;
        Ok(())
    }
}

const fn interest(reads: bool, writes: bool) -> Option<Interest> {
    match (reads, writes) {
        (true, true) => Some(Interest::ReadAndWrite),
        (true, false) => Some(Interest::Read),
        (false, true) => Some(Interest::Write),
        (false, false) => None,
    }
}

/// True if the socket is only not ready now.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// `500us`, `2ms`, `1s`.
fn parse_delay(text: &str) -> Result<Duration, String> {
    let units = [("us", 1), ("ms", 1_000), ("s", 1_000_000)];
    let parsed = units.into_iter().find_map(|(unit, micros)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(micros).map(Duration::from_micros)
    });
    parsed.ok_or_else(|| format!("{text:?} is no delay; write a whole number with us, ms or s, as in 500us"))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Read as _, Write as _},
        net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
        thread::{self, JoinHandle},
        time::{Duration, Instant},
    };

    use super::{parse_delay, serve};
    use crate::process::free_port;

    const DELAY: Duration = Duration::from_millis(3);

    /// A relay in front of a server of one connection, whose result is what it found in the end.
    fn relayed(server: fn(TcpStream) -> Vec<u8>) -> (TcpStream, JoinHandle<Vec<u8>>) {
        let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (front, back) = (listen(), listen());
        let (address, to) = (front.local_addr().unwrap(), back.local_addr().unwrap());
        // Ends with the process: a relay serves until it is killed.
        thread::spawn(move || serve(front, to, DELAY));
        let server = thread::spawn(move || server(back.accept().unwrap().0));
        (TcpStream::connect(address).unwrap(), server)
    }

    fn read_all(mut socket: TcpStream) -> Vec<u8> {
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn echo(socket: TcpStream) -> Vec<u8> {
        io::copy(&mut &socket, &mut &socket).unwrap();
        Vec::new()
    }

    #[test]
    fn bytes_come_back_in_order_and_not_before_both_delays() {
        let (mut client, _echo) = relayed(echo);
        for number in 0..20_u32 {
            let sent = Instant::now();
            client.write_all(&number.to_le_bytes()).unwrap();
            let mut back = [0; 4];
            client.read_exact(&mut back).unwrap();
            assert!(sent.elapsed() >= 2 * DELAY);
            assert_eq!(u32::from_le_bytes(back), number);
        }
    }

    #[test]
    fn a_stream_of_many_pieces_arrives_whole_and_so_does_its_end() {
        let (mut client, server) = relayed(read_all);
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8 ^ (number >> 8) as u8).collect();
        client.write_all(&bytes).unwrap();
        let ended = Instant::now();
        client.shutdown(Shutdown::Write).unwrap();
        assert!(server.join().unwrap() == bytes);
        assert!(ended.elapsed() >= DELAY);
    }

    #[test]
    fn a_full_socket_is_filled_on_when_it_is_read() {
        let (mut client, _echo) = relayed(echo);
        // Far more than the sockets' buffers hold, and nothing is read meanwhile.
        let bytes = vec![7; 30_000_000];
        client.write_all(&bytes).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert!(read_all(client) == bytes);
    }

    #[test]
    fn a_server_that_refuses_is_a_connection_that_closes() {
        let front = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = front.local_addr().unwrap();
        let nobody = (Ipv4Addr::LOCALHOST, free_port().unwrap()).into();
        thread::spawn(move || serve(front, nobody, DELAY));
        assert_eq!(read_all(TcpStream::connect(address).unwrap()), b"");
    }

    #[test]
    fn delays_have_units() {
        assert_eq!(parse_delay("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(parse_delay("2ms"), Ok(Duration::from_millis(2)));
        assert_eq!(parse_delay("1s"), Ok(Duration::from_secs(1)));
        assert!(parse_delay("5").is_err());
        assert!(parse_delay("-5ms").is_err());
    }
}
