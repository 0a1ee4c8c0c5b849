import type { KubeObject } from '@oarlock/api/object';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { deviceSelectorErrors } from '../../src/registry/device-selectors.ts';
import { rejectionOf, TestServer } from '../support/pipeline-fixture.ts';

const bad = { cel: { expression: 'device.foo' } };
const good = { cel: { expression: 'device.driver == "a"' } };
const text = "compilation failed: ERROR: <input>:1:7: undefined field 'foo'\n | device.foo\n | ......^";
const object = (kind: string, spec: object): KubeObject => ({
  apiVersion: 'resource.k8s.io/v1',
  kind,
  metadata: { name: 'x' },
  ...{ spec },
});
const fields = (kind: string, spec: object, old?: object) =>
  deviceSelectorErrors({ group: 'resource.k8s.io', version: 'v1', kind }, object(kind, spec), old && object(kind, old)).map(
    ({ field }) => field,
  );

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

it('finds the selectors of classes, claims and templates', () => {
  expect(fields('DeviceClass', { selectors: [good, bad] })).toEqual(['spec.selectors[1].cel.expression']);
  const requests = [
    { name: 'a', exactly: { selectors: [bad] } },
    { name: 'b', firstAvailable: [{ selectors: [good] }, { selectors: [good, bad] }] },
  ];
  const paths = ['requests[0].exactly.selectors[0]', 'requests[1].firstAvailable[1].selectors[1]'];
  expect(fields('ResourceClaim', { devices: { requests } })).toEqual(paths.map((path) => `spec.devices.${path}.cel.expression`));
  expect(fields('ResourceClaimTemplate', { spec: { devices: { requests } } })).toEqual(
    paths.map((path) => `spec.spec.devices.${path}.cel.expression`),
  );
  expect(fields('ResourceSlice', { selectors: [bad] })).toEqual([]);
});

it('accepts expressions that were stored, and leaves too long ones to the check of their length', () => {
  expect(fields('DeviceClass', { selectors: [bad, good] }, { selectors: [bad] })).toEqual([]);
  expect(fields('DeviceClass', { selectors: [{ cel: { expression: 'x'.repeat(10_241) } }] })).toEqual([]);
});

it('rejects a DeviceClass whose selector does not compile or is too expensive', async () => {
  const create = (...selectors: object[]) => server.create('deviceclasses.resource.k8s.io', object('DeviceClass', { selectors }));
  expect((await rejectionOf(create(bad))).status).toMatchObject({
    code: 422,
    message: `DeviceClass.resource.k8s.io "x" is invalid: spec.selectors[0].cel.expression: Invalid value: "device.foo": ${text}`,
  });
  const loop = (inner: string, variable: string) => `[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(${variable}, ${inner})`;
  const expression = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].reduce(loop, 'device.driver != ""');
  expect((await rejectionOf(create({ cel: { expression } }))).message).toBe(
    'DeviceClass.resource.k8s.io "x" is invalid: spec.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit',
  );
  expect(await create(good)).toMatchObject({ spec: { selectors: [good] } });
});
