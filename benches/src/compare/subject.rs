//! The subjects: what a load can go through, and how each is started.
//!
//! Must not know: loads and figures.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};

use crate::{
    cluster::Cluster,
    connection::{Connection, wait_for},
    load::VALUE_BYTES,
    process::{Server, free_port},
};

/// The load generator speaks to the cluster itself.
pub const DIRECT: &str = "direct";

/// The server that only answers.
pub const FLOOR: &str = "floor";

/// The proxy that this project is about.
pub const TSUBAKI: &str = "tsubaki";

/// Every subject; each is one row of each table.
pub const SUBJECTS: [Subject; 3] = [
    Subject { name: DIRECT, start: None },
    Subject { name: FLOOR, start: Some(floor) },
    Subject { name: TSUBAKI, start: Some(tsubaki) },
];

/// What a load can go through.
pub struct Subject {
    /// As tables and flags call it.
    pub name: &'static str,
    start: Option<Start>,
}

type Start = fn(&Site<'_>, port: u16) -> anyhow::Result<Server>;

/// What subjects are started from.
pub struct Site<'a> {
    /// The cluster behind them.
    pub cluster: &'a Cluster,
    /// The tsubaki to measure; `None`: the one beside this program.
    pub tsubaki: Option<&'a Path>,
}

/// A running subject between the load and the cluster.
pub struct Middle {
    /// Its process.
    pub server: Server,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// True: its `INFO` tells the floor's counts.
    pub counts: bool,
}

impl Subject {
    /// Starts the subject and waits until it serves; `None`: there is nothing in the middle.
    ///
    /// # Errors
    /// If it does not store and return a key within ten seconds.
    pub fn start(&self, site: &Site<'_>) -> anyhow::Result<Option<Middle>> {
        let Some(start) = self.start else { return Ok(None) };
        let port = free_port()?;
        let server = start(site, port).with_context(|| format!("cannot start {}", self.name))?;
        let serves = || match server.cpu_time() {
            Ok(_) => answers(port).map(Ok),
            Err(ended) => Some(Err(ended)),
        };
        wait_for(&format!("{} to serve", self.name), serves).with_context(|| server.last_words())??;
        Ok(Some(Middle { server, port, counts: self.name == FLOOR }))
    }
}

/// The names of all subjects.
#[must_use]
pub fn names() -> Vec<&'static str> {
    SUBJECTS.iter().map(|subject| subject.name).collect()
}

/// The subjects of these names, in the table's order.
///
/// # Errors
/// If there is no subject of a name.
pub fn chosen(wanted: &[String]) -> anyhow::Result<Vec<&'static Subject>> {
    for name in wanted {
        ensure!(
            names().contains(&&**name),
            "no subject is called {name:?}; there are {}",
            names().join(", ")
        );
    }
    Ok(SUBJECTS.iter().filter(|subject| wanted.iter().any(|name| name == subject.name)).collect())
}

fn answers(port: u16) -> Option<String> {
    let mut connection = Connection::open(port).ok()?;
    connection.call(&["SET", "key:000000000000", &"x".repeat(VALUE_BYTES as usize)]).ok()?;
    connection.call(&["GET", "key:000000000000"]).ok()
}

fn floor(site: &Site<'_>, port: u16) -> anyhow::Result<Server> {
    let arguments = ["floor", "--port", &port.to_string()];
    Server::start(env::current_exe()?, arguments, &site.cluster.folder().join("floor.log"))
}

fn tsubaki(site: &Site<'_>, port: u16) -> anyhow::Result<Server> {
    let program = site.tsubaki.map_or_else(beside_this_program, |path| Ok(path.to_owned()))?;
    ensure!(
        program.exists(),
        "there is no {}: run `cargo build --release -p tsubaki`, or name the program with --tsubaki",
        program.display()
    );
    let seeds: Vec<_> = site.cluster.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let (listen, seeds) = (format!("127.0.0.1:{port}"), seeds.join(","));
    let arguments = ["run", "--listen", &listen, "--cluster", &seeds, "--workers", "1", "--admin", "off"];
    Server::start(OsString::from(program), arguments, &site.cluster.folder().join("tsubaki.log"))
}

fn beside_this_program() -> anyhow::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name("tsubaki"))
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn subjects_keep_the_tables_order() {
        let names: Vec<_> = chosen(&["tsubaki".to_owned(), "direct".to_owned()])
            .unwrap()
            .into_iter()
            .map(|subject| subject.name)
            .collect();
        assert_eq!(names, ["direct", "tsubaki"]);
    }

    #[test]
    fn an_unknown_subject_is_an_error_that_names_the_known_ones() {
        let error = chosen(&["flour".to_owned()]).err().unwrap();
        assert_eq!(error.to_string(), "no subject is called \"flour\"; there are direct, floor, tsubaki");
    }
}
