//! Redis' glob patterns (`stringmatchlen`, letter case aside).

/// True if all of `text` fits `pattern`: `*` any run, `?` any byte, `[a-z]` and `[^a]` one byte, `\\` takes the next as it is.
pub(super) fn matches(mut pattern: &[u8], mut text: &[u8]) -> bool {
    // Where to go on if what follows the last star does not fit: one byte more for the star.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            star = Some((rest, text));
            continue;
        }
        let Some((byte, after)) = text.split_first() else { return pattern.is_empty() };
        if let Some(rest) = fits(pattern, *byte) {
            (pattern, text) = (rest, after);
            continue;
        }
        let Some((behind, [_, from @ ..])) = star else { return false };
        star = Some((behind, from));
        (pattern, text) = (behind, from);
    }
}

/// What is left of a pattern whose first element takes `byte`; `None` if it does not.
fn fits(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', class @ ..] => {
            let (taken, rest) = class_takes(class, byte);
            taken.then_some(rest)
        }
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => {
            literal.eq_ignore_ascii_case(&byte).then_some(rest)
        }
    }
}

/// Whether a class takes `byte`, and what is behind it. One that never closes reaches to the pattern's end, as in Redis.
fn class_takes(class: &[u8], byte: u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match class {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let byte = byte.to_ascii_lowercase();
    let mut taken = false;
    loop {
        rest = match rest {
            [] | [b']', ..] => return (taken != negated, rest.get(1..).unwrap_or_default()),
            [b'\\', literal, rest @ ..] => {
                taken |= literal.to_ascii_lowercase() == byte;
                rest
            }
            [first, b'-', last, rest @ ..] => {
                let (first, last) = (first.to_ascii_lowercase(), last.to_ascii_lowercase());
                taken |= (first.min(last)..=first.max(last)).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                taken |= literal.to_ascii_lowercase() == byte;
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "save", true),
            ("*", "", true),
            ("save", "SAVE", true),
            ("max*", "maxmemory", true),
            ("*mem*ry", "maxmemory", true),
            ("m?xmemory", "maxmemory", true),
            ("", "save", false),
            ("", "", true),
            ("sav", "save", false),
            ("save?", "save", false),
            ("*x", "save", false),
            ("save**", "save", true),
            ("[sx]ave", "save", true),
            ("[^sx]ave", "save", false),
            ("s[a-c]ve", "save", true),
            ("s[c-a]ve", "save", true),
            ("s[b-c]ve", "save", false),
            ("*[e]", "save", true),
            ("sav[e", "save", true),
            ("\\save", "save", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("[\\]]", "]", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
