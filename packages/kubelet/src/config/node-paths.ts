import { join } from 'node:path';
import type { Pod } from '@oarlock/api/types/core-v1';

/** Escapes a name from the API for use as a path part. */
export function safePart(name: string): string {
  const escaped = name.replace(/[^A-Za-z0-9._-]/g, (character) => `%${character.codePointAt(0)?.toString(16)}`);
  return escaped === '' || /^\.+$/.test(escaped) ? `%${escaped}` : escaped;
}

/** The volume of a pod by its driver and name, and whether it is held in memory. */
export interface PodVolume {
  readonly driver: string;
  readonly volume: string;
  readonly inMemory: boolean;
}

/** The volume mount of a container that has a subPath. */
export interface SubPathMount {
  readonly volume: string;
  readonly container: string;
  readonly index: number;
}

/** The paths of a kubelet's files, below its root directory. */
export class NodePaths {
  readonly root: string;
  readonly logs: string;
  readonly volatile: string;

  /** @param volatile an in-memory directory for Secrets and tokens; by default the root directory */
  constructor(root: string, logs: string = join(root, 'logs'), volatile: string = root) {
    this.root = root;
    this.logs = logs;
    this.volatile = volatile;
  }

  get pods(): string {
    return join(this.root, 'pods');
  }
  pod(uid: string): string {
    return join(this.pods, safePart(uid));
  }
  /** Returns the pod's directory in the volatile directory. Without a volatile directory, it is the same directory as `pod`. */
  volatilePod(uid: string): string {
    return join(this.volatile, 'pods', safePart(uid));
  }
  volumes(uid: string, inMemory: boolean): string {
    return join(inMemory ? this.volatilePod(uid) : this.pod(uid), 'volumes');
  }
  volume(uid: string, { driver, volume, inMemory }: PodVolume): string {
    return join(this.volumes(uid, inMemory), safePart(driver), safePart(volume));
  }
  subPath(uid: string, { volume, container, index }: SubPathMount): string {
    return join(this.pod(uid), 'volume-subpaths', safePart(volume), safePart(container), String(index));
  }
  hosts(uid: string): string {
    return join(this.pod(uid), 'etc-hosts');
  }
  terminationLog(uid: string, container: string, attempt: number): string {
    return join(this.pod(uid), 'containers', safePart(container), `${attempt}.termination`);
  }
  /** Returns the pod's log directory, named `<namespace>_<name>_<uid>` as log collectors expect. */
  podLogs({ metadata }: Pod): string {
    return join(this.logs, safePart(`${metadata?.namespace}_${metadata?.name}_${metadata?.uid}`));
  }
}
