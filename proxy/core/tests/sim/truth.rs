//! What really happened in the cluster: every value that each key ever had, and every command that ran.
//!
//! The fake nodes write it, the model reads it; the engine never sees it.

use crate::keys::Key;

/// Names one write: every value that a client writes carries it as `<number>`.
pub(crate) type Token = usize;

/// What gave a key its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Nothing,
    Write(Token),
    Increment,
    Delete,
    /// A replica that had not heard of the newest writes became the master.
    Rollback,
}

/// A key's value from `from` until the next version's `from`.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) from: u64,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) by: By,
}

/// One run of one command with a token.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) at: u64,
    /// Where it stands among its key's versions.
    pub(crate) version: (Key, usize),
    pub(crate) reply: Vec<u8>,
}

pub(crate) struct Truth {
    versions: Vec<Vec<Version>>,
    runs: Vec<Vec<Run>>,
    twice: Option<Token>,
}

impl Truth {
    /// For so many keys, and the channel of all messages, whose versions are the messages.
    pub(crate) fn new(keys: usize) -> Self {
        let nothing = || Version { from: 0, value: None, by: By::Nothing };
        Self { versions: (0..=keys).map(|_| vec![nothing()]).collect(), runs: Vec::new(), twice: None }
    }

    pub(crate) fn token(&mut self) -> Token {
        self.runs.push(Vec::new());
        self.runs.len() - 1
    }

    /// The channel, as if it were one more key.
    pub(crate) fn channel(&self) -> Key {
        Key(self.versions.len() - 1)
    }

    /// A key got a value.
    pub(crate) fn change(&mut self, key: Key, value: Option<Vec<u8>>, by: By, now: u64) {
        self.versions[key.0].push(Version { from: now, value, by });
    }

    /// A command ran; its change, if it made one, is its key's newest version.
    pub(crate) fn ran(&mut self, token: Token, key: Key, reply: &[u8], now: u64) {
        let version = (key, self.versions[key.0].len() - 1);
        self.runs[token].push(Run { at: now, version, reply: reply.to_vec() });
        if self.runs[token].len() > 1 {
            self.twice = Some(token);
        }
    }

    pub(crate) fn latest(&self, key: Key) -> Option<&Vec<u8>> {
        self.versions[key.0].last().and_then(|version| version.value.as_ref())
    }

    pub(crate) fn runs(&self, token: Token) -> &[Run] {
        &self.runs[token]
    }

    /// A command that ran more than once, if there is any.
    pub(crate) fn ran_twice(&self) -> Option<Token> {
        self.twice
    }

    pub(crate) fn count(&self, key: Key, by: By) -> usize {
        self.versions[key.0].iter().filter(|version| version.by == by).count()
    }

    /// The versions, by number, that a key had at some moment from `from` to `until`.
    pub(crate) fn during(&self, key: Key, from: u64, until: u64) -> impl Iterator<Item = (usize, &Version)> {
        let versions = &self.versions[key.0];
        versions.iter().enumerate().filter(move |(number, version)| {
            version.from <= until && versions.get(number + 1).is_none_or(|next| next.from >= from)
        })
    }
}
