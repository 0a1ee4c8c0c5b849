import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import type { Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { Machine } from '../harness/machine.ts';
import { root, runOarlock } from '../harness/oarlock.ts';
import { Daemon } from '../harness/programs.ts';

interface Lease extends Item {
  readonly spec: { readonly holderIdentity?: string; readonly leaseTransitions?: number };
}
interface Pod extends Item {
  readonly spec: { readonly nodeName?: string };
}

const namespace = 'oarlock-components';
const example = (name: string) => join(root, 'examples', 'plugins', name, 'src', 'plugin.ts');
const copied = { namespace: 'default', name: 'settings', label: 'copy' };
/** Short times, so that the test need not wait for upstream's 15 seconds. */
const election = ['--leader-elect-lease-duration=4s', '--leader-elect-renew-deadline=3s', '--leader-elect-retry-period=500ms'];

/** A cluster that plugins reach only with a kubeconfig. It has no scheduler. */
describe('plugins outside the cluster', () => {
  const machine = Machine.use();
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await machine.cluster({
      spec: { roles: ['apiserver', 'controllers', 'kubelet'], storage: 'storage-memory', runtimes: ['runtime-simulated'] },
    });
    await cluster.kubectl.run(['create', 'configmap', copied.name, '--from-literal=color=blue']);
  });

  /** Exports a plugin, applies its manifests, and returns a function that starts a replica with the permissions of its service account. */
  const exportPlugin = async (kind: 'controller' | 'scheduler', name: string, config: object) => {
    const out = machine.path(name);
    const configFile = machine.path('config.json');
    await writeFile(configFile, JSON.stringify(config));
    const { code, stderr } = await runOarlock(['plugins', 'export', `--${kind}`, example(name), '-o', out, '--config', configFile]);
    expect([code, stderr]).toEqual([0, '']);
    await cluster.kubectl.run(['apply', '-f', join(out, 'manifests')]);
    const token = (await cluster.kubectl.run(['create', 'token', name, '-n', namespace])).trim();
    const admin = parse(await readFile(cluster.kubeconfig, 'utf8')) as { users: { user: object }[] };
    const kubeconfig = machine.path('kubeconfig');
    await writeFile(kubeconfig, stringify({ ...admin, users: admin.users.map((each) => ({ ...each, user: { token } })) }), { mode: 0o600 });
    const manifest = await readFile(join(out, 'manifests', '30-component.yaml'), 'utf8');
    const { args } = (parse(manifest.split('---\n')[1] ?? '') as { spec: { template: { spec: { containers: [{ args: string[] }] } } } })
      .spec.template.spec.containers[0];
    return () => {
      const daemon = new Daemon(process.execPath, [
        ...[join(out, 'image', 'server.cjs'), '--kubeconfig', kubeconfig, '--config', join(out, 'config.json')],
        ...['--address', '127.0.0.1', '--port', '0', ...election, ...args],
      ]);
      machine.undo(name, () => daemon.stop());
      return daemon;
    };
  };
  const leases = (name: string) => `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases?fieldSelector=metadata.name%3D${name}`;
  /** Starts two replicas, kills the leader after `first`, and checks that the other one leads when `second` has resolved. */
  const failOver = async (
    { name, start }: { readonly name: string; readonly start: () => Daemon },
    first: () => Promise<unknown>,
    second: () => Promise<unknown>,
  ) => {
    const leader = start();
    const [, identity] = await leader.line(/"message":"became leader".*"identity":"([^"]+)"/);
    const follower = start();
    await follower.line(/"message":"ready"/);
    await first();
    expect(follower.output).not.toContain('became leader');
    await leader.stop('SIGKILL');
    await second();
    const [lease] = await cluster.api.until<Lease>('another leader', leases(name), ([held]) => held?.spec.holderIdentity !== identity);
    expect(lease?.spec.leaseTransitions).toBe(1);
    expect(await follower.stop()).toBe(0);
    // a replica that stops releases the Lease
    await cluster.api.until<Lease>('the Lease is released', leases(name), ([held]) => (held?.spec.holderIdentity ?? '') === '');
  };

  it.concurrent('an exported controller runs with the permissions that it declares, and a replica takes over from a killed leader', async () => {
    const name = 'controller-config-copy';
    const start = await exportPlugin('controller', name, copied);
    const copy = (target: string) => async () => {
      await cluster.kubectl.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: target, labels: { copy: '' } } });
      await cluster.api.until<Item>(
        `the copy in ${target}`,
        `/api/v1/namespaces/${target}/configmaps?fieldSelector=metadata.name%3D${copied.name}`,
        ([found]) => found !== undefined,
      );
    };
    await failOver({ name, start }, copy('one'), copy('two'));
    const can = async (...action: string[]) =>
      (await cluster.kubectl.try(['auth', 'can-i', ...action, `--as=system:serviceaccount:${namespace}:${name}`])).stdout.trim();
    expect(await can('create', 'configmaps', '-n', 'two')).toBe('yes');
    expect(await can('delete', 'configmaps', '-n', 'two')).toBe('no');
    expect(await can('update', 'leases', '-n', namespace)).toBe('no');
  });

  it.concurrent('an exported scheduler places the pods that name it, and a replica takes over from a killed leader', async () => {
    const name = 'scheduling-zone-spread';
    const start = await exportPlugin('scheduler', name, {});
    const place = (pod: string) => async () => {
      const containers = [{ name: 'main', image: 'any' }];
      await cluster.kubectl.apply({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: pod, labels: { app: 'web' } },
        spec: { schedulerName: name, containers },
      });
      await cluster.api.until<Pod>(
        `${pod} is bound`,
        `/api/v1/namespaces/default/pods?fieldSelector=metadata.name%3D${pod}`,
        ([found]) => found?.spec.nodeName === cluster.nodeName,
      );
    };
    await cluster.kubectl.run(['run', 'other', '--image=any']);
    await failOver({ name, start }, place('first'), place('second'));
    expect(await cluster.kubectl.run(['get', 'pod', 'other', '-o', 'jsonpath={.spec.nodeName}'])).toBe('');
    const ofSecond = '--field-selector=reason=Scheduled,involvedObject.name=second';
    expect(await cluster.kubectl.run(['get', 'events', ofSecond, '-o', 'jsonpath={.items[*].reportingComponent}'])).toBe(name);
  });
});
