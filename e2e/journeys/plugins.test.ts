import { isDeepStrictEqual } from 'node:util';
import { createServer, type Server } from 'node:http';
import { request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { cp, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Api, type Answer } from '../harness/api.ts';
import { Machine } from '../harness/machine.ts';
import { oarlock, root, runOarlock } from '../harness/oarlock.ts';
import { buildPackage } from '../harness/plugin-package.ts';
import { Daemon, freePort } from '../harness/programs.ts';
import { untilValue } from '../harness/until.ts';

const example = (name: string) => join(root, 'examples', 'plugins', `admission-${name}`, 'src', 'plugin.ts');
const maps = '/api/v1/namespaces/default/configmaps';
let names = 0;
const map = (labels: Readonly<Record<string, string>> = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: `map-${++names}`, labels },
});
const labelsOf = ({ body }: Answer) =>
  (JSON.parse(body) as { readonly metadata: { readonly labels?: Record<string, string> } }).metadata.labels;
const messageOf = ({ body }: Answer) => (JSON.parse(body) as { readonly message?: string }).message ?? 'admitted';

/** Runs `oarlock dev` in its own directory. */
async function develop(machine: Machine, cwd: string, ...args: string[]): Promise<{ readonly daemon: Daemon; readonly api: Api }> {
  const daemon = new Daemon(oarlock.file, [...oarlock.args, 'dev', '--data-dir', join(cwd, 'data'), ...args], { cwd });
  machine.undo('oarlock dev', () => daemon.stop());
  await daemon.line(/ is ready at /);
  const api = await Api.of(join(cwd, 'data', 'admin.kubeconfig'));
  machine.undo('connections', () => api.close());
  return { daemon, api };
}

describe('a plugin under development', () => {
  const machine = Machine.use();
  const source = (mark: string) => `
import { Admission, allow } from '@oarlock/spi/admission';
import { z } from 'zod';
import { labelled } from './labelled.ts';

export default Admission.plugin({
  id: 'admission-mark',
  config: z.strictObject({ wait: z.number().default(0) }),
  create: ({ config }) => ({
    matches: [{ resources: ['configmaps'], operations: ['CREATE'] }],
    async mutate({ object }) {
      if (object === undefined) return allow;
      await new Promise((done) => setTimeout(done, config.wait));
      return labelled(object, { before: ${JSON.stringify(mark)} });
    },
    validate: ({ object }) => (object?.metadata?.labels?.before === ${JSON.stringify(mark)} ? allow : { allowed: false, message: 'two versions' }),
  }),
});
`;
  const beside = (label: string) => `
import type { KubeObject } from '@oarlock/api/object';
export const labelled = (object: KubeObject, more: Record<string, string>): KubeObject => ({
  ...object,
  metadata: { ...object.metadata, labels: { ...object.metadata?.labels, ...more, ${label}: '' } },
});
`;

  it('is reloaded at every save, and no request is lost or handled by two versions', async () => {
    const folder = machine.path('plugin');
    await mkdir(folder, { recursive: true });
    const save = async (name: string, text: string) => {
      // as most editors save: a new file replaces the old one
      await writeFile(join(folder, `.${name}.new`), text);
      await rename(join(folder, `.${name}.new`), join(folder, name));
    };
    await save('plugin.ts', source('one'));
    await save('labelled.ts', beside('first'));
    const { daemon, api } = await develop(machine, folder, './plugin.ts');
    const create = () => api.call('POST', maps, { body: map() });
    expect(labelsOf(await create())).toEqual({ before: 'one', first: '' });
    await daemon.line(/\+ metadata\.labels\b.*"one"/);

    let busy = true;
    const answers: Answer[] = [];
    const load = Array.from({ length: 4 }, async () => {
      while (busy) answers.push(await create());
    });
    for (const mark of ['two', 'three', 'four']) {
      await save('plugin.ts', source(mark));
      await untilValue(
        `version ${mark}`,
        async () => labelsOf(await create())?.['before'],
        (seen) => seen === mark,
      );
    }
    await save('labelled.ts', beside('second'));
    await untilValue(
      'the module that it imports',
      async () => labelsOf(await create()),
      (seen) => seen?.['second'] === '',
    );
    busy = false;
    await Promise.all(load);
    expect(answers.filter(({ status }) => status !== 201).map(messageOf)).toEqual([]);

    await save('labelled.ts', `${beside('third')}\nexport const = 3;`);
    await daemon.line(/labelled\.ts:8:14: Expected identifier but found "="/);
    const reload = await api.call('POST', '/oarlock/v1/reloads', { body: { name: 'admission-mark' } });
    expect(JSON.parse(reload.body)).toEqual({ error: expect.stringContaining('labelled.ts:8:14: Expected identifier') });
    expect(labelsOf(await create())).toEqual({ before: 'four', second: '' });
    await save('plugin.ts', source('five').replace('wait: z.number().default(0)', 'wait: z.number()'));
    await save('labelled.ts', beside('third'));
    await daemon.line(/admission-mark: missing: .*number/);
    expect(labelsOf(await create())).toEqual({ before: 'four', second: '' });
    await save('plugin.ts', source('six'));
    await untilValue(
      'corrected',
      async () => labelsOf(await create()),
      (seen) => seen?.['before'] === 'six' && seen['third'] === '',
    );
  });
});

describe('messages for the author of a plugin', () => {
  const machine = Machine.use();
  const failing = `import { configMaps } from '@oarlock/api/resources';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

interface Removed { readonly only: 'types' }

export default Controllers.plugin({
  id: 'controller-failing',
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const all = informers.forResource(configMaps);
    return {
      name: 'failing',
      watches: [watch(all, ({ metadata }) => (metadata?.labels?.['fail'] === undefined ? [] : [metadata.name ?? '']))],
      async reconcile(key, { log }) {
        log.info({ key, token: 'abc', monkey: 'banana' }, 'reconciles');
        if (key === 'throw') throw new Error('thrown');
        if (key === 'reject') void rejectLater();
        if (key === 'timer') setTimeout(() => { throw new Error('of a timer'); });
      },
    };
  },
});

async function rejectLater(): Promise<void> {
  await Promise.resolve();
  throw new Error('rejected');
}
`;
  const lineOf = (text: string) => failing.split('\n').findIndex((line) => line.includes(text)) + 1;
  const matching = (resource: string, operation: string) => `import { Admission, allow } from '@oarlock/spi/admission';
import { z } from 'zod';
export default Admission.plugin({
  id: 'admission-matching',
  config: z.strictObject({}),
  create: () => ({ matches: [{ resources: ['${resource}'], operations: ['${operation}' as never] }], validate: () => allow }),
});
`;

  it('name the plugin and the line of its source, and report which rules match nothing and which changes need a restart', async () => {
    const folder = machine.path('messages');
    const installed = join(folder, 'node_modules', 'controller-installed');
    await mkdir(join(installed, 'src'), { recursive: true });
    await writeFile(join(folder, 'failing.ts'), failing);
    await writeFile(join(folder, 'matching.ts'), matching('deployments', 'CREAT'));
    // as an author builds and publishes it
    await writeFile(join(installed, 'src', 'plugin.ts'), failing.replaceAll('failing', 'installed'));
    await buildPackage(installed);
    const write = (placement: object) =>
      writeFile(
        join(folder, 'cluster.yaml'),
        JSON.stringify({
          apiVersion: 'oarlock.dev/v1',
          kind: 'Cluster',
          spec: {
            roles: ['apiserver', 'controllers'],
            storage: 'storage-memory',
            controllers: [{ use: './failing.ts', ...placement }, { use: 'controller-installed' }],
          },
        }),
      );
    await write({});
    const { daemon, api } = await develop(machine, folder, '-f', 'cluster.yaml', './matching.ts');
    expect(daemon.output).toContain('the API server does not serve "deployments": did you mean deployments.apps?');
    expect(daemon.output).toContain('unknown operation "CREAT": did you mean CREATE?');

    const own = (text: string) =>
      new RegExp(`^controller-failing .*${text}\\n +at [^\\n]*failing\\.ts:${lineOf(`new Error('${text}')`)}:`, 'm');
    for (const [name, text] of [
      ['throw', 'thrown'],
      ['reject', 'rejected'],
      ['timer', 'of a timer'],
    ] as const) {
      const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, labels: { fail: '' } } };
      expect(await api.call('POST', maps, { body })).toMatchObject({ status: 201 });
      await untilValue(
        text,
        async () => daemon.output,
        (output) => own(text).test(output),
      );
    }
    expect(daemon.output).toContain('controller-failing reconciles {"key":"throw","token":"<redacted>","monkey":"banana"}');
    const log = await untilValue(
      'the log has the errors of the installed package',
      () => readFile(join(folder, 'data', 'oarlock.log'), 'utf8'),
      (text) => ['thrown', 'rejected', 'of a timer'].every((each) => text.includes(`Error: ${each}\\n    at `)),
    );
    for (const each of ['thrown', 'rejected', 'of a timer'])
      expect(log).toMatch(
        new RegExp(`"(?:plugin|controller)":"(?:controller-)?installed".*Error: ${each}[^"]*controller-installed/src/plugin\\.ts:`),
      );
    expect(log).toMatch(/"controller":"installed","key":"throw","token":"<redacted>","monkey":"banana"/);

    await writeFile(join(folder, 'matching.ts'), matching('statefulset.apps', 'CREATE'));
    await daemon.line(/Warning: admission-matching: .*"statefulset\.apps": did you mean statefulsets\.apps\?/);
    await write({ deadlineMs: 5_000, placement: 'thread' });
    await daemon.line(/controller-failing: restart oarlock dev to apply the changed (?:deadlineMs, placement|placement, deadlineMs)/);
    expect(await daemon.stop()).toBe(0);
  });
});

describe('an example', () => {
  const machine = Machine.use();
  let prices: Server;
  beforeAll(async () => {
    prices = createServer((_, response) => response.end('{"monthly":10}'));
    await new Promise<void>((resolve) => {
      prices.listen(0, '127.0.0.1', resolve);
    });
  });
  afterAll(() => prices.close());

  const secret = (labels: object) => ({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'web', labels } });
  const pod = (image: string, annotations = {}) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'web', annotations },
    spec: { containers: [{ name: 'web', image }], automountServiceAccountToken: false },
  });
  const deployment = (replicas: number, labels = {}) => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web', labels },
    spec: {
      replicas,
      selector: { matchLabels: { app: 'web' } },
      template: { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'web', image: 'nginx:1' }] } },
    },
  });
  const pods = '/api/v1/namespaces/default/pods?dryRun=All';
  const deployments = '/apis/apps/v1/namespaces/default/deployments?dryRun=All';
  const asked: readonly {
    readonly plugin: string;
    readonly config: () => object;
    readonly path: string;
    readonly objects: readonly object[];
  }[] = [
    {
      plugin: 'required-labels',
      config: () => ({ labels: ['owner'], resources: ['secrets'] }),
      path: '/api/v1/namespaces/default/secrets?dryRun=All',
      objects: [secret({}), secret({ owner: 'ada' })],
    },
    {
      plugin: 'image-registries',
      config: () => ({ allowed: ['docker.io'] }),
      path: pods,
      objects: [pod('evil.example.com/a:1'), pod('nginx:1'), pod('nginx')],
    },
    {
      plugin: 'sidecar',
      config: () => ({ image: 'proxy:1' }),
      path: pods,
      objects: [pod('nginx:1'), pod('nginx:1', { 'sidecar.example.com/inject': 'true' })],
    },
    {
      plugin: 'cost-limits',
      config: () => ({ url: `http://127.0.0.1:${(prices.address() as AddressInfo).port}`, budgets: { blue: 20 } }),
      path: deployments,
      objects: [deployment(3, { team: 'blue' }), deployment(2, { team: 'blue' }), deployment(1)],
    },
  ];

  /** The result that a client receives, without fields that differ between requests and without the prefix of a webhook rejection. */
  const seen = ({ status, headers, body }: Answer) => {
    const {
      metadata,
      spec,
      message = '',
    } = JSON.parse(body) as { readonly metadata?: { readonly labels?: object }; readonly spec?: object; readonly message?: string };
    const rejection = /(?:is forbidden: |denied the request: )(.*)$/.exec(message)?.[1];
    const init = (spec as { readonly initContainers?: unknown } | undefined)?.initContainers;
    return { status, warning: headers['warning'], refusal: rejection, labels: metadata?.labels, init };
  };
  const answersOf = async (api: Api): Promise<readonly unknown[]> => {
    const answers: unknown[] = [];
    for (const { path, objects } of asked)
      for (const body of objects) {
        // the service account of the namespace is created a moment after it
        const answer = await untilValue(
          'an answer',
          () => api.call('POST', path, { body }),
          (each) => !each.body.includes('serviceaccount'),
        );
        answers.push(seen(answer));
      }
    return answers;
  };

  it('has the same results in process, in a worker thread, and exported as a webhook', async () => {
    const started = async (name: string, admission: readonly object[]) => {
      const dir = machine.path(name);
      await mkdir(dir, { recursive: true });
      const spec = { roles: ['apiserver', 'controllers'], storage: 'storage-memory', admission };
      await writeFile(join(dir, 'cluster.yaml'), JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec }));
      return (await develop(machine, dir, '-f', 'cluster.yaml')).api;
    };
    const before = ['admission-namespace-lifecycle', 'admission-service-account', 'admission-webhooks'].map((use) => ({ use }));
    const plugins = (more: object) => asked.map(({ plugin, config }) => ({ use: example(plugin), config: config(), ...more }));
    const inProcess = await answersOf(await started('in-process', [...before, ...plugins({})]));
    expect(inProcess).toMatchObject([
      { status: 403, refusal: 'required labels are missing: owner' },
      { status: 201, labels: { owner: 'ada' } },
      { status: 403, refusal: expect.stringMatching(/is from evil\.example\.com; allowed are docker\.io$/) },
      { status: 201 },
      { status: 201, warning: expect.stringContaining('give it a version') },
      { status: 201 },
      { status: 201, init: [{ name: 'proxy', image: 'proxy:1', restartPolicy: 'Always' }] },
      { status: 403, refusal: 'it would cost 30 a month, and blue may spend 20' },
      { status: 201 },
      { status: 403, refusal: 'the label "team" has to name a team with a budget' },
    ]);
    expect(await answersOf(await started('threads', [...before, ...plugins({ placement: 'thread' })]))).toEqual(inProcess);

    const api = await started('webhooks', before);
    await Promise.all(asked.map(({ plugin, config }) => exported(api, plugin, config())));
    // the API server calls each webhook a moment after its configuration was written
    await untilValue(
      'the same results from the webhooks',
      () => answersOf(api),
      (answers) => isDeepStrictEqual(answers, inProcess),
    );
  });

  /** Exports a plugin, runs the contents of its image, and registers it at an address of this machine. */
  async function exported(api: Api, plugin: string, config: object): Promise<void> {
    const dir = machine.path(plugin);
    await mkdir(dir, { recursive: true });
    await writeFile(join(dir, 'config.yaml'), JSON.stringify(config));
    const out = join(dir, 'out');
    await exportAndServe(machine, example(plugin), out, ['--config', join(dir, 'config.yaml')]);
    for (const file of (await readdir(join(out, 'manifests'))).sort()) {
      for (const document of parseAllDocuments(await readFile(join(out, 'manifests', file), 'utf8'))) {
        const { apiVersion, kind, metadata } = document.toJS() as {
          readonly apiVersion: string;
          readonly kind: string;
          readonly metadata: { readonly namespace?: string };
        };
        const base = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`;
        const path = `${base}${metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace}`}/${kind.toLowerCase()}s`;
        const { status, body } = await api.call('POST', path, { body: document.toJS() });
        if (!(status === 409 && kind === 'Namespace')) expect([status, body.slice(0, 500)]).toEqual([201, expect.anything()]);
      }
    }
  }
});

describe('an exported authenticator and an exported authorizer', () => {
  const machine = Machine.use();
  const authn = `
import { abstained, Authn, authenticated } from '@oarlock/spi/authn';
import { z } from 'zod';
export default Authn.plugin({
  id: 'authn-guests',
  config: z.strictObject({ token: z.string() }),
  create: ({ config }) => ({ authenticate: ({ bearerToken }) => (bearerToken === config.token ? authenticated({ name: 'guest', groups: ['guests'] }) : abstained) }),
});
`;
  const authz = `
import { Authz, noOpinion } from '@oarlock/spi/authz';
import { z } from 'zod';
export default Authz.plugin({
  id: 'authz-guests',
  config: z.strictObject({}),
  create: () => ({
    authorize: (asked) =>
      asked.identity.groups.includes('guests') && asked.kind === 'resource' && asked.resource === 'namespaces' && asked.verb === 'list'
        ? { decision: 'allow', reason: 'guests look around' }
        : noOpinion,
  }),
});
`;

  it('decide requests of a cluster through the exported kubeconfig', async () => {
    const dir = machine.path('guests');
    await mkdir(dir, { recursive: true });
    await writeFile(join(dir, 'config.yaml'), 'token: let-me-in');
    const kubeconfigs: string[] = [];
    for (const [slot, text] of Object.entries({ authn, authz })) {
      await writeFile(join(dir, `${slot}.ts`), text);
      const out = join(dir, slot);
      const config = slot === 'authn' ? ['--config', join(dir, 'config.yaml')] : [];
      await exportAndServe(machine, join(dir, `${slot}.ts`), out, config);
      kubeconfigs.push(join(out, 'webhook.kubeconfig'));
    }
    const [authnFile = '', authzFile = ''] = kubeconfigs;
    const spec = {
      roles: ['apiserver'],
      storage: 'storage-memory',
      authn: ['authn-client-certificate', { use: 'authn-webhook', config: { kubeconfigFile: authnFile } }],
      authz: ['authz-masters', { use: 'authz-webhook', config: { kubeconfigFile: authzFile } }],
    };
    await writeFile(join(dir, 'cluster.yaml'), JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec }));
    const { api } = await develop(machine, dir, '-f', 'cluster.yaml');
    const asGuest = (token: string, path: string) =>
      new Promise<number>((resolve, reject) => {
        const headers = { authorization: `Bearer ${token}` };
        request(new URL(path, api.server), { ca: api.tls.ca, headers, agent: false }, (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        })
          .once('error', reject)
          .end();
      });
    expect(await asGuest('let-me-in', '/api/v1/namespaces')).toBe(200);
    expect(await asGuest('let-me-in', '/api/v1/secrets')).toBe(403);
    expect(await asGuest('somebody-else', '/api/v1/namespaces')).toBe(401);
  });
});

/** Copies the contents of the image into a directory that has no access to Oarlock's packages. */
async function exportAndServe(machine: Machine, plugin: string, out: string, more: readonly string[]): Promise<void> {
  const port = await freePort();
  const done = await runOarlock(['plugins', 'export', '--webhook', plugin, '-o', out, '--url', `https://127.0.0.1:${port}`, ...more]);
  expect(done.stderr + done.stdout).toContain('docker build');
  const image = `${out}-image`;
  await cp(join(out, 'image'), image, { recursive: true });
  const args = ['--port', String(port), '--address', '127.0.0.1', '--config', join(out, 'config.json'), '--tls', join(out, 'tls')];
  const daemon = new Daemon(process.execPath, [join(image, 'server.cjs'), ...args], { cwd: image });
  machine.undo(plugin, () => daemon.stop());
  await daemon.line(/"ready"/);
}
