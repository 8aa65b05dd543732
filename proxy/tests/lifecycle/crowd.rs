//! Many clients: spread evenly over workers, all served, and gone without a trace.

use std::fs;
use std::io::ErrorKind;
use std::thread;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tsubaki::dev_cluster::{DevCluster, Options, Server};

use crate::harness::client::{Client, command, push_command};
use crate::harness::proxy::{Proxy, Start};
use crate::harness::{cluster, required, wait_until};

const WORKERS: usize = 4;

/// As many as are quick to connect.
const CROWD: usize = 5000;

fn one_master() -> Option<DevCluster> {
    let server = required(Server::find())?;
    Some(cluster(Options { masters: 1, ..Options::new(server) }))
}

fn with_workers(cluster: &DevCluster) -> Proxy {
    // More workers than the machine may have CPUs.
    let start = Start::before(&cluster.seeds()).set("TSUBAKI_PLACEMENT_MODE", "off");
    start.set("TSUBAKI_WORKERS", WORKERS.to_string()).ready()
}

/// Clients open at each worker.
fn spread(proxy: &Proxy) -> [u64; WORKERS] {
    std::array::from_fn(|worker| proxy.metric("tsubaki_clients", &format!("worker=\"{worker}\"")))
}

fn wait_for_clients(proxy: &Proxy, count: usize) {
    wait_until(&format!("{count} clients"), || spread(proxy).iter().sum::<u64>() == count as u64);
}

/// So many clients more, each of which was answered.
fn come(proxy: &Proxy, count: usize) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..count).map(|_| proxy.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.call(&["PING"]).0, b"+PONG\r\n"));
    clients
}

/// The worker that serves a client: their numbers are interleaved.
fn worker_of(client: &mut Client) -> usize {
    (client.call(&["CLIENT", "ID"]).integer().unwrap() as usize - 1) % WORKERS
}

#[test]
fn few_clients_are_spread_exactly_and_many_well() {
    let Some(cluster) = one_master() else { return };
    let proxy = with_workers(&cluster);
    wait_for_clients(&proxy, 0);
    let mut clients = come(&proxy, 16);
    assert_eq!(spread(&proxy), [4; WORKERS]);
    clients.extend(come(&proxy, 1000 - 16));
    let busiest = spread(&proxy).into_iter().max().unwrap();
    assert!(busiest <= 1200 / WORKERS as u64, "{:?}", spread(&proxy));
    drop(clients);
    proxy.stop();
}

#[test]
fn clients_that_come_fill_the_gaps_of_those_that_left() {
    let Some(cluster) = one_master() else { return };
    let proxy = with_workers(&cluster);
    wait_for_clients(&proxy, 0);
    let mut clients = come(&proxy, 40);
    assert_eq!(spread(&proxy), [10; WORKERS]);
    clients.retain_mut(|client| worker_of(client) >= 2);
    wait_for_clients(&proxy, 20);
    assert_eq!(spread(&proxy), [0, 0, 10, 10]);
    clients.extend(come(&proxy, 20));
    assert_eq!(spread(&proxy), [10; WORKERS]);
    clients.iter_mut().for_each(|client| assert!(client.call(&["SET", "key", "value"]).is_ok()));
    proxy.stop();
}

#[test]
fn clients_that_are_handed_over_while_all_workers_stop_are_served() {
    let Some(cluster) = one_master() else { return };
    let mut proxy = with_workers(&cluster);
    proxy.signal(Signal::STOP);
    let mut clients: Vec<Client> = (0..100).map(|_| proxy.connect()).collect();
    let mut pipeline = command(&["PING"]);
    push_command(&mut pipeline, &["SET", "key", "value"]);
    clients.iter_mut().for_each(|client| client.send(&pipeline));
    proxy.signal(Signal::TERM);
    proxy.signal(Signal::CONT);
    for client in &mut clients {
        assert_eq!(client.receive().0, b"+PONG\r\n");
        assert!(client.receive().is_ok());
        assert_eq!(client.try_receive().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
    assert_eq!(proxy.wait().code(), Some(0));
    assert!(!proxy.log().contains("cut off"), "{}", proxy.log());
}

/// Lets this process open a crowd's sockets.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

fn open_files(proxy: &Proxy) -> usize {
    fs::read_dir(format!("/proc/{}/fd", proxy.pid())).unwrap().count()
}

fn resident_bytes(proxy: &Proxy) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", proxy.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kibibytes: usize = line.split_whitespace().next().unwrap().parse().unwrap();
    kibibytes * 1024
}

/// A crowd that comes from several sides at once.
fn storm(proxy: &Proxy) -> Vec<Client> {
    const SIDES: usize = 4;
    thread::scope(|scope| {
        let sides: Vec<_> = (0..SIDES).map(|_| scope.spawn(|| come(proxy, CROWD / SIDES))).collect();
        sides.into_iter().flat_map(|side| side.join().unwrap()).collect()
    })
}

#[test]
fn a_crowd_is_served_costs_little_and_leaves_nothing_behind() {
    let Some(cluster) = one_master() else { return };
    raise_open_files();
    let proxy = Proxy::before(&cluster);
    drop(come(&proxy, 100));
    wait_until("only the proxy's own files are open", || proxy.metric("tsubaki_clients", "") == 0);
    let (files, before) = (open_files(&proxy), resident_bytes(&proxy));

    let crowd = storm(&proxy);
    assert_eq!(proxy.metric("tsubaki_clients", ""), CROWD as u64);
    assert!(open_files(&proxy) >= CROWD);
    let full = resident_bytes(&proxy);
    let each = full.saturating_sub(before) / CROWD;
    eprintln!("{each} resident bytes for each idle client");
    assert!(each <= 1536, "an idle client costs {each} bytes");
    drop(crowd);
    // A look at the topology has a few open for a moment.
    wait_until("the files are closed", || open_files(&proxy) < files + 16);

    // What they had is there for those who come next.
    let _crowd = storm(&proxy);
    let again = resident_bytes(&proxy);
    assert!(again <= full + CROWD * 64, "{again} bytes with the second crowd, {full} with the first");
    proxy.stop();
}
