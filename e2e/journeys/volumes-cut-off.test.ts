import { access, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { isReady, type Item, type PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { netnsMissing, otherMachine, type OtherMachine } from '../harness/netns.ts';
import { oarlock, root } from '../harness/oarlock.ts';
import { Daemon, endProcessesBelow, mustRun } from '../harness/programs.ts';
import { until, untilValue } from '../harness/until.ts';

interface Attachment extends Item {
  readonly spec: { readonly nodeName: string };
}
interface Items<T = unknown> {
  readonly items: readonly T[];
}
type NodeName = 'node-a' | 'node-b';
const reason = await netnsMissing();
const driverName = 'shared.example';
const snapshots = 'snapshot.storage.k8s.io';
const outOfService = 'node.kubernetes.io/out-of-service';
const attachmentsPath = '/apis/storage.k8s.io/v1/volumeattachments';
const claim = {
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: 'kept' },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '8Mi' } } },
};
const snapshot = [
  {
    apiVersion: `${snapshots}/v1`,
    kind: 'VolumeSnapshotClass',
    metadata: { name: 'shared' },
    driver: driverName,
    deletionPolicy: 'Delete',
  },
  {
    apiVersion: `${snapshots}/v1`,
    kind: 'VolumeSnapshot',
    metadata: { name: 'taken' },
    spec: { volumeSnapshotClassName: 'shared', source: { persistentVolumeClaimName: 'kept' } },
  },
];
/** Appends the pod's name to a file in the volume. */
const writerPod = (name: string, node: NodeName) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, labels: { app: name } },
  spec: {
    nodeSelector: { 'kubernetes.io/hostname': node },
    terminationGracePeriodSeconds: 0,
    containers: [
      {
        name: 'main',
        image: 'host',
        command: ['sh', '-c', 'echo "$POD" >> /data/said; exec sleep 3600'],
        env: [{ name: 'POD', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
        volumeMounts: [{ name: 'data', mountPath: '/data' }],
      },
    ],
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'kept' } }],
  },
});

describe.skipIf(reason !== undefined)(
  `a partitioned node, and volumes that any node can attach${reason === undefined ? '' : ` (skipped: ${reason})`}`,
  () => {
    const machine = Machine.use();
    let far: OtherMachine;
    let cluster: Cluster;
    let node: Daemon;
    let joinWith: readonly string[];
    let empty: Awaited<ReturnType<typeof census>>;
    const dirs = {} as Record<NodeName, string>;

    let own: string;
    const faults = (of: NodeName) => join(own, `faults-${of}.json`);
    const link = (state: 'up' | 'down') => mustRun('ip', ['link', 'set', 'dev', far.link, state]);
    const mountsOf = async (of: NodeName) =>
      (await readFile('/proc/self/mountinfo', 'utf8'))
        .split('\n')
        .map((line) => line.split(' ')[4] ?? '')
        .filter((point) => point.startsWith(`${dirs[of]}/`) && /\/(volumes|staging)\//.test(point)).length;
    const attachedTo = async () => (await cluster.api.get<Items<Attachment>>(attachmentsPath)).items.map(({ spec }) => spec.nodeName);
    /** Resources that could leak or be lost. */
    const census = async () => {
      const count = async (path: string) => (await cluster.api.get<Items>(path)).items.length;
      return {
        mounts: [await mountsOf('node-a'), await mountsOf('node-b')],
        loops: (await mustRun('losetup', ['-n', '-O', 'BACK-FILE'])).split('\n').filter((line) => line.includes(own)).length,
        routes: (await mustRun(far.enter[0], [...far.enter.slice(1), 'ip', 'route', 'show'])).trim().split('\n').length,
        volumes: await count('/api/v1/persistentvolumes'),
        attachments: await count(attachmentsPath),
        contents: await count(`/apis/${snapshots}/v1/volumesnapshotcontents`),
      };
    };
    const nodeIs = (status: 'True' | 'Unknown') =>
      cluster.api.until<Item & { status: { conditions?: readonly { type: string; status: string }[] } }>(
        `node-b ready: ${status}`,
        '/api/v1/nodes',
        (nodes) =>
          nodes.some(
            ({ metadata, status: { conditions } }) =>
              metadata.name === 'node-b' && conditions?.find(({ type }) => type === 'Ready')?.status === status,
          ),
      );
    const ready = (name: string) =>
      cluster.api.until<PodItem>(`${name} is ready`, cluster.api.pods('default', name), (pods) => pods.length === 1 && pods.every(isReady));
    const gone = (path: string) => cluster.api.until(`nothing at ${path}`, path, (items) => items.length === 0);
    const dataOf = async (name: string) =>
      (await cluster.kubectl.run(['exec', name, '--', 'sh', '-c', 'cat /data/said'])).trim().split('\n');
    const neverOnBoth = async () => {
      const [a, b] = [await mountsOf('node-a'), await mountsOf('node-b')];
      if (a > 0 && b > 0) throw new Error(`the volume is mounted on both nodes: ${a} and ${b} mounts`);
      return { a, b };
    };
    /** Partitions node-b during each of the methods that `act` causes, until the cluster has noticed, then reconnects it. */
    const through = async (methods: readonly (readonly [of: NodeName, method: string])[], act: () => Promise<unknown>) => {
      for (const of of ['node-a', 'node-b'] as const) {
        const held = methods.filter(([at]) => at === of).map(([, method]) => [method, { hold: 'after' }]);
        await writeFile(faults(of), JSON.stringify(Object.fromEntries(held)));
      }
      await act();
      for (const [of, method] of methods) {
        const mark = `${faults(of)}.${method}`;
        await until(`${of} executes ${method}`, () =>
          access(mark).then(
            () => true,
            () => false,
          ),
        );
        await link('down');
        await nodeIs('Unknown');
        await rm(mark);
        await neverOnBoth();
        await link('up');
        await nodeIs('True');
      }
    };
    const startDriver = async (of: NodeName, socket: string) => {
      const main = join(root, 'plugins/csi-hostpath/dist/main.js');
      const places = ['--endpoint', `unix://${socket}`, '--node-id', of, '--data-dir', join(own, 'volumes')];
      // ends with its stdin, which a pipe with both ends in this process never closes
      const input = join(own, `input-${of}`);
      await mustRun('mkfifo', [input]);
      const words = [main, '--name', driverName, '--attach', '--shared', '--node-expansion', '--faults', faults(of), ...places];
      const daemon = new Daemon('sh', ['-c', 'exec "$@" <> "$0"', input, process.execPath, ...words]);
      machine.undo(`driver of ${of}`, () => daemon.stop('SIGKILL').then(() => undefined));
      await daemon.line(/^ready$/);
    };
    const startNode = async () => {
      const [file, ...enter] = far.enterNetwork;
      // its mounts must be visible to its pods
      const place = ['-f', join(dirs['node-b'], 'node.yaml'), '--data-dir', join(dirs['node-b'], 'data')];
      node = new Daemon(file, [...enter, oarlock.file, ...oarlock.args, 'node', 'join', ...joinWith, '--node-name', 'node-b', ...place]);
      await node.line(/^The node node-b is ready at /);
      await nodeIs('True');
    };

    beforeAll(async () => {
      far = await otherMachine();
      machine.undo('network namespace', () => far.remove());
      own = machine.path('parts');
      await mkdir(own);
      for (const of of ['node-a', 'node-b'] as const) await writeFile(faults(of), '{}');
      const sockets = { 'node-a': join(own, 'a.sock'), 'node-b': join(own, 'b.sock') };
      for (const of of ['node-a', 'node-b'] as const) await startDriver(of, sockets[of]);
      const spec = composition({ storage: 'embedded', runtime: 'process', network: 'host', kubelet: { nodeStatusUpdateMs: 1000 } });
      const settings = { kubelet: { port: 0, nodeLeaseDurationSeconds: 4 } };
      const driver = {
        socket: sockets['node-a'],
        provision: true,
        central: true,
        csiDriver: { attachRequired: true },
        storageClass: { name: 'shared', bindingMode: 'Immediate' },
      };
      cluster = await machine.cluster({
        spec: {
          ...spec,
          // definitions of snapshots are installed when a driver whose name is not Oarlock's may register
          volumes: [{ use: 'volume-csi', config: { drivers: [driver], kubeletDir: machine.path('k'), provisionFor: ['another.example'] } }],
          server: { address: '0.0.0.0', names: [far.here] },
          ...{ controllers: [{ use: 'controller-node-lifecycle', config: { gracePeriodSeconds: 4 } }] },
          settings,
        },
      });
      dirs['node-a'] = cluster.dir;
      dirs['node-b'] = join(own, 'node');
      await mkdir(dirs['node-b']);
      const { runtimes, network, proxy } = spec;
      const volumes = [{ use: 'volume-csi', config: { drivers: [{ socket: sockets['node-b'] }] } }];
      const file = { apiVersion: 'oarlock.dev/v1', kind: 'Cluster', metadata: { name: 'e2e' } };
      await writeFile(
        join(dirs['node-b'], 'node.yaml'),
        JSON.stringify({ ...file, spec: { runtimes, network, proxy, volumes, settings } }),
      );
      machine.undo('node', () => endProcessesBelow(dirs['node-b']));
      const { stdout } = await cluster.oarlock('token', 'create');
      joinWith = stdout
        .trim()
        .split(' ')
        .slice(3)
        .map((arg) => (arg.startsWith('https://') ? `https://${far.here}:${cluster.port}` : arg));
      await startNode();
      await until('snapshots are defined', async () => (await cluster.kubectl.apply(snapshot.slice(0, 1)), true));
      await cluster.api.until<Item & { spec: { drivers: readonly unknown[] } }>(
        'both nodes have the driver',
        '/apis/storage.k8s.io/v1/csinodes',
        (items) => items.length === 2 && items.every(({ spec }) => spec.drivers.length === 1),
      );
      empty = await census();
    });

    it('resumes when it is reconnected: a volume is attached, staged and published', async () => {
      await through(
        [
          ['node-a', 'ControllerPublishVolume'],
          ['node-b', 'NodeStageVolume'],
          ['node-b', 'NodePublishVolume'],
        ],
        () => cluster.kubectl.apply([claim, writerPod('first', 'node-b')]),
      );
      await ready('first');
      expect(await dataOf('first')).toEqual(['first']);
      expect(await attachedTo()).toEqual(['node-b']);
    });

    it('does not block the cluster: a volume is expanded, and a snapshot is taken', async () => {
      const size = JSON.stringify({ spec: { resources: { requests: { storage: '16Mi' } } } });
      await through(
        [
          ['node-a', 'ControllerExpandVolume'],
          ['node-b', 'NodeExpandVolume'],
        ],
        () => cluster.kubectl.run(['patch', 'pvc', 'kept', '-p', size]),
      );
      await untilValue(
        'its size',
        async () =>
          (await cluster.api.get<{ status: { capacity?: { storage?: string } } }>('/api/v1/namespaces/default/persistentvolumeclaims/kept'))
            .status.capacity?.storage,
        (capacity) => capacity === '16Mi',
      );
      await through([['node-a', 'CreateSnapshot']], () => cluster.kubectl.apply(snapshot));
      const path = `/apis/${snapshots}/v1/namespaces/default/volumesnapshots/taken`;
      await until('it is ready', async () => (await cluster.api.get<{ status?: { readyToUse?: boolean } }>(path)).status?.readyToUse);
      await cluster.kubectl.run(['delete', 'volumesnapshot', 'taken', '--wait=false']);
      await gone(`/apis/${snapshots}/v1/volumesnapshotcontents`);
    });

    it('resumes when it is reconnected: a volume is unpublished, unstaged and detached', async () => {
      await through(
        [
          ['node-b', 'NodeUnpublishVolume'],
          ['node-b', 'NodeUnstageVolume'],
          ['node-a', 'ControllerUnpublishVolume'],
        ],
        () => cluster.kubectl.run(['delete', 'pod', 'first', '--wait=false']),
      );
      await gone('/api/v1/namespaces/default/pods');
      await gone(attachmentsPath);
      expect(await neverOnBoth()).toEqual({ a: 0, b: 0 });
    });

    it('keeps a ReadWriteOncePod volume, also after its pod is force deleted', async () => {
      await cluster.kubectl.apply(writerPod('second', 'node-b'));
      await ready('second');
      await link('down');
      await nodeIs('Unknown');
      expect((await cluster.kubectl.try(['delete', 'pod', 'second', '--force', '--grace-period=0'])).code).toBe(0);
      await cluster.kubectl.apply(writerPod('third', 'node-a'));
      const why = () =>
        cluster.kubectl.run(['get', 'events', '--field-selector=involvedObject.name=third', '-o', 'jsonpath={.items[*].message}']);
      await untilValue('the reason for waiting is reported', why, (text) => text.includes('Multi-Attach error for volume'));
      expect(await attachedTo()).toEqual(['node-b']);
      expect((await neverOnBoth()).a).toBe(0);
      await link('up');
      await until('the other node has mounted it', async () => (await neverOnBoth()).a > 0);
      await ready('third');
      expect(await dataOf('third')).toEqual(['first', 'second', 'third']);
      expect(await attachedTo()).toEqual(['node-a']);
      expect((await neverOnBoth()).b).toBe(0);
      await nodeIs('True');
      await cluster.kubectl.run(['delete', 'pod', 'third']);
      await gone(attachmentsPath);
    });

    it('loses its volume when it is tainted out-of-service', async () => {
      await cluster.kubectl.apply(writerPod('fourth', 'node-b'));
      await ready('fourth');
      // as after a power-off
      await node.stop('SIGKILL');
      await endProcessesBelow(dirs['node-b']);
      await mustRun('sh', ['-c', 'grep -o " $1/[^ ]*" /proc/self/mountinfo | sort -ru | xargs -r -n1 umount -l', 'sh', dirs['node-b']]);
      await nodeIs('Unknown');
      await cluster.kubectl.apply(writerPod('fifth', 'node-a'));
      expect(await attachedTo()).toEqual(['node-b']);
      await cluster.kubectl.run(['taint', 'node', 'node-b', `${outOfService}=nodeshutdown:NoExecute`]);
      await ready('fifth');
      expect(await dataOf('fifth')).toEqual(['first', 'second', 'third', 'fourth', 'fifth']);
      expect(await attachedTo()).toEqual(['node-a']);
      await startNode();
      await cluster.kubectl.run(['taint', 'node', 'node-b', `${outOfService}-`]);
      expect(await neverOnBoth()).toMatchObject({ b: 0 });
    });

    it('leaves no resources behind', async () => {
      await cluster.kubectl.run(['delete', 'pod', '--all']);
      await cluster.kubectl.run(['delete', 'pvc', 'kept']);
      await gone('/api/v1/persistentvolumes');
      await untilValue('nothing is left', census, (now) => JSON.stringify(now) === JSON.stringify(empty));
      expect(await node.stop()).toBe(0);
    });
  },
);
