//! Large values, small enough that a test is quick.

use super::{B, Client, Cluster};

/// A value above it is large, in bytes.
pub(crate) const LARGE: usize = 10_000;

pub(crate) fn cluster() -> Cluster {
    Cluster::with(|settings| settings.large_value = LARGE)
}

/// A body of so many bytes, of which no part looks like another.
pub(crate) fn body(len: usize) -> String {
    (0..)
        .map(|number: u32| format!("{number:06}-"))
        .flat_map(|word| word.into_bytes())
        .take(len)
        .map(char::from)
        .collect()
}

/// The client sends `SET b`, its node is asked and would take it; the rest of the request comes back.
pub(crate) fn begin_request(cluster: &Cluster, client: &Client, request: &[u8], given: usize) -> Vec<u8> {
    client.send_bytes(&request[..given]);
    cluster.node(B).serve("EXISTS b", ":0\r\n");
    cluster.node(B).expect_bytes(&request[..given]);
    request[given..].to_vec()
}
