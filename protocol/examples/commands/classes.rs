//! Which class a command has, and how its keys are found: the two columns that no server knows.
//!
//! Rules first come from the facts; [`EXCEPTIONS`] names the commands for which the facts do not tell enough.
//! Nothing is routed for want of another rule: a command that no rule covers stops the generator.

use anyhow::{Result, bail};

use crate::facts::Facts;

/// What tsubaki does with a command, as the table writes it.
#[derive(Clone, Copy)]
pub(crate) enum Class {
    Local,
    Routed,
    Split(&'static str),
    AllNodes(&'static str),
    Private(&'static str),
    Refused(&'static str),
}

const OWN_CONNECTION: Class = Class::Private("it needs a connection of its own");
const EVERY_NODE: Class = Class::AllNodes("it needs every node");
const ONE_NODE: Class = Class::Refused("it administers one node");
const TELLS_OF_ONE: Class = Class::Refused("it tells of one node only");
const MOVES_SLOTS: Class = Class::Refused("it moves keys between nodes past the cluster");
const OTHER_CLIENTS: Class = Class::Refused("it acts on the connections of others");

/// Commands whose class is decided by name, each group with its reason.
const EXCEPTIONS: &[(Class, &[&str])] = &[
    // The connection's own state, which lives in the proxy.
    (Class::Local, &["auth", "echo", "hello", "ping", "quit", "reset", "select", "time"]),
    (Class::Local, &["client|getname", "client|id", "client|info", "client|list", "client|no-evict"]),
    (Class::Local, &["client|no-touch", "client|setinfo", "client|setname"]),
    // The proxy is what the client talks to, so it describes itself.
    (Class::Local, &["command", "config|get", "info"]),
    // Answered as a server outside a cluster answers them.
    (Class::Local, &["asking", "readonly", "readwrite"]),
    // The proxy keeps the transaction.
    (Class::Local, &["discard", "exec", "multi", "unwatch"]),
    // A cluster hands a message to all its nodes by itself, so any master serves PUBLISH; SPUBLISH goes to the
    // slot of its channel, which is no key in the server's words.
    (Class::Routed, &["publish", "spublish"]),
    // Any node does as well as any other.
    (Class::Routed, &["lolwut"]),
    // Flagged blocking, but only BLOCK makes them wait; `Command::blocks` tells.
    (Class::Routed, &["xread", "xreadgroup"]),
    (
        OWN_CONNECTION,
        &["psubscribe", "punsubscribe", "ssubscribe", "subscribe", "sunsubscribe", "unsubscribe"],
    ),
    (OWN_CONNECTION, &["monitor", "script|debug", "watch"]),
    (OWN_CONNECTION, &["client|caching", "client|getredir", "client|import-source", "client|reply"]),
    (OWN_CONNECTION, &["client|tracking", "client|trackinginfo"]),
    // Without a tip, or with one that says less: a part of the answer, or of the effect, is on every node.
    (EVERY_NODE, &["client|pause", "client|unpause", "function|dump", "function|list", "script|show"]),
    (EVERY_NODE, &["pubsub|channels", "pubsub|numpat", "pubsub|numsub"]),
    (EVERY_NODE, &["pubsub|shardchannels", "pubsub|shardnumsub", "wait", "waitaof"]),
    (OTHER_CLIENTS, &["client|kill", "client|unblock"]),
    (MOVES_SLOTS, &["migrate", "restore-asking"]),
    (TELLS_OF_ONE, &["lastsave", "role"]),
    (ONE_NODE, &["acl|cat", "acl|genpass", "acl|whoami"]),
    // It asks the server to name other nodes to the client.
    (Class::Refused("clients see one address only"), &["client|capa"]),
    (Class::Refused("a cluster has only database 0"), &["swapdb"]),
    // Valkey 9.1 answers it on any node, so that one MOVED too late would store keys where nobody finds them.
    (Class::Refused("nodes do not check the slots of its keys"), &["msetex"]),
];

/// Containers whose subcommands are all answered by the proxy: CLUSTER as a server outside a cluster would.
const LOCAL_CONTAINERS: [&str; 2] = ["cluster|", "command|"];

/// Commands that are split by slot. MSETEX and, on Redis 7.0, MSETNX have the tip `multi_shard` too, but their
/// condition holds for all keys at once.
const SPLIT: [(&str, &str); 6] = [
    ("del", "Sum"),
    ("exists", "Sum"),
    ("mget", "Mget"),
    ("mset", "Mset"),
    ("touch", "Sum"),
    ("unlink", "Sum"),
];

/// Commands whose key specs say too little or too much.
const SEARCHES: [(&str, &str); 6] = [
    ("georadius", "GeoRadius"),
    ("georadiusbymember", "GeoRadius"),
    ("migrate", "Migrate"),
    ("sort", "Sort"),
    ("xread", "Streams"),
    ("xreadgroup", "Streams"),
];

/// The class of a command.
pub(crate) fn class(facts: &Facts) -> Result<Class> {
    let name = facts.name.as_str();
    let has = |flag: &str| facts.flags.iter().any(|known| known == flag);
    let goes_to =
        |policy: &str| facts.tips.iter().any(|tip| tip.strip_prefix("request_policy:") == Some(policy));
    let has_keys = facts.keys.iter().any(|spec| spec.flags.iter().all(|flag| flag != "not_key"));
    if let Some(class) = exception(name) {
        return Ok(class);
    }
    Ok(if LOCAL_CONTAINERS.iter().any(|container| name.starts_with(container)) {
        Class::Local
    } else if name.ends_with("|help") {
        Class::Routed
    } else if !facts.subcommands.is_empty() {
        Class::Refused("it needs a subcommand")
    } else if goes_to("all_nodes") || goes_to("all_shards") || goes_to("special") {
        EVERY_NODE
    } else if has("admin") {
        ONE_NODE
    } else if let Some((_, split)) = SPLIT.iter().find(|(split, _)| *split == name) {
        Class::Split(split)
    } else if has("blocking") || has("pubsub") {
        OWN_CONNECTION
    } else if has_keys {
        Class::Routed
    } else {
        bail!("no rule tells the class of '{name}': add it to the exceptions")
    })
}

/// How the keys of a command are found.
pub(crate) fn search(facts: &Facts) -> &'static str {
    SEARCHES.iter().find(|(name, _)| *name == facts.name).map_or("Specs", |(_, search)| search)
}

fn exception(name: &str) -> Option<Class> {
    EXCEPTIONS.iter().find(|(_, names)| names.contains(&name)).map(|(class, _)| *class)
}
