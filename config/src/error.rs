//! [`ConfigError`]: what is wrong with a configuration, in words for the person who wrote it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::address::ListenAddr;
use crate::units::Bytes;

/// The first mistake in a configuration. Its text is complete: where, which key, which value, what is
/// allowed. It never holds a password.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is not TOML. The line itself is not shown, as it may hold a password.
    #[error("{path}:{line}:{column}: not valid TOML: {message}")]
    Syntax {
        /// The file.
        path: String,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// The parser's reason.
        message: String,
    },
    /// The file has a key that no setting has.
    #[error("{path}:{line}: unknown key {key}: the nearest is {nearest}")]
    UnknownKey {
        /// The file.
        path: String,
        /// From 1.
        line: usize,
        /// With its section.
        key: String,
        /// The most similar key.
        nearest: &'static str,
    },
    /// The environment has a variable that begins with `TSUBAKI_` and is no setting.
    #[error("unknown variable {name}: the nearest is {nearest}")]
    UnknownVariable {
        /// The variable.
        name: String,
        /// The most similar variable.
        nearest: &'static str,
    },
    /// A value that its setting does not take.
    #[error("{place} = {value} is not allowed: use {allowed}")]
    Value {
        /// The setting, and where it was given.
        place: Place,
        /// As it was given; cut where it is long or may hold a password.
        value: String,
        /// What the setting takes.
        allowed: String,
    },
    /// A password that is not one. The value is not shown.
    #[error("{place} is not allowed: use {allowed}")]
    Password {
        /// The setting, and where it was given.
        place: Place,
        /// What the setting takes.
        allowed: &'static str,
    },
    /// A password in two forms in one source.
    #[error("{place} and {other} are both given: keep one of them")]
    PasswordTwice {
        /// The password, and where it was given.
        place: Place,
        /// The password file, and where it was given.
        other: Place,
    },
    /// The password file cannot be read.
    #[error("{place} = {path:?} cannot be read: {source}: name a file that the proxy may read")]
    PasswordFile {
        /// The setting, and where it was given.
        place: Place,
        /// The file, joined to the configuration's folder if it was relative.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The password file's content is not a password. It is not shown.
    #[error("{place} = {path:?}: the file must hold the password on one line, and nothing else")]
    PasswordFileContent {
        /// The setting, and where it was given.
        place: Place,
        /// The file.
        path: PathBuf,
    },
    /// No seed was given anywhere.
    #[error(
        "cluster.seeds is missing: name at least one node of the cluster as HOST:PORT, in the file, \
         in TSUBAKI_CLUSTER or with --cluster"
    )]
    NoSeeds,
    /// A user name for the nodes, but no password.
    #[error(
        "cluster.user is {user:?} but there is no password: \
         set cluster.password or cluster.password_file, or leave out cluster.user"
    )]
    UserWithoutPassword {
        /// The user name.
        user: String,
    },
    /// Two listening addresses of which the second cannot be bound beside the first.
    #[error("listen has {first} and {second}, which overlap: keep one of them")]
    ListenOverlap {
        /// The earlier address.
        first: ListenAddr,
        /// The later one.
        second: ListenAddr,
    },
    /// The admin server's address is also one for clients.
    #[error(
        "admin.listen is {admin}, which overlaps with {listen} in listen: give it another port, or \"off\""
    )]
    AdminAddressTaken {
        /// The admin server's address.
        admin: ListenAddr,
        /// The clients' address.
        listen: ListenAddr,
    },
    /// Manual placement without cores.
    #[error(
        "placement.mode is manual but placement.cores is empty: name each worker's CPU, such as \"0-3\", \
         or set placement.mode to auto"
    )]
    NoCores,
    /// Manual placement of another number of workers than there are cores.
    #[error(
        "placement.workers is {workers} but placement.cores names {cores}: in manual mode each worker has one \
         of them; make them as many, or leave out placement.workers"
    )]
    WorkersAndCores {
        /// The number of workers.
        workers: u16,
        /// The number of cores.
        cores: usize,
    },
    /// A bound that must not be below another one.
    #[error(
        "{greater} is {greater_value}, less than {smaller}, which is {smaller_value}: \
         {reason}; raise the first or lower the second"
    )]
    Order {
        /// The key of what must be at least as much.
        greater: &'static str,
        /// Its value.
        greater_value: Bytes,
        /// The key of what it must not be below.
        smaller: &'static str,
        /// Its value.
        smaller_value: Bytes,
        /// Why.
        reason: &'static str,
    },
}

/// A setting, and the source that gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The key in the file, with its section, whatever the source.
    pub key: &'static str,
    /// Where the value was given.
    pub origin: Origin,
}

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the configuration file.
    File {
        /// As the user gave it.
        path: String,
        /// From 1.
        line: usize,
    },
    /// In this environment variable.
    Env(&'static str),
    /// With this flag.
    Flag(&'static str),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key;
        match &self.origin {
            Origin::File { path, line } => write!(f, "{path}:{line}: {key}"),
            Origin::Env(name) | Origin::Flag(name) => write!(f, "{name} ({key})"),
        }
    }
}
