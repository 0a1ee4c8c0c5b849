import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { busyboxImage } from '../fixtures/test-image.ts';
import type { Item, PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition, type RuntimeName } from '../harness/composition.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { until } from '../harness/until.ts';

const mount = '/sys/fs/cgroup';
const second = existsSync(join(mount, 'cgroup.controllers'));
const root = second ? mount : join(mount, 'memory');
const isRoot = process.getuid?.() === 0;

const missingComponents: Readonly<Record<string, () => Promise<string | undefined>>> = {
  containerd: async () => (everythingIsNeeded ? undefined : componentMissing.containerd()),
  docker: async () => (everythingIsNeeded ? undefined : componentMissing.docker()),
  process: async () => (isRoot ? undefined : 'cgroups require root'),
};
const runtimes = ['containerd', 'docker', 'process'] as const satisfies readonly RuntimeName[];
const lacking = new Map(await Promise.all(runtimes.map(async (name) => [name, await missingComponents[name]?.()] as const)));

interface Summary {
  readonly pods: readonly {
    readonly podRef: { readonly uid: string };
    readonly network?: { readonly name: string; readonly rxBytes: number };
    readonly process_stats?: { readonly process_count: number };
  }[];
}

describe.each(runtimes)('the cgroup of a pod on %s', (runtime) => {
  const why = lacking.get(runtime);
  describe.skipIf(why !== undefined)(why ?? 'limits all containers of the pod', () => {
    const machine = Machine.use();
    let cluster: Cluster;
    const path = '/api/v1/namespaces/default/pods/whole';

    beforeAll(async () => {
      const [containerd, docker] = [
        runtime === 'containerd' ? await machine.containerd() : undefined,
        runtime === 'docker' ? await machine.docker() : undefined,
      ];
      const spec = composition({
        storage: 'memory',
        runtime,
        network: 'bridge',
        ...(containerd && { containerd }),
        ...(docker && { docker }),
      });
      cluster = await machine.cluster({ spec });
    });

    /** Returns the path of the pod's cgroup below the mount. */
    const find = async (uid: string) => {
      for (const name of (await readdir(root)).filter((one) => one.startsWith('oarlock-'))) {
        const at = join(name, 'kubepods', 'burstable', `pod${uid}`);
        if (existsSync(join(root, at))) return at;
      }
      return undefined;
    };
    const held = async (at: string) =>
      second
        ? [
            (await readFile(join(mount, at, 'cpu.max'), 'utf8')).split(' ')[0],
            (await readFile(join(mount, at, 'memory.max'), 'utf8')).trim(),
          ]
        : [
            (await readFile(join(mount, 'cpu', at, 'cpu.cfs_quota_us'), 'utf8')).trim(),
            (await readFile(join(mount, 'memory', at, 'memory.limit_in_bytes'), 'utf8')).trim(),
          ];
    const amounts = (cpu: string, memory: string) => ({ requests: { cpu: '50m', memory: '16Mi' }, limits: { cpu, memory } });

    it('has the pod-level limits, holds its processes, and is removed with it', async () => {
      const image = runtime === 'process' ? 'host' : busyboxImage;
      const script = 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done';
      const container = (name: string) => ({ name, image, command: ['sh', '-c', script] });
      await cluster.api.renew('/api/v1/namespaces/default/pods', {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'whole', labels: { app: 'whole' } },
        spec: { terminationGracePeriodSeconds: 1, resources: amounts('300m', '96Mi'), containers: [container('a'), container('b')] },
      });
      const [pod] = await cluster.api.untilReady('default', 'whole', 1);
      const uid = pod?.metadata.uid ?? '';
      const at = await find(uid);
      if (at === undefined) throw new Error(`there is no cgroup pod${uid}`);
      expect(await held(at)).toEqual(['30000', String(96 * 2 ** 20)]);
      const children = (await readdir(join(root, at), { withFileTypes: true })).filter((one) => one.isDirectory());
      expect(children.length).toBeGreaterThanOrEqual(2);

      const [node] = (await cluster.api.get<{ items: Item[] }>('/api/v1/nodes')).items;
      const stats = await until('the summary has the pod', async () => {
        const { pods } = await cluster.api.get<Summary>(`/api/v1/nodes/${node?.metadata.name}/proxy/stats/summary`);
        const found = pods.find(({ podRef }) => podRef.uid === uid);
        // a measurement may be older than the containers
        return (found?.process_stats?.process_count ?? 0) >= 4 && found;
      });
      expect(stats.network).toMatchObject({ name: 'eth0', rxBytes: expect.any(Number) });

      await cluster.api.json('PATCH', `${path}/resize`, {
        headers: { 'content-type': 'application/merge-patch+json' },
        body: { spec: { resources: amounts('400m', '128Mi') } },
      });
      await until('the cgroup is larger', async () => String(await held(at)) === String(['40000', 128 * 2 ** 20]));
      await cluster.api.json('PATCH', `${path}/resize`, {
        headers: { 'content-type': 'application/merge-patch+json' },
        body: { spec: { resources: amounts('200m', '64Mi') } },
      });
      await until('the cgroup is smaller', async () => String(await held(at)) === String(['20000', 64 * 2 ** 20]));
      const [after] = await cluster.api.until<PodItem>('the resize is reported', cluster.api.pods('default', 'whole'), ([one]) =>
        JSON.stringify((one?.status as { resources?: object } | undefined)?.resources ?? {}).includes('64Mi'),
      );
      expect(after?.status.containerStatuses?.map(({ restartCount }) => restartCount)).toEqual([0, 0]);

      await cluster.api.json('DELETE', path);
      await cluster.api.until('the pod is gone', cluster.api.pods('default', 'whole'), (all) => all.length === 0);
      for (const hierarchy of second ? [mount] : (await readdir(mount)).map((name) => join(mount, name)))
        await until(`${join(hierarchy, at)} is removed`, () => !existsSync(join(hierarchy, at)));
    });
  });
});
