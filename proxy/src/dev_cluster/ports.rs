//! Ports of 127.0.0.1 that nobody listens on.
//!
//! A free port is a guess: another process may take it before the node does, so the caller must be ready to
//! ask again.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports that the kernel gives to outgoing connections (32768 and up on Linux), where a port that
/// is free stays free unless a server asks for it.
const FIRST: u32 = 10_000;
const COUNT: u32 = 22_000;

/// The next port that is free. Within one process no port is given twice until all were; processes start
/// at random places.
pub fn free_port() -> Option<u16> {
    static NEXT: OnceLock<AtomicU32> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU32::new(random()));
    (0..COUNT).find_map(|_| {
        let port = FIRST + next.fetch_add(1, Ordering::Relaxed) % COUNT;
        u16::try_from(port).ok().filter(|&port| is_free(port))
    })
}

/// Whether a server could listen on `port` at this moment.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// The standard library seeds its hashers at random.
fn random() -> u32 {
    (RandomState::new().build_hasher().finish() >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_listened_on_is_not_free() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(!is_free(port));
    }

    #[test]
    fn two_callers_get_two_ports() {
        assert_ne!(free_port().unwrap(), free_port().unwrap());
    }
}
