import { expect, it } from 'vitest';
import { leadersOf, type Lease } from '../../../src/views/overview/leaders.ts';

const lease = (name: string, holderIdentity?: string): Lease => ({
  metadata: { name, uid: name, resourceVersion: '1' },
  ...(holderIdentity !== undefined && { spec: { holderIdentity } }),
});

it('leadersOf returns the holders of the components that elect a leader', () => {
  expect(
    leadersOf([
      lease('kube-scheduler', 'b_1'),
      lease('other', 'x'),
      lease('cloud-controller-manager'),
      lease('kube-controller-manager', 'a_1'),
    ]),
  ).toEqual([
    { component: 'kube-controller-manager', holder: 'a_1' },
    { component: 'kube-scheduler', holder: 'b_1' },
  ]);
});
