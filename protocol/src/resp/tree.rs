//! Decodes one whole reply into an owned tree, for replies off the hot path: CLUSTER, COMMAND, HELLO.
//!
//! Must not know: what the reply means. The decoding itself is the crate `redis-protocol`.
//!
//! The reply passes [`ReplyScanner`] first, so its depth is limited, and with it the recursion here and in `Drop`.

use redis_protocol::error::RedisProtocolError;
use redis_protocol::resp2::decode::decode_range as decode_resp2;
use redis_protocol::resp2::types::RangeFrame as Resp2Frame;
use redis_protocol::resp3::decode::complete::decode_range as decode_resp3;
use redis_protocol::resp3::types::RangeFrame as Resp3Frame;

use super::reply::{ReplyError, ReplyScan, ReplyScanner};

/// One decoded value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Null, of a bulk or of an array.
    Null,
    /// A simple, bulk or verbatim string (without its format), or a big number.
    Text(Vec<u8>),
    /// An error: its code and text.
    Error(String),
    /// An integer.
    Integer(i64),
    /// A double of RESP3.
    Double(f64),
    /// A boolean of RESP3.
    Boolean(bool),
    /// An array, set or push message. A set's order is not kept.
    List(Vec<Self>),
    /// A map of RESP3. Its order is not kept.
    Map(Vec<(Self, Self)>),
}

/// The bytes are not one whole reply.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The bytes break the protocol.
    #[error(transparent)]
    Reply(#[from] ReplyError),
    /// The reply is cut off, or something follows it.
    #[error("a reply of {given} bytes was given where one of {whole} ends; report this as a defect")]
    NotOne {
        /// Bytes given.
        given: usize,
        /// Bytes of the first whole reply; 0 if there is none.
        whole: usize,
    },
    /// A reply that is legal, but that the decoder does not know.
    #[error("a node's reply could not be decoded: {0}")]
    Decode(String),
}

/// Decodes `frame`, which is one whole reply of RESP2 or RESP3. Attributes are left out.
///
/// # Errors
/// The frame is not one whole reply, or has a map whose key is a list, which no server sends.
pub fn decode(frame: &[u8]) -> Result<Value, TreeError> {
    let whole = match ReplyScanner::new().scan(frame)? {
        ReplyScan::Complete(reply) => reply.len,
        ReplyScan::Partial => 0,
    };
    if whole != frame.len() {
        return Err(TreeError::NotOne { given: frame.len(), whole });
    }
    // The RESP3 decoder does not know RESP2's nulls, and the RESP2 decoder knows nothing else.
    if let Ok(Some((value, _))) = decode_resp2(frame) {
        return Ok(from_resp2(frame, value));
    }
    match decode_resp3(frame) {
        Ok(Some((value, _))) => Ok(from_resp3(frame, value)),
        Ok(None) => Err(TreeError::NotOne { given: frame.len(), whole }),
        Err(error) => Err(TreeError::Decode(reason(&error))),
    }
}

impl Value {
    /// The bytes of a text.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A text that is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()?).ok()
    }

    /// An integer.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The elements of a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(values) => Some(values),
            _ => None,
        }
    }

    /// The value behind the key `name`, in a map or in a list of keys and values in turn, which is RESP2's map.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(pairs) => {
                pairs.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
            }
            Self::List(values) => values.chunks_exact(2).find_map(|pair| match pair {
                [key, value] if key.as_str() == Some(name) => Some(value),
                _ => None,
            }),
            _ => None,
        }
    }
}

fn from_resp2(frame: &[u8], value: Resp2Frame) -> Value {
    match value {
        Resp2Frame::Null => Value::Null,
        Resp2Frame::SimpleString(range) | Resp2Frame::BulkString(range) => Value::Text(bytes(frame, range)),
        Resp2Frame::Error(range) => Value::Error(text(frame, range)),
        Resp2Frame::Integer(value) => Value::Integer(value),
        Resp2Frame::Array(values) => {
            Value::List(values.into_iter().map(|value| from_resp2(frame, value)).collect())
        }
    }
}

fn from_resp3(frame: &[u8], value: Resp3Frame) -> Value {
    match value {
        Resp3Frame::SimpleString { data, .. }
        | Resp3Frame::BlobString { data, .. }
        | Resp3Frame::VerbatimString { data, .. }
        | Resp3Frame::BigNumber { data, .. }
        | Resp3Frame::ChunkedString(data) => Value::Text(bytes(frame, data)),
        Resp3Frame::SimpleError { data, .. } | Resp3Frame::BlobError { data, .. } => {
            Value::Error(text(frame, data))
        }
        Resp3Frame::Number { data, .. } => Value::Integer(data),
        Resp3Frame::Double { data, .. } => Value::Double(data),
        Resp3Frame::Boolean { data, .. } => Value::Boolean(data),
        Resp3Frame::Null | Resp3Frame::Hello { .. } => Value::Null,
        Resp3Frame::Array { data, .. } | Resp3Frame::Push { data, .. } => from_list(frame, data),
        Resp3Frame::Set { data, .. } => from_list(frame, data),
        Resp3Frame::Map { data, .. } => Value::Map(
            data.into_iter().map(|(key, value)| (from_resp3(frame, key), from_resp3(frame, value))).collect(),
        ),
    }
}

fn from_list(frame: &[u8], values: impl IntoIterator<Item = Resp3Frame>) -> Value {
    Value::List(values.into_iter().map(|value| from_resp3(frame, value)).collect())
}

fn bytes(frame: &[u8], (start, end): (usize, usize)) -> Vec<u8> {
    frame.get(start..end).unwrap_or_default().to_vec()
}

fn text(frame: &[u8], range: (usize, usize)) -> String {
    String::from_utf8_lossy(&bytes(frame, range)).into_owned()
}

fn reason(error: &RedisProtocolError) -> String {
    error.details().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::reply::MAX_DEPTH;

    fn text(text: &str) -> Value {
        Value::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn both_versions_are_decoded() {
        let resp2 = decode(b"*5\r\n$-1\r\n*-1\r\n$1\r\na\r\n:7\r\n-ERR x\r\n").unwrap();
        let error = Value::Error("ERR x".to_owned());
        assert_eq!(resp2, Value::List(vec![Value::Null, Value::Null, text("a"), Value::Integer(7), error]));
        let resp3 = decode(b"*6\r\n_\r\n#t\r\n,1.5\r\n=5\r\ntxt:a\r\n(12\r\n~1\r\n+b\r\n").unwrap();
        let set = Value::List(vec![text("b")]);
        let expected =
            vec![Value::Null, Value::Boolean(true), Value::Double(1.5), text("a"), text("12"), set];
        assert_eq!(resp3, Value::List(expected));
    }

    #[test]
    fn fields_are_found_in_maps_and_in_flat_lists() {
        for frame in [&b"%2\r\n+id\r\n:1\r\n+port\r\n:2\r\n"[..], b"*4\r\n+id\r\n:1\r\n+port\r\n:2\r\n"] {
            let value = decode(frame).unwrap();
            assert_eq!(value.field("port").and_then(Value::as_integer), Some(2));
            assert_eq!(value.field("slots"), None);
        }
    }

    #[test]
    fn an_attribute_is_left_out() {
        assert_eq!(decode(b"|1\r\n+ttl\r\n:5\r\n+a\r\n").unwrap(), text("a"));
    }

    #[test]
    fn only_one_whole_reply_is_decoded() {
        for frame in ["", "+OK", "+OK\r\n+OK\r\n", "*2\r\n:1\r\n"] {
            assert!(matches!(decode(frame.as_bytes()), Err(TreeError::NotOne { .. })), "{frame:?}");
        }
        assert!(matches!(decode(b"HELLO 3\r\n"), Err(TreeError::Reply(_))));
    }

    #[test]
    fn the_deepest_legal_reply_needs_little_stack() {
        let deepest = [&b"*1\r\n".repeat(MAX_DEPTH)[..], b"_\r\n"].concat();
        let walk = move || decode(&deepest).is_ok();
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(walk).unwrap();
        assert!(thread.join().unwrap());
        assert!(decode(&b"*1\r\n".repeat(40_000)).is_err());
    }
}
