//! [`Config`]: all settings, checked, one struct per concern.

use std::fmt;

use crate::admin::Admin;
use crate::cluster::Cluster;
use crate::error::ConfigError;
use crate::limits::Limits;
use crate::listen::Listen;
use crate::log::Log;
use crate::placement::Placement;
use crate::resolve::Resolver;
use crate::sources::Sources;

/// The effective configuration of one proxy.
///
/// [`Config::default`] is what an empty configuration means, seeds aside: it has none, and [`Config::load`]
/// never returns a configuration without one. `Display` writes the configuration as TOML that loads again to
/// the same value; passwords are left out, with a comment that says whether one is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// What clients meet: the keys at the top of the file.
    pub listen: Listen,
    /// The cluster behind the proxy: `[cluster]`.
    pub cluster: Cluster,
    /// Bounds of queues and buffers: `[limits]`.
    pub limits: Limits,
    /// Workers and cores: `[placement]`.
    pub placement: Placement,
    /// The operators' HTTP server: `[admin]`.
    pub admin: Admin,
    /// What is written to stderr: `[log]`.
    pub log: Log,
}

impl Config {
    /// Joins the sources and checks every setting.
    ///
    /// # Errors
    ///
    /// The first mistake that is found, in this order: the file's syntax, unknown names, values one by one,
    /// values that contradict each other. Its text names the key, the value and what is allowed, and never
    /// holds a password.
    pub fn load(sources: &Sources<'_>) -> Result<Self, ConfigError> {
        let config = Self::load_without_seeds(sources)?;
        if config.cluster.seeds.is_empty() {
            return Err(ConfigError::NoSeeds);
        }
        Ok(config)
    }

    /// The same for who looks at this machine alone: seeds may be missing.
    ///
    /// # Errors
    ///
    /// As [`Config::load`].
    pub fn load_without_seeds(sources: &Sources<'_>) -> Result<Self, ConfigError> {
        let resolver = Resolver::new(sources)?;
        let config = Self {
            listen: Listen::resolve(&resolver)?,
            cluster: Cluster::resolve(&resolver)?,
            limits: Limits::resolve(&resolver)?,
            placement: Placement::resolve(&resolver)?,
            admin: Admin::resolve(&resolver)?,
            log: Log::resolve(&resolver)?,
        };
        config.check_admin_apart()?;
        Ok(config)
    }

    fn check_admin_apart(&self) -> Result<(), ConfigError> {
        let Some(admin) = self.admin.listen else { return Ok(()) };
        match self.listen.addresses.iter().find(|address| address.overlaps(admin)) {
            Some(address) => Err(ConfigError::AdminAddressTaken { admin, listen: *address }),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen, cluster, limits, placement, admin, log } = self;
        write!(f, "{listen}\n{cluster}\n{limits}\n{placement}\n{admin}\n{log}")
    }
}
