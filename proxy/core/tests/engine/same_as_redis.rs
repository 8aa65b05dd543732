//! What the proxy answers itself, byte for byte as a redis-server 7.0 without a cluster does.

use tsubaki_core::settings::Password;

use crate::harness::{Cluster, command, commands};
use crate::redis::Redis;

/// Sends each line to the proxy and to a server, in RESP2 and in RESP3: the replies are the same, and no node hears of it.
#[track_caller]
fn same(lines: &[&str]) {
    let Some(redis) = Redis::start(&[]) else { return };
    for opening in ["HELLO 2", "HELLO 3"] {
        compare(&Cluster::new(), &redis, opening, lines);
    }
}

#[track_caller]
fn compare(cluster: &Cluster, redis: &Redis, opening: &str, lines: &[&str]) {
    let (client, mut connection) = (cluster.client(), redis.connect());
    client.ask(opening);
    connection.ask(opening);
    for line in lines {
        assert_eq!(client.ask(line), connection.ask(line), "{line:?} after {opening}");
    }
    cluster.expect_nothing_sent();
}

/// Sends these bytes to both; each says the same and closes the connection.
#[track_caller]
fn same_last_words(redis: &Redis, bytes: &[u8]) {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_bytes(bytes);
    let shown = bytes.escape_ascii().to_string();
    assert_eq!(
        client.received().escape_ascii().to_string(),
        redis.connect().last_words(bytes).escape_ascii().to_string(),
        "{shown:.100}"
    );
    assert!(client.is_closed(), "{shown:.100}");
}

#[test]
fn small_talk() {
    same(&[
        "PING",
        "ping",
        "PING hello",
        "PING ''",
        "PING a b",
        "ECHO x",
        "ECHO ''",
        "ECHO",
        "ECHO a b",
        "TIME x",
    ]);
}

#[test]
fn select_knows_database_0_only() {
    same(&["SELECT 0", "SELECT 1", "SELECT -1", "SELECT x", "SELECT ''", "SELECT 00", "SELECT +0"]);
    same(&["SELECT 2147483648", "SELECT 99999999999999999999", "SELECT", "SELECT 0 0"]);
}

#[test]
fn auth_without_a_password_configured() {
    same(&["AUTH", "AUTH x", "AUTH default x", "AUTH nobody x", "AUTH a b c"]);
}

#[test]
fn auth_with_a_password_configured() {
    let Some(redis) = Redis::start(&["--requirepass", "secret"]) else { return };
    let configure =
        || Cluster::with(|settings| settings.client_password = Some(Password::new("secret".to_owned())));
    let refused =
        ["PING", "GET b", "MGET b c", "NOSUCH", "GET", "MULTI", "COMMAND", "CLUSTER INFO", "CLIENT ID"];
    compare(&configure(), &redis, "PING", &refused);
    let tries =
        ["AUTH", "AUTH wrong", "PING", "AUTH default wrong", "AUTH nobody secret", "AUTH secret", "PING"];
    compare(&configure(), &redis, "PING", &tries);
    compare(&configure(), &redis, "AUTH default secret", &["PING", "AUTH wrong", "PING", "RESET", "PING"]);
}

#[test]
fn hello_before_auth() {
    let Some(redis) = Redis::start(&["--requirepass", "secret"]) else { return };
    let cluster =
        Cluster::with(|settings| settings.client_password = Some(Password::new("secret".to_owned())));
    let lines =
        ["HELLO", "HELLO 3", "HELLO 4", "HELLO x", "HELLO 3 SETNAME n", "HELLO 3 AUTH default wrong", "PING"];
    compare(&cluster, &redis, "HELLO 3 AUTH nobody secret", &lines);
    // An option before a wrong one has had its effect.
    let lines = ["HELLO 3 AUTH default wrong SETNAME", "HELLO 3 AUTH default secret FOO", "PING"];
    compare(&cluster, &redis, "PING", &lines);
}

#[test]
fn hello_with_wrong_words() {
    same(&[
        "HELLO x",
        "HELLO ''",
        "HELLO 4",
        "HELLO 1",
        "HELLO 03",
        "HELLO +3",
        "HELLO 99999999999999999999",
    ]);
    same(&["HELLO AUTH default x", "HELLO 3 AUTH", "HELLO 3 AUTH x", "HELLO 3 SETNAME", "HELLO 3 FOO"]);
    same(&[
        "HELLO 3 AUTH nobody x",
        "HELLO 3 AUTH nobody x SETNAME",
        "HELLO 2 SETNAME a\nb",
        "CLIENT GETNAME",
    ]);
}

#[test]
fn client_names() {
    same(&[
        "CLIENT GETNAME",
        "CLIENT SETNAME app",
        "CLIENT GETNAME",
        "CLIENT SETNAME a\nb",
        "CLIENT GETNAME",
    ]);
    same(&[
        "CLIENT SETNAME app",
        "CLIENT SETNAME ''",
        "CLIENT GETNAME",
        "CLIENT SETNAME a b",
        "CLIENT SETNAME",
    ]);
}

#[test]
fn client_subcommands_with_wrong_words() {
    same(&["CLIENT", "CLIENT ID x", "CLIENT INFO x", "CLIENT FOO BAR", "CLIENT FO\r\nO"]);
    same(&["CLIENT NO-EVICT on", "CLIENT NO-EVICT OFF", "CLIENT NO-EVICT x", "CLIENT NO-EVICT"]);
}

/// A client that offers more than the server knows must be able to go on.
#[test]
fn an_unknown_client_subcommand_keeps_the_connection() {
    same(&["CLIENT MAINT_NOTIFICATIONS on", "PING"]);
}

#[test]
fn client_list_of_nobody_or_with_wrong_words() {
    same(&["CLIENT LIST TYPE x", "CLIENT LIST TYPE", "CLIENT LIST TYPE normal x", "CLIENT LIST FOO"]);
    same(&[
        "CLIENT LIST TYPE master",
        "CLIENT LIST TYPE replica",
        "CLIENT LIST TYPE slave",
        "CLIENT LIST TYPE pubsub",
    ]);
    same(&["CLIENT LIST ID", "CLIENT LIST ID x", "CLIENT LIST ID 01", "CLIENT LIST ID 9 x"]);
    same(&["CLIENT LIST ID 0", "CLIENT LIST ID -1", "CLIENT LIST ID 99999999 88888888"]);
}

#[test]
fn config_get_what_clients_ask_for_at_their_start() {
    same(&["CONFIG GET save", "CONFIG GET appendonly", "CONFIG GET databases", "CONFIG GET timeout"]);
    same(&["CONFIG GET slave-read-only", "CONFIG GET maxmemory", "CONFIG GET maxmemory-policy"]);
}

#[test]
fn config_get_by_patterns() {
    same(&[
        "CONFIG GET SAVE",
        "CONFIG GET sav?",
        "CONFIG GET [s]ave",
        "CONFIG GET sav[^x]",
        "CONFIG GET appendonl*",
    ]);
    same(&[
        "CONFIG GET \\save",
        "CONFIG GET save save",
        "CONFIG GET nothing",
        "CONFIG GET ''",
        "CONFIG GET noth*ing",
    ]);
    same(&["CONFIG", "CONFIG GET", "CONFIG FOO"]);
}

#[test]
fn command_info_and_its_kin() {
    same(&[
        "COMMAND INFO get",
        "COMMAND INFO set mget GET",
        "COMMAND INFO nosuch get",
        "COMMAND INFO config|nosuch",
    ]);
    same(&["COMMAND DOCS nosuch", "COMMAND COUNT x", "COMMAND FOO", "COMMAND HELP"]);
}

#[test]
fn command_list() {
    same(&[
        "COMMAND LIST FILTERBY PATTERN get",
        "COMMAND LIST FILTERBY PATTERN ge[t]",
        "COMMAND LIST FILTERBY MODULE x",
    ]);
    same(&["COMMAND LIST FILTERBY PATTERN config|ge*", "COMMAND LIST FILTERBY PATTERN nosuch"]);
    same(&[
        "COMMAND LIST FOO",
        "COMMAND LIST FILTERBY",
        "COMMAND LIST FILTERBY PATTERN",
        "COMMAND LIST FILTERBY FOO x",
    ]);
}

#[test]
fn command_getkeys() {
    same(&["COMMAND GETKEYS GET k", "COMMAND GETKEYS MSET a 1 b 2", "COMMAND GETKEYS SORT a STORE b"]);
    same(&["COMMAND GETKEYS EVAL x 2 a b c", "COMMAND GETKEYS EVAL x 0", "COMMAND GETKEYS EVAL x 9 a"]);
    same(&[
        "COMMAND GETKEYS PING x",
        "COMMAND GETKEYS NOSUCH a",
        "COMMAND GETKEYS GET a b",
        "COMMAND GETKEYS",
    ]);
}

#[test]
fn command_getkeysandflags_tells_each_keys_own_flags() {
    same(&["COMMAND GETKEYSANDFLAGS GET k", "COMMAND GETKEYSANDFLAGS MSET a 1 b 2"]);
    same(&["COMMAND GETKEYSANDFLAGS LMOVE a b left right", "COMMAND GETKEYSANDFLAGS SORT a STORE b"]);
    same(&[
        "COMMAND GETKEYSANDFLAGS ZUNIONSTORE d 2 a b",
        "COMMAND GETKEYSANDFLAGS GEORADIUS a 1 2 3 m STORE d",
    ]);
    same(&["COMMAND GETKEYSANDFLAGS SET a b", "COMMAND GETKEYSANDFLAGS SET a b GET"]);
    same(&["COMMAND GETKEYSANDFLAGS BITFIELD a GET u8 0", "COMMAND GETKEYSANDFLAGS BITFIELD a SET u8 0 1"]);
    same(&["COMMAND GETKEYSANDFLAGS EVAL x 2 a b", "COMMAND GETKEYSANDFLAGS OBJECT FREQ k"]);
    same(&["COMMAND GETKEYSANDFLAGS MIGRATE h 1 '' 0 0 KEYS a b", "COMMAND GETKEYSANDFLAGS PING x"]);
    same(&["COMMAND GETKEYSANDFLAGS XREADGROUP GROUP g c STREAMS a b > >"]);
}

#[test]
fn the_cluster_is_denied() {
    same(&[
        "CLUSTER INFO",
        "CLUSTER NODES",
        "CLUSTER SLOTS",
        "CLUSTER SHARDS",
        "CLUSTER HELP",
        "CLUSTER KEYSLOT k",
    ]);
    same(&["CLUSTER", "CLUSTER FOO", "CLUSTER KEYSLOT", "ASKING", "READONLY", "READWRITE", "READONLY x"]);
}

#[test]
fn unknown_commands() {
    same(&[
        "NOSUCH",
        "NOSUCH a b c",
        "nosuch ''",
        "NO\r\nSUCH a\r\nb",
        "''",
        "'' a",
        "OBJECT FOO k",
        "XGROUP FOO",
    ]);
    let long = "x".repeat(200);
    same(&[
        &format!("{long} {long} {long}"),
        &format!("NOSUCH {long} a"),
        &format!("NOSUCH a {}", "b ".repeat(80)),
    ]);
}

#[test]
fn arity_is_checked_before_a_command_is_split_or_sent() {
    same(&[
        "GET",
        "GET a b",
        "MGET",
        "MSET",
        "MSET b",
        "MSET b 1 c",
        "DEL",
        "EXISTS",
        "TOUCH",
        "UNLINK",
        "SET b",
    ]);
    same(&[
        "XADD",
        "EVAL x",
        "OBJECT",
        "OBJECT FREQ",
        "XINFO",
        "CONFIG SET",
        "SCRIPT",
        "SUBSCRIBE",
        "BLPOP b",
    ]);
}

#[test]
fn transactions_of_nothing() {
    same(&["MULTI x", "EXEC", "DISCARD", "UNWATCH", "MULTI", "MULTI", "DISCARD x", "DISCARD", "DISCARD"]);
    same(&[
        "MULTI",
        "PING",
        "SELECT 7",
        "SET b 1",
        "HELLO 4",
        "MGET b c",
        "CLIENT SETNAME a",
        "DISCARD",
        "CLIENT GETNAME",
    ]);
}

#[test]
fn a_transaction_with_a_mistake_is_aborted() {
    same(&["MULTI", "NOSUCH", "SET b 1", "EXEC", "EXEC"]);
    same(&["MULTI", "GET", "EXEC", "DISCARD"]);
    same(&["MULTI", "CLIENT FOO", "EXEC"]);
    same(&["MULTI", "EXEC x", "EXEC", "MULTI", "DISCARD"]);
    same(&["MULTI", "GET", "DISCARD", "EXEC"]);
}

#[test]
fn reset_makes_a_connection_new() {
    same(&["CLIENT SETNAME app", "MULTI", "GET", "RESET", "EXEC", "CLIENT GETNAME", "RESET x", "RESET"]);
}

#[test]
fn a_broken_request_is_told_why_and_cut_off() {
    let Some(redis) = Redis::start(&[]) else { return };
    for bytes in [
        "*1\r\n+PING\r\n",
        "*1\r\nPING\r\n",
        "*1\r\n\r\n",
        "*x\r\n",
        "*2147483648\r\n",
        "*1 \r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n$x\r\n",
        "*1\r\n$536870913\r\n",
        "*1\r\n$99999999999999999999\r\n",
        "GET \"b\r\n",
        "GET \"b\"c\r\n",
        "GET 'b\r\n",
    ] {
        same_last_words(&redis, bytes.as_bytes());
        // What was answered before goes before.
        same_last_words(&redis, &[command("PING").as_slice(), bytes.as_bytes(), &command("PING")].concat());
    }
    same_last_words(&redis, &[b'x'; 65 * 1024]);
    same_last_words(&redis, &[b"*".as_slice(), &[b'1'; 65 * 1024]].concat());
}

#[test]
fn before_auth_a_request_must_be_small() {
    let Some(redis) = Redis::start(&["--requirepass", "secret"]) else { return };
    for bytes in ["*2000000000\r\n", "*11\r\n", "*2\r\n$16385\r\n", "*2\r\n$4\r\nAUTH\r\n$2000000000\r\n"] {
        let cluster =
            Cluster::with(|settings| settings.client_password = Some(Password::new("secret".to_owned())));
        let client = cluster.client();
        client.send_bytes(bytes);
        client.expect(redis.connect().last_words(bytes.as_bytes()));
        assert!(client.is_closed());
    }
}

#[test]
fn quit_is_answered_and_nothing_behind_it() {
    let Some(redis) = Redis::start(&[]) else { return };
    same_last_words(&redis, &commands(["PING", "QUIT", "PING"]));
    same_last_words(&redis, b"QUIT\r\n");
    same_last_words(&redis, b"quit now\r\nPING\r\n");
    same_last_words(&redis, &commands(["MULTI", "QUIT"]));
}

#[test]
fn a_line_of_words_is_a_command() {
    let Some(redis) = Redis::start(&[]) else { return };
    let lines = "PING\r\nPING 'a b'\r\n\r\n  echo \"\\x41\\n\" \nECHO ''\r\n*0\r\n*-1\r\n \t\r\nECHO it's\"\" \r\nQUIT\r\n";
    for lines in [lines, "PING\nPING\nQUIT\n", "NOSUCH \"a b\" c\r\nECHO\r\nQUIT\r\n"] {
        same_last_words(&redis, lines.as_bytes());
    }
}

/// The second command of one write was taken for a part of the first.
#[test]
fn inline_commands_in_one_write_are_all_answered() {
    let Some(redis) = Redis::start(&["--requirepass", "read only"]) else { return };
    let cluster =
        Cluster::with(|settings| settings.client_password = Some(Password::new("read only".to_owned())));
    let client = cluster.client();
    let lines = b"AUTH \"read only\"\r\nPING\r\nAUTH default 'read only'\r\nQUIT\r\n";
    client.send_bytes(lines);
    client.expect(redis.connect().last_words(lines));
}
