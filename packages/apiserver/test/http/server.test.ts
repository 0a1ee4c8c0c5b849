import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { configMap } from './fake-pipeline.ts';
import { startServer, type TestServer } from './start-server.ts';

let server: TestServer;
beforeAll(async () => { server = await startServer(); });
afterAll(() => server.stop());

describe.each(['http1', 'http2'] as const)('over %s', (protocol) => {
  it('answers an object', async () => {
    server.pipeline.object(configMap('a', { data: { x: 'ü' } }));
    const answer = await server[protocol]('GET', '/api/v1/namespaces/default/configmaps/a');
    expect(answer.code).toBe(200);
    expect(answer.headers['content-type']).toBe('application/json');
    expect(answer.headers['cache-control']).toBe('no-cache, private');
    expect(answer.headers['audit-id']).toMatch(/^[0-9a-f-]{36}$/);
    expect(answer.headers['content-length']).toBe(String(answer.bytes.length));
    expect(answer.json()).toMatchObject({ kind: 'ConfigMap', data: { x: 'ü' } });
    expect(server.pipeline.requests.at(-1)).toMatchObject({ verb: 'get', namespace: 'default', name: 'a', subresource: '', identity: { name: 'system:anonymous' } });
  });
});
