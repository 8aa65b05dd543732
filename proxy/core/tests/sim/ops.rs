//! What the fake clients ask for, and how it is written.

use tsubaki_protocol::resp::Resp;
use tsubaki_protocol::resp::write;

use crate::keys::{Key, Keyspace};
use crate::truth::Token;

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    Get(Key),
    /// An inline GET.
    GetInline(Key),
    /// With this many bytes of padding.
    Set(Key, Token, usize),
    Append(Key, Token),
    Increment(Key),
    Push(Key, Token),
    Range(Key),
    Mget(Vec<Key>),
    Mset(Vec<(Key, Token)>),
    /// EXISTS, TOUCH: how many are there.
    Count(&'static str, Vec<Key>),
    /// DEL, UNLINK.
    Delete(&'static str, Vec<Key>),
    /// Appends to the key; with a text, then fails with that.
    Script(Key, Token, Option<&'static str>),
    Publish(Token),
    Echo(usize),
    Hello(Resp),
    /// INFO: all workers are asked before it is answered.
    Info,
    Unknown,
    WrongArity,
    CrossSlot(Key, Key),
    Quit,
    /// Bytes that are no request; the last of their connection.
    Garbage,
}

/// What a script says after it wrote. Only the code is the server's: the text shows that it ran.
pub(crate) const SCRIPT_ERRORS: [&str; 3] =
    ["TRYAGAIN says the script", "LOADING the script's own errand", "READONLY by the script's own rule"];

impl Op {
    pub(crate) fn keys(&self) -> Vec<Key> {
        match self {
            Self::Get(key) | Self::GetInline(key) | Self::Set(key, ..) | Self::Append(key, _) => vec![*key],
            Self::Increment(key) | Self::Push(key, _) | Self::Range(key) | Self::Script(key, ..) => {
                vec![*key]
            }
            Self::Mget(keys) | Self::Count(_, keys) | Self::Delete(_, keys) => keys.clone(),
            Self::Mset(pairs) => pairs.iter().map(|(key, _)| *key).collect(),
            _ => Vec::new(),
        }
    }

    /// The writes of this command, each with its key.
    pub(crate) fn tokens(&self) -> Vec<(Option<Key>, Token)> {
        match self {
            Self::Set(key, token, _)
            | Self::Append(key, token)
            | Self::Push(key, token)
            | Self::Script(key, token, _) => {
                vec![(Some(*key), *token)]
            }
            Self::Mset(pairs) => pairs.iter().map(|(key, token)| (Some(*key), *token)).collect(),
            Self::Publish(token) => vec![(None, *token)],
            _ => Vec::new(),
        }
    }

    /// True of what the command table flags readonly: a replica may answer it, and it may run twice.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, Self::Get(_) | Self::GetInline(_) | Self::Range(_) | Self::Mget(_) | Self::Count(..))
    }

    pub(crate) fn write(&self, keys: &Keyspace, out: &mut Vec<u8>) {
        let name = |key: &Key| keys.name(*key).to_vec();
        let text = |text: &str| text.as_bytes().to_vec();
        let mark = |token: &Token| text(&format!("<{token}>"));
        let args: Vec<Vec<u8>> = match self {
            Self::Get(key) => vec![text("GET"), name(key)],
            Self::GetInline(key) => return out.extend([b"get ", keys.name(*key), b"\r\n"].concat()),
            Self::Set(key, token, padding) => {
                vec![text("SET"), name(key), [mark(token), vec![b'x'; *padding]].concat()]
            }
            Self::Append(key, token) => vec![text("append"), name(key), mark(token)],
            Self::Increment(key) => vec![text("INCR"), name(key)],
            Self::Push(key, token) => vec![text("RPUSH"), name(key), mark(token)],
            Self::Range(key) => vec![text("LRANGE"), name(key), text("0"), text("-1")],
            Self::Mget(keys) => [text("MGET")].into_iter().chain(keys.iter().map(name)).collect(),
            Self::Mset(pairs) => {
                let pairs = pairs.iter().flat_map(|(key, token)| [name(key), mark(token)]);
                [text("MSET")].into_iter().chain(pairs).collect()
            }
            Self::Count(command, keys) | Self::Delete(command, keys) => {
                [text(command)].into_iter().chain(keys.iter().map(name)).collect()
            }
            Self::Script(key, token, error) => {
                vec![text("EVAL"), text(error.unwrap_or("append")), text("1"), name(key), mark(token)]
            }
            Self::Publish(token) => vec![text("PUBLISH"), text("news"), mark(token)],
            Self::Echo(number) => vec![text("ECHO"), text(&number.to_string())],
            Self::Hello(Resp::V2) => vec![text("HELLO"), text("2")],
            Self::Hello(Resp::V3) => vec![text("HELLO"), text("3")],
            Self::Info => vec![text("INFO")],
            Self::Unknown => vec![text("NOSUCH"), text("x")],
            Self::WrongArity => vec![text("GET")],
            Self::CrossSlot(one, other) => vec![text("RENAME"), name(one), name(other)],
            Self::Quit => vec![text("QUIT")],
            Self::Garbage => return out.extend(b"*1\r\n$x\r\n"),
        };
        write::command(out, args.iter().map(Vec::as_slice));
    }
}

/// The tokens in a piece of RESP, in order.
pub(crate) fn tokens_in(bytes: &[u8]) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some(open) = rest.iter().position(|byte| *byte == b'<') {
        rest = &rest[open + 1..];
        let Some(close) = rest.iter().position(|byte| *byte == b'>') else { break };
        found
            .extend(std::str::from_utf8(&rest[..close]).ok().and_then(|digits| digits.parse::<Token>().ok()));
    }
    found
}
