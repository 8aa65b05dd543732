//! The end: what was asked is answered, what waits in the kernel is served, and an operator in a hurry is obeyed.

use std::io;
use std::time::Instant;

use rustix::process::Signal;
use tsubaki::dev_cluster::{DevCluster, Options, Server};

use crate::harness::client::{Client, push_command};
use crate::harness::proxy::{Proxy, Start};
use crate::harness::{cluster, required, wait_until};

fn one_master() -> Option<DevCluster> {
    let server = required(Server::find())?;
    Some(cluster(Options { masters: 1, ..Options::new(server) }))
}

/// A client whose command waits at a node that is paused.
fn client_in_flight(proxy: &Proxy, cluster: &mut DevCluster) -> Client {
    let mut client = proxy.connect();
    assert_eq!(client.call(&["SET", "key", "value"]).0, b"+OK\r\n");
    cluster.pause(0).unwrap();
    let before = proxy.metric("tsubaki_node_requests_total", "");
    let mut get = Vec::new();
    push_command(&mut get, &["GET", "key"]);
    client.send(&get);
    wait_until("the command is at the node", || proxy.metric("tsubaki_node_requests_total", "") > before);
    client
}

fn is_stopping(proxy: &Proxy) -> bool {
    proxy.log().contains("stopping: listeners close")
}

fn assert_ended(client: &mut Client) {
    assert_eq!(client.try_receive().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn what_is_in_flight_is_answered_before_the_end() {
    let Some(mut cluster) = one_master() else { return };
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut proxy = Proxy::before(&cluster);
        let mut client = client_in_flight(&proxy, &mut cluster);

        proxy.signal(signal);
        wait_until("the listeners are closed", || Client::try_connect(proxy.addr()).is_err());
        assert_eq!(client.poll_receive().unwrap(), None, "an answer before the node gave one");
        cluster.resume(0).unwrap();

        assert_eq!(client.receive().bulk(), Some(&b"value"[..]));
        assert_ended(&mut client);
        assert_eq!(proxy.wait().code(), Some(0), "{}", proxy.log());
    }
}

#[test]
fn idle_clients_do_not_delay_the_end() {
    let Some(cluster) = one_master() else { return };
    let proxy = Proxy::before(&cluster);
    let mut clients: Vec<Client> = (0..20).map(|_| proxy.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.call(&["PING"]).0, b"+PONG\r\n");
    }
    let start = Instant::now();
    proxy.stop();
    assert!(start.elapsed().as_secs() < 9, "it waited for its 10 s");
    clients.iter_mut().for_each(assert_ended);
}

#[test]
fn connections_that_wait_in_the_kernel_are_served() {
    let Some(cluster) = one_master() else { return };
    let mut proxy = Start::before(&cluster.seeds()).set("TSUBAKI_BACKLOG", "1000").ready();
    proxy.signal(Signal::STOP);
    let mut clients: Vec<Client> = (0..300).map(|_| proxy.connect()).collect();
    for client in &mut clients {
        let mut pipeline = Vec::new();
        push_command(&mut pipeline, &["PING"]);
        push_command(&mut pipeline, &["SET", "key", "value"]);
        client.send(&pipeline);
    }
    proxy.signal(Signal::TERM);
    proxy.signal(Signal::CONT);
    for client in &mut clients {
        assert_eq!(client.receive().0, b"+PONG\r\n");
        assert!(client.receive().is_ok());
        assert_ended(client);
    }
    assert_eq!(proxy.wait().code(), Some(0));
}

#[test]
fn a_pipeline_that_is_read_half_is_answered_whole() {
    const HALF: usize = 2000;
    /// As many as may be in flight: having read these, the proxy does not read on.
    const READ: usize = 1024;
    let Some(mut cluster) = one_master() else { return };
    let mut proxy = Proxy::before(&cluster);
    let mut client = client_in_flight(&proxy, &mut cluster);
    let mut half = Vec::new();
    (0..HALF).for_each(|_| push_command(&mut half, &["GET", "key"]));
    let read = || proxy.metric("tsubaki_client_bytes_total", "kind=\"in\"");
    let enough = read() + (half.len() / HALF * READ) as u64;
    client.send(&half);
    wait_until("as much is read as may be", || read() >= enough);
    // This stays in the kernel.
    client.send(&half);

    proxy.signal(Signal::TERM);
    wait_until("the listeners are closed", || Client::try_connect(proxy.addr()).is_err());
    cluster.resume(0).unwrap();
    for number in 0..=2 * HALF {
        let reply = client.try_receive().unwrap_or_else(|error| panic!("GET {number}: {error}"));
        assert_eq!(reply.bulk(), Some(&b"value"[..]));
    }
    assert_ended(&mut client);
    assert_eq!(proxy.wait().code(), Some(0));
}

#[test]
fn a_slow_reader_gets_all_that_it_is_owed() {
    const COMMANDS: usize = 20_000;
    let Some(cluster) = one_master() else { return };
    let mut proxy = Proxy::before(&cluster);
    let mut client = proxy.connect();
    let value = vec![b'v'; 1024];
    assert!(client.call(&[&b"SET"[..], b"key", &value]).is_ok());
    let mut pipeline = Vec::new();
    (0..COMMANDS).for_each(|_| push_command(&mut pipeline, &["GET", "key"]));
    client.send(&pipeline);
    wait_until("all is answered by the node", || {
        proxy.metric("tsubaki_command_duration_seconds_count", "") > COMMANDS as u64
    });

    proxy.signal(Signal::TERM);
    wait_until("it is stopping", || is_stopping(&proxy));
    for number in 0..COMMANDS {
        let reply = client.try_receive().unwrap_or_else(|error| panic!("GET {number}: {error}"));
        assert_eq!(reply.bulk(), Some(&value[..]));
    }
    assert_ended(&mut client);
    assert_eq!(proxy.wait().code(), Some(0));
}

#[test]
fn a_second_signal_ends_at_once() {
    let Some(mut cluster) = one_master() else { return };
    for (signal, code) in [(Signal::TERM, 128 + 15), (Signal::INT, 128 + 2)] {
        let mut proxy = Proxy::before(&cluster);
        let _client = client_in_flight(&proxy, &mut cluster);

        proxy.signal(Signal::TERM);
        wait_until("it is stopping", || is_stopping(&proxy));
        proxy.signal(signal);
        assert_eq!(proxy.wait().code(), Some(code), "{}", proxy.log());
        cluster.resume(0).unwrap();
        cluster.wait_ok().unwrap();
    }
}

#[test]
fn the_end_comes_after_the_shutdown_timeout_whatever_is_in_flight() {
    let Some(mut cluster) = one_master() else { return };
    let mut proxy = Start::before(&cluster.seeds()).set("TSUBAKI_SHUTDOWN_TIMEOUT", "400ms").ready();
    let mut client = client_in_flight(&proxy, &mut cluster);

    let start = Instant::now();
    proxy.signal(Signal::TERM);
    assert_eq!(proxy.wait().code(), Some(0));
    let took = start.elapsed().as_millis();
    assert!((400..9_000).contains(&took), "{took} ms");
    assert!(proxy.log().contains("cut off"), "{}", proxy.log());
    assert!(client.try_receive().is_err());
}
