//! What the program says when it does not serve: help, checks, refusals. Results go to stdout, complaints to stderr.

use std::fs;

use crate::program::finish;

/// A mistake in the configuration, and all that its message has to name.
struct Mistake {
    args: &'static [&'static str],
    settings: &'static [(&'static str, &'static str)],
    names: &'static [&'static str],
}

const MISTAKES: [Mistake; 8] = [
    Mistake { args: &[], settings: &[], names: &["cluster.seeds", "TSUBAKI_CLUSTER", "--cluster"] },
    Mistake {
        args: &["--cluster", "10.0.0.1"],
        settings: &[],
        names: &["--cluster", "cluster.seeds", "\"10.0.0.1\"", "HOST:PORT"],
    },
    Mistake {
        args: &["--cluster", "10.0.0.1:6379", "--workers", "many"],
        settings: &[],
        names: &["--workers", "placement.workers", "\"many\"", "1024"],
    },
    Mistake {
        args: &["--cluster", "10.0.0.1:6379"],
        settings: &[("TSUBAKI_CLUSTER_READ_POLICY", "slave")],
        names: &["TSUBAKI_CLUSTER_READ_POLICY", "cluster.read_policy", "\"slave\"", "prefer-replica"],
    },
    Mistake {
        args: &["--cluster", "10.0.0.1:6379"],
        settings: &[("TSUBAKI_SHUTDOWN_TIMEOUT", "10")],
        names: &["TSUBAKI_SHUTDOWN_TIMEOUT", "shutdown_timeout", "10", "100ms"],
    },
    Mistake {
        args: &["--cluster", "10.0.0.1:6379"],
        settings: &[("TSUBAKI_MAX_CLIENT", "10")],
        names: &["TSUBAKI_MAX_CLIENT", "TSUBAKI_MAX_CLIENTS"],
    },
    Mistake {
        args: &["--cluster", "10.0.0.1:6379"],
        settings: &[("TSUBAKI_PASSWORD_FILE", "/no/such/file")],
        names: &["TSUBAKI_PASSWORD_FILE", "/no/such/file"],
    },
    Mistake { args: &["--config", "/no/such/file.toml"], settings: &[], names: &["/no/such/file.toml"] },
];

#[test]
fn a_mistake_in_the_configuration_names_the_key_the_value_and_what_is_allowed() {
    for Mistake { args, settings, names } in MISTAKES {
        for command in ["run", "check"] {
            let finished = finish(&[&[command], args].concat(), settings);
            assert_eq!(finished.code, Some(1), "{finished:?}");
            assert_eq!(finished.stdout, "");
            assert!(finished.stderr.starts_with("tsubaki: "), "{finished:?}");
            assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
            for name in names {
                assert!(finished.stderr.contains(name), "no {name:?} in {finished:?}");
            }
        }
    }
}

#[test]
fn a_mistake_in_the_file_names_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("my.toml");
    for (text, expected) in [
        (
            "[cluster]\nseeds = [\"a:1\"]\nread_policy = \"slave\"\n",
            "my.toml:3: cluster.read_policy = \"slave\"",
        ),
        ("max_client = 3\n", "my.toml:1: unknown key max_client"),
        ("listen = [\n", "my.toml"),
    ] {
        fs::write(&file, text).unwrap();
        let finished = finish(&["run", "--config", file.to_str().unwrap()], &[]);
        assert_eq!(finished.code, Some(1));
        assert!(finished.stderr.contains(expected), "no {expected:?} in {finished:?}");
    }
}

#[test]
fn check_prints_what_is_in_force_and_no_password() {
    let settings = [("TSUBAKI_PASSWORD", "client-secret"), ("TSUBAKI_CLUSTER_PASSWORD", "node-secret")];
    let checked = finish(&["check", "--cluster", "10.0.0.1:6379,[::1]:7", "--workers", "3"], &settings);
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""));
    for part in
        ["10.0.0.1:6379", "[::1]:7", "workers = 3", "max_clients = 10000", "silence_timeout = \"15s\""]
    {
        assert!(checked.stdout.contains(part), "no {part:?} in {checked:?}");
    }
    assert!(!checked.stdout.contains("secret"), "{checked:?}");
}

#[test]
fn what_check_prints_is_a_configuration_that_means_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("printed.toml");
    let first = finish(&["check", "--cluster", "10.0.0.1:6379", "--listen", "127.0.0.1:1,[::1]:2"], &[]);
    fs::write(&file, &first.stdout).unwrap();
    let second = finish(&["check", "--config", file.to_str().unwrap()], &[]);
    assert_eq!(second.code, Some(0), "{second:?}");
    assert_eq!(second.stdout, first.stdout);
}

#[test]
fn help_teaches_each_subcommand() {
    let teaches: [(&[&str], &[&str]); 6] = [
        (
            &["--help"],
            &[
                "run",
                "check",
                "dev-cluster",
                "demo",
                "doctor",
                "Examples:",
                "tsubaki run --listen 127.0.0.1:6380 --cluster",
            ],
        ),
        (
            &["run", "--help"],
            &[
                "--config",
                "TSUBAKI_CONFIG",
                "--listen",
                "--cluster",
                "--workers",
                "--admin",
                "TSUBAKI_PASSWORD",
            ],
        ),
        (&["check", "--help"], &["--config", "--cluster", "passwords", "TSUBAKI_CLUSTER_PASSWORD"]),
        (
            &["dev-cluster", "--help"],
            &["--masters", "[default: 3]", "--replicas", "--base-port", "TSUBAKI_REDIS_SERVER"],
        ),
        (&["demo", "--help"], &["--once", "--port", "6380"]),
        (
            &["doctor", "--help"],
            &["--plan", "--restore", "--json", "--root", "Exit code: 0 nothing found, 1 findings"],
        ),
    ];
    for (args, texts) in teaches {
        let help = finish(args, &[]);
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{args:?}");
        for text in texts {
            assert!(help.stdout.contains(text), "{args:?}: no {text:?} in {}", help.stdout);
        }
    }
}

#[test]
fn what_cannot_be_read_off_the_command_line_ends_with_2() {
    for args in [&[][..], &["serve"], &["run", "--listne", "127.0.0.1:1"], &["run", "--workers"]] {
        let refused = finish(args, &[]);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{args:?}");
        assert!(
            refused.stderr.contains("Usage: tsubaki") || refused.stderr.contains("--help"),
            "{refused:?}"
        );
    }
    let version = finish(&["--version"], &[]);
    assert_eq!(
        (version.code, version.stdout.as_str()),
        (Some(0), concat!("tsubaki ", env!("CARGO_PKG_VERSION"), "\n"))
    );
}
