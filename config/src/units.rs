//! Sizes and times with their units: [`Bytes`] and [`Millis`].

use std::fmt;
use std::time::Duration;

use crate::resolve::Quantity;

/// A size in bytes.
///
/// Written as a number of bytes, or with the suffixes of redis.conf in either case: `k`, `m`, `g` are powers
/// of 1000, `kb`, `mb`, `gb` powers of 1024, and `b` is one. `Display` writes the largest exact one of the
/// latter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(u64);

/// A time in milliseconds: a number of milliseconds, `1500ms` or `15s`. `Display` writes whole seconds as
/// such.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(u64);

const KB: u64 = 1 << 10;
const MB: u64 = 1 << 20;
const GB: u64 = 1 << 30;

impl Bytes {
    /// `count` times 1024 bytes.
    pub const fn kb(count: u32) -> Self {
        Self(count as u64 * KB)
    }

    /// `count` times 1024 × 1024 bytes.
    pub const fn mb(count: u32) -> Self {
        Self(count as u64 * MB)
    }

    /// `count` times 1024 × 1024 × 1024 bytes.
    pub const fn gb(count: u32) -> Self {
        Self(count as u64 * GB)
    }

    /// The number of bytes.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl Millis {
    /// `count` milliseconds.
    pub const fn ms(count: u32) -> Self {
        Self(count as u64)
    }

    /// `count` seconds.
    pub const fn secs(count: u32) -> Self {
        Self(count as u64 * 1000)
    }

    /// The same time for the standard library.
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl Quantity for Bytes {
    const FORM: &'static str = "a size such as 64mb, 1gb or 65536 (bytes)";

    fn parse(text: &str) -> Option<Self> {
        let (count, unit) = split_unit(text)?;
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" => 1_000,
            "m" => 1_000_000,
            "g" => 1_000_000_000,
            "kb" => KB,
            "mb" => MB,
            "gb" => GB,
            _ => return None,
        };
        count.checked_mul(factor).map(Self)
    }
}

impl Quantity for Millis {
    const FORM: &'static str = "a time such as 1500ms, 15s or 1500 (milliseconds)";

    fn parse(text: &str) -> Option<Self> {
        let (count, unit) = split_unit(text)?;
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" | "ms" => 1,
            "s" => 1_000,
            _ => return None,
        };
        count.checked_mul(factor).map(Self)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, suffix) in [(GB, "gb"), (MB, "mb"), (KB, "kb")] {
            if self.0 > 0 && self.0.is_multiple_of(unit) {
                return write!(f, "{}{suffix}", self.0 / unit);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 0 && self.0.is_multiple_of(1000) {
            return write!(f, "{}s", self.0 / 1000);
        }
        write!(f, "{}ms", self.0)
    }
}

/// Leading digits, and what follows them.
fn split_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use proptest::sample::select;

    use super::*;

    const SUFFIXES: [(&str, u128); 7] = [
        ("", 1),
        ("b", 1),
        ("k", 1000),
        ("kb", 1024),
        ("m", 1000 * 1000),
        ("mb", 1024 * 1024),
        ("gB", 1 << 30),
    ];

    #[test]
    fn sizes_take_the_suffixes_of_redis() {
        for (text, bytes) in
            [("0", 0), ("1b", 1), ("2k", 2_000), ("2KB", 2_048), ("3M", 3_000_000), ("1g", 1_000_000_000)]
        {
            assert_eq!(Bytes::parse(text), Some(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "mb", "-1", "+1", "1.5gb", "1 gb", " 1", "1tb", "1é", "٣"] {
            assert_eq!(Bytes::parse(text), None, "{text}");
        }
        for text in ["", "s", "-1s", "1.5s", "1 s", "1m", "1h", "1é"] {
            assert_eq!(Millis::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_size_is_count_times_suffix_or_refused(count: u64, (suffix, factor) in select(&SUFFIXES[..])) {
            let bytes = u64::try_from(u128::from(count) * factor).ok();
            prop_assert_eq!(Bytes::parse(&format!("{count}{suffix}")), bytes.map(Bytes));
        }

        #[test]
        fn a_time_is_count_times_unit_or_refused(count: u64) {
            prop_assert_eq!(Millis::parse(&format!("{count}ms")), Some(Millis(count)));
            prop_assert_eq!(Millis::parse(&format!("{count}s")), count.checked_mul(1000).map(Millis));
        }

        #[test]
        fn what_is_displayed_is_read_back(count in any::<u64>(), shift in 0..64_u32) {
            let count = count >> shift << (shift / 2);
            prop_assert_eq!(Bytes::parse(&Bytes(count).to_string()), Some(Bytes(count)));
            prop_assert_eq!(Millis::parse(&Millis(count).to_string()), Some(Millis(count)));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = (Bytes::parse(&text), Millis::parse(&text));
        }
    }
}
