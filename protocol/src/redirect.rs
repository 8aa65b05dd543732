//! Error replies by which a node says that it did not execute the command, and where to send it instead.
//!
//! Must not know: who sends it again, how often, and where names resolve to.

/// A node's reply that says: this command was not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// The slot belongs to another node, for good.
    Moved {
        /// The slot, 0..=16383.
        slot: u16,
        /// Its owner.
        endpoint: Endpoint<'a>,
    },
    /// The key is about to move: this one command goes to another node, behind an ASKING.
    Ask {
        /// The slot, 0..=16383.
        slot: u16,
        /// The node that takes it over.
        endpoint: Endpoint<'a>,
    },
    /// Keys of one command are on both sides of a migration.
    TryAgain,
    /// The node says that the cluster, or the slot, is not served.
    ClusterDown,
    /// The node reads its data set from disk or from its master.
    Loading,
    /// The node is a replica, and the command writes.
    ReadOnly,
    /// The node is a replica that lost its master and must not serve stale data.
    MasterDown,
}

/// Where a redirect points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// The host as the node knows it.
    pub host: Host<&'a str>,
    /// The port; 0 if the node does not know it, and then `host` is [`Host::Unknown`].
    pub port: u16,
}

/// A host in a redirect or in a cluster's description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Host<T> {
    /// Empty or null: the host by which the node that said so was reached.
    Same,
    /// `?`, or port 0: not known to the node that said so. Nothing to connect to.
    Unknown,
    /// A host name, an IPv4 address, or an IPv6 address without brackets.
    Named(T),
}

/// Every text by which Redis 7.0 to 7.4 and Valkey 8 and 9 refuse a script, a function or EXEC before its first command.
///
/// From `cluster.c` (`clusterRedirectClient`), `server.c` (`createSharedObjects`) and `script.c` (`scriptPrepareForRun`).
const SCRIPT_REFUSALS: &[(&str, Refusal<'static>)] = &[
    ("TRYAGAIN Multiple keys request during rehashing of slot", Refusal::TryAgain),
    ("CLUSTERDOWN The cluster is down", Refusal::ClusterDown),
    ("CLUSTERDOWN The cluster is down and only accepts read commands", Refusal::ClusterDown),
    ("CLUSTERDOWN Hash slot not served", Refusal::ClusterDown),
    ("LOADING Redis is loading the dataset in memory", Refusal::Loading),
    ("LOADING Valkey is loading the dataset in memory", Refusal::Loading),
    ("READONLY You can't write against a read only replica.", Refusal::ReadOnly),
    ("READONLY Can not run script with write flag on readonly replica", Refusal::ReadOnly),
    ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", Refusal::MasterDown),
    (
        "MASTERDOWN Link with MASTER is down, replica-serve-stale-data is set to 'no' and 'allow-stale' flag is not set on the script.",
        Refusal::MasterDown,
    ),
];

/// Reads one whole error reply, `-` and CR LF included. `None`: an ordinary error, the command's own answer.
///
/// With `script` (EVAL, FCALL and their kin, and EXEC) only the server's own whole texts count: a script can return
/// an error of any text after it wrote.
#[must_use]
pub fn parse(line: &[u8], script: bool) -> Option<Refusal<'_>> {
    let text = line.strip_prefix(b"-")?.strip_suffix(b"\r\n")?;
    let text = std::str::from_utf8(text).ok()?;
    let (code, rest) = text.split_once(' ').unwrap_or((text, ""));
    match code {
        "MOVED" => target(rest, script).map(|(slot, endpoint)| Refusal::Moved { slot, endpoint }),
        "ASK" => target(rest, script).map(|(slot, endpoint)| Refusal::Ask { slot, endpoint }),
        _ if script => SCRIPT_REFUSALS.iter().find(|(known, _)| *known == text).map(|(_, refusal)| *refusal),
        "TRYAGAIN" => Some(Refusal::TryAgain),
        "CLUSTERDOWN" => Some(Refusal::ClusterDown),
        "LOADING" => Some(Refusal::Loading),
        "READONLY" => Some(Refusal::ReadOnly),
        "MASTERDOWN" => Some(Refusal::MasterDown),
        _ => None,
    }
}

/// `slot host:port`, and nothing else if `exact`.
fn target(text: &str, exact: bool) -> Option<(u16, Endpoint<'_>)> {
    let (slot, address) = text.split_once(' ')?;
    let (address, more) = address.split_once(' ').unwrap_or((address, ""));
    if exact && !more.is_empty() {
        return None;
    }
    let slot = decimal(slot).filter(|slot| *slot < 16_384)?;
    Some((slot, endpoint(address)?))
}

/// `host:port`, split at the last colon, since an IPv6 host may come without brackets.
fn endpoint(address: &str) -> Option<Endpoint<'_>> {
    let (host, port) = address.rsplit_once(':')?;
    let port = decimal(port)?;
    let host = if port == 0 { Host::Unknown } else { Host::from_text(host) };
    Some(Endpoint { host, port })
}

impl<'a> Host<&'a str> {
    /// Reads a host as servers write it; an IPv6 address may be in brackets.
    #[must_use]
    pub fn from_text(text: &'a str) -> Self {
        match text {
            "" => Self::Same,
            "?" => Self::Unknown,
            _ => {
                Self::Named(text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(text))
            }
        }
    }

    /// The same host, with text of its own.
    #[must_use]
    pub fn into_owned(self) -> Host<String> {
        match self {
            Self::Same => Host::Same,
            Self::Unknown => Host::Unknown,
            Self::Named(name) => Host::Named(name.to_owned()),
        }
    }
}

/// Digits only: `str::parse` takes a plus sign.
fn decimal(text: &str) -> Option<u16> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Vec<u8> {
        format!("-{text}\r\n").into_bytes()
    }

    #[track_caller]
    fn points_at(text: &str, host: Host<&str>, port: u16) {
        let endpoint = Endpoint { host, port };
        for script in [false, true] {
            let moved = line(&format!("MOVED 3999 {text}"));
            assert_eq!(parse(&moved, script), Some(Refusal::Moved { slot: 3999, endpoint }), "{text}");
            let ask = line(&format!("ASK 3999 {text}"));
            assert_eq!(parse(&ask, script), Some(Refusal::Ask { slot: 3999, endpoint }), "{text}");
        }
    }

    #[test]
    fn a_redirect_names_slot_and_endpoint() {
        points_at("127.0.0.1:6381", Host::Named("127.0.0.1"), 6381);
        points_at("node-1.example.com:6379", Host::Named("node-1.example.com"), 6379);
    }

    #[test]
    fn a_redirect_without_a_host_points_at_the_replier() {
        points_at(":6380", Host::Same, 6380);
    }

    #[test]
    fn a_redirect_to_a_host_that_is_not_known_points_nowhere() {
        points_at("?:6380", Host::Unknown, 6380);
        points_at("127.0.0.1:0", Host::Unknown, 0);
        points_at(":0", Host::Unknown, 0);
    }

    #[test]
    fn an_ipv6_redirect_is_split_at_its_last_colon() {
        points_at("2001:db8::1:6379", Host::Named("2001:db8::1"), 6379);
        points_at("[2001:db8::1]:6379", Host::Named("2001:db8::1"), 6379);
        points_at("::1:6379", Host::Named("::1"), 6379);
    }

    #[test]
    fn a_malformed_redirect_is_an_ordinary_error() {
        for text in [
            "MOVED",
            "MOVED 1",
            "MOVED 1 host",
            "MOVED 16384 h:1",
            "MOVED -1 h:1",
            "MOVED +1 h:1",
            "MOVED x h:1",
            "MOVED 1 h:65536",
            "MOVED 1 h:",
            "MOVED 1 h:+1",
            "MOVED  1 h:1",
            "moved 1 h:1",
            "MOVEDX 1 h:1",
        ] {
            assert_eq!(parse(&line(text), false), None, "{text}");
        }
        assert_eq!(parse(b"-MOVED 1 h:1", false), None);
        assert_eq!(parse(b"+MOVED 1 h:1\r\n", false), None);
        assert_eq!(parse(b"-MOVED 1 \xff:1\r\n", false), None);
    }

    #[test]
    fn a_plain_command_is_refused_by_the_code() {
        for (text, refusal) in [
            ("TRYAGAIN Multiple keys request during rehashing of slot", Refusal::TryAgain),
            ("CLUSTERDOWN whatever", Refusal::ClusterDown),
            ("LOADING", Refusal::Loading),
            ("READONLY x", Refusal::ReadOnly),
            ("MASTERDOWN x", Refusal::MasterDown),
        ] {
            assert_eq!(parse(&line(text), false), Some(refusal), "{text}");
        }
        for text in ["ERR x", "CROSSSLOT x", "READONLYX", "keyalreadyexists", "", "WRONGTYPE MOVED 1 h:1"] {
            assert_eq!(parse(&line(text), false), None, "{text}");
        }
    }

    #[test]
    fn a_script_is_refused_by_whole_texts_of_the_server_only() {
        for (text, refusal) in SCRIPT_REFUSALS {
            assert_eq!(parse(&line(text), true), Some(*refusal), "{text}");
            assert_eq!(parse(&line(&format!("{text} script: f, on @user_script:1.")), true), None, "{text}");
        }
        for text in [
            "TRYAGAIN",
            "READONLY x",
            "CLUSTERDOWN",
            "LOADING",
            "MASTERDOWN",
            "MOVED 1 h:1 x",
            "ASK 1 h:1 x",
            "MOVED 1 h x:1",
        ] {
            assert_eq!(parse(&line(text), true), None, "{text}");
        }
    }
}
