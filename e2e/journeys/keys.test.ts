import { X509Certificate } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Item, PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { netnsMissing, otherMachine, type OtherMachine } from '../harness/netns.ts';
import { oarlock } from '../harness/oarlock.ts';
import { Daemon, endProcessesBelow } from '../harness/programs.ts';
import { untilValue } from '../harness/until.ts';

interface NodeItem extends Item {
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}
interface Lease extends Item {
  readonly spec: { readonly renewTime: string };
}
const reason = await netnsMissing();
const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';

describe.skipIf(reason !== undefined)(`another CA${reason === undefined ? '' : ` (skipped: ${reason})`}`, () => {
  const machine = Machine.use();
  let far: OtherMachine;
  let cluster: Cluster;
  let dir: string;
  let node: Daemon;
  let former: string;
  let first: string;

  const start = async (args: readonly string[]) => {
    const [file, ...enter] = far.enter;
    const files = ['-f', join(dir, 'node.yaml'), '--data-dir', join(dir, 'data')];
    const daemon = new Daemon(file, [...enter, oarlock.file, ...oarlock.args, 'node', 'join', ...args, ...files]);
    await daemon.line(/^The node node-b is ready at /);
    return daemon;
  };
  const untilReady = () =>
    cluster.api.until<NodeItem>('node-b is ready', '/api/v1/nodes', (nodes) =>
      nodes.some(
        ({ metadata, status }) =>
          metadata.name === 'node-b' && status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true,
      ),
    );
  const renewedAt = async () => (await cluster.api.get<Lease>(`${leases}/node-b`)).spec.renewTime;
  const untilRenewed = async () => {
    const before = await renewedAt();
    await cluster.api.until<Lease>('its lease is renewed', leases, (all) =>
      all.some(({ metadata, spec }) => metadata.name === 'node-b' && spec.renewTime > before),
    );
  };
  /** Checks both directions between API server and node: the lease is renewed, and the log is fetched. */
  const untilBothWays = async () => {
    await untilRenewed();
    await untilValue(
      'its log',
      () => cluster.kubectl.try(['logs', 'far']),
      ({ stdout }) => stdout === 'hello\n',
    );
  };
  const ca = (name: string) => readFile(join(cluster.dataDir, 'pki', `${name}.crt`), 'utf8');
  const issuedBy = (certificate: string, authority: string) => {
    const { publicKey } = new X509Certificate(authority);
    return new X509Certificate(certificate).verify(publicKey);
  };
  /** The earlier client certificate, with trust in the current CAs. */
  const formerAdmin = async () => {
    const now = await readFile(cluster.kubeconfig, 'utf8');
    const file = machine.path('former.kubeconfig');
    const authority = /certificate-authority-data: \S+/;
    await writeFile(file, former.replace(authority, authority.exec(now)?.[0] ?? ''), { mode: 0o600 });
    return file;
  };
  const shownByNode = async (): Promise<readonly string[]> => {
    const text = await readFile(join(dir, 'data', 'kubelet.kubeconfig'), 'utf8');
    const client = Buffer.from(/client-certificate-data: (\S+)/.exec(text)?.[1] ?? '', 'base64').toString();
    return [client, await readFile(join(dir, 'data', 'kubelet-serving.crt'), 'utf8')];
  };
  const trustedByNode = async () => {
    const text = await readFile(join(dir, 'data', 'kubelet.kubeconfig'), 'utf8');
    return Buffer.from(/certificate-authority-data: (\S+)/.exec(text)?.[1] ?? '', 'base64').toString();
  };
  /** Runs a step, then restarts the server and the node, as the command's output instructs. */
  const take = async (step: 'add' | 'use' | 'end') => {
    const { code, stdout } = await cluster.oarlock('keys', 'ca', step);
    expect(stdout).toContain('Restart the processes of');
    expect(code).toBe(0);
    await cluster.stop();
    await cluster.up();
    // a node that was started before the step keeps working with the server that was started after it
    await untilRenewed();
    await node.stop('SIGKILL');
    node = await start([]);
    await untilReady();
    await untilBothWays();
  };

  beforeAll(async () => {
    far = await otherMachine();
    machine.undo('network namespace', () => far.remove());
    const spec = composition({ storage: 'embedded', runtime: 'process', network: 'host', kubelet: { nodeStatusUpdateMs: 1000 } });
    const settings = { kubelet: { port: 0, nodeLeaseDurationSeconds: 4 } };
    cluster = await machine.cluster({ spec: { ...spec, server: { address: '0.0.0.0', names: [far.here] }, settings } });
    dir = machine.path('node');
    await mkdir(dir);
    const { runtimes, network, proxy } = spec;
    await writeFile(
      join(dir, 'node.yaml'),
      JSON.stringify({
        apiVersion: 'oarlock.dev/v1',
        kind: 'Cluster',
        metadata: { name: 'e2e' },
        spec: { runtimes, network, proxy, settings },
      }),
    );
    machine.undo('node', () => endProcessesBelow(dir));
    const { code, stdout } = await cluster.oarlock('token', 'create');
    expect(code).toBe(0);
    const args = stdout.trim().split(' ').slice(3);
    node = await start([
      ...args.map((arg) => (arg.startsWith('https://') ? `https://${far.here}:${cluster.port}` : arg)),
      '--node-name',
      'node-b',
    ]);
    await untilReady();
    await cluster.kubectl.apply({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'far', labels: { app: 'far' } },
      spec: {
        nodeName: 'node-b',
        terminationGracePeriodSeconds: 1,
        containers: [{ name: 'main', image: 'host', command: ['sh', '-c', 'echo hello; exec sleep 3600'] }],
      },
    });
    await cluster.api.untilReady('default', 'far', 1);
    former = await readFile(cluster.kubeconfig, 'utf8');
    first = await ca('ca');
  });

  it('is trusted by the server and the node after `add`, and signs nothing yet', async () => {
    await take('add');
    const both = first + (await ca('ca-next'));
    await untilValue('the CAs that the node trusts', trustedByNode, (text) => text === both);
    for (const certificate of await shownByNode()) expect(issuedBy(certificate, first)).toBe(true);
  });

  it('signs after `use`: the node has new certificates, and those of the former CA remain valid', async () => {
    await take('use');
    const second = await ca('ca');
    await untilValue('the certificate that the node serves', shownByNode, (certificates) =>
      certificates.every((certificate) => issuedBy(certificate, second)),
    );
    await untilBothWays();
    expect(await cluster.kubectl.run(['--kubeconfig', await formerAdmin(), 'get', 'pods', '-o', 'name'])).toBe('pod/far\n');
  });

  it('is the only CA after `end`: certificates of the former CA are rejected', async () => {
    await take('end');
    const second = await ca('ca');
    await untilValue('the CAs that the node trusts', trustedByNode, (text) => text === second);
    const { stderr } = await cluster.kubectl.try(['--kubeconfig', await formerAdmin(), 'get', 'pods']);
    expect(stderr).toMatch(/Unauthorized|must be logged in/);
  });

  it('does not change when `end` is repeated', async () => {
    const before = await ca('ca');
    const { code } = await cluster.oarlock('keys', 'ca', 'end');
    expect([code, await ca('ca')]).toEqual([0, before]);
  });

  it('leaves the pods unchanged', async () => {
    const { status } = await cluster.api.get<PodItem>('/api/v1/namespaces/default/pods/far');
    expect(status.containerStatuses?.map(({ restartCount }) => restartCount)).toEqual([0]);
    await cluster.kubectl.run(['delete', 'pod', 'far']);
    expect(await node.stop()).toBe(0);
  });
});
