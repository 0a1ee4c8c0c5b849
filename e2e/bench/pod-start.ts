// Pods on containerd, image present. Reference of starts: the same by CRI calls alone, in the same run. Kubernetes' figures: shared/bench.
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { bareRuntime } from './support/bare-containerd.ts';
import { manyAtOnce, obedient, oneAtATime, podOf } from './support/pod-starts.ts';
import { print, type Figure } from './support/statistics.ts';
import { PodTimes } from './support/pod-times.ts';
import { cpuSeconds, BenchEnvironment } from './support/bench-environment.ts';

const idlePods = 110;
const idleSeconds = 30;

async function idling(times: PodTimes, cluster: Cluster): Promise<readonly Figure[]> {
  const names = Array.from({ length: idlePods }, (_, index) => `idle-${index}`);
  await Promise.all(names.map((name) => times.create(podOf(name, obedient))));
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
