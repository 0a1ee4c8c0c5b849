import type { Cluster } from '../../harness/cluster.ts';
import { busyboxImage } from '../../fixtures/test-image.ts';
import type { BareRuntime } from './bare-containerd.ts';
import { cpuSeconds } from './bench-environment.ts';
import type { PodTimes } from './pod-times.ts';
import { median, quantile, type Figure } from './statistics.ts';

const single = 12;
const together = 30;

export const podOf = (name: string, command: readonly string[]) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name },
  spec: { terminationGracePeriodSeconds: 30, containers: [{ name: 'main', image: busyboxImage, command }] },
});
/** Exits at once on SIGTERM. */
export const obedient = ['sh', '-c', 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done'];

/** Starts pods one after another, and each time the same with containerd alone. */
export async function oneAtATime(times: PodTimes, runtime: BareRuntime): Promise<readonly Figure[]> {
  const [ready, gone, bare]: [number[], number[], number[]] = [[], [], []];
  for (let round = 0; round < single; round++) {
    const name = `one-${round}`;
    await times.create(podOf(name, obedient));
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

/** Starts pods at once, then as many with containerd alone. */
export async function manyAtOnce(times: PodTimes, runtime: BareRuntime, cluster: Cluster): Promise<readonly Figure[]> {
  const names = Array.from({ length: together }, (_, index) => `many-${index}`);
  const before = await cpuSeconds(cluster.pid);
  await Promise.all(names.map((name) => times.create(podOf(name, obedient))));
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
