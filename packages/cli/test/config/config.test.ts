import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { createPlan } from '@oarlock/cluster/composition/create-plan';
import { defaultPlacements } from '@oarlock/cluster/cluster-file/sections';
import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { withResolvedDefaults } from '../../src/config/config.ts';

const clusters = fileURLToPath(new URL('../../../../clusters', import.meta.url));
const minimal = 'apiVersion: oarlock.dev/v1\nkind: Cluster\nspec:\n';
interface Printed {
  readonly spec: Readonly<Record<string, unknown>> & {
    readonly settings: Readonly<Record<string, object>>;
    readonly networking: object;
  };
}
const printed = async (text: string) =>
  withResolvedDefaults(await createPlan(parseClusterFile(text, join(clusters, 'mine.yaml')))) as Printed;

describe('oarlock config print', () => {
  it.each(readdirSync(clusters))('prints an equivalent file, and prints that file unchanged: %s', async (name) => {
    const once = stringify(await printed(readFileSync(join(clusters, name), 'utf8')), { aliasDuplicateObjects: false });
    expect(stringify(await printed(once), { aliasDuplicateObjects: false })).toBe(once);
  });

  it('adds the default lists of plugins that the file omits', async () => {
    const { spec } = await printed(`${minimal}  runtimes: [runtime-process]\n`);
    for (const [key, names] of Object.entries(defaultPlacements))
      expect((spec[key] as readonly { readonly use: string }[]).map(({ use }) => use)).toEqual(names);
    expect(spec['storage']).toEqual({ use: 'storage-embedded', config: expect.any(Object) });
    expect(spec).not.toHaveProperty('network', expect.anything());
  });

  it('adds defaults of plugins, roles and the network plugin, and nothing that depends on the machine', async () => {
    const { spec } = await printed(
      `${minimal}  runtimes: [runtime-process]\n  network: network-host\n  settings: { kubelet: { maxPods: 7 } }\n`,
    );
    expect(spec['runtimes']).toEqual([{ use: 'runtime-process', config: expect.objectContaining({ stopGraceSeconds: 2 }) }]);
    expect(spec.settings['kubelet']).toMatchObject({ maxPods: 7, port: 10_250 });
    expect(spec.settings['kubelet']).not.toHaveProperty('nodeName');
    expect(spec.networking).toMatchObject({ podCIDRs: ['127.128.0.0/10'], serviceCIDRs: ['127.96.0.0/16'] });
  });

  it('keeps what the file specifies', async () => {
    const { spec } = await printed(
      `${minimal}  roles: [apiserver]\n  network: network-host\n  admission: [{ use: admission-priority, name: first, failurePolicy: Ignore }]\n  authz: []\n`,
    );
    expect(spec).toMatchObject({
      roles: ['apiserver'],
      admission: [{ use: 'admission-priority', name: 'first', failurePolicy: 'Ignore' }],
      authz: [],
      network: { use: 'network-host' },
    });
  });
});
