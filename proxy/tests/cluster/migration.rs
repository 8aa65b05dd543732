//! Slots move while clients use them.

use tsubaki::dev_cluster::{Options, Server};

use crate::connections::SETTING;
use crate::harness::proxy::Start;
use crate::harness::{cluster, required};
use crate::load::Load;
use crate::random::Random;
use crate::slots::{Mover, tags_of_the_first_master};

const MOVES: usize = 100;
const CLIENTS: usize = 50;
const TAGS: usize = 4;
const LARGEST_BATCH: usize = 12;

fn no_reply_is_wrong_while_slots_move(server: Server, connections: &str) {
    let cluster = cluster(Options::new(server.clone()));
    // Longer than any of the moves takes on a loaded machine: the node's own -TRYAGAIN is no reply then.
    let proxy = Start::before(&cluster.seeds())
        .set("TSUBAKI_CLUSTER_WAIT_TIMEOUT", "20s")
        .set(SETTING, connections)
        .ready();
    let tags = tags_of_the_first_master(&cluster, TAGS);
    let load = Load::start(proxy.addr(), CLIENTS, &tags);
    load.wait_for(100 * CLIENTS as u64);

    let mut mover = Mover::new(&cluster);
    let mut random = Random::new(1);
    let mut owners = [0; TAGS];
    let mut keys = 0;
    for _ in 0..MOVES {
        if load.failed() {
            break;
        }
        let tag = random.below(TAGS);
        let (from, to) = (owners[tag], (owners[tag] + 1 + random.below(2)) % 3);
        keys += mover.move_slot(&tags[tag], from, to, || 1 + random.below(LARGEST_BATCH));
        owners[tag] = to;
        // A node cannot tell ASKING for a move of long ago from ASKING for this one, if the slot has been back meanwhile.
        load.wait_for_those_under_way();
    }
    let seen = load.finish();

    let (moved, ask) =
        (proxy.metric("tsubaki_redirects_total", "moved"), proxy.metric("tsubaki_redirects_total", "ask"));
    let tryagain = proxy.metric("tsubaki_refusals_total", "tryagain");
    eprintln!(
        "{server}: {} commands during {MOVES} moves of {keys} keys: {moved} MOVED, {ask} ASK, {tryagain} TRYAGAIN at the \
         proxy; {} commands overtaken",
        seen.commands, seen.errors.overtaken
    );
    assert!(moved > 0 && ask > 0 && tryagain > 0, "not every redirect occurred");
    assert_eq!(seen.errors.may_have_run, 0);
    proxy.stop();
}

#[test]
fn no_reply_is_wrong_while_slots_of_a_redis_cluster_move() {
    if let Some(server) = required(Server::redis()) {
        no_reply_is_wrong_while_slots_move(server, "1");
    }
}

#[test]
fn no_reply_is_wrong_while_slots_of_a_valkey_cluster_with_several_connections_move() {
    if let Some(server) = required(Server::valkey()) {
        no_reply_is_wrong_while_slots_move(server, "3");
    }
}
