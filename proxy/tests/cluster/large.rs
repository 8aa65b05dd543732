//! Values of up to 512 MiB: that they pass, what they cost the proxy, and that they cost nobody else anything.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};

use tsubaki::dev_cluster::{DevCluster, Options, Server};

use crate::harness::client::{Client, command};
use crate::harness::proxy::{Proxy, Start};
use crate::harness::{cluster, required, wait_for, wait_until};
use crate::slots::tags_of;

const MIB: usize = 1024 * 1024;

/// More than the sockets between a client and a node take.
const LONG: usize = 64 * MIB;

/// A cluster with a proxy of one worker, whose clients share its connections, and two keys of different slots of the first master.
struct Stage {
    cluster: DevCluster,
    proxy: Proxy,
    key: String,
    other: String,
}

impl Stage {
    fn new(server: Server, settings: &[(&'static str, &str)]) -> Self {
        let cluster = cluster(Options::new(server));
        let start = Start::before(&cluster.seeds()).set("TSUBAKI_WORKERS", "1");
        let start = settings.iter().fold(start, |start, (name, value)| start.set(name, *value));
        let [key, other] = tags_of(&cluster, 0, 2).try_into().unwrap();
        Self { cluster, proxy: start.ready(), key, other }
    }

    /// The same with a long value under the key.
    fn with_a_value(server: Server, settings: &[(&'static str, &str)]) -> Self {
        let stage = Self::new(server, settings);
        set(&mut stage.proxy.connect(), &stage.key, LONG);
        stage
    }

    /// A number of the proxy's `/proc/<pid>/status`, in bytes.
    fn memory(&self, name: &str) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.proxy.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let kib: usize = line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
        kib * 1024
    }

    /// Waits until the proxy moves no more bytes from or to nodes; returns what it holds in memory then.
    fn stalled(&self) -> usize {
        let moved = || ["in", "out"].map(|kind| self.node_bytes(kind));
        let mut last = moved();
        wait_until("the transfer stalls", || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            let now = moved();
            std::mem::replace(&mut last, now) == now
        });
        self.memory("VmRSS:")
    }

    fn node_bytes(&self, kind: &str) -> u64 {
        self.proxy.metric("tsubaki_node_bytes_total", &format!("kind=\"{kind}\""))
    }

    /// Another client writes and reads on the same node.
    #[track_caller]
    fn others_go_on(&self) {
        let mut client = self.proxy.connect();
        for number in 0..100 {
            let value = number.to_string();
            assert!(client.call(&["SET", &self.other, &value]).is_ok());
            assert_eq!(client.call(&["GET", &self.other]).bulk(), Some(value.as_bytes()));
        }
    }
}

/// The bytes of every long value: each word names its place.
fn fill(from: usize, block: &mut [u8]) {
    for (word, place) in block.chunks_mut(8).zip(from as u64 / 8..) {
        let bytes = place.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        word.copy_from_slice(&bytes[..word.len()]);
    }
}

fn begin_set(client: &mut Client, key: &str, len: usize) {
    client.send(format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${len}\r\n", key.len()).as_bytes());
}

fn send_bytes(client: &mut Client, from: usize, to: usize) {
    let mut block = vec![0; MIB];
    for at in (from..to).step_by(MIB) {
        fill(at, &mut block);
        client.send(&block);
    }
}

#[track_caller]
fn end_set(client: &mut Client) {
    client.send(b"\r\n");
    assert!(client.receive().is_ok());
}

#[track_caller]
fn set(client: &mut Client, key: &str, len: usize) {
    begin_set(client, key, len);
    send_bytes(client, 0, len);
    end_set(client);
}

fn ask(client: &mut Client, key: &str) {
    client.send(&command(&["GET", key]));
}

#[track_caller]
fn receive_header(client: &mut Client, len: usize) {
    let expected = format!("${len}\r\n");
    let mut header = vec![0; expected.len()];
    client.stream().read_exact(&mut header).unwrap();
    assert_eq!(header, expected.as_bytes());
}

#[track_caller]
fn receive_bytes(client: &mut Client, from: usize, to: usize) {
    let (mut expected, mut block) = (vec![0; MIB], vec![0; MIB]);
    for at in (from..to).step_by(MIB) {
        client.stream().read_exact(&mut block).unwrap();
        fill(at, &mut expected);
        assert!(block == expected, "the bytes from {at} on are others");
    }
}

#[track_caller]
fn receive_end(client: &mut Client) {
    let mut end = [0; 2];
    client.stream().read_exact(&mut end).unwrap();
    assert_eq!(&end, b"\r\n");
}

#[track_caller]
fn receive_value(client: &mut Client, len: usize) {
    receive_header(client, len);
    receive_bytes(client, 0, len);
    receive_end(client);
}

/// Sends until the proxy takes no more.
fn send_until_it_is_full(client: &mut Client) {
    let mut stream = client.stream();
    stream.set_nonblocking(true).unwrap();
    let block = vec![0; MIB];
    wait_until("the proxy takes no more", || match stream.write(&block) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => true,
        written => {
            written.unwrap();
            false
        }
    });
    stream.set_nonblocking(false).unwrap();
}

fn passes_both_ways(len: usize) {
    let Some(server) = required(Server::redis()) else { return };
    let stage = Stage::new(server, &[]);
    let mut client = stage.proxy.connect();
    set(&mut client, &stage.key, len);
    ask(&mut client, &stage.key);
    receive_value(&mut client, len);
    assert_eq!(client.call(&["STRLEN", &stage.key]).integer(), Some(len as i64));
    assert!(client.call(&["SET", &stage.key, "short"]).is_ok());
    let peak = stage.memory("VmHWM:");
    assert!(peak < 64 * MIB, "the proxy took {} MiB", peak / MIB);
    stage.proxy.stop();
}

#[test]
fn a_value_of_100_mib_passes_both_ways() {
    passes_both_ways(100 * MIB);
}

#[test]
fn a_value_of_512_mib_passes_both_ways() {
    passes_both_ways(512 * MIB);
}

#[test]
fn while_a_value_is_read_others_go_on() {
    let Some(server) = required(Server::redis()) else { return };
    let stage = Stage::with_a_value(server, &[]);
    let mut client = stage.proxy.connect();
    ask(&mut client, &stage.key);
    receive_header(&mut client, LONG);
    for at in (0..LONG).step_by(8 * MIB) {
        receive_bytes(&mut client, at, at + 8 * MIB);
        stage.others_go_on();
    }
    receive_end(&mut client);
    stage.proxy.stop();
}

#[test]
fn while_a_value_is_written_others_go_on() {
    let Some(server) = required(Server::redis()) else { return };
    let stage = Stage::new(server, &[]);
    let mut client = stage.proxy.connect();
    begin_set(&mut client, &stage.key, LONG);
    for at in (0..LONG).step_by(8 * MIB) {
        send_bytes(&mut client, at, at + 8 * MIB);
        stage.others_go_on();
    }
    end_set(&mut client);
    ask(&mut client, &stage.key);
    receive_value(&mut client, LONG);
    stage.proxy.stop();
}

#[test]
fn with_nobody_waiting_a_slow_reader_has_little_held_for_it() {
    let Some(server) = required(Server::redis()) else { return };
    let stage = Stage::with_a_value(server, &[]);
    let before = stage.stalled();
    let mut client = stage.proxy.connect();
    ask(&mut client, &stage.key);
    receive_header(&mut client, LONG);
    let held = stage.stalled().saturating_sub(before);
    assert!(held <= 4 * MIB, "{held} bytes are held");
    assert!(stage.node_bytes("in") < LONG as u64);
    receive_bytes(&mut client, 0, LONG);
    receive_end(&mut client);
    stage.proxy.stop();
}

#[test]
fn with_a_slow_node_a_writer_has_little_held_for_it() {
    let Some(server) = required(Server::redis()) else { return };
    let mut stage = Stage::new(server, &[]);
    let mut client = stage.proxy.connect();
    begin_set(&mut client, &stage.key, LONG);
    let before = stage.stalled();
    stage.cluster.pause(0).unwrap();
    send_until_it_is_full(&mut client);
    let held = stage.stalled().saturating_sub(before);
    stage.cluster.resume(0).unwrap();
    assert!(held <= 4 * MIB, "{held} bytes are held");
    assert!(stage.node_bytes("out") < LONG as u64);
    stage.proxy.stop();
}

/// A client that reads nothing asks for the value, and another for something short right behind it on the same connection.
fn queue_behind_a_slow_reader(stage: &mut Stage) -> (Client, Client) {
    let [mut slow, mut other] = [(); 2].map(|()| stage.proxy.connect());
    assert!(other.call(&["SET", &stage.other, "short"]).is_ok());
    let requests = || stage.proxy.metric("tsubaki_node_requests_total", "");
    stage.cluster.pause(0).unwrap();
    let before = requests();
    ask(&mut slow, &stage.key);
    wait_until("the long value is asked for", || requests() == before + 1);
    ask(&mut other, &stage.other);
    wait_until("the short value is asked for", || requests() == before + 2);
    stage.cluster.resume(0).unwrap();
    (slow, other)
}

#[test]
fn a_slow_reader_keeps_those_behind_it_no_longer_than_the_node_does() {
    let Some(server) = required(Server::redis()) else { return };
    let mut stage = Stage::with_a_value(server, &[]);
    let (mut slow, mut other) = queue_behind_a_slow_reader(&mut stage);
    assert_eq!(other.receive().bulk(), Some(&b"short"[..]));
    receive_value(&mut slow, LONG);
    stage.proxy.stop();
}

#[test]
fn a_slow_reader_is_closed_at_its_limit_and_costs_nobody_else_anything() {
    let Some(server) = required(Server::redis()) else { return };
    let mut stage = Stage::with_a_value(server, &[("TSUBAKI_LIMITS_OUTPUT_BUFFER", "10mb")]);
    let connects = stage.proxy.metric("tsubaki_node_connects_total", "");
    let (slow, mut other) = queue_behind_a_slow_reader(&mut stage);
    assert_eq!(other.receive().bulk(), Some(&b"short"[..]));
    assert_eq!(stage.proxy.metric("tsubaki_output_limit_closes_total", ""), 1);
    let mut rest = Vec::new();
    let end = wait_for("the slow reader is closed", || match slow.stream().read(&mut [0; MIB]) {
        Ok(0) | Err(_) => Some(rest.len()),
        Ok(read) => {
            rest.resize(rest.len() + read, 0);
            None
        }
    });
    assert!(end < LONG);
    stage.others_go_on();
    assert_eq!(stage.proxy.metric("tsubaki_node_disconnects_total", ""), 0);
    assert!(stage.proxy.metric("tsubaki_node_connects_total", "") <= connects + 1);
    stage.proxy.stop();
}

#[test]
fn a_reader_that_leaves_half_way_costs_nobody_else_anything() {
    let Some(server) = required(Server::redis()) else { return };
    let stage = Stage::with_a_value(server, &[]);
    let mut client = stage.proxy.connect();
    ask(&mut client, &stage.key);
    receive_header(&mut client, LONG);
    drop(client);
    wait_until("the rest is read and dropped", || {
        stage.proxy.metric("tsubaki_orphan_replies_total", "") == 1
    });
    stage.others_go_on();
    assert_eq!(stage.proxy.metric("tsubaki_node_disconnects_total", ""), 0);
    stage.proxy.stop();
}

#[test]
fn a_writer_that_leaves_half_way_costs_nobody_else_anything() {
    let Some(server) = required(Server::redis()) else { return };
    let stage = Stage::new(server, &[]);
    let mut client = stage.proxy.connect();
    assert!(client.call(&["SET", &stage.key, "before"]).is_ok());
    begin_set(&mut client, &stage.key, LONG);
    send_bytes(&mut client, 0, LONG / 2);
    drop(client);
    stage.others_go_on();
    let mut client = stage.proxy.connect();
    assert_eq!(client.call(&["GET", &stage.key]).bulk(), Some(&b"before"[..]));
    assert_eq!(stage.proxy.metric("tsubaki_node_disconnects_total", ""), 0);
    stage.proxy.stop();
}

#[test]
fn a_pipeline_keeps_its_order_around_long_values() {
    let Some(server) = required(Server::redis()) else { return };
    let stage = Stage::new(server, &[]);
    let mut client = stage.proxy.connect();
    client.send(&[command(&["SET", &stage.key, "1"]), command(&["APPEND", &stage.key, "2"])].concat());
    begin_set(&mut client, &stage.key, LONG);
    send_bytes(&mut client, 0, LONG);
    client.send(b"\r\n");
    for line in [["STRLEN", &stage.key], ["GET", &stage.key], ["DEL", &stage.key], ["STRLEN", &stage.key]] {
        client.send(&command(&line));
    }
    assert!(client.receive().is_ok());
    assert_eq!(client.receive().integer(), Some(2));
    assert!(client.receive().is_ok());
    assert_eq!(client.receive().integer(), Some(LONG as i64));
    let reply = client.receive();
    let mut expected = vec![0; LONG];
    fill(0, &mut expected);
    assert!(reply.bulk() == Some(&expected[..]), "{reply:?}");
    assert_eq!((client.receive().integer(), client.receive().integer()), (Some(1), Some(0)));
    stage.proxy.stop();
}
