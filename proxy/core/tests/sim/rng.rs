//! Chance that repeats: one seed, one sequence (splitmix64).

pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, or 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// `low..high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low).max(1)
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }

    pub(crate) fn per_mille(&mut self, chance: u64) -> bool {
        self.next() % 1000 < chance
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// Microseconds: mostly around `typical`, now and then twenty times as long.
    pub(crate) fn delay(&mut self, typical: u64) -> u64 {
        let longest = if self.per_mille(20) { typical * 20 } else { typical * 2 };
        self.between(1, longest + 1)
    }

    /// Cuts bytes into pieces at any place: mostly one piece if they are few, now and then very small ones.
    pub(crate) fn cut(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        const FEW: usize = 4_000;
        let longest = match self.below(10) {
            0 if bytes.len() < 200 => 2,
            1..4 => bytes.len() / 2 + 2,
            _ if bytes.len() > FEW => FEW,
            _ => return vec![bytes.to_vec()],
        };
        let mut pieces = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(1 + self.below(longest)));
            pieces.push(piece.to_vec());
            rest = behind;
        }
        pieces
    }
}
