import type { KubeObject } from '@oarlock/api/object';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { sourceAddressAnnotation } from '@oarlock/spi/cluster';
import { describe, expect, it } from 'vitest';
import { certificateSigningRequests } from '../../../src/registry/strategies/core.ts';
import type { StrategyContext } from '../../../src/registry/strategy.ts';

const context: StrategyContext = {
  now: 0,
  identity: { name: 'system:node:n1', groups: ['system:nodes'] },
  sourceAddress: '10.0.0.2',
  dryRun: false,
  takenReservations: new Set(),
  warn: () => {},
};
const csr = (signerName: string, source?: string): KubeObject & { spec: object } => ({
  metadata: { name: 'c', annotations: { a: 'b', ...(source !== undefined && { [sourceAddressAnnotation]: source }) } },
  spec: { signerName, request: '' },
});
const sourceOf = (object: KubeObject | undefined) => object?.metadata?.annotations?.[sourceAddressAnnotation];
const serving = 'kubernetes.io/kubelet-serving';
const { prepareForCreate, prepareForUpdate } = certificateSigningRequests;

it('records the client address of requests for serving certificates, whatever the client sets', () => {
  expect(sourceOf(prepareForCreate?.(csr(serving, '10.0.0.1'), context))).toBe('10.0.0.2');
  const { sourceAddress: _none, ...local } = context;
  expect(sourceOf(prepareForCreate?.(csr(serving, '10.0.0.1'), local))).toBeUndefined();
  expect(sourceOf(prepareForCreate?.(csr('kubernetes.io/kube-apiserver-client', '10.0.0.1'), context))).toBeUndefined();
});

it('keeps the address on updates', () => {
  const old = csr(serving, '10.0.0.2');
  for (const changed of [csr(serving, '10.0.0.1'), csr(serving), { ...csr(serving), metadata: { name: 'c' } }])
    expect(sourceOf(prepareForUpdate?.(changed, old, context))).toBe('10.0.0.2');
  expect(sourceOf(prepareForUpdate?.(csr(serving, '10.0.0.1'), csr(serving), context))).toBeUndefined();
});

describe('conditions', () => {
  const approved = { type: 'Approved', status: 'True', reason: 'Old', lastUpdateTime: '2026-01-01T00:00:00Z' };
  const times = { lastTransitionTime: '1970-01-01T00:00:00Z', lastUpdateTime: '1970-01-01T00:00:00Z' };
  const withConditions = (...conditions: readonly object[]) => ({ ...csr(serving), status: { conditions } });
  const updated = (subresource: 'status' | 'approval', object: KubeObject, old: KubeObject) =>
    (
      certificateSigningRequests.subresources?.[subresource]?.prepareForUpdate(object, old, context) as
        | CertificateSigningRequest
        | undefined
    )?.status?.conditions;

  it('of an approval stay as they are in an update of the status', () => {
    const changed = withConditions({ ...approved, reason: 'New' }, { type: 'Failed', status: 'True' });
    const stored = { ...approved, lastTransitionTime: '2026-01-02T00:00:00Z' };
    expect(updated('status', changed, withConditions(stored))).toEqual([stored, { type: 'Failed', status: 'True', ...times }]);
  });

  it('are left to validation if the status adds or removes an approval', () => {
    expect(updated('status', withConditions(approved), csr(serving))).toMatchObject([{ type: 'Approved' }]);
    expect(updated('status', withConditions(), withConditions(approved))).toEqual([]);
  });

  it('get the time of the update, and keep the time of their transition', () => {
    const old = withConditions({ ...approved, lastTransitionTime: '2026-01-02T00:00:00Z' });
    const { lastUpdateTime: _none, ...again } = approved;
    expect(updated('approval', withConditions(again, { type: 'Other', status: 'False' }), old)).toEqual([
      { ...again, lastUpdateTime: times.lastUpdateTime, lastTransitionTime: '2026-01-02T00:00:00Z' },
      { type: 'Other', status: 'False', ...times },
    ]);
  });
});
