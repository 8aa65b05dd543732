//! The flags of a command.

use std::fmt;

/// A set of the flags that `COMMAND` reports.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u32);

impl Flags {
    /// May change data.
    pub const WRITE: Self = Self(1 << 0);
    /// Only reads data.
    pub const READONLY: Self = Self(1 << 1);
    /// Refused by a server that is out of memory.
    pub const DENYOOM: Self = Self(1 << 2);
    /// Administers a server.
    pub const ADMIN: Self = Self(1 << 3);
    /// Belongs to publish and subscribe.
    pub const PUBSUB: Self = Self(1 << 4);
    /// Refused inside a script.
    pub const NOSCRIPT: Self = Self(1 << 5);
    /// May keep its connection waiting.
    pub const BLOCKING: Self = Self(1 << 6);
    /// Served while the data set is loading.
    pub const LOADING: Self = Self(1 << 7);
    /// Served by a replica with stale data.
    pub const STALE: Self = Self(1 << 8);
    /// Not shown to MONITOR.
    pub const SKIP_MONITOR: Self = Self(1 << 9);
    /// Not kept in the slow log (Redis).
    pub const SKIP_SLOWLOG: Self = Self(1 << 10);
    /// Not kept in the command log (Valkey 8.1).
    pub const SKIP_COMMANDLOG: Self = Self(1 << 11);
    /// Served from an importing slot without ASKING.
    pub const ASKING: Self = Self(1 << 12);
    /// Takes constant or logarithmic time.
    pub const FAST: Self = Self(1 << 13);
    /// Served before AUTH.
    pub const NO_AUTH: Self = Self(1 << 14);
    /// May come without any key although it has a place for them.
    pub const NO_MANDATORY_KEYS: Self = Self(1 << 15);
    /// Refused while the data set is loading in the background.
    pub const NO_ASYNC_LOADING: Self = Self(1 << 16);
    /// Refused inside a transaction.
    pub const NO_MULTI: Self = Self(1 << 17);
    /// Its keys are not all in the range of first key, last key and step.
    pub const MOVABLEKEYS: Self = Self(1 << 18);
    /// Served while a script runs too long.
    pub const ALLOW_BUSY: Self = Self(1 << 19);

    /// Every flag with its name, in the order in which servers list them.
    const NAMES: [(Self, &'static str); 20] = [
        (Self::WRITE, "write"),
        (Self::READONLY, "readonly"),
        (Self::DENYOOM, "denyoom"),
        (Self::ADMIN, "admin"),
        (Self::PUBSUB, "pubsub"),
        (Self::NOSCRIPT, "noscript"),
        (Self::BLOCKING, "blocking"),
        (Self::LOADING, "loading"),
        (Self::STALE, "stale"),
        (Self::SKIP_MONITOR, "skip_monitor"),
        (Self::SKIP_SLOWLOG, "skip_slowlog"),
        (Self::SKIP_COMMANDLOG, "skip_commandlog"),
        (Self::ASKING, "asking"),
        (Self::FAST, "fast"),
        (Self::NO_AUTH, "no_auth"),
        (Self::NO_MANDATORY_KEYS, "no_mandatory_keys"),
        (Self::NO_ASYNC_LOADING, "no_async_loading"),
        (Self::NO_MULTI, "no_multi"),
        (Self::MOVABLEKEYS, "movablekeys"),
        (Self::ALLOW_BUSY, "allow_busy"),
    ];

    /// The set of these flags.
    #[must_use]
    pub const fn of(flags: &[Self]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < flags.len() {
            bits |= flags[at].0;
            at += 1;
        }
        Self(bits)
    }

    /// True if all of `flags` are in the set.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The names of the flags in the set, as `COMMAND` writes them and in its order.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        Self::NAMES.into_iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| name)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
