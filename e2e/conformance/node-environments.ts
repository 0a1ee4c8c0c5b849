import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach } from 'vitest';
import { startContainerd } from '../fixtures/containerd.ts';
import { startDocker } from '../fixtures/docker.ts';
import { everythingIsNeeded } from '../harness/machine.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { netnsMissing } from '../harness/netns.ts';

/** What a node runs its pods on. */
export interface NodeRuntime {
  readonly socket: string;
  /** Where the network plugin writes its conflist, for a runtime that calls CNI itself. */
  readonly cniConfDir: string | null;
  /** Puts an archive of images where pods find them. */
  importImages(archive: string): Promise<void>;
  stop(): Promise<void>;
}

/** One runtime below the behaviours of nodes. */
export interface NodeEnvironmentSpec {
  /** Why it cannot be had on this machine. */
  missing(): Promise<string | undefined>;
  start(options: { readonly dir: string; readonly enter?: readonly string[] }): Promise<NodeRuntime>;
  /** What it cannot do, by the test's title, and why not; undefined: on this machine it can. */
  readonly cannot: Readonly<Record<string, string | undefined>>;
  /** What CI leaves to request, by groups and titles of tests, and why it tells little of this runtime. */
  readonly onRequest: readonly (readonly [tests: RegExp, because: string])[];
}

export type NodeStageName = 'containerd' | 'docker';

/** Some that the kernel knows may be denied to everybody, as in a container or a small virtual machine. */
function hasEveryCapability(): boolean {
  if (process.platform !== 'linux') return false;
  const [, held = ''] = /^CapEff:\t([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  const last = Number(readFileSync('/proc/sys/kernel/cap_last_cap', 'utf8'));
  return BigInt(`0x${held}`) === (1n << BigInt(last + 1)) - 1n;
}

export const nodeStages: Readonly<Record<NodeStageName, NodeEnvironmentSpec>> = {
  containerd: {
    missing: componentMissing.containerd,
    async start({ dir, ...options }) {
      const cniConfDir = join(dir, 'cni');
      return Object.assign(await startContainerd({ dir, cniConfDir, ...options }), { cniConfDir });
    },
    cannot: {},
    onRequest: [],
  },
  docker: {
    missing: componentMissing.docker,
    start: async (options) => Object.assign(await startDocker(options), { cniConfDir: null }),
    cannot: {
      'a pod with users of its own is root inside only, and owns its files (KEP-127)':
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
      [/^\[sig-(cli|instrumentation|auth)\] (?!Kubectl logs|ServiceAccounts)/, 'the engine has no part in it'],
      [/^\[sig-node\] when the others are done, /, 'pods leave a tainted node as they are deleted elsewhere here'],
      [
        /^\[sig-network\] .* nodes (Service|Endpoint|DNS should provide DNS|traffic)/,
        'proxies and names do not know which runtime they serve',
      ],
    ],
  },
};

/** As for the matrix: all of it is run where there is time. */
const takesAll = !process.env['CI'] || process.env['OARLOCK_MATRIX'] === 'all';

/** Why two nodes cannot be had on it here; undefined: they can, or must. */
export async function noNodesOn(name: NodeStageName): Promise<string | undefined> {
  return everythingIsNeeded ? undefined : ((await nodeStages[name].missing()) ?? (await netnsMissing()));
}

/** Tests of the suite that this is called in leave out what the runtime cannot do, and what is left to request, and say why. */
export function leaveOutWhatCannotBe(name: NodeStageName): void {
  const { cannot, onRequest } = nodeStages[name];
  beforeEach(({ task, skip }) => {
    const why = cannot[task.name];
    if (why !== undefined) skip(why);
    const left = takesAll ? undefined : onRequest.find(([tests]) => tests.test(`${task.suite?.name} ${task.name}`));
    if (left) skip(`OARLOCK_MATRIX=all runs it: ${left[1]}`);
  });
}
