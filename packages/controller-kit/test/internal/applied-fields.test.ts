import type { KubeObject } from '@oarlock/api/object';
import { deployments, services } from '@oarlock/api/resources';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { isApplied } from '../../src/internal/applied-fields.ts';

const target = { fieldManager: 'kit', subresource: '' };
const name = { namespace: 'default', name: 'web' };
const deployment = (container: object, labels: Record<string, string> = {}): KubeObject =>
  ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { ...name, labels },
    spec: { template: { spec: { containers: [{ name: 'web', ...container }] } } },
  }) as KubeObject;

/** Returns the object after the manager `kit` has applied a configuration. */
async function applied(
  configuration: KubeObject,
  { defaults = true, change }: { readonly defaults?: boolean; change?(api: MemoryApi): Promise<unknown> } = {},
): Promise<KubeObject> {
  const api = memoryApi({ clock: new FakeClock(), defaults });
  const resource = configuration.kind === 'Service' ? services : deployments;
  await api.client().patch(resource as typeof deployments, name, 'apply', configuration, { fieldManager: 'kit', force: true });
  await change?.(api);
  return api.client().get(resource as typeof deployments, name);
}

describe('isApplied', () => {
  const web = deployment({ image: 'nginx', ports: [{ containerPort: 80 }] }, { app: 'web' });

  it.each([true, false])('is true for the applied configuration, whatever the server sets in addition: defaults %s', async (defaults) => {
    expect(isApplied(web, await applied(web, { defaults }), target)).toBe(true);
    const ports = [{ containerPort: 80 }, { containerPort: 80, protocol: 'UDP' }];
    for (const order of [ports, ports.toReversed()]) {
      const both = deployment({ image: 'nginx', ports: order });
      expect(isApplied(both, await applied(both, { defaults }), target)).toBe(true);
    }
  });

  it.each<[string, KubeObject]>([
    ['another value', deployment({ image: 'nginx:2', ports: [{ containerPort: 80 }] }, { app: 'web' })],
    ['a field more', deployment({ image: 'nginx', ports: [{ containerPort: 80 }], tty: true }, { app: 'web' })],
    ['a field less', deployment({ ports: [{ containerPort: 80 }] }, { app: 'web' })],
    ['a label less', deployment({ image: 'nginx', ports: [{ containerPort: 80 }] })],
    ['another item', deployment({ image: 'nginx', ports: [{ containerPort: 81 }] }, { app: 'web' })],
    ['an item more', deployment({ image: 'nginx', ports: [{ containerPort: 80 }, { containerPort: 81 }] }, { app: 'web' })],
    ['an item less', deployment({ image: 'nginx' }, { app: 'web' })],
    ['another version', { ...web, apiVersion: 'apps/v1beta1' }],
  ])('is false for %s', async (_, configuration) => {
    expect(isApplied(configuration, await applied(web), target)).toBe(false);
  });

  it('is false for another manager or subresource, and after another client has changed a value', async () => {
    const stored = await applied(web);
    expect(isApplied(web, stored, { ...target, fieldManager: 'other' })).toBe(false);
    expect(isApplied(web, stored, { ...target, subresource: 'status' })).toBe(false);
    const changed = await applied(web, {
      change: (api) => api.client().patch(deployments, name, 'merge', { metadata: { labels: { app: 'x' } } }),
    });
    expect(isApplied(web, changed, target)).toBe(false);
  });

  it('compares atomic values and sets exactly', async () => {
    const service = (selector: Record<string, string>, finalizers: readonly string[]): KubeObject =>
      ({
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { ...name, finalizers },
        spec: { selector, ports: [{ port: 80 }, { port: 80, protocol: 'UDP' }] },
      }) as KubeObject;
    const stored = await applied(service({ a: '1', b: '2' }, ['x.com/a', 'x.com/b']));
    expect(isApplied(service({ a: '1', b: '2' }, ['x.com/b', 'x.com/a']), stored, target)).toBe(true);
    expect(isApplied(service({ a: '1' }, ['x.com/a', 'x.com/b']), stored, target)).toBe(false);
    expect(isApplied(service({ a: '1', b: '2' }, ['x.com/a', 'x.com/c']), stored, target)).toBe(false);
  });
});
