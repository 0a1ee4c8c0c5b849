import { podResources } from '@oarlock/api/component-helpers/pod-resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { describe, expect, it } from 'vitest';

const asks = (cpu: string, more: object = {}) => ({ name: 'c', image: 'x', resources: { requests: { cpu }, limits: { cpu } }, ...more });
const text = (pod: Pod, wanted: 'requests' | 'limits' = 'requests', overhead = true) =>
  Object.fromEntries([...podResources(pod, wanted, { overhead })].map(([name, amount]) => [name, amount.toString()]));

describe('the requests of a pod', () => {
  it('are the sum of its containers or the maximum of its init containers', () => {
    expect(text({ spec: { containers: [asks('1'), asks('500m')] } })).toEqual({ cpu: '1500m' });
    expect(text({ spec: { containers: [asks('1')], initContainers: [asks('3'), asks('2')] } })).toEqual({ cpu: '3' });
  });
  it('include sidecars in both', () => {
    const sidecar = asks('1', { restartPolicy: 'Always' });
    expect(text({ spec: { containers: [asks('1')], initContainers: [sidecar, asks('2')] } })).toEqual({ cpu: '3' });
    expect(text({ spec: { containers: [asks('5')], initContainers: [sidecar, asks('2')] } })).toEqual({ cpu: '6' });
  });
  it('include overhead and pod-level resources', () => {
    const pod: Pod = { spec: { containers: [asks('1')], overhead: { cpu: '250m', memory: '1Mi' } } };
    expect(text(pod)).toEqual({ cpu: '1250m', memory: '1Mi' });
    expect(text(pod, 'limits')).toEqual({ cpu: '1250m' });
    expect(text(pod, 'requests', false)).toEqual({ cpu: '1' });
    expect(text({ spec: { containers: [asks('1')], resources: { requests: { cpu: '4' } } } })).toEqual({ cpu: '4' });
  });
  it('are empty without a spec', () => expect(text({})).toEqual({}));
});
