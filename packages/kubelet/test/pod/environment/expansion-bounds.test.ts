import type { Container, Pod } from '@oarlock/api/types/core-v1';
import { describe, expect, it } from 'vitest';
import { containerEnvironment } from '../../../src/pod/environment/container-environment.ts';
import { expand, newExpansionBudget } from '../../../src/pod-util/expansion.ts';

const environment = (env: Container['env']) => {
  const container: Container = { name: 'app', image: 'busybox', ...(env && { env }) };
  const pod: Pod = { apiVersion: 'v1', kind: 'Pod', metadata: { namespace: 'default', name: 'web' }, spec: { containers: [container] } };
  return containerEnvironment(pod, container, {
    objects: { get: () => Promise.resolve(undefined) },
    services: new Map(),
    facts: { podIPs: [], hostIPs: [], nodeName: 'node' },
    allocatable: {},
    expansionBudget: newExpansionBudget(),
    fileIn: () => Promise.resolve(undefined),
  });
};
/** Variables of which each has twice the length of the previous one. */
const doubling = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ name: `V${i}`, value: i === 0 ? 'x'.repeat(1024) : `$(V${i - 1})$(V${i - 1})` }));
const tooLong = /^references to variables expand to more than 128 KiB in one value, or 6 MiB in all$/;

describe('references between variables', () => {
  it('may make a value as long as Linux accepts', async () => {
    expect((await environment(doubling(8))).get('V7')).toHaveLength(128 * 1024);
  });
  it('do not double the memory of the kubelet again and again', async () => {
    await expect(environment(doubling(19))).rejects.toThrow(tooLong);
  });
  it('do not take many times the longest value', async () => {
    const copies = Array.from({ length: 60 }, (_, i) => ({ name: `W${i}`, value: '$(V7)' }));
    await expect(environment([...doubling(8), ...copies])).rejects.toThrow(tooLong);
  });
  it('in arguments are bounded alike', () => {
    const budget = newExpansionBudget();
    const value = 'x'.repeat(100_000);
    expect(() => expand('$(A)$(A)', () => value)).toThrow(tooLong);
    const words = () => Array.from({ length: 100 }, () => expand('$(A)', () => value, budget));
    expect(words).toThrow(tooLong);
  });
  it('are not counted in text without references', async () => {
    const value = 'x'.repeat(200_000);
    expect((await environment([{ name: 'A', value }])).get('A')).toBe(value);
  });
});
