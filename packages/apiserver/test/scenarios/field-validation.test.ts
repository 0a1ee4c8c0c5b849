import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configMap, pod, rejectionOf, TestServer } from '../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
  await server.create('pods', pod('p'));
});
afterEach(() => server.stop());

const patch = (body: unknown, fieldValidation: string, patchType: 'merge' | 'strategic' | 'json') =>
  server.handle('patch', 'pods', { namespace: 'default', name: 'p', body, patchType, query: { fieldValidation } });

describe('[sig-api-machinery] FieldValidation should detect unknown and duplicate fields of a typed object', () => {
  const body = { metadata: { odd: '1' }, spec: { containers: [{ name: 'main', image: 'j', wrong: true }] } };

  it('rejects patches with unknown fields under Strict', async () => {
    for (const type of ['merge', 'strategic'] as const) {
      const { status } = await rejectionOf(patch(body, 'Strict', type));
      expect(status).toMatchObject({ code: 422, reason: 'Invalid' });
      expect(status.message).toContain('strict decoding error: ');
      expect(status.message).toContain('unknown field "metadata.odd"');
      expect(status.message).toContain('unknown field "spec.containers[0].wrong"');
    }
    expect((await rejectionOf(patch({ spec: { odd: [1, 'x'] } }, 'Strict', 'strategic'))).status.message).toBe(
      ' "" is invalid: patch: Invalid value: "map[spec:map[odd:[1 x]]]": strict decoding error: unknown field "spec.odd"',
    );
    const operations = [{ op: 'add', path: '/spec/odd', value: 1 }];
    expect((await rejectionOf(patch(operations, 'Strict', 'json'))).status.message).toContain('unknown field "spec.odd"');
    expect((await server.get('pods', 'p')).metadata?.resourceVersion).toBe('1');
  });

  it('warns about them or ignores them, as requested', async () => {
    expect(await patch(body, 'Warn', 'merge')).toMatchObject({
      warnings: ['unknown field "metadata.odd"', 'unknown field "spec.containers[0].wrong"'],
    });
    expect(await patch(body, 'Ignore', 'strategic')).toMatchObject({ warnings: [] });
    expect(await patch({ metadata: { labels: { a: 'b' } } }, 'Strict', 'merge')).toMatchObject({ warnings: [] });
  });

  it('is validated itself', async () => {
    const odd = server.handle('create', 'configmaps', {
      namespace: 'default',
      body: configMap('a'),
      query: { fieldValidation: 'Sometimes' },
    });
    expect((await rejectionOf(odd)).status.message).toContain('fieldValidation: Unsupported value: "Sometimes"');
  });
});
