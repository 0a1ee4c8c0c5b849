import type { KubeObject } from '@oarlock/api/object';
import { isObject } from '@oarlock/api/json/json';
import type { VersionConversion } from '../served-kind.ts';

type Fields = Readonly<Record<string, unknown>>;

const objectAt = (value: Fields, key: string): Fields | undefined => {
  const member = value[key];
  return isObject(member) ? member : undefined;
};
const changedAt = (value: Fields, key: string, change: (member: Fields) => Fields): Fields => {
  const member = objectAt(value, key);
  return member === undefined ? value : { ...value, [key]: change(member) };
};
const changedEach = (value: Fields, key: string, change: (member: Fields) => Fields): Fields => {
  const list = value[key];
  return Array.isArray(list)
    ? { ...value, [key]: (list as unknown[]).map((member) => (isObject(member) ? change(member) : member)) }
    : value;
};

/** The fields of an exact device request, which v1beta1 has in the request itself and later versions have in `exactly` (KEP-4816). */
const requestFields = ['deviceClassName', 'selectors', 'allocationMode', 'count', 'adminAccess', 'tolerations', 'capacity'] as const;
function nested(request: Fields): Fields {
  const exactly: Record<string, unknown> = {};
  const rest: Record<string, unknown> = { ...request };
  for (const field of requestFields) {
    if (rest[field] === undefined) continue;
    exactly[field] = rest[field];
    delete rest[field];
  }
  return Object.keys(exactly).length === 0 ? rest : { ...rest, exactly };
}
function flat(request: Fields): Fields {
  const { exactly, ...rest } = request;
  return isObject(exactly) ? { ...rest, ...exactly } : rest;
}
/** Returns a device with its attributes in `basic`, as in v1beta1. */
const nestedDevice = ({ name, ...basic }: Fields): Fields => ({ name, basic });
const flatDevice = ({ basic, ...rest }: Fields): Fields => (isObject(basic) ? { ...rest, ...basic } : rest);

const claim = (change: (request: Fields) => Fields) => (object: Fields) =>
  changedAt(object, 'spec', (spec) => changedAt(spec, 'devices', (devices) => changedEach(devices, 'requests', change)));
const template = (change: (request: Fields) => Fields) => (object: Fields) => changedAt(object, 'spec', claim(change));
const slice = (change: (device: Fields) => Fields) => (object: Fields) =>
  changedAt(object, 'spec', (spec) => changedEach(spec, 'devices', change));

const conversionBetween = (stored: (object: Fields) => Fields, served: (object: Fields) => Fields): VersionConversion => ({
  toStored: (object) => ({ ...stored(object as unknown as Fields), apiVersion: 'resource.k8s.io/v1' }) as unknown as KubeObject,
  fromStored: (object) => ({ ...served(object as unknown as Fields), apiVersion: 'resource.k8s.io/v1beta1' }) as unknown as KubeObject,
});

/** The conversions between resource.k8s.io/v1beta1 and v1, which is stored, by resource. */
export const olderDeviceVersions: Readonly<Record<string, VersionConversion>> = {
  resourceclaims: conversionBetween(claim(nested), claim(flat)),
  resourceclaimtemplates: conversionBetween(template(nested), template(flat)),
  resourceslices: conversionBetween(slice(flatDevice), slice(nestedDevice)),
};
