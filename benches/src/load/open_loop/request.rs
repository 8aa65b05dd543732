//! The requests: GET or SET of one of the filled keys, drawn from a seed, at the price of a copy.
//!
//! Must not know: who sends them, and when.

use anyhow::bail;
use tsubaki_protocol::resp::write;

use crate::load::redis_benchmark::{KEYS, VALUE_BYTES};

/// Digits of a key's number.
const DIGITS: usize = 12;

/// Draws requests without end.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    /// A whole request; the digits of its key are written anew each time.
    bytes: Vec<u8>,
    /// Where the key is.
    key: std::ops::Range<usize>,
    random: u64,
}

impl Requests {
    /// Requests of `command`; each seed draws keys of its own.
    pub(super) fn new(command: &str, seed: u64) -> anyhow::Result<Self> {
        let key = format!("key:{:0DIGITS$}", 0);
        let value = [b'x'; VALUE_BYTES as usize];
        let mut bytes = Vec::new();
        match command {
            "GET" => write::command(&mut bytes, [b"GET", key.as_bytes()]),
            "SET" => write::command(&mut bytes, [b"SET", key.as_bytes(), &value]),
            _ => bail!("an open loop sends GET or SET, not {command}"),
        }
        let header = format!("*2\r\n$3\r\nGET\r\n${}\r\n", key.len());
        let key = header.len()..header.len() + key.len();
        Ok(Self { bytes, key, random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 })
    }

    /// Draws the next key.
    pub(super) fn draw(&mut self) {
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let mut number = (self.random >> 16) % u64::from(KEYS);
        let digits = self.key.end - DIGITS..self.key.end;
        for digit in self.bytes[digits].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }

    /// The request that was drawn.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its key.
    pub(super) fn key(&self) -> &[u8] {
        &self.bytes[self.key.clone()]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::Requests;
    use crate::load::redis_benchmark::KEYS;

    #[test]
    fn a_request_asks_for_its_key() {
        for (command, before, after) in
            [("GET", "*2\r\n$3\r\nGET\r\n", 2), ("SET", "*3\r\n$3\r\nSET\r\n", 2 + 5 + 66)]
        {
            let mut requests = Requests::new(command, 1).unwrap();
            requests.draw();
            let text = String::from_utf8(requests.bytes().to_vec()).unwrap();
            let key = String::from_utf8(requests.key().to_vec()).unwrap();
            assert!(text.starts_with(&format!("{before}$16\r\n{key}\r\n")), "{text}");
            assert_eq!(text.len(), before.len() + 5 + 16 + after);
            assert!(key.strip_prefix("key:").unwrap().parse::<u32>().unwrap() < KEYS);
        }
        assert!(Requests::new("DEL", 1).is_err());
    }

    #[test]
    fn keys_spread_and_seeds_differ() {
        let keys = |seed| {
            let mut requests = Requests::new("GET", seed).unwrap();
            let draw = || {
                requests.draw();
                requests.key().to_vec()
            };
            std::iter::repeat_with(draw).take(1_000).collect::<HashSet<_>>()
        };
        assert!(keys(1).len() > 980);
        assert!(keys(1).intersection(&keys(2)).count() < 50);
    }
}
