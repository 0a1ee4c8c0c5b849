import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseClusterFile } from '@oarlock/cluster/cluster-file';
import { plan } from '@oarlock/cluster/plan';
import { defaultPlacements } from '@oarlock/cluster/sections';
import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { filledIn } from '../src/config.ts';

const clusters = fileURLToPath(new URL('../../../clusters', import.meta.url));
const minimal = 'apiVersion: oarlock.dev/v1\nkind: Cluster\nspec:\n';
interface Printed {
  readonly spec: Readonly<Record<string, unknown>> & {
    readonly settings: Readonly<Record<string, object>>;
    readonly networking: object;
  };
}
const printed = async (text: string) => filledIn(await plan(parseClusterFile(text, join(clusters, 'mine.yaml')))) as Printed;

describe('what `config print` prints', { timeout: 300_000 }, () => {
  it.each(readdirSync(clusters))('means the same, and is printed the same again: %s', async (name) => {
    const once = stringify(await printed(readFileSync(join(clusters, name), 'utf8')), { aliasDuplicateObjects: false });
    expect(stringify(await printed(once), { aliasDuplicateObjects: false })).toBe(once);
  });

  it('has the lists of plugins that a file leaves out', async () => {
    const { spec } = await printed(`${minimal}  runtimes: [runtime-process]\n`);
    for (const [key, names] of Object.entries(defaultPlacements))
      expect((spec[key] as readonly { readonly use: string }[]).map(({ use }) => use)).toEqual(names);
    expect(spec['storage']).toEqual({ use: 'storage-embedded', config: expect.any(Object) });
    expect(spec).not.toHaveProperty('network', expect.anything());
  });

  it('has the defaults of plugins, of roles and of the network plugin, and nothing of the machine', async () => {
    const { spec } = await printed(
      `${minimal}  runtimes: [runtime-process]\n  network: network-host\n  settings: { kubelet: { maxPods: 7 } }\n`,
    );
    expect(spec['runtimes']).toEqual([{ use: 'runtime-process', config: expect.objectContaining({ stopGraceSeconds: 2 }) }]);
    expect(spec.settings['kubelet']).toMatchObject({ maxPods: 7, port: 10_250 });
    expect(spec.settings['kubelet']).not.toHaveProperty('nodeName');
    expect(spec.networking).toMatchObject({ podCIDRs: ['127.128.0.0/10'], serviceCIDRs: ['127.96.0.0/16'] });
  });

  it('leaves what a file says as it is', async () => {
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
