//! The map that the engine should have: views, and what MOVED taught since.

use crate::refresher::View;

/// What the map said of one tag, from a moment on.
type Named = (u64, Option<usize>);

pub(crate) struct Routing {
    view: Option<View>,
    patches: Vec<Option<(usize, u64)>>,
    named: Vec<Vec<Named>>,
}

impl Routing {
    pub(crate) fn new(tags: usize) -> Self {
        Self { view: None, patches: vec![None; tags], named: vec![vec![(0, None)]; tags] }
    }

    /// The engine was given a view. One that is older than the last teaches nothing.
    pub(crate) fn viewed(&mut self, view: &View, now: u64) {
        if self.view.as_ref().is_some_and(|known| known.fetched > view.fetched) {
            return;
        }
        for tag in 0..self.named.len() {
            self.patches[tag] = self.patches[tag].filter(|(_, seen)| *seen > view.fetched);
            let owner = self.patches[tag].map(|(owner, _)| owner).or(view.owners[tag]);
            self.name(tag, owner, now);
        }
        self.view = Some(view.clone());
    }

    /// The engine read a MOVED of `node`; it teaches if the map names that node for the slot.
    pub(crate) fn moved(&mut self, node: usize, tag: usize, target: usize, now: u64) {
        if self.owner(tag) == Some(node) && node != target {
            self.patches[tag] = Some((target, now));
            self.name(tag, Some(target), now);
        }
    }

    /// True if the map named `node` for `tag` at some moment from `since` on.
    pub(crate) fn named(&self, tag: usize, node: usize, since: u64) -> bool {
        let named = &self.named[tag];
        let from = named.iter().rposition(|(at, _)| *at <= since).unwrap_or(0);
        named[from..].iter().any(|(_, owner)| *owner == Some(node))
    }

    fn owner(&self, tag: usize) -> Option<usize> {
        self.named[tag].last().and_then(|(_, owner)| *owner)
    }

    fn name(&mut self, tag: usize, owner: Option<usize>, now: u64) {
        if self.owner(tag) != owner {
            self.named[tag].push((now, owner));
        }
    }
}
