//! Addresses as text: [`ListenAddr`] to bind, [`HostPort`] to connect to. No name is resolved here.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// An address to bind: `127.0.0.1:6380`, `[::1]:6380` or `*:6380`. The port is never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenAddr {
    /// One address. `0.0.0.0` is every IPv4 address, and `[::]` every IPv6 address and no IPv4 one.
    Ip(SocketAddr),
    /// Every address of the machine, IPv4 and, where the machine has it, IPv6: `*:PORT`.
    Any {
        /// The port on all of them.
        port: u16,
    },
}

/// A node's address: `10.0.0.1:6379`, `[fd00::1]:6379` or `redis-1.internal:6379`.
///
/// The host is in one canonical form, so that equal hosts are equal texts: an IP address as the standard
/// library writes it and without brackets, a name in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// IP address without brackets, or host name in lower case.
    pub host: String,
    /// 1 to 65535.
    pub port: u16,
}

impl ListenAddr {
    /// How it is written, for error messages.
    pub(crate) const FORM: &'static str = "ADDRESS:PORT with an IP address (IPv6 in brackets) \
        or * for every address, such as 127.0.0.1:6380 or *:6380";

    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("*:") {
            Some(port) => Some(Self::Any { port: parse_port(port)? }),
            None => text.parse().ok().filter(|address: &SocketAddr| address.port() != 0).map(Self::Ip),
        }
    }

    /// The port, 1 to 65535.
    pub fn port(self) -> u16 {
        match self {
            Self::Ip(address) => address.port(),
            Self::Any { port } => port,
        }
    }

    /// Whether both cannot be bound at once.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        let addresses_overlap = match (self, other) {
            (Self::Any { .. }, _) | (_, Self::Any { .. }) => true,
            (Self::Ip(a), Self::Ip(b)) => {
                let every = a.ip().is_unspecified() || b.ip().is_unspecified();
                a.ip() == b.ip() || (every && a.is_ipv4() == b.is_ipv4())
            }
        };
        self.port() == other.port() && addresses_overlap
    }
}

impl HostPort {
    /// How it is written, for error messages.
    pub(crate) const FORM: &'static str =
        "HOST:PORT (IPv6 in brackets), without scheme or password, such as 10.0.0.1:6379";

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = match host.strip_prefix('[') {
            Some(bracketed) => {
                canonical_host(bracketed.strip_suffix(']')?).filter(|host| host.contains(':'))?
            }
            None => canonical_host(host).filter(|host| !host.contains(':'))?,
        };
        Some(Self { host, port: parse_port(port)? })
    }
}

/// The one form of a host, or nothing if the text is none.
pub(crate) fn canonical_host(text: &str) -> Option<String> {
    match text.parse::<IpAddr>() {
        Ok(ip) => Some(ip.to_string()),
        Err(_) => is_host_name(text).then(|| text.to_ascii_lowercase()),
    }
}

/// Names of DNS, and the underscores of container names. A last part of digits only is a mistyped IPv4
/// address.
fn is_host_name(text: &str) -> bool {
    let known = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    let last = text.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    text.len() <= 253 && text.bytes().all(known) && !last.bytes().all(|c| c.is_ascii_digit())
}

fn parse_port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Any { port } => write!(f, "*:{port}"),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlap(a: &str, b: &str) -> bool {
        let (a, b) = (ListenAddr::parse(a).unwrap(), ListenAddr::parse(b).unwrap());
        assert_eq!(a.overlaps(b), b.overlaps(a), "{a} {b}");
        a.overlaps(b)
    }

    #[test]
    fn listening_addresses_are_read_and_written_alike() {
        for text in ["127.0.0.1:6380", "[::1]:6380", "0.0.0.0:1", "[::]:65535", "*:6380"] {
            assert_eq!(ListenAddr::parse(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "6380",
            ":6380",
            "*",
            "*:",
            "*:0",
            "*:+1",
            "*:65536",
            "127.0.0.1",
            "127.0.0.1:0",
            "::1:6380",
            "localhost:6380",
        ] {
            assert_eq!(ListenAddr::parse(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_overlap_when_the_kernel_would_refuse_the_second() {
        assert!(overlap("127.0.0.1:6380", "127.0.0.1:6380"));
        assert!(overlap("127.0.0.1:6380", "0.0.0.0:6380"));
        assert!(overlap("[::1]:6380", "[::]:6380"));
        assert!(overlap("[::1]:6380", "*:6380"));
        assert!(!overlap("127.0.0.1:6380", "127.0.0.1:6381"));
        assert!(!overlap("127.0.0.1:6380", "127.0.0.2:6380"));
        assert!(!overlap("0.0.0.0:6380", "[::]:6380"));
        assert!(!overlap("*:6380", "*:6381"));
    }

    #[test]
    fn hosts_have_one_form() {
        for (text, canonical) in [
            ("10.0.0.1:6379", "10.0.0.1:6379"),
            ("[FD00:0::1]:6379", "[fd00::1]:6379"),
            ("Redis-1.Internal:6379", "redis-1.internal:6379"),
            ("redis_node:6379", "redis_node:6379"),
        ] {
            assert_eq!(HostPort::parse(text).unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            ":6379",
            "host",
            "host:",
            "host:0",
            "host:65536",
            "host:+1",
            "10.0.0.300:6379",
            "10.0.0:6379",
            "::1:6379",
            "[::1]",
            "[10.0.0.1]:6379",
            "[host]:6379",
            "[::1:6379",
            "redis://host:6379",
            "p@host:6379",
            "a b:1",
            "é:1",
            ".:1",
        ] {
            assert_eq!(HostPort::parse(text), None, "{text}");
        }
    }
}
