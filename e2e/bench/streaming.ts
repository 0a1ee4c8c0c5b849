// Sessions of a pod on containerd, through API server and kubelet. Reference: the same straight from the runtime, in the same run.
import { busyboxImage } from '../fixtures/test-image.ts';
import { composition } from '../harness/composition.ts';
import { bareRuntime } from './support/bare-containerd.ts';
import { median, print, type Figure } from './support/statistics.ts';
import { PodTimes } from './support/pod-times.ts';
import { cpuSeconds, BenchEnvironment } from './support/bench-environment.ts';
import { endless, execOutput, execRoundTrips, flowing, forwardedBytes, received, server, type Measured } from './support/exec-streams.ts';

const pod = 'streams';
const port = 8080;
const repetitions = 50;

const throughput = (what: string, ours: Measured, bare: Measured, cpu: number): readonly Figure[] => [
  { what, value: ours.perSecond / 1e6, unit: 'MB/s', reference: { what: 'the runtime alone', value: bare.perSecond / 1e6 } },
  { what: `${what}, CPU of Oarlock`, value: cpu / (ours.bytes / 1e9), unit: 's/GB' },
];

await BenchEnvironment.with(async (stage) => {
  const containerd = await stage.containerd();
  const spec = composition({ storage: 'memory', runtime: 'containerd', network: 'bridge', containerd });
  const cluster = await stage.cluster({ spec });
  const runtime = await bareRuntime(containerd.socket);
  const times = await PodTimes.follow(cluster.api, 'default');
  const measured = async <T>(work: () => Promise<T>): Promise<readonly [T, number]> => {
    const before = await cpuSeconds(cluster.pid);
    const found = await work();
    return [found, (await cpuSeconds(cluster.pid)) - before];
  };
  try {
    const containers = [{ name: 'main', image: busyboxImage, command: server(port) }];
    const body = { apiVersion: 'v1', kind: 'Pod', metadata: { name: pod }, spec: { containers } };
    await times.create(body);
    await times.ready(pod);

    await execRoundTrips(cluster, pod, repetitions); // warms up the code
    const [trips, tripCpu] = await measured(() => execRoundTrips(cluster, pod, repetitions));
    print([
      {
        what: 'exec of true, round trip, median (goal: 100)',
        value: median(trips),
        unit: 'ms',
        reference: { what: 'CRI alone', value: median(await runtime.execTimes(repetitions)) },
      },
      { what: 'exec of true, CPU of Oarlock', value: (tripCpu / repetitions) * 1000, unit: 'ms' },
    ]);

    const stop = new AbortController();
    const bareOutput = await flowing(await runtime.output(pod, endless, stop.signal));
    stop.abort();
    const [output, outputCpu] = await measured(() => execOutput(cluster, pod));
    print(throughput('output of exec', output, bareOutput, outputCpu));

    const bareForward = await received(await runtime.forward(pod, port));
    const [forward, forwardCpu] = await measured(() => forwardedBytes(cluster, pod, port));
    print(throughput('port-forward by kubectl (goal: 1000)', forward, bareForward, forwardCpu));
  } finally {
    times.close();
    await runtime.close();
  }
});
