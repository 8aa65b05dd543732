//! A small load: clients that send short pipelines of GET and SET and check every byte that comes back.
//!
//! It knows connections and which of them a key goes to, not what is behind them. A key has one value only,
//! so the whole reply to a batch is known before it is sent, and a reply that is wrong, or that belongs to
//! somebody else, is seen at its first byte.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::dev_cluster::encode;

/// Keys of the load, spread over all slots.
const KEYS: u32 = 10_000;

/// Commands that a client sends before it reads.
pub(super) const PIPELINE: usize = 8;

/// Bytes of a value.
pub(super) const VALUE_LEN: usize = 64;

/// No local command takes this long.
const SILENCE: Duration = Duration::from_secs(15);

/// How much of a wrong reply is shown.
const SHOWN: usize = 80;

/// A key with its requests and the reply to its GET, encoded once.
pub(super) struct Entry {
    /// The index of the key's master.
    owner: usize,
    set: Vec<u8>,
    get: Vec<u8>,
    value_reply: Vec<u8>,
}

/// All keys; `owner` tells a key's master.
pub(super) fn entries(owner: impl Fn(&[u8]) -> usize) -> Vec<Entry> {
    let entry = |number| {
        let key = format!("load:{number}");
        let value = format!("{key:-<VALUE_LEN$}");
        let (mut set, mut get) = (Vec::new(), Vec::new());
        encode(&["SET", &key, &value], &mut set);
        encode(&["GET", &key], &mut get);
        let value_reply = format!("${VALUE_LEN}\r\n{value}\r\n").into_bytes();
        Entry { owner: owner(key.as_bytes()), set, get, value_reply }
    };
    (0..KEYS).map(entry).collect()
}

/// A client: one connection for all keys, or one to each master.
pub(super) struct LoadClient {
    lanes: Vec<Lane>,
}

impl LoadClient {
    pub(super) fn connect(addrs: &[SocketAddr]) -> anyhow::Result<Self> {
        let lane = |&addr| Lane::connect(addr).with_context(|| format!("cannot connect to {addr}"));
        Ok(Self { lanes: addrs.iter().map(lane).collect::<Result<_, _>>()? })
    }

    /// Sets every key to its value.
    pub(super) fn fill(&mut self, entries: &[Entry]) -> anyhow::Result<()> {
        for batch in entries.chunks(100) {
            batch.iter().for_each(|entry| self.put(entry, true));
            self.send()?;
            self.receive()?;
        }
        Ok(())
    }

    fn put(&mut self, entry: &Entry, set: bool) {
        let lane = if self.lanes.len() == 1 { 0 } else { entry.owner };
        if let Some(lane) = self.lanes.get_mut(lane) {
            let (request, reply) =
                if set { (&entry.set, &b"+OK\r\n"[..]) } else { (&entry.get, &entry.value_reply[..]) };
            lane.requests.extend_from_slice(request);
            lane.expected.extend_from_slice(reply);
        }
    }

    fn send(&mut self) -> io::Result<()> {
        self.lanes.iter_mut().filter(|lane| !lane.requests.is_empty()).try_for_each(Lane::send)
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        self.lanes.iter_mut().try_for_each(Lane::receive)
    }
}

/// Keeps the clients busy on this thread until `end`, each with one batch in flight, half of the commands
/// SET. Returns how many commands were answered.
pub(super) fn run(
    clients: &mut [LoadClient],
    entries: &[Entry],
    seed: u32,
    end: Instant,
) -> anyhow::Result<u64> {
    let mut random = Xorshift(seed | 1);
    let mut batches = 0;
    while Instant::now() < end {
        for client in &mut *clients {
            for _ in 0..PIPELINE {
                let number = random.next();
                if let Some(entry) = entries.get((number >> 1) as usize % entries.len()) {
                    client.put(entry, number & 1 == 0);
                }
            }
            client.send()?;
        }
        for client in &mut *clients {
            client.receive()?;
            batches += 1;
        }
    }
    Ok(batches * PIPELINE as u64)
}

/// A connection, what is to be sent on it, and what must come back.
struct Lane {
    stream: TcpStream,
    requests: Vec<u8>,
    expected: Vec<u8>,
    received: Vec<u8>,
}

impl Lane {
    fn connect(addr: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
        Ok(Self { stream, requests: Vec::new(), expected: Vec::new(), received: Vec::new() })
    }

    fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.requests)?;
        self.requests.clear();
        Ok(())
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        let mut chunk = [0; 16 * 1024];
        while self.received.len() < self.expected.len() {
            let n = self.stream.read(&mut chunk).context("no reply came")?;
            if n == 0 {
                bail!("the connection was closed with replies outstanding");
            }
            self.received.extend_from_slice(chunk.get(..n).unwrap_or_default());
            if !self.expected.starts_with(&self.received) {
                bail!("a wrong reply: {}", difference(&self.expected, &self.received));
            }
        }
        self.received.clear();
        self.expected.clear();
        Ok(())
    }
}

/// Both texts from shortly before the first byte that differs.
fn difference(expected: &[u8], received: &[u8]) -> String {
    let same = expected.iter().zip(received).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(SHOWN / 2);
    let shown = |text: &[u8]| text.iter().skip(from).take(SHOWN).copied().collect::<Vec<_>>();
    format!("\"{}\" instead of \"{}\"", shown(received).escape_ascii(), shown(expected).escape_ascii())
}

/// Marsaglia's generator: keys need no better randomness.
struct Xorshift(u32);

impl Xorshift {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// What a load of one SET says when the peer answers with `reply`.
    fn verdict(reply: &'static [u8]) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(reply).unwrap();
        });
        let mut client = LoadClient::connect(&[addr]).unwrap();
        let verdict = client.fill(entries(|_| 0).get(..1).unwrap()).map_err(|error| format!("{error:#}"));
        peer.join().unwrap();
        verdict
    }

    #[test]
    fn the_right_reply_is_accepted() {
        assert_eq!(verdict(b"+OK\r\n"), Ok(()));
    }

    #[test]
    fn an_error_a_shifted_reply_and_one_too_many_are_wrong() {
        for wrong in [&b"-MOVED 1 127.0.0.1:1\r\n"[..], b"$-1\r\n", b"+OK\r\n+OK\r\n"] {
            let verdict = verdict(wrong);
            assert!(verdict.as_ref().is_err_and(|text| text.contains("a wrong reply")), "{verdict:?}");
        }
    }

    #[test]
    fn a_closed_connection_is_no_success() {
        let verdict = verdict(b"+O");
        assert!(
            verdict.as_ref().is_err_and(|text| text.contains("closed") || text.contains("no reply")),
            "{verdict:?}"
        );
    }

    #[test]
    fn values_differ_and_have_their_length() {
        let entries = entries(|_| 0);
        let last = entries.last().unwrap();
        assert_eq!(last.value_reply.len(), "$64\r\n\r\n".len() + VALUE_LEN);
        assert!(last.value_reply.starts_with(b"$64\r\nload:9999---"));
    }
}
