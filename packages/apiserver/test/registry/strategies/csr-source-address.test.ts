import type { KubeObject } from '@oarlock/api/object';
import { sourceAddressAnnotation } from '@oarlock/spi/cluster';
import { expect, it } from 'vitest';
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
