use toml::de::{DeTable, DeValue};

use super::{Given, load_file};
use crate::settings::SETTINGS;
use crate::{Config, Overrides};

const DEFAULT_FILE: &str = include_str!("../../tsubaki.toml");
const MANUAL: &str = include_str!("../../../docs/configuration.md");

/// The default of a setting as a configuration prints it; nothing for those that have none.
fn default_text(key: &str) -> Option<String> {
    let printed = Config::default().to_string();
    let table = DeTable::parse(&printed).unwrap().into_inner();
    let (section, name) = key.split_once('.').unwrap_or(("", key));
    let span = match table.get(section).map(|value| value.get_ref()) {
        Some(DeValue::Table(section)) => section.get(name)?.span(),
        _ => table.get(name)?.span(),
    };
    Some(printed[span].to_owned())
}

#[test]
fn the_default_file_is_the_default_configuration() {
    let mut config = Given { file: Some(DEFAULT_FILE), ..Given::default() }.load().unwrap();
    config.cluster.seeds.clear();

    assert_eq!(config, Config::default());
}

#[test]
fn the_default_file_has_every_setting() {
    let mut section = String::new();
    let mut keys = Vec::new();
    for line in DEFAULT_FILE.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = format!("{name}.");
        } else if let Some((key, _)) = line.trim_start_matches("# ").split_once(" = ") {
            keys.push(format!("{section}{key}"));
        }
    }
    for setting in SETTINGS {
        assert!(keys.contains(&setting.key.to_owned()), "{} is not in tsubaki.toml", setting.key);
    }
}

#[test]
fn the_manual_has_one_row_a_setting() {
    let rows: Vec<&str> = MANUAL.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(rows.len(), SETTINGS.len());

    for (setting, row) in SETTINGS.iter().zip(rows) {
        let flag = setting.flag.map_or(String::new(), |flag| format!("`{flag}` "));
        let default = match default_text(setting.key) {
            Some(text) => format!("`{text}`"),
            None if setting.key == "cluster.seeds" => "needed".to_owned(),
            None => "none".to_owned(),
        };
        let expected = format!("| `{}` | `{}` | {flag}| {default} | ", setting.key, setting.env);
        assert!(row.starts_with(&expected), "expected {expected}\nin the row  {row}");
    }
}

#[test]
fn the_manual_shows_messages_as_they_are() {
    let errors = [
        load_file(&format!("{}[cluster]\nread_policy = \"slave\"", "\n".repeat(10))),
        Given { env: &[("TSUBAKI_LIMITS_MAX_BULK", "64xb")], ..Given::default() }.load(),
        load_file("\n\nmax_client = 1"),
    ];
    for error in errors {
        let message = error.unwrap_err().to_string();
        let message = message.trim_start_matches("etc/");
        assert!(MANUAL.lines().any(|line| line == message), "{message}");
    }
}

#[test]
fn a_printed_configuration_loads_to_itself() {
    let fancy = "listen = [\"*:6380\", \"[::1]:6381\"]\nbacklog = 9\ntcp_keepalive = \"1100ms\"\n\
                 [cluster]\nseeds = [\"Node-1:6379\", \"[fd00::1]:6379\"]\nread_policy = \"any\"\nconnections_per_node = 3\n\
                 address_map = { \"a:1\" = \"b:2\", \"fd00::1\" = \"fd00::2\", \"[fd00::1]:1\" = \"c:3\" }\n\
                 [limits]\nmax_bulk = \"3m\"\n[placement]\nmode = \"manual\"\nworkers = 3\nworkers_per_node = 2\nnodes = 1\n\
                 cores = \"5,0-1\"\ninterfaces = [\"eth0\", \"bond0.7\"]\nspare_core = true\nmemory = \"strict\"\n\
                 irq_affinity = true\nxps = \"true\"\ndespite_irqbalance = true\nstate_dir = \"/a \\\"b\\\"\"\n\
                 [admin]\nlisten = \"off\"\n\
                 [log]\nlevel = \"trace\"\nformat = \"json\"";
    for config in [load_file("").unwrap(), Given { file: Some(fancy), ..Given::default() }.load().unwrap()] {
        let printed = config.to_string();
        assert_eq!(Given { file: Some(&printed), ..Given::default() }.load().unwrap(), config, "{printed}");
    }
}

#[test]
fn a_printed_user_name_is_quoted() {
    let text = "password = \"p\"\n[cluster]\nseeds = \"a:1\"\nuser = \"o'neil\\\"\\\\\"\npassword = \"p\"";
    let config = Given { file: Some(text), ..Given::default() }.load().unwrap();
    let printed = format!("{config}");

    let env = [("TSUBAKI_PASSWORD", "p"), ("TSUBAKI_CLUSTER_PASSWORD", "p")];
    let given = Given { file: Some(&printed), env: &env, flags: Overrides::default(), files: &[] };
    assert_eq!(given.load().unwrap(), config, "{printed}");
}
