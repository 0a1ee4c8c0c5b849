// From `oarlock up` to /readyz, to the first pod that is Ready on containerd, and memory when idle. References of the same run: a bare
// Node process, and the same pod by CRI calls without a cluster.
import { once } from 'node:events';
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:tls';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { busyboxImage } from '../fixtures/test-image.ts';
import { Api } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { until } from '../harness/until.ts';
import { bareRuntime } from './support/bare-containerd.ts';
import { median, print } from './support/statistics.ts';
import { residentMiB, BenchEnvironment } from './support/bench-environment.ts';

const runs = 5;
const idleSeconds = Number(process.env['OARLOCK_BENCH_IDLE_SECONDS'] ?? 60);

/** Polls on raw connections: the first response counts, not the message of the process. */
async function readyAfter(cluster: Cluster): Promise<number> {
  const began = performance.now();
  cluster.launch();
  const caFile = join(cluster.dataDir, 'pki', 'ca.crt');
  await until(
    '/readyz answers 200',
    async () => {
      const ca = await readFile(caFile);
      return new Promise<boolean>((resolve) => {
        const socket = connect({ host: '127.0.0.1', port: cluster.port, ca, servername: 'localhost', ALPNProtocols: ['http/1.1'] });
        socket.setTimeout(2000, () => socket.destroy());
        socket.once('secureConnect', () => socket.write('GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n'));
        socket.once('data', (data: Buffer) => {
          resolve(data.toString('latin1').startsWith('HTTP/1.1 200'));
          socket.destroy();
        });
        socket.once('error', () => resolve(false)).once('close', () => resolve(false));
      });
    },
    { everyMs: 2, timeoutMs: 60_000 },
  );
  return performance.now() - began;
}

async function bareNode(): Promise<number> {
  const began = performance.now();
  await once(spawn(process.execPath, ['-e', '0']), 'exit');
  return performance.now() - began;
}

await BenchEnvironment.with(async (stage) => {
  const spec = composition({ storage: 'memory', runtime: 'process', network: 'host' });
  const [bare, first, again]: [number[], number[], number[]] = [[], [], []];
  let idle = 0;
  for (let run = 0; run < runs; run++) {
    bare.push(await bareNode());
    const cluster = await stage.prepare({ spec });
    first.push(await readyAfter(cluster));
    await cluster.daemon.line(/^Oarlock is ready/);
    await cluster.stop();
    again.push(await readyAfter(cluster));
    await cluster.daemon.line(/^Oarlock is ready/);
    if (run === runs - 1) {
      await delay(idleSeconds * 1000);
      idle = await residentMiB(cluster.pid);
    }
    await cluster.stop();
  }
  const reference = { what: 'bare node', value: median(bare) };
  print([
    { what: 'up to /readyz 200, new data directory', value: median(first), unit: 'ms', reference, upstream: '3.0 s' },
    { what: 'up to /readyz 200, known data directory', value: median(again), unit: 'ms', reference },
    { what: `resident memory after ${idleSeconds} s idle`, value: idle, unit: 'MiB', upstream: '652 MB in six processes' },
  ]);

  const reason = await componentMissing.containerd();
  if (reason !== undefined) {
    console.log(`first pod on containerd: not measured, ${reason}`);
    return;
  }
  const containerd = await stage.containerd();
  const [ready, direct]: [number[], number[]] = [[], []];
  for (let run = 0; run < runs; run++) {
    const onContainerd = composition({ storage: 'memory', runtime: 'containerd', network: 'bridge', containerd });
    const cluster = await stage.prepare({ spec: onContainerd });
    const began = performance.now();
    cluster.launch();
    const api = await until(
      'the kubeconfig works',
      async () => {
        const api = await Api.of(cluster.kubeconfig);
        return (await api.call('GET', '/readyz')).status === 200 && api;
      },
      { everyMs: 5 },
    );
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'first', labels: { app: 'first' } },
      spec: { terminationGracePeriodSeconds: 0, containers: [{ name: 'main', image: busyboxImage, command: ['sleep', '3600'] }] },
    };
    // pods are rejected until the namespace has its service account, as upstream
    await until(
      'the pod is accepted',
      async () => (await api.call('POST', '/api/v1/namespaces/default/pods', { body: pod })).status === 201,
      { everyMs: 5 },
    );
    await api.untilReady('default', 'first', 1);
    ready.push(performance.now() - began);
    const runtime = await bareRuntime(containerd.socket);
    const from = performance.now();
    const sandbox = await runtime.startPod();
    direct.push(performance.now() - from);
    await runtime.removePod(sandbox);
    await runtime.close();
    await api.call('DELETE', '/api/v1/namespaces/default/pods/first?gracePeriodSeconds=0');
    await api.until('no pods', api.pods('default'), (pods) => pods.length === 0);
    api.close();
    await cluster.dispose();
  }
  print([
    {
      what: 'up to the first pod Ready on containerd',
      value: median(ready),
      unit: 'ms',
      reference: { what: 'the pod alone by CRI', value: median(direct) },
      upstream: '10.5 s',
    },
  ]);
});
