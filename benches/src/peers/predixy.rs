//! predixy, from a built checkout.
//!
//! Must not know: how it is built.

use std::path::PathBuf;

use super::{Start, address, addresses, log, with_commit, write};
use crate::{compare::subject::Site, process::Server, program};

/// Starts predixy in front of the cluster.
///
/// # Errors
/// If it is there and does not start.
pub fn start(site: &Site<'_>, port: u16, threads: u32) -> anyhow::Result<Start> {
    Start::of(found(), site, |Found { program, .. }| {
        let configuration = write(site, "predixy.conf", &render(port, &addresses(site), threads))?;
        let server = Server::start(program, [configuration], &log(site, "predixy"))?;
        Ok(Start::Running { server, nodes: Vec::new() })
    })
}

/// As `1.0.5+ca1630a`.
pub(super) fn version() -> Option<String> {
    let Found { checkout, program } = found().ok()?;
    let text = program::answer(&program, "--version")?;
    Some(with_commit(parse_version(&text)?, program::commit(&checkout)))
}

struct Found {
    checkout: PathBuf,
    program: PathBuf,
}

fn found() -> Result<Found, String> {
    let checkout = program::checkout("PREDIXY_SRC", "predixy")?;
    let program = program::built(&checkout, "src/predixy")?;
    Ok(Found { checkout, program })
}

/// The defaults: its latency monitors, which cost CPU, are off.
fn render(port: u16, nodes: &[String], threads: u32) -> String {
    let servers: String = nodes.iter().map(|node| format!("        + {node}\n")).collect();
    format!(
        "Bind {}
WorkerThreads {threads}
ClusterServerPool {{
    Servers {{
{servers}    }}
}}
",
        address(port)
    )
}

/// From `<path>/predixy predixy-1.0.5`.
fn parse_version(text: &str) -> Option<&str> {
    program::word_after(text, "predixy-")
}

#[cfg(test)]
mod tests {
    use super::{parse_version, render};

    #[test]
    fn it_serves_the_cluster_on_as_many_threads_as_asked() {
        let nodes = ["127.0.0.1:8".to_owned(), "127.0.0.1:9".to_owned()];
        let expected = "Bind 127.0.0.1:7\nWorkerThreads 2\nClusterServerPool {\n    Servers {\n        \
            + 127.0.0.1:8\n        + 127.0.0.1:9\n    }\n}\n";
        assert_eq!(render(7, &nodes, 2), expected);
    }

    #[test]
    fn its_version_is_read_behind_its_path() {
        assert_eq!(parse_version("/src/predixy-master/src/predixy predixy-1.0.5\n"), Some("1.0.5"));
    }
}
