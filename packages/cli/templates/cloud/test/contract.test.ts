import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Cloud } from '@oarlock/spi/cloud';
import { cloudContract } from '@oarlock/spi/cloud/contract';
import { expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const create = () => new PluginHost().add({ plugin, config: { domain: 'apps.example.com' } }).get(Cloud);

// a plugin with `nodes` or `routes` lists the nodes of its cloud in `known`
cloudContract('__ID__', async () => ({ cloud: create(), known: [], dispose: async () => {} }));

it('returns a host name derived from the Service', async () => {
  const web = { apiVersion: 'v1', kind: 'Service', metadata: { namespace: 'shop', name: 'web' } };
  expect(await create().loadBalancers?.ensure(web, [], new AbortController().signal)).toEqual({
    ingress: [{ hostname: 'web.shop.apps.example.com' }],
  });
});
