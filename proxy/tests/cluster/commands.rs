//! Every command that a node answers: the same bytes come back through the proxy as from the node itself.

mod cases;

use std::collections::BTreeSet;

use tsubaki::dev_cluster::{DevCluster, Options, Server};
use tsubaki_protocol::command::{self, Class, Command};
use tsubaki_protocol::resp::args::Args;
use tsubaki_protocol::resp::inline;
use tsubaki_protocol::resp::request::{RequestLimits, RequestScan, RequestScanner};

use self::cases::{CASES, FIXTURE};
use crate::harness::client::{Client, Reply};
use crate::harness::proxy::Proxy;
use crate::harness::{cluster, required};

const SCRIPT: &str = "return redis.call('GET', KEYS[1])";

const LIBRARY: &str = "#!lua name=tests\n\
    redis.register_function{function_name='readback', flags={'no-writes'}, \
    callback=function(keys) return redis.call('GET', keys[1]) end}";

/// What the keys hold before a case runs.
#[derive(Debug, Clone, Copy)]
enum Keys {
    /// What the case expects.
    Right,
    None,
    /// Each another type than the case expects.
    Wrong,
}

/// The node that has the keys, asked directly.
struct Node {
    client: Client,
    dump: String,
    sha: String,
}

impl Node {
    fn prepare(cluster: &DevCluster) -> Self {
        let addr = cluster.nodes()[cluster.master_of(b"{t}")].addr();
        let mut client = Client::connect(addr);
        let sha = client.call(&["SCRIPT", "LOAD", SCRIPT]).bulk().unwrap().escape_ascii().to_string();
        assert_eq!(client.call(&["FUNCTION", "LOAD", LIBRARY]).error(), None);
        client.call(&["SET", "{t}dumped", "some value"]);
        let dump = client.call(&["DUMP", "{t}dumped"]);
        client.call(&["DEL", "{t}dumped"]);
        let dump = dump.bulk().unwrap().iter().map(|byte| format!("\\x{byte:02x}")).collect();
        Self { client, dump, sha }
    }

    /// The case's command as bytes.
    fn request(&self, case: &str) -> Vec<u8> {
        let line = case.trim_start_matches(['~', '?']);
        request(&line.replace("@dump", &format!("\"{}\"", self.dump)).replace("@sha", &self.sha))
    }

    fn reset(&mut self, keys: Keys) {
        let names: BTreeSet<&str> = CASES
            .iter()
            .chain(&FIXTURE)
            .flat_map(|line| line.split(' '))
            .filter(|word| word.starts_with("{t}"))
            .collect();
        let mut delete = vec!["DEL"];
        delete.extend(&names);
        assert!(self.client.call(&delete).integer().is_some());
        match keys {
            Keys::None => {}
            Keys::Right => {
                for line in FIXTURE {
                    self.client.send(&request(line));
                    let reply = self.client.receive();
                    assert_eq!(reply.error(), None, "{line}");
                }
            }
            Keys::Wrong => {
                for name in names {
                    // Neither is of any use to a command that wants the other.
                    let is_hash = name.contains("hash");
                    let reply = if is_hash {
                        self.client.call(&["RPUSH", name, "x"])
                    } else {
                        self.client.call(&["HSET", name, "f", "x"])
                    };
                    assert_eq!(reply.error(), None, "{name}");
                }
            }
        }
    }
}

fn request(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(inline::to_array(line.as_bytes(), &mut bytes).unwrap(), "{line}");
    bytes
}

fn resolve(request: &[u8]) -> Option<&'static Command> {
    let mut scanner = RequestScanner::new();
    let Ok(RequestScan::Array { .. }) = scanner.scan(request, &RequestLimits::default()) else {
        panic!("no request")
    };
    Command::resolve(&Args::new(request, scanner.spans())).ok()
}

fn is_answered_by_a_node(row: &Command) -> bool {
    matches!(row.class, Class::Routed | Class::Split(_))
}

/// What of a reply must be the same.
fn comparable(case: &str, reply: &Reply) -> Vec<u8> {
    match case.as_bytes().first() {
        Some(b'?') => reply.0[..1].to_vec(),
        Some(b'~') => {
            let mut bytes = reply.0.clone();
            bytes.iter_mut().filter(|byte| byte.is_ascii_digit()).for_each(|byte| *byte = b'0');
            bytes.dedup_by(|a, b| *a == b'0' && *b == b'0');
            bytes
        }
        _ => reply.0.clone(),
    }
}

#[test]
fn every_command_that_a_node_answers_has_a_case() {
    let sample = |case: &str| case.trim_start_matches(['~', '?']).replace("@dump", "x").replace("@sha", "x");
    let covered: BTreeSet<&str> =
        CASES.iter().filter_map(|case| resolve(&request(&sample(case)))).map(|row| row.name).collect();
    let rows = command::all().iter().flat_map(|row| std::iter::once(row).chain(row.subcommands));
    let missing: Vec<&str> = rows
        .filter(|row| is_answered_by_a_node(row) && !covered.contains(row.name))
        .map(|row| row.name)
        .collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}

fn replies_are_the_nodes_own(server: Server) {
    let knows_all = server.is_valkey();
    let cluster = cluster(Options::new(server));
    let proxy = Proxy::before(&cluster);
    let mut node = Node::prepare(&cluster);
    let (mut through, mut direct) =
        (proxy.connect(), Client::connect(cluster.nodes()[cluster.master_of(b"{t}")].addr()));
    let mut differences = Vec::new();
    for protocol in [2, 3] {
        if protocol == 3 {
            through.hello_3();
            direct.hello_3();
        }
        for (case, keys) in
            CASES.iter().flat_map(|case| [Keys::Right, Keys::None, Keys::Wrong].map(|keys| (*case, keys)))
        {
            let request = node.request(case);
            let [expected, reply] = [&mut direct, &mut through].map(|client| {
                node.reset(keys);
                client.send(&request);
                client.receive()
            });
            if comparable(case, &expected) != comparable(case, &reply) {
                differences.push(format!(
                    "RESP{protocol}, keys {keys:?}: {case}\n  node  {expected:?}\n  proxy {reply:?}"
                ));
            }
            if knows_all && matches!(keys, Keys::Right) && protocol == 2 {
                assert!(!is_unfit(&expected), "{case}: {expected:?}");
            }
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    proxy.stop();
}

/// A case whose command the server does not even take shows nothing.
fn is_unfit(reply: &Reply) -> bool {
    reply
        .error()
        .is_some_and(|error| error.starts_with("ERR unknown") || error.starts_with("ERR wrong number"))
}

#[test]
fn replies_of_redis_are_the_nodes_own() {
    if let Some(server) = required(Server::redis()) {
        replies_are_the_nodes_own(server);
    }
}

#[test]
fn replies_of_valkey_are_the_nodes_own() {
    if let Some(server) = required(Server::valkey()) {
        replies_are_the_nodes_own(server);
    }
}
