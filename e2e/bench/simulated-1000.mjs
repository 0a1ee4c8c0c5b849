// A Deployment of 10,000 pods on 1,000 simulated nodes: until all are ready, and what kubectl waits for meanwhile.
// Reference of the same run: the same kubectl call on the idle cluster.
import { setTimeout as delay } from 'node:timers/promises';
import { median, startCluster } from './process.mjs';

const replicas = 10_000;
const cluster = await startCluster({
  roles: ['apiserver', 'controllers', 'scheduler', 'kubelet'], storage: 'storage-memory', runtimes: ['runtime-simulated'], settings: { kubelet: { nodeName: 'sim', count: 1000, port: 0 } },
});
try {
  const look = () => cluster.kubectl('get', 'deployment', 'big', '-o', 'jsonpath={.status.readyReplicas}');
  const idle = Array.from({ length: 9 }, () => cluster.kubectl('get', 'namespace', 'default', '-o', 'name').ms);
  const cpu = cluster.cpuSeconds();
  const from = performance.now();
  cluster.kubectl('create', 'deployment', 'big', '--image=x', `--replicas=${replicas}`);
  const waits = [];
  for (let ready = 0; ready < replicas; ) {
    const { out, ms } = look();
    waits.push(ms);
    ready = Number(out || 0);
    if (performance.now() - from > 300_000) throw new Error(`only ${ready} of ${replicas} pods are ready after five minutes`);
    await delay(250);
  }
  const seconds = (performance.now() - from) / 1000;
  const sorted = waits.toSorted((a, b) => a - b);
  console.log(
    JSON.stringify({
      nodes: 1000, pods: replicas, up_ms: Math.round(cluster.readyMs), all_ready_s: Number(seconds.toFixed(1)), pods_per_s: Math.round(replicas / seconds),
      cpu_s: Number((cluster.cpuSeconds() - cpu).toFixed(1)), rss_mib: Math.round(cluster.rssMiB()), kubectl_p50_ms: Math.round(median(waits)), kubectl_max_ms: Math.round(sorted.at(-1)),
      kubectl_idle_ms: Math.round(median(idle)), ratio_p50_to_idle: Number((median(waits) / median(idle)).toFixed(1)),
    }),
  );
} finally {
  await cluster.stop();
}
