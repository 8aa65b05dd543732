//! HAProxy in TCP mode, in front of one plain server: the least that any middle-man can do.
//!
//! Must not know: the cluster.

use std::path::PathBuf;

use super::{INSTALL, Start, address, log, plain::Plain, write};
use crate::{compare::subject::Site, process::Server, program};

/// Starts HAProxy and its server.
///
/// # Errors
/// If it is there and does not start.
pub fn start(site: &Site<'_>, port: u16, threads: u32) -> anyhow::Result<Start> {
    Start::of(found(), site, |haproxy| {
        let mut nodes = Plain::start(1, "haproxy", site.cluster.folder())?;
        let configuration = write(site, "haproxy.cfg", &render(port, nodes[0].port, threads))?;
        let server = Server::start(haproxy, ["-db", "-f", &configuration], &log(site, "haproxy"))?;
        Ok(Start::Running { server, nodes: nodes.drain(..).map(|node| node.server).collect() })
    })
}

/// As `2.6.12-1+deb12u4`.
pub(super) fn version() -> Option<String> {
    program::answer(&found().ok()?, "-v").as_deref().and_then(parse_version).map(str::to_owned)
}

fn found() -> Result<PathBuf, String> {
    program::installed("haproxy", INSTALL)
}

/// The timeouts are the ones of its manual's examples: without any it warns.
fn render(port: u16, node: u16, threads: u32) -> String {
    format!(
        "global
    nbthread {threads}
defaults
    mode tcp
    timeout connect 5s
    timeout client 1m
    timeout server 1m
listen redis
    bind {}
    server node {}
",
        address(port),
        address(node)
    )
}

fn parse_version(text: &str) -> Option<&str> {
    program::word_after(text, "HAProxy version ")
}

#[cfg(test)]
mod tests {
    use super::{parse_version, render};

    #[test]
    fn it_passes_bytes_on_to_one_server() {
        let expected = "global\n    nbthread 2\ndefaults\n    mode tcp\n    timeout connect 5s\n    \
            timeout client 1m\n    timeout server 1m\nlisten redis\n    bind 127.0.0.1:7\n    \
            server node 127.0.0.1:8\n";
        assert_eq!(render(7, 8, 2), expected);
    }

    #[test]
    fn its_version_is_read() {
        let text = "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/\nStatus: long-term\n";
        assert_eq!(parse_version(text), Some("2.6.12-1+deb12u4"));
        assert_eq!(parse_version("HA-Proxy"), None);
    }
}
