//! A few commands through the one address, each with its key's slot and node, each reply checked, and each
//! written key looked up at the node that should have it.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use tsubaki_protocol::slot::Slot;

use crate::dev_cluster::{Client, DevCluster, Reply};
use crate::progress::Progress;

/// Sends the commands, prints what came back, and fails at the first wrong reply.
pub(super) fn show(cluster: &DevCluster, proxy: SocketAddr, progress: &Progress) -> anyhow::Result<()> {
    let mut client = Client::connect(proxy, None)?;
    progress.line(progress.bold("\nKeys of different slots, through one address"));
    for (command, key, expected) in single() {
        let reply = client.call(&command).with_context(|| command.join(" "))?;
        ensure!(reply == expected, "{}: {reply:?} instead of {expected:?}", command.join(" "));
        let owner = cluster.master_of(key.as_bytes());
        let there = cluster.call(owner, &["EXISTS", key])?;
        ensure!(there == Reply::Integer(1), "{key} is not at its node: EXISTS says {there:?}");
        progress.line(row(&command, &place(cluster, key), &reply));
    }

    progress.line(progress.bold("\nOne command, keys of three slots on three nodes"));
    for (command, expected) in several() {
        let reply = client.call(&command).with_context(|| command.join(" "))?;
        ensure!(reply == expected, "{}: {reply:?} instead of {expected:?}", command.join(" "));
        progress.line(row(&command, "three nodes", &reply));
    }

    let stranger = cluster.master_of(b"city:2");
    let command = ["GET", "visits"];
    let reply = cluster.call(stranger, &command)?;
    progress.line(progress.bold("\nWhat a client without the proxy has to deal with"));
    progress.line(row(&command, &format!("asked of a node: {}", cluster.node(stranger)?.addr()), &reply));
    Ok(())
}

/// Commands of one key each, the key, and the reply that Redis documents.
fn single() -> [(Vec<&'static str>, &'static str, Reply); 6] {
    [
        (vec!["SET", "city:2", "Kyoto"], "city:2", ok()),
        (vec!["SET", "user:1", "Aoi"], "user:1", ok()),
        (vec!["INCR", "visits"], "visits", Reply::Integer(1)),
        (vec!["GET", "city:2"], "city:2", bulk("Kyoto")),
        (vec!["RPUSH", "basket", "pear", "plum"], "basket", Reply::Integer(2)),
        (vec!["LRANGE", "basket", "0", "-1"], "basket", Reply::Array(vec![bulk("pear"), bulk("plum")])),
    ]
}

fn several() -> [(Vec<&'static str>, Reply); 3] {
    let all = Reply::Array(vec![bulk("Kyoto"), bulk("Aoi"), bulk("1")]);
    let after = Reply::Array(vec![bulk("Nara"), bulk("Ren"), bulk("7")]);
    [
        (vec!["MGET", "city:2", "user:1", "visits"], all),
        (vec!["MSET", "city:2", "Nara", "user:1", "Ren", "visits", "7"], ok()),
        (vec!["MGET", "city:2", "user:1", "visits"], after),
    ]
}

fn ok() -> Reply {
    Reply::Simple("OK".to_owned())
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

fn place(cluster: &DevCluster, key: &str) -> String {
    let slot = Slot::of(key.as_bytes()).index();
    let node = cluster.node(cluster.master_of(key.as_bytes())).map(|node| node.addr().to_string());
    format!("slot {slot:>5} at {}", node.unwrap_or_default())
}

fn row(command: &[&str], place: &str, reply: &Reply) -> String {
    format!("  {:<40}{place:<36}{}", command.join(" "), readable(reply))
}

fn readable(reply: &Reply) -> String {
    match reply {
        Reply::Simple(text) => text.clone(),
        Reply::Error(text) => format!("(error) {text}"),
        Reply::Integer(number) => format!("(integer) {number}"),
        Reply::Bulk(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Reply::Nil => "(nil)".to_owned(),
        Reply::Array(items) => items.iter().map(readable).collect::<Vec<_>>().join("  "),
    }
}
