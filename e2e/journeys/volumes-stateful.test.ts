import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Item, PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { netnsMissing, otherMachine, type OtherMachine } from '../harness/netns.ts';
import { oarlock } from '../harness/oarlock.ts';
import { Daemon, endProcessesBelow } from '../harness/programs.ts';
import { until, untilValue } from '../harness/until.ts';

interface NodeItem extends Item {
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}
const reason = await netnsMissing();
const names = ['db-0', 'db-1', 'db-2'];

/** Keeps existing data; the first pod becomes the owner. */
const script = 'd=/data; [ -e "$d/owner" ] || echo "$POD" > "$d/owner"; echo "$ROUND" >> "$d/starts"; exec sleep 3600';
const statefulSet = (round: string) => ({
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  metadata: { name: 'db' },
  spec: {
    serviceName: 'db',
    replicas: 3,
    podManagementPolicy: 'Parallel',
    selector: { matchLabels: { app: 'db' } },
    template: {
      metadata: { labels: { app: 'db' } },
      spec: {
        terminationGracePeriodSeconds: 0,
        topologySpreadConstraints: [
          {
            maxSkew: 1,
            topologyKey: 'kubernetes.io/hostname',
            whenUnsatisfiable: 'DoNotSchedule',
            nodeTaintsPolicy: 'Ignore',
            labelSelector: { matchLabels: { app: 'db' } },
          },
        ],
        containers: [
          {
            name: 'main',
            image: 'host',
            command: ['sh', '-c', script],
            env: [
              { name: 'ROUND', value: round },
              { name: 'POD', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
            ],
            volumeMounts: [{ name: 'data', mountPath: '/data' }],
          },
        ],
      },
    },
    volumeClaimTemplates: [
      { metadata: { name: 'data' }, spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '16Mi' } } } },
    ],
  },
});

describe.skipIf(reason !== undefined)(
  `a StatefulSet with claims on two nodes${reason === undefined ? '' : ` (skipped: ${reason})`}`,
  () => {
    const machine = Machine.use();
    let far: OtherMachine;
    let cluster: Cluster;
    let nodeFile: string;
    let nodeDir: string;
    let node: Daemon;

    const startNode = async (args: readonly string[]) => {
      // its mounts must be visible to its pods
      const [file, ...enter] = far.enterNetwork;
      const daemon = new Daemon(file, [
        ...enter,
        oarlock.file,
        ...oarlock.args,
        'node',
        'join',
        ...args,
        '-f',
        nodeFile,
        '--data-dir',
        join(nodeDir, 'data'),
      ]);
      await daemon.line(/^The node node-b is ready at /);
      return daemon;
    };
    const untilNode = (status: string) =>
      cluster.api.until<NodeItem>(`node-b ready: ${status}`, '/api/v1/nodes', (nodes) =>
        nodes.some(
          ({ metadata, status: { conditions } }) =>
            metadata.name === 'node-b' && conditions?.find(({ type }) => type === 'Ready')?.status === status,
        ),
      );
    const pod = async (name: string) =>
      (await cluster.api.get<{ items: readonly PodItem[] }>(cluster.api.pods('default', 'db'))).items.find(
        ({ metadata }) => metadata.name === name,
      );
    /** The recorded starts of each pod; fails if a pod has the data of another. */
    const starts = async () => {
      const all: Record<string, string> = {};
      for (const name of names) {
        const read = (file: string) => cluster.kubectl.run(['exec', name, '--', 'sh', '-c', `cat /data/${file}`]);
        expect((await read('owner')).trim(), name).toBe(name);
        all[name] = (await read('starts')).trim().split('\n').join(' ');
      }
      return all;
    };
    const untilStarts = (what: string) =>
      untilValue(
        `all pods have started: ${what}`,
        async () => JSON.stringify(await starts()),
        (text) => text === JSON.stringify(Object.fromEntries(names.map((name) => [name, what]))),
      );
    /** The mounts of volumes on this machine, of both nodes. */
    const mounts = async () =>
      (await readFile('/proc/self/mountinfo', 'utf8'))
        .split('\n')
        .map((line) => line.split(' ')[4] ?? '')
        .filter((point) => point.includes('/volumes/') && (point.startsWith(cluster.dir) || point.startsWith(nodeDir)));
    const scale = (replicas: number) => cluster.kubectl.run(['scale', 'statefulset', 'db', `--replicas=${replicas}`]);

    beforeAll(async () => {
      far = await otherMachine();
      machine.undo('network namespace', () => far.remove());
      const spec = composition({ storage: 'embedded', runtime: 'process', network: 'host', kubelet: { nodeStatusUpdateMs: 1000 } });
      const settings = { kubelet: { port: 0, nodeLeaseDurationSeconds: 4 } };
      cluster = await machine.cluster({
        spec: {
          ...spec,
          volumes: ['volume-csi'],
          server: { address: '0.0.0.0', names: [far.here] },
          ...{ controllers: [{ use: 'controller-node-lifecycle', config: { gracePeriodSeconds: 4 } }] },
          settings,
        },
      });
      nodeDir = machine.path('node');
      await mkdir(nodeDir);
      nodeFile = join(nodeDir, 'node.yaml');
      const { runtimes, network, proxy } = spec;
      await writeFile(
        nodeFile,
        JSON.stringify({
          apiVersion: 'oarlock.dev/v1',
          kind: 'Cluster',
          metadata: { name: 'e2e' },
          spec: { runtimes, network, proxy, volumes: ['volume-csi'], settings },
        }),
      );
      machine.undo('node', () => endProcessesBelow(nodeDir));
      const { stdout } = await cluster.oarlock('token', 'create');
      const args = stdout.trim().split(' ').slice(3);
      node = await startNode([
        ...args.map((arg) => (arg.startsWith('https://') ? `https://${far.here}:${cluster.port}` : arg)),
        '--node-name',
        'node-b',
      ]);
      await untilNode('True');
      await cluster.kubectl.apply([statefulSet('first')]);
    });

    it('gets each claim provisioned on the node of its pod', async () => {
      const pods = await cluster.api.untilReady('default', 'db', 3);
      expect(new Set(pods.map(({ spec }) => spec.nodeName))).toEqual(new Set(['node-a', 'node-b']));
      await untilStarts('first');
      await untilValue('mounts', mounts, ({ length }) => length === 3);
    });

    it('keeps its data through a rolling update', async () => {
      await cluster.kubectl.apply([statefulSet('second')]);
      await untilStarts('first second');
    });

    it('keeps its data when it is scaled to zero and back, and leaves no mount behind', async () => {
      await scale(0);
      await until(
        'all pods have gone',
        async () => (await cluster.api.get<{ items: readonly unknown[] }>(cluster.api.pods('default', 'db'))).items.length === 0,
      );
      await until('nothing is mounted', async () => (await mounts()).length === 0);
      await scale(3);
      await untilStarts('first second second');
    });

    it('keeps its data when a node is lost, its pod is force deleted, and the node returns', async () => {
      const lost = (await Promise.all(names.map(pod))).find((each) => each?.spec.nodeName === 'node-b');
      if (lost === undefined) throw new Error('no pod is on node-b');
      const { name, uid } = lost.metadata;
      const before = (await starts())[name];
      await node.stop('SIGKILL');
      await untilNode('Unknown');
      // kubectl warns of --force
      expect((await cluster.kubectl.try(['delete', 'pod', name, '--force', '--grace-period=0'])).code).toBe(0);
      // its volume is on this node only, so the pod waits
      const waiting = await until('the replacement pod exists', async () => {
        const now = await pod(name);
        return now !== undefined && now.metadata.uid !== uid ? now : undefined;
      });
      const unschedulable = await until('no node can run it', async () =>
        (await pod(name))?.status.conditions?.find(({ type, status }) => type === 'PodScheduled' && status === 'False'),
      );
      expect(unschedulable.reason).toBe('Unschedulable');
      expect(waiting.spec.nodeName ?? '').not.toBe('node-a');
      node = await startNode([]);
      await untilNode('True');
      await untilValue(
        'the pod has its data again',
        async () => (await starts())[name],
        (text) => text === `${before} second`,
      );
      // the volumes of the lost pod are cleaned up concurrently
      await untilValue('mounts', mounts, ({ length }) => length === 3);
    });

    it('keeps its data when the cluster is restored from a backup', async () => {
      const file = machine.path('backup.gz');
      const { code, stderr } = await cluster.oarlock('backup', '--output', file);
      expect(stderr).toBe('');
      expect(code).toBe(0);
      const before = await starts();
      await cluster.stop();
      await rm(join(cluster.dataDir, 'plugins', 'storage-embedded'), { recursive: true });
      const restored = await cluster.oarlock('restore', '--input', file, '-f', cluster.file);
      expect(restored.stderr).toBe('');
      expect(restored.code).toBe(0);
      await cluster.up();
      await untilNode('True');
      await cluster.api.untilReady('default', 'db', 3);
      const after = await untilValue('all pods respond', starts, () => true);
      for (const name of names) expect(after[name]?.startsWith(before[name] ?? '?'), name).toBe(true);
    });

    it('leaves no resources behind when it is deleted with its claims', async () => {
      await cluster.kubectl.run(['delete', 'statefulset', 'db', '--cascade=foreground']);
      await cluster.kubectl.run(['delete', 'pvc', ...names.map((name) => `data-${name}`)]);
      await until(
        'no volume is left',
        async () => (await cluster.api.get<{ items: readonly unknown[] }>('/api/v1/persistentvolumes')).items.length === 0,
      );
      await until('nothing is mounted', async () => (await mounts()).length === 0);
      expect(await node.stop()).toBe(0);
    });
  },
);
