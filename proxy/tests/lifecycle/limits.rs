//! Clients and files: what happens at the bounds.

use std::fs;
use std::io;

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use tsubaki::dev_cluster::{DevCluster, Options, Server, free_port};

use crate::harness::client::{Client, command};
use crate::harness::proxy::{Proxy, Start};
use crate::harness::{cluster, required, wait_for, wait_until};
use crate::program::Running;

fn one_master() -> Option<DevCluster> {
    let server = required(Server::find())?;
    Some(cluster(Options { masters: 1, ..Options::new(server) }))
}

fn figure(proxy: &Proxy, name: &str) -> u64 {
    proxy.metric("tsubaki_client_connections_total", &format!("kind=\"{name}\""))
}

/// A client that has a place; whoever came before may not have been seen leaving.
fn admitted(proxy: &Proxy) -> Client {
    wait_for("a place", || {
        let mut client = proxy.connect();
        client.try_call(&["PING"]).is_ok_and(|reply| reply.0 == b"+PONG\r\n").then_some(client)
    })
}

#[test]
fn one_client_too_many_gets_the_error_of_redis_and_a_place_once_there_is_one() {
    let Some(cluster) = one_master() else { return };
    let proxy = Start::before(&cluster.seeds()).set("TSUBAKI_MAX_CLIENTS", "3").ready();
    let mut inside: Vec<Client> = (0..3).map(|_| admitted(&proxy)).collect();

    let before = figure(&proxy, "rejected");
    for _ in 0..20 {
        let mut refused = proxy.connect();
        assert_eq!(refused.receive().error(), Some("ERR max number of clients reached"));
        assert_eq!(refused.try_receive().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
    assert_eq!(figure(&proxy, "rejected"), before + 20);
    let lines = proxy.log().matches("max_clients is reached").count();
    assert!((1..10).contains(&lines), "{}", proxy.log());
    assert!(inside[0].call(&["SET", "key", "value"]).is_ok());

    inside.pop();
    assert_eq!(admitted(&proxy).call(&["GET", "key"]).bulk(), Some(&b"value"[..]));
    proxy.stop();
}

/// Lets the proxy open so many more files than it has open now.
fn leave_files(proxy: &Proxy, more: u64) {
    let open = fs::read_dir(format!("/proc/{}/fd", proxy.pid())).unwrap().count() as u64;
    let limit = Rlimit { current: Some(open + more), maximum: Some(open + more) };
    prlimit(Pid::from_raw(i32::try_from(proxy.pid()).unwrap()), Resource::Nofile, limit).unwrap();
}

#[test]
fn accepting_pauses_when_files_run_out_and_goes_on_when_there_are_some() {
    let Some(cluster) = one_master() else { return };
    let proxy = Proxy::before(&cluster);
    let mut first = proxy.connect();
    assert!(first.call(&["SET", "key", "value"]).is_ok());
    leave_files(&proxy, 10);

    let mut waiting: Vec<Client> = (0..30).map(|_| proxy.connect()).collect();
    wait_until("accepting pauses", || proxy.log().contains("accepting pauses"));
    assert!(proxy.log().contains("LimitNOFILE"), "the line says what to do: {}", proxy.log());
    assert_eq!(first.call(&["GET", "key"]).bulk(), Some(&b"value"[..]), "who is inside is served");
    let ping = command(&["PING"]);
    waiting.iter_mut().for_each(|client| client.send(&ping));
    let mut inside = next_answered(&mut waiting);
    assert!(waiting.len() >= 10, "only {} wait", waiting.len());

    // Each that leaves makes room for one that waits.
    while !waiting.is_empty() {
        inside.clear();
        inside = next_answered(&mut waiting);
    }
    assert_eq!(first.call(&["GET", "key"]).bulk(), Some(&b"value"[..]));
    proxy.stop();
}

/// Takes out those that are answered, at least one.
fn next_answered(waiting: &mut Vec<Client>) -> Vec<Client> {
    wait_for("an answer", || {
        let answered: Vec<Client> =
            waiting.extract_if(.., |client| client.poll_receive().unwrap().is_some()).collect();
        (!answered.is_empty()).then_some(answered)
    })
}

#[test]
fn the_limit_of_open_files_is_raised_as_far_as_the_system_allows() {
    let listen = format!("127.0.0.1:{}", free_port().unwrap());
    let args = ["run", "--listen", &listen, "--cluster", "127.0.0.1:1", "--admin", "off", "--workers", "1"];
    let proxy = Running::start_after("ulimit -S -n 100; ulimit -H -n 500", &args, &[]);
    proxy.wait_for_log("tsubaki starts");
    let limits = fs::read_to_string(format!("/proc/{}/limits", proxy.pid())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().skip(3).take(2).collect::<Vec<_>>(), ["500", "500"], "{files}");
    proxy.wait_for_log("too low for max_clients");
    assert_eq!(proxy.end(Signal::TERM).code, Some(0));
}
