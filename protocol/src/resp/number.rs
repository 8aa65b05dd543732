//! Decimal numbers as RESP writes them: lengths, counts, integers.
//!
//! Must not know: what a number counts, and which error a bad one is.

/// Reads the line `kind digits CR LF` at `at`: the number, and the offset behind the LF.
///
/// The hot path of both scanners. `None` is no verdict: the line is not whole, is of another kind, or longer than nine
/// digits, or is written in a way that only [`parse`] may judge.
#[inline(always)]
pub(super) fn header(input: &[u8], at: usize, kind: u8) -> Option<(usize, usize)> {
    let rest = input.get(at..)?;
    // Nearly all lengths have one or two digits. Five bytes hold either, and no bulk is shorter.
    let Some(head) = rest.first_chunk::<5>() else { return odd_header(rest, at, kind) };
    let [first, a, behind_one @ .., _] = head;
    let [_, _, b, behind_two @ ..] = head;
    if *first != kind {
        return None;
    }
    if behind_one == b"\r\n" && a.is_ascii_digit() {
        return Some((digit(*a), at + 4));
    }
    if behind_two == b"\r\n" && matches!(a, b'1'..=b'9') && b.is_ascii_digit() {
        return Some((digit(*a) * 10 + digit(*b), at + 5));
    }
    odd_header(rest, at, kind)
}

#[inline(never)]
fn odd_header(rest: &[u8], at: usize, kind: u8) -> Option<(usize, usize)> {
    if rest.first() != Some(&kind) {
        return None;
    }
    longer(rest).map(|(value, length)| (value, at + length))
}

/// The number of a line, and the line's length.
fn longer(line: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (length, byte) in line.iter().enumerate().skip(1).take(10) {
        match byte {
            b'0'..=b'9' if length < 10 && (value > 0 || length == 1) => value = value * 10 + digit(*byte),
            b'\r' if length > 1 && line.get(length + 1) == Some(&b'\n') => return Some((value, length + 2)),
            _ => return None,
        }
    }
    None
}

fn digit(byte: u8) -> usize {
    usize::from(byte - b'0')
}

/// Reads a whole text as an integer, exactly as strictly as Redis' `string2ll` (`util.c`).
///
/// `None`: empty, a plus sign, a leading zero, `-0`, a character that is no digit, or more than 64 bits.
pub(super) fn parse(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0', ..] => return (text == b"0").then_some(0),
        _ => {}
    }
    // Counted downwards, since the smallest i64 has no positive counterpart.
    let mut value = 0_i64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_string2ll_parses() {
        for (text, value) in [
            ("0", 0),
            ("7", 7),
            ("-1", -1),
            ("1024", 1024),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(value), "{text}");
        }
    }

    #[test]
    fn refuses_what_string2ll_refuses() {
        for text in [
            "",
            "-",
            "+1",
            "-0",
            "00",
            "01",
            " 1",
            "1 ",
            "1a",
            "0x1",
            "--1",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
            "184467440737095516160",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_header_is_a_whole_canonical_line_only() {
        assert_eq!(header(b"*12\r\nrest", 0, b'*'), Some((12, 5)));
        assert_eq!(header(b"xx$7\r\nrest", 2, b'$'), Some((7, 6)));
        assert_eq!(header(b"$100\r\n", 0, b'$'), Some((100, 6)));
        assert_eq!(header(b"$999999999\r\n", 0, b'$'), Some((999_999_999, 12)));
        for text in ["", "1", "1\r", "1\n", "1\rx", "01\r\n", "-1\r\n", "\r\n", "1000000000\r\n", "1a\r\n"] {
            assert_eq!(header(format!("${text}").as_bytes(), 0, b'$'), None, "{text:?}");
        }
        assert_eq!(header(b"$1\r\na", 0, b'*'), None);
        assert_eq!(header(b"$1\r\na", 9, b'$'), None);
    }
}
