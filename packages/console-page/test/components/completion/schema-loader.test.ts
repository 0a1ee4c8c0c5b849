import { expect, it } from 'vitest';
import { SchemaLoader } from '../../../src/components/completion/schema-loader.ts';
import { fakeClient } from '../../api/support.ts';

const index = {
  paths: {
    'apis/apps/v1': { serverRelativeURL: '/openapi/v3/apis/apps/v1?hash=1' },
    'api/v1': { serverRelativeURL: '//other.example.com/openapi' },
  },
};
const document = {
  components: { schemas: { D: { type: 'object', 'x-kubernetes-group-version-kind': [{ group: 'apps', version: 'v1', kind: 'D' }] } } },
};

it('loads the schemas of a version once', async () => {
  const { client, requests } = fakeClient([{ json: index }, { json: document }]);
  const loader = new SchemaLoader(client);
  const [schemas, again] = await Promise.all([loader.load('apps/v1'), loader.load('apps/v1')]);
  expect(schemas?.ofKind('apps/v1', 'D')).toMatchObject({ type: 'object' });
  expect(again).toBe(schemas);
  expect(requests.map(({ url }) => url)).toEqual(['/openapi/v3', '/openapi/v3/apis/apps/v1?hash=1']);
});

it('has no schemas of versions that the server does not describe, and follows no address of another server', async () => {
  const { client, requests } = fakeClient([{ json: index }]);
  const loader = new SchemaLoader(client);
  expect(await loader.load('example.com/v1')).toBeUndefined();
  expect(await loader.load('v1')).toBeUndefined();
  expect(requests).toHaveLength(1);
});

it('sends a failed request again when it is needed again', async () => {
  const { client } = fakeClient([{ fails: 'offline' }, { json: index }, { json: { message: 'busy' }, status: 503 }, { json: document }]);
  const loader = new SchemaLoader(client);
  await expect(loader.load('apps/v1')).rejects.toThrow('offline');
  await expect(loader.load('apps/v1')).rejects.toThrow('busy');
  expect((await loader.load('apps/v1'))?.ofKind('apps/v1', 'D')).toBeDefined();
});
