//! Bounds of queues and buffers: `[limits]`.

use std::fmt;
use std::ops::RangeInclusive;

use crate::error::ConfigError;
use crate::resolve::Resolver;
use crate::units::Bytes;

/// What a client may send ahead, leave unread, and hold in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// `query_buffer`: the longest request, 1 MiB to 2 GiB; at least `max_bulk`. Default: 1 GiB, as Redis'
    /// `client-query-buffer-limit`. A longer one closes the client.
    pub query_buffer: Bytes,
    /// `max_bulk`: the longest argument, 1 MiB to 2 GiB. Default: 512 MiB, as Redis' `proto-max-bulk-len`.
    pub max_bulk: Bytes,
    /// `in_flight`: commands of one client at nodes until the proxy stops to read from it, 1 to 1 million.
    /// Default: 1024, enough for a node to stay busy while the replies travel.
    pub in_flight: u32,
    /// `in_flight_bytes`: the same in bytes of requests, 64 KiB to 1 TiB; one command always goes, whatever
    /// its length. Default: 16 MiB, more than a 10 Gbit/s network holds in ten milliseconds.
    pub in_flight_bytes: Bytes,
    /// `output_buffer`: replies that one client has not read, 64 KiB to 1 TiB; then it is closed.
    /// Default: 1 GiB.
    pub output_buffer: Bytes,
    /// `output_buffer_total`: the same for all clients of the process, at least `output_buffer`.
    /// Default: 4 GiB, four clients at their own bound.
    pub output_buffer_total: Bytes,
}

/// Redis takes no less than 1 MiB; places inside a request are counted in 32 bits.
const REQUEST: RangeInclusive<Bytes> = Bytes::mb(1)..=Bytes::gb(2);
const IN_FLIGHT: RangeInclusive<u32> = 1..=1_000_000;
const BUFFER: RangeInclusive<Bytes> = Bytes::kb(64)..=Bytes::gb(1024);

impl Default for Limits {
    fn default() -> Self {
        Self {
            query_buffer: Bytes::gb(1),
            max_bulk: Bytes::mb(512),
            in_flight: 1024,
            in_flight_bytes: Bytes::mb(16),
            output_buffer: Bytes::gb(1),
            output_buffer_total: Bytes::gb(4),
        }
    }
}

impl Limits {
    pub(crate) fn resolve(resolver: &Resolver<'_>) -> Result<Self, ConfigError> {
        let default = Self::default();
        let size = |key, default, allowed| resolver.quantity(key, default, allowed);
        let limits = Self {
            query_buffer: size("limits.query_buffer", default.query_buffer, REQUEST)?,
            max_bulk: size("limits.max_bulk", default.max_bulk, REQUEST)?,
            in_flight: resolver.quantity("limits.in_flight", default.in_flight, IN_FLIGHT)?,
            in_flight_bytes: size("limits.in_flight_bytes", default.in_flight_bytes, BUFFER)?,
            output_buffer: size("limits.output_buffer", default.output_buffer, BUFFER)?,
            output_buffer_total: size("limits.output_buffer_total", default.output_buffer_total, BUFFER)?,
        };
        limits.check_order()?;
        Ok(limits)
    }

    fn check_order(&self) -> Result<(), ConfigError> {
        if self.query_buffer < self.max_bulk {
            return Err(ConfigError::Order {
                greater: "limits.query_buffer",
                greater_value: self.query_buffer,
                smaller: "limits.max_bulk",
                smaller_value: self.max_bulk,
                reason: "a request must be able to hold its longest argument",
            });
        }
        if self.output_buffer_total < self.output_buffer {
            return Err(ConfigError::Order {
                greater: "limits.output_buffer_total",
                greater_value: self.output_buffer_total,
                smaller: "limits.output_buffer",
                smaller_value: self.output_buffer,
                reason: "all clients together must be allowed what one is",
            });
        }
        Ok(())
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[limits]")?;
        writeln!(f, "query_buffer = \"{}\"", self.query_buffer)?;
        writeln!(f, "max_bulk = \"{}\"", self.max_bulk)?;
        writeln!(f, "in_flight = {}", self.in_flight)?;
        writeln!(f, "in_flight_bytes = \"{}\"", self.in_flight_bytes)?;
        writeln!(f, "output_buffer = \"{}\"", self.output_buffer)?;
        writeln!(f, "output_buffer_total = \"{}\"", self.output_buffer_total)
    }
}
