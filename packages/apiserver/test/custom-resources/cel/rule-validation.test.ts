import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { afterEach, describe, expect, it } from 'vitest';
import { resourceNamed, settlePromises, type TestServer } from '../../support/pipeline-fixture.ts';
import { custom, definition, establish, startServer, stopServers } from '../../support/custom-resource-definitions.ts';

// the test runs the garbage collector, so the heap size depends neither on time nor on load
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

afterEach(stopServers);

const text: JSONSchemaProps = { type: 'string', maxLength: 256 };
/** About 20 KiB, as operators have them: structs, map lists, defaults, patterns, descriptions. */
const large = (fields: number): JSONSchemaProps => ({
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      properties: Object.fromEntries(
        Array.from({ length: fields }, (_, i) => [
          `field${i}`,
          {
            type: 'object',
            description: `Part ${i} of the object, with its configuration and its lifecycle.`,
            properties: {
              name: { ...text, pattern: '^[a-z0-9-]+$' },
              replicas: { type: 'integer', format: 'int32', minimum: 0, default: 1 },
              labels: { type: 'object', additionalProperties: text },
              ports: {
                type: 'array',
                'x-kubernetes-list-type': 'map',
                'x-kubernetes-list-map-keys': ['name'],
                items: { type: 'object', required: ['name'], properties: { name: text, port: { type: 'integer' } } },
              },
            },
          } satisfies JSONSchemaProps,
        ]),
      ),
    },
    status: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
  },
});

async function heap(): Promise<number> {
  await settlePromises();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

describe('custom resource definition', () => {
  it('uses less than a megabyte of heap, unused and used', async () => {
    const server = await startServer();
    const count = 200;
    const schema = large(40);
    const kinds: Resource[] = [];
    const make = async (from: number, to: number) => {
      for (let i = from; i < to; i++) {
        const own = JSON.parse(JSON.stringify(schema)) as JSONSchemaProps;
        const created = definition({
          kind: `Thing${i}`,
          group: 'cost.example.com',
          schema: own,
          version: { subresources: { status: {} } },
        });
        kinds.push(await establish(server, created));
      }
    };
    await make(0, 5);
    const empty = await heap();
    await make(5, 5 + count);
    const unused = await heap();
    for (const kind of kinds) {
      await server.create(kind, custom(kind, 'a', { spec: { field1: { name: 'a', ports: [{ name: 'http', port: 80 }] } } }), {
        namespace: 'default',
      });
      await server.list(kind);
    }
    const used = await heap();
    console.log('KiB', (unused - empty) / count / 1024, (used - empty) / count / 1024, JSON.stringify(schema).length);
    expect((unused - empty) / count / 1024).toBeLessThan(256);
    expect((used - empty) / count / 1024).toBeLessThan(512);
  });
});

describe('custom resource performance', () => {
  /** Returns the CPU microseconds of `count` creates, updates, reads and lists of ten. */
  async function cost(server: TestServer, of: Resource, object: KubeObject, round: string, count: number): Promise<number> {
    const options = { namespace: 'default' };
    const began = process.cpuUsage();
    for (let i = 0; i < count; i++) {
      const name = `${round}-${i}`;
      const created = await server.create(of, { ...object, metadata: { name, labels: { app: 'web' } } }, options);
      await server.update(of, { ...created, metadata: { ...created.metadata, annotations: { round } } }, options);
      await server.patch(of, name, { metadata: { labels: { tier: 'a' } } }, options);
      await server.get(of, name, options);
      if (i % 10 === 0) await server.list(of, { limit: '10' }, options);
    }
    const { user, system } = process.cpuUsage(began);
    return (user + system) / count;
  }

  it('is close to that of a built-in kind of the same form', async () => {
    const server = await startServer();
    const container = { type: 'object', required: ['name'], properties: { name: text, image: text, args: { type: 'array', items: text } } };
    const kind = await establish(
      server,
      definition({
        kind: 'Rollout',
        schema: {
          type: 'object',
          properties: {
            spec: {
              type: 'object',
              properties: {
                replicas: { type: 'integer', default: 1 },
                selector: { type: 'object', properties: { matchLabels: { type: 'object', additionalProperties: text } } },
                template: {
                  type: 'object',
                  properties: {
                    metadata: { type: 'object', properties: { labels: { type: 'object', additionalProperties: text } } },
                    spec: {
                      type: 'object',
                      properties: {
                        containers: {
                          type: 'array',
                          'x-kubernetes-list-type': 'map',
                          'x-kubernetes-list-map-keys': ['name'],
                          items: container as JSONSchemaProps,
                        },
                      },
                    },
                  },
                },
              },
            },
          },
        },
      }),
    );
    const labels = { app: 'web' };
    const containers = ['a', 'b'].map((name) => ({ name, image: 'registry.example.com/web:1', args: ['--one', '--two'] }));
    const spec = { replicas: 2, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } };
    const deployments = resourceNamed('deployments.apps');
    const builtIn = { apiVersion: 'apps/v1', kind: 'Deployment', spec };
    const own = custom(kind, '', { spec });
    const ratios: number[] = [];
    await cost(server, deployments, builtIn, 'warm', 150);
    await cost(server, kind, own, 'warm', 150);
    // both run side by side so that other load affects both; one disturbed round is ignored
    for (let round = 0; round < 5; round++) {
      const first = await cost(server, deployments, builtIn, `r${round}`, 100);
      ratios.push((await cost(server, kind, own, `r${round}`, 100)) / first);
    }
    console.log('ratios', ratios);
    expect(Math.min(...ratios)).toBeLessThan(1.5);
  });
});
