import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { openRequest, readAnswer, type Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { Machine } from '../harness/machine.ts';
import { oarlock, root, runOarlock } from '../harness/oarlock.ts';
import { Daemon, freePort } from '../harness/programs.ts';
import { untilValue } from '../harness/until.ts';

interface Lease extends Item {
  readonly spec: { readonly holderIdentity?: string; readonly leaseTransitions?: number };
}
interface Pod extends Item {
  readonly spec: { readonly nodeName?: string };
}
interface WebhookConfiguration extends Item {
  readonly webhooks: readonly { readonly clientConfig: { readonly url: string; readonly caBundle: string } }[];
}

const namespace = 'oarlock-components';
const example = (name: string) => join(root, 'examples', 'plugins', name, 'src', 'plugin.ts');
const copied = { namespace: 'default', name: 'settings', label: 'copy' };
/** Shorter than upstream's 15 seconds, so that the test waits less; long enough that a leader on a busy machine renews its Lease in time. */
const election = ['--leader-elect-lease-duration=10s', '--leader-elect-renew-deadline=8s', '--leader-elect-retry-period=500ms'];

const guard = (message: string, resources: readonly string[]) => `
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { z } from 'zod';
export default Admission.plugin({
  id: 'admission-guard',
  config: z.strictObject({}),
  create: () => ({
    matches: [{ resources: ${JSON.stringify(resources)}, operations: ['CREATE'] }],
    validate: ({ object }) => (object?.metadata?.labels?.guarded === undefined ? allow : deny(${JSON.stringify(message)})),
  }),
});
`;
const annotate = `
import { namespaces } from '@oarlock/api/resources';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
export default Controllers.plugin({
  id: 'controller-annotate',
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const all = informers.forResource(namespaces);
    return {
      name: 'annotate',
      watches: [watch(all, ({ metadata }) => (metadata?.labels?.annotate === undefined ? [] : [metadata.name ?? '']))],
      async reconcile(name, { client, log }) {
        if (all.get(name)?.metadata?.annotations?.seen !== undefined) return;
        await client.patch(namespaces, { name }, 'merge', { metadata: { annotations: { seen: 'yes' } } });
        log.info({ name }, 'annotated');
      },
    };
  },
});
`;

/** A cluster that plugins reach only with a kubeconfig. It has no scheduler. */
describe('plugins outside the cluster', () => {
  const machine = Machine.use();
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await machine.cluster({
      spec: { roles: ['apiserver', 'controllers', 'kubelet'], storage: 'storage-memory', runtimes: ['runtime-simulated'] },
    });
    // the manifests of every export contain the namespace, and concurrent creations of it conflict
    await cluster.kubectl.apply({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: namespace, labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } },
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
    await untilValue(
      'the placement is reported',
      () => cluster.kubectl.run(['get', 'events', ofSecond, '-o', 'jsonpath={.items[*].reportingComponent}']),
      (component) => component === name,
    );
  });

  it.concurrent('oarlock dev runs the plugins of a folder, reloads them, and leaves no webhook behind, also after SIGKILL', async () => {
    const folder = machine.path('plugins');
    await mkdir(folder, { recursive: true });
    const file = join(folder, 'guard.ts');
    await writeFile(file, guard('first version', ['configmaps']));
    await writeFile(join(folder, 'annotate.ts'), annotate);
    await writeFile(join(folder, 'spread.ts'), `export { default } from ${JSON.stringify(example('scheduling-zone-spread'))};`);
    const dataDir = machine.path('dev');
    const args = ['dev', '--kubeconfig', cluster.kubeconfig, '--data-dir', dataDir];
    const develop = () => {
      const daemon = new Daemon(oarlock.file, [...oarlock.args, ...args, folder], { cwd: folder });
      machine.undo('oarlock dev', () => daemon.stop());
      return daemon;
    };
    const create = async (kind: string, name: string) => {
      const object = { apiVersion: 'v1', kind, metadata: { namespace: 'default', name, labels: { guarded: '' } } };
      return (await cluster.kubectl.try(['create', '--dry-run=server', '-f', '-'], { input: JSON.stringify(object) })).stderr;
    };
    const denied = (kind: string, message: string) =>
      untilValue(
        `${kind} is denied: ${message}`,
        () => create(kind, 'a'),
        (stderr) => stderr.includes(`denied the request: ${message}`),
      );
    const configurations = async () =>
      (await cluster.kubectl.run(['get', 'validatingwebhookconfigurations,mutatingwebhookconfigurations', '-o', 'name'])).trim();

    /** Sends an empty review to the webhook, with and without the secret in the path of its URL. */
    const statuses = async () => {
      const path = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations';
      const { items } = await cluster.api.get<{ readonly items: readonly WebhookConfiguration[] }>(path);
      const { url = '', caBundle = '' } = items[0]?.webhooks[0]?.clientConfig ?? {};
      const withoutSecret = url.replace(/^(https:\/\/[^/]+)\/[\w-]{32}\//, '$1/');
      const options = { method: 'POST', ca: Buffer.from(caBundle, 'base64'), agent: false };
      const answers = [url, withoutSecret].map(async (each) => readAnswer(await openRequest(new URL(each), { body: {} }, options)));
      return (await Promise.all(answers)).map(({ status }) => status);
    };

    const unreachable = await runOarlock([...args, '--webhook-url', 'https://127.0.0.9:1', '--port', String(await freePort()), file]);
    expect([unreachable.code, unreachable.stderr]).toEqual([1, expect.stringContaining('cannot reach the plugins at https://127.0.0.9:1')]);
    expect(await configurations()).toBe('');

    const first = develop();
    await first.line(/plugins run against/);
    await denied('ConfigMap', 'first version');
    expect(await statuses()).toEqual([400, 404]);
    await first.line(/CREATE configmaps default\/a by kubernetes-admin/);
    await cluster.kubectl.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'noted', labels: { annotate: '' } } });
    await first.line(/controller-annotate annotated/);
    const spec = { schedulerName: 'oarlock-dev', containers: [{ name: 'main', image: 'any' }] };
    await cluster.kubectl.apply({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'dev' }, spec });
    await cluster.api.until<Pod>(
      'the pod is bound',
      '/api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Ddev',
      ([pod]) => pod?.spec.nodeName === cluster.nodeName,
    );
    await writeFile(file, guard('second version', ['configmaps', 'secrets']));
    await first.line(/admission-guard was reloaded/);
    await denied('ConfigMap', 'second version');
    await denied('Secret', 'second version'); // the rules in the cluster follow the plugin

    await first.stop('SIGKILL');
    // failurePolicy: Ignore
    expect(await create('ConfigMap', 'b')).toBe('');
    expect(await configurations()).toContain('validatingwebhookconfiguration');
    const second = develop();
    await second.line(/removed the webhooks of an earlier run/);
    await second.line(/plugins run against/);
    await denied('ConfigMap', 'second version');
    expect(await second.stop()).toBe(0);
    expect(await configurations()).toBe('');
  });
});
