import { leases } from '@oarlock/api/resources';
import type { Lease } from '@oarlock/api/types/coordination-v1';
import { describe, expect, it } from 'vitest';
import { decodeBody, decodePatched } from '../../../src/endpoints/request/body.ts';
import { schemaOf } from '@oarlock/api/schema/schema';

const gvk = { group: leases.group, version: leases.version, kind: leases.kind };
const options = { gvk, schema: schemaOf(gvk) };
const known: Lease = {
  kind: 'Lease',
  apiVersion: 'coordination.k8s.io/v1',
  metadata: Object.freeze({ name: 'a', namespace: 'b', resourceVersion: '7' }),
  spec: Object.freeze({ holderIdentity: 'a' }),
};

describe('a decoded body', () => {
  it('keeps the parts that it shares with a known object', () => {
    const decoded = decodeBody<Lease>({ ...known, spec: { holderIdentity: 'c', unknown: 1 } }, options, known);
    expect(decoded.metadata).toBe(known.metadata);
    expect(decoded.spec).toEqual({ holderIdentity: 'c' });
  });

  it('is checked where it is equal to a known object but not shared, or not frozen', () => {
    const spec = { leaseDurationSeconds: 'long' };
    const lease = { ...known, metadata: { ...known.metadata }, spec } as unknown as Lease;
    expect(() => decodeBody({ ...lease }, options, lease)).toThrow(
      /cannot unmarshal string into Go struct field LeaseSpec\.spec\.leaseDurationSeconds/,
    );
  });
});

describe.each([true, false])('the decoded result of a patch (strategic: %s)', (isStrategic) => {
  // a part that is visited loses the unknown field
  const metadata = Object.freeze({ name: 'a', unknown: 1 });
  const old = { ...known, metadata } as Lease;

  it('keeps the parts that it shares with the patched object', () => {
    const decoded = decodePatched({ ...old, spec: { holderIdentity: 'c', unknown: 1 } }, options, { old, isStrategic });
    expect(decoded.metadata).toBe(metadata);
    expect((decoded as Lease).spec).toEqual({ holderIdentity: 'c' });
  });

  it('is checked where the patch changed it', () => {
    const decoded = decodePatched({ ...old, metadata: { ...metadata } }, options, { old, isStrategic });
    expect(decoded.metadata).toEqual({ name: 'a' });
  });
});
