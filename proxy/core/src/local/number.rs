//! Integers as Redis reads them in arguments.

/// An integer of 64 bits as strict as Redis' `string2ll`: no plus sign, no leading zero, nothing around it.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = matches!(digits, [b'1'..=b'9', ..]) || text == b"0";
    let text = plain.then(|| std::str::from_utf8(text).ok())??;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_plain_form_is_an_integer() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-0", None),
            ("00", None),
            ("+1", None),
            ("01", None),
            ("1 ", None),
            ("", None),
            ("-", None),
            ("1x", None),
        ] {
            assert_eq!(integer(text.as_bytes()), expected, "{text:?}");
        }
    }
}
