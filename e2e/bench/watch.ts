// Events per second to many watchers of one resource. The watchers only count lines, in a process of their own. Reference of the same
// run: the same writes without watchers.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:tls';
import { composition } from '../harness/composition.ts';
import { print } from './support/statistics.ts';
import { LoadGenerator } from './support/load-generator.ts';
import { cpuSeconds, BenchEnvironment } from './support/bench-environment.ts';

const watchers = 100;
const writes = 1000;
interface Order {
  readonly host: string;
  readonly port: number;
  readonly tls: { readonly ca: string; readonly cert: string; readonly key: string };
  readonly path: string;
  readonly revision: string;
}

if (process.send !== undefined) await watch();
else await BenchEnvironment.with(direct);

/** In the child: opens all watches, then counts until each has received the last write. */
async function watch(): Promise<void> {
  const [order] = (await once(process, 'message')) as [Order];
  const { host, port, tls, path, revision } = order;
  let open = 0;
  let finished = 0;
  let events = 0;
  for (let index = 0; index < watchers; index++) {
    const socket = connect({ host, port, ...tls, ALPNProtocols: ['http/1.1'] });
    socket.write(`GET ${path}?watch=1&resourceVersion=${revision} HTTP/1.1\r\nhost: ${host}\r\naccept: application/json\r\n\r\n`);
    let started = false;
    let seen = 0;
    socket.on('data', (chunk: Buffer) => {
      let at = 0;
      if (!started) {
        at = chunk.indexOf('\r\n\r\n');
        if (at < 0) return;
        started = true;
        if (++open === watchers) process.send?.('open');
      }
      // one event per line, and every one names its type first
      for (at = chunk.indexOf('{"type"', at); at >= 0; at = chunk.indexOf('{"type"', at + 7)) {
        seen++;
        events++;
      }
      if (seen === writes) {
        seen++;
        if (++finished === watchers) process.send?.({ events });
      }
    });
    socket.on('error', (error) => {
      throw error;
    });
  }
  process.once('disconnect', () => process.exit(0));
}

async function direct(stage: BenchEnvironment): Promise<void> {
  const cluster = await stage.cluster({
    spec: { ...composition({ storage: 'memory', runtime: 'simulated', network: 'host' }), roles: ['apiserver'] },
  });
  const path = '/api/v1/namespaces/default/configmaps';
  const load = new LoadGenerator(cluster.api);
  const write = (prefix: string) =>
    load.rate(writes, 16, (index) =>
      load.request(
        'POST',
        path,
        JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: `${prefix}-${index}` }, data: { text: 'x'.repeat(200) } }),
      ),
    );
  const alone = await write('alone');
  const {
    metadata: { resourceVersion },
  } = await cluster.api.get<{ metadata: { resourceVersion: string } }>(`${path}?limit=1`);
  const child = fork(process.argv[1] ?? '', { execArgv: process.execArgv });
  try {
    const { hostname, port } = new URL(cluster.api.server);
    child.send({ host: hostname, port: Number(port), tls: cluster.api.tls, path, revision: resourceVersion } satisfies Order);
    await once(child, 'message');
    const before = await cpuSeconds(cluster.pid);
    const began = performance.now();
    const finished = once(child, 'message');
    const watched = await write('watched');
    const [{ events }] = (await finished) as [{ readonly events: number }];
    const seconds = (performance.now() - began) / 1000;
    const cost = (await cpuSeconds(cluster.pid)) - before;
    print([
      { what: 'processor time of the server per event', value: (cost / events) * 1e6, unit: 'us', upstream: '21 us' },
      { what: `events to ${watchers} watchers`, value: events / seconds, unit: '/s', upstream: '20,027/s' },
      {
        what: 'creates per second meanwhile',
        value: watched.perSecond,
        unit: '/s',
        reference: { what: 'nobody watching', value: alone.perSecond },
      },
    ]);
  } finally {
    child.disconnect();
  }
}
