import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { hello } from '../harness/hello.ts';
import { untilAnswers } from '../harness/http.ts';
import { Machine } from '../harness/machine.ts';
import { runOarlock } from '../harness/oarlock.ts';
import { mustRun } from '../harness/programs.ts';
import { until } from '../harness/until.ts';
import { joinNode } from './support/three-servers.ts';

interface NodeItem extends Item {
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string; readonly message: string }[] };
}
interface ServiceItem extends Item {
  readonly spec: { readonly clusterIP: string };
}
const roles = ['apiserver', 'controllers', 'scheduler'];
const kubelet = { port: 0, evictionHard: { diskAvailable: '1%', imageAvailable: '1%' } };
const processNode = { runtimes: ['runtime-process'], network: 'network-host', proxy: 'proxy-userspace', settings: { kubelet } };

describe('a control plane without nodes', () => {
  const machine = Machine.use();
  const controlPlane = (spec: object): Promise<Cluster> => machine.cluster({ spec: { roles, storage: 'storage-memory', ...spec } });
  // rules stay in the kernel when a node stops
  const removeRules = () => machine.undo('policy rules', () => mustRun('nft', ['delete', 'table', 'inet', 'oarlock-policy']));
  const urlOf = ({ port }: Cluster) => `https://127.0.0.1:${port}`;

  /** Returns the exit code and the message of a join that is expected to fail. */
  const rejectedJoin = async (cluster: Cluster, spec: object): Promise<string> => {
    const dir = machine.path('rejected');
    await mkdir(dir);
    const file = join(dir, 'node.yaml');
    await writeFile(file, JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec }));
    const words = (await cluster.oarlock('token', 'create')).stdout.trim().split(' ').slice(3);
    const { code, stderr } = await runOarlock([
      'node',
      'join',
      ...words,
      '--node-name',
      'node-x',
      '-f',
      file,
      '--data-dir',
      join(dir, 'data'),
    ]);
    return `${code} ${stderr.trim()}`;
  };

  it('gives nodes the service range of its network plugin, serves their Services, and creates the Service of the cluster DNS', async () => {
    const cluster = await controlPlane({ network: 'network-host', dns: 'dns-server' });
    const node = await joinNode(machine, cluster, { name: 'node-a', spec: processNode, servers: [urlOf(cluster)] });
    await cluster.kubectl.apply(await hello('process'));
    const pods = await cluster.api.untilReady('default', 'hello', 3);
    const { spec } = await cluster.api.get<ServiceItem>('/api/v1/namespaces/default/services/hello');
    expect(spec.clusterIP).toMatch(/^127\.96\./);
    await untilAnswers(
      `http://${spec.clusterIP}:8080/`,
      pods.map(({ metadata }) => `hello from ${metadata.name}`),
    );
    const dns = await until('the Service kube-dns exists', () =>
      cluster.api.get<ServiceItem>('/api/v1/namespaces/kube-system/services/kube-dns'),
    );
    expect(dns.spec.clusterIP).toBe('127.96.0.10');
    const stored = await cluster.kubectl.run([
      '-n',
      'kube-system',
      'get',
      'configmap',
      'oarlock-config',
      '-o',
      'jsonpath={.data.ClusterConfiguration}',
    ]);
    expect(stored).toContain('127.96.0.0/16');
    await node.daemon.stop();
  });

  it('rejects a node whose file contradicts the configuration, with the field and both values', async () => {
    const cluster = await controlPlane({ policy: 'policy-nftables', networking: { serviceCIDRs: ['198.18.0.0/16'] } });
    expect(
      await rejectedJoin(cluster, { runtimes: ['runtime-process'], networking: { domain: 'a.test' }, policy: 'policy-nftables' }),
    ).toBe('1 spec.networking.domain: this node has a.test, the cluster cluster.local');
    expect(await rejectedJoin(cluster, { runtimes: ['runtime-process'] })).toBe(
      '1 spec.policy: this node has none, the cluster policy-nftables, which this node would not enforce',
    );
    expect(await rejectedJoin(cluster, { runtimes: ['runtime-process'], policy: 'policy-nftables', volumes: ['volume-csi'] })).toMatch(
      /^1 spec\.volumes: this node has volume-csi, the cluster none: /,
    );
    expect(await rejectedJoin(cluster, { runtimes: ['runtime-process'], policy: 'policy-nftables', dns: 'dns-server' })).toMatch(
      /^1 spec\.dns: this node has dns-server, the cluster none: /,
    );
    // a process without controllers also creates the objects of volumes
    const open = await controlPlane({ roles: ['apiserver'], network: 'network-host', volumes: ['volume-csi'] });
    expect(await rejectedJoin(open, processNode)).toBe(
      '1 spec.volumes: this node has none, the cluster volume-csi, whose volumes pods on this node would wait for: the file of the node must also have it',
    );
    await until('the StorageClass exists', () => open.api.get('/apis/storage.k8s.io/v1/storageclasses/standard'));
    expect(await rejectedJoin(open, { ...processNode, policy: 'policy-nftables', volumes: ['volume-csi'] })).toBe(
      '1 spec.policy: this node has policy-nftables, the cluster none: the file of the control plane must also have it, which lets nodes list NetworkPolicies',
    );
    expect(await rejectedJoin(cluster, { ...processNode, policy: 'policy-nftables' })).toMatch(
      /^1 spec\.proxy: proxy-userspace listens on the addresses of Services, and this machine cannot listen on 198\.18\.0\.1 /,
    );
  });

  it('lets nodes enforce the NetworkPolicies of its file although its process loads no policy plugin', async () => {
    removeRules();
    const cluster = await controlPlane({ network: 'network-host', policy: 'policy-nftables' });
    const node = await joinNode(machine, cluster, {
      name: 'node-a',
      spec: { ...processNode, policy: 'policy-nftables' },
      servers: [urlOf(cluster)],
    });
    await cluster.kubectl.run(['wait', '--for=condition=Ready', 'node/node-a', '--timeout=180s']);
    await node.daemon.stop();
  });

  it('has no ready node that cannot list NetworkPolicies, and the condition contains the cause', async () => {
    const cluster = await controlPlane({
      network: 'network-host',
      policy: 'policy-nftables',
      authz: ['authz-masters', 'authz-node', { use: 'authz-rbac', config: { nodePolicies: false } }],
    });
    const joining = joinNode(machine, cluster, {
      name: 'node-a',
      spec: { ...processNode, policy: 'policy-nftables' },
      servers: [urlOf(cluster)],
    });
    joining.catch(() => undefined); // the node cannot become ready; the test ends it
    const message = await until('the node reports the cause', async () => {
      const { status } = await cluster.api.get<NodeItem>('/api/v1/nodes/node-a');
      const ready = status.conditions?.find(({ type }) => type === 'Ready');
      return ready?.status === 'False' && ready.message.includes('forbidden') && ready.message;
    });
    expect(message).toMatch(
      /reason:NetworkPolicyNotReady message:cannot list networkpolicies: networkpolicies\.networking\.k8s\.io is forbidden/,
    );
  });
});
