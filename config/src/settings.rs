//! The table of all settings: one row a setting, with every name that a user can give it by.

/// One setting's names.
#[derive(Debug)]
pub(crate) struct Setting {
    /// In the file: `section.key`, or the key alone at the top.
    pub(crate) key: &'static str,
    /// In the environment.
    pub(crate) env: &'static str,
    /// On the command line, if it has a flag.
    pub(crate) flag: Option<&'static str>,
}

/// Names the configuration file; not a setting, since a file cannot name itself.
pub(crate) const CONFIG_VARIABLE: &str = "TSUBAKI_CONFIG";

pub(crate) const SETTINGS: &[Setting] = &[
    flagged("listen", "TSUBAKI_LISTEN", "--listen"),
    plain("password", "TSUBAKI_PASSWORD"),
    plain("password_file", "TSUBAKI_PASSWORD_FILE"),
    plain("backlog", "TSUBAKI_BACKLOG"),
    plain("tcp_keepalive", "TSUBAKI_TCP_KEEPALIVE"),
    plain("max_clients", "TSUBAKI_MAX_CLIENTS"),
    plain("shutdown_timeout", "TSUBAKI_SHUTDOWN_TIMEOUT"),
    flagged("cluster.seeds", "TSUBAKI_CLUSTER", "--cluster"),
    plain("cluster.user", "TSUBAKI_CLUSTER_USER"),
    plain("cluster.password", "TSUBAKI_CLUSTER_PASSWORD"),
    plain("cluster.password_file", "TSUBAKI_CLUSTER_PASSWORD_FILE"),
    plain("cluster.read_policy", "TSUBAKI_CLUSTER_READ_POLICY"),
    plain("cluster.connections_per_node", "TSUBAKI_CLUSTER_CONNECTIONS_PER_NODE"),
    plain("cluster.refresh_interval", "TSUBAKI_CLUSTER_REFRESH_INTERVAL"),
    plain("cluster.connect_timeout", "TSUBAKI_CLUSTER_CONNECT_TIMEOUT"),
    plain("cluster.wait_timeout", "TSUBAKI_CLUSTER_WAIT_TIMEOUT"),
    plain("cluster.silence_timeout", "TSUBAKI_CLUSTER_SILENCE_TIMEOUT"),
    plain("cluster.address_map", "TSUBAKI_CLUSTER_ADDRESS_MAP"),
    plain("limits.query_buffer", "TSUBAKI_LIMITS_QUERY_BUFFER"),
    plain("limits.max_bulk", "TSUBAKI_LIMITS_MAX_BULK"),
    plain("limits.in_flight", "TSUBAKI_LIMITS_IN_FLIGHT"),
    plain("limits.in_flight_bytes", "TSUBAKI_LIMITS_IN_FLIGHT_BYTES"),
    plain("limits.output_buffer", "TSUBAKI_LIMITS_OUTPUT_BUFFER"),
    plain("limits.output_buffer_total", "TSUBAKI_LIMITS_OUTPUT_BUFFER_TOTAL"),
    plain("placement.mode", "TSUBAKI_PLACEMENT_MODE"),
    flagged("placement.workers", "TSUBAKI_WORKERS", "--workers"),
    plain("placement.workers_per_node", "TSUBAKI_PLACEMENT_WORKERS_PER_NODE"),
    plain("placement.nodes", "TSUBAKI_PLACEMENT_NODES"),
    plain("placement.cores", "TSUBAKI_PLACEMENT_CORES"),
    plain("placement.interfaces", "TSUBAKI_PLACEMENT_INTERFACES"),
    plain("placement.spare_core", "TSUBAKI_PLACEMENT_SPARE_CORE"),
    plain("placement.memory", "TSUBAKI_PLACEMENT_MEMORY"),
    plain("placement.irq_affinity", "TSUBAKI_PLACEMENT_IRQ_AFFINITY"),
    plain("placement.xps", "TSUBAKI_PLACEMENT_XPS"),
    plain("placement.despite_irqbalance", "TSUBAKI_PLACEMENT_DESPITE_IRQBALANCE"),
    plain("placement.state_dir", "TSUBAKI_PLACEMENT_STATE_DIR"),
    flagged("admin.listen", "TSUBAKI_ADMIN", "--admin"),
    plain("log.level", "TSUBAKI_LOG_LEVEL"),
    plain("log.format", "TSUBAKI_LOG_FORMAT"),
];

impl Setting {
    pub(crate) fn by_key(key: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.key == key)
    }

    pub(crate) fn by_env(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.env == name)
    }

    /// The known key that a misspelt or misplaced one most likely means.
    pub(crate) fn nearest_key(key: &str) -> &'static str {
        nearest(
            key,
            |setting| setting.key,
            |known| if leaf(known) == leaf(key) { 1 } else { distance(known, key) },
        )
    }

    /// The known variable that a misspelt one most likely means.
    pub(crate) fn nearest_env(name: &str) -> &'static str {
        nearest(name, |setting| setting.env, |known| distance(known, name))
    }
}

/// Whether `name` is a section of the file.
pub(crate) fn is_section(name: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.key.split_once('.').is_some_and(|(section, _)| section == name))
}

/// Whether a variable that begins with `TSUBAKI_` is not meant as a setting.
///
/// Kubernetes hands every pod the addresses of the services in its namespace (`TSUBAKI_SERVICE_HOST`,
/// `TSUBAKI_PORT_6380_TCP` …): a service that is called tsubaki must not stop the proxy from starting.
pub(crate) fn is_foreign(name: &str, value: &str) -> bool {
    const OF_OTHER_COMMANDS: [&str; 6] = [
        CONFIG_VARIABLE,
        "TSUBAKI_REDIS_SERVER",
        "TSUBAKI_VALKEY_SERVER",
        "TSUBAKI_REQUIRE_SERVERS",
        "TSUBAKI_PYTHON",
        "TSUBAKI_NODE_MODULES",
    ];
    const OF_TESTS: [&str; 3] = ["TSUBAKI_TEST_", "TSUBAKI_SIM_", "TSUBAKI_BENCH_"];

    OF_OTHER_COMMANDS.contains(&name)
        || OF_TESTS.iter().any(|prefix| name.starts_with(prefix))
        || name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.contains("_PORT_")
        || (name.ends_with("_PORT") && value.contains("://"))
}

const fn plain(key: &'static str, env: &'static str) -> Setting {
    Setting { key, env, flag: None }
}

const fn flagged(key: &'static str, env: &'static str, flag: &'static str) -> Setting {
    Setting { key, env, flag: Some(flag) }
}

fn leaf(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn nearest(word: &str, name: fn(&Setting) -> &'static str, far: impl Fn(&str) -> usize) -> &'static str {
    SETTINGS.iter().map(name).min_by_key(|known| (far(known), distance(known, word))).unwrap_or_default()
}

/// Levenshtein distance in bytes: how many letters to insert, delete or replace.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (y, cell) in b.bytes().zip(row.iter_mut().skip(1)) {
            let best = (diagonal + usize::from(x != y)).min(left + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_letters() {
        for (a, b, letters) in
            [("", "", 0), ("abc", "", 3), ("", "abc", 3), ("abc", "abc", 0), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(a, b), letters, "{a} {b}");
        }
    }

    #[test]
    fn names_are_unique() {
        for (i, a) in SETTINGS.iter().enumerate() {
            for b in &SETTINGS[i + 1..] {
                assert_ne!(a.key, b.key);
                assert_ne!(a.env, b.env);
                assert!(a.flag.is_none() || a.flag != b.flag);
            }
        }
    }

    #[test]
    fn a_misspelt_or_misplaced_key_finds_the_one_that_was_meant() {
        assert_eq!(Setting::nearest_key("limits.max_blk"), "limits.max_bulk");
        assert_eq!(Setting::nearest_key("max_bulk"), "limits.max_bulk");
        assert_eq!(Setting::nearest_key("cluster.max_clients"), "max_clients");
        assert_eq!(Setting::nearest_key("admin.password"), "password");
        assert_eq!(Setting::nearest_env("TSUBAKI_WORKER"), "TSUBAKI_WORKERS");
    }

    #[test]
    fn no_setting_is_mistaken_for_a_variable_of_others() {
        for setting in SETTINGS {
            assert!(!is_foreign(setting.env, "tcp://10.0.0.1:6380"), "{}", setting.env);
        }
    }
}
