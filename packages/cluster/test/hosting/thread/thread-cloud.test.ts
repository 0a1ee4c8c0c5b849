import { describe, expect, it } from 'vitest';
import type { CloudProvider } from '@oarlock/spi/cloud';
import { flatCloud } from '@oarlock/cluster/hosting/thread/thread-cloud';

const { signal } = new AbortController();
const routes: CloudProvider['routes'] = {
  list: async () => [{ name: 'a', nodeName: 'b', destinationCIDR: '10.0.0.0/24' }],
  create: async () => {},
  remove: async (route, { aborted }) => {
    if (aborted) throw new Error(route.name);
  },
};

describe('the calls of a cloud provider in a thread', () => {
  it('have the names of their parts, and get the signal of the thread', async () => {
    const calls = flatCloud({ name: 'c', routes }, { routes: true }, signal);
    expect(Object.keys(calls)).toEqual(['routes.list', 'routes.create', 'routes.remove']);
    expect(await calls['routes.list']?.()).toEqual([{ name: 'a', nodeName: 'b', destinationCIDR: '10.0.0.0/24' }]);
    const aborted = flatCloud({ name: 'c', routes }, { routes: true }, AbortSignal.abort());
    await expect(aborted['routes.remove']?.({ name: 'route-1' })).rejects.toThrow(/^route-1$/);
  });

  it.each([
    ['does not declare a part', { name: 'c', routes }, {}],
    ['declares a part that the provider does not have', { name: 'c', routes }, { routes: true, nodes: true }],
  ])('are rejected if the plugin %s', (_, provider, declares) => {
    expect(() => flatCloud(provider, declares, signal)).toThrow(
      'the plugin declares other parts than its provider has: declares: { routes: true }',
    );
  });
});
