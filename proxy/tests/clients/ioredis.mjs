// What users of ioredis do, in its default settings, through the proxy.
//
//     ioredis.mjs PORT PASSWORD SCENARIO      PASSWORD is "" where none is asked for
//
// NODE_PATH names the folder that has ioredis. Each scenario fails where the proxy is not as good as one Redis.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';

const { default: Redis } = createRequire(import.meta.url)('ioredis');
const [port, password, scenario] = process.argv.slice(2);
const clients = [];

function connect(settings = {}) {
  const client = new Redis({ port: Number(port), password: password || undefined, ...settings });
  client.on('error', () => {});
  clients.push(client);
  return client;
}

/** The replies of a pipeline, none of them an error. */
function replies(results) {
  return results.map(([error, reply]) => {
    assert.equal(error, null);
    return reply;
  });
}

const range = (length) => [...Array(length).keys()];

const scenarios = {
  async handshake() {
    const client = connect();
    assert.equal(await client.ping(), 'PONG');
    const info = await client.client('INFO');
    assert.match(info, /resp=3 lib-name=ioredis lib-ver=/);
    assert.match(await client.info(), /redis_mode:standalone\r\n/);
    assert.equal(await connect({ connectionName: 'a-name' }).client('GETNAME'), 'a-name');
    assert.match(await connect({ protocol: 2 }).client('INFO'), /resp=2/);
  },

  async wrong_password() {
    for (const wrong of [undefined, 'wrong']) {
      await assert.rejects(connect({ password: wrong }).get('key'), /NOAUTH|WRONGPASS/);
    }
  },

  async keys_of_all_slots() {
    const client = connect();
    const keys = range(2000).map((number) => `slots:${number}`);
    for (const key of keys) assert.equal(await client.set(key, key), 'OK');
    for (const key of keys) assert.equal(await client.get(key), key);
  },

  async pipeline_of_ten_thousand_commands() {
    const pipeline = connect().pipeline();
    for (const number of range(5000)) pipeline.set(`pipeline:${number}`, number).incr(`pipeline:${number}`);
    const expected = range(5000).flatMap((number) => ['OK', number + 1]);
    assert.deepEqual(replies(await pipeline.exec()), expected);
  },

  async commands_pipelined_by_themselves() {
    const client = connect({ enableAutoPipelining: true });
    const numbers = range(1000);
    await Promise.all(numbers.map((number) => client.set(`auto:${number}`, number)));
    const found = await Promise.all(numbers.map((number) => client.get(`auto:${number}`)));
    assert.deepEqual(found, numbers.map(String));
  },

  async everything_sent_before_anything_is_read() {
    const client = connect();
    const values = range(100).map((number) => String(number).padStart(1024, '0'));
    await client.mset(values.flatMap((value, number) => [`kib:${number}`, value]));
    const pipeline = client.pipeline();
    for (const number of range(200_000)) pipeline.get(`kib:${number % 100}`);
    const found = replies(await pipeline.exec());
    assert.equal(found.length, 200_000);
    assert.ok(found.every((value, number) => value === values[number % 100]));
  },

  async binary_keys_and_values() {
    const client = connect();
    const everyByte = Buffer.from(range(256));
    const keys = [...range(256).map((byte) => Buffer.from([byte])), Buffer.from(''), Buffer.from('\r\n'), everyByte];
    const values = keys.map((key) => Buffer.concat([key, everyByte]));
    for (const [index, key] of keys.entries()) assert.equal(await client.set(key, values[index]), 'OK');
    assert.deepEqual(await client.mgetBuffer(keys), values);
    assert.equal(await client.del(keys), keys.length);
  },

  async value_of_ten_mebibytes() {
    const client = connect();
    const value = Buffer.alloc(10 * 1024 * 1024, Buffer.from(range(256)));
    assert.equal(await client.set('large', value), 'OK');
    assert.equal(await client.strlen('large'), value.length);
    assert.ok(value.equals(await client.getBuffer('large')));
    assert.equal(await client.del('large'), 1);
  },

  async mget_and_mset_over_all_slots() {
    const client = connect();
    const keys = range(1000).map((number) => `many:${number}`);
    assert.equal(await client.mset(keys.flatMap((key, number) => [key, number])), 'OK');
    assert.deepEqual(await client.mget(keys), range(1000).map(String));
    assert.deepEqual(await client.mget('many:7', 'no such key', 'many:7'), ['7', null, '7']);
    assert.equal(await client.del(keys), 1000);
  },

  async scripts() {
    const client = connect();
    await client.del('{script}:1');
    // ioredis sends EVALSHA, and EVAL when the node does not know the script.
    client.defineCommand('add', { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
    assert.equal(await client.add('{script}:1', 3), 3);
    assert.equal(await client.add('{script}:1', 4), 7);
    assert.equal(await client.eval('return 7', 0), 7);
    await assert.rejects(client.eval('return 1', 2, 'script:1', 'script:2'), /don't hash to the same slot/);
  },

  async streams() {
    const client = connect();
    await client.del('stream');
    const ids = [];
    for (const number of range(100)) ids.push(await client.xadd('stream', '*', 'field', number));
    const entries = await client.xrange('stream', '-', '+');
    assert.deepEqual(entries, ids.map((id, number) => [id, ['field', String(number)]]));
    assert.equal((await client.xrange('stream', ids[10], ids[19])).length, 10);
  },

  async every_type_of_reply() {
    const client = connect();
    await client.del('type:hash', 'type:set', 'type:zset', 'type:list');
    assert.equal(await client.hset('type:hash', { a: 1, b: 2 }), 2);
    assert.deepEqual({ ...(await client.hgetall('type:hash')) }, { a: '1', b: '2' });
    assert.equal(await client.sadd('type:set', 'a', 'b'), 2);
    assert.deepEqual((await client.smembers('type:set')).sort(), ['a', 'b']);
    assert.equal(await client.zadd('type:zset', 1.5, 'a', '+inf', 'b'), 2);
    assert.deepEqual(await client.zrange('type:zset', 0, -1, 'WITHSCORES'), ['a', '1.5', 'b', 'inf']);
    assert.equal(await client.get('no such key'), null);
    await assert.rejects(client.get('type:hash'), /WRONGTYPE/);
  },

  async transaction_is_refused() {
    const client = connect();
    await client.del('transaction:1', 'transaction:2');
    const transaction = client.multi().set('transaction:1', 1).set('transaction:2', 2);
    await assert.rejects(transaction.exec(), /EXECABORT .*MULTI is not supported yet/);
    assert.deepEqual(await client.mget('transaction:1', 'transaction:2'), [null, null]);
    assert.equal(await client.set('transaction:1', 1), 'OK');
  },

  async what_is_not_supported_leaves_the_connection() {
    const client = connect();
    const id = await client.client('ID');
    for (const run of [() => client.blpop('list', 1), () => client.scan(0), () => client.flushall(), () => client.wait(1, 1)]) {
      await assert.rejects(run(), /is not supported yet/);
      assert.equal(await client.client('ID'), id);
    }
  },

  async reconnection() {
    const client = connect();
    assert.equal(await client.set('restart', 'before'), 'OK');
    console.log('connected');
    // The proxy is restarted meanwhile.
    await once(process.stdin, 'data');
    process.stdin.destroy();
    assert.equal(await client.get('restart'), 'before');
    assert.equal(await client.set('restart', 'after'), 'OK');
  },
};

await scenarios[scenario]();
for (const client of clients) client.disconnect();
