import { expect, it } from 'vitest';
import { until } from '../../harness/until.ts';
import type { NodeWorkbench, Spec } from '../node-workbench.ts';
import type { FullPod } from '../pod-follower.ts';

type Amounts = readonly [cpuRequest: string, cpuLimit: string, memoryRequest: string, memoryLimit: string];

const resources = ([cpuRequest, cpuLimit, memoryRequest, memoryLimit]: Amounts): Spec => ({
  requests: { ...(cpuRequest && { cpu: cpuRequest }), ...(memoryRequest && { memory: memoryRequest }) },
  limits: { ...(cpuLimit && { cpu: cpuLimit }), ...(memoryLimit && { memory: memoryLimit }) },
});
const same = (amount: readonly [cpu: string, memory: string]): Amounts => [amount[0], amount[0], amount[1], amount[1]];
const milli = (cpu: string) => (cpu.endsWith('m') ? Number.parseInt(cpu, 10) : Number(cpu) * 1000);
const bytes = (memory: string) => Number.parseInt(memory, 10) << 20;

/** The limits of a container in its cgroup: CPU quota per 100 ms, and memory. */
const limits = `if [ -f /sys/fs/cgroup/cpu.max ]; then cut -d ' ' -f 1 /sys/fs/cgroup/cpu.max; cat /sys/fs/cgroup/memory.max;
  else cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/memory/memory.limit_in_bytes; fi`;

/** Resizes of running pods (KEP-1287): requested, allocated, in place, and reported. */
export function resizeBehaviours(bench: NodeWorkbench): void {
  const path = (name: string) => `${bench.at('pods')}/${name}`;
  const containers = (all: readonly Amounts[]) =>
    all.map((amounts, index) =>
      bench.container("trap 'exit 0' TERM; sleep 600 & wait", { name: `c${index + 1}`, resources: resources(amounts) }),
    );
  const isResized = (wanted: readonly Amounts[]) => (pod: FullPod) =>
    pod.metadata.generation === pod.status.observedGeneration &&
    !pod.status.conditions?.some(({ type }) => type === 'PodResizePending' || type === 'PodResizeInProgress') &&
    wanted.every((amounts, index) => {
      const status = pod.status.containerStatuses?.find(({ name }) => name === `c${index + 1}`);
      return JSON.stringify(sorted(status?.resources)) === JSON.stringify(sorted(resources(amounts)));
    });
  const sorted = (one: object | undefined) =>
    Object.fromEntries(
      Object.entries(one ?? {})
        .filter(([, amounts]) => Object.keys(amounts as object).length > 0)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([key, amounts]) => [key, Object.fromEntries(Object.entries(amounts as object).sort(([a], [b]) => (a < b ? -1 : 1)))]),
    );
  const verify = async (name: string, wanted: readonly Amounts[]) => {
    for (const [index, [, cpuLimit, , memoryLimit]] of wanted.entries()) {
      const [quota, memory] = (await bench.k('exec', name, '-c', `c${index + 1}`, '--', 'sh', '-c', limits)).trim().split('\n');
      if (cpuLimit) expect(Number(quota)).toBe(Math.max(1000, milli(cpuLimit) * 100));
      if (memoryLimit) expect(Number(memory)).toBe(bytes(memoryLimit));
    }
  };
  const resized = async (before: readonly Amounts[], after: readonly Amounts[], how: 'patch' | 'replace' = 'patch') => {
    const { metadata, status } = await bench.start({ containers: containers(before), restartPolicy: 'Always' });
    const { name } = metadata;
    await verify(name, before);
    const change = after.map((amounts, index) => ({ name: `c${index + 1}`, resources: resources(amounts) }));
    if (how === 'patch') await bench.merge(`${path(name)}/resize`, { spec: { containers: change } }, 'strategic-merge-patch');
    else {
      // retried after a conflict with the kubelet
      await until('the pod is replaced', async () => {
        const now = await bench.api.get<FullPod>(path(name));
        const all = now.spec.containers.map((container, index) => ({ ...container, resources: change[index]?.resources }));
        const body = { ...now, spec: { ...now.spec, containers: all } };
        const { status } = await bench.api.call('PUT', `${path(name)}/resize`, { body });
        if (status !== 409) expect(status).toBe(200);
        return status === 200;
      });
    }
    const done = await bench.pods.until(name, 'have the new resources', isResized(after));
    await verify(name, after);
    expect(done.status.containerStatuses?.map(({ restartCount, containerID }) => [restartCount, containerID])).toEqual(
      status.containerStatuses?.map(({ containerID }) => [0, containerID]),
    );
    expect(done.status.qosClass).toBe(status.qosClass);
    bench.forget(name);
  };

  it('Pod InPlace Resize Container guaranteed pods with multiple containers: increases and decreases of cpu and memory, net increase and net decrease', async () => {
    const before = [same(['20m', '30Mi']), same(['20m', '30Mi']), same(['20m', '30Mi'])];
    await resized(before, [same(['35m', '40Mi']), same(['35m', '40Mi']), same(['10m', '25Mi'])]);
    await resized(before, [same(['35m', '40Mi']), same(['10m', '25Mi']), same(['10m', '25Mi'])]);
    await resized(before, [same(['35m', '30Mi']), same(['10m', '40Mi']), same(['35m', '40Mi'])]);
  });
  it('Pod InPlace Resize Container burstable pods - extended 6 containers - various operations performed (including adding limits and requests)', async () => {
    await resized(
      [
        ['', '', '', ''],
        ['20m', '', '', ''],
        ['20m', '40m', '', ''],
        ['20m', '', '20Mi', ''],
        ['20m', '40m', '20Mi', '40Mi'],
        ['20m', '40m', '20Mi', '40Mi'],
      ],
      [
        ['20m', '40m', '20Mi', '40Mi'],
        ['20m', '40m', '', ''],
        ['30m', '60m', '20Mi', '40Mi'],
        ['20m', '40m', '20Mi', '40Mi'],
        ['10m', '30m', '25Mi', '50Mi'],
        ['20m', '40m', '20Mi', '40Mi'],
      ],
    );
  });
  it('Pod InPlace Resize Container burstable pods - extended resize with equivalents', async () => {
    await resized([['2m', '10m', '', '']], [['1m', '5m', '', '']]);
  });
  it('Pod InPlace Resize Container resize pod via the replace endpoint', async () => {
    await resized([same(['20m', '30Mi'])], [same(['25m', '35Mi'])], 'replace');
  });

  it('pod-level resources are resized in place, and limit the containers (KEP-5419)', async () => {
    const whole = (cpu: string, memory: string) => ({ requests: { cpu: '10m', memory: '16Mi' }, limits: { cpu, memory } });
    const [before, after] = [whole('200m', '64Mi'), whole('300m', '96Mi')];
    const { metadata } = await bench.start({ resources: before, containers: containers([['', '', '', '']]), restartPolicy: 'Always' });
    const { name } = metadata;
    await verify(name, [['', '200m', '', '64Mi']]);
    await bench.merge(`${path(name)}/resize`, { spec: { resources: after } });
    const has = ({ status }: FullPod) => (status as { readonly resources?: { readonly limits?: Spec } }).resources?.limits?.['memory'];
    const pod = await bench.pods.until(name, 'have the requested resources', (one) => has(one) === '96Mi');
    expect(pod.status).toMatchObject({ resources: after, allocatedResources: after.requests });
    expect(pod.status.containerStatuses?.[0]?.restartCount).toBe(0);
    await verify(name, [['', '300m', '', '96Mi']]);
    bench.forget(name);
  });
}
