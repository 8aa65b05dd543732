//! Envoy's Redis proxy, which finds the cluster's nodes by itself.
//!
//! Must not know: how Envoy comes onto a machine.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{INSTALL, Start, log, write};
use crate::{compare::subject::Site, process::Server, program};

/// Starts Envoy in front of the cluster.
///
/// # Errors
/// If it is there and does not start.
pub fn start(site: &Site<'_>, port: u16, threads: u32) -> anyhow::Result<Start> {
    Start::of(found(), site, |envoy| {
        let configuration = write(site, "envoy.json", &render(port, &site.cluster.ports()).to_string())?;
        let threads = threads.to_string();
        let arguments = [
            "--config-path",
            &configuration,
            "--concurrency",
            &threads,
            // Only that needs memory shared with other Envoys.
            "--disable-hot-restart",
            "--log-level",
            "warning",
        ];
        let server = Server::start(envoy, arguments, &log(site, "envoy"))?;
        Ok(Start::Running { server, nodes: Vec::new() })
    })
}

/// As `1.40.0`.
pub(super) fn version() -> Option<String> {
    program::answer(&found().ok()?, "--version").as_deref().and_then(parse_version).map(str::to_owned)
}

/// The one that was installed for the benchmarks, else any.
fn found() -> Result<PathBuf, String> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/envoy/envoy/_bin/envoy");
    if own.is_file() { Ok(own) } else { program::installed("envoy", INSTALL) }
}

/// Nothing but what has no default.
fn render(port: u16, nodes: &[u16]) -> Value {
    let filter = json!({
        "name": "envoy.filters.network.redis_proxy",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy",
            "stat_prefix": "redis",
            "settings": { "op_timeout": "5s" },
            "prefix_routes": { "catch_all_route": { "cluster": "redis" } },
        },
    });
    let cluster_type = json!({
        "name": "envoy.clusters.redis",
        "typed_config": { "@type": "type.googleapis.com/envoy.extensions.clusters.redis.v3.RedisClusterConfig" },
    });
    let seeds: Vec<_> =
        nodes.iter().map(|&node| json!({ "endpoint": { "address": address(node) } })).collect();
    json!({
        "static_resources": {
            "listeners": [{
                "name": "redis",
                "address": address(port),
                "filter_chains": [{ "filters": [filter] }],
            }],
            "clusters": [{
                "name": "redis",
                "cluster_type": cluster_type,
                "lb_policy": "CLUSTER_PROVIDED",
                "load_assignment": { "cluster_name": "redis", "endpoints": [{ "lb_endpoints": seeds }] },
            }],
        },
    })
}

fn address(port: u16) -> Value {
    json!({ "socket_address": { "address": "127.0.0.1", "port_value": port } })
}

/// From `envoy  version: <commit>/1.40.0/Clean/RELEASE/BoringSSL`.
fn parse_version(text: &str) -> Option<&str> {
    program::word_after(text, "version: ")?.split('/').nth(1)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{parse_version, render};

    #[test]
    fn the_cluster_is_found_from_its_nodes() {
        let configuration = render(7, &[8, 9]);
        let resources = &configuration["static_resources"];
        let port = |holder: &Value| holder["address"]["socket_address"]["port_value"].as_u64();
        assert_eq!(port(&resources["listeners"][0]), Some(7));
        let seeds = &resources["clusters"][0]["load_assignment"]["endpoints"][0]["lb_endpoints"];
        let seed = |index: usize| port(&seeds[index]["endpoint"]);
        assert_eq!([seed(0), seed(1), seed(2)], [Some(8), Some(9), None]);
    }

    #[test]
    fn its_version_is_read() {
        let text = "\n/a/envoy  version: 9e5580933739775e8bce696a57a2e1bc99368f23/1.40.0/Clean/RELEASE/BoringSSL\n\n";
        assert_eq!(parse_version(text), Some("1.40.0"));
        assert_eq!(parse_version("envoy version"), None);
    }
}
