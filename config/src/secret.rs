//! [`Secret`]: a password that no log line and no error shows by accident.

use std::fmt;

/// A password: not empty, on one line. `Debug` prints `Secret(…)`; there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn new(text: &str) -> Option<Self> {
        let usable = !text.is_empty() && !text.contains(['\r', '\n']);
        usable.then(|| Self(text.to_owned()))
    }

    /// The line of the effective configuration: whether there is a password, and nothing about it.
    pub(crate) fn note(secret: Option<&Self>) -> &'static str {
        if secret.is_some() { "# password is set (not shown)" } else { "# password is not set" }
    }

    /// The password itself, for the handshake with a node or the comparison with a client's.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
