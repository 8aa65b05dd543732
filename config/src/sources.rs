//! Where settings come from: what the program hands over before anything is checked.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::settings::CONFIG_VARIABLE;

/// Reads a password file. Relative paths that stand in the configuration file arrive joined to its folder.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// Everything that [`Config::load`](crate::Config::load) looks at.
#[derive(Clone)]
pub struct Sources<'a> {
    /// The configuration file, if there is one.
    pub file: Option<ConfigFile>,
    /// The environment. Only names that begin with `TSUBAKI_` are looked at, and an empty value counts as not
    /// set: container set-ups hand over empty variables for what the user left out.
    pub env: BTreeMap<String, String>,
    /// The command line.
    pub flags: Overrides,
    /// Reads the files that `password_file` settings name.
    pub read_file: ReadFile<'a>,
}

/// A configuration file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// As the user gave it: errors show it, and relative password files are looked for beside it.
    pub path: String,
    /// TOML 1.1.
    pub text: String,
}

/// Flags of the command line, as their text. Lists are separated by commas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overrides {
    /// `--config FILE`: which file the program reads; see [`Overrides::config_path`].
    pub config: Option<PathBuf>,
    /// `--listen ADDR:PORT,…`.
    pub listen: Option<String>,
    /// `--cluster HOST:PORT,…`.
    pub cluster: Option<String>,
    /// `--workers N`.
    pub workers: Option<String>,
    /// `--admin ADDR:PORT` or `--admin off`.
    pub admin: Option<String>,
}

impl Overrides {
    /// The configuration file to read: `--config`, else `TSUBAKI_CONFIG`, else none.
    pub fn config_path(&self, env: &BTreeMap<String, String>) -> Option<PathBuf> {
        let variable = || env.get(CONFIG_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        self.config.clone().or_else(variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_names_the_file_before_the_variable() {
        let env = BTreeMap::from([("TSUBAKI_CONFIG".to_owned(), "b.toml".to_owned())]);
        let flag = Overrides { config: Some("a.toml".into()), ..Overrides::default() };

        assert_eq!(flag.config_path(&env), Some("a.toml".into()));
        assert_eq!(Overrides::default().config_path(&env), Some("b.toml".into()));
        assert_eq!(Overrides::default().config_path(&BTreeMap::new()), None);
    }

    #[test]
    fn an_empty_variable_names_no_file() {
        let env = BTreeMap::from([("TSUBAKI_CONFIG".to_owned(), String::new())]);

        assert_eq!(Overrides::default().config_path(&env), None);
    }
}
