import { expect, it } from 'vitest';
import { requestsOnNodes } from '../../../src/views/overview/node-requests.ts';

it('sums up the requests of pods that use a node', () => {
  const pod = (cpu: string, nodeName: string | undefined, phase: string) => ({
    spec: { containers: [{ name: 'c', resources: { requests: { cpu } } }], ...(nodeName !== undefined && { nodeName }) },
    status: { phase },
  });
  const pods = [pod('500m', 'a', 'Running'), pod('1', 'b', 'Pending'), pod('100', undefined, 'Pending'), pod('2', 'a', 'Succeeded')];
  expect(requestsOnNodes(pods)).toEqual({ count: 2, cpu: 1.5, memory: 0 });
});
