import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { jsonEqual } from '@oarlock/api/json/json';
import { kinds } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf } from '@oarlock/api/resource';
import { StatusError } from '@oarlock/api/status';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeProtobuf } from '../../../src/endpoints/negotiation/protobuf-decoder.ts';
import { messageOf } from '../../../src/endpoints/negotiation/internal/protobuf-messages.ts';
import { enveloped, wrapped } from '../../support/protobuf-frames.ts';
import { randomObject } from '../../support/random-objects.ts';
import { budgetBytes, deploymentBytes, quotaBytes, reviewBytes } from '../../support/protobuf-bodies.ts';

describe('protobuf body', () => {
  it('keeps zeros of pointer fields and drops zeros that mean absent', () => {
    expect(decodeProtobuf(deploymentBytes)).toEqual({
      kind: 'Deployment',
      apiVersion: 'apps/v1',
      metadata: { name: 'web', namespace: 'default', labels: { app: 'web' } },
      spec: {
        replicas: 0,
        selector: { matchLabels: { app: 'web' } },
        strategy: {},
        template: {
          metadata: { labels: { app: 'web' } },
          spec: { containers: [{ name: 'nginx', image: 'nginx', ports: [{ containerPort: 80 }], resources: {} }] },
        },
      },
      status: {},
    });
  });

  it('decodes quantities, int-or-string values and kinds of other groups', () => {
    expect(decodeProtobuf(quotaBytes)).toMatchObject({ spec: { hard: { cpu: '1', memory: '1Gi' } } });
    expect(decodeProtobuf(budgetBytes)).toMatchObject({
      kind: 'PodDisruptionBudget',
      spec: { minAvailable: '50%', selector: { matchLabels: { app: 'web' } } },
    });
    expect(decodeProtobuf(reviewBytes)).toMatchObject({
      apiVersion: 'authorization.k8s.io/v1',
      spec: { resourceAttributes: { verb: 'list', resource: 'pods', namespace: 'default' } },
    });
  });

  it('is rejected without a crash if it is malformed', () => {
    for (const body of [
      Buffer.alloc(0),
      Buffer.from('k8s'),
      Buffer.from('k8s\0'),
      deploymentBytes.subarray(0, 100),
      Buffer.concat([deploymentBytes.subarray(0, 60), Buffer.alloc(60, 0xff)]),
    ]) {
      expect(() => decodeProtobuf(body)).toThrow(StatusError);
    }
    fc.assert(
      fc.property(fc.nat(deploymentBytes.length - 1), fc.integer({ min: 0, max: 255 }), (at, value) => {
        const body = Buffer.from(deploymentBytes);
        body[at] = value;
        try {
          decodeProtobuf(body);
        } catch (error) {
          expect(error).toBeInstanceOf(StatusError);
        }
      }),
    );
  });
});

describe('protobuf of every kind', () => {
  const named = kinds.map(({ group, version, kind }) => ({ apiVersion: apiVersionOf({ group, version }), kind }));
  it.each(named)('decodes $apiVersion $kind to the encoded object', ({ apiVersion, kind }) => {
    fc.assert(
      fc.property(fc.nat(), (seed) => {
        const object = randomObject(apiVersion, kind, seed);
        const again = decodeProtobuf(enveloped(object));
        if (!jsonEqual(again, object)) expect(again).toEqual(object);
      }),
      { numRuns: 4, seed: 136 },
    );
  });

  it('decodes the items of lists', () => {
    for (const { apiVersion, kind } of named) {
      const list = messageOf(apiVersion, `${kind}List`);
      if (list === undefined) continue;
      expect([list.byName.get('metadata')?.number, list.byName.get('items')?.number], `${apiVersion} ${kind}`).toEqual([1, 2]);
    }
  });

  it('keeps zeros of fields that JSON always contains', () => {
    const status = { name: 'a', ready: false, restartCount: 0, image: '', imageID: '', state: {}, lastState: {} };
    const pod = { kind: 'Pod', apiVersion: 'v1', status: { containerStatuses: [status], observedGeneration: 0 } } as KubeObject;
    expect(decodeProtobuf(enveloped(pod))).toEqual({ kind: 'Pod', apiVersion: 'v1', status: { containerStatuses: [status] } });
  });

  it('limits the nesting of raw values', () => {
    let bytes = enveloped({ kind: 'ControllerRevision', apiVersion: 'apps/v1', revision: 1 } as KubeObject);
    for (let depth = 0; depth < 300; depth++) bytes = wrapped('apps/v1', 'ControllerRevision', delimited(2, delimited(1, bytes)));
    expect(() => decodeProtobuf(bytes)).toThrow('nesting too deep');
  });
});

function delimited(number: number, bytes: Buffer): Buffer {
  const head = [(number << 3) | 2];
  let rest = bytes.length;
  for (; rest > 127; rest >>>= 7) head.push((rest & 127) | 128);
  return Buffer.concat([Buffer.from([...head, rest]), bytes]);
}

const folder = fileURLToPath(new URL('../../../../../../shared/spec/roundtrip-v1.36/', import.meta.url));
const samples = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.pb')) : [];
/** An object without kind, whose envelope has no type metadata. */
const event = { apiVersion: 'v1', kind: 'WatchEvent' };
describe.skipIf(samples.length === 0)('protobuf of every sample', () => {
  it.each(samples)('%s: protobuf and JSON have the same meaning', (name) => {
    const json = JSON.parse(readFileSync(`${folder}${name.replace(/\.pb$/, '.json')}`, 'utf8')) as KubeObject;
    const object = name === 'core.v1.WatchEvent.pb' ? { ...event, ...json } : json;
    const decoded = decodeProtobuf(readFileSync(`${folder}${name}`), event);
    if (!jsonEqual(decoded, object)) expect(decoded).toEqual(object);
    const again = decodeProtobuf(enveloped(object));
    if (!jsonEqual(again, object)) expect(again).toEqual(object);
  });
});

it('decodes evictions of policy/v1beta1, which older clients send', () => {
  const eviction = { kind: 'Eviction', apiVersion: 'policy/v1', metadata: { name: 'a' }, deleteOptions: { gracePeriodSeconds: 3 } };
  const older = Buffer.from(enveloped(eviction).toString('latin1').replace('\n\x15\n\tpolicy/v1', '\n\x1a\n\x0epolicy/v1beta1'), 'latin1');
  expect(decodeProtobuf(older)).toEqual({ ...eviction, apiVersion: 'policy/v1beta1' });
});
