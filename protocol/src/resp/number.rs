//! Decimal numbers as RESP writes them: lengths, counts, integers.
//!
//! Must not know: what a number counts, and which error a bad one is.

/// Reads `digits CR LF` at `from`: the number, and the offset behind the LF.
///
/// The hot path of both scanners. `None` is no verdict: the line is not whole, or is longer than nine digits, or is
/// written in a way that only [`parse`] may judge.
#[inline(always)]
pub(super) fn short(input: &[u8], from: usize) -> Option<(usize, usize)> {
    let rest = input.get(from..)?;
    let [first, second, third, ..] = *rest else { return None };
    // Nearly all lengths have one or two digits; these take no loop.
    if second == b'\r' {
        return (first.is_ascii_digit() && third == b'\n').then(|| (digit(first), from + 3));
    }
    if third == b'\r' {
        let whole = matches!(first, b'1'..=b'9') && second.is_ascii_digit() && rest.get(3) == Some(&b'\n');
        return whole.then(|| (digit(first) * 10 + digit(second), from + 4));
    }
    longer(rest).map(|(value, length)| (value, from + length))
}

#[inline(never)]
fn longer(rest: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (length, byte) in rest.iter().enumerate().take(10) {
        match byte {
            b'0'..=b'9' if length < 9 && (value > 0 || length == 0) => value = value * 10 + digit(*byte),
            b'\r' if length > 0 && rest.get(length + 1) == Some(&b'\n') => return Some((value, length + 2)),
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
    fn short_reads_a_whole_canonical_line_only() {
        assert_eq!(short(b"*12\r\nrest", 1), Some((12, 5)));
        assert_eq!(short(b"0\r\n", 0), Some((0, 3)));
        assert_eq!(short(b"999999999\r\n", 0), Some((999_999_999, 11)));
        for text in ["", "1", "1\r", "1\n", "1\rx", "01\r\n", "-1\r\n", "\r\n", "1000000000\r\n", "1a\r\n"] {
            assert_eq!(short(text.as_bytes(), 0), None, "{text:?}");
        }
        assert_eq!(short(b"1\r\n", 9), None);
    }
}
