//! Changes of the system: made, noted in a state file first, and taken back.
//!
//! Each proxy has a file of its own and keeps it locked while it lives: a file that nobody has locked is of one that
//! crashed. What somebody else has changed since is left as it is.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tsubaki_config::CpuList;

use super::{Change, ChangeKind};
use crate::machine::{Root, mask, parse_mask};

/// A change as the state file has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    path: String,
    kind: ChangeKind,
    before: String,
    after: String,
}

/// The changes that this process made; taken back when dropped.
#[derive(Debug)]
pub(crate) struct Applied {
    root: Root,
    record: Option<Record>,
    /// What was planned, with what forbade it.
    pub(crate) changes: Vec<Change>,
}

#[derive(Debug)]
struct Record {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
    notes: Vec<Note>,
}

/// What became of a change that was to be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Restored {
    /// The file, below the root.
    pub(crate) path: String,
    /// What it holds again.
    pub(crate) before: String,
    /// Why not.
    pub(crate) failed: Option<String>,
}

const PREFIX: &str = "placement-";

/// Makes the changes that are not forbidden. What cannot be made is warned of once for each kind.
pub(crate) fn apply(root: &Root, mut changes: Vec<Change>, state_dir: &Path) -> Applied {
    let others = notes_of_the_living(state_dir);
    for change in changes.iter_mut().filter(|change| change.forbidden.is_none()) {
        if others.contains(&change.path) {
            change.forbidden = Some("another tsubaki has changed it");
        }
    }
    let notes: Vec<Note> = changes.iter_mut().filter_map(|change| note(root, change)).collect();
    let mut applied = Applied { root: root.clone(), record: None, changes };
    if notes.is_empty() {
        return applied;
    }
    match Record::create(state_dir, notes) {
        Ok(record) => {
            applied.changes.iter_mut().for_each(|change| record.make(root, change));
            applied.record = Some(record);
        }
        Err(error) => {
            let state_dir = state_dir.display();
            tracing::warn!(%error, %state_dir, "interrupts and queues stay as they are: cannot note what would be changed \
                (placement.state_dir)");
            for change in applied.changes.iter_mut().filter(|change| change.forbidden.is_none()) {
                change.forbidden = Some("it could not be noted");
            }
        }
    }
    warn_of_refusals(&applied.changes);
    applied
}

/// Takes back what proxies left that are no more.
pub(crate) fn restore(root: &Root, state_dir: &Path) -> Vec<Restored> {
    let mut restored = Vec::new();
    for path in records(state_dir) {
        let Ok(file) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        // Somebody else restores it, or its proxy lives.
        if file.try_lock().is_err() {
            continue;
        }
        restored.extend(read_notes(&path).iter().filter_map(|note| note.take_back(root)));
        // What could not be taken back now cannot be later either: the file would only grow stale.
        let _ = fs::remove_file(&path);
    }
    restored
}

impl Drop for Applied {
    fn drop(&mut self) {
        let Some(record) = self.record.take() else { return };
        for Restored { path, failed, .. } in record.notes.iter().filter_map(|note| note.take_back(&self.root))
        {
            if let Some(error) = failed {
                tracing::warn!(path, error, "could not be set back to what it was");
            }
        }
        let _ = fs::remove_file(&record.path);
    }
}

impl Record {
    /// Locked before it has its name, so that nobody takes it for one of a proxy that is gone.
    fn create(state_dir: &Path, notes: Vec<Note>) -> io::Result<Self> {
        fs::create_dir_all(state_dir)?;
        let path = state_dir.join(format!("{PREFIX}{}.json", std::process::id()));
        let mut draft = tempfile::NamedTempFile::new_in(state_dir)?;
        draft.as_file().try_lock().map_err(|error| match error {
            TryLockError::Error(error) => error,
            TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
        })?;
        draft.write_all(serde_json::to_string_pretty(&notes)?.as_bytes())?;
        let file = draft.persist(&path).map_err(|error| error.error)?;
        Ok(Self { path, _file: file, notes })
    }

    fn make(&self, root: &Root, change: &mut Change) {
        let Some(note) = self.notes.iter().find(|note| note.path == change.path) else { return };
        if fs::write(root.path(&note.path), &note.after).is_err() {
            change.forbidden = Some("the system refused it");
        }
    }
}

impl Note {
    /// `None` if it was never made, or somebody has changed it since.
    ///
    /// A note is believed only as far as it is one that this module could have written: root reads it, and whoever may
    /// write into the folder shall not have other files written.
    fn take_back(&self, root: &Root) -> Option<Restored> {
        if !self.kind.is_of(&self.path) || self.kind.parse(&self.before).is_none() {
            return None;
        }
        let now = root.text(&self.path)?;
        if self.kind.parse(&now)? != self.kind.parse(&self.after)? {
            return None;
        }
        let failed = fs::write(root.path(&self.path), &self.before).err().map(|error| error.to_string());
        Some(Restored { path: self.path.clone(), before: self.before.clone(), failed })
    }
}

impl ChangeKind {
    fn text(self, cpu: usize) -> String {
        match self {
            Self::IrqAffinity => cpu.to_string(),
            Self::Xps => mask([cpu]),
        }
    }

    /// True if a change of this kind may concern this file.
    fn is_of(self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('/').collect();
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match (self, parts.as_slice()) {
            (Self::IrqAffinity, ["proc", "irq", number, "smp_affinity_list"]) => is_number(number),
            (Self::Xps, ["sys", "class", "net", card, "queues", queue, "xps_cpus"]) => {
                !card.starts_with('.') && queue.strip_prefix("tx-").is_some_and(is_number)
            }
            _ => false,
        }
    }

    fn parse(self, text: &str) -> Option<CpuList> {
        match self {
            Self::IrqAffinity => text.parse().ok(),
            Self::Xps => parse_mask(text),
        }
    }
}

/// What to note of a change that is to be made; `None` if it is not, or if what was there cannot be told.
fn note(root: &Root, change: &mut Change) -> Option<Note> {
    if change.forbidden.is_some() {
        return None;
    }
    let Some(before) = root.text(&change.path).filter(|text| change.kind.parse(text).is_some()) else {
        change.forbidden = Some("it cannot be read");
        return None;
    };
    Some(Note { path: change.path.clone(), kind: change.kind, before, after: change.kind.text(change.after) })
}

fn records(state_dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(state_dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_record = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(PREFIX) && path.extension().is_some_and(|extension| extension == "json")
    };
    entries.filter(is_record).collect()
}

/// None where the file is not one of ours, or cut off.
fn read_notes(path: &Path) -> Vec<Note> {
    fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

fn notes_of_the_living(state_dir: &Path) -> Vec<String> {
    records(state_dir).iter().flat_map(|path| read_notes(path)).map(|note| note.path).collect()
}

fn warn_of_refusals(changes: &[Change]) {
    for (kind, what) in [
        (ChangeKind::IrqAffinity, "interrupts of the workers' queues (placement.irq_affinity)"),
        (ChangeKind::Xps, "transmit queues of the workers' CPUs (placement.xps)"),
    ] {
        let refused = changes
            .iter()
            .filter(|change| change.kind == kind && change.forbidden == Some("the system refused it"));
        let count = refused.count();
        if count > 0 {
            tracing::warn!(
                count,
                "could not set the {what}: run as root where /proc/irq and /sys are writable, or switch it off; the proxy \
                 runs on without"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const IRQ: &str = "proc/irq/30/smp_affinity_list";
    const XPS: &str = "sys/class/net/eth0/queues/tx-1/xps_cpus";

    struct Sandbox {
        folder: TempDir,
        root: Root,
    }

    impl Sandbox {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = Root::at(folder.path());
            let it = Self { folder, root };
            for (path, text) in [(IRQ, "0-3\n"), (XPS, "00000000,0000000f\n")] {
                fs::create_dir_all(it.root.path(path).parent().unwrap()).unwrap();
                it.write(path, text);
            }
            it
        }

        fn state(&self) -> PathBuf {
            self.folder.path().join("run/tsubaki")
        }

        fn write(&self, path: &str, text: &str) {
            fs::write(self.root.path(path), text).unwrap();
        }

        fn files(&self) -> [String; 2] {
            [IRQ, XPS].map(|path| self.root.text(path).unwrap())
        }

        fn apply(&self) -> Applied {
            apply(&self.root, changes(), &self.state())
        }

        /// Makes the changes and ends without taking them back.
        fn crash(&self) {
            drop(self.apply().record.take());
        }
    }

    fn changes() -> Vec<Change> {
        let change = |path: &str, kind| Change {
            path: path.to_owned(),
            kind,
            before: None,
            after: 2,
            forbidden: None,
        };
        vec![change(IRQ, ChangeKind::IrqAffinity), change(XPS, ChangeKind::Xps)]
    }

    const BEFORE: [&str; 2] = ["0-3", "00000000,0000000f"];

    #[test]
    fn changes_hold_as_long_as_they_are_wanted() {
        let it = Sandbox::new();
        let applied = it.apply();
        assert_eq!(it.files(), ["2", "4"]);
        assert!(applied.changes.iter().all(|change| change.forbidden.is_none()));
        assert_eq!(restore(&it.root, &it.state()), [], "its proxy lives");
        assert_eq!(it.files(), ["2", "4"]);
        drop(applied);
        assert_eq!(it.files(), BEFORE);
        assert_eq!(fs::read_dir(it.state()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_proxy_that_crashed_changed_is_set_back_once() {
        let it = Sandbox::new();
        it.crash();
        assert_eq!(it.files(), ["2", "4"]);
        let restored = restore(&it.root, &it.state());
        assert_eq!(restored.iter().map(|restored| &*restored.before).collect::<Vec<_>>(), BEFORE);
        assert!(restored.iter().all(|restored| restored.failed.is_none()));
        assert_eq!(it.files(), BEFORE);
        assert_eq!(restore(&it.root, &it.state()), []);
    }

    #[test]
    fn what_somebody_else_has_changed_since_stays() {
        let it = Sandbox::new();
        it.crash();
        it.write(IRQ, "1\n");
        assert_eq!(restore(&it.root, &it.state()).len(), 1);
        assert_eq!(it.files(), ["1", BEFORE[1]]);
    }

    #[test]
    fn a_file_that_another_proxy_has_changed_is_left_alone() {
        let it = Sandbox::new();
        let first = it.apply();
        // The first one's note, as another process would have it.
        let theirs = it.state().join("placement-1.json");
        fs::rename(&first.record.as_ref().unwrap().path, &theirs).unwrap();
        it.write(IRQ, "3\n");
        let second = it.apply();
        assert!(
            second.changes.iter().all(|change| change.forbidden == Some("another tsubaki has changed it"))
        );
        assert_eq!(it.files(), ["3", "4"]);
    }

    #[test]
    fn what_is_forbidden_or_gone_is_not_written_and_nothing_without_a_note() {
        let it = Sandbox::new();
        let mut wanted = changes();
        wanted[0].forbidden = Some("placement.irq_affinity is false");
        wanted[1].path = "sys/gone".to_owned();
        let applied = apply(&it.root, wanted, &it.state());
        assert_eq!(it.files(), BEFORE);
        assert!(applied.changes.iter().all(|change| change.forbidden.is_some()), "{:?}", applied.changes);

        let blocked = it.folder.path().join("file");
        fs::write(&blocked, "").unwrap();
        let applied = apply(&it.root, changes(), &blocked);
        assert_eq!(it.files(), BEFORE);
        assert!(applied.changes.iter().all(|change| change.forbidden == Some("it could not be noted")));
    }

    #[test]
    fn a_note_that_is_none_does_no_harm() {
        let it = Sandbox::new();
        fs::create_dir_all(it.state()).unwrap();
        fs::write(it.state().join("placement-7.json"), "{\"cut").unwrap();
        fs::write(it.state().join("notes.txt"), "").unwrap();
        for path in ["proc/irq/../irq/30/smp_affinity_list", "proc/irq/30/../30/smp_affinity_list"] {
            let note = Note {
                path: path.to_owned(),
                kind: ChangeKind::IrqAffinity,
                before: "1".to_owned(),
                after: BEFORE[0].to_owned(),
            };
            let forged = serde_json::to_string(&[note]).unwrap();
            fs::write(it.state().join("placement-8.json"), forged).unwrap();
            assert_eq!(restore(&it.root, &it.state()), [], "{path}");
        }
        assert_eq!(restore(&it.root, &it.state()), []);
        assert_eq!(it.files(), BEFORE);
    }
}
