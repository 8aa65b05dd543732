//! Writes RESP: appends replies and commands to a byte buffer, in the protocol version that the peer speaks.
//!
//! Must not know: what any reply answers.

/// The protocol version of a connection: RESP2 unless `HELLO 3` changed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Resp {
    /// RESP2, every connection's first version.
    #[default]
    V2,
    /// RESP3, Redis 6.0 and newer.
    V3,
}

/// Appends the header of an array of `n` elements.
pub fn array_header(out: &mut Vec<u8>, n: usize) {
    header(out, b'*', n);
}

/// Appends the header of a map of `n` pairs; RESP2: of an array of 2n elements.
pub fn map_header(out: &mut Vec<u8>, n: usize, resp: Resp) {
    match resp {
        Resp::V2 => header(out, b'*', n * 2),
        Resp::V3 => header(out, b'%', n),
    }
}

/// Appends the header of a set of `n` elements; RESP2: of an array.
pub fn set_header(out: &mut Vec<u8>, n: usize, resp: Resp) {
    header(out, if resp == Resp::V2 { b'*' } else { b'~' }, n);
}

/// Appends the header of a push message of `n` elements; RESP2: of an array.
pub fn push_header(out: &mut Vec<u8>, n: usize, resp: Resp) {
    header(out, if resp == Resp::V2 { b'*' } else { b'>' }, n);
}

/// Appends a bulk string of any bytes.
pub fn bulk(out: &mut Vec<u8>, body: &[u8]) {
    header(out, b'$', body.len());
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
}

/// Appends a simple string. Line ends inside become spaces.
pub fn simple(out: &mut Vec<u8>, text: &str) {
    line(out, b'+', text);
}

/// Appends an error; `text` begins with its code and has no `-`. Line ends inside become spaces.
pub fn error(out: &mut Vec<u8>, text: &str) {
    line(out, b'-', text);
}

/// Appends an integer.
pub fn integer(out: &mut Vec<u8>, value: i64) {
    number_line(out, b':', value < 0, value.unsigned_abs());
}

/// Appends null; RESP2: the null bulk.
pub fn null(out: &mut Vec<u8>, resp: Resp) {
    out.extend_from_slice(if resp == Resp::V2 { b"$-1\r\n" } else { b"_\r\n" });
}

/// Appends null where a list was asked; RESP2: the null array.
pub fn null_array(out: &mut Vec<u8>, resp: Resp) {
    out.extend_from_slice(if resp == Resp::V2 { b"*-1\r\n" } else { b"_\r\n" });
}

/// Appends a boolean; RESP2: the integer 1 or 0.
pub fn boolean(out: &mut Vec<u8>, value: bool, resp: Resp) {
    out.extend_from_slice(match (resp, value) {
        (Resp::V2, true) => b":1\r\n",
        (Resp::V2, false) => b":0\r\n",
        (Resp::V3, true) => b"#t\r\n",
        (Resp::V3, false) => b"#f\r\n",
    });
}

/// Appends a double in its shortest exact form; RESP2: as a bulk.
pub fn double(out: &mut Vec<u8>, value: f64, resp: Resp) {
    let text = double_text(value);
    match resp {
        Resp::V2 => bulk(out, text.as_bytes()),
        Resp::V3 => line(out, b',', &text),
    }
}

/// Appends a verbatim string whose format is three letters (`txt`, `mkd`); RESP2: as a bulk.
pub fn verbatim(out: &mut Vec<u8>, format: &str, body: &[u8], resp: Resp) {
    if resp == Resp::V2 {
        return bulk(out, body);
    }
    debug_assert_eq!(format.len(), 3);
    header(out, b'=', body.len() + 4);
    out.extend_from_slice(format.as_bytes());
    out.push(b':');
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
}

/// Appends a command, its name first, as the array of bulks that a node takes.
pub fn command<'a, I>(out: &mut Vec<u8>, args: I)
where
    I: IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
{
    let args = args.into_iter();
    array_header(out, args.len());
    for arg in args {
        bulk(out, arg);
    }
}

fn header(out: &mut Vec<u8>, kind: u8, n: usize) {
    if n < 10 {
        out.extend_from_slice(&[kind, b'0' + n as u8, b'\r', b'\n']);
    } else {
        number_line(out, kind, false, n as u64);
    }
}

/// Built backwards in one piece: the kind, a sign, up to 20 digits, CR LF.
fn number_line(out: &mut Vec<u8>, kind: u8, negative: bool, mut value: u64) {
    let mut line = *b"......................\r\n";
    let mut first = line.len() - 2;
    let mut put = |byte| {
        first -= 1;
        line[first] = byte;
    };
    loop {
        put(b'0' + (value % 10) as u8);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    if negative {
        put(b'-');
    }
    put(kind);
    out.extend_from_slice(&line[first..]);
}

fn line(out: &mut Vec<u8>, kind: u8, text: &str) {
    out.push(kind);
    out.extend(text.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // Rust writes very large and very small numbers with all their zeros.
    if value != 0.0 && !(1e-5..1e17).contains(&value.abs()) {
        format!("{value:e}")
    } else {
        format!("{value}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn writes(write: impl Fn(&mut Vec<u8>), expected: &str) {
        let mut out = b"before".to_vec();
        write(&mut out);
        assert_eq!(String::from_utf8_lossy(&out), format!("before{expected}"));
    }

    #[test]
    fn integers_of_every_length() {
        for value in [0, 7, 10, -1, 99, 100, -1024, i64::MAX, i64::MIN] {
            writes(|out| integer(out, value), &format!(":{value}\r\n"));
        }
    }

    #[test]
    fn lines_never_hold_a_line_end() {
        writes(|out| error(out, "ERR a\r\nb"), "-ERR a  b\r\n");
        writes(|out| simple(out, "OK\n"), "+OK \r\n");
    }

    #[test]
    fn a_command_is_an_array_of_bulks() {
        writes(
            |out| command(out, [&b"SET"[..], b"", b"a\r\n"]),
            "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$3\r\na\r\n\r\n",
        );
    }

    #[test]
    fn each_version_has_its_own_shapes() {
        for (resp, expected) in [
            (Resp::V2, "*4\r\n*3\r\n*2\r\n$-1\r\n*-1\r\n:1\r\n:0\r\n$3\r\n1.5\r\n$2\r\nhi\r\n"),
            (Resp::V3, "%2\r\n~3\r\n>2\r\n_\r\n_\r\n#t\r\n#f\r\n,1.5\r\n=6\r\ntxt:hi\r\n"),
        ] {
            let all = |out: &mut Vec<u8>| {
                map_header(out, 2, resp);
                set_header(out, 3, resp);
                push_header(out, 2, resp);
                null(out, resp);
                null_array(out, resp);
                boolean(out, true, resp);
                boolean(out, false, resp);
                double(out, 1.5, resp);
                verbatim(out, "txt", b"hi", resp);
            };
            writes(all, expected);
        }
    }

    #[test]
    fn doubles_are_short_and_exact() {
        for (value, text) in [
            (0.0, "0"),
            (-2.0, "-2"),
            (0.1, "0.1"),
            (1e300, "1e300"),
            (1.5e-9, "1.5e-9"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            writes(|out| double(out, value, Resp::V3), &format!(",{text}\r\n"));
        }
    }
}
