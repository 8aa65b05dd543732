//! Listening sockets: for each address one a worker, among which the kernel spreads the connections; and that of admin.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::Context as _;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tsubaki_config::{Listen, ListenAddr};

use crate::driver;

/// Scrapes and health checks come one at a time.
const ADMIN_BACKLOG: u32 = 64;

/// Binds every address for every worker; the result is one list a worker.
pub(crate) fn bind(listen: &Listen, workers: usize) -> anyhow::Result<Vec<Vec<TcpListener>>> {
    let context = |address: &ListenAddr| format!("cannot listen at {address}");
    for address in &listen.addresses {
        // SO_REUSEPORT would let a second process take half of the clients in silence. Bound, but never listening.
        socket(address, false).map(drop).with_context(|| context(address))?;
    }
    warn_of_short_queue(listen.backlog);
    let one = |address: &ListenAddr| {
        socket(address, true)
            .and_then(|socket| tuned(socket, listen.tcp_keepalive.as_duration()))
            .and_then(|socket| start(socket, listen.backlog))
            .with_context(|| context(address))
    };
    (0..workers).map(|_| listen.addresses.iter().map(one).collect()).collect()
}

/// Has a worker with a CPU get the connections whose packets arrive there, as far as the kernel can (Linux 6.2 and later,
/// and stable kernels); what reaches another worker is handed over.
pub(crate) fn steer(listeners: &[Vec<TcpListener>], cpus: &[Option<usize>]) {
    for (listeners, cpu) in listeners.iter().zip(cpus) {
        for (listener, cpu) in listeners.iter().zip(cpu.iter().cycle()) {
            // Where the kernel refuses, all are handed over.
            let _ = SockRef::from(listener).set_cpu_affinity(*cpu);
        }
    }
}

/// Binds the address of the admin HTTP.
pub(crate) fn bind_admin(address: &ListenAddr) -> anyhow::Result<TcpListener> {
    socket(address, false).and_then(|socket| start(socket, ADMIN_BACKLOG)).with_context(|| {
        format!("cannot listen at {address} for admin (choose another with --admin, or switch it off with --admin off)")
    })
}

fn socket(address: &ListenAddr, shared: bool) -> io::Result<Socket> {
    match address {
        ListenAddr::Ip(address) => bound(*address, true, shared),
        ListenAddr::Any { port } => bound((Ipv6Addr::UNSPECIFIED, *port).into(), false, shared)
            .or_else(|_| bound((Ipv4Addr::UNSPECIFIED, *port).into(), true, shared)),
    }
}

fn bound(address: SocketAddr, only_v6: bool, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// As Redis does: without a word, the kernel gives less than was asked for.
fn warn_of_short_queue(backlog: u32) {
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
    let most = most.ok().and_then(|text| text.trim().parse::<u32>().ok());
    if let Some(most) = most.filter(|most| *most < backlog) {
        tracing::warn!(
            backlog,
            most,
            "the kernel queues fewer connections than backlog: raise net.core.somaxconn or lower backlog"
        );
    }
}

/// Its connections inherit this: five system calls fewer for each.
fn tuned(socket: Socket, keepalive: Duration) -> io::Result<Socket> {
    driver::tune(&socket, keepalive)?;
    Ok(socket)
}

fn start(socket: Socket, backlog: u32) -> io::Result<TcpListener> {
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use tsubaki_config::Config;

    use super::*;

    #[test]
    fn connections_get_their_options_from_the_listener() {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listen = Listen { addresses: vec![ListenAddr::Ip(address)], ..Config::default().listen };
        let listeners = bind(&listen, 1).unwrap().remove(0);
        let _client = std::net::TcpStream::connect(listeners[0].local_addr().unwrap()).unwrap();
        listeners[0].set_nonblocking(false).unwrap();
        let (accepted, _) = listeners[0].accept().unwrap();
        let accepted = SockRef::from(&accepted);
        assert!(accepted.tcp_nodelay().unwrap());
        assert!(accepted.keepalive().unwrap());
        assert_eq!(accepted.tcp_keepalive_time().unwrap(), listen.tcp_keepalive.as_duration());
        assert_eq!(accepted.tcp_keepalive_retries().unwrap(), 3);
    }

    #[test]
    fn a_workers_listeners_are_for_its_cpu_and_others_for_none() {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listen = Listen { addresses: vec![ListenAddr::Ip(address)], ..Config::default().listen };
        let bound = bind(&listen, 2).unwrap();
        steer(&bound, &[Some(0), None]);
        let cpu = |worker: usize| SockRef::from(&bound[worker][0]).cpu_affinity().unwrap();
        assert_eq!(cpu(0), 0);
        // -1: none.
        assert!(cpu(1) > 8191);
    }
}
