import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { configMaps } from '@oarlock/api/resources';
import { httpClient, type HttpClient } from '@oarlock/client/http/client';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import { clusterSchema } from '@oarlock/cluster/cluster-file/cluster-schema';
import { frontOf } from '@oarlock/cluster/hosting/front';
import { withDedicatedInformers } from '@oarlock/cluster/identity/dedicated-informers';
import { adminKubeconfig } from '@oarlock/cluster/process/process-state';
import { run, type RunningCluster } from '@oarlock/cluster/run';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Reloader } from '../../src/dev/reloader.ts';

const reloads = 20;
const streams = 6;

/** Source of a plugin whose decisions name its version in both phases. Half of them are delayed, so that some requests are always in flight. */
const source = (
  version: number,
  { declares = '{}', id = 'admission-versioned' } = {},
) => `import { Admission } from '@oarlock/spi/admission';
import { z } from 'zod';

const version: string = '${version}';
let asked = 0;
const later = () => new Promise<void>((resolve) => setImmediate(resolve));
export default Admission.plugin({
  id: '${id}',
  declares: ${declares},
  config: z.strictObject({}),
  create: () => ({
    matches: [{ resources: ['configmaps'], operations: ['CREATE'] }],
    mutate({ object }) {
      const labels = { ...object?.metadata?.labels, mutated: version };
      const changed = { ...object, metadata: { ...object?.metadata, labels } };
      return ++asked % 2 === 0 ? changed : later().then(() => changed);
    },
    validate: ({ object }) =>
      object?.metadata?.labels?.['mutated'] === version ? { allowed: true } : { allowed: false, message: 'two versions for one request' },
  }),
});
`;

let folder: string;
let running: RunningCluster | undefined;
let client: HttpClient;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oarlock-stream-'));
});
afterEach(async () => {
  client.close();
  await running?.stop();
  await rm(folder, { recursive: true });
});

it('replaces twenty versions of a plugin under constant load without losing a request or mixing two versions in one', async () => {
  const file = join(folder, 'versioned.ts');
  const save = async (version: number, head?: { readonly declares: string; readonly id?: string }) => {
    await writeFile(`${file}.new`, source(version, head));
    await rename(`${file}.new`, file); // editors save by renaming
  };
  await save(0);
  const { spec } = clusterSchema.parse({
    apiVersion: 'oarlock.dev/v1',
    kind: 'Cluster',
    metadata: { name: 'test' },
    spec: { roles: ['apiserver'], storage: 'storage-memory', admission: ['admission-namespace-lifecycle', file] },
  });
  running = await run({
    dataDir: join(folder, 'data'),
    port: 0,
    file: { name: 'test', spec, locate: () => undefined },
    // places the plugin as `oarlock dev` does
    mapPlugin(planned) {
      const front = planned.origin?.source === undefined ? undefined : frontOf(planned.plugin.provides);
      return front === undefined ? planned : { ...planned, plugin: withDedicatedInformers(planned.plugin), makeSwappable: front };
    },
  });
  client = httpClient((await loadKubeconfig(adminKubeconfig(join(folder, 'data')), { environment: {} })).options);

  let took: (() => void) | undefined;
  const rejections: string[] = [];
  const restarts: unknown[] = [];
  const reloader = new Reloader({
    host: running.composition.host,
    plugins: running.composition.plan.plugins,
    reloaded: () => took?.(),
    rejected: (_, message) => {
      rejections.push(message);
      took?.();
    },
    restartNeeded: (name, keys) => restarts.push([name, keys]),
  });
  expect(reloader.names).toEqual(['admission-versioned']);
  await reloader.warm();
  await reloader.configure('admission-versioned', { use: file, config: {}, placement: 'thread' });
  expect(restarts).toEqual([['admission-versioned', ['placement']]]);

  let [over, sent] = [false, 0];
  const versionOf = async (): Promise<number> => {
    const created = await client.create(configMaps, { metadata: { namespace: 'default', name: `m-${sent++}` } }, { dryRun: true });
    return Number(created.metadata?.labels?.['mutated']);
  };
  const stream = async (): Promise<readonly number[]> => {
    const versions: number[] = [];
    while (!over) versions.push(await versionOf()); // throws if a request is rejected or lost
    return versions;
  };
  const all = Promise.all(Array.from({ length: streams }, stream));
  for (let version = 1; version <= reloads; version++) {
    const reloaded = new Promise<void>((resolve) => {
      took = resolve;
    });
    await save(version);
    await Promise.race([reloaded, all]);
    // new requests use the new version
    expect(await versionOf()).toBe(version);
  }
  expect(reloader.latest.get('admission-versioned')?.changes).toMatchObject([
    { before: expect.stringContaining(`'${reloads - 1}'`), after: expect.stringContaining(`'${reloads}'`) },
  ]);
  over = true;
  const answers = await all;
  expect(rejections).toEqual([]);
  expect(restarts).toEqual([['admission-versioned', ['placement']]]);
  const declared = new Promise<void>((resolve) => {
    took = resolve;
  });
  await save(0, { declares: "{ reads: 'pods' }" });
  await declared;
  expect(restarts.slice(1)).toEqual([['admission-versioned', ['declares']]]);
  const renamed = new Promise<void>((resolve) => {
    took = resolve;
  });
  await save(0, { declares: "{ reads: 'pods' }", id: 'admission-renamed' });
  await renamed;
  expect(restarts.slice(2)).toEqual([['admission-versioned', ['id']]]);
  expect(reloader.reloadByName('admission-other')).toBeUndefined();
  expect(await reloader.reloadByName('admission-versioned')).toEqual({ ms: expect.any(Number), changes: [] });
  const failed = new Promise<void>((resolve) => {
    took = resolve;
  });
  await writeFile(file, 'export default\n  const;');
  await failed;
  expect(await reloader.reloadByName('admission-versioned')).toEqual({ error: expect.stringMatching(/versioned\.ts:2:3: /) });
  await rename(file, `${file}.gone`);
  expect(await reloader.reloadByName('admission-versioned')).toEqual({
    error: expect.stringMatching(/^plugin \S*versioned\.ts not found /),
  });
  for (const versions of answers) {
    expect(versions).toEqual(versions.toSorted((a, b) => a - b)); // no request used an older version than the one before
  }
  expect(answers.flat().length).toBeGreaterThan(reloads);
  await reloader.close();
});
