//! ioredis, the Node.js client.

use crate::SharedCluster;
use crate::script::{Script, installed, scenarios};

static CLUSTER: SharedCluster = SharedCluster::new();

fn script() -> Option<Script> {
    let modules = installed("TSUBAKI_NODE_MODULES")?;
    Some(Script {
        run: vec!["node".into()],
        env: vec![("NODE_PATH", modules.into())],
        file: "ioredis.mjs",
        cluster: &CLUSTER,
    })
}

scenarios! { scenario:
    handshake
    keys_of_all_slots
    pipeline_of_ten_thousand_commands
    commands_pipelined_by_themselves
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
