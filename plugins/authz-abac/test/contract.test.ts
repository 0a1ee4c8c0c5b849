import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz } from '@oarlock/spi/authz';
import { resourceAttributes, pathAttributes, authzContract, user } from '@oarlock/spi/authz/contract';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const policy = (spec: object) => JSON.stringify({ apiVersion: 'abac.authorization.kubernetes.io/v1beta1', kind: 'Policy', spec });
async function open(lines: readonly string[]) {
  const directory = await mkdtemp(join(tmpdir(), 'oarlock-abac-'));
  const file = join(directory, 'policy.jsonl');
  await writeFile(file, `# policies\n${lines.join('\n')}\n`);
  const host = new PluginHost().add({ plugin, config: { file } });
  const [authorizer] = host.get(Authz);
  if (authorizer === undefined) throw new Error('not created');
  await host.start();
  return { authorizer, dispose: () => rm(directory, { recursive: true }) };
}
const lines = [
  policy({ user: 'alice', namespace: '*', resource: '*', apiGroup: '*' }),
  policy({ user: 'kubelet', namespace: '*', resource: 'pods', readonly: true }),
  policy({ user: 'bob', group: 'devs', namespace: 'a', resource: 'pods' }),
  policy({ group: '*', readonly: true, nonResourcePath: '/healthz*' }),
];
const known = (name: string, ...groups: string[]) => user(name, ...groups, 'system:authenticated');

authzContract('authz-abac', async () => ({
  ...(await open(lines)),
  allowed: [
    resourceAttributes(known('alice'), 'delete', 'deployments.apps', 'x', 'web'),
    resourceAttributes(known('kubelet'), 'list', 'pods'),
    resourceAttributes(known('bob', 'devs'), 'create', 'pods', 'a'),
  ],
  noOpinion: [
    pathAttributes(known('alice'), 'get', '/metrics'),
    resourceAttributes(known('kubelet'), 'delete', 'pods', 'a', 'p'),
    resourceAttributes(known('kubelet'), 'list', 'pods.apps'),
    resourceAttributes(known('bob'), 'create', 'pods', 'a'),
    resourceAttributes(known('eve', 'devs'), 'create', 'pods', 'a'),
    resourceAttributes(known('bob', 'devs'), 'create', 'pods', 'b'),
    pathAttributes(user('system:anonymous', 'system:unauthenticated'), 'get', '/healthz'),
    pathAttributes(known('eve'), 'post', '/healthz'),
  ],
}));

describe('authz-abac', () => {
  it('matches every authenticated user with a star', async () => {
    const { authorizer, dispose } = await open(lines);
    expect(await authorizer.authorize(pathAttributes(known('eve'), 'get', '/healthz/ping'))).toMatchObject({
      decision: 'allow',
      reason: 'ABAC: policy 4',
    });
    await dispose();
  });
  it('lists the rules of a user', async () => {
    const { authorizer, dispose } = await open(lines);
    expect(await authorizer.rulesFor?.(known('kubelet'), 'a')).toEqual({
      resources: [{ verbs: ['get', 'list', 'watch'], apiGroups: [''], resources: ['pods'] }],
      paths: [{ verbs: ['get', 'list', 'watch'], nonResourceURLs: ['/healthz*'] }],
    });
    await dispose();
  });
  it('names the line of an invalid policy', async () => {
    await expect(open([policy({ user: 'a' }), '{"kind":"Policy"}'])).rejects.toThrow(/policy.jsonl:3: no policy/);
  });
});
