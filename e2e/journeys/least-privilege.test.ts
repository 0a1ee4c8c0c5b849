import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { stringify } from 'yaml';
import { describe, expect, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import type { ClusterSpec } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';

const run = promisify(execFile);

interface Binding extends Item {
  readonly roleRef: { readonly name: string };
}
interface Pod extends Item {
  readonly spec: { readonly nodeName?: string };
  readonly status: { readonly phase?: string };
}
interface AuditEvent {
  readonly user: { readonly username: string };
  readonly verb: string;
  readonly requestURI: string;
  readonly responseStatus?: { readonly code?: number; readonly message?: string };
}

/** 403 responses that Kubernetes' own components receive too, until the default policy exists. */
const passing = /is being terminated|status unknown for quota/;

describe('components in separate processes, with the permissions of the Kubernetes default roles', () => {
  const machine = Machine.use();

  it('do their work and receive no 403', async () => {
    const audit = machine.path('audit.log');
    const policy = machine.path('policy.yaml');
    const all = { apiVersion: 'audit.k8s.io/v1', kind: 'Policy', omitStages: ['RequestReceived'], rules: [{ level: 'Metadata' }] };
    await writeFile(policy, stringify(all));
    const server = await machine.cluster({
      spec: {
        roles: ['apiserver'],
        storage: 'storage-memory',
        auditPolicy: policy,
        audit: [{ use: 'audit-log', config: { path: audit } }],
      },
    });
    const { api, kubectl } = server;
    // Oarlock's own bindings do not exist on other servers, which have no span endpoint either
    const bindings = '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings';
    const defaultBindings = await api.until<Binding>('the default bindings', bindings, (all) =>
      ['oarlock:leader-election', 'oarlock:gang-scheduling', 'oarlock:node-proxier', 'oarlock:tracing'].every((name) =>
        all.some(({ metadata }) => metadata.name === name),
      ),
    );
    const own = defaultBindings.filter(
      ({ metadata }) => metadata.name.includes('oarlock:') && !['oarlock:tracing', 'oarlock:node'].includes(metadata.name),
    );
    await kubectl.run(['delete', 'clusterrolebinding', ...own.map(({ metadata }) => metadata.name)]);

    const pki = join(server.dataDir, 'pki');
    const directory = machine.path('users');
    await mkdir(directory);
    const kubeconfigOf = async (name: string, subject: string) => {
      const at = (end: string) => join(directory, `${name}.${end}`);
      const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
      await run('openssl', ['req', '-new', ...ec, '-keyout', at('key'), '-subj', subject, '-out', at('csr')]);
      await writeFile(at('ext'), 'extendedKeyUsage=clientAuth\n');
      const ca = ['-CA', join(pki, 'ca.crt'), '-CAkey', join(pki, 'ca.key'), '-set_serial', String(Date.now()), '-extfile', at('ext')];
      await run('openssl', ['x509', '-req', '-in', at('csr'), ...ca, '-days', '2', '-out', at('crt')]);
      const base64 = async (file: string) => (await readFile(file)).toString('base64');
      const user = { 'client-certificate-data': await base64(at('crt')), 'client-key-data': await base64(at('key')) };
      const cluster = { server: api.server, 'certificate-authority-data': await base64(join(pki, 'ca.crt')) };
      const config = {
        apiVersion: 'v1',
        kind: 'Config',
        clusters: [{ name: 'c', cluster }],
        users: [{ name: 'u', user }],
        contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
        'current-context': 'x',
      };
      await writeFile(at('kubeconfig'), stringify(config), { mode: 0o600 });
      return at('kubeconfig');
    };
    const part = async (spec: ClusterSpec, name: string, subject: string) => {
      const prepared = await machine.prepare({ spec, args: ['--kubeconfig', await kubeconfigOf(name, subject), '--node-name', 'n1'] });
      await prepared.launch().line(/ is ready at /);
    };
    await part({ roles: ['controllers'] }, 'manager', '/CN=system:kube-controller-manager');
    await part({ roles: ['scheduler'] }, 'scheduler', '/CN=system:kube-scheduler');
    await part(
      { roles: ['kubelet'], runtimes: ['runtime-simulated'], network: 'network-host' },
      'node',
      '/O=system:nodes/CN=system:node:n1',
    );

    await kubectl.run(['create', 'namespace', 'work']);
    await kubectl.run(['create', 'quota', 'q', '-n', 'work', '--hard=pods=50']);
    await kubectl.run(['create', 'deployment', 'web', '-n', 'work', '--image=x', '--replicas=3']);
    await kubectl.run(['expose', 'deployment', 'web', '-n', 'work', '--port=80']);
    const web = (count: number) =>
      api.until<Pod>(
        `${count} running pods`,
        api.pods('work', 'web'),
        (pods) => pods.length === count && pods.every(({ spec, status }) => spec.nodeName === 'n1' && status.phase === 'Running'),
      );
    await web(3);
    await kubectl.run(['set', 'env', 'deployment/web', '-n', 'work', 'A=1']);
    await kubectl.run(['rollout', 'status', 'deployment/web', '-n', 'work', '--timeout=180s']);
    await kubectl.run(['delete', 'deployment', 'web', '-n', 'work', '--cascade=foreground']);
    await web(0);
    await kubectl.run(['delete', 'namespace', 'work', '--timeout=180s']);

    const events = (await readFile(audit, 'utf8'))
      .split('\n')
      .filter((line) => line.endsWith('}'))
      .map((line) => JSON.parse(line) as AuditEvent);
    const managers = events.filter(({ user }) => user.username.startsWith('system:serviceaccount:kube-system:'));
    expect(managers.length).toBeGreaterThan(0);
    const forbiddenRequests = events
      .filter(({ responseStatus }) => responseStatus?.code === 403 && !passing.test(responseStatus.message ?? ''))
      .map(({ user, verb, requestURI }) => `${user.username} ${verb} ${requestURI}`);
    expect(forbiddenRequests).toEqual([]);
  });
});
