import type { Quantity } from '@oarlock/api/types/meta-v1';
import type { DeviceClass, DeviceRequest, DeviceSelector, DeviceToleration, ResourceClaim } from '@oarlock/api/types/resource-v1';

/** One device request, or one alternative of a request. */
export interface RequestData {
  /** Name such as `gpu`, or `gpu/large` for an alternative. */
  readonly name: string;
  /** The name for messages: that of the request or of the alternative. */
  readonly ownName: string;
  readonly selectors: readonly DeviceSelector[];
  readonly classSelectors: readonly DeviceSelector[];
  readonly className: string;
  readonly allDevices: boolean;
  readonly count: number;
  readonly adminAccess: boolean;
  readonly tolerations: readonly DeviceToleration[];
  /** The requested capacity, by name: a minimum, or for a device that allows multiple allocations the share to consume. */
  readonly capacity: Readonly<Record<string, Quantity>>;
}
export type DeviceClassLister = (name: string) => DeviceClass | undefined;

/** Returns the alternatives of a request in order of preference; one for a request without alternatives. */
export function requestAlternatives(
  { name, exactly, firstAvailable = [] }: DeviceRequest,
  classes: DeviceClassLister,
): readonly RequestData[] {
  const toRequestData = (
    ownName: string,
    {
      selectors = [],
      deviceClassName,
      allocationMode = 'ExactCount',
      count = 1,
      tolerations = [],
      capacity,
    }: NonNullable<DeviceRequest['exactly']>,
    adminAccess = false,
  ): RequestData => ({
    name: exactly === undefined ? `${name}/${ownName}` : ownName,
    ownName,
    selectors,
    className: deviceClassName,
    classSelectors: classes(deviceClassName)?.spec.selectors ?? [],
    allDevices: allocationMode === 'All',
    count,
    adminAccess,
    tolerations,
    capacity: capacity?.requests ?? {},
  });
  if (exactly !== undefined) return [toRequestData(name, exactly, exactly.adminAccess === true)];
  return firstAvailable.map((each) => toRequestData(each.name, each));
}

/** Returns upstream's message for the first request whose DeviceClass does not exist, or undefined if all exist. */
export function missingDeviceClass({ spec }: ResourceClaim, classes: DeviceClassLister): string | undefined {
  for (const { name, exactly, firstAvailable = [] } of spec.devices?.requests ?? []) {
    const classNames =
      exactly === undefined
        ? firstAvailable.map((each) => ({ request: `${name}/${each.name}`, className: each.deviceClassName }))
        : [{ request: name, className: exactly.deviceClassName }];
    for (const { request, className } of classNames)
      if (classes(className) === undefined) return `request ${request}: device class ${className} does not exist`;
  }
  return undefined;
}
