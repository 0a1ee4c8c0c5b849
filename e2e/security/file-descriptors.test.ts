import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { request, type Agent } from 'node:https';
import { connect, type Socket } from 'node:net';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { until } from '../harness/until.ts';
import { Caller } from './support/callers.ts';

const run = promisify(execFile);
const machine = Machine.use();
const maps = '/api/v1/namespaces/default/configmaps';
const configMap = (name: string) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name } });

it('a server without file descriptors keeps its connections, and accepts new ones when some are free', async () => {
  const spec = { ...composition({ storage: 'embedded', runtime: 'simulated', network: 'host' }), roles: ['apiserver' as const] };
  const cluster = await machine.cluster({ spec });
  const { tls, server } = cluster.api;
  const credentials = { cert: tls.cert, key: tls.key };
  const caller = new Caller(cluster, credentials, 1);
  const events: string[] = [];
  const watch = request(new URL(`${maps}?watch=1`, server), { ca: tls.ca, ...credentials, agent: false as unknown as Agent });
  const sockets: Socket[] = [];
  try {
    watch.on('response', (response) => response.setEncoding('utf8').on('data', (chunk: string) => events.push(chunk)));
    watch.end();
    await once(watch, 'response');
    expect((await caller.call('POST', maps, { body: configMap('before') })).status).toBe(201);
    await until('the watch reports the first object', async () => events.join('').includes('"before"'));

    const open = (await readdir(`/proc/${cluster.pid}/fd`)).length;
    const limits = (
      await run('prlimit', ['--pid', String(cluster.pid), '--nofile', '--raw', '--noheadings', '--output', 'SOFT'])
    ).stdout.trim();
    await run('prlimit', ['--pid', String(cluster.pid), `--nofile=${open + 10}:`]);
    let ended = 0;
    for (let n = 0; n < 100; n++) {
      const socket = connect(Number(new URL(server).port), '127.0.0.1');
      socket.on('error', () => socket.destroy());
      socket.once('close', () => (ended += 1));
      sockets.push(socket.resume());
    }
    await until('connections beyond the limit are closed', async () => ended >= 80);

    // the connections of before work while no descriptor is free
    expect((await caller.call('POST', maps, { body: configMap('during') })).status).toBe(201);
    // so many bytes that the log needs another segment than its first one, of 256 KiB
    const data = { text: 'x'.repeat(100_000) };
    for (const name of ['filler-1', 'filler-2', 'filler-3'])
      expect((await caller.call('POST', maps, { body: { ...configMap(name), data } })).status).toBe(201);
    await until('the watch reports the second object', async () => events.join('').includes('"during"'));

    for (const socket of sockets) socket.destroy();
    await until('a new connection is accepted', async () => {
      const later = new Caller(cluster, credentials);
      try {
        return (await later.call('GET', `${maps}/during`)).status === 200;
      } catch {
        return false; // no descriptor was free yet
      } finally {
        later.close();
      }
    });
    await run('prlimit', ['--pid', String(cluster.pid), `--nofile=${limits}:`]);
    expect(cluster.running).toBe(true);
  } finally {
    watch.destroy();
    for (const socket of sockets) socket.destroy();
    caller.close();
  }
});
