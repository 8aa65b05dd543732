//! The cluster behind the proxy: `[cluster]`.

use std::fmt;
use std::num::NonZeroU8;
use std::ops::RangeInclusive;

use crate::address::HostPort;
use crate::address_map::AddressMap;
use crate::error::ConfigError;
use crate::resolve::{Choice, Resolver};
use crate::secret::Secret;
use crate::units::Millis;

/// Where the nodes are, how the proxy logs in, and how long it waits for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// `seeds`: nodes to learn the cluster from; one that is alive is enough. Never empty in a loaded
    /// configuration.
    pub seeds: Vec<HostPort>,
    /// `user`: the ACL user at the nodes; needs a password. Default: none, which is the nodes' `default`
    /// user.
    pub user: Option<String>,
    /// `password` or `password_file`: what the proxy sends to the nodes. Default: none.
    pub password: Option<Secret>,
    /// `read_policy`: which nodes serve reads. Default: the masters.
    pub read_policy: ReadPolicy,
    /// `connections_per_node`: connections of one worker to one node for each protocol and role in use, 1 to
    /// 64; a client keeps to one of them. Default: 1, as commands that share a connection share its system
    /// calls.
    pub connections_per_node: NonZeroU8,
    /// `refresh_interval`: how often the topology is fetched without a reason to, 100 ms to 1 h. Default: 10
    /// s. Redirects and lost connections refresh it at once.
    pub refresh_interval: Millis,
    /// `connect_timeout`: until a connection to a node must stand, 100 ms to 60 s. Default: 1 s.
    pub connect_timeout: Millis,
    /// `wait_timeout`: how long a command waits that cannot be written to a node yet (slot not covered, node
    /// down, TRYAGAIN), 100 ms to 60 s. Default: 1.5 s, as many clients give up at 2 s.
    pub wait_timeout: Millis,
    /// `silence_timeout`: how long a node may be silent with commands in flight until they are answered with
    /// an error that says they may have run, 100 ms to 10 min. Default: 15 s, the default
    /// `cluster-node-timeout`.
    pub silence_timeout: Millis,
    /// `address_map`: announced addresses that the proxy reaches elsewhere. Default: none.
    pub address_map: AddressMap,
}

/// Which nodes serve commands that only read, outside transactions and scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadPolicy {
    /// `master`: the slot's master.
    #[default]
    Master,
    /// `prefer-replica`: a replica, or the master if none can.
    PreferReplica,
    /// `replica`: a replica, or an error if none can.
    Replica,
    /// `any`: master and replicas in turn.
    Any,
}

/// All times begin at 100 ms: a forgotten unit (`15` for fifteen seconds) is refused rather than taken for
/// milliseconds.
const SHORTEST: Millis = Millis::ms(100);
/// With 64 workers these are 4096 of the 10,000 clients that a node takes by default.
const CONNECTIONS: RangeInclusive<NonZeroU8> = NonZeroU8::MIN..=NonZeroU8::MIN.saturating_add(63);
const REFRESH_INTERVAL: RangeInclusive<Millis> = SHORTEST..=Millis::secs(3600);
const CONNECT_TIMEOUT: RangeInclusive<Millis> = SHORTEST..=Millis::secs(60);
const WAIT_TIMEOUT: RangeInclusive<Millis> = SHORTEST..=Millis::secs(60);
const SILENCE_TIMEOUT: RangeInclusive<Millis> = SHORTEST..=Millis::secs(600);

impl Default for Cluster {
    fn default() -> Self {
        Self {
            seeds: Vec::new(),
            user: None,
            password: None,
            read_policy: ReadPolicy::default(),
            connections_per_node: NonZeroU8::MIN,
            refresh_interval: Millis::secs(10),
            connect_timeout: Millis::secs(1),
            wait_timeout: Millis::ms(1500),
            silence_timeout: Millis::secs(15),
            address_map: AddressMap::default(),
        }
    }
}

impl Cluster {
    pub(crate) fn resolve(resolver: &Resolver<'_>) -> Result<Self, ConfigError> {
        let default = Self::default();
        let time = |key, default, allowed| resolver.quantity(key, default, allowed);
        let cluster = Self {
            seeds: resolver.list("cluster.seeds", HostPort::FORM, HostPort::parse)?.unwrap_or_default(),
            user: resolve_user(resolver)?,
            password: resolver.secret("cluster.password", "cluster.password_file")?,
            read_policy: resolver.choice("cluster.read_policy", default.read_policy)?,
            connections_per_node: resolver.quantity(
                "cluster.connections_per_node",
                default.connections_per_node,
                CONNECTIONS,
            )?,
            refresh_interval: time("cluster.refresh_interval", default.refresh_interval, REFRESH_INTERVAL)?,
            connect_timeout: time("cluster.connect_timeout", default.connect_timeout, CONNECT_TIMEOUT)?,
            wait_timeout: time("cluster.wait_timeout", default.wait_timeout, WAIT_TIMEOUT)?,
            silence_timeout: time("cluster.silence_timeout", default.silence_timeout, SILENCE_TIMEOUT)?,
            address_map: AddressMap::resolve(resolver.given("cluster.address_map"))?,
        };
        match (&cluster.user, &cluster.password) {
            (Some(user), None) => Err(ConfigError::UserWithoutPassword { user: user.clone() }),
            _ => Ok(cluster),
        }
    }
}

/// Redis' ACL user names: no blanks and no NUL.
fn resolve_user(resolver: &Resolver<'_>) -> Result<Option<String>, ConfigError> {
    let Some(given) = resolver.given("cluster.user") else { return Ok(None) };
    let usable =
        |user: &&str| !user.is_empty() && !user.contains(|c: char| c.is_whitespace() || c.is_control());
    match given.value.text().filter(usable) {
        Some(user) => Ok(Some(user.to_owned())),
        None => Err(given.refuse(&given.value, "a quoted user name without blanks")),
    }
}

impl Choice for ReadPolicy {
    const ALL: &'static [Self] = &[Self::Master, Self::PreferReplica, Self::Replica, Self::Any];

    fn name(self) -> &'static str {
        match self {
            Self::Master => "master",
            Self::PreferReplica => "prefer-replica",
            Self::Replica => "replica",
            Self::Any => "any",
        }
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seeds: Vec<String> = self.seeds.iter().map(|seed| format!("\"{seed}\"")).collect();
        writeln!(f, "[cluster]")?;
        // An empty list is not allowed in a file; only `Config::default` has one.
        let comment = if seeds.is_empty() { "# " } else { "" };
        writeln!(f, "{comment}seeds = [{}]", seeds.join(", "))?;
        if let Some(user) = &self.user {
            writeln!(f, "user = {}", toml::Value::from(user.as_str()))?;
        }
        writeln!(f, "{}", Secret::note(self.password.as_ref()))?;
        writeln!(f, "read_policy = \"{}\"", self.read_policy.name())?;
        writeln!(f, "connections_per_node = {}", self.connections_per_node)?;
        writeln!(f, "refresh_interval = \"{}\"", self.refresh_interval)?;
        writeln!(f, "connect_timeout = \"{}\"", self.connect_timeout)?;
        writeln!(f, "wait_timeout = \"{}\"", self.wait_timeout)?;
        writeln!(f, "silence_timeout = \"{}\"", self.silence_timeout)?;
        writeln!(f, "address_map = {}", self.address_map)
    }
}
