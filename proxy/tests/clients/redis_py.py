"""What users of redis-py do, in its default settings, through the proxy.

    redis_py.py PORT PASSWORD SCENARIO      PASSWORD is "" where none is asked for

Each function below the line is a scenario. It ends with an exception where the proxy is not as good as one Redis.
"""

import hashlib
import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

PORT, PASSWORD, SCENARIO = int(sys.argv[1]), sys.argv[2] or None, sys.argv[3]


def connect(**settings):
    return redis.Redis(port=PORT, password=PASSWORD, **settings)


def same(found, expected):
    assert found == expected, f"{str(found)[:300]} instead of {str(expected)[:300]}"


def refused(error, text, run):
    try:
        reply = run()
    except error as found:
        assert text in str(found), f"the error is {found!r}, without {text!r}"
    else:
        raise AssertionError(f"{reply!r} instead of an error with {text!r}")


# --- scenarios ---


def handshake():
    client = connect()
    same(client.ping(), True)
    hello = client.execute_command("HELLO")
    same((hello[b"proto"], hello[b"mode"], hello[b"role"]), (3, b"standalone", b"master"))
    info = client.client_info()
    same((info["resp"], info["lib-name"], info["lib-ver"]), ("3", "redis-py", redis.__version__))
    same(connect(client_name="a-name").client_getname(), "a-name")
    same(connect(protocol=2).client_info()["resp"], "2")
    same(client.info("cluster")["cluster_enabled"], 0)
    same(client.config_get("save"), {"save": ""})


def wrong_password():
    once = Retry(NoBackoff(), 0)
    for password, error in ((None, "must be called with the client already authenticated"), ("wrong", "invalid username-password pair")):
        client = redis.Redis(port=PORT, password=password, retry=once)
        refused(redis.AuthenticationError, error, client.ping)


def keys_of_all_slots():
    client = connect()
    keys = [f"slots:{number}" for number in range(2000)]
    for key in keys:
        same(client.set(key, key), True)
    for key in keys:
        same(client.get(key), key.encode())


def pipeline_of_ten_thousand_commands():
    pipeline = connect().pipeline(transaction=False)
    for number in range(5_000):
        pipeline.set(f"pipeline:{number}", number)
        pipeline.incr(f"pipeline:{number}")
    expected = [reply for number in range(5_000) for reply in (True, number + 1)]
    same(pipeline.execute(), expected)


def everything_sent_before_anything_is_read():
    client = connect()
    values = {f"kib:{number}": f"{number:0>1024}" for number in range(100)}
    client.mset(values)
    pipeline = client.pipeline(transaction=False)
    for number in range(200_000):
        pipeline.get(f"kib:{number % 100}")
    expected = [value.encode() for value in values.values()]
    replies = pipeline.execute()
    same(len(replies), 200_000)
    assert all(reply == expected[number % 100] for number, reply in enumerate(replies))


def binary_keys_and_values():
    client = connect()
    every_byte = bytes(range(256))
    keys = [bytes([byte]) for byte in range(256)] + [b"", b"\r\n", b"a\r\n$3\r\nfoo", b"\0" * 100, every_byte]
    for key in keys:
        same(client.set(key, key + every_byte), True)
    same(client.mget(keys), [key + every_byte for key in keys])
    same(client.exists(*keys), len(keys))
    for key in keys:
        same(client.strlen(key), len(key) + 256)
    same(client.delete(*keys), len(keys))


def value_of_ten_mebibytes():
    client = connect()
    value = bytes(range(256)) * 40 * 1024
    same(client.set("large", value), True)
    same(client.strlen("large"), 10 * 1024 * 1024)
    same(client.get("large") == value, True)
    same(client.mget("large", "no such key") == [value, None], True)
    client.delete("large")


def mget_and_mset_over_all_slots():
    client = connect()
    pairs = {f"many:{number}": str(number) for number in range(1000)}
    same(client.mset(pairs), True)
    same(client.mget(list(pairs)), [value.encode() for value in pairs.values()])
    same(client.mget(["many:7", "no such key", "many:7"]), [b"7", None, b"7"])
    same(client.delete(*pairs, "no such key"), 1000)
    same(client.exists(*pairs), 0)


def scripts():
    client = connect()
    add = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
    client.delete("{script}:1")
    same(client.eval(add, 1, "{script}:1", 3), 3)
    same(client.eval("return {KEYS[1], KEYS[2], ARGV[1]}", 2, "{script}:1", "{script}:2", "x"), [b"{script}:1", b"{script}:2", b"x"])
    same(client.eval("return 7", 0), 7)
    # The node that ran EVAL knows the script by its digest.
    digest = hashlib.sha1(add.encode()).hexdigest()
    same(client.evalsha(digest, 1, "{script}:1", 4), 7)
    refused(redis.exceptions.NoScriptError, "No matching script", lambda: client.evalsha("0" * 40, 1, "{script}:1"))
    refused(redis.ResponseError, "don't hash to the same slot", lambda: client.eval(add, 2, "script:1", "script:2", 1))


def streams():
    client = connect()
    client.delete("stream")
    ids = [client.xadd("stream", {"field": number}) for number in range(100)]
    entries = client.xrange("stream")
    same([entry[0] for entry in entries], ids)
    same(entries[99][1], {b"field": b"99"})
    same(len(client.xrange("stream", min=ids[10], max=ids[19])), 10)
    same(client.xlen("stream"), 100)
    [(_, entries)] = client.xread({"stream": ids[97]})
    same([entry[0] for entry in entries], ids[98:])


def every_type_of_reply():
    client = connect()
    client.delete("type:hash", "type:set", "type:zset", "type:list", "type:list:lock")
    same(client.hset("type:hash", mapping={"a": "1", "b": "2"}), 2)
    same(client.hgetall("type:hash"), {b"a": b"1", b"b": b"2"})
    same(client.sadd("type:set", "a", "b"), 2)
    same(client.smembers("type:set"), {b"a", b"b"})
    same(client.zadd("type:zset", {"a": 1.5, "b": float("inf")}), 2)
    same(client.zrange("type:zset", 0, -1, withscores=True), [(b"a", 1.5), (b"b", float("inf"))])
    same(client.zscore("type:zset", "a"), 1.5)
    same(client.rpush("type:list", "a", "b"), 2)
    same(client.lrange("type:list", 0, -1), [b"a", b"b"])
    same(client.get("no such key"), None)
    same(client.set("type:list:lock", "x", nx=True, ex=10), True)
    same(client.set("type:list:lock", "x", nx=True), None)
    refused(redis.ResponseError, "WRONGTYPE", lambda: client.get("type:list"))


def transaction_is_refused():
    client = connect(single_connection_client=True)
    client.delete("transaction:1", "transaction:2")
    pipeline = client.pipeline()
    pipeline.set("transaction:1", "1").set("transaction:2", "2")
    refused(redis.exceptions.ExecAbortError, "MULTI is not supported yet", pipeline.execute)
    same(client.mget("transaction:1", "transaction:2"), [None, None])
    same(client.set("transaction:1", "1"), True)


def what_is_not_supported_leaves_the_connection():
    client = connect(single_connection_client=True)
    for run in (
        lambda: client.blpop("list", 1),
        lambda: client.scan(),
        lambda: client.flushall(),
        lambda: client.execute_command("SUBSCRIBE", "channel"),
        lambda: client.wait(1, 1),
    ):
        refused(redis.ResponseError, "is not supported yet", run)
        same(client.ping(), True)


def reconnection():
    client = connect()
    same(client.set("restart", "before"), True)
    print("connected", flush=True)
    # The proxy is restarted meanwhile.
    sys.stdin.readline()
    same(client.get("restart"), b"before")
    same(client.set("restart", "after"), True)


globals()[SCENARIO]()
