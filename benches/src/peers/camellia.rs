//! Camellia's Redis proxy, from a built checkout: the bundle that its bootstrap module packs.
//!
//! Must not know: how it is built.

use std::{
    env, fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;

use super::{Start, addresses, log, with_commit, write};
use crate::{
    compare::subject::Site,
    connection::Connection,
    process::{Server, free_port},
    program,
};

/// Where a build leaves the bundle.
const TARGET: &str = "camellia-redis-proxy/camellia-redis-proxy-bootstrap/target";

/// The bundle's name without version and `.jar`.
const BUNDLE: &str = "camellia-redis-proxy-bootstrap-";

/// The oldest Java that the bundle runs on.
const OLDEST_JAVA: u32 = 21;

/// A machine for Java that starts on a busy computer takes longer than other servers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two looks whether it listens.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Starts Camellia in front of the cluster. It listens on every address of the machine: it has no setting for one.
///
/// # Errors
/// If it is there and does not listen within a minute.
pub fn start(site: &Site<'_>, port: u16, threads: u32) -> anyhow::Result<Start> {
    Start::of(found(), site, |Found { java, bundle, .. }| {
        let properties = render(port, free_port()?, &addresses(site), threads);
        let configuration = write(site, "camellia.properties", &properties)?;
        let mut arguments = flags(java.version);
        arguments.push("-jar".to_owned());
        arguments.push(bundle.display().to_string());
        arguments.push(format!("--spring.config.location=file:{configuration}"));
        let server = Server::start(java.program, arguments, &log(site, "camellia"))?;
        until_it_listens(&server, port)?;
        Ok(Start::Running { server, nodes: Vec::new() })
    })
}

/// As `1.4.3-SNAPSHOT+6b57ff3 on Java 25`.
pub(super) fn version() -> Option<String> {
    let Found { checkout, java, bundle } = found().ok()?;
    let version = bundle.file_stem()?.to_str()?.strip_prefix(BUNDLE)?.to_owned();
    Some(format!("{} on Java {}", with_commit(&version, program::commit(&checkout)), java.version))
}

struct Found {
    checkout: PathBuf,
    java: Java,
    bundle: PathBuf,
}

struct Java {
    program: PathBuf,
    version: u32,
}

fn found() -> Result<Found, String> {
    let checkout = program::checkout("CAMELLIA_SRC", "Camellia")?;
    let bundle = bundle(&checkout.join(TARGET))?;
    let java = java().ok_or_else(|| {
        format!("Camellia needs Java {OLDEST_JAVA} or later: have JAVA_HOME_25 name the folder of one")
    })?;
    Ok(Found { checkout, java, bundle })
}

fn bundle(target: &Path) -> Result<PathBuf, String> {
    let is_bundle = |file: &PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(BUNDLE) && name.ends_with(".jar")
    };
    let files = fs::read_dir(target).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(is_bundle).max().ok_or_else(|| {
        format!("there is no {BUNDLE}….jar in {}: build it as its documentation says", target.display())
    })
}

/// The first Java that is new enough.
fn java() -> Option<Java> {
    let homes = ["JAVA_HOME_25", "JAVA_HOME"].into_iter().filter_map(env::var_os);
    let programs = homes.map(|home| Path::new(&home).join("bin/java")).chain([PathBuf::from("java")]);
    programs
        .filter_map(|program| {
            let version = parse_java_version(&program::answer(&program, "-version")?)?;
            Some(Java { program, version })
        })
        .find(|java| java.version >= OLDEST_JAVA)
}

/// From `openjdk version "25.0.1" 2025-10-21`.
fn parse_java_version(text: &str) -> Option<u32> {
    let version = program::word_after(text, "version \"")?;
    version.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Garbage collector and opened packages as in its documentation; a heap of 2 GiB, as in its own measurements.
///
/// On Java 24 and later Netty has to be told that it may use `sun.misc.Unsafe`, and Java that this is wanted.
/// Without them Camellia would be measured at less than it can.
fn flags(java: u32) -> Vec<String> {
    let mut flags = vec![
        "-XX:+UseG1GC",
        "-Xms2g",
        "-Xmx2g",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    ];
    if java >= 24 {
        flags.extend([
            "-Dio.netty.noUnsafe=false",
            "--sun-misc-unsafe-memory-access=allow",
            "--enable-native-access=ALL-UNNAMED",
        ]);
    }
    flags.into_iter().map(str::to_owned).collect()
}

/// The defaults: no plugins, no monitor. Its console would take port 16379.
fn render(port: u16, console: u16, nodes: &[String], threads: u32) -> String {
    format!(
        "server.port={port}
camellia-redis-proxy.config.[console.port]={console}
camellia-redis-proxy.config.[work.thread]={threads}
camellia-redis-proxy.config.[route.conf]=redis-cluster://@{}
",
        nodes.join(",")
    )
}

fn until_it_listens(server: &Server, port: u16) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while Connection::open(port).is_err() {
        server.cpu_time()?;
        ensure!(Instant::now() < deadline, "it did not listen within {PATIENCE:?}: {}", server.last_words());
        thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{bundle, flags, parse_java_version, render};

    #[test]
    fn it_serves_the_cluster_on_as_many_threads_as_asked() {
        let nodes = ["127.0.0.1:8".to_owned(), "127.0.0.1:9".to_owned()];
        let expected = "server.port=7\ncamellia-redis-proxy.config.[console.port]=6\n\
            camellia-redis-proxy.config.[work.thread]=2\n\
            camellia-redis-proxy.config.[route.conf]=redis-cluster://@127.0.0.1:8,127.0.0.1:9\n";
        assert_eq!(render(7, 6, &nodes, 2), expected);
    }

    #[test]
    fn the_bundle_is_found_among_what_a_build_leaves() {
        let target = tempfile::tempdir().unwrap();
        let name = "camellia-redis-proxy-bootstrap-1.4.3-SNAPSHOT.jar";
        for file in ["classes", "camellia-redis-proxy-bootstrap-1.4.3-SNAPSHOT.jar.original", name] {
            fs::write(target.path().join(file), "").unwrap();
        }
        assert_eq!(bundle(target.path()), Ok(target.path().join(name)));
    }

    #[test]
    fn a_checkout_that_is_not_built_is_told() {
        let line = bundle(std::path::Path::new("/nowhere")).unwrap_err();
        let expected = "there is no camellia-redis-proxy-bootstrap-….jar in /nowhere: \
            build it as its documentation says";
        assert_eq!(line, expected);
    }

    #[test]
    fn javas_version_is_read() {
        assert_eq!(
            parse_java_version("openjdk version \"25.0.1\" 2025-10-21 LTS\nOpenJDK Runtime\n"),
            Some(25)
        );
        assert_eq!(parse_java_version("openjdk version \"21\" 2023-09-19\n"), Some(21));
        assert_eq!(parse_java_version("java: command not found"), None);
    }

    #[test]
    fn netty_may_use_unsafe_where_java_would_forbid_it() {
        let unsafe_allowed =
            |java| flags(java).iter().any(|flag| flag == "--sun-misc-unsafe-memory-access=allow");
        assert_eq!([21, 23, 24, 25].map(unsafe_allowed), [false, false, true, true]);
    }
}
