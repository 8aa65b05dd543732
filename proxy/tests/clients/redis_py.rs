//! redis-py, the Python client.

use crate::SharedCluster;
use crate::script::{Script, installed, scenarios};

static CLUSTER: SharedCluster = SharedCluster::new();

fn script() -> Option<Script> {
    let python = installed("TSUBAKI_PYTHON")?;
    Some(Script {
        run: vec![python.into(), "-B".into()],
        env: Vec::new(),
        file: "redis_py.py",
        cluster: &CLUSTER,
    })
}

scenarios! { scenario:
    handshake
    keys_of_all_slots
    pipeline_of_ten_thousand_commands
    everything_sent_before_anything_is_read
    binary_keys_and_values
    value_of_ten_mebibytes
    mget_and_mset_over_all_slots
    scripts
    streams
    every_type_of_reply
    transaction_is_refused
    what_is_not_supported_leaves_the_connection
}
scenarios! { scenario_with_password: wrong_password }
scenarios! { scenario_with_restart: reconnection }
