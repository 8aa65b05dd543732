//! redis-cli and redis-benchmark, which come with redis-server.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use crate::harness::client::push_command;
use crate::harness::proxy::Proxy;
use crate::{PASSWORD, SharedCluster, proxy};

static CLUSTER: SharedCluster = SharedCluster::new();

fn run(program: &str, proxy: &Proxy, args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(program)
        .args(["-p", &proxy.addr().port().to_string()])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// What it printed; it must end well.
fn printed(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn commands_typed_one_after_the_other() {
    let Some(cluster) = CLUSTER.running() else { return };
    for (password, flags) in [
        ("", &["-2"][..]),
        ("", &["-3"]),
        (PASSWORD, &["-2", "-a", PASSWORD]),
        (PASSWORD, &["-3", "-a", PASSWORD]),
    ] {
        let proxy = proxy(cluster, password);
        let input = "DEL cli:n cli:h cli:a\nSET cli:a \"two words\"\nGET cli:a\nINCR cli:n\nHSET cli:h f 1\nHGETALL cli:h\n\
                     MGET cli:a cli:n\nGET\nNOSUCH a b\nCLUSTER INFO\nSELECT 1\nSELECT 0\nPING\n";
        let lines = printed(&run("redis-cli", &proxy, flags, input.as_bytes()));
        let lines: Vec<&str> = lines.lines().skip(1).filter(|line| !line.is_empty()).collect();
        let expected = ["OK", "two words", "1", "1", if flags.contains(&"-3") { "f 1" } else { "f" }];
        assert_eq!(lines[..expected.len()], expected, "{flags:?}: {lines:?}");
        for error in [
            "ERR wrong number of arguments for 'get' command",
            "ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' ",
            "ERR This instance has cluster support disabled",
            "ERR DB index is out of range",
        ] {
            assert!(lines.contains(&error), "{flags:?}: no {error:?} in {lines:?}");
        }
        assert_eq!(lines.last(), Some(&"PONG"));
    }
}

#[test]
fn what_a_terminal_asks_for_at_its_start() {
    let Some(cluster) = CLUSTER.running() else { return };
    let proxy = proxy(cluster, "");
    // For the hints, and the prompt.
    let docs = printed(&run("redis-cli", &proxy, &["COMMAND", "DOCS", "get"], b""));
    assert!(docs.contains("Get the value of a key") || docs.contains("summary"), "{docs}");
    let info = printed(&run("redis-cli", &proxy, &["INFO", "server"], b""));
    assert!(info.contains("redis_version:"), "{info}");
}

#[test]
fn mass_insertion_through_a_pipe() {
    let Some(cluster) = CLUSTER.running() else { return };
    let proxy = proxy(cluster, PASSWORD);
    let mut input = Vec::new();
    for number in 0..20_000 {
        push_command(&mut input, &["SET", &format!("mass:{number}"), &number.to_string()]);
    }
    let said = printed(&run("redis-cli", &proxy, &["-a", PASSWORD, "--pipe"], &input));
    assert!(said.contains("errors: 0, replies: 20000"), "{said}");
    let found = printed(&run("redis-cli", &proxy, &["-a", PASSWORD, "MGET", "mass:0", "mass:19999"], b""));
    assert_eq!(found, "0\n19999\n");
}

#[test]
fn redis_benchmark_with_its_own_tests() {
    let Some(cluster) = CLUSTER.running() else { return };
    let proxy = proxy(cluster, PASSWORD);
    for more in [&["-P", "16"][..], &["--threads", "2"], &["-3"]] {
        let common = ["-a", PASSWORD, "-q", "-n", "2000", "-c", "20", "-r", "1000"];
        let output = run("redis-benchmark", &proxy, &[&common, more].concat(), b"");
        let said = printed(&output) + &String::from_utf8_lossy(&output.stderr);
        for test in ["PING_INLINE: ", "SET: ", "GET: ", "LRANGE_600 ", "MSET (10 keys): "] {
            assert!(said.contains(test), "no {test:?} in {said}");
        }
        assert!(!said.contains("WARNING: Could not fetch") && !said.to_lowercase().contains("err"), "{said}");
    }
}
