//! What long steps show: a spinner on a terminal, and only their results in a pipe.
//!
//! Results go to stdout, the spinner to stderr. Colours appear on a terminal only, and never when `NO_COLOR`
//! is set.

use std::cell::RefCell;
use std::env;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::ProgressBar;

const TICK: Duration = Duration::from_millis(100);

/// The progress of one command.
pub(crate) struct Progress {
    terminal: bool,
    colours: bool,
    spinner: RefCell<Option<ProgressBar>>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let terminal = io::stdout().is_terminal() && io::stderr().is_terminal();
        let colours = terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { terminal, colours, spinner: RefCell::new(None) }
    }

    /// Shows what is being done, until the next call.
    pub(crate) fn step(&self, what: impl Display) {
        if self.terminal {
            let mut spinner = self.spinner.borrow_mut();
            spinner.get_or_insert_with(turning).set_message(what.to_string());
        }
    }

    /// Prints the result of the steps before it.
    pub(crate) fn done(&self, what: impl Display) {
        self.line(format!("{} {what}", self.green("ok")));
    }

    /// Prints a line.
    pub(crate) fn line(&self, text: impl Display) {
        self.clear();
        // Nobody reads on (`tsubaki demo | head`): that is no reason to fail.
        let _ = writeln!(io::stdout(), "{text}");
    }

    /// `text` as a heading.
    pub(crate) fn bold(&self, text: &str) -> String {
        self.painted("1", text)
    }

    fn green(&self, text: &str) -> String {
        self.painted("32", text)
    }

    fn painted(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
    fn clear(&self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn turning() -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(TICK);
    spinner
}
