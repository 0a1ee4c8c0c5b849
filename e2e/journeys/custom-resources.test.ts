import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import type { Item } from '../harness/api.ts';
import { kubectlBinaries, newestKubectl, type Kubectl } from '../harness/kubectl.ts';
import { Machine } from '../harness/machine.ts';
import { untilValue } from '../harness/until.ts';

const newest = newestKubectl();
const binaries = kubectlBinaries().length > 0 ? kubectlBinaries() : newest ? [newest] : [];

const conventions = 'https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md';

/** Checks the descriptions of the members that every object has, in each output format of this kubectl. */
async function explainsStandardMembers(explain: (...args: string[]) => Promise<string>): Promise<void> {
  const metadata = `Standard object's metadata. More info: ${conventions}#metadata`;
  const outputs = [['crontabs'], ['crontabs', '--recursive'], ['crontabs.metadata'], ['crontabs.kind']];
  for (const args of outputs) {
    const wanted = args[0] === 'crontabs.kind' ? 'Kind is a string value representing the REST resource' : metadata;
    // kubectl breaks lines; version 2 of OpenAPI is an output format of kubectl 1.27 and later, with the old layout
    for (const format of [[], ['--output=plaintext-openapiv2']]) {
      const output = await explain(...args, ...format).catch((error: unknown) => {
        if (format.length > 0 && /unknown flag: --output/.test(String(error))) return undefined;
        throw error;
      });
      const isRecursive = args.includes('--recursive');
      if (output !== undefined && !isRecursive) expect(output.replaceAll(/\s+/g, ' '), [...args, ...format].join(' ')).toContain(wanted);
      if (output !== undefined && isRecursive) expect(output).toMatch(/managedFields[^]*spec[^]*cronSpec/);
    }
  }
}

const text = { type: 'string' };
const definition = (group: string) => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `crontabs.${group}` },
  spec: {
    group,
    scope: 'Namespaced',
    names: { plural: 'crontabs', kind: 'CronTab', shortNames: ['ct'] },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            description: 'Runs something at times.',
            properties: {
              spec: {
                type: 'object',
                description: 'What to run.',
                required: ['cronSpec'],
                properties: {
                  cronSpec: { ...text, pattern: '^(\\d+|\\*)(/\\d+)?(\\s+(\\d+|\\*)(/\\d+)?){4}$', description: 'When to run it.' },
                  image: { ...text, default: 'busybox' },
                  replicas: { type: 'integer', minimum: 1, maximum: 10 },
                  port: { 'x-kubernetes-int-or-string': true },
                  env: { type: 'array', items: { type: 'object', properties: { name: text, value: text } } },
                  extra: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
                },
                'x-kubernetes-validations': [{ rule: "self.image != 'forbidden'", message: 'not that image' }],
              },
              status: { type: 'object', properties: { replicas: { type: 'integer' } } },
            },
          },
        },
        subresources: { status: {}, scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' } },
        selectableFields: [{ jsonPath: '.spec.image' }],
        additionalPrinterColumns: [
          { name: 'Spec', type: 'string', jsonPath: '.spec.cronSpec' },
          { name: 'Replicas', type: 'integer', jsonPath: '.spec.replicas' },
        ],
      },
    ],
  },
});
interface CronTab extends Item {
  readonly spec?: Readonly<Record<string, unknown>>;
}

describe('custom resources', () => {
  const machine = Machine.use();
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await machine.cluster({
      spec: { ...composition({ storage: 'memory', runtime: 'simulated', network: 'host' }), roles: ['apiserver', 'controllers'] },
    });
  });

  it('kubectl is installed', () => {
    expect(binaries.length).toBeGreaterThan(0);
  });

  describe.each(binaries.filter((_, i) => i === 0 || i === binaries.length - 1))('kubectl $version', (binary) => {
    const namespace = `custom-${binary.version.replace('.', '-')}`;
    const group = `v${binary.version.replace('.', '-')}.example.com`;
    const cronTab = (spec: object) => ({ apiVersion: `${group}/v1`, kind: 'CronTab', metadata: { name: 'my' }, spec });
    let kubectl: Kubectl;
    const k = (...args: string[]) => kubectl.run(['-n', namespace, ...args]);
    const send = (object: object, ...args: string[]) =>
      kubectl.try(['-n', namespace, ...args, '-f', '-'], { input: JSON.stringify(object) });
    beforeAll(async () => {
      kubectl = cluster.kubectl.with(binary);
      await kubectl.run(['create', 'namespace', namespace]);
    });
    afterAll(() => kubectl.try(['delete', 'namespace', namespace, '--wait=false']));

    it('are defined, explained, validated, printed, scaled, patched, selected and removed', async () => {
      expect((await send(definition(group), 'create')).code).toBe(0);
      await k('wait', '--for', 'condition=established', '--timeout=180s', `crd/crontabs.${group}`);
      // the OpenAPI documents include the kind shortly after it is established
      const explains = (what: string, wanted: RegExp) =>
        untilValue(
          `${what} is explained`,
          () => k('explain', what, `--api-version=${group}/v1`),
          (output) => wanted.test(output),
        );
      await explains('crontabs', /Runs something at times\.[^]*apiVersion[^]*spec/);
      await explains('crontabs.spec', /cronSpec[^]*When to run it\.[^]*replicas/);
      await explainsStandardMembers((...args) => k('explain', ...args, `--api-version=${group}/v1`));
      const unknown = await send(cronTab({ cronSpec: '* * * * *', unknownField: 1 }), 'create');
      expect(unknown.stderr).toContain('unknown field "spec.unknownField"');
      const wrong = await send(cronTab({ cronSpec: 'daily', replicas: 30 }), 'create');
      expect(wrong.stderr).toContain("spec.cronSpec in body should match '");
      expect(wrong.stderr).toContain('spec.replicas in body should be less than or equal to 10');
      const ruled = await send(cronTab({ cronSpec: '* * * * *', image: 'forbidden' }), 'create');
      expect(ruled.stderr).toContain('spec: Invalid value: not that image');
      const created = await send(cronTab({ cronSpec: '* * * * */5', replicas: 3, port: 'http', extra: { any: [1] } }), 'apply');
      expect(created.stdout).toBe(`crontab.${group}/my created\n`);
      expect((await k('get', `crontabs.${group}`)).trimEnd()).toMatch(/^NAME +SPEC +REPLICAS\nmy +\* \* \* \* \*\/5 +3$/);
      await k('scale', `crontabs.${group}/my`, '--replicas=5');
      await k('patch', `crontabs.${group}`, 'my', '--type=merge', '-p', '{"spec":{"image":"alpine"}}');
      await k('patch', `crontabs.${group}`, 'my', '--type=json', '-p', '[{"op":"add","path":"/spec/env","value":[{"name":"A"}]}]');
      const { spec } = await kubectl.json<CronTab>(['-n', namespace, 'get', `crontabs.${group}`, 'my']);
      expect(spec).toEqual({
        cronSpec: '* * * * */5',
        replicas: 5,
        port: 'http',
        extra: { any: [1] },
        image: 'alpine',
        env: [{ name: 'A' }],
      });
      expect(await k('get', `crontabs.${group}`, '--field-selector', 'spec.image=alpine', '-o', 'name')).toBe(`crontab.${group}/my\n`);
      expect((await send(cronTab({ cronSpec: '* * * * */5', replicas: 3 }), 'diff')).code).toBe(1);
      expect(await k('api-resources', `--api-group=${group}`)).toMatch(/crontabs +ct +\S+\/v1 +true +CronTab/);
    });

    it('own objects, and are deleted with their owners and their namespace', async () => {
      const owner = await kubectl.json<Item>(['-n', namespace, 'get', `crontabs.${group}`, 'my']);
      const ownerReferences = [
        { apiVersion: `${group}/v1`, kind: 'CronTab', name: 'my', uid: owner.metadata.uid, blockOwnerDeletion: true },
      ];
      await send({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'owned', ownerReferences } }, 'create');
      await k('delete', `crontabs.${group}`, 'my', '--cascade=foreground', '--timeout=180s');
      // the owner may be gone before the garbage collector has seen a dependent that was created a moment ago
      await untilValue(
        'the dependent is deleted',
        () => kubectl.try(['-n', namespace, 'get', 'configmap', 'owned']),
        ({ stderr }) => stderr.includes('NotFound'),
      );
      expect((await send(cronTab({ cronSpec: '* * * * *' }), 'create')).code).toBe(0);
      await kubectl.run(['delete', 'namespace', namespace, '--timeout=180s']);
      const left = await kubectl.try(['get', `crontabs.${group}`, '-A', '-o', 'name']);
      expect([left.code, left.stdout]).toEqual([0, '']);
      await kubectl.run(['delete', 'crd', `crontabs.${group}`, '--timeout=180s']);
      await untilValue(
        'the kind is no longer served',
        async () => (await kubectl.try(['get', `crontabs.${group}`])).code,
        (code) => code !== 0,
      );
    });
  });
});
