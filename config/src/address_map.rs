//! [`AddressMap`]: the addresses that nodes announce, and those at which the proxy reaches them.

use std::collections::BTreeMap;
use std::fmt;

use crate::address::{HostPort, canonical_host};
use crate::error::ConfigError;
use crate::raw::{Given, Value};

/// Rewrites of announced addresses, for clusters behind NAT, port forwarding or a container network.
///
/// A host with its port goes before the host alone, which keeps the port. A result is not rewritten again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressMap {
    /// Announced host and port to host and port.
    pub exact: BTreeMap<HostPort, HostPort>,
    /// Announced host to host, each in the canonical form of [`HostPort::host`].
    pub hosts: BTreeMap<String, String>,
}

impl AddressMap {
    /// Where the node that announces this host (IPv6 without brackets) and port is reached; `None` if there
    /// as well.
    pub fn rewrite(&self, host: &str, port: u16) -> Option<HostPort> {
        let announced = HostPort { host: canonical_host(host)?, port };
        let by_host = || self.hosts.get(&announced.host).map(|host| HostPort { host: host.clone(), port });
        self.exact.get(&announced).cloned().or_else(by_host)
    }

    /// Reads a table of the file, or `FROM=TO,FROM=TO` of the environment.
    pub(crate) fn resolve(given: Option<&Given>) -> Result<Self, ConfigError> {
        const ALLOWED: &str =
            "\"HOST:PORT\" = \"HOST:PORT\" or \"HOST\" = \"HOST\", each announced address once";
        let mut map = Self::default();
        let Some(given) = given else { return Ok(map) };
        let mut add = |from: &str, to: &str| {
            let pair = Value::Text(format!("{from}={to}"));
            map.add(from.trim(), to.trim()).ok_or_else(|| given.refuse(&pair, ALLOWED))
        };
        match &given.value {
            Value::Table(entries) => {
                for (from, to) in entries {
                    add(from, to.text().ok_or_else(|| given.refuse(to, ALLOWED))?)?;
                }
            }
            Value::Text(text) => {
                for pair in text.split(',') {
                    let (from, to) = pair.split_once('=').unwrap_or((pair, ""));
                    add(from, to)?;
                }
            }
            other => return Err(given.refuse(other, ALLOWED)),
        }
        Ok(map)
    }

    /// Nothing if the two do not fit together, or `from` is there already.
    fn add(&mut self, from: &str, to: &str) -> Option<()> {
        let replaced = match HostPort::parse(from) {
            Some(from) => self.exact.insert(from, HostPort::parse(to)?).is_some(),
            None => self.hosts.insert(host_alone(from)?, host_alone(to)?).is_some(),
        };
        (!replaced).then_some(())
    }
}

/// A host without a port; IPv6 with or without brackets.
fn host_alone(text: &str) -> Option<String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    canonical_host(bare)
}

/// An inline table of TOML.
impl fmt::Display for AddressMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = self.exact.iter().map(|(from, to)| format!("\"{from}\" = \"{to}\""));
        let hosts = self.hosts.iter().map(|(from, to)| format!("\"{from}\" = \"{to}\""));
        let entries: Vec<String> = exact.chain(hosts).collect();
        if entries.is_empty() { f.write_str("{}") } else { write!(f, "{{ {} }}", entries.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> AddressMap {
        let mut map = AddressMap::default();
        for (from, to) in pairs {
            map.add(from, to).unwrap();
        }
        map
    }

    fn rewritten(map: &AddressMap, host: &str, port: u16) -> Option<String> {
        map.rewrite(host, port).map(|address| address.to_string())
    }

    #[test]
    fn host_and_port_go_before_the_host_alone() {
        let map = map(&[("10.0.0.1", "203.0.113.5"), ("10.0.0.1:6379", "127.0.0.1:7000")]);

        assert_eq!(rewritten(&map, "10.0.0.1", 6379).as_deref(), Some("127.0.0.1:7000"));
        assert_eq!(rewritten(&map, "10.0.0.1", 6380).as_deref(), Some("203.0.113.5:6380"));
        assert_eq!(rewritten(&map, "10.0.0.2", 6379), None);
    }

    #[test]
    fn hosts_match_in_any_spelling() {
        let map = map(&[("[FD00::1]", "fd00::2"), ("Node-1", "node-2"), ("[fd00::3]:1", "[fd00::4]:2")]);

        assert_eq!(rewritten(&map, "fd00:0::1", 1).as_deref(), Some("[fd00::2]:1"));
        assert_eq!(rewritten(&map, "NODE-1", 1).as_deref(), Some("node-2:1"));
        assert_eq!(rewritten(&map, "FD00::3", 1).as_deref(), Some("[fd00::4]:2"));
    }

    #[test]
    fn a_result_is_not_rewritten_again() {
        let map = map(&[("a", "b"), ("b", "a")]);

        assert_eq!(rewritten(&map, "a", 1).as_deref(), Some("b:1"));
    }

    #[test]
    fn an_announced_address_that_is_no_host_is_left_alone() {
        assert_eq!(rewritten(&map(&[("a", "b")]), "?", 6379), None);
        assert_eq!(rewritten(&map(&[("a", "b")]), "", 6379), None);
    }
}
