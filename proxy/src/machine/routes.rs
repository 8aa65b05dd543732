//! Which network interface leads where: `/proc/net/route`, `/proc/net/if_inet6`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::files::Root;

/// Interfaces by what is reached through them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Routes {
    /// Network, prefix length, interface; the longest prefix first.
    v4: Vec<(Ipv4Addr, u32, String)>,
    /// The machine's own addresses.
    v6: Vec<(Ipv6Addr, String)>,
}

impl Routes {
    pub(super) fn read(root: &Root) -> Self {
        let table = root.text("proc/net/route").unwrap_or_default();
        let mut v4: Vec<_> = table.lines().skip(1).filter_map(v4_route).collect();
        v4.sort_by_key(|(_, prefix, _)| std::cmp::Reverse(*prefix));
        let table = root.text("proc/net/if_inet6").unwrap_or_default();
        Self { v4, v6: table.lines().filter_map(v6_address).collect() }
    }

    /// The interfaces through which clients reach a listening address, none for loopback. For an unspecified one every
    /// interface that leads anywhere.
    pub(crate) fn interfaces(&self, address: IpAddr) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        match address.to_canonical() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => {
                found.extend(self.v4.iter().map(|(.., name)| name.as_str()).filter(|name| *name != "lo"));
            }
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
                let leads =
                    |(address, name): &&(Ipv6Addr, String)| name != "lo" && !address.is_unicast_link_local();
                found.extend(self.v6.iter().filter(leads).map(|(_, name)| name.as_str()));
            }
            address if address.is_loopback() => {}
            IpAddr::V4(address) => {
                let route = self.v4.iter().find(|(network, prefix, _)| {
                    let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
                    address.to_bits() & mask == network.to_bits()
                });
                found.extend(route.map(|(.., name)| name.as_str()));
            }
            IpAddr::V6(address) => {
                let own = self.v6.iter().find(|(known, _)| *known == address);
                found.extend(own.map(|(_, name)| name.as_str()));
            }
        }
        let mut seen = Vec::new();
        found.retain(|name| {
            !seen.contains(name) && {
                seen.push(*name);
                true
            }
        });
        found
    }
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask …`, addresses as hexadecimal words of this machine.
fn v4_route(line: &str) -> Option<(Ipv4Addr, u32, String)> {
    let mut fields = line.split_whitespace();
    let name = fields.next()?.to_owned();
    let word =
        |text: &str| u32::from_str_radix(text, 16).ok().map(|word| u32::from_be_bytes(word.to_ne_bytes()));
    let network = word(fields.next()?)?;
    let mask = word(fields.nth(5)?)?;
    Some((Ipv4Addr::from_bits(network), mask.leading_ones(), name))
}

/// `address index prefix scope flags name`, the address as 32 hexadecimal digits.
fn v6_address(line: &str) -> Option<(Ipv6Addr, String)> {
    let mut fields = line.split_whitespace();
    let address = u128::from_str_radix(fields.next()?, 16).ok()?;
    Some((Ipv6Addr::from_bits(address), fields.last()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes() -> Routes {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        std::fs::create_dir_all(root.path("proc/net")).unwrap();
        let v4 = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                  eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
                  eth0\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n\
                  eth1\t0001000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n";
        std::fs::write(root.path("proc/net/route"), v4).unwrap();
        let v6 = "00000000000000000000000000000001 01 80 10 80       lo\n\
                  fd000000000000000000000000000001 03 40 00 80     eth2\n\
                  fe800000000000000000000000000001 04 40 20 80     eth3\n";
        std::fs::write(root.path("proc/net/if_inet6"), v6).unwrap();
        Routes::read(&root)
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn an_address_is_reached_through_the_most_specific_interface() {
        for (address, expected) in [
            ("10.0.0.7", &["eth0"][..]),
            ("10.0.1.7", &["eth1"]),
            ("192.168.0.1", &["eth0"]),
            ("127.0.0.1", &[]),
            ("::1", &[]),
            ("fd00::1", &["eth2"]),
            ("fd00::2", &[]),
            ("0.0.0.0", &["eth0", "eth1"]),
            ("::", &["eth2"]),
        ] {
            let mut found = routes()
                .interfaces(address.parse().unwrap())
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>();
            found.sort();
            assert_eq!(found, expected, "{address}");
        }
    }
}
