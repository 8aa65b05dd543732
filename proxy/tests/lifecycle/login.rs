//! How the proxy logs in to the nodes, and clients to the proxy: passwords as text, from files, of an ACL user.

use std::fs;

use tsubaki::dev_cluster::{DevCluster, Options, Server};

use crate::harness::client::Client;
use crate::harness::proxy::{Proxy, Start};
use crate::harness::{cluster, required};

const NODE_PASSWORD: &str = "node pass\"word";

/// All that the proxy needs of a node: its topology, and what clients ask for.
const ACL_USER: &str = "user tsubaki on >acl-pass ~* &* -@all +@read +@write +@connection +cluster|nodes";

fn with_password() -> Option<DevCluster> {
    let server = required(Server::find())?;
    let node_config = vec![ACL_USER.to_owned()];
    Some(cluster(Options { password: Some(NODE_PASSWORD.to_owned()), node_config, ..Options::new(server) }))
}

/// Keys of all nodes, by both protocols.
fn assert_serves(client: &mut Client) {
    for _protocol in [2, 3] {
        for number in 0..50 {
            let key = format!("key:{number}");
            assert!(client.call(&["SET", &key, &key]).is_ok());
            assert_eq!(client.call(&["GET", &key]).bulk(), Some(key.as_bytes()));
        }
        client.hello_3();
    }
}

#[test]
fn the_password_of_the_nodes_as_text_in_a_file_and_of_a_user() {
    let Some(cluster) = with_password() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    fs::write(&file, format!("{NODE_PASSWORD}\n")).unwrap();
    let before = || Start::before(&cluster.seeds());
    for start in [
        before().set("TSUBAKI_CLUSTER_PASSWORD", NODE_PASSWORD),
        before().set("TSUBAKI_CLUSTER_PASSWORD_FILE", file.to_str().unwrap()),
        before().set("TSUBAKI_CLUSTER_USER", "tsubaki").set("TSUBAKI_CLUSTER_PASSWORD", "acl-pass"),
    ] {
        let proxy = start.ready();
        assert_serves(&mut proxy.connect());
        proxy.stop();
    }
}

#[test]
fn files_beside_the_configuration_hold_both_passwords() {
    let Some(cluster) = with_password() else { return };
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("client", "client pass\r\n");
    write("node", NODE_PASSWORD);
    write("my.toml", "password_file = \"client\"\n[cluster]\nseeds = [\"x:1\"]\npassword_file = \"node\"\n");
    let proxy = Start::before(&cluster.seeds()).arg("--config").arg(dir.path().join("my.toml")).ready();

    let mut client = proxy.connect();
    assert_eq!(client.call(&["GET", "key:1"]).error(), Some("NOAUTH Authentication required."));
    assert!(client.call(&["AUTH", "wrong"]).error().unwrap().starts_with("WRONGPASS"));
    assert!(client.call(&["AUTH", "client pass"]).is_ok());
    assert_serves(&mut client);
    assert!(proxy.connect().call(&["AUTH", "default", "client pass"]).is_ok());
    proxy.stop();
}

fn hello(proxy: &Proxy, args: &[&str]) -> Vec<u8> {
    proxy.connect().call(&[&["HELLO"], args].concat()).0
}

#[test]
fn hello_carries_the_password_of_clients() {
    let Some(cluster) = with_password() else { return };
    let proxy = Start::before(&cluster.seeds())
        .set("TSUBAKI_CLUSTER_PASSWORD", NODE_PASSWORD)
        .set("TSUBAKI_PASSWORD", "client pass")
        .ready();
    assert!(hello(&proxy, &["3"]).starts_with(b"-NOAUTH HELLO must be called"));
    assert!(hello(&proxy, &["3", "AUTH", "default", "wrong"]).starts_with(b"-WRONGPASS"));
    assert!(hello(&proxy, &["3", "AUTH", "other", "client pass"]).starts_with(b"-WRONGPASS"));
    assert!(hello(&proxy, &["3", "AUTH", "default", "client pass", "SETNAME", "me"]).starts_with(b"%7\r\n"));
    assert!(hello(&proxy, &["2", "AUTH", "default", "client pass"]).starts_with(b"*14\r\n"));
    assert!(hello(&proxy, &["4", "AUTH", "default", "client pass"]).starts_with(b"-NOPROTO"));
    proxy.stop();
}
