//! Finds the end of one reply of a node, whatever RESP2 or RESP3 type it is, without copying or building a tree.
//!
//! Must not know: which command the reply answers, what its elements mean.
//!
//! ```text
//!   +text -text (text     one line                    :n ,n _ #t    one line, its content checked
//!   $n !n =n              header, body jumped over    *n ~n >n %n   n (or 2n) elements, each a value
//!   |n                    2n elements, then the value that they are attributes of, in the same place
//! ```
//!
//! Nesting is a stack of counts of elements still to come, as deep as headers really arrived; a reply that is one line
//! or one bulk never touches it. The scanner keeps the offset of the element that it could not pass, so a body is
//! passed once, however many pieces it comes in.

use memchr::memchr;

use super::number;

/// The longest body or text line in bytes: twice what Redis allows a string by default (`proto-max-bulk-len`, 512 MiB),
/// for clusters that raised it.
///
/// Text lines have the same limit, since a script can return a status or an error of any length.
pub const MAX_BULK: usize = 1 << 30;

/// How deep aggregates may nest. Redis' deepest own replies (COMMAND, CLUSTER SHARDS, XINFO FULL) have below ten levels,
/// and Lua scripts nest at most about a hundred; code that walks a scanned reply may recurse this deep.
pub const MAX_DEPTH: usize = 128;

/// The largest count of an aggregate. Nothing is allocated for a count.
const MAX_COUNT: usize = i32::MAX as usize;

/// The longest line of a count, a length, an integer, a boolean or a null: 20 characters, and some.
const MAX_NUMBER_LINE: usize = 32;

/// The most elements of a list that is scanned at one go: one command's keys of one slot are seldom more.
const SHORT_LIST: usize = 16;

/// The longest line of a double: Redis' `MAX_LONG_DOUBLE_CHARS` is 5 KiB.
const MAX_DOUBLE_LINE: usize = 8 << 10;

/// What [`ReplyScanner::scan`] found at the beginning of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyScan {
    /// A whole reply.
    Complete(Reply),
    /// The reply is not whole.
    Partial,
}

/// One whole reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// The length in bytes, attributes included.
    pub len: usize,
    /// The type: the first byte of the value behind any attributes. `b'>'` is a push message, which answers no command.
    pub kind: u8,
}

/// Bytes that no node sends: the connection is out of step and must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The first byte of a value is no type of RESP.
    #[error(
        "a node's reply has a value that begins with byte {0:#04x}, which is no RESP type; close the connection"
    )]
    UnknownType(u8),
    /// A length or count that is no number, or is negative or streamed (`?`) where it may not be.
    #[error("a node's reply has a malformed length behind '{}'; close the connection", char::from(*.0))]
    BadLength(u8),
    /// A length or count above the limit, or a line without end.
    #[error("a node's reply has a length above the limit behind '{}'; close the connection", char::from(*.0))]
    TooLong(u8),
    /// A number, boolean, null or verbatim string whose content is none.
    #[error("a node's reply has a malformed value behind '{}'; close the connection", char::from(*.0))]
    BadValue(u8),
    /// A body that does not end where its length says.
    #[error("a node's reply has a body behind '{}' that is not followed by CR LF; close the connection", char::from(*.0))]
    MissingEnd(u8),
    /// Aggregates nested deeper than [`MAX_DEPTH`].
    #[error("a node's reply is nested deeper than {MAX_DEPTH} levels; close the connection")]
    TooDeep,
    /// A frame given to [`elements`] that has none to give: not an aggregate, or cut off.
    #[error("a node's reply of type '{}' is not a whole list; report this as a defect", char::from(*.0))]
    NotAList(u8),
}

/// Scans the replies of one connection to a node, one after the other.
#[derive(Debug)]
pub struct ReplyScanner {
    /// The first byte of the element to scan next; 0 at the beginning of a reply.
    at: usize,
    /// No line end lies before this offset, if the line that begins at `at` is not whole.
    searched: usize,
    /// The type of the whole reply; 0 until its attributes are passed.
    kind: u8,
    /// Elements still to come in each open aggregate, the outermost first. None is 0 between elements.
    open: Vec<usize>,
}

/// One element's beginning, or the whole of it if it has no elements of its own.
pub(super) struct Element {
    /// Elements inside that follow; 0 for one that is whole.
    pub(super) inside: usize,
    /// The first byte behind what was scanned.
    pub(super) next: usize,
}

impl Default for ReplyScanner {
    fn default() -> Self {
        Self::new()
    }
}

impl ReplyScanner {
    /// A scanner at the beginning of a reply. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { at: 0, searched: 0, kind: 0, open: Vec::new() }
    }

    /// Scans the reply that begins at the first byte of `input`.
    ///
    /// After [`Partial`](ReplyScan::Partial), the next call must bring the same reply from its first byte on, with more
    /// behind; it goes on where this one stopped. After [`Complete`](ReplyScan::Complete) the scanner is ready for the next reply.
    ///
    /// # Errors
    /// The bytes are no reply. The connection cannot go on; [`reset`](Self::reset) readies the scanner for another.
    pub fn scan(&mut self, input: &[u8]) -> Result<ReplyScan, ReplyError> {
        // Most replies are one usual element, or a short list of such.
        if self.at == 0
            && let Some(&kind) = input.first()
            && let Some(len) = if kind == b'*' { short_list(input) } else { usual(input, 0, kind) }
        {
            self.searched = 0;
            return Ok(ReplyScan::Complete(Reply { len, kind }));
        }
        self.scan_elements(input)
    }

    #[inline(never)]
    fn scan_elements(&mut self, input: &[u8]) -> Result<ReplyScan, ReplyError> {
        loop {
            self.pass_usual(input);
            if self.is_whole() {
                let reply = Reply { len: self.at, kind: self.kind };
                self.reset();
                return Ok(ReplyScan::Complete(reply));
            }
            let Some(&kind) = input.get(self.at) else { return Ok(ReplyScan::Partial) };
            let Some(element) = self.element(input, kind)? else { return Ok(ReplyScan::Partial) };
            self.at = element.next;
            self.count(kind, element.inside)?;
        }
    }

    /// Passes as many usual elements of the innermost aggregate as there are in a row.
    fn pass_usual(&mut self, input: &[u8]) {
        let Some(left) = self.open.last_mut() else { return };
        while *left > 0
            && let Some(&kind) = input.get(self.at)
            && let Some(next) = usual(input, self.at, kind)
        {
            self.at = next;
            *left -= 1;
        }
        self.close_whole();
    }

    /// Forgets a reply that was scanned in part.
    pub fn reset(&mut self) {
        self.at = 0;
        self.searched = 0;
        self.kind = 0;
        self.open.clear();
    }

    /// The bytes that the reply of which `input` is the beginning has at least. For a reply that was scanned in part.
    #[must_use]
    pub fn least_len(&self, input: &[u8]) -> usize {
        let header = input.get(self.at).filter(|kind| matches!(kind, b'$' | b'!' | b'='));
        let body = header.and_then(|kind| number::header(input, self.at, *kind));
        input.len().max(body.map_or(0, |(length, start)| start + length + 2))
    }

    /// The type of the reply; `None` until its attributes are passed.
    pub(super) fn kind(&self) -> Option<u8> {
        (self.kind != 0).then_some(self.kind)
    }

    /// An element of this type was passed, or its beginning, with so many elements inside.
    #[inline(always)]
    pub(super) fn count(&mut self, kind: u8, inside: usize) -> Result<(), ReplyError> {
        // Attributes take no place of their own: the value behind them does.
        if kind != b'|' {
            match self.open.last_mut() {
                Some(left) => *left -= 1,
                None => self.kind = kind,
            }
        }
        if inside > 0 {
            if self.open.len() == MAX_DEPTH {
                return Err(ReplyError::TooDeep);
            }
            self.open.push(inside);
        }
        self.close_whole();
        Ok(())
    }

    /// Leaves the aggregates of which no element is still to come.
    fn close_whole(&mut self) {
        while self.open.last() == Some(&0) {
            self.open.pop();
        }
    }

    /// What was searched for the end of a line is not in the input any more.
    pub(super) fn forget_line(&mut self) {
        self.searched = 0;
    }

    /// True if no element is still to come.
    #[inline(always)]
    pub(super) fn is_whole(&self) -> bool {
        self.open.is_empty() && self.kind != 0
    }

    pub(super) fn element(&mut self, input: &[u8], kind: u8) -> Result<Option<Element>, ReplyError> {
        match kind {
            b'$' | b'!' | b'=' => self.body(input, kind),
            b'*' | b'~' | b'>' => self.aggregate(input, kind, 1),
            b'%' | b'|' => self.aggregate(input, kind, 2),
            b'+' | b'-' | b'(' => Ok(self.line_end(input, kind, MAX_BULK)?.map(whole_line)),
            b':' | b',' | b'#' | b'_' => self.scalar(input, kind),
            other => Err(ReplyError::UnknownType(other)),
        }
    }

    fn body(&mut self, input: &[u8], kind: u8) -> Result<Option<Element>, ReplyError> {
        let Some((length, start)) = self.length(input, kind, MAX_BULK)? else { return Ok(None) };
        let Some(length) = length else { return Ok(Some(Element { inside: 0, next: start })) };
        let end = start + length;
        match input.get(end..end + 2) {
            None => return Ok(None),
            Some(b"\r\n") => {}
            Some(_) => return Err(ReplyError::MissingEnd(kind)),
        }
        if kind == b'=' && (length < 4 || input.get(start + 3) != Some(&b':')) {
            return Err(ReplyError::BadValue(kind));
        }
        Ok(Some(Element { inside: 0, next: end + 2 }))
    }

    #[inline]
    fn aggregate(&mut self, input: &[u8], kind: u8, each: usize) -> Result<Option<Element>, ReplyError> {
        let Some((count, next)) = self.length(input, kind, MAX_COUNT)? else { return Ok(None) };
        Ok(Some(Element { inside: count.unwrap_or(0) * each, next }))
    }

    fn scalar(&mut self, input: &[u8], kind: u8) -> Result<Option<Element>, ReplyError> {
        let limit = if kind == b',' { MAX_DOUBLE_LINE } else { MAX_NUMBER_LINE };
        let Some(end) = self.line_end(input, kind, limit)? else { return Ok(None) };
        let text = input.get(self.at + 1..end).unwrap_or_default();
        let valid = match kind {
            b':' => number::parse(text).is_some(),
            b',' => looks_like_a_double(text),
            b'#' => matches!(text, b"t" | b"f"),
            _ => text.is_empty(),
        };
        if valid { Ok(Some(whole_line(end))) } else { Err(ReplyError::BadValue(kind)) }
    }

    /// The length behind `kind` (`None` inside: the null of RESP2), and the offset behind its line; `None`: not whole.
    #[inline]
    pub(super) fn length(
        &mut self,
        input: &[u8],
        kind: u8,
        limit: usize,
    ) -> Result<Option<Length>, ReplyError> {
        match number::header(input, self.at, kind) {
            Some((length, next)) if length <= limit => Ok(Some((Some(length), next))),
            _ => self.odd_length(input, kind, limit),
        }
    }

    /// [`length`](Self::length) for what the hot path does not take: an unusual line, an error, a line that is not whole.
    #[cold]
    fn odd_length(&mut self, input: &[u8], kind: u8, limit: usize) -> Result<Option<Length>, ReplyError> {
        let Some(end) = self.line_end(input, kind, MAX_NUMBER_LINE)? else { return Ok(None) };
        let text = input.get(self.at + 1..end).unwrap_or_default();
        if text == b"-1" && matches!(kind, b'$' | b'*') {
            return Ok(Some((None, end + 2)));
        }
        let length =
            number::parse(text).filter(|length| *length >= 0).ok_or(ReplyError::BadLength(kind))? as usize;
        if length > limit { Err(ReplyError::TooLong(kind)) } else { Ok(Some((Some(length), end + 2))) }
    }

    /// The offset of the CR LF that ends the line at `at`; `None`: not whole. A lone CR or LF is content, as in other clients.
    fn line_end(&mut self, input: &[u8], kind: u8, limit: usize) -> Result<Option<usize>, ReplyError> {
        let start = self.at + 1;
        let mut from = self.searched.max(start);
        while let Some(found) = input.get(from..).and_then(|rest| memchr(b'\r', rest)) {
            from += found;
            match input.get(from + 1) {
                Some(b'\n') if from - start <= limit => {
                    self.searched = 0;
                    return Ok(Some(from));
                }
                Some(b'\n') => return Err(ReplyError::TooLong(kind)),
                Some(_) => from += 1,
                None => break,
            }
        }
        // Either the last byte is a CR, or there is none.
        self.searched = if input.last() == Some(&b'\r') { input.len() - 1 } else { input.len() };
        if self.searched.saturating_sub(start) > limit { Err(ReplyError::TooLong(kind)) } else { Ok(None) }
    }
}

pub(super) type Length = (Option<usize>, usize);

/// The end of a whole bulk, its null, an integer or `+OK`, which nearly all elements are; `None` is no verdict.
#[inline(always)]
fn usual(input: &[u8], at: usize, kind: u8) -> Option<usize> {
    match kind {
        b'$' => match number::header(input, at, kind) {
            Some((length, start)) => {
                let end = start + length;
                (*input.get(end..)?.first_chunk()? == *b"\r\n").then_some(end + 2)
            }
            None => input.get(at..)?.starts_with(b"$-1\r\n").then_some(at + 5),
        },
        b':' => number::header(input, at, kind).map(|(_, next)| next),
        b'+' => input.get(at..)?.starts_with(b"+OK\r\n").then_some(at + 5),
        _ => None,
    }
}

/// The end of a whole array of few usual elements; `None` is no verdict. What it passed is walked once more if the array
/// is not whole, so it must be short.
fn short_list(input: &[u8]) -> Option<usize> {
    let (count, mut at) = number::header(input, 0, b'*')?;
    if count > SHORT_LIST {
        return None;
    }
    for _ in 0..count {
        at = usual(input, at, *input.get(at)?)?;
    }
    Some(at)
}

fn whole_line(end: usize) -> Element {
    Element { inside: 0, next: end + 2 }
}

/// Enough to find garbage: `inf`, `-inf`, `nan`, or characters of a number with a digit among them.
fn looks_like_a_double(text: &[u8]) -> bool {
    match text {
        b"inf" | b"-inf" | b"nan" | b"-nan" => true,
        _ => {
            text.iter().any(u8::is_ascii_digit)
                && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
        }
    }
}

/// The raw bytes of each element of one whole aggregate, in order; see [`elements`].
#[derive(Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
    left: usize,
    scanner: ReplyScanner,
}

/// Walks the elements of one whole array, set or push, or the keys and values in turn of a map.
///
/// Attributes in front of the aggregate are skipped; those of an element are part of its bytes. Null has no elements.
///
/// # Errors
/// `frame` does not begin with an aggregate. A frame that is cut off, which no scanner gives, ends the walk early.
pub fn elements(frame: &[u8]) -> Result<Elements<'_>, ReplyError> {
    let value = behind_attributes(frame);
    let Some(&kind) = value.first() else { return Err(ReplyError::NotAList(b'|')) };
    let each = match kind {
        b'*' | b'~' | b'>' => 1,
        b'%' => 2,
        b'_' => return Ok(Elements { rest: &[], left: 0, scanner: ReplyScanner::new() }),
        _ => return Err(ReplyError::NotAList(kind)),
    };
    Elements::inside(value, kind, each)
}

impl<'a> Elements<'a> {
    /// The number of elements that have not been walked yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    fn inside(value: &'a [u8], kind: u8, each: usize) -> Result<Self, ReplyError> {
        let mut scanner = ReplyScanner::new();
        let header = scanner.aggregate(value, kind, each)?.ok_or(ReplyError::NotAList(kind))?;
        Ok(Self {
            rest: value.get(header.next..).unwrap_or_default(),
            left: header.inside,
            scanner: ReplyScanner::new(),
        })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let Ok(ReplyScan::Complete(reply)) = self.scanner.scan(self.rest) else {
            self.left = 0;
            return None;
        };
        let (element, rest) = self.rest.split_at_checked(reply.len)?;
        self.rest = rest;
        Some(element)
    }
}

/// The body of a bulk, simple or verbatim string (without its `txt:`); `None` for null and every other type.
#[must_use]
pub fn bulk(frame: &[u8]) -> Option<&[u8]> {
    let value = behind_attributes(frame);
    let kind = *value.first()?;
    match kind {
        b'+' => value.strip_suffix(b"\r\n")?.get(1..),
        b'$' | b'=' => {
            let (length, start) = ReplyScanner::new().length(value, kind, MAX_BULK).ok()??;
            let body = value.get(start..start + length?)?;
            if kind == b'=' { body.get(4..) } else { Some(body) }
        }
        _ => None,
    }
}

/// The value of an integer reply; `None` for every other type.
#[must_use]
pub fn integer(frame: &[u8]) -> Option<i64> {
    number::parse(behind_attributes(frame).strip_prefix(b":")?.strip_suffix(b"\r\n")?)
}

/// The value itself, without the attributes in front of it; empty if the frame is cut off.
#[inline]
fn behind_attributes(frame: &[u8]) -> &[u8] {
    if frame.first() == Some(&b'|') { skip_attributes(frame) } else { frame }
}

#[cold]
fn skip_attributes(frame: &[u8]) -> &[u8] {
    let mut value = frame;
    while value.first() == Some(&b'|') {
        let Ok(mut attributes) = Elements::inside(value, b'|', 2) else { return &[] };
        while attributes.left > 0 {
            attributes.next();
        }
        value = attributes.rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(input: &[u8]) -> Result<ReplyScan, ReplyError> {
        ReplyScanner::new().scan(input)
    }

    #[track_caller]
    fn complete(frame: &str, kind: u8) {
        let input = [frame.as_bytes(), b"+next\r\n"].concat();
        assert_eq!(scan(&input), Ok(ReplyScan::Complete(Reply { len: frame.len(), kind })), "{frame:?}");
        let mut scanner = ReplyScanner::new();
        for cut in 0..frame.len() {
            assert_eq!(scanner.scan(&input[..cut]), Ok(ReplyScan::Partial), "{frame:?} up to {cut}");
        }
        assert_eq!(
            scanner.scan(&input),
            Ok(ReplyScan::Complete(Reply { len: frame.len(), kind })),
            "{frame:?} resumed"
        );
    }

    #[test]
    fn a_list_ends_behind_its_last_element_whether_it_is_short_or_long() {
        for count in [1, SHORT_LIST, SHORT_LIST + 1, 100] {
            complete(&format!("*{count}\r\n{}", "$1\r\na\r\n".repeat(count)), b'*');
            complete(&format!("*{count}\r\n{}*1\r\n:1\r\n", "+OK\r\n".repeat(count - 1)), b'*');
        }
    }

    #[test]
    fn every_type_ends_where_it_ends() {
        for frame in [
            "+OK\r\n",
            "+\r\n",
            "-ERR x\r\n",
            ":0\r\n",
            ":-12\r\n",
            ":9223372036854775807\r\n",
            "$3\r\na\r\n\r\n",
            "$0\r\n\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*2\r\n:1\r\n$1\r\na\r\n",
            "_\r\n",
            ",3.14\r\n",
            ",-inf\r\n",
            ",nan\r\n",
            ",1e-5\r\n",
            "#t\r\n",
            "#f\r\n",
            "!5\r\nERR x\r\n",
            "=6\r\ntxt:hi\r\n",
            "(12345678901234567890123\r\n",
            "%1\r\n+k\r\n*1\r\n:1\r\n",
            "~1\r\n+a\r\n",
            ">2\r\n+message\r\n*0\r\n",
            "*2\r\n*0\r\n*1\r\n*-1\r\n",
            "%0\r\n",
        ] {
            complete(frame, frame.as_bytes()[0]);
        }
    }

    #[test]
    fn an_attribute_belongs_to_the_value_behind_it() {
        complete("|1\r\n+ttl\r\n:5\r\n$1\r\na\r\n", b'$');
        complete(
            "|1\r\n+a\r\n*1\r\n|1\r\n+b\r\n:1\r\n:2\r\n|0\r\n*2\r\n|1\r\n+c\r\n:1\r\n:2\r\n:3\r\n",
            b'*',
        );
    }

    #[test]
    fn an_error_line_without_a_space_ends_at_its_line_end_only() {
        complete("-keyalreadyexists\r\n", b'-');
        complete("-a\rb\nc\r\r\n", b'-');
    }

    #[test]
    fn a_push_between_two_replies_is_told_apart() {
        let input = b"$1\r\na\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n:7\r\n";
        let mut scanner = ReplyScanner::new();
        let mut rest = &input[..];
        let mut kinds = Vec::new();
        while let Ok(ReplyScan::Complete(reply)) = scanner.scan(rest) {
            kinds.push(reply.kind);
            rest = &rest[reply.len..];
        }
        assert_eq!((kinds.as_slice(), rest), (&b"$>:"[..], &b""[..]));
    }

    #[test]
    fn a_body_whose_length_is_near_that_of_a_buffer_is_whole() {
        for size in (1..=4).flat_map(|n| n * 16_384 - 64..=n * 16_384 + 64) {
            let frame = [format!("${size}\r\n").as_bytes(), &vec![b'\r'; size], b"\r\n"].concat();
            let mut scanner = ReplyScanner::new();
            for cut in [16_384, 32_768, 49_152, 65_536, frame.len() - 2, frame.len() - 1] {
                if cut < frame.len() {
                    assert_eq!(scanner.scan(&frame[..cut]), Ok(ReplyScan::Partial));
                }
            }
            assert_eq!(scanner.scan(&frame), Ok(ReplyScan::Complete(Reply { len: frame.len(), kind: b'$' })));
        }
    }

    #[test]
    fn nesting_is_limited() {
        assert_eq!(scan(&b"*1\r\n".repeat(40_000)), Err(ReplyError::TooDeep));
        let deepest = [&b"*1\r\n".repeat(MAX_DEPTH)[..], b":1\r\n"].concat();
        assert!(matches!(scan(&deepest), Ok(ReplyScan::Complete(_))));
    }

    #[test]
    fn what_no_server_sends_is_refused() {
        for (frame, error) in [
            ("HTTP/1.1", ReplyError::UnknownType(b'H')),
            ("$?\r\n", ReplyError::BadLength(b'$')),
            ("*?\r\n", ReplyError::BadLength(b'*')),
            ("%-1\r\n", ReplyError::BadLength(b'%')),
            ("$-2\r\n", ReplyError::BadLength(b'$')),
            ("$+1\r\n", ReplyError::BadLength(b'$')),
            ("$01\r\n", ReplyError::BadLength(b'$')),
            ("$\r\n", ReplyError::BadLength(b'$')),
            ("$1073741825\r\n", ReplyError::TooLong(b'$')),
            ("*2147483648\r\n", ReplyError::TooLong(b'*')),
            ("$1\r\nabc", ReplyError::MissingEnd(b'$')),
            ("=3\r\ntxt\r\n", ReplyError::BadValue(b'=')),
            ("=5\r\ntxt-a\r\n", ReplyError::BadValue(b'=')),
            (":1a\r\n", ReplyError::BadValue(b':')),
            (":\r\n", ReplyError::BadValue(b':')),
            (",\r\n", ReplyError::BadValue(b',')),
            (",abc\r\n", ReplyError::BadValue(b',')),
            ("#x\r\n", ReplyError::BadValue(b'#')),
            ("_x\r\n", ReplyError::BadValue(b'_')),
            (":11111111111111111111111111111111111", ReplyError::TooLong(b':')),
        ] {
            assert_eq!(scan(frame.as_bytes()), Err(error), "{frame:?}");
        }
    }

    #[test]
    fn elements_are_raw_and_in_order() {
        let walk = |frame: &str| {
            let elements = elements(frame.as_bytes()).unwrap();
            elements.map(|element| String::from_utf8_lossy(element).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            walk("*3\r\n$1\r\na\r\n*1\r\n:1\r\n|1\r\n+k\r\n+v\r\n:2\r\n"),
            ["$1\r\na\r\n", "*1\r\n:1\r\n", "|1\r\n+k\r\n+v\r\n:2\r\n"]
        );
        assert_eq!(walk("|1\r\n+k\r\n+v\r\n%1\r\n+a\r\n:1\r\n"), ["+a\r\n", ":1\r\n"]);
        assert!(walk("*-1\r\n").is_empty() && walk("_\r\n").is_empty() && walk("~0\r\n").is_empty());
        assert_eq!(elements(b"+OK\r\n").map(|_| ()), Err(ReplyError::NotAList(b'+')));
        assert_eq!(walk("*3\r\n:1\r\n:2"), [":1\r\n"]);
    }

    #[test]
    fn bodies_and_integers_are_read_out() {
        for (frame, body) in [
            ("$3\r\nabc\r\n", Some("abc")),
            ("+OK\r\n", Some("OK")),
            ("=7\r\ntxt:abc\r\n", Some("abc")),
            ("|1\r\n+k\r\n+v\r\n$0\r\n\r\n", Some("")),
            ("$-1\r\n", None),
            (":1\r\n", None),
            ("$5\r\nab", None),
        ] {
            assert_eq!(bulk(frame.as_bytes()), body.map(str::as_bytes), "{frame:?}");
        }
        for (frame, value) in
            [(":-7\r\n", Some(-7)), ("|0\r\n:7\r\n", Some(7)), ("+7\r\n", None), (":7", None)]
        {
            assert_eq!(integer(frame.as_bytes()), value, "{frame:?}");
        }
    }
}
