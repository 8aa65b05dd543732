//! Nothing that clients send or operators keep secret is ever in the log, whatever goes wrong.

use std::net::SocketAddr;

use tsubaki::dev_cluster::{Options, Server};

use crate::harness::client::{Client, push_command};
use crate::harness::proxy::{Proxy, Start};
use crate::harness::{cluster, required, wait_until};

const CLIENT_PASSWORD: &str = "hush-client-password";
const NODE_PASSWORD: &str = "hush-node-password";
/// Part of every key, value, field, script, name and wrong password that is sent, and of both passwords.
const SECRET: &str = "hush";

/// Does all that a log might tell of.
fn mistreat(proxy: &Proxy) {
    let mut client = proxy.connect();
    let refusals: [&[&str]; 3] =
        [&["AUTH", "hush-wrong"], &["HELLO", "3", "AUTH", "hush-user", "hush-wrong"], &["GET", "hush-early"]];
    for refused in refusals {
        assert!(client.call(refused).error().is_some());
    }
    assert!(client.call(&["AUTH", CLIENT_PASSWORD]).is_ok());
    assert!(client.call(&["SET", "hush-key", "hush-value"]).is_ok());
    for wrong in [
        &["LPUSH", "hush-key", "hush-value"][..],
        &["HUSH", "hush-argument"],
        &["CLIENT", "HUSH", "hush-argument"],
        &["GET", "hush-key", "hush-extra"],
        &["MGET", "hush-key", "hush-other"],
        &["RENAME", "hush-key", "hush-other"],
        &["EVAL", "return redis.error_reply(KEYS[1])", "1", "hush-key"],
        &["EVAL", "hush-no-script", "0"],
        &["SUBSCRIBE", "hush-channel"],
        &["CLIENT", "SETNAME", "hush-name"],
        &["MULTI"],
        &["SET", "hush-key", "hush-queued"],
        &["EXEC"],
    ] {
        client.call(wrong);
    }
    for broken in
        ["*1\r\n$hush\r\n", "*hush\r\n", "GET \"hush-unbalanced\r\n", "*2\r\n$3\r\nGET\r\nhush-key\r\n"]
    {
        let mut client = proxy.connect();
        client.send(broken.as_bytes());
        assert!(client.receive().error().is_some_and(|error| error.contains("Protocol error")));
    }
}

/// A client that leaves too much unread.
fn overflow(addr: SocketAddr) -> Client {
    let mut client = Client::connect(addr);
    assert!(client.call(&["AUTH", CLIENT_PASSWORD]).is_ok());
    assert!(client.call(&["SET", "hush-large", &"hush".repeat(4 * 1024)]).is_ok());
    let mut pipeline = Vec::new();
    (0..4000).for_each(|_| push_command(&mut pipeline, &["GET", "hush-large"]));
    client.send(&pipeline);
    client
}

#[test]
fn the_log_has_no_key_no_value_and_no_password() {
    let Some(server) = required(Server::find()) else { return };
    let mut cluster =
        cluster(Options { masters: 1, password: Some(NODE_PASSWORD.to_owned()), ..Options::new(server) });
    for format in ["text", "json"] {
        let proxy = Start::before(&cluster.seeds())
            .set("TSUBAKI_PASSWORD", CLIENT_PASSWORD)
            .set("TSUBAKI_CLUSTER_PASSWORD", NODE_PASSWORD)
            .set("TSUBAKI_LIMITS_OUTPUT_BUFFER", "64kb")
            .set("TSUBAKI_LOG_LEVEL", "trace")
            .set("TSUBAKI_LOG_FORMAT", format)
            .ready();
        mistreat(&proxy);
        let _overflowing = overflow(proxy.addr());
        wait_until("the log tells of the unread replies", || proxy.log().contains("left its replies unread"));
        assert!(proxy.log().contains("broke the protocol"), "{}", proxy.log());
        assert!(!proxy.page("/metrics").unwrap().body.contains(SECRET));

        let mut client = proxy.connect();
        assert!(client.call(&["AUTH", CLIENT_PASSWORD]).is_ok());
        cluster.kill(0).unwrap();
        assert!(client.call(&["SET", "hush-key", "hush-value"]).error().is_some());
        wait_until("the log tells of the node", || proxy.log().contains("cannot be used"));
        let log = proxy.log();
        assert!(!log.contains(SECRET), "{log}");
        cluster.restart(0).unwrap();
        cluster.wait_ok().unwrap();
        proxy.stop();
    }
}

#[test]
fn a_wrong_node_password_is_not_in_the_log() {
    let Some(server) = required(Server::find()) else { return };
    let cluster =
        cluster(Options { masters: 1, password: Some(NODE_PASSWORD.to_owned()), ..Options::new(server) });
    let proxy = Start::before(&cluster.seeds())
        .set("TSUBAKI_CLUSTER_PASSWORD", "hush-wrong")
        .set("TSUBAKI_LOG_LEVEL", "trace")
        .listening();
    wait_until("the log tells of it", || proxy.log().contains("refuses the proxy's login"));
    assert!(!proxy.log().contains(SECRET), "{}", proxy.log());
}
