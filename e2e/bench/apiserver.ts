/**
 * Measures the processor time of writes: pods are created, bound and updated through the loopback handler, with five informers and one watch
 * per node. Run: npm run bench -- apiserver
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { pod, runningStatus } from './operations/objects.ts';
import { startPipeline } from './operations/pipeline.ts';

const [count = 10_000, nodes = 1_000] = process.argv.slice(2).map(Number);
const parallel = 64;
const { send, stop: stopPipeline } = await startPipeline();

const stop = new AbortController();
let events = 0;
const cache = new Map<string, Pod>();
async function follow(query: ApiRequest['query'], keep: boolean): Promise<void> {
  const response = await send('watch', pods, { namespace: '', query, signal: stop.signal });
  if (response.kind !== 'watch') return;
  void (async () => {
    for await (const batch of response.events) {
      events += batch.length;
      if (keep) for (const { object } of batch) cache.set(object.metadata?.name ?? '', object as Pod);
    }
  })();
}
for (let i = 0; i < 5; i++) await follow({ resourceVersion: '0', allowWatchBookmarks: 'true' }, i === 0);
for (let i = 0; i < nodes; i++) await follow({ fieldSelector: `spec.nodeName=node-${i}`, resourceVersion: '0' }, false);

async function each(what: string, work: (i: number) => Promise<unknown>): Promise<void> {
  const cpu = process.cpuUsage();
  const began = performance.now();
  let next = 0;
  await Promise.all(
    Array.from({ length: parallel }, async () => {
      while (next < count) await work(next++);
    }),
  );
  // time for the informers to read all events
  await new Promise((resolve) => {
    setTimeout(resolve, 50);
  });
  const { user, system } = process.cpuUsage(cpu);
  console.log(
    `${what.padEnd(22)} ${(((performance.now() - began) / count) * 1000).toFixed(1).padStart(7)} us wall  ${((user + system) / count).toFixed(1).padStart(7)} us cpu each`,
  );
}

const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();
const began = process.cpuUsage();
await each('create', (i) => send('create', pods, { body: pod(`pod-${i}`) }));
await each('bind', (i) =>
  send('create', pods, {
    subresource: 'binding',
    name: `pod-${i}`,
    body: {
      kind: 'Binding',
      apiVersion: 'v1',
      metadata: { name: `pod-${i}`, namespace: 'default' },
      target: { kind: 'Node', name: `node-${i % nodes}` },
    },
  }),
);
const started = runningStatus(false);
const pending = { hostIP: started.hostIP, hostIPs: started.hostIPs, startTime: started.startTime, conditions: started.conditions };
const put = (status: Pod['status']) => (i: number) => {
  const current = cache.get(`pod-${i}`) as Pod;
  const body = { ...current, status: { ...current.status, ...status } };
  return send('update', pods, { subresource: 'status', name: `pod-${i}`, body });
};
await each('status, put', put(pending as Pod['status']));
await each('status, strategic', (i) =>
  send('patch', pods, { subresource: 'status', name: `pod-${i}`, patchType: 'strategic', body: { status: started } }),
);
await each('status, put', put(runningStatus(true)));
const { user, system } = process.cpuUsage(began);
await new Promise((resolve) => {
  setTimeout(resolve, 100);
});
const total = (user + system) / 1e6;
console.log(
  `total ${total.toFixed(2)} s of CPU for ${count * 5} writes: ${((total / count / 5) * 1e6).toFixed(1)} us each; ${events} events delivered; loop held at most ${(delay.max / 1e6).toFixed(0)} ms, p99 ${(delay.percentile(99) / 1e6).toFixed(1)} ms; ${Math.round(process.memoryUsage().rss / 2 ** 20)} MiB`,
);
stop.abort();
await stopPipeline();
