//! [`CpuList`]: CPUs, or NUMA nodes, by number.

use std::fmt;
use std::str::FromStr;

/// Numbers of CPUs or of NUMA nodes, in the order given, none twice.
///
/// Written as Linux does in its `…_list` files: numbers and ranges, both ends included, parted by commas
/// (`0-3,8`). An empty text is an empty list. Numbers go up to 8191, the most CPUs that Linux is built for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CpuList(Vec<usize>);

/// Why a text is no [`CpuList`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a list of numbers and ranges, each number once")]
pub struct CpuListError;

const GREATEST: usize = 8191;

impl CpuList {
    /// How it is written, for error messages.
    pub(crate) const FORM: &'static str = "numbers and ranges such as 0-3,8, each number once and up to 8191";

    /// The numbers, in their order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if `number` is among them.
    pub fn contains(&self, number: usize) -> bool {
        self.0.contains(&number)
    }
}

impl FromIterator<usize> for CpuList {
    /// Leaves out what was there before.
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut list = Vec::new();
        for number in numbers {
            if !list.contains(&number) {
                list.push(number);
            }
        }
        Self(list)
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let text = text.trim();
        let mut list = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse().ok().filter(|number| *number <= GREATEST);
            let (first, last) = (number(first).ok_or(CpuListError)?, number(last).ok_or(CpuListError)?);
            if first > last || (first..=last).any(|number| list.contains(&number)) {
                return Err(CpuListError);
            }
            list.extend(first..=last);
        }
        Ok(Self(list))
    }
}

/// Ranges where numbers follow one another.
impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.0.chunk_by(|number, next| number + 1 == *next);
        for (index, range) in ranges.enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match range {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [only] => write!(f, "{comma}{only}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_written_as_they_are_read() {
        for text in ["", "0", "0-3", "0-3,8", "8,0-3", "5,4,3", "8191"] {
            let list: CpuList = text.parse().unwrap();
            assert_eq!(list.to_string(), text);
        }
        assert_eq!("0-1, 3\n".parse::<CpuList>().unwrap().iter().collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!([3, 4, 3, 5].into_iter().collect::<CpuList>().to_string(), "3-5");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in [",", "0,", "a", "3-1", "0-", "-1", "1,1", "0-3,2", "0-99999999999", "8192", "1 2"] {
            assert_eq!(text.parse::<CpuList>(), Err(CpuListError), "{text}");
        }
    }
}
