import { join } from 'node:path';
import { clusterSchema } from '@oarlock/cluster/cluster-file/cluster-schema';
import { expect, it } from 'vitest';
import { loadRemotePlugins } from '../../src/dev/remote-plugins.ts';

const examples = join(import.meta.dirname, '..', '..', '..', '..', 'examples', 'plugins');
const example = (name: string) => join(examples, name, 'src', 'plugin.ts');
const fileOf = (spec: object) => {
  const parsed = clusterSchema.parse({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec });
  return { name: 'dev', spec: parsed.spec, locate: () => undefined };
};

it('runs plugins that the file names by path, and warns of others', async () => {
  const { plugins, warnings } = await loadRemotePlugins(
    fileOf({
      admission: ['admission-limit-ranger', { use: example('admission-required-labels'), config: { labels: ['a'] } }],
      scheduling: [example('scheduling-zone-spread')],
      authz: ['./authz.ts'],
    }),
  );
  expect(plugins.map(({ name }) => name)).toEqual(['admission-required-labels', 'scheduling-zone-spread']);
  expect(warnings).toEqual([
    './authz.ts does not run in an existing cluster, because it is an authz plugin: an API server calls it only with flags of its own; `oarlock plugins export --webhook ./authz.ts` writes them',
  ]);
});

it('rejects a file without a plugin to run, and plugins that cannot be loaded', async () => {
  await expect(loadRemotePlugins(fileOf({}))).rejects.toThrow('no plugin to run: name files or folders');
  await expect(loadRemotePlugins(fileOf({ controllers: ['./missing.ts'] }))).rejects.toThrow('./missing.ts not found');
});
