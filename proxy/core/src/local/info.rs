//! INFO as one standalone server, and TSUBAKI INFO with the cluster's own view.

use std::fmt::{Display, Write as _};

use super::Context;
use crate::stats::Stats;

/// The nodes' lowest version; before any node told, the oldest that tsubaki is tested with.
pub(super) fn redis_version<'a>(context: &Context<'a>) -> &'a str {
    context.topology.redis_version.as_deref().unwrap_or("7.0.0")
}

/// The sections of these names, in lower case; all if none is named.
pub(super) fn text(context: &Context<'_>, stats: &Stats, sections: &[String]) -> String {
    let identity = &context.settings.identity;
    let uptime = context.now.since_epoch().as_secs();
    let all: [Section<'_>; 7] = [
        (
            "Server",
            &[
                ("redis_version", &redis_version(context)),
                ("redis_mode", &"standalone"),
                ("tsubaki_version", &identity.version),
                ("process_id", &identity.pid),
                ("run_id", &identity.run_id),
                ("tcp_port", &identity.port),
                ("uptime_in_seconds", &uptime),
                ("uptime_in_days", &(uptime / 86_400)),
            ],
        ),
        (
            "Clients",
            &[
                ("connected_clients", &stats.clients),
                ("maxclients", &identity.max_clients),
                ("blocked_clients", &0),
            ],
        ),
        ("Persistence", &[("loading", &0), ("rdb_bgsave_in_progress", &0), ("aof_enabled", &0)]),
        (
            "Stats",
            &[
                ("total_connections_received", &stats.accepted),
                ("total_commands_processed", &stats.commands),
                ("total_net_input_bytes", &stats.client_in_bytes),
                ("total_net_output_bytes", &stats.client_out_bytes),
                ("rejected_connections", &stats.rejected),
            ],
        ),
        ("Replication", &[("role", &"master"), ("connected_slaves", &0)]),
        ("Cluster", &[("cluster_enabled", &0)]),
        ("Keyspace", &[]),
    ];
    let asks_for = |name: &str| {
        let is_all = |word: &str| matches!(word, "all" | "default" | "everything");
        sections.is_empty() || sections.iter().any(|word| is_all(word) || word.eq_ignore_ascii_case(name))
    };
    write(all.into_iter().filter(|(name, _)| asks_for(name)))
}

/// The cluster behind the proxy.
pub(super) fn cluster(context: &Context<'_>) -> String {
    let topology = context.topology;
    let fields: [Field<'_>; 5] = [
        ("masters", &topology.shards.len()),
        ("replicas", &topology.shards.iter().map(|shard| shard.replicas.len()).sum::<usize>()),
        ("slots_covered", &topology.covered()),
        ("redis_version", &redis_version(context)),
        ("view_age_seconds", &context.now.since(topology.fetched).as_secs()),
    ];
    write([("Cluster behind the proxy", fields.as_slice())])
}

type Field<'a> = (&'static str, &'a dyn Display);
type Section<'a> = (&'static str, &'a [Field<'a>]);

fn write<'a>(sections: impl IntoIterator<Item = Section<'a>>) -> String {
    let mut text = String::new();
    for (name, fields) in sections {
        let gap = if text.is_empty() { "" } else { "\r\n" };
        // Writing to a String cannot fail, here and below.
        let _ = write!(text, "{gap}# {name}\r\n");
        for (field, value) in fields {
            let _ = write!(text, "{field}:{value}\r\n");
        }
    }
    text
}
