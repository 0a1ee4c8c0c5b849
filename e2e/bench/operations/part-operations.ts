import { applyDefaults } from '@oarlock/api/defaulting/apply-defaults';
import { deepFreeze } from '@oarlock/api/object';
import { pods } from '@oarlock/api/resources';
import { validateObject } from '@oarlock/api/validation/validate-object';
import { encodingFor } from '@oarlock/apiserver/endpoints/negotiation/encoding';
import { loadCodec } from '@oarlock/apiserver/endpoints/negotiation/protobuf-codec';
import { decodeProtobuf } from '@oarlock/apiserver/endpoints/negotiation/protobuf-decoder';
import { Codec } from '@oarlock/apiserver/watch-cache/item';
import type { Operation } from './cost.ts';
import { pod, runningStatus } from './objects.ts';

const calls = 500;

/** Returns the operations of single parts of the API server: defaults, validation, encoding and decoding of a running pod. */
export async function partOperations(): Promise<readonly Operation[]> {
  const protobuf = await loadCodec();
  const submitted = deepFreeze(pod('p'));
  const running = deepFreeze(applyDefaults(pods, { ...pod('p'), status: runningStatus(true) }));
  const codec = new Codec('v1', 'Pod');
  const value = codec.encode(running);
  const encoding = encodingFor({ format: 'protobuf', transform: undefined, version: 'v1', pretty: false }, 'object', pods, {
    includeObject: 'Metadata',
    now: () => 0,
  });
  const message = encoding.item(codec.parse('default/p', value, 1));
  return [
    { name: 'defaults of a Pod', calls, run: () => applyDefaults(pods, submitted) },
    { name: 'validation of a Pod', calls, run: () => validateObject(pods, running, undefined, {}) },
    { name: 'JSON encoding of a Pod', calls, run: () => codec.encode(running) },
    { name: 'JSON decoding of a Pod', calls, run: () => codec.decode(value, 1) },
    { name: 'protobuf encoding of a Pod', calls, run: () => protobuf.message(running) },
    { name: 'protobuf decoding of a Pod', calls, run: () => decodeProtobuf(message) },
  ];
}
