import type { Service } from '@oarlock/api/types/core-v1';
import type { Endpoint, EndpointSlice } from '@oarlock/api/types/discovery-v1';
import { planSlices, type SlicePlan } from '@oarlock/controllers/network/endpoint-slice/slice-plan';
import { describe, expect, it } from 'vitest';

const service: Service = { apiVersion: 'v1', kind: 'Service', metadata: { namespace: 'd', name: 'web', uid: 'service' } };
const labels = { 'kubernetes.io/service-name': 'web', 'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io' };
const ports = [{ name: 'http', protocol: 'TCP', port: 8080 }];
const endpoint = (uid: string): Endpoint => ({ addresses: [`10.0.0.${uid}`], targetRef: { kind: 'Pod', name: uid, uid } });
const slice = (name: string, uids: string, more: Partial<EndpointSlice> = {}): EndpointSlice => ({
  addressType: 'IPv4',
  ports,
  endpoints: [...uids].map(endpoint),
  metadata: {
    name,
    namespace: 'd',
    labels,
    ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name: 'web', uid: 'service', controller: true }],
  },
  ...more,
});
const uidsOf = ({ endpoints = [] }: EndpointSlice) => (endpoints ?? []).map(({ targetRef }) => targetRef?.uid).join('');
const text = ({ create, update, remove }: SlicePlan) => ({
  create: create.map(uidsOf),
  update: update.map((each) => `${each.metadata?.name} ${uidsOf(each)}`),
  remove: remove.map(({ metadata }) => metadata?.name),
});
/** Plans slices of at most three endpoints for the uids, which are single characters. */
const plan = (uids: string, ...existing: readonly EndpointSlice[]) =>
  text(
    planSlices(
      service,
      {
        families: ['IPv4'],
        groups: uids === '' ? [] : [{ family: 'IPv4', ports, endpoints: new Map([...uids].map((uid) => [uid, endpoint(uid)])) }],
      },
      { existing, maxEndpoints: 3 },
    ),
  );

describe('planSlices', () => {
  it('changes nothing without a difference', () => {
    expect(plan('12', slice('a', '12'))).toEqual({ create: [], update: [], remove: [] });
  });
  it('divides new endpoints into slices of the maximum size', () => {
    expect(plan('1234')).toEqual({ create: ['123', '4'], update: [], remove: [] });
  });
  it('fills slices that change anyway, fullest first', () => {
    expect(plan('12346789', slice('a', '125'), slice('b', '34x'), slice('c', '6')).update).toEqual(['a 127', 'b 348', 'c 69']);
  });
  it('adds all new endpoints to the one slice that becomes fullest', () => {
    expect(plan('12345', slice('a', '1'), slice('b', '23'), slice('c', '4'))).toEqual({ create: [], update: ['b 235'], remove: [] });
  });
  it('creates a slice rather than divide new endpoints between slices', () => {
    expect(plan('123456', slice('a', '12'), slice('b', '34'))).toEqual({ create: ['56'], update: [], remove: [] });
  });
  it('removes a slice whose endpoints are gone', () => {
    expect(plan('1', slice('a', '1'), slice('b', '2'))).toEqual({ create: [], update: [], remove: ['b'] });
  });
  it('empties the last slice', () => {
    expect(plan('', slice('a', '1'))).toEqual({ create: [], update: ['a '], remove: [] });
    expect(plan('', slice('a', '', { ports: [] }))).toEqual({ create: [], update: [], remove: [] });
  });
  it('gives the content of a new slice to one that would be deleted', () => {
    const other = slice('a', '1', { ports: [{ name: 'http', protocol: 'TCP', port: 1 }] });
    expect(plan('12', other)).toEqual({ create: [], update: ['a 12'], remove: [] });
  });
  it('does not reuse a slice of an earlier Service or of another family', () => {
    const earlier = slice('a', '1', { ports: [] });
    const old = {
      ...earlier,
      metadata: {
        ...earlier.metadata,
        ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name: 'web', uid: 'old', controller: true }],
      },
    };
    expect(plan('12', old, slice('b', '1', { addressType: 'IPv6' }))).toEqual({ create: ['12'], update: [], remove: ['b', 'a'] });
    expect(plan('1', { ...old, ports })).toEqual({ create: ['1'], update: [], remove: ['a'] });
  });
});
