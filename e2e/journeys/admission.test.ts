import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { patchAnswer, WebhookServer } from '../../plugins/admission-webhooks/test/webhook-server.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { untilValue } from '../harness/until.ts';

const group = 'admissionregistration.k8s.io/v1';
const rules = (apiGroup: string, resources: string, ...operations: string[]) => [
  { apiGroups: [apiGroup], apiVersions: ['v1'], operations, resources: [resources] },
];
const deployment = (name: string, replicas: number) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name },
  spec: {
    replicas,
    selector: { matchLabels: { app: name } },
    template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: 'main', image: 'i' }] } },
  },
});
const configMap = (name: string, data: Record<string, string> = {}) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data });

describe('admission policies and webhooks', () => {
  const machine = Machine.use();
  let cluster: Cluster;
  let hooks: WebhookServer;
  beforeAll(async () => {
    hooks = await WebhookServer.start();
    cluster = await machine.cluster({
      spec: { ...composition({ storage: 'memory', runtime: 'simulated', network: 'host' }), roles: ['apiserver', 'controllers'] },
    });
  });
  afterAll(() => hooks.stop());

  /** Repeats a write until its result is that of the new rules: the API server applies them a moment after they are written. */
  const answer = (object: object, wanted: (text: string) => boolean, ...args: string[]) =>
    untilValue(
      'the rules are in force',
      async () => {
        const { stdout, stderr } = await cluster.kubectl.try(['apply', ...args, '-f', '-'], { input: JSON.stringify(object) });
        return stdout + stderr;
      },
      wanted,
    );

  it('ValidatingAdmissionPolicy should validate against a Deployment, and allow expressions to refer variables', async () => {
    await cluster.kubectl.apply([
      {
        apiVersion: group,
        kind: 'ValidatingAdmissionPolicy',
        metadata: { name: 'replicas' },
        spec: {
          matchConstraints: { resourceRules: rules('apps', 'deployments', 'CREATE', 'UPDATE') },
          variables: [{ name: 'replicas', expression: 'object.spec.replicas' }],
          validations: [{ expression: 'variables.replicas < 3', messageExpression: "'too many: ' + string(variables.replicas)" }],
        },
      },
      {
        apiVersion: group,
        kind: 'ValidatingAdmissionPolicyBinding',
        metadata: { name: 'replicas' },
        spec: { policyName: 'replicas', validationActions: ['Deny'] },
      },
    ]);
    expect(await answer(deployment('many', 3), (text) => text.includes('denied request'), '--dry-run=server')).toContain(
      `The deployments "many" is invalid: : ValidatingAdmissionPolicy 'replicas' with binding 'replicas' denied request: too many: 3`,
    );
    await cluster.kubectl.apply(deployment('few', 2));
    const wrong = await cluster.kubectl.try(
      [
        'patch',
        'validatingadmissionpolicy',
        'replicas',
        '--type=json',
        '-p',
        '[{"op":"replace","path":"/spec/validations/0/expression","value":"object.spec."}]',
      ],
      {},
    );
    expect(wrong.stderr).toContain('compilation failed: ERROR: <input>:1:13: Syntax error');
    await cluster.kubectl.run(['delete', 'validatingadmissionpolicy,validatingadmissionpolicybinding', '--all']);
  });

  it('MutatingAdmissionPolicy should mutate a Deployment, with annotations', async () => {
    await cluster.kubectl.apply([
      {
        apiVersion: group,
        kind: 'MutatingAdmissionPolicy',
        metadata: { name: 'sidecar' },
        spec: {
          reinvocationPolicy: 'Never',
          matchConstraints: { resourceRules: rules('apps', 'deployments', 'CREATE') },
          mutations: [
            {
              patchType: 'ApplyConfiguration',
              applyConfiguration: {
                expression:
                  'Object{metadata: Object.metadata{annotations: {"mutated": "yes"}}, spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: "mesh", image: "m"}]}}}}',
              },
            },
          ],
        },
      },
      { apiVersion: group, kind: 'MutatingAdmissionPolicyBinding', metadata: { name: 'sidecar' }, spec: { policyName: 'sidecar' } },
    ]);
    const text = await answer(deployment('meshed', 1), (seen) => seen.includes('mesh"'), '--dry-run=server', '-o', 'json');
    const { metadata, spec } = JSON.parse(text) as {
      metadata: { annotations: Record<string, string> };
      spec: { template: { spec: { containers: { name: string; imagePullPolicy: string }[] } } };
    };
    expect(metadata.annotations['mutated']).toBe('yes');
    // defaulting runs after mutation
    expect(spec.template.spec.containers.map(({ name, imagePullPolicy }) => [name, imagePullPolicy])).toEqual([
      ['main', 'Always'],
      ['mesh', 'Always'],
    ]);
    await cluster.kubectl.run(['delete', 'mutatingadmissionpolicy,mutatingadmissionpolicybinding', '--all']);
  });

  it('AdmissionWebhook should mutate configmap, and be able to deny configmap creation', async () => {
    hooks.handler = ({ request }, path) => {
      const data = (request.object?.['data'] ?? {}) as Record<string, string>;
      if (path === '/mutate') return patchAnswer({ op: 'add', path: '/data/hooked', value: 'yes' });
      return data['bad'] === undefined && data['hooked'] === 'yes'
        ? { allowed: true }
        : { allowed: false, status: { message: 'the configmap contains unwanted key', code: 403, reason: 'Forbidden' } };
    };
    const webhook = (path: string) => ({
      name: `${path}.example.com`,
      admissionReviewVersions: ['v1'],
      sideEffects: 'None',
      clientConfig: { url: hooks.url(`/${path}`), caBundle: hooks.caBundle },
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'default' } },
      rules: rules('', 'configmaps', 'CREATE'),
    });
    await cluster.kubectl.apply([
      { apiVersion: group, kind: 'MutatingWebhookConfiguration', metadata: { name: 'm' }, webhooks: [webhook('mutate')] },
      { apiVersion: group, kind: 'ValidatingWebhookConfiguration', metadata: { name: 'v' }, webhooks: [webhook('validate')] },
    ]);
    const rejection = await answer(configMap('bad', { bad: 'x' }), (text) => text.includes('denied the request'), '--dry-run=server');
    expect(rejection).toContain('admission webhook "validate.example.com" denied the request: the configmap contains unwanted key');
    const created = await answer(configMap('good', { a: 'b' }), (text) => text.includes('hooked'), '--dry-run=server', '-o', 'json');
    expect((JSON.parse(created) as { data: unknown }).data).toEqual({ a: 'b', hooked: 'yes' });
    // objects that configure admission are exempt from it
    await cluster.kubectl.run(['delete', 'mutatingwebhookconfiguration,validatingwebhookconfiguration', '--all']);
    await answer(configMap('bad', { bad: 'x' }), (text) => text.includes('created'), '--dry-run=server');
  });
});
