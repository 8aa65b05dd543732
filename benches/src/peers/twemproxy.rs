//! twemproxy (Debian: nutcracker), in front of three plain servers: it speaks to no cluster, and has one thread.
//!
//! Must not know: the cluster.

use std::path::PathBuf;

use super::{INSTALL, Start, address, log, plain::Plain, write};
use crate::{
    cluster::MASTERS,
    compare::subject::Site,
    process::{Server, free_port},
    program,
};

/// Starts twemproxy and its servers, as many as the cluster has masters. It has one thread, whatever is asked for.
///
/// # Errors
/// If it is there and does not start.
pub fn start(site: &Site<'_>, port: u16, _threads: u32) -> anyhow::Result<Start> {
    Start::of(found(), site, |nutcracker| {
        let nodes = Plain::start(MASTERS, "twemproxy", site.cluster.folder())?;
        let ports: Vec<_> = nodes.iter().map(|node| node.port).collect();
        let configuration = write(site, "twemproxy.yml", &render(port, &ports))?;
        // It insists on a port for statistics and would take 22222 on all addresses.
        let statistics = free_port()?.to_string();
        let arguments = ["-c", &configuration, "-a", "127.0.0.1", "-s", &statistics];
        let server = Server::start(nutcracker, arguments, &log(site, "twemproxy"))?;
        Ok(Start::Running { server, nodes: nodes.into_iter().map(|node| node.server).collect() })
    })
}

/// As `0.5.0`.
pub(super) fn version() -> Option<String> {
    program::answer(&found().ok()?, "-V").as_deref().and_then(parse_version).map(str::to_owned)
}

fn found() -> Result<PathBuf, String> {
    program::installed("nutcracker", INSTALL)
}

/// Hash and distribution are the ones of its documentation's first example.
fn render(port: u16, nodes: &[u16]) -> String {
    let servers: String = nodes.iter().map(|&node| format!("   - {}:1\n", address(node))).collect();
    format!(
        "redis:
  listen: {}
  hash: fnv1a_64
  distribution: ketama
  redis: true
  servers:
{servers}",
        address(port)
    )
}

fn parse_version(text: &str) -> Option<&str> {
    program::word_after(text, "nutcracker-")
}

#[cfg(test)]
mod tests {
    use super::{parse_version, render};

    #[test]
    fn keys_are_spread_over_its_servers() {
        let expected = "redis:\n  listen: 127.0.0.1:7\n  hash: fnv1a_64\n  distribution: ketama\n  \
            redis: true\n  servers:\n   - 127.0.0.1:8:1\n   - 127.0.0.1:9:1\n";
        assert_eq!(render(7, &[8, 9]), expected);
    }

    #[test]
    fn its_version_is_read() {
        assert_eq!(parse_version("This is nutcracker-0.5.0\nasync event backend: epoll\n\n"), Some("0.5.0"));
    }
}
