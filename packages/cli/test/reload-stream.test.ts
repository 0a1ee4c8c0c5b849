import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { configMaps } from '@oarlock/api/resources';
import { httpClient, type HttpClient } from '@oarlock/client/http-client';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import { clusterSchema } from '@oarlock/cluster/cluster-schema';
import { frontOf } from '@oarlock/cluster/hosting/fronts';
import { withOwnInformers } from '@oarlock/cluster/hosting/own-informers';
import { adminKubeconfig } from '@oarlock/cluster/process-state';
import { run, type Running } from '@oarlock/cluster/run';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Reloader } from '../src/dev/reloader.ts';

vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 });

const reloads = 20;
const streams = 6;

/** Half of its answers come later, so that some are always under way. Both stages say which version they are. */
const source = (version: number) => `import { Admission } from '@oarlock/spi/admission';
import { z } from 'zod';

const version: string = '${version}';
let asked = 0;
const later = () => new Promise<void>((resolve) => setImmediate(resolve));
export default Admission.plugin({
  id: 'admission-versioned',
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
let running: Running | undefined;
let client: HttpClient;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oarlock-stream-'));
});
afterEach(async () => {
  client.close();
  await running?.stop();
  await rm(folder, { recursive: true });
});

it('twenty versions of a plugin take the place of each other under a constant stream, and no request is lost or meets two of them', async () => {
  const file = join(folder, 'versioned.ts');
  const save = async (version: number) => {
    await writeFile(`${file}.new`, source(version));
    await rename(`${file}.new`, file); // as editors do
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
    // as `oarlock dev` places what is being written
    arrange(planned) {
      const front = planned.from?.source === undefined ? undefined : frontOf(planned.plugin.provides);
      return front === undefined ? planned : { ...planned, plugin: withOwnInformers(planned.plugin), front };
    },
  });
  client = httpClient((await loadKubeconfig(adminKubeconfig(join(folder, 'data')), { environment: {} })).options);

  let took: (() => void) | undefined;
  const refused: string[] = [];
  const reloader = new Reloader({
    host: running.composition.host,
    plugins: running.composition.plan.plugins,
    reloaded: () => took?.(),
    refused: (_, message) => {
      refused.push(message);
      took?.();
    },
  });
  expect(reloader.names).toEqual(['admission-versioned']);
  await reloader.warm();

  let [over, sent] = [false, 0];
  const versionOf = async (): Promise<number> => {
    const made = await client.create(configMaps, { metadata: { namespace: 'default', name: `m-${sent++}` } }, { dryRun: true });
    return Number(made.metadata?.labels?.['mutated']);
  };
  const stream = async (): Promise<readonly number[]> => {
    const versions: number[] = [];
    while (!over) versions.push(await versionOf()); // a request that is refused or lost throws
    return versions;
  };
  const all = Promise.all(Array.from({ length: streams }, stream));
  for (let version = 1; version <= reloads; version++) {
    const taken = new Promise<void>((resolve) => {
      took = resolve;
    });
    await save(version);
    await Promise.race([taken, all]);
    // whoever asks from now on meets it
    expect(await versionOf()).toBe(version);
  }
  over = true;
  const answers = await all;
  expect(refused).toEqual([]);
  for (const versions of answers) {
    expect(versions).toEqual(versions.toSorted((a, b) => a - b)); // none came back
  }
  expect(answers.flat().length).toBeGreaterThan(reloads);
  await reloader.close();
});
