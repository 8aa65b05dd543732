//! CPU masks as Linux writes them: hexadecimal words of 32 bits, the highest first, parted by commas.

use std::fmt::Write as _;

use tsubaki_config::CpuList;

/// The mask of some CPUs, such as `1,00000000` for CPU 32.
pub(crate) fn mask(cpus: impl IntoIterator<Item = usize>) -> String {
    let mut words = vec![0_u32];
    for cpu in cpus {
        let word = cpu / 32;
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        if let Some(word) = words.get_mut(word) {
            *word |= 1 << (cpu % 32);
        }
    }
    let mut text = String::new();
    for (index, word) in words.iter().rev().enumerate() {
        // Writing to a String cannot fail.
        let _ = if index == 0 { write!(text, "{word:x}") } else { write!(text, ",{word:08x}") };
    }
    text
}

/// The CPUs of a mask; `None` if it is none.
pub(crate) fn parse_mask(text: &str) -> Option<CpuList> {
    let words: Vec<u32> =
        text.trim().split(',').map(|word| u32::from_str_radix(word, 16).ok()).collect::<Option<_>>()?;
    let bits = words.iter().rev().enumerate().flat_map(|(index, word)| {
        (0..32).filter(move |bit| word & (1 << bit) != 0).map(move |bit| index * 32 + bit)
    });
    Some(bits.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_as_they_are_written() {
        for (cpus, text) in
            [("", "0"), ("0", "1"), ("0-3", "f"), ("32", "1,00000000"), ("1,33,64-65", "3,00000002,00000002")]
        {
            let list: CpuList = cpus.parse().unwrap();
            assert_eq!(mask(list.iter()), text);
            assert_eq!(parse_mask(text), Some(list));
        }
        assert_eq!(parse_mask("00000000,0000000f\n").unwrap().to_string(), "0-3");
        assert_eq!(parse_mask("x"), None);
        assert_eq!(parse_mask(""), None);
    }
}
