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
      request.warn('a team was chosen');
      request.annotate('team', config.team);
      return { ...object, metadata: { ...object.metadata, labels: { ...object.metadata?.labels, team: config.team } } };
    },
    async validate({ object, old, operation, identity }) {
      if (operation === 'DELETE' && old?.metadata?.labels?.['keep'] !== undefined) return deny('it is to be kept', { reason: 'Conflict' });
      if (object?.metadata?.labels?.['owner'] === undefined && operation !== 'DELETE')
        return deny(`${identity.name} does not say who owns it`);
      await client.get(configMaps, { namespace: 'default', name: 'owners' });
      return allow;
    },
  }),
});
const objects = [namespace(), configMap({ name: 'owners' })];

describe('testAdmission', () => {
  it('says what became of a request, typed as the object', async () => {
    await using test = await testAdmission(owners, { team: 'blue' }, { objects });
    const made = await test.create(pod({ labels: { owner: 'ada' } }));
    expect(made.object.spec?.containers[0]?.image).toBe('nginx:1.27');
    expect(made).toMatchObject({
      allowed: true,
      matched: true,
      message: '',
      changes: ['+ metadata.labels.team "blue"'],
      patch: [{ op: 'add', path: '/metadata/labels/team', value: 'blue' }],
      warnings: ['a team was chosen'],
      annotations: { team: 'blue' },
    });
    expect(String(made)).toBe('admitted\n  + metadata.labels.team "blue"\n  warns: a team was chosen');
  });

  it('words refusals as a client reads them', async () => {
    await using test = await testAdmission(owners, { team: 'blue' }, { objects });
    const refused = await test.create(deployment(), { user: 'bob' });
    expect(refused.message).toBe('deployments.apps "web" is forbidden: bob does not say who owns it');
    expect(refused.status?.code).toBe(403);
    expect(String(refused)).toMatch(/^refused with 403: deployments.apps "web" is forbidden/);
    const kept = await test.delete(pod({ labels: { keep: '' } }));
    expect(kept.message).toMatch(/it is to be kept/);
    expect(kept.status?.code).toBe(409);
    expect((await test.update(pod(), pod({ labels: { owner: 'ada' } }))).allowed).toBe(true);
  });

  it('knows what the plugin is not asked about, and kinds that come from outside', async () => {
    await using test = await testAdmission(owners, { team: 'blue' }, { objects });
    expect(String(await test.create(configMap()))).toBe('admitted: the plugin is not asked');
    expect((await test.create(object('example.dev/v1', 'Widget', { labels: { owner: 'a' } }))).changes).toHaveLength(1);
  });

  it('throws what the plugin throws, and refuses a config as a cluster does', async () => {
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
