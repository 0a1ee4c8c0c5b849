import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Paths } from '@oarlock/spi/paths';
import { Process, type PlacedPlugin } from '@oarlock/spi/process';
import { expect, it } from 'vitest';
import { compositionPath } from '../../src/paths/composition-path.ts';

it('returns the plugins of the process', async () => {
  const plugin: PlacedPlugin = { name: 'a', id: 'authz-rbac', slot: 'authz/v1', needs: [], config: {} };
  const host = new PluginHost()
    .provide(Process, { registries: () => [], roles: () => [], composition: () => [plugin] })
    .add({ plugin: compositionPath });
  const [path] = host.get(Paths);
  expect([path?.path, path?.methods]).toEqual(['/oarlock/v1/composition', ['GET']]);
  const answer = await path?.handle({ method: 'GET', path: '', query: {}, body: undefined, identity: { name: 'x', groups: [] } });
  expect(answer).toEqual({ code: 200, body: { plugins: [plugin] } });
});
