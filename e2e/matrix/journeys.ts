import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { runsImages } from '../harness/hello.ts';
import { httpGet } from '../harness/http.ts';
import type { Machine } from '../harness/machine.ts';
import { Daemon, killPid, runProgram } from '../harness/programs.ts';
import { until, untilValue } from '../harness/until.ts';
import { claimKeeps, policyHolds, sourcesAreBound } from './claims-and-policies.ts';
import type { Combination } from './combinations.ts';
import { MatrixApplication } from './application.ts';
import type { Results } from './results.ts';

/** State that the journeys of one file share. */
export interface Matrix {
  readonly machine: Machine;
  readonly results: Results;
}

/** The tests of one combination, in the order they run. */
export const journeyNames = [
  'deploy',
  'reach the Service',
  'pods reach each other',
  'reach the API from a pod',
  'scale',
  'roll out',
  'roll back',
  'policy',
  'claims',
  'exec',
  'logs',
  'cp',
  'kill a container',
  'kill -9 of the control plane',
  'drain',
  'delete the namespace',
] as const;

/** Declares the tests of one combination. Call it in a `describe`. */
export function journeys(combination: Combination, { machine, results }: Matrix): void {
  const { storage, runtime, network } = combination;
  const simulated = runtime === 'simulated';
  // mounts require root
  const withClaims = !simulated && process.getuid?.() === 0;
  let stage: MatrixApplication;

  const start = async (): Promise<Cluster> => {
    const containerd = runtime === 'containerd' ? await machine.containerd() : undefined;
    if (containerd) await forgetNetworks(containerd.cniConfDir);
    const docker = runtime === 'docker' ? await machine.docker() : undefined;
    const registryConfigDirectory = runtime === 'oci' ? await machine.registries() : undefined;
    const etcd = storage === 'etcd' ? await machine.etcd() : undefined;
    const spec = composition({
      storage,
      runtime,
      network: network === 'none' ? 'host' : network,
      ...(etcd && { etcd: etcd.endpoint, etcdPrefix: `/matrix/${runtime}/${network}` }),
      ...(containerd && { containerd }),
      ...(docker && { docker }),
      ...(registryConfigDirectory !== undefined && { registryConfigDirectory }),
    });
    const cluster = await machine.cluster({ spec: { ...spec, ...(withClaims && { volumes: ['volume-csi'] }) } });
    stage = new MatrixApplication(combination, cluster, { bridge: spec.bridge, containerd, docker });
    return cluster;
  };
  beforeAll(start);
  afterAll(async () => {
    if (stage) await machine.dispose(stage.cluster);
  });
  afterEach(({ task }) => results.note(`${combination.name}/${task.name}`, task.result?.state === 'pass'));

  const real = it.skipIf(simulated);
  const images = runsImages(runtime);
  const withImages = it.skipIf(!images);
  const first = async () => {
    const [pod] = await stage.pods();
    if (!pod) throw new Error('there is no pod');
    return pod;
  };

  it('deploy', async () => {
    const pods = await stage.deploy();
    expect(new Set(pods.map(({ status }) => status.podIP)).size).toBe(3);
    expect(await stage.k('get', 'deployment', 'hello')).toMatch(/^hello\s+3\/3\s+3\s+3\s/m);
    if (!simulated) expect((await stage.containers()).size).toBeGreaterThanOrEqual(3);
  });

  it('reach the Service', async () => {
    const pods = await stage.pods();
    await stage.serves(pods);
    if (simulated) return;
    // also from a pod, including its own response
    const url = await stage.service();
    const answers = await stage.fetchIn(await first(), Array<string>(40).fill(`${url}/`));
    expect(new Set(answers)).toEqual(new Set(pods.map(({ metadata }) => `hello from ${metadata.name}`)));
  });

  real('pods reach each other', async () => {
    const pods = await stage.pods();
    for (const pod of pods) {
      const answers = await stage.fetchIn(
        pod,
        pods.map(({ status }) => `http://${status.podIP}:8080/`),
      );
      expect(answers).toEqual(pods.map(({ metadata }) => `hello from ${metadata.name}`));
    }
  });

  real('reach the API from a pod', async () => {
    const pod = await first();
    expect(await stage.k('exec', pod.metadata.name, '--', 'sh', '-c', 'cat /var/run/secrets/kubernetes.io/serviceaccount/namespace')).toBe(
      'journey',
    );
    await until(
      'the API answers in a pod',
      async () =>
        (
          await runProgram(
            stage.cluster.kubectl.file,
            [
              '-n',
              stage.namespace,
              'exec',
              pod.metadata.name,
              '--',
              'sh',
              '-c',
              // the empty request gets a 400: a server responds
              images
                ? 'nc -w 10 "$KUBERNETES_SERVICE_HOST" "$KUBERNETES_SERVICE_PORT" < /dev/null'
                : `node -e 'require("node:net").connect(process.env.KUBERNETES_SERVICE_PORT, process.env.KUBERNETES_SERVICE_HOST, () => process.exit(0)).setTimeout(10000, () => process.exit(1)).on("error", (e) => { console.error(e.message); process.exit(1); })'`,
            ],
            { env: stage.cluster.kubectl.env },
          )
        ).code === 0,
    );
  });

  it('scale', async () => {
    await stage.k('scale', 'deployment/hello', '--replicas=5');
    await stage.serves(await stage.ready(5));
    await stage.k('scale', 'deployment/hello', '--replicas=2');
    await stage.serves(await stage.ready(2));
  });

  it('roll out', async () => {
    const before = new Set((await stage.pods()).map(({ metadata }) => metadata.uid));
    await stage.k('set', 'env', 'deployment/hello', 'RELEASE=2');
    await stage.rolledOut();
    const pods = await stage.ready(2);
    expect(pods.filter(({ metadata }) => before.has(metadata.uid))).toEqual([]);
    await stage.serves(pods);
  });

  it('roll back', async () => {
    await stage.k('rollout', 'undo', 'deployment/hello');
    await stage.rolledOut();
    await stage.serves(await stage.ready(2));
    expect(await stage.k('get', 'deployment', 'hello', '-o', 'jsonpath={.spec.template.spec.containers[0].env[*].name}')).toBe(
      'POD_IP POD_NAME',
    );
    expect((await stage.k('get', 'replicasets', '-o', 'name')).trim().split('\n')).toHaveLength(2);
  });

  // policies do not apply to pods in the host network
  it.skipIf(simulated || network === 'host')('policy', async () => {
    if (network === 'bridge') await sourcesAreBound(stage);
    await policyHolds(stage);
  });

  it.skipIf(!withClaims)('claims', () => claimKeeps(stage));

  it('exec', async () => {
    const {
      metadata: { name },
    } = await first();
    const { code, stdout, stderr } = await stage.cluster.kubectl.try([
      '-n',
      stage.namespace,
      'exec',
      name,
      '--',
      'sh',
      '-c',
      'echo "$POD_NAME"; echo oh >&2; exit 3',
    ]);
    if (simulated) {
      expect(code).toBeGreaterThanOrEqual(0);
      return;
    }
    expect({ code, stdout, stderr }).toEqual({ code: 3, stdout: `${name}\n`, stderr: 'oh\ncommand terminated with exit code 3\n' });
    expect(await stage.cluster.kubectl.try(['-n', stage.namespace, 'exec', '-i', name, '--', 'cat'], { input: 'through\n' })).toMatchObject(
      { code: 0, stdout: 'through\n' },
    );
    const terminal = await runProgram(
      'script',
      ['-qec', `${stage.cluster.kubectl.file} -n ${stage.namespace} exec -it ${name} -- sh -c 'test -t 0 && echo a terminal'`, '/dev/null'],
      { env: { ...stage.cluster.kubectl.env, TERM: 'xterm' }, input: '' },
    );
    expect(terminal.stdout).toContain('a terminal');
  });

  real('logs', async () => {
    const {
      metadata: { name },
      status: { podIP },
    } = await first();
    await until('its first line', async () => (await stage.k('logs', name)).includes(`${name} listens on ${podIP}:8080`));
    const follower = new Daemon(stage.cluster.kubectl.file, ['-n', stage.namespace, 'logs', '-f', '--tail=1', name], {
      env: stage.cluster.kubectl.env,
    });
    try {
      await follower.line(/./);
      const path = `/said-${Date.now()}`;
      await httpGet(`http://${podIP}:8080${path}`, 30_000);
      await follower.line(new RegExp(path));
    } finally {
      await follower.stop('SIGTERM', 5_000);
    }
  });

  withImages('cp', async () => {
    const {
      metadata: { name },
    } = await first();
    const [there, back] = [machine.path('sent'), machine.path('returned')];
    const content = Buffer.alloc(300_000, 'oarlock ');
    await writeFile(there, content);
    await stage.k('cp', there, `${name}:/tmp/copied`);
    expect((await stage.k('exec', name, '--', 'sh', '-c', 'wc -c < /tmp/copied')).trim()).toBe(String(content.length));
    await stage.cluster.kubectl.try(['-n', stage.namespace, 'cp', `${name}:/tmp/copied`, back]);
    expect((await readFile(back)).equals(content)).toBe(true);
  });

  real('kill a container', async () => {
    const [victim, other] = await stage.pods();
    const id = victim?.status.containerStatuses?.[0]?.containerID?.replace(/^\w+:\/\//, '') ?? '';
    const container = (await stage.containers()).get(id);
    if (!victim || !other || !container) throw new Error(`the container ${id} does not run`);
    killPid(container.pid, 'SIGKILL');
    const restarts = (
      pod: { readonly status: { readonly containerStatuses?: readonly { readonly restartCount: number }[] } } | undefined,
    ) => pod?.status.containerStatuses?.[0]?.restartCount;
    const after = await stage.cluster.api.until<typeof victim>(
      'the container runs again',
      stage.cluster.api.pods(stage.namespace, 'hello'),
      (pods) => {
        const pod = pods.find(({ metadata }) => metadata.uid === victim.metadata.uid);
        return restarts(pod) === 1 && pod?.status.containerStatuses?.[0]?.ready === true;
      },
    );
    const again = after.find(({ metadata }) => metadata.uid === victim.metadata.uid);
    expect(again?.status.containerStatuses?.[0]?.lastState?.terminated?.exitCode).toBe(137);
    expect(again?.status.podIP).toBe(victim.status.podIP);
    expect(restarts(after.find(({ metadata }) => metadata.uid === other.metadata.uid))).toBe(0);
    await stage.serves(after);
  });

  it('kill -9 of the control plane', async () => {
    const [pods, before, running] = [await stage.pods(), await stage.identities(), await stage.containers()];
    const url = simulated ? '' : await stage.service();
    await stage.k('create', 'configmap', 'acknowledged', '--from-literal=at=the-last-moment');
    await stage.cluster.kill9();
    // rules in the kernel stay in force without the control plane
    if (!simulated && network !== 'host') expect((await httpGet(`${url}/`, 30_000)).status).toBe(200);
    if (!simulated) expect(await stage.containers()).toEqual(running);
    await stage.cluster.up();
    if (storage !== 'memory') {
      expect(await stage.k('get', 'configmap', 'acknowledged', '-o', 'jsonpath={.data.at}')).toBe('the-last-moment');
      const now = await stage.ready(2);
      await stage.serves(now);
      if (!simulated) {
        expect(await stage.identities()).toEqual(before);
        expect(await stage.containers()).toEqual(running);
      }
      expect(now.map(({ metadata }) => metadata.uid).sort()).toEqual(pods.map(({ metadata }) => metadata.uid).sort());
      await stage.k('scale', 'deployment/hello', '--replicas=3');
      await stage.serves(await stage.ready(3));
    } else {
      expect(await stage.cluster.kubectl.run(['get', 'namespaces', '-o', 'name'])).not.toContain(stage.namespace);
      await stage.nothingRemains();
      await stage.serves(await stage.deploy());
    }
  });

  it('drain', async () => {
    const node = stage.cluster.nodeName;
    await until(
      'the node is drained',
      async () =>
        (await stage.cluster.kubectl.try(['drain', node, '--force', '--ignore-daemonsets', '--delete-emptydir-data', '--timeout=180s']))
          .code === 0,
    );
    await untilValue(
      'all new pods wait',
      () => stage.pods(),
      (pods) => pods.length === 3 && pods.every(({ status, spec }) => status.phase === 'Pending' && spec.nodeName === undefined),
    );
    expect(await stage.cluster.kubectl.run(['get', 'nodes'])).toMatch(/Ready,SchedulingDisabled/);
    await stage.cluster.kubectl.run(['uncordon', node]);
    await stage.serves(await stage.ready(3));
  });

  it('delete the namespace', async () => {
    const url = simulated ? '' : await stage.service();
    await stage.cluster.kubectl.run(['delete', 'namespace', stage.namespace, '--timeout=180s']);
    expect((await stage.cluster.kubectl.try(['get', 'all', '-n', stage.namespace, '-o', 'name'])).stdout).toBe('');
    await stage.nothingRemains();
    if (!simulated)
      await until('the Service is gone', () =>
        httpGet(`${url}/`, 500).then(
          ({ body }) => !body.startsWith('hello from'),
          () => true,
        ),
      );
  });
}

/** A runtime takes the first conflist by name, which may be that of the row before. The directory stays: the runtime watches it. */
async function forgetNetworks(directory: string): Promise<void> {
  for (const name of await readdir(directory)) await rm(join(directory, name));
}
