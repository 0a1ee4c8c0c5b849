import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach } from 'vitest';
import { startContainerd } from '../fixtures/containerd.ts';
import { startDocker } from '../fixtures/docker.ts';
import { everyCombination, everythingIsNeeded } from '../harness/machine.ts';
import { componentMissing } from '../harness/component-availability.ts';
import type { RuntimeName } from '../harness/composition.ts';
import { netnsMissing } from '../harness/netns.ts';
import { ociStages, type OciStageName } from './oci-environments.ts';

/** The container runtime of a node. */
export interface NodeRuntime {
  /** The configuration of the runtime's plugin. */
  readonly config: Readonly<Record<string, unknown>>;
  /** The directory of the network plugin's conflist, for a runtime that calls CNI itself. */
  readonly cniConfDir: string | null;
  /** Imports an archive of images for the node of a data directory. */
  importImages(archive: string, dataDir: string): Promise<void>;
  stop(): Promise<void>;
}

/** A runtime under the node behaviors. */
export interface NodeEnvironmentSpec {
  readonly runtime: RuntimeName;
  /** True for a node of an ordinary user, which other nodes cannot join; otherwise there are two nodes of root. */
  readonly rootless?: boolean;
  /** Why it is unavailable on this machine. */
  missing(): Promise<string | undefined>;
  start(options: { readonly dir: string; readonly enter?: readonly string[] }): Promise<NodeRuntime>;
  /** Returns why the runtime does not support the behavior of a test, by title; undefined if it does. */
  readonly cannot: Readonly<Record<string, string | undefined>>;
  /** Tests that run on request only, by group and title, and why they depend little on this runtime. */
  readonly onRequest: readonly (readonly [tests: RegExp, because: string])[];
}

export type NodeStageName = 'containerd' | 'docker' | OciStageName;

/** Capabilities that the kernel has but that the machine may withhold, as in a container or a small virtual machine. */
function hasEveryCapability(): boolean {
  if (process.platform !== 'linux') return false;
  const [, held = ''] = /^CapEff:\t([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  const last = Number(readFileSync('/proc/sys/kernel/cap_last_cap', 'utf8'));
  return BigInt(`0x${held}`) === (1n << BigInt(last + 1)) - 1n;
}

export const nodeStages: Readonly<Record<NodeStageName, NodeEnvironmentSpec>> = {
  containerd: {
    runtime: 'containerd',
    missing: componentMissing.containerd,
    async start({ dir, ...options }) {
      const cniConfDir = join(dir, 'cni');
      const { socket, importImages, stop } = await startContainerd({ dir, cniConfDir, ...options });
      return { config: { socket }, cniConfDir, importImages, stop };
    },
    cannot: {},
    onRequest: [],
  },
  docker: {
    runtime: 'docker',
    missing: componentMissing.docker,
    async start(options) {
      const docker = await startDocker(options);
      const importImages = (archive: string) => docker.importImages(archive);
      return { config: { socket: docker.socket }, cniConfDir: null, importImages, stop: () => docker.stop() };
    },
    cannot: {
      'a pod with a user namespace is root inside only, and owns its files (KEP-127)':
        'the engine maps users for all of its containers or for none (userns-remap)',
      'Security Context When creating a pod with privileged should run the container as unprivileged when false': hasEveryCapability()
        ? undefined
        : 'the engine gives privileged containers every capability of the kernel, and this machine withholds some',
      'ImageVolume should succeed with pod and pull policy of Always':
        'the engine mounts images from version 28 on; that of Debian is older',
    },
    onRequest: [
      [
        /^\[sig-storage\] (?!EmptyDir|Subpath)/,
        'the kubelet writes these volumes, and the engine binds them as it binds those that are tried',
      ],
      [/^\[sig-(cli|instrumentation|auth)\] (?!Kubectl logs|ServiceAccounts)/, 'does not depend on the engine'],
      [/^\[sig-node\] when the others are done, /, 'pods leave a tainted node as they are deleted elsewhere here'],
      [/^\[sig-network\] .* nodes (Service|Endpoint|DNS should provide DNS|traffic)/, 'proxies and names do not depend on the runtime'],
    ],
  },
  ...ociStages,
};

/** Returns why the nodes cannot run here, or undefined if they can or must. */
export async function noNodesOn(name: NodeStageName): Promise<string | undefined> {
  return everythingIsNeeded ? undefined : ((await nodeStages[name].missing()) ?? (await netnsMissing()));
}

/** Skips tests of the calling suite that the runtime does not support or that run on request, with the reason. */
export function leaveOutWhatCannotBe(name: NodeStageName): void {
  const { cannot, onRequest } = nodeStages[name];
  beforeEach(({ task, skip }) => {
    const why = cannot[task.name];
    if (why !== undefined) skip(why);
    const left = everyCombination ? undefined : onRequest.find(([tests]) => tests.test(`${task.suite?.name} ${task.name}`));
    if (left) skip(`OARLOCK_MATRIX=all runs it: ${left[1]}`);
  });
}
