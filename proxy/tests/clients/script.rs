//! Runs a scenario of a script.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tsubaki::dev_cluster::DevCluster;

use crate::harness::proxy::{Proxy, Start};
use crate::{PASSWORD, SharedCluster, proxy};

/// The longest that a scenario may take, in seconds, by `timeout` of coreutils: a client that waits for ever is a failure
/// and not the end of the test run.
const LONGEST: &str = "100";

/// What runs a script, and the script.
pub(crate) struct Script {
    /// The interpreter and its flags.
    pub(crate) run: Vec<OsString>,
    pub(crate) env: Vec<(&'static str, OsString)>,
    pub(crate) file: &'static str,
    /// Of this script alone: another one uses the same keys.
    pub(crate) cluster: &'static SharedCluster,
}

impl Script {
    /// Runs a scenario without and with a client password.
    pub(crate) fn scenario(&self, name: &str) {
        let Some(cluster) = self.cluster.running() else { return };
        for password in ["", PASSWORD] {
            self.check(&proxy(cluster, password), password, name);
        }
    }

    /// Runs a scenario before a proxy that asks for a password which the scenario does not know.
    pub(crate) fn scenario_with_password(&self, name: &str) {
        let Some(cluster) = self.cluster.running() else { return };
        self.check(&proxy(cluster, PASSWORD), "", name);
    }

    /// Runs a scenario that says `connected`, and goes on when it is told that the proxy was restarted.
    pub(crate) fn scenario_with_restart(&self, name: &str) {
        let Some(cluster) = self.cluster.running() else { return };
        for password in ["", PASSWORD] {
            self.check_restart(cluster, password, name);
        }
    }

    fn check(&self, proxy: &Proxy, password: &str, name: &str) {
        let output = self.command(proxy, password, name).output().unwrap();
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{} {name}, {} password, ended with {}:\n{}{}",
            self.file,
            if password.is_empty() { "no" } else { "with" },
            output.status,
            shown(&output.stdout),
            shown(&output.stderr)
        );
    }

    fn check_restart(&self, cluster: &DevCluster, password: &str, name: &str) {
        let before = proxy(cluster, password);
        let addr = before.addr();
        let mut command = self.command(&before, password, name);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        before.stop();
        let after = Start::before(&cluster.seeds()).set("TSUBAKI_PASSWORD", password).at(addr).ready();
        // If the script has ended, its status says more than a broken pipe.
        let _ = child.stdin.take().unwrap().write_all(b"go on\n");
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "{} {name} ended with {status}: {line}{errors}", self.file);
        drop(after);
    }

    fn command(&self, proxy: &Proxy, password: &str, scenario: &str) -> Command {
        let mut command = Command::new("timeout");
        command.arg(LONGEST).args(&self.run).arg(folder().join(self.file));
        command.args([&proxy.addr().port().to_string(), password, scenario]);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// The value of a variable that names what `make deps` installed; `None`: the test is skipped.
pub(crate) fn installed(variable: &str) -> Option<PathBuf> {
    match env::var_os(variable).filter(|value| !value.is_empty()) {
        Some(value) => Some(value.into()),
        None if env::var_os("TSUBAKI_REQUIRE_SERVERS").is_some() => panic!("{variable} is not set"),
        None => {
            eprintln!("skipped: {variable} is not set; `make test` sets it");
            None
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// A test a scenario.
macro_rules! scenarios {
    ($run:ident: $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                if let Some(script) = script() {
                    script.$run(stringify!($name));
                }
            }
        )*
    };
}

pub(crate) use scenarios;
