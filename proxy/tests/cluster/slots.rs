//! Moves slots between nodes as operators' tools do: SETSLOT at both, MIGRATE batch by batch, SETSLOT again.

use tsubaki::dev_cluster::{Client, DevCluster, Reply};
use tsubaki_protocol::slot::Slot;

/// A connection to each master, to give orders without delay.
pub(crate) struct Mover {
    masters: Vec<Master>,
}

struct Master {
    client: Client,
    id: String,
    port: String,
}

/// Tags whose slots the first master has, one slot each.
pub(crate) fn tags_of_the_first_master(cluster: &DevCluster, count: usize) -> Vec<String> {
    tags_of(cluster, 0, count)
}

/// Tags whose slots `master` was built with, one slot each.
pub(crate) fn tags_of(cluster: &DevCluster, master: usize, count: usize) -> Vec<String> {
    (0..)
        .map(|number| format!("tag-{number}"))
        .filter(|tag| cluster.master_of(tag.as_bytes()) == master)
        .take(count)
        .collect()
}

impl Mover {
    pub(crate) fn new(cluster: &DevCluster) -> Self {
        let masters = cluster.nodes().iter().enumerate().filter(|(_, node)| node.slots().is_some());
        let masters = masters.map(|(i, node)| {
            let mut client = cluster.connect(i).unwrap();
            let id = client.call(&["CLUSTER", "MYID"]).unwrap().text().unwrap();
            Master { client, id, port: node.addr().port().to_string() }
        });
        Self { masters: masters.collect() }
    }

    /// Moves the slot of `tag` with all that is in it, `batch()` keys at a time. Returns how many keys it held.
    pub(crate) fn move_slot(
        &mut self,
        tag: &str,
        from: usize,
        to: usize,
        mut batch: impl FnMut() -> usize,
    ) -> usize {
        let slot = Slot::of(tag.as_bytes()).index().to_string();
        let (from_id, to_id) = (self.masters[from].id.clone(), self.masters[to].id.clone());
        self.order(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
        self.order(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
        let port = self.masters[to].port.clone();
        let mut moved = 0;
        loop {
            let count = batch().to_string();
            let reply = self.masters[from].client.call(&["CLUSTER", "GETKEYSINSLOT", &slot, &count]).unwrap();
            let Reply::Array(keys) = reply else { panic!("GETKEYSINSLOT was answered with {reply:?}") };
            if keys.is_empty() {
                break;
            }
            moved += keys.len();
            let keys: Vec<String> = keys.iter().map(|key| key.text().unwrap()).collect();
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "10000", "KEYS"];
            migrate.extend(keys.iter().map(String::as_str));
            self.order(from, &migrate);
        }
        // The new owner first, so that nobody refers to a node that does not know of its luck yet.
        for master in [to, from].into_iter().chain((0..self.masters.len()).filter(|i| *i != from && *i != to))
        {
            self.order(master, &["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]);
        }
        moved
    }

    fn order(&mut self, master: usize, command: &[&str]) {
        let reply = self.masters[master].client.call(command).unwrap();
        assert!(!matches!(reply, Reply::Error(_)), "{command:?} was answered with {reply:?}");
    }
}
