import { describe, expect, it } from 'vitest';
import { ApiClient } from '../../../../src/api/client.ts';
import { compareRules, explainAccess } from '../../../../src/views/why/access/explain-access.ts';

const request = { verb: 'list', target: 'secrets', namespace: '', name: '', user: '', groups: '' };

/** A server with these answers by the last segment of the path, and the requests that it received. */
function server(answers: Readonly<Record<string, readonly [number, object]>>) {
  const sent: { readonly path: string; readonly body: unknown; readonly user: string | null }[] = [];
  const client = new ApiClient(
    async (url, { body, headers }) => {
      sent.push({ path: url, body: JSON.parse(String(body)), user: new Headers(headers).get('Impersonate-User') });
      const [status, answer] = answers[url.slice(url.lastIndexOf('/') + 1)] ?? [404, {}];
      return new Response(JSON.stringify(answer), { status });
    },
    () => 'key',
  );
  return { client, sent };
}

describe('compareRules', () => {
  it('lists the nearest rule first', () => {
    const far = { verbs: ['get'], apiGroups: ['apps'], resources: ['deployments'] };
    const near = { verbs: ['get'], apiGroups: [''], resources: ['secrets'] };
    expect(compareRules([far, near], { verb: 'list', group: '', resource: 'secrets' })).toEqual([
      { rule: near, mismatches: ['verbs'] },
      { rule: far, mismatches: ['verbs', 'apiGroups', 'resources'] },
    ]);
  });
});

describe('explainAccess', () => {
  const denied = { status: { allowed: false, reason: '' } };
  const self = { user: 'ada', groups: ['devs'] };
  const { signal } = new AbortController();

  it('reviews the own rights, and compares the rules', async () => {
    const rule = { verbs: ['get'], apiGroups: [''], resources: ['secrets'] };
    const { client, sent } = server({
      selfsubjectaccessreviews: [201, denied],
      selfsubjectrulesreviews: [201, { status: { resourceRules: [rule], incomplete: true } }],
      authorization: [403, { message: 'forbidden' }],
    });
    expect(await explainAccess({ client, request, self, signal })).toEqual({
      allowed: false,
      reason: '',
      rules: [{ rule, mismatches: ['verbs'] }],
      incomplete: true,
    });
    expect(sent.map(({ user }) => user)).toEqual([null, null, null]);
    expect(sent[1]?.body).toMatchObject({ spec: { namespace: '-' } });
  });

  it('impersonates another user, and shows the decision of admission', async () => {
    const { client, sent } = server({
      selfsubjectaccessreviews: [201, { status: { allowed: true, reason: 'RBAC: allowed by x' } }],
      selfsubjectrulesreviews: [201, { status: {} }],
      authorization: [
        200,
        {
          allowed: false,
          steps: [
            { plugin: 'authz-rbac', decision: 'allow' },
            { plugin: 'quota', decision: 'deny', because: 'full' },
          ],
        },
      ],
    });
    const answer = await explainAccess({
      client,
      request: { ...request, user: 'bob', groups: 'a, b' },
      self,
      object: { kind: 'Secret' },
      signal,
    });
    expect(answer).toMatchObject({ allowed: false, reason: 'RBAC: allowed by x', steps: [{ decision: 'allow' }, { because: 'full' }] });
    expect(sent.map(({ user }) => user)).toEqual(['bob', 'bob', null]);
    expect(sent[2]?.body).toMatchObject({ user: 'bob', groups: ['a', 'b', 'system:authenticated'], object: { kind: 'Secret' } });
  });
});
