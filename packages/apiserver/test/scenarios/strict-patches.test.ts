import { afterEach, describe, expect, it } from 'vitest';
import type { Kind } from '@oarlock/api/kinds';
import type { Resource } from '@oarlock/api/resource';
import type { PatchType } from '@oarlock/spi/client';
import { decodeRequestBody } from '../../src/http/request-body.ts';
import type { Query } from '../../src/http/path.ts';
import type { Route } from '../../src/http/routes.ts';
import { publishedSchemaOf } from '../../src/custom-resources/published-kind.ts';
import { custom, definition, establish, startServer, stopServers } from '../support/custom-resource-definitions.ts';
import { pod, rejectionOf, resourceNamed, type TestServer } from '../support/pipeline-fixture.ts';

afterEach(stopServers);

const contentTypes: Readonly<Record<PatchType, string>> = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
};
interface Sending {
  readonly type: PatchType;
  readonly text: string;
  readonly level?: string;
}
/** An object that a test patches with the text of a request. */
interface Patched {
  readonly server: TestServer;
  readonly resource: Resource;
  readonly kind: Kind;
}

async function send({ server, resource, kind }: Patched, { type, text, level = 'Strict' }: Sending) {
  const query = { first: { fieldValidation: level, ...(type === 'apply' && { fieldManager: 'test', force: 'true' }) } };
  const body = decodeRequestBody(Buffer.from(text), {
    route: { verb: 'patch', kind } as Route,
    query: query as unknown as Query,
    contentType: contentTypes[type],
    protobuf: undefined,
    warn(message) {
      throw new Error(`a patch is checked when it is applied: ${message}`);
    },
  });
  const response = await server.handle('patch', resource, { namespace: 'default', name: 'a', body, patchType: type, query: query.first });
  return response.kind === 'object' ? response.warnings : [];
}

const kindOf = (server: TestServer, wanted: (kind: Kind) => boolean) => server.pipeline.servedKinds().find(wanted) as Kind;

async function storedPod(): Promise<Patched> {
  const server = await startServer();
  await server.create('pods', pod('a'));
  return { server, resource: resourceNamed('pods'), kind: kindOf(server, ({ kind, group }) => kind === 'Pod' && group === '') };
}

async function storedWidget(): Promise<Patched> {
  const server = await startServer();
  const schema = {
    type: 'object',
    properties: {
      spec: {
        type: 'object',
        properties: {
          known: { type: 'string' },
          list: { type: 'array', items: { type: 'object', properties: { a: { type: 'string' } } } },
        },
      },
    },
  };
  const resource = await establish(server, definition({ schema }));
  await server.create(resource, custom(resource, 'a', { spec: { known: 'x' } }));
  return { server, resource, kind: kindOf(server, (kind) => publishedSchemaOf(kind) !== undefined) };
}

const faulty =
  '{"spec":{"unknown1":1,"twice":1,"twice":2,"hostNetwork":true,"hostNetwork":false,"containers":[{"name":"main","image":"i","odd":1,"image":"j"}]}}';
const duplicates = ['duplicate field "spec.twice"', 'duplicate field "spec.hostNetwork"', 'duplicate field "spec.containers[0].image"'];
const unknown = ['unknown field "spec.containers[0].odd"', 'unknown field "spec.twice"', 'unknown field "spec.unknown1"'];
const operations =
  '[{"op":"add","path":"/spec/unknown1","value":1,"foo":"bar"},{"op":"add","path":"/spec/unknown2","path":"/spec/aside","value":{"b":1,"a":2}},{"op":"add","path":"/metadata/odd","value":1}]';

describe('a patch with duplicate and unknown fields lists both in upstream’s order', () => {
  it.each<readonly [PatchType, string, readonly string[]]>([
    ['merge', faulty, [...duplicates, ...unknown]],
    ['strategic', faulty, [...duplicates, ...unknown]],
    [
      'json',
      operations,
      [
        'json patch unknown field "[0].foo"',
        'json patch duplicate field "[1].path"',
        'unknown field "metadata.odd"',
        'unknown field "spec.aside"',
        'unknown field "spec.unknown1"',
      ],
    ],
  ])('%s patch of a built-in kind', async (type, text, errors) => {
    const patched = await storedPod();
    const { status } = await rejectionOf(send(patched, { type, text }));
    expect(status).toMatchObject({ code: 422, reason: 'Invalid' });
    expect(status.message?.split('strict decoding error: ')[1]).toBe(errors.join(', '));
    expect(status.details?.causes).toEqual([
      { reason: 'FieldValueInvalid', field: 'patch', message: expect.stringMatching(/^Invalid value: "/) as string },
    ]);
    expect(await send(patched, { type, text, level: 'Warn' })).toEqual(errors);
    expect(await send(patched, { type, text, level: 'Ignore' })).toEqual([]);
  });

  it('a patch with duplicate fields alone', async () => {
    const patched = await storedPod();
    const text = '{"metadata":{"labels":{"a":"1","a":"2"}}}';
    const { status } = await rejectionOf(send(patched, { type: 'strategic', text }));
    expect(status.message).toBe(
      ' "" is invalid: patch: Invalid value: "map[metadata:map[labels:map[a:2]]]": strict decoding error: duplicate field "metadata.labels.a"',
    );
  });

  it.each<readonly [PatchType, string, readonly string[]]>([
    [
      'merge',
      '{"spec":{"twice":1,"twice":2,"list":[{"odd":1,"a":"1","a":"2"}]}}',
      [
        'duplicate field "spec.twice"',
        'duplicate field "spec.list[0].a"',
        'unknown field "spec.list[0].odd"',
        'unknown field "spec.twice"',
      ],
    ],
    [
      'json',
      '[{"op":"add","op":"add","path":"/spec/odd","value":1,"x":1}]',
      ['json patch duplicate field "[0].op"', 'json patch unknown field "[0].x"', 'unknown field "spec.odd"'],
    ],
  ])('%s patch of a custom resource', async (type, text, errors) => {
    const patched = await storedWidget();
    const { status } = await rejectionOf(send(patched, { type, text }));
    expect(status).toMatchObject({ code: 422, reason: 'Invalid' });
    expect(status.message).toMatch(/^ "" is invalid: patch: Invalid value: "\{\\"apiVersion\\":/);
    expect(status.message?.split('strict decoding error: ')[1]).toBe(errors.join(', '));
    expect(await send(patched, { type, text, level: 'Warn' })).toEqual(errors);
  });

  const configuration = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{\n"a":"1",\n"a":"2"}}}';
  const yaml = 'apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    a: "1"\n    a: "2"\n';
  it.each([
    ['JSON', configuration, 3],
    ['YAML', yaml, 7],
  ])('an apply configuration in %s', async (_, text, line) => {
    const patched = await storedPod();
    const { status } = await rejectionOf(send(patched, { type: 'apply', text }));
    expect(status).toMatchObject({ code: 400, reason: 'BadRequest' });
    expect(status.message).toBe(
      `error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line ${line}: key "a" already set in map`,
    );
    expect(await send(patched, { type: 'apply', text, level: 'Warn' })).toEqual([`line ${line}: key "a" already set in map`]);
  });

  it('an apply configuration with an undeclared field, which is rejected before duplicate fields', async () => {
    const patched = await storedPod();
    const text = configuration.replace('"name"', '"odd":1,"name"');
    expect((await rejectionOf(send(patched, { type: 'apply', text }))).status.message).toContain(
      '.metadata.odd: field not declared in schema',
    );
  });

  it('does not quote the object of a confidential kind', async () => {
    const server = await startServer();
    await server.create('secrets', { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'a', namespace: 'default' } });
    const patched = { server, resource: resourceNamed('secrets'), kind: kindOf(server, ({ kind }) => kind === 'Secret') };
    const text = '{"stringData":{"a":"hidden","a":"hidden"}}';
    expect((await rejectionOf(send(patched, { type: 'merge', text }))).status.message).not.toContain('hidden');
  });
});
