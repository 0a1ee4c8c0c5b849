import { mkdir, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildContext } from '../fixtures/context-image.ts';
import { dockerRegistryMissing, startDockerRegistry, type DockerRegistry } from '../fixtures/docker-registry.ts';
import { pauseImage } from '../fixtures/test-image.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { everyCombination, everythingIsNeeded, Machine } from '../harness/machine.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { root, runOarlock } from '../harness/oarlock.ts';
import { freePort } from '../harness/programs.ts';
import { untilValue } from '../harness/until.ts';

const reason = (await componentMissing.containerd()) ?? dockerRegistryMissing();
const example = (name: string) => join(root, 'examples', 'plugins', name, 'src', 'plugin.ts');
const copied = { namespace: 'default', name: 'settings', label: 'copy' };
const guests = `
import { abstained, Authn, authenticated } from '@oarlock/spi/authn';
import { z } from 'zod';
export default Authn.plugin({
  id: 'authn-guests',
  config: z.strictObject({ token: z.string() }),
  create: ({ config }) => ({ authenticate: ({ bearerToken }) => (bearerToken === config.token ? authenticated({ name: 'guest', groups: ['guests'] }) : abstained) }),
});
`;
const guestsAuthorizer = `
import { Authz, noOpinion } from '@oarlock/spi/authz';
import { z } from 'zod';
export default Authz.plugin({
  id: 'authz-guests',
  config: z.strictObject({}),
  create: () => ({
    authorize: ({ identity, verb }) => (identity.groups.includes('guests') && verb === 'list' ? { decision: 'allow', reason: 'guests look around' } : noOpinion),
  }),
});
`;

/** Builds what `oarlock plugins export` writes, pushes it to a registry, and runs it as pods of the cluster, which pull it. */
describe.skipIf(reason !== undefined && !everythingIsNeeded)(
  `exported plugins in pods${reason === undefined ? '' : ` (${reason})`}`,
  () => {
    const machine = Machine.use();
    let cluster: Cluster;
    let registry: DockerRegistry;
    const folders: Record<string, string> = {};

    interface ExportedPlugin {
      readonly name: string;
      readonly plugin: string;
      readonly config: object;
      readonly kind?: 'webhook' | 'controller' | 'scheduler';
    }
    const exportPlugin = async ({ name, plugin, config, kind = 'webhook' }: ExportedPlugin, ...more: string[]) => {
      const dir = machine.path(name);
      await mkdir(dir, { recursive: true });
      const configFile = join(dir, 'config.json');
      await writeFile(configFile, JSON.stringify(config));
      const out = join(dir, 'out');
      const image = `${registry.host}/${name}:1`;
      const { code, stderr } = await runOarlock([
        ...['plugins', 'export', `--${kind}`, plugin, '-o', out, '--config', configFile, '--image', image],
        ...more,
      ]);
      expect([code, stderr]).toEqual([0, '']);
      folders[name] = out;
      await registry.push(await buildContext(image, join(out, 'image')), `${name}:1`);
    };
    const asGuest = (path: string) =>
      new Promise<number>((resolve, reject) => {
        const headers = { authorization: 'Bearer let-me-in' };
        request(new URL(path, cluster.api.server), { ca: cluster.api.tls.ca, headers, agent: false }, (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        })
          .once('error', reject)
          .end();
      });

    afterAll(() => registry.stop());
    beforeAll(async () => {
      registry = await startDockerRegistry();
      const dir = machine.path('sources');
      await mkdir(dir, { recursive: true });
      const files = { authn: join(dir, 'authn-guests.ts'), authz: join(dir, 'authz-guests.ts') };
      await writeFile(files.authn, guests);
      await writeFile(files.authz, guestsAuthorizer);
      const [authnPort, authzPort] = [await freePort(), await freePort()];
      await exportPlugin({
        name: 'required-labels',
        plugin: example('admission-required-labels'),
        config: { labels: ['owner'], resources: ['secrets'] },
      });
      await exportPlugin(
        { name: 'authn-guests', plugin: files.authn, config: { token: 'let-me-in' } },
        '--url',
        `https://127.0.0.1:${authnPort}`,
      );
      await exportPlugin({ name: 'authz-guests', plugin: files.authz, config: {} }, '--url', `https://127.0.0.1:${authzPort}`);
      if (everyCombination) {
        await exportPlugin({ name: 'config-copy', plugin: example('controller-config-copy'), config: copied, kind: 'controller' });
        await exportPlugin({ name: 'zone-spread', plugin: example('scheduling-zone-spread'), config: {}, kind: 'scheduler' });
      }
      const containerd = await machine.containerd();
      const kubeconfigFile = (name: string) => ({ config: { kubeconfigFile: join(folders[name] ?? '', 'webhook.kubeconfig') } });
      const spec = {
        ...composition({ storage: 'memory', runtime: 'containerd', network: 'bridge', containerd }),
        authn: ['authn-client-certificate', 'authn-service-account', { use: 'authn-webhook', ...kubeconfigFile('authn-guests') }],
        authz: ['authz-masters', 'authz-node', 'authz-rbac', { use: 'authz-webhook', ...kubeconfigFile('authz-guests') }],
      };
      cluster = await machine.cluster({ spec });
      await cluster.kubectl.run(['label', 'node', cluster.nodeName, 'node-role.kubernetes.io/control-plane=']);
      expect(await asGuest('/api/v1/namespaces')).toBe(401);
    });

    it('authenticator and authorizer decide requests from the node they run on', async () => {
      for (const name of ['authn-guests', 'authz-guests'])
        await cluster.kubectl.run(['apply', '-f', join(folders[name] ?? '', 'manifests')]);
      for (const name of ['authn-guests', 'authz-guests'])
        await cluster.kubectl.run(['-n', 'oarlock-control-plane', 'rollout', 'status', `daemonset/${name}`, '--timeout=180s']);
      await untilValue(
        'guests are authenticated',
        () => asGuest('/api/v1/namespaces'),
        (code) => code === 200,
      );
      expect(await asGuest('/api/v1/namespaces/default')).toBe(403);
    });

    it('admission plugin rejects objects through its Service', async () => {
      await cluster.kubectl.run(['apply', '-f', join(folders['required-labels'] ?? '', 'manifests')]);
      await cluster.kubectl.run(['-n', 'oarlock-webhooks', 'rollout', 'status', 'deployment', '--timeout=180s']);
      const create = (name: string) => cluster.kubectl.try(['create', 'secret', 'generic', name, '--dry-run=server']);
      const rejection = await untilValue(
        'the API server calls the webhook',
        () => create('bare'),
        ({ stderr }) => stderr.includes('denied the request'),
      );
      expect(rejection.stderr).toContain(
        'admission webhook "admission-required-labels.oarlock-webhooks.svc" denied the request: required labels are missing: owner',
      );
      await cluster.kubectl.apply({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'owned', labels: { owner: 'ada' } } });
      // the rejection comes from the pod: its log has the request, and objects in its own namespace are exempt
      await cluster.kubectl.run(['-n', 'oarlock-webhooks', 'create', 'secret', 'generic', 'bare', '--dry-run=server']);
      expect(
        await cluster.kubectl.run(['-n', 'oarlock-webhooks', 'logs', '-l', 'app.kubernetes.io/name=admission-required-labels']),
      ).toContain('"ready"');
    });

    // existing-clusters.test.ts runs the same programs outside of pods in `npm test`
    it.runIf(everyCombination)('controller and scheduler work in two replicas each, also after the leader is gone', async () => {
      const k = (...args: string[]) => cluster.kubectl.run(args);
      for (const name of ['config-copy', 'zone-spread']) await k('apply', '-f', join(folders[name] ?? '', 'manifests'));
      for (const name of ['controller-config-copy', 'scheduling-zone-spread'])
        await k('-n', 'oarlock-components', 'rollout', 'status', `deployment/${name}`, '--timeout=180s');
      await k('create', 'configmap', copied.name, '--from-literal=color=blue');
      const expectCopy = async (namespace: string) => {
        await k('create', 'namespace', namespace);
        await k('label', 'namespace', namespace, 'copy=yes');
        await k('-n', namespace, 'wait', '--for=create', `configmap/${copied.name}`, '--timeout=180s');
      };
      const expectPlacement = async (name: string) => {
        const spec = {
          schedulerName: 'scheduling-zone-spread',
          terminationGracePeriodSeconds: 0,
          containers: [{ name: 'main', image: pauseImage }],
        };
        await cluster.kubectl.apply({ apiVersion: 'v1', kind: 'Pod', metadata: { name, labels: { app: 'any' } }, spec });
        await k('wait', '--for=jsonpath={.status.phase}=Running', `pod/${name}`, '--timeout=180s');
        expect(await k('get', 'events', '--field-selector', `involvedObject.name=${name},reason=Scheduled`, '-o', 'name')).not.toBe('');
      };
      await expectCopy('first');
      await expectPlacement('first');
      for (const name of ['controller-config-copy', 'scheduling-zone-spread']) {
        const holder = await k('-n', 'oarlock-components', 'get', 'lease', name, '-o', 'jsonpath={.spec.holderIdentity}');
        const [pod = ''] = holder.split('_');
        await k('-n', 'oarlock-components', 'delete', 'pod', pod);
      }
      await expectCopy('second');
      await expectPlacement('second');
    });
  },
);
