import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { jsonEqual } from '@oarlock/api/json';
import { protobufTable } from '@oarlock/api/generated/protobuf-table';
import { StatusError } from '@oarlock/api/status';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeProtobuf } from '../../src/negotiation-protobuf.ts';
import { pointersOf } from '../../src/negotiation-protobuf-pointers.ts';
import { budgetBytes, deploymentBytes, quotaBytes, reviewBytes } from './protobuf-bodies.ts';

describe('protobuf bodies', () => {
  it('keep zeros that were set and drop those that stand for nothing', () => {
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

  it('have quantities, numbers or text, and kinds of other groups', () => {
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

  it('are refused when they are broken, and never crash', () => {
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

  it('name only fields that there are', () => {
    const fields = new Map<string, Set<string>>();
    for (const text of Object.values(protobufTable)) {
      for (const [message, row] of Object.entries(JSON.parse(text) as Record<string, Record<string, string>>))
        fields.set(message, new Set([...(fields.get(message) ?? []), ...Object.keys(row)]));
    }
    for (const [message, known] of fields)
      for (const pointer of pointersOf(message)) expect(known, `${message}.${pointer}`).toContain(pointer);
  });
});

const folder = fileURLToPath(new URL('../../../../../shared/spec/roundtrip-v1.36/', import.meta.url));
const samples = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.pb')) : [];
/** Kinds that no server takes any more, and null values of maps. */
const elsewhere =
  /^(?:core\.v1\.WatchEvent|extensions\.v1beta1\.Ingress|networking\.k8s\.io\.v1beta1\.Ingress|policy\.v1(?:beta1)?\.PodDisruptionBudget)\.pb$/;
describe.skipIf(samples.length === 0)('samples of every kind', () => {
  it.each(samples.filter((name) => !elsewhere.test(name)))('%s means its JSON', (name) => {
    const json = JSON.parse(readFileSync(`${folder}${name.replace(/\.pb$/, '.json')}`, 'utf8')) as unknown;
    const decoded = decodeProtobuf(readFileSync(`${folder}${name}`));
    if (!jsonEqual(decoded, json)) expect(decoded).toEqual(json);
  });
});
