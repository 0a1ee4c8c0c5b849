import { describe, expect, it } from 'vitest';
import { acceptsGzip, mediaTypeOf, negotiateAccept } from '../../../src/endpoints/negotiation/negotiation.ts';

const json = { format: 'json', as: undefined, version: 'v1', pretty: false };
const table = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json';

describe('Accept', () => {
  it.each([
    [undefined, json],
    ['', json],
    ['*/*', json],
    ['application/*', json],
    ['application/json', json],
    ['text/html,application/xhtml+xml,*/*;q=0.8', json],
    ['application/vnd.kubernetes.protobuf,application/json', json],
    ['application/vnd.kubernetes.protobuf, */*', json],
    ['application/cbor;q=1, application/json;q=0.1', json],
    ['application/yaml', { ...json, format: 'yaml' }],
    ['application/json;q=0.1,application/yaml;q=0.9', { ...json, format: 'yaml' }],
    ['application/json;charset=utf-8', json],
    [table, { ...json, transform: 'Table' }],
    ['application/json;as=Table;v=v1beta1;g=meta.k8s.io', { ...json, transform: 'Table', version: 'v1beta1' }],
    ['application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1', { ...json, transform: 'PartialObjectMetadata' }],
    [
      'application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1',
      { ...json, transform: 'PartialObjectMetadataList' },
    ],
    ['application/json;as=Else;g=meta.k8s.io;v=v1,application/json', json],
    ['application/json;pretty=1', { ...json, pretty: true }],
    ['nonsense, application/json;q=0.5', json],
  ])('%s', (accept, expected) => {
    expect(negotiateAccept(accept)).toEqual(expected);
  });

  it.each(['application/vnd.kubernetes.protobuf', 'text/html', 'application/json;q=0', 'application/json;as=Table;g=meta.k8s.io;v=v9'])(
    'rejects %s',
    (accept) => {
      expect(() => negotiateAccept(accept)).toThrow(expect.objectContaining({ code: 406, reason: 'NotAcceptable' }));
    },
  );

  const protobuf = { ...json, format: 'protobuf' };
  const both = 'application/vnd.kubernetes.protobuf,application/json';
  const metadata =
    'application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';
  it.each([
    ['application/vnd.kubernetes.protobuf', 'objects', protobuf],
    [both, 'objects', protobuf],
    [both, 'metadata', json],
    [both, 'nothing', json],
    ['application/vnd.kubernetes.protobuf, */*', 'metadata', json],
    ['application/json,application/vnd.kubernetes.protobuf', 'objects', json],
    ['application/json;q=0.5,application/vnd.kubernetes.protobuf', 'objects', protobuf],
    ['application/vnd.kubernetes.protobuf;stream=watch', 'objects', protobuf],
    ['application/vnd.kubernetes.protobuf;stream=other,application/json;stream=watch', 'objects', json],
    [metadata, 'objects', { ...protobuf, transform: 'PartialObjectMetadataList' }],
    [metadata, 'metadata', { ...protobuf, transform: 'PartialObjectMetadataList' }],
    [
      'application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json;as=Table;g=meta.k8s.io;v=v1',
      'objects',
      { ...json, transform: 'Table' },
    ],
  ] as const)('%s, offering %s', (accept, offer, expected) => {
    expect(negotiateAccept(accept, offer)).toEqual(expected);
  });

  it.each([
    ['application/vnd.kubernetes.protobuf', 'metadata', 'application/json, application/yaml, application/vnd.kubernetes.protobuf'],
    [
      'application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1',
      'objects',
      'application/json, application/yaml, application/vnd.kubernetes.protobuf',
    ],
    ['application/yaml;stream=watch', 'objects', 'application/json, application/yaml, application/vnd.kubernetes.protobuf'],
  ] as const)('rejects %s if the endpoint offers %s', (accept, offer, offered) => {
    expect(() => negotiateAccept(accept, offer)).toThrow(`only the following media types are accepted: ${offered}`);
  });

  it('returns the same format object for equal headers', () => {
    const first = negotiateAccept(table);
    expect(negotiateAccept(table)).toBe(first);
    for (let i = 0; i < 2000; i += 1) negotiateAccept(`application/json;x=${i}`);
    expect(negotiateAccept(table)).toEqual(first);
  });
});

it('parses media types and encodings', () => {
  expect(mediaTypeOf('Application/JSON; charset=utf-8')).toBe('application/json');
  expect(mediaTypeOf(undefined)).toBe('');
  expect(['gzip', 'deflate, gzip;q=0.5', 'gzip;q=0', 'br', undefined].map(acceptsGzip)).toEqual([true, true, false, false, false]);
});
