//! The arguments of one command, as places in the bytes that carry it.
//!
//! Must not know: what the arguments mean.

/// The length of the CR LF behind an argument.
const LINE_END: usize = 2;

/// A place in a frame: bytes `start..end`, counted from the frame's first byte.
///
/// `u32` suffices: a request frame is limited to 1 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset behind the last byte.
    pub end: u32,
}

/// The arguments of one command, the name included, borrowed from its frame.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    frame: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// Joins a frame with the spans that a scanner found in it.
    #[must_use]
    pub fn new(frame: &'a [u8], spans: &'a [Span]) -> Self {
        Self { frame, spans }
    }

    /// The number of arguments, the command's name included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// True of a command without even a name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at `index`; the name is argument 0.
    #[must_use]
    #[inline]
    pub fn at(&self, index: usize) -> Option<&'a [u8]> {
        let span = self.spans.get(index)?;
        self.frame.get(span.start as usize..span.end as usize)
    }

    /// `count` arguments from `index` on as the frame has them, with their headers and line ends.
    ///
    /// `None` if they do not exist. Not from 0 on: where the name's header begins, its span does not say.
    #[must_use]
    pub fn raw(&self, index: usize, count: usize) -> Option<&'a [u8]> {
        let last = self.spans.get(index..index.checked_add(count)?)?.last()?;
        let before = self.spans.get(index.checked_sub(1)?)?;
        self.frame.get(before.end as usize + LINE_END..last.end as usize + LINE_END)
    }

    /// The command's name as the client wrote it; empty if there is none.
    #[must_use]
    pub fn name(&self) -> &'a [u8] {
        self.at(0).unwrap_or_default()
    }

    /// True if the argument at `index` exists and equals `word`, letter case aside.
    #[must_use]
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.at(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// All arguments in order, the name first.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let frame = self.frame;
        self.spans
            .iter()
            .map(move |span| frame.get(span.start as usize..span.end as usize).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_arguments_keep_their_headers_and_line_ends() {
        let frame = b"*4\r\n$4\r\nMSET\r\n$1\r\nk\r\n$0\r\n\r\n$1\r\nx\r\n";
        let spans = [(8, 12), (18, 19), (25, 25), (31, 32)].map(|(start, end)| Span { start, end });
        let args = Args::new(frame, &spans);
        assert_eq!(args.raw(1, 2), Some(&b"$1\r\nk\r\n$0\r\n\r\n"[..]));
        assert_eq!(args.raw(3, 1), Some(&b"$1\r\nx\r\n"[..]));
        assert_eq!([args.raw(0, 1), args.raw(3, 2), args.raw(1, 0)], [None; 3]);
    }
}
