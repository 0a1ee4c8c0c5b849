import { configMaps } from '@oarlock/api/resources';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { authenticated, abstained, Authn, rejected } from '@oarlock/spi/authn';
import { Authz, noOpinion } from '@oarlock/spi/authz';
import { Client, Informers } from '@oarlock/spi/client';
import { configMap, deployment, namespace, object, pod } from '@oarlock/testing/objects';
import { testAdmission } from '@oarlock/testing/test-admission';
import { testAuthn } from '@oarlock/testing/test-authn';
import { testAuthz } from '@oarlock/testing/test-authz';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

const owners = Admission.plugin({
  id: 'admission-owners',
  config: z.strictObject({ team: z.string() }),
  needs: { client: Client, informers: Informers },
  create: ({ config, client }) => ({
    matches: [{ resources: ['pods', 'deployments.apps', 'widgets.example.dev'], operations: ['CREATE', 'UPDATE', 'DELETE'] }],
    mutate(request) {
      const { object } = request;
      if (object === undefined || object.metadata?.labels?.['team'] !== undefined) return object ?? allow;
      request.warn('a default team label was set');
      request.annotate('team', config.team);
      return { ...object, metadata: { ...object.metadata, labels: { ...object.metadata?.labels, team: config.team } } };
    },
    async validate({ object, old, operation, identity }) {
      if (operation === 'DELETE' && old?.metadata?.labels?.['keep'] !== undefined) return deny('it is to be kept', { reason: 'Conflict' });
      if (object?.metadata?.labels?.['owner'] === undefined && operation !== 'DELETE')
        return deny(`${identity.name} did not set the owner label`);
      await client.get(configMaps, { namespace: 'default', name: 'owners' });
      return allow;
    },
  }),
});
const objects = [namespace(), configMap({ name: 'owners' })];

describe('testAdmission', () => {
  it("returns the result of a request, with the object's type", async () => {
    await using test = await testAdmission(owners, { team: 'blue' }, { objects });
    const created = await test.create(pod({ labels: { owner: 'ada' } }));
    expect(created.object.spec?.containers[0]?.image).toBe('nginx:1.27');
    expect(created).toMatchObject({
      allowed: true,
      matched: true,
      message: '',
      changes: ['+ metadata.labels.team "blue"'],
      patch: [{ op: 'add', path: '/metadata/labels/team', value: 'blue' }],
      warnings: ['a default team label was set'],
      annotations: { team: 'blue' },
    });
    expect(String(created)).toBe('admitted\n  + metadata.labels.team "blue"\n  warns: a default team label was set');
  });

  it('reports rejections with the messages that clients receive', async () => {
    await using test = await testAdmission(owners, { team: 'blue' }, { objects });
    const rejection = await test.create(deployment(), { user: 'bob' });
    expect(rejection.message).toBe('deployments.apps "web" is forbidden: bob did not set the owner label');
    expect(rejection.status?.code).toBe(403);
    expect(String(rejection)).toMatch(/^rejected with 403: deployments.apps "web" is forbidden/);
    const kept = await test.delete(pod({ labels: { keep: '' } }));
    expect(kept.message).toMatch(/it is to be kept/);
    expect(kept.status?.code).toBe(409);
    expect((await test.update(pod(), pod({ labels: { owner: 'ada' } }))).allowed).toBe(true);
  });

  it('reports requests that the plugin does not match, and supports kinds that are not built in', async () => {
    await using test = await testAdmission(owners, { team: 'blue' }, { objects });
    expect(String(await test.create(configMap()))).toBe('admitted: the plugin does not match the request');
    expect((await test.create(object('example.dev/v1', 'Widget', { labels: { owner: 'a' } }))).changes).toHaveLength(1);
  });

  it('throws exceptions of the plugin, and rejects a config as a cluster does', async () => {
    const broken = Admission.plugin({
      id: 'admission-broken',
      config: z.strictObject({}),
      create: () => ({
        matches: [{ resources: ['pods'], operations: ['CREATE'] }],
        validate: () => {
          throw new Error('broken');
        },
      }),
    });
    await using test = await testAdmission(broken);
    await expect(test.create(pod())).rejects.toThrow('broken');
    await expect(testAdmission(owners, { colour: 'blue' })).rejects.toThrow(/unknown key colour/);
  });
});

it('tests authenticators', async () => {
  const plugin = Authn.plugin({
    id: 'authn-test',
    config: z.strictObject({ token: z.string() }),
    create: ({ config }) => ({
      authenticate: ({ bearerToken }) =>
        bearerToken === undefined ? abstained : bearerToken === config.token ? authenticated({ name: 'ada', groups: [] }) : rejected('no'),
    }),
  });
  await using test = await testAuthn(plugin, { token: 'abc' });
  expect(await test.authenticate({ token: 'abc' })).toMatchObject({ outcome: 'authenticated', identity: { name: 'ada' } });
  expect(await test.authenticate({ token: 'x' })).toEqual({ outcome: 'rejected', reason: 'no' });
  expect((await test.authenticate({})).outcome).toBe('abstained');
});

it('tests authorizers', async () => {
  const plugin = Authz.plugin({
    id: 'authz-scales',
    config: z.strictObject({}),
    create: () => ({
      authorize: (asked) =>
        asked.kind === 'resource' && asked.group === 'apps' && asked.subresource === 'scale'
          ? { decision: 'allow', reason: 'a scale' }
          : noOpinion,
    }),
  });
  await using test = await testAuthz(plugin);
  expect(await test.can('ada', 'get', 'deployments.apps/scale', { namespace: 'a' })).toMatchObject({ allowed: true, reason: 'a scale' });
  expect((await test.can('ada', 'get', '/metrics')).allowed).toBe(false);
});
