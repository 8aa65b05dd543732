//! Many threads and nodes, long values, long pipelines.

use tsubaki::dev_cluster::{Options, Server};

use crate::harness::client::{Client, Reply, push_command};
use crate::harness::proxy::{Proxy, Start};
use crate::harness::{cluster, required};
use crate::load::Load;
use crate::slots::tags_of;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// `len` bytes that say which value they are of, so that a value that is cut, shifted or of another key shows.
fn value(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 31 + at / 251 + seed * 7) % 256) as u8).collect()
}

fn assert_bulk(reply: &Reply, expected: &[u8], what: &str) {
    let body = reply.bulk().unwrap_or_else(|| panic!("{what}: {reply:?}"));
    let same = body.iter().zip(expected).take_while(|(a, b)| a == b).count();
    assert!(
        body == expected,
        "{what}: {} bytes of {} came, {same} of them right",
        body.len(),
        expected.len()
    );
}

#[test]
fn four_workers_serve_nine_masters() {
    let Some(server) = required(Server::redis()) else { return };
    let cluster = cluster(Options { masters: 9, ..Options::new(server) });
    let start = Start::before(&cluster.seeds()).set("TSUBAKI_WORKERS", "4");
    let proxy = start.set("TSUBAKI_PLACEMENT_MODE", "off").ready();
    let tags: Vec<String> = (0..9).flat_map(|master| tags_of(&cluster, master, 1)).collect();
    let load = Load::start(proxy.addr(), 72, &tags);
    load.wait_for(100_000);
    let seen = load.finish();
    assert_eq!(seen.errors, crate::model::Errors::default());
    let exists: Vec<String> = std::iter::once("EXISTS".to_owned()).chain(tags).collect();
    for mut client in (0..72).map(|_| proxy.connect()) {
        assert_eq!(client.call(&exists).integer(), Some(0));
    }
    // Each worker has a connection to each master.
    assert_eq!(proxy.metric("tsubaki_node_connections", ""), 4 * 9);
    proxy.stop();
}

fn values_around_buffer_sizes_come_back_whole(client: &mut Client) {
    let sizes: Vec<usize> =
        [16, 32, 64, 128].iter().flat_map(|kib| kib * KIB - 64..=kib * KIB + 64).collect();
    for sizes in sizes.chunks(50) {
        let mut pipeline = Vec::new();
        for len in sizes {
            push_command(&mut pipeline, &[b"SET", key(*len).as_bytes(), &value(*len, *len)]);
        }
        sizes.iter().for_each(|len| push_command(&mut pipeline, &["GET".to_owned(), key(*len)]));
        let mget: Vec<String> =
            std::iter::once("MGET".to_owned()).chain(sizes.iter().map(|len| key(*len))).collect();
        push_command(&mut pipeline, &mget);
        client.send(&pipeline);
        for len in sizes {
            assert!(client.receive().is_ok(), "SET of {len} bytes");
        }
        for len in sizes {
            assert_bulk(&client.receive(), &value(*len, *len), "GET");
        }
        for (len, reply) in sizes.iter().zip(client.receive().elements()) {
            assert_bulk(&reply, &value(*len, *len), "MGET");
        }
    }
}

fn key(len: usize) -> String {
    format!("long-{len}")
}

#[test]
fn values_around_the_sizes_of_buffers_come_back_whole() {
    let Some(server) = required(Server::redis()) else { return };
    let cluster = cluster(Options::new(server));
    let proxy = Proxy::before(&cluster);
    let mut client = proxy.connect();
    values_around_buffer_sizes_come_back_whole(&mut client);
    client.hello_3();
    values_around_buffer_sizes_come_back_whole(&mut client);
    proxy.stop();
}

#[test]
fn empty_and_huge_values_keep_their_place_in_a_pipeline() {
    let Some(server) = required(Server::redis()) else { return };
    let cluster = cluster(Options::new(server));
    let proxy = Proxy::before(&cluster);
    let mut client = proxy.connect();
    let huge = value(10 * MIB, 1);

    let mut pipeline = Vec::new();
    for command in [
        &[&b"SET"[..], b"before", b"1"][..],
        &[b"SET", b"a", b""],
        &[b"SET", b"huge", &huge],
        &[b"SET", b"", b"of the empty key"],
        &[b"GET", b"a"],
        &[b"GET", b"huge"],
        &[b"MGET", b"before", b"a", b"huge", b"none", b""],
        &[b"STRLEN", b"huge"],
        &[b"GET", b"before"],
    ] {
        push_command(&mut pipeline, command);
    }
    client.send(&pipeline);

    for what in ["before", "a", "huge", "the empty key"] {
        assert!(client.receive().is_ok(), "SET of {what}");
    }
    assert_eq!(client.receive().bulk(), Some(&b""[..]));
    assert_bulk(&client.receive(), &huge, "GET");
    let all = client.receive().elements();
    assert_eq!((all[0].bulk(), all[1].bulk()), (Some(&b"1"[..]), Some(&b""[..])));
    assert_bulk(&all[2], &huge, "MGET");
    assert!(all[3].is_nil());
    assert_eq!(all[4].bulk(), Some(&b"of the empty key"[..]));
    assert_eq!(client.receive().integer(), Some(10 * MIB as i64));
    assert_eq!(client.receive().bulk(), Some(&b"1"[..]));
    proxy.stop();
}

#[test]
fn a_client_may_send_everything_before_it_reads_anything() {
    const GETS: usize = 200_000;
    const KEYS: usize = 100;
    let Some(server) = required(Server::redis()) else { return };
    let cluster = cluster(Options::new(server));
    let proxy = Proxy::before(&cluster);
    let mut client = proxy.connect();
    let values: Vec<Vec<u8>> = (0..KEYS).map(|number| value(KIB, number)).collect();
    for (number, value) in values.iter().enumerate() {
        assert!(client.call(&[b"SET", format!("key-{number}").as_bytes(), value]).is_ok());
    }

    let mut pipeline = Vec::new();
    (0..GETS).for_each(|number| {
        push_command(&mut pipeline, &["GET".to_owned(), format!("key-{}", number % KEYS)])
    });
    client.send(&pipeline);
    let mut neighbour = proxy.connect();
    assert_bulk(&neighbour.call(&["GET", "key-7"]), &values[7], "another client's GET");
    for number in 0..GETS {
        assert_bulk(&client.receive(), &values[number % KEYS], "GET");
    }
    assert_eq!(client.poll_receive().unwrap(), None);
    proxy.stop();
}

#[test]
fn a_thousand_keys_of_all_slots_are_set_and_read_as_one() {
    let Some(server) = required(Server::redis()) else { return };
    let cluster = cluster(Options::new(server));
    let proxy = Proxy::before(&cluster);
    let mut client = proxy.connect();
    let keys: Vec<String> = (0..1000).map(|number| format!("key-{number}")).collect();
    let pairs = keys.iter().flat_map(|key| [key.clone(), format!("value of {key}")]);
    let with = |name: &str| -> Vec<String> {
        std::iter::once(name.to_owned()).chain(keys.iter().cloned()).collect()
    };

    for _ in 0..3 {
        let mset: Vec<String> = std::iter::once("MSET".to_owned()).chain(pairs.clone()).collect();
        assert!(client.call(&mset).is_ok());
        let values = client.call(&with("MGET")).elements();
        assert_eq!(values.len(), keys.len());
        for (key, value) in keys.iter().zip(&values) {
            assert_bulk(value, format!("value of {key}").as_bytes(), key);
        }
        for name in ["EXISTS", "TOUCH", "UNLINK"] {
            assert_eq!(client.call(&with(name)).integer(), Some(1000), "{name}");
        }
        assert_eq!(client.call(&with("DEL")).integer(), Some(0));
    }
    proxy.stop();
}
