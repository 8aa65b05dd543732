//! Workers and the cores that they run on: `[placement]`.

use std::fmt;
use std::num::NonZeroU16;

use crate::error::ConfigError;
use crate::resolve::{Choice, Resolver};

/// How many workers there are, and whether each stays on a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Placement {
    /// `mode`. Default: `auto`.
    pub mode: PlacementMode,
    /// `workers`: worker threads, up to 1024. Default: `None`, in the file 0, which is as many as the machine
    /// grants: the smaller of the allowed CPUs and the cgroup's quota.
    pub workers: Option<NonZeroU16>,
}

/// Whether workers are pinned to cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlacementMode {
    /// `off`: the kernel moves workers as it likes.
    Off,
    /// `auto`: one worker a core, pinned where no CPU quota applies and each has a CPU of its own.
    #[default]
    Auto,
}

impl Placement {
    pub(crate) fn resolve(resolver: &Resolver<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            mode: resolver.choice("placement.mode", PlacementMode::default())?,
            workers: NonZeroU16::new(resolver.quantity("placement.workers", 0, 0..=1024)?),
        })
    }
}

impl Choice for PlacementMode {
    const ALL: &'static [Self] = &[Self::Off, Self::Auto];

    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[placement]")?;
        writeln!(f, "mode = \"{}\"", self.mode.name())?;
        writeln!(f, "workers = {}", self.workers.map_or(0, NonZeroU16::get))
    }
}
