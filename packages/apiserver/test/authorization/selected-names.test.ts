import type { ApiRequest } from '@oarlock/spi/loopback';
import { namespaces, secrets } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { expect, it } from 'vitest';
import { attributesOf } from '../../src/authorization/authorization.ts';

const identity = { name: 'eve', groups: [] };
const attributesFor = (verb: ApiRequest['verb'], resource: Resource, namespace: string, fieldSelector: string) => {
  const request: ApiRequest = {
    verb,
    resource,
    subresource: '',
    namespace,
    name: '',
    query: { fieldSelector },
    body: undefined,
    identity,
    spanContext: undefined,
    warn: () => {},
  };
  const { name, namespace: within } = attributesOf(request);
  return { name, within };
};

it.each(['list', 'watch'] as const)('%s by name is authorized for that name', (verb) => {
  expect(attributesFor(verb, secrets, 'a', 'metadata.name=b')).toEqual({ name: 'b', within: 'a' });
  expect(attributesFor(verb, secrets, 'a', 'metadata.name!=b')).toEqual({ name: '', within: 'a' });
  expect(attributesFor(verb, secrets, 'a', 'metadata.name=..')).toEqual({ name: '', within: 'a' });
});
it('deletecollection is authorized for all objects, whatever it selects', () => {
  expect(attributesFor('deletecollection', secrets, 'a', 'metadata.name=b')).toEqual({ name: '', within: 'a' });
});
it('a list of namespaces by name is authorized at the cluster scope', () => {
  expect(attributesFor('list', namespaces, '', 'metadata.name=b')).toEqual({ name: 'b', within: '' });
});
