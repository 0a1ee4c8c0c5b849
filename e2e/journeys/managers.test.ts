import { readFile, writeFile } from 'node:fs/promises';
import { parse, stringify } from 'yaml';
import { describe, expect, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import { Machine } from '../harness/machine.ts';

interface Lease extends Item {
  readonly spec: { readonly holderIdentity?: string; readonly leaseTransitions?: number };
}
interface Deployment extends Item {
  readonly status: { readonly replicas?: number };
}
interface Pod extends Item {
  readonly spec: { readonly nodeName?: string };
}

describe('controllers and scheduler in separate processes', () => {
  const machine = Machine.use();

  it('lead through Kubernetes leases, authenticate by certificate or exec credential plugin, and take over from a killed leader', async () => {
    const server = await machine.cluster({ spec: { roles: ['apiserver'], storage: 'storage-memory' } });
    const { api } = server;
    // the second process has an exec credential plugin that returns a token, instead of a certificate
    await server.kubectl.run(['create', 'serviceaccount', 'manager', '-n', 'kube-system']);
    await server.kubectl.run([
      'create',
      'clusterrolebinding',
      'manager',
      '--clusterrole=cluster-admin',
      '--serviceaccount=kube-system:manager',
    ]);
    const token = (await server.kubectl.run(['create', 'token', 'manager', '-n', 'kube-system'])).trim();
    const config = parse(await readFile(server.kubeconfig, 'utf8')) as { users: { user: object }[] };
    const apiVersion = 'client.authentication.k8s.io/v1';
    const credential = JSON.stringify({ apiVersion, kind: 'ExecCredential', status: { token } });
    const program = machine.path('login');
    await writeFile(program, `#!/bin/sh\ncat <<'end'\n${credential}\nend\n`, { mode: 0o700 });
    const exec = { apiVersion, command: program, interactiveMode: 'Never' };
    const withProgram = machine.path('program.kubeconfig');
    await writeFile(withProgram, stringify({ ...config, users: config.users.map((each) => ({ ...each, user: { exec } })) }), {
      mode: 0o600,
    });

    // the controllers of the second process use tokens of their own service accounts, and so the permissions of their Kubernetes roles
    const managers = await Promise.all(
      [
        { kubeconfig: server.kubeconfig, settings: {} },
        { kubeconfig: withProgram, settings: { controllers: { useServiceAccountCredentials: true } } },
      ].map(({ kubeconfig, settings }) =>
        machine.prepare({ spec: { roles: ['controllers', 'scheduler'], settings }, args: ['--kubeconfig', kubeconfig] }),
      ),
    );
    const lease = (name: string) => `/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?fieldSelector=metadata.name%3D${name}`;
    const holder = async (name: string, other = '') => {
      const [held] = await api.until<Lease>(
        `a holder of ${name}`,
        lease(name),
        ([one]) => !['', other].includes(one?.spec.holderIdentity ?? ''),
      );
      return held?.spec.holderIdentity ?? '';
    };
    const untilReady = (at: number) => managers[at]?.launch().line(/ is ready at /);
    await untilReady(0);
    const first = { controllers: await holder('kube-controller-manager'), scheduler: await holder('kube-scheduler') };
    await untilReady(1);
    const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'a' } };
    await api.json('POST', '/api/v1/nodes', { body: node });
    const capacity = { cpu: '8', memory: '16Gi', pods: '110' };
    const status = { capacity, allocatable: capacity, conditions: [{ type: 'Ready', status: 'True', reason: 'Test', message: '' }] };
    await api.json('PATCH', '/api/v1/nodes/a/status', { body: { status }, headers: { 'content-type': 'application/merge-patch+json' } });
    await server.kubectl.run(['create', 'deployment', 'web', '--image=x', '--replicas=2']);
    const bound = (count: number) =>
      api.until<Pod>(
        `${count} bound pods`,
        api.pods('default', 'web'),
        (pods) => pods.filter(({ spec }) => spec.nodeName === 'a').length === count,
      );
    await bound(2);
    // only one of the two processes leads
    expect(await holder('kube-controller-manager')).toBe(first.controllers);

    await managers[0]?.kill9();
    await server.kubectl.run(['scale', 'deployment', 'web', '--replicas=4']);
    await bound(4);
    expect(await holder('kube-controller-manager', first.controllers)).not.toBe(first.controllers);
    expect(await holder('kube-scheduler', first.scheduler)).not.toBe(first.scheduler);
    const [set] = (await api.get<{ readonly items: readonly Item[] }>('/apis/apps/v1/namespaces/default/replicasets')).items;
    const writers =
      (set?.metadata as { readonly managedFields?: readonly { readonly manager?: string }[] } | undefined)?.managedFields ?? [];
    expect([...new Set(writers.map(({ manager }) => manager))]).toEqual(['kube-controller-manager']);
    // the new leader waits for the lease to expire by its own clock
    await api.until<Deployment>(
      'the deployment has four replicas',
      '/apis/apps/v1/namespaces/default/deployments',
      ([web]) => web?.status.replicas === 4,
    );
  });
});
