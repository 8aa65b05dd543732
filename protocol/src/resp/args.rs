//! The arguments of one command, as places in the bytes that carry it.
//!
//! Must not know: what the arguments mean.

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
    pub fn at(&self, index: usize) -> Option<&'a [u8]> {
        let span = self.spans.get(index)?;
        self.frame.get(span.start as usize..span.end as usize)
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
