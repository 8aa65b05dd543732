//! Programs of others: where they are, in which version, and what to do where they are not.
//!
//! Must not know: what a program is used for.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

/// Where Debian puts servers; not every user's PATH has it.
const SERVERS: &str = "/usr/sbin";

/// The installed program `name`.
///
/// # Errors
/// One line that says that it is not installed, and the `remedy`.
pub fn installed(name: &str, remedy: &str) -> Result<PathBuf, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    find(name, &path).ok_or_else(|| format!("{name} is not installed: {remedy}"))
}

/// The folder of a checkout of `project`, which the environment variable `variable` names.
///
/// # Errors
/// One line that says what to set the variable to.
pub fn checkout(variable: &str, project: &str) -> Result<PathBuf, String> {
    env::var_os(variable).filter(|folder| !folder.is_empty()).map(PathBuf::from).ok_or_else(|| {
        format!(
            "{variable} is not set: have it name a checkout of {project}, built as its documentation says"
        )
    })
}

/// The program `file` of a checkout. Nothing is built here.
///
/// # Errors
/// One line that says that the checkout is not built.
pub fn built(checkout: &Path, file: &str) -> Result<PathBuf, String> {
    let program = checkout.join(file);
    let unbuilt = || format!("there is no {}: build it as its documentation says", program.display());
    if program.is_file() { Ok(program) } else { Err(unbuilt()) }
}

/// What `program` prints when it is asked with `flag`, on either stream.
#[must_use]
pub fn answer(program: &Path, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Some(text)
}

/// The commit of a checkout, shortened; `None`: the folder is no clone.
#[must_use]
pub fn commit(checkout: &Path) -> Option<String> {
    // Git would look for a repository in the folders above as well.
    if !checkout.join(".git").exists() {
        return None;
    }
    let output =
        Command::new("git").arg("-C").arg(checkout).args(["rev-parse", "--short", "HEAD"]).output().ok()?;
    let commit = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !commit.is_empty()).then_some(commit)
}

/// The word that follows the last `mark` in `text`: a path in front of it may hold the same letters.
pub(crate) fn word_after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.rsplit_once(mark)?.1.split_whitespace().next()
}

fn find(name: &str, path: &OsStr) -> Option<PathBuf> {
    let folders = env::split_paths(path).chain([PathBuf::from(SERVERS)]);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, fs, path::Path};

    use super::{answer, built, checkout, commit, find, installed, word_after};

    #[test]
    fn a_program_is_found_on_the_path_and_the_first_wins() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for folder in [&first, &second] {
            fs::write(folder.path().join("prog"), "").unwrap();
        }
        let path = std::env::join_paths([first.path(), second.path()]).unwrap();
        assert_eq!(find("prog", &path), Some(first.path().join("prog")));
        assert_eq!(find("prog", OsStr::new("/nowhere")), None);
    }

    #[test]
    fn what_is_missing_is_told_with_its_remedy() {
        let line = installed("no-such-program", "run this").unwrap_err();
        assert_eq!(line, "no-such-program is not installed: run this");
        let line = checkout("NO_SUCH_SRC", "it").unwrap_err();
        assert_eq!(
            line,
            "NO_SUCH_SRC is not set: have it name a checkout of it, built as its documentation says"
        );
        let line = built(Path::new("/nowhere"), "src/it").unwrap_err();
        assert_eq!(line, "there is no /nowhere/src/it: build it as its documentation says");
    }

    #[test]
    fn a_program_of_a_built_checkout_is_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("it"), "").unwrap();
        assert_eq!(built(folder.path(), "it"), Ok(folder.path().join("it")));
    }

    #[test]
    fn a_folder_inside_of_a_clone_has_no_commit_of_its_own() {
        assert_eq!(commit(Path::new(env!("CARGO_MANIFEST_DIR"))), None);
    }

    #[test]
    fn versions_are_words_of_what_programs_print() {
        assert_eq!(word_after("answers on\neither stream", "on\n"), Some("either"));
        assert_eq!(word_after("nothing", "else"), None);
        assert!(answer(Path::new("uname"), "-s").is_some_and(|text| text.starts_with("Linux")));
    }
}
