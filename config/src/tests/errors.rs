use proptest::prelude::proptest;

use super::{Given, load_file};
use crate::Overrides;
use crate::settings::SETTINGS;

const LISTEN: &str = "ADDRESS:PORT with an IP address (IPv6 in brackets) \
    or * for every address, such as 127.0.0.1:6380 or *:6380";
const SEED: &str = "HOST:PORT (IPv6 in brackets), without scheme or password, such as 10.0.0.1:6379";
const SIZE: &str = "a size such as 64mb, 1gb or 65536 (bytes)";
const TIME: &str = "a time such as 1500ms, 15s or 1500 (milliseconds)";
const PASSWORD: &str =
    "a quoted text that is not empty and has no line break; leave the key out for no password";
const MAP: &str = "\"HOST:PORT\" = \"HOST:PORT\" or \"HOST\" = \"HOST\", each announced address once";

const CPUS: &str = "numbers and ranges such as 0-3,8, each number once and up to 8191";
const INTERFACES: &str = "names of network interfaces such as eth0";

/// What the file holds, and the message after the file's name and colon.
fn assert_refused(file: &str, message: &str) {
    let error = load_file(file).expect_err(file).to_string();
    assert_eq!(error, format!("etc/tsubaki.toml:{message}"), "{file}");
}

#[test]
fn a_file_that_is_no_toml() {
    assert_refused("listen = \"*:1\"\nbacklog = = 1\n", "2:11: not valid TOML: extra `=`, expected nothing");
    assert_refused("backlog = 1\nbacklog = 2\n", "2:1: not valid TOML: duplicate key");
}

#[test]
fn an_unknown_key_names_the_nearest() {
    assert_refused("\nmax_client = 1", "2: unknown key max_client: the nearest is max_clients");
    assert_refused("[limits]\nmax_blk = 1", "2: unknown key limits.max_blk: the nearest is limits.max_bulk");
    assert_refused(
        "[cluster]\nmax_clients = 1",
        "2: unknown key cluster.max_clients: the nearest is max_clients",
    );
    assert_refused("[limit]\nmax_bulk = 1", "1: unknown key limit: the nearest is listen");
    assert_refused("limits = 1", "1: unknown key limits: the nearest is listen");
}

#[test]
fn a_value_of_the_wrong_kind_or_out_of_bounds() {
    for (file, shown, allowed) in [
        ("listen = \"6380\"", "1: listen = \"6380\"", LISTEN),
        ("listen = 6380", "1: listen = 6380", LISTEN),
        ("listen = []", "1: listen = []", LISTEN),
        ("listen = [\"*:1\",\n\"localhost:1\"]", "1: listen = \"localhost:1\"", LISTEN),
        ("listen = [\"*:1\", true]", "1: listen = true", LISTEN),
        ("backlog = 0", "1: backlog = 0", "a whole number, from 1 to 65535"),
        ("backlog = -1", "1: backlog = -1", "a whole number, from 1 to 65535"),
        ("backlog = 1.5", "1: backlog = 1.5", "a whole number, from 1 to 65535"),
        ("backlog = 0x10000", "1: backlog = 65536", "a whole number, from 1 to 65535"),
        ("max_clients = 1979-05-27", "1: max_clients = 1979-05-27", "a whole number, from 1 to 10000000"),
        (
            "max_clients = 99999999999999999999",
            "1: max_clients = 99999999999999999999",
            "a whole number, from 1 to 10000000",
        ),
        ("[cluster]\nseeds = [\"10.0.0.1\"]", "2: cluster.seeds = \"10.0.0.1\"", SEED),
        ("[cluster]\nseeds = \"a:1,\"", "2: cluster.seeds = \"\"", SEED),
        ("[cluster]\nuser = \"a b\"", "2: cluster.user = \"a b\"", "a quoted user name without blanks"),
        (
            "[cluster]\nread_policy = \"slave\"",
            "2: cluster.read_policy = \"slave\"",
            "one of master, prefer-replica, replica, any",
        ),
        ("[cluster]\naddress_map = { a = 1 }", "2: cluster.address_map = 1", MAP),
        ("[cluster]\naddress_map = { \"a:1\" = \"b\" }", "2: cluster.address_map = \"a:1=b\"", MAP),
        ("[cluster]\naddress_map = { a = \"b:1\" }", "2: cluster.address_map = \"a=b:1\"", MAP),
        ("[cluster]\naddress_map = { a = \"b\", A = \"c\" }", "2: cluster.address_map = \"a=b\"", MAP),
        ("[cluster]\naddress_map = \"a\"", "2: cluster.address_map = \"a=\"", MAP),
        ("[placement]\nmode = true", "2: placement.mode = true", "one of off, auto, manual"),
        (
            "[placement]\nworkers = \"all\"",
            "2: placement.workers = \"all\"",
            "a whole number, from 0 to 1024",
        ),
        ("[placement]\ncores = \"3-1\"", "2: placement.cores = \"3-1\"", CPUS),
        ("[placement]\nnodes = [0]", "2: placement.nodes = […]", CPUS),
        ("[placement]\ninterfaces = \"eth0,a/b\"", "2: placement.interfaces = \"a/b\"", INTERFACES),
        ("[placement]\nmemory = \"bind\"", "2: placement.memory = \"bind\"", "one of preferred, strict"),
        ("[placement]\nxps = 1", "2: placement.xps = 1", "true or false"),
        ("[placement]\nxps = \"yes\"", "2: placement.xps = \"yes\"", "true or false"),
        ("[placement]\nstate_dir = \"\"", "2: placement.state_dir = \"\"", "the path of a folder"),
        ("[log]\nlevel = \"INFO\"", "2: log.level = \"INFO\"", "one of error, warn, info, debug, trace"),
        ("[log]\nformat = \"xml\"", "2: log.format = \"xml\"", "one of text, json"),
    ] {
        assert_refused(file, &format!("{shown} is not allowed: use {allowed}"));
    }
    assert_refused(
        "[admin]\nlisten = \"on\"",
        &format!("2: admin.listen = \"on\" is not allowed: use {LISTEN}; or off"),
    );
}

#[test]
fn a_size_or_time_out_of_bounds() {
    for (section, key, value, shown, range) in [
        ("", "tcp_keepalive", "60", "60", "1s to 7200s"),
        ("", "shutdown_timeout", "\"2h\"", "\"2h\"", "100ms to 3600s"),
        ("cluster", "refresh_interval", "10", "10", "100ms to 3600s"),
        ("cluster", "connect_timeout", "\"61s\"", "\"61s\"", "100ms to 60s"),
        ("cluster", "wait_timeout", "0", "0", "100ms to 60s"),
        ("cluster", "silence_timeout", "15", "15", "100ms to 600s"),
        ("limits", "query_buffer", "\"4gb\"", "\"4gb\"", "1mb to 2gb"),
        ("limits", "max_bulk", "\"64xb\"", "\"64xb\"", "1mb to 2gb"),
        ("limits", "in_flight_bytes", "1024", "1024", "64kb to 1024gb"),
        ("limits", "output_buffer", "\"63kb\"", "\"63kb\"", "64kb to 1024gb"),
        ("limits", "output_buffer_total", "\"99999999999gb\"", "\"99999999999gb\"", "64kb to 1024gb"),
    ] {
        let (file, key) = match section {
            "" => (format!("\n{key} = {value}"), key.to_owned()),
            _ => (format!("[{section}]\n{key} = {value}"), format!("{section}.{key}")),
        };
        let form = if section == "limits" { SIZE } else { TIME };
        assert_refused(&file, &format!("2: {key} = {shown} is not allowed: use {form}, from {range}"));
    }
    for (section, key, value, range) in
        [("limits", "in_flight", 0, "1 to 1000000"), ("cluster", "connections_per_node", 65, "1 to 64")]
    {
        assert_refused(
            &format!("[{section}]\n{key} = {value}"),
            &format!("2: {section}.{key} = {value} is not allowed: use a whole number, from {range}"),
        );
    }
}

#[test]
fn a_long_value_is_cut() {
    let long = "é".repeat(1000);
    let message = format!(
        "2: log.level = \"{}…\" is not allowed: use one of error, warn, info, debug, trace",
        "é".repeat(64)
    );
    assert_refused(&format!("[log]\nlevel = \"{long}\""), &message);
}

#[test]
fn a_password_that_is_none() {
    for (file, place) in [
        ("password = \"\"", "1: password"),
        ("password = 12345", "1: password"),
        ("password = \"a\\nb\"", "1: password"),
        ("[cluster]\npassword = [\"a\"]", "2: cluster.password"),
    ] {
        assert_refused(file, &format!("{place} is not allowed: use {PASSWORD}"));
    }
    assert_refused(
        "password_file = 1",
        "1: password_file = 1 is not allowed: use the path of a file that holds the password",
    );
    assert_refused(
        "password = \"a\"\npassword_file = \"b\"",
        "1: password and etc/tsubaki.toml:2: password_file are both given: keep one of them",
    );
    assert_refused(
        "[cluster]\npassword_file = \"x\"",
        "2: cluster.password_file = \"etc/x\" cannot be read: entity not found: name a file that the proxy may read",
    );
}

#[test]
fn a_password_file_without_one_password() {
    for content in ["", "\n", "a\nb"] {
        let given =
            Given { file: Some("password_file = \"pw\""), files: &[("etc/pw", content)], ..Given::default() };
        assert_eq!(
            given.load().unwrap_err().to_string(),
            "etc/tsubaki.toml:1: password_file = \"etc/pw\": \
             the file must hold the password on one line, and nothing else"
        );
    }
}

#[test]
fn values_that_contradict_each_other() {
    for (file, message) in [
        (
            "listen = [\"*:6380\", \"127.0.0.1:6380\"]",
            "listen has *:6380 and 127.0.0.1:6380, which overlap: keep one of them",
        ),
        (
            "listen = \"0.0.0.0:16380\"",
            "admin.listen is 127.0.0.1:16380, which overlaps with 0.0.0.0:16380 in listen: \
             give it another port, or \"off\"",
        ),
        (
            "cluster.user = \"app\"",
            "cluster.user is \"app\" but there is no password: \
             set cluster.password or cluster.password_file, or leave out cluster.user",
        ),
        (
            "limits.query_buffer = \"100mb\"",
            "limits.query_buffer is 100mb, less than limits.max_bulk, which is 512mb: \
             a request must be able to hold its longest argument; raise the first or lower the second",
        ),
        (
            "limits.output_buffer = \"5gb\"",
            "limits.output_buffer_total is 4gb, less than limits.output_buffer, which is 5gb: \
             all clients together must be allowed what one is; raise the first or lower the second",
        ),
    ] {
        assert_eq!(load_file(file).expect_err(file).to_string(), message);
    }
}

#[test]
fn no_seed_anywhere() {
    for env in [&[][..], &[("TSUBAKI_CLUSTER", "")]] {
        assert_eq!(
            Given { env, ..Given::default() }.load().unwrap_err().to_string(),
            "cluster.seeds is missing: name at least one node of the cluster as HOST:PORT, in the file, \
             in TSUBAKI_CLUSTER or with --cluster"
        );
    }
}

#[test]
fn variables_and_flags_are_named_with_their_keys() {
    let load = |env, flags| Given { env, flags, ..Given::default() }.load().unwrap_err().to_string();

    assert_eq!(
        load(&[("TSUBAKI_LIMITS_MAX_BULK", "1")], Overrides::default()),
        format!(
            "TSUBAKI_LIMITS_MAX_BULK (limits.max_bulk) = \"1\" is not allowed: use {SIZE}, from 1mb to 2gb"
        )
    );
    assert_eq!(
        load(&[], Overrides { workers: Some("x".to_owned()), ..Overrides::default() }),
        "--workers (placement.workers) = \"x\" is not allowed: use a whole number, from 0 to 1024"
    );
    assert_eq!(
        load(&[], Overrides { cluster: Some("a:1,b".to_owned()), ..Overrides::default() }),
        format!("--cluster (cluster.seeds) = \"b\" is not allowed: use {SEED}")
    );
    assert_eq!(
        load(&[("TSUBAKI_PASSWORD", "a"), ("TSUBAKI_PASSWORD_FILE", "b")], Overrides::default()),
        "TSUBAKI_PASSWORD (password) and TSUBAKI_PASSWORD_FILE (password_file) are both given: keep one of them"
    );
}

#[test]
fn an_unknown_variable_names_the_nearest() {
    assert_eq!(
        Given { env: &[("TSUBAKI_WORKER", "2")], ..Given::default() }.load().unwrap_err().to_string(),
        "unknown variable TSUBAKI_WORKER: the nearest is TSUBAKI_WORKERS"
    );
}

#[test]
fn variables_of_others_are_left_alone() {
    let env = [
        ("PATH", "/bin"),
        ("TSUBAKI_CLUSTER", "a:1"),
        ("TSUBAKI_CONFIG", "x.toml"),
        ("TSUBAKI_SERVICE_HOST", "10.0.0.1"),
        ("TSUBAKI_SERVICE_PORT_REDIS", "6380"),
        ("TSUBAKI_PORT", "tcp://10.0.0.1:6380"),
        ("TSUBAKI_PORT_6380_TCP_ADDR", "10.0.0.1"),
        ("TSUBAKI_ADMIN_SERVICE_PORT", "16380"),
    ];
    Given { env: &env, ..Given::default() }.load().unwrap();
}

#[test]
fn every_setting_is_read_and_checked() {
    for setting in SETTINGS {
        let error = load_file(&format!("{} = {{ no = {{ value = 1 }} }}", setting.key))
            .expect_err(setting.key)
            .to_string();
        assert!(error.starts_with(&format!("etc/tsubaki.toml:1: {} ", setting.key)), "{error}");
    }
}

#[test]
fn nesting_without_end_is_refused() {
    for (open, close) in [("[", "]"), ("{ a = ", "}")] {
        let file = format!("listen = {}1{}", open.repeat(100_000), close.repeat(100_000));
        load_file(&file).map(|_| ()).expect_err("deep nesting");
    }
}

proptest! {
    #[test]
    fn no_file_and_no_variable_panics(
        file in r#"(\[(limits|cluster|x)\]\n)?(listen|max_bulk|seeds|address_map|password|y) ?=.{0,40}"#,
        value in ".{1,40}",
    ) {
        let _ = load_file(&file);
        for setting in SETTINGS {
            let _ = Given { env: &[(setting.env, &value)], ..Given::default() }.load();
        }
    }
}

#[test]
fn manual_placement_that_names_no_cores_or_too_few() {
    let refusal =
        |text: &str| load_file(&format!("[placement]\nmode = \"manual\"\n{text}")).unwrap_err().to_string();
    assert_eq!(
        refusal(""),
        "placement.mode is manual but placement.cores is empty: name each worker's CPU, such as \"0-3\", \
         or set placement.mode to auto"
    );
    assert_eq!(
        refusal("cores = \"2,4\"\nworkers = 3"),
        "placement.workers is 3 but placement.cores names 2: in manual mode each worker has one of them; \
         make them as many, or leave out placement.workers"
    );
}
