//! The crate from outside: sources in, a configuration or a message out.

mod documents;
mod errors;
mod precedence;
mod secrets;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::{Config, ConfigError, ConfigFile, Overrides, Sources};

/// Sources that a test fills in; its files are in memory.
#[derive(Default)]
struct Given<'a> {
    file: Option<&'a str>,
    env: &'a [(&'a str, &'a str)],
    flags: Overrides,
    files: &'a [(&'a str, &'a str)],
}

impl Given<'_> {
    fn load(&self) -> Result<Config, ConfigError> {
        let read_file = |path: &Path| {
            let content = self.files.iter().find(|(name, _)| Path::new(name) == path);
            content.map(|(_, text)| (*text).to_owned()).ok_or_else(|| io::ErrorKind::NotFound.into())
        };
        Config::load(&Sources {
            file: self
                .file
                .map(|text| ConfigFile { path: "etc/tsubaki.toml".to_owned(), text: text.to_owned() }),
            env: self
                .env
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect::<BTreeMap<_, _>>(),
            flags: self.flags.clone(),
            read_file: &read_file,
        })
    }
}

/// Loads a file; a seed comes from the environment if the file names none.
fn load_file(text: &str) -> Result<Config, ConfigError> {
    let env: &[_] = if text.contains("seeds") { &[] } else { &[("TSUBAKI_CLUSTER", "127.0.0.1:7000")] };
    Given { file: Some(text), env, ..Given::default() }.load()
}
