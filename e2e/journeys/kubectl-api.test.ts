import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { kubectlBinaries, newestKubectl, type Kubectl } from '../harness/kubectl.ts';
import { Machine } from '../harness/machine.ts';
import { untilValue } from '../harness/until.ts';

const all = kubectlBinaries();
const chosen = all.filter(({ version }) => ['1.30', '1.33', '1.36'].includes(version));
const newest = newestKubectl();
const binaries = chosen.length > 0 ? chosen : newest ? [newest] : [];

/** Characteristic responses of the API, as kubectl of several versions prints them. No kubelet runs. */
describe('kubectl and the API', () => {
  const machine = Machine.use();
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await machine.cluster({ spec: composition({ storage: 'memory', runtime: 'simulated', network: 'host' }) });
  });

  describe.each(binaries)('$version', (binary) => {
    const namespace = `api-${binary.version.replace('.', '-')}`;
    const group = `${namespace}.example.com`;
    let kubectl: Kubectl;
    const k = (...args: string[]) => kubectl.run(['-n', namespace, ...args]);
    const tried = (...args: string[]) => kubectl.try(['-n', namespace, ...args]);
    const input = (object: object, ...args: string[]) =>
      kubectl.try(['-n', namespace, ...args, '-f', '-'], { input: JSON.stringify(object) });
    const map = (name: string, data: object, labels?: object) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name, ...(labels && { labels }) },
      data,
    });
    beforeAll(async () => {
      kubectl = cluster.kubectl.with(binary);
      await kubectl.run(['create', 'namespace', namespace]);
    });

    it('applies server-side: conflicts, force, shared fields', async () => {
      const apply = (object: object, ...more: string[]) => input(object, 'apply', '--server-side', ...more);
      expect((await apply(map('a', { a: '1' }), '--field-manager=one')).stdout).toBe('configmap/a serverside-applied\n');
      const conflict = await apply(map('a', { a: '2' }), '--field-manager=two');
      expect(conflict).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('Apply failed with 1 conflict: conflict with "one": .data.a'),
      });
      expect((await apply(map('a', { a: '2' }), '--field-manager=two', '--force-conflicts')).code).toBe(0);
      expect((await apply(map('a', { b: '3' }), '--field-manager=one')).code).toBe(0);
      expect(await k('get', 'configmap', 'a', '-o', 'jsonpath={.data}')).toBe('{"a":"2","b":"3"}');
      expect(await k('get', 'configmap', 'a', '--show-managed-fields', '-o', 'jsonpath={.metadata.managedFields[*].manager}')).toMatch(
        /one|two/,
      );
    });

    it('prunes by label and by ApplySet', async () => {
      const labels = { set: 'pruned' };
      const list = (...items: object[]) => ({ apiVersion: 'v1', kind: 'List', items });
      await input(list(map('p1', { a: 'b' }, labels), map('p2', { a: 'b' }, labels)), 'apply');
      const pruned = await input(
        list(map('p1', { a: 'b' }, labels)),
        'apply',
        '--prune',
        '-l',
        'set=pruned',
        '--prune-allowlist=core/v1/ConfigMap',
      );
      expect(pruned.stdout).toBe('configmap/p1 unchanged\nconfigmap/p2 pruned\n');
      const folder = machine.path('set');
      await mkdir(folder);
      await writeFile(join(folder, 's1.json'), JSON.stringify(map('s1', {})));
      await writeFile(join(folder, 's2.json'), JSON.stringify(map('s2', {})));
      const set = ['-n', namespace, 'apply', '--prune', '--applyset=all', '-f'];
      const env = { KUBECTL_APPLYSET: 'true' };
      expect((await kubectl.try([...set, folder], { env })).code).toBe(0);
      expect((await kubectl.try([...set, join(folder, 's1.json')], { env })).stdout).toContain('configmap/s2 pruned');
    });

    it('validates server-side: strict, warn, ignore', async () => {
      const odd = (name: string) => ({ ...map(name, {}), odd: 1 });
      expect((await input(odd('v'), 'create')).stderr).toContain('strict decoding error: unknown field "odd"');
      expect(await input(odd('w'), 'create', '--validate=warn')).toMatchObject({ code: 0, stderr: 'Warning: unknown field "odd"\n' });
      expect(await input(odd('i'), 'create', '--validate=ignore')).toMatchObject({ code: 0, stderr: '' });
      const wrong = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'bad' }, spec: { containers: [{ name: 'a_', image: '' }] } };
      const { stderr } = await input(wrong, 'create');
      expect(stderr).toMatch(/^The Pod "bad" is invalid: \n\* spec\.containers\[0\]\.name: Invalid value: "a_"/);
      expect(stderr).toContain('* spec.containers[0].image: Required value');
      expect((await tried('label', 'configmap', 'a', 'a b=c')).stderr).toContain('name part must consist of alphanumeric characters');
    });

    it('explains, prints, scales and waits for custom resources', async () => {
      const text = { type: 'string', description: 'Words.', enum: ['a', 'b'] };
      const definition = {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        metadata: { name: `foos.${group}` },
        spec: {
          group,
          scope: 'Namespaced',
          names: { plural: 'foos', singular: 'foo', kind: 'Foo', categories: ['all'] },
          versions: [
            {
              name: 'v1',
              served: true,
              storage: true,
              subresources: { status: {}, scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' } },
              additionalPrinterColumns: [
                { name: 'Rep', type: 'integer', jsonPath: '.spec.replicas' },
                { name: 'Words', type: 'string', jsonPath: '.spec.s', priority: 1 },
              ],
              selectableFields: [{ jsonPath: '.spec.s' }],
              schema: {
                openAPIV3Schema: {
                  type: 'object',
                  description: 'A foo.',
                  properties: {
                    spec: { type: 'object', required: ['s'], properties: { s: text, replicas: { type: 'integer', default: 1 } } },
                    status: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
                  },
                },
              },
            },
          ],
        },
      };
      await input(definition, 'apply');
      await k('wait', '--for=condition=established', `crd/foos.${group}`, '--timeout=180s');
      const foos = `foos.${group}`;
      await untilValue(
        'the kind is explained',
        () => k('explain', `${foos}.spec`),
        (output) => /FIELDS:\s+replicas\s+<integer>[\s\S]*\s+s\s+<string> -required-/.test(output),
      );
      expect((await input({ apiVersion: `${group}/v1`, kind: 'Foo', metadata: { name: 'f' }, spec: { s: 'a' } }, 'apply')).code).toBe(0);
      expect(await k('get', foos)).toMatch(/^NAME\s+REP\nf\s+1\n$/);
      expect(await k('get', foos, '-o', 'wide', '--field-selector=spec.s=a')).toMatch(/^NAME\s+REP\s+WORDS\nf\s+1\s+a\n$/);
      expect(await k('get', 'all', '-o', 'name')).toContain(`foo.${group}/f`);
      expect(await k('scale', `${foos}/f`, '--replicas=4')).toContain('scaled');
      const status = JSON.stringify({ status: { replicas: 3, conditions: [{ type: 'Ready', status: 'True' }] } });
      expect(await k('patch', foos, 'f', '--subresource=status', '--type=merge', '-p', status)).toContain('patched');
      expect(await k('get', foos, 'f', '--subresource=scale')).toMatch(/^NAME\s+DESIRED\s+AVAILABLE\s+AGE\nf\s+4\s+3\s/);
      expect(await k('wait', '--for=condition=Ready', `${foos}/f`, '--timeout=180s')).toContain('condition met');
      expect((await tried('patch', foos, 'f', '--type=strategic', '-p', '{"spec":{"s":"b"}}')).stderr).toContain('is not supported by');
      expect((await tried('patch', foos, 'f', '--type=merge', '-p', '{"spec":{"s":"z"}}')).stderr).toContain(
        'spec.s: Unsupported value: "z": supported values: "a", "b"',
      );
      await kubectl.run(['delete', 'crd', `foos.${group}`]);
    });

    it('edits, patches and selects', async () => {
      await input(map('e', { a: '1' }), 'create');
      const editor = machine.path('editor');
      await writeFile(editor, '#!/bin/sh\nsed -i "s/^  a: .*$/  a: edited/" "$1"\n');
      await chmod(editor, 0o755);
      expect((await kubectl.try(['-n', namespace, 'edit', 'configmap', 'e'], { env: { KUBE_EDITOR: editor } })).stdout).toBe(
        'configmap/e edited\n',
      );
      expect((await kubectl.try(['-n', namespace, 'edit', 'configmap', 'e'], { env: { KUBE_EDITOR: editor } })).stderr).toContain(
        'no changes made',
      );
      expect(await k('patch', 'configmap', 'e', '--type=json', '-p', '[{"op":"replace","path":"/data/a","value":"2"}]')).toContain(
        'patched',
      );
      expect(
        (await tried('patch', 'configmap', 'e', '--type=json', '-p', '[{"op":"test","path":"/data/a","value":"9"}]')).stderr,
      ).toContain('the server rejected our request due to an error in our request');
      expect((await tried('get', 'configmaps', '-l', '((')).stderr).toContain('(BadRequest): Unable to find "/v1, Resource=configmaps"');
      expect((await tried('get', 'pods', '--field-selector=spec.foo=x')).stderr).toContain('field label not supported: spec.foo');
      expect((await tried('annotate', 'configmap', 'e', 'n=z', '--resource-version=1')).stderr).toContain('(Conflict)');
    });

    it('checks permissions, and reconciles them', async () => {
      const role = (verb: string) => [
        {
          apiVersion: 'rbac.authorization.k8s.io/v1',
          kind: 'Role',
          metadata: { name: 'rec', namespace },
          rules: [{ apiGroups: [''], resources: ['pods'], verbs: [verb] }],
        },
        {
          apiVersion: 'rbac.authorization.k8s.io/v1',
          kind: 'RoleBinding',
          metadata: { name: 'rec', namespace },
          roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'rec' },
          subjects: [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: 'joe' }],
        },
      ];
      const file = machine.path('rbac');
      const reconcile = async (verb: string) => {
        await writeFile(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items: role(verb) }));
        const { code, stdout, stderr } = await tried('auth', 'reconcile', '--remove-extra-permissions', '-f', file);
        expect(code).toBe(0);
        return stdout + stderr;
      };
      expect(await reconcile('get')).toContain('reconciliation required create');
      expect(await reconcile('list')).toMatch(/extra rules removed:\s+\{Verbs:\[get\]/);
      await untilValue(
        'the change of the role is effective',
        () => tried('auth', 'can-i', 'list', 'pods', '--as=joe'),
        ({ stdout }) => stdout === 'yes\n',
      );
      expect(await tried('auth', 'can-i', 'get', 'pods', '--as=joe')).toMatchObject({ code: 1, stdout: 'no\n' });
      expect(await k('auth', 'can-i', '--list', '--as=joe')).toMatch(/^pods\s+\[\]\s+\[\]\s+\[list\]$/m);
      expect(await k('auth', 'whoami', '--as=joe', '--as-group=a', '-o', 'jsonpath={.status.userInfo.username}')).toBe('joe');
      expect((await tried('get', 'configmaps', '--as=joe')).stderr).toBe(
        `Error from server (Forbidden): configmaps is forbidden: User "joe" cannot list resource "configmaps" in API group "" in the namespace "${namespace}"\n`,
      );
    });

    it('prints the warnings of the server', async () => {
      const labels = { app: 'warned' };
      const container = {
        name: 'c',
        image: 'i',
        env: [
          { name: 'A', value: '1' },
          { name: 'A', value: '2' },
        ],
        ports: [{ containerPort: 80 }, { containerPort: 80 }],
      };
      const deployment = {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata: { name: 'warned.name' },
        spec: {
          replicas: 0,
          selector: { matchLabels: labels },
          template: { metadata: { labels }, spec: { containers: [container], nodeSelector: { 'beta.kubernetes.io/os': 'linux' } } },
        },
      };
      const expected = [
        'Warning: metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]',
        'Warning: spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead',
        'Warning: spec.template.spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
        'Warning: spec.template.spec.containers[0].ports[1]: duplicate port definition with spec.template.spec.containers[0].ports[0]',
      ];
      for (const args of [['create', '--dry-run=server'], ['create']]) {
        const { code, stderr } = await input(deployment, ...args);
        expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: `${expected.join('\n')}\n` });
      }
      const changed = await tried('patch', 'deployment', 'warned.name', '-p', '{"spec":{"minReadySeconds":1}}');
      // the name cannot be changed, so an update has no warning about it
      expect(changed.stderr).toBe(`${expected.slice(1).join('\n')}\n`);
      const service = {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: 'warned' },
        spec: { ports: [{ port: 80 }], externalIPs: ['192.0.2.1'] },
      };
      const applied = await input(service, 'apply', '--server-side');
      expect(applied.stderr).toBe('Warning: spec.externalIPs is deprecated and may no longer be implemented in some clusters\n');
      const patch = JSON.stringify({ spec: { externalIPs: [], trafficDistribution: 'PreferClose' } });
      expect((await tried('patch', 'service', 'warned', '-p', patch)).stderr).toBe(
        'Warning: spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"\n',
      );
      const job = { apiVersion: 'batch/v1', kind: 'Job', metadata: { name: 'warned' } };
      const pods = { spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'i' }] } };
      await input({ ...job, spec: { suspend: true, template: pods } }, 'create');
      const raw = `/apis/batch/v1/namespaces/${namespace}/jobs/warned`;
      expect((await kubectl.try(['delete', '--raw', raw])).stderr).toContain(
        'Warning: child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them',
      );
    });

    it('reports unknown kinds, names and fields', async () => {
      expect(await tried('top', 'pods')).toMatchObject({ code: 1 });
      expect((await tried('get', 'nope')).stderr).toBe('error: the server doesn\'t have a resource type "nope"\n');
      expect((await tried('create', 'token', 'nobody')).stderr).toContain('serviceaccounts "nobody" not found');
      expect(await kubectl.run(['get', '--raw', '/readyz?verbose&exclude=etcd'])).toContain('[+]etcd excluded: ok');
      expect(await kubectl.run(['get', '--raw', '/debug/api_priority_and_fairness/dump_priority_levels'])).toMatch(
        /^PriorityLevelName, +ActiveQueues,/,
      );
      await kubectl.run(['delete', 'namespace', namespace, '--timeout=180s']);
    });
  });

  describe.runIf(newest !== undefined)("what kubectl's own suite compares", () => {
    const namespace = 'own-suite';
    let kubectl: Kubectl;
    const tried = (...args: string[]) => kubectl.try(['-n', namespace, ...args]);
    const input = (object: object, ...args: string[]) =>
      kubectl.try(['-n', namespace, ...args, '-f', '-'], { input: JSON.stringify(object) });
    const pod = (name: string, annotations: object = {}) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, labels: { name }, annotations },
      spec: { nodeName: 'none', containers: [{ name: 'c', image: 'i' }] },
    });
    beforeAll(async () => {
      kubectl = newest === undefined ? cluster.kubectl : cluster.kubectl.with(newest);
      await kubectl.run(['create', 'namespace', namespace]);
    });

    it('OpenAPI v2 describes lists and their parameters', async () => {
      const document = await kubectl.run(['get', '--raw', '/openapi/v2']);
      for (const words of ['list of returned', 'List of services', 'Watch for changes to the described resources'])
        expect(document).toContain(words);
    });

    it('a strategic merge patch with a wrong type is rejected by the converter', async () => {
      expect(await input(pod('patched'), 'create')).toMatchObject({ code: 0 });
      expect(await tried('patch', 'pod', 'patched', '-p', '{"metadata":{"labels":"invalid"}}')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('cannot restore map from string'),
      });
      expect((await tried('patch', 'pod', 'patched', '-p', '{"metadata":{"labels":{"name":"patched"}}}')).stdout).toBe(
        'pod/patched patched (no change)\n',
      );
    });

    it('an AppArmor annotation sets the field of a new pod', async () => {
      const key = 'container.apparmor.security.beta.kubernetes.io/c';
      expect((await input(pod('annotated', { [key]: 'unconfined' }), 'create')).stderr).toContain(
        `Warning: metadata.annotations[${key}]: deprecated since v1.30; use the "appArmorProfile" field instead`,
      );
      const { stdout } = await tried('get', 'pod', 'annotated', '-o', 'jsonpath={.spec.containers[0].securityContext}');
      expect(stdout).toBe('{"appArmorProfile":{"type":"Unconfined"}}');
    });

    it('errors of a definition name the schema without its only version', async () => {
      const schema = {
        type: 'object',
        properties: { spec: { type: 'object', 'x-kubernetes-validations': [{ rule: 'self.none > 1', message: 'm' }] } },
      };
      const { stderr } = await input(
        {
          apiVersion: 'apiextensions.k8s.io/v1',
          kind: 'CustomResourceDefinition',
          metadata: { name: 'tries.suite.example.com' },
          spec: {
            group: 'suite.example.com',
            scope: 'Namespaced',
            names: { plural: 'tries', kind: 'Try' },
            versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } }],
          },
        },
        'create',
      );
      expect(stderr).toContain(
        'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.none \\u003e 1","Message":"m","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:5: undefined field \'none\'',
      );
    });
  });
});
