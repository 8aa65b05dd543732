//! What clients meet: addresses, password, and how their connections are taken. The keys at the top of the
//! file.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use crate::address::ListenAddr;
use crate::error::ConfigError;
use crate::resolve::Resolver;
use crate::secret::Secret;
use crate::units::Millis;

/// How clients reach the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// `listen`: at least one address, and no two that overlap. Default: port 6380 on loopback.
    pub addresses: Vec<ListenAddr>,
    /// `password` or `password_file`: what clients must send with AUTH or HELLO, as user `default`. Default:
    /// none.
    pub password: Option<Secret>,
    /// `backlog`: connections that the kernel queues for one listener until they are accepted, 1 to 65535.
    /// The kernel cuts it to `net.core.somaxconn`. Default: 4096, that setting's own default since Linux 5.4:
    /// clients that all come back at once find room, and while empty it costs nothing.
    pub backlog: u32,
    /// `tcp_keepalive`: idle time until the kernel probes a connection, of clients and of nodes, 1 s to 2 h.
    /// Default: 60 s, below the four to six minutes after which common load balancers forget an idle
    /// connection.
    pub tcp_keepalive: Millis,
    /// `max_clients`: open client connections of the whole process, 1 to 10 million; more are answered with
    /// Redis' `-ERR max number of clients reached`. Default: 10,000, as Redis.
    pub max_clients: u32,
    /// `shutdown_timeout`: how long a stopping proxy waits for replies in flight, 100 ms to 1 h. Default: 10
    /// s.
    pub shutdown_timeout: Millis,
}

const BACKLOG: RangeInclusive<u32> = 1..=65_535;
const TCP_KEEPALIVE: RangeInclusive<Millis> = Millis::secs(1)..=Millis::secs(7200);
const MAX_CLIENTS: RangeInclusive<u32> = 1..=10_000_000;
/// At least 100 ms: a forgotten unit (`10` for ten seconds) is refused rather than taken for milliseconds.
const SHUTDOWN_TIMEOUT: RangeInclusive<Millis> = Millis::ms(100)..=Millis::secs(3600);

impl Default for Listen {
    fn default() -> Self {
        Self {
            addresses: vec![ListenAddr::Ip(SocketAddr::from((Ipv4Addr::LOCALHOST, 6380)))],
            password: None,
            backlog: 4096,
            tcp_keepalive: Millis::secs(60),
            max_clients: 10_000,
            shutdown_timeout: Millis::secs(10),
        }
    }
}

impl Listen {
    pub(crate) fn resolve(resolver: &Resolver<'_>) -> Result<Self, ConfigError> {
        let default = Self::default();
        let addresses = resolver.list("listen", ListenAddr::FORM, ListenAddr::parse)?;
        let listen = Self {
            addresses: addresses.unwrap_or(default.addresses),
            password: resolver.secret("password", "password_file")?,
            backlog: resolver.quantity("backlog", default.backlog, BACKLOG)?,
            tcp_keepalive: resolver.quantity("tcp_keepalive", default.tcp_keepalive, TCP_KEEPALIVE)?,
            max_clients: resolver.quantity("max_clients", default.max_clients, MAX_CLIENTS)?,
            shutdown_timeout: resolver.quantity(
                "shutdown_timeout",
                default.shutdown_timeout,
                SHUTDOWN_TIMEOUT,
            )?,
        };
        listen.check_no_overlap()?;
        Ok(listen)
    }

    fn check_no_overlap(&self) -> Result<(), ConfigError> {
        for (i, second) in self.addresses.iter().enumerate() {
            if let Some(first) = self.addresses.iter().take(i).find(|first| first.overlaps(*second)) {
                return Err(ConfigError::ListenOverlap { first: *first, second: *second });
            }
        }
        Ok(())
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = self.addresses.iter().map(|address| format!("\"{address}\"")).collect();
        writeln!(f, "listen = [{}]", addresses.join(", "))?;
        writeln!(f, "{}", Secret::note(self.password.as_ref()))?;
        writeln!(f, "backlog = {}", self.backlog)?;
        writeln!(f, "tcp_keepalive = \"{}\"", self.tcp_keepalive)?;
        writeln!(f, "max_clients = {}", self.max_clients)?;
        writeln!(f, "shutdown_timeout = \"{}\"", self.shutdown_timeout)
    }
}
