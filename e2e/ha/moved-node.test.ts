import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { Machine } from '../harness/machine.ts';
import { netnsMissing } from '../harness/netns.ts';
import { processesBelow } from '../harness/programs.ts';
import { until } from '../harness/until.ts';
import { serverMachines, type ServerMachine } from './support/server-machines.ts';

const reason = await netnsMissing();
const policy = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name: 'closed', namespace: 'default' },
  spec: { podSelector: {}, policyTypes: ['Ingress'], ingress: [{ from: [{ ipBlock: { cidr: '10.50.77.0/24' } }] }] },
};
const service = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'web', namespace: 'default' },
  spec: { selector: { app: 'web' }, ports: [{ port: 8080 }] },
};
const pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'web', namespace: 'default', labels: { app: 'web' } },
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [
      { name: 'main', image: 'host', command: ['sleep', '3600'], volumeMounts: [{ name: 'data', mountPath: '/tmp/oarlock-moved' }] },
    ],
    volumes: [{ name: 'data', emptyDir: { medium: 'Memory' } }],
  },
};

describe.skipIf(reason !== undefined)(`a node that moves${reason === undefined ? '' : ` (skipped: ${reason})`}`, () => {
  const machine = Machine.use();
  let from: ServerMachine;
  let to: ServerMachine;
  let node: ServerMachine;
  let components: object;

  const start = (server: ServerMachine, second: number) =>
    server.up({
      ...components,
      roles: ['apiserver', 'controllers', 'scheduler'],
      server: { address: server.address },
      storage: 'storage-memory',
      networking: { podCIDRs: [`10.${second}.0.0/16`], serviceCIDRs: [`10.${second + 1}.0.0/16`] },
    });
  const joinAt = (server: ServerMachine) =>
    node.joinAsNode(server, {
      ...components,
      runtimes: ['runtime-process'],
      settings: { kubelet: { evictionHard: { diskAvailable: '1%', imageAvailable: '1%' } } },
    });
  /** Returns what the kernel of the node keeps for its network: rules, addresses and routes. */
  const network = async () =>
    (
      await Promise.all([
        node.run('nft', 'list', 'ruleset'),
        node.run('ip', 'addr'),
        node.run('ip', 'route', 'show', 'table', 'all'),
        node.run('iptables-save'),
      ])
    ).join('\n');
  /** Returns the mounts of volumes, as the process of the node sees them. */
  const volumes = async () =>
    (await readFile(`/proc/${node.daemon.pid}/mountinfo`, 'utf8')).split('\n').filter((line) => line.includes(`${node.dataDir}/`));
  const runPod = async (server: ServerMachine) => {
    const api = await server.api();
    await until('the service account exists', () => server.kubectl.run(['get', 'serviceaccount', 'default']));
    await server.kubectl.apply(service);
    await server.kubectl.apply(pod);
    await api.untilReady('default', 'web', 1);
  };

  beforeAll(async () => {
    const machines = await serverMachines(machine, ['server-a', 'server-b', 'node-a']);
    [from, to, node] = machines as [ServerMachine, ServerMachine, ServerMachine];
    components = {
      network: { use: 'network-bridge', config: { confDir: machine.path('net.d') } },
      policy: 'policy-nftables',
      proxy: 'proxy-nftables',
    };
    await Promise.all([start(from, 50), start(to, 60)]);
    await joinAt(from);
    await from.kubectl.apply(policy);
    await runPod(from);
    await until('the rules of the policy and the Service', async () => {
      const state = await network();
      return ['10.50.77.0', '10.51.', '10.50.'].every((text) => state.includes(text));
    });
  });

  it('is rejected by the other cluster before it is removed, and keeps its pod', async () => {
    const [, , , ...options] = (await to.oarlock('token', 'create')).trim().split(' ');
    const join = () => node.oarlock('node', 'join', '-f', node.clusterFile, ...options, '--node-name', node.name);
    const sentence = `--ca-hash: ${node.dataDir} belongs to the cluster machines, which has another CA: join with a new --data-dir`;
    await expect(join()).rejects.toThrow(sentence);
    await node.oarlock('down');
    await expect(join()).rejects.toThrow(sentence);
    await node.startNode();
    await (await from.api()).untilReady('default', 'web', 1);
    expect(await to.kubectl.run(['get', 'nodes', '-o', 'name'])).toBe('');
  });

  it('leaves nothing of the former cluster after the documented commands', async () => {
    expect(await volumes()).not.toEqual([]);
    await from.oarlock('node', 'remove', node.name);
    expect(await volumes()).toEqual([]);
    await node.oarlock('down');
    expect(await processesBelow(node.dataDir)).toEqual([]);
    await rm(node.dataDir, { recursive: true });
    await joinAt(to);
    await runPod(to);
    const left = (await network()).split('\n').filter((line) => /\b10\.5[01]\./.test(line));
    expect(left).toEqual([]);
    expect(await node.run('nft', 'list', 'ruleset')).toContain('10.61.');
    const kubeconfig = await readFile(join(node.dataDir, 'kubelet.kubeconfig'), 'utf8');
    expect([kubeconfig.includes(to.url), kubeconfig.includes(from.url)]).toEqual([true, false]);
    expect(await from.kubectl.run(['get', 'nodes,pods', '-A', '-o', 'name'])).toBe('');
    // also ends the pod, so that the test leaves nothing
    await to.oarlock('node', 'remove', node.name);
    await node.oarlock('down');
  });
});
