//! Results kept as JSON, so that later runs can be compared with them.
//!
//! Must not know: what the figures mean.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use serde::Serialize;

use super::{Options, Results, machine::Machine};

#[derive(Serialize)]
struct Record<'a> {
    date: &'a str,
    machine: &'a Machine,
    options: &'a Options,
    results: &'a Results,
}

/// Writes `benches/record/<date>-<cpu>.json` and returns its path; a record of the same day and machine is
/// replaced.
///
/// # Errors
/// If the file cannot be written.
pub fn write(results: &Results, options: &Options) -> anyhow::Result<PathBuf> {
    let machine = Machine::describe();
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?;
    let date = date(seconds.as_secs() / 86_400);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("record");
    let file = folder.join(format!("{date}-{}.json", slug(&machine.cpu)));
    let record = Record { date: &date, machine: &machine, options, results };
    fs::create_dir_all(&folder)?;
    fs::write(&file, serde_json::to_string_pretty(&record)? + "\n")
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

/// Lower-case words joined by `-`.
fn slug(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

/// The date in UTC, `days` after 1970-01-01.
fn date(mut days: u64) -> String {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::{date, slug};

    #[test]
    fn days_become_dates() {
        let cases = [
            (0, "1970-01-01"),
            (30, "1970-01-31"),
            (31, "1970-02-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_088, "2024-12-31"),
            (20_089, "2025-01-01"),
        ];
        for (days, text) in cases {
            assert_eq!(date(days), text);
        }
    }

    #[test]
    fn a_processors_name_becomes_part_of_a_file_name() {
        assert_eq!(slug("Intel(R) Xeon(R) CPU @ 2.20GHz"), "intel-r-xeon-r-cpu-2-20ghz");
    }
}
