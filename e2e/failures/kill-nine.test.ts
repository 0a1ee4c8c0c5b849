import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import type { PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { containersOf } from '../harness/containers.ts';
import { untilAnswers } from '../harness/http.ts';
import { Machine, everythingIsNeeded } from '../harness/machine.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { seed, seeded } from '../harness/random.ts';
import { untilValue } from '../harness/until.ts';
import { hello } from '../harness/hello.ts';
import { Follower, Writer } from './support/writer.ts';

const noEtcd = componentMissing.etcd();
const noContainerd = await componentMissing.containerd();
/** Number of kills for each storage, at moments that follow from the seed. More find rarer moments; no round has a step of its own. */
const repetitions = Number(process.env['OARLOCK_ROUNDS'] ?? 5);

const identity = ({ metadata, status }: PodItem) => ({
  uid: metadata.uid,
  ...status.containerStatuses?.map(({ containerID, restartCount, state }) => ({
    containerID,
    restartCount,
    startedAt: state?.running?.startedAt,
  }))[0],
});
const sorted = (pods: readonly PodItem[]) => pods.map(identity).sort((a, b) => ((a.uid ?? '') < (b.uid ?? '') ? -1 : 1));

for (const storage of ['embedded', 'etcd'] as const) {
  const lacking = storage === 'etcd' ? noEtcd : undefined;
  describe.skipIf(lacking !== undefined && !everythingIsNeeded)(
    `kill -9 at any moment, state in ${storage}${lacking === undefined ? '' : ` (${lacking})`}`,
    () => {
      const machine = Machine.use();
      let cluster: Cluster;
      beforeAll(async () => {
        const etcd = storage === 'etcd' ? await machine.etcd() : undefined;
        cluster = await machine.cluster({
          spec: composition({ storage, runtime: 'process', network: 'host', ...(etcd && { etcd: etcd.endpoint }) }),
        });
        await cluster.kubectl.run(['create', 'namespace', 'writes']);
        await cluster.kubectl.apply(await hello('process'));
        await cluster.api.untilReady('default', 'hello', 3);
      });

      it(`loses no acknowledged write, adopts running containers and converges, ${repetitions} times (seed ${seed})`, {
        timeout: 1_800_000,
      }, async () => {
        const random = seeded(seed);
        const before = sorted(await cluster.api.untilReady('default', 'hello', 3));
        const running = await containersOf('process', { dir: cluster.dir });
        const writer = new Writer(cluster.kubeconfig, 'writes');
        const follower = new Follower(cluster.kubeconfig, 'writes');
        follower.start();
        writer.start(4, random);
        const other = (replicas: number) => ({
          apiVersion: 'apps/v1',
          kind: 'Deployment',
          metadata: { name: 'changing', namespace: 'writes' },
          spec: {
            replicas,
            selector: { matchLabels: { app: 'changing' } },
            template: {
              metadata: { labels: { app: 'changing' } },
              spec: { terminationGracePeriodSeconds: 1, containers: [{ name: 'c', image: 'host', command: ['sleep', '3600'] }] },
            },
          },
        });
        let replicas = 0;
        for (let round = 0; round < repetitions; round++) {
          replicas = 1 + Math.floor(random() * 6);
          await cluster.kubectl.apply(other(replicas));
          await delay(Math.floor(random() * 1500)); // at a random moment
          await cluster.kill9();
          if (random() < 0.4) {
            // and again during the start
            cluster.launch();
            await delay(Math.floor(random() * 1200));
            await cluster.kill9();
          }
          await cluster.up();
        }
        await cluster.api.untilReady('writes', 'changing', replicas);
        await writer.stop();
        expect(writer.acknowledged).toBeGreaterThan(repetitions * 10);
        expect(await writer.losses(cluster.api)).toEqual([]);

        const stored = await cluster.api.get<{ items: { metadata: { name: string }; data?: { value: string } }[] }>(
          '/api/v1/namespaces/writes/configmaps',
        );
        await untilValue(
          'the watch has received all changes',
          () => [...follower.state].sort().join(),
          (seen) =>
            seen ===
            stored.items
              .map(({ metadata, data }) => [metadata.name, data?.value ?? ''])
              .sort()
              .join(),
        );
        await follower.stop();
        // a server that has just started has no past events: a watch from an old version must list again
        expect(follower.faults).toEqual([]);
        expect(follower.relists).toBeLessThanOrEqual(2 * repetitions + 1);

        expect(sorted(await cluster.api.untilReady('default', 'hello', 3))).toEqual(before);
        const now = await untilValue(
          'no deleted pod runs',
          () => containersOf('process', { dir: cluster.dir }),
          (containers) => containers.size === 3 + replicas,
        );
        for (const [id, container] of running) expect(now.get(id)).toEqual(container);
        const pods = await cluster.api.untilReady('default', 'hello', 3);
        const address = await cluster.kubectl.run(['get', 'service', 'hello', '-o', 'jsonpath={.spec.clusterIP}']);
        await untilAnswers(
          `http://${address}:8080/`,
          pods.map(({ metadata }) => `hello from ${metadata.name}`),
        );
        console.log(`${writer.acknowledged} writes acknowledged, ${writer.unanswered} unanswered`);
      });

      it.skipIf(storage !== 'etcd')('survives kill -9 of etcd', async () => {
        const etcd = await machine.etcd();
        const before = sorted(await cluster.api.untilReady('default', 'hello', 3));
        const writer = new Writer(cluster.kubeconfig, 'writes');
        writer.start(2, seeded(seed + 1));
        for (let round = 0; round < 3; round++) {
          const acknowledged = writer.acknowledged;
          await untilValue(
            'writes succeed',
            () => writer.acknowledged,
            (count) => count > acknowledged + 20,
          );
          await etcd.kill9();
          await etcd.restart();
        }
        const acknowledged = writer.acknowledged;
        await untilValue(
          'writes succeed',
          () => writer.acknowledged,
          (count) => count > acknowledged + 20,
        );
        await writer.stop();
        expect(await writer.losses(cluster.api)).toEqual([]);
        expect(cluster.running).toBe(true);
        expect(sorted(await cluster.api.untilReady('default', 'hello', 3))).toEqual(before);
        await cluster.kubectl.run(['scale', 'deployment/hello', '--replicas=4']);
        await cluster.api.untilReady('default', 'hello', 4);
      });
    },
  );
}

const noContainers = noContainerd ?? noEtcd;
describe.skipIf(noContainers !== undefined && !everythingIsNeeded)(
  `containers outlive every process${noContainers === undefined ? '' : ` (${noContainers})`}`,
  () => {
    const machine = Machine.use();
    let cluster: Cluster;
    const containers = async () => containersOf('containerd', { dir: cluster.dir, containerd: await machine.containerd() });
    beforeAll(async () => {
      const [etcd, containerd] = [await machine.etcd(), await machine.containerd()];
      cluster = await machine.cluster({
        spec: composition({ storage: 'etcd', runtime: 'containerd', network: 'bridge', etcd: etcd.endpoint, containerd }),
      });
      await cluster.kubectl.apply(await hello('containerd'));
      await cluster.api.untilReady('default', 'hello', 3);
    });

    it('a graceful stop: containers keep running and are adopted', async () => {
      const [before, running] = [sorted(await cluster.api.untilReady('default', 'hello', 3)), await containers()];
      await cluster.stop();
      expect(await containers()).toEqual(running);
      await cluster.up();
      expect(sorted(await cluster.api.untilReady('default', 'hello', 3))).toEqual(before);
      expect(await containers()).toEqual(running);
    });

    it('kill -9 of containerd: the runtime recovers, containers keep running, new ones start', async () => {
      const [before, running] = [sorted(await cluster.api.untilReady('default', 'hello', 3)), await containers()];
      const containerd = await machine.containerd();
      await containerd.kill9();
      await containerd.restart();
      expect(await containers()).toEqual(running);
      await cluster.kubectl.run(['scale', 'deployment/hello', '--replicas=4']);
      const pods = await cluster.api.untilReady('default', 'hello', 4);
      const uids = new Set(before.map(({ uid }) => uid));
      expect(sorted(pods).filter(({ uid }) => uids.has(uid))).toEqual(before);
      await cluster.kubectl.run(['scale', 'deployment/hello', '--replicas=3']);
      await cluster.api.untilReady('default', 'hello', 3);
    });

    it('a container that exits while the kubelet is down is restarted', async () => {
      const [pod] = await cluster.api.untilReady('default', 'hello', 3);
      const id = pod?.status.containerStatuses?.[0]?.containerID?.replace('containerd://', '') ?? '';
      const container = (await containers()).get(id);
      await cluster.kill9();
      process.kill(container?.pid ?? 0, 'SIGKILL');
      await untilValue('the container has ended', containers, (all) => !all.has(id));
      await cluster.up();
      const after = await cluster.api.until<PodItem>('it runs again', cluster.api.pods('default', 'hello'), (pods) =>
        pods.some(
          ({ metadata, status }) =>
            metadata.uid === pod?.metadata.uid && status.containerStatuses?.[0]?.restartCount === 1 && status.containerStatuses[0].ready,
        ),
      );
      expect(after.filter(({ status }) => (status.containerStatuses?.[0]?.restartCount ?? 0) > 0)).toHaveLength(1);
    });
  },
);
