// Pods of runtime-oci, image present, with runc as root and as an ordinary user, and the pull of an image of five layers. References of the same run:
// containerd by CRI calls alone, and `ctr images pull`.
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startDockerRegistry } from '../fixtures/docker-registry.ts';
import { startRegistry } from '../fixtures/registry.ts';
import { tar } from '../fixtures/tar.ts';
import { buildImage, buildTestImages } from '../fixtures/test-image.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { mustRun } from '../harness/programs.ts';
import { bareRuntime, type BareRuntime } from './support/bare-containerd.ts';
import { BenchEnvironment, privateMiB, residentMiB } from './support/bench-environment.ts';
import { manyAtOnce, oneAtATime } from './support/pod-starts.ts';
import { PodTimes } from './support/pod-times.ts';
import { median, print } from './support/statistics.ts';

const layers = 5;
const layerBytes = 20 * 1024 * 1024;
const pulls = 3;
const ordinaryUser = { uid: 65_534, gid: 65_534 };

async function starts(title: string, cluster: Cluster, runtime: BareRuntime): Promise<void> {
  const times = await PodTimes.follow(cluster.api, 'default');
  try {
    console.log(`\n${title}`);
    print(await oneAtATime(times, runtime));
    print(await manyAtOnce(times, runtime, cluster));
    const pid = await supervisorPid(cluster);
    print([
      { what: 'private memory of the supervisor (goal: 20)', value: await privateMiB(pid), unit: 'MiB' },
      { what: 'resident memory of the supervisor', value: await residentMiB(pid), unit: 'MiB' },
    ]);
  } finally {
    times.close();
  }
}

/** Returns the process that owns the containers of a cluster: the holder of the newest lock. */
async function supervisorPid({ dataDir }: Cluster): Promise<number> {
  const directory = join(dataDir, 'plugins/runtime-oci');
  const numbers = (await readdir(directory)).flatMap((name) => /^lock\.(\d+)$/.exec(name)?.[1] ?? []).map(Number);
  const { pid } = JSON.parse(await readFile(join(directory, `lock.${Math.max(...numbers)}`), 'utf8')) as { readonly pid: number };
  return pid;
}

async function pull(cluster: Cluster, socket: string): Promise<void> {
  const registry = await startDockerRegistry();
  try {
    const [own, reference]: [number[], number[]] = [[], []];
    for (let round = 0; round < pulls; round++) {
      const files = Array.from({ length: layers }, (_, index) =>
        tar([{ type: 'file', path: `file-${index}`, bytes: randomBytes(layerBytes) }]),
      );
      const name = `large:${round}`;
      await registry.push(buildImage(name, files, { Cmd: ['/file-0'] }), name);
      let from = performance.now();
      const { code, stderr } = await cluster.oarlock('image', 'pull', `${registry.host}/${name}`);
      if (code !== 0) throw new Error(stderr);
      own.push(performance.now() - from);
      from = performance.now();
      await mustRun('/usr/bin/ctr', ['--address', socket, 'images', 'pull', '--plain-http', `${registry.host}/${name}`]);
      reference.push(performance.now() - from);
    }
    console.log('');
    print([
      {
        what: `pull of ${layers} layers of 20 MiB, median`,
        value: median(own),
        unit: 'ms',
        reference: { what: 'ctr images pull', value: median(reference) },
      },
    ]);
  } finally {
    await registry.stop();
  }
}

await BenchEnvironment.with(async (stage) => {
  const containerd = await stage.containerd();
  const registry = await startRegistry(await buildTestImages());
  const registryConfigDirectory = stage.path('registries');
  await mkdir(join(registryConfigDirectory, 'oarlock.test'), { recursive: true });
  await writeFile(join(registryConfigDirectory, 'oarlock.test', 'hosts.toml'), `server = "http://${registry.host}"\n`);
  const runtime = await bareRuntime(containerd.socket);
  const options = { storage: 'memory', runtime: 'oci', registryConfigDirectory } as const;
  try {
    const { network, ...spec } = composition({ ...options, network: 'bridge' });
    if (typeof network !== 'object') throw new Error('the composition has no bridge');
    // containerd alone uses the network of the cluster
    const root = await stage.cluster({
      spec: { ...spec, network: { ...network, config: { ...network.config, confDir: containerd.cniConfDir } } },
    });
    await starts('root with runc, network-bridge', root, runtime);
    await pull(root, containerd.socket);
    const user = await stage.cluster({ spec: composition({ ...options, network: 'host' }), runAs: ordinaryUser });
    await starts('ordinary user without newuidmap, network-host', user, runtime);
  } finally {
    await runtime.close();
    await registry.stop();
  }
});
