import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dockerRegistryMissing, startDockerRegistry, type DockerRegistry } from '../fixtures/docker-registry.ts';
import { startRegistry, type Registry } from '../fixtures/registry.ts';
import { buildImage, busyboxLayer } from '../fixtures/test-image.ts';
import { threeTierImages, threeTiers } from '../fixtures/three-tiers.ts';
import type { Cluster } from '../harness/cluster.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { removeNetwork } from '../harness/host-state.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { root } from '../harness/oarlock.ts';
import { ordinaryUser } from '../harness/ordinary-user.ts';
import { Daemon, endProcessesBelow, killPid, mustRun } from '../harness/programs.ts';
import { supervisorOf } from '../harness/supervisor.ts';
import { until, untilValue } from '../harness/until.ts';

interface Pod {
  readonly metadata: { readonly name: string };
  readonly status: {
    readonly podIP?: string;
    readonly containerStatuses?: readonly {
      readonly containerID?: string;
      readonly restartCount: number;
      readonly state: { readonly waiting?: { readonly reason: string; readonly message?: string } };
    }[];
  };
}

const isRoot = process.getuid?.() === 0;
const runcMissing = !isRoot ? 'needs root' : componentMissing.runc();
const runcMode = /^Images: containers run with \S+runc \(runtime-oci\)\.$/m;
const credentials = { username: 'someone', password: 'secret' };

const modes = [
  {
    title: 'the default composition as an ordinary user',
    user: true,
    bridge: false,
    mode: /^Images: containers run with util-linux in user namespaces with one user, because /m,
    missing: undefined,
  },
  { title: 'the default composition as root with runc', user: false, bridge: false, mode: runcMode, missing: runcMissing },
  { title: 'the composition oci-bridge', user: false, bridge: true, mode: runcMode, missing: runcMissing },
];

/** Gives a cluster whose configuration names no directory of its own an empty one for CNI, and removes its bridge and rules at the end. */
async function prepareBridge(machine: Machine): Promise<void> {
  const directory = '/etc/cni/net.d';
  await mkdir(directory, { recursive: true });
  await mustRun('mount', ['-t', 'tmpfs', 'tmpfs', directory]);
  machine.undo(directory, () => mustRun('umount', [directory]));
  machine.undo('bridge', () => removeNetwork('oarlock0'));
}

describe.each(modes)('images in $title', ({ user, bridge, mode, missing }) => {
  const reason = missing ?? dockerRegistryMissing();
  describe.skipIf(reason !== undefined && !everythingIsNeeded)(`three tiers${reason === undefined ? '' : ` (${reason})`}`, () => {
    const machine = Machine.use();
    let registry: DockerRegistry;
    let privateRegistry: Registry;
    let cluster: Cluster;
    beforeAll(async () => {
      registry = await startDockerRegistry();
      for (const [name, image] of Object.entries(await threeTierImages())) await registry.push(image, `${name}:1`);
      privateRegistry = await startRegistry(
        [buildImage('oarlock.test/private:1', await busyboxLayer(), { Cmd: ['/bin/sleep', '3600'] })],
        credentials,
      );
      if (bridge) await prepareBridge(machine);
      cluster = await machine.cluster({
        // root's `oarlock up` selects containerd on a machine that runs it
        ...(user ? {} : { args: ['-f', join(root, 'clusters', bridge ? 'oci-bridge.yaml' : 'embedded.yaml')] }),
        ...(user && isRoot && { runAs: ordinaryUser }),
      });
    });
    afterAll(async () => {
      await registry.stop();
      await privateRegistry.stop();
    });

    const kubectl = (...args: string[]) => cluster.kubectl.run(args);
    const pods = async (selector: string) => (await cluster.kubectl.json<{ items: readonly Pod[] }>(['get', 'pods', '-l', selector])).items;
    const rolledOut = async () => {
      for (const name of ['db', 'app', 'web']) await kubectl('rollout', 'status', `deployment/${name}`, '--timeout=180s');
    };
    const containers = async () =>
      Object.fromEntries(
        (await pods('app in (db, app, web)')).map(({ metadata, status }) => [
          metadata.name,
          status.containerStatuses?.map(({ containerID, restartCount }) => ({ containerID, restartCount })),
        ]),
      );
    /** Returns what the web server's Service answers: the version of the application, its greeting, its password and the count of the database. */
    const answer = async (address?: string) => {
      const host = address ?? `${await kubectl('get', 'service', 'web', '-o', 'jsonpath={.spec.clusterIP}')}:8080`;
      return until('the application answers', async () => {
        const response = await fetch(`http://${host}/cgi-bin/web`, { headers: { connection: 'close' } }).catch(() => undefined);
        const text = response?.ok === true ? (await response.text()).trim() : '';
        return /^\w+ hello secret \d+$/.test(text) && text;
      });
    };

    it('print the mode that runs images, and serve three tiers to the host', async () => {
      expect((await cluster.daemon.line(mode)).length).toBeGreaterThan(0);
      await cluster.kubectl.apply({ apiVersion: 'v1', kind: 'List', items: threeTiers(registry.host, { ownNetwork: bridge }) });
      await rolledOut();
      const [, , , first] = (await answer()).split(' ');
      const [version, , , second] = (await answer()).split(' ');
      expect(version).toBe('one');
      expect(Number(second)).toBeGreaterThan(Number(first));
    });

    it('have logs, exec, port-forward and the files of a service account, beside processes of the host', async () => {
      const [web] = await pods('app=web');
      const name = web?.metadata.name ?? '';
      expect(await kubectl('logs', name)).toBe(`web listens on ${web?.status.podIP}\n`);
      expect(await kubectl('exec', name, '--', 'ls', '/var/run/secrets/kubernetes.io/serviceaccount')).toBe('ca.crt\nnamespace\ntoken\n');
      expect(await kubectl('exec', name, '--', 'cat', '/proc/1/comm')).toBe('httpd\n');
      const forward = new Daemon('kubectl', ['port-forward', `pod/${name}`, ':8080'], { env: cluster.kubectl.env });
      try {
        const [, port] = await forward.line(/^Forwarding from 127\.0\.0\.1:(\d+) /);
        expect(await answer(`127.0.0.1:${port}`)).toMatch(/^one hello secret /);
      } finally {
        await forward.stop();
      }
      await kubectl('run', 'process', '--image=host', '--command', '--', 'sleep', '3600');
      await kubectl('wait', '--for=condition=Ready', 'pod/process', '--timeout=180s');
      expect(await kubectl('get', 'pod', 'process', '-o', 'jsonpath={.status.containerStatuses[0].containerID}')).toMatch(/^process:/);
      expect(await kubectl('get', 'pod', name, '-o', 'jsonpath={.status.containerStatuses[0].containerID}')).toMatch(/^oci:/);
    });

    it('report what the node does not enforce', async () => {
      const jsonpath = 'jsonpath={.items[0].status.conditions[?(@.type=="PodEnforcement")].message}';
      const message = await kubectl('get', 'nodes', '-o', jsonpath);
      expect(message).toContain('runtime-oci: ');
      expect(message.includes('pods share the network of the node')).toBe(!bridge);
      expect(message.includes('seccomp profiles are not applied')).toBe(user);
      await cluster.kubectl.apply({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'limited' },
        spec: {
          securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
          containers: [
            { name: 'main', image: `${registry.host}/web:1`, command: ['sleep', '3600'], resources: { limits: { memory: '64Mi' } } },
          ],
        },
      });
      await kubectl('wait', '--for=condition=Ready', 'pod/limited', '--timeout=180s');
      const events = [
        'get',
        'events',
        '--field-selector=reason=PodSettingsNotEnforced,involvedObject.name=limited',
        '-o',
        'jsonpath={.items[*].message}',
      ];
      if (user)
        await until('an event of the pod', async () => {
          const text = await kubectl(...events);
          return text.includes('seccomp profiles are not applied') && text.includes('limits of memory and CPU are not enforced');
        });
      else {
        expect(await kubectl('exec', 'limited', '--', 'grep', '^Seccomp:', '/proc/1/status')).toMatch(/2\n$/);
        expect(await kubectl(...events)).toBe('');
      }
    });

    it.runIf(bridge)('have addresses of their own, names of Services, node ports and NetworkPolicies', async () => {
      for (const { status } of await pods('app in (db, app, web)')) expect(status.podIP).toMatch(/^10\.244\./);
      await kubectl('expose', 'deployment', 'web', '--name=port', '--type=NodePort', '--port=8080');
      const nodePort = await kubectl('get', 'service', 'port', '-o', 'jsonpath={.spec.ports[0].nodePort}');
      const address = await kubectl('get', 'nodes', '-o', 'jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}');
      expect(await answer(`${address}:${nodePort}`)).toMatch(/^one hello secret /);
      const reachesDatabase = async () => {
        const { code } = await cluster.kubectl.try([
          'exec',
          'deployment/app',
          '--',
          'timeout',
          '2',
          'wget',
          '-qO-',
          'http://db:5432/cgi-bin/db',
        ]);
        return code === 0;
      };
      expect(await reachesDatabase()).toBe(true);
      await cluster.kubectl.apply({
        apiVersion: 'networking.k8s.io/v1',
        kind: 'NetworkPolicy',
        metadata: { name: 'deny' },
        spec: { podSelector: { matchLabels: { app: 'db' } }, policyTypes: ['Ingress'] },
      });
      await until('the policy applies', async () => !(await reachesDatabase()));
      await kubectl('delete', 'networkpolicy', 'deny');
      await until('the policy is removed', reachesDatabase);
    });

    // pulls are the same in each mode
    it.runIf(user)('pull with imagePullSecrets, also a present image, and report in words why a pull fails', async () => {
      const server = `--docker-server=${privateRegistry.host}`;
      await kubectl(
        'create',
        'secret',
        'docker-registry',
        'pull',
        server,
        `--docker-username=${credentials.username}`,
        `--docker-password=${credentials.password}`,
      );
      const image = `${privateRegistry.host}/private:1`;
      const overrides = JSON.stringify({ spec: { imagePullSecrets: [{ name: 'pull' }] } });
      await kubectl('run', 'private', `--image=${image}`, `--overrides=${overrides}`);
      await kubectl('wait', '--for=condition=Ready', 'pod/private', '--timeout=180s');
      await kubectl('run', 'missing', `--image=${registry.host}/missing:1`);
      await kubectl('run', 'denied', `--image=${image}`);
      for (const [name, cause] of [
        ['missing', 'not found'],
        ['denied', 'pull access denied'],
      ] as const) {
        const message = await until(`the pull of ${name} fails`, async () => {
          const pod = await cluster.kubectl.json<Pod>(['get', 'pod', name]);
          const waiting = pod.status.containerStatuses?.[0]?.state.waiting;
          return waiting?.reason === 'ImagePullBackOff' && waiting.message;
        });
        expect(message).toContain('Back-off pulling image');
        expect(message).toContain(cause);
        const events = [
          'get',
          'events',
          `--field-selector=reason=Failed,involvedObject.name=${name}`,
          '-o',
          'jsonpath={.items[*].message}',
        ];
        await untilValue(
          'an event of the pull',
          () => kubectl(...events),
          (text) => text.includes('Error: ErrImagePull'),
        );
      }
    });

    it('keep their data through a rolling update and kill -9 of everything but the containers', async () => {
      await kubectl('set', 'env', 'deployment/app', 'VERSION=two');
      await rolledOut();
      const [version, , , count] = await until('the new version answers', async () => {
        const parts = (await answer()).split(' ');
        return parts[0] === 'two' && parts;
      });
      expect(version).toBe('two');
      // the pods of the old version end
      const before = await until('only the pods of the new version exist', async () => {
        const found = await containers();
        return Object.keys(found).length === 4 && found;
      });
      await cluster.kill9();
      for (const plugin of ['runtime-oci', 'runtime-process'] as const) killPid(await supervisorOf(cluster.dataDir, plugin), 'SIGKILL');
      await endProcessesBelow(cluster.dataDir);
      await cluster.up();
      await kubectl('wait', '--for=condition=Ready', 'node', '--all', '--timeout=180s');
      await rolledOut();
      expect(await containers()).toEqual(before);
      expect(Number((await answer()).split(' ')[3])).toBeGreaterThan(Number(count));
      const [web] = await pods('app=web');
      const name = web?.metadata.name ?? '';
      expect(await kubectl('logs', name)).toBe(`web listens on ${web?.status.podIP}\n`);
      expect(await kubectl('exec', name, '--', 'cat', '/proc/1/comm')).toBe('httpd\n');
    });

    it('end when the cluster stops', async () => {
      await cluster.stop();
    });
  });
});
