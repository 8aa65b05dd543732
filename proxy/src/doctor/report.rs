//! All verdicts, as text and as JSON.

use std::fmt;

use serde::Serialize;

use super::check::{CHECKS, Subject, Verdict};

/// What every check came to.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    findings: usize,
    checks: Vec<Row>,
}

/// One check; `why` and `mend` are of findings alone.
#[derive(Debug, Serialize)]
struct Row {
    id: &'static str,
    status: Status,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mend: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Ok,
    Finding,
    NotApplicable,
}

/// Commands of one finding that are shown as text; JSON has them all.
const SHOWN: usize = 8;

impl Report {
    pub(super) fn of(subject: &Subject<'_>) -> Self {
        let checks: Vec<Row> = CHECKS.iter().map(|check| Row::new(check.id, (check.look)(subject))).collect();
        Self { findings: checks.iter().filter(|row| row.status == Status::Finding).count(), checks }
    }

    pub(super) fn findings(&self) -> usize {
        self.findings
    }

    fn of_status(&self, status: Status) -> impl Iterator<Item = &Row> {
        self.checks.iter().filter(move |row| row.status == status)
    }
}

impl Row {
    fn new(id: &'static str, verdict: Verdict) -> Self {
        match verdict {
            Verdict::Ok(found) => Self { id, status: Status::Ok, found, why: None, mend: Vec::new() },
            Verdict::NotApplicable(found) => {
                Self { id, status: Status::NotApplicable, found, why: None, mend: Vec::new() }
            }
            Verdict::Finding { found, why, mend } => {
                Self { id, status: Status::Finding, found, why: Some(why), mend }
            }
        }
    }
}

/// Findings first, each with what to do; then the rest, a line each.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in self.of_status(Status::Finding) {
            writeln!(f, "FINDING  {}: {}", row.id, row.found)?;
            writeln!(f, "         {}", row.why.unwrap_or_default())?;
            for command in row.mend.iter().take(SHOWN) {
                writeln!(f, "         $ {command}")?;
            }
            if row.mend.len() > SHOWN {
                writeln!(f, "         … and {} more: --json has all", row.mend.len() - SHOWN)?;
            }
            writeln!(f)?;
        }
        for row in self.of_status(Status::Ok) {
            writeln!(f, "ok       {}: {}", row.id, row.found)?;
        }
        for row in self.of_status(Status::NotApplicable) {
            writeln!(f, "-        {}: {}", row.id, row.found)?;
        }
        let count = |status| self.of_status(status).count();
        let (ok, other) = (count(Status::Ok), count(Status::NotApplicable));
        writeln!(f, "\n{} found, {ok} ok, {other} not applicable", self.findings)
    }
}
