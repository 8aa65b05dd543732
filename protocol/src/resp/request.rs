//! Finds the end of one client request, an array of bulks or an inline line, and where its arguments are.
//!
//! Must not know: commands, sockets, what follows the frame.
//!
//! ```text
//!        '*'            count > 0                      bulk behind bulk, bodies jumped over
//!  start ---> count line ---------> bulk header <-----------------------.
//!    |            \ count <= 0          |  '$' length CR LF             |
//!    |             `-> Empty            `--> body, CR LF ---------------'
//!    | other                                   \ the last one
//!    `-----> line up to LF --> Inline, Empty    `-> Array
//! ```
//!
//! The scanner keeps the offset of the bulk header that it could not pass, so each body is passed once, however many
//! pieces it comes in. Frames are forwarded raw to a node, so the two must agree about where a frame ends: what Redis
//! lets pass without looking (the two bytes behind a body or a length) is refused here.

use memchr::memchr;

use super::args::Span;
use super::{inline, number};

/// The size limits of one client's requests.
#[derive(Debug, Clone, Copy)]
pub struct RequestLimits {
    /// The largest array count. Redis takes `INT_MAX`.
    pub max_args: u32,
    /// The longest argument in bytes. Redis: `proto-max-bulk-len`, 512 MiB.
    pub max_bulk: u32,
    /// The longest inline line, and the longest count or length line, in bytes. Redis: 64 KiB.
    pub max_inline: u32,
    /// The longest frame in bytes. Redis: `client-query-buffer-limit`, 1 GiB.
    pub max_frame: u32,
    /// False until the client has given a password that it must give: then Redis' small limits rule,
    /// 10 arguments of 16,384 bytes each.
    pub authenticated: bool,
}

impl Default for RequestLimits {
    /// Redis 7.0's defaults, for a client that may run commands.
    fn default() -> Self {
        Self {
            max_args: i32::MAX as u32,
            max_bulk: 512 << 20,
            max_inline: 64 << 10,
            max_frame: 1 << 30,
            authenticated: true,
        }
    }
}

impl RequestLimits {
    /// The largest count that needs no closer look.
    fn usual_args(&self) -> usize {
        let limit = if self.authenticated { self.max_args } else { self.max_args.min(UNAUTHENTICATED_ARGS) };
        limit as usize
    }

    /// The longest argument that needs no closer look.
    fn usual_bulk(&self) -> usize {
        let limit = if self.authenticated { self.max_bulk } else { self.max_bulk.min(UNAUTHENTICATED_BULK) };
        limit as usize
    }
}

/// What [`RequestScanner::scan`] found at the beginning of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestScan {
    /// A whole array of at least one bulk; [`RequestScanner::spans`] has the arguments.
    Array {
        /// The frame's length in bytes.
        len: usize,
    },
    /// A whole line that is not an array and not blank; see [`inline::to_array`].
    Inline {
        /// The line's length in bytes, its LF included.
        len: usize,
    },
    /// A frame that asks nothing and gets no reply: a blank line, or a count of zero or less.
    Empty {
        /// The frame's length in bytes.
        len: usize,
    },
    /// The frame is not whole.
    Partial,
}

/// A request that breaks the protocol: the client gets `-ERR` and this text, then the connection is closed.
///
/// The texts are those of Redis 7.0, `networking.c`, except for the last two, which are tsubaki's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The array's count is longer than a line may be.
    #[error("Protocol error: too big mbulk count string")]
    TooBigCount,
    /// The array's count is no integer, or above the limit.
    #[error("Protocol error: invalid multibulk length")]
    InvalidCount,
    /// More arguments than a client may send before it gives its password.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedCount,
    /// A bulk's length is longer than a line may be.
    #[error("Protocol error: too big bulk count string")]
    TooBigLength,
    /// Something else than a bulk, which begins with this byte, where an argument had to come.
    #[error("Protocol error: expected '$', got '{}'", shown(*.0))]
    ExpectedBulk(u8),
    /// A bulk's length is no integer, negative or above the limit, or its body does not end where the length says.
    #[error("Protocol error: invalid bulk length")]
    InvalidLength,
    /// A longer argument than a client may send before it gives its password.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedLength,
    /// A line without end.
    #[error("Protocol error: too big inline request")]
    TooBigInline,
    /// An inline argument whose quotes are not closed, or not followed by a space.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// A zero byte in an inline line. Redis never finds the end of such a line and waits for ever.
    #[error("Protocol error: zero byte in inline request")]
    ZeroByte,
    /// A frame longer than the limit. Redis closes the connection without a word.
    #[error("Protocol error: too big request")]
    TooBigRequest,
}

impl RequestError {
    /// Appends the error reply to `out`, byte for byte as Redis 7.0 writes it.
    ///
    /// `Display` can show only text: a byte above 127 in [`ExpectedBulk`](Self::ExpectedBulk) is `U+FFFD` there and itself here.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"-ERR ");
        match *self {
            Self::ExpectedBulk(byte) if byte > 127 => {
                out.extend_from_slice(b"Protocol error: expected '$', got '");
                out.extend_from_slice(&[byte, b'\'']);
            }
            _ => out.extend_from_slice(self.to_string().as_bytes()),
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Scans the requests of one client, one after the other, without copying or allocating.
#[derive(Debug)]
pub struct RequestScanner {
    /// The arguments found so far; of the last array once it is whole.
    spans: Vec<Span>,
    /// The first byte of the bulk header to scan next; 0 at the beginning of a frame.
    at: usize,
    /// No line end lies before this offset, if the line that begins at `at` is not whole.
    searched: usize,
    /// Bulks of the array that have not come; 0 at the beginning of a frame.
    left: usize,
}

/// Before AUTH: Redis' limits, `networking.c`.
const UNAUTHENTICATED_ARGS: u32 = 10;
const UNAUTHENTICATED_BULK: u32 = 16_384;

/// Kept by [`RequestScanner::shrink`]: room for the arguments of ordinary commands.
const SPANS_KEPT: usize = 64;

impl Default for RequestScanner {
    fn default() -> Self {
        Self::new()
    }
}

impl RequestScanner {
    /// A scanner at the beginning of a frame. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { spans: Vec::new(), at: 0, searched: 0, left: 0 }
    }

    /// Scans the frame that begins at the first byte of `input`.
    ///
    /// After [`Partial`](RequestScan::Partial), the next call must bring the same frame from its first byte on, with
    /// more behind; it goes on where this one stopped. After anything else the scanner is ready for the next frame.
    ///
    /// # Errors
    /// The bytes are no request. The connection cannot go on; [`reset`](Self::reset) readies the scanner for another.
    // In one place it runs for every command, in the others seldom: 45 instructions a command.
    #[inline(always)]
    pub fn scan(&mut self, input: &[u8], limits: &RequestLimits) -> Result<RequestScan, RequestError> {
        if self.left == 0 {
            match number::header(input, 0, b'*') {
                Some((count, next)) if count > 0 && count <= limits.usual_args() => self.begin(count, next),
                _ => match self.scan_odd(input, limits)? {
                    None => {}
                    Some(found) => return Ok(found),
                },
            }
        }
        self.scan_bulks(input, limits)
    }

    /// The arguments of the last array, as offsets into its frame.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Forgets a frame that was scanned in part.
    pub fn reset(&mut self) {
        self.at = 0;
        self.searched = 0;
        self.left = 0;
    }

    /// Gives back the memory of an unusually long array. Only between frames: the spans are lost.
    pub fn shrink(&mut self) {
        if self.left == 0 && self.spans.capacity() > SPANS_KEPT {
            self.spans.clear();
            self.spans.shrink_to(SPANS_KEPT);
        }
    }

    /// The bytes that the request of which `input` is the beginning has at least. For an array that was scanned in part.
    #[must_use]
    pub fn least_len(&self, input: &[u8]) -> usize {
        let header = if self.left > 0 { number::header(input, self.at, b'$') } else { None };
        input.len().max(header.map_or(0, |(length, start)| start + length + 2))
    }

    /// The arguments of an array that was scanned in part, as far as they are whole, and how many are to come.
    #[must_use]
    pub fn partial(&self) -> Option<(&[Span], usize)> {
        (self.left > 0).then_some((&self.spans, self.left))
    }

    /// The count of an array has been read.
    fn begin(&mut self, count: usize, next: usize) {
        self.spans.clear();
        self.left = count;
        self.at = next;
    }

    /// What the hot path does not take: a line, nothing, an unusual count, one that is not whole; `None`: bulks follow.
    #[cold]
    fn scan_odd(
        &mut self,
        input: &[u8],
        limits: &RequestLimits,
    ) -> Result<Option<RequestScan>, RequestError> {
        match input.first() {
            None => return Ok(Some(RequestScan::Partial)),
            Some(b'*') => {}
            Some(_) => return self.scan_line(input, limits).map(Some),
        }
        let Some((count, next)) = self.count(input, limits)? else { return Ok(Some(RequestScan::Partial)) };
        if count == 0 {
            self.reset();
            return Ok(Some(RequestScan::Empty { len: next }));
        }
        self.begin(count, next);
        Ok(None)
    }

    #[inline(always)]
    fn scan_bulks(&mut self, input: &[u8], limits: &RequestLimits) -> Result<RequestScan, RequestError> {
        let max_bulk = limits.usual_bulk();
        let mut at = self.at;
        for left in (1..=self.left).rev() {
            let (length, start) = match number::header(input, at, b'$') {
                Some((length, start)) if length <= max_bulk => (length, start),
                _ => {
                    self.pause(at, left);
                    match self.length(input, limits)? {
                        Some(header) => header,
                        None => return Ok(RequestScan::Partial),
                    }
                }
            };
            let end = start as u64 + length as u64;
            if end + 2 > u64::from(limits.max_frame) {
                return Err(RequestError::TooBigRequest);
            }
            // It fits, as do both ends into a span: `max_frame` is a u32.
            let end = end as usize;
            match input.get(end..).and_then(<[u8]>::first_chunk) {
                Some(line_end) if *line_end == *b"\r\n" => {}
                Some(_) => return Err(RequestError::InvalidLength),
                None => {
                    self.pause(at, left);
                    return Ok(RequestScan::Partial);
                }
            }
            self.spans.push(Span { start: start as u32, end: end as u32 });
            at = end + 2;
        }
        self.reset();
        Ok(RequestScan::Array { len: at })
    }

    /// The bulk whose header begins at `at`, the first of `left`, is not whole.
    fn pause(&mut self, at: usize, left: usize) {
        self.at = at;
        self.left = left;
    }

    fn scan_line(&mut self, input: &[u8], limits: &RequestLimits) -> Result<RequestScan, RequestError> {
        let found =
            memchr(b'\n', input.get(self.searched..).unwrap_or_default()).map(|end| self.searched + end);
        if found.unwrap_or(input.len()) > limits.max_inline as usize {
            return Err(RequestError::TooBigInline);
        }
        let Some(end) = found else {
            self.searched = input.len();
            return Ok(RequestScan::Partial);
        };
        self.searched = 0;
        let len = end + 1;
        let blank = input.iter().take(end).all(|byte| inline::is_space(*byte));
        Ok(if blank { RequestScan::Empty { len } } else { RequestScan::Inline { len } })
    }

    /// The array's count, 0 for any that is not positive, and the offset behind its line; `None` if it is not whole.
    #[inline(always)]
    pub(super) fn count(
        &mut self,
        input: &[u8],
        limits: &RequestLimits,
    ) -> Result<Option<(usize, usize)>, RequestError> {
        let Some(line) = self.line(input, limits, RequestError::TooBigCount)? else { return Ok(None) };
        let count = line.text.get(1..).and_then(number::parse).ok_or(RequestError::InvalidCount)?;
        if count > i64::from(limits.max_args) {
            return Err(RequestError::InvalidCount);
        }
        if count > i64::from(UNAUTHENTICATED_ARGS) && !limits.authenticated {
            return Err(RequestError::UnauthenticatedCount);
        }
        if !line.ends_with_lf {
            return Err(RequestError::InvalidCount);
        }
        Ok(Some((count.max(0) as usize, line.next)))
    }

    /// A bulk's length and the offset of its body, for what the hot path does not take; `None` if the line is not whole.
    #[cold]
    pub(super) fn length(
        &mut self,
        input: &[u8],
        limits: &RequestLimits,
    ) -> Result<Option<(usize, usize)>, RequestError> {
        let Some(line) = self.line(input, limits, RequestError::TooBigLength)? else { return Ok(None) };
        let digits = match line.text {
            [b'$', digits @ ..] => digits,
            [other, ..] => return Err(RequestError::ExpectedBulk(*other)),
            [] => return Err(RequestError::ExpectedBulk(b'\r')),
        };
        let length = number::parse(digits).ok_or(RequestError::InvalidLength)?;
        if !(0..=i64::from(limits.max_bulk)).contains(&length) {
            return Err(RequestError::InvalidLength);
        }
        if length > i64::from(UNAUTHENTICATED_BULK) && !limits.authenticated {
            return Err(RequestError::UnauthenticatedLength);
        }
        if !line.ends_with_lf {
            return Err(RequestError::InvalidLength);
        }
        Ok(Some((length as usize, line.next)))
    }

    /// The line that begins at `at`, as Redis cuts it: up to the first CR, whatever the byte behind it is.
    fn line<'a>(
        &mut self,
        input: &'a [u8],
        limits: &RequestLimits,
        too_big: RequestError,
    ) -> Result<Option<Line<'a>>, RequestError> {
        let from = self.searched.max(self.at);
        let found = memchr(b'\r', input.get(from..).unwrap_or_default()).map(|end| from + end);
        let end = found.unwrap_or(input.len());
        if end.saturating_sub(self.at) > limits.max_inline as usize {
            return Err(too_big);
        }
        let Some(last) = input.get(end + 1) else {
            self.searched = end;
            return Ok(None);
        };
        self.searched = 0;
        let text = input.get(self.at..end).unwrap_or_default();
        Ok(Some(Line { text, ends_with_lf: *last == b'\n', next: end + 2 }))
    }
}

struct Line<'a> {
    text: &'a [u8],
    ends_with_lf: bool,
    next: usize,
}

/// The byte as Redis shows it in an error line: line ends become spaces.
fn shown(byte: u8) -> char {
    match byte {
        b'\r' | b'\n' => ' ',
        0..=127 => char::from(byte),
        _ => char::REPLACEMENT_CHARACTER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scans all of `input` as one pipeline; each argument as text, blank frames left out.
    fn commands(input: &[u8]) -> Result<Vec<Vec<String>>, RequestError> {
        let mut scanner = RequestScanner::new();
        let mut rest = input;
        let mut commands = Vec::new();
        while !rest.is_empty() {
            let len = match scanner.scan(rest, &RequestLimits::default())? {
                RequestScan::Array { len } => {
                    let text = |span: &Span| {
                        String::from_utf8_lossy(&rest[span.start as usize..span.end as usize]).into_owned()
                    };
                    commands.push(scanner.spans().iter().map(text).collect());
                    len
                }
                RequestScan::Inline { len } => {
                    commands.push(vec![String::from_utf8_lossy(rest[..len].trim_ascii_end()).into_owned()]);
                    len
                }
                RequestScan::Empty { len } => len,
                RequestScan::Partial => panic!("{:?} is not whole", String::from_utf8_lossy(rest)),
            };
            rest = &rest[len..];
        }
        Ok(commands)
    }

    fn refusal(input: &[u8], limits: &RequestLimits) -> String {
        let mut out = Vec::new();
        RequestScanner::new().scan(input, limits).expect_err("refused").write(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn inline_commands_of_one_write_are_scanned_apart() {
        assert_eq!(commands(b"AUTH pw\r\nSET k v\r\n").unwrap(), [["AUTH pw"], ["SET k v"]]);
        assert_eq!(commands(b"MULTI\nSET k v\nEXEC\n").unwrap(), [["MULTI"], ["SET k v"], ["EXEC"]]);
    }

    #[test]
    fn arrays_and_inline_lines_mix_in_one_pipeline() {
        let found = commands(b"PING\r\n*1\r\n$4\r\nECHO\r\n\r\nQUIT\r\n").unwrap();
        assert_eq!(found, [["PING"], ["ECHO"], ["QUIT"]]);
    }

    #[test]
    fn a_command_of_too_few_arguments_is_a_whole_frame() {
        assert_eq!(commands(b"*1\r\n$4\r\nMGET\r\n").unwrap(), [["MGET"]]);
        assert_eq!(commands(b"mset\r\nGET\r\n").unwrap(), [["mset"], ["GET"]]);
    }

    #[test]
    fn a_bulk_of_zero_bytes_is_legal_everywhere() {
        let set = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n";
        let pipeline = [&set[..], b"*2\r\n$0\r\n\r\n$0\r\n\r\n", set].concat();
        let found = commands(&pipeline).unwrap();
        assert_eq!(found, [vec!["SET", "a", ""], vec!["", ""], vec!["SET", "a", ""]]);
    }

    #[test]
    fn frames_that_ask_nothing_are_empty() {
        for frame in ["*0\r\n", "*-1\r\n", "*-9223372036854775808\r\n", "\r\n", "\n", " \t\x0b\x0c\r\r\n"] {
            let found = RequestScanner::new().scan(frame.as_bytes(), &RequestLimits::default());
            assert_eq!(found, Ok(RequestScan::Empty { len: frame.len() }), "{frame:?}");
        }
    }

    #[test]
    fn a_frame_scanned_in_parts_leaves_nothing_behind() {
        for (frame, next) in
            [("*0\r\n", "\n"), ("*1\r\n$1\r\na\r\n", "\r\n"), ("PING\r\n", "\n"), ("\r\n", "\n")]
        {
            let mut scanner = RequestScanner::new();
            for cut in 1..frame.len() {
                let found = scanner.scan(&frame.as_bytes()[..cut], &RequestLimits::default());
                assert_eq!(found, Ok(RequestScan::Partial), "{frame:?} up to {cut}");
            }
            scanner.scan(frame.as_bytes(), &RequestLimits::default()).unwrap();
            let found = scanner.scan(next.as_bytes(), &RequestLimits::default());
            assert_eq!(found, Ok(RequestScan::Empty { len: next.len() }), "behind {frame:?}");
        }
    }

    #[test]
    fn a_nested_array_of_a_client_is_refused_at_its_first_level() {
        let text = refusal(&b"*1\r\n".repeat(40_000), &RequestLimits::default());
        assert_eq!(text, "-ERR Protocol error: expected '$', got '*'\r\n");
    }

    #[test]
    fn a_huge_count_before_the_password_is_refused() {
        let limits = RequestLimits { authenticated: false, ..RequestLimits::default() };
        assert_eq!(
            refusal(b"*2000000000\r\n", &limits),
            "-ERR Protocol error: unauthenticated multibulk length\r\n"
        );
        assert_eq!(refusal(b"*11\r\n", &limits), "-ERR Protocol error: unauthenticated multibulk length\r\n");
        let text = refusal(b"*1\r\n$16385\r\n", &limits);
        assert_eq!(text, "-ERR Protocol error: unauthenticated bulk length\r\n");
        let fits = RequestScanner::new().scan(b"*10\r\n$16384\r\n", &limits);
        assert_eq!(fits, Ok(RequestScan::Partial));
    }

    #[test]
    fn what_redis_does_not_check_is_refused() {
        for frame in [
            "*1\rX$1\r\na\r\n",
            "*1\r\n$1\rXa\r\n",
            "*1\r\n$1\r\naXX",
            "*1\r\n$1\r\na\rX",
            "*1\r\n$2\r\na\r\n\r\n",
        ] {
            let refused = RequestScanner::new().scan(frame.as_bytes(), &RequestLimits::default());
            assert!(
                matches!(refused, Err(RequestError::InvalidCount | RequestError::InvalidLength)),
                "{frame:?}"
            );
        }
    }

    #[test]
    fn a_frame_above_the_limit_is_refused_by_its_headers() {
        let limits = RequestLimits { max_frame: 30, ..RequestLimits::default() };
        let fits = b"*1\r\n$20\r\n01234567890123456789\r\n";
        assert_eq!(RequestScanner::new().scan(fits, &limits), Err(RequestError::TooBigRequest));
        let limits = RequestLimits { max_frame: 31, ..limits };
        assert_eq!(fits.len(), 31);
        assert_eq!(RequestScanner::new().scan(fits, &limits), Ok(RequestScan::Array { len: 31 }));
        let two = b"*2\r\n$1\r\na\r\n$999\r\n";
        assert_eq!(RequestScanner::new().scan(two, &limits), Err(RequestError::TooBigRequest));
    }

    #[test]
    fn a_line_limit_holds_however_the_line_comes() {
        let limits = RequestLimits { max_inline: 8, ..RequestLimits::default() };
        for (whole, limit) in [("PING 678\n", true), ("PING 6789\n", false), ("PING 6789", false)] {
            assert_eq!(RequestScanner::new().scan(whole.as_bytes(), &limits).is_ok(), limit, "{whole:?}");
        }
        assert_eq!(refusal(b"*123456789", &limits), "-ERR Protocol error: too big mbulk count string\r\n");
        assert_eq!(
            refusal(b"*1\r\n$12345678", &limits),
            "-ERR Protocol error: too big bulk count string\r\n"
        );
    }

    #[test]
    fn the_byte_in_an_error_is_shown_as_redis_shows_it() {
        for (byte, shown) in [(b'x', b'x'), (b'\r', b' '), (b'\n', b' '), (0xff, 0xff), (b'\t', b'\t')] {
            let mut out = Vec::new();
            RequestError::ExpectedBulk(byte).write(&mut out);
            assert_eq!(out, [b"-ERR Protocol error: expected '$', got '", &[shown][..], b"'\r\n"].concat());
        }
        assert_eq!(
            RequestError::ExpectedBulk(0xff).to_string(),
            "Protocol error: expected '$', got '\u{fffd}'"
        );
    }

    #[test]
    fn shrinking_keeps_what_ordinary_commands_need() {
        let mut scanner = RequestScanner::new();
        let big = [b"*1000\r\n", &b"$1\r\na\r\n".repeat(1000)[..]].concat();
        scanner.scan(&big, &RequestLimits::default()).unwrap();
        assert_eq!(scanner.spans().len(), 1000);
        scanner.shrink();
        assert!(scanner.spans.capacity() <= SPANS_KEPT);
    }
}
