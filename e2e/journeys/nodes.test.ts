import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Item, PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { netnsMissing, otherMachine, type OtherMachine } from '../harness/netns.ts';
import { oarlock, runOarlock } from '../harness/oarlock.ts';
import { Daemon, endProcessesBelow } from '../harness/programs.ts';
import { untilValue } from '../harness/until.ts';

interface NodeItem extends Item {
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}
interface Lease extends Item {
  readonly spec: { readonly renewTime: string };
}
const reason = await netnsMissing();
const readyOf = (nodes: readonly NodeItem[], name: string) =>
  nodes.find(({ metadata }) => metadata.name === name)?.status.conditions?.find(({ type }) => type === 'Ready')?.status;

describe.skipIf(reason !== undefined)(`a second node${reason === undefined ? '' : ` (skipped: ${reason})`}`, () => {
  const machine = Machine.use();
  let far: OtherMachine;
  let cluster: Cluster;
  let nodeFile: string;
  let dataDir: string;
  let joinArgs: readonly string[];
  let node: Daemon;
  let pods: readonly PodItem[];

  const start = async (args: readonly string[]) => {
    const [file, ...enter] = far.enter;
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
      dataDir,
    ]);
    await daemon.line(/^The node node-b is ready at /);
    return daemon;
  };
  const untilNode = (status: string) =>
    cluster.api.until<NodeItem>(`node-b ready: ${status}`, '/api/v1/nodes', (nodes) => readyOf(nodes, 'node-b') === status);
  const podThere = () => pods.find(({ spec }) => spec.nodeName === 'node-b')?.metadata.name ?? '';
  const optionValue = (flag: string) => joinArgs[joinArgs.indexOf(flag) + 1] ?? '';

  beforeAll(async () => {
    far = await otherMachine();
    machine.undo('network namespace', () => far.remove());
    const spec = composition({ storage: 'memory', runtime: 'process', network: 'host', kubelet: { nodeStatusUpdateMs: 1000 } });
    cluster = await machine.cluster({
      spec: {
        ...spec,
        server: { address: '0.0.0.0', names: [far.here] },
        ...{ controllers: [{ use: 'controller-node-lifecycle', config: { gracePeriodSeconds: 10 } }] },
        settings: { kubelet: { port: 0, nodeLeaseDurationSeconds: 4 } },
      },
    });
    const dir = machine.path('node');
    await mkdir(dir);
    [nodeFile, dataDir] = [join(dir, 'node.yaml'), join(dir, 'data')];
    const { runtimes, network, proxy } = spec;
    const settings = { kubelet: { port: 0, nodeLeaseDurationSeconds: 4 } };
    await writeFile(
      nodeFile,
      JSON.stringify({
        apiVersion: 'oarlock.dev/v1',
        kind: 'Cluster',
        metadata: { name: 'e2e' },
        spec: { runtimes, network, proxy, settings },
      }),
    );
    const { code, stdout } = await cluster.oarlock('token', 'create');
    expect(code).toBe(0);
    joinArgs = stdout.trim().split(' ').slice(3);
    joinArgs = joinArgs.map((arg) => (arg.startsWith('https://') ? `https://${far.here}:${cluster.port}` : arg));
    machine.undo('node', () => endProcessesBelow(dir));
  });

  it('is rejected with one sentence and exit code 1, or 2 for invalid options', async () => {
    const tryJoin = async (changes: Readonly<Record<string, string>>) => {
      const all = {
        '--server': optionValue('--server'),
        '--token': optionValue('--token'),
        '--ca-hash': optionValue('--ca-hash'),
        '--node-name': 'node-c',
        ...changes,
      };
      const { code, stderr } = await runOarlock(['node', 'join', '--data-dir', machine.path('refused'), ...Object.entries(all).flat()]);
      return `${code} ${stderr.trim()}`;
    };
    expect(await tryJoin({ '--ca-hash': `sha256:${'0'.repeat(64)}` })).toMatch(/^1 the CA of .* does not match --ca-hash.*$/);
    expect(await tryJoin({ '--token': 'aaaaaa.0123456789abcdef' })).toMatch(/^1 .* rejects the token: it is unknown or has expired.*$/);
    expect(await tryJoin({ '--token': 'nonsense' })).toMatch(/^2 --token must have the form .*$/);
    expect(await tryJoin({ '--node-name': 'Not_A_Name' })).toMatch(/^2 --node-name: Not_A_Name is not a lowercase DNS name$/);
    expect(await tryJoin({ '--server': 'nonsense' })).toMatch(/^2 --server: .*$/);
    expect(await tryJoin({ '--node-name': 'kubernetes' })).toMatch(
      /^1 .*kubernetes belongs to the API server; a node must not serve under it$/,
    );
  });

  it('joins with a token and runs pods, whose logs and exec the API server reaches', async () => {
    node = await start([...joinArgs, '--node-name', 'node-b']);
    await untilNode('True');
    const container = { name: 'main', image: 'host', command: ['sh', '-c', 'echo "$NODE"; exec sleep 3600'] };
    await cluster.kubectl.apply({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'far', labels: { app: 'far' } },
      spec: {
        replicas: 4,
        selector: { matchLabels: { app: 'far' } },
        template: {
          metadata: { labels: { app: 'far' } },
          spec: {
            terminationGracePeriodSeconds: 1,
            containers: [{ ...container, env: [{ name: 'NODE', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } }] }],
          },
        },
      },
    });
    pods = await cluster.api.untilReady('default', 'far', 4);
    expect(new Set(pods.map(({ spec }) => spec.nodeName))).toEqual(new Set(['node-a', 'node-b']));
    await untilValue(
      'its log',
      () => cluster.kubectl.run(['logs', podThere()]),
      (log) => log === 'node-b\n',
    );
    expect(await cluster.kubectl.run(['exec', podThere(), '--', 'ip', '-o', '-4', 'addr'])).toContain(far.there);
  });

  it('obtained its certificates through requests: the first as the bootstrap token, the second as the node', async () => {
    const { items } = await cluster.kubectl.json<{
      items: { spec: { signerName: string; username: string }; status: { certificate?: string; conditions: { type: string }[] } }[];
    }>(['get', 'certificatesigningrequests']);
    const of = (signer: string) => items.filter(({ spec }) => spec.signerName === `kubernetes.io/${signer}`);
    for (const signer of ['kube-apiserver-client-kubelet', 'kubelet-serving'])
      expect(
        of(signer).map(({ status }) => [status.conditions.map(({ type }) => type), status.certificate !== undefined]),
        signer,
      ).toContainEqual([['Approved'], true]);
    expect(of('kube-apiserver-client-kubelet').map(({ spec }) => spec.username)).toContainEqual(
      expect.stringMatching(/^system:bootstrap:/),
    );
    expect(of('kubelet-serving').map(({ spec }) => spec.username)).toContain('system:node:node-b');
  });

  it('records its spans in the same trace as the control plane', async () => {
    // a node sends its spans periodically
    await untilValue(
      'the spans of the node',
      async () => (await cluster.oarlock('trace', 'deployment/far')).stdout,
      (output) => output.includes(`sync pod default/${podThere()} node=node-b`) && output.includes('user=system:node:node-b'),
    );
  });

  it('is authorized for what its pods need, and for nothing else', async () => {
    await cluster.kubectl.run(['create', 'secret', 'generic', 'not-of-a-pod', '--from-literal=a=b']);
    const own = ['--kubeconfig', join(dataDir, 'kubelet.kubeconfig')];
    for (const args of [
      ['get', 'secrets', '-A'],
      ['get', 'secret', 'not-of-a-pod'],
      ['run', 'x', '--image=host'],
      ['label', 'node', 'node-a', 'a=b'],
      ['create', 'token', 'default', '-n', 'kube-system'],
    ]) {
      expect((await cluster.kubectl.try([...own, ...args])).stderr, args.join(' ')).toMatch(/forbidden/i);
    }
  });

  it('is not ready after kill -9, and returns without a token and with its pods', async () => {
    await node.stop('SIGKILL');
    await untilNode('Unknown');
    const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
    const before = (await cluster.api.get<Lease>(`${leases}/node-b`)).spec.renewTime;
    node = await start([]);
    await untilNode('True');
    await cluster.api.until<Lease>('the lease is renewed', leases, (all) =>
      all.some(({ metadata, spec }) => metadata.name === 'node-b' && spec.renewTime > before),
    );
    const after = await cluster.api.untilReady('default', 'far', 4);
    expect(new Set(after.map(({ metadata }) => metadata.uid))).toEqual(new Set(pods.map(({ metadata }) => metadata.uid)));
    expect(after.flatMap(({ status }) => status.containerStatuses ?? []).map(({ restartCount }) => restartCount)).toEqual([0, 0, 0, 0]);
  });

  it('ends on SIGTERM', async () => {
    await cluster.kubectl.run(['delete', 'deployment', 'far']);
    await cluster.api.until<PodItem>('the pods are gone', cluster.api.pods('default', 'far'), (left) => left.length === 0);
    expect(await node.stop()).toBe(0);
  });
});
