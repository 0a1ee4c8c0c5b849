import { existsSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { containerdMissing } from '../fixtures/containerd.ts';
import { allowAudience, writeCredentialProvider } from '../fixtures/credential-provider.ts';
import { dockerMissing } from '../fixtures/docker.ts';
import { dockerRegistryMissing, registryUser, startDockerRegistry, type DockerRegistry } from '../fixtures/docker-registry.ts';
import { buildImage, busyboxLayer } from '../fixtures/test-image.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition, type RuntimeName } from '../harness/composition.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { until } from '../harness/until.ts';

interface Pod {
  readonly status: {
    readonly containerStatuses?: readonly {
      readonly state?: { readonly waiting?: { readonly reason: string; readonly message?: string } };
    }[];
  };
}

const audience = 'registry.example';
const runtimes: readonly { readonly runtime: RuntimeName; readonly missing: string | undefined }[] = [
  { runtime: 'containerd', missing: await containerdMissing() },
  { runtime: 'docker', missing: await dockerMissing() },
  {
    runtime: 'oci',
    missing: process.getuid?.() !== 0 ? 'needs root' : existsSync('/usr/sbin/runc') ? undefined : 'runc is not installed',
  },
];

describe.each(runtimes)('private images with runtime-$runtime', ({ runtime, missing }) => {
  const reason = missing ?? dockerRegistryMissing();
  describe.skipIf(reason !== undefined && !everythingIsNeeded)(
    `a registry with passwords${reason === undefined ? '' : ` (${reason})`}`,
    () => {
      const machine = Machine.use();
      /** For Secrets of pods, and for a credential provider. */
      const registries: DockerRegistry[] = [];
      let cluster: Cluster;
      const imageOf = (index: number) => `${registries[index]?.host}/private:1`;
      beforeAll(async () => {
        for (let index = 0; index < 2; index++) {
          const registry = await startDockerRegistry({ authenticated: true });
          registries.push(registry);
          await registry.push(
            buildImage('private', await busyboxLayer(), { Cmd: ['/bin/sleep', '3600'], Env: [`NUMBER=${index}`] }),
            'private:1',
          );
        }
        const host = registries[1]?.host ?? '';
        const kubelet = await writeCredentialProvider(machine.path('credential-provider'), { host, audience, user: registryUser });
        cluster = await machine.cluster({
          spec: composition({
            storage: 'embedded',
            runtime,
            network: 'bridge',
            kubelet,
            ...(runtime === 'containerd' && { containerd: await machine.containerd() }),
            ...(runtime === 'docker' && { docker: await machine.docker() }),
          }),
        });
      });
      afterAll(async () => {
        for (const registry of registries) await registry.stop();
      });

      const kubectl = (...args: string[]) => cluster.kubectl.run(args);
      const create = (name: string, image: string, spec: Readonly<Record<string, unknown>>, imagePullPolicy = 'IfNotPresent') =>
        cluster.kubectl.apply({
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { name },
          spec: { terminationGracePeriodSeconds: 1, containers: [{ name: 'main', image, imagePullPolicy }], ...spec },
        });
      const withSecret = { imagePullSecrets: [{ name: 'pull' }] };
      const ready = (name: string) => kubectl('wait', '--for=condition=Ready', `pod/${name}`, '--timeout=180s');
      const waiting = (name: string, reasons: readonly string[]) =>
        until(`the pod ${name} waits`, async () => {
          const { status } = await cluster.kubectl.json<Pod>(['get', 'pod', name]);
          const found = status.containerStatuses?.[0]?.state?.waiting;
          return found !== undefined && reasons.includes(found.reason) && found;
        });
      const records = async () =>
        (await readdir(cluster.dataDir, { recursive: true, withFileTypes: true }))
          .filter(({ parentPath, name }) => parentPath.includes('image_manager') && name.startsWith('sha256-'))
          .map(({ parentPath, name }) => join(parentPath, name));

      it('lets pods with the Secret of the pull use the present image, and no others', async () => {
        const user = [`--docker-username=${registryUser.username}`, `--docker-password=${registryUser.password}`];
        await kubectl('create', 'secret', 'docker-registry', 'pull', `--docker-server=${registries[0]?.host}`, ...user);
        await create('owner', imageOf(0), withSecret);
        await ready('owner');
        await create('friend', imageOf(0), withSecret, 'Never');
        await create('stranger', imageOf(0), {});
        await create('never', imageOf(0), {}, 'Never');
        await ready('friend');
        expect((await waiting('stranger', ['ErrImagePull', 'ImagePullBackOff'])).message).toMatch(/denied|unauthorized|no basic auth/i);
        expect((await waiting('never', ['ErrImageNeverPull'])).message).toBe(
          `Container image "${imageOf(0)}" is not present with pull policy of Never`,
        );
      });

      it('keeps what it knows about the pulls through kill -9, readable by its owner alone', async () => {
        const files = await records();
        expect(files.some((file) => file.includes('/pulled/'))).toBe(true);
        for (const file of files) expect((await stat(file)).mode & 0o777).toBe(0o600);
        await cluster.kill9();
        await cluster.up();
        await create('late-stranger', imageOf(0), {}, 'Never');
        await create('late-friend', imageOf(0), withSecret, 'Never');
        await waiting('late-stranger', ['ErrImageNeverPull']);
        await ready('late-friend');
      });

      it('pulls with what a credential provider gets for the token of a service account', async () => {
        await allowAudience(cluster.kubectl, audience);
        await create('exchanged', imageOf(1), {});
        await ready('exchanged');
        expect(await kubectl('get', 'events', '-o', 'json')).not.toContain(registryUser.password);
        await kubectl('create', 'serviceaccount', 'other');
        await create('same-account', imageOf(1), {}, 'Never');
        await create('other-account', imageOf(1), { serviceAccountName: 'other' }, 'Never');
        await ready('same-account');
        await waiting('other-account', ['ErrImageNeverPull']);
      });
    },
  );
});
