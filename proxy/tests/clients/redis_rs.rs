//! The `redis` crate.

use std::collections::HashMap;

use redis::{
    Client, Connection, ErrorKind, IntoConnectionInfo as _, ProtocolVersion, RedisConnectionInfo,
    RedisResult, cmd, pipe,
};

use crate::harness::proxy::Proxy;
use crate::{PASSWORD, SharedCluster, proxy};

static CLUSTER: SharedCluster = SharedCluster::new();

fn client(proxy: &Proxy, password: &str, protocol: ProtocolVersion) -> Client {
    let mut settings = RedisConnectionInfo::default().set_protocol(protocol);
    if !password.is_empty() {
        settings = settings.set_password(password);
    }
    let info = format!("redis://{}", proxy.addr()).into_connection_info().unwrap();
    Client::open(info.set_redis_settings(settings)).unwrap()
}

/// Both protocols, with a password and without one.
fn each_connection(test: impl Fn(&mut Connection)) {
    let Some(cluster) = CLUSTER.running() else { return };
    for password in ["", PASSWORD] {
        let proxy = proxy(cluster, password);
        for protocol in [ProtocolVersion::RESP2, ProtocolVersion::RESP3] {
            test(&mut client(&proxy, password, protocol).get_connection().unwrap());
        }
    }
}

#[test]
fn commands_and_a_pipeline_over_all_slots() {
    each_connection(|connection| {
        let mut pipeline = pipe();
        for number in 0..10_000 {
            pipeline.cmd("SET").arg(format!("rs:{number}")).arg(number).ignore();
            pipeline.cmd("GET").arg(format!("rs:{number}"));
        }
        let found: Vec<u32> = pipeline.query(connection).unwrap();
        assert!(found.iter().copied().eq(0..10_000));

        cmd("DEL").arg("rs:hash").exec(connection).unwrap();
        cmd("HSET").arg("rs:hash").arg("a").arg(1.5).exec(connection).unwrap();
        let hash: HashMap<String, f64> = cmd("HGETALL").arg("rs:hash").query(connection).unwrap();
        assert_eq!(hash, HashMap::from([("a".to_owned(), 1.5)]));
        let values: Vec<Option<u32>> =
            cmd("MGET").arg(&["rs:1", "no such key", "rs:2"]).query(connection).unwrap();
        assert_eq!(values, [Some(1), None, Some(2)]);
    });
}

#[test]
fn a_transaction_is_refused_and_the_connection_stays() {
    each_connection(|connection| {
        let mut transaction = pipe();
        transaction.atomic().cmd("SET").arg("rs:atomic").arg(1).cmd("SET").arg("rs:other").arg(1);
        let refused: RedisResult<()> = transaction.query(connection);
        // The crate replaces EXEC's error by one of its own.
        assert!(refused.is_err());
        let found: Option<String> = cmd("GET").arg("rs:atomic").query(connection).unwrap();
        assert_eq!(found, None);
    });
}

#[test]
fn a_wrong_password_is_refused_as_by_redis() {
    let Some(cluster) = CLUSTER.running() else { return };
    let proxy = proxy(cluster, PASSWORD);
    for protocol in [ProtocolVersion::RESP2, ProtocolVersion::RESP3] {
        let Err(error) = client(&proxy, "wrong", protocol).get_connection() else { panic!("it connected") };
        let refused = error.kind() == ErrorKind::AuthenticationFailed || error.code() == Some("WRONGPASS");
        assert!(refused, "{protocol:?}: {error}");
    }
}
