//! The HTTP server for operators: `[admin]`.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use crate::address::ListenAddr;
use crate::error::ConfigError;
use crate::resolve::Resolver;

/// Where metrics and health are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admin {
    /// `listen`: an address that is none of the clients'; `None`, in the file `"off"`, for no server.
    /// Default: port 16380 on loopback, since whoever reaches it needs no password.
    pub listen: Option<ListenAddr>,
}

impl Default for Admin {
    fn default() -> Self {
        Self { listen: Some(ListenAddr::Ip(SocketAddr::from((Ipv4Addr::LOCALHOST, 16380)))) }
    }
}

impl Admin {
    pub(crate) fn resolve(resolver: &Resolver<'_>) -> Result<Self, ConfigError> {
        let Some(given) = resolver.given("admin.listen") else { return Ok(Self::default()) };
        let listen = match given.value.text() {
            Some("off") => Some(None),
            Some(text) => ListenAddr::parse(text).map(Some),
            None => None,
        };
        match listen {
            Some(listen) => Ok(Self { listen }),
            None => Err(given.refuse(&given.value, format!("{}; or off", ListenAddr::FORM))),
        }
    }
}

impl fmt::Display for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[admin]")?;
        match self.listen {
            Some(address) => writeln!(f, "listen = \"{address}\""),
            None => writeln!(f, "listen = \"off\""),
        }
    }
}
