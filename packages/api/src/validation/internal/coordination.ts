import { duplicate, fieldForbidden, invalid, notSupported, required, tooMany } from '../../field/field-error.ts';
import type { Lease } from '../../generated/types/coordination-v1.ts';
import type { Event } from '../../generated/types/core-v1.ts';
import type { EndpointHints, EndpointSlice } from '../../generated/types/discovery-v1.ts';
import type { Event as EventV1 } from '../../generated/types/events-v1.ts';
import { ipFamily } from '../../net/ip.ts';
import { isDns1123Label, isDns1123Subdomain, isQualifiedName } from '../../values/names.ts';
import {
  validateDNSLabel,
  validateImmutable,
  addInvalid,
  validateNonSpecialIP,
  validateEnum,
  validateQualifiedName,
  validateNonEmpty,
  type Errors,
} from './checks.ts';
import { protocols } from './core/env.ts';
import { validateLabels } from '../meta.ts';

export function validateLease(errors: Errors, { spec = {} }: Lease): void {
  const { leaseDurationSeconds: duration, leaseTransitions: transitions, strategy = '' } = spec;
  if (duration !== undefined && duration <= 0) errors.push(invalid('spec.leaseDurationSeconds', duration, 'must be greater than 0'));
  if (transitions !== undefined && transitions < 0)
    errors.push(invalid('spec.leaseTransitions', transitions, 'must be greater than or equal to 0'));
  if (strategy.includes('/')) validateQualifiedName(errors, 'spec.strategy.strategy', strategy);
  else if (strategy !== '' && strategy !== 'OldestEmulationVersion')
    errors.push(notSupported('spec.strategy.strategy', strategy, ['OldestEmulationVersion']));
  if (spec.preferredHolder && strategy === '')
    errors.push(fieldForbidden('spec.preferredHolder', 'may only be specified if `strategy` is defined'));
}

const addressTypes = ['FQDN', 'IPv4', 'IPv6'];
export function validateEndpointSlice(errors: Errors, slice: EndpointSlice, old: EndpointSlice | undefined, allowLoopback: boolean): void {
  const { addressType = '' } = slice;
  // an empty list is null
  const endpoints = slice.endpoints ?? [];
  const ports = slice.ports ?? [];
  validateEnum(errors, 'addressType', addressType, addressTypes);
  if (endpoints.length > 1000) errors.push(tooMany('endpoints', endpoints.length, 1000));
  else
    for (const [i, endpoint] of endpoints.entries()) {
      const at = `endpoints[${i}]`;
      const addresses = endpoint.addresses ?? [];
      if (addresses.length === 0) errors.push(required(`${at}.addresses`, 'must contain at least 1 address'));
      else if (addresses.length > 100) errors.push(tooMany(`${at}.addresses`, addresses.length, 100));
      for (const [j, address] of addresses.entries())
        validateEndpointAddress(errors, `${at}.addresses[${j}]`, { address, type: addressType, allowLoopback });
      validateLabels(errors, `${at}.deprecatedTopology`, endpoint.deprecatedTopology);
      if (endpoint.nodeName !== undefined) addInvalid(errors, `${at}.nodeName`, endpoint.nodeName, isDns1123Subdomain(endpoint.nodeName));
      if (endpoint.hostname !== undefined) validateDNSLabel(errors, `${at}.hostname`, endpoint.hostname);
      if (endpoint.hints !== undefined) validateHints(errors, `${at}.hints`, endpoint.hints);
    }
  if (ports.length > 100) errors.push(tooMany('ports', ports.length, 100));
  else validateSlicePorts(errors, ports);
  if (old !== undefined) validateImmutable(errors, 'addressType', addressType, old.addressType);
}

const maxHints = 8;
function validateHints(errors: Errors, path: string, { forZones = [], forNodes = [] }: EndpointHints): void {
  for (const [name, list] of Object.entries({ forZones, forNodes })) {
    if (list.length <= maxHints) continue;
    errors.push(tooMany(`${path}.${name}`, list.length, maxHints));
    return;
  }
  for (const [i, { name = '' }] of forZones.entries()) if (name === '') errors.push(required(`${path}.forZones[${i}].name`));
  for (const [i, { name = '' }] of forNodes.entries()) addInvalid(errors, `${path}.forNodes[${i}].name`, name, isDns1123Subdomain(name));
}

function validateEndpointAddress(
  errors: Errors,
  path: string,
  { address, type, allowLoopback }: { readonly address: string; readonly type: string; readonly allowLoopback: boolean },
): void {
  if (type === 'IPv4' || type === 'IPv6') {
    if (`IPv${ipFamily(address)}` !== type) errors.push(invalid(path, address, `must be a valid ${type} address`));
    else validateNonSpecialIP(errors, path, address, allowLoopback);
  } else if (type === 'FQDN') {
    const name = address.replace(/\.$/, '');
    const messages = isDns1123Subdomain(name);
    if (messages.length > 0) errors.push(invalid(path, name, messages.join(',')));
    else if (!name.includes('.')) errors.push(invalid(path, name, 'should be a domain with at least two segments separated by dots'));
    else
      for (const label of name.split('.'))
        if (isDns1123Label(label).length > 0) errors.push(invalid(path, label, isDns1123Label(label).join(',')));
  }
}

function validateSlicePorts(errors: Errors, ports: NonNullable<EndpointSlice['ports']>): void {
  const names = new Set<string>();
  for (const [i, port] of ports.entries()) {
    const at = `ports[${i}]`;
    const name = port.name ?? '';
    if (name !== '') validateDNSLabel(errors, `${at}.name`, name);
    if (names.has(name)) errors.push(duplicate(`${at}.name`, name));
    names.add(name);
    validateEnum(errors, `${at}.protocol`, port.protocol, protocols);
    if (port.appProtocol !== undefined) validateQualifiedName(errors, `${at}.appProtocol`, port.appProtocol);
  }
}

/** Rules for the fields of both Event kinds, under their names in core/v1. */
function validateLegacyEvent(errors: Errors, event: Event): void {
  const { namespace = '' } = event.metadata ?? {};
  const involved = event.involvedObject?.namespace ?? '';
  const path = 'involvedObject.namespace';
  if (!event.eventTime) {
    const matches = involved === '' ? namespace === '' || namespace === 'default' : namespace === involved;
    if (!matches) errors.push(invalid(path, involved, 'does not match event.namespace'));
  } else {
    if (involved === '' && namespace !== 'default' && namespace !== 'kube-system')
      errors.push(invalid(path, involved, 'does not match event.namespace'));
    const controller = event.reportingComponent ?? '';
    validateNonEmpty(errors, 'reportingController', controller);
    addInvalid(errors, 'reportingController', controller, isQualifiedName(controller));
    const limited: readonly (readonly [string, string | undefined, number])[] = [
      ['reportingInstance', event.reportingInstance, 128],
      ['action', event.action, 128],
      ['reason', event.reason, 128],
    ];
    for (const [field, text, max] of limited) {
      validateNonEmpty(errors, field, text);
      if ((text ?? '').length > max) errors.push(invalid(field, '', `can have at most ${max} characters`));
    }
    if ((event.message ?? '').length > 1024) errors.push(invalid('message', '', 'can have at most 1024 characters'));
  }
  addInvalid(errors, 'namespace', namespace, isDns1123Subdomain(namespace));
}
export const event = validateLegacyEvent;

export function validateEventV1(errors: Errors, event: EventV1, old?: EventV1): void {
  const { note, regarding, reportingController, series } = event;
  validateLegacyEvent(errors, {
    involvedObject: regarding ?? {},
    metadata: event.metadata ?? {},
    ...(note !== undefined && { message: note }),
    ...(reportingController !== undefined && { reportingComponent: reportingController }),
    ...(event.eventTime && { eventTime: event.eventTime }),
    ...(event.reportingInstance !== undefined && { reportingInstance: event.reportingInstance }),
    ...(event.action !== undefined && { action: event.action }),
    ...(event.reason !== undefined && { reason: event.reason }),
  });
  if (series !== undefined) {
    if ((series.count ?? 0) < 2) errors.push(invalid('series.count', '', 'should be at least 2'));
    if (!series.lastObservedTime) errors.push(required('series.lastObservedTime'));
  }
  if (old !== undefined) {
    const same: readonly (readonly [string, keyof EventV1])[] = [
      ['involvedObject', 'regarding'],
      ['reason', 'reason'],
      ['message', 'note'],
      ['type', 'type'],
      ['eventTime', 'eventTime'],
      ['action', 'action'],
      ['related', 'related'],
      ['reportingController', 'reportingController'],
      ['reportingInstance', 'reportingInstance'],
    ];
    for (const [path, key] of same) validateImmutable(errors, path, event[key], old[key]);
    return;
  }
  if (!event.eventTime) errors.push(required('eventTime'));
  if (event.type !== 'Normal' && event.type !== 'Warning') errors.push(invalid('type', '', `has invalid value: ${event.type ?? ''}`));
  const unset: readonly (readonly [string, unknown])[] = [
    ['firstTimestamp', event.deprecatedFirstTimestamp || undefined],
    ['lastTimestamp', event.deprecatedLastTimestamp || undefined],
    ['count', event.deprecatedCount || undefined],
    ['source', event.deprecatedSource?.component || event.deprecatedSource?.host || undefined],
  ];
  for (const [path, value] of unset) if (value !== undefined) errors.push(invalid(path, '', 'needs to be unset'));
}
