use super::{Given, load_file};
use crate::settings::{SETTINGS, Setting};
use crate::{Config, Overrides};

/// Two values of a setting that differ from each other and from its default, as text.
fn samples(key: &str) -> (&'static str, &'static str) {
    match key {
        "listen" => ("127.0.0.1:1", "127.0.0.1:2,[::1]:2"),
        "password" | "cluster.password" => ("first", "second"),
        "password_file" | "cluster.password_file" => ("/first", "/second"),
        "cluster.seeds" => ("a:1", "a:2,[::1]:2"),
        "cluster.user" => ("anna", "bert"),
        "cluster.read_policy" => ("replica", "any"),
        "cluster.address_map" => ("a=b", "a:1=b:2,c=d"),
        "placement.mode" => ("auto", "off"),
        "placement.nodes" | "placement.cores" => ("0-1", "3,5"),
        "placement.interfaces" => ("eth0", "eth1,eth2"),
        "placement.memory" => ("preferred", "strict"),
        "placement.state_dir" => ("/a", "/b"),
        "placement.spare_core"
        | "placement.irq_affinity"
        | "placement.xps"
        | "placement.despite_irqbalance" => ("false", "true"),
        "admin.listen" => ("127.0.0.1:3", "off"),
        "log.level" => ("debug", "trace"),
        "log.format" => ("text", "json"),
        "tcp_keepalive" | "shutdown_timeout" => ("2s", "3500ms"),
        "backlog"
        | "max_clients"
        | "limits.in_flight"
        | "placement.workers"
        | "placement.workers_per_node"
        | "cluster.connections_per_node" => ("7", "8"),
        "limits.query_buffer" => ("2000mb", "2gb"),
        "limits.output_buffer_total" => ("8gb", "9gb"),
        key if key.starts_with("limits.") => ("2mb", "3000k"),
        _ => ("2s", "2500ms"),
    }
}

/// What every case needs to be valid, and the setting under test where it is not among these.
fn load(setting: &Setting, file: Option<&str>, env: Option<&str>, flag: Option<&str>) -> Config {
    let text = file.map(|value| format!("{} = \"{value}\"", setting.key));
    let mut variables: Vec<(&str, &str)> = Vec::new();
    if setting.key != "cluster.seeds" {
        variables.push(("TSUBAKI_CLUSTER", "z:1"));
    }
    if setting.key == "cluster.user" {
        variables.push(("TSUBAKI_CLUSTER_PASSWORD", "x"));
    }
    variables.extend(env.map(|value| (setting.env, value)));
    let mut flags = Overrides::default();
    let slot = match setting.flag {
        Some("--listen") => Some(&mut flags.listen),
        Some("--cluster") => Some(&mut flags.cluster),
        Some("--workers") => Some(&mut flags.workers),
        Some("--admin") => Some(&mut flags.admin),
        _ => None,
    };
    if let Some(slot) = slot {
        *slot = flag.map(str::to_owned);
    }
    let files = [("/first", "1\n"), ("/second", "2\r\n")];
    let given = Given { file: text.as_deref(), env: &variables, flags, files: &files };
    given.load().unwrap_or_else(|error| panic!("{}: {error}", setting.key))
}

#[test]
fn the_environment_goes_before_the_file() {
    for setting in SETTINGS {
        let (first, second) = samples(setting.key);
        let from_file = load(setting, Some(second), None, None);

        assert_ne!(load(setting, Some(first), None, None), from_file, "{}", setting.key);
        assert_eq!(load(setting, None, Some(second), None), from_file, "{}", setting.key);
        assert_eq!(load(setting, Some(first), Some(second), None), from_file, "{}", setting.key);
    }
}

#[test]
fn flags_go_before_the_environment_and_the_file() {
    for setting in SETTINGS.iter().filter(|setting| setting.flag.is_some()) {
        let (first, second) = samples(setting.key);
        let from_file = load(setting, Some(second), None, None);

        assert_eq!(load(setting, None, None, Some(second)), from_file, "{}", setting.key);
        assert_eq!(load(setting, Some(first), Some(first), Some(second)), from_file, "{}", setting.key);
    }
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    for setting in SETTINGS {
        let (first, _) = samples(setting.key);

        assert_eq!(
            load(setting, Some(first), Some(""), None),
            load(setting, Some(first), None, None),
            "{}",
            setting.key
        );
    }
}

#[test]
fn the_later_password_wins_in_either_form() {
    let password = |file: &str, env: &[(&str, &str)]| {
        let given = Given {
            file: Some(file),
            env,
            files: &[("etc/pw", "of the file"), ("pw", "of the variable")],
            ..Given::default()
        };
        given.load().unwrap().listen.password.unwrap().expose().to_owned()
    };

    let seeds = ("TSUBAKI_CLUSTER", "a:1");
    assert_eq!(password("password_file = \"pw\"", &[seeds]), "of the file");
    assert_eq!(password("password_file = \"pw\"", &[seeds, ("TSUBAKI_PASSWORD", "text")]), "text");
    assert_eq!(password("password = \"text\"", &[seeds, ("TSUBAKI_PASSWORD_FILE", "pw")]), "of the variable");
}

#[test]
fn a_list_is_an_array_or_one_text() {
    let array = load_file("listen = [\"127.0.0.1:1\", \"[::1]:1\"]").unwrap();

    assert_eq!(load_file("listen = \"127.0.0.1:1, [::1]:1\"").unwrap(), array);
    assert_eq!(array.listen.addresses.len(), 2);
}

#[test]
fn a_number_may_be_text_and_have_any_notation() {
    let decimal = load_file("backlog = 1000").unwrap();

    assert_eq!(load_file("backlog = \"1000\"").unwrap(), decimal);
    assert_eq!(load_file("backlog = 1_000").unwrap(), decimal);
    assert_eq!(load_file("backlog = 0x3e8").unwrap(), decimal);
}

#[test]
fn a_section_may_be_written_in_every_way_of_toml() {
    let section = load_file("[log]\nlevel = \"debug\"").unwrap();

    assert_eq!(load_file("log.level = \"debug\"").unwrap(), section);
    assert_eq!(load_file("log = { level = \"debug\" }").unwrap(), section);
}

#[test]
fn an_address_map_may_be_a_section_of_its_own() {
    let inline = load_file("[cluster]\naddress_map = { \"a:1\" = \"b:2\", \"c\" = \"d\" }").unwrap();

    assert_eq!(load_file("[cluster.address_map]\n\"a:1\" = \"b:2\"\nc = \"d\"").unwrap(), inline);
    assert_eq!(inline.cluster.address_map.rewrite("a", 1).unwrap().to_string(), "b:2");
}
