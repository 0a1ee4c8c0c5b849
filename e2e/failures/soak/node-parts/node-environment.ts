import { randomUUID } from 'node:crypto';
import { cp, mkdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { BenchEnvironment } from '../../../bench/support/bench-environment.ts';
import type { RunningContainerd } from '../../../fixtures/containerd.ts';
import { unmountBelow, type Cluster } from '../../../harness/cluster.ts';
import { composition } from '../../../harness/composition.ts';
import { runProgram } from '../../../harness/programs.ts';
import type { Places } from './node-resources.ts';

/** A control plane and one node in separate processes: containerd, network-calico, policy-nftables, csi-hostpath. */
export interface NodeEnvironment {
  readonly plane: Cluster;
  readonly node: Cluster;
  readonly containerd: RunningContainerd;
  readonly places: Places;
  /** Ends the remaining pods and frees their resources. */
  close(): Promise<void>;
}

export async function startNodeEnvironment(stage: BenchEnvironment): Promise<NodeEnvironment> {
  const containerd = await stage.containerd();
  const rootDir = stage.path('kubelet');
  const cgroupRoot = `/oarlock-soak-${randomUUID()}`;
  const kubelet = {
    rootDir,
    cgroupRoot,
    nodeStatusUpdateMs: 1000,
    evictionHard: { memoryAvailable: '0', diskAvailable: '0', inodesFree: '0', imageAvailable: '0', imageInodesFree: '0' },
  };
  const { bridge, ...spec } = composition({ storage: 'embedded', runtime: 'containerd', network: 'calico', containerd, kubelet });
  const { storage, runtimes, network, proxy, dns: _dns, settings, ...common } = spec;
  const volumes = ['volume-csi'];
  const plane = await stage.cluster({
    spec: { ...common, ...(storage && { storage }), roles: ['apiserver', 'controllers', 'scheduler'], volumes },
  });
  const node = await stage.prepare({
    spec: {
      ...common,
      ...(runtimes && { runtimes }),
      ...(network && { network }),
      ...(proxy && { proxy }),
      ...(settings && { settings }),
      roles: ['kubelet', 'proxy'],
      volumes,
      ...(bridge !== undefined && { bridge }),
    },
    args: ['--kubeconfig', plane.kubeconfig],
  });
  await mkdir(node.dataDir, { recursive: true, mode: 0o700 });
  await cp(join(plane.dataDir, 'pki'), join(node.dataDir, 'pki'), { recursive: true });
  await node.launch().line(/ is ready at /);
  const base = dirname(plane.dir);
  const close = async () => {
    await node.kill9();
    await containerd.stop();
    await unmountBelow(base);
  };
  return { plane, node, containerd, places: { base, dataDir: node.dataDir, rootDir, cgroupRoot, containerd: containerd.socket }, close };
}

/** Returns the processes of this soak whose command line matches. */
export async function pidsOf(base: string, pattern: RegExp): Promise<readonly number[]> {
  const { stdout } = await runProgram('ps', ['-eo', 'pid,args']);
  return stdout.split('\n').flatMap((line) => {
    const [, pid, args = ''] = /^\s*(\d+)\s+(.*)$/.exec(line) ?? [];
    return pid !== undefined && args.includes(`${base}/`) && pattern.test(args) ? [Number(pid)] : [];
  });
}

/** Returns the pod of a shim, from containerd's state. */
export async function sandboxOf(pid: number): Promise<string | undefined> {
  const args = (await readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')).split('\0');
  return args[args.indexOf('-id') + 1];
}
