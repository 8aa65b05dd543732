//! The program that the nodes run: redis-server or valkey-server.

use std::env;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

/// `cluster-port`, which the nodes need, came with Redis 7.0; every Valkey has it.
const OLDEST: u32 = 7;

/// A server program that can be a cluster node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    path: PathBuf,
    name: String,
    version: String,
}

/// Why a program cannot be used, or none was found.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Nothing is installed.
    #[error(
        "no {0} found: install it (Debian: `apt-get install redis-server`), or name its path in TSUBAKI_REDIS_SERVER or TSUBAKI_VALKEY_SERVER"
    )]
    Missing(&'static str),
    /// The program does not run.
    #[error("{} does not run: {source}", path.display())]
    Broken {
        /// The program.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The program runs and is something else.
    #[error("{} is no redis-server or valkey-server: `--version` says {said:?}", path.display())]
    Other {
        /// The program.
        path: PathBuf,
        /// What it printed.
        said: String,
    },
    /// The program is too old.
    #[error("{} is version {version}: 7.0 or later is needed", path.display())]
    Old {
        /// The program.
        path: PathBuf,
        /// Its version.
        version: String,
    },
}

impl Server {
    /// A Redis, else a Valkey, wherever [`Server::redis`] and [`Server::valkey`] look.
    ///
    /// # Errors
    /// When there is neither, or the one found cannot be used.
    pub fn find() -> Result<Self, ServerError> {
        let found = redis_path().or_else(valkey_path);
        Self::at(found.ok_or(ServerError::Missing("redis-server or valkey-server"))?)
    }

    /// The Redis that `TSUBAKI_REDIS_SERVER` names, else the redis-server on the PATH.
    ///
    /// # Errors
    /// When there is none, or the one found cannot be used.
    pub fn redis() -> Result<Self, ServerError> {
        Self::at(redis_path().ok_or(ServerError::Missing("redis-server"))?)
    }

    /// The Valkey that `TSUBAKI_VALKEY_SERVER` names, else the valkey-server on the PATH, else the one that
    /// `make deps` put into the source tree.
    ///
    /// # Errors
    /// When there is none, or the one found cannot be used.
    pub fn valkey() -> Result<Self, ServerError> {
        Self::at(valkey_path().ok_or(ServerError::Missing("valkey-server"))?)
    }

    /// The program at `path`, asked for its version.
    ///
    /// # Errors
    /// When it does not run, is something else or older than Redis 7.0.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, ServerError> {
        let path = path.into();
        let output = match Command::new(&path).arg("--version").output() {
            Ok(output) => output,
            Err(source) => return Err(ServerError::Broken { path, source }),
        };
        let said = String::from_utf8_lossy(&output.stdout);
        let Some((name, version)) = identity(&said) else {
            return Err(ServerError::Other { path, said: said.trim().to_owned() });
        };
        if major(&version) < OLDEST {
            return Err(ServerError::Old { path, version });
        }
        Ok(Self { path, name, version })
    }

    /// Where the program is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is a Valkey, else it is a Redis.
    pub fn is_valkey(&self) -> bool {
        self.name == "Valkey"
    }

    /// Its version, such as `7.0.15`.
    pub fn version(&self) -> &str {
        &self.version
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// Reads `Redis server v=7.0.15 sha=…` or `Valkey server v=9.0.1 sha=…`.
fn identity(said: &str) -> Option<(String, String)> {
    let (name, rest) = said.split_once(" server v=")?;
    if !matches!(name, "Redis" | "Valkey") {
        return None;
    }
    let version = rest.split_whitespace().next()?;
    Some((name.to_owned(), version.to_owned()))
}

fn major(version: &str) -> u32 {
    version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0)
}

fn redis_path() -> Option<PathBuf> {
    named_by("TSUBAKI_REDIS_SERVER").or_else(|| on_path("redis-server"))
}

fn valkey_path() -> Option<PathBuf> {
    named_by("TSUBAKI_VALKEY_SERVER").or_else(|| on_path("valkey-server")).or_else(in_source_tree)
}

fn named_by(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// What `make deps` installed, seen from any folder of the source tree.
fn in_source_tree() -> Option<PathBuf> {
    let here = env::current_dir().ok()?;
    here.ancestors().map(|dir| dir.join(".cache/valkey/valkey-server")).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_are_told_apart_by_what_they_print() {
        let redis = identity("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64\n");
        assert_eq!(redis, Some(("Redis".to_owned(), "7.0.15".to_owned())));
        let valkey = identity("Valkey server v=9.1.2 sha=00000000:1 malloc=libc bits=64\n");
        assert_eq!(valkey, Some(("Valkey".to_owned(), "9.1.2".to_owned())));
        assert_eq!(identity("Memcached server v=1.6\n"), None);
        assert_eq!(identity(""), None);
    }

    #[test]
    fn a_program_that_is_no_server_is_named() {
        let error = Server::at("/bin/true").unwrap_err();
        assert!(error.to_string().starts_with("/bin/true is no redis-server"), "{error}");
        let error = Server::at("/no/such/program").unwrap_err();
        assert!(error.to_string().starts_with("/no/such/program does not run"), "{error}");
    }

    #[test]
    fn redis_six_is_too_old() {
        assert!(major("6.2.14") < OLDEST);
        assert!(major("7.0.15") >= OLDEST);
    }
}
