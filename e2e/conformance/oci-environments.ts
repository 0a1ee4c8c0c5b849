import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buildTestImages, imageArchive } from '../fixtures/test-image.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { ordinaryUser, userNamespacesMissing } from '../harness/ordinary-user.ts';
import { runOarlock } from '../harness/oarlock.ts';
import { mustRun } from '../harness/programs.ts';
import type { NodeEnvironmentSpec, NodeRuntime } from './node-environments.ts';

/** The modes of runtime-oci, as its README names them. */
export type OciStageName = 'oci' | 'oci-without-runc' | 'oci-mapped-users' | 'oci-one-user';

/** OCI runtimes that runtime-oci finds. */
const ociRuntimes = ['/usr/sbin/runc', '/usr/bin/runc', '/usr/bin/crun'];

/** Mounts files over others, in the order given, until the end. */
async function cover(files: readonly (readonly [source: string, target: string])[]): Promise<() => Promise<void>> {
  for (const [source, target] of files) await mustRun('mount', ['--bind', source, target]);
  return async () => {
    for (const [, target] of files) await mustRun('umount', [target]);
  };
}

interface OciOptions {
  readonly dir: string;
  /** Files of the machine that others replace. */
  readonly covered?: readonly (readonly [source: string, target: string])[];
}

/** A node whose images come from archives, so that it needs no registry in its network. */
async function ociRuntime({ dir, covered = [] }: OciOptions): Promise<NodeRuntime> {
  await mkdir(dir, { recursive: true, mode: 0o755 });
  const uncover = await cover(covered);
  return {
    config: {},
    cniConfDir: null,
    async importImages(archive, dataDir) {
      const base = join(dir, 'images.tar');
      await writeFile(base, imageArchive(await buildTestImages()));
      for (const file of [base, archive]) {
        const { code, stderr } = await runOarlock(['image', 'load', file, '--data-dir', dataDir]);
        if (code !== 0) throw new Error(`oarlock image load ${file} ended with ${code}: ${stderr}`);
      }
    },
    stop: uncover,
  };
}

const rootMissing = (): string | undefined => (process.getuid?.() === 0 ? undefined : 'needs root');

/** Tests that mostly wait, or that show what the kubelet does with any runtime. */
const alikeInEveryMode: NodeEnvironmentSpec['onRequest'] = [
  [/^\[sig-(cli|instrumentation|auth)\] (?!Kubectl logs|ServiceAccounts)/, 'does not depend on how containers run'],
  [
    /^\[sig-storage\] (?!EmptyDir|Subpath|CSIInline|.* as non-root)/,
    'the kubelet writes these volumes, which are mounted like those that are tried',
  ],
  [
    /^\[sig-node\] (when the others are done, |Probing container |InitContainer |container restart rules )/,
    'the kubelet decides it alike in every mode',
  ],
  [/^\[sig-node\] Container Runtime blackbox test when starting /, 'restarts of containers wait, alike in every mode'],
];
const notDelegated = 'limits of an ordinary user need a delegated control group of version 2, and this user has no systemd';
const oneUser = 'every user of an image has the rights of one user, and groups are not applied';
const userCannot = {
  ...Object.fromEntries(
    [
      'Pod InPlace Resize Container guaranteed pods with multiple containers: increases and decreases of cpu and memory, net increase and net decrease',
      'Pod InPlace Resize Container burstable pods - extended 6 containers - various operations performed (including adding limits and requests)',
      'Pod InPlace Resize Container burstable pods - extended resize with equivalents',
      'Pod InPlace Resize Container resize pod via the replace endpoint',
      'pod-level resources are resized in place, and limit the containers (KEP-5419)',
    ].map((title) => [title, notDelegated]),
  ),
  'ImageVolume should succeed with pod and pull policy of Always':
    'the registry of the test is at the loopback address of the host, which is another address for this node; image volumes of each mode have tests of the plugin',
};

/** A node without root whose user has these ranges of subordinate ids. */
const userStage = (ranges: string): Pick<NodeEnvironmentSpec, 'runtime' | 'rootless' | 'start' | 'onRequest'> => ({
  runtime: 'oci',
  rootless: true,
  async start({ dir }) {
    await mkdir(dir, { recursive: true, mode: 0o755 });
    const file = join(dir, 'ranges');
    await writeFile(file, ranges, { mode: 0o644 });
    return ociRuntime({ dir, covered: ['/etc/subuid', '/etc/subgid'].map((target) => [file, target] as const) });
  },
  onRequest: alikeInEveryMode,
});

export const ociStages: Readonly<Record<OciStageName, NodeEnvironmentSpec>> = {
  oci: {
    runtime: 'oci',
    missing: async () => rootMissing() ?? componentMissing.runc(),
    start: ({ dir }) => ociRuntime({ dir }),
    cannot: {},
    onRequest: [],
  },
  'oci-without-runc': {
    runtime: 'oci',
    missing: async () => rootMissing(),
    start: ({ dir }) => ociRuntime({ dir, covered: ociRuntimes.filter(existsSync).map((path) => ['/dev/null', path] as const) }),
    cannot: {},
    onRequest: alikeInEveryMode,
  },
  'oci-mapped-users': {
    ...userStage(`nobody:${300_000}:65536\n`),
    missing: async () =>
      rootMissing() ??
      componentMissing.runc() ??
      (existsSync('/usr/bin/newuidmap') ? userNamespacesMissing(ordinaryUser) : 'newuidmap is not installed'),
    cannot: userCannot,
  },
  'oci-one-user': {
    ...userStage(''),
    missing: async () => rootMissing() ?? userNamespacesMissing(ordinaryUser),
    cannot: {
      ...userCannot,
      'Security Context should support pod.Spec.SecurityContext.RunAsUser And RunAsGroup, also of the container': oneUser,
      'Sysctls should support sysctls, and reject invalid ones': 'a pod of one user shares no IPC namespace, to which the sysctl belongs',
      ...Object.fromEntries(
        ['ConfigMap', 'Secrets', 'Projected configMap', 'Projected secret'].map((kind) => [
          `${kind} should be consumable from pods in volume as non-root with defaultMode and fsGroup set`,
          oneUser,
        ]),
      ),
    },
  },
};
