// Pods on containerd, image present. Reference of starts: the same by CRI calls alone, in the same run. Kubernetes' figures: shared/bench.
import { busyboxImage } from '../fixtures/test-image.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { bareRuntime, type BareRuntime } from './support/bare-containerd.ts';
import { median, print, quantile, type Figure } from './support/statistics.ts';
import { PodTimes } from './support/pod-times.ts';
import { cpuSeconds, BenchEnvironment } from './support/bench-environment.ts';

const single = 12;
const together = 30;
const idlePods = 110;
const idleSeconds = 30;

const body = (name: string, command: readonly string[]) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name },
  spec: { terminationGracePeriodSeconds: 30, containers: [{ name: 'main', image: busyboxImage, command }] },
});
/** Exits at once on SIGTERM. */
const obedient = ['sh', '-c', 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done'];

async function oneAtATime(times: PodTimes, runtime: BareRuntime): Promise<readonly Figure[]> {
  const [ready, gone, bare]: [number[], number[], number[]] = [[], [], []];
  for (let round = 0; round < single; round++) {
    const name = `one-${round}`;
    await times.create(body(name, obedient));
    ready.push(await times.ready(name));
    gone.push(await times.remove(name));
    const from = performance.now();
    const sandbox = await runtime.startPod();
    bare.push(performance.now() - from);
    await runtime.removePod(sandbox);
  }
  const unit = 'ms';
  return [
    {
      what: 'one pod, create to Ready, median',
      value: median(ready),
      unit,
      reference: { what: 'CRI alone', value: median(bare) },
      upstream: '480 ms',
    },
    {
      what: 'one pod, create to Ready, worst',
      value: quantile(ready, 1),
      unit,
      reference: { what: 'CRI alone', value: quantile(bare, 1) },
    },
    { what: 'one pod, delete to gone, median', value: median(gone), unit, upstream: '1500 ms' },
  ];
}

async function manyAtOnce(times: PodTimes, runtime: BareRuntime, cluster: Cluster): Promise<readonly Figure[]> {
  const names = Array.from({ length: together }, (_, index) => `many-${index}`);
  const before = await cpuSeconds(cluster.pid);
  await Promise.all(names.map((name) => times.create(body(name, obedient))));
  const ready = await Promise.all(names.map((name) => times.ready(name)));
  const cpuMs = ((await cpuSeconds(cluster.pid)) - before) * 1000;
  await Promise.all(names.map((name) => times.remove(name)));
  const bare: number[] = [];
  const sandboxes = await Promise.all(
    names.map(async () => {
      const from = performance.now();
      const sandbox = await runtime.startPod();
      bare.push(performance.now() - from);
      return sandbox;
    }),
  );
  for (const sandbox of sandboxes) await runtime.removePod(sandbox);
  const unit = 'ms';
  const figure = (part: number, name: string, upstream: string): Figure => ({
    what: `${together} pods at once, create to Ready, ${name}`,
    value: quantile(ready, part),
    unit,
    reference: { what: 'CRI alone', value: quantile(bare, part) },
    upstream,
  });
  return [
    figure(0.5, 'p50', '3800 ms'),
    figure(0.99, 'p99', '4300 ms'),
    { what: `${together} pods at once, CPU of Oarlock for each`, value: cpuMs / together, unit },
  ];
}

async function idling(times: PodTimes, cluster: Cluster): Promise<readonly Figure[]> {
  const names = Array.from({ length: idlePods }, (_, index) => `idle-${index}`);
  await Promise.all(names.map((name) => times.create(body(name, obedient))));
  await Promise.all(names.map((name) => times.ready(name)));
  const measure = async () => {
    const [cpu, from] = [await cpuSeconds(cluster.pid), performance.now()];
    await new Promise((resolve) => {
      setTimeout(resolve, idleSeconds * 1000);
    });
    return (((await cpuSeconds(cluster.pid)) - cpu) / ((performance.now() - from) / 1000)) * 100;
  };
  await measure(); // waits for work that the starts have left
  return [{ what: `${idlePods} idle pods, all of Oarlock (goal: 3)`, value: await measure(), unit: '% of a core' }];
}

await BenchEnvironment.with(async (stage) => {
  const containerd = await stage.containerd();
  const spec = composition({
    storage: 'memory',
    runtime: 'containerd',
    network: 'bridge',
    containerd,
    kubelet: { maxPods: idlePods + 10 },
  });
  const cluster = await stage.cluster({ spec });
  const runtime = await bareRuntime(containerd.socket);
  const times = await PodTimes.follow(cluster.api, 'default');
  try {
    print(await oneAtATime(times, runtime));
    print(await manyAtOnce(times, runtime, cluster));
    print(await idling(times, cluster));
  } finally {
    times.close();
    await runtime.close();
  }
});
