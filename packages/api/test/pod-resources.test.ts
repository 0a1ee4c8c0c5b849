import { podAmounts } from '@oarlock/api/pod-resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { describe, expect, it } from 'vitest';

const asks = (cpu: string, more: object = {}) => ({ name: 'c', image: 'x', resources: { requests: { cpu }, limits: { cpu } }, ...more });
const text = (pod: Pod, wanted: 'requests' | 'limits' = 'requests', overhead = true) =>
  Object.fromEntries([...podAmounts(pod, wanted, { overhead })].map(([name, amount]) => [name, amount.toString()]));

describe('what a pod asks for', () => {
  it('is the sum of its containers, or its largest init container', () => {
    expect(text({ spec: { containers: [asks('1'), asks('500m')] } })).toEqual({ cpu: '1500m' });
    expect(text({ spec: { containers: [asks('1')], initContainers: [asks('3'), asks('2')] } })).toEqual({ cpu: '3' });
  });
  it('counts sidecars with both', () => {
    const sidecar = asks('1', { restartPolicy: 'Always' });
    expect(text({ spec: { containers: [asks('1')], initContainers: [sidecar, asks('2')] } })).toEqual({ cpu: '3' });
    expect(text({ spec: { containers: [asks('5')], initContainers: [sidecar, asks('2')] } })).toEqual({ cpu: '6' });
  });
  it('takes overhead and amounts of the whole pod into account', () => {
    const pod: Pod = { spec: { containers: [asks('1')], overhead: { cpu: '250m', memory: '1Mi' } } };
    expect(text(pod)).toEqual({ cpu: '1250m', memory: '1Mi' });
    expect(text(pod, 'limits')).toEqual({ cpu: '1250m' });
    expect(text(pod, 'requests', false)).toEqual({ cpu: '1' });
    expect(text({ spec: { containers: [asks('1')], resources: { requests: { cpu: '4' } } } })).toEqual({ cpu: '4' });
  });
  it('is nothing without a spec', () => expect(text({})).toEqual({}));
});
