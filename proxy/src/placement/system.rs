//! Changes of the system: made, noted in a state file first, and taken back.
//!
//! Each proxy has a file of its own and keeps it locked while it lives: a file that nobody has locked is of one that
//! crashed. What somebody else has changed since is left as it is. Whoever looks at the files, or makes one, holds the
//! folder's lock meanwhile.
//!
//! Root may read what others wrote: nothing is followed, nothing is believed that this module could not have written.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
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

/// A proxy's state file, locked.
#[derive(Debug)]
struct Record {
    path: PathBuf,
    file: File,
    notes: Vec<Note>,
}

/// What became of the notes of proxies that crashed.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    /// Files that hold again what they held: path below the root, and what.
    pub(crate) done: Vec<(String, String)>,
    /// Files below the root that hold something else than the proxy wrote.
    pub(crate) left: Vec<String>,
    /// What could not be set back, or looked at, and why.
    pub(crate) failed: Vec<(String, io::Error)>,
    /// State files of proxies that live.
    pub(crate) living: Vec<PathBuf>,
}

const PREFIX: &str = "placement-";
const SUFFIX: &str = ".json";

/// Longer files are not ours: a note is some 150 bytes, and a machine has some thousand queues.
const LONGEST: u64 = 4 << 20;

/// Makes the changes that are not forbidden. What cannot be made is warned of once for each kind.
pub(crate) fn apply(root: &Root, changes: Vec<Change>, state_dir: &Path) -> Applied {
    let mut applied = Applied { root: root.clone(), record: None, changes };
    if applied.changes.iter().all(|change| change.forbidden.is_some()) {
        return applied;
    }
    match Record::create(root, state_dir, &mut applied.changes) {
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

/// Takes back what proxies left that are no more. What cannot be taken back stays noted.
pub(crate) fn restore(root: &Root, state_dir: &Path) -> Restored {
    let mut restored = Restored::default();
    if !state_dir.exists() {
        return restored;
    }
    let _lock = match lock_folder(state_dir) {
        Ok(lock) => lock,
        Err(error) => {
            restored.failed.push((state_dir.display().to_string(), error));
            return restored;
        }
    };
    for path in records(state_dir) {
        match Record::open(&path) {
            Ok(Some(record)) => record.take_back(root, &mut restored),
            Ok(None) => restored.living.push(path),
            Err(error) => restored.failed.push((path.display().to_string(), error)),
        }
    }
    restored
}

impl Drop for Applied {
    fn drop(&mut self) {
        let Some(record) = self.record.take() else { return };
        let mut restored = Restored::default();
        record.take_back(&self.root, &mut restored);
        for (path, error) in restored.failed {
            tracing::warn!(path, %error, "could not be set back to what it was");
        }
    }
}

impl Record {
    /// Notes the changes that are to be made, as far as what was there can be told and nobody else has changed it.
    fn create(root: &Root, state_dir: &Path, changes: &mut [Change]) -> io::Result<Self> {
        fs::create_dir_all(state_dir)?;
        let _lock = lock_folder(state_dir)?;
        let others: Vec<Note> =
            records(state_dir).iter().filter_map(|path| read(path).ok()).flatten().collect();
        for change in changes.iter_mut().filter(|change| change.forbidden.is_none()) {
            if others.iter().any(|note| note.path == change.path) {
                change.forbidden = Some("another tsubaki has changed it");
            }
        }
        let notes: Vec<Note> = changes.iter_mut().filter_map(|change| note(root, change)).collect();
        // Random, as in containers every proxy may be process 1.
        let draft = tempfile::Builder::new().prefix(PREFIX).suffix(SUFFIX).tempfile_in(state_dir)?;
        let (file, path) = draft.keep().map_err(|error| error.error)?;
        let mut record = Self { path, file, notes };
        if !try_lock(&record.file)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        record.write()?;
        Ok(record)
    }

    /// That of a proxy that is gone; `None` if it lives.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = open(path)?;
        if !try_lock(&file)? {
            return Ok(None);
        }
        let notes = parse(&file)?;
        Ok(Some(Self { path: path.to_owned(), file, notes }))
    }

    fn write(&mut self) -> io::Result<()> {
        self.file.rewind()?;
        self.file.set_len(0)?;
        self.file.write_all(serde_json::to_string_pretty(&self.notes)?.as_bytes())
    }

    fn make(&self, root: &Root, change: &mut Change) {
        let Some(note) = self.notes.iter().find(|note| note.path == change.path) else { return };
        if fs::write(root.path(&note.path), &note.after).is_err() {
            change.forbidden = Some("the system refused it");
        }
    }

    fn take_back(mut self, root: &Root, restored: &mut Restored) {
        let mut left = Vec::new();
        for note in std::mem::take(&mut self.notes) {
            match note.take_back(root) {
                Ok(true) => restored.done.push((note.path, note.before)),
                Ok(false) => restored.left.push(note.path),
                Err(error) => {
                    restored.failed.push((note.path.clone(), error));
                    left.push(note);
                }
            }
        }
        self.notes = left;
        let kept = if self.notes.is_empty() { fs::remove_file(&self.path) } else { self.write() };
        if let Err(error) = kept {
            restored.failed.push((self.path.display().to_string(), error));
        }
    }
}

impl Note {
    /// False if it was never made, or somebody has changed it since.
    fn take_back(&self, root: &Root) -> io::Result<bool> {
        if !self.kind.is_of(&self.path) || self.kind.parse(&self.before).is_none() {
            return Ok(false);
        }
        // A card or queue that has gone has nothing to be set back.
        let Some(now) = root.text(&self.path) else { return Ok(false) };
        let wanted = self.kind.parse(&self.after);
        if wanted.is_none() || self.kind.parse(&now) != wanted {
            return Ok(false);
        }
        fs::write(root.path(&self.path), &self.before)?;
        Ok(true)
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
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with(PREFIX) && name.ends_with(SUFFIX)
    };
    let mut records: Vec<PathBuf> = entries.filter(is_record).collect();
    records.sort();
    records
}

/// Held until it is dropped. Refuses a folder into which others than root and this user may write.
fn lock_folder(state_dir: &Path) -> io::Result<File> {
    let folder =
        OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(state_dir)?;
    let metadata = folder.metadata()?;
    if !is_trusted(metadata.uid()) || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "others may write into this folder"));
    }
    folder.lock()?;
    Ok(folder)
}

/// A state file, which is nothing else: no pipe that would block, no link to another file.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || !is_trusted(metadata.uid()) || metadata.len() > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no state file of a proxy"));
    }
    Ok(file)
}

fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == geteuid().as_raw()
}

fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn read(path: &Path) -> io::Result<Vec<Note>> {
    parse(&open(path)?)
}

/// No notes where the file was cut off: it is written whole before the first change is made.
fn parse(file: &File) -> io::Result<Vec<Note>> {
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text).unwrap_or_default())
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
    use std::os::unix::fs::PermissionsExt as _;

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

        fn restore(&self) -> Restored {
            restore(&self.root, &self.state())
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
        let restored = it.restore();
        assert_eq!((restored.done.len(), restored.living.len()), (0, 1), "its proxy lives");
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
        let restored = it.restore();
        assert_eq!(restored.done.iter().map(|(_, before)| &**before).collect::<Vec<_>>(), BEFORE);
        assert!(restored.failed.is_empty());
        assert_eq!(it.files(), BEFORE);
        assert!(it.restore().done.is_empty());
    }

    #[test]
    fn what_somebody_else_has_changed_since_stays() {
        let it = Sandbox::new();
        it.crash();
        it.write(IRQ, "1\n");
        assert_eq!(it.restore().done.len(), 1);
        assert_eq!(it.files(), ["1", BEFORE[1]]);
    }

    #[test]
    fn a_file_that_another_proxy_has_changed_is_left_alone() {
        let it = Sandbox::new();
        let _first = it.apply();
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
            assert!(it.restore().done.is_empty(), "{path}");
        }
        assert!(it.restore().done.is_empty());
        assert_eq!(it.files(), BEFORE);
    }

    #[test]
    fn what_cannot_be_set_back_stays_noted() {
        let it = Sandbox::new();
        fs::create_dir_all(it.state()).unwrap();
        // Not even root may write it.
        let sealed = "/proc/sys/kernel/cap_last_cap";
        let after = fs::read_to_string(sealed).unwrap().trim().to_owned();
        let note =
            Note { path: IRQ.to_owned(), kind: ChangeKind::IrqAffinity, before: BEFORE[0].to_owned(), after };
        fs::write(it.state().join("placement-x.json"), serde_json::to_string(&[&note]).unwrap()).unwrap();
        fs::remove_file(it.root.path(IRQ)).unwrap();
        std::os::unix::fs::symlink(sealed, it.root.path(IRQ)).unwrap();
        let restored = it.restore();
        assert_eq!((restored.done.len(), restored.failed.len()), (0, 1), "{restored:?}");
        fs::remove_file(it.root.path(IRQ)).unwrap();
        it.write(IRQ, &note.after);
        assert_eq!(it.restore().done, [(IRQ.to_owned(), BEFORE[0].to_owned())]);
        assert!(it.restore().done.is_empty());
    }

    #[test]
    fn what_is_no_state_file_is_neither_read_nor_removed() {
        let it = Sandbox::new();
        fs::create_dir_all(it.state()).unwrap();
        let (pipe, link) = (it.state().join("placement-a.json"), it.state().join("placement-b.json"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        // Notes that would be believed, where a link leads.
        let elsewhere = it.folder.path().join("elsewhere.json");
        let note = Note {
            path: IRQ.to_owned(),
            kind: ChangeKind::IrqAffinity,
            before: "1".to_owned(),
            after: BEFORE[0].to_owned(),
        };
        fs::write(&elsewhere, serde_json::to_string(&[note]).unwrap()).unwrap();
        std::os::unix::fs::symlink(&elsewhere, it.state().join("placement-c.json")).unwrap();
        let restored = it.restore();
        assert_eq!((restored.done.len(), restored.failed.len()), (0, 3), "{restored:?}");
        assert!(pipe.exists() && link.is_symlink() && elsewhere.exists());
        assert_eq!(it.files(), BEFORE);
    }

    #[test]
    fn a_folder_that_others_may_write_into_is_refused() {
        let it = Sandbox::new();
        it.crash();
        fs::set_permissions(it.state(), fs::Permissions::from_mode(0o777)).unwrap();
        let restored = it.restore();
        assert_eq!((restored.done.len(), restored.failed.len()), (0, 1));
        assert!(it.apply().changes.iter().all(|change| change.forbidden == Some("it could not be noted")));
    }
}
