import { request } from 'node:https';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openKeys } from '@oarlock/cluster/pki/keys';
import { silentLogger } from '@oarlock/primitives/logger';
import { allow, deny, type AdmissionPlugin } from '@oarlock/spi/admission';
import { ReviewServer } from '@oarlock/webhook-server/review-server';
import { reviewAccess, reviewAdmission, reviewToken, ReviewError } from '@oarlock/webhook-server/reviews';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const plugin: AdmissionPlugin = {
  matches: [{ resources: ['deployments.apps', 'pods/exec'], operations: ['CREATE', 'UPDATE', 'CONNECT'] }],
  mutate: ({ object, warn, annotate }) => {
    if (object === undefined || object.metadata?.labels?.['team'] !== undefined) return object ?? allow;
    warn('a default team label was set');
    annotate('teams.example.com/team', 'blue');
    return { ...object, metadata: { ...object.metadata, labels: { team: 'blue' } } };
  },
  validate: ({ identity, operation, old }) => {
    if (identity.name === 'broken') throw new Error('it is broken');
    if (operation === 'CONNECT') return deny('connections are denied', { reason: 'Conflict' });
    return old?.metadata?.labels?.['keep'] === undefined ? allow : deny('must stay', { reason: 'Invalid', field: 'metadata.labels' });
  },
};
const reviewOf = (more: object = {}) => ({
  apiVersion: 'admission.k8s.io/v1',
  kind: 'AdmissionReview',
  request: {
    uid: '7',
    operation: 'CREATE',
    resource: { group: 'apps', version: 'v1', resource: 'deployments' },
    kind: { group: 'apps', version: 'v1', kind: 'Deployment' },
    namespace: 'a',
    name: 'web',
    object: { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'web' } },
    oldObject: null,
    options: null,
    userInfo: { username: 'ada', groups: ['a'], extra: { scopes: ['x'] } },
    ...more,
  },
});
const responseOf = async (phase: 'mutate' | 'validate', more?: object) =>
  ((await reviewAdmission(plugin, phase, reviewOf(more))) as { readonly response: Readonly<Record<string, unknown>> }).response;

describe('AdmissionReview', () => {
  it('is answered with a JSON patch, warnings and annotations', async () => {
    const { patch, ...rest } = await responseOf('mutate');
    expect(rest).toEqual({
      uid: '7',
      allowed: true,
      patchType: 'JSONPatch',
      warnings: ['a default team label was set'],
      auditAnnotations: { team: 'blue' },
    });
    expect(JSON.parse(Buffer.from(String(patch), 'base64').toString())).toEqual([
      { op: 'add', path: '/metadata/labels', value: { team: 'blue' } },
    ]);
  });

  it('is answered with a status if the request is denied', async () => {
    expect(await responseOf('validate', { operation: 'UPDATE', oldObject: { metadata: { labels: { keep: '' } } } })).toEqual({
      uid: '7',
      allowed: false,
      status: {
        status: 'Failure',
        code: 422,
        reason: 'Invalid',
        message: 'metadata.labels: must stay',
        details: { causes: [{ field: 'metadata.labels', message: 'must stay' }] },
      },
    });
    const exec = { operation: 'CONNECT', resource: { group: '', version: 'v1', resource: 'pods' }, subResource: 'exec' };
    expect(await responseOf('validate', exec)).toMatchObject({ allowed: false, status: { code: 409, message: 'connections are denied' } });
  });

  it("is allowed if the plugin's rules do not match", async () => {
    expect(await responseOf('mutate', { resource: { group: '', version: 'v1', resource: 'configmaps' } })).toEqual({
      uid: '7',
      allowed: true,
    });
    expect(await responseOf('validate', { operation: 'DELETE', object: null })).toEqual({ uid: '7', allowed: true });
  });

  it('is rejected if it is not an AdmissionReview', async () => {
    await expect(reviewAdmission(plugin, 'mutate', { kind: 'Pod' })).rejects.toThrow(ReviewError);
    await expect(reviewAdmission(plugin, 'mutate', undefined)).rejects.toThrow('expected a AdmissionReview');
  });
});

it('TokenReview is answered', async () => {
  const review = (token: string) => ({ apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token, audiences: ['api'] } });
  const authenticator = {
    authenticate: ({ bearerToken }: { readonly bearerToken?: string }) =>
      bearerToken === 'good'
        ? { outcome: 'authenticated' as const, identity: { name: 'ada', groups: ['a'], extra: { x: ['y'] } } }
        : { outcome: 'rejected' as const, reason: 'unknown' },
  };
  expect(await reviewToken(authenticator, review('good'))).toMatchObject({
    kind: 'TokenReview',
    status: { authenticated: true, user: { username: 'ada', groups: ['a'], extra: { x: ['y'] } }, audiences: ['api'] },
  });
  expect(await reviewToken(authenticator, review('bad'))).toMatchObject({ status: { authenticated: false, error: 'unknown' } });
});

it('SubjectAccessReview is answered', async () => {
  const review = (spec: object) => ({ apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec: { user: 'ada', ...spec } });
  const asked: unknown[] = [];
  const authorizer = {
    authorize: (attributes: object) => {
      asked.push(attributes);
      return 'path' in attributes ? { decision: 'deny' as const, reason: 'no paths' } : { decision: 'allow' as const, reason: 'it may' };
    },
  };
  const resourceAttributes = { verb: 'get', group: 'apps', resource: 'deployments', namespace: 'a', name: 'web' };
  expect(await reviewAccess(authorizer, review({ resourceAttributes }))).toMatchObject({ status: { allowed: true, reason: 'it may' } });
  expect(asked[0]).toEqual({
    ...resourceAttributes,
    kind: 'resource',
    identity: { name: 'ada', groups: [] },
    version: '',
    subresource: '',
  });
  const nonResourceAttributes = { verb: 'get', path: '/metrics' };
  expect(await reviewAccess(authorizer, review({ nonResourceAttributes }))).toMatchObject({ status: { allowed: false, denied: true } });
});

describe('review server', () => {
  let directory: string;
  let server: ReviewServer;
  let port: number;
  let ca: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'review-server-'));
    const { keys } = await openKeys(directory, 'https://nobody');
    const { certificate, key } = await keys.issue({ commonName: 'webhook', dnsNames: ['localhost'], usages: ['server'] });
    ca = keys.caBundle;
    const answers = new Map([['/validate', (review: unknown) => reviewAdmission(plugin, 'validate', review)]]);
    server = new ReviewServer({ port: 0, address: '127.0.0.1', certificate, key, handlers: answers, log: silentLogger });
    port = await server.start();
  });
  afterAll(async () => {
    await server.stop();
    await rm(directory, { recursive: true });
  });

  const ask = (method: string, path: string, body?: string): Promise<readonly [number, string]> =>
    new Promise((resolve, reject) => {
      const sent = request({ host: '127.0.0.1', servername: 'localhost', port, ca, method, path, agent: false }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk;
        });
        response.on('end', () => resolve([response.statusCode ?? 0, text.trim()]));
      });
      sent.on('error', reject);
      sent.end(body);
    });

  it('answers reviews, and reports errors', async () => {
    const [code, text] = await ask('POST', '/validate?timeout=10s', JSON.stringify(reviewOf()));
    expect([code, JSON.parse(text)]).toMatchObject([200, { response: { uid: '7', allowed: true } }]);
    expect(await ask('POST', '/validate', '{')).toEqual([400, 'the body is not JSON']);
    expect((await ask('POST', '/validate', '{"kind":"Pod"}'))[0]).toBe(400);
    expect(await ask('POST', '/validate', JSON.stringify(reviewOf({ userInfo: { username: 'broken' } })))).toEqual([500, 'it is broken']);
    expect((await ask('GET', '/validate'))[0]).toBe(405);
    expect((await ask('POST', '/mutate', '{}'))[0]).toBe(404);
    expect((await ask('POST', '/validate', 'x'.repeat(9 * 1024 * 1024)))[0]).toBe(413);
  });

  it('is healthy, and ready until it drains', async () => {
    expect(await ask('GET', '/healthz')).toEqual([200, 'ok']);
    expect(await ask('GET', '/readyz')).toEqual([200, 'ok']);
    server.drain();
    expect((await ask('GET', '/readyz'))[0]).toBe(503);
    expect((await ask('POST', '/validate', JSON.stringify(reviewOf())))[0]).toBe(200);
  });
});
