import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, describe, expect, it } from 'vitest';
import { constants } from 'node:http2';
import { EtcdStorage, type EtcdStorageOptions } from '../../src/etcd-storage.ts';
import { LeasePool } from '../../src/client/lease-pool.ts';
import { SharedCall } from '@oarlock/primitives/concurrency/shared-call';
import { FakeEtcd } from '../support/fake-etcd.ts';

const started: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of started.splice(0).reverse()) await each.stop();
});

async function open(options: Partial<EtcdStorageOptions> = {}): Promise<{ etcd: FakeEtcd; storage: EtcdStorage }> {
  const etcd = await FakeEtcd.start();
  const storage = new EtcdStorage({ endpoints: [etcd.endpoint], requestTimeoutSeconds: 2, random: () => 0, ...options });
  started.push(etcd, storage);
  return { etcd, storage };
}
const write = [{ key: '/a', value: Buffer.from('1') }];

describe('etcd calls', () => {
  it('repeat a read if the connection is lost', async () => {
    const { etcd, storage } = await open();
    let lost = 0;
    etcd.handlers['Range'] = (_, stream) => {
      if (lost < 2) {
        lost += 1;
        stream.session?.destroy();
        return undefined;
      }
      return { header: { revision: 7 } };
    };
    expect(await storage.get('/a')).toEqual({ entry: undefined, revision: 7 });
    expect(etcd.count('Range')).toBe(3);
  });

  it('do not repeat a commit that may have been applied', async () => {
    const { etcd, storage } = await open();
    etcd.handlers['Txn'] = (_, stream) => {
      stream.session?.destroy();
      return undefined;
    };
    await expect(storage.commit(write, [])).rejects.toMatchObject({ code: 'Unavailable' });
    expect(etcd.count('Txn')).toBe(1);
    etcd.handlers['Txn'] = () => ({ status: 14, message: 'etcdserver: request timed out' });
    await expect(storage.commit(write, [])).rejects.toMatchObject({ code: 'Unavailable', message: 'etcdserver: request timed out' });
    expect(etcd.count('Txn')).toBe(2);
  });

  it('repeat a commit that the server rejected unprocessed', async () => {
    const { etcd, storage } = await open();
    let rejected = 0;
    etcd.handlers['Txn'] = (_, stream) => {
      if (rejected === 0) {
        rejected += 1;
        stream.close(constants.NGHTTP2_REFUSED_STREAM);
        return undefined;
      }
      return { header: { revision: 9 }, succeeded: true };
    };
    expect(await storage.commit(write, [])).toEqual({ ok: true, revision: 9 });
    expect(etcd.count('Txn')).toBe(2);
  });

  it('reconnect after GOAWAY', async () => {
    const { etcd, storage } = await open();
    await storage.get('/a');
    etcd.goAway();
    for (let at = 0; at < 5; at += 1) expect(await storage.commit(write, [])).toMatchObject({ ok: true });
    expect(etcd.count('Txn')).toBe(5);
  });

  it('fail after the request timeout and report the endpoints', async () => {
    const { etcd, storage } = await open({ requestTimeoutSeconds: 0.2 });
    etcd.handlers['Txn'] = () => undefined;
    await expect(storage.commit(write, [])).rejects.toMatchObject({ code: 'Unavailable' });
    const nowhere = new EtcdStorage({ endpoints: ['http://127.0.0.1:1', 'http://127.0.0.1:2'], requestTimeoutSeconds: 0.2 });
    started.push(nowhere);
    const calls = await Promise.allSettled([
      nowhere.start(),
      nowhere.get('/a'),
      nowhere.commit(write, []),
      nowhere.requestProgress(),
      nowhere.compact(5),
    ]);
    for (const call of calls)
      expect(call).toMatchObject({
        status: 'rejected',
        reason: { code: 'Unavailable', message: expect.stringContaining('http://127.0.0.1:2') },
      });
  });

  it('use another member if one does not respond', async () => {
    const stuck = await FakeEtcd.start();
    started.push(stuck);
    stuck.handlers['Range'] = () => undefined;
    const { etcd } = await open();
    const storage = new EtcdStorage({ endpoints: [stuck.endpoint, etcd.endpoint], requestTimeoutSeconds: 1 });
    started.push(storage);
    expect(await storage.get('/a')).toMatchObject({ revision: 100 });
    expect([stuck.count('Range'), etcd.count('Range')]).toEqual([1, 1]);
    expect(await storage.commit(write, [])).toMatchObject({ ok: true });
    expect(stuck.count('Txn')).toBe(0);
  });

  it('switch from a member without a leader', async () => {
    const { etcd: lonely } = await open();
    lonely.handlers['Status'] = () => ({ version: '3.5.16', leader: 0 });
    const { etcd } = await open();
    const storage = new EtcdStorage({ endpoints: [lonely.endpoint, etcd.endpoint], requestTimeoutSeconds: 2 });
    started.push(storage);
    await storage.get('/a');
    expect([lonely.count('Range'), etcd.count('Range')]).toEqual([0, 1]);
  });

  it("map etcd's errors to storage errors", async () => {
    const { etcd, storage } = await open();
    const fails = async (method: string, status: number, message: string, call: () => Promise<unknown>) => {
      etcd.handlers[method] = () => ({ status, message });
      return call().catch((error: unknown) => error);
    };
    expect(
      await fails('Range', 11, 'etcdserver: mvcc: required revision has been compacted', () => storage.get('/a', { revision: 5 })),
    ).toMatchObject({ code: 'Compacted' });
    expect(
      await fails('Range', 11, 'etcdserver: mvcc: required revision is a future revision', () =>
        storage.range({ prefix: '/', revision: 5 }),
      ),
    ).toMatchObject({ code: 'FutureRevision' });
    expect(await fails('Txn', 3, 'etcdserver: request is too large', () => storage.commit(write, []))).toMatchObject({ code: 'TooLarge' });
    expect(await fails('Txn', 3, 'etcdserver: too many operations in txn request', () => storage.commit(write, []))).toMatchObject({
      code: 'TooLarge',
    });
    expect(await fails('Txn', 8, 'etcdserver: mvcc: database space exceeded', () => storage.commit(write, []))).toMatchObject({
      code: 'Full',
      message: expect.stringContaining('space exceeded'),
    });
    expect(await fails('Txn', 7, '100%25 denied%0a', () => storage.commit(write, []))).toMatchObject({
      code: 'Unavailable',
      message: '100% denied\n',
    });
  });

  it('read a long range in parts, and restart if compaction overtakes it', async () => {
    const { etcd, storage } = await open();
    const all = Array.from({ length: 1200 }, (_, at) => `/oarlock/k${String(at).padStart(5, '0')}`);
    let compacted = false;
    const revisions: number[] = [];
    etcd.handlers['Range'] = (request) => {
      const { key, limit, revision } = request as {
        key: Buffer;
        limit: { toNumber(): number } | number;
        revision: { toNumber(): number } | number;
      };
      const [most, at] = [Number(limit), Number(revision)];
      revisions.push(at);
      if (at > 0 && !compacted) {
        compacted = true;
        return { status: 11, message: 'etcdserver: mvcc: required revision has been compacted' };
      }
      const rest = all.filter((name) => Buffer.compare(Buffer.from(name), key) >= 0);
      etcd.revision += 1;
      return {
        header: { revision: etcd.revision },
        count: rest.length,
        kvs: rest.slice(0, most).map((name) => ({ key: Buffer.from(name), mod_revision: 5, create_revision: 5 })),
      };
    };
    const page = await storage.range({ prefix: '' });
    expect(page.entries.map((entry) => `/oarlock/${entry.key}`)).toEqual(all);
    expect(page).toMatchObject({ revision: 102, more: false, remaining: 0 });
    expect(revisions).toEqual([0, 101, 0, 102]);
    const first = await storage.range({ prefix: '', limit: 700 });
    expect(first).toMatchObject({ more: true, remaining: 500 });
    expect(first.entries).toHaveLength(700);
  });
});

describe('LeasePool', () => {
  const counting = () => {
    const grants: { TTL: number; ID: number }[] = [];
    return {
      grants,
      call: async (_: unknown, request: unknown) => {
        grants.push(request as { TTL: number; ID: number });
        return { TTL: (request as { TTL: number }).TTL, error: '' } as never;
      },
    };
  };

  it('shares a lease among keys with the same time to live within 5 %', async () => {
    const [clock, connection] = [new FakeClock(), counting()];
    let number = 0;
    const pool = new LeasePool(connection, clock, () => (number += 1) / 1000);
    const ids = await Promise.all(Array.from({ length: 100 }, () => pool.lease(3600)));
    expect(new Set(ids).size).toBe(1);
    expect(connection.grants.map(({ TTL }) => TTL)).toEqual([3660]);
    await clock.advance(59_000);
    expect(await pool.lease(3600)).toBe(ids[0]);
    await clock.advance(2_000);
    expect(await pool.lease(3600)).not.toBe(ids[0]);
    await pool.lease(10);
    await pool.lease(3600);
    expect(connection.grants.map(({ TTL }) => TTL)).toEqual([3660, 3660, 11]);
  });

  it('assigns at most a thousand keys to a lease', async () => {
    const connection = counting();
    const pool = new LeasePool(connection, new FakeClock(), Math.random);
    for (let at = 0; at < 2001; at += 1) await pool.lease(60);
    expect(connection.grants).toHaveLength(3);
  });

  it('discards a lease that was not granted', async () => {
    let fails = true;
    const pool = new LeasePool(
      {
        call: async () => {
          if (fails) throw new Error('no');
          return { TTL: 100, error: '' } as never;
        },
      },
      new FakeClock(),
      Math.random,
    );
    await expect(pool.lease(60)).rejects.toThrow('no');
    fails = false;
    expect(await pool.lease(60)).toBeGreaterThan(0);
  });

  it('grants a new lease if etcd does not know the current one', async () => {
    const { etcd, storage } = await open();
    let known = false;
    etcd.handlers['Txn'] = () => {
      if (!known) {
        known = true;
        return { status: 5, message: 'etcdserver: requested lease not found' };
      }
      return { header: { revision: 9 }, succeeded: true };
    };
    expect(await storage.commit([{ ...write[0]!, ttlSeconds: 60 }], [])).toEqual({ ok: true, revision: 9 });
    expect(etcd.count('LeaseGrant')).toBe(2);
  });
});

describe('SharedCall', () => {
  it('makes one call for all callers that arrive during another call, after that one', async () => {
    const running: { resolve(value: number): void; reject(error: unknown): void }[] = [];
    const shared = new SharedCall<number>(
      () =>
        new Promise((resolve, reject) => {
          running.push({ resolve, reject });
        }),
    );
    const first = shared.call();
    const others = [shared.call(), shared.call(), shared.call()];
    expect(running).toHaveLength(1);
    running[0]!.reject(new Error('lost'));
    await expect(first).rejects.toThrow('lost');
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    expect(running).toHaveLength(2);
    const more = shared.call();
    running[1]!.resolve(2);
    expect(await Promise.all(others)).toEqual([2, 2, 2]);
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    running[2]!.resolve(3);
    expect(await more).toBe(3);
    expect(running).toHaveLength(3);
  });
});
