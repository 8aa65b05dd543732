//! What is written to stderr: `[log]`.

use std::fmt;

use crate::error::ConfigError;
use crate::resolve::{Choice, Resolver};

/// How much is logged, and in which form. Keys, values and passwords are never logged, at any level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Log {
    /// `level`. Default: `info`.
    pub level: LogLevel,
    /// `format`. Default: `text`.
    pub format: LogFormat,
}

/// The least important lines that are still written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogLevel {
    /// `error`: what needs somebody.
    Error,
    /// `warn`: what may need somebody.
    Warn,
    /// `info`: starts, stops and changes of the cluster.
    #[default]
    Info,
    /// `debug`: connections.
    Debug,
    /// `trace`: everything.
    Trace,
}

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// `text`: for people.
    #[default]
    Text,
    /// `json`: one object a line, for log collectors.
    Json,
}

impl Log {
    pub(crate) fn resolve(resolver: &Resolver<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            level: resolver.choice("log.level", LogLevel::default())?,
            format: resolver.choice("log.format", LogFormat::default())?,
        })
    }
}

impl LogLevel {
    /// The level's name in lower case, as log filters take it.
    pub fn as_str(self) -> &'static str {
        self.name()
    }
}

impl Choice for LogLevel {
    const ALL: &'static [Self] = &[Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl Choice for LogFormat {
    const ALL: &'static [Self] = &[Self::Text, Self::Json];

    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[log]")?;
        writeln!(f, "level = \"{}\"", self.level.name())?;
        writeln!(f, "format = \"{}\"", self.format.name())
    }
}
