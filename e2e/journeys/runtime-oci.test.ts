import { existsSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allowAudience, writeCredentialProvider } from '../fixtures/credential-provider.ts';
import { dockerRegistryMissing, registryUser, startDockerRegistry, type DockerRegistry } from '../fixtures/docker-registry.ts';
import { buildImage, busyboxLayer, imageArchive, type RunConfig } from '../fixtures/test-image.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { runOarlock } from '../harness/oarlock.ts';
import { until } from '../harness/until.ts';

interface PodList {
  readonly items: readonly {
    readonly metadata: { readonly name: string };
    readonly status: {
      readonly containerStatuses?: readonly {
        readonly containerID?: string;
        readonly imageID: string;
        readonly state?: { readonly waiting?: { readonly message?: string } };
      }[];
    };
  }[];
}

const missing = process.getuid?.() !== 0 ? 'needs root' : existsSync('/usr/sbin/runc') ? dockerRegistryMissing() : 'runc is not installed';
const audience = 'registry.example';
const config: RunConfig = {
  Entrypoint: ['/bin/sh', '-c'],
  Cmd: ['echo started as $(id -u) in $(pwd) with $GREETING; exec sleep 3600'],
  Env: ['PATH=/usr/bin:/bin', 'GREETING=hello'],
  User: 'user',
  WorkingDir: '/www',
};

const deployment = (name: string, image: string, replicas: number) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name },
  spec: {
    replicas,
    selector: { matchLabels: { app: name } },
    template: {
      metadata: { labels: { app: name } },
      spec: {
        terminationGracePeriodSeconds: 1,
        containers: [
          { name: 'main', image, resources: { limits: { memory: '64Mi' } }, readinessProbe: { exec: { command: ['cat', 'index.html'] } } },
        ],
      },
    },
  },
});

describe.skipIf(missing !== undefined && !everythingIsNeeded)(
  `containers without a daemon${missing === undefined ? '' : ` (${missing})`}`,
  () => {
    const machine = Machine.use();
    let registry: DockerRegistry;
    let privateRegistry: DockerRegistry;
    let cluster: Cluster;
    beforeAll(async () => {
      registry = await startDockerRegistry();
      privateRegistry = await startDockerRegistry({ authenticated: true });
      await registry.push(buildImage('web', await busyboxLayer(), config), 'web:1');
      await privateRegistry.push(buildImage('private', await busyboxLayer(), { ...config, Env: ['GREETING=private'] }), 'private:1');
      const kubelet = await writeCredentialProvider(machine.path('credential-provider'), {
        host: privateRegistry.host,
        audience,
        user: registryUser,
      });
      const spec = composition({ storage: 'embedded', runtime: 'process', network: 'bridge', kubelet });
      cluster = await machine.cluster({ spec: { ...spec, runtimes: ['runtime-oci'] } });
    });
    afterAll(async () => {
      await registry.stop();
      await privateRegistry.stop();
    });

    const pods = async (app: string) => (await cluster.kubectl.json<PodList>(['get', 'pods', '-l', `app=${app}`])).items;
    const listedNames = async () => {
      const { code, stdout, stderr } = await cluster.oarlock('image', 'list', '-o', 'json');
      expect([code, stderr]).toEqual([0, '']);
      return (JSON.parse(stdout) as { readonly images: readonly { readonly names: readonly string[] }[] }).images.map(({ names }) => names);
    };
    const firstPod = async () => (await pods('web'))[0]?.metadata.name ?? '';
    const inPod = async (script: string) => cluster.kubectl.run(['exec', await firstPod(), '--', 'sh', '-c', script]);

    it('run an image of a registry with its user, directory and environment, in namespaces and limits of their own', async () => {
      await cluster.kubectl.apply(deployment('web', `${registry.host}/web:1`, 2));
      await cluster.kubectl.run(['rollout', 'status', 'deployment/web', '--timeout=180s']);
      const [pod] = await pods('web');
      expect(pod?.status.containerStatuses?.[0]).toMatchObject({
        containerID: expect.stringMatching(/^oci:\/\/[0-9a-f]{64}$/),
        imageID: expect.stringMatching(/@?sha256:[0-9a-f]{64}$/),
      });
      expect(await cluster.kubectl.run(['logs', await firstPod()])).toBe('started as 1000 in /www with hello\n');
      expect(await inPod('cat index.html; tr "\\0" " " < /proc/1/cmdline; hostname')).toBe(`hello\nsleep 3600 ${await firstPod()}\n`);
    });

    it('run an image for which a credential provider exchanges the token of the service account', async () => {
      const image = `${privateRegistry.host}/private:1`;
      await cluster.kubectl.run(['run', 'private', `--image=${image}`, '--restart=Never']);
      const message = await until('the node may not request the token', async () => {
        const { status } = await cluster.kubectl.json<PodList['items'][number]>(['get', 'pod', 'private']);
        return status.containerStatuses?.[0]?.state?.waiting?.message;
      });
      expect(message).toContain('pull access denied');
      expect(message).toContain('is not authorized to request tokens for this audience');
      await cluster.kubectl.run(['delete', 'pod', 'private', '--grace-period=1', '--wait=false']);
      const granted = await allowAudience(cluster.kubectl, audience);
      await cluster.kubectl.run(['run', 'allowed', `--image=${image}`, '--restart=Never']);
      await cluster.kubectl.run(['wait', '--for=condition=Ready', 'pod/allowed', '--timeout=180s']);
      const events = await cluster.kubectl.run(['get', 'events', '-o', 'json']);
      expect(events).not.toContain(registryUser.password);
      // the image is present now, but a pod that gets no credentials may not use it
      await cluster.kubectl.run(['delete', 'clusterrolebinding', granted]);
      await cluster.kubectl.run(['run', 'denied', `--image=${image}`, '--restart=Never']);
      const why = await until('the pod may not use the present image', async () => {
        const { status } = await cluster.kubectl.json<PodList['items'][number]>(['get', 'pod', 'denied']);
        return status.containerStatuses?.[0]?.state?.waiting?.message;
      });
      expect(why).toContain('pull access denied');
      await cluster.kubectl.run(['delete', 'pod', 'allowed', 'denied', '--grace-period=1', '--wait=false']);
    });

    it('run an image of an archive that was loaded without a registry', async () => {
      const image = buildImage('oarlock.test/loaded:1', await busyboxLayer(), { ...config, Env: ['GREETING=loaded'] });
      const loaded = await runOarlock(['image', 'load', '-', '--data-dir', cluster.dataDir], { input: imageArchive([image]) });
      expect([loaded.code, loaded.stderr]).toEqual([0, '']);
      expect(loaded.stdout).toContain(`Loaded oarlock.test/loaded:1 (${image.manifest.digest}, `);
      expect(await listedNames()).toContainEqual(['oarlock.test/loaded:1']);
      await cluster.kubectl.run(['run', 'loaded', '--image=oarlock.test/loaded:1', '--image-pull-policy=Never', '--restart=Never']);
      await cluster.kubectl.run(['wait', '--for=condition=Ready', 'pod/loaded', '--timeout=180s']);
      await cluster.kubectl.run(['delete', 'pod', 'loaded', '--grace-period=1']);
      const removed = await cluster.oarlock('image', 'remove', 'oarlock.test/loaded:1');
      expect([removed.code, removed.stderr]).toEqual([0, '']);
      expect(await listedNames()).not.toContainEqual(['oarlock.test/loaded:1']);
      const again = await cluster.oarlock('image', 'remove', 'oarlock.test/loaded:1');
      expect([again.code, again.stderr]).toEqual([1, 'the image "oarlock.test/loaded:1" is not in the store\n']);
    });

    it('keep their images, which commands show also without a cluster', async () => {
      await cluster.stop();
      expect(await listedNames()).toContainEqual([`${registry.host}/web:1`]);
    });
  },
);
