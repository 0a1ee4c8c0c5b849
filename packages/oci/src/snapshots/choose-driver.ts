import { execa } from 'execa';
import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { errorText } from '@oarlock/primitives/error-text';
import type { TreeWorkers } from '../layers/tree-workers.ts';
import { OciError } from '../oci-error.ts';
import type { SnapshotterKind } from '../snapshotter.ts';
import { CopyDriver, OverlayDriver, type SnapshotDriver } from './drivers.ts';
import { mountCommand, mountEnvironment } from './mount-root.ts';
import { OverlayWhiteouts } from './overlay-whiteouts.ts';

export interface ChooseDriverOptions {
  readonly directory: string;
  readonly wanted: SnapshotterKind | 'auto';
  readonly workers: TreeWorkers;
  readonly privileged: boolean;
  /** False if containers make their mounts themselves. */
  readonly fuse: boolean;
}
export interface ChosenDriver {
  readonly driver: SnapshotDriver;
  /** Why better drivers were not chosen, one sentence each. */
  readonly notes: readonly string[];
}

const timeoutMs = 30_000;
/** A process of FUSE in a container would give it the directories of the node that the process has open. */
const withoutFuse =
  'The snapshotter fuse-overlayfs is not used: its process would be in the containers, which mount their root directories themselves.';

/** Returns true if the process is in a user namespace that maps the whole range of ids, as the first one does. */
async function isInitialUserNamespace(): Promise<boolean> {
  return /^\s*0\s+0\s+4294967295\s*$/.test(await readFile('/proc/self/uid_map', 'utf8'));
}

/**
 * Returns the requested driver, or for `auto` the first that works: overlayfs, fuse-overlayfs, copy. Each is tried with a mount in namespaces of its own; an
 * ordinary user's mount is tried in a user namespace, in which the user's containers run.
 *
 * @throws OciError `FailedPrecondition` if the requested driver does not work
 */
export async function chooseDriver(options: ChooseDriverOptions): Promise<ChosenDriver> {
  const { directory, wanted, workers, privileged, fuse } = options;
  const notes: string[] = [];
  const whiteouts = new OverlayWhiteouts(join(directory, 'whiteouts'));
  const mountOptions = privileged && (await isInitialUserNamespace()) ? [] : ['userxattr'];
  for (const kind of ['overlayfs', 'fuse-overlayfs'] as const) {
    if (wanted !== 'auto' && wanted !== kind) continue;
    if (kind === 'fuse-overlayfs' && !fuse) {
      if (wanted === kind) throw new OciError('FailedPrecondition', withoutFuse);
      notes.push(withoutFuse);
      continue;
    }
    const driver = new OverlayDriver({
      kind,
      directory,
      whiteouts,
      privileged,
      mountOptions: kind === 'overlayfs' ? mountOptions : [],
    });
    try {
      await whiteouts.check();
      await tryMount(driver, options);
      return { driver, notes };
    } catch (error) {
      const reason = `The snapshotter ${kind} does not work on this machine: ${errorText(error).slice(0, 500)}`;
      if (wanted === kind) throw new OciError('FailedPrecondition', reason, { cause: error });
      notes.push(reason);
    }
  }
  return { driver: new CopyDriver(workers, privileged), notes };
}

/** Mounts an empty overlay in a mount namespace of its own, which ends with the command. */
async function tryMount(driver: OverlayDriver, { directory, privileged }: ChooseDriverOptions): Promise<void> {
  const folder = join(directory, 'ingest', `probe-${randomBytes(4).toString('hex')}`);
  try {
    await mkdir(folder, { mode: 0o700 });
    await driver.create({ kind: 'container', folder, layers: [] });
    const target = join(folder, 'target');
    await mkdir(target);
    const { mount } = driver.root({ kind: 'container', folder, layers: [] });
    if (mount === undefined) return;
    const { program, args } = mountCommand(mount, target);
    const namespaces = privileged ? ['--mount'] : ['--user', '--map-root-user', '--mount'];
    await execa('unshare', [...namespaces, '--', program, ...args], {
      cwd: mount.directory,
      env: mountEnvironment,
      timeout: timeoutMs,
      stdin: 'ignore',
    });
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}
