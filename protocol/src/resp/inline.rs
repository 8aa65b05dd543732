//! Inline commands: a line of words, as a person types it, made into the array that a client library would send.
//!
//! Must not know: what the words mean.
//!
//! The rules are those of `sdssplitargs` (Redis 7.0, `sds.c`), unexpected ones included: a closing quote must be
//! followed by a space or the line's end, an escape that is not whole stands for its own characters, and a quote may
//! begin in the middle of a word.

use super::request::RequestError;
use super::write;

/// Splits `line`, with or without its LF or CR LF, and appends the command as an array of bulks to `out`.
///
/// False, with nothing appended, if the line holds no word.
///
/// # Errors
/// Quotes that do not close, or a zero byte. Nothing is appended then.
pub fn to_array(line: &[u8], out: &mut Vec<u8>) -> Result<bool, RequestError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.contains(&0) {
        return Err(RequestError::ZeroByte);
    }
    let mut words = Vec::new();
    let mut rest = skip_spaces(line);
    while !rest.is_empty() {
        let mut word = Vec::new();
        rest = skip_spaces(take_word(rest, &mut word)?);
        words.push(word);
    }
    if !words.is_empty() {
        write::command(out, words.iter().map(Vec::as_slice));
    }
    Ok(!words.is_empty())
}

/// C's `isspace` in the C locale, by which Redis skips blanks.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn skip_spaces(line: &[u8]) -> &[u8] {
    let spaces = line.iter().take_while(|byte| is_space(**byte)).count();
    line.get(spaces..).unwrap_or_default()
}

/// Appends the first word of `line` to `word`; gives back what is behind it.
fn take_word<'a>(mut line: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], RequestError> {
    loop {
        match line {
            // A vertical tab or form feed separates words only between them: Redis has it so.
            [] | [b' ' | b'\t' | b'\r' | b'\n', ..] => return Ok(line),
            [b'"', rest @ ..] => return take_double_quoted(rest, word),
            [b'\'', rest @ ..] => return take_single_quoted(rest, word),
            [byte, rest @ ..] => {
                word.push(*byte);
                line = rest;
            }
        }
    }
}

fn take_double_quoted<'a>(mut line: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], RequestError> {
    loop {
        let (byte, rest) = match line {
            [b'\\', b'x', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex(*high) << 4 | hex(*low), rest)
            }
            [b'\\', escaped, rest @ ..] => (unescape(*escaped), rest),
            [b'"', rest @ ..] => return closed(rest),
            [byte, rest @ ..] => (*byte, rest),
            [] => return Err(RequestError::UnbalancedQuotes),
        };
        word.push(byte);
        line = rest;
    }
}

fn take_single_quoted<'a>(mut line: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], RequestError> {
    loop {
        let (byte, rest) = match line {
            [b'\\', b'\'', rest @ ..] => (b'\'', rest),
            [b'\'', rest @ ..] => return closed(rest),
            [byte, rest @ ..] => (*byte, rest),
            [] => return Err(RequestError::UnbalancedQuotes),
        };
        word.push(byte);
        line = rest;
    }
}

/// Behind a closing quote only a space or the end may come.
fn closed(rest: &[u8]) -> Result<&[u8], RequestError> {
    match rest {
        [byte, ..] if !is_space(*byte) => Err(RequestError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<u8>, RequestError> {
        let mut out = Vec::new();
        let any = to_array(line, &mut out)?;
        assert_eq!(any, !out.is_empty());
        Ok(out)
    }

    #[track_caller]
    fn splits(line: &str, expected: &[&[u8]]) {
        let mut array = Vec::new();
        write::command(&mut array, expected.iter().copied());
        assert_eq!(words(line.as_bytes()), Ok(array), "{line:?}");
    }

    #[test]
    fn quotes_around_a_word_are_taken_off() {
        splits("AUTH \"readonly\"\r\n", &[b"AUTH", b"readonly"]);
        splits("AUTH 'read only'\r\n", &[b"AUTH", b"read only"]);
        splits("SET k \"\"\n", &[b"SET", b"k", b""]);
        splits("foo\"bar baz\"", &[b"foobar baz"]);
    }

    #[test]
    fn escapes_are_those_of_sds() {
        splits(r#"a "\n\r\t\b\a\x41\xfF\"\\\q""#, &[b"a", b"\n\r\t\x08\x07A\xff\"\\q"]);
        splits(r"a 'it\'s \n \x41'", &[b"a", br"it's \n \x41"]);
        splits(r"a\x41\n b", &[br"a\x41\n", b"b"]);
    }

    #[test]
    fn an_escape_that_is_not_whole_stands_for_its_own_characters() {
        splits(r#""\x""#, &[b"x"]);
        splits(r#""\x4""#, &[b"x4"]);
        splits(r#""\xzz""#, &[b"xzz"]);
        // The escape takes the quote that would close.
        assert_eq!(words(br#""xx\""#), Err(RequestError::UnbalancedQuotes));
        assert_eq!(words(br#""xx\"#), Err(RequestError::UnbalancedQuotes));
        splits(r#""xx\x""#, &[b"xxx"]);
    }

    #[test]
    fn a_quote_must_close_before_a_space_or_the_end() {
        for line in ["\"a", "'a", "a \"b\"c", "'b'c", "\"a\"\"b\"", "set k \"v\r\n"] {
            assert_eq!(words(line.as_bytes()), Err(RequestError::UnbalancedQuotes), "{line:?}");
        }
    }

    #[test]
    fn blanks_only_are_no_command() {
        for line in ["", "\n", "\r\n", " \t\x0b\x0c \r\n"] {
            assert_eq!(words(line.as_bytes()), Ok(Vec::new()), "{line:?}");
        }
    }

    #[test]
    fn a_vertical_tab_separates_only_between_words() {
        splits("\x0ba\x0bb \x0bc", &[b"a\x0bb", b"c"]);
    }

    #[test]
    fn a_zero_byte_is_refused_and_appends_nothing() {
        let mut out = b"before".to_vec();
        assert_eq!(to_array(b"SET k v\0w\r\n", &mut out), Err(RequestError::ZeroByte));
        assert_eq!(to_array(b"SET k 'v\r\n", &mut out), Err(RequestError::UnbalancedQuotes));
        assert_eq!(out, b"before");
    }
}
