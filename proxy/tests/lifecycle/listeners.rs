//! Where clients connect.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use rustix::process::Signal;
use tsubaki::dev_cluster::{DevCluster, Options, Server, free_port};

use crate::harness::client::Client;
use crate::harness::proxy::Start;
use crate::harness::{cluster, required, wait_until};
use crate::program::{Running, finish};

fn small_cluster() -> Option<DevCluster> {
    let server = required(Server::find())?;
    Some(cluster(Options { masters: 1, ..Options::new(server) }))
}

fn has_ipv6() -> bool {
    let has = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !has {
        eprintln!("skipped: this machine has no IPv6");
    }
    has
}

fn serves(addr: SocketAddr) -> bool {
    Client::try_connect(addr).is_ok_and(|mut client| client.call(&["SET", "key", "value"]).is_ok())
}

/// Starts a proxy that listens at `listen` and waits until each of `addrs` serves.
fn check(listen: &str, addrs: &[SocketAddr]) {
    let Some(cluster) = small_cluster() else { return };
    let seed = cluster.seeds()[0].to_string();
    let proxy = Running::start(
        &["run", "--listen", listen, "--cluster", &seed, "--admin", "off", "--workers", "2"],
        &[],
    );
    for addr in addrs {
        wait_until(&format!("{addr} serves"), || serves(*addr));
    }
    let end = proxy.end(Signal::TERM);
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), ""), "{}", end.stderr);
}

fn port() -> u16 {
    free_port().unwrap()
}

#[test]
fn several_addresses_serve_the_same_cluster() {
    let (a, b) = ((Ipv4Addr::LOCALHOST, port()).into(), (Ipv4Addr::new(127, 0, 0, 2), port()).into());
    check(&format!("{a},{b}"), &[a, b]);
}

#[test]
fn an_address_of_ipv6_serves() {
    if has_ipv6() {
        let addr = (Ipv6Addr::LOCALHOST, port()).into();
        check(&format!("{addr}"), &[addr]);
    }
}

#[test]
fn a_star_is_every_address_of_both_families() {
    if has_ipv6() {
        let port = port();
        check(
            &format!("*:{port}"),
            &[(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()],
        );
    }
}

#[test]
fn a_second_proxy_at_the_same_address_is_refused() {
    let Some(cluster) = small_cluster() else { return };
    let proxy = Start::before(&cluster.seeds()).ready();
    let (addr, seed) = (proxy.addr().to_string(), cluster.seeds()[0].to_string());

    let second = finish(&["run", "--listen", &addr, "--cluster", &seed, "--admin", "off"], &[]);
    assert_eq!((second.code, second.stdout.as_str()), (Some(1), ""));
    let last = second.stderr.lines().last().unwrap();
    assert!(last.starts_with(&format!("tsubaki: cannot listen at {addr}: Address already in use")), "{last}");
    assert!(serves(proxy.addr()));
    proxy.stop();
}

#[test]
fn a_queue_that_the_kernel_shortens_is_told() {
    let most: u32 = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
    if most >= 65_535 {
        eprintln!("skipped: the kernel allows as much as can be set");
        return;
    }
    let listen = format!("127.0.0.1:{}", port());
    let args = ["run", "--listen", &listen, "--cluster", "127.0.0.1:1", "--admin", "off"];
    let proxy = Running::start(&args, &[("TSUBAKI_BACKLOG", "65535")]);
    proxy.wait_for_log("raise net.core.somaxconn");
    proxy.wait_for_log("tsubaki starts");
    assert_eq!(proxy.end(Signal::TERM).code, Some(0));
}

#[test]
fn a_taken_admin_address_says_how_to_change_it() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let admin = taken.local_addr().unwrap().to_string();
    let listen = format!("127.0.0.1:{}", port());
    let refused = finish(&["run", "--listen", &listen, "--cluster", "127.0.0.1:1", "--admin", &admin], &[]);
    assert_eq!(refused.code, Some(1));
    for part in [admin.as_str(), "--admin off", "Address already in use"] {
        assert!(refused.stderr.contains(part), "no {part:?} in {refused:?}");
    }
}
