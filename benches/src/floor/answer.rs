//! What the floor answers: as many replies as there are whole requests.
//!
//! Must not know: sockets.

/// The reply to every GET: 64 bytes, the value size of the cells.
const VALUE: &[u8] = b"$64\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n";

/// Above any request that a cell sends; longer ones count as no RESP.
const MAX_LENGTH: usize = 1 << 30;

/// What the floor did since it started.
#[derive(Debug, Default)]
pub struct Counts {
    /// Commands answered, `INFO` aside.
    pub commands: u64,
    /// Calls of `recv`.
    pub recvs: u64,
    /// Calls of `send`.
    pub sends: u64,
    /// Calls of `epoll_wait`.
    pub waits: u64,
}

/// Appends one reply for each whole request in `input` and tells how many bytes those requests were;
/// `None` if the input is not an array of bulks.
pub fn answer(input: &[u8], counts: &mut Counts, output: &mut Vec<u8>) -> Option<usize> {
    let mut used = 0;
    loop {
        match request(&input[used..]) {
            Scan::Whole { name, len } => {
                reply(name, counts, output);
                used += len;
            }
            Scan::Partial => return Some(used),
            Scan::Broken => return None,
        }
    }
}

fn reply(name: &[u8], counts: &mut Counts, output: &mut Vec<u8>) {
    if name.eq_ignore_ascii_case(b"INFO") {
        return info(counts, output);
    }
    counts.commands += 1;
    output.extend_from_slice(match name {
        _ if name.eq_ignore_ascii_case(b"GET") => VALUE,
        _ if name.eq_ignore_ascii_case(b"SET") => b"+OK\r\n",
        _ if name.eq_ignore_ascii_case(b"PING") => b"+PONG\r\n",
        // redis-benchmark asks for "save" and "appendonly" when it starts.
        _ if name.eq_ignore_ascii_case(b"CONFIG") => b"*2\r\n$0\r\n\r\n$0\r\n\r\n",
        _ => b"-ERR the floor answers GET, SET, PING, CONFIG and INFO only\r\n",
    });
}

fn info(counts: &Counts, output: &mut Vec<u8>) {
    let Counts { commands, recvs, sends, waits } = counts;
    let text = format!("commands:{commands}\r\nrecv:{recvs}\r\nsend:{sends}\r\nepoll_wait:{waits}\r\n");
    output.extend_from_slice(format!("${}\r\n{text}\r\n", text.len()).as_bytes());
}

enum Scan<'a> {
    Whole { name: &'a [u8], len: usize },
    Partial,
    Broken,
}

enum Header {
    Whole { number: usize, len: usize },
    Partial,
    Broken,
}

fn request(input: &[u8]) -> Scan<'_> {
    let (arguments, mut at) = match header(input, b'*') {
        Header::Whole { number, len } => (number, len),
        Header::Partial => return Scan::Partial,
        Header::Broken => return Scan::Broken,
    };
    let mut name = &input[..0];
    for index in 0..arguments {
        let (body, end) = match header(&input[at..], b'$') {
            Header::Whole { number, len } => (at + len, at + len + number),
            Header::Partial => return Scan::Partial,
            Header::Broken => return Scan::Broken,
        };
        if input.len() < end + 2 {
            return Scan::Partial;
        }
        if index == 0 {
            name = &input[body..end];
        }
        at = end + 2;
    }
    Scan::Whole { name, len: at }
}

/// A type byte, a number and CRLF.
fn header(input: &[u8], kind: u8) -> Header {
    let Some((&first, rest)) = input.split_first() else { return Header::Partial };
    if first != kind {
        return Header::Broken;
    }
    let mut number = 0;
    for (index, &byte) in rest.iter().enumerate() {
        match byte {
            b'0'..=b'9' if number < MAX_LENGTH => number = number * 10 + usize::from(byte - b'0'),
            b'\r' if index > 0 && rest.len() == index + 1 => return Header::Partial,
            b'\r' if index > 0 => return Header::Whole { number, len: index + 3 },
            _ => return Header::Broken,
        }
    }
    Header::Partial
}

#[cfg(test)]
mod tests {
    use super::{Counts, VALUE, answer};

    const PIPELINE: &[u8] =
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$6\r\nv\r\n\r\nv\r\n*2\r\n$3\r\nget\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n";

    fn answered(input: &[u8]) -> (Option<usize>, Vec<u8>) {
        let mut output = Vec::new();
        (answer(input, &mut Counts::default(), &mut output), output)
    }

    #[test]
    fn a_pipeline_gets_one_reply_a_request() {
        let (used, output) = answered(PIPELINE);
        assert_eq!(used, Some(PIPELINE.len()));
        assert_eq!(output, [b"+OK\r\n", VALUE, b"+PONG\r\n"].concat());
    }

    #[test]
    fn the_value_is_64_bytes_long() {
        assert_eq!(VALUE.len(), b"$64\r\n".len() + 64 + b"\r\n".len());
    }

    #[test]
    fn requests_cut_anywhere_are_answered_once_each() {
        for cut in 0..PIPELINE.len() {
            let (used, mut output) = answered(&PIPELINE[..cut]);
            output.extend(answered(&PIPELINE[used.unwrap()..]).1);
            assert_eq!(output, answered(PIPELINE).1, "cut at {cut}");
        }
    }

    #[test]
    fn garbage_is_refused() {
        for garbage in ["GET k\r\n", "*x\r\n", "*\r\n", "*1\r\n+GET\r\n", "*99999999999999999999\r\n"] {
            assert_eq!(answered(garbage.as_bytes()).0, None, "{garbage:?}");
        }
    }
}
