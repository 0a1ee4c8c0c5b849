import type { PodSpec } from '@oarlock/api/types/core-v1';
import type { Device, DeviceClaim, DeviceClass, DeviceRequest, ResourceClaim, ResourceSlice } from '@oarlock/api/types/resource-v1';

export const driver = 'gpu.example.com';
export const gpuClass = (more: DeviceClass['spec'] = {}): DeviceClass => ({
  apiVersion: 'resource.k8s.io/v1',
  kind: 'DeviceClass',
  metadata: { name: 'gpu' },
  spec: { selectors: [{ cel: { expression: `device.driver == "${driver}"` } }], ...more },
});
export const slice = (
  name: string,
  devices: readonly Device[],
  more: Partial<ResourceSlice['spec']> = { nodeName: name },
): ResourceSlice => ({
  apiVersion: 'resource.k8s.io/v1',
  kind: 'ResourceSlice',
  metadata: { name },
  spec: { driver, pool: { name, generation: 1, resourceSliceCount: 1 }, devices, ...more },
});
export const gpu = (name: string, model = 'small', more: Partial<Device> = {}): Device => ({
  name,
  attributes: {
    model: { string: model },
    numa: { int: Number(name.replaceAll(/\D/g, '')) % 2 },
    'driver.example.com/version': { version: '2.1.0' },
  },
  capacity: { memory: { value: '10Gi' } },
  ...more,
});
export const claim = (name: string, devices: DeviceClaim): ResourceClaim => ({
  apiVersion: 'resource.k8s.io/v1',
  kind: 'ResourceClaim',
  metadata: { namespace: 'd', name },
  spec: { devices },
});
export const one = (more: Partial<NonNullable<DeviceRequest['exactly']>> = {}, name = 'r'): DeviceRequest => ({
  name,
  exactly: { deviceClassName: 'gpu', ...more },
});
export const where = (expression: string) => ({ selectors: [{ cel: { expression } }] });
export const using = (...names: string[]): Partial<PodSpec> => ({
  resourceClaims: names.map((name) => ({ name, resourceClaimName: name })),
});
