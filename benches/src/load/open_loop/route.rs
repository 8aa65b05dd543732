//! Which connection of a client a key goes to: its only one, or that to the master of the key's slot.
//!
//! Must not know: clients, sockets of the load.

use anyhow::Context as _;
use tsubaki_protocol::{
    cluster::{NodeRecord, Role, nodes},
    slot::{SLOTS, Slot},
};

use crate::{connection::Connection, load::Target};

/// The ports that each client connects to, and which of them serves a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Route {
    ports: Vec<u16>,
    /// The place in `ports` by slot; empty: there is only one.
    masters: Vec<u8>,
}

impl Route {
    /// To the target itself; or, where that is a node of a cluster, to the masters that it names.
    pub(super) fn to(target: &Target) -> anyhow::Result<Self> {
        if !target.cluster {
            return Ok(Self { ports: vec![target.port], masters: Vec::new() });
        }
        let mut connection = Connection::open(target.port)?;
        if let Some(password) = &target.password {
            connection.call(&["AUTH", password])?;
        }
        Self::by_slot(&nodes::parse(&connection.call(&["CLUSTER", "NODES"])?)?)
    }

    fn by_slot(nodes: &[NodeRecord]) -> anyhow::Result<Self> {
        let mut route = Self { ports: Vec::new(), masters: Vec::new() };
        let mut masters = vec![None; SLOTS];
        for node in nodes.iter().filter(|node| node.role == Role::Master && !node.slots.is_empty()) {
            let place = u8::try_from(route.ports.len()).context("more than 256 masters")?;
            route.ports.push(node.port);
            for slot in node.slots.iter().cloned().flatten() {
                masters[usize::from(slot)] = Some(place);
            }
        }
        route.masters =
            masters.into_iter().collect::<Option<_>>().context("the cluster has slots without a master")?;
        Ok(route)
    }

    /// What each client connects to.
    pub(super) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// The place in [`ports`](Self::ports) of what serves `key`.
    pub(super) fn place(&self, key: &[u8]) -> usize {
        if self.masters.is_empty() { 0 } else { usize::from(self.masters[Slot::of(key).index()]) }
    }
}

#[cfg(test)]
mod tests {
    use tsubaki_protocol::cluster::nodes;

    use super::Route;

    const NODES: &str = "\
aa 127.0.0.1:7001@17001 myself,master - 0 0 1 connected 0-8191\n\
bb 127.0.0.1:7002@17002 slave aa 0 0 1 connected\n\
cc 127.0.0.1:7003@17003 master - 0 0 2 connected 8192-16383\n";

    #[test]
    fn a_key_goes_to_its_slots_master() {
        let route = Route::by_slot(&nodes::parse(NODES).unwrap()).unwrap();
        assert_eq!(route.ports(), [7001, 7003]);
        // Slots 3300 and 12182.
        assert_eq!((route.place(b"b"), route.place(b"foo")), (0, 1));
    }

    #[test]
    fn a_cluster_with_a_hole_is_no_target() {
        let nodes = nodes::parse(&NODES.replace("8192-16383", "8193-16383")).unwrap();
        assert!(Route::by_slot(&nodes).is_err());
    }
}
