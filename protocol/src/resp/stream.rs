//! Follows one frame through pieces that are passed on and dropped, for frames that are too large to be held.
//!
//! Must not know: where the pieces go. A frame is followed from its first byte on; what a scanner found of it before is
//! not needed. Lines are looked at whole, so that up to one of them may have to be brought again.
//!
//! ```text
//!   between elements ---'$' length---> body ---CR LF---.
//!         ^   |  '+' '-' '('           line ---CR LF---+
//!         |   '--':' '*' … (whole at once)             |
//!         '-----------------<--------------------------'   none is left: whole
//! ```

use memchr::memchr;

use super::reply::{MAX_BULK, ReplyError, ReplyScanner};
use super::request::{RequestError, RequestLimits, RequestScanner};

/// What of a piece belongs to the frame that is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// The bytes at the front of the piece that were looked at. What is behind them has to be brought again, with more.
    pub len: usize,
    /// True if the frame ends with them.
    pub whole: bool,
}

/// Follows one request: an array of bulks.
#[derive(Debug, Default)]
pub struct RequestStream {
    scanner: RequestScanner,
    /// Bulks of which not even the header has come; `None` at the beginning.
    left: Option<usize>,
    /// Bytes of a body, its CR LF included, that are to come.
    body: usize,
    /// Bytes passed so far.
    passed: u64,
}

impl RequestStream {
    /// Passes what belongs to the request in the next piece of it.
    ///
    /// # Errors
    /// The bytes are no request, or it is too long. The connection cannot go on.
    pub fn pass(&mut self, piece: &[u8], limits: &RequestLimits) -> Result<Passed, RequestError> {
        let mut len = 0;
        loop {
            let rest = piece.get(len..).unwrap_or_default();
            if self.body > 0 {
                len += body(&mut self.body, rest).ok_or(RequestError::InvalidLength)?;
                if self.body > 0 {
                    break;
                }
                continue;
            }
            match self.left {
                Some(0) => return Ok(self.passed(len, true)),
                Some(left) => {
                    let Some((length, next)) = self.scanner.length(rest, limits)? else { break };
                    let end = self.passed + (len + next + length + END) as u64;
                    if end > u64::from(limits.max_frame) {
                        return Err(RequestError::TooBigRequest);
                    }
                    self.left = Some(left - 1);
                    self.body = length + END;
                    len += next;
                }
                None if rest.is_empty() => break,
                None => {
                    let Some((count, next)) = self.scanner.count(rest, limits)? else { break };
                    self.scanner.reset();
                    self.left = Some(count);
                    len += next;
                }
            }
        }
        Ok(self.passed(len, false))
    }

    fn passed(&mut self, len: usize, whole: bool) -> Passed {
        self.passed += len as u64;
        Passed { len, whole }
    }
}

/// Follows one reply.
#[derive(Debug, Default)]
pub struct ReplyStream {
    scanner: ReplyScanner,
    inside: Inside,
}

/// What a reply's next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Inside {
    /// The beginning of an element.
    #[default]
    Nothing,
    /// The body of an element of this kind, with so many bytes to come.
    Body(u8, usize),
    /// A line of text.
    Line,
}

impl ReplyStream {
    /// The type of the reply, as in [`Reply`](super::reply::Reply); `None` while only attributes have come.
    #[must_use]
    pub fn kind(&self) -> Option<u8> {
        self.scanner.kind()
    }

    /// Passes what belongs to the reply in the next piece of it.
    ///
    /// # Errors
    /// The bytes are no reply. The connection cannot go on.
    pub fn pass(&mut self, piece: &[u8]) -> Result<Passed, ReplyError> {
        let mut len = 0;
        loop {
            let rest = piece.get(len..).unwrap_or_default();
            let taken = match self.inside {
                Inside::Nothing => self.begin(rest)?,
                Inside::Body(kind, mut left) => {
                    let taken = body(&mut left, rest).ok_or(ReplyError::MissingEnd(kind))?;
                    self.inside = if left > 0 { Inside::Body(kind, left) } else { Inside::Nothing };
                    Some(taken)
                }
                Inside::Line => Some(self.line(rest)),
            };
            len += taken.unwrap_or_default();
            if self.inside == Inside::Nothing && self.scanner.is_whole() {
                return Ok(Passed { len, whole: true });
            }
            // Nothing more to look at, or a line that is not whole.
            if len == piece.len() || taken.is_none_or(|taken| taken == 0 && self.inside == Inside::Line) {
                return Ok(Passed { len, whole: false });
            }
        }
    }

    /// The beginning of an element, or the whole of it if it is no text; `None` if more of it has to come.
    fn begin(&mut self, rest: &[u8]) -> Result<Option<usize>, ReplyError> {
        let Some(&kind) = rest.first() else { return Ok(None) };
        let (inside, next) = match kind {
            b'$' | b'!' | b'=' => {
                let Some((length, next)) = self.scanner.length(rest, kind, MAX_BULK)? else {
                    return Ok(None);
                };
                self.inside = length.map_or(Inside::Nothing, |length| Inside::Body(kind, length + END));
                (0, next)
            }
            b'+' | b'-' | b'(' => {
                self.inside = Inside::Line;
                (0, 1)
            }
            _ => match self.scanner.element(rest, kind)? {
                Some(element) => (element.inside, element.next),
                None => return Ok(None),
            },
        };
        self.scanner.count(kind, inside)?;
        self.scanner.forget_line();
        Ok(Some(next))
    }

    /// The bytes of a line of text in `rest`; a CR at the very end is left, as an LF may follow.
    fn line(&mut self, rest: &[u8]) -> usize {
        let mut from = 0;
        while let Some(found) = rest.get(from..).and_then(|rest| memchr(b'\r', rest)) {
            from += found;
            match rest.get(from + 1) {
                Some(b'\n') => {
                    self.inside = Inside::Nothing;
                    return from + END;
                }
                Some(_) => from += 1,
                None => return from,
            }
        }
        rest.len()
    }
}

/// CR LF.
const END: usize = 2;

/// Takes what there is of a body with `left` bytes to come, its CR LF included; `None` if that is not where it should be.
fn body(left: &mut usize, rest: &[u8]) -> Option<usize> {
    let taken = rest.len().min(*left);
    let ends = rest.get(..taken)?.iter().rev().zip(0..);
    // The bytes of the piece that are the body's last two, counted from the end of the frame.
    let behind = *left - taken;
    let is_right = ends
        .take(END.saturating_sub(behind))
        .all(|(byte, place)| *byte == if behind + place == 0 { b'\n' } else { b'\r' });
    *left = behind;
    is_right.then_some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::reply::ReplyScan;

    /// Feeds `frame` and more in two pieces; returns how many bytes belonged to it.
    fn follow(frame: &[u8], cut: usize, mut pass: impl FnMut(&[u8]) -> Passed) -> usize {
        let input = [frame, b"+next\r\n"].concat();
        let (mut total, mut from) = (0, 0);
        for end in [cut, input.len()] {
            let passed = pass(&input[from..end]);
            from += passed.len;
            total += passed.len;
            if passed.whole {
                break;
            }
        }
        total
    }

    #[test]
    fn a_reply_ends_where_the_scanner_says_wherever_it_is_cut() {
        let long_header = format!("*2\r\n$1000\r\n{}\r\n$-1\r\n", "x".repeat(1000));
        for frame in [
            long_header.as_str(),
            "$5\r\na\r\nbc\r\n",
            "$0\r\n\r\n",
            "$-1\r\n",
            "*3\r\n$1\r\na\r\n*2\r\n:1\r\n+OK\r\n-ERR x\ry\r\n",
            "%1\r\n+k\r\n=6\r\ntxt:ab\r\n",
            "|1\r\n+ttl\r\n:5\r\n$3\r\nabc\r\n",
            "*1\r\n|1\r\n+a\r\n*0\r\n(12345678901234567890\r\n",
            ",3.14\r\n",
            "+\r\r\n",
            "*0\r\n",
            "*2\r\n*-1\r\n_\r\n",
        ] {
            let scan = ReplyScanner::new().scan(frame.as_bytes());
            let Ok(ReplyScan::Complete(reply)) = scan else { panic!("{frame:?}: {scan:?}") };
            for cut in 0..frame.len() {
                let mut stream = ReplyStream::default();
                let len = follow(frame.as_bytes(), cut, |piece| stream.pass(piece).unwrap());
                assert_eq!((len, stream.kind()), (reply.len, Some(reply.kind)), "{frame:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_request_ends_where_its_last_argument_does_wherever_it_is_cut() {
        let many = [b"*12\r\n".as_slice(), &b"$1\r\na\r\n".repeat(12)].concat();
        let few = b"*4\r\n$3\r\nSET\r\n$0\r\n\r\n$12\r\nab\r\n$1\r\nx\r\n.\r\n$2\r\nEX\r\n";
        for frame in [many.as_slice(), few] {
            for cut in 0..frame.len() {
                let mut stream = RequestStream::default();
                let limits = RequestLimits::default();
                let len = follow(frame, cut, |piece| stream.pass(piece, &limits).unwrap());
                assert_eq!(len, frame.len(), "{} cut at {cut}", frame.escape_ascii());
            }
        }
    }

    #[test]
    fn a_body_is_passed_as_it_comes() {
        let mut reply = ReplyStream::default();
        assert_eq!(reply.pass(b"$10\r\nabc"), Ok(Passed { len: 8, whole: false }));
        assert_eq!(reply.pass(b"defg"), Ok(Passed { len: 4, whole: false }));
        assert_eq!(reply.pass(b"hij\r\n:1"), Ok(Passed { len: 5, whole: true }));
        let mut request = RequestStream::default();
        let limits = RequestLimits::default();
        assert_eq!(request.pass(b"*1\r\n$4\r\nPI", &limits), Ok(Passed { len: 10, whole: false }));
        assert_eq!(request.pass(b"NG\r\n*1", &limits), Ok(Passed { len: 4, whole: true }));
    }

    #[test]
    fn a_body_that_does_not_end_where_it_should_is_refused() {
        for cut in 0..=7 {
            let (front, back) = b"$1\r\nabc".split_at(cut);
            let mut stream = ReplyStream::default();
            let result = stream.pass(front).and_then(|passed| {
                let rest = [&front[passed.len..], back].concat();
                stream.pass(&rest)
            });
            assert_eq!(result, Err(ReplyError::MissingEnd(b'$')), "cut at {cut}");
        }
        let mut request = RequestStream::default();
        let limits = RequestLimits::default();
        assert_eq!(request.pass(b"*1\r\n$1\r\nab\r\n", &limits), Err(RequestError::InvalidLength));
    }

    #[test]
    fn a_request_keeps_its_limits() {
        let limits = RequestLimits { max_frame: 30, max_bulk: 20, ..RequestLimits::default() };
        let pass = |piece: &[u8]| RequestStream::default().pass(piece, &limits);
        assert_eq!(pass(b"*1\r\n$21\r\n"), Err(RequestError::InvalidLength));
        assert_eq!(pass(b"*2\r\n$1\r\na\r\n$13\r\n"), Err(RequestError::TooBigRequest));
        assert_eq!(pass(b"*2\r\nx"), Ok(Passed { len: 4, whole: false }));
        assert_eq!(pass(b"*2\r\nxyz\r\n"), Err(RequestError::ExpectedBulk(b'x')));
    }
}
